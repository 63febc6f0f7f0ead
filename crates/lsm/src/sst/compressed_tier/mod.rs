//! The second tier of the block cache: data blocks that had to go, compressed.
//!
//! It takes the place of the operating system's page cache where reads are direct. A block comes in when the first tier evicts it, LZ4 whatever its table's codec is. Who
//! asks for it gets it unpacked; the second time it also goes back to the first tier and leaves this one. So hardly any block is in both, and what is asked for once in a while is
//! not compressed again each time. Blocks of files that were deleted stay out.

use super::block::Block;
use siltstone_base::block_pool::PooledBuf;
use siltstone_base::cache::{Cache, CacheKey, CacheStats, Cacheable, Uses, VALUE_OVERHEAD};
use siltstone_base::compression::{CompressionType, Compressor, decompress_into, decompressed_len};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};

/// Rank of the list of forgotten files: a table may be closed, and a block evicted, under any lock.
const RANK: Rank = Rank(985);

/// Forgotten files that are known.
const MOST_FORGOTTEN: usize = 16 << 10;

/// A block is kept if it shrinks to so many eighths at least.
const MOST_EIGHTHS: usize = 7;

thread_local! {
    /// The compressor of this thread, and where it writes.
    static COMPRESSOR: RefCell<Option<(Compressor, Vec<u8>)>> = const { RefCell::new(None) };
}

/// A data block, compressed.
#[derive(Debug)]
struct CompressedBlock {
    bytes: PooledBuf,
    /// Whether it was asked for since it came.
    was_asked: AtomicBool,
    uses: Uses,
}

impl Cacheable for CompressedBlock {
    fn uses(&self) -> &Uses {
        &self.uses
    }
}

/// Compressed blocks, charged in bytes.
#[derive(Debug)]
pub(super) struct CompressedTier {
    blocks: Cache<CompressedBlock>,
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
        Self {
            blocks: Cache::new(capacity_bytes).counting_structures(),
            forgotten: Mutex::new(RANK, ForgottenFiles::default()),
        }
    }

    /// Lets no block of `file` in any more.
    pub(super) fn forget_file(&self, file: u64) {
        self.forgotten.lock().add(file);
    }

    /// The block of `key`, unpacked, if it is here, and whether it left for the first tier.
    pub(super) fn get(&self, key: &CacheKey) -> Option<(Block, bool)> {
        let compressed = self.blocks.get(key)?;
        let Some(block) = unpack(&compressed.bytes) else {
            self.blocks.remove(key);
            return None;
        };
        let leaves = compressed.was_asked.swap(true, Ordering::Relaxed) && self.blocks.remove(key).is_some();
        Some((block, leaves))
    }

    /// Takes in what the first tier evicted.
    pub(super) fn take_in(&self, key: CacheKey, block: &Block) {
        if !block.is_data() || self.blocks.contains(&key) || self.forgotten.lock().known.contains(&key.file) {
            return;
        }
        if let Some(bytes) = pack(block) {
            let charge = bytes.capacity_charged() + size_of::<CompressedBlock>() + VALUE_OVERHEAD;
            bytes.set_cached(true);
            let compressed = CompressedBlock { bytes, was_asked: AtomicBool::new(false), uses: Uses::default() };
            self.blocks.insert(key, Arc::new(compressed), charge);
        }
    }

    pub(super) fn set_capacity(&self, capacity_bytes: usize) {
        self.blocks.set_capacity(capacity_bytes);
    }

    pub(super) fn usage(&self) -> usize {
        self.blocks.usage()
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.blocks.stats()
    }
}

/// The compressed bytes of a block; `None` if that is hardly less.
fn pack(block: &Block) -> Option<PooledBuf> {
    COMPRESSOR
        .try_with(|compressor| {
            let mut slot = compressor.try_borrow_mut().ok()?;
            if slot.is_none() {
                *slot = Some((Compressor::new(CompressionType::Lz4, 0).ok()?, Vec::new()));
            }
            let (compressor, out) = slot.as_mut()?;
            out.clear();
            compressor.compress(block.bytes(), out).ok()?;
            if out.len() > block.bytes().len() / 8 * MOST_EIGHTHS {
                return None;
            }
            let mut bytes = block.buffer_of(out.len())?;
            bytes.copy_from_slice(out);
            Some(bytes)
        })
        .ok()
        .flatten()
}

/// The block that was packed.
fn unpack(packed: &PooledBuf) -> Option<Block> {
    let len = decompressed_len(CompressionType::Lz4, packed, usize::MAX).ok()?;
    let mut bytes = packed.buffer_of(len).ok()?;
    decompress_into(CompressionType::Lz4, packed, &mut bytes).ok()?;
    Block::new(bytes, len).ok()
}

#[cfg(test)]
mod tests;
