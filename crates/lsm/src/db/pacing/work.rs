//! What the jobs of a family tell of their progress.

use super::level0::Level0Job;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Parts of a file of level 0 that are counted.
const FILE: f64 = 1024.0;

/// Jobs below so many bytes are not measured where memtables are larger: most of their time is opening, syncing and naming files, and says nothing of large ones.
const MIN_MEASURED_BYTES: u64 = 4 << 20;

/// The same where memtables are small: what a database of such does all the time tells what it achieves, and without a rate nobody would be held back before writers are stopped. Jobs
/// of half a memtable and more are measured, and none of less than this.
const MIN_MEASURED_OF_SMALL: u64 = 128 << 10;

/// Below so many bytes a job is not measured, where memtables have `buffer_bytes`.
fn least_measured(buffer_bytes: usize) -> u64 {
    (buffer_bytes as u64 / 2).clamp(MIN_MEASURED_OF_SMALL, MIN_MEASURED_BYTES)
}

/// Counters of the work of one family. All of them are hints: they may be read while they change, and nothing but speed depends on them.
#[derive(Debug, Default)]
pub(crate) struct FamilyWork {
    /// Bytes that compactions of the present version must still read, had none of them begun.
    owed_bytes: AtomicU64,
    /// Work that was done since the database was opened.
    done: [AtomicU64; 2],
    /// The same by jobs that are large enough to be measured.
    measured: [AtomicU64; 2],
    /// Jobs that run.
    running: [AtomicUsize; 2],
    /// Those of them that are measured.
    running_measured: [AtomicUsize; 2],
    /// What the running jobs have done of their inputs, which the present version still has.
    in_flight: [AtomicU64; 2],
    /// Bytes of what is owed that running compactions have read.
    in_flight_owed: AtomicU64,
    /// The same in files of level 0, in parts of a file.
    in_flight_l0: AtomicU64,
    /// Files of level 0 that running compactions take.
    l0_taken: AtomicU64,
    /// Bytes that those compactions must still read.
    l0_left: AtomicU64,
    /// Bytes that they read in all.
    l0_total: AtomicU64,
}

/// The two kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Memtables into tables.
    Flush,
    /// Tables into tables.
    Compaction,
}

impl FamilyWork {
    /// Takes note of what a new version owes.
    pub(crate) fn set_owed(&self, bytes: u64) {
        self.owed_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What is owed, less what running compactions have done of it.
    pub(crate) fn owed(&self) -> u64 {
        let done = self.in_flight_owed.load(Ordering::Relaxed);
        self.owed_bytes.load(Ordering::Relaxed).saturating_sub(done)
    }

    /// Work of a kind since the beginning.
    pub(crate) fn done(&self, kind: Kind) -> u64 {
        self.done[kind as usize].load(Ordering::Relaxed)
    }

    /// Whether jobs of a kind run.
    pub(crate) fn is_running(&self, kind: Kind) -> bool {
        self.running[kind as usize].load(Ordering::Relaxed) > 0
    }

    /// Work of a kind by jobs that are measured, since the beginning, and whether one of them runs.
    pub(crate) fn measured(&self, kind: Kind) -> (u64, bool) {
        let running = self.running_measured[kind as usize].load(Ordering::Relaxed);
        (self.measured[kind as usize].load(Ordering::Relaxed), running > 0)
    }

    /// What the running jobs of a kind have done so far.
    pub(crate) fn in_flight(&self, kind: Kind) -> u64 {
        self.in_flight[kind as usize].load(Ordering::Relaxed)
    }

    /// Files of level 0 that running compactions have read.
    pub(crate) fn l0_files_done(&self) -> f64 {
        self.in_flight_l0.load(Ordering::Relaxed) as f64 / FILE
    }
}

impl FamilyWork {
    /// The running compactions of level 0.
    pub(crate) fn level0_job(&self) -> Level0Job {
        let [files, left_bytes, total_bytes] =
            [&self.l0_taken, &self.l0_left, &self.l0_total].map(|counter| counter.load(Ordering::Relaxed) as f64);
        Level0Job { files, left_bytes, total_bytes }
    }
}

/// The progress of one job: its inputs have `total_bytes`, of which `owed_bytes` count as owed and `l0_files` are files of level 0. Ends with the job, when the version that
/// came of it is there.
#[derive(Debug)]
pub(crate) struct Working {
    work: Arc<FamilyWork>,
    kind: Kind,
    total_bytes: u64,
    is_measured: bool,
    owed_bytes: u64,
    l0_files: usize,
    done_bytes: u64,
    done_owed: u64,
    done_l0: u64,
    succeeded: bool,
}

impl Working {
    /// A flush of memtables of `total_bytes`, where one may have `buffer_bytes`.
    pub(crate) fn flush(work: &Arc<FamilyWork>, total_bytes: u64, buffer_bytes: usize) -> Self {
        Self::new(work, Kind::Flush, total_bytes, buffer_bytes, 0, 0)
    }

    /// A compaction of tables of `total_bytes`, of which `owed_bytes` count as owed.
    pub(crate) fn compaction(
        work: &Arc<FamilyWork>,
        total_bytes: u64,
        buffer_bytes: usize,
        owed_bytes: u64,
        l0_files: usize,
    ) -> Self {
        Self::new(work, Kind::Compaction, total_bytes, buffer_bytes, owed_bytes, l0_files)
    }

    fn new(
        work: &Arc<FamilyWork>,
        kind: Kind,
        total_bytes: u64,
        buffer_bytes: usize,
        owed_bytes: u64,
        l0_files: usize,
    ) -> Self {
        work.running[kind as usize].fetch_add(1, Ordering::Relaxed);
        let is_measured = total_bytes >= least_measured(buffer_bytes);
        if is_measured {
            work.running_measured[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
        if l0_files > 0 {
            work.l0_taken.fetch_add(l0_files as u64, Ordering::Relaxed);
            work.l0_left.fetch_add(total_bytes, Ordering::Relaxed);
            work.l0_total.fetch_add(total_bytes, Ordering::Relaxed);
        }
        Self {
            work: Arc::clone(work),
            kind,
            total_bytes,
            is_measured,
            owed_bytes,
            l0_files,
            done_bytes: 0,
            done_owed: 0,
            done_l0: 0,
            succeeded: false,
        }
    }

    /// The job has read `done` of its `all` entries.
    pub(crate) fn reached(&mut self, done: u64, all: u64) {
        let share = done.min(all) as f64 / all.max(1) as f64;
        let bytes = ((self.total_bytes as f64 * share) as u64).max(self.done_bytes);
        let step = bytes - self.done_bytes;
        self.done_bytes = bytes;
        self.work.done[self.kind as usize].fetch_add(step, Ordering::Relaxed);
        if self.is_measured {
            self.work.measured[self.kind as usize].fetch_add(step, Ordering::Relaxed);
        }
        self.work.in_flight[self.kind as usize].fetch_add(step, Ordering::Relaxed);
        let owed = ((self.owed_bytes as f64 * share) as u64).max(self.done_owed);
        self.work.in_flight_owed.fetch_add(owed - self.done_owed, Ordering::Relaxed);
        self.done_owed = owed;
        let l0 = ((self.l0_files as f64 * FILE * share) as u64).max(self.done_l0);
        self.work.in_flight_l0.fetch_add(l0 - self.done_l0, Ordering::Relaxed);
        self.done_l0 = l0;
        if self.l0_files > 0 {
            self.work.l0_left.fetch_sub(step, Ordering::Relaxed);
        }
    }
}

impl Working {
    /// The job is over. What a failed one did counts for nothing: it will be done again.
    pub(crate) fn end(working: Option<Self>, succeeded: bool) {
        if let Some(mut working) = working {
            working.succeeded = succeeded;
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if !self.succeeded {
            self.work.done[self.kind as usize].fetch_sub(self.done_bytes, Ordering::Relaxed);
        }
        self.work.running[self.kind as usize].fetch_sub(1, Ordering::Relaxed);
        if self.is_measured {
            self.work.running_measured[self.kind as usize].fetch_sub(1, Ordering::Relaxed);
        }
        self.work.in_flight[self.kind as usize].fetch_sub(self.done_bytes, Ordering::Relaxed);
        self.work.in_flight_owed.fetch_sub(self.done_owed, Ordering::Relaxed);
        self.work.in_flight_l0.fetch_sub(self.done_l0, Ordering::Relaxed);
        if self.l0_files > 0 {
            self.work.l0_taken.fetch_sub(self.l0_files as u64, Ordering::Relaxed);
            self.work.l0_left.fetch_sub(self.total_bytes - self.done_bytes, Ordering::Relaxed);
            self.work.l0_total.fetch_sub(self.total_bytes, Ordering::Relaxed);
        }
    }
}
