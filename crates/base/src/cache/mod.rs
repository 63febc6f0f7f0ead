//! The block cache: charged in bytes, split into shards, read-mostly.
//!
//! A hit takes its shard's lock in shared mode, clones one `Arc` and stores one byte; nothing is moved. A caller that kept
//! a `Weak` of a value has a hit without any lookup: it upgrades it and says so by [`Uses::add`], for what was used is
//! noted in the value. Recency is decided when something must go, by the S3-FIFO policy (Yang et al., "FIFO queues are all you need for cache eviction", SOSP
//! 2023): new entries pass a small probationary queue, so that a scan cannot displace what is used.
//!
//! An entry that anybody outside holds is *pinned*: it is never evicted, because that would free nothing, and
//! it stays charged.

mod ghost;
mod shard;
mod uses;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, CachePadded};
use shard::Shard;
pub use shard::Standing;
use std::fmt;

pub use ghost::Ghost;
pub use uses::{Cacheable, Counted, Uses};

/// What a shared value takes beside itself, in bytes: its two counts, and the allocator's part of its allocation. For callers that charge it.
pub const VALUE_OVERHEAD: usize = 32;

/// A cache is not cut into shards smaller than this, in bytes, unless it is asked to.
const MIN_SHARD_BYTES: usize = 512 << 10;

const DEFAULT_SHARD_BITS: u32 = 6;

/// The largest number of shard bits.
const MAX_SHARD_BITS: u32 = 16;

/// What identifies a cached block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey {
    /// The file, by a number from [`Cache::new_file_id`].
    pub file: u64,
    /// Where the block begins in it.
    pub offset: u64,
}

impl CacheKey {
    /// A multiply-fold of both halves: its high bits, low bits and middle are equally good.
    #[inline]
    pub fn hash(self) -> u64 {
        let product = u128::from(self.file ^ 0x9e37_79b1_85eb_ca87) * u128::from(self.offset ^ 0xc2b2_ae3d_27d4_eb4f);
        let folded = product as u64 ^ (product >> 64) as u64;
        folded.wrapping_mul(0x1656_67b1_9e37_79f9) ^ (folded >> 29)
    }
}

/// What a cache did since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Lookups that found their block.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Blocks that were put in.
    pub inserts: u64,
    /// Blocks that had to go for others.
    pub evictions: u64,
    /// Blocks that were refused: larger than a shard, or over a strict capacity.
    pub rejections: u64,
}

/// A sharded cache of shared values.
///
/// Thread safety: every method may be called from any thread.
pub struct Cache<V> {
    shards: Box<[CachePadded<Shard<V>>]>,
    shard_bits: u32,
    next_file: AtomicU64,
}

impl<V: Cacheable> Cache<V> {
    /// A cache of `capacity` bytes in 64 shards, or in fewer if a shard would be smaller than 512 KiB.
    pub fn new(capacity: usize) -> Self {
        let wanted = (capacity / MIN_SHARD_BYTES).max(1).ilog2();
        Self::with_shard_bits(capacity, wanted.min(DEFAULT_SHARD_BITS))
    }

    /// A cache of `capacity` bytes in 2^`shard_bits` shards (at most 2^16).
    pub fn with_shard_bits(capacity: usize, shard_bits: u32) -> Self {
        let shard_bits = shard_bits.min(MAX_SHARD_BITS);
        let shards = (0..1_usize << shard_bits).map(|_| CachePadded::new(Shard::new(capacity >> shard_bits))).collect();
        Self { shards, shard_bits, next_file: AtomicU64::new(1) }
    }

    /// The same with a strict capacity if `strict`: a block is refused where pinned ones alone leave no room for it.
    #[must_use]
    pub fn strict_capacity(mut self, strict: bool) -> Self {
        for shard in &mut self.shards {
            shard.set_strict(strict);
        }
        self
    }

    /// The same, whose own structures count as used from the capacity: the hash tables, the queues and what is remembered of entries that went. RocksDB's `kFullChargeCacheMetadata`.
    #[must_use]
    pub fn counting_structures(mut self) -> Self {
        for shard in &mut self.shards {
            shard.set_counts_structures(true);
        }
        self
    }

    /// A number that no other file of this cache has.
    pub fn new_file_id(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// The value of `key`, if it is here.
    #[inline]
    pub fn get(&self, key: &CacheKey) -> Option<Arc<V>> {
        let hash = key.hash();
        self.shard(hash).get(hash, key)
    }

    /// Counts `hits` on blocks of `file` that were found without a lookup.
    #[inline]
    pub fn add_hits(&self, file: u64, hits: u64) {
        self.shards[file as usize & (self.shards.len() - 1)].add_hits(hits);
    }

    /// Takes the value of `key` out, if it is here.
    pub fn remove(&self, key: &CacheKey) -> Option<Arc<V>> {
        let hash = key.hash();
        self.shard(hash).remove(hash, key)
    }

    /// The value of `key`, if it is here, without counting or touching it.
    pub fn peek(&self, key: &CacheKey) -> Option<Arc<V>> {
        let hash = key.hash();
        self.shard(hash).peek(hash, key)
    }

    /// Whether `key` is here, without counting or touching it.
    pub fn contains(&self, key: &CacheKey) -> bool {
        let hash = key.hash();
        self.shard(hash).contains(hash, key)
    }

    /// Puts `value` in for `charge` bytes and returns what is resident under `key` now: `value`, or what another thread
    /// put there first. A block that is refused is returned all the same, unshared.
    pub fn insert(&self, key: CacheKey, value: Arc<V>, charge: usize) -> Arc<V> {
        self.insert_evicting(key, value, charge, Standing::New, &mut Vec::new()).unwrap_or_else(|refused| refused)
    }

    /// The same for a block of which so much is known; adds to `evicted` what had to go for it. A block that is refused is the error.
    pub fn insert_evicting(
        &self,
        key: CacheKey,
        value: Arc<V>,
        charge: usize,
        standing: Standing,
        evicted: &mut Vec<(CacheKey, Arc<V>)>,
    ) -> Result<Arc<V>, Arc<V>> {
        let hash = key.hash();
        self.shard(hash).insert(hash, key, value, charge, standing, evicted)
    }

    /// The same for a block that is unlikely to be read again, as a long scan's: it is the first to go.
    pub fn insert_low_priority(&self, key: CacheKey, value: Arc<V>, charge: usize) -> Arc<V> {
        self.insert_evicting(key, value, charge, Standing::Passing, &mut Vec::new()).unwrap_or_else(|refused| refused)
    }

    /// Forgets all blocks of `file`. Costs a walk over the whole cache; several files share one in
    /// [`erase_files`](Self::erase_files).
    pub fn erase_file(&self, file: u64) {
        self.erase_files(&[file]);
    }

    /// Forgets all blocks of `files`.
    pub fn erase_files(&self, files: &[u64]) {
        for shard in &self.shards {
            shard.erase_files(files);
        }
    }

    /// The bytes charged, and those of the cache's own structures if they [count](Self::counting_structures).
    pub fn usage(&self) -> usize {
        self.shards.iter().map(|shard| shard.usage()).sum()
    }

    /// The bytes charged for entries that somebody outside holds. Costs a walk over the whole cache.
    pub fn pinned_usage(&self) -> usize {
        self.shards.iter().map(|shard| shard.pinned_usage()).sum()
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.shards.iter().map(|shard| shard.entries()).sum()
    }

    /// The capacity in bytes, as far as it divides into shards.
    pub fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| shard.capacity()).sum()
    }

    /// Sets the capacity in bytes; a smaller one evicts at once. The number of shards stays.
    pub fn set_capacity(&self, capacity: usize) {
        for shard in &self.shards {
            shard.set_capacity(capacity >> self.shard_bits);
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> CacheStats {
        let mut total = CacheStats::default();
        for shard in &self.shards {
            shard.add_stats(&mut total);
        }
        total
    }

    /// The hash table of a shard uses the top 7 and the low bits of the hash; the shard is chosen by others.
    #[inline]
    fn shard(&self, hash: u64) -> &Shard<V> {
        let index = (hash >> 36) as usize & (self.shards.len() - 1);
        &self.shards[index]
    }
}

impl<V: Cacheable> fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("capacity", &self.capacity())
            .field("usage", &self.usage())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
