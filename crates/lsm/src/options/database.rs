//! Options of a whole database.

use super::ColumnFamilyOptions;
use crate::event::EventListener;
use crate::sst::BlockCache;
use siltstone_base::clock::Clock;
use siltstone_base::env::{Env, PosixEnv};
use siltstone_base::executor::Executor;
use std::sync::Arc;

/// What recovery does with WALs that are torn or damaged. Names and meanings are RocksDB's, but for one thing: what is known to have been
/// durable was not torn by a crash, and only [`SkipAnyCorruptedRecords`](Self::SkipAnyCorruptedRecords) goes on without it.
///
/// Known to have been durable is what a later record says was synced, and every WAL below one that tables cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalRecoveryMode {
    /// A torn end of any WAL is accepted, and the next WAL is replayed; any other damage is an error.
    TolerateCorruptedTailRecords,
    /// Any damage, also a torn end, is an error.
    AbsoluteConsistency,
    /// Replay stops at the first record that is torn or damaged, so that what is there is a prefix of the commits. A later WAL is
    /// replayed only if it continues exactly there.
    PointInTime,
    /// Whatever cannot be read is left out, and everything else is replayed: for saving what can be saved. Commits may be missing between others.
    SkipAnyCorruptedRecords,
}

/// The checksum of each whole table that the MANIFEST keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileChecksum {
    /// None.
    None,
    /// CRC32c, as RocksDB's generator of that name makes it.
    Crc32c,
}

/// How writers are slowed down when background work falls behind. The [stop limits](super::ColumnFamilyOptions::level0_stop_writes_trigger)
/// hold either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WriteAdmission {
    /// Continuously, from the work that is owed and what background jobs achieve: a little and early, so that writers are not stopped.
    Paced,
    /// As RocksDB does: not at all until a slowdown limit is reached, then to a rate that is multiplied up or down as debt falls or grows.
    Rocksdb,
}

/// What counts for the rate limiter. Names and meanings are RocksDB's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RateLimiterMode {
    /// What flushes and compactions write.
    WritesOnly,
    /// What compactions read. What callers read of tables is taken from that.
    ReadsOnly,
    /// Both.
    AllIo,
}

siltstone_base::define_options! {
    /// Options of a whole database. Names and meanings are RocksDB's where it has the option.
    DbOptions {
        /// Creates the database if there is none.
        create_if_missing: bool = false,
        /// Refuses to open a database that exists.
        error_if_exists: bool = false,
        /// Creates the column families named at open that the database lacks.
        create_missing_column_families: bool = false,
        /// Options of the column families that open is not told any of. The comparator of such a family is the one that
        /// it was created with, if that is one of [`base::comparator`](siltstone_base::comparator); it has at least as many levels as it has tables on.
        unnamed_families: ColumnFamilyOptions = ColumnFamilyOptions::default(),
        /// Background jobs that may run at the same time: flushes and compactions together. At least 1. More while the database is open start further threads, of an executor that is not the caller's.
        max_background_jobs: usize = 2,
        /// Jobs that may work on one large compaction at the same time, each on a range of keys with at least a table's worth of input: on one from level 0, one that a caller
        /// asked for, and a merge of the universal style. They count as one of [`max_background_jobs`](Self::max_background_jobs). At least 1.
        max_subcompactions: usize = 1,
        /// How far threads that compact give way to the other threads of the process where processors are scarce: 0 (as urgent as any) to 19,
        /// as of nice(1). A thread that wakes up to read or write is then not kept waiting by one that computes. Of the threads that open starts, not of an
        /// [`executor`](Self::executor) that it is given; one thread is kept for flushes and is as urgent as any.
        background_niceness: u32 = 10,
        /// Bytes of live WALs above which the families that pin the oldest one are flushed. 0: four times the sum of all
        /// families' write buffers.
        max_total_wal_size: u64 = 0,
        /// Bytes that the memtables of all families may have together, those included that wait for their flush. When those that are written have half of it, the largest is
        /// flushed, whatever its family's [`write_buffer_size`](super::ColumnFamilyOptions::write_buffer_size); where all of it is used up, writers wait for a flush, which those of
        /// RocksDB do not. 0: no limit.
        db_write_buffer_size: usize = 0,
        /// WALs that recovery does not need any more are kept in the folder `archive` for so many seconds, and [`Db::updates_since`](crate::Db::updates_since) reads them there. 0: for no
        /// certain time. In an OPTIONS file: `WAL_ttl_seconds`. What is too old goes when files are deleted next; where neither this nor
        /// [`wal_size_limit_mb`](Self::wal_size_limit_mb) is set, WALs are deleted at once, and what is in the archive stays.
        wal_ttl_seconds: u64 = 0,
        /// Archived WALs may have so many MiB together: beyond, the oldest go. 0: any number. In an OPTIONS file: `WAL_size_limit_MB`.
        wal_size_limit_mb: u64 = 0,
        /// Syncs the WAL in the background at least this often, in milliseconds, when there is something to sync. Where writers are
        /// [paced](WriteAdmission::Paced), earlier: where so much waits that it would take a quarter of that time, or is twice as much as any sync has had, and 4 MiB at least; and they are slowed down where more
        /// would be unsynced than the device takes within that time. 0:
        /// writes without [`sync`](super::WriteOptions::sync) are left to the operating system.
        wal_sync_interval_millis: u64 = 0,
        /// Starts writing tables back every so many bytes, so that the sync at their end has little to do. 0: never.
        bytes_per_sync: u64 = 1 << 20,
        /// The same for the WAL.
        wal_bytes_per_sync: u64 = 0,
        /// Lets tables wait for the device every [`bytes_per_sync`](Self::bytes_per_sync) bytes, so that no more than twice as much is ever waiting to be written back.
        /// The job waits in the midst of a step.
        strict_bytes_per_sync: bool = false,
        /// Reads tables past the operating system's page cache.
        use_direct_reads: bool = false,
        /// Reads and writes tables past the operating system's page cache in flushes and compactions.
        use_direct_io_for_flush_and_compaction: bool = false,
        /// Maps tables for reading. A table that another process truncates then kills this one. Not together with
        /// `use_direct_reads`.
        allow_mmap_reads: bool = false,
        /// Reads this many bytes at a time from the inputs of a compaction.
        compaction_readahead_size: usize = 2 << 20,
        /// How writers are slowed down when background work falls behind.
        write_admission: WriteAdmission = WriteAdmission::Paced,
        /// Bytes per second that writers are slowed down to when a slowdown limit is first reached, with
        /// [`WriteAdmission::Rocksdb`]. At least 1024.
        delayed_write_rate: u64 = 16 << 20,
        /// Bytes per second that flushes and compactions may move together. 0: no limit. Flushes come first, then compactions of level 0, deeper ones, and those
        /// for the age of tables.
        rate_limiter_bytes_per_sec: u64 = 0,
        /// After a pause, the rate of so many microseconds may pass at once. At least 1.
        rate_limiter_refill_period_us: u64 = 100_000,
        /// Each kind of compaction may always use one part in so many of the rate, whatever goes before it. At least 4.
        rate_limiter_fairness: u32 = 10,
        /// What counts.
        rate_limiter_mode: RateLimiterMode = RateLimiterMode::WritesOnly,
        /// Takes [`rate_limiter_bytes_per_sec`](Self::rate_limiter_bytes_per_sec) for the most, and keeps to as much of it as the work that is owed asks for: a twentieth when
        /// nothing is, all of it when there is more than a few seconds' worth.
        rate_limiter_auto_tuned: bool = false,
        /// When nothing was written for so many seconds while callers went on reading, flushes what is in memory and compacts level 0 of families with the leveled style, whatever
        /// the trigger says: reads then ask fewer places. 0: never, as RocksDB.
        drain_when_read_only_seconds: u64 = 10,
        /// Puts data blocks that compactions write into the block cache where the blocks that they are made of are cached, and those of a flush
        /// [because callers only read](Self::drain_when_read_only_seconds): else everybody who read these rows in memory would wait for the device anew. About as many come into the cache as go out of use. Not blocks of tables with a
        /// [dictionary](super::ColumnFamilyOptions::max_dict_bytes). `false`: as RocksDB, whose `prepopulate_block_cache` takes all blocks of a job or none.
        cache_rewritten_blocks: bool = true,
        /// Has the allocator of the process, if it is glibc's, keep at most so many bytes free at the end of each of its areas, and map what is of 128 KiB or more by itself: by default it keeps the more free the
        /// larger the things are that were freed. It is the whole process's, and for good. 0: leaves it as it is, as RocksDB.
        allocator_trim_threshold: usize = 0,
        /// Charges what memtables take to the block cache, which makes room for it while they take it: so its capacity is one limit for both. While flushes and compactions work, half of
        /// [`db_write_buffer_size`](Self::db_write_buffer_size) is charged for their buffers as well. What is charged follows that up at once, and falls when memtables are empty, more or less, and no job works: a database that is only read
        /// has all of it for blocks. At most half of the capacity that the cache had when the database was opened: a small cache is not used up by large memtables. RocksDB's `WriteBufferManager` with a cache.
        charge_memtables_to_block_cache: bool = false,
        /// Where rows expire: how far the clock may have gone forward, in seconds, since a time that this database knows of, when it is opened. After a longer jump
        /// nothing that is expired is removed until [`confirm_clock`](crate::Db::confirm_clock) says that the time is right. 0: as far as it likes.
        max_clock_jump_seconds: u64 = 30 * 86_400,
        /// The clock by which rows expire, where that is not the executor's: for tests and simulations, in which rows age faster than the machine does. Stamps and durations are
        /// compared with its time, and snapshots take it; tables are looked at as often as it says, but at most a hundred times a second. Everything else (pacing, timers, the
        /// ages of tables) goes by the executor's clock. `None`: that one.
        expiry_clock: Option<Arc<dyn Clock>> = None,
        /// Groups of at least this many bytes, and groups of batches of 4 KiB or more each on average, are inserted into the memtable by their own writers, in parallel.
        /// 0: never.
        concurrent_memtable_write_bytes: usize = 64 << 10,
        /// A leader takes no more than this many bytes into its group. At least 1.
        max_write_batch_group_size_bytes: usize = 1 << 20,
        /// Longest logical record of a WAL that recovery accepts, and longest write batch that is written, in bytes. 1 KiB to 4 GiB.
        max_wal_record_bytes: usize = 64 << 20,
        /// Size at which the MANIFEST is replaced by a new one that begins with a snapshot, in bytes. At least 1.
        max_manifest_file_size: u64 = 1 << 30,
        /// Where the options of a family leave [`format_version`](super::TableOptions::format_version) or
        /// [`checksum`](super::TableOptions::checksum) at its default, takes what the directory's OPTIONS file says: an older RocksDB that made the
        /// directory still reads what is written now.
        keep_table_format: bool = true,
        /// The checksum of each whole table that is written, kept by the MANIFEST for
        /// [`verify_file_checksums`](crate::Db::verify_file_checksums) and for backups.
        file_checksum: FileChecksum = FileChecksum::None,
        /// Names the machine in the properties of tables, for whoever looks at them. Empty: they name none, where RocksDB takes the name of the host.
        db_host_id: String = String::new(),
        /// What recovery does with damaged WALs.
        wal_recovery_mode: WalRecoveryMode = WalRecoveryMode::PointInTime,
        /// Cache of data blocks. `None`: one of 32 MiB for this database alone.
        block_cache: Option<Arc<BlockCache>> = None,
        /// Who is told of flushes, compactions, stalls and errors.
        listeners: Vec<Arc<dyn EventListener>> = Vec::new(),
        /// Where the files are. `None`: the operating system's file system.
        env: Option<Arc<dyn Env>> = None,
        /// Who runs background jobs. `None`: threads of this database alone.
        executor: Option<Arc<dyn Executor>> = None,
    }
}

impl DbOptions {
    /// Where the files are.
    pub(crate) fn environment(&self) -> Arc<dyn Env> {
        match &self.env {
            Some(env) => Arc::clone(env),
            None => Arc::new(PosixEnv::new()),
        }
    }
}
