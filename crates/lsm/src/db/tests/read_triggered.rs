//! Tables that reads ask in vain again and again.

use super::basics::options;
use crate::{ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, FlushOptions, ReadOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use std::sync::Arc;
use std::time::Duration;

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// A thousand rows in the last level, and a few of them again in level 0.
fn filled(read_triggered_bytes: u64) -> (Db, Arc<StepExecutor>) {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let family =
        ColumnFamilyOptions::default().compression(CompressionType::None).read_triggered_bytes(read_triggered_bytes);
    let options = options(&disk).executor(Some(Arc::<StepExecutor>::clone(&executor)));
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    for number in 0..1_000 {
        db.put(key(number), [7; 100]).unwrap();
    }
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    for number in 0..10 {
        db.put(key(number * 100), [8; 100]).unwrap();
    }
    db.flush(&FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(level0(&db), 1);
    (db, executor)
}

fn level0(db: &Db) -> u64 {
    db.property("rocksdb.num-files-at-level0").unwrap().parse().unwrap()
}

/// Time for whoever looks now and then.
fn look(db: &Db, executor: &StepExecutor) -> u64 {
    executor.sleep(Duration::from_secs(11));
    db.wait_for_background_work().unwrap();
    db.check().unwrap();
    level0(db)
}

#[test]
fn gets_that_find_nothing_in_a_table_pay_for_its_merge() {
    let (db, executor) = filled(1_000);
    let get = |count: u64| (0..count).for_each(|number| assert!(db.get(key(number * 7 % 900 + 1)).unwrap().is_some()));
    get(50);
    assert_eq!(look(&db, &executor), 1, "the tables have more than fifty thousand bytes");
    get(150);
    assert_eq!(look(&db, &executor), 0);
    assert_eq!(*db.get(key(100)).unwrap().unwrap(), [8; 100]);
}

#[test]
fn seeks_pay_as_well_and_nobody_does_unless_it_is_asked_for() {
    for (bytes, left) in [(1_000, 0), (0, 1)] {
        let (db, executor) = filled(bytes);
        let mut iter = db.iter(&ReadOptions::default()).unwrap();
        for number in 0..400 {
            iter.seek(&key(number * 2 + 1));
            assert!(iter.valid());
        }
        drop(iter);
        assert_eq!(look(&db, &executor), left);
    }
}
