//! The database keeps the contract of the engine traits.

use super::KvDb;
use crate::options::{ColumnFamilyOptions, DbOptions, WriteOptions};
use siltstone_base::engine::conformance_all::{Openers, check_all};

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
