//! The last compactions, for whoever asks afterwards what was done and why.

use super::state::DbInner;
use crate::event::{CompactionInfo, CompactionReason};
use crate::metrics::{Counter, HistogramKind};
use siltstone_base::sync::{Mutex, Rank};
use std::collections::VecDeque;

/// Taken alone.
const RANK: Rank = Rank(365);

/// Compactions that are remembered.
pub(super) const MOST: usize = 256;

/// A compaction that has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactionRecord {
    /// When it ended, in seconds since 1970 by the clock of the database.
    pub ended_unix_seconds: u64,
    /// What it read and wrote, why, how long that took, and why it failed if it did: as listeners were told at its end.
    pub info: CompactionInfo,
}

/// The last compactions of all families, oldest first.
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug)]
pub(crate) struct CompactionLog(Mutex<VecDeque<CompactionRecord>>);

impl CompactionLog {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(RANK, VecDeque::new()))
    }

    /// Takes one in; the oldest goes when there are too many.
    pub(super) fn add(&self, record: CompactionRecord) {
        let mut records = self.0.lock();
        let oldest = if records.len() >= MOST { records.pop_front() } else { None };
        records.push_back(record);
        drop(records);
        drop(oldest);
    }

    fn records(&self) -> Vec<CompactionRecord> {
        self.0.lock().iter().cloned().collect()
    }
}

impl DbInner {
    /// The last compactions that ended, oldest first.
    pub(crate) fn compaction_log(&self) -> Vec<CompactionRecord> {
        self.compaction_log.records()
    }

    /// Remembers a compaction that has just ended, and counts it by its reason.
    pub(super) fn log_compaction(&self, info: &CompactionInfo) {
        self.count_compaction(info);
        let record = CompactionRecord { ended_unix_seconds: self.clock.unix_seconds(), info: info.clone() };
        self.compaction_log.add(record);
    }

    fn count_compaction(&self, info: &CompactionInfo) {
        if info.error.is_some() || info.trivial_move {
            return;
        }
        let rewrote = match info.reason {
            CompactionReason::FifoMaxSize => return self.metrics.add(Counter::FifoMaxSizeCompactions, 1),
            CompactionReason::FifoTtl => return self.metrics.add(Counter::FifoTtlCompactions, 1),
            CompactionReason::TombstoneDensity | CompactionReason::Suggested => {
                Some((Counter::CompactReadMarkedBytes, Counter::CompactWriteMarkedBytes))
            }
            CompactionReason::Ttl => Some((Counter::CompactReadTtlBytes, Counter::CompactWriteTtlBytes)),
            CompactionReason::Periodic => Some((Counter::CompactReadPeriodicBytes, Counter::CompactWritePeriodicBytes)),
            _ => None,
        };
        self.metrics.record(HistogramKind::NumFilesInSingleCompaction, info.inputs.len() as u64);
        if let Some((read, written)) = rewrote {
            self.metrics.add_all([(read, info.input_bytes), (written, info.output_bytes)]);
        }
    }
}
