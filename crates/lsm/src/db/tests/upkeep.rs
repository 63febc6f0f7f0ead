//! What the database does beside reads and writes: limits of WALs, waiting, and which files stay.

use super::basics::options;
use crate::metrics::Counter;
use crate::{ColumnFamilyOptions, Db, ErrorKind, FlushOptions, WriteOptions};
use siltstone_base::env::sim::SimDisk;
use std::path::Path;

/// How many tables are in the directory.
fn tables(disk: &SimDisk) -> usize {
    let entries = disk.env().list_dir(Path::new("/db")).unwrap();
    entries.iter().filter(|entry| entry.name.ends_with(".sst")).count()
}

#[test]
fn a_flush_of_one_family_flushes_no_other_because_of_wals_that_are_deleted() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk).max_total_wal_size(256 << 10)).unwrap();
    let other = db.create_family("other", &ColumnFamilyOptions::default()).unwrap();
    let write = |value: &[u8]| {
        db.put("k", value).unwrap();
        db.put_cf(&other, "k", value, &WriteOptions::default()).unwrap();
    };
    for _ in 0..8 {
        write(&[0; 64 << 10]);
    }
    db.flush_families(&[&db.default_family(), &other], &FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    write(b"small");
    let before = db.metrics().get(Counter::Flushes);
    db.flush(&FlushOptions::default()).unwrap();
    write(b"small");
    db.wait_for_background_work().unwrap();
    assert_eq!(db.metrics().get(Counter::Flushes), before + 1);
}

#[test]
fn waiting_for_background_work_ends_in_a_database_open_for_reading_only() {
    let disk = SimDisk::new();
    let idle = ColumnFamilyOptions::default().disable_auto_compactions(true);
    let db = Db::open_families("/db", &options(&disk), &[("default", idle)]).unwrap();
    for _ in 0..6 {
        db.put("k", "v").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    db.close().unwrap();
    // With these options a compaction is due, and nobody may run it.
    let db = Db::open_read_only("/db", &options(&disk), &[]).unwrap();
    db.wait_for_background_work().unwrap();
}

#[test]
fn dropping_a_family_that_is_being_compacted_leaves_none_of_its_tables_behind() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    let family = db.create_family("dropped", &ColumnFamilyOptions::default()).unwrap();
    for _ in 0..4 {
        db.put_cf(&family, "k", "v", &WriteOptions::default()).unwrap();
        db.flush_families(&[&family], &FlushOptions::default()).unwrap();
    }
    assert_eq!(db.property("rocksdb.num-running-compactions").unwrap(), "1");
    db.drop_family(&family).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(tables(&disk), 0);
}

#[test]
fn a_lost_current_does_not_cost_the_tables() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    db.put("k", "v").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    db.close().unwrap();
    let current = Path::new("/db/CURRENT");
    disk.env().rename(current, Path::new("/db/kept")).unwrap();
    let error = Db::open("/db", &options(&disk)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingFile);
    assert_eq!(error.file(), Some(current));
    disk.env().rename(Path::new("/db/kept"), current).unwrap();
    let db = Db::open("/db", &options(&disk)).unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]));
}
