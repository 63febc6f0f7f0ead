//! Rows and entries in transactions.

use super::super::super::scan::Cursor;
use super::super::read::walk;
use super::{entries, row, rows, small, stones};
use crate::{Db, ErrorKind, Isolation, Result, Transaction, TransactionOptions};
use siltstone_base::engine::TableId;
use std::time::Duration;

fn begin(db: &Db) -> Transaction {
    let options = TransactionOptions::new(Isolation::ReadCommitted).lock_timeout(Duration::from_millis(1));
    db.begin(&options).unwrap()
}

fn seen(transaction: &mut Transaction, table: TableId, index: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |entry: &[u8]| found.push(String::from_utf8_lossy(entry).into_owned());
    transaction.scan_index(table, index, b"", usize::MAX, &mut note).unwrap();
    found
}

fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind()
}

#[test]
fn a_transaction_changes_entries_with_its_rows_and_brings_them_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small().lock_timeout_millis(1)).unwrap();
    let table = db.create_table(&stones()).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
    let mut transaction = begin(&db);
    transaction.insert_row(table, row("c", "se03")).unwrap();
    let savepoint = transaction.savepoint();
    transaction.update_row(table, row("a", "ig09")).unwrap();
    assert!(transaction.delete_row(table, b"b").unwrap() && !transaction.delete_row(table, b"b").unwrap());
    assert_eq!(
        (seen(&mut transaction, table, 0), seen(&mut transaction, table, 1)),
        (vec!["iga".to_owned(), "sec".to_owned()], vec!["03c".to_owned(), "09a".to_owned()],)
    );
    assert_eq!(entries(&db, table, 1), ["01a", "02b"]);
    assert_eq!(kind(transaction.insert_row(table, row("a", "ig05"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(transaction.insert_row(table, row("d", "ig03"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(transaction.update_row(table, row("z", "ig05"))), ErrorKind::NotFound);
    transaction.rollback_to(savepoint).unwrap();
    assert_eq!(seen(&mut transaction, table, 1), ["01a", "02b", "03c"]);
    assert_eq!(transaction.get_row(table, b"c").unwrap().as_deref(), Some(&b"se03"[..]));
    assert_eq!(transaction.get_row_for_update(table, b"a").unwrap().as_deref(), Some(&b"ig01"[..]));
    assert_eq!(kind(db.delete_rows(table, &[row("c", "se03")])), ErrorKind::TimedOut);
    transaction.rollback().unwrap();
    assert_eq!(entries(&db, table, 1), ["01a", "02b"]);
    let report = db.check().unwrap();
    assert_eq!((report.index_entries, report.undo_records), (4, 1));
    let mut transaction = begin(&db);
    transaction.update_row(table, row("a", "ig09")).unwrap();
    transaction.commit().unwrap();
    assert_eq!(
        (rows(&db, table), entries(&db, table, 1)),
        (vec!["a=ig09".to_owned(), "b=me02".to_owned()], vec!["02b".to_owned(), "09a".to_owned()],)
    );
    db.0.settle();
    let report = db.check().unwrap();
    assert_eq!((report.index_entries, report.deleted_rows, report.undo_records), (4, 0, 1));
}

#[test]
fn a_key_of_a_unique_index_belongs_to_one_transaction_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small().lock_timeout_millis(1)).unwrap();
    let table = db.create_table(&stones()).unwrap();
    let (mut first, mut second) = (begin(&db), begin(&db));
    first.insert_row(table, row("a", "ig01")).unwrap();
    assert_eq!(kind(second.insert_row(table, row("b", "ig01"))), ErrorKind::TimedOut);
    assert_eq!(kind(db.insert(table, &[row("b", "ig01")])), ErrorKind::TimedOut);
    // A call that failed keeps no lock.
    db.insert(table, &[row("b", "ig02")]).unwrap();
    first.rollback().unwrap();
    second.insert_row(table, row("c", "ig01")).unwrap();
    second.commit().unwrap();
    // Who takes an entry away has the right to its key until that is certain.
    let (mut first, mut second) = (begin(&db), begin(&db));
    assert!(first.delete_row(table, b"c").unwrap());
    assert_eq!(kind(second.insert_row(table, row("d", "ig01"))), ErrorKind::TimedOut);
    first.prepare("taken").unwrap();
    assert_eq!(kind(second.insert_row(table, row("d", "ig01"))), ErrorKind::TimedOut);
    second.rollback().unwrap();
    drop(db);
    let db = Db::open(dir.path(), &small().lock_timeout_millis(1)).unwrap();
    db.open_table(&stones()).unwrap();
    assert_eq!(kind(db.insert(table, &[row("d", "ig01")])), ErrorKind::TimedOut);
    db.commit_prepared("taken").unwrap();
    db.insert(table, &[row("d", "ig01")]).unwrap();
    assert_eq!(entries(&db, table, 1), ["01d", "02b"]);
    db.check().unwrap();
}

/// An entry is deleted by one transaction and inserted again by the next, while somebody still sees what was before and purge has not come yet.
#[test]
fn an_entry_that_comes_again_before_purge_keeps_its_past() {
    for is_batch in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &small()).unwrap();
        let table = db.create_table(&stones()).unwrap();
        db.insert(table, &[row("a", "ig01")]).unwrap();
        let open = db.0.tables.get(table).unwrap();
        let shown = |view: &super::super::super::transactions::View| {
            let mut cursor = Cursor::with_view(&db.0, open.index(0).unwrap(), view.again()).unwrap();
            walk(&mut cursor, b"", 9, &mut |_, _| ()).unwrap()
        };
        let with = db.0.view(0, 0);
        let mut transaction = begin(&db);
        assert!(transaction.delete_row(table, b"a").unwrap());
        transaction.commit().unwrap();
        let without = db.0.view(0, 0);
        let mut transaction = begin(&db);
        if is_batch {
            db.insert(table, &[row("a", "ig01")]).unwrap();
        } else {
            transaction.insert_row(table, row("a", "ig01")).unwrap();
        }
        assert_eq!((shown(&with), shown(&without)), (1, 0));
        // Purge of the first change must not take what the second one made.
        drop(with);
        db.0.settle();
        assert_eq!(shown(&without), 0);
        if is_batch {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
        assert_eq!(shown(&without), 0);
        drop(without);
        db.0.settle();
        assert_eq!(entries(&db, table, 0).len(), usize::from(is_batch));
        let report = db.check().unwrap();
        assert_eq!((report.deleted_rows, report.undo_records), (0, 1));
    }
}

#[test]
fn what_a_crash_cut_off_is_undone_with_its_entries() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let table = db.create_table(&stones()).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
    let mut transaction = begin(&db);
    transaction.update_row(table, row("a", "ig07")).unwrap();
    assert!(transaction.delete_row(table, b"b").unwrap());
    transaction.insert_row(table, row("b", "se02")).unwrap();
    transaction.insert_row(table, row("c", "se03")).unwrap();
    std::mem::forget(transaction);
    // The state stays in memory, as that of a process that hangs; the files are another one's now.
    db.sync().unwrap();
    *db.0.lock.lock() = None;
    let db = Db::open(dir.path(), &small()).unwrap();
    db.open_table(&stones()).unwrap();
    assert_eq!(
        (rows(&db, table), entries(&db, table, 0)),
        (vec!["a=ig01".to_owned(), "b=me02".to_owned()], vec!["iga".to_owned(), "meb".to_owned()],)
    );
    db.0.settle();
    let report = db.check().unwrap();
    assert_eq!((report.index_entries, report.deleted_rows, report.undo_records), (4, 0, 1));
    db.insert(table, &[row("c", "se07")]).unwrap();
    assert_eq!(entries(&db, table, 1), ["01a", "02b", "07c"]);
    db.close().unwrap();
}

/// Otherwise his stamp and the other one's lock would both be the right to the key, and the other would ask for it for ever.
#[test]
fn deleting_a_row_must_wait_for_who_has_the_right_to_its_unique_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small().lock_timeout_millis(1)).unwrap();
    let table = db.create_table(&stones()).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "ig02")]).unwrap();
    let other = begin(&db);
    let open = db.0.tables.get(table).unwrap();
    db.0.lock_key_from(db.0.writer.lock(), other.id(), open.index(1).unwrap(), b"01", None).unwrap();
    let mut transaction = begin(&db);
    assert_eq!(kind(transaction.delete_row(table, b"a")), ErrorKind::TimedOut);
    assert_eq!(kind(transaction.update_row(table, row("a", "ig07"))), ErrorKind::TimedOut);
    assert_eq!(kind(db.delete_rows(table, &[row("a", "ig01")])), ErrorKind::TimedOut);
    assert!(transaction.delete_row(table, b"b").unwrap());
    other.rollback().unwrap();
    assert!(transaction.delete_row(table, b"a").unwrap());
    transaction.commit().unwrap();
    assert!(rows(&db, table).is_empty());
    db.check().unwrap();
}

#[test]
fn who_looks_at_a_row_may_write_to_its_leaf() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let table = db.create_table(&stones()).unwrap();
    db.insert(table, &[row("a", "ig01")]).unwrap();
    let mut seen = Vec::new();
    let found = db.get_row(table, b"a", &mut |value| {
        seen = value.to_vec();
        db.update_rows(table, &[(row("a", "ig01"), row("a", "ig02"))]).unwrap();
    });
    assert!(found.unwrap());
    assert_eq!((seen.as_slice(), entries(&db, table, 1)), (&b"ig01"[..], vec!["02a".to_owned()]));
}
