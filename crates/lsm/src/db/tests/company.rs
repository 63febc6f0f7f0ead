//! Batches that their own writers insert side by side.

use crate::db::write_queue::Request;
use crate::{Db, DbOptions, Error, ErrorKind, WriteBatch, WriteOptions};

/// Entries of a batch whose insertion takes long enough.
const ENTRIES: u64 = 400;

/// Writes a large batch on each of two threads, which wait for one leader. Keys begin at `first`.
fn write_two_together(db: &Db, first: u64) {
    std::thread::scope(|scope| {
        let leader = db.handle.inner.lock_write_side();
        for thread in 0..2 {
            scope.spawn(move || {
                let mut batch = WriteBatch::new();
                for number in 0..ENTRIES {
                    batch.put((first + 2 * number + thread).to_be_bytes(), b"a value of a few bytes");
                }
                db.write(&mut batch, &WriteOptions::default()).unwrap();
            });
        }
        while db.handle.inner.write_queue.len_for_test() < 2 {
            std::thread::yield_now();
        }
        drop(leader);
    });
}

#[test]
fn a_lone_put_behind_batches_side_by_side_makes_no_filter_of_all_their_entries() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true)).unwrap();
    let memtable = || db.handle.inner.default_family.super_version.load().memtable.clone();
    write_two_together(&db, 0);
    assert_eq!(memtable().shared_writers_for_test(), 2, "each has inserted its own");
    assert!(!memtable().has_bloom_for_test(), "nothing was there before");
    write_two_together(&db, 2 * ENTRIES);
    assert_eq!(memtable().shared_writers_for_test(), 4);
    assert!(memtable().has_bloom_for_test(), "made of a few hundred entries, before the others came");
    for key in 0..4 * ENTRIES {
        assert!(db.get(key.to_be_bytes()).unwrap().is_some(), "{key}");
        assert!(db.get((key + (1 << 40)).to_be_bytes()).unwrap().is_none(), "{key}");
    }
}

#[test]
fn a_write_whose_leader_panicked_stays_failed_when_its_own_writer_has_inserted_it() {
    let request = Request::new(WriteBatch::new(), WriteOptions::default(), None);
    request.let_insert_itself(1);
    request.finish(Err(Error::new(ErrorKind::Poisoned, "a writer panicked")));
    request.set_inserted(Ok(()));
    assert!(request.is_done());
    assert_eq!(request.outcome().unwrap_err().kind(), ErrorKind::Poisoned);
}

#[test]
fn small_batches_are_inserted_by_their_leader() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true)).unwrap();
    std::thread::scope(|scope| {
        let leader = db.handle.inner.lock_write_side();
        for number in 0..4_u8 {
            let db = &db;
            scope.spawn(move || db.put([number], "value").unwrap());
        }
        while db.handle.inner.write_queue.len_for_test() < 4 {
            std::thread::yield_now();
        }
        drop(leader);
    });
    let memtable = db.handle.inner.default_family.super_version.load().memtable.clone();
    assert_eq!((memtable.num_entries(), memtable.shared_writers_for_test()), (4, 0));
}
