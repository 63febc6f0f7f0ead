//! What the machine and the process do while an engine is measured.

use crate::stopwatch::Stopwatch;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Ticks of `/proc/self/stat` in a second. Linux has reported 100 on every architecture for decades.
const TICKS_PER_SECOND: f64 = 100.0;

/// What the process used so far. `None` where the system does not tell.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessUsage {
    /// CPU seconds of all threads.
    pub cpu_s: Option<f64>,
    /// Bytes that reached the device layer for writing.
    pub written: Option<u64>,
    /// Bytes that came from the device layer.
    pub read: Option<u64>,
    /// Resident memory in MiB.
    pub rss_mb: Option<f64>,
}

#[expect(clippy::disallowed_methods, reason = "the figures of the process are files of /proc, which have no length")]
fn proc_file(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/{name}")).ok()
}

fn proc_number(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    // The command's name may hold anything but ends at the last parenthesis; user and system time are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

/// Bytes of memory that are to be had. `None` where the system does not tell.
#[expect(clippy::disallowed_methods, reason = "the figures of the machine are files of /proc, which have no length")]
pub(crate) fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    proc_number(&text, "MemAvailable:").map(|kb| kb * 1024)
}

impl ProcessUsage {
    /// What was used until now.
    pub fn now() -> Self {
        let (written, read) = Self::io();
        Self {
            cpu_s: proc_file("stat").as_deref().and_then(cpu_seconds),
            written,
            read,
            rss_mb: proc_file("status")
                .as_deref()
                .and_then(|text| proc_number(text, "VmRSS:"))
                .map(|kb| kb as f64 / 1024.0),
        }
    }

    /// Bytes written to and read from the device layer until now.
    pub(crate) fn io() -> (Option<u64>, Option<u64>) {
        let io = proc_file("io");
        let number = |field| io.as_deref().and_then(|text| proc_number(text, field));
        (number("write_bytes:"), number("read_bytes:"))
    }

    /// What was used since `earlier`. Resident memory is that of `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_s: self.cpu_s.zip(earlier.cpu_s).map(|(now, then)| now - then),
            written: self.written.zip(earlier.written).map(|(now, then)| now.saturating_sub(then)),
            read: self.read.zip(earlier.read).map(|(now, then)| now.saturating_sub(then)),
            rss_mb: self.rss_mb,
        }
    }
}

/// Finds the longest time for which the machine did not run a thread that was due: no engine can be blamed for a latency
/// of that length.
#[derive(Debug, Default)]
pub struct PauseMeter {
    longest_nanos: AtomicU64,
    stopped: AtomicBool,
}

impl PauseMeter {
    /// How long the control thread sleeps between two looks.
    const NAP: Duration = Duration::from_millis(2);

    /// A meter that has seen no pause.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks until [`stop`](Self::stop) is called. Runs in a thread of its own.
    pub fn watch(&self) {
        let clock = SystemClock::new();
        while !self.stopped.load(Ordering::Acquire) {
            let nap = Stopwatch::start();
            clock.sleep(Self::NAP);
            let late = nap.nanos().saturating_sub(Self::NAP.as_nanos() as u64);
            self.longest_nanos.fetch_max(late, Ordering::Relaxed);
        }
    }

    /// Ends [`watch`](Self::watch).
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// The longest pause in microseconds.
    pub fn longest_us(&self) -> f64 {
        self.longest_nanos.load(Ordering::Relaxed) as f64 / 1e3
    }
}
