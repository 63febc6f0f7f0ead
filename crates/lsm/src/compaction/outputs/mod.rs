//! The tables that a compaction writes.

mod cut;
mod ranges;
#[cfg(test)]
mod tests;

pub(super) use cut::OutputCutter;
pub(super) use ranges::WaitingRanges;

use super::Compaction;
use super::blob_garbage::BlobTally;
use super::dictionary_options;
use super::job::CompactionEnv;
use crate::file_meta::{FileMetaData, other_fields};
use crate::file_names::FileName;
use crate::holders::Holder;
use crate::key::{ValueType, trailer, user_key};
use crate::options::{FileChecksum, FilterPolicy};
use crate::range_tombstones::RangeTombstone;
use crate::sst::{CacheWatch, TableBuilder, TableBuilderOptions, TableReader, TableSummary, TableTail, WarmBlocks};
use siltstone_base::entry_filter::EntryFilter;
use siltstone_base::env::{FileKind, FileOptions, IoPriority};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// A table ends where a part of the keys does if it has at least the target size divided by this.
const PART_DIVISOR: u64 = 32;

/// Writes entries to tables, one after the other.
///
/// Invariant: `created` names every file that was created, also one that is not finished or failed.
#[derive(Debug)]
pub(super) struct Outputs {
    cutter: OutputCutter,
    parts: Option<Parts>,
    /// The table that takes entries.
    open: Option<OpenTable>,
    /// The table before, which has all its entries.
    ending: Option<OpenTable>,
    /// The same when it is durable, and still to be opened.
    unopened: Option<(FileMetaData, TableTail)>,
    /// Where tables of range tombstones alone end that come behind that one and before `open`: before a key, or nowhere.
    rest: Option<Option<Box<[u8]>>>,
    options: TableBuilderOptions,
    /// Where blocks go that are to be in memory, if any are.
    warm: Option<WarmBlocks>,
    /// The smallest epoch of the inputs: the outputs are as old as the oldest of them.
    epoch_number: u64,
    created: Vec<u64>,
    finished: Vec<FileMetaData>,
    /// Their open readers, by number.
    readers: Vec<(u64, Arc<TableReader>)>,
    ranges: WaitingRanges,
    /// References to values in blob files that were appended.
    blob_references: BlobTally,
}

/// The part of the keys that was written last; see [`EntryFilter::part`].
#[derive(Debug)]
struct Parts {
    filter: Arc<dyn EntryFilter>,
    last: u64,
    /// A table that is smaller goes on into the next part.
    min_table_bytes: u64,
}

impl Parts {
    /// Whether a table of `file_size` bytes ends before `user_key`.
    fn ends_before(&mut self, user_key: &[u8], file_size: u64) -> bool {
        let part = self.filter.part(user_key);
        std::mem::replace(&mut self.last, part) != part && file_size > 0 && file_size >= self.min_table_bytes
    }
}

/// A table that is being written.
#[derive(Debug)]
struct OpenTable {
    builder: TableBuilder,
    number: u64,
    /// The oldest blob file that it refers to.
    oldest_blob_file: Option<u64>,
}

impl Outputs {
    /// `watch` is told which blocks of the inputs are cached, if blocks that are made of them are to be.
    pub(super) fn new(compaction: &Compaction, env: &CompactionEnv, watch: Option<Arc<CacheWatch>>) -> Self {
        let epochs = compaction.input_files().map(|(_, file)| file.epoch_number);
        let times = compaction.input_files().map(|(_, file)| file.oldest_ancestor_time).filter(|time| *time != 0);
        // Where the clock went back, rows expire by a later time: a table that it makes look old would be rewritten for its age again and again.
        let now = env.clock.unix_seconds().max(env.expiring.as_ref().map_or(0, |expiring| expiring.time));
        let creation_time = times.min().unwrap_or(now);
        let of_table = &env.options.table;
        let filter_policy = match compaction.bottommost {
            false => of_table.upper_level_filter(),
            true if env.options.optimize_filters_for_hits => FilterPolicy::None,
            true => of_table.filter_policy,
        };
        let table = of_table.clone().filter_policy(filter_policy);
        let options = TableBuilderOptions {
            comparator: compaction.input_version.comparator().clone(),
            table,
            merge_operator: env
                .options
                .merge_operator
                .as_ref()
                .map(|operator| operator.name().to_owned())
                .unwrap_or_default(),
            compression: compaction.compression,
            zstd_level: env.options.zstd_level,
            dictionary: dictionary_options(&env.options),
            collectors: env.options.table_properties_collectors.clone(),
            expiry: env.options.expiry.clone(),
            file_checksum: env.file_checksum == FileChecksum::Crc32c,
            prefix_extractor: env.options.prefix_extractor.clone(),
            level: compaction.output_level as i32,
            column_family_id: compaction.family.0,
            column_family_name: env.family_name.clone(),
            db_id: env.db_id.clone(),
            session_id: env.session_id.clone(),
            file_number: 0,
            creation_time,
            oldest_key_time: 0,
            newest_key_time: now,
            host_id: env.host_id.clone(),
            file_creation_time: now,
            priority: if compaction.start_level() == 0 { IoPriority::High } else { IoPriority::Low },
            write_back: env.write_back,
            metrics: Some(Arc::clone(env.table_cache.metrics())),
            sync_kind: crate::metrics::HistogramKind::CompactionOutfileSync,
        };
        let min_table_bytes = compaction.target_file_size / PART_DIVISOR;
        let order = compaction.input_version.comparator().clone();
        let ranges =
            WaitingRanges::new(order, (compaction.output_level > 0).then_some(compaction.max_output_file_size));
        // Each table of level 0 is a sorted run: a merge that leaves as many as it read would be due again at once.
        let filter = env.options.compaction_filter.clone().filter(|_| compaction.output_level > 0);
        let parts = filter.map(|filter| Parts { filter, last: 0, min_table_bytes });
        Self {
            cutter: OutputCutter::new(compaction),
            parts,
            open: None,
            ending: None,
            unopened: None,
            rest: None,
            options,
            warm: watch.map(|watch| env.table_cache.warm_blocks(watch)),
            epoch_number: epochs.min().unwrap_or(0),
            created: Vec::new(),
            finished: Vec::new(),
            readers: Vec::new(),
            ranges,
            blob_references: BlobTally::default(),
        }
    }

    /// Says how new the newest key is.
    pub(super) fn set_newest_key_time(&mut self, unix_seconds: u64) {
        self.options.newest_key_time = unix_seconds;
    }

    /// Names another merge operator than the family's.
    pub(super) fn set_merge_operator(&mut self, name: &str) {
        name.clone_into(&mut self.options.merge_operator);
    }

    /// Gives the range tombstones that the tables get, in the order of internal keys. Before the first entry.
    pub(super) fn set_ranges(&mut self, ranges: Vec<RangeTombstone>) {
        self.ranges.set(ranges);
    }

    /// Appends an entry. `is_first_of_key` says that no entry of its user key was appended yet: only then may a table end before it.
    #[inline]
    pub(super) fn add(
        &mut self,
        env: &CompactionEnv,
        internal_key: &[u8],
        value: &[u8],
        is_first_of_key: bool,
    ) -> Result<()> {
        if is_first_of_key {
            let user_key = user_key(internal_key);
            let file_size = self.open.as_ref().map_or(0, |table| table.builder.estimated_size());
            let ends = self.cutter.ends_before(user_key, file_size);
            let ends_part = self.parts.as_mut().is_some_and(|parts| parts.ends_before(user_key, file_size));
            // Those that have to be written before the key before are counted with it.
            let ranges_fill = self.rest.is_none() && self.ranges.fill_table_before(user_key);
            if ends || ends_part || ranges_fill {
                if !ends {
                    self.cutter.begin_output();
                }
                self.end_table(env, Some(user_key))?;
            }
        }
        let table = match &mut self.open {
            Some(table) => table,
            none => none.insert(create_table(env, &mut self.options, &self.warm, &mut self.created)?),
        };
        table.builder.add(internal_key, value).map_err(out_of_order)?;
        if trailer(internal_key) as u8 == ValueType::BlobIndex as u8 {
            let number = self.blob_references.count(user_key(internal_key), value)?;
            table.oldest_blob_file = Some(table.oldest_blob_file.map_or(number, |oldest| oldest.min(number)));
        }
        Ok(())
    }

    /// References to values in blob files that were appended.
    pub(super) fn blob_references(&self) -> &BlobTally {
        &self.blob_references
    }

    /// Closes the current table, if there is one, for entries; [`step`](Self::step) then ends it. `next_key` is the first user key of the next: range tombstones go as
    /// far as that, in tables of their own where they are too many for one.
    pub(super) fn end_table(&mut self, env: &CompactionEnv, next_key: Option<&[u8]>) -> Result<()> {
        while !self.step(env, &mut || false)? {}
        match self.open.take() {
            Some(table) => self.end(table, next_key),
            None => self.end_ranges(env, next_key),
        }
    }

    /// Closes a table of range tombstones alone, if there are enough of them before `next_key`.
    fn end_ranges(&mut self, env: &CompactionEnv, next_key: Option<&[u8]>) -> Result<()> {
        match self.ranges.need_table_before(next_key) {
            true => {
                let table = create_table(env, &mut self.options, &self.warm, &mut self.created)?;
                self.end(table, next_key)
            }
            false => Ok(()),
        }
    }

    fn end(&mut self, mut table: OpenTable, next_key: Option<&[u8]>) -> Result<()> {
        let ranges = self.ranges.next_table(table.builder.last_user_key(), next_key);
        ranges.tombstones.iter().try_for_each(|tombstone| table.builder.add_range_tombstone(tombstone))?;
        self.ending = Some(table);
        self.rest = ranges.is_cut.then(|| next_key.map(Box::from));
        Ok(())
    }

    /// Whether a table is to be ended: [`step`](Self::step) should come before the next entry.
    #[inline]
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some() || self.unopened.is_some() || self.rest.is_some()
    }

    /// Works on the tables that are to be ended until `is_over`; returns whether it is done, or there are none.
    pub(super) fn step(&mut self, env: &CompactionEnv, is_over: &mut dyn FnMut() -> bool) -> Result<bool> {
        loop {
            // Each call does something, also where its time is over from the beginning.
            let has_table = self.ending.is_some() || self.unopened.is_some();
            if !self.step_table(env, is_over)? {
                return Ok(false);
            }
            if has_table && self.rest.is_some() && is_over() {
                return Ok(false);
            }
            let Some(next_key) = self.rest.take() else { return Ok(true) };
            self.end_ranges(env, next_key.as_deref())?;
        }
    }

    /// The same for one table.
    fn step_table(&mut self, env: &CompactionEnv, is_over: &mut dyn FnMut() -> bool) -> Result<bool> {
        if let Some(ending) = &mut self.ending
            && !ending.builder.prepare(is_over)?
        {
            return Ok(false);
        }
        if let Some(OpenTable { builder, number, oldest_blob_file }) = self.ending.take() {
            let (summary, tail) = builder.finish_with_tail()?;
            let mut file = self.file_meta(number, summary);
            if let Some(oldest) = oldest_blob_file {
                file.set_oldest_blob_file(oldest);
            }
            self.unopened = Some((file, tail));
            if is_over() {
                return Ok(false);
            }
        }
        if let Some((file, tail)) = self.unopened.take() {
            // Here rather than by its first readers, whom it would keep waiting.
            self.readers.push((file.number, env.table_cache.open_written(&file, tail)?));
            self.finished.push(file);
        }
        Ok(true)
    }

    fn file_meta(&self, number: u64, summary: TableSummary) -> FileMetaData {
        FileMetaData {
            number,
            file_size: summary.file_size,
            smallest: summary.smallest,
            largest: summary.largest,
            smallest_seqno: summary.smallest_seqno,
            largest_seqno: summary.largest_seqno,
            epoch_number: self.epoch_number,
            oldest_ancestor_time: self.options.creation_time,
            file_creation_time: self.options.file_creation_time,
            unique_id: summary.unique_id,
            other_fields: other_fields(summary.file_crc, summary.needs_compaction),
            has_ranges: Some(summary.num_range_deletions > 0),
        }
    }

    /// The finished tables, ascending.
    pub(super) fn finished(&self) -> &[FileMetaData] {
        &self.finished
    }

    /// The open readers of those tables, by number.
    pub(super) fn readers(&self) -> &[(u64, Arc<TableReader>)] {
        &self.readers
    }

    /// Bytes written so far, about.
    pub(super) fn bytes(&self) -> u64 {
        let unopened = self.unopened.iter().map(|(file, _)| file);
        let finished = self.finished.iter().chain(unopened).map(|file| file.file_size).fold(0, u64::saturating_add);
        let written = self.open.iter().chain(&self.ending).map(|table| table.builder.estimated_size());
        written.fold(finished, u64::saturating_add)
    }

    /// Removes every file that was created. What cannot be removed now is an orphan that the next open removes.
    pub(super) fn abandon(self, env: &CompactionEnv) {
        drop((self.open, self.ending, self.readers));
        for number in self.created {
            let _ = env.env.remove_file(&FileName::Table(number).path(&env.dir));
        }
    }
}

#[cold]
fn create_table(
    env: &CompactionEnv,
    options: &mut TableBuilderOptions,
    warm: &Option<WarmBlocks>,
    created: &mut Vec<u64>,
) -> Result<OpenTable> {
    let number = env.file_numbers.allocate();
    let path = FileName::Table(number).path(&env.dir);
    created.push(number);
    let file_options = FileOptions::new(FileKind::Table).direct(env.use_direct_io);
    let file = env.env.create_append(&path, &file_options).map_err(|source| Error::io("create", &path, source))?;
    options.file_number = number;
    let mut builder = TableBuilder::new(file, path, options.clone())?;
    builder.count_memory(env.holders.charge(Holder::Jobs));
    if let Some(warm) = warm {
        builder.keep_warm(warm.clone());
    }
    Ok(OpenTable { builder, number, oldest_blob_file: None })
}

/// The builder asks for ascending keys: if they do not ascend here, an input is damaged.
#[cold]
fn out_of_order(error: Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidArgument => {
            Error::corrupt("entries of a compaction's inputs do not ascend").with_source(error)
        }
        _ => error,
    }
}
