//! The next WAL is made ahead, and nothing mistakes it for one.

use super::basics::options;
use crate::{ColumnFamilyOptions, Counter, Db, FlushOptions, WriteBatch, WriteOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::executor::StepExecutor;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

/// How many files of the directory end with `end`.
fn count(disk: &SimDisk, end: &str) -> usize {
    let entries = disk.env().list_dir(Path::new(DIR)).unwrap();
    entries.into_iter().filter(|entry| entry.name.ends_with(end)).count()
}

struct World {
    disk: SimDisk,
    executor: Arc<StepExecutor>,
    db: Db,
    next_key: usize,
}

impl World {
    fn open(disk: SimDisk) -> Self {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
        let family = ColumnFamilyOptions::default()
            .write_buffer_size(64 << 10)
            .max_write_buffer_number(8)
            .disable_auto_compactions(true);
        let options = options(&disk).executor(Some(executor.clone()));
        let db = Db::open_families(DIR, &options, &[("default", family)]).unwrap();
        Self { disk, executor, db, next_key: 0 }
    }

    fn put(&mut self, disable_wal: bool) {
        let mut batch = WriteBatch::new();
        batch.put(format!("{:08}", self.next_key), [7; 1000]);
        self.db.write(&mut batch, &WriteOptions::default().disable_wal(disable_wal)).unwrap();
        self.next_key += 1;
    }

    fn wal_number(&self) -> u64 {
        self.db.handle.inner.write_side.lock().wal_number
    }

    /// Writes until another WAL has begun, and returns what that came to on files and directories.
    fn switch(&mut self, disable_wal: bool) -> Vec<OpClass> {
        let before = self.wal_number();
        loop {
            self.disk.start_trace();
            self.put(disable_wal);
            let trace = self.disk.take_trace();
            if self.wal_number() != before {
                return trace.into_iter().map(|op| op.class).collect();
            }
        }
    }

    fn rows(&self) -> usize {
        (0..self.next_key).filter(|key| self.db.get(format!("{key:08}")).unwrap().is_some()).count()
    }
}

/// The writer's own entry is all that it writes; space and file were there before.
#[test]
fn a_switch_creates_reserves_and_syncs_nothing() {
    let mut world = World::open(SimDisk::new());
    for round in 0..4 {
        for _ in 0..40 {
            world.put(false);
        }
        assert_eq!(count(&world.disk, ".dbtmp"), 0, "round {round}: only a job makes it");
        world.executor.run_until_idle();
        assert_eq!(count(&world.disk, ".dbtmp"), 1, "round {round}");
        assert_eq!(world.switch(false), [OpClass::Rename, OpClass::Write], "round {round}");
        assert_eq!(count(&world.disk, ".dbtmp"), 0, "round {round}: it is a WAL now");
    }
    // Without a WAL it is memtables that get full.
    for _ in 0..40 {
        world.put(true);
    }
    world.executor.run_until_idle();
    assert_eq!(world.switch(true), [OpClass::Rename]);
    world.executor.run_until_idle();
    assert_eq!(world.rows(), world.next_key);
    world.db.check().unwrap();
}

/// A writer that is faster than the job makes the file itself, and one that finds nothing under the temporary name too.
#[test]
fn a_writer_does_without_it() {
    let mut world = World::open(SimDisk::new());
    let classes = world.switch(false);
    assert!(classes.contains(&OpClass::Create) && !classes.contains(&OpClass::Rename), "{classes:?}");
    // The job that was asked for comes too late for that one, and makes the one after.
    world.executor.run_until_idle();
    assert_eq!(count(&world.disk, ".dbtmp"), 1);
    let renames = OpFilter { class: Some(OpClass::Rename), file: Some(FileKind::Wal), ..OpFilter::default() };
    world.disk.set_fault(FaultPlan::sticky(FaultKind::Io, 0).filter(renames));
    let classes = world.switch(false);
    assert!(classes.contains(&OpClass::Create) && classes.contains(&OpClass::Rename), "{classes:?}");
    assert_eq!(count(&world.disk, ".dbtmp"), 0, "what cannot be renamed is removed");
    world.disk.clear_fault();
    world.executor.run_until_idle();
    assert_eq!(world.rows(), world.next_key);
}

/// Where the job cannot make the file, nothing is told, and writers go on.
#[test]
fn a_job_that_fails_harms_nobody() {
    let mut world = World::open(SimDisk::new());
    let creates = OpFilter { class: Some(OpClass::Create), file: Some(FileKind::Wal), ..OpFilter::default() };
    for _ in 0..40 {
        world.put(false);
    }
    world.disk.set_fault(FaultPlan::sticky(FaultKind::NoSpace, 0).filter(creates));
    world.executor.run_until_idle();
    assert_eq!(world.disk.fault_hits().len(), 1);
    assert_eq!(world.db.metrics().get(Counter::WalPrecreateFailed), 1);
    world.disk.clear_fault();
    assert_eq!(count(&world.disk, ".dbtmp"), 0);
    assert!(world.switch(false).contains(&OpClass::Create));
    world.executor.run_until_idle();
    assert_eq!(world.rows(), world.next_key);
}

#[test]
fn closing_removes_it_and_so_does_opening_after_a_crash() {
    let mut world = World::open(SimDisk::new());
    for _ in 0..40 {
        world.put(false);
    }
    world.executor.run_until_idle();
    assert_eq!(count(&world.disk, ".dbtmp"), 1);
    let dead = world.disk.after_process_death();
    assert_eq!(count(&dead, ".dbtmp"), 1);
    let read_only = Db::open_read_only(DIR, &options(&dead), &[]).unwrap();
    assert!(read_only.get("00000039").unwrap().is_some());
    drop(read_only);
    let db = Db::open(DIR, &options(&dead)).unwrap();
    assert!(db.get("00000039").unwrap().is_some());
    assert_eq!(count(&dead, ".dbtmp"), 0);
    world.db.close().unwrap();
    assert_eq!((count(&world.disk, ".dbtmp"), count(&world.disk, ".log")), (0, 1));
}

/// A database that is idle, or whose writers flush before there is much, reserves nothing.
#[test]
fn nothing_is_made_for_who_writes_little() {
    let mut world = World::open(SimDisk::new());
    for _ in 0..10 {
        world.put(false);
        world.db.flush(&FlushOptions::default()).unwrap();
        world.executor.run_until_idle();
        assert_eq!(count(&world.disk, ".dbtmp"), 0);
    }
    world.db.pause_background_work().unwrap();
    for _ in 0..40 {
        world.put(false);
    }
    world.executor.run_until_idle();
    assert_eq!(count(&world.disk, ".dbtmp"), 0, "nothing is made while background work is paused");
    world.db.resume_background_work();
    world.switch(false);
    assert_eq!(world.rows(), world.next_key);
}

/// Every disk that a loss of power leaves while WALs are begun opens, with a prefix of the writes.
#[test]
fn a_crash_around_a_switch_loses_nothing_that_was_synced() {
    for cut in 0..3 {
        let mut world = World::open(SimDisk::new());
        for _ in 0..40 {
            world.put(false);
        }
        world.executor.run_until_idle();
        let classes = world.switch(false);
        assert_eq!(classes, [OpClass::Rename, OpClass::Write]);
        if cut > 0 {
            world.db.sync_wal().unwrap();
        }
        if cut > 1 {
            world.executor.run_until_idle();
        }
        let written = world.next_key;
        let left = world.disk.after_power_loss();
        let db = Db::open(DIR, &options(&left)).unwrap();
        let there = |key: &usize| db.get(format!("{key:08}")).unwrap().is_some();
        let rows = (0..written).take_while(there).count();
        assert!((rows..written).all(|key| !there(&key)), "cut {cut}: a prefix");
        assert!(cut == 0 || rows == written, "cut {cut}: {rows} of {written}");
        assert_eq!(count(&left, ".dbtmp"), 0, "cut {cut}");
    }
}

/// A flush that finds no room gets what was reserved for a WAL that nobody needs yet.
#[test]
fn a_flush_on_a_full_device_gets_its_space_back() {
    let mut world = World::open(SimDisk::new());
    world.switch(false);
    for _ in 0..40 {
        world.put(false);
    }
    let tables = OpFilter { class: Some(OpClass::Write), file: Some(FileKind::Table), ..OpFilter::default() };
    world.disk.set_fault(FaultPlan::sticky(FaultKind::NoSpace, 0).filter(tables));
    world.executor.run_until_idle();
    assert!(!world.disk.fault_hits().is_empty());
    assert_eq!(count(&world.disk, ".dbtmp"), 0);
    // Nor is another one made before a flush has succeeded.
    world.switch(false);
    for _ in 0..40 {
        world.put(false);
    }
    world.executor.run_until_idle();
    assert_eq!(count(&world.disk, ".dbtmp"), 0);
    world.disk.clear_fault();
    world.db.wait_for_background_work().unwrap();
    assert_eq!(world.rows(), world.next_key);
    world.db.check().unwrap();
}

/// They would all be in the next record, which recovery then takes for too large.
#[test]
fn writes_without_a_log_leave_nothing_to_be_said_of_every_wal_that_they_switched() {
    let mut world = World::open(SimDisk::new());
    for _ in 0..30 {
        world.switch(true);
        world.db.flush(&FlushOptions::default()).unwrap();
    }
    let stated = world.db.handle.inner.write_side.lock().predecessors.len();
    assert!(stated <= 3, "{stated} WALs");
    world.put(false);
    assert_eq!(world.rows(), world.next_key);
}
