//! What failures, limits and damage do to transactions, and what they must not do.

use super::super::super::tests::{new_disk, open_on, options, rows};
use super::super::super::*;
use super::super::Seen;
use super::committed;
use crate::meanwhile::{Gap, has_happened, once_at};
use crate::mtr::close_group;
use crate::page::Stamp;
use crate::undo::Fate;
use siltstone_base::ErrorKind;
use siltstone_base::engine::Admin;
use siltstone_base::executor::Progress;
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn a_name_can_t_be_decided_about_before_it_is_safe_or_taken_while_it_is_decided() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    let mut one = db.begin(&committed()).unwrap();
    one.put("a", "1").unwrap();
    let transactions = &db.0.transactions;
    assert!(transactions.reserve_name(b"name", one.id()), "as prepare does before the fate is safe");
    assert!(db.prepared_transactions().is_empty());
    assert_eq!(db.commit_prepared("name").unwrap_err().kind(), ErrorKind::NotFound);
    transactions.free_name(b"name");
    let id = one.id();
    one.prepare("name").unwrap();
    assert_eq!(db.prepared_transactions(), [b"name"]);
    assert_eq!(transactions.take_prepared(b"name"), Some(id), "as commit_prepared does before it decides");
    assert!(db.prepared_transactions().is_empty());
    assert_eq!(db.rollback_prepared("name").unwrap_err().kind(), ErrorKind::NotFound);
    let mut two = db.begin(&committed()).unwrap();
    two.put("b", "2").unwrap();
    assert_eq!(two.prepare("name").unwrap_err().kind(), ErrorKind::AlreadyExists);
    transactions.set_prepared(b"name");
    db.commit_prepared("name").unwrap();
    let mut three = db.begin(&committed()).unwrap();
    three.put("c", "3").unwrap();
    three.prepare("name").unwrap();
    db.rollback_prepared("name").unwrap();
    assert_eq!(rows(&db).into_keys().collect::<Vec<_>>(), [b"a"]);
}

#[test]
fn two_transactions_of_one_name_and_numbers_of_the_future_are_damage() {
    for is_name in [true, false] {
        let disk = new_disk();
        let db = open_on(&disk, &options()).unwrap();
        let mut one = db.begin(&committed()).unwrap();
        one.put("a", "1").unwrap();
        let id = if is_name { one.id() + 1 } else { 1 << 40 };
        one.prepare("name").unwrap();
        db.0.undo.set_fate(id, &Fate::Prepared(if is_name { b"name".to_vec() } else { b"other".to_vec() })).unwrap();
        close_group(&db.0.pool).unwrap();
        db.close().unwrap();
        drop(db);
        assert_eq!(open_on(&disk, &options()).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_value_that_the_log_never_has_room_for_must_not_hang_its_writer() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    let mut one = db.begin(&committed()).unwrap();
    let long = vec![7; 100 << 10];
    assert_eq!(one.put("a", &long).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(db.put("a", &long).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(db.0.lock_with_room(db.0.redo.capacity()).unwrap_err().kind(), ErrorKind::LimitExceeded);
    one.put("a", "1").unwrap();
    one.commit().unwrap();
    assert_eq!(rows(&db).len(), 1);
}

#[test]
fn a_transaction_whose_failed_change_left_a_record_must_not_commit() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    db.put("a", vec![1; 1000]).unwrap();
    let mut one = db.begin(&committed()).unwrap();
    one.put("b", "1").unwrap();
    one.is_doomed = true;
    assert_eq!(one.put("b", "2").unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(one.commit().unwrap_err().kind(), ErrorKind::Aborted);
    Admin::settle(&db).unwrap();
    assert_eq!((rows(&db).len(), db.rolling_back_len()), (1, 0));
}

#[test]
fn one_damaged_record_must_not_stop_purge_and_rollback_of_all() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    let mut left = Vec::new();
    for key in ["a", "b", "c"] {
        let mut one = db.begin(&committed()).unwrap();
        one.put(key, "1").unwrap();
        left.push(one);
    }
    let ids: Vec<_> = left.iter().map(|one| one.id()).collect();
    db.0.undo.damage(Stamp { id: ids[1], number: 1 });
    drop(left);
    let mut failures = 0;
    for _ in 0..8 {
        failures += u32::from(db.0.roll_back_some().is_err());
    }
    assert!(failures > 0);
    assert_eq!(db.rolling_back_len(), 1, "the others are rolled back");
    assert_eq!(db.last_transaction_error().unwrap().kind(), ErrorKind::Corruption);
    let mut left = Vec::new();
    for key in ["d", "e"] {
        let mut one = db.begin(&committed()).unwrap();
        one.put(key, "1").unwrap();
        left.push(one);
    }
    db.0.undo.damage(Stamp { id: left[0].id(), number: 1 });
    left.into_iter().for_each(|one| one.commit().unwrap());
    let mut last = None;
    for _ in 0..20 {
        let progress = db.0.purge_some().unwrap();
        if matches!(progress, Progress::After(_)) {
            last = Some(progress);
            break;
        }
    }
    assert!(last.is_some(), "it tries again later");
    assert_eq!(db.history_len(), 1, "the other is purged");
    assert!(db.metrics().get(crate::Counter::TransactionFailures) >= 2);
}

#[test]
fn closing_slowly_must_not_wait_for_what_fails_for_ever() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    db.put("row", "1").unwrap();
    let mut left = Vec::new();
    for key in ["a", "b", "c", "d"] {
        let mut one = db.begin(&committed()).unwrap();
        one.put(key, "1").unwrap();
        left.push(one);
    }
    let ids: Vec<_> = left.iter().map(|one| one.id()).collect();
    // One that is to be rolled back, and one that is to be purged.
    [0, 3].iter().for_each(|index| db.0.undo.damage(Stamp { id: ids[*index], number: 1 }));
    let committed = left.split_off(2);
    drop(left);
    committed.into_iter().for_each(|one| one.commit().unwrap());
    db.shut_down(Shutdown::Slow).unwrap();
    drop(db);
    let db = open_on(&disk, &options()).unwrap();
    assert_eq!(["b", "c", "d", "row"].map(|key| db.get(key).unwrap().is_some()), [false, true, true, true]);
}

/// Two threads, that ask for the same rows in other orders, with an owner of locks that makes them ask.
#[test]
fn batches_of_the_same_rows_in_other_orders_must_not_deadlock_nor_lock_a_row_twice() {
    let disk = new_disk();
    let db = open_on(&disk, &options().lock_timeout_millis(20)).unwrap();
    let mut one = db.begin(&committed()).unwrap();
    one.put("b", "1").unwrap();
    let mut batch = WriteBatch::new();
    for key in ["c", "b", "a", "b", "c"] {
        batch.put(key, "2");
    }
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::TimedOut);
    let space = db.0.default_tree.tree().space();
    assert_eq!(db.0.locks.mode(one.id(), space, b"b"), Some(siltstone_base::row_locks::LockMode::Exclusive));
    assert_eq!(db.0.locks.stats().locks, 1, "the batch holds nothing any more");
    one.rollback().unwrap();
    db.write(&batch).unwrap();
    assert_eq!(rows(&db).len(), 3);
    assert!(db.0.locks.is_empty());
}

#[test]
fn a_cursor_of_a_transaction_never_shows_pages_that_its_rollback_gave_to_another_row() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    let mut one = db.begin(&committed()).unwrap();
    one.put("a", vec![1; 3000]).unwrap();
    let cursor = one.cursor().unwrap();
    let state = &db.0;
    let tree = state.default_tree.live().unwrap();
    one.put("a", "short").unwrap();
    // What a read has found in the undo log when the rollback begins.
    let cell = state.undo.get(Stamp { id: one.id(), number: 2 }).unwrap().unwrap().before;
    let seen = |cell| state.resolve(cursor.view(), tree, b"a", cell);
    assert!(matches!(seen(cell.clone()), Ok(Seen::Row(Some(row))) if row == [1; 3000]));
    one.rollback().unwrap();
    db.put("b", vec![2; 3000]).unwrap();
    assert!(matches!(seen(cell), Ok(Seen::Undone(_))));
    assert_eq!(state.read_row(cursor.view(), tree, b"a").unwrap(), None);
    assert_eq!(rows(&db).into_keys().collect::<Vec<_>>(), [b"b"]);
    db.check().unwrap();
}

/// A row would have what a record says that was before it, and purge would give the pages of that away.
#[test]
fn a_transaction_that_is_halfway_back_to_a_savepoint_must_not_commit() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    db.put("a", vec![1; 1000]).unwrap();
    let mut one = db.begin(&committed()).unwrap();
    let first = one.savepoint();
    one.put("a", "2").unwrap();
    db.0.undo.damage(Stamp { id: one.id(), number: 1 });
    assert!(one.rollback_to(first).is_err());
    assert_eq!(one.put("b", "1").unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(one.commit().unwrap_err().kind(), ErrorKind::Aborted);
}

/// A reader that has read all of it asks whether whoever wrote it is active still: it must not have ended meanwhile.
#[test]
fn a_long_value_that_is_rolled_back_while_it_is_read_is_not_shown() {
    let db = open_on(&new_disk(), &options()).unwrap();
    let mut one = db.begin(&committed()).unwrap();
    one.put("a", vec![1; 3000]).unwrap();
    let ((begin, begins), (over, is_over)) = (channel(), channel());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            begins.recv().unwrap();
            one.rollback().unwrap();
            // The reader does not wait for it for ever.
            let _ = over.send(());
        });
        once_at(Gap::LongValue, move || {
            begin.send(()).unwrap();
            let _ = is_over.recv_timeout(Duration::from_millis(200));
        });
        assert_eq!(db.get("a").unwrap(), None);
    });
    assert!(has_happened(Gap::LongValue));
    assert_eq!(rows(&db).len(), 0);
}
