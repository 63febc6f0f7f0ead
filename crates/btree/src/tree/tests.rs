//! Where pages are split, and descents that begin again.

use super::cursor::{Chunk, Position, Start};
use super::overflow::Value;
use super::search::Route;
use super::split::{inner_split_point, leaf_split_point};
use crate::meanwhile::{Gap, has_happened, once_at};
use crate::mtr::{Close, change_one, close_group};
use crate::page::{Cell, Change, FLAG_OVERFLOW, Header, OverflowRef, PageKind};
use crate::{Counter, Db, DbOptions, Durability, ErrorKind, KvCursor};

fn cells(keys: &[&'static str]) -> Vec<Cell<'static>> {
    keys.iter().map(|key| Cell { flags: 0, key: key.as_bytes(), value: &[0; 10] }).collect()
}

fn header(run: i16, last_insert: u16) -> Header {
    Header { run, last_insert, ..Header::empty(PageKind::Leaf, 0, 512) }
}

#[test]
fn pages_are_split_in_the_middle_or_at_the_end_of_a_run() {
    let cells = cells(&["a1", "b1", "c1", "d1"]);
    let split = |run, slot, key: &str| {
        let point = leaf_split_point(&header(run, 3), &cells, slot, key.as_bytes(), 23);
        (point.at, String::from_utf8(point.separator).unwrap())
    };
    assert_eq!(split(0, 4, "e1"), (2, "c".to_owned()));
    assert_eq!(split(0, 0, "Z"), (1, "b".to_owned()));
    assert_eq!(split(9, 4, "d2"), (4, "d2".to_owned()), "the new row goes alone");
    assert_eq!(split(9, 2, "b2"), (2, "c".to_owned()), "a run that ended is none");
    assert_eq!(split(-9, 0, "a0"), (0, "a1".to_owned()));
    let point = inner_split_point(&header(9, 3), &cells).unwrap();
    assert_eq!((point.at, point.separator.as_slice()), (3, &b"d1"[..]));
    let point = inner_split_point(&header(0, 0), &cells).unwrap();
    assert_eq!(point.at, 2);
    assert!(inner_split_point(&header(0, 0), &cells[..1]).is_none());
}

fn small() -> DbOptions {
    DbOptions::default()
        .create_if_missing(true)
        .page_size(512)
        .buffer_pool_bytes(2 << 20)
        .redo_capacity_bytes(8 << 20)
        .durability(Durability::Os)
}

#[test]
fn reading_takes_no_latch_on_inner_pages() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    for number in 0..5_000_u32 {
        db.put(number.to_be_bytes(), [1; 20]).unwrap();
    }
    assert!(db.check().unwrap().levels > 2);
    let latches = || db.metrics().get(Counter::InnerLatches);
    let before = latches();
    for number in 0..5_000_u32 {
        assert!(db.get(number.to_be_bytes()).unwrap().is_some());
    }
    for number in (0..5_000_u32).step_by(7) {
        let mut cursor = db.cursor().unwrap();
        assert!(cursor.seek(&number.to_be_bytes()).unwrap() && cursor.key() == number.to_be_bytes());
        for next in number + 1..(number + 100).min(5_000) {
            assert!(cursor.next().unwrap() && cursor.key() == next.to_be_bytes());
        }
    }
    let mut cursor = db.cursor().unwrap();
    let mut rows = u64::from(cursor.seek_to_last().unwrap());
    while cursor.prev().unwrap() {
        rows += 1;
    }
    assert_eq!((rows, latches()), (5_000, before));
}

/// Readers whose way changes under them, at a moment that the test chooses.
#[test]
fn a_descent_begins_again_when_its_way_changes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    for number in 0..3_000_u32 {
        db.put((number * 1000).to_be_bytes(), number.to_be_bytes()).unwrap();
    }
    let restarts = || db.metrics().get(Counter::DescentRestarts);
    let change = |middle: u32, is_split: bool| {
        let db = db.clone();
        let keys = (1..200).map(move |step| (middle + step).to_be_bytes());
        move || {
            let shapes = || db.metrics().get(Counter::Splits) + db.metrics().get(Counter::Merges);
            let before = shapes();
            keys.for_each(|key| if is_split { db.put(key, [0; 40]).unwrap() } else { db.delete(key).unwrap() });
            assert!(shapes() > before, "the shape changed");
        }
    };
    for (round, middle) in [3_000_u32, 1_500_000, 2_900_000].into_iter().enumerate() {
        for is_split in [true, false] {
            // The leaf of the key itself is split, or merged with the others, while the descent is above it.
            let key = middle.to_be_bytes();
            let before = restarts();
            once_at(Gap::Descent, change(middle, is_split));
            match round {
                0 => assert_eq!(db.get(key).unwrap().as_deref(), Some(&(middle / 1000).to_be_bytes()[..])),
                _ => {
                    let mut cursor = db.cursor().unwrap();
                    assert!(cursor.seek(&key).unwrap() && cursor.key() == key);
                }
            }
            assert!(has_happened(Gap::Descent));
            assert!(restarts() > before, "round {round}, {is_split}");
        }
    }
    assert_eq!(db.check().unwrap().rows, 3_000);
}

#[test]
fn readers_find_their_rows_while_the_shape_changes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    for number in 0..2_000_u32 {
        db.put((number * 1000).to_be_bytes(), number.to_be_bytes()).unwrap();
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            let mut reads = 0_u64;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                for number in 0..2_000_u32 {
                    let value = db.get((number * 1000).to_be_bytes()).unwrap();
                    assert_eq!(value.as_deref(), Some(&number.to_be_bytes()[..]));
                    reads += 1;
                }
            }
            reads
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for _ in 0..3 {
            for number in (1..2_000_u32).flat_map(|number| [number * 1000 + 1, number * 1000 + 2]) {
                db.put(number.to_be_bytes(), [0; 40]).unwrap();
            }
            for number in (1..2_000_u32).flat_map(|number| [number * 1000 + 1, number * 1000 + 2]) {
                db.delete(number.to_be_bytes()).unwrap();
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    assert!(db.metrics().get(Counter::Merges) > 0 && db.metrics().get(Counter::Splits) > 0);
    assert_eq!(db.check().unwrap().rows, 2_000);
}

/// A writer that has the leaf a scan left, and waits for the one it has reached.
#[test]
#[expect(clippy::disallowed_methods, reason = "a writer of its own beside the reader")]
fn a_scan_that_meets_a_split_must_not_hang_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    for number in 0..300_u32 {
        db.put(number.to_be_bytes(), [1; 20]).unwrap();
    }
    let handle = db.default_tree();
    let tree = db.tree_for_test(&handle);
    let (left, right) = {
        let (left, leaf) = tree.leaf_shared(Route::First).unwrap();
        (tree.page(left), tree.page(Header::read(leaf.bytes()).right))
    };
    let (mut position, mut chunk) = (Position::default(), Chunk::default());
    tree.read_chunk(Start::End, true, &mut position, 1_000, &mut chunk).unwrap();
    let last = chunk.get(chunk.len() - 1).unwrap().0.to_vec();
    let (over, is_over) = std::sync::mpsc::channel();
    let pool = std::sync::Arc::clone(&tree.pool);
    once_at(Gap::NextLeaf, move || {
        let (latched, is_latched) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let first = pool.exclusive(left).unwrap();
            latched.send(()).unwrap();
            let second = pool.exclusive(right).unwrap();
            drop((first, second));
            over.send(()).unwrap();
        });
        is_latched.recv().unwrap();
    });
    tree.read_chunk(Start::Beyond(&last), true, &mut position, 1, &mut chunk).unwrap();
    is_over.recv().unwrap();
    let next = u32::from_be_bytes(last.try_into().unwrap()) + 1;
    assert_eq!(chunk.get(0).unwrap().0, next.to_be_bytes());
}

#[test]
fn a_long_value_that_leads_into_the_leaf_of_its_row_is_damage_and_nobody_waits_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    db.put("b", "1").unwrap();
    let handle = db.default_tree();
    let tree = db.tree_for_test(&handle);
    let leaf = tree.leaf_shared(Route::Key(b"a")).unwrap().0;
    // One that begins there, and one that gets there by a page of its own.
    let chain = tree.write_long(&[7; 3_000]).unwrap();
    let mut first = tree.pool().exclusive(tree.page_id(chain.first)).unwrap();
    change_one(tree.pool(), &mut first, &Change::SetRight(leaf), Close::Open).unwrap();
    drop(first);
    for (key, chain) in [("a", OverflowRef { first: leaf, ..chain }), ("c", chain)] {
        let reference = chain.encode();
        let value = Value::new(FLAG_OVERFLOW, &reference);
        tree.put(key.as_bytes(), value, true, Close::Open, Close::Open, &mut |_| Ok(())).unwrap();
    }
    close_group(tree.pool()).unwrap();
    for key in ["a", "c"] {
        // Who changes a row reads what it was while nobody else has the leaf.
        let mut read = |row: Option<Value<'_>>| tree.whole(row.unwrap()).map(drop);
        let (bytes, new) = (key.as_bytes(), Value::inline(b"2"));
        let put = tree.put(bytes, new, true, Close::Open, Close::Open, &mut read).unwrap_err();
        let deleted = tree.delete(bytes, true, Close::Open, &mut read).unwrap_err();
        for error in [db.get(key).unwrap_err(), db.cursor().unwrap().seek(bytes).unwrap_err(), put, deleted] {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{key}: {error}");
        }
    }
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"1"[..]));
}
