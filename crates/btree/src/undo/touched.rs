//! Which entries of secondary indexes the undo log may have records of.
//!
//! An entry without records is there for everyone or for nobody, and who changes its row knows which: so it can be changed without reading its page. One counter
//! stands for many entries: a count that is not zero says that there may be records.
//!
//! The records of earlier lives are not counted, for that would mean reading them all when the database is opened. While one of their transactions is left every entry may have records.

use siltstone_base::checksum::xxh3_64;
use siltstone_base::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Counters. A power of two.
const COUNTERS: usize = 1 << 14;

/// Counters of records. Only who holds the lock of writers uses it.
#[derive(Debug)]
pub(super) struct Touched {
    counts: Box<[AtomicU32]>,
    /// Transactions of earlier lives that have records, and the first number of this life.
    recovered: AtomicUsize,
    first: AtomicU64,
}

impl Touched {
    pub(super) fn new() -> Self {
        Self {
            counts: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(),
            recovered: AtomicUsize::new(0),
            first: AtomicU64::new(0),
        }
    }

    fn counter(&self, space: u32, key: &[u8]) -> &AtomicU32 {
        let hash = xxh3_64(key) ^ u64::from(space).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.counts[(hash ^ hash >> 32) as usize % COUNTERS]
    }

    /// A record was added.
    pub(super) fn note(&self, space: u32, key: &[u8]) {
        self.counter(space, key).fetch_add(1, Ordering::Relaxed);
    }

    /// The record of a transaction was removed.
    pub(super) fn forget(&self, id: u64, space: u32, key: &[u8]) {
        if id >= self.first.load(Ordering::Relaxed) {
            self.counter(space, key).fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn may_have(&self, space: u32, key: &[u8]) -> bool {
        self.recovered.load(Ordering::Relaxed) > 0 || self.counter(space, key).load(Ordering::Relaxed) > 0
    }

    /// There are `count` transactions with records and numbers below `first`.
    pub(super) fn note_recovered(&self, count: usize, first: u64) {
        self.recovered.store(count, Ordering::Relaxed);
        self.first.store(first, Ordering::Relaxed);
    }

    /// A transaction has no records any more.
    pub(super) fn note_gone(&self, id: u64) {
        if id < self.first.load(Ordering::Relaxed) {
            // A transaction is gone once.
            let one_less = |count: usize| count.checked_sub(1);
            let _ = self.recovered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_with_records_are_known_and_those_of_earlier_lives_are_all_doubted() {
        let touched = Touched::new();
        touched.note_recovered(2, 100);
        assert!(touched.may_have(1, b"any"));
        touched.note(1, b"a");
        // A record of an earlier life was never counted.
        touched.forget(99, 1, b"b");
        touched.note_gone(99);
        touched.note_gone(100);
        assert!(touched.may_have(1, b"any"));
        touched.note_gone(7);
        assert!(touched.may_have(1, b"a") && !touched.may_have(1, b"any") && !touched.may_have(2, b"a"));
        touched.note(1, b"a");
        touched.forget(100, 1, b"a");
        assert!(touched.may_have(1, b"a"));
        touched.forget(101, 1, b"a");
        assert!(!touched.may_have(1, b"a"));
    }
}
