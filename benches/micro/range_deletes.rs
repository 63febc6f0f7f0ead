//! Gets and seeks with 10,000 live range tombstones, in the memtable and in a table, beside the same without any.

use criterion::{Criterion, criterion_group};
use siltstone_bench::Rng;
use siltstone_lsm::{ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, FlushOptions, ReadOptions, Result};
use std::hint::black_box;
use std::time::Duration;

const TOMBSTONES: u64 = 10_000;
/// Of so many neighbouring keys, two are deleted.
const STRIDE: u64 = 20;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Where the tombstones are.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Nowhere,
    Memtable,
    Table,
}

fn database(dir: &std::path::Path, place: Place) -> Result<Db> {
    let family = ColumnFamilyOptions::default().disable_auto_compactions(true);
    let options = DbOptions::default().create_if_missing(true);
    let db = Db::open_families(dir, &options, &[("default", family)])?;
    for number in 0..TOMBSTONES * STRIDE {
        db.put(key(number), [b'v'; 100])?;
    }
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default())?;
    if place != Place::Nowhere {
        for number in 0..TOMBSTONES {
            let begin = number * STRIDE + 7;
            db.delete_range(key(begin), key(begin + 2))?;
        }
    }
    if place == Place::Table {
        db.flush(&FlushOptions::default())?;
    }
    Ok(db)
}

fn range_deletes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("range_deletes");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    for (place, name) in [(Place::Nowhere, "none"), (Place::Memtable, "memtable"), (Place::Table, "table")] {
        let Ok(dir) = tempfile::tempdir() else { return };
        let Ok(db) = database(dir.path(), place) else { return };
        let mut rng = Rng::new(7, 0);
        group.bench_function(format!("get/{name}"), |bencher| {
            bencher.iter(|| black_box(db.get(key(rng.next_u64() % (TOMBSTONES * STRIDE)))));
        });
        let Ok(mut iter) = db.iter(&ReadOptions::default()) else { return };
        group.bench_function(format!("seek/{name}"), |bencher| {
            bencher.iter(|| {
                iter.seek(&key(rng.next_u64() % (TOMBSTONES * STRIDE)));
                black_box(iter.valid())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, range_deletes);
