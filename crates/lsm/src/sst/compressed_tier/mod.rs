//! The second tier of the block cache: data blocks that had to go, compressed.
//!
//! It takes the place of the operating system's page cache where reads are direct. A block comes in when the first tier evicts it, LZ4 whatever its table's codec is. Who
//! asks for it gets it unpacked; the second time it also goes back to the first tier and leaves this one. So no block is in both, and what is asked for once in a while is
//! not compressed again each time.

use super::block::Block;
use siltstone_base::block_pool::PooledBuf;
use siltstone_base::cache::{Cache, CacheKey, CacheStats, Cacheable, ENTRY_OVERHEAD, Uses};
use siltstone_base::compression::{CompressionType, Compressor, decompress_into, decompressed_len};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use std::cell::RefCell;

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
pub(super) struct CompressedTier(Cache<CompressedBlock>);

impl CompressedTier {
    pub(super) fn new(capacity_bytes: usize) -> Self {
        Self(Cache::new(capacity_bytes))
    }

    /// The block of `key`, unpacked, if it is here, and whether it left for the first tier.
    pub(super) fn get(&self, key: &CacheKey) -> Option<(Block, bool)> {
        let compressed = self.0.get(key)?;
        let Some(block) = unpack(&compressed.bytes) else {
            self.0.remove(key);
            return None;
        };
        let leaves = compressed.was_asked.swap(true, Ordering::Relaxed) && self.0.remove(key).is_some();
        Some((block, leaves))
    }

    /// Takes in what the first tier evicted.
    pub(super) fn take_in(&self, key: CacheKey, block: &Block) {
        if !block.is_data() || self.0.contains(&key) {
            return;
        }
        if let Some(bytes) = pack(block) {
            let charge = bytes.capacity_charged() + size_of::<CompressedBlock>() + ENTRY_OVERHEAD;
            let compressed = CompressedBlock { bytes, was_asked: AtomicBool::new(false), uses: Uses::default() };
            self.0.insert(key, Arc::new(compressed), charge);
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(super) fn set_capacity(&self, capacity_bytes: usize) {
        self.0.set_capacity(capacity_bytes);
    }

    pub(super) fn usage(&self) -> usize {
        self.0.usage()
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.0.stats()
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
