//! Blocks that come and go between the tiers.

use super::shard::Shard;
use crate::sst::block::Block;
use crate::sst::block_cache::BlockCache;
use siltstone_base::block_pool::{BlockPool, PooledBuf};
use siltstone_base::cache::{CacheKey, CacheStats};
use siltstone_base::sync::Arc;

const BLOCK_BYTES: usize = 4096;

/// A block of as many random bytes as the codec cannot shrink, and zeros behind them.
fn block(pool: &BlockPool, number: u64, random_bytes: usize) -> Block {
    let mut bytes = pool.alloc(BLOCK_BYTES);
    bytes.fill(0);
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for byte in &mut bytes[..random_bytes] {
        *byte = next(&mut state) as u8;
    }
    // One restart point, at the first entry.
    bytes[BLOCK_BYTES - 4] = 1;
    Block::new(bytes, BLOCK_BYTES).expect("a block")
}

/// Xorshift64.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 16
}

/// Reads blocks of a file in uniformly random order through `cache`; how many came from the device after all had been asked for several times.
fn device_reads(cache: &BlockCache, blocks: u64) -> u64 {
    let pool = BlockPool::new(0);
    let file = cache.new_file_id();
    let (mut state, mut reads) = (42, 0);
    for access in 0..20 * blocks {
        let number = next(&mut state) % blocks;
        let offset = number * BLOCK_BYTES as u64;
        let found = cache.get(file, offset).or_else(|| cache.get_compressed(file, offset, &pool));
        let is_warm = access >= 10 * blocks;
        let found = found.unwrap_or_else(|| {
            reads += u64::from(is_warm);
            cache.insert(file, offset, Arc::new(block(&pool, number, BLOCK_BYTES / 2))).unwrap()
        });
        if access % 97 == 0 {
            assert_eq!(found.bytes(), block(&pool, number, BLOCK_BYTES / 2).bytes());
        }
    }
    reads
}

#[test]
fn a_working_set_of_one_and_a_half_budgets_is_read_from_memory_mostly() {
    let budget = 8 << 20;
    let blocks = (budget + budget / 2) / BLOCK_BYTES;
    let alone = device_reads(&BlockCache::new(budget), blocks as u64);
    let tiered = BlockCache::new(budget / 100 * 35).with_compressed_tier(budget / 100 * 65);
    let with_tier = device_reads(&tiered, blocks as u64);
    assert!(tiered.usage() + tiered.compressed_usage() <= budget, "both tiers keep to the budget");
    assert!(alone > blocks as u64 * 2, "the working set does not fit: {alone} reads");
    assert!(with_tier * 10 <= alone * 3, "{with_tier} reads of the device with a tier, {alone} without");
}

#[test]
fn nothing_is_lost_where_there_is_room_for_it_compressed() {
    let pool = BlockPool::new(0);
    let cache = BlockCache::new(64 << 10).with_compressed_tier(1 << 20);
    let file = cache.new_file_id();
    for round in 0..20_u64 {
        for number in 0..30 {
            let offset = number * BLOCK_BYTES as u64;
            if cache.get(file, offset).or_else(|| cache.get_compressed(file, offset, &pool)).is_none() {
                assert_eq!(round, 0, "block {number}");
                cache.insert(file, offset, Arc::new(block(&pool, number, 1024))).unwrap();
            }
        }
    }
    assert!(cache.compressed_stats().hits > 200, "{:?}", cache.compressed_stats());
}

#[test]
fn what_does_not_shrink_and_partitions_are_not_kept() {
    let pool = BlockPool::new(0);
    let cache = BlockCache::new(64 << 10).with_compressed_tier(1 << 20);
    let file = cache.new_file_id();
    for number in 0..40 {
        cache.insert(file, number * 4096, Arc::new(block(&pool, number, BLOCK_BYTES - 8))).unwrap();
    }
    for number in 40..80 {
        let filter = Block::of_filter(PooledBuf::unpooled(vec![0; 4096])).expect("a partition of a filter");
        cache.insert(file, number * 4096, Arc::new(filter)).unwrap();
    }
    assert!(cache.stats().evictions > 40, "{:?}", cache.stats());
    assert_eq!(cache.compressed_usage(), 0);
}

#[test]
fn a_cache_without_a_tier_has_none() {
    let cache = BlockCache::new(1 << 20).with_compressed_tier(0);
    assert_eq!((cache.compressed_capacity(), cache.compressed_usage()), (0, 0));
    cache.set_compressed_capacity(1 << 20);
    assert_eq!(cache.compressed_capacity(), 0);
    let cache = cache.with_compressed_tier(1 << 20);
    assert_eq!(cache.compressed_capacity(), 1 << 20);
    cache.set_compressed_capacity(1 << 18);
    assert_eq!(cache.compressed_capacity(), 1 << 18);
}

#[test]
fn blocks_of_deleted_files_take_nobodys_place() {
    let pool = BlockPool::new(0);
    let cache = BlockCache::new(64 << 10).with_compressed_tier(1 << 20);
    let (old, new) = (cache.new_file_id(), cache.new_file_id());
    let fill = |file: u64| {
        for number in 0..14 {
            cache.insert(file, number * BLOCK_BYTES as u64, Arc::new(block(&pool, number, 1024))).unwrap();
        }
    };
    fill(old);
    assert_eq!(cache.compressed_usage(), 0);
    cache.forget_file(old);
    fill(new);
    assert!(cache.stats().evictions >= 10, "{:?}", cache.stats());
    assert!((0..14).all(|number| cache.get_compressed(old, number * BLOCK_BYTES as u64, &pool).is_none()));
    cache.forget_file(new);
    // Only as many as are of use are remembered.
    (1000..40_000).for_each(|file| cache.forget_file(file));
}

#[test]
fn pools_know_which_of_their_buffers_are_in_a_cache() {
    let pool = BlockPool::new(0);
    let cache = BlockCache::new(64 << 10).with_compressed_tier(16 << 10);
    let file = cache.new_file_id();
    let held = cache.insert(file, 0, Arc::new(block(&pool, 0, 1024))).unwrap();
    assert_eq!((pool.in_use(), pool.cached()), (BLOCK_BYTES, BLOCK_BYTES));
    for number in 1..200 {
        cache.insert(file, number * BLOCK_BYTES as u64, Arc::new(block(&pool, number, 1024))).unwrap();
    }
    assert!(cache.get(file, 0).is_none() || pool.cached() == pool.in_use());
    // Whoever holds what had to go has the only buffer that is in no cache.
    let others = if cache.get(file, 0).is_none() { BLOCK_BYTES } else { 0 };
    assert_eq!(pool.in_use() - pool.cached(), others);
    drop(held);
    let refused = BlockCache::new(0);
    let other = BlockPool::new(0);
    let block = refused.insert(1, 0, Arc::new(block(&other, 0, 1024))).unwrap();
    assert_eq!((other.in_use(), other.cached()), (BLOCK_BYTES, 0));
    drop((block, cache));
    assert_eq!((pool.in_use(), pool.cached(), other.in_use()), (0, 0, 0));
}

/// Bytes that a block of `number` has in its `version`.
fn packed(number: u64, version: u64) -> Vec<u8> {
    let len = 1 + (number * 977 + version * 131) as usize % 3_000;
    (0..len).map(|at| (number * 7 + version * 13 + at as u64) as u8).collect()
}

#[test]
fn a_shard_gives_what_was_put_in_or_nothing_and_keeps_to_its_capacity() {
    for (seed, capacity) in [(1, 100 << 10), (2, 400 << 10), (3, 1 << 20), (4, 3 << 20)] {
        let mut shard = Shard::new(capacity, 0, 1);
        let (mut state, mut now, mut found, mut removed) = (seed, capacity, 0_u64, 0_u64);
        let mut newest = vec![0_u64; 600];
        for step in 0..60_000_u64 {
            let drawn = next(&mut state);
            let number = drawn % newest.len() as u64;
            let key = CacheKey { file: number % 3, offset: number };
            let version = &mut newest[number as usize];
            match drawn >> 20 & 63 {
                0 => {
                    *version = step;
                    removed += 1;
                    shard.remove(key.hash(), key);
                }
                1 => {
                    let _ = shard.is_back(key.hash(), key);
                }
                2 if step % 7 == 0 => {
                    now = capacity / 8 * (drawn >> 30 & 7) as usize;
                    shard.set_capacity(now);
                }
                3..24 => shard.insert(key.hash(), key, &packed(number, *version)),
                _ => {
                    if let Some((bytes, _)) = shard.get(key.hash(), key, <[u8]>::to_vec) {
                        assert!(bytes == packed(number, *version), "step {step} of seed {seed}");
                        found += 1;
                    }
                }
            }
            // The table may double between two chunks.
            assert!(shard.usage() <= now + (32 << 10), "{} of {now} in step {step} of seed {seed}", shard.usage());
        }
        let mut stats = CacheStats::default();
        shard.add_stats(&mut stats);
        assert!(found > 500 && removed > 500 && stats.evictions > 500, "{found} of {stats:?}");
        assert!(stats.inserts > stats.evictions && stats.hits == found, "{stats:?}");
        shard.set_capacity(0);
        assert_eq!(shard.usage(), 0);
    }
}

#[test]
fn what_is_asked_for_stays_while_what_nobody_asks_for_passes_by() {
    let mut shard = Shard::new(1 << 20, 0, 1);
    let key = |number| CacheKey { file: 1, offset: number };
    let ask = |shard: &mut Shard, number| {
        let key = key(number);
        let was_there = shard.get(key.hash(), key, |_| ()).is_some();
        if !was_there {
            shard.insert(key.hash(), key, &[number as u8; 1_000]);
        }
        was_there
    };
    let (mut found, mut scanned) = (0, 1_000);
    for round in 0..200 {
        // A fifth of the capacity is asked for again and again, beside a scan of everything.
        for hot in 0..200 {
            found += u32::from(ask(&mut shard, hot) && round >= 20);
            ask(&mut shard, scanned);
            scanned += 1;
        }
    }
    assert!(found >= 180 * 200 * 95 / 100, "{found} of {}", 180 * 200);
}

#[test]
fn blocks_larger_than_a_chunk_are_refused() {
    let mut shard = Shard::new(1 << 20, 0, 1);
    let key = CacheKey { file: 1, offset: 1 };
    shard.insert(key.hash(), key, &vec![1; 100 << 10]);
    assert!(shard.get(key.hash(), key, |_| ()).is_none());
    let mut stats = CacheStats::default();
    shard.add_stats(&mut stats);
    assert_eq!((stats.rejections, stats.inserts), (1, 0));
}

#[test]
fn blocks_larger_than_chunks_have_become_go_when_room_is_made() {
    let mut shard = Shard::new(64 << 20, 0, 1);
    let key = |number| CacheKey { file: 1, offset: number };
    for number in 0..400 {
        let key = key(number);
        shard.insert(key.hash(), key, &vec![number as u8; 100 << 10]);
        assert!(shard.get(key.hash(), key, |_| ()).is_some());
    }
    shard.set_capacity(1 << 20);
    assert!(shard.usage() <= 1 << 20, "{}", shard.usage());
    assert!(shard.chunks() <= 3, "{} chunks", shard.chunks());
    let small = key(1_000);
    shard.insert(small.hash(), small, &[1; 1_000]);
    assert!(shard.get(small.hash(), small, |_| ()).is_some());
}
