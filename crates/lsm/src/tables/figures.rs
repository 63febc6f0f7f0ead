//! How many entries of lazy tables lead nowhere, as far as that is known without reading anything.
//!
//! Who writes counts entries: each one that is put may have made an older one stale, unless its row is new for certain. A sweep that went through an index says how many were left, and how many of those
//! that were written since the sweep before were stale: that share is expected of those that are written next. So does a sample of the index. What sweeps in the background remove of
//! what flushes and compactions found is counted off.

use siltstone_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Before anything is known: at most every second entry took the place of another one.
const UNKNOWN_PER_MILLE: u64 = 500;

/// The least that is expected: so that a sweep is due some day, whatever the last one found.
const LEAST_PER_MILLE: u64 = 125;

/// So long an index is left alone after a failure; each one in a row doubles it, so often at most.
const FIRST_REST_MICROS: u64 = 1_000_000;
const MOST_DOUBLINGS: u32 = 10;

/// What is counted of one index. Kept in memory alone: after a restart nothing is known until the first sweep is through, or the first sample taken.
#[derive(Debug, Default)]
pub(super) struct LazyCounts {
    /// Entries put since the index was last measured, and rows deleted, but for entries of new rows.
    written: AtomicU64,
    /// Entries of rows that were new, put since then.
    new: AtomicU64,
    /// Entries removed since then of what flushes, compactions and walks found.
    removed: AtomicU64,
    /// Stale entries that flushes and compactions found since then, removed or not.
    found: AtomicU64,
    /// Entries that passes removed, and that flushes and compactions may find once more: so many of what is removed then were gone before.
    gone: AtomicU64,
    /// Entries that there were when it was measured.
    entries: AtomicU64,
    /// How many of them were stale.
    stale: AtomicU64,
    /// Of a thousand entries written before then, how many were stale.
    stale_per_mille: AtomicU64,
    is_known: AtomicU64,
    /// What came of going through it.
    pub(super) rests: Rests,
}

/// How long something is left alone that failed: the longer the more often it did.
#[derive(Debug, Default)]
pub(super) struct Rests {
    /// Failures in a row, and until when it is left alone for them, in microseconds of the clock.
    failures: AtomicU32,
    blocked_until: AtomicU64,
}

impl Rests {
    /// It failed.
    pub(super) fn note_failed(&self, now_micros: u64) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).min(MOST_DOUBLINGS);
        self.blocked_until.store(now_micros.saturating_add(FIRST_REST_MICROS << failures), Ordering::Relaxed);
    }

    /// It succeeded.
    pub(super) fn note_sound(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.blocked_until.store(0, Ordering::Relaxed);
    }

    /// Whether it is to be left alone. The clock is asked only where there was a failure.
    pub(super) fn is_blocked(&self, now_micros: impl FnOnce() -> u64) -> bool {
        let until = self.blocked_until.load(Ordering::Relaxed);
        until != 0 && now_micros() < until
    }
}

/// What was counted when the measuring of an index began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    written: u64,
    new: u64,
    removed: u64,
    found: u64,
}

/// What is known of the entries of a lazy table's indexes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct LazyFigures {
    /// Entries of all indexes, stale ones included; an estimate.
    pub entries: u64,
    /// Those that lead to no row, or to one that does not yield them; an estimate, and rather too many than too few.
    pub stale: u64,
    /// Whether every index was swept, or a sample of it taken, since the database was opened. Otherwise what was there before is not in the figures.
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
    /// Entries were put, or rows deleted, and entries of rows that were new for certain.
    #[inline]
    pub(super) fn note_written(&self, count: u64, new: u64) {
        self.written.fetch_add(count, Ordering::Relaxed);
        self.new.fetch_add(new, Ordering::Relaxed);
    }

    /// A flush or a compaction found stale entries.
    #[inline]
    pub(super) fn note_found(&self, count: u64) {
        self.found.fetch_add(count, Ordering::Relaxed);
    }

    /// Stale entries were removed that a flush or a compaction found.
    pub(super) fn note_removed(&self, count: u64) {
        self.removed.fetch_add(count, Ordering::Relaxed);
    }

    /// The measuring of the index begins.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            written: self.written.load(Ordering::Relaxed),
            new: self.new.load(Ordering::Relaxed),
            removed: self.removed.load(Ordering::Relaxed),
            found: self.found.load(Ordering::Relaxed),
        }
    }

    /// A sweep is through that began at `mark`. It left `entries` and removed `stale`.
    pub(super) fn note_swept(&self, mark: Mark, entries: u64, stale: u64) {
        self.expect(mark, entries, stale);
        self.anchor(mark, entries, 0);
        self.gone.fetch_add(stale, Ordering::Relaxed);
    }

    /// A sample was taken that was begun at `mark`: of `sampled` entries, `stale` are stale. `stored` is about how many entries tables and memtables have, tombstones and old versions included.
    pub(super) fn note_sampled(&self, mark: Mark, stored: u64, sampled: u64, stale: u64) {
        // Where entries were removed there are fewer than are stored.
        let put = mark.written.saturating_add(mark.new);
        let most = self.entries.load(Ordering::Relaxed).saturating_add(put).saturating_sub(mark.removed);
        let is_known = self.is_known.load(Ordering::Relaxed) != 0;
        let entries = if is_known { stored.min(most) } else { stored }.max(sampled);
        let stale = u128::from(entries) * u128::from(stale) / u128::from(sampled.max(1));
        let stale = u64::try_from(stale).unwrap_or(u64::MAX);
        self.expect(mark, entries, stale);
        self.anchor(mark, entries, stale);
    }

    /// `stale` were there at `mark`: those that were there when it was measured last, and what was written since has made, but for what was removed of either.
    fn expect(&self, mark: Mark, entries: u64, stale: u64) {
        let removed = mark.removed.saturating_sub(self.gone.load(Ordering::Relaxed));
        let made = stale.saturating_add(removed).saturating_sub(self.stale.load(Ordering::Relaxed));
        let before = if self.is_known.load(Ordering::Relaxed) == 0 { UNKNOWN_PER_MILLE } else { self.per_mille() };
        // What was written before may be no sample of what will be: a load of new rows leaves nothing stale, changes of them do.
        let per_mille = match made.saturating_mul(1000).checked_div(mark.written) {
            Some(per_mille) if mark.written >= entries / 8 => per_mille.clamp(LEAST_PER_MILLE, 1000),
            _ => before,
        };
        self.stale_per_mille.store(per_mille, Ordering::Relaxed);
    }

    fn anchor(&self, mark: Mark, entries: u64, stale: u64) {
        self.entries.store(entries, Ordering::Relaxed);
        self.stale.store(stale, Ordering::Relaxed);
        self.is_known.store(1, Ordering::Relaxed);
        // A sweep that went on while a sample was taken has a mark that counts what the sample has taken off already.
        let take_off = |counter: &AtomicU64, count: u64| {
            let _ = counter
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |counted| Some(counted.saturating_sub(count)));
        };
        take_off(&self.written, mark.written);
        take_off(&self.new, mark.new);
        take_off(&self.removed, mark.removed);
        take_off(&self.found, mark.found);
        take_off(&self.gone, mark.removed);
    }

    /// Entries that there are at most, what was written since the index was last measured but for new rows, and what was removed for certain.
    fn since(&self) -> (u64, u64, u64) {
        let Mark { written, new, removed, .. } = self.mark();
        let removed = removed.saturating_sub(self.gone.load(Ordering::Relaxed));
        let put = self.entries.load(Ordering::Relaxed).saturating_add(written).saturating_add(new);
        (put.saturating_sub(removed), written, removed)
    }

    fn per_mille(&self) -> u64 {
        self.stale_per_mille.load(Ordering::Relaxed)
    }

    /// Whether so much was written since the index was last measured that measuring it again says something new.
    pub(super) fn is_worth_measuring(&self) -> bool {
        self.written.load(Ordering::Relaxed) >= self.entries.load(Ordering::Relaxed) / 32
    }

    /// Entries, and stale ones if every entry that was written since the index was last measured has made one stale.
    pub(super) fn at_worst(&self) -> (u64, u64) {
        let stale = self.stale.load(Ordering::Relaxed);
        let (entries, written, removed) = self.since();
        (entries, stale.saturating_add(written).saturating_sub(removed).min(entries))
    }

    /// What is known now.
    pub(super) fn figures(&self) -> LazyFigures {
        let is_known = self.is_known.load(Ordering::Relaxed) != 0;
        let (measured_of, stale) = (self.entries.load(Ordering::Relaxed), self.stale.load(Ordering::Relaxed));
        let (entries, written, removed) = self.since();
        let per_mille = if is_known { self.per_mille() } else { UNKNOWN_PER_MILLE };
        // The further the index has grown since, the less the last measure says.
        let measured = written.min(measured_of / 2);
        let later = (written - measured).saturating_mul(per_mille.max(UNKNOWN_PER_MILLE));
        let made = measured.saturating_mul(per_mille).saturating_add(later) / 1000;
        // Where much was found, more will be.
        let found = self.found.load(Ordering::Relaxed).max(removed);
        let made = made.max(found.saturating_add(found / 4)).min(written.max(found));
        let stale = stale.saturating_add(made).saturating_sub(removed).min(entries);
        LazyFigures { entries, stale, is_known }
    }
}
