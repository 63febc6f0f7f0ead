//! What the machine and the process do while an engine is measured.

use crate::stopwatch::Stopwatch;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::path::Path;
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

/// A file of `/proc`.
#[expect(clippy::disallowed_methods, reason = "files of /proc have no length")]
fn proc_text(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{name}")).ok()
}

/// A file of `/proc` about the process.
fn proc_file(name: &str) -> Option<String> {
    proc_text(&format!("self/{name}"))
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

fn memory(field: &str) -> Option<u64> {
    proc_number(&proc_text("meminfo")?, field).map(|kb| kb.saturating_mul(1024))
}

/// Bytes of memory that are to be had. `None` where the system does not tell.
pub(crate) fn available_memory() -> Option<u64> {
    memory("MemAvailable:")
}

/// Bytes of memory that the machine has.
pub(crate) fn total_memory() -> Option<u64> {
    memory("MemTotal:")
}

/// Cores that the process may use.
pub(crate) fn cores() -> Option<u32> {
    std::thread::available_parallelism().ok().and_then(|cores| u32::try_from(cores.get()).ok())
}

/// The model of the processor. `None` where the system does not tell.
pub(crate) fn cpu_model() -> Option<String> {
    let text = proc_text("cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}

/// The operating system's kernel with its version.
pub(crate) fn kernel() -> Option<String> {
    let (name, version) = (proc_text("sys/kernel/ostype")?, proc_text("sys/kernel/osrelease")?);
    Some(format!("{} {}", name.trim(), version.trim()))
}

/// The file system on which `dir` is, with its device: `ext4 on /dev/vda`. What is not there yet is where its parent is.
pub(crate) fn file_system(dir: &Path) -> Option<String> {
    let place = |dir: &Path| if dir.as_os_str().is_empty() { rustix::fs::stat(".") } else { rustix::fs::stat(dir) };
    let device = dir.ancestors().find_map(|dir| place(dir).ok())?.st_dev;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    file_system_in(&proc_file("mountinfo")?, &device)
}

/// The file system with a device's numbers among those that are mounted.
pub(crate) fn file_system_in(mounts: &str, device: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        // Fields without a fixed number stand before the dash; the device's numbers are the third.
        let (mount, about) = line.split_once(" - ")?;
        let mut about = about.split_whitespace();
        let is_meant = mount.split_whitespace().nth(2) == Some(device);
        if is_meant { Some(format!("{} on {}", about.next()?, about.next()?)) } else { None }
    })
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
