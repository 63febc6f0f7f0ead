//! Blocks of a table that is being written, put into the block cache where what they are made of is in memory.
//!
//! A compaction takes the cached blocks of its inputs out of use, and a flush the rows of a memtable: whoever read them in memory would then wait for the device for each block anew. So the walks over the inputs of a compaction note
//! which of their blocks are cached, and a block that is made of such comes into the cache when it is written: about as many as go out of use. RocksDB has `prepopulate_block_cache` for this, which takes all blocks
//! of a job or none.

use super::block::Block;
use super::block_cache::BlockCache;
use super::format::BlockHandle;
use siltstone_base::block_pool::BlockPool;
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// Which of the data blocks that a compaction reads are cached: told by the walks over its inputs, asked by what writes its outputs.
#[derive(Debug, Default)]
pub(crate) struct CacheWatch {
    read: AtomicU32,
    cached: AtomicU32,
}

impl CacheWatch {
    /// A block is read, and is cached or not.
    #[inline]
    pub(crate) fn saw(&self, is_cached: bool) {
        self.read.fetch_add(1, Ordering::Relaxed);
        self.cached.fetch_add(u32::from(is_cached), Ordering::Relaxed);
    }

    /// Whether half of the blocks that were read since this was asked last are cached. `None`: none was read.
    fn take(&self) -> Option<bool> {
        let (read, cached) = (self.read.swap(0, Ordering::Relaxed), self.cached.swap(0, Ordering::Relaxed));
        (read > 0).then(|| cached >= read.div_ceil(2))
    }
}

/// Where blocks go that are to be in memory.
#[derive(Debug, Clone)]
pub(crate) struct WarmBlocks {
    /// The cache.
    pub(crate) cache: Arc<BlockCache>,
    /// Where their memory comes from.
    pub(crate) pool: BlockPool,
    /// Says which these are; without one all are.
    pub(crate) watch: Option<Arc<CacheWatch>>,
}

/// The data blocks of one table, while it is written.
#[derive(Debug)]
pub(super) struct WarmTable {
    blocks: WarmBlocks,
    /// What the cache will know the table by.
    file: u64,
    /// What the last answer was: a block of an input may go on in another one of the table.
    is_warm: bool,
    /// Whether a reader answers for the file.
    is_handed_on: bool,
}

impl WarmTable {
    pub(super) fn new(blocks: WarmBlocks) -> Self {
        Self { file: blocks.cache.new_file_id(), is_warm: blocks.watch.is_none(), blocks, is_handed_on: false }
    }

    /// The block `raw` was written to `handle`. The cache need not have room for it.
    pub(super) fn wrote(&mut self, handle: BlockHandle, raw: &[u8]) {
        if let Some(is_warm) = self.blocks.watch.as_ref().and_then(|watch| watch.take()) {
            self.is_warm = is_warm;
        }
        if !self.is_warm {
            return;
        }
        let Ok(mut bytes) = self.blocks.pool.try_alloc(raw.len()) else { return };
        bytes.copy_from_slice(raw);
        if let Ok(block) = Block::new(bytes, raw.len()) {
            let _ = self.blocks.cache.insert_proven(self.file, handle.offset, Arc::new(block));
        }
    }

    /// What the reader of the table has to ask the cache for.
    pub(super) fn hand_on(mut self) -> u64 {
        self.is_handed_on = true;
        self.file
    }
}

impl Drop for WarmTable {
    fn drop(&mut self) {
        if !self.is_handed_on {
            self.blocks.cache.forget_file(self.file);
        }
    }
}
