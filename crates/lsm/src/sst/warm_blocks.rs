//! Blocks of a table that is being written, put into the block cache where what they are made of is in memory.
//!
//! A compaction takes the cached blocks of its inputs out of use, and a flush the rows of a memtable: whoever read them in memory would then wait for the device for each block anew. So the walks over the inputs of a compaction note
//! which of their blocks are cached, and a block that is made of such comes into the cache when it is written: about as many as go out of use. RocksDB has `prepopulate_block_cache` for this, which takes all blocks
//! of a job or none.

use super::block::Block;
use super::block_cache::BlockCache;
use super::format::BlockHandle;
use siltstone_base::block_pool::BlockPool;
use siltstone_base::cache::Cacheable;
use siltstone_base::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// A job fills one part in so many of the cache, at most.
const MOST_PART: usize = 2;

/// What is known of a block of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warmth {
    /// It is on the device.
    Cold = 0,
    /// It is in memory.
    Cached = 1,
    /// It was asked for there.
    Used = 2,
}

/// Which of the data blocks that a compaction reads are cached: told by the walks over its inputs, asked by what writes its outputs, both on one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct CacheWatch {
    read: AtomicU32,
    cached: AtomicU32,
    used: AtomicU32,
    /// What the last answer was: a block of an input may go on in another one of the output.
    last: AtomicU8,
    /// Bytes that came into the cache.
    bytes: AtomicU64,
}

impl CacheWatch {
    /// A block is read.
    #[inline]
    pub(crate) fn saw(&self, warmth: Warmth) {
        self.read.fetch_add(1, Ordering::Relaxed);
        self.cached.fetch_add(u32::from(warmth != Warmth::Cold), Ordering::Relaxed);
        self.used.fetch_add(u32::from(warmth == Warmth::Used), Ordering::Relaxed);
    }

    /// What a block is that is made of those that were read since this was asked last: cached, if half of them are.
    pub(super) fn warmth(&self) -> Warmth {
        let [read, cached, used] = [&self.read, &self.cached, &self.used].map(|count| count.swap(0, Ordering::Relaxed));
        if read > 0 {
            let is_cached = cached >= read.div_ceil(2);
            let now = match (is_cached, used > 0) {
                (false, _) => Warmth::Cold,
                (true, false) => Warmth::Cached,
                (true, true) => Warmth::Used,
            };
            self.last.store(now as u8, Ordering::Relaxed);
        }
        match self.last.load(Ordering::Relaxed) {
            0 => Warmth::Cold,
            1 => Warmth::Cached,
            _ => Warmth::Used,
        }
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

impl WarmBlocks {
    /// What the next block is, of so many bytes.
    fn warmth(&self, bytes: usize) -> Warmth {
        let Some(watch) = &self.watch else { return Warmth::Used };
        let warmth = watch.warmth();
        if warmth == Warmth::Cold {
            return warmth;
        }
        let most = (self.cache.capacity() / MOST_PART) as u64;
        match watch.bytes.fetch_add(bytes as u64, Ordering::Relaxed) < most {
            true => warmth,
            false => Warmth::Cold,
        }
    }
}

/// The data blocks of one table that are in the cache before it is opened. They leave it with this, unless a reader answers for them.
#[derive(Debug)]
pub(crate) struct WarmSet {
    cache: Arc<BlockCache>,
    /// What the cache knows the table by.
    file: u64,
    /// Where they are in the table, ascending.
    offsets: Vec<u64>,
    /// A reader knows the blocks by itself.
    is_handed_on: bool,
}

impl WarmSet {
    pub(super) fn file(&self) -> u64 {
        self.file
    }

    /// Where the blocks are in the table, ascending.
    pub(super) fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The blocks are known to their reader, who will have them leave.
    pub(super) fn hand_on(mut self) {
        self.is_handed_on = true;
    }
}

impl Drop for WarmSet {
    fn drop(&mut self) {
        if !self.is_handed_on {
            self.cache.leave(self.file, std::mem::take(&mut self.offsets));
            self.cache.forget_file(self.file);
        }
    }
}

/// The data blocks of one table, while it is written.
#[derive(Debug)]
pub(super) struct WarmTable {
    blocks: WarmBlocks,
    /// Made with the first block.
    set: Option<WarmSet>,
}

impl WarmTable {
    pub(super) fn new(blocks: WarmBlocks) -> Self {
        Self { blocks, set: None }
    }

    /// The block `raw` was written to `handle`. The cache need not have room for it.
    pub(super) fn wrote(&mut self, handle: BlockHandle, raw: &[u8]) {
        let warmth = self.blocks.warmth(raw.len());
        if warmth == Warmth::Cold {
            return;
        }
        let Ok(mut bytes) = self.blocks.pool.try_alloc(raw.len()) else { return };
        bytes.copy_from_slice(raw);
        let Ok(block) = Block::new(bytes, raw.len()) else { return };
        let cache = &self.blocks.cache;
        let new_set = || {
            let (cache, file) = (Arc::clone(cache), cache.new_file_id());
            WarmSet { cache, file, offsets: Vec::new(), is_handed_on: false }
        };
        let set = self.set.get_or_insert_with(new_set);
        let block = Arc::new(block);
        let inserted = match warmth {
            // The uses of what it stands for.
            Warmth::Used => {
                block.uses().add();
                cache.insert_proven(set.file, handle.offset, block)
            }
            Warmth::Cached | Warmth::Cold => cache.insert(set.file, handle.offset, block),
        };
        if inserted.is_ok() {
            set.offsets.push(handle.offset);
        }
    }

    /// What came into the cache, if anything did.
    pub(super) fn into_set(self) -> Option<WarmSet> {
        self.set
    }
}
