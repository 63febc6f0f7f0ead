//! Writing, reading, reopening.

use crate::{ColumnFamilyOptions, Db, DbOptions, ErrorKind, FlushOptions, ReadOptions, WriteBatch, WriteOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::comparator::ReverseBytewise;
use siltstone_base::env::Env;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;

pub(super) fn options(disk: &SimDisk) -> DbOptions {
    let env: Arc<dyn Env> = disk.env();
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    DbOptions::default().create_if_missing(true).env(Some(env)).executor(Some(Arc::new(StepExecutor::new(clock))))
}

fn get(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn what_was_written_is_read_before_and_after_flush_and_reopen() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    db.delete("a").unwrap();
    assert_eq!(get(&db, "a"), None);
    assert_eq!(get(&db, "b").as_deref(), Some("2"));
    db.flush(&FlushOptions::default()).unwrap();
    assert_eq!(get(&db, "b").as_deref(), Some("2"));
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "1");
    db.put("c", "3").unwrap();
    db.check().unwrap();
    db.close().unwrap();
    let db = Db::open("/db", &options(&disk)).unwrap();
    assert_eq!(get(&db, "a"), None);
    assert_eq!(get(&db, "b").as_deref(), Some("2"));
    assert_eq!(get(&db, "c").as_deref(), Some("3"));
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    let mut keys = Vec::new();
    while iter.valid() {
        keys.push(iter.key().to_vec());
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(keys, [b"b".to_vec(), b"c".to_vec()]);
    iter.seek_to_last();
    assert_eq!(iter.key(), b"c");
    iter.prev();
    assert_eq!(iter.key(), b"b");
    iter.next();
    assert_eq!(iter.key(), b"c");
    db.check().unwrap();
}

#[test]
fn a_second_opening_gets_a_lock_error() {
    let disk = SimDisk::new();
    let options = options(&disk);
    let db = Db::open("/db", &options).unwrap();
    assert_eq!(Db::open("/db", &options).unwrap_err().kind(), ErrorKind::Locked);
    db.close().unwrap();
    Db::open("/db", &options).unwrap().close().unwrap();
}

#[test]
fn a_snapshot_keeps_what_it_saw_in_every_family() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    let other = db.create_family("other", &ColumnFamilyOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put("k", "old");
    batch.put_cf(&other, "k", "old");
    db.write(&mut batch, &WriteOptions::default()).unwrap();
    let snapshot = db.snapshot();
    batch.clear();
    batch.put("k", "new");
    batch.delete_cf(&other, "k");
    db.write(&mut batch, &WriteOptions::default()).unwrap();
    db.flush_families(&[&db.default_family(), &other], &FlushOptions::default()).unwrap();
    let at = ReadOptions::default().snapshot(Some(snapshot));
    for family in [&db.default_family(), &other] {
        assert_eq!(&*db.get_cf(family, "k", &at).unwrap().unwrap(), b"old");
    }
    assert_eq!(get(&db, "k").as_deref(), Some("new"));
    assert!(db.get_cf(&other, "k", &ReadOptions::default()).unwrap().is_none());
    db.drop_family(&other).unwrap();
    assert_eq!(db.get_cf(&other, "k", &at).unwrap_err().kind(), ErrorKind::NotFound);
}

/// A family in reverse order is opened by somebody who does not know it.
#[test]
fn families_that_are_not_named_open_as_they_were_made() {
    let disk = SimDisk::new();
    let backwards = ColumnFamilyOptions::default().comparator(Arc::new(ReverseBytewise)).num_levels(9);
    let named = [("backwards", backwards)];
    let db = Db::open_families("/db", &options(&disk).create_missing_column_families(true), &named).unwrap();
    let family = db.family("backwards").unwrap();
    for key in ["a", "b", "c"] {
        db.put_cf(&family, key, "1", &WriteOptions::default()).unwrap();
        db.flush_families(&[&family], &FlushOptions::default()).unwrap();
    }
    db.compact_range(&family, None, None, &Default::default()).unwrap();
    db.close().unwrap();

    for read_only in [true, false] {
        let options = options(&disk);
        let db = if read_only { Db::open_read_only("/db", &options, &[]) } else { Db::open("/db", &options) };
        let db = db.unwrap();
        let mut iter = db.iter_cf(&db.family("backwards").unwrap(), &ReadOptions::default()).unwrap();
        iter.seek_to_first();
        assert_eq!(iter.key(), b"c");
        drop(iter);
        db.check().unwrap();
        db.close().unwrap();
    }
    // Who names it must say how it was made.
    let wrong = [("backwards", ColumnFamilyOptions::default())];
    let error = Db::open_families("/db", &options(&disk), &wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
