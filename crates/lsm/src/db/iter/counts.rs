//! What an iterator counts: gathered in itself, and added to the counters when it is dropped.

use super::Iter;
use crate::metrics::{Counter, HistogramKind, Metrics};

/// What one iterator did.
#[derive(Debug, Default)]
pub(super) struct IterCounts {
    pub(super) seeks: u64,
    /// Seeks that ended on no entry.
    lost_seeks: u64,
    pub(super) nexts: u64,
    /// Steps forward that ended on no entry.
    lost_nexts: u64,
    pub(super) prevs: u64,
    /// Steps backward that ended on no entry.
    lost_prevs: u64,
    /// Entries passed one by one because a range tombstone hides them.
    pub(super) covered: u64,
    /// Other entries passed one by one, forward.
    pub(super) skipped: u64,
    /// Bytes of what it stood on, if operations were timed when it was made.
    bytes: u64,
    is_measured: bool,
}

impl IterCounts {
    /// Begins those of an iterator that is made now.
    pub(super) fn begin(metrics: &Metrics) -> Self {
        metrics.add(Counter::IteratorsCreated, 1);
        Self { is_measured: metrics.times_operations(), ..Self::default() }
    }

    /// Adds all of them to those of the database, at the end.
    pub(super) fn add_to(&self, metrics: &Metrics) {
        metrics.add_all([
            (Counter::IteratorsDeleted, 1),
            (Counter::IterSeeks, self.seeks),
            (Counter::IterSeeksFound, self.seeks.saturating_sub(self.lost_seeks)),
            (Counter::IterSteps, self.nexts + self.prevs),
            (Counter::IterNexts, self.nexts),
            (Counter::IterNextsFound, self.nexts.saturating_sub(self.lost_nexts)),
            (Counter::IterPrevs, self.prevs),
            (Counter::IterPrevsFound, self.prevs.saturating_sub(self.lost_prevs)),
            (Counter::IterBytesRead, self.bytes),
            (Counter::IterSkipped, self.skipped),
            (Counter::IterCovered, self.covered),
        ]);
    }
}

impl Iter {
    /// Counts a seek, and begins to measure it if somebody wants to know.
    #[inline]
    pub(super) fn begin_seek(&mut self) -> Option<u64> {
        self.counts.seeks += 1;
        if self.counts.is_measured { self.metrics.begin() } else { None }
    }

    /// Counts where a seek ended.
    #[inline]
    pub(super) fn end_seek(&mut self, began: Option<u64>) {
        self.counts.lost_seeks += u64::from(!self.valid);
        if self.counts.is_measured {
            self.metrics.end_micros(HistogramKind::DbSeek, began);
            self.count_bytes();
        }
    }

    /// Counts where a step forward ended.
    #[inline]
    pub(super) fn count_next(&mut self) {
        if !self.valid || self.counts.is_measured {
            self.counts.lost_nexts += u64::from(!self.valid);
            self.count_bytes();
        }
    }

    /// Counts where a step backward ended.
    #[inline]
    pub(super) fn count_prev(&mut self) {
        if !self.valid || self.counts.is_measured {
            self.counts.lost_prevs += u64::from(!self.valid);
            self.count_bytes();
        }
    }

    /// Counts the bytes that it stands on, if operations are measured.
    #[cold]
    fn count_bytes(&mut self) {
        if self.counts.is_measured {
            self.counts.bytes += (self.key().len() + self.value().len()) as u64;
        }
    }
}
