//! When callers only read any more: what is in memory and in level 0 goes down early, so that reads ask fewer places.
//!
//! A job looks every so many seconds while there is something to write down: [`decision`] says from what was written and read since the last look whether the workload
//! has turned read-only. It then flushes, and has the picker empty level 0 whatever the trigger says. Writers start the job again; where nobody reads either it looks
//! more and more seldom, and then ends.

mod decision;
#[cfg(test)]
mod tests;

use super::column_family::Family;
use super::state::{DbInner, FamilyState};
use crate::event::FlushReason;
use crate::key::SeqNo;
use crate::metrics::Counter;
use crate::options::FlushOptions;
use decision::{Decision, Look, Memory};
use siltstone_base::Result;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, Weak};
use std::time::Duration;

/// Whether the job of a database runs.
#[derive(Debug, Default)]
pub(crate) struct ReadOnlyTurn {
    is_watched: AtomicBool,
}

struct WatchJob {
    db: Weak<DbInner>,
    every: Duration,
    memory: Memory,
    begun: bool,
}

impl Job for WatchJob {
    fn name(&self) -> &'static str {
        "read-only watch"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let Some(db) = self.db.upgrade() else { return Progress::Done };
        if db.is_closing() || db.errors.is_failed() {
            return Progress::Done;
        }
        let look = db.look_at_use();
        let is_written = self.memory.has_changed(&look);
        let decision = self.memory.look(&look, self.every);
        if !is_written || decision == Decision::End {
            db.memtable_memory.free_spares();
        }
        if !std::mem::replace(&mut self.begun, true) {
            return Progress::After(self.every);
        }
        if decision != Decision::Drain {
            db.set_drains(None);
        }
        match decision {
            Decision::LookAgain(delay) => Progress::After(delay),
            Decision::Drain => {
                db.drain();
                Progress::After(self.every)
            }
            Decision::End => {
                db.read_only_turn.is_watched.store(false, Ordering::SeqCst);
                // A write that came meanwhile saw the job running.
                let goes_on = self.memory.has_changed(&db.look_at_use())
                    && !db.read_only_turn.is_watched.swap(true, Ordering::SeqCst);
                if goes_on { Progress::After(self.every) } else { Progress::Done }
            }
        }
    }

    fn poisoned(&mut self, message: &str) {
        if let Some(db) = self.db.upgrade() {
            db.fail_poisoned(self.name(), message);
        }
    }
}

impl DbInner {
    /// Whether somebody must start to watch what callers do.
    #[inline]
    pub(crate) fn is_unwatched(&self) -> bool {
        self.options.drain_when_read_only_seconds > 0 && !self.read_only_turn.is_watched.load(Ordering::Relaxed)
    }

    /// Starts the job, unless it runs.
    #[cold]
    pub(crate) fn watch(self: &Arc<Self>) {
        if !self.read_only_turn.is_watched.swap(true, Ordering::SeqCst) {
            let every = Duration::from_secs(self.options.drain_when_read_only_seconds);
            let job = WatchJob { db: Arc::downgrade(self), every, memory: Memory::default(), begun: false };
            self.executor.submit(Priority::Idle, Box::new(job));
        }
    }

    fn look_at_use(&self) -> Look {
        let reads =
            [Counter::KeysRead, Counter::IterSeeks, Counter::IterSteps].map(|counter| self.metrics.get(counter));
        let state = self.state.lock();
        let has_work = self.families.load().values().any(|family| {
            let pinned = family.super_version.load();
            let empties_level0 = |background: &FamilyState| {
                let is_done = pinned.options.disable_auto_compactions;
                !is_done && (background.running.has_level0() || self.drain_of(&pinned, background).is_some())
            };
            let is_in_memory = !pinned.memtable.is_empty() || !pinned.immutables.is_empty();
            is_in_memory || state.families.get(&family.id).is_some_and(empties_level0)
        });
        drop(state);
        Look { writes: self.visible(), reads: reads.into_iter().fold(0, u64::wrapping_add), has_work }
    }

    /// Flushes everything, and lets level 0 be compacted. A writer that leads is left alone: it shows that there are writes.
    fn drain(self: &Arc<Self>) {
        let Some(mut leader) = self.try_lock_write_side() else { return };
        // Closing takes the WAL under the same lock, and does not wait for who only looks: the next WAL's name may be another opening's by now.
        if self.check_writable().is_err() {
            return;
        }
        let families: Vec<Arc<Family>> = self.families.load().values().cloned().collect();
        let newest = self.visible();
        let switched = self.switch_memtables(&mut leader.side, &families, FlushReason::ReadOnly);
        drop(leader);
        if switched.is_ok() {
            self.set_drains(Some(newest));
            self.schedule();
        }
    }

    /// Flushes everything, compacts level 0 and waits for both, whoever writes or reads.
    pub(crate) fn drain_at_once(self: &Arc<Self>) -> Result<()> {
        let families: Vec<Arc<Family>> = self.families.load().values().cloned().collect();
        self.flush(&families, &FlushOptions::default())?;
        let newest = self.visible();
        loop {
            self.set_drains(Some(newest));
            self.wait_until_idle()?;
            // The watch may have taken it back meanwhile.
            if self.visible() != newest || !self.can_drain() {
                return Ok(());
            }
        }
    }

    /// Whether draining would compact anything of level 0.
    fn can_drain(&self) -> bool {
        let state = self.state.lock();
        self.families.load().values().any(|family| {
            let pinned = family.super_version.load();
            let drains = |background| self.drain_of(&pinned, background).is_some();
            !pinned.options.disable_auto_compactions && state.families.get(&family.id).is_some_and(drains)
        })
    }

    fn set_drains(&self, drains: Option<SeqNo>) {
        let mut state = self.state.lock();
        for family in self.families.load().values() {
            if let Some(background) = state.families.get_mut(&family.id) {
                background.drains = drains;
            }
        }
    }
}
