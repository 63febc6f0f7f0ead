//! Indexes that are added to tables with rows, and dropped.

use super::{entries, row, rows, small, stones};
use crate::{Counter, Db, DbOptions, ErrorKind};
use siltstone_base::engine::{TableId, TableSpec};
use siltstone_base::index_spec::{IndexExtractor, IndexSpec};
use siltstone_base::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A table without indexes, the index by kind alone, or both indexes.
pub(super) fn with(count: usize) -> TableSpec {
    let mut spec = stones();
    spec.indexes.truncate(count);
    spec
}

pub(super) fn sorted(mut entries: Vec<String>) -> Vec<String> {
    entries.sort();
    entries
}

/// Rows with numbers that differ, in an order that is not that of their keys.
fn many(count: usize) -> Vec<(String, String)> {
    let row = |number: usize| {
        let long = if number.is_multiple_of(40) { "basalt ".repeat(100) } else { String::new() };
        (format!("{number:05}"), format!("k{}{:05} {long}", number % 7, number * 7919 % 100_000))
    };
    (0..count).map(row).collect()
}

fn numbered() -> Vec<IndexSpec> {
    let by_kind = IndexSpec::over_columns("by_kind", Some(0..2));
    vec![by_kind, IndexSpec::over_columns("by_number", Some(2..7)).unique(true)]
}

fn fill(db: &Db, table: TableId, rows: &[(String, String)]) {
    rows.iter().for_each(|(key, value)| db.insert(table, &[row(key, value)]).unwrap());
}

/// The tablespaces that are there, and the files.
pub(super) fn spaces(db: &Db) -> (Vec<u32>, usize) {
    (db.0.spaces.all(), db.0.env.list_dir(&db.0.dir).unwrap().len())
}

/// An eighth of the smallest pool is too little for the entries of these rows, so that they are merged; that of the larger one is enough.
#[test]
fn an_added_index_has_the_rows_that_were_there_and_follows_those_that_come() {
    for pool in [32 << 10, 1 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let options = small().buffer_pool_bytes(pool);
        let db = Db::open(dir.path(), &options).unwrap();
        let table = db.create_table(&with(0)).unwrap();
        let all = many(600);
        fill(&db, table, &all);
        let (before, next) = (spaces(&db), db.0.catalog_header().unwrap().next_space);
        let wanted = TableSpec { indexes: numbered(), ..with(0) };
        for (position, index) in wanted.indexes.iter().enumerate() {
            let redo = db.metrics().get(Counter::RedoBytes);
            assert_eq!(db.add_index(table, index).unwrap(), position);
            assert!(db.metrics().get(Counter::RedoBytes) - redo < 20_000, "entries are not logged");
        }
        let taken = db.0.catalog_header().unwrap().next_space - next;
        assert_eq!(taken > 2, pool == 32 << 10, "{taken} tablespaces");
        assert_eq!(spaces(&db).1, before.1 + 2);
        let entries_of = |rows: &[(String, String)]| {
            let of =
                |from: usize, to: usize| rows.iter().map(|(key, value)| format!("{}{key}", &value[from..to])).collect();
            (sorted(of(0, 2)), sorted(of(2, 7)))
        };
        assert_eq!((entries(&db, table, 0), entries(&db, table, 1)), entries_of(&all));
        assert_eq!(db.check().unwrap().index_entries, 1200);
        // Both are maintained from now on.
        let (kept, gone) = all.split_at(400);
        gone.iter().for_each(|(key, value)| db.delete_rows(table, &[row(key, value)]).unwrap());
        let mut now = kept.to_vec();
        now.push(("new".to_owned(), "k999999".to_owned()));
        db.insert(table, &[row("new", "k999999")]).unwrap();
        let error = db.insert(table, &[row("newer", "k999999")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!((entries(&db, table, 0), entries(&db, table, 1)), entries_of(&now));
        db.close().unwrap();
        let db = Db::open(dir.path(), &options).unwrap();
        assert_eq!(db.open_table(&with(0)).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(db.open_table(&wanted).unwrap(), table);
        assert_eq!((entries(&db, table, 0), entries(&db, table, 1)), entries_of(&now));
        assert_eq!(db.check().unwrap().index_entries, 802);
        db.close().unwrap();
    }
}

/// Does what a row says.
#[derive(Debug, Default)]
pub(super) struct Moody(AtomicU64);

impl IndexExtractor for Moody {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let calls = self.0.fetch_add(1, Ordering::Relaxed);
        match value {
            b"panics" => panic!("at this row"),
            b"changes" => index_key.extend_from_slice(&calls.to_be_bytes()),
            b"long" => index_key.resize(100, b'x'),
            _ => index_key.extend_from_slice(value),
        }
        value != b"none"
    }

    fn try_extract(&self, primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> Result<bool> {
        match value {
            b"undecodable" => Err(Error::corrupt("no row")),
            _ => Ok(self.extract(primary_key, value, index_key)),
        }
    }
}

#[test]
fn an_index_that_cannot_be_made_leaves_nothing() {
    let moody = || IndexSpec::new("moody", Arc::new(Moody::default()));
    for (value, index, kind, said) in [
        ("ordinary", moody().unique(true), ErrorKind::AlreadyExists, "index moody of table stones: row 3,"),
        ("panics", moody(), ErrorKind::Poisoned, "row 1,"),
        ("undecodable", moody(), ErrorKind::Corruption, "row 1,"),
        ("long", moody(), ErrorKind::LimitExceeded, "row 1,"),
        ("ordinary", IndexSpec::over_columns("by_kind", Some(0..1)), ErrorKind::InvalidArgument, "differ"),
        ("ordinary", IndexSpec::over_columns("", Some(0..1)), ErrorKind::InvalidArgument, "64 bytes"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &small()).unwrap();
        let table = db.create_table(&with(1)).unwrap();
        let all = [row("a", "none"), row("b", value), row("c", "same"), row("d", "same")];
        db.insert(table, &all).unwrap();
        let before = spaces(&db);
        let error = db.add_index(table, &index).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(spaces(&db), before);
        assert_eq!(db.scan_index(table, 1, b"", 9, &mut |_| {}).unwrap_err().kind(), ErrorKind::NotFound);
        db.delete_rows(table, &all[1..2]).unwrap();
        // What failed once may work another time.
        let again = IndexSpec::over_columns("again", Some(0..2));
        assert_eq!(db.add_index(table, &again).unwrap(), 1);
        assert_eq!(entries(&db, table, 1), ["noa", "sac", "sad"]);
        db.check().unwrap();
        db.close().unwrap();
        let db = Db::open(dir.path(), &small()).unwrap();
        let mut grown = with(1);
        grown.indexes.push(again);
        assert_eq!(db.open_table(&grown).unwrap(), table);
        assert_eq!(db.check().unwrap().index_entries, 6);
    }
}

#[test]
fn an_extractor_that_says_something_else_every_time_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let table = db.create_table(&with(0)).unwrap();
    db.insert(table, &[row("a", "changes")]).unwrap();
    let error = db.add_index(table, &IndexSpec::new("moody", Arc::new(Moody::default()))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let missing = db.add_index(TableId(99), &stones().indexes[0]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_table_has_no_more_than_64_indexes_and_each_is_there_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let table = db.create_table(&with(0)).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
    let index = |number: usize| IndexSpec::over_columns(format!("by_{number}"), Some(number % 4..number % 4 + 1));
    for number in 0..64 {
        assert_eq!(db.add_index(table, &index(number)).unwrap(), number);
    }
    assert_eq!(db.add_index(table, &index(64)).unwrap_err().kind(), ErrorKind::LimitExceeded);
    for number in (0..64).step_by(2) {
        db.drop_index(table, &format!("by_{number}")).unwrap();
    }
    db.close().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let indexes = (1..64).step_by(2).map(index).collect();
    assert_eq!(db.open_table(&TableSpec { indexes, ..with(0) }).unwrap(), table);
    assert_eq!(db.check().unwrap().index_entries, 64);
    assert_eq!(entries(&db, table, 0), ["eb", "ga"]);
    assert_eq!(entries(&db, table, 1), ["1a", "2b"]);
}

#[test]
fn a_dropped_index_is_gone_and_those_behind_it_move_up() {
    let dir = tempfile::tempdir().unwrap();
    let options: DbOptions = small();
    let db = Db::open(dir.path(), &options).unwrap();
    let table = db.create_table(&stones()).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
    db.add_index(table, &IndexSpec::over_columns("by_letter", Some(1..2))).unwrap();
    let before = spaces(&db);
    db.drop_index(table, "by_kind").unwrap();
    assert_eq!(db.drop_index(table, "by_kind").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(spaces(&db).1, before.1 - 1);
    assert_eq!(entries(&db, table, 1), ["eb", "ga"]);
    assert_eq!(entries(&db, table, 0), ["01a", "02b"]);
    // It may come again, at the end.
    assert_eq!(db.add_index(table, &stones().indexes[0]).unwrap(), 2);
    db.insert(table, &[row("c", "se03")]).unwrap();
    assert_eq!(entries(&db, table, 2), ["iga", "meb", "sec"]);
    db.drop_index(table, "by_number").unwrap();
    // Nobody looks at numbers any more.
    db.insert(table, &[row("d", "se03")]).unwrap();
    db.check().unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path(), &options).unwrap();
    let indexes = vec![IndexSpec::over_columns("by_letter", Some(1..2)), stones().indexes.swap_remove(0)];
    assert_eq!(db.open_table(&TableSpec { indexes, ..stones() }).unwrap(), table);
    assert_eq!(rows(&db, table).len(), 4);
    assert_eq!(db.check().unwrap().index_entries, 8);
    db.drop_table(table).unwrap();
    assert_eq!(db.check().unwrap().tables, 0);
}
