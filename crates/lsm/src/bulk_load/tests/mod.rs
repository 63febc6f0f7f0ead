//! Loads in any order: the rows are what a map would have, and nothing is left over.

mod beside;
mod failures;

use super::*;
use crate::{ColumnFamilyOptions, FlushOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::comparator::ReverseBytewise;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::collections::BTreeMap;

fn open(disk: &SimDisk, family: ColumnFamilyOptions) -> Db {
    let executor = StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000)));
    let options = DbOptions::default().env(Some(disk.env())).executor(Some(Arc::new(executor)));
    Db::open("/db", &options.create_if_missing(true).unnamed_families(family)).unwrap()
}

fn small() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().target_file_size_base(4 << 10)
}

fn rows(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    let mut rows = BTreeMap::new();
    iter.seek_to_first();
    while iter.valid() {
        rows.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.next();
    }
    iter.status().unwrap();
    rows
}

fn loader(db: &Db, options: &BulkLoadOptions) -> BulkLoader {
    BulkLoader::new(db, &db.default_family(), "/sorting", options).unwrap()
}

/// Rows in an order that `shape` says.
fn input(shape: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let key = |number: u32| match shape {
        "ascending" => number,
        "descending" => 3_000 - number,
        "mostly ascending" if number % 500 == 499 => number - 250,
        "mostly ascending" => number * 2,
        "repeated" => number * 7919 % 1_000,
        _ => number.wrapping_mul(0x9E37_79B9),
    };
    (0..3_000).map(|number| (format!("{:010}", key(number)).into_bytes(), number.to_string().into_bytes())).collect()
}

#[test]
fn rows_in_any_order_become_the_rows_of_the_family() {
    for shape in ["ascending", "descending", "mostly ascending", "repeated", "random"] {
        for (family, snapshot_consistency) in [(small(), false), (small().comparator(Arc::new(ReverseBytewise)), true)]
        {
            let disk = SimDisk::new();
            let db = open(&disk, family);
            db.put("0000000500", "before").unwrap();
            db.flush(&FlushOptions::default()).unwrap();
            let options =
                BulkLoadOptions::default().sort_buffer_bytes(20_000).snapshot_consistency(snapshot_consistency);
            let mut loader = loader(&db, &options);
            let mut expected: BTreeMap<_, _> = [(b"0000000500".to_vec(), b"before".to_vec())].into();
            for (key, value) in input(shape) {
                loader.put(&key, &value).unwrap();
                expected.insert(key, value);
            }
            assert_eq!(rows(&db).len(), 1, "nothing is seen before the end");
            loader.finish().unwrap();
            assert!(rows(&db) == expected, "{shape}");
            db.check().unwrap();
            assert!(!disk.env().exists(Path::new("/sorting")).unwrap());
        }
    }
}

#[test]
fn unique_rows_are_checked_against_each_other_and_against_the_family() {
    let disk = SimDisk::new();
    let db = open(&disk, small());
    db.put("k5", "before").unwrap();
    let unique = BulkLoadOptions::default().unique(true);
    for (sort_buffer_bytes, keys, is_fine) in [
        (1 << 20, &["k3", "k2", "k4"][..], true),
        (1 << 20, &["k8", "k7", "k7"], false),
        (1, &["k8", "k7", "k8"], false),
        (1 << 20, &["k6", "k5"], false),
        (1, &["k5", "k6"], false),
        (1, &["k9", "k6"], true),
    ] {
        let mut loader = loader(&db, &unique.clone().sort_buffer_bytes(sort_buffer_bytes));
        let before = rows(&db);
        let put = keys.iter().try_for_each(|key| loader.put(key, "loaded"));
        match put.and_then(|()| loader.finish()) {
            Ok(_) => assert!(is_fine, "{keys:?}"),
            Err(error) => {
                assert!(!is_fine && error.kind() == ErrorKind::AlreadyExists, "{keys:?}: {error}");
                assert_eq!(rows(&db), before);
            }
        }
        assert!(!disk.env().exists(Path::new("/sorting")).unwrap());
    }
    assert_eq!(rows(&db).len(), 6);
    // Nothing to load is no error.
    assert_eq!(loader(&db, &unique).finish().unwrap(), 0);
}

#[test]
fn ascending_rows_are_written_once() {
    let disk = SimDisk::new();
    let db = open(&disk, small());
    let mut loader = loader(&db, &BulkLoadOptions::default().snapshot_consistency(false));
    let before = disk.env().io_stats().snapshot();
    let rows = input("ascending");
    rows.iter().for_each(|(key, value)| loader.put(key, value).unwrap());
    assert_eq!(loader.finish().unwrap(), 0);
    let kind = siltstone_base::env::FileKind::Table;
    let written = disk.env().io_stats().snapshot().since(&before).of_kind(kind).written_bytes;
    let live: u64 = db.table_files(&db.default_family()).unwrap().iter().map(|table| table.file_size).sum();
    assert_eq!(written, live);
}

#[test]
fn rows_that_wait_to_be_sorted_are_in_the_report_of_holders() {
    let disk = SimDisk::new();
    let db = open(&disk, small());
    let mut loader = loader(&db, &BulkLoadOptions::default());
    for number in (0..1_000).rev() {
        loader.put(format!("{number:06}"), [7; 100]).unwrap();
    }
    let held = db.memory_report().loads;
    assert!((100_000..200_000).contains(&held), "{held}");
    loader.finish().unwrap();
    assert_eq!(db.memory_report().loads, 0);
}

/// Only so many files are open at a time, and of rows with one key the last one counts, whichever runs they are in.
#[test]
fn more_runs_than_are_merged_at_a_time_are_merged_in_passes() {
    let most = MOST_MERGED_RUNS;
    for count in [2, most, most + 1, 2 * most - 1, 2 * most, 2 * most + 1, 500, most * most / 2] {
        let disk = SimDisk::new();
        let db = open(&disk, ColumnFamilyOptions::default());
        // Every row is a run.
        let mut loader = loader(&db, &BulkLoadOptions::default().sort_buffer_bytes(1));
        let mut expected = BTreeMap::new();
        let row = |number: usize| (format!("{:03}", number.wrapping_mul(0x9E37_79B9) % 97), number.to_string());
        for (key, value) in (0..count).map(row) {
            loader.put(&key, &value).unwrap();
            expected.insert(key.into_bytes(), value.into_bytes());
        }
        loader.finish().unwrap();
        assert!(rows(&db) == expected, "{count}");
    }
}

#[test]
fn the_tables_of_a_pass_go_when_it_ends() {
    let disk = SimDisk::new();
    let db = open(&disk, ColumnFamilyOptions::default());
    let mut loader = loader(&db, &BulkLoadOptions::default().sort_buffer_bytes(1));
    for number in (0..200).rev() {
        loader.put(format!("{:03}", number % 150), "v").unwrap();
    }
    let files = || disk.env().list_dir(Path::new("/sorting")).unwrap().len();
    loader.end_ascending().unwrap();
    assert_eq!((files(), loader.runs.len()), (200, 200));
    let runs = std::mem::take(&mut loader.runs);
    let merged = loader.merge(runs).unwrap();
    assert_eq!((files(), merged.tables.len()), (1, 1));
}
