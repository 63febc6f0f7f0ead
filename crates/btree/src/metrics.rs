//! What the engine counts.

use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use std::fmt;

macro_rules! counters {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, )*) => {
        /// One counter. All only ever grow; a difference of two readings describes the time between them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Counter {
            $( $(#[$meta])* $variant, )*
        }

        impl Counter {
            /// Every counter, in the order in which they are printed.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The name under which the counter is printed.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

counters! {
    /// Pages that descents and scans asked the pool for. Each thread counts for itself and tells after 64.
    PagesRequested = "pages.requested",
    /// Pages read from tablespaces.
    PagesRead = "pages.read",
    /// Those of them that a writer read while other writers waited for him.
    PagesReadByWriter = "pages.read_by_writer",
    /// Pages that were read before anybody asked for them, because of what others read.
    PagesReadAhead = "pages.read_ahead",
    /// Those of them that went before anybody used them.
    PagesReadAheadEvicted = "pages.read_ahead.evicted",
    /// Pages of the resident set of an earlier life that were read.
    PagesRestored = "pages.restored",
    /// Pages written to tablespaces.
    PagesWritten = "pages.written",
    /// Those of them that were stored compressed, in fewer blocks.
    PagesCompressed = "pages.compressed",
    /// Times that the file system did not take back the blocks that a compressed page does not need. One that never does is asked once for each tablespace.
    BlocksKept = "pages.blocks.kept",
    /// Bytes written to tablespaces.
    PageBytesWritten = "pages.bytes.written",
    /// Pages written to the doublewrite file.
    DoublewritePages = "doublewrite.pages",
    /// Bytes written to the doublewrite file.
    DoublewriteBytes = "doublewrite.bytes",
    /// Pages given up to make room for others.
    PagesEvicted = "pages.evicted",
    /// Batches of pages that a caller had to write because no page could be given up without.
    ForegroundFlushes = "flush.foreground",
    /// Descents that began again because a page changed under them.
    DescentRestarts = "descent.restarts",
    /// Latches taken on inner pages.
    InnerLatches = "latches.inner",
    /// Pages split.
    Splits = "pages.split",
    /// Pages merged into a neighbour.
    Merges = "pages.merged",
    /// Bytes appended to the redo log.
    RedoBytes = "redo.bytes",
    /// Writes of the redo log.
    RedoWrites = "redo.writes",
    /// Syncs of the redo log.
    RedoSyncs = "redo.syncs",
    /// Checkpoints.
    Checkpoints = "checkpoints",
    /// Transactions that began.
    TransactionsBegun = "transactions.begun",
    /// Transactions that were committed, those not counted that changed nothing.
    TransactionsCommitted = "transactions.committed",
    /// Transactions that were rolled back.
    TransactionsRolledBack = "transactions.rolled.back",
    /// Committed transactions, and batches that left older versions, of which nothing is left to purge.
    TransactionsPurged = "transactions.purged",
    /// Records of the undo log that were purged.
    UndoRecordsPurged = "undo.records.purged",
    /// Steps of purge, and of rollbacks in the background, that failed: they are tried again, behind those of others.
    TransactionFailures = "transactions.background.failures",
    /// Changes of index entries that were kept in the change buffer: each of them a page that was not read.
    ChangeBufferOps = "change_buffer.ops",
    /// Pages that the change buffer began to keep changes for.
    ChangeBufferPages = "change_buffer.pages",
    /// Pages whose changes were merged from the change buffer. As many fewer as pages, as pages are still waited for or were dropped.
    ChangeBufferMerges = "change_buffer.merges",
    /// Changes that were merged from the change buffer.
    ChangeBufferMergedOps = "change_buffer.merged.ops",
    /// Changes in the change buffer that were discarded, since their tree was dropped.
    ChangeBufferDiscarded = "change_buffer.discarded",
    /// Microseconds that writers waited for room in the redo log.
    RedoFullMicros = "stall.redo.full.micros",
    /// Microseconds that writers waited because too much history waited for purge.
    HistoryMicros = "stall.history.micros",
}

const COUNTERS: usize = Counter::ALL.len();

/// The counters of one open database. Any thread may count. What is counted here happens at most once for each page that is
/// read, written or changed in shape: nothing is counted on the path of a get that finds its pages.
pub struct Metrics {
    values: [CachePadded<AtomicU64>; COUNTERS],
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self { values: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))) }
    }

    #[inline]
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        self.values[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    /// The share of pages that descents and scans found in the pool, since the database was opened. `None` before anything was counted.
    pub fn hit_rate(&self) -> Option<f64> {
        let requested = self.get(Counter::PagesRequested);
        let missed = self.get(Counter::PagesRead).saturating_sub(self.get(Counter::PagesReadAhead));
        (requested > 0).then(|| 1.0 - (missed as f64 / requested as f64).min(1.0))
    }

    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(Counter::ALL.iter().map(|counter| (counter.name(), self.get(*counter)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_lists_every_counter() {
        let page = include_str!("../../../docs/src/btree_metrics.md");
        let counters = page.split("\n## ").next().unwrap_or_default();
        let rows = counters.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        let listed: Vec<&str> = rows.map(|(name, _)| name).collect();
        let counted: Vec<&str> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(listed, counted, "docs/src/btree_metrics.md");
    }
}
