//! The longest time in which nothing was completed.

use crate::stopwatch::Stopwatch;
use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// Watches completions of all threads of a run.
#[derive(Debug)]
pub(crate) struct GapMeter {
    watch: Stopwatch,
    /// When the last completion was, in nanoseconds.
    last: CachePadded<AtomicU64>,
    longest: CachePadded<AtomicU64>,
}

impl GapMeter {
    /// A meter whose first gap begins now.
    pub(crate) fn start() -> Self {
        let zero = || CachePadded::new(AtomicU64::new(0));
        Self { watch: Stopwatch::start(), last: zero(), longest: zero() }
    }

    /// Takes note of a completion.
    #[inline]
    pub(crate) fn complete(&self) {
        self.complete_at(self.watch.nanos());
    }

    #[inline]
    fn complete_at(&self, now: u64) {
        // Of two threads that complete at about the same time, the one that comes late changes nothing.
        let gap = now.saturating_sub(self.last.fetch_max(now, Ordering::Relaxed));
        if gap > self.longest.load(Ordering::Relaxed) {
            self.longest.fetch_max(gap, Ordering::Relaxed);
        }
    }

    /// The longest gap between two completions, in microseconds; what has passed since the last one counts too.
    pub(crate) fn longest_us(&self) -> f64 {
        let now = self.watch.nanos().saturating_sub(self.last.load(Ordering::Relaxed));
        self.longest.load(Ordering::Relaxed).max(now) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_between_completions_of_any_thread() {
        let meter = GapMeter::start();
        for now in [10, 30, 25, 100, 99, 120] {
            meter.complete_at(now);
        }
        assert_eq!(meter.longest.load(Ordering::Relaxed), 70);
    }
}
