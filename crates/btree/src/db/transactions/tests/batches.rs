//! Groups that are halfway: what others see of them.

use super::super::super::state::OpenTree;
use super::super::super::tests::{Map, new_disk, open_on, options, rows};
use super::super::super::write::Op;
use super::super::super::{Cursor, Db};
use siltstone_base::engine::{Admin, Durability, Isolation, KvCursor, KvOp, TransactionOptions};
use siltstone_base::sync::Arc;

fn put<'a>(tree: &'a Arc<OpenTree>, key: &'a str, value: &'a str) -> Op<'a> {
    (tree, KvOp::Put { key: key.as_bytes(), value: value.as_bytes() })
}

/// A group that was made and waits for its sync, as that of another thread.
fn make(db: &Db, ops: &[Op<'_>]) -> u64 {
    let _writer = db.0.writer.lock();
    db.0.make_group(ops).unwrap().0
}

/// Two rows are kept in memory, with the second the memory is full, and the others get stamps.
#[test]
fn a_reader_must_not_see_half_of_a_batch_that_another_one_published() {
    let disk = new_disk();
    let db = open_on(&disk, &options().durability(Durability::Commit).max_version_bytes(400)).unwrap();
    for key in ["a", "b", "c", "d"] {
        db.put(key, "old").unwrap();
    }
    let before = rows(&db);
    let old = db.cursor().unwrap();
    let tree = &db.0.default_tree;
    let ops = ["a", "b", "c", "d", "a", "d"].map(|key| put(tree, key, if key == "b" { "new" } else { "half" }));
    let mut ops = ops.to_vec();
    ops.extend(["a", "c", "d"].map(|key| put(tree, key, "new")));
    let number = make(&db, &ops);
    assert!(tree.tree().stamp(b"b").unwrap().is_none(), "the batch begins in memory");
    let stamp = tree.tree().stamp(b"c").unwrap().unwrap();
    assert!(db.0.transactions.is_active(stamp.id), "and ends with stamps");
    assert_eq!(rows(&db), before, "it is not safe yet");
    let made_before = db.cursor().unwrap();
    // A later batch is safe, and with it all before.
    db.put("e", "later").unwrap();
    assert!(!db.0.transactions.is_active(stamp.id));
    for key in ["a", "b", "c", "d"] {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&b"new"[..]), "{key}");
    }
    assert!(rows(&db).iter().all(|(key, value)| value == if key == b"e" { &b"later"[..] } else { b"new" }));
    db.0.publish(number);
    for mut cursor in [old, made_before] {
        let mut found = Map::new();
        let mut is_there = cursor.seek_to_first().unwrap();
        while is_there {
            found.insert(cursor.key().to_vec(), cursor.value().to_vec());
            is_there = cursor.next().unwrap();
        }
        assert_eq!(found, before);
    }
    Admin::settle(&db).unwrap();
    assert_eq!(db.history_len(), 0);
}

#[test]
fn a_transaction_must_see_its_own_write_on_a_batch_that_waits_for_its_sync() {
    let disk = new_disk();
    let db = open_on(&disk, &options().durability(Durability::Commit)).unwrap();
    db.put("a", "old").unwrap();
    let tree = &db.0.default_tree;
    let mut one = db.begin(&TransactionOptions::new(Isolation::ReadCommitted)).unwrap();
    make(&db, &[put(tree, "a", "batch"), put(tree, "b", "batch")]);
    assert_eq!(one.get("a").unwrap().as_deref(), Some(&b"old"[..]));
    let mut early = one.cursor().unwrap();
    one.put("a", "own").unwrap();
    one.delete("b").unwrap();
    assert_eq!(one.get("a").unwrap().as_deref(), Some(&b"own"[..]));
    let mut cursor = one.cursor().unwrap();
    one.put("a", "later").unwrap();
    let row = |cursor: &mut Cursor| {
        assert!(cursor.seek_to_first().unwrap());
        let row = (cursor.key().to_vec(), cursor.value().to_vec());
        assert!(!cursor.next().unwrap());
        row
    };
    assert_eq!(row(&mut cursor), (b"a".to_vec(), b"own".to_vec()));
    assert_eq!(row(&mut early), (b"a".to_vec(), b"old".to_vec()));
    assert_eq!(one.get("a").unwrap().as_deref(), Some(&b"later"[..]));
    one.commit().unwrap();
    assert_eq!(rows(&db).into_iter().collect::<Vec<_>>(), [(b"a".to_vec(), b"later".to_vec())]);
}

/// It was told that there is no row, because of a batch that is not safe yet: after a crash the row was there again.
#[test]
fn a_transaction_that_found_nothing_to_delete_vouches_for_the_batch_that_removed_it() {
    let disk = new_disk();
    let db = open_on(&disk, &options().durability(Durability::Commit)).unwrap();
    db.put("a", "1").unwrap();
    make(&db, &[(&db.0.default_tree, KvOp::Delete { key: b"a" })]);
    let mut one = db.begin(&TransactionOptions::new(Isolation::ReadCommitted)).unwrap();
    one.delete("a").unwrap();
    one.commit().unwrap();
    let again = open_on(&disk.after_power_loss(), &options()).unwrap();
    assert!(rows(&again).is_empty());
}
