//! The cache of data blocks.

use super::block::Block;
use super::cache_kinds::{CachedKind, KindCounts, KindStats};
use super::compressed_tier::CompressedTier;
use super::leaving::Leaving;
use siltstone_base::block_pool::BlockPool;
use siltstone_base::cache::{Cache, CacheKey, CacheStats, Standing, VALUE_OVERHEAD};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Rank of the shares: shards are taken under it.
const RANK: Rank = Rank(948);

/// What others hold is taken from the tiers in steps of so many bytes.
const CHARGE_STEP: usize = 64 << 10;

/// What is taken from them at once, at most: a millisecond's work, more or less.
const LARGEST_RISE: usize = 1 << 20;

/// What may be held in all, and what others hold of it.
#[derive(Debug)]
struct Shares {
    /// Bytes for uncompressed blocks, and for compressed ones, while nobody else holds any.
    capacities: [usize; 2],
    /// Bytes that others hold. Below 0 for a moment, where threads tell of the same bytes in another order.
    charged: i64,
    /// Bytes of them that were taken from the tiers.
    taken: usize,
    /// What was left for uncompressed blocks, and for compressed ones, when that was last said.
    given: [usize; 2],
}

impl Shares {
    /// What is left for uncompressed blocks, and for compressed ones. The tier of compressed blocks gives first: what it gives is memory in large pieces, and what was in it is found on the device.
    fn left(&self) -> [usize; 2] {
        let [uncompressed, compressed] = self.capacities;
        let beyond = self.taken.saturating_sub(compressed);
        [uncompressed.saturating_sub(beyond), compressed.saturating_sub(self.taken)]
    }
}

/// A cache of uncompressed data blocks, charged in bytes. Several databases may share one.
///
/// Thread safety: every method may be called from any thread.
///
/// It may have a second tier of compressed blocks ([`with_compressed_tier`](Self::with_compressed_tier)): worth while where reads are direct, so that the operating
/// system keeps nothing, and data is larger than memory.
///
/// ```
/// use siltstone_lsm::BlockCache;
///
/// // One budget of 512 MiB: a third of it holds more than a third of it could hold uncompressed.
/// let cache = BlockCache::new(340 << 20).with_compressed_tier(172 << 20);
/// assert_eq!(cache.usage() + cache.compressed_usage(), 0);
/// ```
#[derive(Debug)]
pub struct BlockCache {
    blocks: Cache<Block>,
    tier: Option<CompressedTier>,
    shares: Mutex<Shares>,
    is_strict: bool,
    kinds: KindCounts,
    leaving: Leaving,
}

impl BlockCache {
    /// A cache of `capacity_bytes`.
    pub fn new(capacity_bytes: usize) -> Self {
        let capacities = [capacity_bytes, 0];
        let shares = Shares { capacities, charged: 0, taken: 0, given: capacities };
        Self {
            blocks: Cache::new(capacity_bytes).counting_structures(),
            tier: None,
            is_strict: false,
            shares: Mutex::new(RANK, shares),
            kinds: KindCounts::new(),
            leaving: Leaving::new(),
        }
    }

    /// The same with `capacity_bytes` more, for data blocks that had to go: they are kept compressed with LZ4, and come back without a read of the device. Blocks that do
    /// not shrink by an eighth are not kept.
    #[must_use]
    pub fn with_compressed_tier(mut self, capacity_bytes: usize) -> Self {
        self.tier = (capacity_bytes > 0).then(|| CompressedTier::new(capacity_bytes));
        let mut shares = self.shares.lock();
        (shares.capacities[1], shares.given[1]) = (capacity_bytes, capacity_bytes);
        drop(shares);
        self
    }

    /// The same, and if `strict`, never more than the capacity: a read that needs a block fails with `LimitExceeded` where blocks that readers hold leave no room for it, or where
    /// the block is larger than a part of the cache. RocksDB's name. Otherwise such a block is read all the same: it is charged beyond the capacity, or not cached.
    ///
    /// Each part of the cache, 512 KiB or more, keeps to its own share, so that a read may be refused a little before the whole is full. Reads that fill no cache, flushes and compactions
    /// are not refused.
    #[must_use]
    pub fn strict_capacity_limit(mut self, strict: bool) -> Self {
        self.blocks = self.blocks.strict_capacity(strict);
        self.is_strict = strict;
        self
    }

    /// Whether the capacity is never exceeded.
    pub fn has_strict_capacity_limit(&self) -> bool {
        self.is_strict
    }

    /// The bytes that the tier of compressed blocks may hold; 0 without one. It makes room for what is [charged](Self::charged).
    pub fn compressed_capacity(&self) -> usize {
        self.shares.lock().capacities[1]
    }

    /// Sets the bytes that the tier of compressed blocks may hold; a smaller number evicts at once. Does nothing without one.
    pub fn set_compressed_capacity(&self, capacity_bytes: usize) {
        if self.tier.is_some() {
            let mut shares = self.shares.lock();
            shares.capacities[1] = capacity_bytes;
            self.resize(&mut shares);
        }
    }

    /// Bytes that open and prepared transactions hold, and with [`charge_memtables_to_block_cache`](crate::DbOptions::charge_memtables_to_block_cache) memtables, and room for jobs; while they do, blocks have so much less room. No block is needed, so all of it can be theirs.
    pub fn charged(&self) -> usize {
        self.shares.lock().charged.max(0) as usize
    }

    /// Says that somebody holds `now` bytes rather than `before`. Room for much is made bit by bit: others want some, too, and wait for this meanwhile.
    pub(crate) fn charge(&self, before: usize, now: usize) {
        let mut reached = before;
        while now.saturating_sub(reached) > LARGEST_RISE {
            self.charge_at_once(reached, reached + LARGEST_RISE);
            reached += LARGEST_RISE;
        }
        self.charge_at_once(reached, now);
    }

    fn charge_at_once(&self, before: usize, now: usize) {
        let mut shares = self.shares.lock();
        shares.charged += now as i64 - before as i64;
        let charged = shares.charged.max(0) as usize;
        let taken = charged - charged % CHARGE_STEP;
        if taken != shares.taken {
            shares.taken = taken;
            self.resize(&mut shares);
        }
    }

    /// Tells the tiers what is left for them, if that changed.
    fn resize(&self, shares: &mut Shares) {
        let [uncompressed, compressed] = shares.left();
        if shares.given[0] != uncompressed {
            self.blocks.set_capacity(uncompressed);
        }
        if let Some(tier) = &self.tier
            && shares.given[1] != compressed
        {
            tier.set_capacity(compressed);
        }
        shares.given = [uncompressed, compressed];
    }

    /// The bytes that the tier of compressed blocks holds.
    pub fn compressed_usage(&self) -> usize {
        self.tier.as_ref().map_or(0, CompressedTier::usage)
    }

    /// What happened so far in the tier of compressed blocks: its lookups are the misses of data blocks in the first.
    pub fn compressed_stats(&self) -> CacheStats {
        self.tier.as_ref().map(CompressedTier::stats).unwrap_or_default()
    }

    /// The bytes of uncompressed blocks that the cache may hold. It makes room for what is [charged](Self::charged).
    pub fn capacity(&self) -> usize {
        self.shares.lock().capacities[0]
    }

    /// Sets the bytes that the cache may hold; a smaller number evicts at once, and what goes then is not kept compressed.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        let mut shares = self.shares.lock();
        shares.capacities[0] = capacity_bytes;
        self.resize(&mut shares);
    }

    /// The bytes that the cache holds.
    pub fn usage(&self) -> usize {
        self.blocks.usage()
    }

    /// The bytes of the blocks that readers hold at the moment. Costs a walk over the whole cache.
    pub fn pinned_usage(&self) -> usize {
        self.blocks.pinned_usage()
    }

    /// What happened so far.
    pub fn stats(&self) -> CacheStats {
        self.blocks.stats()
    }

    /// A number for the blocks of one open table.
    pub(crate) fn new_file_id(&self) -> u64 {
        self.blocks.new_file_id()
    }

    /// The block of `file` at `offset`, if it is here.
    #[inline]
    pub(crate) fn get(&self, file: u64, offset: u64) -> Option<Arc<Block>> {
        self.blocks.get(&CacheKey { file, offset })
    }

    /// The same for a partition of `kind`, which is counted.
    pub(crate) fn get_partition(&self, kind: CachedKind, file: u64, offset: u64) -> Option<Arc<Block>> {
        let found = self.get(file, offset);
        self.kinds.looked_up(kind, file, found.is_some());
        found
    }

    /// The block of `file` at `offset`, if it is here. Nothing is counted or used by it.
    pub(crate) fn peek(&self, file: u64, offset: u64) -> Option<Arc<Block>> {
        self.blocks.peek(&CacheKey { file, offset })
    }

    /// Whether the block of `file` at `offset` is in the tier of compressed blocks. Nothing is counted or used by it.
    pub(crate) fn has_compressed(&self, file: u64, offset: u64) -> bool {
        self.tier.as_ref().is_some_and(|tier| tier.contains(CacheKey { file, offset }))
    }

    /// Lets the blocks of `file` at `offsets` go, little by little: nobody will ask for them any more.
    pub(crate) fn leave(&self, file: u64, offsets: Vec<u64>) {
        self.leaving.add(file, offsets);
    }

    /// What happened so far with blocks of `kind`.
    pub(crate) fn kind_stats(&self, kind: CachedKind) -> KindStats {
        self.kinds.get(kind)
    }

    /// Counts hits on blocks of `file` that were found without a lookup.
    #[inline]
    pub(crate) fn add_hits(&self, file: u64, hits: u64) {
        self.blocks.add_hits(file, hits);
    }

    /// The block of `file` at `offset` from the tier of compressed blocks, in a buffer of `pool`.
    pub(crate) fn get_compressed(&self, file: u64, offset: u64, pool: &BlockPool) -> Option<Arc<Block>> {
        let (block, returns) = self.tier.as_ref()?.get(CacheKey { file, offset }, pool)?;
        let block = Arc::new(block);
        // What finds no room is read again, and refused then.
        if returns { self.insert(file, offset, block).ok() } else { Some(block) }
    }

    /// Puts a block in and returns what is resident in its place.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` if there is no room within a [strict capacity](Self::strict_capacity_limit).
    pub(crate) fn insert(&self, file: u64, offset: u64, block: Arc<Block>) -> Result<Arc<Block>> {
        self.insert_as(Standing::New, file, offset, block)
    }

    /// Puts a block in that stands in the place of one in use.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    pub(crate) fn insert_proven(&self, file: u64, offset: u64, block: Arc<Block>) -> Result<Arc<Block>> {
        self.insert_as(Standing::Proven, file, offset, block)
    }

    fn insert_as(&self, standing: Standing, file: u64, offset: u64, block: Arc<Block>) -> Result<Arc<Block>> {
        for key in self.leaving.take_some().into_iter().flatten() {
            if let Some(block) = self.blocks.remove(&key) {
                block.set_cached(false);
            }
        }
        let charge = block.memory_usage() + VALUE_OVERHEAD;
        let mut evicted = Vec::new();
        block.set_cached(true);
        let kind = block.cached_kind();
        let inserted = self.blocks.insert_evicting(CacheKey { file, offset }, block, charge, standing, &mut evicted);
        if inserted.is_ok() {
            self.kinds.inserted(kind, file, charge as u64);
        }
        let (Ok(resident) | Err(resident)) = &inserted;
        if Arc::strong_count(resident) == 1 {
            // It was refused, or had to go at once.
            resident.set_cached(false);
        }
        evicted.iter().for_each(|(_, block)| block.set_cached(false));
        if let Some(tier) = &self.tier {
            evicted.iter().for_each(|(key, block)| tier.take_in(*key, block));
        }
        match inserted {
            Err(_) if self.is_strict => Err(self.no_room(charge)),
            Ok(block) | Err(block) => Ok(block),
        }
    }

    #[cold]
    fn no_room(&self, charge: usize) -> Error {
        let (usage, capacity) = (self.usage(), self.capacity());
        let message = format!(
            "strict_capacity_limit: no room for {charge} bytes beside {usage} of {capacity} in the block cache"
        );
        Error::new(ErrorKind::LimitExceeded, message)
    }

    /// Says that nobody will ask for blocks of `file` any more.
    pub(crate) fn forget_file(&self, file: u64) {
        if let Some(tier) = &self.tier {
            tier.forget_file(file);
        }
    }
}
