//! The database keeps the contract of the engine traits.

use super::KvDb;
use crate::options::{ColumnFamilyOptions, DbOptions, WriteOptions};
use siltstone_base::engine::conformance::check_kv;

#[test]
fn the_database_keeps_the_contract() {
    let dir = tempfile::TempDir::new().unwrap();
    for sync in [false, true] {
        let options = DbOptions::default().create_if_missing(true);
        let family = ColumnFamilyOptions::default();
        check_kv(
            &|dir| Ok(Box::new(KvDb::open(dir, &options, &family, WriteOptions::default().sync(sync))?)),
            &dir.path().join(if sync { "synced" } else { "unsynced" }),
        );
    }
}
