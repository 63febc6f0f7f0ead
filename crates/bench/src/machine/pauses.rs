//! How long the machine did not run what was due.

use crate::stopwatch::Stopwatch;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Finds the longest time for which the machine did not run a thread that was due: no engine can be blamed for a latency
/// of that length.
#[derive(Debug, Default)]
pub struct PauseMeter {
    longest_nanos: AtomicU64,
    stopped: AtomicBool,
}

struct Stops<'a>(&'a PauseMeter);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
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

    /// Ends it when that is dropped, also by a panic.
    pub fn stops(&self) -> impl Drop + '_ {
        Stops(self)
    }

    /// The longest pause in microseconds.
    pub fn longest_us(&self) -> f64 {
        self.longest_nanos.load(Ordering::Relaxed) as f64 / 1e3
    }
}
