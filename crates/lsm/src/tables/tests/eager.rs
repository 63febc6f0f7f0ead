//! Changes and scans of tables that are not lazy; unique indexes; extractors that misbehave.

use super::*;
use crate::metrics::Counter;
use crate::options::CompactRangeOptions;
use siltstone_base::engine::Admin;
use siltstone_base::index_spec::FixedColumns;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sorts by the word before the first blank; covers the rest.
#[derive(Debug)]
struct FirstWord;

impl IndexExtractor for FirstWord {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let Some(end) = value.iter().position(|byte| *byte == b' ') else { return false };
        index_key.extend_from_slice(&value[..=end]);
        true
    }
}

/// An index of each form: unique, of one length, of many, and with covered columns.
fn forms() -> TableSpec {
    let covering = Arc::new(FixedColumns::new(Some(1..2)));
    TableSpec {
        name: "forms".to_owned(),
        indexes: vec![
            IndexSpec::over_columns("name", Some(0..3)).unique(true),
            IndexSpec::over_columns("third", Some(2..3)).covered(Arc::clone(&covering) as Arc<dyn IndexExtractor>),
            IndexSpec::new("word", Arc::new(FirstWord)),
            IndexSpec::new("unique_word", Arc::new(FirstWord)).unique(true).covered(covering),
        ],
    }
}

fn entries(db: &TableDb, table: TableId, index: usize, scan: &IndexScan) -> String {
    let mut found = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut note = |entry: IndexEntry<'_>| {
        found.push(format!("{}:{}+{}", text(entry.index_key), text(entry.primary_key), text(entry.covered)));
    };
    let count = db.scan_entries(table, index, scan, &mut note).unwrap();
    assert_eq!(count, found.len());
    found.join(", ")
}

fn check(db: &TableDb, table: TableId) {
    for check in db.check_table(table).unwrap() {
        assert!(check.is_sound() && check.stale == 0 && check.missing == 0, "{check:?}");
    }
}

#[test]
fn entries_of_each_form_lead_to_their_rows_and_hold_what_they_cover() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&forms()).unwrap();
    db.insert(table, &[row("1", "abc x"), row("22", "xbcd y"), row("", "cbc z"), row("4", "ab")]).unwrap();
    let all = IndexScan::all();
    assert_eq!(entries(&db, table, 0, &all), "abc:1+, cbc:+, xbc:22+");
    assert_eq!(entries(&db, table, 1, &all), "c:+b, c:1+b, c:22+b");
    assert_eq!(entries(&db, table, 2, &all), "abc :1+, cbc :+, xbcd :22+");
    assert_eq!(entries(&db, table, 3, &all), "abc :1+b, cbc :+b, xbcd :22+b");
    assert_eq!(by(&db, table, 3, &all), "abc :1=abc x cbc :=cbc z xbcd :22=xbcd y");
    assert_eq!(by(&db, table, 1, &all.clone().reverse().limit(2)), "c:22=xbcd y c:1=abc x");
    assert_eq!(scan(&db, table, 3, "", 9), ["abc 1", "cbc ", "xbcd 22"]);
    check(&db, table);
    db.close().unwrap();
    let db = open(dir.path());
    let table = db.open_table(&forms()).unwrap();
    assert_eq!(entries(&db, table, 3, &all), "abc :1+b, cbc :+b, xbcd :22+b");
    let mut other = forms();
    other.indexes[1].covered = None;
    assert_eq!(db.open_table(&other).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn scans_have_ranges_prefixes_directions_and_limits() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&forms()).unwrap();
    let rows: Vec<(String, String)> = ["aa", "ab", "ac", "ba", "bb"]
        .iter()
        .enumerate()
        .map(|(i, word)| (format!("k{i}"), format!("{word}{i} .")))
        .collect();
    let rows: Vec<Row<'_>> = rows.iter().map(|(key, value)| row(key, value)).collect();
    db.insert(table, &rows).unwrap();
    for index in [0, 2, 3] {
        let keys = |scan: IndexScan| -> String {
            let mut found = String::new();
            let mut note =
                |entry: IndexEntry<'_>| found.push_str(std::str::from_utf8(&entry.primary_key[1..]).unwrap());
            db.scan_entries(table, index, &scan, &mut note).unwrap();
            let mut fetched = String::new();
            let mut note = |entry: IndexEntry<'_>, _: &[u8]| {
                fetched.push_str(std::str::from_utf8(&entry.primary_key[1..]).unwrap())
            };
            db.scan_rows_by(table, index, &scan, &mut note).unwrap();
            assert_eq!(found, fetched);
            found
        };
        let all = IndexScan::all;
        let blank = if index == 0 { "" } else { " " };
        let entry = |name: &str, key: &str| format!("{name}{blank}{key}");
        assert_eq!(keys(all()), "01234");
        assert_eq!(keys(all().reverse()), "43210");
        assert_eq!(keys(all().prefix("a")), "012");
        assert_eq!(keys(all().prefix("b").reverse()), "43");
        assert_eq!(keys(all().prefix("a").reverse().limit(2)), "21");
        assert_eq!(keys(all().prefix([0xff])), "");
        assert_eq!(keys(all().starting_at("ab").ending_before("bb")), "123");
        assert_eq!(keys(all().starting_at("ab").ending_before("bb").reverse()), "321");
        assert_eq!(keys(all().limit(0)), "");
        // Bounds that are entries, or lie between the keys of one and what follows it.
        for (from, expected) in [("k1", "1234"), ("k", "1234"), ("k1x", "234"), ("k2", "234")] {
            let from = entry("ab1", from);
            assert_eq!(keys(all().starting_at(&from)), expected, "{from}");
            assert_eq!(keys(all().starting_at(&from).reverse()), expected.chars().rev().collect::<String>(), "{from}");
            let before: String = "01234".chars().filter(|key| !expected.contains(*key)).collect();
            assert_eq!(keys(all().ending_before(&from)), before, "{from}");
            assert_eq!(keys(all().ending_before(&from).reverse()), before.chars().rev().collect::<String>(), "{from}");
        }
    }
    let snapshot = db.snapshot();
    db.update(table, &[(row("k0", "aa0 ."), row("k0", "zz0 ."))]).unwrap();
    assert_eq!(by(&db, table, 0, &IndexScan::all().prefix("a").at(&snapshot).limit(1)), "aa0:k0=aa0 .");
    assert_eq!(by(&db, table, 0, &IndexScan::all().prefix("z").at(&snapshot)), "");
    assert_eq!(by(&db, table, 0, &IndexScan::all().prefix("z")), "zz0:k0=zz0 .");
}

#[test]
fn a_changed_covered_column_replaces_the_entry() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&forms()).unwrap();
    db.insert(table, &[row("1", "abc x")]).unwrap();
    for (old, new, covered) in [("abc x", "aQc x", "Q"), ("aQc x", "aRc x", "R"), ("aRc x", "abc x", "b")] {
        db.update(table, &[(row("1", old), row("1", new))]).unwrap();
        assert_eq!(entries(&db, table, 1, &IndexScan::all()), format!("c:1+{covered}"));
        Admin::flush(&db).unwrap();
    }
    db.delete(table, &[row("1", "abc x")]).unwrap();
    db.db().compact_range(&db.ground.rows, None, None, &CompactRangeOptions::default().force_bottommost(true)).unwrap();
    assert_eq!(stored(&db, &db.ground.rows), Vec::<Vec<u8>>::new());
    assert_eq!(db.db().metrics().get(Counter::SingleDeleteMismatches), 0);
}

#[test]
fn rows_of_one_call_may_take_over_keys_from_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&forms()).unwrap();
    db.insert(table, &[row("1", "aaa x"), row("2", "bbb y")]).unwrap();
    // Values change places; then primary keys do.
    db.update(table, &[(row("1", "aaa x"), row("1", "bbb x")), (row("2", "bbb y"), row("2", "aaa y"))]).unwrap();
    assert_eq!(by(&db, table, 0, &IndexScan::all()), "aaa:2=aaa y bbb:1=bbb x");
    check(&db, table);
    db.update(table, &[(row("1", "bbb x"), row("2", "bbb x")), (row("2", "aaa y"), row("1", "aaa y"))]).unwrap();
    assert_eq!(by(&db, table, 0, &IndexScan::all()), "aaa:1=aaa y bbb:2=bbb x");
    check(&db, table);
    db.db().compact_range(&db.ground.rows, None, None, &CompactRangeOptions::default().force_bottommost(true)).unwrap();
    assert_eq!(by(&db, table, 3, &IndexScan::all()), "aaa :1=aaa y bbb :2=bbb x");
    check(&db, table);
}

#[test]
fn a_unique_violation_names_the_index_the_row_and_the_key_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&forms()).unwrap();
    db.insert(table, &[row("1", "aaa x"), row("2", "bbb y")]).unwrap();
    let refused = |outcome: Result<()>, row: &str, key: &str| {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let message = error.to_string();
        assert!(message.contains("unique index name of table forms") && message.contains(row), "{message}");
        assert!(message.ends_with(&format!(", \"{key}\"")), "{message}");
        check(&db, table);
        assert_eq!(scan(&db, table, 0, "", 9), ["aaa1", "bbb2"]);
    };
    refused(db.insert(table, &[row("3", "ccc x"), row("4", "aaa z")]), "row 1 has", "aaa");
    refused(db.insert(table, &[row("3", "ccc x"), row("4", "ddd x"), row("5", "ccc")]), "rows 0 and 2", "ccc");
    refused(db.update(table, &[(row("2", "bbb y"), row("2", "aaa y"))]), "row 0 has", "aaa");
    // What stays, or is given up by the same call, is no violation; and a key is free again when its row is gone.
    db.update(table, &[(row("2", "bbb y"), row("2", "bbb z"))]).unwrap();
    db.delete(table, &[row("2", "bbb z")]).unwrap();
    db.insert(table, &[row("7", "bbb q")]).unwrap();
    check(&db, table);
}

#[test]
fn of_inserters_with_the_same_unique_key_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&forms()).unwrap();
    let won = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (db, won) = (&db, &won);
            scope.spawn(move || {
                for round in 0..200 {
                    let (key, value) = (format!("{thread}-{round}"), format!("{round:03} v"));
                    match db.insert(table, &[row(&key, &value)]) {
                        Ok(()) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists),
                    }
                }
            });
        }
    });
    assert_eq!(won.into_inner(), 200);
    assert_eq!(scan(&db, table, 0, "", usize::MAX).len(), 200);
    check(&db, table);
}

/// Panics, changes its mind, or fails, by the first byte of the value.
#[derive(Debug, Default)]
pub(super) struct Moody(AtomicU64);

impl IndexExtractor for Moody {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        assert_ne!(value[0], b'p', "asked for");
        if value[0] == b'c' {
            index_key.extend_from_slice(&self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        }
        true
    }

    fn try_extract(&self, key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> Result<bool> {
        if value.first().is_none_or(|first| *first == b'u') {
            return Err(Error::corrupt("not a row"));
        }
        Ok(self.extract(key, value, index_key))
    }
}

#[test]
fn an_extractor_that_misbehaves_is_caught_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let moody = IndexSpec::new("moody", Arc::new(Moody::default()));
    let table = db.create_table(&TableSpec { name: "t".to_owned(), indexes: vec![moody] }).unwrap();
    for (value, kind) in [
        ("panics", ErrorKind::Poisoned),
        ("changes", ErrorKind::InvalidArgument),
        ("undecodable", ErrorKind::Corruption),
    ] {
        for outcome in [
            db.insert(table, &[row("1", value)]),
            db.delete(table, &[row("1", value)]),
            db.update(table, &[(row("1", "good"), row("1", value))]),
        ] {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), kind, "{value}: {error}");
            assert!(error.to_string().contains("index moody"), "{error}");
        }
    }
    assert_eq!(stored(&db, &db.ground.rows), Vec::<Vec<u8>>::new());
    db.insert(table, &[row("1", "good")]).unwrap();
    check(&db, table);
}

#[test]
fn damage_is_named_with_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&forms()).unwrap();
    db.insert(table, &[row("1", "aaa x"), row("2", "bbb y"), row("3", "ccc z")]).unwrap();
    // The second row of the first index loses its row, and its entry in the third one its value.
    db.db().delete(IndexId(table.0).key(b"2")).unwrap();
    let error = db.scan_rows_by(table, 0, &IndexScan::all(), &mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("index name: entry 1 "), "{error}");
    db.db().put(IndexId(table.0 + 3).key(b"bbb 2"), [200, 1]).unwrap();
    let error = db.scan_entries(table, 2, &IndexScan::all(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("index word: entry 1 "), "{error}");
    db.db().put(IndexId(table.0 + 3).key(b"bbb 2"), [4]).unwrap();
    db.db().delete(IndexId(table.0 + 1).key(b"ccc")).unwrap();
    let checks = db.check_table(table).unwrap();
    assert_eq!(
        checks.iter().map(|check| (check.stale, check.missing)).collect::<Vec<_>>(),
        [(1, 1), (1, 0), (1, 0), (1, 0)]
    );
    assert_eq!(checks[0].differences.len(), 2);
    assert!(!checks[0].differences[0].is_missing && checks[0].differences[0].primary_key == b"2");
    assert!(checks[0].differences[1].is_missing && checks[0].differences[1].primary_key == b"3");
}

#[test]
fn a_lazy_table_is_no_other_and_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let lazy = LazyTableSpec { name: "lazy".to_owned(), indexes: Vec::new() };
    let table = db.create_lazy_table(&lazy).unwrap();
    let kind = |outcome: Result<()>| outcome.unwrap_err().kind();
    assert_eq!(kind(db.insert(TableId(table.0), &[row("1", "a")])), ErrorKind::InvalidArgument);
    let eager = db.create_table(&spec("eager", 0)).unwrap();
    assert_eq!(kind(db.upsert(LazyTableId(eager.0), &[row("1", "a")])), ErrorKind::InvalidArgument);
    db.upsert(table, &[row("1", "a")]).unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    assert_eq!(kind(db.open_table(&spec("lazy", 0)).map(drop)), ErrorKind::InvalidArgument);
    assert_eq!(db.open_lazy_table(&lazy).unwrap(), table);
    let mut value = Vec::new();
    assert!(db.get_row(table, b"1", &mut |found| value.extend_from_slice(found)).unwrap());
    assert_eq!(value, b"a");
}

#[test]
fn a_primary_key_that_comes_twice_in_one_call_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("1", "abc")]);
    let twice = [
        db.insert(table, &[row("2", "xyz"), row("3", "abc"), row("2", "xyz")]),
        db.delete(table, &[row("1", "abc"), row("1", "abc")]),
        db.update(table, &[(row("1", "abc"), row("1", "b..")), (row("1", "b.."), row("1", "c.."))]),
    ];
    twice.into_iter().for_each(|outcome| assert_eq!(outcome.unwrap_err().kind(), ErrorKind::InvalidArgument));
    check(&db, table);
    assert_eq!(scan(&db, table, 0, "", 9), ["ab1"]);
}

/// All of the value.
#[derive(Debug)]
struct Whole;

impl IndexExtractor for Whole {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        index_key.extend_from_slice(value);
        true
    }
}

/// The extractor breaks its contract: of two rows with one stored key, the later one has the entry.
#[test]
fn an_entry_in_the_place_of_another_rows_is_told_from_one_that_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let whole = IndexSpec::new("whole", Arc::new(Whole));
    let table = db.create_table(&TableSpec { name: "t".to_owned(), indexes: vec![whole] }).unwrap();
    insert(&db, table, &[("bc", "a"), ("c", "ab"), ("d", "x")]);
    db.db().delete(IndexId(table.0 + 1).key(b"xd")).unwrap();
    let check = &db.check_table(table).unwrap()[0];
    assert_eq!((check.entries, check.stale, check.missing, check.taken), (1, 0, 2, 1));
    assert!(!check.is_sound());
}
