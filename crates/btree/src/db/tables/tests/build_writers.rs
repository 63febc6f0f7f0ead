//! Threads that change rows while indexes are added and dropped.

use super::build::with;
use super::build_online::begin;
use super::{entries, row, rows, small};
use crate::{ChangeBuffering, Db, Durability, ErrorKind, Isolation, Transaction, TransactionOptions};
use siltstone_base::engine::{RowChange, TableId, TableSpec};
use siltstone_base::index_spec::IndexSpec;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn who_begins_to_change_rows_at_the_end_waits_and_is_refused_only_if_that_takes_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small().lock_timeout_millis(600_000)).unwrap();
    let table = db.create_table(&with(1)).unwrap();
    let other = db.create_table(&TableSpec { name: "other".to_owned(), ..with(0) }).unwrap();
    let open = db.0.tables.get(table).unwrap();
    for round in 0..20 {
        open.table.standing.set_held();
        let name = |of: &str| format!("{of}{round}");
        std::thread::scope(|scope| {
            let (db, name) = (&db, &name);
            let batch = scope.spawn(move || db.insert(table, &[row(&name("a"), "ig01")]));
            let both = scope.spawn(move || {
                let (key, other_key) = (name("b"), name("c"));
                let changes =
                    [(table, RowChange::Insert(row(&key, "ig01"))), (other, RowChange::Insert(row(&other_key, "x")))];
                db.commit_rows(&changes)
            });
            let transaction = scope.spawn(move || {
                let mut transaction = db.begin(&TransactionOptions::default())?;
                transaction.insert_row(other, row(&name("d"), "x"))?;
                transaction.insert_row(table, row(&name("e"), "ig01"))?;
                transaction.commit()
            });
            // Other tables are nobody's business.
            db.insert(other, &[row(&name("f"), "x")]).unwrap();
            let options = TransactionOptions::new(Isolation::ReadCommitted).lock_timeout(Duration::from_millis(1));
            let mut hasty = db.begin(&options).unwrap();
            assert_eq!(hasty.insert_row(table, row(&name("g"), "ig01")).unwrap_err().kind(), ErrorKind::Busy);
            hasty.insert_row(other, row(&name("g"), "x")).unwrap();
            hasty.commit().unwrap();
            open.table.standing.end_building();
            db.0.transactions.ended.notify_all();
            for writer in [batch, both, transaction] {
                writer.join().unwrap().unwrap();
            }
        });
    }
    assert_eq!((rows(&db, table).len(), rows(&db, other).len()), (60, 80));
    db.check().unwrap();
    db.close().unwrap();
}

/// Tells writers to end, also when their test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A thread that changes rows of its own.
struct Writer<'a> {
    db: &'a Db,
    table: TableId,
    own: usize,
    rows: BTreeMap<String, String>,
    numbers: usize,
    state: u64,
}

impl Writer<'_> {
    fn draw(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % below
    }

    /// A value whose number no other row ever had.
    fn value(&mut self) -> String {
        self.numbers += 1;
        let number = self.numbers * 4 + self.own;
        format!("k{}{number:06}", number % 5)
    }

    fn key(&mut self) -> String {
        let number = self.draw(60);
        format!("{}{number:02}", self.own)
    }

    fn change(&mut self, transaction: &mut Transaction, rows: &mut BTreeMap<String, String>) {
        let key = self.key();
        if rows.contains_key(&key) && self.draw(3) == 0 {
            assert!(transaction.delete_row(self.table, key.as_bytes()).unwrap());
            rows.remove(&key);
            return;
        }
        let value = self.value();
        match rows.contains_key(&key) {
            true => transaction.update_row(self.table, row(&key, &value)).unwrap(),
            false => transaction.insert_row(self.table, row(&key, &value)).unwrap(),
        }
        rows.insert(key, value);
    }

    fn transaction(&mut self) {
        let mut transaction = begin(self.db);
        let mut now = self.rows.clone();
        for _ in 0..=self.draw(5) {
            self.change(&mut transaction, &mut now);
        }
        match self.draw(4) {
            0 => return transaction.rollback().unwrap(),
            1 => return drop(transaction),
            2 => {
                let (savepoint, mut lost) = (transaction.savepoint(), now.clone());
                for _ in 0..=self.draw(5) {
                    self.change(&mut transaction, &mut lost);
                }
                transaction.rollback_to(savepoint).unwrap();
            }
            _ => {}
        }
        transaction.commit().unwrap();
        self.rows = now;
    }

    fn batch(&mut self) {
        let (key, value) = (self.key(), self.value());
        let Some(old) = self.rows.get(&key).cloned() else {
            self.db.insert(self.table, &[row(&key, &value)]).unwrap();
            self.rows.insert(key, value);
            return;
        };
        let other = self.rows.iter().find(|(other, _)| **other != key).map(|(key, value)| (key.clone(), value.clone()));
        let (gone, new) = (row(&key, &old), row(&key, &value));
        match (self.draw(4), other) {
            (0, Some((other, others))) => {
                // Each gets the number of the other.
                let swap = [(gone, row(&key, &others)), (row(&other, &others), row(&other, &old))];
                self.db.update_rows(self.table, &swap).unwrap();
                self.rows.extend([(key, others), (other, old)]);
            }
            (1, Some((other, others))) => {
                // One goes, and the other gets its number.
                let changes = [RowChange::Update(row(&other, &others), row(&other, &old)), RowChange::Delete(gone)];
                self.db.commit_rows(&changes.map(|change| (self.table, change))).unwrap();
                self.rows.insert(other, old);
                self.rows.remove(&key);
            }
            (2, _) => {
                self.db.delete_rows(self.table, &[gone]).unwrap();
                self.rows.remove(&key);
            }
            _ => {
                self.db.update_rows(self.table, &[(gone, new)]).unwrap();
                self.rows.insert(key, value);
            }
        }
    }
}

/// Batches, transactions that end in every way, and rows that take over each other's unique keys, beside indexes that come and go.
#[test]
fn writers_lose_nothing_and_are_never_refused_while_indexes_are_added() {
    let by_kind = IndexSpec::over_columns("by_kind", Some(0..2));
    let by_number = IndexSpec::over_columns("by_number", Some(2..8)).unique(true);
    for (durability, pool, version_bytes) in
        [(Durability::Os, 1 << 20, 1 << 20), (Durability::Os, 64 << 10, 0), (Durability::Commit, 64 << 10, 1 << 20)]
    {
        let dir = tempfile::tempdir().unwrap();
        let options = small().durability(durability).buffer_pool_bytes(pool).max_version_bytes(version_bytes);
        let db = Db::open(dir.path(), &options.change_buffering(ChangeBuffering::All)).unwrap();
        let table = db.create_table(&with(0)).unwrap();
        let mut expected = BTreeMap::new();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (db, is_over) = (&db, Over(&is_over));
            let over = is_over.0;
            let write = move |own: usize| {
                let mut writer = Writer { db, table, own, rows: BTreeMap::new(), numbers: 0, state: 77 + own as u64 };
                while !over.load(Ordering::Relaxed) {
                    match writer.draw(2) {
                        0 => writer.batch(),
                        _ => writer.transaction(),
                    }
                }
                writer.rows
            };
            let writers: Vec<_> = (0..3).map(|own| scope.spawn(move || write(own))).collect();
            for round in 0..12 {
                assert_eq!(db.add_index(table, &by_number).unwrap(), 0);
                assert_eq!(db.add_index(table, &by_kind).unwrap(), 1);
                db.check().unwrap();
                if round < 11 {
                    db.drop_index(table, "by_kind").unwrap();
                    db.drop_index(table, "by_number").unwrap();
                }
            }
            drop(is_over);
            writers.into_iter().for_each(|writer| expected.extend(writer.join().unwrap()));
        });
        assert_eq!(rows(&db, table), expected.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>());
        let of = |from: usize, to: usize| {
            let mut entries: Vec<_> =
                expected.iter().map(|(key, value)| format!("{}{key}", &value[from..to])).collect();
            entries.sort();
            entries
        };
        assert_eq!((entries(&db, table, 0), entries(&db, table, 1)), (of(2, 8), of(0, 2)));
        db.0.settle();
        db.merge_changes().unwrap();
        assert_eq!(db.check().unwrap().index_entries, 2 * expected.len() as u64);
        db.close().unwrap();
    }
}
