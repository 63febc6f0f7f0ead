//! What every [`LazyTables`] keeps, as checks that run on any engine. They panic where a promise is broken.

use super::{LazyTableId, LazyTableSpec, LazyTables, Row};
use crate::index_spec::LazyIndexSpec;
use crate::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Opens an engine in a directory that may not exist yet.
pub type Opener<'a> = dyn Fn(&Path) -> Result<Box<dyn LazyTables>> + 'a;

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
fn spec(name: &str) -> LazyTableSpec {
    let first = LazyIndexSpec::over_columns("first", Some(0..2));
    let other = LazyIndexSpec::over_columns("other", [2..3, 0..1]);
    LazyTableSpec { name: name.to_owned(), indexes: vec![first, other] }
}

fn row<'a>(primary_key: &'a str, value: &'a str) -> Row<'a> {
    Row { primary_key: primary_key.as_bytes(), value: value.as_bytes() }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn by(engine: &dyn LazyTables, table: LazyTableId, index: usize, from: &str, limit: usize) -> String {
    let mut found = Vec::new();
    let mut note =
        |key: &[u8], row: Row<'_>| found.push(format!("{}:{}={}", text(key), text(row.primary_key), text(row.value)));
    let count = done(engine.lazy_rows_by(table, index, from.as_bytes(), limit, &mut note));
    assert_eq!(count, found.len());
    found.join(" ")
}

fn rows(engine: &dyn LazyTables, table: LazyTableId, from: &str, limit: usize) -> String {
    let mut found = Vec::new();
    let mut note = |row: Row<'_>| found.push(format!("{}={}", text(row.primary_key), text(row.value)));
    let count = done(engine.lazy_rows(table, from.as_bytes(), limit, &mut note));
    assert_eq!(count, found.len());
    found.join(" ")
}

/// Runs every check. Each uses a directory of its own under `dir`.
pub fn check_lazy_tables(opener: &Opener<'_>, dir: &Path) {
    let open = |name: &str| opener(&dir.join(name)).unwrap_or_else(|error| panic!("open: {error}"));
    check_rows(&*open("lazy rows"));
    check_definitions(&|| open("lazy definitions"));
    check_many(&|| open("lazy many"));
}

/// Readers see the entries that rows yield, and no others.
fn check_rows(engine: &dyn LazyTables) {
    assert!(engine.capabilities().lazy_tables);
    let table = done(engine.create_lazy_table(&spec("rows")));
    let other = done(engine.create_lazy_table(&spec("other")));
    done(engine.upsert(other, &[row("z", "zz9")]));
    done(engine.upsert(table, &[row("b", "me2 slate"), row("a", "ig1 granite"), row("c", "x")]));
    assert_eq!(by(engine, table, 0, "", 9), "ig:a=ig1 granite me:b=me2 slate");
    // What there was does not matter; the last one of a call counts.
    done(engine.upsert(table, &[row("a", "se3 chalk"), row("c", "me1"), row("d", "ig1"), row("d", "ig2")]));
    assert_eq!(rows(engine, table, "", 9), "a=se3 chalk b=me2 slate c=me1 d=ig2");
    assert_eq!(rows(engine, table, "c", 1), "c=me1");
    assert_eq!(by(engine, table, 0, "", 9), "ig:d=ig2 me:b=me2 slate me:c=me1 se:a=se3 chalk");
    assert_eq!(by(engine, table, 1, "2", 2), "2i:d=ig2 2m:b=me2 slate");
    assert_eq!(by(engine, table, 0, "", 0), "");
    done(engine.delete_keys(table, &[b"b", b"nobody"]));
    assert_eq!(by(engine, table, 0, "m", 9), "me:c=me1 se:a=se3 chalk");
    assert!(!done(engine.lazy_row(table, b"b", &mut |_| panic!("there is no such row"))));
    let mut value = Vec::new();
    assert!(done(engine.lazy_row(table, b"c", &mut |found| value.extend_from_slice(found))) && value == b"me1");
    // What was deleted comes again as it was.
    done(engine.upsert(table, &[row("b", "me2 slate")]));
    assert_eq!(by(engine, table, 0, "me", 2), "me:b=me2 slate me:c=me1");
    let counted = done(engine.count_stale(table));
    assert_eq!(counted.entries - counted.stale, 8, "two of each row: {counted:?}");
    assert_eq!(by(engine, other, 1, "", 9), "9z:z=zz9");
    fails(engine.lazy_rows_by(table, 2, b"", 9, &mut |_, _| ()), ErrorKind::NotFound);
    done(engine.close());
}

/// Tables are created, found, and dropped by name and number.
fn check_definitions(open: &dyn Fn() -> Box<dyn LazyTables>) {
    let mut engine = open();
    fails(engine.open_lazy_table(&spec("rows")), ErrorKind::NotFound);
    let table = done(engine.create_lazy_table(&spec("rows")));
    fails(engine.create_lazy_table(&spec("rows")), ErrorKind::AlreadyExists);
    done(engine.upsert(table, &[row("a", "ig1")]));
    if engine.capabilities().persistent {
        done(engine.close());
        drop(engine);
        engine = open();
    }
    assert_eq!(done(engine.open_lazy_table(&spec("rows"))), table);
    assert_eq!(by(&*engine, table, 0, "", 9), "ig:a=ig1");
    done(engine.drop_lazy_table(table));
    fails(engine.open_lazy_table(&spec("rows")), ErrorKind::NotFound);
    fails(engine.upsert(table, &[row("b", "ig1")]), ErrorKind::NotFound);
    let again = done(engine.create_lazy_table(&spec("rows")));
    assert_eq!((rows(&*engine, again, "", 9), by(&*engine, again, 0, "", 9)), (String::new(), String::new()));
    done(engine.close());
}

/// Many changes leave what a map would have, also after the engine was opened again.
fn check_many(open: &dyn Fn() -> Box<dyn LazyTables>) {
    let mut engine = open();
    let table = done(engine.create_lazy_table(&spec("rows")));
    let mut model = BTreeMap::<String, String>::new();
    let mut state = 7_u64;
    for step in 0..900 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (state >> 33) as u32;
        let key = format!("key{:03}", random % 80);
        if random & 7 << 26 == 0 {
            done(engine.delete_keys(table, &[key.as_bytes()]));
            model.remove(&key);
        } else {
            let value = format!("{:02}{} {step}", random / 80 % 30, random / 2400 % 10);
            done(engine.upsert(table, &[row(&key, &value)]));
            model.insert(key, value);
        }
        if step % 200 == 199 {
            done(engine.flush());
        }
    }
    let check = |engine: &dyn LazyTables| {
        let expected: Vec<String> = model.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(rows(engine, table, "", usize::MAX), expected.join(" "));
        for (index, columns) in [[0, 1], [2, 0]].into_iter().enumerate() {
            let entry = |(key, value): (&String, &String)| {
                let index_key: String = columns.iter().filter_map(|at| value.chars().nth(*at)).collect();
                (format!("{index_key}{key}"), format!("{index_key}:{key}={value}"))
            };
            let mut expected: Vec<(String, String)> = model.iter().map(entry).collect();
            expected.sort();
            let expected: Vec<String> = expected.into_iter().map(|(_, shown)| shown).collect();
            assert_eq!(by(engine, table, index, "", usize::MAX), expected.join(" "));
        }
    };
    check(&*engine);
    done(engine.settle());
    check(&*engine);
    if engine.capabilities().persistent {
        done(engine.close());
        drop(engine);
        engine = open();
        assert_eq!(done(engine.open_lazy_table(&spec("rows"))), table);
        check(&*engine);
    }
    done(engine.close());
}
