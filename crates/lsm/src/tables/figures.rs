//! How many entries of lazy tables lead nowhere, as far as that is known without reading anything.
//!
//! Who writes counts entries: each one that is put may have made an older one stale. A sweep that went through an index says how many were left, and how many of those
//! that were written since the sweep before were stale: that share is expected of those that are written next.

use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// Before anything is known: at most every second entry took the place of another one.
const UNKNOWN_PER_MILLE: u64 = 500;

/// The least that is expected: so that a sweep is due some day, whatever the last one found.
const LEAST_PER_MILLE: u64 = 125;

/// What is counted of one index. Kept in memory alone: after a restart nothing is known until the first sweep is through.
#[derive(Debug, Default)]
pub(super) struct LazyCounts {
    /// Entries put since the last sweep began, and rows deleted.
    written: AtomicU64,
    /// Entries that the last sweep left.
    entries: AtomicU64,
    /// Of a thousand entries written before the last sweep, how many it found stale.
    stale_per_mille: AtomicU64,
    is_known: AtomicU64,
}

/// What is known of the entries of a lazy table's indexes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct LazyFigures {
    /// Entries of all indexes, stale ones included; an estimate.
    pub entries: u64,
    /// Those that lead to no row, or to one that does not yield them; an estimate.
    pub stale: u64,
    /// Whether every index was swept since the database was opened. Otherwise what was there before is not in the figures.
    pub is_known: bool,
}

impl LazyFigures {
    /// The stale share of the entries, from 0 to 1.
    pub fn stale_share(&self) -> f64 {
        if self.entries == 0 { 0.0 } else { self.stale as f64 / self.entries as f64 }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.stale += other.stale;
        self.is_known &= other.is_known;
    }
}

impl LazyCounts {
    /// Entries were put, or rows deleted.
    #[inline]
    pub(super) fn note_written(&self, count: u64) {
        self.written.fetch_add(count, Ordering::Relaxed);
    }

    /// What was written so far: a sweep begins.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// A sweep is through that began when `written` had been written. It left `entries` and removed `stale`.
    pub(super) fn note_swept(&self, written: u64, entries: u64, stale: u64) {
        let before = if self.is_known.load(Ordering::Relaxed) == 0 { UNKNOWN_PER_MILLE } else { self.per_mille() };
        // What was written before may be no sample of what will be: a load of new rows leaves nothing stale, changes of them do.
        let per_mille = match stale.saturating_mul(1000).checked_div(written) {
            Some(per_mille) if written >= entries / 8 => per_mille.clamp(LEAST_PER_MILLE, 1000),
            _ => before,
        };
        self.stale_per_mille.store(per_mille, Ordering::Relaxed);
        self.entries.store(entries, Ordering::Relaxed);
        self.is_known.store(1, Ordering::Relaxed);
        self.written.fetch_sub(written, Ordering::Relaxed);
    }

    fn per_mille(&self) -> u64 {
        self.stale_per_mille.load(Ordering::Relaxed)
    }

    /// What is known now.
    pub(super) fn figures(&self) -> LazyFigures {
        let is_known = self.is_known.load(Ordering::Relaxed) != 0;
        let (written, entries) = (self.written(), self.entries.load(Ordering::Relaxed));
        let per_mille = if is_known { self.per_mille() } else { UNKNOWN_PER_MILLE };
        // The further the index has grown since, the less the last sweep says.
        let measured = written.min(entries / 2);
        let later = (written - measured).saturating_mul(per_mille.max(UNKNOWN_PER_MILLE));
        let stale = measured.saturating_mul(per_mille).saturating_add(later) / 1000;
        LazyFigures { entries: entries.saturating_add(written), stale, is_known }
    }
}
