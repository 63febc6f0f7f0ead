//! Iterators that are refreshed, and what iterators keep.

use super::basics::options;
use crate::{
    AppendOperator, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, ErrorKind, FlushOptions, Iter, ReadOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;

fn open(options: &DbOptions) -> Db {
    let operator = Some(Arc::new(AppendOperator::new(",")) as _);
    let family = ColumnFamilyOptions::default().merge_operator(operator).disable_auto_compactions(true);
    Db::open_families("/db", options, &[("default", family)]).unwrap()
}

fn flush(db: &Db) {
    db.flush(&FlushOptions::default()).unwrap();
}

fn compact(db: &Db) {
    let options = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &options).unwrap();
}

/// All rows, which must be the same in both directions, and turned around at each row.
fn rows(iter: &mut Iter) -> String {
    let shown = |iter: &Iter| format!("{}={}", iter.key().escape_ascii(), iter.value().escape_ascii());
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        forward.push(shown(iter));
        iter.next();
        if iter.valid() {
            let there = shown(iter);
            iter.prev();
            assert_eq!(Some(&shown(iter)), forward.last());
            iter.next();
            assert_eq!(shown(iter), there);
        }
    }
    iter.status().unwrap();
    iter.seek_to_last();
    while iter.valid() {
        backward.push(shown(iter));
        iter.prev();
    }
    iter.status().unwrap();
    backward.reverse();
    assert_eq!(forward, backward);
    forward.join(" ")
}

#[test]
fn a_refreshed_iterator_shows_the_newest_state_within_its_bounds() {
    let disk = SimDisk::new();
    let db = open(&options(&disk));
    for key in ["a", "b", "c", "d", "e", "x"] {
        db.put(key, "1").unwrap();
    }
    flush(&db);
    let bounded =
        ReadOptions::default().iterate_lower_bound(Some(b"b".to_vec())).iterate_upper_bound(Some(b"x".to_vec()));
    let mut iter = db.iter(&bounded).unwrap();
    db.delete_range("c", "e").unwrap();
    db.merge("b", "2").unwrap();
    db.merge("d", "3").unwrap();
    let snapshot = db.snapshot();
    flush(&db);
    db.merge("e", "4").unwrap();
    db.delete("b").unwrap();
    assert_eq!(rows(&mut iter), "b=1 c=1 d=1 e=1");
    iter.seek_to_first();
    iter.refresh().unwrap();
    assert!(!iter.valid());
    assert_eq!(rows(&mut iter), "d=3 e=1,4");
    iter.refresh_at(&snapshot).unwrap();
    assert_eq!(rows(&mut iter), "b=1,2 d=3 e=1");
    drop(snapshot);
    compact(&db);
    assert_eq!(rows(&mut iter), "b=1,2 d=3 e=1");
    iter.refresh().unwrap();
    assert_eq!(rows(&mut iter), "d=3 e=1,4");

    // One at a snapshot shows the newest state as well.
    let old = db.snapshot();
    let mut iter = db.iter(&bounded.clone().snapshot(Some(old))).unwrap();
    db.put("d", "5").unwrap();
    assert_eq!(rows(&mut iter), "d=3 e=1,4");
    iter.refresh().unwrap();
    assert_eq!(rows(&mut iter), "d=5 e=1,4");
}

#[test]
fn an_iterator_that_cannot_be_refreshed_stays_as_it_is() {
    let disk = SimDisk::new();
    let db = open(&options(&disk));
    let family = db.create_family("other", &ColumnFamilyOptions::default()).unwrap();
    db.put_cf(&family, "a", "1", &Default::default()).unwrap();
    let mut iter = db.iter_cf(&family, &ReadOptions::default()).unwrap();
    let elsewhere = Db::open("/elsewhere", &options(&disk)).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.refresh_at(&elsewhere.snapshot()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(iter.key(), b"a");
    db.drop_family(&family).unwrap();
    assert_eq!(iter.refresh().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(iter.key(), b"a");
    assert_eq!(rows(&mut iter), "a=1");
    // The family is gone, and what the iterator holds of it is known.
    let pinned = db.pinned_states(&family);
    assert_eq!((pinned.len(), pinned[0].holders, pinned[0].memtables), (1, 1, 1));
    drop(family);
    db.close().unwrap();
    assert_eq!(rows(&mut iter), "a=1");
}

#[test]
fn what_iterators_hold_is_reported_until_they_let_go() {
    let disk = SimDisk::new();
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    let executor = Arc::new(StepExecutor::new(Arc::<ManualClock>::clone(&clock)));
    let db = open(&options(&disk).executor(Some(executor)));
    let family = db.default_family();
    let number = |name: &str| db.property(name).unwrap().parse::<u64>().unwrap();
    for key in 0..100 {
        db.put(format!("key{key}"), [7; 100]).unwrap();
    }
    assert_eq!(db.pinned_states(&family), []);
    let mut first = db.iter(&ReadOptions::default()).unwrap();
    first.seek_to_first();
    assert_eq!(db.pinned_states(&family), [], "the newest state");
    let memory = number("rocksdb.cur-size-all-mem-tables");
    assert_eq!(first.pins().memtable_bytes, memory);
    assert_eq!((first.pins().memtables, first.pins().tables, first.pins().block_bytes), (1, 0, 0));

    flush(&db);
    clock.advance(std::time::Duration::from_micros(5_000));
    let pinned = db.pinned_states(&family);
    let [state] = &pinned[..] else { panic!("{pinned:?}") };
    assert_eq!((state.holders, state.memtables, state.memtable_bytes, state.tables), (1, 1, memory, 0));
    assert!(state.age_micros >= 5_000, "{state:?}");
    let now = number("rocksdb.cur-size-all-mem-tables");
    assert_eq!(number("rocksdb.size-all-mem-tables"), now + memory);

    let mut second = db.iter(&ReadOptions::default()).unwrap();
    let third = db.iter(&ReadOptions::default()).unwrap();
    second.seek(b"key5");
    let table_bytes = number("rocksdb.live-sst-files-size");
    let pins = second.pins();
    assert_eq!((pins.tables, pins.table_bytes), (1, table_bytes));
    assert!(pins.block_bytes >= 100, "{pins:?}");
    assert!(number("rocksdb.block-cache-pinned-usage") >= pins.block_bytes / 2, "charged to the cache");
    db.put("key", "v").unwrap();
    flush(&db);
    compact(&db);
    let pinned = db.pinned_states(&family);
    let [oldest, state] = &pinned[..] else { panic!("{pinned:?}") };
    assert!(oldest.age_micros > state.age_micros, "oldest first");
    assert_eq!((state.holders, state.tables, state.table_bytes), (2, 1, table_bytes));
    let live = number("rocksdb.live-sst-files-size");
    assert_eq!(number("rocksdb.total-sst-files-size"), live + table_bytes, "files stay");

    drop(third);
    assert_eq!(db.pinned_states(&family)[1].holders, 1);
    first.refresh().unwrap();
    assert_eq!(db.pinned_states(&family).len(), 1);
    second.refresh().unwrap();
    assert_eq!(second.pins().block_bytes, 0);
    assert_eq!(db.pinned_states(&family), []);
    assert_eq!(number("rocksdb.total-sst-files-size"), live);
    assert_eq!(number("rocksdb.size-all-mem-tables"), number("rocksdb.cur-size-all-mem-tables"));
}
