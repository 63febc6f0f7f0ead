//! A directory of the B-tree engine as an earlier build wrote it and left it without closing: it must open, with every row of it.
//!
//! `SILTSTONE_WRITE_FIXTURES=1` writes the directory of this build's format version, which is added to the fixtures once, when the version is new; those of earlier versions stay.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that prepares directories outside of the engine"
)]

use siltstone::btree::{Db, DbOptions, Doublewrite, Durability, Isolation, KvCursor, TransactionOptions, TreeHandle};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::{Row, TableSpec, Tables};
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::index_spec::IndexSpec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The fixtures: one for each format version that this build opens.
const FIXTURES: [&str; 1] = ["btree_3"];

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(dir: &Path) -> (Db, Arc<StepExecutor>) {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let shared: Arc<dyn Executor> = executor.clone();
    let options = DbOptions::default()
        .create_if_missing(true)
        .page_size(4096)
        .buffer_pool_bytes(1 << 20)
        .redo_capacity_bytes(256 << 10)
        .doublewrite(Doublewrite::On)
        .page_cleaners(2)
        .doublewrite_pages(16)
        .durability(Durability::Os)
        .executor(Some(shared));
    (Db::open(dir, &options).unwrap(), executor)
}

fn key(number: u32) -> Vec<u8> {
    format!("row{number:05}").into_bytes()
}

fn value(number: u32, round: u32) -> Vec<u8> {
    let len = if number % 40 == 7 { 6_000 + number } else { number % 70 };
    (0..len).map(|at| (at * (round + 1) + number) as u8).collect()
}

fn spec() -> TableSpec {
    let by_kind = IndexSpec::over_columns("by_kind", Some(0..2));
    let by_number = IndexSpec::over_columns("by_number", Some(2..6)).unique(true);
    TableSpec { name: "stones".to_owned(), indexes: vec![by_kind, by_number] }
}

fn stone(number: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("stone{number:03}").into_bytes(), format!("k{}{:04} and more", number % 7, 999 - number).into_bytes())
}

/// The rows of the default tree, those not counted that a transaction did not commit.
fn default_rows() -> Rows {
    let mut rows: Rows = (0..400).map(|number| (key(number), value(number, 0))).collect();
    rows.extend((0..400).step_by(9).map(|number| (key(number), value(number, 1))));
    (0..400).step_by(11).for_each(|number| drop(rows.remove(&key(number))));
    rows.extend((390..420).map(|number| (key(number), value(number, 2))));
    rows
}

fn loaded_rows() -> Rows {
    (0..500).map(|number| (key(3 * number), value(number, 4))).collect()
}

/// Fills a directory, and leaves it in the middle of two transactions.
fn fill(dir: &Path, left: impl FnOnce()) {
    let (db, _executor) = open(dir);
    (0..400).for_each(|number| db.put(key(number), value(number, 0)).unwrap());
    let loaded = db.create_tree("loaded").unwrap();
    db.put_in(&loaded, "gone", "with the rest").unwrap();
    db.truncate(&loaded).unwrap();
    db.bulk_load(&loaded, loaded_rows()).unwrap();
    let table = Tables::create_table(&db, &spec()).unwrap();
    let stones: Vec<_> = (0..100).map(stone).collect();
    for some in stones.chunks(4) {
        let rows: Vec<_> = some.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        Tables::insert(&db, table, &rows).unwrap();
    }
    db.flush().unwrap();
    let mut transaction = db.begin(&TransactionOptions::new(Isolation::ReadCommitted)).unwrap();
    (0..400).step_by(9).for_each(|number| transaction.put(key(number), value(number, 1)).unwrap());
    (0..400).step_by(11).for_each(|number| transaction.delete(key(number)).unwrap());
    transaction.commit().unwrap();
    (390..420).for_each(|number| db.put(key(number), value(number, 2)).unwrap());
    let mut waiting = db.begin(&TransactionOptions::new(Isolation::ReadCommitted)).unwrap();
    waiting.put(key(1), "waits").unwrap();
    waiting.prepare("waiting").unwrap();
    let mut unfinished = db.begin(&TransactionOptions::new(Isolation::ReadCommitted)).unwrap();
    unfinished.put(key(7), "never was").unwrap();
    unfinished.delete(key(8)).unwrap();
    db.sync().unwrap();
    // Jobs run when somebody waits for them: nothing changes the files now.
    left();
    unfinished.rollback().unwrap();
}

fn rows_of(db: &Db, tree: &TreeHandle) -> Rows {
    let mut cursor = db.cursor_in(tree).unwrap();
    let mut rows = Rows::new();
    let mut found = cursor.seek_to_first().unwrap();
    while found {
        rows.insert(cursor.key().to_vec(), cursor.value().to_vec());
        found = cursor.next().unwrap();
    }
    rows
}

/// Opens what was left, and looks at all of it.
fn verify(dir: &Path) {
    let (db, executor) = open(dir);
    assert!(db.tree_names().iter().any(|name| name == "loaded"));
    assert_eq!(rows_of(&db, &db.default_tree()), default_rows());
    assert_eq!(rows_of(&db, &db.tree("loaded").unwrap()), loaded_rows());
    let table = Tables::open_table(&db, &spec()).unwrap();
    for (index, column) in [(0, 0..2), (1, 2..6)] {
        let mut wanted: Vec<_> =
            (0..100).map(stone).map(|(key, value)| [&value[column.clone()], &key].concat()).collect();
        wanted.sort();
        let mut entries = Vec::new();
        Tables::scan_index(&db, table, index, b"", usize::MAX, &mut |entry| entries.push(entry.to_vec())).unwrap();
        assert_eq!(entries, wanted);
    }
    assert_eq!(db.prepared_transactions(), [b"waiting"]);
    // What recovery found is rolled back and purged, though nobody writes.
    assert!(db.history_len() > 0 && db.rolling_back_len() > 0);
    executor.run_until_idle();
    assert_eq!((db.rolling_back_len(), db.history_len()), (0, 0));
    db.commit_prepared("waiting").unwrap();
    executor.run_until_idle();
    assert_eq!((db.rolling_back_len(), db.history_len()), (0, 0));
    let mut rows = default_rows();
    rows.insert(key(1), b"waits".to_vec());
    assert_eq!(rows_of(&db, &db.default_tree()), rows);
    let report = db.check().unwrap();
    assert_eq!((report.rows, report.lost_pages), ((rows.len() + 500 + 100) as u64, 0), "{report:?}");
    db.put("new", "row").unwrap();
    db.close().unwrap();
    drop(db);
    let (db, _executor) = open(dir);
    assert_eq!(db.get("new").unwrap().as_deref(), Some(&b"row"[..]));
    db.check().unwrap();
}

fn archive(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.tar.zst"))
}

#[test]
fn a_directory_of_an_earlier_build_opens_with_its_rows() {
    for name in FIXTURES {
        let root = tempfile::tempdir().unwrap();
        let archive = std::fs::File::open(archive(name)).unwrap();
        tar::Archive::new(zstd::Decoder::new(archive).unwrap()).unpack(root.path()).unwrap();
        verify(&root.path().join("db"));
    }
}

#[test]
fn a_directory_of_this_build_opens_with_its_rows() {
    let root = tempfile::tempdir().unwrap();
    let (dir, copy) = (root.path().join("db"), root.path().join("copy.tar"));
    fill(&dir, || {
        let mut tar = tar::Builder::new(std::fs::File::create(&copy).unwrap());
        tar.append_dir_all("db", &dir).unwrap();
        tar.finish().unwrap();
    });
    let bytes = std::fs::read(&copy).unwrap();
    if std::env::var_os("SILTSTONE_WRITE_FIXTURES").is_some() {
        std::fs::write(archive(FIXTURES[0]), zstd::encode_all(bytes.as_slice(), 19).unwrap()).unwrap();
    }
    let again = tempfile::tempdir().unwrap();
    tar::Archive::new(bytes.as_slice()).unpack(again.path()).unwrap();
    verify(&again.path().join("db"));
}
