//! Where the time of an operation goes: by a clock that ticks when it is looked at, so that what is measured is more than nothing, and what is not is nothing.

use super::basics::options;
use crate::metrics::{Counter, Metrics, PerfLevel, PerfTime, times};
use crate::{
    AppendOperator, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, FlushOptions, IndexType,
    ReadOptions, TableOptions, WriteOptions,
};
use siltstone_base::clock::Clock;
use siltstone_base::env::sim::SimDisk;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A microsecond passes with every look.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now_micros(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        1_700_000_000
    }

    fn sleep(&self, _: Duration) {}
}

fn flush(db: &Db) {
    db.flush(&FlushOptions::default()).unwrap();
}

fn get(db: &Db, key: &str) {
    assert!(db.get(key).unwrap().is_some());
}

fn walk(db: &Db) {
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek(b"a");
    iter.next();
    assert!(iter.valid());
}

/// What of an operation is timed: names of places; and how often it read a block.
fn places_of(db: &Db, operation: impl FnOnce(&Db)) -> (BTreeSet<&'static str>, u64) {
    let perf = db.metrics().perf_context_at(PerfLevel::EnableTime).expect("a slot of its own");
    operation(db);
    let times = perf.times();
    let places = times.iter().filter(|(_, nanos)| *nanos > 0).map(|(what, _)| what.name()).collect();
    (places, perf.counters().get(Counter::BlocksRead))
}

/// Runs `test` on a thread that has counters of its own. Threads of other tests that keep this one from them end: then they are free.
fn alone(test: impl Fn() + Send + Sync) {
    let metrics = Metrics::new();
    let try_once = || {
        let has_slot = metrics.perf_context().is_some();
        if has_slot {
            test();
        }
        has_slot
    };
    let mut tries = (0..100_000).map(|_| std::thread::scope(|scope| scope.spawn(try_once).join().unwrap()));
    assert!(tries.any(|has_slot| has_slot), "slots are given back");
}

/// The same, timed by a clock that ticks.
fn ticking(test: impl Fn() + Send + Sync) {
    alone(|| {
        let clock: Arc<dyn Clock> = Arc::new(Ticking::default());
        times::start(&clock);
        test();
        times::stop();
    });
}

#[track_caller]
fn expect(found: (BTreeSet<&'static str>, u64), places: &str, blocks: u64) {
    assert_eq!(found, (places.split_whitespace().collect(), blocks));
}

fn family() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().compression(CompressionType::None).disable_auto_compactions(true)
}

fn open(disk: &SimDisk, family: ColumnFamilyOptions) -> Db {
    Db::open_families("/db", &options(disk), &[("default", family)]).unwrap()
}

const READ: &str = "get_from_memtable_time get_from_output_files_time block_read_time block_checksum_time";

#[test]
fn a_get_tells_whether_memory_the_cache_or_the_disk_took_its_time() {
    ticking(|| {
        let disk = SimDisk::new();
        let db = open(&disk, family());
        db.put("a", "1").unwrap();
        expect(places_of(&db, |db| get(db, "a")), "get_from_memtable_time", 0);
        flush(&db);
        expect(places_of(&db, |db| get(db, "a")), READ, 1);
        let warm = "get_from_memtable_time get_from_output_files_time";
        expect(places_of(&db, |db| get(db, "a")), warm, 0);
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default().force_bottommost(true))
            .unwrap();
        // Its block was cached, and the new one is.
        expect(places_of(&db, |db| get(db, "a")), warm, 0);
    });
}

#[test]
fn decompression_opening_and_partitions_are_told_apart_from_reading() {
    ticking(|| {
        let disk = SimDisk::new();
        let table = TableOptions::default().index_type(IndexType::TwoLevel).partition_filters(true);
        let table = table.bloom_bits_per_key(10.0);
        let packed = || family().compression(CompressionType::Lz4).table(table.clone());
        let db = open(&disk, packed());
        db.put("a", [7; 1_000]).unwrap();
        flush(&db);
        let cold = format!("{READ} block_decompress_time read_index_block_nanos read_filter_block_nanos");
        expect(places_of(&db, |db| get(db, "a")), &cold, 1);
    });
}

#[test]
fn writes_and_walks_are_timed_by_their_parts() {
    ticking(|| {
        let disk = SimDisk::new();
        let db = open(&disk, family().merge_operator(Some(Arc::new(AppendOperator::new(",")))));
        expect(places_of(&db, |db| db.put("a", "1").unwrap()), "write_wal_time write_memtable_time", 0);
        let options = WriteOptions::default().disable_wal(true);
        let put = |db: &Db| db.put_cf(&db.default_family(), "b", "1", &options).unwrap();
        expect(places_of(&db, put), "write_memtable_time", 0);
        expect(places_of(&db, walk), "seek_internal_seek_time find_next_user_entry_time", 0);
        db.merge("a", "2").unwrap();
        expect(places_of(&db, |db| get(db, "a")), "get_from_memtable_time merge_operator_time_nanos", 0);
    });
}

#[test]
fn without_a_context_of_that_level_nothing_is_timed() {
    alone(|| {
        let disk = SimDisk::new();
        let db = open(&disk, family());
        let perf = db.metrics().perf_context().expect("a slot of its own");
        db.put("a", "1").unwrap();
        get(&db, "a");
        assert_eq!(perf.level(), PerfLevel::EnableCount);
        assert!(PerfTime::ALL.iter().all(|what| perf.times().get(*what) == 0));
        assert_eq!(perf.counters().get(Counter::BytesRead), 1);
        assert_eq!(times::begin(), None);
        let timed = db.metrics().perf_context_at(PerfLevel::EnableTime);
        assert!(times::begin().is_some());
        drop(timed);
        assert_eq!(times::begin(), None, "it ends with the context");
    });
}
