//! Sweeps in the background: when there is a job, and who wakes it.
//!
//! There is one job at most, and none while nothing is due. Each of its steps asks whether it may go on: not while background work is paused, a caller sweeps by hand, or
//! the tables are being closed.

use super::super::AnyTableId;
use super::super::ground::Ground;
use super::super::index::Index;
use super::SweepOptions;
use super::found::{Finder, Found};
use super::job::{SweepJob, note_removed};
use crate::db::AttachedWork;
use siltstone_base::executor::{Executor, Priority, Waited};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use siltstone_base::sync::{Arc, OnceLock, Signal, Weak};
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;

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
    /// Whether it has given up, after failures in a row.
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

    /// Removes some of what was found if there is so much that the job falls behind: who changes `rows` rows makes up for a few more. Rows that would have to be read are left to the job. What does not
    /// succeed is left to passes.
    #[inline]
    pub(in super::super) fn help(&self, ground: &Ground, rows: usize) {
        if self.options.in_background && !self.found.is_empty() && self.found.is_behind() {
            let missed = self.remove_some(ground, rows + rows / 2 + 1).unwrap_or(0);
            add(&self.counted.missed, missed);
        }
    }

    fn remove_some(&self, ground: &Ground, rows: usize) -> Result<u64> {
        let (removal, unsure) = ground.sort_out(self.found.take(rows))?;
        let mut missed = self.found.put_back(unsure);
        if !removal.rows.is_empty() {
            let (entries, ids) = (removal.entries(), removal.indexes().collect::<Vec<_>>());
            let removed = ground.remove_stale(removal)?;
            add(&self.counted.removed, removed);
            missed += entries - removed;
            if removed == entries {
                note_removed(ground, ids.into_iter());
            }
        }
        Ok(missed)
    }

    /// Whether so many of an index's entries may be stale that a look is worth while.
    pub(super) fn is_due(&self, index: &Index) -> bool {
        let (entries, stale) = index.counts.at_worst();
        let share = u128::from(entries) * u128::from(self.options.begin_per_cent);
        !index.is_building
            && stale >= self.options.least_stale
            && u128::from(stale) * 100 > share
            && index.counts.is_worth_measuring()
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
        !self.found.is_empty() || self.passing.load(Ordering::Relaxed) != 0 || is_any_due()
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
