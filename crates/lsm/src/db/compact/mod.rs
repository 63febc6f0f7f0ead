//! A compaction as a background job: run it in steps, or share it out to [subcompactions](super::subcompactions), install what was made, let
//! readers see it.

mod install;

use super::background::retry_delay;
use super::column_family::Family;
use super::error_state::RoomMaker;
use super::io_rate::{Metered, Moved, rate_priority};
use super::manual::ManualCompaction;
use super::pacing::{Working, owed_bytes_of};
use super::state::DbInner;
use super::subcompactions;
use crate::compaction::job::{CompactionEnv, CompactionJob, KeyRange, shares};
use crate::compaction::{Compaction, HiddenWatch, JobFiles, RunningId};
use crate::event::{CompactionInfo, CompactionReason, JobId};
use crate::expiry::Expiring;
use crate::file_meta::{FileMeta, Stamps};
use crate::memtable::JobRoom;
use crate::metrics::{Counter, HistogramKind};
use crate::options::ColumnFamilyOptions;
use crate::sst::WriteBack;
use crate::table_cache::TableCache;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// How long a compaction leaves the device to a flush that writers will wait for, before it looks again. Not less: a thread that wakes up every half a millisecond keeps
/// its processor from taking over the flush from another one where it waits.
pub(super) const FLUSH_HEADSTART: Duration = Duration::from_millis(2);

/// What all subcompactions of one compaction may read ahead together, in bytes, unless there are more sources than that is of use to.
const READ_AHEAD_BYTES: usize = 128 << 20;

/// What each source reads at a time at least.
const LEAST_READ_AHEAD: usize = 64 << 10;

/// How long a compaction waits for room where it tells what it drops, and how often.
const ROWS_WAIT: Duration = Duration::from_millis(2);
const MOST_WAITS_FOR_ROWS: u32 = 5_000;

/// A job that begins a compaction, and ends it unless subcompactions do.
pub(crate) struct CompactJob {
    /// `None` when subcompactions have it, and at the end.
    compacting: Option<Box<Compacting>>,
}

/// One compaction of one family, from its pick to its end.
pub(super) struct Compacting {
    pub(super) db: Arc<DbInner>,
    pub(super) family: Arc<Family>,
    /// The family's options when the compaction was picked: it ends with them, whatever is changed meanwhile.
    options: Arc<ColumnFamilyOptions>,
    /// What to do; let go when the job ends.
    compaction: Option<Compaction>,
    /// The registration that keeps other compactions away from the inputs.
    registration: RunningId,
    /// Inputs that are known to be open, in their order.
    opened: usize,
    /// The job that reads and writes; those of all subcompactions when they have ended. Ascending.
    running: Vec<CompactionJob>,
    /// Its progress, for the pace of writers.
    working: Option<Working>,
    /// What the rate limiter was asked for.
    metered: Metered,
    info: CompactionInfo,
    started_micros: u64,
    begun: bool,
    /// Its inputs are free again, and whoever closes the database still waits for it.
    is_ending: bool,
    /// Inputs that may have no other holder any more, at its end: they are let go one by one, and no lock is held.
    leaving: Vec<Arc<FileMeta>>,
    /// When somebody is to look for work again, after a failure.
    retry_after: Option<Duration>,
    /// Whoever waits for it.
    manual: Option<Arc<ManualCompaction>>,
    /// Who sees values that go.
    hidden: Option<HiddenWatch>,
    /// How often it waited for who sees that.
    waits_for_rows: u32,
    /// Room for what it and its subcompactions hold while they read and build.
    room: Option<JobRoom>,
}

/// What comes of a step.
enum Turn {
    /// The compaction goes on, or is done.
    Progress(Progress),
    /// It is shared out to subcompactions, one for each of these ranges.
    ShareOut(Vec<KeyRange>),
}

impl CompactJob {
    /// The caller has held the state lock since `compaction` was picked.
    pub(crate) fn new(
        db: Arc<DbInner>,
        family: Arc<Family>,
        compaction: Compaction,
        registration: RunningId,
        job_id: JobId,
        manual: Option<Arc<ManualCompaction>>,
    ) -> Self {
        let info = CompactionInfo {
            job_id,
            column_family: family.name.clone(),
            reason: compaction.reason,
            inputs: compaction.input_files().map(|(level, file)| (level, file.number)).collect(),
            input_bytes: compaction.input_bytes(),
            output_level: compaction.output_level,
            outputs: Vec::new(),
            output_bytes: 0,
            trivial_move: compaction.trivial_move,
            subcompactions: 0,
            duration: Duration::ZERO,
            error: None,
        };
        let started_micros = db.clock.now_micros();
        let options = family.options();
        let metered = Metered::new(rate_priority(&compaction));
        let hidden = family.hidden_rows.get().filter(|_| !compaction.is_edit()).map(|rows| {
            let inputs = compaction.input_files().map(|(_, file)| file.number).collect();
            HiddenWatch { rows: Arc::clone(rows), files: JobFiles::of_compaction(inputs) }
        });
        let compacting = Compacting {
            db,
            family,
            options,
            compaction: Some(compaction),
            registration,
            opened: 0,
            running: Vec::new(),
            working: None,
            metered,
            info,
            started_micros,
            begun: false,
            is_ending: false,
            leaving: Vec::new(),
            retry_after: None,
            manual,
            hidden,
            waits_for_rows: 0,
            room: None,
        };
        Self { compacting: Some(Box::new(compacting)) }
    }
}

impl Compacting {
    /// Fails if the outcome is of no use to anybody.
    pub(super) fn check_wanted(db: &DbInner, family: &Family) -> Result<()> {
        if family.is_dropped() || db.is_closing() || db.errors.is_failed() {
            return Err(Error::new(ErrorKind::Aborted, "the compaction is not wanted any more"));
        }
        Ok(())
    }

    fn try_step(&mut self, budget: &mut Budget<'_>) -> Result<Turn> {
        Self::check_wanted(&self.db, &self.family)?;
        if !self.begun {
            self.begun = true;
            if self.manual.is_none() {
                // What another one met, perhaps of a family that is gone, is no answer to who waits for this one.
                self.db.errors.set_passing(RoomMaker::Compaction, None);
            }
            self.db.notify(|listener| listener.compaction_begin(&self.info));
            self.db.mend_manifest()?;
            self.db.update_pressure(&self.family);
        }
        if let Some(wait) = self.db.io_rate.wait(&mut self.metered) {
            return Ok(Turn::Progress(Progress::After(wait)));
        }
        let Some(compaction) = &self.compaction else { return Ok(Turn::Progress(Progress::Done)) };
        if compaction.is_edit() {
            self.install(compaction.edit(), Vec::new())?;
            if compaction.reason == CompactionReason::Expired {
                self.db.count_expired_tables(&self.family, compaction);
            }
            if compaction.trivial_move {
                self.db.metrics.add(Counter::TrivialMoves, self.info.inputs.len() as u64);
            }
            return Ok(Turn::Progress(Progress::Done));
        }
        if self.db.is_flush_urgent() {
            return Ok(Turn::Progress(Progress::After(FLUSH_HEADSTART)));
        }
        if self.waits_for_rows < MOST_WAITS_FOR_ROWS
            && self.hidden.as_ref().is_some_and(|hidden| self.db.waits_for(&*hidden.rows))
        {
            self.waits_for_rows += 1;
            return Ok(Turn::Progress(Progress::After(ROWS_WAIT)));
        }
        if self.running.is_empty() {
            let inputs = compaction.input_files().skip(self.opened);
            let (opened, all_open) = open_tables(inputs, &self.family.table_cache, budget)?;
            self.opened += opened;
            if !all_open {
                return Ok(Turn::Progress(Progress::More));
            }
            if compaction.is_owed() {
                let level0 = compaction.inputs.iter().filter(|inputs| inputs.level == 0);
                let level0 = level0.map(|inputs| inputs.files.len()).sum();
                let (work, style) = (&self.family.work, self.options.compaction_style);
                let buffer_bytes = self.options.write_buffer_size;
                let owed = owed_bytes_of(compaction, style);
                self.working = Some(Working::compaction(work, self.info.input_bytes, buffer_bytes, owed, level0));
            }
            self.room = Some(self.db.memtable_memory.job());
            let mut ranges = self.shares(compaction)?;
            if ranges.len() > 1 {
                return Ok(Turn::ShareOut(ranges));
            }
            let keys = ranges.pop().unwrap_or_default();
            let env = self.environment_of_each(compaction, 1);
            self.running.push(CompactionJob::new(compaction.clone(), keys, env));
        }
        let Some(running) = self.running.first_mut() else { return Ok(Turn::Progress(Progress::Done)) };
        let is_done = running.step(budget)?;
        let (done, all) = running.progress();
        let moved = Moved { read: running.bytes_read(), written: running.bytes_written() };
        self.reached(done, all);
        let wait = self.db.meter(&mut self.metered, moved);
        if !is_done {
            return Ok(Turn::Progress(wait.map_or(Progress::More, Progress::After)));
        }
        self.finish()?;
        Ok(Turn::Progress(Progress::Done))
    }

    /// The ranges of keys that jobs of their own work on; one if there is to be no other job.
    fn shares(&self, compaction: &Compaction) -> Result<Vec<KeyRange>> {
        let asked_for = self.manual.as_ref().map_or(0, |manual| manual.max_subcompactions());
        let most = match asked_for {
            0 => self.db.live_options.load().max_subcompactions,
            most => most,
        };
        if most < 2 || !compaction.may_share_out(self.options.compaction_style) {
            return Ok(vec![KeyRange::default()]);
        }
        shares(compaction, &self.family.table_cache, most)
    }

    /// Takes note that `done` of `all` entries were read.
    pub(super) fn reached(&mut self, done: u64, all: u64) {
        if let Some(working) = &mut self.working {
            working.reached(done, all);
        }
    }

    /// The jobs for `ranges`, ascending, and what the rate limiter is asked for each by.
    pub(super) fn jobs(&self, ranges: Vec<KeyRange>) -> Vec<(CompactionJob, Metered)> {
        let Some(compaction) = &self.compaction else { return Vec::new() };
        let env = self.environment_of_each(compaction, ranges.len());
        let job = |keys| {
            let job = CompactionJob::new(compaction.clone(), keys, env.clone());
            (job, Metered::new(rate_priority(compaction)))
        };
        ranges.into_iter().map(job).collect()
    }

    /// How urgent its jobs are.
    pub(super) fn priority(&self) -> Priority {
        self.compaction.as_ref().map_or(Priority::Low, priority)
    }

    /// Ends what subcompactions have worked on: `jobs` are theirs, ascending. Without an error each has read all of its share.
    pub(super) fn end_shared(
        &mut self,
        jobs: Vec<CompactionJob>,
        outcome: Result<()>,
        budget: &Budget<'_>,
    ) -> Progress {
        self.running = jobs;
        let outcome = outcome.and_then(|()| self.finish());
        self.end(outcome);
        self.clean_up(budget)
    }

    /// Which rows may be removed because they are expired; none where one of the tables has rows with the stamps of another policy.
    fn expiring(&self) -> Option<Expiring> {
        let expiring = self.db.expiring(&self.family)?;
        let is_foreign = |file: &FileMeta| {
            // Whoever reads the table meets the error.
            let _ = self.family.table_cache.reader(file);
            matches!(file.stamps(expiring.policy.name()), Stamps::Foreign)
        };
        let is_any_foreign = self
            .compaction
            .as_ref()
            .is_some_and(|compaction| compaction.input_files().any(|(_, file)| is_foreign(file)));
        (!is_any_foreign).then_some(expiring)
    }

    /// The same, where `jobs` work on a compaction at the same time: what they read ahead takes no more memory than one may.
    fn environment_of_each(&self, compaction: &Compaction, jobs: usize) -> CompactionEnv {
        let mut env = self.environment();
        let options = &self.db.options;
        // Of a file past the page cache one window is decoded while the next is read.
        let is_direct = options.use_direct_io_for_flush_and_compaction || options.use_direct_reads;
        let windows = (1 + usize::from(is_direct)).saturating_mul(jobs).saturating_mul(compaction.sources());
        env.readahead_size = readahead_of_each(env.readahead_size, windows);
        env
    }

    fn environment(&self) -> CompactionEnv {
        let db = &self.db;
        let live = db.live_options.load();
        CompactionEnv {
            env: Arc::clone(&db.env),
            dir: db.dir.clone(),
            table_cache: Arc::clone(&self.family.table_cache),
            options: Arc::clone(&self.options),
            family_name: self.family.name.clone(),
            snapshots: db.snapshots.seqnos(),
            expiring: self.expiring(),
            file_numbers: Arc::clone(&db.file_numbers),
            db_id: db.db_id.clone(),
            session_id: db.session_id.clone(),
            host_id: db.options.db_host_id.clone(),
            clock: Arc::clone(&db.clock),
            readahead_size: live.compaction_readahead_size,
            use_direct_io: db.options.use_direct_io_for_flush_and_compaction,
            write_back: WriteBack { bytes: live.bytes_per_sync, strict: db.options.strict_bytes_per_sync },
            keeps_cached: db.options.cache_rewritten_blocks,
            file_checksum: db.options.file_checksum,
            hidden: self.hidden.clone(),
            holders: Arc::clone(&db.holders),
        }
    }

    /// Names what was written.
    fn finish(&mut self) -> Result<()> {
        let jobs = self.running.len();
        self.info.subcompactions = if jobs > 1 { jobs } else { 0 };
        let output = CompactionJob::finish_all(&mut self.running)?;
        self.install_output(output)
    }

    /// Ends the job; after an error the inputs stay as they were, and may be picked again after a while.
    /// Comes before [`clean_up`](Self::clean_up).
    pub(super) fn end(&mut self, outcome: Result<()>) {
        let db = Arc::clone(&self.db);
        // An edit of the MANIFEST rewrites nothing, and what was not wanted any more tells nothing. One that is poisoned here is not counted again.
        let is_aborted = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Aborted);
        let is_measured = self.compaction.as_ref().is_some_and(|compaction| !compaction.is_edit()) && !is_aborted;
        let running = std::mem::take(&mut self.running);
        if outcome.is_err() {
            // No edit names what they wrote: those that one names were taken out before.
            running.into_iter().for_each(CompactionJob::abandon);
        }
        self.room = None;
        let failures = self.release_inputs(outcome.is_ok());
        match &outcome {
            Ok(()) => db.errors.set_passing(RoomMaker::Compaction, None),
            Err(error) if error.kind() == ErrorKind::Aborted => {
                db.metrics.add(Counter::CompactionsCancelled, 1);
                // What was picked is not as it was: somebody must look again, though nothing may come along.
                if !db.is_closing() && !self.family.is_dropped() {
                    self.retry_after = Some(retry_delay(failures));
                }
            }
            Err(error) => {
                let is_tried_again = self.manual.is_none()
                    && !self.family.is_dropped()
                    && !self.family.options().disable_auto_compactions;
                let maker = is_tried_again.then_some(RoomMaker::Compaction);
                if db.job_failed(error, failures, maker) {
                    self.retry_after = Some(retry_delay(failures));
                }
            }
        }
        let micros = db.clock.now_micros() - self.started_micros;
        self.info.duration = Duration::from_micros(micros);
        if is_measured {
            db.metrics.add(Counter::CompactionMicros, micros);
            db.metrics.record(HistogramKind::CompactionTime, micros);
        }
        if self.info.subcompactions > 0 {
            db.metrics.record(HistogramKind::NumSubcompactionsScheduled, self.info.subcompactions as u64);
        }
        if let Some(manual) = self.manual.take() {
            manual.step_done(outcome.as_ref().err());
        }
        self.info.error = outcome.err();
        db.log_compaction(&self.info);
        db.notify(|listener| listener.compaction_end(&self.info));
        db.update_pressure(&self.family);
        Working::end(self.working.take(), self.info.error.is_none());
        db.open_tables_with_ranges(&self.family);
        db.schedule();
    }

    /// Lets go of the inputs, as far as the budget goes, and deletes what nobody has any more. To close a table and free what is remembered of it takes
    /// milliseconds.
    pub(super) fn clean_up(&mut self, budget: &Budget<'_>) -> Progress {
        while let Some(file) = self.leaving.pop() {
            drop(file);
            if !self.leaving.is_empty() && budget.is_over() {
                return Progress::More;
            }
        }
        let db = Arc::clone(&self.db);
        db.delete_obsolete_files();
        db.surroundings.expiry.note_time();
        if std::mem::take(&mut self.is_ending) {
            db.job_ended();
        }
        if let Some(delay) = self.retry_after.take() {
            // Nothing else may come along to schedule the next attempt.
            db.schedule_after(delay);
        }
        Progress::Done
    }

    /// Whether it has ended but for what [`clean_up`](Self::clean_up) does.
    pub(super) fn has_ended(&self) -> bool {
        self.is_ending
    }

    /// A step panicked, perhaps within [`end`](Self::end): what was given back is not given back again.
    pub(super) fn poisoned(&mut self, message: &str) {
        self.db.fail_poisoned("compaction", message);
        self.end(Err(panicked()));
        let clock = Arc::clone(&self.db.clock);
        while self.clean_up(&Budget::new(&*clock)) != Progress::Done {}
    }

    fn release_inputs(&mut self, ok: bool) -> u32 {
        // Also of a family that was dropped: its files go when nobody holds them.
        let Some(compaction) = self.compaction.take() else { return 0 };
        let failures = self.unregister(&compaction, ok);
        self.leaving = compaction.input_files().map(|(_, file)| Arc::clone(file)).collect();
        failures
    }

    fn unregister(&mut self, compaction: &Compaction, ok: bool) -> u32 {
        let db = Arc::clone(&self.db);
        let mut state = db.state.lock();
        state.running_compactions -= 1;
        state.ending_jobs += 1;
        self.is_ending = true;
        let now_micros = db.clock.now_micros();
        if compaction.rewrites_for_expiry() {
            state.expiry_rewrites -= 1;
        }
        let Some(background) = state.families.get_mut(&self.family.id) else { return 0 };
        background.running.unregister(self.registration, compaction);
        if !ok && self.manual.is_some() {
            // Who asked is told, and asks again or not: it says nothing of what is to be done anyway.
            return 0;
        }
        background.compaction_failures = if ok { 0 } else { background.compaction_failures + 1 };
        let failures = background.compaction_failures;
        background.compaction_not_before_micros =
            if ok { 0 } else { now_micros + retry_delay(failures).as_micros() as u64 };
        failures
    }
}

/// Bytes that are read at a time into each of `windows`, which there are at once: `wanted` if that does not take too much memory.
fn readahead_of_each(wanted: usize, windows: usize) -> usize {
    wanted.min((READ_AHEAD_BYTES / windows.max(1)).max(LEAST_READ_AHEAD))
}

/// Opens tables that nobody has opened yet, one by one, as far as the budget goes: each takes milliseconds. Returns how many it got through, and whether those were all.
fn open_tables<'a>(
    files: impl Iterator<Item = (usize, &'a Arc<FileMeta>)>,
    table_cache: &TableCache,
    budget: &Budget<'_>,
) -> Result<(usize, bool)> {
    let mut opened = 0;
    for (_, file) in files {
        if opened > 0 && budget.is_over() {
            return Ok((opened, false));
        }
        table_cache.reader(file)?;
        opened += 1;
    }
    Ok((opened, true))
}

/// How urgent the jobs of a compaction are.
pub(super) fn priority(compaction: &Compaction) -> Priority {
    if compaction.start_level() == 0 { Priority::Medium } else { Priority::Low }
}

#[cold]
pub(super) fn panicked() -> Error {
    Error::new(ErrorKind::Aborted, "the compaction panicked")
}

impl Job for CompactJob {
    fn name(&self) -> &'static str {
        "compaction"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        let Some(compacting) = &mut self.compacting else { return Progress::Done };
        if compacting.has_ended() {
            return compacting.clean_up(budget);
        }
        let outcome = match compacting.try_step(budget) {
            Ok(Turn::Progress(Progress::Done)) => Ok(()),
            Ok(Turn::Progress(progress)) => return progress,
            Ok(Turn::ShareOut(ranges)) => {
                // What panics here finds the compaction in its place, and ends it.
                let jobs = compacting.jobs(ranges);
                if let Some(compacting) = self.compacting.take() {
                    subcompactions::share_out(compacting, jobs);
                }
                return Progress::Done;
            }
            Err(error) => Err(error),
        };
        compacting.end(outcome);
        compacting.clean_up(budget)
    }

    fn poisoned(&mut self, message: &str) {
        if let Some(compacting) = &mut self.compacting {
            compacting.poisoned(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_sources_read_less_ahead_each() {
        assert_eq!(readahead_of_each(2 << 20, 1), 2 << 20);
        assert_eq!(readahead_of_each(2 << 20, 64), 2 << 20);
        assert_eq!(readahead_of_each(2 << 20, 640), READ_AHEAD_BYTES / 640);
        assert_eq!(readahead_of_each(2 << 20, usize::MAX), LEAST_READ_AHEAD);
        assert_eq!(readahead_of_each(0, 0), 0);
    }
}
