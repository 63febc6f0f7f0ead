//! Rows with stamps: RocksDB's `DBWithTTL` reads those of this engine and is read by it, and plain RocksDB compacts what this engine remembers of them.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::interop_tools::siltstone as engine;
use crate::tools;
use ::siltstone::lsm::{
    ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, FlushOptions, ReadOptions, TableOptions,
};
use ::siltstone::ttl::{StampLayout, Ttl, TtlDuration};
use siltstone_base::clock::{Clock, ManualClock, SystemClock};
use siltstone_base::executor::StepExecutor;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const LAYOUT: StampLayout = StampLayout::Suffix;

/// What `ldb` says of a directory of `DBWithTTL`. It does as it is told, and then fails because there may be several families.
fn ldb_with_ttl(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("ldb");
    let output = command.arg(format!("--db={}", dir.display())).arg("--ttl").args(arguments).output().unwrap();
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let is_known = |line: &str| line.trim().is_empty() || line.contains("support TTL DB with multiple column families");
    assert!(complaint.lines().all(is_known), "{complaint}");
    said.lines().filter(|line| !is_known(line)).map(|line| format!("{line}\n")).collect()
}

/// Opens the directory at `now`, where rows live for `seconds`.
fn open(dir: &Path, now: u64, seconds: u64) -> (Db, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(now));
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    let ttl = Ttl::new(LAYOUT, TtlDuration::from_seconds(seconds).unwrap());
    let family = ColumnFamilyOptions::default()
        .write_buffer_size(16 << 10)
        .target_file_size_base(8 << 10)
        .max_bytes_for_level_base(16 << 10)
        .table(TableOptions::default().format_version(5).block_size(512))
        .expiry(Some(Arc::new(ttl)));
    let options = DbOptions::default().create_if_missing(true).max_clock_jump_seconds(0).executor(Some(executor));
    (Db::open_families(dir, &options, &[("default", family)]).unwrap(), clock)
}

#[test]
fn rows_of_rocksdb_with_ttl_expire() {
    let Some(_) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let before = SystemClock::new().unix_seconds();
    assert_eq!(ldb_with_ttl(dir.path(), &["--create_if_missing", "put", "basalt", "black"]), "OK\n");
    let after = SystemClock::new().unix_seconds();
    let (db, clock) = open(dir.path(), after, 3600);
    let stored = db.get("basalt").unwrap().unwrap();
    let (value, stamp) = LAYOUT.split(&stored).unwrap();
    assert_eq!(value, b"black");
    assert!((before..=after).contains(&stamp), "{stamp}");
    drop(stored);
    db.flush(&FlushOptions::default()).unwrap();
    clock.advance(Duration::from_secs(3600));
    assert_eq!(db.get("basalt").unwrap(), None);
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default().force_bottommost(true)).unwrap();
    db.close().unwrap();
    // It is gone, not only hidden.
    assert_eq!(ldb_with_ttl(dir.path(), &["scan"]), "");
}

#[test]
fn rocksdb_compacts_rows_that_expire_and_loses_none() {
    const NOW: u64 = 1_700_000_000;
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (db, _clock) = open(dir.path(), NOW, 3600);
    for row in 0..3000_u64 {
        // A third of them is expired from the beginning.
        let stamp = NOW - (row % 3) * 1800 - 1;
        db.put(format!("row{row:05}"), LAYOUT.stamped(format!("value {row}").as_bytes(), stamp).unwrap()).unwrap();
    }
    db.flush(&FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    let visible = engine::rows(&db);
    assert_eq!(visible["default"].len(), 2000);
    db.close().unwrap();
    assert!(dir.path().join("EXPIRY").exists());
    python.check_bytes(dir.path());
    tools.check_consistency(dir.path());
    // DBWithTTL takes the stamps off.
    assert_eq!(ldb_with_ttl(dir.path(), &["get", "row00001"]), "value 1\n");
    let stored = &python.rows(dir.path())["default"];
    assert!(visible["default"].iter().all(|(key, value)| stored.get(key) == Some(value)));
    tools.ldb(dir.path(), &["compact"]);
    tools.check_consistency(dir.path());
    let (db, clock) = open(dir.path(), NOW, 3600);
    assert_eq!(engine::rows(&db), visible, "after RocksDB has compacted");
    // What RocksDB wrote has no stamps among its properties.
    clock.advance(Duration::from_secs(1800));
    let mut rows = db.iter(&ReadOptions::default()).unwrap();
    let mut count = 0;
    rows.seek_to_first();
    while rows.valid() {
        count += 1;
        rows.next();
    }
    assert_eq!(count, 1000);
}
