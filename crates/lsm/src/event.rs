//! Events: what the engine does in the background, in pairs of begin and end with a job id and a cause.

use crate::key::SeqNo;
use siltstone_base::Error;
use std::fmt;
use std::time::Duration;

/// Number of one background job, unique within an open database.
pub type JobId = u64;

/// Why a flush was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushReason {
    /// The memtable reached `write_buffer_size`.
    WriteBufferFull,
    /// The family pins an old WAL and the WALs together are larger than `max_total_wal_size`.
    WalTotalSize,
    /// The memtables of all families together have half of `db_write_buffer_size`, and this one is the largest.
    MemtableTotalSize,
    /// The caller asked.
    Manual,
    /// Recovery replayed entries that no table holds.
    Recovery,
    /// The engine tries to leave an error behind.
    ErrorRecovery,
    /// Callers only read any more: see [`drain_when_read_only_seconds`](crate::DbOptions::drain_when_read_only_seconds).
    ReadOnly,
}

/// Why a compaction was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompactionReason {
    /// Level 0 has too many files.
    L0FileCount,
    /// A level is larger than its target.
    MaxLevelSize,
    /// There are too many sorted runs.
    SortedRunCount,
    /// Neighbouring sorted runs have similar sizes.
    SizeRatio,
    /// All sorted runs but the oldest are too large, together.
    SpaceAmplification,
    /// There are more bytes than a family with the FIFO style may have.
    FifoMaxSize,
    /// The oldest tables of a family with the FIFO style are too old.
    FifoTtl,
    /// Many entries of the table only delete.
    TombstoneDensity,
    /// A caller [suggested](crate::Db::suggest_compact_range) it, or a table or an index was dropped.
    Suggested,
    /// Range tombstones of other tables delete all that the tables have.
    Covered,
    /// The data is older than `ttl`, and not where the oldest is kept.
    Ttl,
    /// Reads have paid more for the table than merging it takes.
    ReadTriggered,
    /// The table was written longer ago than `periodic_compaction_seconds`.
    Periodic,
    /// The caller asked.
    Manual,
    /// All rows of the tables are expired, or so many that rewriting what is left costs little.
    Expired,
    /// Callers only read any more, and level 0 has tables: see
    /// [`drain_when_read_only_seconds`](crate::DbOptions::drain_when_read_only_seconds).
    ReadOnly,
}

impl CompactionReason {
    /// Whether writers or readers wait for it: compactions for upkeep, and those that a caller asks for, leave the base level to level 0 where that is due.
    pub(crate) fn is_urgent(self) -> bool {
        !matches!(
            self,
            Self::TombstoneDensity
                | Self::Suggested
                | Self::Ttl
                | Self::ReadTriggered
                | Self::Periodic
                | Self::Manual
                | Self::Expired
        )
    }
}

/// Why writers are slowed down or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StallCause {
    /// Too many memtables wait for their flush.
    MemtableLimit,
    /// Level 0 has too many files.
    L0FileCount,
    /// Too many bytes wait for their compaction.
    PendingCompactionBytes,
    /// More of the WAL waits for its sync than can be synced as often as was promised.
    UnsyncedWal,
}

impl StallCause {
    /// Every cause, in the order of counters.
    pub const ALL: [Self; 4] =
        [Self::MemtableLimit, Self::L0FileCount, Self::PendingCompactionBytes, Self::UnsyncedWal];

    /// The cause in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MemtableLimit => "memtable limit",
            Self::L0FileCount => "level 0 file count",
            Self::PendingCompactionBytes => "pending compaction bytes",
            Self::UnsyncedWal => "unsynced WAL",
        }
    }
}

/// What writers meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StallCondition {
    /// No limit is reached.
    Normal,
    /// Writers are slowed down to a rate.
    Delayed(StallCause),
    /// Writers wait.
    Stopped(StallCause),
}

/// A flush.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FlushInfo {
    /// The job.
    pub job_id: JobId,
    /// Name of the column family.
    pub column_family: String,
    /// Why.
    pub reason: FlushReason,
    /// Entries written; 0 in the begin event.
    pub entries: u64,
    /// Number of the table written, or 0.
    pub file_number: u64,
    /// Bytes of the table written, or 0.
    pub file_size: u64,
    /// Smallest and largest sequence number written.
    pub seqnos: (SeqNo, SeqNo),
    /// Time that it took, in the end event.
    pub duration: Duration,
    /// Why it failed, in the end event.
    pub error: Option<Error>,
}

/// A compaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactionInfo {
    /// The job.
    pub job_id: JobId,
    /// Name of the column family.
    pub column_family: String,
    /// Why.
    pub reason: CompactionReason,
    /// Inputs: level and file number.
    pub inputs: Vec<(usize, u64)>,
    /// Bytes of the inputs.
    pub input_bytes: u64,
    /// Level of the outputs.
    pub output_level: usize,
    /// Numbers of the tables written, in the end event.
    pub outputs: Vec<u64>,
    /// Bytes written, in the end event.
    pub output_bytes: u64,
    /// Whether files only changed their level.
    pub trivial_move: bool,
    /// Jobs that its keys were shared out to, in the end event. 0: it was not shared out.
    pub subcompactions: usize,
    /// Time that it took, in the end event.
    pub duration: Duration,
    /// Why it failed, in the end event.
    pub error: Option<Error>,
}

/// A change of the stall condition of a family.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StallInfo {
    /// Name of the column family.
    pub column_family: String,
    /// Before.
    pub previous: StallCondition,
    /// Now.
    pub current: StallCondition,
}

/// An option that a change gave another value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedOption {
    /// Its name.
    pub name: String,
    /// Its value before, as an OPTIONS file has it.
    pub before: String,
    /// Its value now.
    pub now: String,
}

/// A change of options.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OptionsInfo {
    /// Name of the column family; `None`: options of the database.
    pub column_family: Option<String>,
    /// What has another value than before.
    pub changed: Vec<ChangedOption>,
}

/// A change of what holds writers back, where they are [paced](crate::WriteAdmission::Paced).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PacingInfo {
    /// What held them back before; `None`: nothing did.
    pub previous: Option<StallCause>,
    /// What is scarcest now; `None`: no writer was held back for a second.
    pub current: Option<StallCause>,
    /// The bytes a second that are admitted now; `None` without a limit.
    pub bytes_per_sec: Option<u64>,
}

/// A change of the rate that flushes and compactions keep to, where it is [tuned](crate::DbOptions::rate_limiter_auto_tuned).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RateLimitInfo {
    /// Bytes a second before.
    pub previous: u64,
    /// Bytes a second now.
    pub current: u64,
    /// Bytes that compactions must still rewrite.
    pub owed_bytes: u64,
    /// Bytes of sealed memtables that are in no table yet.
    pub unflushed_bytes: u64,
}

/// A transaction that was too large for memory, and was committed as tables.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SpilledCommitInfo {
    /// Names of the column families that it changed.
    pub column_families: Vec<String>,
    /// How many tables they got.
    pub tables: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// The first and the last sequence number that they have. What they hold is in no WAL: who follows by [`Db::updates_since`](crate::Db::updates_since) misses it.
    pub seqnos: (SeqNo, SeqNo),
}

/// Is told what the engine does. Called by background threads and by writers; a slow listener slows its caller. The state lock is never held,
/// but [`stall_changed`](Self::stall_changed) and [`background_error`](Self::background_error) may come from a writer that leads or from whoever
/// writes the MANIFEST: a listener may read, but must not write, flush, or create and drop families, or it waits for itself. A listener that panics makes the engine read-only, with `Poisoned` as the cause.
pub trait EventListener: Send + Sync + fmt::Debug {
    /// A flush starts.
    fn flush_begin(&self, info: &FlushInfo) {
        let _ = info;
    }
    /// A flush ended.
    fn flush_end(&self, info: &FlushInfo) {
        let _ = info;
    }
    /// A compaction starts.
    fn compaction_begin(&self, info: &CompactionInfo) {
        let _ = info;
    }
    /// A compaction ended.
    fn compaction_end(&self, info: &CompactionInfo) {
        let _ = info;
    }
    /// Writers of a family are slowed down, stopped or set free.
    fn stall_changed(&self, info: &StallInfo) {
        let _ = info;
    }
    /// Pacing begins to hold writers back, goes on for another cause, or ends. Told a few times a second at most, and not for each write; writes of low priority do not count.
    fn pacing_changed(&self, info: &PacingInfo) {
        let _ = info;
    }
    /// Options were changed, and hold.
    fn options_changed(&self, info: &OptionsInfo) {
        let _ = info;
    }
    /// A transaction that [spilled](crate::TransactionDbOptions::spill) is committed. Told by who committed it, before its locks are given back.
    fn spilled_commit(&self, info: &SpilledCommitInfo) {
        let _ = info;
    }
    /// The rate that flushes and compactions keep to has gone up or down by a quarter since this was last said.
    fn rate_limit_changed(&self, info: &RateLimitInfo) {
        let _ = info;
    }
    /// A background error made the engine read-only, or (with `None`) the engine left that state.
    fn background_error(&self, error: Option<&Error>) {
        let _ = error;
    }
    /// A table is part of the database from now on, or a WAL has begun: those included that opening the database makes. Told by a writer that leads, too.
    fn file_created(&self, path: &std::path::Path) {
        let _ = path;
    }
    /// A file was deleted: one of which [`file_created`](Self::file_created) told, now or in an earlier life, or another one that nobody needs any more.
    fn file_deleted(&self, path: &std::path::Path) {
        let _ = path;
    }
}
