//! Counting on many threads, the golden table, and names there and back.

use super::*;
use crate::event::StallCause;
use crate::event::StallCondition;
use siltstone_base::ErrorKind;
use std::collections::HashSet;
use std::time::Duration;

#[test]
fn counts_of_more_threads_than_slots_add_up() {
    const THREADS: u64 = SLOTS as u64 + 20;
    const ROUNDS: u64 = 1_000;
    let metrics = Metrics::new();
    let barrier = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // All are alive at once, so that some share a slot.
                metrics.add(Counter::KeysRead, 0);
                barrier.wait();
                for _ in 0..ROUNDS {
                    metrics.add_all([(Counter::KeysWritten, 1), (Counter::BytesWritten, 3)]);
                }
            });
        }
    });
    assert_eq!(metrics.get(Counter::KeysWritten), THREADS * ROUNDS);
    assert_eq!(metrics.get(Counter::BytesWritten), 3 * THREADS * ROUNDS);
    assert_eq!(metrics.get(Counter::Flushes), 0);
}

#[test]
fn two_databases_count_apart_and_differences_describe_an_interval() {
    let (one, other) = (Metrics::new(), Metrics::new());
    one.add(Counter::Flushes, 2);
    other.add(Counter::Flushes, 5);
    let earlier = one.counters();
    one.add(Counter::Flushes, 3);
    one.add(Counter::stall_micros(StallCause::L0FileCount), 7);
    let between = one.counters().since(&earlier);
    assert_eq!(between.get(Counter::Flushes), 3);
    assert_eq!(between.get(Counter::StallL0FileCountMicros), 7);
    assert_eq!(other.get(Counter::Flushes), 5);
}

#[test]
fn counters_stand_at_their_place_under_distinct_names() {
    for (index, counter) in Counter::ALL.iter().enumerate() {
        assert_eq!(*counter as usize, index);
    }
    let names: HashSet<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
    assert_eq!(names.len(), Counter::ALL.len());
}

#[test]
fn property_names_go_there_and_back() {
    for &property in Property::ALL.iter().chain(&[Property::NumFilesAtLevel(0), Property::NumFilesAtLevel(12)]) {
        assert_eq!(Property::parse(&property.name()).unwrap(), property);
    }
    assert_eq!(Property::parse("rocksdb.num-files-at-level0").unwrap(), Property::NumFilesAtLevel(0));
    assert_eq!(Property::parse("rocksdb.stats").unwrap(), Property::Stats);
    assert_eq!(Property::parse("siltstone.pacing").unwrap(), Property::Pacing);
    assert_eq!(
        Property::parse("rocksdb.estimate-pending-compaction-bytes").unwrap(),
        Property::EstimatePendingCompactionBytes
    );
    assert_eq!(Property::parse("rocksdb.cur-size-all-mem-tables").unwrap(), Property::CurSizeAllMemTables);
}

#[test]
fn other_names_are_refused_without_repeating_them() {
    for name in [
        "",
        "stats",
        "rocksdb.",
        "rocksdb.statss",
        "leveldb.stats",
        "siltstone.stats",
        "rocksdb.pacing",
        "rocksdb.num-files-at-level",
        "rocksdb.num-files-at-level-1",
        "rocksdb.num-files-at-level+1",
        "rocksdb.num-files-at-level01",
        "rocksdb.num-files-at-level99999999999999999999999",
    ] {
        let error = Property::parse(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{name}");
    }
}

#[test]
fn the_table_is_as_expected() {
    let metrics = Metrics::new();
    metrics.add_all([
        (Counter::KeysWritten, 1_000_000),
        (Counter::BytesWritten, 120 << 20),
        (Counter::WriteGroups, 400_000),
        (Counter::WriteBatches, 1_000_000),
        (Counter::WalBytes, 125 << 20),
        (Counter::WalSyncs, 3),
        (Counter::Flushes, 2),
        (Counter::FlushMicros, 1_250_000),
        (Counter::FlushWriteBytes, 60 << 20),
        (Counter::Compactions, 1),
        (Counter::CompactReadBytes, 60 << 20),
        (Counter::CompactWriteBytes, 55 << 20),
        (Counter::KeysRead, 1000),
        (Counter::MemtableHit, 100),
        (Counter::GetHitL0, 300),
        (Counter::GetHitL2AndUp, 590),
        (Counter::GetMiss, 10),
        (Counter::TablesProbed, 1500),
        (Counter::FilterUseful, 590),
        (Counter::FilterFullPositive, 910),
        (Counter::FilterFullTruePositive, 900),
        (Counter::FilterPrefixChecked, 7),
        (Counter::FilterPrefixUseful, 5),
        (Counter::StalledWrites, 4),
        (Counter::StallL0FileCountMicros, 12_500),
    ]);
    let mut levels = vec![LevelStats::default(); 7];
    levels[0] = LevelStats { files: 2, bytes: 900, score: 0.5, compacting: 0 };
    levels[5] = LevelStats { files: 10, bytes: 3 << 29, score: 1.25, compacting: 3 };
    let table = MetricsTable {
        title: "default".to_owned(),
        levels,
        memtable_bytes: 65 << 20,
        immutable_memtables: 1,
        pending_compaction_bytes: 0,
        next_limit: Some(NextLimit { condition: StallCondition::Stopped(StallCause::MemtableLimit), bytes: 63 << 20 }),
        uptime: Duration::from_millis(12_340),
        counters: metrics.counters(),
    };
    assert_eq!(table.to_string(), include_str!("../../testdata/metrics_table.txt"));
}

#[test]
fn a_database_counts_what_it_does() {
    use crate::{Db, DbOptions, FlushOptions, ReadOptions, WriteBatch, WriteOptions};
    use siltstone_base::clock::ManualClock;
    use siltstone_base::env::sim::SimDisk;
    use siltstone_base::executor::StepExecutor;
    use std::sync::Arc;

    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(executor));
    let db = Db::open("/db", &options).unwrap();
    let mut batch = WriteBatch::new();
    for key in ["a", "b", "c"] {
        batch.put(key, "value");
    }
    let bytes = batch.size_bytes() as u64;
    db.write(&mut batch, &WriteOptions::default().sync(true)).unwrap();
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"value"[..]));
    let counters = db.metrics().counters();
    let expect = |counters: &Counters, wanted: &[(Counter, u64)]| {
        for (counter, value) in wanted {
            assert_eq!(counters.get(*counter), *value, "{}", counter.name());
        }
    };
    expect(
        &counters,
        &[
            (Counter::KeysWritten, 3),
            (Counter::BytesWritten, bytes),
            (Counter::WriteBatches, 1),
            (Counter::WriteGroups, 1),
            (Counter::WalSyncs, 1),
            (Counter::KeysRead, 1),
            (Counter::MemtableHit, 1),
        ],
    );
    let wal_bytes = counters.get(Counter::WalBytes);
    assert!(
        (bytes + 7..bytes + 100).contains(&wal_bytes),
        "a record is the batch, its frame and at most a note: {wal_bytes}"
    );
    assert_eq!(counters.disk_bytes_written(), wal_bytes);

    db.flush(&FlushOptions::default()).unwrap();
    assert!(db.get("c").unwrap().is_some());
    assert!(db.get("missing").unwrap().is_none());
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    drop(iter);
    let after = db.metrics().counters().since(&counters);
    expect(
        &after,
        &[
            (Counter::KeysWritten, 0),
            (Counter::Flushes, 1),
            (Counter::KeysRead, 2),
            (Counter::GetHitL0, 1),
            (Counter::GetMiss, 1),
            (Counter::MemtableHit, 0),
            (Counter::IterSeeks, 1),
            (Counter::IterSteps, 3),
        ],
    );
    let file = db.metrics_table(&db.default_family()).levels[0];
    assert_eq!((file.files, file.bytes), (1, after.get(Counter::FlushWriteBytes)));
    db.close().unwrap();
}

#[test]
fn statistics_tell_what_happened_under_the_names_of_rocksdb() {
    use crate::{CompactRangeOptions, Db, DbOptions, FlushOptions, WriteBatch, WriteOptions};
    use siltstone_base::clock::ManualClock;
    use siltstone_base::env::sim::SimDisk;
    use siltstone_base::executor::StepExecutor;
    use std::sync::Arc;

    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(executor));
    let db = Db::open("/db", &options).unwrap();
    db.put("a", "1").unwrap();
    db.get("a").unwrap();
    let count = |name: &str| db.statistics().histogram(name).unwrap().count();
    assert_eq!((count("rocksdb.db.get.micros"), count("rocksdb.db.write.micros")), (0, 0), "nobody asked for it");
    db.metrics().set_times_operations(true);
    let mut batch = WriteBatch::new();
    batch.put("b", "2");
    db.write(&mut batch, &WriteOptions::default().sync(true)).unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    db.put("a", "3").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    for _ in 0..5 {
        db.get("a").unwrap();
    }
    db.multi_get_cf(&db.default_family(), &[b"a", b"b"], &crate::ReadOptions::default());
    assert_eq!((count("rocksdb.db.get.micros"), count("rocksdb.db.write.micros")), (5, 2));
    assert_eq!(count("rocksdb.db.multiget.micros"), 1);
    assert_eq!((count("rocksdb.db.flush.micros"), count("rocksdb.compaction.times.micros")), (2, 1));
    assert!(count("rocksdb.wal.file.sync.micros") >= 1);
    let statistics = db.statistics();
    let ticker = |name: &str| statistics.ticker(name).unwrap();
    assert_eq!(ticker("rocksdb.number.keys.written"), 3);
    assert!(ticker("rocksdb.block.cache.hit") > 0 && ticker("rocksdb.block.cache.miss") > 0);
    assert_eq!(ticker("rocksdb.block.cache.miss"), ticker("rocksdb.block.cache.add"));
    assert_eq!(ticker("rocksdb.stall.micros"), 0);
    let names: HashSet<_> = statistics.tickers.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), statistics.tickers.len(), "each once");
    assert_eq!(db.property("rocksdb.dbstats").unwrap(), db.statistics().to_string());
    assert_eq!(db.property("rocksdb.cfstats").unwrap(), db.property("rocksdb.stats").unwrap());
    let sums = db.property("rocksdb.aggregated-table-properties").unwrap();
    assert!(sums.contains("# entries=2; ") && sums.contains("# data blocks=1; "), "{sums}");
    assert_eq!(db.property("rocksdb.num-blob-files").unwrap(), "0");

    db.create_family("other", &db.default_family().options()).unwrap();
    let text = db.prometheus_text();
    for line in [
        "rocksdb_number_keys_written_total 3",
        "rocksdb_db_flush_micros_count 2",
        "rocksdb_estimate_num_keys{family=\"default\"} 2",
        "rocksdb_estimate_num_keys{family=\"other\"} 0",
        "rocksdb_num_snapshots 0",
        "rocksdb_num_files_at_level{family=\"other\",level=\"0\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("pinned_usage"), "it would walk over the whole cache");
    let types: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    assert_eq!(types.iter().collect::<HashSet<_>>().len(), types.len(), "each once");
}

/// Looks on a thread of its own; `false` if all slots were taken, by threads of other tests.
fn perf_context_counts() -> bool {
    let metrics = Metrics::new();
    metrics.add(Counter::KeysRead, 5);
    let Some(perf) = metrics.perf_context() else { return false };
    std::thread::scope(|scope| {
        scope.spawn(|| metrics.add(Counter::KeysRead, 7));
    });
    metrics.add(Counter::KeysRead, 2);
    assert_eq!(perf.counters().get(Counter::KeysRead), 2);
    assert_eq!(format!("{perf:?}"), "{\"rocksdb.number.keys.read\": 2}");
    assert_eq!(metrics.get(Counter::KeysRead), 14);
    true
}

#[test]
fn a_perf_context_counts_the_work_of_its_thread_alone() {
    // The threads that keep this one from a slot end: then it is free.
    let try_once = |_| std::thread::scope(|scope| scope.spawn(perf_context_counts).join().unwrap());
    let mut tries = (0..100_000).map(try_once);
    assert!(tries.any(|has_slot| has_slot), "slots are given back");
}
