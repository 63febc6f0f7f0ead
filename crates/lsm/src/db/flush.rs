//! Flush: sealed memtables become one table in level 0.
//!
//! Order: the table is durable, then every WAL that covers its entries is, then the MANIFEST names it. The second step keeps families
//! together: without it a power loss could keep this family's entries and lose older ones of another.

use super::background::retry_delay;
use super::column_family::Family;
use super::error_state::RoomMaker;
use super::io_rate::{Metered, Moved};
use super::pacing::Working;
use super::state::DbInner;
use super::state::Surroundings;
use super::super_version::SuperVersion;
use crate::compaction::{
    DroppedEntries, HiddenWatch, JobFiles, RulesOptions, Sieve, compression_of_flush, dictionary_options,
};
use crate::event::{FlushInfo, FlushReason, JobId};
use crate::file_meta::{FileMetaData, other_fields};
use crate::file_names::FileName;
use crate::holders::Holder;
use crate::iterator::{ChildIter, InternalIterator, MergingIter};
use crate::key::{ColumnFamilyId, SeqNo};
use crate::memtable::{JobRoom, Memtable};
use crate::metrics::{Counter, HistogramKind};
use crate::options::{ColumnFamilyOptions, FileChecksum};
use crate::range_tombstones::{Fragments, RangeTombstone, retained};
use crate::sst::{TableBuilder, TableBuilderOptions, TableReader, TableTail, WarmBlocks, WriteBack};
use crate::version::VersionEdit;
use siltstone_base::env::{FileKind, FileOptions, IoPriority};
use siltstone_base::executor::{Budget, Job, Progress};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::rate_limiter::RatePriority;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// One table being made of memtables, in steps.
pub(crate) struct TableBuild {
    merged: MergingIter<ChildIter>,
    builder: Option<TableBuilder>,
    file_number: u64,
    sieve: Sieve,
    /// Bytes of keys and values that were read.
    payload: u64,
    /// Those that went into the table.
    kept: u64,
    /// The range tombstones that the table gets.
    retained: Vec<RangeTombstone>,
    unix_seconds: u64,
    /// All entries are added.
    is_read: bool,
    /// For who sees what goes.
    files: Arc<JobFiles>,
}

impl Drop for TableBuild {
    fn drop(&mut self) {
        self.files.set_seen();
    }
}

/// What [`TableBuild`] needs of its surroundings; recovery has them before there is a database.
pub(crate) struct BuildContext<'a> {
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) file_number: u64,
    pub(crate) snapshots: Vec<SeqNo>,
    /// Puts the blocks into the block cache.
    pub(crate) keeps_cached: bool,
}

impl TableBuild {
    /// Starts a table of `memtables` (newest first).
    pub(crate) fn start(context: BuildContext<'_>, family: &Arc<Family>, memtables: &[Arc<Memtable>]) -> Result<Self> {
        let BuildContext { surroundings: db, file_number, snapshots, keeps_cached } = context;
        let path = FileName::Table(file_number).path(&db.dir);
        let direct = db.options.use_direct_io_for_flush_and_compaction;
        let file = db
            .env
            .create_append(&path, &FileOptions::new(FileKind::Table).direct(direct))
            .map_err(|error| Error::io("create", &path, error))?;
        let unix_seconds = db.clock.unix_seconds();
        let options: &ColumnFamilyOptions = &family.options();
        let mut builder = TableBuilder::new(
            file,
            path,
            TableBuilderOptions {
                comparator: family.comparator.clone(),
                table: options.table.clone().filter_policy(options.table.upper_level_filter()),
                merge_operator: options
                    .merge_operator
                    .as_ref()
                    .map(|operator| operator.name().to_owned())
                    .unwrap_or_default(),
                compression: compression_of_flush(options),
                zstd_level: options.zstd_level,
                dictionary: dictionary_options(options),
                collectors: options.table_properties_collectors.clone(),
                expiry: options.expiry.clone(),
                file_checksum: db.options.file_checksum == FileChecksum::Crc32c,
                level: -1,
                prefix_extractor: options.prefix_extractor.clone(),
                column_family_id: family.id,
                column_family_name: family.name.clone(),
                db_id: db.db_id.clone(),
                session_id: db.session_id.clone(),
                file_number,
                creation_time: unix_seconds,
                oldest_key_time: unix_seconds,
                newest_key_time: unix_seconds,
                host_id: db.options.db_host_id.clone(),
                file_creation_time: unix_seconds,
                priority: IoPriority::High,
                write_back: WriteBack {
                    bytes: db.live_options.load().bytes_per_sync,
                    strict: db.options.strict_bytes_per_sync,
                },
                metrics: Some(Arc::clone(&db.metrics)),
                sync_kind: HistogramKind::TableSync,
            },
        )?;
        builder.count_memory(db.holders.charge(Holder::Jobs));
        if keeps_cached {
            let (cache, pool) = (Arc::clone(&db.block_cache), db.block_pool.clone());
            builder.keep_warm(WarmBlocks { cache, pool, watch: None });
        }
        let children = memtables.iter().map(|memtable| ChildIter::Memtable(memtable.iter())).collect();
        let mut merged = MergingIter::new(family.comparator.clone(), children);
        merged.seek_to_first();
        let tombstones: Vec<_> = memtables.iter().flat_map(|memtable| memtable.range_tombstones()).collect();
        let ranges = Fragments::new(&family.comparator, &tombstones);
        let retained = retained(&family.comparator, tombstones, &snapshots, |_, _| true);
        let mut sieve = Sieve::new(RulesOptions {
            order: family.comparator.clone(),
            snapshots,
            bottommost: false,
            filter: None,
            expiring: None,
            merge_operator: options.merge_operator.clone(),
            output_level: 0,
        });
        sieve.set_ranges(ranges);
        let files = JobFiles::of_flush(file_number);
        let watch = |rows: &Arc<_>| HiddenWatch { rows: Arc::clone(rows), files: Arc::clone(&files) };
        sieve.set_watch(family.hidden_rows.get().map(watch));
        Ok(Self {
            merged,
            builder: Some(builder),
            file_number,
            payload: 0,
            kept: 0,
            retained,
            sieve,
            unix_seconds,
            is_read: false,
            files,
        })
    }

    /// Adds entries, and prepares the table for its end, within the budget. Returns whether all is done.
    pub(crate) fn step(&mut self, mut budget: Option<&mut Budget<'_>>) -> Result<bool> {
        let Some(builder) = &mut self.builder else { return Ok(true) };
        if self.is_read {
            return builder.prepare(&mut || budget.as_ref().is_some_and(|budget| budget.is_over()));
        }
        // The tables lie beneath.
        let mut beneath = |_: &[u8]| true;
        let kept = &mut self.kept;
        let mut write = |key: &[u8], value: &[u8], _: bool| {
            *kept += (key.len() + value.len()) as u64;
            builder.add(key, value)
        };
        while self.merged.valid() {
            let bytes = self.merged.key().len() + self.merged.value().len();
            self.sieve.take(self.merged.key(), self.merged.value(), &mut beneath, &mut write)?;
            self.payload += bytes as u64;
            self.merged.next();
            if let Some(budget) = &mut budget
                && budget.spend_entry(bytes)
            {
                return Ok(false);
            }
        }
        self.merged.status()?;
        self.sieve.finish(&mut write)?;
        self.is_read = true;
        builder.prepare(&mut || budget.as_ref().is_some_and(|budget| budget.is_over()))
    }

    /// Bytes of the table so far, about.
    fn bytes_written(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::estimated_size)
    }

    /// Makes the table durable and says what it is. `None`: no entry was left, and nothing may name the file.
    pub(crate) fn finish(&mut self) -> Result<Option<FileMetaData>> {
        Ok(self.finish_with_tail()?.map(|(file, _)| file))
    }

    /// The same, with what it takes to open the table.
    fn finish_with_tail(&mut self) -> Result<Option<(FileMetaData, TableTail)>> {
        let Some(mut builder) = self.builder.take() else {
            return Err(Error::new(ErrorKind::Aborted, "the table was finished before"));
        };
        if builder.num_entries() == 0 && self.retained.is_empty() {
            builder.abandon();
            return Ok(None);
        }
        self.retained.iter().try_for_each(|tombstone| builder.add_range_tombstone(tombstone))?;
        let (summary, tail) = builder.finish_with_tail()?;
        let file = FileMetaData {
            number: self.file_number,
            file_size: summary.file_size,
            smallest: summary.smallest,
            largest: summary.largest,
            smallest_seqno: summary.smallest_seqno,
            largest_seqno: summary.largest_seqno,
            epoch_number: 0,
            oldest_ancestor_time: self.unix_seconds,
            file_creation_time: self.unix_seconds,
            unique_id: summary.unique_id,
            other_fields: other_fields(summary.file_crc, summary.needs_compaction),
            has_ranges: Some(summary.num_range_deletions > 0),
        };
        Ok(Some((file, tail)))
    }

    /// What became of the entries.
    fn dropped(&self) -> DroppedEntries {
        self.sieve.dropped()
    }
}

impl TableBuild {
    /// Lets the file of a table go that will not be used: once no MANIFEST can name it.
    fn discard(mut self, db: &DbInner) {
        if let Some(builder) = self.builder.take() {
            builder.abandon();
        }
        db.obsolete_tables.push(FileName::Table(self.file_number));
        db.delete_obsolete_files();
    }
}

/// Flushes all sealed memtables of one family.
pub(crate) struct FlushJob {
    db: Arc<DbInner>,
    family: Arc<Family>,
    info: FlushInfo,
    started_micros: u64,
    memtables: Vec<Arc<Memtable>>,
    build: Option<TableBuild>,
    /// What it came to, when the table is durable: `None` if there is none.
    built: Option<Option<(FileMetaData, TableTail)>>,
    /// Its progress, for the pace of writers.
    working: Option<Working>,
    /// What the rate limiter was asked for.
    metered: Metered,
    /// Room for what it holds while it builds.
    room: Option<JobRoom>,
    /// Whether it does not run any more and cleans up.
    is_ending: bool,
}

impl FlushJob {
    pub(crate) fn new(db: Arc<DbInner>, family: Arc<Family>, job_id: JobId, reason: FlushReason) -> Self {
        let info = FlushInfo {
            job_id,
            column_family: family.name.clone(),
            reason,
            entries: 0,
            file_number: 0,
            file_size: 0,
            seqnos: (0, 0),
            duration: Duration::ZERO,
            error: None,
        };
        let started_micros = db.clock.now_micros();
        let metered = Metered::new(RatePriority::Flush);
        Self {
            db,
            family,
            info,
            started_micros,
            memtables: Vec::new(),
            build: None,
            built: None,
            working: None,
            metered,
            room: None,
            is_ending: false,
        }
    }

    fn try_step(&mut self, budget: &mut Budget<'_>) -> Result<Progress> {
        if self.family.is_dropped() || self.db.is_closing() || self.db.errors.is_failed() {
            return Err(Error::new(ErrorKind::Aborted, "the flush is not wanted any more"));
        }
        if let Some(wait) = self.db.io_rate.wait(&mut self.metered) {
            return Ok(Progress::After(wait));
        }
        let build = match &mut self.build {
            Some(build) => build,
            None => {
                let build = self.start()?;
                self.build.insert(build)
            }
        };
        if let Some(built) = self.built.take() {
            let dropped = build.dropped();
            self.open_and_install(built, dropped)?;
            return Ok(Progress::Done);
        }
        let is_done = build.step(Some(budget))?;
        if let Some(working) = &mut self.working {
            working.reached(build.sieve.entries_in(), self.info.entries);
        }
        let wait = self.db.meter(&mut self.metered, Moved { read: 0, written: build.bytes_written() });
        if !is_done {
            return Ok(wait.map_or(Progress::More, Progress::After));
        }
        let (built, dropped) = (build.finish_with_tail()?, build.dropped());
        if budget.is_over() {
            self.built = Some(built);
            return Ok(Progress::More);
        }
        self.open_and_install(built, dropped)?;
        Ok(Progress::Done)
    }

    /// Opens the table, which readers would else do that it keeps waiting, and lets them see it.
    fn open_and_install(&mut self, built: Option<(FileMetaData, TableTail)>, dropped: DroppedEntries) -> Result<()> {
        let (mut file, mut reader) = (None, None);
        if let Some((written, tail)) = built {
            reader = Some(self.family.table_cache.open_written(&written, tail)?);
            file = Some(written);
        }
        self.db.sync_directory()?;
        self.install(file, reader, dropped)
    }

    fn start(&mut self) -> Result<TableBuild> {
        self.room = Some(self.db.memtable_memory.job());
        let pinned = self.family.super_version.load();
        let buffer_bytes = pinned.options.write_buffer_size;
        self.memtables = pinned.immutables.newest_first().to_vec();
        self.info.entries = self.memtables.iter().map(|memtable| memtable.num_entries()).sum();
        let bytes: usize = self.memtables.iter().map(|memtable| memtable.approximate_memory_usage()).sum();
        self.working = Some(Working::flush(&self.family.work, bytes as u64, buffer_bytes));
        self.info.file_number = self.db.file_numbers.allocate();
        self.db.notify(|listener| listener.flush_begin(&self.info));
        self.db.mend_manifest()?;
        let context = BuildContext {
            surroundings: &self.db.surroundings,
            file_number: self.info.file_number,
            snapshots: self.db.snapshots.seqnos(),
            keeps_cached: self.keeps_cached(),
        };
        TableBuild::start(context, &self.family, &self.memtables)
    }

    /// Whether the blocks of the table come into the cache: callers only read any more, the rows are in memory, and those of all families leave most of the cache to others.
    fn keeps_cached(&self) -> bool {
        let db = &self.db;
        let room = db.block_cache.capacity().saturating_sub(db.block_cache.charged());
        db.options.cache_rewritten_blocks
            && self.info.reason == FlushReason::ReadOnly
            && db.memtable_memory.bytes() <= room / 2
    }

    /// Makes the WALs beneath durable, then names the table in the MANIFEST, then lets readers see it.
    fn install(
        &mut self,
        file: Option<FileMetaData>,
        reader: Option<Arc<TableReader>>,
        dropped: DroppedEntries,
    ) -> Result<()> {
        let db = &self.db;
        let bytes = file.as_ref().map_or(0, |file| file.file_size);
        self.info.file_size = bytes;
        match &file {
            Some(file) => self.info.seqnos = (file.smallest_seqno, file.largest_seqno),
            // Nothing names the file; it is deleted with others that nobody needs.
            None => db.obsolete_tables.push(FileName::Table(std::mem::take(&mut self.info.file_number))),
        }
        let mut versions = db.versions.lock();
        if self.family.is_dropped() {
            return Err(Error::new(ErrorKind::Aborted, "the column family was dropped"));
        }
        let next_log = self.next_log();
        let is_own = |family: &Family, id: u64| family.id == self.family.id && self.has_flushed(id);
        let prepared_log = db.oldest_prepared_log(is_own);
        // Where a WAL is kept for what it prepared, recovery relies on what those behind it decided.
        if (db.families.load().len() > 1 || prepared_log.is_some())
            && !is_planted(PlantedBug::FlushBeforeWalSync)
            && let Err(error) = db.sync_closed_wals(next_log)
        {
            db.fail(&error);
            return Err(error);
        }
        let mut edit = VersionEdit::new(ColumnFamilyId(self.family.id));
        edit.log_number = Some(next_log);
        let needed_log = db.oldest_needed_log(next_log, is_own);
        // Only WALs below what the MANIFEST states of this are deleted, so that recovery can tell a deleted WAL from one whose name was lost.
        edit.min_log_number_to_keep = Some(prepared_log.map_or(needed_log, |prepared| prepared.min(needed_log)));
        edit.last_sequence = Some(db.visible());
        if let Some(file) = file {
            edit.add_file(0, file);
        }
        let table = edit.new_files.first().map(|(_, file)| file.number);
        let installed = versions.log_and_apply(&mut [edit])?;
        let version = installed.into_iter().find(|(id, _)| id.0 == self.family.id).map(|(_, version)| version);
        if let Some((version, reader)) = version.as_ref().zip(reader) {
            version.set_readers(0, vec![(self.info.file_number, reader)]);
        }
        // What nobody has any more goes when no lock is held.
        let replaced;
        {
            let _state = db.state.lock();
            let old = self.family.super_version.load_full();
            let version = version.unwrap_or_else(|| Arc::clone(&old.version));
            self.family.publish(
                SuperVersion {
                    memtable: Arc::clone(&old.memtable),
                    immutables: old.immutables.without(|id| self.has_flushed(id)),
                    version,
                    options: Arc::clone(&old.options),
                },
                db.clock.now_micros(),
            );
            replaced = old;
        }
        drop(versions);
        db.notify_of_tables(table);
        self.count_memory();
        drop((replaced, self.build.take(), std::mem::take(&mut self.memtables)));
        db.metrics.add_all([
            (Counter::Flushes, 1),
            (Counter::FlushWriteBytes, bytes),
            (Counter::CompactionKeyDropRange, dropped.covered),
            (Counter::OperandsMerged, dropped.operands_merged),
            (Counter::MergeFailures, dropped.merge_failures),
            (Counter::SingleDeleteMismatches, dropped.single_delete_mismatches),
        ]);
        Ok(())
    }

    /// Counts what the memtables had, and why they were flushed.
    fn count_memory(&self) {
        let metrics = &self.db.metrics;
        let memory = self.memtables.iter().map(|memtable| memtable.approximate_memory_usage()).sum::<usize>() as u64;
        let (payload, kept) = self.build.as_ref().map_or((0, 0), |build| (build.payload, build.kept));
        metrics.add_all([
            (Counter::MemtablePayloadAtFlush, payload),
            // What is merged may be longer than its parts.
            (Counter::MemtableGarbageAtFlush, payload.saturating_sub(kept)),
        ]);
        metrics.record(HistogramKind::FlushMemtableMemory, memory);
        metrics.record(HistogramKind::FlushMemtableData, payload);
        let (reason, distribution) = match self.info.reason {
            FlushReason::WriteBufferFull => (Counter::FlushesWriteBufferFull, HistogramKind::FlushFullMemtableMemory),
            FlushReason::MemtableTotalSize => {
                (Counter::FlushesWriteBufferManager, HistogramKind::FlushManagedMemtableMemory)
            }
            _ => return,
        };
        metrics.add(reason, 1);
        metrics.record(distribution, memory);
    }

    /// Whether the memtable `id` is in the table.
    fn has_flushed(&self, id: u64) -> bool {
        self.memtables.iter().any(|memtable| memtable.id() == id)
    }

    /// The first WAL whose entries of this family are not in the table.
    fn next_log(&self) -> u64 {
        let pinned = self.family.super_version.load();
        let remaining = pinned.immutables.without(|id| self.has_flushed(id));
        remaining.oldest_first().map(|memtable| memtable.id()).min().unwrap_or_else(|| pinned.memtable.id())
    }

    /// Ends the job, or tries it again later.
    fn end(&mut self, outcome: Result<()>) -> Progress {
        let db = Arc::clone(&self.db);
        if let Some(build) = self.build.take()
            && outcome.is_err()
        {
            build.discard(&db);
        }
        let failures = {
            let mut state = db.state.lock();
            let background = state.families.get_mut(&self.family.id);
            background.map_or(0, |background| {
                background.flush_failures = if outcome.is_ok() { 0 } else { background.flush_failures + 1 };
                background.failed_flushes += u64::from(outcome.is_err());
                background.flush_failures
            })
        };
        let retry = match &outcome {
            Ok(()) => {
                db.errors.set_passing(RoomMaker::Flush, None);
                false
            }
            Err(error) if error.kind() == ErrorKind::Aborted => false,
            Err(error) => db.job_failed(error, failures, Some(RoomMaker::Flush)),
        };
        self.memtables.clear();
        self.built = None;
        self.room = None;
        // Another attempt writes another table.
        self.metered = Metered::new(RatePriority::Flush);
        Working::end(self.working.take(), outcome.is_ok());
        let micros = db.clock.now_micros() - self.started_micros;
        self.info.duration = Duration::from_micros(micros);
        self.info.error = outcome.err();
        db.metrics.add(Counter::FlushMicros, micros);
        db.metrics.record(HistogramKind::FlushTime, micros);
        db.notify(|listener| listener.flush_end(&self.info));
        // Whoever paused background work waits for this job; resuming starts it anew.
        if retry && db.state.lock().background_paused == 0 {
            return Progress::After(retry_delay(failures));
        }
        {
            let mut state = db.state.lock();
            state.running_flushes -= 1;
            state.ending_jobs += 1;
            self.is_ending = true;
            if let Some(background) = state.families.get_mut(&self.family.id) {
                background.flush_running = false;
                if self.family.super_version.load().immutables.is_empty() {
                    background.flush_requested = None;
                }
            }
        }
        db.update_pressure(&self.family);
        db.open_tables_with_ranges(&self.family);
        db.schedule();
        // An error of it makes the engine read-only, whose cause is told then.
        let _ = db.finish_retired_wals();
        db.delete_obsolete_files_of_flush();
        db.surroundings.expiry.note_time();
        self.is_ending = false;
        db.job_ended();
        Progress::Done
    }
}

impl Job for FlushJob {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        match self.try_step(budget) {
            Ok(Progress::Done) => self.end(Ok(())),
            Ok(progress) => progress,
            Err(error) => self.end(Err(error)),
        }
    }

    fn poisoned(&mut self, message: &str) {
        self.db.fail_poisoned("flush", message);
        // It is counted out once, also where what cleans up is what panicked.
        match self.is_ending {
            true => self.db.job_ended(),
            false => drop(self.end(Err(Error::new(ErrorKind::Aborted, "the flush panicked")))),
        }
    }
}
