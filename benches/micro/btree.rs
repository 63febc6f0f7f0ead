//! The B-tree: searching a page, splitting one, and rows through the doors.
#![expect(clippy::expect_used, reason = "a bench ends where its engine fails")]

use super::rows::{ROWS, VALUE, key, scattered};
use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use siltstone_btree::page::{self, Cell, Header, PageKind};
use siltstone_btree::{Db, DbOptions, Durability, KvCursor};
use std::hint::black_box;
use std::time::Duration;

const PAGE: usize = 16 << 10;

/// A leaf of as many rows as fit.
fn leaf() -> (Vec<u8>, u64) {
    let header = Header::empty(PageKind::Leaf, 0, PAGE);
    let count = (PAGE / (16 + VALUE.len() + 11) - 1) as u64;
    let keys: Vec<[u8; 16]> = (0..count).map(key).collect();
    let cells = keys.iter().map(|key| Cell { flags: 0, key, value: &VALUE });
    (page::build(PAGE, &header, cells).unwrap_or_default(), count)
}

fn pages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page of the B-tree");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    let (leaf, count) = leaf();
    let mut number = 0;
    group.bench_function("search", |bencher| {
        bencher.iter(|| {
            number += 1;
            black_box(page::find(&leaf, &key(scattered(number, count))))
        });
    });
    let header = Header::read(leaf.as_slice());
    group.bench_function("split: build the upper half", |bencher| {
        bencher.iter(|| {
            let cells = (count as usize / 2..count as usize).filter_map(|index| page::cell(&leaf, &header, index));
            black_box(page::build(PAGE, &header, cells))
        });
    });
    let cell = Cell { flags: 0, key: &[b'0'; 16], value: &VALUE };
    group.bench_function("insert and remove", |bencher| {
        bencher.iter_batched_ref(
            || page::build(PAGE, &Header::empty(PageKind::Leaf, 0, PAGE), []).unwrap_or_default(),
            |page| {
                for _ in 0..16 {
                    black_box(page::insert(page.as_mut_slice(), 0, &cell).is_ok());
                    black_box(page::remove(page.as_mut_slice(), 0).is_ok());
                }
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn rows(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = DbOptions::default().create_if_missing(true).durability(Durability::Os);
    let db = Db::open(dir.path(), &options).expect("a database");
    (0..ROWS).for_each(|number| db.put(key(scattered(number, ROWS)), VALUE).expect("a put"));
    let mut group = criterion.benchmark_group("rows of the B-tree");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    group.throughput(Throughput::Elements(1));
    let mut number = 0;
    group.bench_function("get", |bencher| {
        bencher.iter(|| {
            number += 1;
            black_box(db.get(key(scattered(number, ROWS))))
        });
    });
    group.bench_function("seek and ten steps", |bencher| {
        bencher.iter(|| {
            number += 1;
            let mut cursor = db.cursor().expect("a cursor");
            let mut found = cursor.seek(&key(scattered(number, ROWS)));
            for _ in 0..10 {
                found = cursor.next();
            }
            black_box(found)
        });
    });
    group.bench_function("put over a row", |bencher| {
        bencher.iter(|| {
            number += 1;
            black_box(db.put(key(scattered(number, ROWS)), VALUE))
        });
    });
    let mut next = ROWS;
    group.bench_function("put in order", |bencher| {
        bencher.iter(|| {
            next += 1;
            black_box(db.put(key(next), VALUE))
        });
    });
    group.finish();
    db.close().expect("closed");
}

criterion_group!(benches, pages, rows);
