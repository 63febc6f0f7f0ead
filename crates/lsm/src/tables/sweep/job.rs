//! The job that sweeps: it takes turns between what flushes and compactions found and the index that it goes through, if there is one.

use super::super::find;
use super::super::ground::Ground;
use super::super::index::{Index, Table};
use super::super::layout::IndexId;
use super::batch::{Advance, Batch};
use super::found::Looked;
use super::removal::{Removing, WRITE_ROWS};
use super::sweeper::{Sweeper, add};
use crate::db::{Moved, UpkeepMeter};
use siltstone_base::executor::{Budget, Job, Progress as JobProgress};
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::sync::{Arc, Weak};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// Entries that are read, and rows, between two looks at the budget.
const UNITS: usize = 256;
const ROWS: usize = 8;

/// The same of a sample, which is not large.
const SAMPLE_PLACES: usize = 8;
const SAMPLE_ROWS: usize = 64;

/// Rows of a stretch of a walk.
const WALK_ROWS: u64 = 512;

/// Writes that stand in the queue of writers at the same time.
const REPAIRS: usize = 8;

/// How long the job leaves to writers what they have in hand: until it looks whether its own write is done, and after one for which there was no room.
const WRITE_WAIT: Duration = Duration::from_millis(1);
const ROOM_WAIT: Duration = Duration::from_millis(5);

/// While compactions run, a pass leaves them so many times as long as its last reads took.
const RESTS: u64 = 1;

/// How long it waits for a flush to end that found something.
const EARLY_WAIT: Duration = Duration::from_millis(20);

/// Longer it holds no snapshot: compactions keep every version that one sees.
const MOST_AGE_MICROS: u64 = 10_000_000;

/// The same for a sample, which is small: where its few reads take so long, the index is left alone for a while.
const MOST_SAMPLE_AGE_MICROS: u64 = 6 * MOST_AGE_MICROS;

/// The fewest entries of a batch that is left off because of its age: a smaller one takes the time that it takes.
const LEAST_STEP: usize = 64;

/// After failures to write in a row it waits the longer; so often the time is doubled at most.
const MOST_DOUBLINGS: u32 = 9;

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
    /// When its snapshot was taken.
    since_micros: u64,
}

/// What comes of going on with one thing.
enum Turn {
    /// It did about so much.
    Did(u32),
    /// It goes on later, about so long from now.
    Waits(Duration),
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
    /// The index that was in hand last.
    last: IndexId,
    /// The index in hand is left alone until then.
    pass_due_micros: u64,
    /// Entries of the next batch: fewer after one that took too long.
    step_entries: usize,
    failures: u32,
}

impl SweepJob {
    pub(super) fn new(sweeper: Arc<Sweeper>) -> Self {
        let step_entries = sweeper.options.step_entries;
        Self {
            sweeper,
            meter: UpkeepMeter::default(),
            moved: Moved::default(),
            repairs: Vec::new(),
            in_hand: None,
            last: IndexId(0),
            pass_due_micros: 0,
            step_entries,
            failures: 0,
        }
    }

    fn go_on(&mut self, ground: &Arc<Ground>, budget: &mut Budget<'_>) -> JobProgress {
        let turn = if self.sweeper.may_run() { ground.db.turn() } else { None };
        let Some(_turn) = turn else {
            self.let_go();
            return self.rest(ground);
        };
        if let Some(wait) = ground.db.upkeep_wait(&mut self.meter) {
            return self.wait(ground, wait);
        }
        self.let_go_of_old(ground, Duration::ZERO);
        let outcome = self.work(ground, budget);
        let wait = ground.db.meter_upkeep(&mut self.meter, std::mem::take(&mut self.moved));
        match outcome {
            Ok(JobProgress::Done) => self.rest(ground),
            Ok(progress) => {
                self.failures = 0;
                match (wait, progress) {
                    (Some(wait), JobProgress::More) => self.wait(ground, wait),
                    (Some(wait), JobProgress::After(other)) => self.wait(ground, wait.max(other)),
                    (None, JobProgress::After(wait)) => self.wait(ground, wait),
                    _ => progress,
                }
            }
            // What was found and cannot be written is looked at again, and left to a pass in the end.
            Err(_) => {
                add(&self.sweeper.counted.failures, 1);
                self.let_go();
                self.failures = (self.failures + 1).min(MOST_DOUBLINGS);
                JobProgress::After(Duration::from_millis(100 << self.failures))
            }
        }
    }

    fn wait(&mut self, ground: &Ground, wait: Duration) -> JobProgress {
        self.let_go_of_old(ground, wait);
        JobProgress::After(wait)
    }

    /// Lets everything go whose snapshots would be held for too long after a wait.
    fn let_go_of_old(&mut self, ground: &Ground, wait: Duration) {
        let now = ground.db.executor().clock().now_micros();
        let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let is_old = |since: u64| now.saturating_add(wait).saturating_sub(since) > MOST_AGE_MICROS;
        let mut at = 0;
        while let Some((removing, _)) = self.repairs.get(at) {
            if !is_old(removing.since_micros) {
                at += 1;
                continue;
            }
            let (removing, tries) = self.repairs.swap_remove(at);
            add(&self.sweeper.counted.missed, self.sweeper.found.give_back(removing.into_rest(), tries));
        }
        let age = |since: u64| now.saturating_add(wait).saturating_sub(since);
        if let Some(sample) =
            self.in_hand.take_if(|in_hand| in_hand.is_sample && age(in_hand.since_micros) > MOST_SAMPLE_AGE_MICROS)
            && let Some((_, index)) = ground.lazy_index(sample.id)
        {
            add(&self.sweeper.counted.failures, 1);
            index.counts.rests.note_failed(now);
        }
        // Of a small batch something has to come some day.
        let is_long = |in_hand: &mut InHand| !in_hand.is_sample && is_old(in_hand.since_micros);
        if self.step_entries > LEAST_STEP
            && let Some(in_hand) = self.in_hand.take_if(is_long)
        {
            let mut progress = ground.sweeps.copy(in_hand.id);
            in_hand.batch.leave_off(&mut progress);
            if let Some((table, _)) = ground.lazy_index(in_hand.id) {
                ground.sweeps.put_uncounted(&table, in_hand.id, progress);
            }
            self.step_entries = (self.step_entries / 2).max(LEAST_STEP);
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
            let (repair, pass) = (self.repair(ground)?, self.pass_in_turn(ground));
            let units = match (repair, pass) {
                (Turn::Did(one), Turn::Did(other)) => one.saturating_add(other),
                (Turn::Did(units), _) | (_, Turn::Did(units)) => units,
                (Turn::Waits(one), Turn::Waits(other)) => return Ok(JobProgress::After(one.min(other))),
                (Turn::Waits(wait), _) | (_, Turn::Waits(wait)) => return Ok(JobProgress::After(wait)),
                (Turn::Nothing, Turn::Nothing) => return Ok(JobProgress::Done),
            };
            if budget.spend(units) {
                return Ok(JobProgress::More);
            }
        }
    }

    /// Goes on with what flushes and compactions found.
    fn repair(&mut self, ground: &Ground) -> Result<Turn> {
        let counted = &self.sweeper.counted;
        let (mut at, mut has_room) = (0, true);
        while let Some((removing, _)) = self.repairs.get_mut(at) {
            let polled = removing.poll(ground, |removal| {
                add(&counted.removed, removal.entries());
                note_removed(ground, removal.indexes(), std::iter::empty());
            });
            match polled {
                Ok(true) => {
                    let (removing, tries) = self.repairs.swap_remove(at);
                    add(&counted.missed, self.sweeper.found.give_back(removing.into_rest(), tries));
                }
                Ok(false) => at += 1,
                Err(error) if error.kind() == ErrorKind::Incomplete => {
                    has_room = false;
                    at += 1;
                }
                Err(error) => return Err(error),
            }
        }
        if !has_room {
            return Ok(Turn::Waits(ROOM_WAIT));
        }
        if self.repairs.len() >= REPAIRS {
            return Ok(Turn::Waits(WRITE_WAIT));
        }
        let suspects = self.sweeper.found.take(WRITE_ROWS);
        if suspects.is_empty() {
            return Ok(match self.repairs.is_empty() {
                true if self.sweeper.found.is_empty() => Turn::Nothing,
                true if self.sweeper.found.is_all_early() => Turn::Waits(EARLY_WAIT),
                _ => Turn::Waits(WRITE_WAIT),
            });
        }
        let units = u32::try_from(suspects.len()).unwrap_or(u32::MAX);
        let now = ground.db.executor().clock().now_micros();
        let Looked { removal, unread, tries, rows, bytes } = ground.look_at(suspects);
        add(&counted.rows_read, rows);
        self.moved.read += bytes;
        self.moved.written += removal.rows.iter().flat_map(|row| &row.1).map(|key| key.len() as u64).sum::<u64>();
        if !unread.is_empty() {
            add(&counted.failures, 1);
            add(&counted.missed, self.sweeper.found.give_back(unread.into_iter(), tries));
        }
        if !removal.rows.is_empty() {
            self.repairs.push((Removing::new(removal, now), tries));
        }
        Ok(Turn::Did(units))
    }

    /// Goes on with the index in hand, unless it is to leave the thread to compactions: where the device is slow, some reads take far longer than one of their steps. What was found does
    /// not wait for that.
    fn pass_in_turn(&mut self, ground: &Arc<Ground>) -> Turn {
        let clock = ground.db.executor().clock();
        let began = clock.now_micros();
        if began < self.pass_due_micros {
            return Turn::Waits(Duration::from_micros(self.pass_due_micros - began));
        }
        let turn = self.pass(ground).unwrap_or_else(|error| self.pass_failed(ground, &error));
        let ended = clock.now_micros();
        if ended > began && ground.db.is_compacting() {
            self.pass_due_micros = ended.saturating_add(RESTS * (ended - began));
        }
        turn
    }

    /// What cannot be gone through now is left alone for a while; other indexes are not.
    fn pass_failed(&mut self, ground: &Ground, error: &Error) -> Turn {
        if error.kind() == ErrorKind::Incomplete {
            return Turn::Waits(ROOM_WAIT);
        }
        self.in_hand = None;
        self.sweeper.passing.store(0, Ordering::Relaxed);
        // Of a table that was dropped nothing is wanted any more.
        if error.kind() != ErrorKind::NotFound
            && let Some((_, index)) = ground.lazy_index(self.last)
        {
            add(&self.sweeper.counted.failures, 1);
            index.counts.rests.note_failed(ground.db.executor().clock().now_micros());
        }
        Turn::Did(1)
    }

    /// Goes on with a walk over the versions of rows, if there is one.
    fn walk(&mut self, ground: &Arc<Ground>) -> Result<Option<Turn>> {
        if self.repairs.len() >= REPAIRS {
            return Ok(Some(Turn::Waits(WRITE_WAIT)));
        }
        let Some(walk) = self.sweeper.walks.take() else {
            // A writer has it.
            return Ok(self.sweeper.walks.is_under_way().then_some(Turn::Waits(WRITE_WAIT)));
        };
        let since = ground.db.executor().clock().now_micros();
        let tables = ground.open_tables.load();
        let Ok(table) = find(&tables, walk.table) else {
            self.sweeper.walks.end(walk);
            return Ok(Some(Turn::Did(1)));
        };
        self.last = table.indexes.first().map_or(IndexId(0), |index| index.id);
        let stretch = match ground.walk_stretch(table, &walk, WALK_ROWS) {
            Ok(stretch) => stretch,
            Err(error) => {
                table.walk_rests.note_failed(ground.now_micros());
                self.sweeper.walks.end(walk);
                return Err(error);
            }
        };
        self.sweeper.note_stretch(table, walk, &stretch);
        self.moved.read += stretch.bytes;
        let units = u32::try_from(stretch.rows).unwrap_or(u32::MAX).max(1);
        if !stretch.removal.rows.is_empty() {
            self.repairs.push((Removing::new(stretch.removal, since), 0));
        }
        Ok(Some(Turn::Did(units)))
    }

    /// Begins to look for the stale entries of an index: in the rows, if many of them changed since that was done last, else in the index.
    fn begin(&self, ground: &Ground, table: &Arc<Table>, index: &Index) {
        if !self.sweeper.options.walk_rows || !ground.begin_walk(&self.sweeper.walks, table) {
            self.sweeper.passing.store(index.id.0, Ordering::Relaxed);
        }
    }

    /// Goes on with a walk, or with the index in hand, or takes the next one.
    fn pass(&mut self, ground: &Arc<Ground>) -> Result<Turn> {
        if self.sweeper.walks.is_under_way()
            && let Some(turn) = self.walk(ground)?
        {
            return Ok(turn);
        }
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
                return Ok(Turn::Waits(WRITE_WAIT));
            }
            in_hand.removing = None;
        }
        let (_, rows_before, _) = in_hand.batch.figures();
        let units = match in_hand.batch.is_reading_rows() {
            true if in_hand.is_sample => SAMPLE_ROWS,
            true => ROWS,
            false => UNITS,
        };
        let mut advance = in_hand.batch.advance(ground, &table, &index, units)?;
        // Of a sample, several places at a time.
        for _ in 1..SAMPLE_PLACES {
            if !in_hand.is_sample || in_hand.batch.is_reading_rows() || matches!(advance, Advance::Done) {
                break;
            }
            advance = in_hand.batch.advance(ground, &table, &index, units)?;
        }
        let moved = std::mem::take(&mut in_hand.batch.moved);
        add(&counted.seeks, std::mem::take(&mut in_hand.batch.seeks));
        self.moved.read += moved.read;
        self.moved.written += moved.written;
        add(&counted.rows_read, in_hand.batch.figures().1 - rows_before);
        match advance {
            Advance::More(units) => return Ok(Turn::Did(units)),
            Advance::Remove(removal) => {
                in_hand.removing = Some(Removing::new(removal, in_hand.since_micros));
                return Ok(Turn::Did(1));
            }
            Advance::Done => {}
        }
        if let Some(done) = self.in_hand.take() {
            self.end(ground, &table, &index, done)?;
        }
        Ok(Turn::Did(1))
    }

    /// Takes what is due in hand: the next entries of the index that is gone through, or an index that may have many stale ones.
    fn take_in_hand(&mut self, ground: &Arc<Ground>) -> Result<Turn> {
        let sweeper = &self.sweeper;
        let since_micros = ground.db.executor().clock().now_micros();
        let in_hand = |id: IndexId, batch: Batch, is_sample: bool| {
            Some(InHand { id, batch: batch.lenient(), is_sample, removing: None, since_micros })
        };
        let passing = IndexId(sweeper.passing.load(Ordering::Relaxed));
        if passing.0 != 0 {
            let Some((_, index)) = ground.lazy_index(passing) else {
                sweeper.passing.store(0, Ordering::Relaxed);
                return Ok(Turn::Did(1));
            };
            let progress = ground.sweeps.copy(passing);
            let batch = Batch::next_of(ground, &index, &progress, self.step_entries, false);
            self.last = passing;
            self.in_hand = in_hand(passing, batch, false);
            return Ok(Turn::Did(1));
        }
        let tables = ground.open_tables.load();
        let lazy = tables.iter().filter(|table| table.definition.lazy);
        let mut indexes = lazy.flat_map(|table| table.indexes.iter().map(move |index| (table, index)));
        let Some((table, index)) = indexes.find(|(_, index)| sweeper.is_due(index)) else {
            return Ok(Turn::Nothing);
        };
        self.last = index.id;
        let number = sweeper.counted.samples.load(Ordering::Relaxed);
        match Batch::sample(ground, index, number)? {
            Some(batch) => self.in_hand = in_hand(index.id, batch, true),
            None => self.begin(ground, table, index),
        }
        Ok(Turn::Did(1))
    }

    /// Takes note of what a sample, or some entries of a pass, have shown.
    fn end(&mut self, ground: &Ground, table: &Arc<Table>, index: &Index, done: InHand) -> Result<()> {
        let counted = &self.sweeper.counted;
        index.counts.rests.note_sound();
        self.step_entries = (2 * self.step_entries).min(self.sweeper.options.step_entries);
        let (entries, _, stale) = done.batch.figures();
        add(&counted.entries_read, entries);
        if done.is_sample {
            add(&counted.samples, 1);
            index.counts.note_sampled(done.batch.mark(), ground.entries_of(index)?, entries, stale);
            if stale * 100 > entries * u64::from(self.sweeper.options.begin_per_cent) {
                self.begin(ground, table, index);
            }
            return Ok(());
        }
        let mut progress = ground.sweeps.copy(index.id);
        let is_through = done.batch.end(index, &mut progress);
        let is_given_up = progress.give_up_outgrown(index.counts.figures().entries);
        ground.sweeps.put_uncounted(table, index.id, progress);
        if is_through || is_given_up {
            add(&counted.passes, u64::from(is_through));
            self.sweeper.passing.store(0, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Counts removed entries off the indexes that had them: those of these indexes, but for what was left.
pub(super) fn note_removed(ground: &Ground, tried: impl Iterator<Item = IndexId>, left: impl Iterator<Item = IndexId>) {
    let mut counts: BTreeMap<IndexId, u64> = BTreeMap::new();
    tried.for_each(|id| *counts.entry(id).or_default() += 1);
    for id in left {
        if let Some(count) = counts.get_mut(&id) {
            *count = count.saturating_sub(1);
        }
    }
    let tables = ground.open_tables.load();
    for table in tables.iter().filter(|table| table.definition.lazy) {
        for index in &table.indexes {
            if let Some(count) = counts.get(&index.id) {
                index.counts.note_removed(*count);
            }
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
