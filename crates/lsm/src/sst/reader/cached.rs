//! A table and the block cache: data blocks from it or from disk, what is known of them there, and what becomes of them when the table goes.

use super::{TableFilter, TableReadOptions, TableReader};
use crate::metrics::{Counter, HistogramKind};
use crate::options::ReadTier;
use crate::sst::block::Block;
use crate::sst::index_block::Index;
use crate::sst::warm_blocks::{WarmSet, Warmth};
use siltstone_base::{Error, ErrorKind, Result};
use std::sync::Arc;

impl Drop for TableReader {
    fn drop(&mut self) {
        // The room is for blocks that somebody may ask for.
        let leave = |index: &Index| {
            let offsets = index.slots().taken_slots().map(|position| index.handle(position).offset);
            self.block_cache.leave(self.cache_file, offsets.collect());
        };
        match &self.partitions {
            Some(partitions) => partitions.leave(&self.index, &self.block_cache, leave),
            None => leave(&self.index),
        }
        if let TableFilter::Partitioned(filter) = &self.filter {
            filter.leave(&self.block_cache);
        }
        self.block_cache.forget_file(self.cache_file);
    }
}

impl TableReader {
    /// Data block `position` of `index`, from memory or from disk.
    #[inline]
    pub(super) fn block(&self, index: &Index, position: usize, options: &TableReadOptions) -> Result<Arc<Block>> {
        if let Some(block) = index.slots().get(position) {
            self.add_cache_hits(1);
            return Ok(block);
        }
        match self.looked_up_block(index, position, options.fill_cache) {
            Some(block) => Ok(block),
            None => self.read_block(index, position, options),
        }
    }

    /// Data block `position` of `index`, if the cache has it; also compressed, if it may go back to the uncompressed ones.
    pub(crate) fn looked_up_block(&self, index: &Index, position: usize, fills: bool) -> Option<Arc<Block>> {
        let (file, offset) = (self.cache_file, index.handle(position).offset);
        let block = match self.block_cache.get(file, offset) {
            None if fills => self.block_cache.get_compressed(file, offset, &self.fetcher.pool)?,
            found => found?,
        };
        index.slots().set(position, &block);
        Some(block)
    }

    #[cold]
    pub(super) fn read_block(&self, index: &Index, position: usize, options: &TableReadOptions) -> Result<Arc<Block>> {
        if options.read_tier == ReadTier::BlockCache {
            return Err(Error::new(ErrorKind::Incomplete, "block is not cached"));
        }
        let began = self.metrics.begin();
        let block = self.fetcher.data_block(index.handle(position), options.verify_checksums, options.context)?;
        self.metrics.end_micros(HistogramKind::ReadBlockGet, began);
        self.metrics.add_all([(Counter::BlocksRead, 1), (Counter::BlockReadBytes, block.bytes().len() as u64)]);
        if options.fill_cache { self.keep_block(index, position, block) } else { Ok(Arc::new(block)) }
    }

    /// Puts data block `position` of `index` into the cache; `LimitExceeded` if that is strict and has no room.
    pub(crate) fn keep_block(&self, index: &Index, position: usize, block: Block) -> Result<Arc<Block>> {
        let block = self.block_cache.insert(self.cache_file, index.handle(position).offset, Arc::new(block))?;
        index.slots().set(position, &block);
        Ok(block)
    }

    /// Finds the data blocks that are in the cache already. A two-level index, which does not have all of their places in memory, finds one when it is asked for.
    pub(super) fn take_warm_blocks(&mut self, warm: WarmSet) {
        self.cache_file = warm.file();
        if self.partitions.is_some() {
            self.warm = Some(warm);
            return;
        }
        let mut position = 0;
        for offset in warm.offsets() {
            position = self.position_from(position, *offset);
            if position < self.index.len()
                && let Some(block) = self.block_cache.peek(self.cache_file, *offset)
            {
                self.index.slots().set(position, &block);
            }
        }
        warm.hand_on();
    }

    /// The first data block from `start` on that does not lie before `offset`.
    fn position_from(&self, mut start: usize, offset: u64) -> usize {
        let mut end = self.index.len();
        while start < end {
            let middle = start + (end - start) / 2;
            match self.index.handle(middle).offset < offset {
                true => start = middle + 1,
                false => end = middle,
            }
        }
        start
    }

    /// What data block `position` of `index` is. Nothing is used by this.
    #[inline]
    pub(crate) fn warmth(&self, index: &Index, position: usize) -> Warmth {
        if let Some(warmth) = index.slots().warmth(position) {
            return warmth;
        }
        let offset = index.handle(position).offset;
        let is_kept = self.warm.as_ref().is_some_and(|warm| warm.offsets().binary_search(&offset).is_ok());
        match is_kept.then(|| self.block_cache.peek(self.cache_file, offset)).flatten() {
            Some(block) => block.warmth(),
            None if self.block_cache.has_compressed(self.cache_file, offset) => Warmth::Cached,
            None => Warmth::Cold,
        }
    }

    /// Counts hits on blocks that were found without a lookup.
    #[inline]
    pub(crate) fn add_cache_hits(&self, hits: u64) {
        self.block_cache.add_hits(self.cache_file, hits);
    }
}
