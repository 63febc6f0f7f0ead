//! Options of single calls.

use crate::snapshot::Snapshot;
use std::time::Duration;

/// How far a read may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadTier {
    /// To the disk.
    All,
    /// Memtables, and cached blocks of tables that are open; `Incomplete` where that is not enough.
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
        /// Entries that an iterator is expected to show from where it is sought on: what tables are likely to have of them is read at once. It may show more, or fewer. 0: nobody knows, and nothing is
        /// read ahead until some blocks in a row came from disk.
        expected_entries: usize = 0,
    }
}

siltstone_base::define_options! {
    /// Options of a write.
    WriteOptions {
        /// Returns only when the WAL that holds the write is durable.
        sync: bool = false,
        /// Writes no WAL: the write is lost unless its memtable is flushed before the database is closed, or the process ends. With [`sync`](Self::sync) it is refused with
        /// `InvalidArgument`, as RocksDB does.
        disable_wal: bool = false,
        /// Fails with `Incomplete` instead of waiting for room.
        no_slowdown: bool = false,
        /// Goes behind other writes while those are held back because background work is behind: it then gets what they leave, a sixteenth of what is admitted for certain.
        /// Otherwise it is a write like any. With [`no_slowdown`](Self::no_slowdown) it fails with `Incomplete` instead.
        low_pri: bool = false,
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
        /// Jobs that may work on one of its compactions at the same time. 0: as the [database](crate::DbOptions::max_subcompactions) says.
        max_subcompactions: usize = 0,
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

siltstone_base::define_options! {
    /// Options of taking tables in from outside.
    IngestExternalFileOptions {
        /// The files get second names in the directory of the database and lose theirs when they are part of it. Otherwise they are copied.
        move_files: bool = false,
        /// The files get second names in the directory of the database and keep theirs. Nobody may change them from then on.
        link_files: bool = false,
        /// Copies a file that cannot get a second name, where that is asked for.
        failed_move_fall_back_to_copy: bool = true,
        /// Readers at older snapshots, and iterators over several families, never see what is taken in. It costs a sequence number, which every block of
        /// the tables gets when it is read, until compactions rewrite them. Without, tables that overlap nothing get none, and are seen at
        /// any snapshot.
        snapshot_consistency: bool = true,
        /// Lets the tables have a sequence number; without, `InvalidArgument` where they need one.
        allow_global_seqno: bool = true,
        /// Flushes memtables that must be in tables first; without, `InvalidArgument` where there are such.
        allow_blocking_flush: bool = true,
        /// Reads all of the tables first: every checksum, the order of keys, and what the entries are. Otherwise only their ends are looked at.
        verify_checksums_before_ingest: bool = true,
        /// Puts the tables beneath all that there is. `NotSupported`.
        ingest_behind: bool = false,
    }
}
