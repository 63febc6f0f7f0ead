//! What others do while an index is added or dropped: extractors act in the midst of it, so that nothing depends on time.

use super::build::{spaces, with};
use super::{entries, row, rows, small, stones};
use crate::{Db, Durability, ErrorKind, Isolation, KvCursor, Result, Transaction, TransactionOptions};
use siltstone_base::engine::{RowChange, Savepoint, TableId, TableSpec};
use siltstone_base::index_spec::{IndexExtractor, IndexSpec};
use siltstone_base::sync::{Mutex, Rank};
use std::sync::Arc;
use std::time::Duration;

fn begin(db: &Db, level: Isolation) -> Transaction {
    db.begin(&TransactionOptions::new(level).lock_timeout(Duration::from_millis(1))).unwrap()
}

fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind()
}

fn seen(transaction: &mut Transaction, table: TableId, index: usize) -> Result<usize> {
    transaction.scan_index(table, index, b"", usize::MAX, &mut |_| {})
}

type Act = Box<dyn FnOnce() + Send>;

/// Sorts by the whole value; does something once, before it looks at a row.
struct Acting(Mutex<Option<Act>>);

impl std::fmt::Debug for Acting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acting")
    }
}

impl IndexExtractor for Acting {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let act = self.0.lock().take();
        act.into_iter().for_each(|act| act());
        index_key.extend_from_slice(value);
        true
    }
}

fn acting() -> (Arc<Acting>, IndexSpec) {
    // It is asked under the lock of writers, too.
    let extractor = Arc::new(Acting(Mutex::new(Rank(155), None)));
    let index = IndexSpec::new("acting", Arc::<Acting>::clone(&extractor));
    (extractor, index)
}

#[test]
fn rows_are_read_and_change_while_an_index_is_added() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(Db::open(dir.path(), &small()).unwrap());
    let table = db.create_table(&with(1)).unwrap();
    let other = db.create_table(&TableSpec { name: "other".to_owned(), ..with(1) }).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02"), row("d", "ig04")]).unwrap();
    let (extractor, index) = acting();
    let looked = Arc::new(Mutex::new(Rank(1), 0));
    let act: Act = {
        let (db, looked, index) = (Arc::clone(&db), Arc::clone(&looked), index.clone());
        Box::new(move || {
            assert_eq!((rows(&db, table).len(), entries(&db, table, 0).len()), (3, 3));
            assert!(db.get_row(table, b"a", &mut |_| ()).unwrap());
            assert_eq!(kind(db.scan_index(table, 1, b"", 9, &mut |_| {})), ErrorKind::NotFound);
            db.insert(table, &[row("c", "se03")]).unwrap();
            db.update_rows(table, &[(row("a", "ig01"), row("a", "ig09"))]).unwrap();
            let both = [(other, RowChange::Insert(row("y", "k"))), (table, RowChange::Delete(row("d", "ig04")))];
            db.commit_rows(&both).unwrap();
            let mut transaction = begin(&db, Isolation::ReadCommitted);
            transaction.insert_row(table, row("e", "se05")).unwrap();
            assert!(transaction.delete_row(table, b"b").unwrap());
            transaction.insert_row(other, row("z", "k")).unwrap();
            transaction.commit().unwrap();
            let mut undone = begin(&db, Isolation::ReadCommitted);
            undone.update_row(table, row("a", "ig10")).unwrap();
            undone.rollback().unwrap();
            assert_eq!(kind(db.add_index(table, &index)), ErrorKind::Busy);
            assert_eq!(kind(db.drop_index(table, "by_kind")), ErrorKind::Busy);
            assert_eq!(kind(db.drop_table(table)), ErrorKind::Busy);
            assert_eq!(db.open_table(&with(1)).unwrap(), table);
            db.check().unwrap();
            *looked.lock() += 1;
        })
    };
    *extractor.0.lock() = Some(act);
    assert_eq!(db.add_index(table, &index).unwrap(), 1);
    assert_eq!(*looked.lock(), 1, "it was looked meanwhile");
    assert_eq!(entries(&db, table, 1), ["ig09a", "se03c", "se05e"]);
    assert_eq!((rows(&db, other).len(), db.check().unwrap().index_entries), (2, 6));
    db.insert(table, &[row("f", "se06")]).unwrap();
    assert_eq!(entries(&db, table, 1), ["ig09a", "se03c", "se05e", "se06f"]);
    db.close().unwrap();
}

/// What is given back then must not be written to a directory that somebody else may have opened.
#[test]
fn closing_the_database_while_an_index_is_added_must_not_touch_the_directory_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(Db::open(dir.path(), &small().buffer_pool_bytes(32 << 10)).unwrap());
    let table = db.create_table(&with(0)).unwrap();
    for number in 0..400 {
        db.insert(table, &[row(&format!("{number:04}"), "ig01")]).unwrap();
    }
    let (extractor, index) = acting();
    let closing = Arc::clone(&db);
    *extractor.0.lock() = Some(Box::new(move || closing.close().unwrap()));
    assert_eq!(kind(db.add_index(table, &index)), ErrorKind::Aborted);
    let other = Db::open(dir.path(), &small()).unwrap();
    assert_eq!((other.startup_report().redo_bytes, spaces(&other).0.len()), (0, 5));
    assert_eq!(other.open_table(&with(0)).unwrap(), table);
    assert_eq!(other.add_index(table, &index).unwrap(), 0);
    assert_eq!(other.check().unwrap().index_entries, 400);
    other.close().unwrap();
}

/// Otherwise a row would come without its entry in the new index, or with one in an index that is gone.
#[test]
fn changes_that_were_planned_before_are_planned_anew() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(Db::open(dir.path(), &small()).unwrap());
    let (extractor, index) = acting();
    let table = db.create_table(&TableSpec { indexes: vec![index], ..with(0) }).unwrap();
    db.insert(table, &[row("a", "ig01")]).unwrap();
    let act = |what: fn(&Db, TableId)| -> Act {
        let db = Arc::clone(&db);
        Box::new(move || what(&db, table))
    };
    // While the first index is asked about the new row.
    *extractor.0.lock() = Some(act(|db, table| assert_eq!(db.add_index(table, &stones().indexes[0]).unwrap(), 1)));
    db.insert(table, &[row("b", "me02")]).unwrap();
    assert_eq!(entries(&db, table, 1), ["iga", "meb"]);
    *extractor.0.lock() = Some(act(|db, table| assert_eq!(db.add_index(table, &stones().indexes[1]).unwrap(), 2)));
    assert_eq!(kind(db.insert(table, &[row("c", "se02")])), ErrorKind::AlreadyExists, "it is unique by now");
    *extractor.0.lock() = Some(act(|db, table| db.drop_index(table, "by_number").unwrap()));
    let changes = [(table, RowChange::Insert(row("c", "se02"))), (table, RowChange::Delete(row("a", "ig01")))];
    db.commit_rows(&changes).unwrap();
    *extractor.0.lock() = Some(act(|db, table| db.drop_index(table, "acting").unwrap()));
    db.insert(table, &[row("d", "se04")]).unwrap();
    assert_eq!(entries(&db, table, 0), ["meb", "sec", "sed"]);
    assert_eq!(db.check().unwrap().index_entries, 3);
    db.close().unwrap();
}

#[test]
fn transactions_that_changed_the_table_are_waited_for_and_others_are_not() {
    for durability in [Durability::Os, Durability::Commit] {
        let dir = tempfile::tempdir().unwrap();
        let options = small().lock_timeout_millis(1).durability(durability);
        let db = Db::open(dir.path(), &options).unwrap();
        let table = db.create_table(&with(0)).unwrap();
        let other = db.create_table(&TableSpec { name: "other".to_owned(), ..with(0) }).unwrap();
        db.insert(table, &[row("a", "ig01")]).unwrap();
        let before = spaces(&db);
        let add = |index: usize| db.add_index(table, &stones().indexes[index]);
        let mut changer = begin(&db, Isolation::ReadCommitted);
        // More than are read at a time, and the one that matters is the last.
        for number in 0..200 {
            changer.insert_row(other, row(&format!("{number}"), "k")).unwrap();
        }
        changer.insert_row(table, row("b", "me02")).unwrap();
        let mut bystander = begin(&db, Isolation::ReadCommitted);
        bystander.insert_row(other, row("bystander", "k")).unwrap();
        bystander.get_row_for_update(table, b"a").unwrap();
        assert_eq!(kind(add(0)), ErrorKind::TimedOut);
        assert_eq!(spaces(&db), before);
        changer.update_row(table, row("b", "me03")).unwrap();
        changer.commit().unwrap();
        assert_eq!(add(0).unwrap(), 0);
        assert_eq!(entries(&db, table, 0), ["iga", "meb"]);
        // One that goes on behind it knows the index.
        bystander.update_row(table, row("a", "se01")).unwrap();
        bystander.prepare("bystander").unwrap();
        assert_eq!(kind(add(1)), ErrorKind::TimedOut);
        db.rollback_prepared("bystander").unwrap();
        let mut undone = begin(&db, Isolation::ReadCommitted);
        let savepoint = undone.savepoint();
        undone.delete_row(table, b"a").unwrap();
        assert_eq!(kind(add(1)), ErrorKind::TimedOut);
        undone.rollback_to(savepoint).unwrap();
        assert_eq!(add(1).unwrap(), 1);
        undone.insert_row(table, row("c", "se07")).unwrap();
        assert_eq!(seen(&mut undone, table, 1).unwrap(), 3);
        undone.rollback().unwrap();
        assert_eq!(
            (entries(&db, table, 0).join(" "), entries(&db, table, 1).join(" ")),
            ("iga meb".into(), "01a 03b".into())
        );
        db.0.settle();
        assert_eq!(db.check().unwrap().index_entries, 4);
        db.close().unwrap();
    }
}

/// Otherwise who adds an index would wait for somebody who can't go on.
#[test]
fn a_transaction_that_is_waited_for_goes_on_changing_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small().lock_timeout_millis(600_000)).unwrap();
    let table = db.create_table(&with(1)).unwrap();
    let (mut changer, mut other) = (begin(&db, Isolation::ReadCommitted), begin(&db, Isolation::ReadCommitted));
    changer.insert_row(table, row("a", "ig01")).unwrap();
    other.insert_row(table, row("b", "me02")).unwrap();
    other.rollback_to(Savepoint(0)).unwrap();
    let open = db.0.tables.get(table).unwrap();
    open.table.standing.set_held();
    changer.update_row(table, row("a", "se03")).unwrap();
    // It has nothing to undo, and nobody waits for it.
    assert_eq!(kind(other.insert_row(table, row("b", "me02"))), ErrorKind::Busy);
    open.table.standing.end_building();
    std::thread::scope(|scope| {
        let db = &db;
        let adding = scope.spawn(move || db.add_index(table, &stones().indexes[1]));
        // Whether it is waited for by now or not.
        for number in 0..50 {
            changer.insert_row(table, row(&format!("c{number:02}"), &format!("ig{:02}", number + 10))).unwrap();
        }
        changer.commit().unwrap();
        assert_eq!(adding.join().unwrap().unwrap(), 1);
    });
    other.insert_row(table, row("b", "me02")).unwrap();
    other.commit().unwrap();
    assert_eq!((entries(&db, table, 0).len(), entries(&db, table, 1).len()), (52, 52));
    db.check().unwrap();
    db.close().unwrap();
}

#[test]
fn who_waits_for_a_transaction_goes_on_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small().lock_timeout_millis(600_000)).unwrap();
    let table = db.create_table(&with(0)).unwrap();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        let mut transaction = begin(&db, Isolation::ReadCommitted);
        transaction.insert_row(table, row(name, "ig01")).unwrap();
        std::thread::scope(|scope| {
            let index = IndexSpec::over_columns(name, Some(0..2));
            let db = &db;
            let adding = scope.spawn(move || db.add_index(table, &index));
            match number {
                0 => transaction.commit().unwrap(),
                1 => transaction.rollback().unwrap(),
                // In the background.
                _ => drop(transaction),
            }
            assert_eq!(adding.join().unwrap().unwrap(), number);
        });
        assert_eq!(entries(&db, table, number), ["iga"]);
    }
    db.check().unwrap();
}

#[test]
fn what_a_crash_cut_off_is_undone_before_an_index_is_added() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let table = db.create_table(&with(0)).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
    let mut transaction = begin(&db, Isolation::ReadCommitted);
    transaction.update_row(table, row("a", "se09")).unwrap();
    transaction.delete_row(table, b"b").unwrap();
    std::mem::forget(transaction);
    db.sync().unwrap();
    *db.0.lock.lock() = None;
    let db = Db::open(dir.path(), &small()).unwrap();
    db.open_table(&with(0)).unwrap();
    db.add_index(table, &stones().indexes[0]).unwrap();
    assert_eq!(entries(&db, table, 0), ["iga", "meb"]);
    db.0.settle();
    assert_eq!(db.check().unwrap().index_entries, 2);
    db.close().unwrap();
}

#[test]
fn who_sees_an_older_moment_does_not_see_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let table = db.create_table(&with(1)).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
    let mut before = begin(&db, Isolation::Snapshot);
    let mut current = begin(&db, Isolation::ReadCommitted);
    db.delete_rows(table, &[row("b", "me02")]).unwrap();
    let open = db.0.tables.get(table).unwrap();
    let mut cursor = super::super::super::scan::Cursor::new(&db.0, &open.table.rows).unwrap();
    assert!(cursor.seek_to_first().unwrap());
    db.add_index(table, &stones().indexes[1]).unwrap();
    assert_eq!(kind(seen(&mut before, table, 1)), ErrorKind::Busy);
    assert_eq!((seen(&mut before, table, 0).unwrap(), before.get_row(table, b"b").unwrap().is_some()), (2, true));
    assert_eq!(seen(&mut current, table, 1).unwrap(), 1);
    // What it changes has its entries all the same.
    before.insert_row(table, row("c", "se03")).unwrap();
    assert_eq!(kind(before.insert_row(table, row("d", "se01"))), ErrorKind::AlreadyExists);
    before.commit().unwrap();
    assert!(!cursor.next().unwrap(), "the rest of its rows is as it was");
    drop(cursor);
    assert_eq!(entries(&db, table, 1), ["01a", "03c"]);
    assert_eq!(seen(&mut begin(&db, Isolation::Snapshot), table, 1).unwrap(), 2);
    current.rollback().unwrap();
    db.0.settle();
    assert_eq!(db.check().unwrap().index_entries, 4);
}

#[test]
fn an_index_is_dropped_under_transactions_that_changed_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small().lock_timeout_millis(1)).unwrap();
    let table = db.create_table(&stones()).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
    let (mut undone, mut done) = (begin(&db, Isolation::ReadCommitted), begin(&db, Isolation::Snapshot));
    undone.update_row(table, row("a", "se07")).unwrap();
    done.delete_row(table, b"b").unwrap();
    // It has the right to a key of the index that goes.
    undone.insert_row(table, row("c", "se03")).unwrap();
    assert_eq!(kind(db.insert(table, &[row("d", "me03")])), ErrorKind::TimedOut);
    db.drop_index(table, "by_number").unwrap();
    db.insert(table, &[row("d", "me03")]).unwrap();
    assert_eq!(kind(seen(&mut undone, table, 1)), ErrorKind::NotFound);
    undone.insert_row(table, row("e", "se07")).unwrap();
    undone.rollback().unwrap();
    done.commit().unwrap();
    assert_eq!(
        (rows(&db, table), entries(&db, table, 0)),
        (vec!["a=ig01".into(), "d=me03".into()], vec!["iga".into(), "med".into()])
    );
    db.0.settle();
    let report = db.check().unwrap();
    assert_eq!((report.index_entries, report.deleted_rows, report.undo_records), (2, 0, 1));
    db.add_index(table, &stones().indexes[1]).unwrap();
    assert_eq!(entries(&db, table, 1), ["01a", "03d"]);
}

/// The one who waits asks for a lock of an index that is not there when he gets on.
#[test]
fn who_waits_for_a_key_of_an_index_goes_on_when_the_index_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small().lock_timeout_millis(600_000)).unwrap();
    let table = db.create_table(&stones()).unwrap();
    for (name, is_batch) in [("a", true), ("b", false)] {
        let mut first = begin(&db, Isolation::ReadCommitted);
        first.insert_row(table, row("z", "ig01")).unwrap();
        std::thread::scope(|scope| {
            let db = &db;
            let waiting = scope.spawn(move || match is_batch {
                true => db.insert(table, &[row(name, "me01")]),
                false => {
                    let mut second = db.begin(&TransactionOptions::default())?;
                    second.insert_row(table, row(name, "me01"))?;
                    second.commit()
                }
            });
            db.drop_index(table, "by_number").unwrap();
            first.rollback().unwrap();
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(rows(&db, table), [format!("{name}=me01")]);
        db.delete_rows(table, &[row(name, "me01")]).unwrap();
        db.add_index(table, &stones().indexes[1]).unwrap();
        db.check().unwrap();
    }
}

/// Whatever comes first: each row has its entries, and those that were refused are not there.
#[test]
fn a_writer_that_tries_again_beside_many_indexes_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let table = db.create_table(&with(1)).unwrap();
    let written = std::thread::scope(|scope| {
        let db = &db;
        let writing = scope.spawn(move || {
            let mut written = Vec::new();
            for number in 0..300 {
                let (key, value) = (format!("{number:04}"), format!("k{}{number:03}", number % 5));
                loop {
                    match db.insert(table, &[row(&key, &value)]) {
                        Ok(()) => break,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
                    }
                }
                if number % 3 == 0 {
                    while let Err(error) = db.delete_rows(table, &[row(&key, &value)]) {
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                    }
                } else {
                    written.push(format!("{key}={value}"));
                }
            }
            written
        });
        let by_number = IndexSpec::over_columns("by_number", Some(2..5)).unique(true);
        for _ in 0..5 {
            assert_eq!(db.add_index(table, &by_number).unwrap(), 1);
            db.drop_index(table, "by_number").unwrap();
        }
        db.add_index(table, &by_number).unwrap();
        writing.join().unwrap()
    });
    assert_eq!(rows(&db, table), written);
    assert_eq!(db.check().unwrap().index_entries, 400);
    db.close().unwrap();
}
