//! Purge: what no view needs any more is removed, a few records at a time.

use super::super::state::State;
use super::super::steps::WeakState;
use crate::metrics::Counter;
use crate::mtr::{Close, close_group};
use crate::page::{FLAG_DELETED, Stamp};
use crate::tree::{EntryOp, Tree, Value};
use crate::undo::UndoRecord;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::{ErrorKind, Result};
use std::time::Duration;

/// Records of one group: its pages stay in memory until it is closed.
const RECORDS: usize = 4;

/// After a round that failed, or found no room in the redo log.
const RETRY: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Purge(WeakState);

/// Starts the job if it does not run.
#[cold]
pub(in super::super) fn wake_purge(state: &Arc<State>) {
    let is_due = state.transactions.purgeable().is_some() && state.check_open().is_ok();
    if is_due && !state.transactions.is_purging.swap(true, Ordering::AcqRel) {
        state.executor.submit(Priority::Low, Box::new(Purge(state.weak())));
    }
}

/// Removes the entry that a change marked, or looks whether the row is still as it was marked. Returns whether the entry's leaf should be merged, or whether the row is to be removed.
///
/// Before the record goes by which it is found again: a leaf that cannot be read now may be later. What is damaged stays marked.
fn begin(tree: &Tree, stamp: Stamp, record: &UndoRecord) -> Result<bool> {
    let is_marked =
        |(flags, bytes): (u8, Vec<u8>)| flags & FLAG_DELETED != 0 && Stamp::of(flags, &bytes) == Some(stamp);
    let outcome = if record.is_entry {
        tree.apply_entry(&record.key, EntryOp::Remove { only_if: Some(stamp) })
    } else {
        tree.raw(&record.key).map(|cell| cell.is_some_and(is_marked))
    };
    match outcome {
        Err(error) if error.kind() == ErrorKind::Corruption => Ok(false),
        outcome => outcome,
    }
}

impl State {
    /// Removes some records of the oldest transaction that everyone sees. Returns what to do next.
    pub(super) fn purge_some(self: &Arc<Self>) -> Result<Progress> {
        let Some(id) = self.transactions.purgeable() else {
            let is_left = self.transactions.resume_purge();
            return Ok(if is_left { Progress::After(10 * RETRY) } else { Progress::Done });
        };
        let outcome = self.purge_one(id);
        if let Ok(Progress::More) = outcome {
            self.transactions.note_progress(true);
        }
        if let Err(error) = &outcome
            && self.check_open().is_ok()
            && self.health.error().is_none()
        {
            // It keeps nobody else waiting.
            self.metrics.add(Counter::TransactionFailures, 1);
            self.note_failure("purge", error);
            self.transactions.postpone_purge(id, error.clone());
            self.room.notify_all();
            return Ok(Progress::More);
        }
        outcome
    }

    /// Brings the leaves in that purge is going to change, before it takes the lock of writers.
    fn bring_in_purged(&self, id: u64) {
        for (_, record) in self.undo.records(id, 1, RECORDS).unwrap_or_default() {
            if let Some(open) = self.tree_of(record.space).filter(|_| record.is_deletion) {
                self.bring_in(&open, &record.key);
            }
        }
    }

    fn purge_one(self: &Arc<Self>, id: u64) -> Result<Progress> {
        if self.pool.is_ahead() {
            self.bring_in_purged(id);
        }
        let writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        if !self.redo.has_room(self.room_for(&[], 2 * RECORDS * self.pool.page_len())) {
            drop(writer);
            self.wake_cleaner();
            return Ok(Progress::After(RETRY));
        }
        let records = self.undo.records(id, 1, RECORDS)?;
        if records.is_empty() {
            // The fate goes last: records without one would be taken for those of an unfinished transaction.
            let stamp = Stamp { id, number: 0 };
            let outcome = self.undo.remove(stamp);
            close_group(&self.pool)?;
            if outcome? {
                self.undo.merge(stamp);
            }
            self.transactions.purged(id);
            self.note_purged();
            self.undo.note_gone(id);
            self.metrics.add(Counter::TransactionsPurged, 1);
            return Ok(Progress::More);
        }
        let (mut underfull, mut log_underfull) = (Vec::new(), None);
        let mut outcome = Ok(());
        for (number, record) in &records {
            let stamp = Stamp { id, number: *number };
            let open = self.tree_of(record.space);
            let due = open
                .as_ref()
                .filter(|_| record.is_deletion)
                .map_or(Ok(false), |open| begin(open.tree(), stamp, record));
            let is_due = match due {
                Ok(is_due) => is_due,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            // The record first: what fails behind it leaves pages that are lost, or a row that is marked, and never a record of what is gone.
            match self.undo.remove_change(stamp, &record.changed()) {
                Ok(is_underfull) => log_underfull = log_underfull.or(is_underfull.then_some(stamp)),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            let Some(open) = open else { continue };
            if record.is_entry {
                if is_due {
                    underfull.push((open, &record.key));
                }
                continue;
            }
            if let Some(chain) = record.before.as_ref().and_then(|(flags, bytes)| Value::new(*flags, bytes).chain()) {
                let _ = open.tree().give_back(&chain, Close::Open);
            }
            if is_due && let Ok(true) = open.tree().delete(&record.key, true, Close::Open, &mut |_| Ok(())) {
                underfull.push((open, &record.key));
            }
        }
        close_group(&self.pool)?;
        for (open, key) in underfull {
            let _ = open.tree().merge_at(key, Close::Group);
        }
        if let Some(stamp) = log_underfull {
            self.undo.merge(stamp);
        }
        self.metrics.add(Counter::UndoRecordsPurged, records.len() as u64);
        drop(writer);
        self.wake_jobs();
        outcome.map(|()| Progress::More)
    }

    /// Waits until nothing is left that purge or a rollback in the background can do: what failed once meanwhile may fail for ever.
    pub(in super::super) fn settle(self: &Arc<Self>) {
        let transactions = &self.transactions;
        transactions.note_progress(true);
        transactions.note_progress(false);
        wake_purge(self);
        let is_busy = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let mut is_over = || {
            let is_stopped = self.check_open().is_err() || self.health.error().is_some();
            let (no_purge, no_rollback) = transactions.is_stuck();
            let purges = transactions.purgeable().is_some() || is_busy(&transactions.is_purging);
            let rolls_back = transactions.abandoned().is_some() || is_busy(&transactions.is_rolling_back);
            is_stopped || ((no_purge || !purges) && (no_rollback || !rolls_back))
        };
        self.executor.wait_until(&self.room, None, &mut is_over);
    }

    fn stop_purging(self: &Arc<Self>) -> Progress {
        self.transactions.is_purging.store(false, Ordering::Release);
        self.room.notify_all();
        // Whoever committed, or gave a view back, just before found the job running.
        if self.health.error().is_none() {
            wake_purge(self);
        }
        Progress::Done
    }
}

impl Job for Purge {
    fn name(&self) -> &'static str {
        "purge"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        let Some(state) = self.0.begin_step() else { return Progress::Done };
        loop {
            if state.check_open().is_err() || state.health.error().is_some() {
                state.transactions.is_purging.store(false, Ordering::Release);
                return Progress::Done;
            }
            match state.purge_some() {
                Ok(Progress::More) if !budget.spend(32) => {}
                Ok(Progress::Done) => return state.stop_purging(),
                Ok(progress) => return progress,
                Err(_) => return Progress::After(10 * RETRY),
            }
        }
    }

    fn poisoned(&mut self, message: &str) {
        super::super::background::poisoned(&self.0, "purge", message);
    }
}
