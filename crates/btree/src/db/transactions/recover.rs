//! What recovery finds of transactions: prepared ones wait for a decision, unfinished ones are rolled back in the background. Both hold their locks meanwhile: their numbers are
//! active again before anyone comes in.

use super::super::state::State;
use super::super::steps::WeakState;
use super::Transactions;
use crate::event::{Event, RecoveryPhase};
use crate::metrics::Counter;
use crate::undo::{Fate, UndoLog};
use siltstone_base::Result;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;
use std::time::Duration;

/// After a round that failed, or found no room in the redo log.
const RETRY: Duration = Duration::from_millis(10);

/// The transactions that the undo log knows of.
pub(in super::super) fn recover(undo: &UndoLog) -> Result<Transactions> {
    let next = undo.next_id()?;
    let transactions = Transactions::new(next);
    let found = undo.transactions()?;
    undo.note_recovered(found.len(), next);
    for (id, fate) in found {
        match fate {
            Some(Fate::Committed) => {
                transactions.activate(id, true);
                transactions.end(id, true, true);
            }
            Some(Fate::Prepared(name)) if !is_planted(PlantedBug::PreparedIsLost) => {
                transactions.activate(id, true);
                if !transactions.reserve_name(&name, id) {
                    return Err(undo.damaged("two transactions are prepared under one name"));
                }
                transactions.set_prepared(&name);
            }
            _ => {
                if !is_planted(PlantedBug::RecoveredLocksAreLost) {
                    transactions.activate(id, true);
                }
                transactions.abandon(id);
            }
        }
    }
    Ok(transactions)
}

#[derive(Debug)]
struct RollBack(WeakState);

/// Starts the job if there is something for it to do and it does not run.
#[cold]
pub(in super::super) fn wake_roll_back(state: &Arc<State>) {
    let is_due = state.transactions.abandoned().is_some() && state.check_open().is_ok();
    if is_due && !state.transactions.is_rolling_back.swap(true, Ordering::AcqRel) {
        state.executor.submit(Priority::High, Box::new(RollBack(state.weak())));
    }
}

impl State {
    /// Undoes one change of a transaction that nobody owns.
    pub(super) fn roll_back_some(self: &Arc<Self>) -> Result<Progress> {
        let Some(id) = self.transactions.abandoned() else { return Ok(Progress::Done) };
        // One that fails keeps nobody else waiting.
        let outcome = self.roll_back_one(id);
        match &outcome {
            Ok(Progress::More) => self.transactions.note_progress(false),
            Ok(_) => {}
            Err(error) => {
                self.metrics.add(Counter::TransactionFailures, 1);
                self.note_failure("rollback", error);
                self.transactions.postpone_rollback(id, error.clone());
                self.room.notify_all();
            }
        }
        outcome
    }

    fn roll_back_one(self: &Arc<Self>, id: u64) -> Result<Progress> {
        let writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        if !self.redo.has_room(self.room_for(&[], self.pool.page_len())) {
            drop(writer);
            self.wake_cleaner();
            return Ok(Progress::After(RETRY));
        }
        let is_more = self.undo_last(id, 0)?;
        if !is_more || is_planted(PlantedBug::RollbackStopsHalfway) {
            // One that was prepared has a fate beside its changes.
            let outcome = self.undo.remove(crate::page::Stamp { id, number: 0 });
            crate::mtr::close_group(&self.pool)?;
            outcome?;
            drop(writer);
            self.transactions.forget_abandoned(id);
            self.finish(id, false);
            self.metrics.add(Counter::TransactionsRolledBack, 1);
        } else {
            drop(writer);
        }
        self.wake_jobs();
        Ok(Progress::More)
    }

    fn stop_rolling_back(self: &Arc<Self>) -> Progress {
        self.transactions.is_rolling_back.store(false, Ordering::Release);
        if let Some((duration, count)) = self.startup.note_rolled_back(&**self.executor.clock()) {
            let phase = RecoveryPhase::Rollback;
            self.events.note(|| Event::RecoveryEnded { phase, duration, count });
        }
        self.room.notify_all();
        if self.health.error().is_none() {
            wake_roll_back(self);
        }
        Progress::Done
    }
}

impl Job for RollBack {
    fn name(&self) -> &'static str {
        "rollback"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        let Some(state) = self.0.begin_step() else { return Progress::Done };
        loop {
            if state.check_open().is_err() || state.health.error().is_some() {
                state.transactions.is_rolling_back.store(false, Ordering::Release);
                return Progress::Done;
            }
            match state.roll_back_some() {
                Ok(Progress::More) if !budget.spend(32) => {}
                Ok(Progress::Done) => return state.stop_rolling_back(),
                Ok(progress) => return progress,
                Err(_) => return Progress::After(10 * RETRY),
            }
        }
    }

    fn poisoned(&mut self, message: &str) {
        super::super::background::poisoned(&self.0, "rollback", message);
    }
}
