//! Indexes whose entries come in as tables.

use super::build::{meddling, none_left, sound};
use super::*;
use crate::metrics::Counter;
use siltstone_base::env::{Env, FileKind, FileOptions, PosixEnv};
use siltstone_base::index_spec::LazyIndexSpec;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};

const ROWS: usize = 3000;

/// Keys of rows, and values whose first three bytes are `number % modulus`.
fn names(modulus: usize) -> Vec<(String, String)> {
    (0..ROWS).map(|i| (format!("{i:04}"), format!("{:04}{i}", i * 7 % modulus))).collect()
}

fn fill(db: &TableDb, table: TableId, names: &[(String, String)]) {
    db.insert(table, &rows_of(names)).unwrap();
}

fn rows_of(names: &[(String, String)]) -> Vec<Row<'_>> {
    names.iter().map(|(key, value)| row(key, value)).collect()
}

/// Entries that went through the WAL while `add` ran.
fn written(db: &TableDb, add: impl FnOnce()) -> u64 {
    let before = db.db().metrics().get(Counter::KeysWritten);
    add();
    db.db().metrics().get(Counter::KeysWritten) - before
}

#[test]
fn entries_of_many_rows_come_in_as_tables() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    let names = names(ROWS);
    fill(&db, table, &names);
    let lazy = db.create_lazy_table(&LazyTableSpec { name: "lazy".to_owned(), indexes: Vec::new() }).unwrap();
    db.upsert(lazy, &rows_of(&names)).unwrap();
    let plain = IndexSpec::over_columns("plain", Some(0..3));
    let unique = IndexSpec::over_columns("unique", Some(0..4)).unique(true);
    assert!(written(&db, || assert_eq!(db.add_index(table, &plain).unwrap(), 1)) < 20);
    assert!(written(&db, || assert_eq!(db.add_index(table, &unique).unwrap(), 2)) < 20);
    let added = LazyIndexSpec::over_columns("added", Some(1..3));
    assert!(written(&db, || assert_eq!(db.add_lazy_index(lazy, &added).unwrap(), 0)) < 20);
    sound(&db, table, ROWS as u64);
    sound(&db, lazy, ROWS as u64);
    assert_eq!(db.insert(table, &[row("new", "0000")]).unwrap_err().kind(), ErrorKind::AlreadyExists);
    db.update(table, &[(row("0000", "00000"), row("0000", "9999"))]).unwrap();
    sound(&db, table, ROWS as u64);
    db.close().unwrap();

    let db = open(dir.path());
    let mut wanted = spec("t", 1);
    wanted.indexes.extend([plain, unique]);
    assert_eq!(db.open_table(&wanted).unwrap(), table);
    sound(&db, table, ROWS as u64);
    // What goes goes for good: no entry was put twice.
    let mut left = rows_of(&names);
    left[0] = row("0000", "9999");
    db.delete(table, &left).unwrap();
    none_left(&db, table);
    assert_eq!(db.db().metrics().get(Counter::SingleDeleteMismatches), 0);
    assert!(!PosixEnv::new().exists(&dir.path().join("sorting")).unwrap());
}

/// The next opening sorts under the same names: what the load still did took the tables of another one.
#[test]
fn closing_waits_for_entries_that_are_being_sorted() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    let names = names(ROWS);
    fill(&db, table, &names);
    let (held, may_go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (is_held, go) = (Arc::clone(&held), Arc::clone(&may_go));
    let index = meddling(Vec::leak(names[2000].1.clone().into_bytes()), move || {
        held.store(true, Ordering::SeqCst);
        while !may_go.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    });
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| db.add_index(table, &index));
        while !is_held.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let is_sorting = PosixEnv::new().exists(&dir.path().join("sorting")).unwrap();
        let closing = scope.spawn(|| db.db().clone().close());
        while !db.db().is_closing() {
            std::thread::yield_now();
        }
        let has_waited = !closing.is_finished();
        go.store(true, Ordering::SeqCst);
        assert!(is_sorting && has_waited);
        closing.join().unwrap().unwrap();
        assert!(!PosixEnv::new().exists(&dir.path().join("sorting")).unwrap());
        assert_eq!(adding.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    });
}

/// Somebody changes rows while the entries are sorted: what was sorted is thrown away, and the entries are made one by one.
#[test]
fn rows_that_change_while_entries_are_sorted_have_the_entries_that_they_yield() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(open(dir.path()));
    let table = db.create_table(&spec("t", 1)).unwrap();
    let mut names = names(50);
    fill(&db, table, &names);
    let writer = Arc::clone(&db);
    let (at, first, last) = (names[2000].clone(), names[0].clone(), names[2999].clone());
    let index = meddling(Vec::leak(at.1.into_bytes()), move || {
        writer.update(table, &[(row(&first.0, &first.1), row(&first.0, "xx"))]).unwrap();
        writer.delete(table, &[row(&last.0, &last.1)]).unwrap();
    });
    assert!(written(&db, || assert_eq!(db.add_index(table, &index).unwrap(), 1)) > ROWS as u64);
    names[0].1 = "xx".to_owned();
    names.pop();
    sound(&db, table, names.len() as u64);
    db.delete(table, &rows_of(&names)).unwrap();
    none_left(&db, table);
    assert_eq!(db.db().metrics().get(Counter::SingleDeleteMismatches), 0);
}

#[test]
fn a_unique_index_that_cannot_be_made_names_the_row_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    fill(&db, table, &names(2999));
    let error = db.add_index(table, &IndexSpec::over_columns("unique", Some(0..4)).unique(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("unique index unique of table t: row 2999,"), "{error}");
    sound(&db, table, ROWS as u64);
    db.reclaim().unwrap();
    let ids: std::collections::BTreeSet<_> =
        stored(&db, &db.ground.rows).iter().map(|key| IndexId::of_key(key).unwrap().0).collect();
    assert_eq!(ids, [table.0, table.0 + 1].into());
    assert!(!PosixEnv::new().exists(&dir.path().join("sorting")).unwrap());
}

#[test]
fn what_a_crash_left_of_sorting_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    db.create_table(&spec("t", 1)).unwrap();
    db.close().unwrap();
    let (env, sorting) = (PosixEnv::new(), dir.path().join("sorting"));
    env.create_dir_all(&sorting).unwrap();
    env.create_append(&sorting.join("1.load"), &FileOptions::new(FileKind::Table)).unwrap().finish().unwrap();
    let db = open(dir.path());
    assert!(!env.exists(&sorting).unwrap());
    db.close().unwrap();
}
