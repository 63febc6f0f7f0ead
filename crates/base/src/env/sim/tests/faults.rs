//! Operations that fail as planned.

use super::{WAL, bytes, create, disk, durable_file, path};
use crate::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use crate::env::{Env, FileKind, FileOptions};
use std::io;
use std::path::Path;

/// Creates a file and appends to it three times, syncing each time; returns how many appends were acknowledged.
fn workload(disk: &SimDisk) -> (usize, io::Result<()>) {
    let mut acknowledged = 0;
    let mut run = || {
        let mut file = disk.create_append(&path("a"), &FileOptions::new(FileKind::Wal))?;
        disk.sync_dir(Path::new("/db"))?;
        for _ in 0..3 {
            file.append(b"0123456789", WAL)?;
            file.sync_data(WAL)?;
            acknowledged += 1;
        }
        file.finish()
    };
    let result = run();
    (acknowledged, result)
}

#[test]
fn a_sweep_reaches_every_operation_once() {
    for (kind, expected) in [
        (FaultKind::Io, 9),
        (FaultKind::NoSpace, 8),
        (FaultKind::ShortWrite, 3),
        (FaultKind::SyncFailsVisible, 3),
        (FaultKind::SyncLies, 3),
    ] {
        let mut reached = 0;
        loop {
            let disk = disk();
            disk.set_fault(FaultPlan::once(kind, reached));
            let (acknowledged, result) = workload(&disk);
            if disk.fault_hits().is_empty() {
                assert!(result.is_ok());
                break;
            }
            assert_eq!(disk.fault_hits().len(), 1);
            assert_eq!(result.is_ok(), kind == FaultKind::SyncLies);
            let durable = bytes(&disk.after_power_loss(), "a").map_or(0, |bytes| bytes.len());
            let is_kept = durable >= acknowledged * 10;
            // The first two lies are made good by the honest sync that follows.
            assert_eq!(is_kept, kind != FaultKind::SyncLies || reached < 2, "{kind:?} at {reached}");
            reached += 1;
        }
        assert_eq!(reached, expected, "{kind:?}");
    }
}

#[test]
fn filters_pick_the_operation() {
    let disk = disk();
    disk.start_trace();
    let filter =
        OpFilter { class: Some(OpClass::Sync), file: Some(FileKind::Wal), phase: Some("late"), ..OpFilter::default() };
    disk.set_fault(FaultPlan::sticky(FaultKind::Io, 1).filter(filter));
    let mut file = create(&disk, "a");
    file.sync_data(WAL).unwrap();
    disk.set_phase("late");
    file.sync_data(WAL).unwrap();
    assert!(file.sync_data(WAL).is_err() && file.sync_data(WAL).is_err());
    file.append(b"x", WAL).unwrap();
    disk.clear_fault();
    file.sync_data(WAL).unwrap();
    let classes: Vec<OpClass> = disk.take_trace().iter().map(|op| op.class).collect();
    let sync = OpClass::Sync;
    assert_eq!(classes, [OpClass::Create, sync, sync, sync, sync, OpClass::Write, sync]);
    assert_eq!(disk.fault_hits().len(), 2);
}

#[test]
fn a_short_write_leaves_half_of_it() {
    let disk = disk();
    durable_file(&disk, "a", b"");
    let mut file = disk.open_append(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
    disk.set_fault(FaultPlan::once(FaultKind::ShortWriteNoSpace, 0));
    assert_eq!(file.append(b"12345678", WAL).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(bytes(&disk, "a").unwrap(), b"1234");
}

#[test]
fn a_failed_sync_is_not_repaired_by_the_next_one() {
    let sync_filter = OpFilter { class: Some(OpClass::Sync), ..OpFilter::default() };
    for (kind, visible) in
        [(FaultKind::SyncFailsVisible, "first-second"), (FaultKind::SyncFailsReverted, "first\0\0\0\0\0\0\0")]
    {
        let disk = disk();
        durable_file(&disk, "a", b"first");
        let mut file = disk.open_append(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
        file.append(b"-second", WAL).unwrap();
        disk.set_fault(FaultPlan::once(kind, 0).filter(sync_filter));
        file.sync_data(WAL).unwrap_err();
        assert_eq!(bytes(&disk, "a").unwrap(), visible.as_bytes(), "{kind:?}");
        file.sync_data(WAL).unwrap();
        assert_eq!(bytes(&disk.after_power_loss(), "a").unwrap(), b"first\0\0\0\0\0\0\0", "{kind:?}");
        // Writing the block again makes all of it durable.
        file.append(b"!", WAL).unwrap();
        file.sync_data(WAL).unwrap();
        let expected = format!("{visible}!");
        assert_eq!(bytes(&disk.after_power_loss(), "a").unwrap(), expected.as_bytes(), "{kind:?}");
    }
}

#[test]
fn a_failed_write_back_is_told_at_the_next_sync() {
    let disk = disk();
    durable_file(&disk, "a", b"");
    let mut file = disk.open_append(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
    disk.set_fault(FaultPlan::once(FaultKind::WriteBackFails, 0));
    file.append(&[1; 5000], WAL).unwrap();
    file.sync_data(WAL).unwrap_err();
    file.sync_data(WAL).unwrap();
    assert_eq!(bytes(&disk.after_power_loss(), "a").unwrap(), [0; 5000]);
}

#[test]
fn a_full_disk_refuses_new_pages_until_something_is_removed() {
    let disk = disk();
    durable_file(&disk, "a", &[1; 8192]);
    disk.set_capacity(Some(8192));
    let mut file = create(&disk, "b");
    assert_eq!(file.append(b"x", WAL).unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.remove_file(&path("a")).unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    file.append(b"x", WAL).unwrap();
}

#[test]
fn nothing_happens_after_power_off() {
    let disk = disk();
    durable_file(&disk, "a", b"a");
    let mut file = disk.open_append(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
    let before = disk.image_hash();
    disk.power_off();
    assert!(file.append(b"x", WAL).is_err());
    assert!(disk.remove_file(&path("a")).is_err());
    assert_eq!(disk.image_hash(), before);
}
