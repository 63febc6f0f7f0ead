//! The database keeps the contract of the engine traits.

use super::KvDb;
use crate::options::{ColumnFamilyOptions, DbOptions, WriteOptions};
use siltstone_base::engine::conformance_all::{Openers, check_all};
use siltstone_base::engine::{Admin, Kv};

#[test]
fn the_database_keeps_the_contract() {
    let dir = tempfile::TempDir::new().unwrap();
    for sync in [false, true] {
        let options = DbOptions::default().create_if_missing(true);
        let family = ColumnFamilyOptions::default();
        let openers = Openers {
            kv: Some(&|path| Ok(Box::new(KvDb::open(path, &options, &family, WriteOptions::default().sync(sync))?))),
            ..Openers::default()
        };
        let checked = check_all(&openers, &dir.path().join(if sync { "synced" } else { "unsynced" }));
        assert_eq!(checked.ran, ["kv", "concurrent writers", "background work", "persistence"]);
    }
}

#[test]
fn what_the_write_ahead_log_occupies_is_not_counted_as_data() {
    let dir = tempfile::TempDir::new().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    let db = KvDb::open(dir.path(), &options, &ColumnFamilyOptions::default(), WriteOptions::default()).unwrap();
    (0..1000_u32).for_each(|key| db.put(&key.to_be_bytes(), &[7; 100]).unwrap());
    let before = db.stats().unwrap();
    assert_eq!((before.log_bytes > Some(0), before.data_bytes()), (true, Some(0)));
    db.flush().unwrap();
    let after = db.stats().unwrap();
    let tables: u64 = db.db().property(&crate::metrics::Property::TotalSstFilesSize.name()).unwrap().parse().unwrap();
    assert_eq!((tables > 0, after.data_bytes()), (true, Some(tables)));
}
