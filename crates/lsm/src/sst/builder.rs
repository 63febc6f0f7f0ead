//! Building a table: ascending entries in, a durable file out.

use super::block_builder::BlockBuilder;
use super::builder_options::TableBuilderOptions;
use super::collector::{CollectedEntry, TablePropertiesCollector, storable};
use super::dictionary_builder::WaitingBlocks;
use super::external::EXTERNAL_VERSION;
use super::filter_block::FULL_FILTER;
use super::filter_builder::FilterBuilder;
use super::filter_partitions::PARTITIONED_FILTER;
use super::filter_partitions_builder::FilterPartitionsBuilder;
use super::format::{BlockChecksum, BlockHandle, Footer, WRITABLE_VERSIONS};
use super::index_builder::IndexBuilder;
use super::metaindex::Metaindex;
use super::output::TableOutput;
use super::prefix_index::{METADATA_BLOCK, PREFIXES_BLOCK, PrefixIndexBuilder};
use super::properties::{TableProperties, compression_property};
use super::range_del_block::{RANGE_DELETIONS_BLOCK, RangeDelBuilder};
use super::summary::TableSummary;
use super::tail::TableTail;
use super::warm_blocks::{WarmBlocks, WarmTable};
use crate::expiry::{BLOCK_STAMPS_PROPERTY, STAMPS_PROPERTY, StampCollector};
use crate::holders::Held;
use crate::key::{
    ColumnFamilyId, InternalKey, InternalKeyComparator, MAX_SEQNO, ParsedKey, SeqNo, ValueType, user_key,
};
use crate::options::{CompressionType, DataBlockIndexType, IndexType, TableOptions};
use crate::range_tombstones::RangeTombstone;
use siltstone_base::checksum::xxh3_64;
use siltstone_base::compression::{Compressor, DEFAULT_LEVEL, MAX_BLOCK_LEN};
use siltstone_base::env::{AppendFile, FileKind, IoContext};
use siltstone_base::{Error, ErrorKind, Result};
use std::cmp::Ordering;
use std::path::PathBuf;

/// Blocks that waited for a dictionary and are written between two questions whether time is over.
const WAITING_BLOCKS_PER_PIECE: usize = 4;

/// Key of the metaindex for the properties.
pub(crate) const PROPERTIES_BLOCK: &str = "rocksdb.properties";
/// Key of the metaindex for the dictionary of data blocks.
pub(crate) const DICTIONARY_BLOCK: &str = "rocksdb.compression_dict";
/// Key of the metaindex for the index, from version 6 on.
pub(crate) const INDEX_BLOCK: &str = "rocksdb.index";

/// Writes one table. After an error the builder must be abandoned and the file removed.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    comparator: InternalKeyComparator,
    options: TableOptions,
    output: TableOutput,
    data_block: BlockBuilder,
    /// A finished block whose index entry waits for the next key; a handle of zeros while the block waits for the dictionary.
    finished: Option<BlockHandle>,
    index: IndexBuilder,
    /// Set if the index is a hash index.
    prefixes: Option<PrefixIndexBuilder>,
    /// Data blocks that wait for the dictionary, if one is made.
    waiting: Option<WaitingBlocks>,
    dictionary: Vec<u8>,
    compression: (CompressionType, i32),
    collectors: Vec<Box<dyn TablePropertiesCollector>>,
    /// Set if rows expire.
    stamps: Option<StampCollector>,
    filter: Option<FilterBuilder>,
    /// The filter in one block and the number of its keys, once [`prepare`](Self::prepare) made it.
    filter_block: Option<(u64, Vec<u8>)>,
    /// Set if the filter is cut.
    filter_partitions: Option<FilterPartitionsBuilder>,
    checksum: BlockChecksum,
    properties: TableProperties,
    ranges: RangeDelBuilder,
    smallest: InternalKey,
    smallest_seqno: SeqNo,
    largest_seqno: SeqNo,
    /// Counts what it holds, if somebody wants it.
    held: Option<Held>,
    /// Puts data blocks into the cache, if it is to.
    warm: Option<WarmTable>,
}

impl TableBuilder {
    /// Begins a table in the empty file `file` at `path`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a version that is not written, `NotSupported` for a codec that is not.
    pub(crate) fn new(file: Box<dyn AppendFile>, path: PathBuf, options: TableBuilderOptions) -> Result<Self> {
        if !WRITABLE_VERSIONS.contains(&options.table.format_version) {
            let version = options.table.format_version;
            return Err(Error::invalid_argument(format!("format_version {version} is not one of 5 to 7")));
        }
        let zstd = options.compression == CompressionType::Zstd;
        let level = if zstd { options.zstd_level } else { DEFAULT_LEVEL };
        let compressor = Compressor::new(options.compression, level)?;
        let checksum = BlockChecksum { kind: options.table.checksum, base_context: base_context(&options) };
        let filter = match options.comparator.user().equal_may_differ() {
            true => None,
            false => FilterBuilder::new(&options.table, options.prefix_extractor.clone(), options.level),
        };
        let prefixes = match options.table.index_type {
            IndexType::HashSearch if !options.comparator.user().equal_may_differ() => {
                options.prefix_extractor.clone().map(PrefixIndexBuilder::new)
            }
            _ => None,
        };
        let waits = options.dictionary.max_bytes > 0 && options.compression.has_dictionaries();
        let stamps = options.expiry.map(StampCollector::new);
        let names = options.collectors.iter().map(|factory| factory.name());
        let names: Vec<&str> = names.chain(stamps.as_ref().map(|_| StampCollector::NAME)).collect();
        let properties = TableProperties {
            collectors: format!("[{}]", names.join(",")),
            data_block_restart_interval: options.table.block_restart_interval as u64,
            index_block_restart_interval: options.table.index_block_restart_interval as u64,
            column_family_id: u64::from(options.column_family_id),
            column_family_name: options.column_family_name,
            comparator: options.comparator.user().name().to_owned(),
            merge_operator: options.merge_operator,
            compression_options: format!(
                "window_bits=-14; level={level}; strategy=0; max_dict_bytes={}; zstd_max_train_bytes={}; enabled=0; \
                 max_dict_buffer_bytes={}; use_zstd_dict_trainer=1; max_compressed_bytes_per_kb=896; checksum=0; _type={}; ",
                options.dictionary.max_bytes,
                options.dictionary.train_bytes,
                options.dictionary.buffer_bytes,
                options.compression as u8
            ),
            filter_policy: filter
                .as_ref()
                .map_or_else(String::new, |_| FilterBuilder::policy_name(options.table.filter_policy).to_owned()),
            whole_key_filtering: options.table.whole_key_filtering,
            prefix_filtering: options.prefix_extractor.is_some(),
            prefix_extractor: options
                .prefix_extractor
                .map_or_else(String::new, |extractor| extractor.name().to_owned()),
            creation_time: options.creation_time,
            oldest_key_time: options.oldest_key_time,
            newest_key_time: options.newest_key_time,
            format_version: u64::from(options.table.format_version),
            host_id: options.host_id,
            file_creation_time: options.file_creation_time,
            original_file_number: options.file_number,
            db_id: options.db_id,
            session_id: options.session_id,
            ..TableProperties::default()
        };
        let context = IoContext::new(FileKind::Table, options.priority);
        let mut output = TableOutput::new(file, path, context, checksum, compressor, options.write_back);
        if let Some(metrics) = options.metrics {
            output.count_in(metrics, options.sync_kind);
        }
        if options.file_checksum {
            output.compute_file_crc();
        }
        let family = ColumnFamilyId(options.column_family_id);
        Ok(Self {
            output,
            waiting: waits.then(|| WaitingBlocks::new(options.dictionary)),
            dictionary: Vec::new(),
            compression: (options.compression, level),
            collectors: options.collectors.iter().map(|factory| factory.collector(family)).collect(),
            stamps,
            data_block: data_block_builder(&options.table, &options.comparator),
            finished: None,
            index: IndexBuilder::new(options.table.index_type),
            prefixes,
            filter_partitions: FilterPartitionsBuilder::new(&options.table),
            filter,
            filter_block: None,
            checksum,
            properties,
            ranges: RangeDelBuilder::new(),
            smallest: InternalKey::default(),
            smallest_seqno: MAX_SEQNO,
            largest_seqno: 0,
            held: None,
            warm: None,
            comparator: options.comparator,
            options: options.table,
        })
    }

    /// Appends an entry. Internal keys strictly ascend.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the key is not greater than the one before, `LimitExceeded` if no block can hold the
    /// entry, and errors of writing.
    pub(crate) fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let parsed = ParsedKey::parse(internal_key)?;
        if self.properties.num_entries == 0 {
            self.smallest = InternalKey::decode(internal_key)?;
        } else if self.comparator.compare(self.data_block.last_key(), internal_key) != Ordering::Less {
            return Err(Error::invalid_argument("keys of a table must ascend").with_file(self.output.path()));
        }
        match parsed.value_type {
            ValueType::Delete | ValueType::SingleDelete | ValueType::DeleteWithTimestamp => {
                self.properties.num_deletions += 1
            }
            ValueType::Merge => self.properties.num_merge_operands += 1,
            ValueType::RangeDelete => return Err(Error::invalid_argument("a range tombstone among point entries")),
            ValueType::Put | ValueType::BlobIndex | ValueType::WideColumnEntity | ValueType::TimedPut => {}
        }
        if self.ends_block_before(internal_key.len() + value.len()) {
            self.finish_data_block()?;
        }
        if internal_key.len() + value.len() + self.data_block.len() + 64 > MAX_BLOCK_LEN {
            return Err(Error::new(ErrorKind::LimitExceeded, "entry larger than a block may be"));
        }
        if let Some(handle) = self.finished.take() {
            self.index.add(&self.comparator, self.data_block.last_key(), Some(internal_key), handle);
            self.cut_filter(Some(parsed.user_key));
            self.end_stamps(Some(parsed.user_key));
        }
        if self.data_block.is_empty() {
            self.index.begin_block(internal_key);
        }
        if let Some(filter) = &mut self.filter {
            filter.add(parsed.user_key);
        }
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.add(parsed.user_key, self.index.len());
        }
        if !self.collectors.is_empty() || self.stamps.is_some() {
            self.collect(&parsed, value);
        }
        self.data_block.add(internal_key, value);
        self.smallest_seqno = self.smallest_seqno.min(parsed.seqno);
        self.largest_seqno = self.largest_seqno.max(parsed.seqno);
        self.properties.num_entries += 1;
        self.properties.raw_key_size += internal_key.len() as u64;
        self.properties.raw_value_size += value.len() as u64;
        Ok(())
    }

    /// Counts by `held` what is gathered, from now on and once a block.
    pub(crate) fn count_memory(&mut self, held: Held) {
        self.held = Some(held);
    }

    /// Puts data blocks into a cache as they are written, those that wait for a dictionary excepted: for a table that is opened by its [tail](Self::finish_with_tail). Before the first entry.
    pub(crate) fn keep_warm(&mut self, blocks: WarmBlocks) {
        self.warm = self.waiting.is_none().then(|| WarmTable::new(blocks));
    }

    /// Bytes of memory that it holds, beside what codecs and collectors have.
    fn memory_usage(&self) -> usize {
        self.output.memory_usage()
            + self.data_block.memory_usage()
            + self.index.memory_usage()
            + self.prefixes.as_ref().map_or(0, PrefixIndexBuilder::memory_usage)
            + self.waiting.as_ref().map_or(0, WaitingBlocks::bytes)
            + self.dictionary.capacity()
            + self.filter.as_ref().map_or(0, FilterBuilder::memory_usage)
            + self.filter_block.as_ref().map_or(0, |(_, block)| block.capacity())
            + self.filter_partitions.as_ref().map_or(0, FilterPartitionsBuilder::memory_usage)
            + self.ranges.memory_usage()
    }

    fn update_held(&mut self) {
        let bytes = self.held.as_ref().map_or(0, |_| self.memory_usage());
        if let Some(held) = &mut self.held {
            held.set(bytes as u64);
        }
    }

    /// Says that the table is written outside of a database: all its entries have sequence number 0, and get theirs when a database takes
    /// the file in.
    pub(crate) fn mark_external(&mut self) {
        self.properties.external_version = Some(EXTERNAL_VERSION);
        self.properties.global_seqno = Some(0);
    }

    /// Lets no other block than a data block have more than so many bytes.
    #[cfg(test)]
    pub(crate) fn limit_meta_blocks(&mut self, bytes: usize) {
        self.output.limit_meta_blocks(bytes);
    }

    /// Adds a range tombstone, before, among or behind the entries. The internal keys of their starts strictly ascend.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for one that is out of order or over no key.
    pub(crate) fn add_range_tombstone(&mut self, tombstone: &RangeTombstone) -> Result<()> {
        self.ranges.add(&self.comparator, tombstone).map_err(|error| error.with_file(self.output.path()))
    }

    /// The bytes that the file would have at least if it ended now, without index and filter.
    #[inline]
    pub(crate) fn estimated_size(&self) -> u64 {
        let waiting = self.waiting.as_ref().map_or(0, WaitingBlocks::bytes);
        let unwritten = waiting + self.data_block.len() + self.index.estimated_size() + self.ranges.len();
        self.output.offset() + unwritten as u64
    }

    /// The user key of the last entry.
    pub(crate) fn last_user_key(&self) -> Option<&[u8]> {
        (self.num_entries() > 0).then(|| user_key(self.data_block.last_key()))
    }

    /// Point entries so far.
    #[inline]
    pub(crate) fn num_entries(&self) -> u64 {
        self.properties.num_entries
    }

    /// Does what ending the table needs much time for, until `is_over`, which is asked now and then; returns whether all of it is done. No entry follows.
    ///
    /// Training a dictionary is one call of the codec's library: it is not cut.
    pub(crate) fn prepare(&mut self, is_over: &mut dyn FnMut() -> bool) -> Result<bool> {
        self.finish_data_block()?;
        self.make_dictionary()?;
        while self.waiting.is_some() {
            self.write_waiting_blocks(WAITING_BLOCKS_PER_PIECE)?;
            if self.waiting.is_some() && is_over() {
                return Ok(false);
            }
        }
        if self.filter_partitions.is_none()
            && let Some(filter) = self.filter.as_mut().filter(|filter| !filter.is_empty())
        {
            if filter.finished_len() / 4 > self.output.most_meta_block() {
                // A ribbon filter has at least a third of these bytes: no block could hold it.
                self.properties.filter_policy.clear();
                self.filter = None;
                self.update_held();
                return Ok(true);
            }
            let keys = filter.len() as u64;
            let Some(block) = filter.step(is_over) else { return Ok(false) };
            self.filter_block = Some((keys, block));
            self.filter = None;
            self.update_held();
        }
        Ok(true)
    }

    /// Ends the table; quickly, if it is [prepared](Self::prepare). It is durable when this returns, its name in the directory is not.
    pub(crate) fn finish(self) -> Result<TableSummary> {
        Ok(self.write_rest(false)?.0)
    }

    /// The same, with what it takes to open the table without reading it.
    pub(crate) fn finish_with_tail(self) -> Result<(TableSummary, TableTail)> {
        let (summary, tail) = self.write_rest(true)?;
        Ok((summary, tail.unwrap_or_default()))
    }

    fn write_rest(mut self, keep_tail: bool) -> Result<(TableSummary, Option<TableTail>)> {
        let points = match self.properties.num_entries {
            0 => None,
            _ => Some((self.smallest.clone(), InternalKey::decode(self.data_block.last_key())?)),
        };
        let (smallest, largest) = self.ranges.bounds(&self.comparator, points);
        while !self.prepare(&mut || false)? {}
        if let Some(handle) = self.finished.take() {
            self.index.add(&self.comparator, self.data_block.last_key(), None, handle);
            self.cut_filter(None);
            self.end_stamps(None);
        }
        if keep_tail {
            self.output.keep_tail();
        }
        self.properties.data_size = self.output.offset();
        self.properties.tail_start_offset = self.output.offset();
        self.properties.num_data_blocks = self.index.len() as u64;
        (self.properties.num_blocks_rejected, self.properties.num_blocks_bypassed) = self.output.data_blocks_kept();

        let mut metaindex = Metaindex::default();
        if let Some(partitions) = self.filter_partitions.take() {
            let interval = self.options.index_block_restart_interval;
            if let Some(written) = partitions.write(&mut self.output, self.index.has_user_keys(), interval)? {
                self.properties.num_filter_entries = written.entries;
                self.properties.filter_size = written.size;
                metaindex.add(PARTITIONED_FILTER, written.handle);
            }
        } else if let Some((keys, block)) = self.filter_block.take() {
            if block.len() <= self.output.most_meta_block() {
                self.properties.num_filter_entries = keys;
                self.properties.filter_size = block.len() as u64;
                metaindex.add(FULL_FILTER, self.output.write_block(&block, false)?);
            } else {
                // A table without one is slower to read; without the table nothing could be compacted any more.
                self.properties.filter_policy.clear();
            }
        }
        self.index.fit(self.output.most_meta_block());
        let prefixes = self.prefixes.take().filter(|_| self.index.kind() == IndexType::HashSearch);
        if let Some((prefixes, metadata)) = prefixes.and_then(PrefixIndexBuilder::finish) {
            metaindex.add(PREFIXES_BLOCK, self.output.write_block(&prefixes, false)?);
            metaindex.add(METADATA_BLOCK, self.output.write_block(&metadata, false)?);
        }
        let index = self.index.write(&mut self.output, &self.options)?;
        self.properties.index_type = self.index.kind() as u32;
        self.properties.index_key_is_user_key = index.user_keys;
        self.properties.index_value_is_delta_encoded = true;
        self.properties.index_size = index.size;
        self.properties.index_partitions = index.partitions;
        self.properties.top_level_index_size = index.top_level_size;
        let index = index.handle;
        if self.checksum.base_context != 0 {
            metaindex.add(INDEX_BLOCK, index);
        }
        if !self.ranges.is_empty() {
            metaindex.add(RANGE_DELETIONS_BLOCK, self.output.write_block(self.ranges.finish(), false)?);
            self.count_range_tombstones();
        }
        if self.properties.num_entries > 0 {
            self.properties.smallest_seqno = Some(self.smallest_seqno);
            self.properties.largest_seqno = Some(self.largest_seqno);
        }
        if !self.dictionary.is_empty() {
            metaindex.add(DICTIONARY_BLOCK, self.output.write_block(&self.dictionary, false)?);
        }
        let needs_compaction = self.collectors.iter().any(|collector| collector.needs_compaction());
        for collector in std::mem::take(&mut self.collectors) {
            let collected = storable(collector).map(|(name, value)| (name.into_bytes(), value));
            self.properties.others.extend(collected);
        }
        if let Some(stamps) = self.stamps.take() {
            // What another collector has under these names is not about this table: a copy of another table's, say.
            for name in [STAMPS_PROPERTY, BLOCK_STAMPS_PROPERTY] {
                self.properties.others.remove(name.as_bytes());
            }
            let collected = stamps.finish(self.index.block_ends());
            self.properties.others.extend(collected.map(|(name, value)| (name.as_bytes().to_vec(), value)));
        }
        self.properties.compression =
            compression_property(self.options.format_version, self.output.codec(), self.output.codecs_used());
        metaindex.add(PROPERTIES_BLOCK, self.output.write_block(&self.properties.encode(), false)?);
        let metaindex = self.output.write_block(&metaindex.encode(), false)?;
        let version = self.options.format_version;
        let footer = Footer { version, checksum: self.checksum, metaindex, index: Some(index) };
        let footer = footer.encode(self.output.offset())?;
        self.output.write_raw(&footer);
        let (file_size, file_crc, mut tail) = self.output.finish()?;
        if let Some(tail) = &mut tail {
            tail.warm = self.warm.take().and_then(WarmTable::into_set);
        }
        let empty = self.properties.num_entries == 0;
        let summary = TableSummary {
            file_size,
            smallest,
            largest,
            smallest_seqno: if empty { 0 } else { self.smallest_seqno },
            largest_seqno: self.largest_seqno,
            num_entries: self.properties.num_entries,
            num_deletions: self.properties.num_deletions,
            num_range_deletions: self.properties.num_range_deletions,
            raw_key_size: self.properties.raw_key_size,
            raw_value_size: self.properties.raw_value_size,
            data_size: self.properties.data_size,
            num_data_blocks: self.properties.num_data_blocks,
            file_crc,
            needs_compaction,
            unique_id: self.properties.unique_id(),
        };
        Ok((summary, tail))
    }

    /// Lets the properties count range tombstones as RocksDB does: as entries and as tombstones too.
    fn count_range_tombstones(&mut self) {
        let ranges = &self.ranges;
        self.properties.num_entries += ranges.num_tombstones;
        self.properties.num_deletions += ranges.num_tombstones;
        self.properties.num_range_deletions = ranges.num_tombstones;
        self.properties.raw_key_size += ranges.raw_key_size;
        self.properties.raw_value_size += ranges.raw_value_size;
        self.smallest_seqno = self.smallest_seqno.min(ranges.smallest_seqno);
        self.largest_seqno = self.largest_seqno.max(ranges.largest_seqno);
    }

    /// Gives the table up. The caller removes the file.
    pub(crate) fn abandon(self) {
        drop(self);
    }

    /// Whether the data block ends before an entry of `len` bytes: it is full, or nearly full and would become larger
    /// than asked for.
    #[inline]
    fn ends_block_before(&self, len: usize) -> bool {
        let (now, limit) = (self.data_block.len(), self.options.block_size);
        let too_long = now + len + 64 > MAX_BLOCK_LEN;
        !self.data_block.is_empty()
            && (now >= limit || too_long || (now + len + 8 > limit && now >= limit - limit / 10))
    }

    /// Ends a partition of the filter, if that is due, behind the data block whose separator was added last.
    #[inline]
    fn cut_filter(&mut self, next_key: Option<&[u8]>) {
        if let (Some(partitions), Some(filter)) = (&mut self.filter_partitions, &mut self.filter) {
            partitions.block_ended(filter, self.index.last_separator(), next_key);
        }
    }

    /// Lets the stamps of the data block that was added to the index last be those of a block; `next_key` is the first user key behind it.
    #[inline]
    fn end_stamps(&mut self, next_key: Option<&[u8]>) {
        if let Some(stamps) = &mut self.stamps {
            let last_key = user_key(self.data_block.last_key());
            stamps.end_block(next_key.is_some_and(|next| self.comparator.compare_user(last_key, next).is_eq()));
        }
    }

    fn finish_data_block(&mut self) -> Result<()> {
        if self.data_block.is_empty() {
            return Ok(());
        }
        let block = self.data_block.finish();
        match &mut self.waiting {
            None => {
                let handle = self.output.write_data_block(block)?;
                if let Some(warm) = &mut self.warm {
                    warm.wrote(handle, block);
                }
                self.finished = Some(handle);
            }
            Some(waiting) => {
                waiting.push(block);
                self.finished = Some(BlockHandle::default());
                if waiting.is_full() {
                    self.make_dictionary()?;
                }
                // Two for each that comes, so that the work is spread and the room is given back.
                self.write_waiting_blocks(2)?;
            }
        }
        self.data_block.clear();
        self.update_held();
        Ok(())
    }

    /// Makes the dictionary of the blocks that wait for it, if they do.
    fn make_dictionary(&mut self) -> Result<()> {
        if let Some(waiting) = self.waiting.as_mut().filter(|waiting| !waiting.is_made()) {
            self.dictionary = waiting.make();
            if !self.dictionary.is_empty() {
                let (codec, level) = self.compression;
                self.output.set_data_compressor(Compressor::with_dictionary(codec, level, &self.dictionary)?);
            }
        }
        Ok(())
    }

    /// Writes up to `limit` blocks that wait, once the dictionary is made.
    fn write_waiting_blocks(&mut self, limit: usize) -> Result<()> {
        let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.is_made()) else {
            return Ok(());
        };
        for _ in 0..limit {
            let Some((number, block)) = waiting.pop() else { break };
            let handle = self.output.write_data_block(&block)?;
            if number < self.index.len() {
                self.index.set_handle(number, handle);
            } else {
                self.finished = Some(handle);
            }
        }
        if waiting.is_empty() {
            self.waiting = None;
        }
        Ok(())
    }

    #[cold]
    fn collect(&mut self, parsed: &ParsedKey<'_>, value: &[u8]) {
        let ParsedKey { user_key, seqno, value_type } = *parsed;
        for collector in &mut self.collectors {
            collector.add(&CollectedEntry { user_key, seqno, value_type, value });
        }
        if let Some(stamps) = &mut self.stamps {
            stamps.add(user_key, value_type, value);
        }
    }
}

fn data_block_builder(options: &TableOptions, comparator: &InternalKeyComparator) -> BlockBuilder {
    let block = BlockBuilder::new(options.block_restart_interval);
    match options.data_block_index_type {
        DataBlockIndexType::BinarySearchAndHash if !comparator.user().equal_may_differ() => {
            block.with_hash_index(options.data_block_hash_table_util_ratio)
        }
        _ => block,
    }
}

/// What the contexts of a table's checksums are made from: different for every file, 0 before version 6.
fn base_context(options: &TableBuilderOptions) -> u32 {
    if options.table.format_version < 6 {
        return 0;
    }
    let mut seed = options.session_id.clone().into_bytes();
    seed.extend_from_slice(options.db_id.as_bytes());
    seed.extend_from_slice(&options.file_number.to_le_bytes());
    (xxh3_64(&seed) as u32).max(1)
}
