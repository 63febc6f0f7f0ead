//! The LSM-tree: rows through the doors, found in the memtable, in tables, or nowhere.
#![expect(clippy::expect_used, reason = "a bench ends where its engine fails")]

use super::rows::{ROWS, VALUE, key, scattered};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group};
use siltstone_lsm::{CompactRangeOptions, Db, DbOptions, FlushOptions, ReadOptions, WriteBatch, WriteOptions};
use std::hint::black_box;
use std::time::Duration;

const BATCH: u64 = 100;

/// A database of even numbers, so that odd ones are missing.
fn filled(dir: &tempfile::TempDir) -> Db {
    let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true)).expect("a database");
    (0..ROWS).for_each(|number| db.put(key(scattered(number, ROWS) * 2), VALUE).expect("a put"));
    db
}

/// Every way to read, of rows that are where `place` says.
fn reads(group: &mut BenchmarkGroup<'_, WallTime>, db: &Db, place: &str) {
    let mut number = 0;
    let mut next = || {
        number += 1;
        scattered(number, ROWS) * 2
    };
    group.bench_function(format!("get, {place}"), |bencher| bencher.iter(|| black_box(db.get(key(next())))));
    group.bench_function(format!("get of nothing, {place}"), |bencher| {
        bencher.iter(|| black_box(db.get(key(next() + 1))));
    });
    group.bench_function(format!("seek and ten steps, {place}"), |bencher| {
        bencher.iter(|| {
            let mut iter = db.iter(&ReadOptions::default()).expect("an iterator");
            iter.seek(&key(next()));
            for _ in 0..10 {
                iter.next();
            }
            black_box(iter.valid())
        });
    });
}

fn rows(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = filled(&dir);
    let mut group = criterion.benchmark_group("rows of the LSM-tree");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    group.throughput(Throughput::Elements(1));
    reads(&mut group, &db, "in the memtable");
    db.flush(&FlushOptions::default()).expect("flushed");
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).expect("compacted");
    reads(&mut group, &db, "in tables");
    let mut number = 0;
    group.bench_function("put over a row", |bencher| {
        bencher.iter(|| {
            number += 1;
            black_box(db.put(key(scattered(number, ROWS) * 2), VALUE))
        });
    });
    let mut next = ROWS * 2;
    group.bench_function("put in order", |bencher| {
        bencher.iter(|| {
            next += 1;
            black_box(db.put(key(next), VALUE))
        });
    });
    group.throughput(Throughput::Elements(BATCH));
    group.bench_function("batch of a hundred puts", |bencher| {
        bencher.iter(|| {
            let mut batch = WriteBatch::new();
            for _ in 0..BATCH {
                number += 1;
                batch.put(key(scattered(number, ROWS) * 2), VALUE);
            }
            black_box(db.write(&mut batch, &WriteOptions::default()))
        });
    });
    group.finish();
    db.close().expect("closed");
}

criterion_group!(benches, rows);
