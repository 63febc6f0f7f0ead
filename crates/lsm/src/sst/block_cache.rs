//! The cache of data blocks.

use super::block::Block;
use siltstone_base::cache::{Cache, CacheKey, CacheStats, ENTRY_OVERHEAD};
use std::sync::Arc;

/// A cache of uncompressed data blocks, charged in bytes. Several databases may share one.
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug)]
pub struct BlockCache(Cache<Block>);

impl BlockCache {
    /// A cache of `capacity_bytes`.
    pub fn new(capacity_bytes: usize) -> Self {
        Self(Cache::new(capacity_bytes))
    }

    /// The bytes that the cache may hold.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Sets the bytes that the cache may hold; a smaller number evicts at once.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        self.0.set_capacity(capacity_bytes);
    }

    /// The bytes that the cache holds.
    pub fn usage(&self) -> usize {
        self.0.usage()
    }

    /// The bytes of the blocks that readers hold at the moment. Costs a walk over the whole cache.
    pub fn pinned_usage(&self) -> usize {
        self.0.pinned_usage()
    }

    /// What happened so far.
    pub fn stats(&self) -> CacheStats {
        self.0.stats()
    }

    /// A number for the blocks of one open table.
    pub(crate) fn new_file_id(&self) -> u64 {
        self.0.new_file_id()
    }

    /// The block of `file` at `offset`, if it is here.
    #[inline]
    pub(crate) fn get(&self, file: u64, offset: u64) -> Option<Arc<Block>> {
        self.0.get(&CacheKey { file, offset })
    }

    /// Counts hits on blocks of `file` that were found without a lookup.
    #[inline]
    pub(crate) fn add_hits(&self, file: u64, hits: u64) {
        self.0.add_hits(file, hits);
    }

    /// Puts a block in and returns what is resident in its place.
    pub(crate) fn insert(&self, file: u64, offset: u64, block: Arc<Block>) -> Arc<Block> {
        let charge = block.memory_usage() + ENTRY_OVERHEAD;
        self.0.insert(CacheKey { file, offset }, block, charge)
    }
}
