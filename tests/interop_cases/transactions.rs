//! Transactions in WALs: RocksDB's tools name their markers, and read what they left.

#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "looks for files that programs read which know nothing of environments")]

use crate::tools;
use ::siltstone::lsm::{
    Db, DbOptions, ErrorKind, FlushOptions, Isolation, TransactionDb, TransactionDbOptions, TransactionOptions,
};
use std::path::{Path, PathBuf};

fn wals(dir: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut wals: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
    wals.sort();
    wals
}

/// What `ldb` finds in all WALs, a line each: first sequence number, entries, and markers with their operations.
fn dumped(tools: crate::interop_tools::RocksDbTools, dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for wal in wals(dir) {
        let said = tools.ldb(dir, &["dump_wal", &format!("--walfile={}", wal.display()), "--write_committed=true"]);
        lines.extend(said.lines().filter(|line| line.contains(',')).map(str::to_owned));
    }
    lines
}

fn open(dir: &Path) -> TransactionDb {
    let options = DbOptions::default().create_if_missing(true);
    TransactionDb::open(dir, &options, &[], &TransactionDbOptions::default()).unwrap()
}

/// Puts keys in a transaction and prepares it under a name.
fn prepare(db: &TransactionDb, name: &str, keys: &[&str]) {
    let mut transaction = db.begin(&TransactionOptions::new(Isolation::ReadCommitted));
    keys.iter().for_each(|key| transaction.put(key, name).unwrap());
    transaction.prepare(name).unwrap();
}

#[test]
fn rocksdb_reads_what_was_prepared_and_decided() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    prepare(&db, "committed", &["a", "b"]);
    prepare(&db, "rolled", &["c"]);
    db.put("d", "1").unwrap();
    db.commit_prepared("committed").unwrap();
    db.rollback_prepared("rolled").unwrap();
    prepare(&db, "late", &["e"]);
    db.commit_prepared("late").unwrap();
    db.close().unwrap();
    let lines = dumped(tools, dir.path());
    let find =
        |what: &str| lines.iter().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {lines:?}"));
    // The markers, in the order in which they were written; a prepared section counts its entries, and takes no numbers.
    let sections = lines.iter().filter(|line| line.contains("BEGIN_PREPARE"));
    assert_eq!(sections.count(), 3, "{lines:?}");
    assert!(find("END_PREPARE(0x636F6D6D6974746564)").split(',').nth(1) == Some("2"), "{lines:?}");
    let at =
        |what: &str| lines.iter().position(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {lines:?}"));
    assert!(at("END_PREPARE(0x636F6D6D6974746564)") < at("COMMIT(0x636F6D6D6974746564)"), "{lines:?}");
    assert!(at("END_PREPARE(0x726F6C6C6564)") < at("ROLLBACK(0x726F6C6C6564)"), "{lines:?}");
    // RocksDB opens a WAL with prepared sections, even decided ones, only for transactions; this engine asks for that where one is undecided. Once all is in tables, anybody reads it.
    let db = Db::open(dir.path(), &DbOptions::default()).unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    db.close().unwrap();
    let rows = python.rows(dir.path());
    let row = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    let wanted = [row("a", "committed"), row("b", "committed"), row("d", "1"), row("e", "late")];
    assert_eq!(rows["default"], wanted.into_iter().collect());
}

/// What is prepared again at an opening is in RocksDB's form too.
#[test]
fn what_is_undecided_stays_readable_over_openings() {
    let Some((tools, _)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    prepare(&db, "waits", &["a", "b"]);
    db.put("c", "1").unwrap();
    for _ in 0..2 {
        db.db().flush(&FlushOptions::default()).unwrap();
    }
    db.close().unwrap();
    open(dir.path()).close().unwrap();
    assert_eq!(Db::open(dir.path(), &DbOptions::default()).unwrap_err().kind(), ErrorKind::NotSupported);
    let lines = dumped(tools, dir.path());
    assert_eq!(lines.iter().filter(|line| line.contains("END_PREPARE(0x7761697473)")).count(), 1, "{lines:?}");
    let db = open(dir.path());
    db.commit_prepared("waits").unwrap();
    db.close().unwrap();
    let lines = dumped(tools, dir.path());
    assert!(lines.last().unwrap().contains("COMMIT(0x7761697473)"), "{lines:?}");
}
