//! What the database's state lock guards, and what every part of the database room shares.

use super::archive::WalArchive;
use super::attached::AttachedWork;
use super::column_family::Family;
use super::compaction_log::CompactionLog;
use super::error_state::ErrorState;
use super::io_rate::IoRate;
use super::memory::TransactionMemory;
use super::next_wal::NextWal;
use super::obsolete_files::FileDeletions;
use super::options_file::OptionsFiles;
use super::pacing::{LowPriority, Pacer};
use super::pacing_watch::PacingWatch;
use super::prepared_logs::PreparedLogs;
use super::read_only_turn::ReadOnlyTurn;
use super::wal_lag::WalLag;
use super::wal_promise::DurableWal;
use super::write::WriteSide;
use super::write_controller::WriteController;
use super::write_queue::WriteQueue;
use crate::blob::BlobFiles;
use crate::event::{EventListener, FlushReason, JobId};
use crate::file_meta::ObsoleteTables;
use crate::file_names::FileName;
use crate::holders::Holders;
use crate::key::SeqNo;
use crate::memtable::MemtableMemory;
use crate::metrics::Metrics;
use crate::options::{DbOptions, ReadOptions};
use crate::snapshot::SnapshotList;
use crate::sst::BlockCache;
use crate::version::{FileNumbers, VersionSet};
use crate::wal::WalWriter;
use siltstone_base::block_pool::BlockPool;
use siltstone_base::clock::Clock;
use siltstone_base::env::{Env, FileLock, SyncHandle};
use siltstone_base::executor::Executor;
use siltstone_base::expiry::{ExpiryRoom, TrustedClock};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64};
use siltstone_base::sync::{Arc, ArcSwap, CachePadded, Mutex, OnceLock, Rank, Signal, Weak};
use siltstone_base::{Error, ErrorKind};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

/// Ranks of the locks of the database, in the order in which they are taken.
pub(super) mod ranks {
    use super::Rank;

    /// The write side: held by the leader of a commit group.
    pub(crate) const WRITE_SIDE: Rank = Rank(10);
    /// The queue of followers.
    pub(crate) const WRITE_QUEUE: Rank = Rank(20);
    /// One request in the queue.
    pub(crate) const WRITE_REQUEST: Rank = Rank(25);
    /// The version set and the MANIFEST; held during MANIFEST I/O.
    pub(crate) const VERSIONS: Rank = Rank(50);
    /// Syncs of WALs; held during the sync.
    pub(crate) const WAL_SYNC: Rank = Rank(60);
    /// WALs to be closed; not held meanwhile.
    pub(crate) const RETIRED_WALS: Rank = Rank(65);
    /// The state; never held during I/O.
    pub(crate) const STATE: Rank = Rank(100);
    /// A change of the database's options.
    pub(crate) const CHANGING_OPTIONS: Rank = Rank(9);
    /// The directory's lock file.
    pub(crate) const DIRECTORY_LOCK: Rank = Rank(5);
}

/// An open database, shared by its handles and its jobs.
pub(crate) struct DbInner {
    pub(crate) surroundings: Surroundings,
    pub(crate) default_read_options: ReadOptions,
    pub(crate) read_only: bool,
    /// The write side. Whoever holds it is the leader.
    pub(crate) write_side: Mutex<WriteSide>,
    pub(crate) write_queue: WriteQueue,
    /// Held by whoever changes options of the database.
    pub(crate) changing_options: Mutex<()>,
    /// Writing a WAL back is started after so many bytes; 0: never.
    pub(crate) wal_bytes_per_sync: AtomicU64,
    /// Held by whoever syncs a WAL, until a failure is known to all: nobody syncs a file again whose sync has failed.
    pub(crate) wal_sync: Mutex<()>,
    /// WALs that nobody writes any more and whose files are still to be closed.
    pub(crate) retired_wals: Mutex<Vec<WalWriter>>,
    /// Up to where the WALs are durable.
    pub(crate) durable_wal: DurableWal,
    /// How many of their bytes are not, and how fast they become so.
    pub(crate) wal_lag: WalLag,
    pub(crate) controller: WriteController,
    /// Slows writers down, while they are paced: see [`pacer`](Self::pacer()).
    pub(crate) idle_pacer: Pacer,
    /// What writes of low priority have used up.
    pub(crate) low_priority: LowPriority,
    /// Whether they are [paced](crate::WriteAdmission::Paced).
    pub(crate) is_paced: AtomicBool,
    /// The largest sequence number that readers may see.
    pub(crate) visible_seqno: CachePadded<AtomicU64>,
    /// All families by number; replaced as a whole under the state lock.
    pub(crate) families: ArcSwap<BTreeMap<u32, Arc<Family>>>,
    pub(crate) default_family: Arc<Family>,
    pub(crate) snapshots: Arc<SnapshotList>,
    pub(crate) versions: Mutex<VersionSet>,
    pub(crate) file_numbers: Arc<FileNumbers>,
    /// MANIFESTs below were deleted, or will be.
    pub(crate) deleted_manifests_below: AtomicU64,
    pub(crate) state: Mutex<State>,
    /// Notified after every change that somebody may wait for: a job's end, an error, closing.
    pub(crate) changed: Signal,
    pub(crate) closing: AtomicBool,
    /// Whether closing has ended.
    pub(crate) closed: AtomicBool,
    pub(crate) errors: ErrorState,
    pub(crate) obsolete_tables: Arc<ObsoleteTables>,
    pub(crate) deletions: FileDeletions,
    pub(crate) wal_archive: WalArchive,
    pub(crate) options_files: OptionsFiles,
    pub(crate) compaction_log: CompactionLog,
    /// The rate that flushes and compactions keep to.
    pub(crate) io_rate: IoRate,
    /// The WALs of transactions that are prepared and not decided.
    pub(crate) prepared_logs: PreparedLogs,
    /// What transactions hold in memory.
    pub(crate) transaction_memory: Arc<TransactionMemory>,
    /// Who sees that callers only read any more.
    pub(crate) read_only_turn: ReadOnlyTurn,
    /// Who tells listeners that writers are paced.
    pub(crate) pacing_watch: PacingWatch,
    /// Background work of the layer above.
    pub(crate) attached: OnceLock<Weak<dyn AttachedWork>>,
    /// When the database was opened, by its clock.
    pub(crate) opened_micros: u64,
    /// Held for as long as the database is open for writing.
    pub(crate) lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// What the state lock guards.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Background state by family.
    pub(crate) families: BTreeMap<u32, FamilyState>,
    /// Live WALs, oldest first; the last one is being written.
    pub(crate) wals: VecDeque<LiveWal>,
    /// The last WALs that were live, oldest first: whoever keeps files may still read them.
    pub(crate) obsolete_wals: VecDeque<ObsoleteWal>,
    /// The file of the WAL after them, if it was made ahead.
    pub(crate) next_wal: Option<NextWal>,
    pub(crate) running_flushes: usize,
    pub(crate) running_compactions: usize,
    /// When a table is due by its age for which somebody will look, in microseconds of the clock.
    pub(crate) upkeep_due: Option<u64>,
    /// Compactions that run for the sake of expired rows alone, and write tables.
    pub(crate) expiry_rewrites: usize,
    /// Compactions that were picked by size since it was the turn of one for the sake of expired rows.
    pub(crate) since_expiry_turn: u32,
    /// Jobs that open tables to know the stamps of their rows.
    pub(crate) reading_stamps: usize,
    /// Steps of background work of the layer above that are under way.
    pub(crate) attached_turns: usize,
    /// Jobs that are done and clean up behind themselves; others may run in their place.
    pub(crate) ending_jobs: usize,
    /// Those who make files outside of jobs.
    pub(crate) making_files: usize,
    /// Number of the last job.
    pub(crate) last_job_id: JobId,
    /// Compactions that callers ask for and wait for, oldest first.
    pub(crate) manual: VecDeque<Arc<super::manual::ManualCompaction>>,
    /// One of them had a turn since others had one.
    pub(crate) manual_had_turn: bool,
    /// Jobs are not started while this is above 0.
    pub(crate) background_paused: usize,
}

/// Background state of one family.
#[derive(Debug, Default)]
pub(crate) struct FamilyState {
    /// Why its sealed memtables are to be flushed, if they are.
    pub(crate) flush_requested: Option<FlushReason>,
    /// Whether a job flushes them.
    pub(crate) flush_running: bool,
    /// Failures in a row of its flushes, and of its compactions.
    pub(crate) flush_failures: u32,
    /// Failures of its flushes since the database was opened.
    pub(crate) failed_flushes: u64,
    pub(crate) compaction_failures: u32,
    /// No compaction is picked before this moment, after a failure.
    pub(crate) compaction_not_before_micros: u64,
    /// Level 0 is emptied whatever its trigger says, since callers only read any more: as long as this is the newest write.
    pub(crate) drains: Option<SeqNo>,
    /// Identity of running compactions, for the picker.
    pub(crate) running: crate::compaction::Running,
}

/// A WAL that no family needs any more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObsoleteWal {
    pub(crate) number: u64,
    /// Bytes of it that are whole.
    pub(crate) size: u64,
    /// Whether its file is deleted or archived.
    pub(crate) is_gone: bool,
}

/// A WAL whose entries some family still needs, or that is being written.
#[derive(Debug)]
pub(crate) struct LiveWal {
    pub(crate) number: u64,
    /// Bytes in it; final once it is closed.
    pub(crate) size: u64,
    /// Bytes that were appended so far, while it is being written.
    pub(crate) written: Arc<AtomicU64>,
    /// Syncs it while, or after, somebody else writes it.
    pub(crate) sync: Arc<dyn SyncHandle>,
    /// Whether all its bytes are durable. Never set while it is being written.
    pub(crate) synced: bool,
}

/// What is fixed before a database is open: where it is, and who does its work. [`DbInner`] dereferences to it.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) dir: PathBuf,
    /// What the database was opened with; [`live_options`](Self::live_options) has what may have changed since.
    pub(crate) options: DbOptions,
    pub(crate) live_options: ArcSwap<DbOptions>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) executor: Arc<dyn Executor>,
    /// Whether the threads are the database's own, not the caller's.
    pub(crate) owns_executor: bool,
    pub(crate) clock: Arc<dyn Clock>,
    /// The time by which rows expire.
    pub(crate) expiry: Arc<ExpiryRoom>,
    /// The same clock as the process saw it from the opening on, whatever the directory says.
    pub(crate) time_since_opening: TrustedClock,
    pub(crate) db_id: String,
    pub(crate) session_id: String,
    /// Tells this opening from every other, for handles.
    pub(crate) instance: u64,
    pub(crate) block_cache: Arc<BlockCache>,
    pub(crate) blob_files: Arc<BlobFiles>,
    pub(crate) block_pool: BlockPool,
    pub(crate) metrics: Arc<Metrics>,
    /// What jobs hold of the database's memory, and rooms above it.
    pub(crate) holders: Arc<Holders>,
    /// What all memtables take.
    pub(crate) memtable_memory: Arc<MemtableMemory>,
}

impl std::ops::Deref for DbInner {
    type Target = Surroundings;

    #[inline]
    fn deref(&self) -> &Surroundings {
        &self.surroundings
    }
}

impl State {
    pub(crate) fn next_job_id(&mut self) -> JobId {
        self.last_job_id += 1;
        self.last_job_id
    }
}

impl DbInner {
    /// The family of number `id`, unless it was dropped.
    pub(crate) fn family(&self, id: u32) -> Option<Arc<Family>> {
        if id == 0 {
            return Some(Arc::clone(&self.default_family));
        }
        self.families.load().get(&id).cloned()
    }

    /// The largest sequence number that readers may see.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        self.visible_seqno.load(siltstone_base::sync::atomic::Ordering::Acquire)
    }

    /// Who slows writers down, while they are [paced](crate::WriteAdmission::Paced).
    #[inline]
    pub(crate) fn pacer(&self) -> Option<&Pacer> {
        self.is_paced.load(siltstone_base::sync::atomic::Ordering::Relaxed).then_some(&self.idle_pacer)
    }

    /// Whether the database is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(siltstone_base::sync::atomic::Ordering::Acquire)
    }

    /// Tells every listener of tables that are part of the database now.
    pub(crate) fn notify_of_tables(&self, numbers: impl IntoIterator<Item = u64>) {
        if self.options.listeners.is_empty() {
            return;
        }
        for number in numbers {
            let path = FileName::Table(number).path(&self.dir);
            self.notify(|listener| listener.file_created(&path));
        }
    }

    /// Tells every listener. One that panics makes the engine read-only and does no other harm: whoever calls this may
    /// hold what others wait for.
    pub(crate) fn notify(&self, event: impl Fn(&dyn EventListener)) {
        for listener in &self.options.listeners {
            let call = std::panic::AssertUnwindSafe(|| event(&**listener));
            if std::panic::catch_unwind(call).is_err() {
                self.fail(&Error::new(ErrorKind::Poisoned, "an event listener panicked"));
            }
        }
    }
}

impl std::fmt::Debug for DbInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("dir", &self.dir).finish_non_exhaustive()
    }
}
