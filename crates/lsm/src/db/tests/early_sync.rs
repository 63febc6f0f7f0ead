//! The WAL is synced before its time where much of it waits, and nobody's promise changes by that.

use super::basics::options;
use crate::Db;
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
