//! Rows that change while an index is added: extractors change them in the midst of the walk, so that nothing depends on time.

use super::build::{Moody, spaces, with};
use super::{entries, row, small, stones};
use crate::{Db, Durability, ErrorKind, Isolation, Result, Transaction, TransactionOptions};
use siltstone_base::engine::TableId;
use siltstone_base::index_scan::IndexScan;
use siltstone_base::index_spec::{FixedColumns, IndexExtractor, IndexSpec};
use siltstone_base::sync::{Mutex, Rank};
use std::sync::{Arc, mpsc};

type Act = Box<dyn FnOnce() + Send>;

/// Does something once, before it looks at a row: the first of the walk. Then it is another extractor.
pub(super) struct Meanwhile {
    /// Extractors are asked under the lock of writers, too.
    act: Mutex<Option<Act>>,
    then: Arc<dyn IndexExtractor>,
}

impl Meanwhile {
    /// An index that another one becomes if something happens while it is built.
    pub(super) fn index(of: IndexSpec, act: impl FnOnce() + Send + 'static) -> IndexSpec {
        let act = Mutex::new(Rank(155), Some(Box::new(act) as Act));
        IndexSpec { extractor: Arc::new(Self { act, then: Arc::clone(&of.extractor) }), ..of }
    }
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl IndexExtractor for Meanwhile {
    fn extract(&self, primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        self.then.extract(primary_key, value, index_key)
    }

    fn try_extract(&self, primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> Result<bool> {
        let act = self.act.lock().take();
        act.into_iter().for_each(|act| act());
        self.then.try_extract(primary_key, value, index_key)
    }

    fn fixed_len(&self) -> Option<usize> {
        self.then.fixed_len()
    }

    fn identity(&self) -> Vec<u8> {
        self.then.identity()
    }
}

pub(super) fn begin(db: &Db) -> Transaction {
    db.begin(&TransactionOptions::new(Isolation::ReadCommitted)).unwrap()
}

/// Makes changes in a transaction.
fn in_transaction(db: &Db, change: impl FnOnce(&mut Transaction)) -> Transaction {
    let mut transaction = begin(db);
    change(&mut transaction);
    transaction
}

fn by_number() -> IndexSpec {
    stones().indexes.swap_remove(1)
}

/// What happens while a unique index is added, the entries that it then has, or which row keeps it from being added.
type Case = (fn(&Db, TableId), std::result::Result<&'static [&'static str], &'static str>);

const CASES: [Case; 14] = [
    (|_, _| {}, Ok(&["01a", "02b"])),
    (|db, table| db.insert(table, &[row("c", "se01")]).unwrap(), Err("row \"c\", which changed meanwhile")),
    (
        |db, table| db.update_rows(table, &[(row("a", "ig01"), row("a", "ig02"))]).unwrap(),
        Err("row \"a\", which changed meanwhile"),
    ),
    (
        |db, table| db.insert(table, &[row("c", "se07"), row("d", "se07")]).unwrap(),
        Err("row \"d\", which changed meanwhile"),
    ),
    (
        |db, table| {
            db.insert(table, &[row("c", "se01")]).unwrap();
            db.delete_rows(table, &[row("a", "ig01")]).unwrap();
        },
        Ok(&["01c", "02b"]),
    ),
    (
        // It comes before the one that gives its key up.
        |db, table| {
            db.insert(table, &[row("0", "se02")]).unwrap();
            db.update_rows(table, &[(row("b", "me02"), row("b", "me05"))]).unwrap();
        },
        Ok(&["01a", "020", "05b"]),
    ),
    (
        |db, table| {
            let swap = [(row("a", "ig01"), row("a", "ig02")), (row("b", "me02"), row("b", "me01"))];
            db.update_rows(table, &swap).unwrap();
        },
        Ok(&["01b", "02a"]),
    ),
    (
        |db, table| {
            let transaction = in_transaction(db, |transaction| {
                transaction.update_row(table, row("a", "ig02")).unwrap();
                transaction.update_row(table, row("b", "me03")).unwrap();
                assert!(transaction.delete_row(table, b"a").unwrap());
                transaction.insert_row(table, row("a", "x")).unwrap();
            });
            transaction.commit().unwrap();
        },
        Ok(&["03b"]),
    ),
    (
        |db, table| {
            in_transaction(db, |own| own.insert_row(table, row("c", "se01")).unwrap()).rollback().unwrap();
        },
        Ok(&["01a", "02b"]),
    ),
    (
        |db, table| {
            let mut transaction = begin(db);
            transaction.update_row(table, row("a", "ig04")).unwrap();
            let savepoint = transaction.savepoint();
            transaction.update_row(table, row("a", "ig02")).unwrap();
            transaction.insert_row(table, row("c", "se02")).unwrap();
            transaction.rollback_to(savepoint).unwrap();
            transaction.commit().unwrap();
        },
        Ok(&["02b", "04a"]),
    ),
    (
        |db, table| {
            db.delete_rows(table, &[row("b", "me02")]).unwrap();
            db.insert(table, &[row("b", "se02")]).unwrap();
            assert_eq!(
                db.insert(table, &[row("c", "se09"), row("a", "ig09")]).unwrap_err().kind(),
                ErrorKind::AlreadyExists
            );
        },
        Ok(&["01a", "02b"]),
    ),
    (|db, table| db.delete_rows(table, &[row("a", "ig01"), row("b", "me02")]).unwrap(), Ok(&[])),
    (
        // A row without an entry.
        |db, table| db.insert(table, &[row("c", "x"), row("d", "ig03")]).unwrap(),
        Ok(&["01a", "02b", "03d"]),
    ),
    (
        |db, table| {
            for number in 10..99 {
                let [old, new] =
                    [number - 1, number].map(|number| format!("ig{:02}", if number < 10 { 1 } else { number }));
                db.update_rows(table, &[(row("a", &old), row("a", &new))]).unwrap();
            }
        },
        Ok(&["02b", "98a"]),
    ),
];

#[test]
fn a_unique_index_has_what_rows_became_or_is_not_added() {
    for (durability, version_bytes) in [(Durability::Os, 1 << 20), (Durability::Commit, 1 << 20), (Durability::Os, 0)] {
        for (number, (act, expected)) in CASES.into_iter().enumerate() {
            let dir = tempfile::tempdir().unwrap();
            let options = small().durability(durability).max_version_bytes(version_bytes);
            let db = Arc::new(Db::open(dir.path(), &options).unwrap());
            let table = db.create_table(&with(1)).unwrap();
            db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
            let before = spaces(&db);
            let changed = Arc::clone(&db);
            let outcome = db.add_index(table, &Meanwhile::index(by_number(), move || act(&changed, table)));
            match expected {
                Ok(expected) => {
                    assert_eq!(outcome.unwrap(), 1, "case {number}");
                    assert_eq!(entries(&db, table, 1), expected, "case {number}");
                }
                Err(said) => {
                    let error = outcome.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "case {number}: {error}");
                    assert!(error.to_string().contains(said), "case {number}: {error}");
                    assert_eq!(db.scan_index(table, 1, b"", 9, &mut |_| {}).unwrap_err().kind(), ErrorKind::NotFound);
                    assert_eq!(spaces(&db).0, before.0, "case {number}");
                    // Nobody kept the rows from being the same, and nobody does now.
                    db.insert(table, &[row("e", "se02")]).unwrap();
                }
            }
            db.0.settle();
            db.check().unwrap();
            db.close().unwrap();
        }
    }
}

#[test]
fn rows_that_had_the_same_key_when_they_were_walked_over_keep_the_index_away() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(Db::open(dir.path(), &small()).unwrap());
    let table = db.create_table(&with(0)).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me01")]).unwrap();
    let changed = Arc::clone(&db);
    let index = Meanwhile::index(by_number(), move || changed.delete_rows(table, &[row("b", "me01")]).unwrap());
    assert_eq!(db.add_index(table, &index).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(db.add_index(table, &index).unwrap(), 0);
    assert_eq!(entries(&db, table, 0), ["01a"]);
    db.check().unwrap();
}

#[test]
fn a_row_that_comes_meanwhile_and_has_no_entry_keeps_the_index_away() {
    for (value, kind) in
        [("panics", ErrorKind::Poisoned), ("undecodable", ErrorKind::Corruption), ("long", ErrorKind::LimitExceeded)]
    {
        let dir = tempfile::tempdir().unwrap();
        let db = Arc::new(Db::open(dir.path(), &small()).unwrap());
        let table = db.create_table(&with(1)).unwrap();
        db.insert(table, &[row("a", "ig01")]).unwrap();
        let (before, changed) = (spaces(&db), Arc::clone(&db));
        let moody = IndexSpec::new("moody", Arc::new(Moody::default()));
        let index = Meanwhile::index(moody, move || changed.insert(table, &[row("bad", value)]).unwrap());
        let error = db.add_index(table, &index).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("index moody of table stones: the row \"bad\""), "{error}");
        assert_eq!(spaces(&db), before);
        db.delete_rows(table, &[row("bad", value)]).unwrap();
        assert_eq!(db.add_index(table, &index).unwrap(), 1);
        assert_eq!(entries(&db, table, 1), ["ig01a"]);
        db.check().unwrap();
        db.close().unwrap();
    }
}

/// Entries with covered columns say more than their keys do, and are found again by all that they say.
#[test]
fn what_entries_cover_follows_rows_that_change() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(Db::open(dir.path(), &small()).unwrap());
    let table = db.create_table(&with(0)).unwrap();
    db.insert(table, &[row("a", "ig01x"), row("b", "me02y"), row("c", "se03z")]).unwrap();
    for unique in [false, true] {
        let changed = Arc::clone(&db);
        let name = if unique { "unique" } else { "other" };
        let covered = by_number().unique(unique).covered(Arc::new(FixedColumns::new(Some(4..5))));
        let index = Meanwhile::index(IndexSpec { name: name.to_owned(), ..covered }, move || {
            let (old, new) = if unique { ("ig01q", "ig01x") } else { ("ig01x", "ig01q") };
            changed.update_rows(table, &[(row("a", old), row("a", new))]).unwrap();
            // Between them: a row without an entry becomes one with an entry, and goes.
            changed.insert(table, &[row("d", "s")]).unwrap();
            changed.update_rows(table, &[(row("d", "s"), row("d", "se09w"))]).unwrap();
            changed.delete_rows(table, &[row("d", "se09w")]).unwrap();
        });
        let position = db.add_index(table, &index).unwrap();
        let mut found = Vec::new();
        let scan = IndexScan::all();
        db.scan_entries(table, position, &scan, &mut |entry| found.push(entry.covered.to_vec())).unwrap();
        assert_eq!(found.concat(), if unique { b"xyz" } else { b"qyz" });
        db.check().unwrap();
    }
}

#[test]
fn transactions_that_change_rows_meanwhile_are_waited_for_whatever_becomes_of_them() {
    for end in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let db = Arc::new(Db::open(dir.path(), &small().lock_timeout_millis(600_000)).unwrap());
        let table = db.create_table(&with(1)).unwrap();
        db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
        let (sender, receiver) = mpsc::channel();
        let changed = Arc::clone(&db);
        let index = Meanwhile::index(by_number(), move || {
            let mut transaction = begin(&changed);
            let savepoint = transaction.savepoint();
            transaction.insert_row(table, row("c", "se01")).unwrap();
            transaction.update_row(table, row("a", "ig07")).unwrap();
            transaction.delete_row(table, b"b").unwrap();
            sender.send((transaction, savepoint)).unwrap();
        });
        std::thread::scope(|scope| {
            let adding = scope.spawn(|| db.add_index(table, &index));
            let (mut transaction, savepoint) = receiver.recv().unwrap();
            // It goes on changing the table, wherever the other one is.
            for number in 0..100 {
                transaction.insert_row(table, row(&format!("d{number}"), &format!("se{}", number % 2))).unwrap();
            }
            for number in 0..100 {
                transaction.delete_row(table, format!("d{number}").as_bytes()).unwrap();
            }
            match end {
                0 => transaction.commit().unwrap(),
                1 => transaction.rollback().unwrap(),
                2 => drop(transaction),
                3 => {
                    transaction.rollback_to(savepoint).unwrap();
                    transaction.commit().unwrap();
                }
                _ => {
                    transaction.prepare("it").unwrap();
                    db.commit_prepared("it").unwrap();
                }
            }
            assert_eq!(adding.join().unwrap().unwrap(), 1);
        });
        let expected: &[&str] = if end == 0 || end == 4 { &["01c", "07a"] } else { &["01a", "02b"] };
        assert_eq!(entries(&db, table, 1), expected, "{end}");
        db.0.settle();
        assert_eq!(db.check().unwrap().index_entries, 4);
        db.close().unwrap();
    }
}

#[test]
fn a_transaction_that_does_not_end_keeps_the_index_away_and_no_writer() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(Db::open(dir.path(), &small().lock_timeout_millis(1)).unwrap());
    let table = db.create_table(&with(1)).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
    let before = spaces(&db);
    let (sender, receiver) = mpsc::channel();
    let changed = Arc::clone(&db);
    let index = Meanwhile::index(by_number(), move || {
        sender.send(in_transaction(&changed, |own| own.update_row(table, row("a", "ig02")).unwrap())).unwrap();
    });
    assert_eq!(db.add_index(table, &index).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(spaces(&db), before);
    db.insert(table, &[row("c", "se03")]).unwrap();
    receiver.recv().unwrap().rollback().unwrap();
    assert_eq!(db.add_index(table, &index).unwrap(), 1);
    assert_eq!(entries(&db, table, 1), ["01a", "02b", "03c"]);
    db.check().unwrap();
}
