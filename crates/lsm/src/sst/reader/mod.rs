//! Reading a table: open once, then any number of threads get and iterate.
//!
//! Path: get 6/7. Before: table_cache.rs. After: sst/block_cursor.rs.

mod cached;
mod many;
mod open;
mod read_options;

pub(crate) use many::Asked;
pub(crate) use open::{TableOrigin, origin_of_table};
pub(crate) use read_options::TableReadOptions;

use crate::expiry::{ExpiredBlocks, Judged};
use crate::key::{InternalKeyComparator, LookupKey, SeqNo, ValueType, trailer, user_key};
use crate::metrics::{Counter, Metrics};
use crate::range_tombstones::{Fragments, RangeTombstone};
use crate::sst::block::Block;
use crate::sst::block_cache::BlockCache;
use crate::sst::block_cursor::BlockCursor;
use crate::sst::fetch::BlockFetcher;
use crate::sst::filter_block::FilterBlock;
use crate::sst::filter_partitions::{FilterPartitions, PartitionSource};
use crate::sst::format::{BLOCK_TRAILER_LEN, BlockHandle};
use crate::sst::index_block::Index;
use crate::sst::index_partitions::IndexPartitions;
use crate::sst::pinned::PinnedBytes;
use crate::sst::prefix_index::PrefixIndex;
use crate::sst::properties::TableProperties;
use crate::sst::range_del_block::{self};
use crate::sst::warm_blocks::WarmSet;
use siltstone_base::block_pool::BlockPool;
use siltstone_base::compression::DecompressionDictionary;
use siltstone_base::env::{IoContext, IoPriority};
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::prefix_extractor::PrefixExtractor;
use siltstone_base::{Error, Result};
use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// What a [`TableReader`] needs to know.
#[derive(Debug, Clone)]
pub(crate) struct TableReaderOptions {
    /// The order of keys.
    pub(crate) comparator: InternalKeyComparator,
    /// Where data blocks are kept.
    pub(crate) block_cache: Arc<BlockCache>,
    /// Where their memory comes from.
    pub(crate) block_pool: BlockPool,
    /// Unique id that the table should have, if known.
    pub(crate) unique_id: Option<[u8; 16]>,
    /// Largest sequence number of the table, if known.
    pub(crate) largest_seqno: Option<SeqNo>,
    /// Tells the prefixes that walks ask filters for.
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// Keeps the partitions of the filter in memory.
    pub(crate) pin_filter_partitions: bool,
    /// Says which rows are expired, if rows of the table may be.
    pub(crate) expiry: Option<Arc<dyn ExpiryPolicy>>,
    /// Who waits for the open.
    pub(crate) priority: IoPriority,
    /// Who counts what filters spare.
    pub(crate) metrics: Arc<Metrics>,
}

/// One entry that [`TableReader::get`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableEntry {
    /// Its sequence number.
    pub(crate) seqno: SeqNo,
    /// What it does to the key.
    pub(crate) value_type: ValueType,
    /// Its value.
    pub(crate) value: PinnedBytes,
}

/// What a get met on its way through tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GetCounts {
    /// Tables that were asked, their filters included.
    pub(crate) tables: u64,
    /// Those whose filter of keys said no.
    pub(crate) denied: u64,
    /// Those whose filter of keys said yes.
    pub(crate) allowed: u64,
    /// Those among them that have the key.
    pub(crate) found: u64,
}

/// What a get asks the filter of a table for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterAsks {
    /// There is none.
    Nothing,
    /// The key.
    Keys,
    /// The prefix of the key.
    Prefixes,
}

/// How far a search in the data blocks of an index came.
enum Search {
    /// To the entry, or to where it would be.
    Ended(Option<TableEntry>),
    /// To the end of the index: what is sought may lie behind it.
    GoesOn,
}

/// The filter of a table.
#[derive(Debug)]
enum TableFilter {
    /// None that is of use.
    None,
    /// One block.
    Full(FilterBlock),
    /// Partitions.
    Partitioned(Box<FilterPartitions>),
}

/// An open table. Index and filter are held in memory.
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug)]
pub(crate) struct TableReader {
    comparator: InternalKeyComparator,
    /// Whether equal keys have equal bytes, so that hashes of keys find them.
    hashes: bool,
    fetcher: BlockFetcher,
    /// Leads to data blocks, or to `partitions`.
    index: Index,
    /// Set for a two-level index.
    partitions: Option<IndexPartitions>,
    /// Set for a hash index whose prefixes are of use.
    prefixes: Option<Box<PrefixIndex>>,
    /// Set if the table tells which of its data blocks may be passed by.
    expired: Option<Box<ExpiredBlocks>>,
    filter: TableFilter,
    filter_asks: FilterAsks,
    metrics: Arc<Metrics>,
    properties: TableProperties,
    /// The range tombstones, if there are any, and where they are stored.
    ranges: Option<Box<(Fragments, BlockHandle)>>,
    block_cache: Arc<BlockCache>,
    /// What the cache knows the file by.
    cache_file: u64,
    /// Blocks that came into the cache before the table was opened, as far as the slots of the index do not know them.
    warm: Option<WarmSet>,
}

thread_local! {
    /// The cursor of point reads: its key buffer is not allocated for each.
    static CURSOR: Cell<Option<Box<BlockCursor>>> = const { Cell::new(None) };
}

/// The cursor of this thread; a new one while it is in use or the thread is ending.
#[inline]
fn take_cursor() -> Box<BlockCursor> {
    CURSOR.try_with(Cell::take).ok().flatten().unwrap_or_else(|| Box::new(BlockCursor::new()))
}

#[inline]
fn give_cursor_back(cursor: Box<BlockCursor>) {
    // A thread that is ending has no place for it any more.
    let _ = CURSOR.try_with(|slot| slot.set(Some(cursor)));
}

impl TableReader {
    /// The newest entry of the user key of `key` with a sequence number not above that of `key`, whatever its type. A range tombstone that
    /// hides what there is, here or in older sources, is a [`ValueType::Delete`].
    /// `key_hash` is the XXPH3 hash of the user key, if the caller made it already.
    ///
    /// # Errors
    ///
    /// `Incomplete` where the read tier forbids to read, `Corruption`, `Io`.
    #[inline]
    pub(crate) fn get_counted(
        &self,
        options: &TableReadOptions,
        key: &LookupKey,
        key_hash: Option<u64>,
        counts: &mut GetCounts,
    ) -> Result<Option<TableEntry>> {
        counts.tables += 1;
        match &self.ranges {
            None => self.get_point(options, key, key_hash, counts),
            Some(ranges) => self.get_under_ranges(&ranges.0, options, key, key_hash, counts),
        }
    }

    /// [`get_counted`](Self::get_counted) where nobody counts.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn get(
        &self,
        options: &TableReadOptions,
        key: &LookupKey,
        key_hash: Option<u64>,
    ) -> Result<Option<TableEntry>> {
        self.get_counted(options, key, key_hash, &mut GetCounts::default())
    }

    #[cold]
    fn get_under_ranges(
        &self,
        fragments: &Fragments,
        options: &TableReadOptions,
        key: &LookupKey,
        key_hash: Option<u64>,
        counts: &mut GetCounts,
    ) -> Result<Option<TableEntry>> {
        let covered = fragments.covering(key.user_key(), key.seqno());
        let found = self.get_point(options, key, key_hash, counts)?;
        if covered == 0 || found.as_ref().is_some_and(|entry| entry.seqno >= covered) {
            return Ok(found);
        }
        Ok(Some(TableEntry { seqno: covered, value_type: ValueType::Delete, value: PinnedBytes::from(Vec::new()) }))
    }

    /// The newest point entry of the user key of `key` with a sequence number not above that of `key`.
    #[inline]
    fn get_point(
        &self,
        options: &TableReadOptions,
        key: &LookupKey,
        key_hash: Option<u64>,
        counts: &mut GetCounts,
    ) -> Result<Option<TableEntry>> {
        if !self.may_have(options, key, key_hash) {
            self.count_answer(false, false, counts);
            return Ok(None);
        }
        let found = self.find_point(options, key)?;
        self.count_answer(true, found.is_some(), counts);
        Ok(found)
    }

    /// Counts what the filter said of a key, and whether the key was found.
    #[inline]
    fn count_answer(&self, allowed: bool, found: bool, counts: &mut GetCounts) {
        match self.filter_asks {
            FilterAsks::Nothing => {}
            FilterAsks::Keys => {
                counts.denied += u64::from(!allowed);
                counts.allowed += u64::from(allowed);
                counts.found += u64::from(found);
            }
            FilterAsks::Prefixes => self.count_prefix(allowed, found),
        }
    }

    #[cold]
    fn count_prefix(&self, allowed: bool, found: bool) {
        self.metrics.add_all([
            (Counter::FilterPrefixChecked, 1),
            (Counter::FilterPrefixUseful, u64::from(!allowed)),
            (Counter::FilterPrefixTruePositive, u64::from(found)),
        ]);
    }

    /// The same without asking the filter.
    #[inline]
    fn find_point(&self, options: &TableReadOptions, key: &LookupKey) -> Result<Option<TableEntry>> {
        if self.partitions.is_some() {
            return self.get_by_partitions(options, key);
        }
        let first = match &self.prefixes {
            None => self.index.seek(key.internal_key(), &self.comparator),
            Some(prefixes) => self.seek_by_prefix(prefixes, key),
        };
        match self.get_by(&self.index, first, options, key)? {
            Search::Ended(found) => Ok(found),
            Search::GoesOn => Ok(None),
        }
    }

    /// The first data block that may have `key`, as far as the prefixes of a hash index lead; the number of blocks if there is none.
    #[inline(never)]
    fn seek_by_prefix(&self, prefixes: &PrefixIndex, key: &LookupKey) -> usize {
        let Some(blocks) = prefixes.blocks(key.user_key()) else {
            return self.index.seek(key.internal_key(), &self.comparator);
        };
        let found = self.index.bisect(key.internal_key(), blocks.start, blocks.end, &self.comparator);
        if found < blocks.end { found } else { self.index.len() }
    }

    /// [`get`](Self::get) through a two-level index.
    #[inline(never)]
    fn get_by_partitions(&self, options: &TableReadOptions, key: &LookupKey) -> Result<Option<TableEntry>> {
        let first = self.index.seek(key.internal_key(), &self.comparator);
        for number in first..self.index.len() {
            let partition = self.index_partition(number, options)?;
            let index = partition.index().unwrap_or(&self.index);
            let first = index.seek(key.internal_key(), &self.comparator);
            if let Search::Ended(found) = self.get_by(index, first, options, key)? {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Looks for `key` in the data blocks that `index` leads to, from block `at` on.
    #[inline(always)]
    fn get_by(&self, index: &Index, mut at: usize, options: &TableReadOptions, key: &LookupKey) -> Result<Search> {
        let target = key.internal_key();
        if at == index.len() {
            return Ok(Search::GoesOn);
        }
        let mut cursor = take_cursor();
        let result = loop {
            if options.expired_at.is_some() && self.passes_by(index.handle(at), options) {
                // All versions of the key that are sought are here: its older ones are not in the next block, or this one were kept.
                self.count_passed(1);
                break Ok(Search::Ended(None));
            }
            let block = match self.block(index, at, options) {
                Ok(block) => block,
                Err(error) => break Err(error),
            };
            cursor.reset();
            let found = match self.hashes && block.has_hash_index() {
                true => cursor.seek_by_hash(&block, target, &self.comparator),
                false => cursor.seek(&block, target, &self.comparator),
            };
            if found {
                break self.entry_at(&cursor, block, key).map(Search::Ended);
            }
            if cursor.is_corrupt() {
                break Err(self.corrupt_block(index.handle(at)));
            }
            // The separator is at or after the target, but no entry of the block is. The next block can have the
            // user key only if the separator does.
            let separator = index.separator_user_key(at);
            at += 1;
            if index.has_user_keys() || self.comparator.compare_user(separator, key.user_key()) != Ordering::Equal {
                break Ok(Search::Ended(None));
            }
            if at == index.len() {
                break Ok(Search::GoesOn);
            }
        };
        give_cursor_back(cursor);
        result
    }

    /// The entry under `cursor`, if it is one of the user key of `key`.
    #[inline]
    fn entry_at(&self, cursor: &BlockCursor, block: Arc<Block>, key: &LookupKey) -> Result<Option<TableEntry>> {
        if self.comparator.compare_user(user_key(cursor.key()), key.user_key()) != Ordering::Equal {
            return Ok(None);
        }
        let trailer = trailer(cursor.key());
        let Some(value_type) = ValueType::from_u8(trailer as u8) else {
            let message = format!("unknown value type {:#04x}", trailer as u8);
            return Err(Error::corrupt(message).with_file(&self.fetcher.path));
        };
        let value = PinnedBytes::in_block(block, cursor.value_range());
        Ok(Some(TableEntry { seqno: trailer >> 8, value_type, value }))
    }

    /// About how many bytes of the table come before the internal key `target`. What the index says in memory: with a two-level one, whole partitions.
    pub(crate) fn bytes_before(&self, target: &[u8]) -> u64 {
        let (len, file_size) = (self.index.len(), self.fetcher.file_size);
        let index = self.index.seek(target, &self.comparator);
        if index >= len {
            return file_size;
        }
        if self.partitions.is_none() {
            return self.index.handle(index).offset;
        }
        (u128::from(file_size) * index as u128 / len as u128) as u64
    }

    /// User keys that cut the table into at most `most` stretches of about one size, ascending, each with the bytes of the stretch that ends about there. What the
    /// index says in memory: with a two-level one, whole partitions. No entry need have such a key.
    pub(crate) fn anchors(&self, most: usize) -> Vec<(Vec<u8>, u64)> {
        let (len, file_size) = (self.index.len(), self.fetcher.file_size);
        let stride = len.div_ceil(most.max(1)).max(1);
        let anchor = |start: usize| {
            let end = (start + stride).min(len);
            let bytes = u128::from(file_size) * (end - start) as u128 / len as u128;
            (self.index.separator_user_key(end - 1).to_vec(), bytes as u64)
        };
        (0..len).step_by(stride).map(anchor).collect()
    }

    /// Whether the table may have the user key of `key`, as far as its filter says. `hash` is its XXPH3 hash, if known.
    #[inline]
    pub(crate) fn may_have(&self, options: &TableReadOptions, key: &LookupKey, hash: Option<u64>) -> bool {
        match &self.filter {
            TableFilter::Full(filter) => filter.may_match(key.user_key(), hash),
            TableFilter::None => true,
            TableFilter::Partitioned(partitions) => {
                partitions.may_match(key.internal_key(), hash, self.partition_source(options))
            }
        }
    }

    /// Asks for the memory that [`may_have`](Self::may_have) reads for a user key of this XXPH3 hash.
    #[inline]
    pub(crate) fn prefetch_filter(&self, hash: u64) {
        if let TableFilter::Full(filter) = &self.filter {
            filter.prefetch(hash);
        }
    }

    /// Whether the table may have a key of the prefix of the internal key `target`, whose XXPH3 hash is `hash`: at or after `target`, or, unless
    /// `is_forward`, before it.
    pub(crate) fn may_have_prefix(
        &self,
        hash: u64,
        target: &[u8],
        is_forward: bool,
        options: &TableReadOptions,
    ) -> bool {
        let allowed = match &self.filter {
            TableFilter::None => return true,
            TableFilter::Full(filter) => filter.may_match_prefix(hash),
            // Keys before the target may be in the partition before.
            TableFilter::Partitioned(_) if !is_forward => return true,
            TableFilter::Partitioned(partitions) => {
                partitions.may_match_prefix(target, hash, self.partition_source(options))
            }
        };
        self.count_prefix(allowed, false);
        allowed
    }

    fn partition_source<'a>(&'a self, options: &'a TableReadOptions) -> PartitionSource<'a> {
        PartitionSource { fetcher: &self.fetcher, cache: &self.block_cache, comparator: &self.comparator, options }
    }

    /// Whether the data block at `handle` has nothing but rows that the read does not see because they are expired.
    fn passes_by(&self, handle: BlockHandle, options: &TableReadOptions) -> bool {
        let Some(time) = options.expired_at else { return false };
        let judged = self.judge(handle.offset, time);
        judged.is_expired() && judged.has(&stored_range(handle))
    }

    /// What a read at `time`, in Unix seconds, sees of the part of the table with the byte at `offset`.
    pub(crate) fn judge(&self, offset: u64, time: u64) -> Judged {
        self.expired.as_ref().map_or(Judged::UNKNOWN, |expired| expired.judge(offset, time))
    }

    /// Counts data blocks that were passed by because all of their rows are expired.
    #[cold]
    pub(crate) fn count_passed(&self, blocks: u64) {
        self.metrics.add(Counter::ExpiredBlocksSkipped, blocks);
    }

    /// The error of a data block whose entries cannot be decoded.
    #[cold]
    pub(crate) fn corrupt_block(&self, handle: BlockHandle) -> Error {
        self.fetcher.blame(Error::corrupt("bad entry of a block"), handle)
    }

    /// Reads blocks from disk.
    #[inline]
    pub(crate) fn fetcher(&self) -> &BlockFetcher {
        &self.fetcher
    }

    /// Where the data blocks are, or the partitions of a two-level index.
    #[inline]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Whether the index is a two-level one: [`index`](Self::index) then leads to partitions.
    #[inline]
    pub(crate) fn is_partitioned(&self) -> bool {
        self.partitions.is_some()
    }

    /// Partition `number` of a two-level index; [`Block::index`] of the result is never `None`.
    pub(crate) fn index_partition(&self, number: usize, options: &TableReadOptions) -> Result<Arc<Block>> {
        let Some(partitions) = &self.partitions else {
            return Err(Error::not_supported("partitions of an index of one block").with_file(&self.fetcher.path));
        };
        let handle = self.index.handle(number);
        partitions.partition(handle, &self.fetcher, &self.block_cache, &self.comparator, options)
    }

    /// The order of keys.
    #[inline]
    pub(crate) fn comparator(&self) -> &InternalKeyComparator {
        &self.comparator
    }

    /// What the file says of itself.
    pub(crate) fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The fragments of the range tombstones, if the table has any.
    #[inline]
    pub(crate) fn range_fragments(&self) -> Option<&Fragments> {
        self.ranges.as_ref().map(|ranges| &ranges.0)
    }

    /// The range tombstones one by one, read from the file.
    pub(crate) fn read_range_tombstones(&self, context: IoContext) -> Result<Vec<RangeTombstone>> {
        let Some(ranges) = &self.ranges else { return Ok(Vec::new()) };
        decode_tombstones(&self.fetcher, ranges.1, &self.comparator, context)
    }

    /// The bytes of memory that index, filter and range tombstones take.
    pub(crate) fn memory_usage(&self) -> usize {
        let ranges = self.ranges.as_ref().map_or(0, |ranges| ranges.0.memory_usage());
        let filter = match &self.filter {
            TableFilter::None => 0,
            TableFilter::Full(filter) => filter.memory_usage(),
            TableFilter::Partitioned(partitions) => partitions.memory_usage(),
        };
        let dictionary = self.fetcher.dictionary.as_ref().map_or(0, DecompressionDictionary::memory_usage);
        let prefixes = self.prefixes.as_ref().map_or(0, |prefixes| prefixes.memory_usage());
        let expired = self.expired.as_ref().map_or(0, |expired| expired.memory_usage());
        let warm = self.warm.as_ref().map_or(0, |warm| size_of_val(warm.offsets()));
        size_of::<Self>() + self.index.memory_usage() + prefixes + expired + filter + dictionary + ranges + warm
    }
}

/// The bytes of the file that a data block and its trailer take.
#[inline]
pub(crate) fn stored_range(handle: BlockHandle) -> Range<u64> {
    handle.offset..handle.offset.saturating_add(handle.size).saturating_add(BLOCK_TRAILER_LEN as u64)
}

/// The range tombstones in the block at `handle`, with the number of the whole file if it has one.
fn decode_tombstones(
    fetcher: &BlockFetcher,
    handle: BlockHandle,
    comparator: &InternalKeyComparator,
    context: IoContext,
) -> Result<Vec<RangeTombstone>> {
    let block = fetcher.meta_block(handle, context)?;
    let mut tombstones = range_del_block::decode(comparator, &block).map_err(|error| fetcher.blame(error, handle))?;
    if let Some(seqno) = fetcher.global_seqno {
        tombstones.iter_mut().for_each(|tombstone| tombstone.seqno = seqno);
    }
    Ok(tombstones)
}
