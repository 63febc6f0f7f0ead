//! Reads through the tier of compressed blocks.

use super::basics::options;
use crate::{BlockCache, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions, ReadOptions};
use siltstone_base::env::sim::SimDisk;
use std::sync::Arc;

const ROWS: u64 = 4_000;

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn value(number: u64, version: u8) -> Vec<u8> {
    let mut value = vec![version; 200];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

#[test]
fn rows_that_left_the_cache_come_back_from_memory_and_are_the_newest() {
    for codec in [CompressionType::None, CompressionType::Lz4, CompressionType::Zstd] {
        come_back_from_memory(codec);
    }
}

/// Blocks that neither tier had.
fn device_reads(cache: &BlockCache) -> u64 {
    cache.stats().misses - cache.compressed_stats().hits
}

fn come_back_from_memory(codec: CompressionType) {
    let disk = SimDisk::new();
    // About 900 KB of blocks.
    let cache = Arc::new(BlockCache::new(256 << 10).with_compressed_tier(512 << 10));
    let family = ColumnFamilyOptions::default().compression(codec);
    let options = options(&disk).block_cache(Some(Arc::clone(&cache))).unnamed_families(family);
    let db = Db::open("/db", &options).unwrap();
    for version in 1..=3 {
        for number in 0..ROWS {
            db.put(key(number), value(number, version)).unwrap();
        }
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        for round in 0..4 {
            let misses = device_reads(&cache);
            for step in 0..ROWS {
                let number = step * 1_237 % ROWS;
                assert_eq!(db.get(key(number)).unwrap().map(|found| found.to_vec()), Some(value(number, version)));
            }
            let misses = device_reads(&cache) - misses;
            assert!(round < 2 || misses < 20, "round {round} of version {version}: {misses} blocks were read");
        }
    }
    assert!(cache.compressed_stats().hits > 0);
    let usage: usize = db.property("siltstone.compressed-block-cache-usage").unwrap().parse().unwrap();
    assert_eq!(usage, cache.compressed_usage());
    assert!(usage > 0);
}

#[test]
fn walks_that_fill_no_cache_leave_both_tiers_as_they_are() {
    let disk = SimDisk::new();
    let cache = Arc::new(BlockCache::new(256 << 10).with_compressed_tier(512 << 10));
    let db = Db::open("/db", &options(&disk).block_cache(Some(Arc::clone(&cache)))).unwrap();
    for number in 0..ROWS {
        db.put(key(number), value(number, 1)).unwrap();
    }
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    for number in 0..ROWS {
        assert!(db.get(key(number)).unwrap().is_some());
    }
    let before = (cache.usage(), cache.compressed_usage(), cache.stats().inserts, cache.compressed_stats());
    for _ in 0..2 {
        let mut rows = 0;
        let mut iter = db.iter(&ReadOptions::default().fill_cache(false)).unwrap();
        iter.seek_to_first();
        while iter.valid() {
            assert_eq!((iter.key(), iter.value()), (&*key(rows), &*value(rows, 1)));
            rows += 1;
            iter.next();
        }
        iter.status().unwrap();
        assert_eq!(rows, ROWS);
    }
    let after = (cache.usage(), cache.compressed_usage(), cache.stats().inserts, cache.compressed_stats());
    assert_eq!(before, after);
}

#[test]
fn the_report_of_holders_knows_all_that_was_put_in() {
    let disk = SimDisk::new();
    let budget = 8 << 20;
    let options = DbOptions::for_budget(budget, 2).create_if_missing(true);
    let sim = self::options(&disk);
    let db = Db::open("/db", &options.env(sim.env.clone()).executor(sim.executor.clone())).unwrap();
    let total = |db: &Db| db.memory_report().total() as usize;
    let empty = total(&db);
    assert!(empty < 64 << 10, "{empty}");
    for round in 0..6 {
        for number in 0..ROWS {
            db.put(key(number * 6 + round), value(number, 1)).unwrap();
            if number % 500 == 0 {
                assert!(total(&db) <= budget, "{}", db.memory_report());
            }
        }
    }
    let report = db.memory_report();
    assert!(report.memtables > 0, "{report}");
    for number in 0..6 * ROWS {
        assert!(db.get(key(number)).unwrap().is_some());
    }
    let report = db.memory_report();
    assert!(report.cached_blocks > 500_000 && report.compressed_blocks > 100_000, "{report}");
    assert!(report.open_tables > 0, "{report}");
    assert_eq!(report.total(), report.holders().iter().map(|(_, bytes)| bytes).sum::<u64>());
    assert!(report.total() as usize <= budget, "{report}");
    let text = report.to_string();
    assert!(text.contains("compressed blocks") && text.contains("total"), "{text}");
}

/// Less than half of it random, the rest zeros: with their keys, rows shrink to a half.
fn half_random(number: u64) -> Vec<u8> {
    let mut value = vec![0; 200];
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for byte in &mut value[..92] {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = (state >> 16) as u8;
    }
    value
}

/// Reads rows of all blocks in random order in a new opening of the directory; how many blocks came from the device once all had been asked for.
fn device_reads_of(options: &DbOptions, rows: u64) -> u64 {
    let cache = Arc::clone(options.block_cache.as_ref().unwrap());
    let db = Db::open("/db", &options.clone().use_direct_reads(true)).unwrap();
    let (gets, mut state, mut before) = (rows, 42_u64, 0);
    for get in 0..2 * gets {
        if get == gets {
            before = device_reads(&cache);
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = (state >> 33) % rows;
        let found = db.get(key(number)).unwrap();
        assert!(get % 50 != 0 || found.as_deref() == Some(&*half_random(number)));
    }
    device_reads(&cache) - before
}

/// Writes so many bytes of rows to tables with `codec`; how many rows, and how many bytes of tables.
fn write_half_random(options: &DbOptions, bytes: u64, codec: CompressionType) -> (u64, u64) {
    let rows = bytes / 208;
    let family = options.unnamed_families.clone().compression(codec);
    let db = Db::open("/db", &options.clone().unnamed_families(family)).unwrap();
    for number in 0..rows {
        db.put(key(number), half_random(number)).unwrap();
    }
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    let size = db.property("rocksdb.live-sst-files-size").unwrap().parse().unwrap();
    db.close().unwrap();
    (rows, size)
}

#[test]
fn the_tier_spares_most_reads_of_a_working_set_of_one_and_a_half_budgets() {
    let disk = SimDisk::new();
    let budget = 2 << 20;
    let with = |cache| options(&disk).block_cache(Some(Arc::new(cache)));
    let (rows, size) = write_half_random(&options(&disk), budget as u64 * 3 / 2, CompressionType::None);
    assert!((budget as u64 * 3 / 2..budget as u64 * 8 / 5).contains(&size), "{size} bytes of tables");
    let alone = device_reads_of(&with(BlockCache::new(budget)), rows);
    let compressed = budget / 100 * 75;
    let with_tier = device_reads_of(&with(BlockCache::new(budget - compressed).with_compressed_tier(compressed)), rows);
    assert!(alone > rows / 5, "the working set does not fit: {alone} reads");
    assert!(with_tier * 10 <= alone * 3, "{with_tier} reads of the device with a tier, {alone} without");
}

/// One number chooses all sizes; the working set is one and a half times that number, and not what is left of it for a cache.
#[test]
fn a_budget_spares_seven_of_ten_reads_of_a_working_set_of_one_and_a_half_times_it() {
    const BUDGET: usize = 8 << 20;
    let with_budget = |disk: &SimDisk| {
        let (sim, options) = (options(disk), DbOptions::for_budget(BUDGET, 2).create_if_missing(true));
        options.env(sim.env.clone()).executor(sim.executor.clone())
    };
    let (_, shrunk) = write_half_random(&with_budget(&SimDisk::new()), BUDGET as u64 * 3 / 2, CompressionType::Lz4);
    let disk = SimDisk::new();
    let (rows, size) = write_half_random(&with_budget(&disk), BUDGET as u64 * 3 / 2, CompressionType::None);
    assert!((BUDGET as u64 * 3 / 2..BUDGET as u64 * 8 / 5).contains(&size), "{size} bytes of tables");
    let percent = shrunk * 100 / size;
    assert!((48..=54).contains(&percent), "data shrinks to {percent} %");
    let budget = with_budget(&disk);
    let cache = budget.block_cache.clone().unwrap();
    let alone = BlockCache::new(cache.capacity() + cache.compressed_capacity());
    let alone = device_reads_of(&with_budget(&disk).block_cache(Some(Arc::new(alone))), rows);
    let with_tier = device_reads_of(&budget, rows);
    assert!(alone > rows / 5, "the working set does not fit: {alone} reads");
    println!("{with_tier} reads of the device with a tier, {alone} without; data shrinks to {percent} %");
    assert!(with_tier * 10 <= alone * 3, "{with_tier} reads of the device with a tier, {alone} without");
}

#[test]
fn blocks_of_another_database_in_a_shared_cache_hide_nothing_from_the_report() {
    let (disk, cache) = (SimDisk::new(), Arc::new(BlockCache::new(4 << 20)));
    let open = |dir: &str| Db::open(dir, &options(&disk).block_cache(Some(Arc::clone(&cache)))).unwrap();
    let (full, other) = (open("/full"), open("/other"));
    for db in [&full, &other] {
        for number in 0..ROWS {
            db.put(key(number), value(number, 1)).unwrap();
        }
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    }
    for number in 0..ROWS {
        full.get(key(number)).unwrap();
    }
    let reports = [full.memory_report(), other.memory_report()];
    assert!(reports[0].cached_blocks > 500_000, "{}", reports[0]);
    assert_eq!(reports[0].cached_blocks, reports[1].cached_blocks, "there is one cache");
    let mut iter = other.iter(&ReadOptions::default().fill_cache(false)).unwrap();
    iter.seek_to_first();
    assert!(iter.valid());
    let held = other.memory_report().buffers - reports[1].buffers;
    assert!((1000..100_000).contains(&held), "a block: {held} bytes");
}
