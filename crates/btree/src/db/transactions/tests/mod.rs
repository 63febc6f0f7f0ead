//! Transactions through their doors.

mod batches;
mod mended;

use super::super::tests::{new_disk, open_on, options, rows};
use super::super::*;
use siltstone_base::engine::{Admin, Isolation, KvCursor, TransactionOptions};
use siltstone_base::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::time::Duration;

fn snapshot() -> TransactionOptions {
    TransactionOptions::new(Isolation::Snapshot).lock_timeout(Duration::from_millis(5))
}

fn committed() -> TransactionOptions {
    TransactionOptions::new(Isolation::ReadCommitted).lock_timeout(Duration::from_millis(5))
}

/// The pool holds 64 pages of 512 bytes; the transaction changes rows of a hundred times as much.
#[test]
fn a_transaction_may_be_larger_than_memory() {
    let disk = new_disk();
    let options = options().max_lock_bytes(4096).max_version_bytes(0);
    let key = |number: u32| format!("row{:05}", number * 7919 % 20_000);
    let db = open_on(&disk, &options).unwrap();
    for number in 0..3000 {
        db.put(key(number), format!("old {number}")).unwrap();
    }
    let before = rows(&db);
    for is_committed in [false, true] {
        let mut large = db.begin(&snapshot()).unwrap();
        let mut other = db.begin(&snapshot()).unwrap();
        for number in 0..12_000 {
            match number % 5 {
                0 if number < 3000 => large.delete(key(number)).unwrap(),
                _ => large.put(key(number), vec![number as u8; (number % 60) as usize]).unwrap(),
            }
        }
        assert!(db.0.locks.is_empty(), "the stamps are its locks");
        assert_eq!(rows(&db), before, "nobody sees it");
        assert_eq!(other.get(key(77)).unwrap(), before.get(key(77).as_bytes()).cloned());
        if is_committed {
            large.commit().unwrap();
        } else {
            large.rollback().unwrap();
        }
        assert_eq!(other.get(key(77)).unwrap(), before.get(key(77).as_bytes()).cloned());
        let expected: BTreeMap<_, _> = if is_committed {
            let row = |number: u32| (key(number).into_bytes(), vec![number as u8; (number % 60) as usize]);
            (0..12_000).filter(|number| number % 5 != 0 || *number >= 3000).map(row).collect()
        } else {
            before.clone()
        };
        assert_eq!(rows(&db), expected);
    }
    Admin::settle(&db).unwrap();
    let report = db.check().unwrap();
    assert_eq!((report.deleted_rows, report.undo_records, db.history_len()), (0, 1, 0), "{report:?}");
    assert_eq!(report.rows, rows(&db).len() as u64);
    db.close().unwrap();
}

#[test]
fn views_read_from_the_undo_log_what_memory_does_not_hold() {
    for bytes in [0, 3000, 1 << 20] {
        let disk = new_disk();
        let db = open_on(&disk, &options().max_version_bytes(bytes)).unwrap();
        let long = |number: u32| vec![number as u8; 1000 + number as usize];
        for number in 0..60 {
            db.put(format!("{number:03}"), if number % 7 == 0 { long(number) } else { vec![1; 20] }).unwrap();
        }
        let mut moments = Vec::new();
        for round in 0..8_u32 {
            moments.push((db.cursor().unwrap(), rows(&db)));
            for number in 0..60 {
                let key = format!("{:03}", number);
                match (number + round) % 5 {
                    0 => db.delete(key).unwrap(),
                    1 => db.put(key, long(round)).unwrap(),
                    2 => {
                        let mut batch = WriteBatch::new();
                        batch.put(&key, "first");
                        batch.delete(&key);
                        batch.put(&key, format!("{round}"));
                        batch.put(format!("new{number}"), "new");
                        db.write(&batch).unwrap();
                    }
                    _ => {}
                }
            }
            if round == 4 {
                moments.remove(1);
            }
            for (cursor, expected) in &mut moments {
                let mut found = BTreeMap::new();
                let mut is_there = cursor.seek_to_last().unwrap();
                while is_there {
                    found.insert(cursor.key().to_vec(), cursor.value().to_vec());
                    is_there = cursor.prev().unwrap();
                }
                assert_eq!(found, *expected);
            }
        }
        assert!(db.history_len() > 0, "long values always leave records");
        moments.clear();
        Admin::settle(&db).unwrap();
        let report = db.check().unwrap();
        assert_eq!((report.deleted_rows, db.history_len()), (0, 0));
        assert_eq!((report.lost_pages, report.rows), (0, rows(&db).len() as u64), "{report:?}");
        db.close().unwrap();
    }
}

#[test]
fn a_deadlock_names_its_transactions() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    db.put("a", "").unwrap();
    db.put("b", "").unwrap();
    let db = &db;
    // One thread can't wait for itself: the table is told what another thread would ask.
    let mut one = db.begin(&committed()).unwrap();
    let mut two = db.begin(&committed()).unwrap();
    one.put("a", "1").unwrap();
    two.put("b", "2").unwrap();
    db.0.locks.grant(one.id(), db.0.default_tree.tree().space(), b"a");
    db.0.locks.grant(two.id(), db.0.default_tree.tree().space(), b"b");
    let space = db.0.default_tree.tree().space();
    let wait = db.0.locks.request(one.id(), space, b"b", siltstone_base::row_locks::LockMode::Exclusive).unwrap();
    let error = two.put("a", "2").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock);
    assert!(error.to_string().ends_with(&format!("{} -> {} -> {}", two.id(), one.id(), two.id())), "{error}");
    drop(wait);
    two.rollback().unwrap();
    one.put("b", "1").unwrap();
    one.commit().unwrap();
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn batches_wait_for_the_locks_of_transactions_and_leave_none() {
    let disk = new_disk();
    let db = open_on(&disk, &options().lock_timeout_millis(20)).unwrap();
    db.put("a", "0").unwrap();
    let mut one = db.begin(&committed()).unwrap();
    one.put("a", "1").unwrap();
    one.get_for_update("b").unwrap();
    for key in ["a", "b"] {
        assert_eq!(db.put(key, "2").unwrap_err().kind(), ErrorKind::TimedOut);
        let mut batch = WriteBatch::new();
        batch.put("c", "2");
        batch.delete(key);
        assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::TimedOut);
    }
    assert_eq!(db.get("c").unwrap(), None);
    one.put("c", "1").unwrap();
    one.commit().unwrap();
    assert!(db.0.locks.is_empty());
    db.put("a", "3").unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn what_is_left_of_a_life_is_rolled_back_behind_its_locks() {
    let disk = new_disk();
    let options = options();
    {
        let db = open_on(&disk, &options).unwrap();
        db.put("a", "0").unwrap();
        let mut one = db.begin(&snapshot()).unwrap();
        for number in 0..200 {
            one.put(format!("n{number}"), vec![7; 90]).unwrap();
        }
        one.put("a", "1").unwrap();
        // Closing waits for nobody.
        db.close().unwrap();
        assert_eq!(one.put("b", "1").unwrap_err().kind(), ErrorKind::Aborted);
    }
    let db = open_on(&disk, &options).unwrap();
    assert_eq!(db.rolling_back_len(), 1);
    assert_eq!(rows(&db).len(), 1, "nobody sees it");
    let mut two = db.begin(&snapshot()).unwrap();
    let stamp = db.0.default_tree.tree().stamp(b"a").unwrap();
    assert!(db.0.is_row_locked(two.id(), &db.0.default_tree, b"a", stamp));
    // Whoever waits gets the lock when the rollback is done.
    two.put("a", "2").unwrap();
    assert_eq!(db.rolling_back_len(), 0);
    let id = two.id();
    two.rollback().unwrap();
    db.put("a", "3").unwrap();
    assert_eq!(rows(&db).len(), 1);
    let report = db.check().unwrap();
    assert_eq!((report.rows, report.undo_records), (1, 1), "{report:?}");
    db.close().unwrap();
    drop(db);
    let db = open_on(&disk, &options).unwrap();
    assert!(db.begin(&snapshot()).unwrap().id() > id, "no number is used twice");
}

#[test]
fn a_dropped_tree_takes_its_uncommitted_rows_with_it() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    let tree = db.create_tree("tree").unwrap();
    let mut one = db.begin(&committed()).unwrap();
    one.put_in(&tree, "k", vec![1; 2000]).unwrap();
    one.put("k", "1").unwrap();
    db.drop_tree("tree").unwrap();
    assert_eq!(one.put_in(&tree, "k", "2").unwrap_err().kind(), ErrorKind::NotFound);
    one.rollback().unwrap();
    let mut two = db.begin(&committed()).unwrap();
    two.put("k", "2").unwrap();
    two.commit().unwrap();
    Admin::settle(&db).unwrap();
    assert_eq!(rows(&db).len(), 1);
    db.check().unwrap();
}

/// Threads move amounts between accounts, some by transactions of either level and some by batches beside them; whoever looks sees all of it or nothing.
#[test]
fn threads_move_amounts_and_none_is_lost() {
    const ACCOUNTS: u64 = 12;
    const MOVES: u64 = 150;
    let dir = tempfile::tempdir().unwrap();
    let options = options().buffer_pool_bytes(256 * 512).max_version_bytes(2000).lock_timeout_millis(60_000);
    let db = Db::open(dir.path(), &options).unwrap();
    let name = |account: u64| format!("account{account:02}");
    for account in 0..ACCOUNTS {
        db.put(name(account), 100_u64.to_le_bytes()).unwrap();
    }
    let amount = |bytes: Option<Vec<u8>>| u64::from_le_bytes(bytes.unwrap().try_into().unwrap());
    let sum = |db: &Db| {
        let mut cursor = db.cursor().unwrap();
        let (mut sum, mut found) = (0, cursor.seek_to_first().unwrap());
        while found {
            if cursor.key().starts_with(b"account") {
                sum += u64::from_le_bytes(cursor.value().try_into().unwrap());
            }
            found = cursor.next().unwrap();
        }
        sum
    };
    let try_move = |db: &Db, level: Isolation, from: &str, to: &str| -> Result<()> {
        let mut transaction = db.begin(&TransactionOptions::new(level))?;
        let left = amount(transaction.get_for_update(from)?);
        let right = amount(transaction.get_for_update(to)?);
        if left > 0 {
            transaction.put(from, (left - 1).to_le_bytes())?;
            transaction.put(to, (right + 1).to_le_bytes())?;
        }
        transaction.commit()
    };
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let db = db.clone();
            scope.spawn(move || {
                let mut random = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                let mut done = 0;
                while done < MOVES {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let from = (random >> 33) % ACCOUNTS;
                    let to = (from + 1 + (random >> 50) % (ACCOUNTS - 1)) % ACCOUNTS;
                    let level = if thread == 0 { Isolation::Snapshot } else { Isolation::ReadCommitted };
                    match try_move(&db, level, &name(from), &name(to)) {
                        Ok(()) => done += 1,
                        Err(error) => {
                            assert!(matches!(error.kind(), ErrorKind::Deadlock | ErrorKind::Busy), "{error}");
                        }
                    }
                    db.put(format!("noise{}", random % 50), vec![1; (random % 90) as usize]).unwrap();
                    if done % 8 == 0 {
                        assert_eq!(sum(&db), 100 * ACCOUNTS);
                    }
                }
            });
        }
    });
    assert_eq!(sum(&db), 100 * ACCOUNTS);
    Admin::settle(&db).unwrap();
    assert!(db.0.locks.is_empty() && !db.0.transactions.has_owners());
    assert_eq!((db.history_len(), db.rolling_back_len(), db.check().unwrap().deleted_rows), (0, 0, 0));
    db.close().unwrap();
}
