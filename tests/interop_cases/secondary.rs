//! Tables with secondary indexes that RocksDB compacts: no visible row is lost, in a lazy table with stale entries either.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::interop_tools::{Copy, Script, Step, WriteOptions};
use crate::tools;
use ::siltstone::lsm::{
    AnyTableId, ColumnFamilyOptions, DbOptions, IndexEntry, IndexScan, LazyTableId, TableDb, TableOptions,
};
use ::siltstone::ttl::{RowExpiry, TableTtl, TtlDuration};
use siltstone_base::engine::{LazyTableSpec, Row, TableId, TableSpec};
use siltstone_base::index_spec::{FixedColumns, IndexSpec, LazyIndexSpec};
use std::path::Path;
use std::sync::Arc;

fn eager_spec() -> TableSpec {
    let covered = Arc::new(FixedColumns::new(Some(4..8)));
    let indexes = vec![
        IndexSpec::over_columns("first", Some(0..2)).covered(covered),
        IndexSpec::over_columns("all", Some(0..8)).unique(true),
    ];
    TableSpec { name: "eager".to_owned(), indexes }
}

fn lazy_spec() -> LazyTableSpec {
    let indexes =
        vec![LazyIndexSpec::over_columns("first", Some(0..2)), LazyIndexSpec::over_columns("last", Some(6..8))];
    LazyTableSpec { name: "lazy".to_owned(), indexes }
}

fn open(dir: &Path) -> (TableDb, TableId, LazyTableId) {
    let options = DbOptions::default().create_if_missing(true);
    let rows = ColumnFamilyOptions::default()
        .write_buffer_size(64 << 10)
        .target_file_size_base(32 << 10)
        .max_bytes_for_level_base(128 << 10)
        .table(TableOptions::default().format_version(5).bloom_bits_per_key(10.0));
    let db = TableDb::open(dir, &options, &rows, &Default::default()).unwrap();
    let eager = db.open_table(&eager_spec()).or_else(|_| db.create_table(&eager_spec())).unwrap();
    let lazy = db.open_lazy_table(&lazy_spec()).or_else(|_| db.create_lazy_table(&lazy_spec())).unwrap();
    (db, eager, lazy)
}

/// Everything that scans of rows by both indexes of both tables show, after a look whether indexes and rows agree.
fn shown((db, eager, lazy): (TableDb, TableId, LazyTableId)) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for table in [AnyTableId::from(eager), lazy.into()] {
        for check in db.check_table(table).unwrap() {
            assert!(check.is_sound(), "{check:?}");
        }
        for index in 0..2 {
            let mut note = |entry: IndexEntry<'_>, value: &[u8]| {
                found.push([entry.index_key, entry.primary_key, entry.covered, value].concat());
            };
            db.scan_rows_by(table, index, &IndexScan::all(), &mut note).unwrap();
        }
    }
    db.close().unwrap();
    found
}

#[test]
fn rocksdb_compacts_tables_and_loses_no_visible_row() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (db, eager, lazy) = open(dir.path());
    let value = |key: u64, round: u64| {
        let mixed = (key * 8 + round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        [&mixed.to_be_bytes()[..], &[b'v'; 40]].concat()
    };
    let keys = 1_500_u64;
    for round in 0..3 {
        for key in 0..keys {
            let (name, old, new) = (key.to_be_bytes(), value(key, round.max(1) - 1), value(key, round));
            let (old, new) = (Row { primary_key: &name, value: &old }, Row { primary_key: &name, value: &new });
            // Every seventh row is deleted in the second round and comes again in the third.
            match (round, key % 7) {
                (0, _) | (2, 0) => db.insert(eager, &[new]).unwrap(),
                (1, 0) => db.delete(eager, &[old]).unwrap(),
                _ => db.update(eager, &[(old, new)]).unwrap(),
            }
            match (round, key % 7) {
                (1 | 2, 0) => db.delete_keys(lazy, &[&name[..]]).unwrap(),
                // Back to the first value.
                (2, 1) => db.upsert(lazy, &[Row { value: &value(key, 0), ..new }]).unwrap(),
                _ => db.upsert(lazy, &[new]).unwrap(),
            }
        }
        db.sweep(lazy, 1_000).unwrap();
    }
    db.close().unwrap();
    let before = shown(open(dir.path()));
    assert_eq!(before.len() as u64, 2 * keys + 2 * (keys - keys.div_ceil(7)));

    let theirs = Copy::of(dir.path());
    tools.compact(theirs.path(), "default");
    assert!(shown(open(theirs.path())) == before, "RocksDB 7.8.3");
    let theirs = Copy::of(dir.path());
    let compact = Script { steps: vec![Step::Compact("default")] };
    python.write(theirs.path(), &compact, &WriteOptions::new("format_version=5"));
    assert!(shown(open(theirs.path())) == before, "RocksDB 9.8.4");
    // And with everything swept.
    let (db, _, lazy) = open(dir.path());
    while !db.sweep(lazy, usize::MAX).unwrap().is_through {}
    db.close().unwrap();
    tools.compact(dir.path(), "default");
    assert!(shown(open(dir.path())) == before, "after the sweep");
    let (db, _, lazy) = open(dir.path());
    assert!(db.check_table(lazy).unwrap().iter().all(|check| check.stale == 0));
}

/// Rows with a column that says since when they live: those of an even number are expired, the others will be in a hundred years.
fn open_expiring(dir: &Path) -> (TableDb, TableId, LazyTableId) {
    let options = DbOptions::default().create_if_missing(true);
    let rows = ColumnFamilyOptions::default()
        .write_buffer_size(64 << 10)
        .target_file_size_base(32 << 10)
        .expiry(Some(Arc::new(TableTtl::default())))
        .table(TableOptions::default().format_version(5).bloom_bits_per_key(10.0));
    let db = TableDb::open(dir, &options, &rows, &Default::default()).unwrap();
    let expiry = RowExpiry::after(TtlDuration::from_seconds(3600).unwrap()).from_column(8);
    let eager = db.open_expiring_table(&eager_spec(), &expiry);
    let eager = eager.or_else(|_| db.create_expiring_table(&eager_spec(), &expiry)).unwrap();
    let lazy = db.open_expiring_lazy_table(&lazy_spec(), &expiry);
    let lazy = lazy.or_else(|_| db.create_expiring_lazy_table(&lazy_spec(), &expiry)).unwrap();
    (db, eager, lazy)
}

#[test]
fn rocksdb_compacts_tables_whose_rows_expire_and_loses_no_visible_row() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (db, eager, lazy) = open_expiring(dir.path());
    let value = |key: u64, round: u64| {
        let mixed = (key * 8 + round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let stamp: u64 = if key.is_multiple_of(2) { 1_000 } else { 5_000_000_000 };
        [&mixed.to_be_bytes()[..], &stamp.to_be_bytes(), &[b'v'; 40]].concat()
    };
    let keys = 1_000_u64;
    for round in 0..2 {
        for key in 0..keys {
            let (name, old, new) = (key.to_be_bytes(), value(key, 0), value(key, round));
            let (old, new) = (Row { primary_key: &name, value: &old }, Row { primary_key: &name, value: &new });
            match round {
                0 => db.insert(eager, &[new]).unwrap(),
                _ => db.update(eager, &[(old, new)]).unwrap(),
            }
            db.upsert(lazy, &[new]).unwrap();
        }
    }
    db.close().unwrap();
    let before = shown(open_expiring(dir.path()));
    assert_eq!(before.len() as u64, 4 * keys / 2);
    let theirs = Copy::of(dir.path());
    tools.compact(theirs.path(), "default");
    assert!(shown(open_expiring(theirs.path())) == before, "RocksDB 7.8.3");
    let theirs = Copy::of(dir.path());
    let compact = Script { steps: vec![Step::Compact("default")] };
    python.write(theirs.path(), &compact, &WriteOptions::new("format_version=5"));
    assert!(shown(open_expiring(theirs.path())) == before, "RocksDB 9.8.4");
}
