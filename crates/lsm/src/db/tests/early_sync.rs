//! The WAL is synced before its time where much of it waits, and nobody's promise changes by that.

use super::basics::options;
use crate::{ColumnFamilyOptions, Db, FlushOptions, WriteOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{OpClass, SimDisk};
use siltstone_base::executor::{Executor, StepExecutor};
use std::sync::Arc;
use std::time::Duration;

/// A database whose WAL is synced every `millis`, on an executor that steps jobs while somebody sleeps.
fn open(disk: &SimDisk, millis: u64) -> (Db, Arc<StepExecutor>) {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = options(disk).wal_sync_interval_millis(millis).executor(Some(Arc::<StepExecutor>::clone(&executor)));
    (Db::open("/db", &options).unwrap(), executor)
}

/// Puts `mib` rows of a MiB each, with time for jobs after each.
fn put(db: &Db, executor: &StepExecutor, mib: u32) {
    for row in 0..mib {
        db.put(row.to_be_bytes(), vec![row as u8; 1 << 20]).unwrap();
        executor.sleep(Duration::from_millis(1));
    }
}

/// How many rows a power loss leaves.
fn left(disk: &SimDisk) -> u32 {
    let db = Db::open("/db", &options(&disk.after_power_loss())).unwrap();
    (0..).take_while(|row: &u32| db.get(row.to_be_bytes()).unwrap().is_some()).count() as u32
}

#[test]
fn what_an_hour_would_gather_is_not_left_to_its_end() {
    let disk = SimDisk::new();
    let (db, executor) = open(&disk, 3_600_000);
    put(&db, &executor, 20);
    let left = left(&disk);
    assert!(left >= 10, "{left} of 20 rows are left");
    db.close().unwrap();
}

#[test]
fn a_wal_that_is_left_to_the_operating_system_is_never_synced_early() {
    let disk = SimDisk::new();
    let (db, executor) = open(&disk, 0);
    disk.start_trace();
    put(&db, &executor, 20);
    let syncs = disk.take_trace().iter().filter(|op| op.class == OpClass::Sync && op.file == FileKind::Wal).count();
    assert_eq!(syncs, 0);
    db.close().unwrap();
}

/// What syncs achieve would seem without bounds, and writers would be let into a stop, if each counted what flushes had synced before it.
#[test]
fn what_flushes_make_durable_is_not_left_for_the_next_sync() {
    let disk = SimDisk::new();
    let (db, _executor) = open(&disk, 3_600_000);
    // Where there is another family, a flush syncs the WALs that it closes.
    let other = db.create_family("other", &ColumnFamilyOptions::default()).unwrap();
    db.put_cf(&other, "small", "1", &WriteOptions::default()).unwrap();
    let mib = |db: &Db| db.handle.inner.unsynced_wal_bytes() >> 20;
    for row in 0..3_u8 {
        db.put([row], vec![row; 1 << 20]).unwrap();
    }
    assert_eq!(mib(&db), 3);
    db.flush(&FlushOptions::default()).unwrap();
    assert_eq!(mib(&db), 0);
    db.put("behind", vec![7; 1 << 20]).unwrap();
    assert_eq!(mib(&db), 1);
    db.sync_wal().unwrap();
    assert_eq!(db.handle.inner.unsynced_wal_bytes(), 0);
    db.close().unwrap();
}
