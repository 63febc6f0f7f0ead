//! A full device: writes are refused, reads go on, and writes resume by themselves when there is space again.

use super::support::{World, cause};
use siltstone::lsm::{CompactRangeOptions, Db, ErrorKind, FlushOptions};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter};

/// Writes rows until one is refused; returns the next number.
fn fill(world: &mut World, db: &Db, from: u32) -> u32 {
    for number in from..from + 2_000 {
        if let Err(error) = world.write(db, number, number % 7 == 0) {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            return number + 1;
        }
    }
    panic!("the device never got full");
}

#[test]
fn writes_resume_by_themselves_when_space_returns_and_nothing_acknowledged_is_lost() {
    let mut world = World::new();
    let db = world.open();
    let mut next = 0;
    for round in 0..6_u32 {
        for _ in 0..20 + round * 13 {
            world.write(&db, next, false).unwrap();
            next += 1;
        }
        world.disk.set_capacity(Some(world.disk.allocated_total() + u64::from(round) * 20_000));
        next = fill(&mut world, &db, next);
        // It stays full for a while: every attempt is refused, and leaves nothing behind that grows.
        let files = db_files(&world);
        for _ in 0..30 {
            if let Err(error) = world.write(&db, next, true) {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            }
            next += 1;
            world.let_a_second_pass();
        }
        assert!(db_files(&world) <= files + 3, "{} files, then {}", files, db_files(&world));
        world.check_rows(&db, next);
        assert!(db.background_error().is_none());
        world.disk.set_capacity(None);
        world.let_a_second_pass();
        world.write(&db, next, true).unwrap();
        next += 1;
        db.wait_for_background_work().unwrap();
    }
    world.check_rows(&db, next);
    db.check().unwrap();
    // All that a power loss may take is what was never promised: nothing here, after a sync.
    db.sync_wal().unwrap();
    let survivor = World { acknowledged: world.acknowledged.clone(), ..World::on(world.disk.after_power_loss()) };
    db.close().unwrap();
    let db = survivor.open();
    survivor.check_rows(&db, next);
    db.check().unwrap();
    let db_again = world.open();
    world.check_rows(&db_again, next);
}

fn db_files(world: &World) -> usize {
    world.disk.env().list_dir(std::path::Path::new(super::support::DIR)).unwrap().len()
}

/// Every kind of operation on every kind of file may be the one that finds the device full.
#[test]
fn whatever_operation_finds_the_device_full_writes_resume_without_reopening() {
    let kinds = [FileKind::Wal, FileKind::Table, FileKind::Manifest];
    let classes = [OpClass::Create, OpClass::Write, OpClass::Rename, OpClass::Finish];
    let mut hits = 0;
    for file in kinds {
        for class in classes {
            for fault in [FaultKind::NoSpace, FaultKind::ShortWriteNoSpace] {
                // A WAL that cannot be closed is not trusted any more: that is no matter of space.
                if (file, class) == (FileKind::Wal, OpClass::Finish) {
                    continue;
                }
                for after in [0, 1, 5] {
                    hits += usize::from(fill_up_at(Some(file), Some(class), fault, after));
                }
            }
        }
    }
    assert!(hits >= 15, "{hits} faults were met");
}

/// One job finds it full that appends to the MANIFEST, and another one that has tables half written.
#[test]
fn whatever_was_half_written_when_the_device_got_full_is_gone_when_there_is_space_again() {
    let mut hits = 0;
    for after in 0..100 {
        hits += usize::from(fill_up_at(None, Some(OpClass::Write), FaultKind::NoSpace, after));
    }
    assert!(hits >= 90, "{hits} faults were met");
}

/// The tables in the directory that no version lists.
fn unlisted_tables(world: &World, db: &Db) -> Vec<String> {
    let listed: Vec<_> = db.live_files().unwrap().files.into_iter().map(|file| file.name).collect();
    let entries = world.disk.env().list_dir(std::path::Path::new(super::support::DIR)).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".sst") && !listed.contains(name)).collect()
}

fn fill_up_at(file: Option<FileKind>, class: Option<OpClass>, fault: FaultKind, after: u64) -> bool {
    let mut world = World::new();
    let db = world.open();
    for number in 0..60 {
        world.write(&db, number, false).unwrap();
    }
    let filter = OpFilter { class, file, ..OpFilter::default() };
    world.disk.set_fault(FaultPlan::sticky(fault, after).filter(filter));
    let context = format!("{file:?} {class:?} {fault:?} after {after}");
    for number in 60..160 {
        if let Err(error) = world.write(&db, number, false) {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{context}: {error}");
        }
        world.executor.run_until_idle();
    }
    world.check_rows(&db, 160);
    let hit = !world.disk.fault_hits().is_empty();
    world.disk.clear_fault();
    world.let_a_second_pass();
    world.write(&db, 160, true).unwrap_or_else(|error| panic!("{context}: {error}"));
    db.wait_for_background_work().unwrap_or_else(|error| panic!("{context}: {error}"));
    db.flush(&FlushOptions::default()).unwrap();
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    world.check_rows(&db, 161);
    db.check().unwrap();
    assert_eq!(unlisted_tables(&world, &db), [""; 0], "{context}");
    db.close().unwrap();
    let db = world.open();
    world.check_rows(&db, 161);
    hit
}

/// Opening needs space for a MANIFEST, a WAL and tables of what it recovers.
#[test]
fn an_opening_on_a_full_device_fails_and_changes_no_row() {
    let mut world = World::new();
    let db = world.open();
    for number in 0..90 {
        world.write(&db, number, true).unwrap();
    }
    db.close().unwrap();
    let mut refused = 0;
    for after in 0..60 {
        for fault in [FaultKind::NoSpace, FaultKind::ShortWriteNoSpace] {
            let copy =
                World { acknowledged: world.acknowledged.clone(), ..World::on(world.disk.after_process_death()) };
            copy.disk.set_fault(FaultPlan::sticky(fault, after));
            match copy.try_open() {
                Ok(db) => {
                    copy.check_rows(&db, 90);
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.kind(), ErrorKind::NoSpace, "{after}: {error}");
                    assert!(error.file().is_some());
                }
            }
            copy.executor.abandon_all();
            copy.disk.clear_fault();
            let db = copy.open();
            copy.check_rows(&db, 90);
            db.check().unwrap();
        }
    }
    assert!(refused > 20, "{refused}");
}

/// A refused write is not an error of what came before.
#[test]
fn what_was_acknowledged_before_a_refused_write_can_be_synced_and_closed() {
    let mut world = World::new();
    let db = world.open();
    for number in 0..5 {
        world.write(&db, number, false).unwrap();
    }
    world.disk.set_capacity(Some(0));
    let refused = fill(&mut world, &db, 5);
    db.sync_wal().unwrap();
    assert!(db.background_error().is_none());
    let survivor = World { acknowledged: world.acknowledged.clone(), ..World::on(world.disk.after_power_loss()) };
    db.close().unwrap();
    survivor.check_rows(&survivor.open(), refused);
    world.disk.set_capacity(None);
    world.check_rows(&world.open(), refused);
}

/// A flush that a caller waits for reports that flush, not what another job met before.
#[test]
fn a_flush_does_not_fail_with_the_error_of_an_earlier_one() {
    let mut world = World::new();
    let db = world.open();
    world.write(&db, 0, true).unwrap();
    let filter = OpFilter { class: Some(OpClass::Write), file: Some(FileKind::Table), ..OpFilter::default() };
    world.disk.set_fault(FaultPlan::sticky(FaultKind::NoSpace, 0).filter(filter));
    assert_eq!(db.flush(&FlushOptions::default()).unwrap_err().kind(), ErrorKind::NoSpace);
    world.disk.clear_fault();
    db.flush(&FlushOptions::default()).unwrap();
    world.check_rows(&db, 1);
}

/// A flush that is tried again and again is no job that a pause has to wait for.
#[test]
fn background_work_can_be_paused_while_the_device_is_full() {
    let mut world = World::new();
    let db = world.open();
    world.write(&db, 0, true).unwrap();
    let filter = OpFilter { class: Some(OpClass::Write), file: Some(FileKind::Table), ..OpFilter::default() };
    world.disk.set_fault(FaultPlan::sticky(FaultKind::NoSpace, 0).filter(filter));
    assert_eq!(db.flush(&FlushOptions::default()).unwrap_err().kind(), ErrorKind::NoSpace);
    db.pause_background_work().unwrap();
    world.disk.clear_fault();
    world.let_a_second_pass();
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "0");
    db.resume_background_work();
    db.wait_for_background_work().unwrap();
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "1");
    world.check_rows(&db, 1);
}

/// Failing otherwise than by a full device too often is final, and says why.
#[test]
fn a_device_that_goes_on_failing_makes_the_engine_read_only() {
    let mut world = World::new();
    let db = world.open();
    world.write(&db, 0, true).unwrap();
    let filter = OpFilter { class: Some(OpClass::Write), file: Some(FileKind::Table), ..OpFilter::default() };
    world.disk.set_fault(FaultPlan::sticky(FaultKind::Io, 0).filter(filter));
    assert_eq!(db.flush(&FlushOptions::default()).unwrap_err().kind(), ErrorKind::Io);
    for _ in 0..5 {
        world.let_a_second_pass();
    }
    let error = world.write(&db, 1, false).unwrap_err();
    assert_eq!(cause(&error).kind(), ErrorKind::Io);
    assert!(cause(&error).file().is_some());
    world.check_rows(&db, 2);
    world.disk.clear_fault();
    assert!(db.close().is_err());
    world.check_rows(&world.open(), 2);
}
