//! Range deletes, through memtables, tables and compactions.

use super::basics::options;
use crate::{
    ColumnFamilyOptions, CompactRangeOptions, Counter, Db, ErrorKind, FlushOptions, Iter, ReadOptions, TableOptions,
    WriteBatch, WriteOptions,
};
use siltstone_base::env::sim::SimDisk;

fn key(number: u32) -> String {
    format!("key{number:04}")
}

fn open(disk: &SimDisk) -> Db {
    let family = ColumnFamilyOptions::default()
        .disable_auto_compactions(true)
        .target_file_size_base(4096)
        .table(TableOptions::default().block_size(512));
    Db::open_families("/db", &options(disk), &[("default", family)]).unwrap()
}

fn fill(db: &Db, from: u32, to: u32, value: &str) {
    for number in from..to {
        db.put(key(number), value).unwrap();
    }
}

fn flush(db: &Db) {
    db.flush(&FlushOptions::default()).unwrap();
    db.check().unwrap();
}

fn compact(db: &Db) {
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    db.check().unwrap();
}

fn forward(iter: &mut Iter) -> Vec<String> {
    let mut keys = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        keys.push(String::from_utf8(iter.key().to_vec()).unwrap());
        iter.next();
    }
    iter.status().unwrap();
    keys
}

/// Checks that exactly the keys of `expected` are there, in every way of asking.
fn assert_keys(db: &Db, options: &ReadOptions, expected: &[u32]) {
    let names: Vec<String> = expected.iter().map(|number| key(*number)).collect();
    let mut iter = db.iter(options).unwrap();
    assert_eq!(forward(&mut iter), names);
    let mut backward = Vec::new();
    iter.seek_to_last();
    while iter.valid() {
        backward.push(String::from_utf8(iter.key().to_vec()).unwrap());
        iter.prev();
    }
    iter.status().unwrap();
    backward.reverse();
    assert_eq!(backward, names);
    let family = db.default_family();
    let all: Vec<String> = (0..1000).step_by(7).map(key).collect();
    let asked: Vec<&[u8]> = all.iter().map(String::as_bytes).collect();
    for (name, found) in all.iter().zip(db.multi_get_cf(&family, &asked, options)) {
        assert_eq!(found.unwrap().is_some(), names.contains(name), "{name}");
        iter.seek(name.as_bytes());
        let at = names.partition_point(|other| other < name);
        assert_eq!(iter.valid().then(|| iter.key().to_vec()), names.get(at).map(|name| name.as_bytes().to_vec()));
        iter.seek_for_prev(name.as_bytes());
        let before =
            names.partition_point(|other| other <= name).checked_sub(1).map(|at| names[at].as_bytes().to_vec());
        assert_eq!(iter.valid().then(|| iter.key().to_vec()), before);
    }
}

#[test]
fn a_range_is_gone_in_memory_in_tables_and_after_compaction() {
    let disk = SimDisk::new();
    let db = open(&disk);
    fill(&db, 0, 1000, "old");
    let before = db.snapshot();
    db.delete_range(key(100), key(900)).unwrap();
    fill(&db, 500, 510, "new");
    let expected: Vec<u32> = (0..100).chain(500..510).chain(900..1000).collect();
    let all: Vec<u32> = (0..1000).collect();
    let old = ReadOptions::default().snapshot(Some(before));
    let check = |db: &Db| {
        assert_keys(db, &ReadOptions::default(), &expected);
        assert_keys(db, &old, &all);
    };
    check(&db);
    flush(&db);
    check(&db);
    compact(&db);
    check(&db);
    drop(old);
    compact(&db);
    assert_keys(&db, &ReadOptions::default(), &expected);
    assert_eq!(&*db.get(key(505)).unwrap().unwrap(), b"new");
}

#[test]
fn newer_tables_hide_older_ones() {
    let disk = SimDisk::new();
    let db = open(&disk);
    fill(&db, 0, 1000, "old");
    compact(&db);
    for number in 0..50 {
        db.delete_range(key(number * 20), key(number * 20 + 13)).unwrap();
        if number % 10 == 3 {
            flush(&db);
        }
        fill(&db, number * 20 + 3, number * 20 + 4, "new");
    }
    let expected: Vec<u32> = (0..1000).filter(|number| number % 20 >= 13 || number % 20 == 3).collect();
    assert_keys(&db, &ReadOptions::default(), &expected);
    flush(&db);
    assert_keys(&db, &ReadOptions::default(), &expected);
    db.close().unwrap();
    let db = open(&disk);
    assert_keys(&db, &ReadOptions::default(), &expected);
    compact(&db);
    assert_keys(&db, &ReadOptions::default(), &expected);
    db.put(key(5), "again").unwrap();
    assert_eq!(&*db.get(key(5)).unwrap().unwrap(), b"again");
}

#[test]
fn tombstones_that_span_many_outputs_are_cut_and_go_away_at_the_bottom() {
    let disk = SimDisk::new();
    let db = open(&disk);
    fill(&db, 0, 1000, &"v".repeat(100));
    let early = db.snapshot();
    db.delete_range(key(10), key(990)).unwrap();
    fill(&db, 300, 700, &"w".repeat(100));
    flush(&db);
    compact(&db);
    let family = db.default_family();
    let files = db.property_cf(&family, "rocksdb.levelstats").unwrap();
    assert!(!files.is_empty());
    let expected: Vec<u32> = (0..10).chain(300..700).chain(990..1000).collect();
    assert_keys(&db, &ReadOptions::default(), &expected);
    let all: Vec<u32> = (0..1000).collect();
    assert_keys(&db, &ReadOptions::default().snapshot(Some(early.clone())), &all);
    db.close().unwrap();
    drop(early);
    let db = open(&disk);
    assert_keys(&db, &ReadOptions::default(), &expected);
    let options = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &options).unwrap();
    let report = db.check().unwrap();
    assert_eq!(report.entries, expected.len() as u64, "no tombstone and nothing covered is left");
    assert_keys(&db, &ReadOptions::default(), &expected);
}

#[test]
fn a_table_of_tombstones_alone_is_written_and_vanishes() {
    let disk = SimDisk::new();
    let db = open(&disk);
    db.delete_range("a", "c").unwrap();
    db.delete_range("b", "d").unwrap();
    flush(&db);
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "1");
    assert_keys(&db, &ReadOptions::default(), &[]);
    db.close().unwrap();
    let db = open(&disk);
    assert_keys(&db, &ReadOptions::default(), &[]);
    let options = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &options).unwrap();
    assert_eq!(db.check().unwrap().tables, 0);
}

#[test]
fn order_within_a_batch_counts_and_the_log_brings_it_back() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let mut batch = WriteBatch::new();
    batch.put(key(1), "x");
    batch.put(key(2), "x");
    batch.delete_range(key(0), key(9));
    batch.put(key(2), "y");
    db.write(&mut batch, &WriteOptions::default()).unwrap();
    assert_keys(&db, &ReadOptions::default(), &[2]);
    db.close().unwrap();
    let db = open(&disk);
    assert_keys(&db, &ReadOptions::default(), &[2]);
    assert_eq!(&*db.get(key(2)).unwrap().unwrap(), b"y");
}

#[test]
fn an_inverted_range_is_refused_and_an_empty_one_deletes_nothing() {
    let disk = SimDisk::new();
    let db = open(&disk);
    fill(&db, 0, 3, "x");
    let error = db.delete_range(key(2), key(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let seqno = db.latest_seqno();
    db.delete_range(key(1), key(1)).unwrap();
    assert_eq!(db.latest_seqno(), seqno + 1);
    assert_keys(&db, &ReadOptions::default(), &[0, 1, 2]);
    flush(&db);
    assert_keys(&db, &ReadOptions::default(), &[0, 1, 2]);
    let mut batch = WriteBatch::new();
    batch.delete_range("a", vec![b'b'; crate::MAX_KEY_LEN + 1]);
    assert_eq!(batch.check().unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn covered_stretches_are_passed_by_seeking() {
    let disk = SimDisk::new();
    let db = open(&disk);
    fill(&db, 0, 1000, "old");
    compact(&db);
    db.delete_range(key(1), key(999)).unwrap();
    flush(&db);
    // Newer keys within the range stay.
    db.put(key(500), "new").unwrap();
    assert_keys(&db, &ReadOptions::default(), &[0, 500, 999]);
    let passed = || db.metrics().get(Counter::IterCovered);
    let before = passed();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    assert_eq!(forward(&mut iter).len(), 3);
    drop(iter);
    let forward_passed = passed() - before;
    assert!((1..40).contains(&forward_passed), "{forward_passed}");
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_last();
    for expected in [999, 500, 0] {
        assert_eq!(iter.key(), key(expected).as_bytes());
        iter.prev();
    }
    assert!(!iter.valid());
    // A seek into the stretch begins behind it.
    iter.seek(key(600).as_bytes());
    assert_eq!(iter.key(), key(999).as_bytes());
    drop(iter);
    let backward_passed = passed() - before - forward_passed;
    assert!((1..40).contains(&backward_passed), "{backward_passed}");
}

#[test]
fn bounds_and_ranges_work_together() {
    let disk = SimDisk::new();
    let db = open(&disk);
    fill(&db, 0, 100, "x");
    flush(&db);
    db.delete_range(key(20), key(80)).unwrap();
    let bounded = ReadOptions::default()
        .iterate_lower_bound(Some(key(30).into_bytes()))
        .iterate_upper_bound(Some(key(85).into_bytes()));
    let mut iter = db.iter(&bounded).unwrap();
    assert_eq!(forward(&mut iter), (80..85).map(key).collect::<Vec<_>>());
    iter.seek(key(0).as_bytes());
    assert_eq!(iter.key(), key(80).as_bytes());
    iter.prev();
    assert!(!iter.valid());
    iter.seek_to_last();
    assert_eq!(iter.key(), key(84).as_bytes());
    iter.seek_for_prev(key(60).as_bytes());
    assert!(!iter.valid());
    iter.status().unwrap();
}
