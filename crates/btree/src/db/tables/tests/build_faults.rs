//! Every operation of the disk fails once while an index is added: what was taken is given back, and the table goes on.

use super::super::super::tests::{new_disk, open_on, options};
use super::build::with;
use super::build_online::Meanwhile;
use super::{entries, row, rows, stones};
use crate::{Db, DbOptions, ErrorKind};
use siltstone_base::engine::{Durability, TableId, TableSpec};
use siltstone_base::env::sim::{FaultKind, FaultPlan, SimDisk};
use siltstone_base::index_spec::IndexSpec;
use std::sync::Arc;

const ROWS: usize = 160;

/// What a row is, and what it becomes meanwhile: no number is one of another row.
fn value(number: usize, change: usize) -> String {
    format!("k{}{:03}", number % 7, (number * 97 + change) % 1000)
}

/// Changes rows. A change that fails is not made.
fn change(db: &Db, table: TableId) {
    for number in (0..ROWS).step_by(8) {
        let (key, old, new) = (format!("{number:03}"), value(number, 0), value(number, 1));
        let _ = db.update_rows(table, &[(row(&key, &old), row(&key, &new))]);
    }
}

/// So many rows that their entries are merged of several runs.
fn filled(options: &DbOptions) -> (SimDisk, TableId) {
    let disk = new_disk();
    let db = open_on(&disk, options).unwrap();
    let table = db.create_table(&with(1)).unwrap();
    for number in 0..ROWS {
        db.insert(table, &[row(&format!("{number:03}"), &value(number, 0))]).unwrap();
    }
    db.close().unwrap();
    (disk, table)
}

fn check(db: &Db, table: TableId, is_there: bool) {
    assert_eq!((rows(db, table).len(), entries(db, table, 0).len()), (ROWS, ROWS));
    assert_eq!(db.check().unwrap().index_entries, (ROWS * (1 + usize::from(is_there))) as u64);
}

/// Opens the table with the index that is added, or without. Returns whether it is there.
fn open_either(db: &Db, grown: &TableSpec) -> bool {
    match db.open_table(grown) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            db.open_table(&with(1)).unwrap();
            false
        }
    }
}

#[test]
fn every_operation_may_fail_while_an_index_is_added() {
    fail_everywhere(|_, _| {});
}

#[test]
fn every_operation_may_fail_while_an_index_is_added_and_rows_change() {
    fail_everywhere(change);
}

/// `meanwhile` happens while rows are walked over.
fn fail_everywhere(meanwhile: fn(&Db, TableId)) {
    let by_number = IndexSpec::over_columns("by_number", Some(2..5)).unique(true);
    let grown = TableSpec { indexes: vec![stones().indexes.swap_remove(0), by_number.clone()], ..stones() };
    let kinds = [
        FaultKind::Io,
        FaultKind::NoSpace,
        FaultKind::ShortWrite,
        FaultKind::SyncFailsVisible,
        FaultKind::SyncFailsReverted,
    ];
    let mut all_went_on = 0;
    for (durability, kind) in
        [Durability::Os, Durability::Commit].into_iter().flat_map(|of| kinds.map(|kind| (of, kind)))
    {
        let options = options().durability(durability);
        let (filled, table) = filled(&options);
        let (mut failed, mut went_on) = (0, 0);
        for after in 0.. {
            let disk = filled.after_process_death();
            let db = Arc::new(open_on(&disk, &options).unwrap());
            db.open_table(&with(1)).unwrap();
            let before = db.0.spaces.all();
            disk.set_fault(FaultPlan::once(kind, after));
            let changed = Arc::clone(&db);
            let outcome = db.add_index(table, &Meanwhile::index(by_number.clone(), move || meanwhile(&changed, table)));
            let is_hit = !disk.fault_hits().is_empty();
            disk.clear_fault();
            let context = format!("{durability}, {kind:?} after {after}: {outcome:?}");
            if let Err(error) = &outcome {
                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::ReadOnly), "{context}");
                failed += 1;
            }
            let has_failed = outcome.is_err();
            if !has_failed {
                check(&db, table, true);
            } else if db.put("still", "writes").is_ok() {
                went_on += 1;
                assert_eq!(db.0.spaces.all(), before, "{context}");
                check(&db, table, false);
                assert_eq!(db.add_index(table, &by_number).unwrap(), 1);
                check(&db, table, true);
            }
            let dead = disk.after_process_death();
            drop(db);
            let db = open_on(&dead, &options).unwrap();
            let is_there = open_either(&db, &grown);
            check(&db, table, is_there);
            if !is_there {
                assert!(has_failed, "{context}");
                db.add_index(table, &by_number).unwrap();
            }
            check(&db, table, true);
            db.close().unwrap();
            if !is_hit {
                break;
            }
        }
        assert!(failed > 0, "{durability}, {kind:?}");
        all_went_on += went_on;
    }
    assert!(all_went_on > 50, "{all_went_on}");
}
