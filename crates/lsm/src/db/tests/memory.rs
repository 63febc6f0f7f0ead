//! Limits of memory: what the cache may hold, and the memtables of all families together.

use super::basics::options;
use crate::{
    BlockCache, CollectedEntry, ColumnFamilyId, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Counter, Db,
    DbOptions, ErrorKind, FlushOptions, PinnedValue, ReadOptions, TableOptions, TablePropertiesCollector,
    TablePropertiesCollectorFactory, WriteOptions,
};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::sync::{Mutex, Rank};
use std::sync::Arc;

fn key(number: u32) -> String {
    format!("{number:06}")
}

/// Reads rows, each of a block of its own, and holds all of them.
fn hold(db: &Db, rows: u32, read: &ReadOptions) -> Result<Vec<PinnedValue>, ErrorKind> {
    let get = |number| db.get_cf(&db.default_family(), key(number), read);
    (0..rows).map(|number| get(number).map(Option::unwrap)).collect::<Result<_, _>>().map_err(|error| error.kind())
}

#[test]
fn readers_that_hold_all_of_a_strict_cache_are_refused_more_and_nobody_else_is() {
    const ROWS: u32 = 100;
    for is_strict in [true, false] {
        let disk = SimDisk::new();
        let cache = Arc::new(BlockCache::new(256 << 10).strict_capacity_limit(is_strict));
        assert_eq!(cache.has_strict_capacity_limit(), is_strict);
        let family = ColumnFamilyOptions::default()
            .compression(CompressionType::None)
            .table(TableOptions::default().block_size(8 << 10));
        let options = options(&disk).block_cache(Some(Arc::clone(&cache)));
        let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
        for number in 0..ROWS {
            db.put(key(number), vec![number as u8; 8 << 10]).unwrap();
        }
        db.flush(&FlushOptions::default()).unwrap();
        let read = ReadOptions::default();
        let held = hold(&db, 8, &read).unwrap();
        let all = hold(&db, ROWS, &read);
        assert_eq!(all.as_ref().err(), is_strict.then_some(&ErrorKind::LimitExceeded));
        drop(all);
        let last: Vec<_> = (0..ROWS).map(key).collect();
        let last: Vec<&[u8]> = last.iter().map(String::as_bytes).collect();
        let together = db.multi_get_cf(&db.default_family(), &last, &read);
        let refused = together.iter().filter(|found| found.is_err()).count();
        assert_eq!(refused > 0, is_strict, "{refused}");
        assert!(!is_strict || cache.usage() <= cache.capacity());
        // Who fills no cache is not refused, and neither is a compaction.
        assert_eq!(hold(&db, ROWS, &ReadOptions::default().fill_cache(false)).unwrap().len(), ROWS as usize);
        let all = CompactRangeOptions::default().force_bottommost(true);
        db.compact_range(&db.default_family(), None, None, &all).unwrap();
        drop((held, together));
        // What was held goes, and there is room again.
        for number in 0..ROWS {
            assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&vec![number as u8; 8 << 10][..]));
        }
    }
}

/// The bytes of all memtables, also of those that wait for their flush.
fn memtables(db: &Db) -> usize {
    db.memory_report().memtables as usize
}

#[test]
fn fifty_families_together_stay_within_one_limit() {
    const FAMILIES: usize = 50;
    const LIMIT: usize = 1 << 20;
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk).db_write_buffer_size(LIMIT)).unwrap();
    // Each alone might have 4 MiB.
    let family = ColumnFamilyOptions::default().write_buffer_size(4 << 20).memtable_bloom_bits_per_key(0);
    let families: Vec<_> =
        (0..FAMILIES).map(|number| db.create_family(&format!("family {number}"), &family).unwrap()).collect();
    let mut most = 0;
    for round in 0..12_000_u32 {
        // Some are written more than others.
        let family = &families[(round * round) as usize % FAMILIES];
        db.put_cf(family, key(round), vec![round as u8; 700], &WriteOptions::default()).unwrap();
        most = most.max(memtables(&db));
    }
    assert!(most <= LIMIT, "{most}");
    assert!(most > LIMIT / 2, "{most} of {LIMIT} were used");
    let flushes = db.metrics().get(Counter::Flushes);
    assert!((8..200).contains(&flushes), "{flushes} flushes of about 10 MB");
    for round in 0..12_000_u32 {
        let family = &families[(round * round) as usize % FAMILIES];
        assert!(db.get_cf(family, key(round), &ReadOptions::default()).unwrap().is_some());
    }
    db.close().unwrap();
    // What is replayed keeps to it as well.
    let named: Vec<_> = (0..FAMILIES).map(|number| (format!("family {number}"), family.clone())).collect();
    let named: Vec<_> = named.iter().map(|(name, options)| (name.as_str(), options.clone())).collect();
    let db = Db::open_families("/db", &options(&disk).db_write_buffer_size(LIMIT), &named).unwrap();
    assert!(memtables(&db) <= LIMIT);
}

#[test]
fn a_write_that_must_not_wait_is_refused_where_the_limit_is_used_up() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk).db_write_buffer_size(256 << 10)).unwrap();
    let impatient = WriteOptions::default().no_slowdown(true);
    let write = |number| db.put_cf(&db.default_family(), key(number), vec![7; 10_000], &impatient);
    // On one thread nothing is flushed unless somebody waits.
    let refused = (0..100).find_map(|number| write(number).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Incomplete);
    assert!(memtables(&db) <= 256 << 10);
    db.put(key(200), "patient").unwrap();
    write(201).unwrap();
}

#[test]
fn further_families_bring_no_memory_of_their_own_to_a_budget() {
    const BUDGET: usize = 8 << 20;
    let disk = SimDisk::new();
    let sim = options(&disk);
    let options = DbOptions::for_budget(BUDGET, 2).create_if_missing(true);
    assert_eq!(options.db_write_buffer_size, BUDGET / 4);
    let db = Db::open("/db", &options.env(sim.env.clone()).executor(sim.executor.clone())).unwrap();
    let family = ColumnFamilyOptions::for_budget(BUDGET);
    let families: Vec<_> =
        (0..20).map(|number| db.create_family(&format!("family {number}"), &family).unwrap()).collect();
    for round in 0..8_000_u32 {
        let family = &families[round as usize % families.len()];
        db.put_cf(family, key(round), vec![round as u8; 1000], &WriteOptions::default()).unwrap();
        if round % 16 == 0 {
            assert!(memtables(&db) <= BUDGET / 4, "{}", db.memory_report());
        }
    }
    assert!(db.memory_report().total() as usize <= BUDGET, "{}", db.memory_report());
}

/// What is looked at, and what was seen.
type Look = (Option<Box<dyn Fn() -> u64 + Send>>, Vec<u64>);

/// Looks for each entry that goes into a table.
#[derive(Clone)]
struct Watch(Arc<Mutex<Look>>);

impl Watch {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Rank(1), (None, Vec::new()))))
    }

    /// Families whose tables it watches.
    fn families(&self) -> ColumnFamilyOptions {
        ColumnFamilyOptions::default()
            .compression(CompressionType::None)
            .table(TableOptions::default().bloom_bits_per_key(10.0))
            .table_properties_collectors(vec![Arc::new(self.clone())])
    }

    fn look_at(&self, look: impl Fn() -> u64 + Send + 'static) {
        self.0.lock().0 = Some(Box::new(look));
    }

    /// What was seen since it was last asked.
    fn seen(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().1)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl TablePropertiesCollectorFactory for Watch {
    fn name(&self) -> &str {
        "watch"
    }

    fn collector(&self, _: ColumnFamilyId) -> Box<dyn TablePropertiesCollector> {
        Box::new(self.clone())
    }
}

impl TablePropertiesCollector for Watch {
    fn add(&mut self, _: &CollectedEntry<'_>) {
        let (look, seen) = &mut *self.0.lock();
        seen.extend(look.as_ref().map(|look| look()));
    }

    fn finish(self: Box<Self>) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}

#[test]
fn what_jobs_gather_is_in_the_report_until_the_table_is_there() {
    const ROWS: u32 = 5_000;
    let disk = SimDisk::new();
    let watch = Watch::new();
    let db = Db::open_families("/db", &options(&disk), &[("default", watch.families())]).unwrap();
    for number in 0..ROWS {
        db.put(key(number), vec![number as u8; 100]).unwrap();
    }
    let looked_at = db.clone();
    watch.look_at(move || looked_at.memory_report().jobs);
    let all = CompactRangeOptions::default().force_bottommost(true);
    let flush = || db.flush(&FlushOptions::default()).unwrap();
    let compact = || db.compact_range(&db.default_family(), None, None, &all).unwrap();
    for build in [&flush as &dyn Fn(), &compact] {
        build();
        let seen = watch.seen();
        assert_eq!(seen.len(), ROWS as usize);
        // The bytes of the table, eight for the hash of each key, and the index.
        let (most, written) = (*seen.iter().max().unwrap(), u64::from(ROWS) * 110);
        assert!((written..2 * written).contains(&most), "{most} bytes");
        assert_eq!(db.memory_report().jobs, 0);
    }
    watch.0.lock().0 = None;
}

#[test]
fn the_cache_gives_room_to_memtables_and_has_it_again_once_they_are_flushed() {
    const BUDGET: usize = 16 << 20;
    const ROWS: u32 = 20_000;
    let disk = SimDisk::new();
    let sim = options(&disk);
    let options = DbOptions::for_budget(BUDGET, 2).create_if_missing(true);
    let cache = Arc::clone(options.block_cache.as_ref().unwrap());
    let all = cache.capacity() + cache.compressed_capacity();
    assert!(all >= BUDGET / 8 * 7 - 8, "{all}");
    let db = Db::open("/db", &options.env(sim.env.clone()).executor(sim.executor.clone())).unwrap();
    let read = |rows| (0..rows).for_each(|number| assert!(db.get(key(number)).unwrap().is_some()));
    // More than both tiers hold, of which a third does not shrink.
    let value = |number: u32| -> Vec<u8> {
        let mut state = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..1_500).map(|at| if at % 3 == 0 { next() } else { 0 }).collect()
    };
    let mut most = 0;
    for number in 0..ROWS {
        db.put(key(number), value(number)).unwrap();
        if number % 64 == 0 {
            most = most.max(cache.charged());
            let report = db.memory_report();
            assert!(cache.charged() as u64 >= report.memtables / 2 + report.held_memtables, "{report}");
            assert!(cache.usage() + cache.compressed_usage() + cache.charged() <= all + (64 << 10), "{report}");
        }
    }
    assert!(most > BUDGET / 8, "{most} bytes of memtables");
    read(ROWS);
    db.flush(&FlushOptions::default()).unwrap();
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    assert!(cache.charged() < most / 8, "{}", cache.charged());
    read(ROWS);
    let (used, capacity) = (cache.compressed_usage(), cache.compressed_capacity());
    assert!(used >= capacity / 10 * 9 && most > capacity / 5, "{used} of {capacity}, of which memtables had {most}");
    db.close().unwrap();
    assert_eq!(cache.charged(), 0, "nothing is left of a database that is gone");
}

#[test]
fn while_jobs_work_the_cache_has_made_room_for_them_beside_memtables() {
    const LIMIT: u64 = 2 << 20;
    const ROWS: u32 = 5_000;
    let disk = SimDisk::new();
    let watch = Watch::new();
    let cache = Arc::new(BlockCache::new(4 << 20).with_compressed_tier(12 << 20));
    let options = options(&disk).block_cache(Some(Arc::clone(&cache)));
    let options = options.charge_memtables_to_block_cache(true).db_write_buffer_size(LIMIT as usize);
    let db = Db::open_families("/db", &options, &[("default", watch.families())]).unwrap();
    let (looked_at, charged) = (db.clone(), Arc::clone(&cache));
    watch.look_at(move || {
        let report = looked_at.memory_report();
        (charged.charged() as u64).saturating_sub(report.memtables + report.held_memtables)
    });
    for number in 0..ROWS {
        db.put(key(number), vec![number as u8; 100]).unwrap();
    }
    let memtables = cache.charged() as u64;
    assert!(memtables < LIMIT, "{memtables}");
    db.flush(&FlushOptions::default()).unwrap();
    let all = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &all).unwrap();
    let seen = watch.seen();
    assert_eq!(seen.len(), 2 * ROWS as usize);
    assert!(seen.iter().all(|room| *room >= LIMIT / 2), "{}", seen.iter().min().unwrap());
    assert!((cache.charged() as u64) < LIMIT / 16, "{} once nobody works", cache.charged());
    watch.0.lock().0 = None;
}

#[test]
fn a_memtable_that_a_value_keeps_is_in_the_report_until_the_value_goes() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    for number in 0..1_000 {
        db.put(key(number), vec![7; 1_000]).unwrap();
    }
    let report = db.memory_report();
    assert_eq!(report.held_memtables, 0, "{report}");
    let value = db.get(key(5)).unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    let held = db.memory_report();
    assert!(held.held_memtables > 1_000_000 && held.memtables < 100_000, "{held}");
    drop(value);
    assert_eq!(db.memory_report().held_memtables, 0);
}
