//! Transactions larger than memory where the machine stops or files fail: all or nothing, and nothing left over.

use super::spill::{check_files, fill, open, value};
use super::{ErrorKind, Isolation, TransactionDb, on, rows};
use crate::{FlushOptions, ReadOptions, Result, WriteOptions};
use siltstone_base::env::sim::{CrashConfig, CrashStates, FaultKind, FaultPlan, SimDisk};
use std::collections::BTreeMap;
use std::path::Path;

/// What all families show.
fn state(db: &TransactionDb) -> Result<Vec<String>> {
    db.db().families().iter().map(|family| Ok(rows(db.db().iter_cf(family, &ReadOptions::default())?))).collect()
}

fn put_third(db: &TransactionDb, key: &str) {
    let third = db.db().family("third").unwrap();
    db.db().put_cf(&third, key, "1", &WriteOptions::default()).unwrap();
}

#[test]
fn a_crash_leaves_all_of_it_or_nothing() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/db")).unwrap();
    let db = open(&disk).unwrap();
    db.put("a00", "base").unwrap();
    db.db().flush(&FlushOptions::default()).unwrap();
    db.put("a01", "in the WAL").unwrap();
    db.db().sync_wal().unwrap();
    disk.start_recording();
    let mut states = vec![state(&db).unwrap()];
    let mut tx = db.begin(&on(Isolation::Snapshot));
    fill(&mut tx, &db, 1);
    let place = tx.savepoint();
    fill(&mut tx, &db, 2);
    tx.rollback_to(place).unwrap();
    // Another family, not synced: it may be lost, but not if what comes after it is there.
    put_third(&db, "before");
    states.push(state(&db).unwrap());
    let begun = disk.recorded();
    tx.commit().unwrap();
    let ended = disk.recorded();
    states.push(state(&db).unwrap());
    put_third(&db, "after");
    states.push(state(&db).unwrap());
    let recording = disk.take_recording();
    disk.power_off();
    let effort = CrashConfig { states_per_cut: 4, random_subsets: 3, tail_cuts: 3, tears: 2, ..CrashConfig::default() };
    let mut seen = [0; 4];
    for crash in CrashStates::new(&recording, effort) {
        let Some(disk) = crash.disk() else { continue };
        let at = format!("crash after change {} ({:?}), {:?}", crash.cut, crash.op, crash.model);
        let db = open(&disk).unwrap_or_else(|error| panic!("{at}: {error}"));
        let found = state(&db).unwrap();
        let index = states.iter().position(|state| *state == found).unwrap_or_else(|| panic!("{at}: {found:?}"));
        seen[index] += 1;
        assert!(index < 2 || crash.cut > begun, "{at}: it is there before it was committed");
        assert!(index >= 2 || crash.cut < ended, "{at}: it is lost");
        check_files(&disk, db.db());
        db.db().check().unwrap();
        // The database goes on.
        db.put("a00", "later").unwrap();
        db.db().flush(&FlushOptions::default()).unwrap();
        let mut tx = db.begin(&on(Isolation::ReadCommitted));
        fill(&mut tx, &db, 3);
        tx.commit().unwrap();
        assert_eq!(db.db().get("a00").unwrap().as_deref(), Some(&value(3)[..]));
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// Rows that a transaction puts.
const ROWS: usize = 60;

fn is_of_other(row: usize) -> bool {
    row.is_multiple_of(3)
}

fn key(row: usize) -> String {
    format!("a{:02}", row * 7 % 50)
}

/// What all families show once all rows are there.
fn all_rows() -> Vec<String> {
    let of = |is_other: bool| {
        let rows = (0..ROWS).filter(|row| is_of_other(*row) == is_other);
        let rows: BTreeMap<_, _> = rows.map(|row| (key(row), value(row as u64))).collect();
        let row = |(key, value): (&String, &Vec<u8>)| format!("{key}={}", String::from_utf8_lossy(value));
        rows.iter().map(row).collect::<Vec<_>>().join(" ")
    };
    vec![of(false), of(true), String::new()]
}

/// Puts a row; after an error the transaction is what it was, and the row can be put again. Returns whether there was one.
fn put(tx: &mut crate::Transaction, db: &TransactionDb, row: usize) -> bool {
    let other = db.db().family("other").unwrap();
    let family = if is_of_other(row) { &other } else { &db.db().default_family() };
    let show = |tx: &crate::Transaction| {
        let read = ReadOptions::default();
        rows(tx.iter().unwrap()) + &rows(tx.iter_cf(&other, &read).unwrap())
    };
    let key = key(row);
    let size = tx.size_bytes();
    let Err(error) = tx.put_cf(family, &key, value(row as u64)) else { return false };
    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace), "{error}");
    assert_eq!(tx.size_bytes(), size);
    let shown = show(tx);
    tx.put_cf(family, &key, value(row as u64)).unwrap();
    assert_ne!(show(tx), shown);
    true
}

#[test]
fn an_error_of_a_file_costs_no_more_than_the_call_or_the_transaction() {
    let kinds = [
        FaultKind::Io,
        FaultKind::NoSpace,
        FaultKind::ShortWrite,
        FaultKind::SyncFailsVisible,
        FaultKind::SyncFailsReverted,
    ];
    let (mut failed_calls, mut failed_commits, mut unharmed) = (0, 0, 0);
    for kind in kinds {
        for after in 0.. {
            let disk = SimDisk::new();
            disk.make_durable_dir(Path::new("/db")).unwrap();
            let db = open(&disk).unwrap();
            db.put("a00", "base").unwrap();
            db.db().sync_wal().unwrap();
            let before = state(&db).unwrap();
            disk.set_fault(FaultPlan::once(kind, after));
            let mut tx = db.begin(&on(Isolation::Snapshot));
            let failed = (0..ROWS).filter(|row| put(&mut tx, &db, *row)).count();
            let outcome = tx.commit();
            let is_hit = !disk.fault_hits().is_empty();
            disk.clear_fault();
            let at = format!("{kind:?} at {after}: {outcome:?}, {:?}", disk.fault_hits());
            let is_there = |db: &TransactionDb| {
                let found = state(db).unwrap();
                let is_there = found == all_rows();
                assert!(is_there || found == before, "{at}: {found:?}");
                is_there
            };
            assert_eq!(is_there(&db), outcome.is_ok(), "{at}");
            assert_eq!(db.lock_stats().locks, 0, "{at}");
            failed_calls += failed;
            failed_commits += usize::from(outcome.is_err());
            unharmed += usize::from(is_hit && failed == 0 && outcome.is_ok());
            let is_read_only = db.db().background_error().is_some();
            if !is_read_only {
                // The same again, after which nobody needs what the failure left.
                let mut tx = db.begin(&on(Isolation::Snapshot));
                fill(&mut tx, &db, 5);
                tx.commit().unwrap_or_else(|error| panic!("{at}: {error}"));
                db.db().flush(&FlushOptions::default()).unwrap();
                db.db().wait_for_background_work().unwrap();
                check_files(&disk, db.db());
                db.db().check().unwrap();
                continue_or_stop(&db);
            }
            let _ = db.close();
            let db = open(&disk).unwrap();
            if is_read_only {
                // Whether it came about is decided now.
                is_there(&db);
            }
            check_files(&disk, db.db());
            db.db().check().unwrap();
            if !is_hit {
                break;
            }
        }
    }
    assert!(failed_calls > 50 && failed_commits > 50, "{failed_calls} {failed_commits} {unharmed}");
}

/// A write behind all that shows that the WAL is sound.
fn continue_or_stop(db: &TransactionDb) {
    db.put("z", "1").unwrap();
    assert!(db.db().get("z").unwrap().is_some());
}
