//! The second tier of the block cache: data blocks that had to go, compressed.
//!
//! It takes the place of the operating system's page cache where reads are direct. A block comes in when the first tier evicts it, LZ4 whatever its table's codec is. Who
//! asks for it gets it unpacked; the fourth time it also goes back to the first tier. What is in both for a while need not be compressed again when the first tier evicts it once more. Blocks of files that were deleted stay out.
//!
//! Compressed blocks are of all sizes and many to a page, so they are not given memory one by one: they are appended to [chunks](chunk), and go with their chunk. The memory that the tier takes is that of its chunks,
//! whatever comes and goes, and what it gives up goes back to the operating system. (Yang et al., "Segcache: a memory-efficient and scalable in-memory key-value cache", NSDI 2021, has small objects in segments for the same reasons.)

mod chunk;
mod shard;

use super::block::Block;
use shard::Shard;
use siltstone_base::block_pool::BlockPool;
use siltstone_base::cache::{CacheKey, CacheStats};
use siltstone_base::compression::{CompressionType, Compressor, decompress_into, decompressed_len};
use siltstone_base::sync::{CachePadded, Mutex, Rank};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::fmt;

/// Rank of the list of forgotten files: a table may be closed, and a block evicted, under any lock.
const FORGOTTEN_RANK: Rank = Rank(985);

/// Rank of the shards, of which one is locked at a time.
const SHARD_RANK: Rank = Rank(986);

/// A shard is not smaller than this, so that chunks have room for several blocks.
const LEAST_SHARD: usize = 4 << 20;

const MOST_SHARDS: usize = 64;

/// Forgotten files that are known.
const MOST_FORGOTTEN: usize = 16 << 10;

/// A block is kept if it shrinks to so many eighths at least.
const MOST_EIGHTHS: usize = 7;

thread_local! {
    /// The compressor of this thread, and where compressed bytes are on their way in or out.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[derive(Default)]
struct Scratch {
    compressor: Option<Compressor>,
    bytes: Vec<u8>,
}

/// Compressed blocks, in so many bytes.
pub(super) struct CompressedTier {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    forgotten: Mutex<ForgottenFiles>,
}

/// The last files that nobody will ask for any more. By the time that one is not known any more, its blocks have long gone from the first tier.
#[derive(Debug, Default)]
struct ForgottenFiles {
    known: HashSet<u64>,
    /// Oldest first.
    order: VecDeque<u64>,
}

impl ForgottenFiles {
    fn add(&mut self, file: u64) {
        if self.known.insert(file) {
            self.order.push_back(file);
        }
        if self.order.len() > MOST_FORGOTTEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl CompressedTier {
    pub(super) fn new(capacity_bytes: usize) -> Self {
        let shards = 1 << (capacity_bytes / LEAST_SHARD).clamp(1, MOST_SHARDS).ilog2();
        let shard =
            |number| CachePadded::new(Mutex::new(SHARD_RANK, Shard::new(capacity_bytes / shards, number, shards)));
        Self {
            shards: (0..shards).map(shard).collect(),
            forgotten: Mutex::new(FORGOTTEN_RANK, ForgottenFiles::default()),
        }
    }

    /// Lets no block of `file` in any more.
    pub(super) fn forget_file(&self, file: u64) {
        self.forgotten.lock().add(file);
    }

    /// Whether the block of `key` is here. Nothing is counted or used by it.
    pub(super) fn contains(&self, key: CacheKey) -> bool {
        let hash = key.hash();
        self.shard(hash).lock().contains(hash, key)
    }

    /// The block of `key`, unpacked to a buffer of `pool`, if it is here, and whether it should go back to the first tier.
    pub(super) fn get(&self, key: CacheKey, pool: &BlockPool) -> Option<(Block, bool)> {
        let hash = key.hash();
        let copy = |scratch: &RefCell<Scratch>| {
            let mut scratch = scratch.try_borrow_mut().ok()?;
            let bytes = &mut scratch.bytes;
            bytes.clear();
            let ((), returns) = self.shard(hash).lock().get(hash, key, |found| bytes.extend_from_slice(found))?;
            Some((unpack(bytes, pool), returns))
        };
        match SCRATCH.try_with(copy).ok().flatten()? {
            (Some(block), returns) => Some((block, returns)),
            (None, _) => {
                self.shard(hash).lock().remove(hash, key);
                None
            }
        }
    }

    /// Takes in what the first tier evicted.
    pub(super) fn take_in(&self, key: CacheKey, block: &Block) {
        let hash = key.hash();
        if !block.is_data()
            || self.forgotten.lock().known.contains(&key.file)
            || self.shard(hash).lock().is_back(hash, key)
        {
            return;
        }
        let pack = |scratch: &RefCell<Scratch>| {
            let mut scratch = scratch.try_borrow_mut().ok()?;
            let packed = pack(block.bytes(), &mut scratch)?;
            self.shard(hash).lock().insert(hash, key, packed);
            Some(())
        };
        // What cannot be packed is not kept.
        let _ = SCRATCH.try_with(pack);
    }

    /// May hold so many bytes from now on; what is too much goes at once.
    pub(super) fn set_capacity(&self, capacity_bytes: usize) {
        for shard in &self.shards {
            shard.lock().set_capacity(capacity_bytes / self.shards.len());
        }
    }

    /// Bytes of its chunks, and of what leads to the blocks in them.
    pub(super) fn usage(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().usage()).sum()
    }

    pub(super) fn stats(&self) -> CacheStats {
        let mut total = CacheStats::default();
        for shard in &self.shards {
            shard.lock().add_stats(&mut total);
        }
        total
    }

    /// The hash tables use the top 7 and the low bits of the hash.
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 36) as usize & (self.shards.len() - 1)]
    }
}

impl fmt::Debug for CompressedTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompressedTier")
            .field("usage", &self.usage())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// The compressed bytes of a block; `None` if that is hardly less.
fn pack<'a>(block: &[u8], scratch: &'a mut Scratch) -> Option<&'a [u8]> {
    if scratch.compressor.is_none() {
        scratch.compressor = Some(Compressor::new(CompressionType::Lz4, 0).ok()?);
    }
    let Scratch { compressor: Some(compressor), bytes } = scratch else { return None };
    bytes.clear();
    compressor.compress(block, bytes).ok()?;
    (bytes.len() <= block.len() / 8 * MOST_EIGHTHS).then_some(bytes)
}

/// The block that was packed.
fn unpack(packed: &[u8], pool: &BlockPool) -> Option<Block> {
    let len = decompressed_len(CompressionType::Lz4, packed, usize::MAX).ok()?;
    let mut bytes = pool.try_alloc(len).ok()?;
    decompress_into(CompressionType::Lz4, packed, &mut bytes).ok()?;
    Block::new(bytes, len).ok()
}

#[cfg(test)]
mod tests;
