//! Range tombstones that overlap, since snapshots tell them apart, and tables of tombstones alone.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::interop_tools::Rows;
use crate::interop_tools::siltstone::{self as engine, Settings};
use crate::{judge, tools};
use ::siltstone::lsm::{CompactRangeOptions, CompressionType, Db, FlushOptions, Snapshot};
use std::collections::BTreeMap;

const ROWS: u64 = 6_000;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// Deletes `rows` in nested ranges, in overlapping ones, and in hundreds of short ones, also where there are none, with a snapshot after every few, and writes some anew.
fn delete(db: &Db, rows: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    let delete = |rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, start: u64, end: u64| {
        db.delete_range(key(start), key(end)).unwrap();
        rows.retain(|row, _| !(key(start)..key(end)).contains(row));
    };
    for round in 0..60 {
        delete(rows, 0, 10 * round + 5);
        delete(rows, 1_000 + 13 * round, 1_040 + 29 * round);
        for start in (0..20).map(|step| 50 * round + 2 * step) {
            delete(rows, 3_000 + start, 3_001 + start);
            delete(rows, ROWS + start, ROWS + start + 1);
        }
        let again = key(10 * round + 2);
        db.put(&again, b"again").unwrap();
        rows.insert(again, b"again".to_vec());
        if round % 3 == 0 {
            snapshots.push(db.snapshot());
        }
        if round % 25 == 24 {
            db.flush(&FlushOptions::default()).unwrap();
        }
    }
    snapshots
}

#[test]
fn rocksdb_reads_range_tombstones_that_snapshots_keep_apart() {
    let Some((tools, python)) = tools() else { return };
    for version in [5, 6] {
        let dir = tempfile::tempdir().unwrap();
        let db = engine::open(dir.path(), Settings::new(version, CompressionType::Lz4));
        let mut rows = BTreeMap::new();
        for number in 0..ROWS {
            let value = format!("{number:064}").into_bytes();
            db.put(key(number), &value).unwrap();
            rows.insert(key(number), value);
        }
        let family = db.default_family();
        db.compact_range(&family, None, None, &CompactRangeOptions::default()).unwrap();
        let small = [("target_file_size_base", "4096"), ("disable_auto_compactions", "true")];
        db.set_options(&family, &small).unwrap();
        let before = db.snapshot();
        let snapshots = delete(&db, &mut rows);
        db.flush(&FlushOptions::default()).unwrap();
        // The snapshots keep what is deleted, and every tombstone.
        db.compact_range(&family, None, None, &CompactRangeOptions::default()).unwrap();
        let tables = db.table_files(&family).unwrap();
        assert!(tables.iter().all(|file| file.level > 0));
        let of_tombstones_alone =
            tables.iter().filter(|file| file.num_range_deletions > 0 && file.num_data_blocks == 0).count();
        assert!(of_tombstones_alone > 1, "{of_tombstones_alone} tables of tombstones alone");
        drop((before, snapshots));
        db.close().unwrap();
        let wanted = Rows::from([("default".to_owned(), rows)]);
        judge(dir.path(), &wanted, version, tools, &python);
        let db = engine::open(dir.path(), Settings::new(version, CompressionType::Lz4));
        assert_eq!(engine::rows(&db), wanted);
        db.close().unwrap();
    }
}
