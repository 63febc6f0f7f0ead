//! A sync that fails is final for its file: what it covered may be lost, whatever a second sync says.

use super::support::{World, cause};
use siltstone::lsm::{ErrorKind, FlushOptions};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter};

const FAILURES: [FaultKind; 3] = [FaultKind::Io, FaultKind::SyncFailsVisible, FaultKind::SyncFailsReverted];

fn syncs_of(file: FileKind) -> OpFilter {
    OpFilter { class: Some(OpClass::Sync), file: Some(file), ..OpFilter::default() }
}

#[test]
fn a_failed_sync_of_the_wal_makes_the_engine_read_only_and_loses_nothing_acknowledged_as_synced() {
    for kind in FAILURES {
        let mut world = World::new();
        let db = world.open();
        for number in 0..10 {
            world.write(&db, number, true).unwrap();
        }
        world.disk.set_fault(FaultPlan::once(kind, 0).filter(syncs_of(FileKind::Wal)));
        let error = world.write(&db, 10, true).unwrap_err();
        assert_eq!((error.kind(), error.file().is_some()), (ErrorKind::Io, true), "{error}");
        // The fault is gone, and no sync may be tried again.
        world.disk.start_trace();
        for number in 11..20 {
            let refused = world.write(&db, number, number % 2 == 0).unwrap_err();
            assert_eq!(cause(&refused).kind(), ErrorKind::Io);
            assert_eq!(cause(&refused).file(), error.file());
        }
        assert_eq!(db.sync_wal().unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(db.flush(&FlushOptions::default()).unwrap_err().kind(), ErrorKind::ReadOnly);
        world.executor.run_until_idle();
        assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Io);
        assert_eq!(world.acknowledged.len(), 10);
        for number in 0..10 {
            assert!(db.get(super::support::key(number)).unwrap().is_some());
        }
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Io);
        let trace = world.disk.take_trace();
        let synced = trace.iter().filter(|op| op.class == OpClass::Sync && op.file == FileKind::Wal).count();
        assert_eq!(synced, 0, "{kind:?}: the WAL was synced after a failed sync");
        // Whatever the failed write became, every synced one is there, also after a loss of power.
        for disk in [world.disk.after_power_loss(), world.disk.clone()] {
            let survivor = World::on(disk);
            let db = survivor.open();
            for number in 0..10 {
                assert!(db.get(super::support::key(number)).unwrap().is_some(), "{kind:?}: row {number} is lost");
            }
            db.check().unwrap();
            db.put("afterwards", "works").unwrap();
        }
    }
}

/// The WAL that a switch closed is synced later, by a commit or a flush. It must not be tried twice either.
#[test]
fn a_failed_sync_of_a_closed_wal_is_final() {
    let mut world = World::new();
    let db = world.open();
    for number in 0..10 {
        world.write(&db, number, false).unwrap();
    }
    world.disk.set_fault(FaultPlan::sticky(FaultKind::SyncFailsVisible, 0).filter(syncs_of(FileKind::Wal)));
    let error = db.flush(&FlushOptions::default()).unwrap_err();
    assert_eq!(cause(&error).kind(), ErrorKind::Io);
    assert_eq!(world.disk.fault_hits().len(), 1);
    world.let_a_second_pass();
    assert!(db.sync_wal().is_err() && world.write(&db, 11, true).is_err());
    assert!(db.close().is_err());
    assert_eq!(world.disk.fault_hits().len(), 1, "a failed sync was tried again");
}

#[test]
fn a_table_or_manifest_whose_sync_failed_is_abandoned_and_written_anew() {
    for file in [FileKind::Table, FileKind::Manifest] {
        for kind in FAILURES {
            let mut world = World::new();
            let db = world.open();
            for number in 0..10 {
                world.write(&db, number, true).unwrap();
            }
            world.disk.set_fault(FaultPlan::once(kind, 0).filter(syncs_of(file)));
            let error = db.flush(&FlushOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            let failed = error.file().unwrap().to_path_buf();
            world.let_a_second_pass();
            world.write(&db, 10, true).unwrap();
            db.wait_for_background_work().unwrap();
            assert!(
                !world.disk.env().exists(&failed).unwrap(),
                "{kind:?}: {} is still used after its sync failed",
                failed.display()
            );
            world.check_rows(&db, 11);
            let survivor =
                World { acknowledged: world.acknowledged.clone(), ..World::on(world.disk.after_power_loss()) };
            let db = survivor.open();
            survivor.check_rows(&db, 11);
            db.check().unwrap();
        }
    }
}
