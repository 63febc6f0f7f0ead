//! Leaves of an index that cannot be read for a while.

use super::super::super::tests::{new_disk, open_on, options};
use super::row;
use crate::{ChangeBuffering, Counter, Db, ErrorKind, TransactionOptions};
use siltstone_base::engine::{TableId, TableSpec};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::index_spec::IndexSpec;

fn key(number: u32) -> String {
    format!("{number:05}")
}

fn value(number: u32) -> String {
    format!("{:04}", number * 7919 % 10_000)
}

/// Does something while no page can be read, and returns what it was refused with.
fn refused(disk: &SimDisk, change: impl FnOnce() -> siltstone_base::Result<()>) -> ErrorKind {
    let reads = OpFilter { class: Some(OpClass::Read), file: Some(FileKind::Page), ..OpFilter::default() };
    disk.set_fault(FaultPlan::sticky(FaultKind::Io, 0).filter(reads));
    let outcome = change();
    disk.clear_fault();
    outcome.unwrap_err().kind()
}

fn filled(disk: &SimDisk, mode: ChangeBuffering) -> (Db, TableId) {
    let db = open_on(disk, &options().change_buffering(mode).redo_capacity_bytes(1 << 20).buffer_pool_bytes(200 * 512))
        .unwrap();
    let indexes = vec![IndexSpec::over_columns("by_number", Some(0..4))];
    let table = db.create_table(&TableSpec { name: "stones".to_owned(), indexes }).unwrap();
    for number in (0..6_000).step_by(2) {
        db.insert(table, &[row(&key(number), &value(number))]).unwrap();
    }
    db.merge_changes().unwrap();
    db.flush().unwrap();
    (db, table)
}

/// An entry waits for its leaf, and the batch is refused because of another row. What would lead back from the entry cannot wait in this mode, or in a leaf that is full.
#[test]
fn a_refused_batch_stops_no_writer_though_a_leaf_of_the_index_cannot_be_read() {
    for mode in [ChangeBuffering::Inserts, ChangeBuffering::Changes, ChangeBuffering::All] {
        let disk = new_disk();
        let (db, table) = filled(&disk, mode);
        let count = |counter| db.metrics().get(counter);
        let (kept, taken_back) = (count(Counter::ChangeBufferOps), count(Counter::ChangeBufferDiscarded));
        for number in (0..5_900).step_by(118) {
            // The leaf of the rows is in memory then.
            assert!(db.get_row(table, key(number).as_bytes(), &mut |_| {}).unwrap());
            let (there, missing) = (key(number), key(number + 1));
            // And what leads to leaves of the index, but hardly the one that is wanted.
            let elsewhere = value(number + 2_501);
            db.insert(table, &[row(&missing, &elsewhere)]).unwrap();
            db.delete_rows(table, &[row(&missing, &elsewhere)]).unwrap();
            let (its_value, other) = (value(number), value(number + 1));
            let kind = refused(&disk, || db.insert(table, &[row(&missing, &other), row(&there, "0000")]));
            assert!([ErrorKind::AlreadyExists, ErrorKind::Io].contains(&kind), "{mode:?}: {kind:?}");
            let kind = refused(&disk, || db.delete_rows(table, &[row(&there, &its_value), row(&missing, &other)]));
            assert!([ErrorKind::NotFound, ErrorKind::Io].contains(&kind), "{mode:?}: {kind:?}");
            db.put("writable", "yes").unwrap();
        }
        assert!(count(Counter::ChangeBufferOps) > kept, "{mode:?}: nothing waited");
        assert!(count(Counter::ChangeBufferDiscarded) > taken_back, "{mode:?}: nothing was taken back");
        assert_eq!(db.check().unwrap().index_entries, 3_000);
        db.merge_changes().unwrap();
        assert_eq!(db.check().unwrap().index_entries, 3_000);
        db.close().unwrap();
    }
}

/// What leads back from the second change of an entry is the first one once more: as it waits, it is not taken for the first one when that is undone.
#[test]
fn what_leads_back_from_a_change_is_not_taken_for_the_one_before() {
    let disk = new_disk();
    let (db, table) = filled(&disk, ChangeBuffering::All);
    let kept = || db.metrics().get(Counter::ChangeBufferOps);
    let mut waited = 0;
    for number in (0..5_900).step_by(118) {
        let (missing, its_value) = (key(number + 1), value(number + 1));
        let mut transaction = db.begin(&TransactionOptions::default()).unwrap();
        transaction.insert_row(table, row(&missing, &its_value)).unwrap();
        assert!(transaction.delete_row(table, missing.as_bytes()).unwrap());
        // Most leaves leave the pool.
        db.flush().unwrap();
        for other in (0..6_000).step_by(2) {
            assert!(db.get_row(table, key(other).as_bytes(), &mut |_| {}).unwrap());
        }
        let before = kept();
        transaction.rollback().unwrap();
        waited += kept() - before;
    }
    assert!(waited > 0, "nothing that leads back waited");
    db.merge_changes().unwrap();
    let report = db.check().unwrap();
    assert_eq!((report.index_entries, report.deleted_rows), (3_000, 0));
    db.close().unwrap();
}

/// Purge is kept from it by a view until the leaves have left the pool. In this mode it has to read them.
#[test]
fn a_deleted_row_must_not_stay_for_ever_because_purge_once_failed_to_read_its_leaf() {
    let disk = new_disk();
    let (db, table) = filled(&disk, ChangeBuffering::Inserts);
    let mut view = db.begin(&TransactionOptions::default()).unwrap();
    assert!(view.get_row(table, key(0).as_bytes()).unwrap().is_some());
    for number in (0..5_900).step_by(118) {
        let mut transaction = db.begin(&TransactionOptions::default()).unwrap();
        assert!(transaction.delete_row(table, key(number).as_bytes()).unwrap());
        transaction.commit().unwrap();
    }
    db.flush().unwrap();
    for other in (1..6_000).step_by(2) {
        assert!(!db.get_row(table, key(other).as_bytes(), &mut |_| {}).unwrap());
    }
    refused(&disk, || {
        drop(view);
        db.0.settle();
        db.last_transaction_error().map_or(Ok(()), Err)
    });
    db.0.settle();
    let report = db.check().unwrap();
    assert_eq!((report.index_entries, report.deleted_rows, db.history_len()), (2_950, 0, 0));
    db.close().unwrap();
}

/// Leaves lie one behind the other: what waited for those behind the first one that could not be read waited on, whoever merged.
#[test]
fn a_leaf_that_cannot_be_read_keeps_no_change_of_another_waiting() {
    let disk = new_disk();
    let (db, table) = filled(&disk, ChangeBuffering::All);
    for number in (0..5_900).step_by(20) {
        // Leaves of the index are brought in by nobody.
        for other in (0..6_000).step_by(60) {
            assert!(db.get_row(table, key(other).as_bytes(), &mut |_| {}).unwrap());
        }
        db.insert(table, &[row(&key(number + 1), &value(number + 1))]).unwrap();
    }
    let merges = || db.metrics().get(Counter::ChangeBufferMerges);
    let reads = OpFilter { class: Some(OpClass::Read), file: Some(FileKind::Page), ..OpFilter::default() };
    db.flush().unwrap();
    let before = merges();
    disk.set_fault(FaultPlan::once(FaultKind::Io, 0).filter(reads));
    let met = db.merge_changes();
    assert_eq!(disk.fault_hits().len(), 1);
    disk.clear_fault();
    assert_eq!(met.unwrap_err().kind(), ErrorKind::Io);
    let merged = merges() - before;
    assert!(merged > 10, "{merged} leaves");
    db.merge_changes().unwrap();
    assert!(merges() - before - merged <= 1, "one leaf was left");
    assert_eq!(db.check().unwrap().index_entries, 3_295);
    db.close().unwrap();
}
