//! A compaction as a background job: run it in steps, install what it made, let readers see it.

use super::background::retry_delay;
use super::column_family::Family;
use super::io_rate::{Metered, Moved, rate_priority};
use super::manual::ManualCompaction;
use super::pacing::{Working, owed_bytes_of};
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::compaction::job::{CompactionEnv, CompactionJob, CompactionOutput};
use crate::compaction::{Compaction, RunningId};
use crate::event::{CompactionInfo, JobId};
use crate::file_names::FileName;
use crate::metrics::Counter;
use crate::options::ColumnFamilyOptions;
use crate::sst::WriteBack;
use crate::version::{Version, VersionEdit};
use siltstone_base::executor::{Budget, Job, Progress};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// How long a compaction leaves the device to a flush that writers will wait for.
const FLUSH_HEADSTART: Duration = Duration::from_micros(500);

/// One compaction of one family.
pub(crate) struct CompactJob {
    db: Arc<DbInner>,
    family: Arc<Family>,
    /// The family's options when the compaction was picked: it ends with them, whatever is changed meanwhile.
    options: Arc<ColumnFamilyOptions>,
    /// What to do; let go when the job ends.
    compaction: Option<Compaction>,
    /// The registration that keeps other compactions away from the inputs.
    registration: RunningId,
    running: Option<CompactionJob>,
    /// Its progress, for the pace of writers.
    working: Option<Working>,
    /// What the rate limiter was asked for.
    metered: Metered,
    info: CompactionInfo,
    started_micros: u64,
    begun: bool,
    /// Whoever waits for it.
    manual: Option<Arc<ManualCompaction>>,
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
            duration: Duration::ZERO,
            error: None,
        };
        let started_micros = db.clock.now_micros();
        let options = family.options();
        let metered = Metered::new(rate_priority(&compaction));
        Self {
            db,
            family,
            options,
            compaction: Some(compaction),
            registration,
            running: None,
            working: None,
            metered,
            info,
            started_micros,
            begun: false,
            manual,
        }
    }

    fn try_step(&mut self, budget: &mut Budget<'_>) -> Result<Progress> {
        if self.family.is_dropped() || self.db.is_closing() || self.db.errors.is_failed() {
            return Err(Error::new(ErrorKind::Aborted, "the compaction is not wanted any more"));
        }
        if !self.begun {
            self.begun = true;
            self.db.notify(|listener| listener.compaction_begin(&self.info));
            self.db.mend_manifest()?;
            self.db.update_pressure(&self.family);
        }
        if let Some(wait) = self.db.io_rate.wait(&mut self.metered) {
            return Ok(Progress::After(wait));
        }
        let Some(compaction) = &self.compaction else { return Ok(Progress::Done) };
        if compaction.is_edit() {
            self.install(compaction.edit())?;
            if compaction.trivial_move {
                self.db.metrics.add(Counter::TrivialMoves, self.info.inputs.len() as u64);
            }
            return Ok(Progress::Done);
        }
        if self.db.is_flush_urgent(&self.family) {
            return Ok(Progress::After(FLUSH_HEADSTART));
        }
        let running = match &mut self.running {
            Some(running) => running,
            None => {
                let env = self.environment();
                let level0 = compaction.inputs.iter().filter(|inputs| inputs.level == 0);
                let level0 = level0.map(|inputs| inputs.files.len()).sum();
                if compaction.is_owed() {
                    let (work, style) = (&self.family.work, self.options.compaction_style);
                    let owed = owed_bytes_of(compaction, style);
                    self.working = Some(Working::compaction(work, self.info.input_bytes, owed, level0));
                }
                self.running.insert(CompactionJob::new(compaction.clone(), env))
            }
        };
        let is_done = running.step(budget)?;
        if let Some(working) = &mut self.working {
            let (done, all) = running.progress();
            working.reached(done, all);
        }
        let moved = Moved { read: running.bytes_read(), written: running.bytes_written() };
        let wait = self.db.meter(&mut self.metered, moved);
        if !is_done {
            return Ok(wait.map_or(Progress::More, Progress::After));
        }
        if let Some(running) = self.running.take() {
            let output = running.finish()?;
            self.finish(output)?;
        }
        Ok(Progress::Done)
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
            file_numbers: Arc::clone(&db.file_numbers),
            db_id: db.db_id.clone(),
            session_id: db.session_id.clone(),
            host_id: db.options.db_host_id.clone(),
            clock: Arc::clone(&db.clock),
            readahead_size: live.compaction_readahead_size,
            use_direct_io: db.options.use_direct_io_for_flush_and_compaction,
            write_back: WriteBack { bytes: live.bytes_per_sync, strict: db.options.strict_bytes_per_sync },
            file_checksum: db.options.file_checksum,
        }
    }

    fn finish(&mut self, output: CompactionOutput) -> Result<()> {
        self.info.outputs = output.files.iter().map(|file| file.number).collect();
        self.info.output_bytes = output.bytes_written;
        self.db.metrics.add_all([
            (Counter::Compactions, 1),
            (Counter::CompactReadBytes, output.bytes_read),
            (Counter::CompactWriteBytes, output.bytes_written),
            (Counter::CompactionKeyDropNewerEntry, output.dropped.hidden),
            (Counter::CompactionKeyDropUser, output.dropped.filtered),
            (Counter::CompactionKeyDropObsolete, output.dropped.obsolete_tombstones + output.dropped.single_deletes),
            (Counter::CompactionKeyDropRange, output.dropped.covered),
            (Counter::OperandsMerged, output.dropped.operands_merged),
            (Counter::MergeFailures, output.dropped.merge_failures),
            (Counter::SingleDeleteMismatches, output.dropped.single_delete_mismatches),
        ]);
        if is_planted(PlantedBug::InputsDeletedBeforeInstall) {
            for (_, number) in &self.info.inputs {
                let path = FileName::Table(*number).path(&self.db.dir);
                let _ = self.db.env.remove_file(&path);
            }
        }
        let installed = self.install(output.edit);
        if installed.is_err() {
            // They are deleted once no MANIFEST can name them.
            self.info.outputs.iter().for_each(|number| self.db.obsolete_tables.push(FileName::Table(*number)));
        }
        installed
    }

    /// Names the outputs in the MANIFEST, then lets readers see them.
    fn install(&self, edit: VersionEdit) -> Result<()> {
        let mut versions = self.db.versions.lock();
        if self.family.is_dropped() {
            return Err(Error::new(ErrorKind::Aborted, "the column family was dropped"));
        }
        let installed = versions.log_and_apply(&mut [edit])?;
        for (id, version) in installed {
            if id.0 == self.family.id {
                self.db.publish_version(&self.family, version);
            }
        }
        Ok(())
    }

    /// Ends the job; after an error the inputs stay as they were, and may be picked again after a while.
    fn end(&mut self, outcome: Result<()>) -> Progress {
        let db = Arc::clone(&self.db);
        if let Some(running) = self.running.take()
            && outcome.is_err()
            && !db.versions.lock().is_manifest_broken()
        {
            running.abandon();
        }
        let failures = self.release_inputs(outcome.is_ok());
        let mut retry_micros = None;
        match &outcome {
            Ok(()) => db.errors.set_passing(None),
            Err(error) if error.kind() == ErrorKind::Aborted => {}
            Err(error) => {
                if db.job_failed(error, failures) {
                    retry_micros = Some(retry_delay(failures));
                }
            }
        }
        let micros = db.clock.now_micros() - self.started_micros;
        self.info.duration = Duration::from_micros(micros);
        db.metrics.add(Counter::CompactionMicros, micros);
        if let Some(manual) = self.manual.take() {
            manual.step_done(outcome.as_ref().err());
        }
        self.info.error = outcome.err();
        db.notify(|listener| listener.compaction_end(&self.info));
        db.update_pressure(&self.family);
        Working::end(self.working.take(), self.info.error.is_none());
        db.open_tables_with_ranges(&self.family);
        db.schedule();
        db.delete_obsolete_files();
        db.job_ended();
        if let Some(delay) = retry_micros {
            // Nothing else may come along to schedule the next attempt.
            db.schedule_after(delay);
        }
        Progress::Done
    }

    fn release_inputs(&mut self, ok: bool) -> u32 {
        let db = Arc::clone(&self.db);
        let mut state = db.state.lock();
        state.running_compactions -= 1;
        state.ending_jobs += 1;
        let now_micros = db.clock.now_micros();
        // Also of a family that was dropped: its files go when nobody holds them.
        let compaction = self.compaction.take();
        let Some(background) = state.families.get_mut(&self.family.id) else { return 0 };
        if let Some(compaction) = compaction {
            background.running.unregister(self.registration, &compaction);
        }
        background.compaction_failures = if ok { 0 } else { background.compaction_failures + 1 };
        let failures = background.compaction_failures;
        background.compaction_not_before_micros =
            if ok { 0 } else { now_micros + retry_delay(failures).as_micros() as u64 };
        failures
    }
}

impl DbInner {
    /// Lets readers see a new version of a family. The caller holds the versions lock, so versions are published in the order in
    /// which they were made.
    pub(crate) fn publish_version(&self, family: &Family, version: Arc<Version>) {
        let _state = self.state.lock();
        let old = family.super_version.load_full();
        family.publish(
            SuperVersion {
                memtable: Arc::clone(&old.memtable),
                immutables: old.immutables.clone(),
                version,
                options: Arc::clone(&old.options),
            },
            self.clock.now_micros(),
        );
    }
}

impl Job for CompactJob {
    fn name(&self) -> &'static str {
        "compaction"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        match self.try_step(budget) {
            Ok(Progress::Done) => self.end(Ok(())),
            Ok(progress) => progress,
            Err(error) => self.end(Err(error)),
        }
    }

    fn poisoned(&mut self, message: &str) {
        self.db.fail_poisoned("compaction", message);
        self.end(Err(Error::new(ErrorKind::Aborted, "the compaction panicked")));
    }
}
