//! Who waits, who fails, and what is too much.

use super::{LEVELS, all, family_options, flush, kind, on, open, open_optimistic, open_with, options, rows};
use crate::{
    CompactRangeOptions, Counter, ErrorKind, FlushOptions, Isolation, LockMode, Spill, TransactionDb,
    TransactionDbOptions, WriteBatch,
};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{OpClass, SimDisk};
use siltstone_base::plant::{PlantedBug, with_planted};

#[test]
fn shared_locks_are_shared_and_become_exclusive_alone() {
    let db = open(&SimDisk::new());
    let family = db.db().default_family();
    let (mut one, mut two) = (db.begin(&on(Isolation::Snapshot)), db.begin(&on(Isolation::Snapshot)));
    assert!(one.get_for_update_cf(&family, "a", LockMode::Shared).unwrap().is_none());
    two.lock_cf(&family, "a", LockMode::Shared).unwrap();
    assert_eq!(kind(one.put("a", "1")), ErrorKind::TimedOut);
    assert_eq!(kind(db.put("a", "0")), ErrorKind::TimedOut);
    two.rollback();
    one.put("a", "1").unwrap();
    one.commit().unwrap();
    assert_eq!((all(&db), db.lock_stats().locks), ("a=1".to_owned(), 0));
}

#[test]
fn a_batch_waits_for_all_its_rows() {
    let db = open(&SimDisk::new());
    let mut one = db.begin(&on(Isolation::ReadCommitted));
    one.put("a", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("a", "2");
    batch.put("b", "2");
    assert_eq!(kind(db.write(&mut batch)), ErrorKind::TimedOut);
    assert_eq!(db.lock_stats().locks, 1);
    one.put("b", "1").unwrap();
    one.commit().unwrap();
    db.write(&mut batch).unwrap();
    assert_eq!(all(&db), "a=2 b=2");
    batch.delete_range("a", "b");
    assert_eq!(kind(db.write(&mut batch)), ErrorKind::NotSupported);
    assert_eq!((all(&db), db.lock_stats().locks), ("a=2 b=2".to_owned(), 0));
}

/// The changes that make a transaction fail lie in memtables, in tables of level 0 and at the bottom.
#[test]
fn changes_are_found_wherever_they_are() {
    for place in 0..4 {
        let disk = SimDisk::new();
        let db = open(&disk);
        let optimistic_disk = SimDisk::new();
        let optimistic = open_optimistic(&optimistic_disk);
        for base in [db.db(), optimistic.db()] {
            for key in ["a", "b", "c", "d"] {
                base.put(key, "0").unwrap();
            }
            base.flush(&FlushOptions::default()).unwrap();
        }
        let mut one = db.begin(&on(Isolation::Snapshot));
        let begin = |level| optimistic.begin(&on(level));
        let mut free: Vec<_> = LEVELS.into_iter().map(begin).collect();
        free.iter_mut().for_each(|transaction| transaction.put("e", "1").unwrap());
        let mut bound: Vec<_> = ["a", "b", "c", "x"]
            .into_iter()
            .map(|key| {
                let mut transaction = optimistic.begin(&on(Isolation::ReadCommitted));
                transaction.get_for_update(key).unwrap();
                transaction
            })
            .collect();
        let mut late = optimistic.begin(&on(Isolation::Snapshot));
        for base in [db.db(), optimistic.db()] {
            base.put("a", "1").unwrap();
            base.delete("b").unwrap();
            base.delete_range("c", "d").unwrap();
            base.merge("x", 1_u64.to_le_bytes()).unwrap();
            if place > 0 {
                base.flush(&FlushOptions::default()).unwrap();
            }
            let range = CompactRangeOptions::default().force_bottommost(place == 3);
            if place > 1 {
                base.compact_range(&base.default_family(), None, None, &range).unwrap();
            }
        }
        for key in ["a", "b", "c", "x"] {
            assert_eq!(kind(one.put(key, "2")), ErrorKind::Busy, "{key} {place}");
            assert_eq!(kind(one.get_for_update(key)), ErrorKind::Busy, "{key} {place}");
        }
        one.put("d", "2").unwrap();
        one.commit().unwrap();
        for transaction in bound.drain(..) {
            assert_eq!(kind(transaction.commit()), ErrorKind::Busy, "{place}");
        }
        // It is as old as the others, and names the key only now.
        late.put("a", "9").unwrap();
        assert_eq!(kind(late.commit()), ErrorKind::Busy);
        // Committing one is a conflict for the other.
        let outcomes: Vec<_> = free.into_iter().map(|transaction| transaction.commit()).collect();
        assert!(outcomes[0].is_ok());
        assert_eq!(outcomes[1].as_ref().unwrap_err().kind(), ErrorKind::Busy);
        let mut now = optimistic.begin(&on(Isolation::ReadCommitted));
        now.put("a", "3").unwrap();
        now.commit().unwrap();
        assert!(rows(optimistic.db().iter(&Default::default()).unwrap()).starts_with("a=3 "));
    }
}

#[test]
fn who_does_not_look_loses_updates() {
    with_planted(PlantedBug::ConflictIsNotChecked, || {
        let optimistic = open_optimistic(&SimDisk::new());
        let mut one = optimistic.begin(&on(Isolation::Snapshot));
        one.put("a", "1").unwrap();
        optimistic.db().put("a", "2").unwrap();
        one.commit().unwrap();
        let db = open(&SimDisk::new());
        let mut one = db.begin(&on(Isolation::Snapshot));
        db.put("a", "2").unwrap();
        one.put("a", "1").unwrap();
        one.commit().unwrap();
    });
}

#[test]
fn a_transaction_has_a_limit_of_bytes() {
    let limited = TransactionDbOptions::default().max_transaction_bytes(1024).spill(Spill::Never);
    let db = open_with(&SimDisk::new(), &limited).unwrap();
    for level in LEVELS {
        let mut one = db.begin(&on(level));
        one.put("a", vec![b'x'; 500]).unwrap();
        assert_eq!(kind(one.put("b", vec![b'x'; 500])), ErrorKind::LimitExceeded);
        assert_eq!(db.lock_stats().locks, 1, "a call that fails keeps no lock");
        one.put("c", "1").unwrap();
        one.delete("a").unwrap();
        one.commit().unwrap();
        assert_eq!(all(&db), "c=1");
    }
    let db = open_with(&SimDisk::new(), &limited.commit_in_the_middle(true)).unwrap();
    for level in LEVELS {
        let mut one = db.begin(&on(level));
        let place = one.savepoint();
        one.put("a", vec![b'x'; 500]).unwrap();
        one.put("b", vec![b'y'; 500]).unwrap();
        assert_eq!(kind(one.rollback_to(place)), ErrorKind::InvalidArgument);
        assert_eq!(one.get("a").unwrap().map(|value| value.len()), Some(500));
        assert_eq!(kind(db.put("a", "1")), ErrorKind::TimedOut, "the locks stay");
        assert_eq!(kind(one.put("c", vec![b'y'; 5000])), ErrorKind::LimitExceeded);
        one.put("a", "1").unwrap();
        one.rollback();
        assert_eq!(db.db().get("a").unwrap().map(|value| value.len()), Some(500));
        db.delete("a").unwrap();
        assert_eq!(db.lock_stats().locks, 0);
    }
}

#[test]
fn options_have_bounds() {
    let disk = SimDisk::new();
    let refused = |transactions: TransactionDbOptions| {
        let error = open_with(&disk, &transactions).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.message().to_owned()
    };
    let message = refused(TransactionDbOptions::default().max_transaction_bytes(1023));
    assert_eq!(message, "max_transaction_bytes: 1023 is not within 1024 and 67108864");
    refused(TransactionDbOptions::default().max_transaction_bytes((64 << 20) + 1));
    let message = refused(TransactionDbOptions::default().max_lock_bytes(1));
    assert_eq!(message, "max_lock_bytes: 1 is less than 1024");
    let db = open_with(&disk, &TransactionDbOptions::default().max_lock_bytes(1024)).unwrap();
    let mut one = db.begin(&on(Isolation::ReadCommitted));
    let outcome = (0..100).try_for_each(|number| one.put(format!("{number}"), ""));
    assert_eq!(kind(outcome), ErrorKind::LimitExceeded);
    one.commit().unwrap();
}

#[test]
fn families_come_and_go_under_transactions() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let family = db.db().create_family("more", &family_options()).unwrap();
    let (mut one, two) = (db.begin(&on(Isolation::Snapshot)), db.begin(&on(Isolation::Snapshot)));
    one.put_cf(&family, "a", "1").unwrap();
    one.put("b", "1").unwrap();
    one.merge_cf(&db.db().family("other").unwrap(), "n", 7_u64.to_le_bytes()).unwrap();
    assert_eq!(rows(one.iter_cf(&family, &Default::default()).unwrap()), "a=1");
    db.db().drop_family(&family).unwrap();
    assert_eq!(kind(one.get_cf(&family, "a")), ErrorKind::NotFound);
    assert_eq!(kind(one.put_cf(&family, "a", "1")), ErrorKind::NotFound);
    assert_eq!(kind(two.get_cf(&family, "a")), ErrorKind::NotFound);
    assert_eq!(kind(one.commit()), ErrorKind::NotFound);
    assert_eq!((all(&db), db.lock_stats().locks), (String::new(), 0));
    // A handle of another database.
    let other = open(&SimDisk::new());
    let mut three = db.begin(&on(Isolation::Snapshot));
    assert_eq!(kind(three.put_cf(&other.db().default_family(), "a", "1")), ErrorKind::InvalidArgument);
    drop((two, three));
    flush(&db);
    db.close().unwrap();
}

#[test]
fn a_transaction_outlives_the_handle_of_its_database() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let mut one = db.begin(&on(Isolation::Snapshot));
    one.put("a", "1").unwrap();
    let iter = one.iter().unwrap();
    drop(db);
    assert_eq!(rows(iter), "a=1");
    one.commit().unwrap();
    assert_eq!(all(&open(&disk)), "a=1");
    let closed = open(&disk);
    let mut two = closed.begin(&on(Isolation::Snapshot));
    two.put("a", "2").unwrap();
    closed.close().unwrap();
    assert_eq!(kind(two.commit()), ErrorKind::Aborted);
}

#[test]
fn keys_that_are_equal_in_other_bytes_cannot_be_locked() {
    #[derive(Debug)]
    struct NoCase;
    impl siltstone_base::comparator::Comparator for NoCase {
        fn name(&self) -> &str {
            "test.NoCase"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        }
        fn equal_may_differ(&self) -> bool {
            true
        }
    }
    let disk = SimDisk::new();
    let family = family_options().comparator(std::sync::Arc::new(NoCase));
    let db = TransactionDb::open("/db", &options(&disk), &[("default", family)], &Default::default()).unwrap();
    assert_eq!(kind(db.put("a", "1")), ErrorKind::NotSupported);
    assert_eq!(kind(db.begin(&on(Isolation::Snapshot)).put("a", "1")), ErrorKind::NotSupported);
}

/// A row that came and went since has changed, even if nothing of it is left: who saw it before must not write over that.
#[test]
fn a_row_that_came_and_went_is_a_conflict() {
    for compacts in [false, true] {
        let (disk, optimistic_disk) = (SimDisk::new(), SimDisk::new());
        let (db, optimistic) = (open(&disk), open_optimistic(&optimistic_disk));
        let mut one = db.begin(&on(Isolation::Snapshot));
        let keys = ["deleted", "single", "never", "range"];
        let begin = |(index, key): (usize, &&str)| {
            let mut transaction = optimistic.begin(&on(LEVELS[index % 2]));
            transaction.put(key, "1").unwrap();
            transaction
        };
        let free: Vec<_> = keys.iter().enumerate().map(begin).collect();
        for base in [db.db(), optimistic.db()] {
            let mut batch = WriteBatch::new();
            for key in ["deleted", "single", "range", "m"] {
                batch.put(key, "0");
            }
            base.write(&mut batch, &Default::default()).unwrap();
            base.delete("deleted").unwrap();
            base.delete("never").unwrap();
            base.delete_range("range", "range2").unwrap();
            let mut batch = WriteBatch::new();
            batch.single_delete("single");
            base.write(&mut batch, &Default::default()).unwrap();
            base.flush(&FlushOptions::default()).unwrap();
            if compacts {
                let range = CompactRangeOptions::default().force_bottommost(true);
                base.compact_range(&base.default_family(), None, None, &range).unwrap();
            }
            assert_eq!(rows(base.iter(&Default::default()).unwrap()), "m=0");
        }
        for key in keys {
            assert_eq!(kind(one.put(key, "2")), ErrorKind::Busy, "{key} {compacts}");
        }
        for (transaction, key) in free.into_iter().zip(keys) {
            assert_eq!(kind(transaction.commit()), ErrorKind::Busy, "{key} {compacts}");
        }
        // Once nobody needs the numbers they go.
        drop(one);
        let range = CompactRangeOptions::default().force_bottommost(true);
        db.db().compact_range(&db.db().default_family(), None, None, &range).unwrap();
        assert!(db.db().metrics().counters().get(Counter::CompactionKeyDropObsolete) >= 3);
    }
}

#[test]
fn rows_of_old_tables_are_changed_without_a_read() {
    let disk = SimDisk::new();
    let db = open(&disk);
    for key in ["a", "b", "c"] {
        db.put(key, "0").unwrap();
        flush(&db);
    }
    let db = {
        db.close().unwrap();
        open(&disk)
    };
    db.put("z", "1").unwrap();
    let mut one = db.begin(&on(Isolation::Snapshot));
    disk.start_trace();
    for key in ["a", "b", "bb", "c"] {
        one.put(key, "1").unwrap();
    }
    let reads = disk.take_trace();
    let of_tables = reads.iter().filter(|op| op.class == OpClass::Read && op.file == FileKind::Table);
    assert_eq!(of_tables.count(), 0, "{reads:?}");
    one.commit().unwrap();
}

#[test]
fn what_an_optimistic_transaction_watches_is_limited() {
    let transactions = TransactionDbOptions::default().max_lock_bytes(4096);
    let db = crate::OptimisticTransactionDb::open("/db", &options(&SimDisk::new()), &[], &transactions).unwrap();
    let mut one = db.begin(&on(Isolation::ReadCommitted));
    let watched = (0..1000).take_while(|number| match one.get_for_update(format!("k{number}")) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
            false
        }
    });
    assert!((20..40).contains(&watched.count()));
    // What is watched already costs nothing more, and what is refused leaves the transaction as it was.
    one.get_for_update("k1").unwrap();
    assert_eq!(kind(one.put("new", "1")), ErrorKind::LimitExceeded);
    one.put("k2", "1").unwrap();
    one.commit().unwrap();
    assert_eq!(rows(db.db().iter(&Default::default()).unwrap()), "k2=1");
}

#[test]
fn a_savepoint_that_a_commit_in_the_middle_took_along_never_comes_back() {
    let transactions = TransactionDbOptions::default().max_transaction_bytes(1024).commit_in_the_middle(true);
    let db = open_with(&SimDisk::new(), &transactions).unwrap();
    let mut one = db.begin(&on(Isolation::ReadCommitted));
    one.put("a", "1").unwrap();
    let early = one.savepoint();
    one.put("b", [b'1'; 900]).unwrap();
    // Commits what is there.
    one.put("c", [b'1'; 900]).unwrap();
    assert_ne!(one.savepoint(), early);
    one.put("d", "1").unwrap();
    assert_eq!(kind(one.rollback_to(early)), ErrorKind::InvalidArgument, "what it would undo is committed");
    one.rollback();
    let left = ["a", "b", "c"].map(|key| db.db().get(key).unwrap().is_some());
    assert_eq!(left, [true, true, false]);
}
