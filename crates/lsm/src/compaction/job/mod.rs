//! One attempt of a compaction, in steps.
//!
//! A failed attempt leaves the inputs as they are; what it wrote is removed. The outputs count when the edit that
//! [`CompactionJob::finish_all`] returns is durable.
//!
//! A large compaction is shared out: each subcompaction is a job of its own over a range of user keys, with outputs of its own, and one edit names
//! them all. No two of them have entries of one user key, so that each decides alone what becomes of its entries.

mod ranges;
mod shares;
#[cfg(test)]
mod tests;

pub(crate) use shares::{KeyRange, shares};

use super::Compaction;
use super::beneath::Beneath;
use super::blob_garbage::BlobTally;
use super::outputs::Outputs;
use super::rules::{DroppedEntries, HiddenWatch, RulesOptions, Sieve};
use crate::expiry::Expiring;
use crate::file_meta::FileMetaData;
use crate::holders::{Held, Holder, Holders};
use crate::iterator::{ChildIter, InternalIterator, IterPurpose, LevelIter, MergingIter};
use crate::key::{LookupKey, MAX_SEQNO, SeqNo, ValueType, trailer, user_key};
use crate::options::{ColumnFamilyOptions, FileChecksum};
use crate::range_tombstones::{Fragments, retained};
use crate::sst::{CacheWatch, TableReadOptions, TableReader, WriteBack};
use crate::table_cache::TableCache;
use crate::version::{FileNumbers, VersionEdit};
use siltstone_base::clock::Clock;
use siltstone_base::env::{Env, FileKind, IoContext, IoPriority};
use siltstone_base::executor::Budget;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

/// What a compaction job works with.
#[derive(Debug, Clone)]
pub(crate) struct CompactionEnv {
    /// Where the files are.
    pub(crate) env: Arc<dyn Env>,
    /// The directory of the database.
    pub(crate) dir: PathBuf,
    /// The open tables of the family.
    pub(crate) table_cache: Arc<TableCache>,
    /// The options of the family.
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// The name of the family.
    pub(crate) family_name: String,
    /// The live snapshots, ascending, each once; asked for after the compaction was registered.
    pub(crate) snapshots: Vec<SeqNo>,
    /// Which rows are expired for every reader; `None` if none may be removed.
    pub(crate) expiring: Option<Expiring>,
    /// Numbers of outputs come from here.
    pub(crate) file_numbers: Arc<FileNumbers>,
    /// The id of the database.
    pub(crate) db_id: String,
    /// The id of the session.
    pub(crate) session_id: String,
    /// The id of the machine, if it has one.
    pub(crate) host_id: String,
    /// Wall time for the outputs.
    pub(crate) clock: Arc<dyn Clock>,
    /// Bytes that are read at a time.
    pub(crate) readahead_size: usize,
    /// Writes past the operating system's page cache.
    pub(crate) use_direct_io: bool,
    /// When outputs are written back.
    pub(crate) write_back: WriteBack,
    /// Keeps blocks in the block cache that are made of cached ones.
    pub(crate) keeps_cached: bool,
    /// Checksum of each whole table, for the MANIFEST.
    pub(crate) file_checksum: FileChecksum,
    /// Who sees values that go.
    pub(crate) hidden: Option<HiddenWatch>,
    /// Who counts what is gathered.
    pub(crate) holders: Arc<Holders>,
}

/// What a finished compaction did.
#[derive(Debug)]
pub(crate) struct CompactionOutput {
    /// Lets the inputs leave and the outputs enter.
    pub(crate) edit: VersionEdit,
    /// The outputs, ascending.
    pub(crate) files: Vec<FileMetaData>,
    /// Their open readers, by number.
    pub(crate) readers: Vec<(u64, Arc<TableReader>)>,
    /// Bytes of the inputs.
    pub(crate) bytes_read: u64,
    /// Bytes of the outputs.
    pub(crate) bytes_written: u64,
    /// Entries dropped.
    pub(crate) dropped: DroppedEntries,
}

/// A running compaction.
#[derive(Debug)]
pub(crate) struct CompactionJob {
    compaction: Compaction,
    /// The keys that it is about.
    keys: KeyRange,
    env: CompactionEnv,
    /// Set when the inputs were opened.
    input: Option<MergingIter<ChildIter>>,
    sieve: Sieve,
    /// References to values in blob files that were read; `None` if no input has any.
    blob_references: Option<BlobTally>,
    beneath: Beneath,
    /// Which blocks of the inputs are cached, if the outputs are to know.
    cache_watch: Option<Arc<CacheWatch>>,
    outputs: Outputs,
    /// Counts the memory of range tombstones, if there are any.
    held_ranges: Option<Held>,
    /// Entries of the inputs, as their properties say.
    entries: u64,
    /// All inputs are read; tables may remain to be ended.
    is_read: bool,
    /// The last table has all that comes into it.
    is_written: bool,
    is_done: bool,
}

impl CompactionJob {
    /// A job that has done nothing yet of what `compaction` has in `keys`.
    pub(crate) fn new(compaction: Compaction, keys: KeyRange, env: CompactionEnv) -> Self {
        let mut sieve = Sieve::new(RulesOptions {
            order: compaction.input_version.comparator().clone(),
            snapshots: env.snapshots.clone(),
            bottommost: compaction.bottommost,
            filter: env.options.compaction_filter.clone(),
            expiring: env.expiring.clone(),
            merge_operator: env.options.merge_operator.clone(),
            output_level: compaction.output_level,
        });
        sieve.set_watch(env.hidden.clone());
        let has_blobs = compaction.input_files().any(|(_, file)| file.oldest_blob_file().is_some());
        let blob_references = has_blobs.then(BlobTally::default);
        let beneath = Beneath::new(&compaction);
        let cache_watch = env.keeps_cached.then(Arc::default);
        let outputs = Outputs::new(&compaction, &env, cache_watch.clone());
        Self {
            compaction,
            keys,
            env,
            input: None,
            sieve,
            blob_references,
            beneath,
            cache_watch,
            outputs,
            held_ranges: None,
            entries: 0,
            is_read: false,
            is_written: false,
            is_done: false,
        }
    }

    /// Bytes written so far, about.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.outputs.bytes()
    }

    /// Bytes read so far, about.
    pub(crate) fn bytes_read(&self) -> u64 {
        let (done, all) = self.progress();
        let share = done.min(all) as f64 / all.max(1) as f64;
        (self.compaction.input_bytes() as f64 * share) as u64
    }

    /// Entries read so far, and all that the inputs say that they have, those of other subcompactions included.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.sieve.entries_in(), self.entries)
    }

    /// Works until the budget is spent. Returns whether all inputs are read: then [`finish_all`](Self::finish_all) is next.
    ///
    /// # Errors
    ///
    /// Whatever reading or writing meets, and damage of an input. The job must then be [abandoned](Self::abandon).
    pub(crate) fn step(&mut self, budget: &mut Budget<'_>) -> Result<bool> {
        if self.is_done {
            return Ok(true);
        }
        if self.input.is_none() {
            let mut input = self.open_inputs()?;
            self.count_entries()?;
            self.carry_operator_on()?;
            self.carry_times_on()?;
            self.take_ranges()?;
            match &self.keys.start {
                None => input.seek_to_first(),
                Some(start) => input.seek(LookupKey::new(start, MAX_SEQNO).internal_key()),
            }
            self.input = Some(input);
        }
        if !self.outputs.step(&self.env, &mut || budget.is_over())? {
            return Ok(false);
        }
        if self.is_written {
            if self.keys.is_all() {
                self.check_counts(self.sieve.entries_in())?;
            }
            self.is_done = true;
            return Ok(true);
        }
        if self.is_read {
            self.outputs.end_table(&self.env, None)?;
            self.is_written = true;
            return self.step(budget);
        }
        let Some(input) = &mut self.input else { return Ok(false) };
        let (outputs, env, beneath) = (&mut self.outputs, &self.env, &mut self.beneath);
        let mut beneath = |key: &[u8]| beneath.may_have(key);
        let order = self.compaction.input_version.comparator();
        while input.valid() {
            if let Some(end) = &self.keys.end
                && order.compare_user(user_key(input.key()), end).is_ge()
            {
                break;
            }
            let mut write =
                |key: &[u8], value: &[u8], is_first_of_key: bool| outputs.add(env, key, value, is_first_of_key);
            if let Some(tally) = &mut self.blob_references
                && trailer(input.key()) as u8 == ValueType::BlobIndex as u8
            {
                tally.count(user_key(input.key()), input.value())?;
            }
            let bytes = input.key().len() + input.value().len();
            self.sieve.take(input.key(), input.value(), &mut beneath, &mut write)?;
            input.next();
            if outputs.is_ending() && !outputs.step(env, &mut || budget.is_over())? {
                return Ok(false);
            }
            if budget.spend_entry(bytes) {
                return Ok(false);
            }
        }
        if let Err(error) = input.status()
            && !is_planted(PlantedBug::CompactionSwallowsReadError)
        {
            return Err(error);
        }
        let mut write = |key: &[u8], value: &[u8], is_first_of_key: bool| outputs.add(env, key, value, is_first_of_key);
        self.sieve.finish(&mut write)?;
        self.is_read = true;
        self.step(budget)
    }

    fn count_entries(&mut self) -> Result<()> {
        for (_, file) in self.compaction.input_files() {
            let properties = self.env.table_cache.reader(file)?.properties();
            let points = properties.num_entries.saturating_sub(properties.num_range_deletions);
            self.entries = self.entries.saturating_add(points);
        }
        Ok(())
    }

    /// A family without a merge operator keeps operands as they are: the outputs name the operator that they were written for.
    fn carry_operator_on(&mut self) -> Result<()> {
        if self.env.options.merge_operator.is_some() {
            return Ok(());
        }
        for (_, file) in self.compaction.input_files() {
            let properties = self.env.table_cache.reader(file)?.properties();
            if properties.num_merge_operands > 0 && !properties.merge_operator.is_empty() {
                self.outputs.set_merge_operator(&properties.merge_operator);
            }
        }
        Ok(())
    }

    /// Tells the outputs how new the newest key of the inputs is.
    fn carry_times_on(&mut self) -> Result<()> {
        let mut newest = 0;
        for (_, file) in self.compaction.input_files() {
            let time = self.env.table_cache.reader(file)?.properties().newest_key_time;
            newest = newest.max(if time == 0 { file.file_creation_time } else { time });
        }
        self.outputs.set_newest_key_time(newest);
        Ok(())
    }

    /// Lets the range tombstones of the inputs drop what they cover, and the outputs have what must be kept of them.
    fn take_ranges(&mut self) -> Result<()> {
        let tombstones = ranges::gather(&self.compaction, &self.keys, &self.env.table_cache, self.read_context())?;
        if tombstones.is_empty() {
            return Ok(());
        }
        let order = self.compaction.input_version.comparator();
        let fragments = Fragments::new(order, &tombstones);
        let snapshots = if is_planted(PlantedBug::SnapshotIgnoredByCompaction) { &[] } else { &*self.env.snapshots };
        let beneath = &self.beneath;
        let kept = retained(order, tombstones, snapshots, |start, end| beneath.may_have_any(start, end));
        let bytes = kept.iter().map(|one| one.memory_usage()).sum::<usize>() + fragments.memory_usage();
        self.held_ranges.insert(self.env.holders.charge(Holder::Jobs)).set(bytes as u64);
        self.outputs.set_ranges(kept);
        self.sieve.set_ranges(fragments);
        Ok(())
    }

    /// Checks that every entry of the inputs was read, as far as they say how many they have.
    fn check_counts(&self, entries_in: u64) -> Result<()> {
        let (mut least, mut most) = (0, 0);
        for (_, file) in self.compaction.input_files() {
            let reader = self.env.table_cache.reader(file)?;
            let properties = reader.properties();
            if properties.num_entries == 0 {
                return Ok(());
            }
            let ranges = match reader.range_fragments() {
                Some(_) if !properties.counts_ranges() => {
                    reader.read_range_tombstones(self.read_context())?.len() as u64
                }
                _ => 0,
            };
            let (fewest, all) = properties.point_entries(ranges);
            (least, most) = (least + fewest, most + all);
        }
        if (least..=most).contains(&entries_in) || is_planted(PlantedBug::CompactionSwallowsReadError) {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "the inputs of a compaction say that they have {most} entries, and have {entries_in}"
        )))
    }

    /// Makes the names of all outputs durable. `jobs` are the subcompactions of one compaction, ascending, or one job for all of it.
    ///
    /// REQUIRES: [`step`](Self::step) of each said that all is read.
    ///
    /// # Errors
    ///
    /// Of the directory's sync, and damage of an input; the outputs are then removed.
    pub(crate) fn finish_all(jobs: &mut Vec<Self>) -> Result<CompactionOutput> {
        let output = Self::combine(jobs);
        // Not before: until here whoever gives up removes what they wrote.
        let jobs = std::mem::take(jobs);
        if output.is_err() {
            jobs.into_iter().for_each(Self::abandon);
        }
        output
    }

    fn combine(jobs: &[Self]) -> Result<CompactionOutput> {
        let Some(first) = jobs.first().filter(|_| jobs.iter().all(|job| job.is_done)) else {
            return Err(Error::invalid_argument("a compaction was finished before its end"));
        };
        if jobs.len() > 1 {
            first.check_counts(jobs.iter().map(|job| job.sieve.entries_in()).sum())?;
        }
        let files: Vec<_> = jobs.iter().flat_map(|job| job.outputs.finished()).cloned().collect();
        let env = &first.env;
        if !files.is_empty() {
            env.env.sync_dir(&env.dir).map_err(|source| Error::io("sync", &env.dir, source))?;
        }
        let mut edit = first.compaction.deletions();
        for file in &files {
            edit.add_file(first.compaction.output_level, file.clone());
        }
        let (mut references, mut kept) = (BlobTally::default(), BlobTally::default());
        let mut dropped = DroppedEntries::default();
        for job in jobs {
            job.blob_references.iter().for_each(|tally| references.absorb(tally));
            kept.absorb(job.outputs.blob_references());
            dropped.absorb(job.sieve.dropped());
        }
        edit.blob_files = references.garbage(&kept);
        let readers = jobs.iter().flat_map(|job| job.outputs.readers()).cloned().collect();
        let bytes_written = jobs.iter().map(|job| job.outputs.bytes()).sum();
        let bytes_read = first.compaction.input_bytes();
        Ok(CompactionOutput { edit, files, readers, bytes_read, bytes_written, dropped })
    }

    /// Gives up: removes what was written.
    pub(crate) fn abandon(self) {
        drop(self.input);
        self.outputs.abandon(&self.env);
    }

    fn read_context(&self) -> IoContext {
        let priority = if self.compaction.start_level() == 0 { IoPriority::High } else { IoPriority::Low };
        IoContext::new(FileKind::Table, priority)
    }

    /// One source a table of level 0 that may have some of the keys, and one a further level.
    fn open_inputs(&self) -> Result<MergingIter<ChildIter>> {
        let read = TableReadOptions { fill_cache: false, context: self.read_context(), ..TableReadOptions::default() };
        let read_ahead_size = self.env.readahead_size;
        let mut children = Vec::new();
        for inputs in &self.compaction.inputs {
            if inputs.level > 0 {
                let purpose = IterPurpose::Compaction { read_ahead_size };
                let files = Arc::from(inputs.files.as_slice());
                let level = LevelIter::new(files, Arc::clone(&self.env.table_cache), read, purpose);
                children.push(ChildIter::Level(level.watching_cache(self.cache_watch.clone())));
                continue;
            }
            let order = self.compaction.input_version.comparator();
            for file in inputs.files.iter().filter(|file| self.keys.may_meet(order, file)) {
                let mut table = self.env.table_cache.compaction_iter(file, read, read_ahead_size)?;
                table.set_cache_watch(self.cache_watch.clone());
                children.push(ChildIter::Table(table));
            }
        }
        Ok(MergingIter::new(self.compaction.input_version.comparator().clone(), children))
    }
}
