//! What every [`Tables`] keeps, as checks that run on any engine. They panic where a promise is broken.

use super::{Row, RowChange, TableId, TableSpec, Tables};
use crate::index_scan::{IndexEntry, IndexScan};
use crate::index_spec::IndexSpec;
use crate::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Opens an engine in a directory that may not exist yet.
pub type Opener<'a> = dyn Fn(&Path) -> Result<Box<dyn Tables>> + 'a;

#[track_caller]
fn done<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn fails<T>(result: Result<T>, kind: ErrorKind) {
    match result {
        Ok(_) => panic!("{kind:?} was expected"),
        Err(error) => assert_eq!(error.kind(), kind, "{error}"),
    }
}

/// Indexes over the first two bytes of a value, and over the third one before the first. A value that is too short has no entry.
fn spec(name: &str) -> TableSpec {
    let first = IndexSpec::over_columns("first", Some(0..2));
    let other = IndexSpec::over_columns("other", [2..3, 0..1]).covering(false);
    TableSpec { name: name.to_owned(), indexes: vec![first, other] }
}

fn row<'a>(primary_key: &'a str, value: &'a str) -> Row<'a> {
    Row { primary_key: primary_key.as_bytes(), value: value.as_bytes() }
}

fn scan(engine: &dyn Tables, table: TableId, index: usize, from: &str, limit: usize) -> String {
    let mut found = Vec::new();
    let mut note = |entry: &[u8]| found.push(String::from_utf8_lossy(entry).into_owned());
    let count = done(engine.scan_index(table, index, from.as_bytes(), limit, &mut note));
    assert_eq!(count, found.len());
    found.join(" ")
}

fn rows(engine: &dyn Tables, table: TableId, from: &str, limit: usize) -> String {
    let mut found = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut note = |row: Row<'_>| found.push(format!("{}={}", text(row.primary_key), text(row.value)));
    let count = done(engine.scan_rows(table, from.as_bytes(), limit, &mut note));
    assert_eq!(count, found.len());
    found.join(" ")
}

/// Runs every check. Each uses a directory of its own under `dir`.
pub fn check_tables(opener: &Opener<'_>, dir: &Path) {
    let open = |name: &str| opener(&dir.join(name)).unwrap_or_else(|error| panic!("open: {error}"));
    check_rows(&*open("rows"));
    check_ranges(&*open("ranges"));
    check_definitions(&|| open("definitions"));
    check_many(&|| open("many"));
    check_commits(&|| open("commits"));
}

/// Entries follow their rows.
fn check_rows(engine: &dyn Tables) {
    assert!(engine.capabilities().tables);
    let table = done(engine.create_table(&spec("rows")));
    let other = done(engine.create_table(&spec("other")));
    done(engine.insert(table, &[row("b", "me2 slate"), row("a", "ig1 granite"), row("c", "x")]));
    done(engine.insert(other, &[row("z", "zz9")]));
    assert_eq!(rows(engine, table, "", 9), "a=ig1 granite b=me2 slate c=x");
    assert_eq!(rows(engine, table, "b", 1), "b=me2 slate");
    assert_eq!((scan(engine, table, 0, "", 9), scan(engine, table, 1, "", 9)), ("iga meb".into(), "1ia 2mb".into()));
    assert_eq!((scan(engine, table, 0, "j", 9), scan(engine, table, 1, "", 1)), ("meb".into(), "1ia".into()));
    assert_eq!(scan(engine, table, 0, "", 0), "");
    let mut value = Vec::new();
    assert!(done(engine.get_row(table, b"b", &mut |found| value.extend_from_slice(found))) && value == b"me2 slate");
    assert!(!done(engine.get_row(table, b"bb", &mut |_| panic!("there is no such row"))));
    // One entry stays, one changes, one goes, one comes, and one row gets another primary key.
    let pairs = [
        (row("a", "ig1 granite"), row("a", "ig5 granite")),
        (row("c", "x"), row("c", "se3")),
        (row("b", "me2 slate"), row("d", "me2 slate")),
    ];
    done(engine.update(table, &pairs));
    assert_eq!(rows(engine, table, "", 9), "a=ig5 granite c=se3 d=me2 slate");
    assert_eq!(
        (scan(engine, table, 0, "", 9), scan(engine, table, 1, "", 9)),
        ("iga med sec".into(), "2md 3sc 5ia".into())
    );
    done(engine.delete(table, &[row("a", "ig5 granite"), row("d", "me2 slate")]));
    assert_eq!(rows(engine, table, "", 9), "c=se3");
    assert_eq!((scan(engine, table, 0, "", 9), scan(engine, table, 1, "", 9)), ("sec".into(), "3sc".into()));
    // What was deleted may come again.
    done(engine.insert(table, &[row("a", "ig5 granite")]));
    assert_eq!((scan(engine, table, 0, "", 9), scan(engine, table, 1, "", 9)), ("iga sec".into(), "3sc 5ia".into()));
    done(engine.insert(table, &[]));
    assert_eq!(rows(engine, other, "", 9), "z=zz9");
    fails(engine.scan_index(table, 2, b"", 9, &mut |_| ()), ErrorKind::NotFound);
    done(engine.close());
}

/// Ranges of an index, forwards and backwards, hand out what a sorted list of all entries has there, and the rows of that moment.
fn check_ranges(engine: &dyn Tables) {
    let table = done(engine.create_table(&spec("ranges")));
    let other = done(engine.create_table(&spec("other")));
    let values = ["aa1", "ab1", "ab2", "ab\u{7f}", "b\u{7f}3", "b\u{7f}4", "c", "zz9"];
    let keys: Vec<String> = (0..values.len() * 3).map(|number| format!("k{number:02}")).collect();
    let all: Vec<Row<'_>> = keys.iter().zip(values.iter().cycle()).map(|(key, value)| row(key, value)).collect();
    done(engine.insert(table, &all));
    done(engine.insert(other, &all));
    done(engine.delete(table, all.get(..4).unwrap_or_default()));
    done(engine.flush());
    let mut sorted: Vec<(String, Row<'_>)> = all
        .iter()
        .skip(4)
        .filter_map(|row| {
            let index_key = row.value.get(..2)?;
            Some((String::from_utf8_lossy(&[index_key, row.primary_key].concat()).into_owned(), *row))
        })
        .collect();
    sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
    let bounds = ["", "a", "ab", "abk", "abk13", "abk9", "b\u{7f}", "b\u{7f}k", "c", "zz", "zzk07", "zzz"];
    let ends = bounds.iter().map(Some).chain([None]);
    let scans = bounds.iter().flat_map(|from| ends.clone().map(move |end| (from, end)));
    for ((from, end), limit) in scans.flat_map(|range| [0, 1, 3, 99].map(move |limit| (range, limit))) {
        for is_reverse in [false, true] {
            let mut scan = IndexScan::all().starting_at(from).limit(limit);
            scan = end.map_or(scan.clone(), |end| scan.ending_before(end));
            scan = if is_reverse { scan.reverse() } else { scan };
            let is_wanted = |entry: &str| entry >= *from && end.is_none_or(|end| entry < *end);
            let mut expected: Vec<_> = sorted.iter().filter(|(entry, _)| is_wanted(entry)).collect();
            if is_reverse {
                expected.reverse();
            }
            expected.truncate(limit);
            check_range(engine, table, &scan, &expected);
        }
    }
    let with_prefix = |prefix: &str| sorted.iter().filter(|(entry, _)| entry.starts_with(prefix)).collect::<Vec<_>>();
    for prefix in ["", "a", "ab", "abk1", "b\u{7f}", "x", "zz"] {
        check_range(engine, table, &IndexScan::all().prefix(prefix), &with_prefix(prefix));
    }
    fails(engine.scan_entries(table, 2, &IndexScan::all(), &mut |_| ()), ErrorKind::NotFound);
    fails(engine.scan_rows_by(table, 2, &IndexScan::all(), &mut |_, _| ()), ErrorKind::NotFound);
    done(engine.close());
}

fn check_range(engine: &dyn Tables, table: TableId, scan: &IndexScan, expected: &[&(String, Row<'_>)]) {
    let mut entries = expected.iter();
    let mut next = |entry: IndexEntry<'_>| {
        let (bytes, row) = entries.next().unwrap_or_else(|| panic!("{scan:?}: more than {} entries", expected.len()));
        assert_eq!([entry.index_key, entry.primary_key].concat(), bytes.as_bytes(), "{scan:?}");
        assert_eq!(entry.primary_key, row.primary_key, "{scan:?}");
    };
    assert_eq!(done(engine.scan_entries(table, 0, scan, &mut next)), expected.len(), "{scan:?}");
    let mut entries = expected.iter();
    let mut next = |entry: IndexEntry<'_>, value: &[u8]| {
        let (_, row) = entries.next().unwrap_or_else(|| panic!("{scan:?}: more than {} rows", expected.len()));
        assert_eq!((entry.primary_key, value), (row.primary_key, row.value), "{scan:?}");
    };
    assert_eq!(done(engine.scan_rows_by(table, 0, scan, &mut next)), expected.len(), "{scan:?}");
}

/// Tables are created, found, and dropped by name and number.
fn check_definitions(open: &dyn Fn() -> Box<dyn Tables>) {
    let mut engine = open();
    fails(engine.open_table(&spec("rows")), ErrorKind::NotFound);
    let table = done(engine.create_table(&spec("rows")));
    let other = done(engine.create_table(&spec("other")));
    fails(engine.create_table(&spec("rows")), ErrorKind::AlreadyExists);
    done(engine.insert(table, &[row("a", "ig1")]));
    done(engine.insert(other, &[row("a", "me2")]));
    if engine.capabilities().persistent {
        done(engine.close());
        drop(engine);
        engine = open();
        assert_eq!(done(engine.open_table(&spec("other"))), other);
    }
    if engine.capabilities().persistent {
        // Entries of other columns would not be those of the rows.
        let [first, _] = [0, 1].map(|at| spec("rows").indexes.swap_remove(at));
        let others = [
            IndexSpec::over_columns("other", [1..2, 0..1]).covering(false),
            IndexSpec::over_columns("other", Some(0..1)).covering(false),
        ];
        for other in others {
            let spec = TableSpec { name: "rows".to_owned(), indexes: vec![first.clone(), other] };
            fails(engine.open_table(&spec), ErrorKind::InvalidArgument);
        }
    }
    assert_eq!(done(engine.open_table(&spec("rows"))), table);
    assert_eq!(scan(&*engine, table, 0, "", 9), "iga");
    done(engine.drop_table(table));
    fails(engine.open_table(&spec("rows")), ErrorKind::NotFound);
    fails(engine.insert(table, &[row("b", "ig1")]), ErrorKind::NotFound);
    let again = done(engine.create_table(&spec("rows")));
    assert_eq!((rows(&*engine, again, "", 9), scan(&*engine, again, 0, "", 9)), (String::new(), String::new()));
    assert_eq!(scan(&*engine, other, 1, "", 9), "2ma");
    done(engine.close());
}

/// Many changes leave what a map would have, also after the engine was opened again.
fn check_many(open: &dyn Fn() -> Box<dyn Tables>) {
    let mut engine = open();
    let table = done(engine.create_table(&spec("rows")));
    let mut model = BTreeMap::<String, String>::new();
    let mut state = 7_u64;
    for step in 0..600 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (state >> 33) as u32;
        let key = format!("key{:03}", random % 80);
        let value = format!("{:02}{} {step}", random / 80 % 30, random / 2400 % 10);
        match model.remove(&key) {
            None => done(engine.insert(table, &[row(&key, &value)])),
            Some(old) if random & 1 << 28 == 0 => {
                done(engine.delete(table, &[row(&key, &old)]));
                continue;
            }
            Some(old) => done(engine.update(table, &[(row(&key, &old), row(&key, &value))])),
        }
        model.insert(key, value);
        if step % 200 == 199 {
            done(engine.flush());
        }
    }
    let check = |engine: &dyn Tables| {
        let expected: Vec<String> = model.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(rows(engine, table, "", usize::MAX), expected.join(" "));
        let mut expected: Vec<String> = model.iter().map(|(key, value)| format!("{}{key}", &value[..2])).collect();
        expected.sort();
        assert_eq!(scan(engine, table, 0, "", usize::MAX), expected.join(" "));
        let mut expected: Vec<String> =
            model.iter().map(|(key, value)| format!("{}{}{key}", &value[2..3], &value[..1])).collect();
        expected.sort();
        assert_eq!(scan(engine, table, 1, "", usize::MAX), expected.join(" "));
    };
    check(&*engine);
    if engine.capabilities().persistent {
        done(engine.close());
        drop(engine);
        engine = open();
        assert_eq!(done(engine.open_table(&spec("rows"))), table);
        check(&*engine);
    }
    done(engine.close());
}

/// Changes of several tables are one commit.
fn check_commits(open: &dyn Fn() -> Box<dyn Tables>) {
    use RowChange::{Delete, Insert, Update};
    let mut engine = open();
    let tables = ["rows", "other"].map(|name| done(engine.create_table(&spec(name))));
    let [one, two] = tables;
    let state = |engine: &dyn Tables| {
        tables.map(|table| {
            [rows(engine, table, "", 99), scan(engine, table, 0, "", 99), scan(engine, table, 1, "", 99)].join("; ")
        })
    };
    done(engine.commit(&[]));
    // In any order.
    let first = [
        (two, Insert(row("a", "ig1"))),
        (one, Insert(row("a", "me2"))),
        (two, Insert(row("b", "se3"))),
        (one, Insert(row("b", "x"))),
    ];
    done(engine.commit(&first));
    assert_eq!(state(&*engine), ["a=me2 b=x; mea; 2ma", "a=ig1 b=se3; iga seb; 1ia 3sb"]);
    // One row takes over what another one gives up, wherever it stands; a row comes back at once, with the same entries or others.
    let second = [
        (one, Insert(row("b", "se3"))),
        (one, Delete(row("b", "x"))),
        (one, Update(row("a", "me2"), row("c", "me2"))),
        (two, Update(row("a", "ig1"), row("b", "ig1"))),
        (two, Update(row("b", "se3"), row("a", "se3"))),
    ];
    done(engine.commit(&second));
    assert_eq!(state(&*engine), ["b=se3 c=me2; mec seb; 2mc 3sb", "a=se3 b=ig1; igb sea; 1ib 3sa"]);
    let same = [(one, Delete(row("c", "me2"))), (two, Delete(row("a", "se3"))), (one, Insert(row("c", "me2")))];
    done(engine.commit(&same));
    let before = state(&*engine);
    assert_eq!(before, ["b=se3 c=me2; mec seb; 2mc 3sb", "b=ig1; igb; 1ib"]);
    // Nothing is done if one change cannot be.
    let twice = [(two, Insert(row("n", "aa1"))), (one, Insert(row("n", "aa1"))), (one, Insert(row("n", "bb2")))];
    fails(engine.commit(&twice), ErrorKind::InvalidArgument);
    let ends = [(one, Delete(row("b", "se3"))), (one, Update(row("b", "se3"), row("d", "se3")))];
    fails(engine.commit(&ends), ErrorKind::InvalidArgument);
    fails(
        engine.commit(&[(one, Insert(row("n", "aa1"))), (TableId(77), Insert(row("n", "aa1")))]),
        ErrorKind::NotFound,
    );
    assert_eq!(state(&*engine), before);
    if engine.capabilities().persistent {
        done(engine.close());
        drop(engine);
        engine = open();
        assert_eq!(["rows", "other"].map(|name| done(engine.open_table(&spec(name)))), tables);
        assert_eq!(state(&*engine), before);
    }
    done(engine.close());
}

/// Of engines that add indexes to tables with rows, and drop them. Uses a directory under `dir`.
pub fn check_added_indexes(opener: &Opener<'_>, dir: &Path) {
    let open = || opener(&dir.join("added")).unwrap_or_else(|error| panic!("open: {error}"));
    let mut engine = open();
    let [first, other] = [0, 1].map(|at| spec("grows").indexes.swap_remove(at));
    let with = |indexes: &[&IndexSpec]| TableSpec {
        name: "grows".to_owned(),
        indexes: indexes.iter().map(|index| (*index).clone()).collect(),
    };
    let table = done(engine.create_table(&with(&[&first])));
    fails(engine.add_index(TableId(77), &other), ErrorKind::NotFound);
    fails(engine.drop_index(TableId(77), "first"), ErrorKind::NotFound);
    done(engine.insert(table, &[row("a", "ig1"), row("b", "me2"), row("c", "x")]));
    done(engine.update(table, &[(row("b", "me2"), row("b", "me7"))]));
    done(engine.delete(table, &[row("a", "ig1")]));
    done(engine.insert(table, &[row("d", "ig5")]));
    assert_eq!(done(engine.add_index(table, &other)), 1);
    assert_eq!(
        (scan(&*engine, table, 0, "", 9), scan(&*engine, table, 1, "", 9)),
        ("igd meb".into(), "5id 7mb".into())
    );
    // It follows its rows, those that were there before included.
    done(engine.update(table, &[(row("b", "me7"), row("b", "x")), (row("c", "x"), row("c", "se3"))]));
    done(engine.delete(table, &[row("d", "ig5")]));
    done(engine.insert(table, &[row("e", "se1")]));
    assert_eq!(scan(&*engine, table, 1, "", 9), "1se 3sc");
    fails(engine.add_index(table, &other), ErrorKind::InvalidArgument);
    fails(engine.scan_index(table, 2, b"", 9, &mut |_| ()), ErrorKind::NotFound);
    if engine.capabilities().persistent {
        done(engine.close());
        drop(engine);
        engine = open();
        fails(engine.open_table(&with(&[&first])), ErrorKind::InvalidArgument);
        assert_eq!(done(engine.open_table(&with(&[&first, &other]))), table);
        assert_eq!(
            (scan(&*engine, table, 0, "", 9), scan(&*engine, table, 1, "", 9)),
            ("sec see".into(), "1se 3sc".into())
        );
    }
    done(engine.drop_index(table, "first"));
    fails(engine.drop_index(table, "first"), ErrorKind::NotFound);
    assert_eq!(scan(&*engine, table, 0, "", 9), "1se 3sc");
    fails(engine.scan_index(table, 1, b"", 9, &mut |_| ()), ErrorKind::NotFound);
    // One of the same name comes again, with the rows of now.
    done(engine.delete(table, &[row("c", "se3")]));
    assert_eq!(done(engine.add_index(table, &first)), 1);
    assert_eq!(scan(&*engine, table, 1, "", 9), "see");
    if engine.capabilities().persistent {
        done(engine.close());
        drop(engine);
        engine = open();
        assert_eq!(done(engine.open_table(&with(&[&other, &first]))), table);
        assert_eq!((scan(&*engine, table, 0, "", 9), scan(&*engine, table, 1, "", 9)), ("1se".into(), "see".into()));
    }
    done(engine.close());
}

/// Of engines that check unique indexes: a key may be taken over, but not taken. Uses a directory under `dir`.
pub fn check_unique_tables(opener: &Opener<'_>, dir: &Path) {
    use RowChange::{Insert, Update};
    let engine = opener(&dir.join("unique")).unwrap_or_else(|error| panic!("open: {error}"));
    let engine = &*engine;
    let unique = |name: &str| {
        let index = IndexSpec::over_columns("number", Some(0..1)).unique(true).covering(false);
        TableSpec { name: name.to_owned(), indexes: vec![index] }
    };
    let tables = ["unique", "other unique"].map(|name| done(engine.create_table(&unique(name))));
    let [one, two] = tables;
    let state = || tables.map(|table| [rows(engine, table, "", 99), scan(engine, table, 0, "", 99)].join("; "));
    done(engine.commit(&[(one, Insert(row("a", "1"))), (one, Insert(row("b", "2"))), (two, Insert(row("a", "1")))]));
    let swap = [(one, Update(row("a", "1"), row("a", "2"))), (one, Update(row("b", "2"), row("b", "1")))];
    done(engine.commit(&swap));
    done(engine.update(one, &[(row("a", "2"), row("a", "1")), (row("b", "1"), row("b", "2"))]));
    let before = state();
    assert_eq!(before, ["a=1 b=2; 1a 2b", "a=1; 1a"]);
    let taken = [(one, Insert(row("c", "3"))), (two, Insert(row("d", "1")))];
    match engine.commit(&taken) {
        Ok(()) => panic!("a violation was expected"),
        Err(error) => {
            let message = error.to_string();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
            assert!(message.contains("number") && message.contains("\"1\""), "names neither index nor key: {message}");
        }
    }
    let both = [(two, Insert(row("c", "3"))), (one, Insert(row("c", "3"))), (one, Insert(row("d", "3")))];
    fails(engine.commit(&both), ErrorKind::AlreadyExists);
    assert_eq!(state(), before);
    // Not even for rows that were there before: the index is added whole or not at all.
    done(engine.insert(two, &[row("b", "21"), row("c", "31")]));
    let second = IndexSpec::over_columns("second", Some(1..2)).unique(true).covering(false);
    fails(engine.add_index(two, &second), ErrorKind::AlreadyExists);
    fails(engine.scan_index(two, 1, b"", 9, &mut |_| ()), ErrorKind::NotFound);
    done(engine.update(two, &[(row("c", "31"), row("c", "32"))]));
    assert_eq!(done(engine.add_index(two, &second)), 1);
    fails(engine.insert(two, &[row("d", "41")]), ErrorKind::AlreadyExists);
    assert_eq!(scan(engine, two, 1, "", 9), "1b 2c");
    done(engine.close());
}
