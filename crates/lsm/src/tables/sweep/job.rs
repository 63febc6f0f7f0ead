//! The job that sweeps: it takes turns between what flushes and compactions found and the index that it goes through, if there is one.

use super::super::ground::Ground;
use super::super::index::Index;
use super::super::layout::IndexId;
use super::batch::{Advance, Batch};
use super::removal::{Removing, WRITE_ROWS};
use super::sweeper::{Sweeper, add};
use crate::db::{Moved, UpkeepMeter};
use siltstone_base::executor::{Budget, Job, Progress as JobProgress};
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::sync::{Arc, Weak};
use siltstone_base::{ErrorKind, Result};
use std::time::Duration;

/// Entries that are read, and rows, between two looks at the budget.
const UNITS: usize = 256;
const ROWS: usize = 8;

/// Writes that stand in the queue of writers at the same time.
const REPAIRS: usize = 8;

/// How long the job leaves to writers what they have in hand: until it looks whether its own write is done, and after one for which there was no room.
const WRITE_WAIT: Duration = Duration::from_millis(1);
const ROOM_WAIT: Duration = Duration::from_millis(5);

/// While compactions run, a pass leaves them so many times as long as its last reads took.
const RESTS: u64 = 3;

/// Failures in a row after which it gives up until the database is opened again.
const MOST_FAILURES: u32 = 5;

/// A step of the job, until it is dropped.
struct InStep<'a>(&'a Sweeper);

impl Drop for InStep<'_> {
    fn drop(&mut self) {
        self.0.steps.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify_all();
    }
}

/// An index that is gone through, or sampled.
struct InHand {
    id: IndexId,
    batch: Batch,
    is_sample: bool,
    removing: Option<Removing>,
}

/// What comes of going on with one thing.
enum Turn {
    /// It did about so much.
    Did(u32),
    /// It goes on later.
    Waits,
    Nothing,
}

/// Sweeps.
pub(super) struct SweepJob {
    sweeper: Arc<Sweeper>,
    meter: UpkeepMeter,
    moved: Moved,
    /// What is being removed of what was found, and how often it was looked at before.
    repairs: Vec<(Removing, u32)>,
    in_hand: Option<InHand>,
    /// The index in hand is left alone until then.
    pass_due_micros: u64,
    failures: u32,
}

impl SweepJob {
    pub(super) fn new(sweeper: Arc<Sweeper>) -> Self {
        let (meter, moved) = (UpkeepMeter::default(), Moved::default());
        Self { sweeper, meter, moved, repairs: Vec::new(), in_hand: None, pass_due_micros: 0, failures: 0 }
    }

    fn go_on(&mut self, ground: &Arc<Ground>, budget: &mut Budget<'_>) -> JobProgress {
        let turn = if self.sweeper.may_run() { ground.db.turn() } else { None };
        let Some(_turn) = turn else {
            self.let_go();
            return self.rest(ground);
        };
        if let Some(wait) = ground.db.upkeep_wait(&mut self.meter) {
            return JobProgress::After(wait);
        }
        let outcome = self.work(ground, budget);
        let wait = ground.db.meter_upkeep(&mut self.meter, std::mem::take(&mut self.moved));
        match outcome {
            Ok(JobProgress::Done) => self.rest(ground),
            Ok(progress) => {
                self.failures = 0;
                match (wait, progress) {
                    (Some(wait), JobProgress::More) => JobProgress::After(wait),
                    (Some(wait), JobProgress::After(other)) => JobProgress::After(wait.max(other)),
                    _ => progress,
                }
            }
            Err(error) if error.kind() == ErrorKind::Incomplete => JobProgress::After(ROOM_WAIT),
            Err(error) => {
                self.in_hand = None;
                self.repairs.clear();
                // Of a table that was dropped nothing is wanted any more.
                if error.kind() == ErrorKind::NotFound {
                    self.sweeper.passing.store(0, Ordering::Relaxed);
                    return JobProgress::More;
                }
                self.failures += 1;
                if self.failures >= MOST_FAILURES {
                    self.sweeper.has_failed.store(true, Ordering::Relaxed);
                    return self.rest(ground);
                }
                JobProgress::After(Duration::from_millis(100 << self.failures))
            }
        }
    }

    /// Ends, unless something came in between.
    fn rest(&self, ground: &Ground) -> JobProgress {
        let sweeper = &self.sweeper;
        sweeper.is_scheduled.store(false, Ordering::SeqCst);
        let goes_on = sweeper.may_run()
            && ground.db.gives_turns()
            && sweeper.has_work(ground)
            && !sweeper.is_scheduled.swap(true, Ordering::SeqCst);
        if goes_on { JobProgress::More } else { JobProgress::Done }
    }

    /// Lets everything go; what was found is looked at again.
    fn let_go(&mut self) {
        self.in_hand = None;
        for (removing, tries) in self.repairs.drain(..) {
            let missed = self.sweeper.found.give_back(removing.into_rest(), tries);
            add(&self.sweeper.counted.missed, missed);
        }
    }

    /// Works until the budget is spent, or there is nothing to do but to wait.
    fn work(&mut self, ground: &Arc<Ground>, budget: &mut Budget<'_>) -> Result<JobProgress> {
        loop {
            let (repair, pass) = (self.repair(ground)?, self.pass_in_turn(ground)?);
            match (repair, pass) {
                (Turn::Did(one), Turn::Did(other)) => {
                    if budget.spend(one.saturating_add(other)) {
                        return Ok(JobProgress::More);
                    }
                }
                (Turn::Did(units), _) | (_, Turn::Did(units)) => {
                    if budget.spend(units) {
                        return Ok(JobProgress::More);
                    }
                }
                (Turn::Waits, _) | (_, Turn::Waits) => return Ok(JobProgress::After(WRITE_WAIT)),
                (Turn::Nothing, Turn::Nothing) => return Ok(JobProgress::Done),
            }
        }
    }

    /// Goes on with what flushes and compactions found.
    fn repair(&mut self, ground: &Ground) -> Result<Turn> {
        let counted = &self.sweeper.counted;
        let mut at = 0;
        while let Some((removing, _)) = self.repairs.get_mut(at) {
            let is_done = removing.poll(ground, |removal| {
                add(&counted.removed, removal.entries());
                note_removed(ground, removal.indexes());
            })?;
            if !is_done {
                at += 1;
                continue;
            }
            let (removing, tries) = self.repairs.swap_remove(at);
            add(&counted.missed, self.sweeper.found.give_back(removing.into_rest(), tries));
        }
        if self.repairs.len() >= REPAIRS {
            return Ok(Turn::Waits);
        }
        let suspects = self.sweeper.found.take(WRITE_ROWS);
        if suspects.is_empty() {
            let is_done = self.repairs.is_empty() && self.sweeper.found.is_empty();
            return Ok(if is_done { Turn::Nothing } else { Turn::Waits });
        }
        let units = u32::try_from(suspects.len()).unwrap_or(u32::MAX);
        let looked = ground.look_at(suspects)?;
        add(&counted.rows_read, looked.rows);
        self.moved.read += looked.bytes;
        self.moved.written +=
            looked.removal.rows.iter().flat_map(|row| &row.1).map(|key| key.len() as u64).sum::<u64>();
        if !looked.removal.rows.is_empty() {
            self.repairs.push((Removing::new(looked.removal), looked.tries));
        }
        Ok(Turn::Did(units))
    }

    /// Goes on with the index in hand, unless it is to leave the thread to compactions: where the device is slow, some reads take far longer than one of their steps. What was found does
    /// not wait for that.
    fn pass_in_turn(&mut self, ground: &Arc<Ground>) -> Result<Turn> {
        let clock = ground.db.executor().clock();
        let began = clock.now_micros();
        if began < self.pass_due_micros {
            return Ok(Turn::Waits);
        }
        let turn = self.pass(ground)?;
        let ended = clock.now_micros();
        if ended > began && ground.db.is_compacting() {
            self.pass_due_micros = ended.saturating_add(RESTS * (ended - began));
        }
        Ok(turn)
    }

    /// Goes on with the index in hand, or takes the next one.
    fn pass(&mut self, ground: &Arc<Ground>) -> Result<Turn> {
        let Some(in_hand) = &mut self.in_hand else { return self.take_in_hand(ground) };
        let counted = &self.sweeper.counted;
        let Some((table, index)) = ground.lazy_index(in_hand.id) else {
            self.in_hand = None;
            self.sweeper.passing.store(0, Ordering::Relaxed);
            return Ok(Turn::Did(1));
        };
        if let Some(removing) = &mut in_hand.removing {
            let batch = &mut in_hand.batch;
            let is_done = removing.poll(ground, |removal| {
                batch.removed += removal.entries();
                add(&counted.removed, removal.entries());
            })?;
            if !is_done {
                return Ok(Turn::Waits);
            }
            in_hand.removing = None;
        }
        let (_, rows_before, _) = in_hand.batch.figures();
        let units = if in_hand.batch.is_reading_rows() { ROWS } else { UNITS };
        let advance = in_hand.batch.advance(ground, &table, &index, units)?;
        let moved = std::mem::take(&mut in_hand.batch.moved);
        add(&counted.seeks, std::mem::take(&mut in_hand.batch.seeks));
        self.moved.read += moved.read;
        self.moved.written += moved.written;
        add(&counted.rows_read, in_hand.batch.figures().1 - rows_before);
        match advance {
            Advance::More(units) => return Ok(Turn::Did(units)),
            Advance::Remove(removal) => {
                in_hand.removing = Some(Removing::new(removal));
                return Ok(Turn::Did(1));
            }
            Advance::Done => {}
        }
        if let Some(done) = self.in_hand.take() {
            self.end(ground, &index, done)?;
        }
        Ok(Turn::Did(1))
    }

    /// Takes what is due in hand: the next entries of the index that is gone through, or an index that may have many stale ones.
    fn take_in_hand(&mut self, ground: &Arc<Ground>) -> Result<Turn> {
        let sweeper = &self.sweeper;
        let passing = IndexId(sweeper.passing.load(Ordering::Relaxed));
        if passing.0 != 0 {
            let Some((_, index)) = ground.lazy_index(passing) else {
                sweeper.passing.store(0, Ordering::Relaxed);
                return Ok(Turn::Did(1));
            };
            let progress = ground.sweeps.copy(passing);
            let batch = Batch::next_of(ground, &index, &progress, sweeper.options.step_entries);
            self.in_hand = Some(InHand { id: passing, batch, is_sample: false, removing: None });
            return Ok(Turn::Did(1));
        }
        let tables = ground.open_tables.load();
        let lazy = tables.iter().filter(|table| table.definition.lazy);
        let Some(index) = lazy.flat_map(|table| &table.indexes).find(|index| sweeper.is_due(index)) else {
            return Ok(Turn::Nothing);
        };
        let number = sweeper.counted.samples.load(Ordering::Relaxed);
        match Batch::sample(ground, index, number)? {
            Some(batch) => self.in_hand = Some(InHand { id: index.id, batch, is_sample: true, removing: None }),
            None => sweeper.passing.store(index.id.0, Ordering::Relaxed),
        }
        Ok(Turn::Did(1))
    }

    /// Takes note of what a sample, or some entries of a pass, have shown.
    fn end(&self, ground: &Ground, index: &Index, done: InHand) -> Result<()> {
        let counted = &self.sweeper.counted;
        let (entries, _, stale) = done.batch.figures();
        add(&counted.entries_read, entries);
        if done.is_sample {
            add(&counted.samples, 1);
            index.counts.note_sampled(done.batch.mark(), ground.entries_of(index)?, entries, stale);
            if stale * 100 > entries * u64::from(self.sweeper.options.begin_per_cent) {
                self.sweeper.passing.store(index.id.0, Ordering::Relaxed);
            }
            return Ok(());
        }
        let mut progress = ground.sweeps.copy(index.id);
        // Those who sweep by hand count their own.
        let passes = progress.passes;
        let is_through = done.batch.end(index, &mut progress);
        progress.passes = passes;
        ground.sweeps.put(index.id, progress);
        if is_through {
            add(&counted.passes, 1);
            self.sweeper.passing.store(0, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Counts removed entries off the indexes that had them.
pub(super) fn note_removed(ground: &Ground, ids: impl Iterator<Item = IndexId>) {
    let tables = ground.open_tables.load();
    let indexes = || tables.iter().filter(|table| table.definition.lazy).flat_map(|table| &table.indexes);
    for id in ids {
        if let Some(index) = indexes().find(|index| index.id == id) {
            index.counts.note_removed(1);
        }
    }
}

impl Job for SweepJob {
    fn name(&self) -> &'static str {
        "sweep"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> JobProgress {
        let sweeper = Arc::clone(&self.sweeper);
        sweeper.steps.fetch_add(1, Ordering::SeqCst);
        // Given back last: whoever closes the tables waits for it, so that this is not the last to hold the database.
        let _in_step = InStep(&sweeper);
        if sweeper.is_stopped.load(Ordering::SeqCst) {
            return JobProgress::Done;
        }
        let Some(ground) = sweeper.ground.get().and_then(Weak::upgrade) else { return JobProgress::Done };
        self.go_on(&ground, budget)
    }

    fn poisoned(&mut self, _: &str) {
        self.sweeper.has_failed.store(true, Ordering::Relaxed);
        self.sweeper.is_scheduled.store(false, Ordering::SeqCst);
        self.sweeper.ended.notify_all();
    }
}
