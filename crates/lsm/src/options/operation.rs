//! Options of single calls.

use crate::snapshot::Snapshot;
use std::time::Duration;

/// How far a read may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadTier {
    /// To the disk.
    All,
    /// Memtables and cached blocks; `Incomplete` where that is not enough.
    BlockCache,
}

siltstone_base::define_options! {
    /// Options of a read.
    ReadOptions {
        /// Reads the state at this snapshot instead of the newest.
        snapshot: Option<Snapshot> = None,
        /// Of keys with timestamps, sees the versions up to this one; `None`: all. `InvalidArgument` in a family whose keys have none, and for one
        /// before which the family keeps no history.
        timestamp: Option<u64> = None,
        /// Puts the data blocks that are read into the block cache.
        fill_cache: bool = true,
        /// Verifies the checksums of the blocks that are read from disk.
        verify_checksums: bool = true,
        /// How far the read may go.
        read_tier: ReadTier = ReadTier::All,
        /// Smallest key that an iterator yields.
        iterate_lower_bound: Option<Vec<u8>> = None,
        /// Key that an iterator ends before.
        iterate_upper_bound: Option<Vec<u8>> = None,
        /// Limits every walk to the prefix of where it begins: of the key that is sought, or of the first (last) key after a movement to it. Such a walk asks filters
        /// for the prefix, and does not look into tables and memtables that have no key of it. Without effect in families without a
        /// [`prefix_extractor`](crate::ColumnFamilyOptions::prefix_extractor), and where the key has no prefix.
        prefix_same_as_start: bool = false,
        /// Asks no filters for prefixes. What is seen is the same.
        total_order_seek: bool = false,
        /// Asks filters for the prefix where the upper bound shows that a forward walk from the key that is sought cannot leave it. What is seen is
        /// the same.
        auto_prefix_mode: bool = false,
        /// Bytes that an iterator reads ahead from tables. 0: grows by itself while reads are sequential.
        readahead_size: usize = 0,
    }
}

siltstone_base::define_options! {
    /// Options of a write.
    WriteOptions {
        /// Returns only when the WAL that holds the write is durable.
        sync: bool = false,
        /// Writes no WAL: the write is lost unless its memtable is flushed before the database is closed, or the process ends.
        disable_wal: bool = false,
        /// Fails with `Incomplete` instead of waiting for room.
        no_slowdown: bool = false,
    }
}

siltstone_base::define_options! {
    /// Options of a flush.
    FlushOptions {
        /// Returns only when the flush is done.
        wait: bool = true,
    }
}

siltstone_base::define_options! {
    /// Options of a manual compaction.
    CompactRangeOptions {
        /// Rewrites the last level too, even where nothing was merged into it.
        force_bottommost: bool = false,
    }
}

siltstone_base::define_options! {
    /// Options of waiting for flushes and compactions.
    WaitForCompactOptions {
        /// Fails with `Aborted` while background work is [paused](crate::Db::pause_background_work), instead of waiting until it goes on.
        abort_on_pause: bool = false,
        /// Flushes the memtables of all families first.
        flush: bool = false,
        /// Fails with `TimedOut` after so long. `None`: waits as long as it takes.
        timeout: Option<Duration> = None,
    }
}
