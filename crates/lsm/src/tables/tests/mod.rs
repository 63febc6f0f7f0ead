//! Tests of tables: what is stored, what is seen, and what a drop leaves.

mod build;
mod call_rows;
mod crashes;
mod dictionary;
mod drops;
mod eager;
mod fifo;
mod lazy;
mod load;
mod rows;
mod sweep_faults;
mod sweeps;

use super::*;
use siltstone_base::engine::Row;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::index_spec::{IndexExtractor, IndexSpec};
use std::path::Path;

/// Sorts by some bytes of the value; rows whose value is shorter have no entry.
#[derive(Debug, Clone, Copy)]
struct Slice {
    from: usize,
    len: usize,
}

impl IndexExtractor for Slice {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        // What is appended without an entry is to be ignored.
        index_key.push(b'?');
        let Some(bytes) = value.get(self.from..self.from + self.len) else { return false };
        index_key.pop();
        index_key.extend_from_slice(bytes);
        true
    }

    fn fixed_len(&self) -> Option<usize> {
        Some(self.len)
    }
}

/// A table whose index number i sorts by 2 bytes from byte i of the value.
fn spec(name: &str, indexes: usize) -> TableSpec {
    let index = |from| IndexSpec::new(format!("by_{from}"), Arc::new(Slice { from, len: 2 }));
    TableSpec { name: name.to_owned(), indexes: (0..indexes).map(index).collect() }
}

fn open(dir: &Path) -> TableDb {
    let options = DbOptions::default().create_if_missing(true);
    open_with(dir, &options, &ColumnFamilyOptions::default())
}

/// Without sweeps in the background: what is stale stays until it is swept by hand.
fn open_with(dir: &Path, options: &DbOptions, rows: &ColumnFamilyOptions) -> TableDb {
    let sweeps = SweepOptions::default().in_background(false);
    TableDb::open_swept(dir, options, rows, &WriteOptions::default(), &sweeps).unwrap()
}

fn insert(db: &TableDb, table: TableId, rows: &[(&str, &str)]) {
    let rows: Vec<_> =
        rows.iter().map(|(key, value)| Row { primary_key: key.as_bytes(), value: value.as_bytes() }).collect();
    db.insert(table, &rows).unwrap();
}

fn get(db: &TableDb, table: TableId, key: &str) -> Option<String> {
    let mut value = None;
    let exists = db
        .get_row(table, key.as_bytes(), &mut |bytes| value = Some(String::from_utf8(bytes.to_vec()).unwrap()))
        .unwrap();
    assert_eq!(exists, value.is_some());
    value
}

fn scan(db: &TableDb, table: TableId, index: usize, from: &str, limit: usize) -> Vec<String> {
    let mut entries = Vec::new();
    let mut keep = |entry: &[u8]| entries.push(String::from_utf8(entry.to_vec()).unwrap());
    let seen = db.scan_index(table, index, from.as_bytes(), limit, &mut keep).unwrap();
    assert_eq!(seen, entries.len());
    entries
}

fn row<'a>(key: &'a str, value: &'a str) -> Row<'a> {
    Row { primary_key: key.as_bytes(), value: value.as_bytes() }
}

/// Rows by an index: index key, primary key and value of each.
fn by(db: &TableDb, table: impl Into<AnyTableId>, index: usize, scan: &IndexScan) -> String {
    let mut found = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut note = |entry: IndexEntry<'_>, value: &[u8]| {
        found.push(format!("{}:{}={}", text(entry.index_key), text(entry.primary_key), text(value)));
    };
    let count = db.scan_rows_by(table, index, scan, &mut note).unwrap();
    assert_eq!(count, found.len());
    found.join(" ")
}

/// Every key of a family.
fn stored(db: &TableDb, family: &ColumnFamily) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut iter = db.db().iter_cf(family, &ReadOptions::default()).unwrap();
    iter.seek_to_first();
    while iter.valid() {
        keys.push(iter.key().to_vec());
        iter.next();
    }
    iter.status().unwrap();
    keys
}
