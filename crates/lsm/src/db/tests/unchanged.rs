//! What is known to be as it was at a moment, and what is not.

use super::basics::options;
use crate::{ColumnFamilyOptions, Db, FlushOptions, TableOptions};
use siltstone_base::env::sim::SimDisk;

/// Its table has the range and not the row: filters alone would say that nothing happened to it.
#[test]
fn a_row_of_a_range_that_was_deleted_is_not_taken_for_unchanged() {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default().table(TableOptions::default().bloom_bits_per_key(20.0));
    let db = Db::open("/db", &options(&disk).unnamed_families(family)).unwrap();
    let default = db.default_family();
    let flush = || db.flush(&FlushOptions::default()).unwrap();
    db.delete_range("x", "z").unwrap();
    db.put("row", "1").unwrap();
    flush();
    let (moment, snapshot) = db.moment();
    assert!(db.is_known_unchanged(&default, b"row", moment).unwrap(), "ranges of before say nothing");
    db.delete_range("a", "s").unwrap();
    db.put("another", "1").unwrap();
    flush();
    assert_eq!(db.get("row").unwrap(), None);
    assert!(!db.is_known_unchanged(&default, b"row", moment).unwrap());
    drop(snapshot);
    db.close().unwrap();
}
