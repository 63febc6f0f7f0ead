//! Sweeps in the background: when there is a job, and who wakes it.
//!
//! There is one job at most, and none while nothing is due. Each of its steps asks whether it may go on: not while background work is paused, a caller sweeps by hand, or
//! the tables are being closed.

use super::super::AnyTableId;
use super::super::ground::Ground;
use super::super::index::{Index, Table};
use super::super::layout::IndexId;
use super::SweepOptions;
use super::found::{Finder, Found};
use super::job::{SweepJob, note_removed};
use super::removal::Removal;
use super::versions::{Stretch, VersionWalk, VersionWalks, rows_to_remove, rows_to_walk};
use crate::db::AttachedWork;
use siltstone_base::executor::{Executor, Priority, Waited};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use siltstone_base::sync::{Arc, OnceLock, Signal, Weak};
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;

/// One in so many calls looks whether a walk is to be begun.
const CALLS_OF_A_LOOK: u32 = 64;

/// Rows that a writer walks over at a time.
const LEAST_OWED: u64 = 512;
const MOST_OWED: u64 = 8_192;

/// So many calls of writers that help are let go after one that could remove nothing without a read.
const CALLS_AFTER_VAIN_ONE: u32 = 16;

/// What sweeps in the background have done since the database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SweepFigures {
    /// Stale entries that flushes and compactions found.
    pub found: u64,
    /// Those that were left for passes: memory for them was full, or their rows changed too often.
    pub missed: u64,
    /// Stale entries that were removed, however they were found.
    pub removed: u64,
    /// Samples of an index that were taken.
    pub samples: u64,
    /// Passes over an index that are through.
    pub passes: u64,
    /// Entries that samples and passes read.
    pub entries_read: u64,
    /// Rows that were read for any of that.
    pub rows_read: u64,
    /// Seeks of samples and passes.
    pub seeks: u64,
    /// Walks over the versions of a table's rows that are through.
    pub walks: u64,
    /// Rows that those have passed, and those that are under way.
    pub rows_walked: u64,
    /// Times that something could not be read or written: it was left for later.
    pub failures: u64,
    /// Whether it has given up, after a panic.
    pub has_failed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) found: AtomicU64,
    pub(super) missed: AtomicU64,
    pub(super) removed: AtomicU64,
    pub(super) samples: AtomicU64,
    pub(super) passes: AtomicU64,
    pub(super) entries_read: AtomicU64,
    pub(super) rows_read: AtomicU64,
    pub(super) seeks: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) walks: AtomicU64,
    pub(super) rows_walked: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Sweeps in the background. Any thread may wake it.
pub(in super::super) struct Sweeper {
    pub(super) options: SweepOptions,
    executor: Weak<dyn Executor>,
    own: Weak<Self>,
    pub(super) ground: OnceLock<Weak<Ground>>,
    pub(super) found: Found,
    /// There is a job.
    pub(super) is_scheduled: AtomicBool,
    /// The job is in a step. Set before the job looks at what says that it must not be.
    pub(super) steps: AtomicUsize,
    /// Callers who sweep by hand.
    hands: AtomicUsize,
    pub(super) is_stopped: AtomicBool,
    pub(super) has_failed: AtomicBool,
    /// Walks over versions of rows.
    pub(super) walks: VersionWalks,
    /// Calls of writers, of which some look whether to begin a walk.
    calls: AtomicU32,
    /// Rows that writers have to walk over, and have not yet.
    owed_rows: AtomicU64,
    /// So many calls do not help, since the last one could not.
    vain_calls: AtomicU32,
    /// The index that is gone through; 0: none.
    pub(super) passing: AtomicU32,
    /// A step has ended.
    pub(super) ended: Signal,
    pub(super) counted: Counted,
}

impl Sweeper {
    /// The sweeper of a database that is being opened.
    pub(in super::super) fn attach(ground: &Arc<Ground>, options: &SweepOptions) -> Arc<Self> {
        let sweeper = Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            options: options.clone(),
            executor: ground.db.weak_executor(),
            ground: OnceLock::new(),
            found: Found::new(options.found_bytes),
            is_scheduled: AtomicBool::new(false),
            steps: AtomicUsize::new(0),
            hands: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            walks: VersionWalks::new(),
            calls: AtomicU32::new(0),
            owed_rows: AtomicU64::new(0),
            vain_calls: AtomicU32::new(0),
            passing: AtomicU32::new(0),
            ended: Signal::new(),
            counted: Counted::default(),
        });
        let _ = sweeper.ground.set(Arc::downgrade(ground));
        if options.in_background {
            let finder = Finder { open_tables: Arc::clone(&ground.open_tables), sweeper: Arc::clone(&sweeper) };
            let work: Arc<dyn AttachedWork> = Arc::<Self>::clone(&sweeper);
            ground.db.attach(&ground.rows, Arc::new(finder), Arc::downgrade(&work));
        }
        sweeper
    }

    pub(super) fn options(&self) -> &SweepOptions {
        &self.options
    }

    pub(super) fn figures(&self) -> SweepFigures {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counted = &self.counted;
        SweepFigures {
            found: of(&counted.found),
            missed: of(&counted.missed),
            removed: of(&counted.removed),
            samples: of(&counted.samples),
            passes: of(&counted.passes),
            entries_read: of(&counted.entries_read),
            rows_read: of(&counted.rows_read),
            seeks: of(&counted.seeks),
            walks: of(&counted.walks),
            rows_walked: of(&counted.rows_walked),
            failures: of(&counted.failures),
            has_failed: self.has_failed.load(Ordering::Relaxed),
        }
    }

    /// A flush or a compaction found entries.
    pub(super) fn note_found(self: &Arc<Self>, count: u64, is_kept: bool) {
        add(&self.counted.found, count);
        add(&self.counted.missed, if is_kept { 0 } else { count });
        self.wake();
    }

    /// Wakes the job if an index of the table is due.
    #[inline]
    pub(in super::super) fn wake_if_due(self: &Arc<Self>, table: AnyTableId) {
        if self.options.in_background && !self.is_scheduled.load(Ordering::Relaxed) {
            self.wake_if_table_is_due(table);
        }
    }

    fn wake_if_table_is_due(self: &Arc<Self>, table: AnyTableId) {
        let Some(ground) = self.ground.get().and_then(Weak::upgrade) else { return };
        let tables = ground.open_tables.load();
        if super::super::find(&tables, table).is_ok_and(|table| table.indexes.iter().any(|index| self.is_due(index))) {
            self.wake();
        }
    }

    /// Helps the job where it falls behind. Who changes `rows` rows of a table removes what was found of a few more rows if very much was found, but for rows that would have to be read; and walks over
    /// the versions of others, the more the nearer the stale share comes to its bound.
    #[inline]
    pub(in super::super) fn help(self: &Arc<Self>, ground: &Ground, table: AnyTableId, rows: usize) {
        if !self.options.in_background {
            return;
        }
        let fill = self.found.fill_per_mille();
        if fill > 0 && rows_to_remove(fill) > 0 && self.may_run() {
            self.remove_some(ground, rows.saturating_mul(rows_to_remove(fill) as usize).div_ceil(100));
        }
        if self.walks.is_under_way() || self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(CALLS_OF_A_LOOK) {
            self.help_to_walk(ground, table, rows as u64);
        }
    }

    fn help_to_walk(self: &Arc<Self>, ground: &Ground, table: AnyTableId, rows: u64) {
        if !self.options.walk_rows || !self.may_run() {
            return;
        }
        let tables = ground.open_tables.load();
        let Ok(own) = super::super::find(&tables, table) else { return };
        // Before the job has measured an index nothing is known of what is stale in it.
        let stale = Ground::stale_per_mille(own, self.options.least_stale);
        let begin = u64::from(self.options.begin_per_cent) * 10;
        let owed = rows_to_walk(stale, begin).saturating_mul(rows);
        if owed == 0 {
            return;
        }
        if !self.walks.is_under_way() {
            // The job begins before that, unless it does not get its turn.
            if stale > begin + begin / 4 && ground.begin_walk(&self.walks, own) {
                self.wake();
            }
            return;
        }
        let owed = self.owed_rows.fetch_add(owed, Ordering::Relaxed).saturating_add(owed);
        if owed < LEAST_OWED {
            return;
        }
        let Some(walk) = self.walks.take() else { return };
        self.owed_rows.store(0, Ordering::Relaxed);
        let Ok(walked) = super::super::find(&tables, walk.table) else { return self.walks.end(walk) };
        match ground.walk_stretch(walked, &walk, owed.min(MOST_OWED)) {
            Ok(stretch) => {
                self.note_stretch(walked, walk, &stretch);
                self.remove_now(ground, stretch.removal);
            }
            // Who sweeps meets it again.
            Err(_) => {
                add(&self.counted.failures, 1);
                walked.walk_rests.note_failed(ground.now_micros());
                self.walks.end(walk);
            }
        }
    }

    /// Takes note of a stretch that was walked over, and gives the walk back.
    pub(super) fn note_stretch(&self, table: &Table, walk: VersionWalk, stretch: &Stretch) {
        add(&self.counted.rows_walked, stretch.rows);
        match Ground::walked(table, walk, stretch.next.clone()) {
            Ok(walk) => self.walks.put(walk),
            Err(through) => {
                add(&self.counted.walks, 1);
                table.walk_rests.note_sound();
                self.walks.end(through);
            }
        }
    }

    fn remove_some(&self, ground: &Ground, rows: usize) {
        // Where none of them could be removed without a read, others are not asked for a while.
        let vain = self.vain_calls.load(Ordering::Relaxed);
        if vain > 0 {
            self.vain_calls.store(vain - 1, Ordering::Relaxed);
            return;
        }
        let (removal, unsure) = ground.sort_out(self.found.take(rows));
        add(&self.counted.missed, self.found.put_back(unsure));
        if removal.rows.is_empty() {
            self.vain_calls.store(CALLS_AFTER_VAIN_ONE, Ordering::Relaxed);
        }
        self.remove_now(ground, removal);
    }

    /// Removes entries as a writer. What of it fails is met by the job, and by the caller with the next write.
    fn remove_now(&self, ground: &Ground, removal: Removal) {
        if removal.rows.is_empty() {
            return;
        }
        let ids = removal.indexes().collect::<Vec<_>>();
        let (removed, left, _) = ground.remove_stale(removal);
        add(&self.counted.removed, removed);
        let left_ids: Vec<IndexId> =
            left.iter().flat_map(|(_, entries)| entries).filter_map(|entry| IndexId::of_key(entry)).collect();
        note_removed(ground, ids.into_iter(), left_ids.into_iter());
        add(&self.counted.missed, self.found.give_back(left.into_iter(), 0));
    }

    /// Whether so many of an index's entries may be stale that a look is worth while.
    pub(super) fn is_due(&self, index: &Index) -> bool {
        let (entries, stale) = index.counts.at_worst();
        let share = u128::from(entries) * u128::from(self.options.begin_per_cent);
        !index.is_building
            && stale >= self.options.least_stale
            && u128::from(stale) * 100 > share
            && index.counts.is_worth_measuring()
            && !index
                .counts
                .rests
                .is_blocked(|| self.executor.upgrade().map_or(0, |executor| executor.clock().now_micros()))
    }

    /// Sees to it that there is a job.
    fn wake(self: &Arc<Self>) {
        let is_scheduled = self.is_scheduled.load(Ordering::SeqCst);
        if is_scheduled || !self.may_run() || self.is_scheduled.swap(true, Ordering::SeqCst) {
            return;
        }
        match self.executor.upgrade() {
            Some(executor) => executor.submit(Priority::Low, Box::new(SweepJob::new(Arc::clone(self)))),
            None => self.is_scheduled.store(false, Ordering::SeqCst),
        }
    }

    pub(super) fn may_run(&self) -> bool {
        let is_held = self.is_stopped.load(Ordering::SeqCst) || self.hands.load(Ordering::SeqCst) > 0;
        self.options.in_background && !is_held && !self.has_failed.load(Ordering::Relaxed)
    }

    /// Whether there is a job that has something to do, or will have when it may.
    pub(in super::super) fn is_busy(&self) -> bool {
        self.is_scheduled.load(Ordering::SeqCst) && self.may_run()
    }

    /// Waits until there is nothing to do, or it may not be done.
    pub(in super::super) fn wait_until_idle(&self, executor: &dyn Executor) {
        executor.wait_until(&self.ended, None, &mut || !self.is_busy());
    }

    /// Whether there is something to do.
    pub(super) fn has_work(&self, ground: &Ground) -> bool {
        let is_any_due = || {
            let tables = ground.open_tables.load();
            tables
                .iter()
                .filter(|table| table.definition.lazy)
                .flat_map(|table| &table.indexes)
                .any(|own| self.is_due(own))
        };
        !self.found.is_empty() || self.walks.is_under_way() || self.passing.load(Ordering::Relaxed) != 0 || is_any_due()
    }

    /// Keeps the job from going on until the result is dropped.
    pub(super) fn by_hand(self: &Arc<Self>, executor: &dyn Executor) -> Result<ByHand> {
        self.hands.fetch_add(1, Ordering::SeqCst);
        let by_hand = ByHand(Arc::clone(self));
        self.wait_for_step(executor)?;
        Ok(by_hand)
    }

    fn wait_for_step(&self, executor: &dyn Executor) -> Result<()> {
        match executor.wait_until(&self.ended, None, &mut || self.steps.load(Ordering::SeqCst) == 0) {
            Waited::Met => Ok(()),
            _ => Err(Error::new(ErrorKind::Busy, "the sweep in the background does not end its step")),
        }
    }

    /// Keeps the job away, or lets it go on.
    #[cfg(test)]
    pub(in super::super) fn hold_for_test(self: &Arc<Self>, holds: bool) {
        match holds {
            true => drop(self.hands.fetch_add(1, Ordering::SeqCst)),
            false => drop(ByHand(Arc::clone(self))),
        }
    }

    /// Ends the sweeps, and waits for the end of the step that is under way. Nobody is to call this from a job.
    pub(in super::super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(executor) = self.executor.upgrade() {
            let _ = self.wait_for_step(&*executor);
        }
    }
}

impl AttachedWork for Sweeper {
    fn resume(&self) {
        if let Some(ground) = self.ground.get().and_then(Weak::upgrade)
            && let Some(own) = self.own.upgrade()
            && self.has_work(&ground)
        {
            own.wake();
        }
    }
}

impl fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweeper").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

/// Keeps sweeps in the background away until it is dropped.
pub(super) struct ByHand(Arc<Sweeper>);

impl Drop for ByHand {
    fn drop(&mut self) {
        if self.0.hands.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(ground) = self.0.ground.get().and_then(Weak::upgrade)
            && self.0.has_work(&ground)
        {
            self.0.wake();
        }
    }
}
