//! Walking a table: a position in the index and a cursor in a data block.

use super::block::Block;
use super::block_cursor::BlockCursor;
use super::index_block::Index;
use super::read_ahead::{AT_ONCE, MAX_AUTO_READ_AHEAD, Reach, ReadAhead};
use super::reader::{TableReadOptions, TableReader, stored_range};
use super::walk_bounds::WalkBounds;
use super::walk_share::WalkShare;
use super::warm_blocks::CacheWatch;
use crate::expiry::Judged;
use crate::iterator::{InternalIterator, SeekStage};
use crate::key::InternalKeyComparator;
use crate::options::ReadTier;
use siltstone_base::env::RandomFile;
use siltstone_base::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::Arc;

/// An iterator over the entries of a table.
///
/// Invariants: while `block` is set, it is data block `index` of the table (with a two-level index: of the partition), and the
/// cursor belongs to it. It is not set on a block that is passed by because all of its rows are expired: such a block is like one
/// without entries. `partition` is set for two-level indexes only, to partition `partition_number`.
#[derive(Debug)]
pub(crate) struct TableIter {
    reader: Arc<TableReader>,
    options: TableReadOptions,
    partition: Option<Arc<Block>>,
    partition_number: usize,
    index: usize,
    block: Option<Arc<Block>>,
    cursor: BlockCursor,
    valid: bool,
    /// Reads past the cache: for compactions.
    bypasses_cache: bool,
    /// Is told which blocks are cached that are read past the cache.
    cache_watch: Option<Arc<CacheWatch>>,
    read_ahead: ReadAhead,
    /// The block in which the seek that comes next begins, if it was prepared.
    prepared: Option<usize>,
    /// Blocks that were found without a lookup in the cache.
    hits: u64,
    /// The part of the table that was looked at last for whether its rows are expired.
    judged: Judged,
    /// Blocks that were passed by because all of their rows are.
    passed: u64,
    /// XXPH3 hash of the prefix whose keys alone are sought.
    prefix: Option<u64>,
    /// No block is passed by that may have a key outside of them, and none behind them is read ahead.
    bounds: Option<Arc<WalkBounds>>,
    is_forward: bool,
    /// Which part of the walk's entries the table is likely to have; `None`: all of them.
    share: Option<Box<dyn WalkShare>>,
    /// Bytes of the file that the walk is expected to need; 0: not known yet.
    expected_len: u64,
    /// Where in the file the walk began, if it is known how many entries it is expected to need.
    began: Option<u64>,
    error: Option<Error>,
}

impl Drop for TableIter {
    fn drop(&mut self) {
        if self.hits > 0 {
            self.reader.add_cache_hits(self.hits);
        }
        if self.passed > 0 {
            self.reader.count_passed(self.passed);
        }
    }
}

impl TableIter {
    /// An iterator for a user. `read_ahead_size` bytes are read at a time; 0: grows by itself while reads are sequential.
    pub(crate) fn new(reader: Arc<TableReader>, options: TableReadOptions, read_ahead_size: usize) -> Self {
        let read_ahead = match read_ahead_size {
            0 => ReadAhead::growing(MAX_AUTO_READ_AHEAD),
            size => ReadAhead::fixed(size),
        };
        Self::with(reader, options, read_ahead, false)
    }

    /// An iterator for a compaction: it reads `read_ahead_size` bytes at a time and leaves the cache alone.
    pub(crate) fn for_compaction(reader: Arc<TableReader>, options: TableReadOptions, read_ahead_size: usize) -> Self {
        Self::with(reader, options, ReadAhead::fixed(read_ahead_size), true)
    }

    /// The same, which reads through another file of the same bytes.
    pub(crate) fn through(mut self, file: Arc<dyn RandomFile>) -> Self {
        self.read_ahead.read_through(file);
        self
    }

    fn with(reader: Arc<TableReader>, options: TableReadOptions, read_ahead: ReadAhead, bypasses_cache: bool) -> Self {
        Self {
            reader,
            options,
            partition: None,
            partition_number: 0,
            index: 0,
            block: None,
            cursor: BlockCursor::new(),
            valid: false,
            bypasses_cache,
            cache_watch: None,
            read_ahead,
            prepared: None,
            hits: 0,
            judged: Judged::NOTHING,
            passed: 0,
            prefix: None,
            bounds: None,
            is_forward: true,
            share: None,
            expected_len: 0,
            began: None,
            error: None,
        }
    }

    /// Tells `watch` which of the blocks are cached that it reads past the cache.
    pub(crate) fn set_cache_watch(&mut self, watch: Option<Arc<CacheWatch>>) {
        self.cache_watch = watch;
    }

    /// Bytes of the blocks that it stands on.
    pub(crate) fn block_bytes(&self) -> usize {
        self.partition.iter().chain(&self.block).map(|block| block.memory_usage()).sum()
    }

    /// Says which part of a walk's entries the table has, of walks that are expected to need so many; `None`: all of them.
    pub(crate) fn set_share(&mut self, share: Option<Box<dyn WalkShare>>) {
        self.share = share;
    }

    /// Lets seeks ask the filter for the prefix whose XXPH3 hash is `prefix`, and find nothing if the table has no key of it.
    pub(crate) fn set_prefix(&mut self, prefix: Option<u64>) {
        self.prefix = prefix;
    }

    /// Lets the walk pass by no block that may have a key outside of `bounds`, and read at once what it reads up to them.
    pub(crate) fn set_bounds(&mut self, bounds: Option<Arc<WalkBounds>>) {
        self.bounds = bounds;
    }

    /// Whether the table has no key of the prefix that is sought; the iterator is then on no entry.
    #[inline]
    fn is_passed_by(&mut self, target: &[u8], is_forward: bool) -> bool {
        let is_passed_by =
            self.prefix.is_some_and(|prefix| !self.reader.may_have_prefix(prefix, target, is_forward, &self.options));
        self.valid &= !is_passed_by;
        is_passed_by
    }

    /// Where the data blocks are: of the table, or of the current partition.
    #[inline]
    fn block_index(&self) -> &Index {
        match &self.partition {
            Some(partition) => partition.index().unwrap_or(self.reader.index()),
            None => self.reader.index(),
        }
    }

    /// Makes partition `number` of a two-level index the current one; false behind the last one or on an error.
    fn load_partition(&mut self, number: usize) -> bool {
        if self.partition.is_some() && self.partition_number == number {
            return true;
        }
        self.partition = None;
        self.block = None;
        if number >= self.reader.index().len() {
            return false;
        }
        let keeps = self.options.fill_cache && !self.bypasses_cache;
        let options = TableReadOptions { fill_cache: keeps, ..self.options };
        match self.reader.index_partition(number, &options) {
            Ok(partition) => {
                self.partition = Some(partition);
                self.partition_number = number;
                true
            }
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }

    /// Makes the partition that may have `target` the current one, or the last one.
    #[inline(never)]
    fn seek_partition(&mut self, target: &[u8]) -> bool {
        let partitions = self.reader.index();
        let number = partitions.seek(target, self.reader.comparator()).min(partitions.len().saturating_sub(1));
        self.load_partition(number)
    }

    /// Makes data block `index` the current one; false at the end of the table or on an error.
    fn load(&mut self, mut index: usize) -> bool {
        while index >= self.block_index().len() {
            if self.partition.is_none() || !self.load_partition(self.partition_number + 1) {
                self.block = None;
                return false;
            }
            index = 0;
        }
        if self.block.is_some() && self.index == index {
            self.cursor.reset();
            return true;
        }
        self.block = None;
        self.index = index;
        self.cursor.reset();
        if let Some(block) = self.expired_block(index) {
            self.passed += 1;
            self.read_ahead.passed(&block);
            // It is no part of what the walk needs.
            self.began = self.began.map(|began| began.saturating_add(block.end - block.start));
            return true;
        }
        match self.fetch(index) {
            Ok(block) => {
                self.block = Some(block);
                true
            }
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }

    /// The bytes of data block `index`, if it has nothing but rows that the walk does not see because they are expired.
    #[inline]
    fn expired_block(&mut self, index: usize) -> Option<Range<u64>> {
        let time = self.options.expired_at?;
        let handle = self.block_index().handle(index);
        let block = stored_range(handle);
        if !self.judged.has(&block) {
            self.judged = self.reader.judge(handle.offset, time);
        }
        (self.judged.is_expired() && self.judged.has(&block) && self.is_within_bounds(index)).then_some(block)
    }

    /// Whether all keys of data block `index` are certain to be where the walk shows entries.
    fn is_within_bounds(&self, index: usize) -> bool {
        if self.prefix.is_some() {
            // The walk ends behind its prefix, and nobody knows here which keys are of it.
            return false;
        }
        let Some(bounds) = &self.bounds else { return true };
        let (blocks, order) = (self.block_index(), self.reader.comparator());
        // Keys of a block are not behind its separator, and behind that of the block before.
        let is_below = |upper: &[u8]| order.compare_user(blocks.separator_user_key(index), upper).is_lt();
        let is_above = |lower: &[u8]| {
            let before = match (index.checked_sub(1), self.partition_number.checked_sub(1)) {
                (Some(before), _) => blocks.separator_user_key(before),
                (None, Some(partition)) if self.partition.is_some() => {
                    self.reader.index().separator_user_key(partition)
                }
                _ => return false,
            };
            order.compare_user(before, lower).is_ge()
        };
        bounds.upper.as_deref().is_none_or(is_below) && bounds.lower.as_deref().is_none_or(is_above)
    }

    fn fetch(&mut self, index: usize) -> Result<Arc<Block>> {
        if !self.bypasses_cache {
            if let Some(block) = self.block_index().slots().get(index) {
                self.hits += 1;
                return Ok(block);
            }
            if let Some(block) = self.reader.looked_up_block(self.block_index(), index, self.options.fill_cache) {
                return Ok(block);
            }
        } else if let Some(watch) = &self.cache_watch {
            watch.saw(self.reader.warmth(self.block_index(), index));
        }
        if self.options.read_tier == ReadTier::BlockCache {
            return Err(Error::new(ErrorKind::Incomplete, "block is not cached"));
        }
        let (verify, context) = (self.options.verify_checksums, self.options.context);
        let handle = self.block_index().handle(index);
        let asks = self.read_ahead.asks_how_far(self.reader.fetcher(), handle);
        let reach = if asks { self.reach(index) } else { Reach::Unknown };
        let block = self.read_ahead.block(self.reader.fetcher(), handle, reach, verify, context)?;
        let keeps = self.options.fill_cache && !self.bypasses_cache;
        if keeps { self.reader.keep_block(self.block_index(), index, block) } else { Ok(Arc::new(block)) }
    }

    /// How far the walk goes from block `index` on, by its upper bound and by the entries that are expected of it, as far as one read reaches. Blocks at the end that are in the cache are no part of it.
    fn reach(&mut self, index: usize) -> Reach {
        if !self.is_forward || self.bypasses_cache {
            return Reach::Unknown;
        }
        let own = stored_range(self.block_index().handle(index));
        let expected_end = self.began.map(|began| self.expected_end(began, &own));
        let upper = self.bounds.as_ref().and_then(|bounds| bounds.upper.as_deref());
        if upper.is_none() && expected_end.is_none() {
            return Reach::Unknown;
        }
        let (blocks, order) = (self.block_index(), self.reader.comparator());
        let mut end = own.end;
        for next in index + 1..blocks.len() {
            // Keys of a block are behind the separator of the one before.
            let is_behind = |upper: &[u8]| order.compare_user(blocks.separator_user_key(next - 1), upper).is_ge();
            let stored = stored_range(blocks.handle(next));
            if upper.is_some_and(is_behind) || expected_end.is_some_and(|end| stored.start >= end) {
                break;
            }
            if stored.end.saturating_sub(own.start) > AT_ONCE as u64 {
                // Who only has a bound that is far away may end before it; and where what comes next is cached, one block is all that is missing.
                let is_far = expected_end.is_some() && end > own.end;
                return if is_far { Reach::Far } else { Reach::Unknown };
            }
            if !blocks.slots().has(next) {
                end = stored.end;
            }
        }
        Reach::Until(end)
    }

    /// A walk begins, which way, with nothing known of how far it goes.
    fn begin(&mut self, is_forward: bool) {
        self.error = None;
        self.is_forward = is_forward;
        self.began = None;
    }

    /// It begins in block `index`, somewhere.
    #[inline]
    fn expect_from(&mut self, index: usize) {
        if self.options.expected_entries > 0 && index < self.block_index().len() {
            let block = stored_range(self.block_index().handle(index));
            self.began = Some(block.start + (block.end - block.start) / 2);
        }
    }

    /// Up to where in the file a walk goes that began at `began` and came to the block at `own`.
    fn expected_end(&mut self, began: u64, own: &Range<u64>) -> u64 {
        if self.expected_len == 0 {
            let properties = self.reader.properties();
            let entry = properties.data_size as f64 / properties.num_entries.max(1) as f64;
            let share = self.share.as_ref().map_or(1.0, |share| share.get());
            self.expected_len = ((self.options.expected_entries as f64 * share).ceil() * entry).max(1.0) as u64;
        }
        let end = began.saturating_add(self.expected_len);
        // One that goes further has more of its entries here than was thought: it may go as far again.
        if own.start < end { end } else { own.start.saturating_add(own.end.saturating_sub(began)) }
    }

    /// Moves the cursor by `movement` within the current block.
    #[inline]
    fn within(&mut self, movement: impl FnOnce(&mut BlockCursor, &Block, &InternalKeyComparator) -> bool) -> bool {
        let Some(block) = &self.block else { return false };
        if movement(&mut self.cursor, block, self.reader.comparator()) {
            return true;
        }
        if self.cursor.is_corrupt() {
            self.error = Some(self.reader.corrupt_block(self.block_index().handle(self.index)));
        }
        false
    }

    /// After the end of a block: the first entry of the blocks behind it.
    #[inline(never)]
    fn skip_forward(&mut self) -> bool {
        self.is_forward = true;
        // Blocks without entries do not occur in files of ours, but those that are passed by are like them.
        while self.error.is_none() && self.load(self.index + 1) {
            if self.within(|cursor, block, _| cursor.seek_to_first(block)) {
                return true;
            }
        }
        false
    }

    /// After the front of a block: the last entry of the blocks before it.
    #[inline(never)]
    fn skip_backward(&mut self) -> bool {
        self.is_forward = false;
        while self.error.is_none() {
            let previous = match self.index.checked_sub(1) {
                Some(previous) => previous,
                None if self.load_previous_partition() => self.block_index().len().saturating_sub(1),
                None => return false,
            };
            if !self.load(previous) {
                return false;
            }
            if self.within(|cursor, block, _| cursor.seek_to_last(block)) {
                return true;
            }
        }
        false
    }

    /// Makes the partition before the current one the current one; false at the first one, without partitions, or on an error.
    fn load_previous_partition(&mut self) -> bool {
        self.partition.is_some() && self.partition_number > 0 && self.load_partition(self.partition_number - 1)
    }
}

impl InternalIterator for TableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_to_first(&mut self) {
        self.begin(true);
        if self.reader.is_partitioned() && !self.load_partition(0) {
            self.valid = false;
            return;
        }
        self.expect_from(0);
        self.valid =
            self.load(0) && (self.within(|cursor, block, _| cursor.seek_to_first(block)) || self.skip_forward());
    }

    fn seek_to_last(&mut self) {
        self.begin(false);
        let last_of_index = self.reader.index().len().wrapping_sub(1);
        if self.reader.is_partitioned() && !self.load_partition(last_of_index) {
            self.valid = false;
            return;
        }
        let last = self.block_index().len().wrapping_sub(1);
        self.valid =
            self.load(last) && (self.within(|cursor, block, _| cursor.seek_to_last(block)) || self.skip_backward());
    }

    fn seek(&mut self, target: &[u8]) {
        self.begin(true);
        let prepared = self.prepared.take();
        if self.is_passed_by(target, true) {
            return;
        }
        if prepared.is_none() && self.reader.is_partitioned() && !self.seek_partition(target) {
            self.valid = false;
            return;
        }
        let index = prepared.unwrap_or_else(|| self.block_index().seek(target, self.reader.comparator()));
        self.expect_from(index);
        self.valid = self.load(index)
            && (self.within(|cursor, block, comparator| cursor.seek(block, target, comparator)) || self.skip_forward());
    }

    fn prepare_seek(&mut self, target: &[u8], stage: SeekStage) {
        if self.prefix.is_some() {
            // Whether there is anything to wait for, the filter says when it is asked.
            return;
        }
        match (stage, self.prepared) {
            (SeekStage::Locate, _) => {
                self.valid = false;
                if self.reader.is_partitioned() && !self.seek_partition(target) {
                    return;
                }
                let index = self.block_index().seek(target, self.reader.comparator());
                self.block_index().slots().prefetch(index);
                self.prepared = Some(index);
            }
            (SeekStage::Find, Some(index)) => self.block_index().slots().prefetch_block(index),
            (SeekStage::Pin, Some(index)) => {
                if !self.bypasses_cache
                    && (self.block.is_none() || self.index != index)
                    && index < self.block_index().len()
                    && self.expired_block(index).is_none()
                    && let Some(block) = self.block_index().slots().get(index)
                {
                    self.hits += 1;
                    block.prefetch_restarts();
                    self.index = index;
                    self.cursor.reset();
                    self.block = Some(block);
                }
            }
            (SeekStage::Keys, Some(_)) => {
                if let Some(block) = &self.block {
                    block.prefetch_restart_keys();
                }
            }
            (_, None) => {}
        }
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        self.begin(false);
        let prepared = self.prepared.take();
        if self.is_passed_by(target, false) {
            return;
        }
        if prepared.is_none() && self.reader.is_partitioned() && !self.seek_partition(target) {
            self.valid = false;
            return;
        }
        let blocks = self.block_index().len();
        if blocks == 0 {
            self.valid = false;
            return;
        }
        let index =
            prepared.unwrap_or_else(|| self.block_index().seek(target, self.reader.comparator())).min(blocks - 1);
        self.valid = self.load(index)
            && (self.within(|cursor, block, comparator| cursor.seek_for_prev(block, target, comparator))
                || self.skip_backward());
    }

    #[inline]
    fn next(&mut self) {
        debug_assert!(self.valid);
        self.valid = self.within(|cursor, block, _| cursor.next(block)) || self.skip_forward();
    }

    #[inline]
    fn prev(&mut self) {
        debug_assert!(self.valid);
        self.valid = self.within(|cursor, block, _| cursor.prev(block)) || self.skip_backward();
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match &self.block {
            Some(block) => self.cursor.value(block),
            None => &[],
        }
    }

    fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}
