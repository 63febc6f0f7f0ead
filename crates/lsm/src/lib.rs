//! An LSM-tree storage engine that opens RocksDB directories and writes directories that RocksDB opens.
//!
//! ```
//! use siltstone_lsm::{Db, DbOptions, ReadOptions, WriteBatch, WriteOptions};
//!
//! # fn main() -> siltstone_lsm::Result<()> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! // Half a gigabyte of memory in all, and four cores: every other option follows from these.
//! let options = DbOptions::for_budget(512 << 20, 4).create_if_missing(true);
//! let db = Db::open(dir.path(), &options)?;
//! db.put("granite", "igneous")?;
//!
//! // A batch is applied as a whole; with `sync` it is on the disk when the call returns.
//! let mut batch = WriteBatch::new();
//! batch.put("slate", "metamorphic");
//! batch.delete("granite");
//! let before = db.snapshot();
//! db.write(&mut batch, &WriteOptions::default().sync(true))?;
//!
//! // A value is read where it lies, in a memtable or in a cached block.
//! assert_eq!(db.get("slate")?.as_deref(), Some(&b"metamorphic"[..]));
//! assert_eq!(db.get("granite")?, None);
//!
//! // A snapshot still sees what was there when it was taken.
//! let mut rows = db.iter(&ReadOptions::default().snapshot(Some(before)))?;
//! rows.seek_to_first();
//! assert_eq!((rows.key(), rows.value()), (&b"granite"[..], &b"igneous"[..]));
//! rows.next();
//! assert!(!rows.valid());
//! rows.status()?;
//! # drop(rows);
//! db.close()
//! # }
//! ```
//!
//! | you want to | see |
//! | --- | --- |
//! | read and write keys | [`Db`], [`WriteBatch`], [`Iter`], [`Snapshot`] |
//! | keep several orders of keys in one directory | [`Db::open_families`], [`ColumnFamily`] |
//! | change several rows together, and undo that | [`TransactionDb`], [`OptimisticTransactionDb`], [`WriteBatchWithIndex`] |
//! | keep rows with secondary indexes | [`TableDb`] |
//! | choose sizes, codecs, limits | [`DbOptions::for_budget`] for all of them at once, [`DbOptions`], [`ColumnFamilyOptions`], [`TableOptions`] |
//! | say what else a program should know | [`create_if_missing`](DbOptions::create_if_missing), [`ReadOptions::fill_cache`], [`WriteOptions::sync`], [`wal_sync_interval_millis`](DbOptions::wal_sync_interval_millis), [`compaction_style`](ColumnFamilyOptions::compaction_style), [`merge_operator`](ColumnFamilyOptions::merge_operator), [`expiry`](ColumnFamilyOptions::expiry), [`rate_limiter_bytes_per_sec`](DbOptions::rate_limiter_bytes_per_sec) |
//! | copy a database while it is written | [`Checkpoint`], [`BackupEngine`], [`Db::live_files`] |
//! | follow what others write | [`Db::updates_since`], [`Follower`], [`Db::open_read_only`] |
//! | load many rows at once | [`BulkLoader`], [`SstFileWriter`], [`Db::ingest_external_files`] |
//! | let rows expire | [`ColumnFamilyOptions::expiry`], [`Db::expiry_report`], and the crate `siltstone-ttl` |
//! | know what the engine does | [`EventListener`], [`Db::statistics`], [`Metrics`], [`Db::property`] |
//!
//! Features: `tokio` adds `AsyncDb`, for programs whose threads must not wait; `tracing` adds spans, and `TracingListener`; `metrics` adds `Db::publish_metrics`, for the recorder that a program
//! has installed; `bzip2` reads tables that are compressed so.
//!
//! Options and properties keep RocksDB's names and meaning. Every failure is an [`Error`] with an [`ErrorKind`] to act on; it
//! names files, offsets and options, never keys or values.

#[cfg(feature = "tokio")]
mod async_db;
mod batch;
mod blob;
mod bulk_load;
mod compaction;
mod copies;
mod db;
mod engine;
mod event;
mod expiry;
mod external;
mod file_copy;
mod file_meta;
mod file_names;
mod heads;
mod holders;
mod iterator;
mod key;
mod memtable;
mod merge;
mod metrics;
mod options;
#[cfg(feature = "testing")]
pub mod probes;
mod range_tombstones;
mod snapshot;
mod sst;
mod table_cache;
mod tables;
#[cfg(feature = "testing")]
pub mod testing;
mod trace;
mod transaction;
mod version;
mod wal;
mod wide_columns;

#[cfg(feature = "tokio")]
pub use async_db::{AsyncDb, AsyncDbOptions, AsyncScan, ScannedRow};
pub use batch::{BatchEntry, BatchIter, MAX_KEY_LEN, MAX_VALUE_LEN, WriteBatch};
pub use bulk_load::{BulkLoadOptions, BulkLoader};
pub use copies::{
    BackupEngine, BackupEngineOptions, BackupInfo, Checkpoint, CheckpointOptions, CreateBackupOptions, Follower,
    LiveCopyInfo, LiveCopyOptions, RestoreOptions,
};
pub use db::{
    ApproximateSize, ColumnFamily, CompactionRecord, Db, ExpiryBlocker, ExpiryReport, Iter, IterPins, LiveFile,
    LiveFileKind, LiveFiles, MemoryReport, PinnedState, PinnedValue, TableExpiryReport, TableFile, TreeReport,
    UpdateBatch, Updates,
};
pub use engine::KvDb;
pub use event::{
    ChangedOption, CompactionInfo, CompactionReason, EventListener, FlushInfo, FlushReason, JobId, OptionsInfo,
    PacingInfo, RateLimitInfo, SpilledCommitInfo, StallCause, StallCondition, StallInfo,
};
pub use external::{SstFileInfo, SstFileIter, SstFileReader, SstFileWriter};
pub use key::{ColumnFamilyId, MAX_SEQNO, SeqNo, ValueType};
pub use merge::{AppendOperator, MaxOperator, MergeFailure, MergeOperator, UInt64AddOperator};
pub use metrics::{
    Counter, Counters, HistogramData, HistogramKind, LevelStats, Metrics, MetricsTable, NextLimit, PerfContext,
    PerfLevel, PerfTime, PerfTimes, Property, Statistics,
};
pub use options::{
    ChecksumType, ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, CompressionType, DataBlockIndexType,
    DbOptions, FifoCompactionOptions, FileChecksum, FilterPolicy, FlushOptions, IgnoredOption, IndexType,
    IngestExternalFileOptions, LoadedOptions, RateLimiterMode, ReadOptions, ReadTier, TableOptions,
    UniversalCompactionOptions, UniversalStopStyle, WaitForCompactOptions, WalRecoveryMode, WriteAdmission,
    WriteOptions,
};
pub use siltstone_base::engine::{Isolation, Savepoint, TransactionOptions};
pub use siltstone_base::engine::{LazyTableId, LazyTableSpec};
pub use siltstone_base::expiry::{ClockJump, ExpiryPolicy};
pub use siltstone_base::prefix_extractor::{CappedPrefix, FixedPrefix, NoopPrefix, PrefixExtractor};
pub use siltstone_base::row_locks::{Deadlock, LockMode, RowLockStats};
pub use siltstone_base::{Error, ErrorKind, Result};
pub use snapshot::Snapshot;
pub use sst::{
    BlockCache, CollectedEntry, CompactOnDeletions, PinnedBytes, TablePropertiesCollector,
    TablePropertiesCollectorFactory,
};
pub use tables::{
    AnyTableId, IndexCheck, IndexDifference, IndexEntry, IndexScan, LazyFigures, SweepFigures, SweepOptions, Swept,
    TableDb,
};
#[cfg(feature = "tracing")]
pub use trace::TracingListener;
pub use transaction::{
    OptimisticTransaction, OptimisticTransactionDb, Spill, Transaction, TransactionDb, TransactionDbOptions,
    WriteBatchWithIndex,
};
pub use wide_columns::WideColumn;
