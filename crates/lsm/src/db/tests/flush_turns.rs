//! Families take turns at being flushed.

use super::basics::options;
use crate::event::{EventListener, FlushInfo};
use crate::{ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, FlushOptions, ReadOptions, WriteOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use siltstone_base::sync::{Arc, Mutex, Rank};

/// Notes whose flushes begin.
#[derive(Debug)]
struct Watch(Mutex<Vec<String>>);

impl EventListener for Watch {
    fn flush_begin(&self, info: &FlushInfo) {
        self.0.lock().push(info.column_family.clone());
    }
}

/// The family with the lowest number has a sealed memtable whenever its flush ends.
#[test]
fn a_family_is_flushed_beside_one_that_is_written_all_the_time() {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    executor.limit_steps(4);
    let watch = Arc::new(Watch(Mutex::new(Rank(60_000), Vec::new())));
    let family = || ColumnFamilyOptions::default().max_write_buffer_number(8).disable_auto_compactions(true);
    let options = options(&disk).executor(Some(executor.clone())).listeners(vec![watch.clone()]);
    let db = Db::open_families("/db", &options, &[("default", family())]).unwrap();
    let (busy, other) = (db.default_family(), db.create_family("other", &family()).unwrap());
    let seal = |family: &ColumnFamily, key: u32| {
        for number in 0..100_u32 {
            let key = [key.to_be_bytes(), number.to_be_bytes()].concat();
            db.put_cf(family, key, [7; 10], &WriteOptions::default()).unwrap();
        }
        db.flush_families(&[family], &FlushOptions::default().wait(false)).unwrap();
    };
    seal(&busy, 0);
    seal(&other, 0);
    for round in 1.. {
        if watch.0.lock().iter().any(|name| name == "other") {
            break;
        }
        assert!(round < 20, "{:?}", watch.0.lock());
        // While its flush runs, the busy family gets another memtable.
        assert!(executor.step());
        seal(&busy, round);
        let begun = watch.0.lock().len();
        while watch.0.lock().len() == begun && executor.step() {}
    }
    assert_eq!(*watch.0.lock(), ["default", "other"]);
    executor.run_until_idle();
    db.close().unwrap();
}

/// A compaction of any family leaves the device to it.
#[test]
fn a_flush_that_its_writers_will_wait_for_is_urgent_for_all_families() {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    executor.limit_steps(4);
    let options = options(&disk).executor(Some(executor.clone()));
    let db = Db::open_families("/db", &options, &[("default", ColumnFamilyOptions::default())]).unwrap();
    let small = ColumnFamilyOptions::default().write_buffer_size(64 << 10);
    let other = db.create_family("other", &small).unwrap();
    let put = |number: u32| db.put_cf(&other, number.to_be_bytes(), [7; 100], &WriteOptions::default()).unwrap();
    let is_urgent = || db.handle.inner.is_flush_urgent();
    (0..100).for_each(put);
    db.flush_families(&[&other], &FlushOptions::default().wait(false)).unwrap();
    (100..450).for_each(put);
    assert!(!is_urgent(), "no flush runs");
    assert!(executor.step());
    assert!(is_urgent());
    executor.run_until_idle();
    assert!(!is_urgent());
    db.close().unwrap();
}

/// To delete tables takes longer than the next flush shall wait for the thread that is kept for it.
#[test]
fn a_flush_does_not_delete_tables_before_the_next_one_may_begin() {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    executor.limit_steps(4);
    let options = options(&disk).executor(Some(executor.clone()));
    let family = || ColumnFamilyOptions::default().level0_file_num_compaction_trigger(2);
    let db = Db::open_families("/db", &options, &[("default", family())]).unwrap();
    let (one, other) = (db.default_family(), db.create_family("other", &family()).unwrap());
    let seal = |family: &ColumnFamily, number: u32| {
        for key in 0..1_000_u32 {
            db.put_cf(family, key.to_be_bytes(), number.to_be_bytes(), &WriteOptions::default()).unwrap();
        }
        db.flush_families(&[family], &FlushOptions::default().wait(false)).unwrap();
    };
    let tables = || {
        let names = disk.env().list_dir("/db".as_ref()).unwrap();
        names.iter().filter(|entry| entry.name.ends_with(".sst")).count()
    };
    let running = || {
        let state = db.handle.inner.state.lock();
        (state.running_flushes, state.running_compactions)
    };
    seal(&one, 0);
    executor.run_until_idle();
    let reader = db.iter(&ReadOptions::default()).unwrap();
    let force = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&one, None, None, &force).unwrap();
    assert_eq!(tables(), 2, "what was rewritten, and the table that is read");
    seal(&other, 0);
    executor.run_until_idle();
    seal(&other, 1);
    while running() != (0, 1) {
        assert!(executor.step());
    }
    drop(reader);
    let before = tables();
    seal(&one, 1);
    while running().0 > 0 {
        assert!(executor.step());
    }
    assert!(running().1 > 0);
    assert_eq!(tables(), before + 1, "the flush added one, and deleted none");
    // The compaction goes on meanwhile.
    while tables() > before {
        assert!(executor.step());
    }
    executor.run_until_idle();
    let of_levels = |family: &ColumnFamily| -> usize {
        let count = |level: usize| db.property_cf(family, &format!("rocksdb.num-files-at-level{level}")).unwrap();
        (0..7).map(|level| count(level).parse::<usize>().unwrap()).sum()
    };
    assert_eq!(tables(), of_levels(&one) + of_levels(&other), "nothing else is left");
    db.close().unwrap();
}
