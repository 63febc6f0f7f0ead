//! The names under which an open database tells what it is doing: RocksDB's property names.

use siltstone_base::{Error, ErrorKind, Result};

/// Prefix of every name that RocksDB has too.
const PREFIX: &str = "rocksdb.";
/// Prefix of the others.
const OWN_PREFIX: &str = "siltstone.";
/// Prefix of the names that end with a level.
const NUM_FILES_AT_LEVEL: &str = "num-files-at-level";

macro_rules! properties {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, )*) => {
        /// One property of a column family, or of the database where its description says so.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Property {
            /// Table files in one level: `rocksdb.num-files-at-levelN`.
            NumFilesAtLevel(usize),
            $( $(#[$meta])* $variant, )*
        }

        impl Property {
            /// Every property but [`NumFilesAtLevel`](Self::NumFilesAtLevel).
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The name without the prefix; that of `NumFilesAtLevel` also lacks its level.
            const fn suffix(self) -> &'static str {
                match self {
                    Self::NumFilesAtLevel(_) => NUM_FILES_AT_LEVEL,
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

properties! {
    /// Counters, levels and stalls as one table. Of the database.
    Stats = "stats",
    /// The same table: the levels are those of the family.
    CfStats = "cfstats",
    /// All counters and distributions by name, as [`Db::statistics`](crate::Db::statistics) prints them. Of the database.
    DbStats = "dbstats",
    /// The same.
    OptionsStatistics = "options-statistics",
    /// What the properties of all tables come to, as text. Opens the tables.
    AggregatedTableProperties = "aggregated-table-properties",
    /// Levels with their files and bytes, as text.
    LevelStats = "levelstats",
    /// Every table file with its boundaries' sequence numbers and size, as text.
    SsTables = "sstables",
    /// Immutable memtables that wait for their flush.
    NumImmutableMemTable = "num-immutable-mem-table",
    /// 1 if a flush is due, else 0.
    MemTableFlushPending = "mem-table-flush-pending",
    /// Flushes that run. Of the database.
    NumRunningFlushes = "num-running-flushes",
    /// 1 if a compaction is due, else 0.
    CompactionPending = "compaction-pending",
    /// Compactions that run. Of the database.
    NumRunningCompactions = "num-running-compactions",
    /// Errors of background work. Of the database.
    BackgroundErrors = "background-errors",
    /// Bytes of the memtable that is being written.
    CurSizeActiveMemTable = "cur-size-active-mem-table",
    /// Bytes of the memtable that is being written and of those that wait for their flush.
    CurSizeAllMemTables = "cur-size-all-mem-tables",
    /// Bytes of all memtables, counting those that only readers still hold.
    SizeAllMemTables = "size-all-mem-tables",
    /// Entries of the memtable that is being written.
    NumEntriesActiveMemTable = "num-entries-active-mem-table",
    /// Entries of the memtables that wait for their flush.
    NumEntriesImmMemTables = "num-entries-imm-mem-tables",
    /// Tombstones of the memtable that is being written.
    NumDeletesActiveMemTable = "num-deletes-active-mem-table",
    /// Tombstones of the memtables that wait for their flush.
    NumDeletesImmMemTables = "num-deletes-imm-mem-tables",
    /// An estimate of the live keys.
    EstimateNumKeys = "estimate-num-keys",
    /// Bytes that open table readers hold outside the block cache. Of the database.
    EstimateTableReadersMem = "estimate-table-readers-mem",
    /// 1 if obsolete files are deleted, 0 while that is disabled. Of the database.
    IsFileDeletionsEnabled = "is-file-deletions-enabled",
    /// Distinct states that snapshots hold. Of the database.
    NumSnapshots = "num-snapshots",
    /// Sequence number of the oldest snapshot, or 0. Of the database.
    OldestSnapshotSequence = "oldest-snapshot-sequence",
    /// Versions that the current one or a reader holds.
    NumLiveVersions = "num-live-versions",
    /// How often the super version changed since the open.
    CurrentSuperVersionNumber = "current-super-version-number",
    /// An estimate of the bytes of live data.
    EstimateLiveDataSize = "estimate-live-data-size",
    /// Smallest WAL number that recovery would need. Of the database.
    MinLogNumberToKeep = "min-log-number-to-keep",
    /// Bytes of the table files of all live versions.
    TotalSstFilesSize = "total-sst-files-size",
    /// Bytes of the table files of the current version.
    LiveSstFilesSize = "live-sst-files-size",
    /// Blob files of the current version.
    NumBlobFiles = "num-blob-files",
    /// Bytes of the records in blob files of the current version.
    TotalBlobFileSize = "total-blob-file-size",
    /// Bytes of the records in blob files to which tables refer.
    LiveBlobFileSize = "live-blob-file-size",
    /// Bytes of the records in blob files to which no table refers any more.
    LiveBlobFileGarbageSize = "live-blob-file-garbage-size",
    /// The level that level 0 is compacted into.
    BaseLevel = "base-level",
    /// Bytes that compactions must rewrite before every level is within its target.
    EstimatePendingCompactionBytes = "estimate-pending-compaction-bytes",
    /// Bytes per second that writers are slowed down to, or 0. Of the database.
    ActualDelayedWriteRate = "actual-delayed-write-rate",
    /// The limits that writers would meet, the next one first, each with the bytes that may still be written until then, and the pace of writers, as text.
    Pacing = "pacing",
    /// Bytes per second that flushes and compactions may move together, or 0 if there is no limit. Of the database.
    IoRate = "io-rate",
    /// 1 while writers are stopped, else 0. Of the database.
    IsWriteStopped = "is-write-stopped",
    /// Bytes that the block cache may hold.
    BlockCacheCapacity = "block-cache-capacity",
    /// Bytes that the block cache holds.
    BlockCacheUsage = "block-cache-usage",
    /// Bytes of the block cache that readers hold.
    BlockCachePinnedUsage = "block-cache-pinned-usage",
    /// Transactions that are prepared and not decided. Of the database.
    PreparedTransactions = "prepared-transactions",
    /// Bytes of WALs that are kept for transactions alone that are prepared and not decided, or committed and in no table: no flush frees what the former hold. Of the database.
    PreparedLogBytes = "prepared-log-bytes",
    /// Bytes that the block cache holds of compressed blocks.
    CompressedBlockCacheUsage = "compressed-block-cache-usage",
}

impl Property {
    /// The property of a name.
    ///
    /// # Errors
    /// `NotFound` for a name that is none, and for the level of a family with fewer levels than any can have.
    pub fn parse(name: &str) -> Result<Self> {
        let unknown = || Error::new(ErrorKind::NotFound, "no property of this name");
        if let Some(suffix) = name.strip_prefix(OWN_PREFIX) {
            let own = Self::ALL.iter().copied().find(|property| property.is_own() && property.suffix() == suffix);
            return own.ok_or_else(unknown);
        }
        let suffix = name.strip_prefix(PREFIX).ok_or_else(unknown)?;
        if let Some(level) = suffix.strip_prefix(NUM_FILES_AT_LEVEL) {
            let canonical = level == "0" || !level.starts_with(['0', '+']);
            return level.parse().ok().filter(|_| canonical).map(Self::NumFilesAtLevel).ok_or_else(unknown);
        }
        let found = Self::ALL.iter().copied().find(|property| !property.is_own() && property.suffix() == suffix);
        found.ok_or_else(unknown)
    }

    /// The name.
    pub fn name(self) -> String {
        match self {
            Self::NumFilesAtLevel(level) => format!("{PREFIX}{NUM_FILES_AT_LEVEL}{level}"),
            _ if self.is_own() => format!("{OWN_PREFIX}{}", self.suffix()),
            _ => format!("{PREFIX}{}", self.suffix()),
        }
    }

    /// Whether RocksDB does not have it.
    const fn is_own(self) -> bool {
        matches!(
            self,
            Self::Pacing
                | Self::IoRate
                | Self::PreparedTransactions
                | Self::PreparedLogBytes
                | Self::CompressedBlockCacheUsage
        )
    }

    /// Whether the value is text; otherwise it is a number in decimal.
    pub const fn is_text(self) -> bool {
        matches!(
            self,
            Self::Stats
                | Self::CfStats
                | Self::DbStats
                | Self::OptionsStatistics
                | Self::AggregatedTableProperties
                | Self::LevelStats
                | Self::SsTables
                | Self::Pacing
        )
    }

    /// Whether telling it walks over the whole block cache.
    pub const fn is_costly(self) -> bool {
        matches!(self, Self::BlockCachePinnedUsage)
    }

    /// Whether it is the same for all families of a database.
    pub const fn is_of_database(self) -> bool {
        matches!(
            self,
            Self::DbStats
                | Self::OptionsStatistics
                | Self::NumRunningFlushes
                | Self::NumRunningCompactions
                | Self::BackgroundErrors
                | Self::IsFileDeletionsEnabled
                | Self::NumSnapshots
                | Self::OldestSnapshotSequence
                | Self::MinLogNumberToKeep
                | Self::ActualDelayedWriteRate
                | Self::IoRate
                | Self::PreparedTransactions
                | Self::PreparedLogBytes
                | Self::IsWriteStopped
                | Self::BlockCacheCapacity
                | Self::BlockCacheUsage
                | Self::BlockCachePinnedUsage
                | Self::CompressedBlockCacheUsage
        )
    }
}
