//! The longest time in which nothing was completed.

use crate::stopwatch::Stopwatch;
use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// Watches completions of all threads of a run, from the beginning of its first operation to the end of its last client.
#[derive(Debug)]
pub(crate) struct GapMeter {
    watch: Stopwatch,
    /// When the last completion was, in nanoseconds; before that, when the first operation began. 0: none has begun.
    last: CachePadded<AtomicU64>,
    longest: CachePadded<AtomicU64>,
    /// When a client ended last.
    ended: AtomicU64,
}

impl GapMeter {
    /// A meter that has seen nothing.
    pub(crate) fn new() -> Self {
        let zero = || CachePadded::new(AtomicU64::new(0));
        Self { watch: Stopwatch::start(), last: zero(), longest: zero(), ended: AtomicU64::new(0) }
    }

    /// Takes note of an operation that begins. With the first of all begins the first gap, the others change nothing.
    #[inline]
    pub(crate) fn begin(&self) {
        if self.last.load(Ordering::Relaxed) == 0 {
            self.begin_at(self.watch.nanos());
        }
    }

    fn begin_at(&self, now: u64) {
        // Of two that find none, one is the first.
        let _ = self.last.compare_exchange(0, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
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

    /// Takes note of a client that completes no more.
    pub(crate) fn end(&self) {
        self.end_at(self.watch.nanos());
    }

    fn end_at(&self, now: u64) {
        self.ended.fetch_max(now, Ordering::Relaxed);
    }

    /// The longest gap between two completions, in microseconds; the first begins with the first operation, the last ends with the last client.
    pub(crate) fn longest_us(&self) -> f64 {
        self.longest_nanos() as f64 / 1e3
    }

    fn longest_nanos(&self) -> u64 {
        let after = self.ended.load(Ordering::Relaxed).saturating_sub(self.last.load(Ordering::Relaxed));
        self.longest.load(Ordering::Relaxed).max(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_between_completions_of_any_thread() {
        let meter = GapMeter::new();
        meter.begin_at(5);
        for now in [10, 30, 25, 100, 99, 120] {
            meter.complete_at(now);
        }
        assert_eq!(meter.longest_nanos(), 70);
    }

    #[test]
    fn gaps_are_from_the_first_operation_to_the_end_of_the_last_client() {
        let meter = GapMeter::new();
        // What passed before is no gap, and an operation of another client ends none.
        meter.begin_at(1_000);
        meter.begin_at(1_040);
        meter.complete_at(1_050);
        meter.complete_at(1_060);
        assert_eq!(meter.longest_nanos(), 50);
        // A client that ends early completes nothing with that; what passes after the last end is no gap.
        meter.end_at(1_080);
        meter.end_at(1_140);
        meter.end_at(1_070);
        assert_eq!(meter.longest_nanos(), 80);
        meter.begin();
        assert_eq!(meter.longest_nanos(), 80);
    }
}
