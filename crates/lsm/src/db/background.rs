//! Which background jobs run: flushes first, then compactions, each within its share of `max_background_jobs`.

use super::column_family::Family;
use super::compact::{CompactJob, priority};
use super::error_state::RoomMaker;
use super::flush::FlushJob;
use super::pacing;
use super::state::{DbInner, FamilyState, State};
use super::super_version::SuperVersion;
use super::write_stall::pressure;
use crate::compaction::{self, Compaction, LevelTargets, Running};
use crate::event::StallInfo;
use crate::metrics::Counter;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::{Version, VersionSet};
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::{Arc, MutexGuard, Weak};
use siltstone_base::{Error, ErrorKind, Result};
use std::cmp::Ordering;
use std::time::Duration;

/// A compaction to run, and whoever waits for it.
pub(crate) type Picked = (Arc<Family>, Compaction, Option<Arc<super::manual::ManualCompaction>>);

/// Failures in a row after which a job that met an error other than a full device makes the engine read-only.
pub(crate) const MAX_FAILURES: u32 = 3;

/// What reads have paid for tables is looked at so often, where that counts.
const READS_SECONDS: u64 = 5;

/// Time before a failed job is tried again: doubles with every failure, and stays below the second within which
/// writes must resume when a full device has room again.
pub(crate) fn retry_delay(failures: u32) -> Duration {
    Duration::from_millis((50_u64 << failures.min(4)).min(800))
}

impl DbInner {
    /// Flushes that may run at the same time, and compactions.
    fn job_limits(&self) -> (usize, usize) {
        let jobs = self.live_options.load().max_background_jobs;
        let flushes = (jobs / 4).max(1);
        (flushes, jobs.saturating_sub(flushes).max(1))
    }

    /// Starts every job that is due and fits. The caller holds no lock.
    pub(crate) fn schedule(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if self.read_only || self.is_closing() || self.errors.is_failed() || state.background_paused > 0 {
            return;
        }
        let (max_flushes, max_compactions) = self.job_limits();
        self.schedule_flushes(&mut state, max_flushes);
        self.schedule_compactions(&mut state, max_compactions);
        self.schedule_stamps(&mut state);
        self.schedule_upkeep(&mut state);
    }

    /// Starts the flushes that are due, for who has just sealed memtables: no compaction becomes due by that.
    pub(crate) fn schedule_only_flushes(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if !self.read_only && !self.is_closing() && !self.errors.is_failed() && state.background_paused == 0 {
            self.schedule_flushes(&mut state, self.job_limits().0);
        }
    }

    /// Sees to it that somebody looks again when the next table is due by its age.
    fn schedule_upkeep(self: &Arc<Self>, state: &mut State) {
        let (now, now_micros) = (self.clock.unix_seconds(), self.clock.now_micros());
        let families = self.families.load();
        let delay = families.values().filter_map(|family| {
            let pinned = family.super_version.load();
            let options = &pinned.options;
            if options.disable_auto_compactions {
                return None;
            }
            let by_reads = (options.read_triggered_bytes > 0).then_some(Duration::from_secs(READS_SECONDS));
            let by_age = (options.ttl > 0 || options.periodic_compaction_seconds > 0)
                .then(|| compaction::next_upkeep(&pinned.version, options).filter(|due| *due > now))
                .flatten()
                .map(|due| Duration::from_secs(due - now));
            let by_expiry = self.next_expiry_look(family, &pinned.version);
            by_reads.into_iter().chain(by_age).chain(by_expiry).min()
        });
        let Some(delay) = delay.min() else { return };
        let due = now_micros.saturating_add(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX));
        if state.upkeep_due.is_none_or(|armed| armed <= now_micros || due < armed) {
            state.upkeep_due = Some(due);
            self.schedule_after(delay);
        }
    }

    /// Of several families that goes first whose sealed memtable is the oldest, by its WAL: no family waits for one that is written all the time, and neither do WALs.
    fn schedule_flushes(self: &Arc<Self>, state: &mut State, max_flushes: usize) {
        let families = self.families.load();
        let oldest_sealed = |family: &Family| {
            let pinned = family.super_version.load();
            pinned.immutables.newest_first().iter().map(|memtable| memtable.id()).min()
        };
        let mut sealed: Vec<_> =
            families.values().filter_map(|family| Some((oldest_sealed(family)?, family))).collect();
        sealed.sort_by_key(|(oldest, _)| *oldest);
        for (_, family) in sealed {
            if state.running_flushes >= max_flushes {
                return;
            }
            let job_id = state.last_job_id + 1;
            let Some(background) = state.families.get_mut(&family.id) else { continue };
            if !background.flush_running
                && let Some(reason) = background.flush_requested
            {
                background.flush_running = true;
                state.running_flushes += 1;
                state.last_job_id = job_id;
                let job = FlushJob::new(Arc::clone(self), Arc::clone(family), job_id, reason);
                self.executor.submit(Priority::High, Box::new(job));
            }
        }
    }

    fn schedule_compactions(self: &Arc<Self>, state: &mut State, max_compactions: usize) {
        loop {
            let found = match state.running_compactions.cmp(&max_compactions) {
                Ordering::Less => self.pick(state),
                Ordering::Equal => self.pick_level0(state),
                Ordering::Greater => None,
            };
            let Some((family, compaction, manual)) = found else { return };
            let job_id = state.next_job_id();
            state.running_compactions += 1;
            state.expiry_rewrites += usize::from(compaction.rewrites_for_expiry());
            let Some(background) = state.families.get_mut(&family.id) else { return };
            let priority = priority(&compaction);
            let registration = background.running.register(&compaction);
            let job = CompactJob::new(Arc::clone(self), family, compaction, registration, job_id, manual);
            self.executor.submit(priority, Box::new(job));
        }
    }

    /// A compaction of level 0 where deeper ones have all places: it is stepped before them, so that they wait for it and not it for them.
    /// Of several families that with most in level 0, for what it may have, goes first.
    fn pick_level0(&self, state: &State) -> Option<Picked> {
        let now_seconds = self.clock.unix_seconds();
        let mut candidates = self.compacting_families(state, |version, options, _| {
            version.files(0).len() as f64 / options.level0_stop_writes_trigger.max(1) as f64
        });
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        candidates.into_iter().find_map(|(_, family)| {
            let background = state.families.get(&family.id)?;
            let pinned = family.super_version.load();
            let (version, options) = (&pinned.version, &pinned.options);
            let compaction = compaction::pick_level0(version, options, now_seconds, &background.running)?;
            Some((family, compaction, None))
        })
    }

    /// The next compaction: one that a caller waits for and one that is due, in turns. So neither those who wait nor the tree wait for all of the other.
    fn pick(&self, state: &mut State) -> Option<Picked> {
        if std::mem::take(&mut state.manual_had_turn) {
            let picked = self.pick_automatic(state);
            if picked.is_some() {
                return picked;
            }
        }
        if let Some(picked) = self.pick_manual(state) {
            state.manual_had_turn = true;
            return Some(picked);
        }
        self.pick_automatic(state)
    }

    fn pick_automatic(&self, state: &mut State) -> Option<Picked> {
        let picked = self.pick_covered(state).or_else(|| self.pick_expired_tables(state));
        if let Some(picked) = picked.or_else(|| self.pick_expired_rows_in_turn(state)) {
            return Some(picked);
        }
        let picked = self.pick_by_score(state);
        state.since_expiry_turn = state.since_expiry_turn.saturating_add(u32::from(picked.is_some()));
        picked.or_else(|| self.pick_expired_rows(state)).or_else(|| self.pick_drain(state))
    }

    /// Level 0 of a family that callers only read, where nothing else is due.
    fn pick_drain(&self, state: &State) -> Option<Picked> {
        let candidates = self.compacting_families(state, |_, _, _| 0.0);
        candidates.into_iter().find_map(|(_, family)| {
            let background = state.families.get(&family.id).filter(|background| self.drains(background))?;
            let compaction = self.drain_of(&family.super_version.load(), background)?;
            Some((family, compaction, None))
        })
    }

    /// Whether nobody wrote since it was said that callers only read any more.
    fn drains(&self, background: &FamilyState) -> bool {
        background.drains.is_some_and(|newest| newest == self.visible())
    }

    /// What would take tables of level 0 away where callers only read.
    pub(crate) fn drain_of(&self, pinned: &SuperVersion, background: &FamilyState) -> Option<Compaction> {
        if !pinned.immutables.is_empty() {
            // What is in memory becomes part of it.
            return None;
        }
        compaction::pick_drain(&pinned.version, &pinned.options, self.clock.unix_seconds(), &background.running)
    }

    /// Tables of any family that range tombstones cover: they cost nothing but an edit.
    fn pick_covered(&self, state: &State) -> Option<Picked> {
        let families = self.families.load();
        families.values().find_map(|family| {
            let background = state.families.get(&family.id)?;
            let pinned = family.super_version.load();
            let waits = background.compaction_not_before_micros > self.clock.now_micros();
            if waits || pinned.options.disable_auto_compactions {
                return None;
            }
            let compaction = compaction::pick_covered(&pinned.version, || self.snapshots.seqnos())?;
            Some((Arc::clone(family), compaction, None))
        })
    }

    fn pick_by_score(&self, state: &State) -> Option<Picked> {
        let now_seconds = self.clock.unix_seconds();
        let mut candidates = self.compacting_families(state, |version, options, running| {
            compaction::urgency(version, options, now_seconds, running)
        });
        candidates.retain(|(score, _)| *score >= 1.0);
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        candidates.into_iter().find_map(|(_, family)| {
            let background = state.families.get(&family.id)?;
            let pinned = family.super_version.load();
            let (version, options) = (&pinned.version, &pinned.options);
            let compaction = compaction::pick(version, options, now_seconds, &background.running)?;
            if !compaction.reason.is_urgent() && state.manual.iter().any(|request| request.waits_for(family.id)) {
                return None;
            }
            Some((family, compaction, None))
        })
    }

    /// The families that compactions may be picked of now, each with what `score` says of it.
    fn compacting_families(
        &self,
        state: &State,
        score: impl Fn(&Version, &ColumnFamilyOptions, &Running) -> f64,
    ) -> Vec<(f64, Arc<Family>)> {
        let now_micros = self.clock.now_micros();
        let families = self.families.load();
        let scored = families.values().filter_map(|family| {
            let background = state.families.get(&family.id)?;
            let pinned = family.super_version.load();
            if pinned.options.disable_auto_compactions || background.compaction_not_before_micros > now_micros {
                return None;
            }
            Some((score(&pinned.version, &pinned.options, &background.running), Arc::clone(family)))
        });
        scored.collect()
    }

    /// Computes the stall condition of a family anew and tells listeners and waiting writers of a change. The caller
    /// holds no lock.
    ///
    /// Two that do this at the same time may note what they saw in the wrong order, and a stop that is noted last stays. So the one who
    /// notes what is not so any more does it again, and a family that was dropped meanwhile is forgotten.
    pub(crate) fn update_pressure(&self, family: &Family) {
        loop {
            let pinned = family.super_version.load();
            self.note_pressure(family, &pinned);
            if Arc::ptr_eq(&pinned, &family.super_version.load()) {
                break;
            }
        }
        if family.is_dropped() {
            self.controller.forget(family.id);
        }
        self.changed.notify_all();
    }

    fn note_pressure(&self, family: &Family, pinned: &SuperVersion) {
        let (version, options) = (&pinned.version, &*pinned.options);
        let targets = LevelTargets::new(version, options);
        let pressure = pressure(pinned);
        self.note_owed(family, version, options, &targets);
        let (previous, current) = self.controller.update(family.id, pressure, options);
        if previous != current {
            let info = StallInfo { column_family: family.name.clone(), previous, current };
            self.notify(|listener| listener.stall_changed(&info));
        }
    }

    /// Computes anew what compactions of the family owe, for the pace of writers. The caller holds no lock.
    pub(crate) fn note_owed(
        &self,
        family: &Family,
        version: &Version,
        options: &ColumnFamilyOptions,
        targets: &LevelTargets,
    ) {
        if self.pacer().is_none() && !self.io_rate.is_tuned() {
            return;
        }
        let running = self.state.lock().families.get(&family.id).map(|background| background.running.moving());
        let owed = match options.compaction_style {
            CompactionStyle::Leveled => pacing::owed_bytes(version, options, targets, &running.unwrap_or_default()),
            CompactionStyle::Universal | CompactionStyle::Lazy => {
                pacing::owed_bytes_universal(version, options, &running.unwrap_or_default())
            }
            CompactionStyle::Fifo => 0,
        };
        family.work.set_owed(owed);
    }

    /// Opens tables that were just written with range tombstones, so that pickers know what these cover; the next read would do it otherwise.
    pub(crate) fn open_tables_with_ranges(&self, family: &Family) {
        let version = Arc::clone(&family.super_version.load().version);
        for (_, file) in version.files_with_ranges().filter(|(_, file)| file.has_ranges == Some(true)) {
            // Whoever needs the table meets the error.
            let _ = family.table_cache.reader(file);
        }
    }

    /// A job has cleaned up behind itself.
    pub(crate) fn job_ended(&self) {
        self.state.lock().ending_jobs -= 1;
        self.changed.notify_all();
    }

    /// Starts a new MANIFEST if the last write of it failed. A job does this first, so that it makes no table that no
    /// MANIFEST can name: on a full device each attempt would leave one more.
    pub(crate) fn mend_manifest(&self) -> Result<()> {
        {
            let mut versions = self.versions.lock();
            if !versions.is_manifest_broken() {
                return Ok(());
            }
            versions.write_new_manifest(&mut [])?;
        }
        self.delete_obsolete_files();
        Ok(())
    }

    /// Writes an edit that somebody waits for. One that failed may be in the MANIFEST after a crash all the same: before others get the locks, and go on with what was before, a new
    /// MANIFEST says that it is not. Where that cannot be written either, nothing is acknowledged any more.
    pub(crate) fn write_for_certain<'a, T>(
        &self,
        mut versions: MutexGuard<'a, VersionSet>,
        write: impl FnOnce(&mut VersionSet) -> Result<T>,
    ) -> Result<(MutexGuard<'a, VersionSet>, T)> {
        let doubts = versions.doubts();
        let error = match write(&mut versions) {
            Ok(written) => return Ok((versions, written)),
            Err(error) => error,
        };
        let is_in_doubt = versions.doubts() != doubts && versions.write_new_manifest(&mut []).is_err();
        let is_first = is_in_doubt && self.errors.fail(&error);
        drop(versions);
        if is_first {
            self.tell_failure(&error);
        }
        Err(error)
    }

    /// Makes the engine read-only because of `error`.
    pub(crate) fn fail(&self, error: &Error) {
        if self.errors.fail(error) {
            self.tell_failure(error);
        } else {
            self.changed.notify_all();
        }
    }

    /// Tells everybody of the error that made the engine read-only.
    pub(crate) fn tell_failure(&self, error: &Error) {
        self.metrics.add(Counter::BackgroundErrors, 1);
        self.notify(|listener| listener.background_error(Some(error)));
        self.changed.notify_all();
    }

    /// Makes the engine read-only because a job panicked.
    pub(crate) fn fail_poisoned(&self, job: &'static str, message: &str) {
        self.fail(&Error::new(ErrorKind::Poisoned, format!("a {job} job panicked: {message}")));
    }

    /// Decides what the failure of a background job means: a full device passes, other errors are tried again a few
    /// times, and damage is final. Returns whether the job may be tried again. `maker`: for whose room writers may be waiting; `None` of a job that somebody asked for, who is told, and that
    /// nobody else waits for, or that nobody wants any more.
    pub(crate) fn job_failed(&self, error: &Error, failures: u32, maker: Option<RoomMaker>) -> bool {
        let passes = match error.kind() {
            ErrorKind::NoSpace => {
                // What is reserved there may be enough for the next attempt.
                self.drop_next_wal();
                true
            }
            ErrorKind::Io | ErrorKind::Busy => failures < MAX_FAILURES,
            _ => false,
        };
        self.metrics.add_all([
            (Counter::ErrorsMet, 1),
            (Counter::IoErrorsMet, u64::from(matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace))),
            (Counter::PassingErrorsMet, u64::from(passes)),
        ]);
        if passes {
            if let Some(maker) = maker {
                self.errors.set_passing(maker, Some(error.clone()));
            }
            self.changed.notify_all();
        } else {
            self.fail(error);
        }
        passes
    }
}

/// Looks for due work once, later.
struct ScheduleLater {
    db: Weak<DbInner>,
    delay: Option<Duration>,
}

impl Job for ScheduleLater {
    fn name(&self) -> &'static str {
        "schedule"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        if let Some(delay) = self.delay.take() {
            return Progress::After(delay);
        }
        if let Some(db) = self.db.upgrade() {
            db.schedule();
            db.note_expiry_time();
        }
        Progress::Done
    }

    fn poisoned(&mut self, message: &str) {
        if let Some(db) = self.db.upgrade() {
            db.fail_poisoned(self.name(), message);
        }
    }
}

impl DbInner {
    /// Looks for due work after `delay`.
    pub(crate) fn schedule_after(self: &Arc<Self>, delay: Duration) {
        let job = ScheduleLater { db: Arc::downgrade(self), delay: Some(delay) };
        self.executor.submit(Priority::High, Box::new(job));
    }

    /// Whether the picker would start a compaction of the family if jobs were free.
    pub(crate) fn compaction_is_due(&self, family: &Family, pinned: &SuperVersion, state: &State) -> bool {
        let Some(background) = state.families.get(&family.id) else { return false };
        let now_seconds = self.clock.unix_seconds();
        let version = &pinned.version;
        let options = &*pinned.options;
        if options.disable_auto_compactions {
            return false;
        }
        if compaction::pick_covered(version, || self.snapshots.seqnos()).is_some() {
            return true;
        }
        if family.expiry.is_some() && self.expiry_is_due(family, pinned, state) {
            return true;
        }
        let running = &background.running;
        let drains = || self.drains(background) && self.drain_of(pinned, background).is_some();
        if compaction::urgency(version, options, now_seconds, running) < 1.0 {
            return drains();
        }
        let waits = background.compaction_not_before_micros > self.clock.now_micros();
        waits || compaction::pick(version, options, now_seconds, running).is_some() || drains()
    }
}
