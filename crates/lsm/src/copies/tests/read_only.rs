//! Opening for reading beside a writer.

use super::super::attempts::open_at;
use super::super::moment;
use super::*;
use crate::{ErrorKind, WalRecoveryMode};
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter};
use siltstone_base::env::{DeviceModel, FileKind, ThrottledEnv};

/// Tables may be deleted between opening and the first read; what can be read is a prefix of what was written, with all that had been written before.
#[test]
fn opening_for_reading_beside_a_writer_misses_nothing_that_was_written_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small(DbOptions::default());
    // Nothing but flushes: tables stay, and WALs go.
    options.unnamed_families = options.unnamed_families.disable_auto_compactions(true).write_buffer_size(64 << 10);
    let db = Db::open(dir.path(), &options).unwrap();
    beside_a_paced_writer(&db, |writer| {
        for round in 1..=30 {
            writer.wait_for(round * 300);
            let before = db.latest_seqno();
            let reader = Db::open_read_only(dir.path(), &options, &[]).unwrap();
            let seqno = reader.latest_seqno();
            assert!(seqno >= before, "what was written before is seen: {seqno} of {before}");
            assert!(rows(&reader) == rows_up_to(seqno / 2), "the view of {seqno}");
        }
    });
    db.close().unwrap();
}

/// What is just being written ends within a record. Whoever wants every WAL to be whole means what a crash left.
#[test]
fn opening_for_reading_beside_a_writer_of_large_rows_meets_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small(DbOptions::default()).wal_recovery_mode(WalRecoveryMode::AbsoluteConsistency);
    options.unnamed_families = options.unnamed_families.disable_auto_compactions(true).write_buffer_size(1 << 20);
    let db = Db::open(dir.path(), &options).unwrap();
    let (stop, value) = (AtomicBool::new(false), vec![7_u8; 20_000]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u64;
            while !stop.load(Ordering::Acquire) {
                db.put(number.to_be_bytes(), &value).unwrap();
                number += 1;
            }
        });
        let _stop = StopAtEnd(&stop);
        for _ in 0..40 {
            let before = db.latest_seqno();
            let reader = Db::open_read_only(dir.path(), &options, &[]).unwrap();
            assert!(reader.latest_seqno() >= before);
        }
    });
    db.close().unwrap();
}

/// Where nobody goes on writing, a WAL that ends within a record is what a crash left.
#[test]
fn a_wal_that_is_being_written_is_looked_at_again_and_one_that_a_crash_cut_is_damaged() {
    let disk = SimDisk::new();
    let options = simulated(&disk).wal_recovery_mode(WalRecoveryMode::AbsoluteConsistency);
    let db = Db::open("/db", &options).unwrap();
    db.put("a", "1").unwrap();
    let filter = OpFilter { class: Some(OpClass::Write), file: Some(FileKind::Wal), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::ShortWrite, 0).filter(filter));
    assert!(db.put("refused", "x".repeat(100)).is_err());
    let (dir, env) = (Path::new("/db"), disk.env());
    let cut = moment::now(dir, &env).unwrap();
    assert_eq!(Db::open_read_only(dir, &options, &[]).unwrap_err().kind(), ErrorKind::Corruption);
    db.put("b", "2").unwrap();
    let mut attempts = Vec::new();
    let opened = open_at(dir, &env, cut, |moment, is_later| {
        attempts.push(is_later);
        Db::open_read_only_in_place(dir, &options.clone().env(Some(moment)), &[])
    });
    let (reader, _) = opened.unwrap();
    assert_eq!(attempts, [false, true]);
    assert_eq!(reader.get("b").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(reader.get("refused").unwrap(), None);
    db.close().unwrap();
}

/// The MANIFEST that CURRENT named is gone as soon as there is another one.
#[test]
fn families_are_listed_beside_a_writer_that_replaces_the_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true).max_manifest_file_size(1);
    let db = Db::open(dir.path(), &options).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                let family = db.create_family(OTHER, &ColumnFamilyOptions::default()).unwrap();
                db.drop_family(&family).unwrap();
            }
        });
        let _stop = StopAtEnd(&stop);
        for _ in 0..300 {
            let names = Db::list_column_families(dir.path(), &options).unwrap();
            assert!(names.iter().any(|name| name == "default"), "{names:?}");
        }
    });
    db.close().unwrap();
}

#[test]
fn a_database_that_is_open_for_reading_is_on_the_device_that_it_was_given() {
    let disk = SimDisk::new();
    Db::open("/db", &simulated(&disk)).unwrap().close().unwrap();
    let throttled = ThrottledEnv::new(disk.env(), DeviceModel::fast_ssd(), Arc::new(ManualClock::new(0)));
    let options = simulated(&disk).env(Some(Arc::new(throttled)));
    let reader = Db::open_read_only("/db", &options, &[]).unwrap();
    assert!(reader.env().as_throttled().is_some());
}
