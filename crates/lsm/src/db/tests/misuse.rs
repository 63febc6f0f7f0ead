//! Calls that make no sense are refused, and say why.

use super::basics::options;
use crate::{ColumnFamilyOptions, Db, DbOptions, ErrorKind, MAX_VALUE_LEN, ReadOptions, WriteBatch, WriteOptions};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, read_file};
use std::path::Path;

const DIR: &str = "/db";

#[test]
fn a_family_is_named_once() {
    let disk = SimDisk::new();
    let twice =
        [("default", ColumnFamilyOptions::default()), ("default", ColumnFamilyOptions::default().num_levels(3))];
    let refused = Db::open_families(DIR, &options(&disk), &twice).unwrap_err();
    assert_eq!(
        (refused.kind(), refused.message()),
        (ErrorKind::InvalidArgument, "column family default is named twice")
    );
    assert!(!disk.env().exists(Path::new(DIR)).unwrap());
    Db::open(DIR, &options(&disk)).unwrap();
    let refused = Db::open_read_only(DIR, &options(&disk), &twice).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_handle_of_another_database_is_refused() {
    let (disk, other) = (SimDisk::new(), SimDisk::new());
    let db = Db::open(DIR, &options(&disk)).unwrap();
    let stranger = Db::open(DIR, &options(&other)).unwrap().default_family();
    let (read, write) = (ReadOptions::default(), WriteOptions::default());
    let kinds = [
        db.get_cf(&stranger, "k", &read).unwrap_err().kind(),
        db.put_cf(&stranger, "k", "v", &write).unwrap_err().kind(),
        db.delete_cf(&stranger, "k", &write).unwrap_err().kind(),
        db.delete_range_cf(&stranger, "a", "b", &write).unwrap_err().kind(),
        db.iter_cf(&stranger, &read).map(|_| ()).unwrap_err().kind(),
        db.iters(&[&stranger], &read).map(|_| ()).unwrap_err().kind(),
        db.multi_get_cf(&stranger, &[b"k"], &read).remove(0).unwrap_err().kind(),
        db.flush_families(&[&stranger], &Default::default()).unwrap_err().kind(),
        db.compact_range(&stranger, None, None, &Default::default()).unwrap_err().kind(),
        db.drop_family(&db.create_family("x", &Default::default()).unwrap())
            .map_or(ErrorKind::Io, |()| db.delete_files_in_range(&stranger, b"a", b"b").unwrap_err().kind()),
    ];
    assert_eq!(kinds, [ErrorKind::InvalidArgument; 10]);
    db.put_cf(&db.default_family(), "k", "v", &write).unwrap();
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, &options(&disk).max_wal_record_bytes(4096)).unwrap();
    let refused = db.put("k", vec![0; 5000]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.message().starts_with("max_wal_record_bytes: "), "{refused}");
    db.put("k", vec![0; 4000]).unwrap();
    drop(db);
    let db = Db::open(DIR, &options(&disk).max_wal_record_bytes(4096)).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap().len(), 4000);

    let mut batch = WriteBatch::new();
    batch.put("k", vec![0; MAX_VALUE_LEN + 1]);
    assert_eq!(batch.check().unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn the_longest_value_fits_in_a_table() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, &options(&disk)).unwrap();
    db.put("a", "small").unwrap();
    db.put("k", vec![7; MAX_VALUE_LEN]).unwrap();
    db.flush(&Default::default()).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap().len(), MAX_VALUE_LEN);
}

#[test]
fn closing_again_is_fine() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, &options(&disk)).unwrap();
    let clone = db.clone();
    db.close().unwrap();
    assert_eq!(clone.put("k", "v").unwrap_err().kind(), ErrorKind::Aborted);
    clone.close().unwrap();
}

/// The second of two closings ends after the first: the directory can then be opened again.
#[test]
fn every_closing_ends_with_the_directory_free() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    for _ in 0..8 {
        let db = Db::open(dir.path(), &options).unwrap();
        db.put("k", vec![0; 1 << 20]).unwrap();
        std::thread::scope(|scope| {
            for db in [db.clone(), db] {
                let (dir, options) = (dir.path(), &options);
                scope.spawn(move || {
                    db.close().unwrap();
                    // The other thread may be the one that has it open.
                    match Db::open(dir, options) {
                        Ok(db) => drop(db),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Locked),
                    }
                });
            }
        });
    }
}

#[test]
fn an_identity_that_is_lost_comes_back_from_the_manifest() {
    let disk = SimDisk::new();
    let path = Path::new(DIR).join("IDENTITY");
    let identity = || read_file(&*disk.env(), &path, FileKind::Other, 100).unwrap();
    Db::open(DIR, &options(&disk)).unwrap().close().unwrap();
    let first = identity();
    assert_eq!(first.len(), 36);
    disk.env().remove_file(&path).unwrap();
    Db::open(DIR, &options(&disk)).unwrap().close().unwrap();
    assert_eq!(identity(), first);
}
