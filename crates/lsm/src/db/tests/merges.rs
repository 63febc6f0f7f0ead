//! Merges and single deletes, through memtables, tables, compactions, snapshots and reopening.

use super::basics::options;
use crate::{
    AppendOperator, ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, CompressionType, Counter, Db, DbOptions,
    ErrorKind, FlushOptions, MaxOperator, MergeOperator, ReadOptions, UInt64AddOperator, WriteBatch, WriteOptions,
};
use siltstone_base::env::sim::SimDisk;
use std::sync::Arc;

fn merging(operator: impl MergeOperator + 'static) -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().merge_operator(Some(Arc::new(operator))).disable_auto_compactions(true)
}

fn open(options: &DbOptions, operator: impl MergeOperator + 'static) -> Db {
    Db::open_families("/db", options, &[("default", merging(operator))]).unwrap()
}

fn joining(disk: &SimDisk) -> Db {
    open(&options(disk), AppendOperator::new(","))
}

/// All rows by a get each, forward, and backward: they must be the same.
fn rows(db: &Db, read: &ReadOptions) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut iter = db.iter(read).unwrap();
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        forward.push((text(iter.key()), text(iter.value())));
        iter.next();
    }
    iter.status().unwrap();
    iter.seek_to_last();
    while iter.valid() {
        backward.push((text(iter.key()), text(iter.value())));
        iter.prev();
    }
    iter.status().unwrap();
    backward.reverse();
    assert_eq!(forward, backward);
    for (key, value) in &forward {
        let got = db.get_cf(&db.default_family(), key, read).unwrap();
        assert_eq!(got.as_deref(), Some(value.as_bytes()));
    }
    forward
}

fn row(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn flush(db: &Db) {
    db.flush(&FlushOptions::default()).unwrap();
}

fn compact(db: &Db) {
    let options = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &options).unwrap();
    db.check().unwrap();
}

#[test]
fn operands_over_every_kind_of_base_are_read_the_same_everywhere() {
    let disk = SimDisk::new();
    let db = joining(&disk);
    let write = |round: usize| {
        db.merge("alone", format!("a{round}")).unwrap();
        db.merge("deleted", format!("d{round}")).unwrap();
        db.merge("put", format!("p{round}")).unwrap();
        db.merge("single", format!("s{round}")).unwrap();
    };
    db.put("deleted", "gone").unwrap();
    db.put("put", "base").unwrap();
    db.put("single", "gone").unwrap();
    flush(&db);
    db.delete("deleted").unwrap();
    db.single_delete("single").unwrap();
    write(1);
    let middle = db.snapshot();
    write(2);
    flush(&db);
    write(3);
    flush(&db);
    write(4);
    let expected = |upto: usize| -> Vec<_> {
        let joined = |letter: &str| (1..=upto).map(|round| format!("{letter}{round}")).collect::<Vec<_>>().join(",");
        vec![
            row("alone", &joined("a")),
            row("deleted", &joined("d")),
            row("put", &format!("base,{}", joined("p"))),
            row("single", &joined("s")),
        ]
    };
    let now = ReadOptions::default();
    let then = ReadOptions::default().snapshot(Some(middle));
    let check = |db: &Db| {
        assert_eq!(rows(db, &now), expected(4));
        assert_eq!(rows(db, &then), expected(1));
    };
    check(&db);
    compact(&db);
    check(&db);
    flush(&db);
    check(&db);
    compact(&db);
    check(&db);
    drop(then);
    db.close().unwrap();
    let db = joining(&disk);
    assert_eq!(rows(&db, &now), expected(4));
    compact(&db);
    assert_eq!(rows(&db, &now), expected(4));
    assert_eq!(db.metrics().counters().get(Counter::MergeFailures), 0);
}

#[test]
fn operands_come_back_from_the_wal() {
    let disk = SimDisk::new();
    let options = options(&disk);
    let db = open(&options, UInt64AddOperator);
    for _ in 0..5 {
        let mut batch = WriteBatch::new();
        batch.merge("n", 2_u64.to_le_bytes());
        batch.merge("m", 1_u64.to_le_bytes());
        db.write(&mut batch, &WriteOptions::default().sync(true)).unwrap();
    }
    db.close().unwrap();
    let db = open(&options, UInt64AddOperator);
    let keys: [&[u8]; 3] = [b"m", b"n", b"none"];
    let found = db.multi_get_cf(&db.default_family(), &keys, &ReadOptions::default());
    let found: Vec<_> = found.into_iter().map(|value| value.unwrap().map(|value| value.to_vec())).collect();
    assert_eq!(found, [Some(5_u64.to_le_bytes().to_vec()), Some(10_u64.to_le_bytes().to_vec()), None]);
    compact(&db);
    assert_eq!(&*db.get("n").unwrap().unwrap(), 10_u64.to_le_bytes());
}

#[test]
fn iterators_turn_around_on_merged_values() {
    let disk = SimDisk::new();
    let db = joining(&disk);
    for key in ["a", "b", "c"] {
        db.put(key, "0").unwrap();
        db.merge(key, "1").unwrap();
        flush(&db);
        db.merge(key, "2").unwrap();
    }
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    let mut go = |steps: &str| {
        for step in steps.chars() {
            match step {
                '<' => iter.prev(),
                '>' => iter.next(),
                key => iter.seek(key.to_string().as_bytes()),
            }
        }
        iter.status().unwrap();
        iter.valid().then(|| format!("{}={}", iter.key().escape_ascii(), iter.value().escape_ascii()))
    };
    let at = |key: &str| Some(format!("{key}=0,1,2"));
    assert_eq!(go("b"), at("b"));
    assert_eq!(go("<"), at("a"));
    assert_eq!(go(">"), at("b"));
    assert_eq!(go(">"), at("c"));
    assert_eq!(go("<<"), at("a"));
    assert_eq!(go("b><><>"), at("c"));
    assert_eq!(go(">"), None);
}

#[test]
fn a_family_without_an_operator_refuses_merges_and_their_keys_by_name() {
    let disk = SimDisk::new();
    let options = options(&disk);
    let db = joining(&disk);
    db.put("plain", "p").unwrap();
    db.merge("key", "x").unwrap();
    flush(&db);
    db.close().unwrap();

    let without = ColumnFamilyOptions::default().disable_auto_compactions(true).allow_other_merge_operator(true);
    let db = Db::open_families("/db", &options, &[("default", without)]).unwrap();
    let error = db.get("key").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let message = "merge_operator: column family default has merge operands and no operator is set";
    assert_eq!(error.message(), message);
    assert_eq!(&*db.get("plain").unwrap().unwrap(), b"p");
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    assert!(!iter.valid());
    assert_eq!(iter.status().unwrap_err().message(), message);
    iter.seek_to_last();
    assert_eq!(iter.key(), b"plain");
    iter.prev();
    assert_eq!(iter.status().unwrap_err().message(), message);
    let error = db.merge("key", "y").unwrap_err();
    assert_eq!(error.message(), "merge_operator: column family default has none");
    // Compactions carry the operands along.
    compact(&db);
    drop(iter);
    db.close().unwrap();

    let error = Db::open_families("/db", &options, &[("default", merging(MaxOperator))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.message(),
        "merge_operator: a table of column family default has operands of StringAppendOperator, and the family is opened with MaxOperator"
    );
    assert_eq!(rows(&joining(&disk), &ReadOptions::default()), [row("key", "x"), row("plain", "p")]);
}

#[test]
fn what_cannot_be_merged_fails_its_readers_and_nobody_else() {
    let disk = SimDisk::new();
    let db = open(&options(&disk), UInt64AddOperator);
    db.put("bad", "not a number").unwrap();
    db.merge("bad", 1_u64.to_le_bytes()).unwrap();
    db.merge("good", 1_u64.to_le_bytes()).unwrap();
    db.merge("good", 1_u64.to_le_bytes()).unwrap();
    for _ in 0..2 {
        assert_eq!(db.get("bad").unwrap_err().kind(), ErrorKind::MergeFailed);
        assert_eq!(&*db.get("good").unwrap().unwrap(), 2_u64.to_le_bytes());
        flush(&db);
        compact(&db);
    }
    assert!(db.metrics().counters().get(Counter::MergeFailures) > 2);
    db.put("bad", 7_u64.to_le_bytes()).unwrap();
    compact(&db);
    assert_eq!(&*db.get("bad").unwrap().unwrap(), 7_u64.to_le_bytes());
}

#[test]
fn a_flush_in_which_everything_goes_away_makes_no_table() {
    let disk = SimDisk::new();
    let options = options(&disk);
    let db = Db::open("/db", &options).unwrap();
    db.put("a", "1").unwrap();
    db.single_delete("a").unwrap();
    flush(&db);
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "0");
    db.put("b", "1").unwrap();
    db.single_delete("b").unwrap();
    db.check().unwrap();
    db.close().unwrap();
    let db = Db::open("/db", &options).unwrap();
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "0");
    let tables = |name: &String| name.ends_with(".sst");
    let names = disk.env().list_dir("/db".as_ref()).unwrap().into_iter().map(|entry| entry.name);
    assert_eq!(names.filter(tables).count(), 0);
    db.put("c", "1").unwrap();
    assert_eq!(&*db.get("c").unwrap().unwrap(), b"1");
}

/// An older value waits for its single delete, though a newer value was put over both in one memtable.
#[test]
fn a_flush_keeps_single_deletes_that_have_work_to_do_beneath() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    db.put("a", "old").unwrap();
    flush(&db);
    db.single_delete("a").unwrap();
    db.put("a", "new").unwrap();
    flush(&db);
    db.single_delete("a").unwrap();
    flush(&db);
    assert!(db.get("a").unwrap().is_none());
    compact(&db);
    assert!(db.get("a").unwrap().is_none());
}

/// While a snapshot kept an old value, newer values and their single deletes went by turns; the last single delete meets its value where the old one is not at hand.
#[test]
fn a_row_that_is_put_and_single_deleted_by_turns_beside_a_snapshot_does_not_come_back() {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default()
        .compaction_style(CompactionStyle::Universal)
        .level0_file_num_compaction_trigger(3)
        .compression(CompressionType::None);
    let db = Db::open("/db", &options(&disk).unnamed_families(family)).unwrap();
    let flush_with = |filler: &str, len: usize| {
        db.put(filler, vec![7; len]).unwrap();
        flush(&db);
        db.wait_for_background_work().unwrap();
    };
    db.put("a", "first").unwrap();
    flush_with("oldest run", 100_000);
    let snapshot = db.snapshot();
    for value in ["second", "third"] {
        db.single_delete("a").unwrap();
        db.put("a", value).unwrap();
    }
    flush_with("b", 1_000);
    flush_with("c", 1_500);
    assert_eq!(db.metrics().counters().get(Counter::Compactions), 1, "the newer runs became one");
    drop(snapshot);
    db.single_delete("a").unwrap();
    flush_with("d", 5_000);
    assert_eq!(db.metrics().counters().get(Counter::Compactions), 2);
    assert!(db.get("a").unwrap().is_none());
    compact(&db);
    assert!(db.get("a").unwrap().is_none());
}

#[test]
fn single_deletes_over_more_than_one_value_are_counted() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    db.put("a", "1").unwrap();
    db.put("a", "2").unwrap();
    db.single_delete("a").unwrap();
    flush(&db);
    assert_eq!(db.metrics().counters().get(Counter::SingleDeleteMismatches), 1);
}

/// What two operands would become together may be longer than any table takes. It fails who reads it, and nobody else.
#[test]
fn operands_that_are_too_long_together_fail_their_readers_alone() {
    let disk = SimDisk::new();
    let db = joining(&disk);
    db.put("other", "1").unwrap();
    db.merge("k", vec![b'x'; 50 << 20]).unwrap();
    db.merge("k", vec![b'y'; 15 << 20]).unwrap();
    let check = |db: &Db| {
        assert_eq!(db.get("k").unwrap_err().kind(), ErrorKind::LimitExceeded);
        assert_eq!(db.get("other").unwrap().as_deref(), Some(&b"1"[..]));
    };
    check(&db);
    flush(&db);
    db.put("other", "1").unwrap();
    flush(&db);
    compact(&db);
    check(&db);
    db.merge("k", vec![b'z'; 1 << 20]).unwrap();
    drop(db);
    let db = joining(&disk);
    check(&db);
    db.put("k", "2").unwrap();
    compact(&db);
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"2"[..]));
}
