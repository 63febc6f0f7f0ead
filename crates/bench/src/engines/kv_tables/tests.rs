//! Tables over engines of keys and values keep what every engine of tables keeps, and are found again with their rows.

use super::*;
use crate::engines::lsm::LsmOptions;
use crate::engines::{EngineSettings, MemoryEngine, NullEngine};
use siltstone_base::engine::conformance_all::{Openers, check_all};
use siltstone_base::engine::{KvCursor, KvOp};
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use siltstone_lsm::{CompactionStyle, KvDb};
use std::path::Path;
use tempfile::TempDir;

fn settings() -> EngineSettings {
    EngineSettings::default().with_memory(16 << 20)
}

/// Our LSM tree as an engine of keys and values that keeps them.
fn lsm(dir: &Path) -> Result<KvDb> {
    let lsm = LsmOptions::new(&settings(), CompactionStyle::Leveled);
    KvDb::open(dir, &lsm.database, &lsm.family, lsm.writes)
}

fn index(name: &str, place: usize) -> IndexSpec {
    IndexSpec::over_columns(name, Some(place..place + 1))
}

fn spec(name: &str, indexes: &[&IndexSpec]) -> TableSpec {
    TableSpec { name: name.to_owned(), indexes: indexes.iter().map(|index| (*index).clone()).collect() }
}

fn row<'a>(primary_key: &'a str, value: &'a str) -> Row<'a> {
    Row { primary_key: primary_key.as_bytes(), value: value.as_bytes() }
}

/// The primary keys of a table, and the entries of each of its indexes.
fn content<K: Kv>(tables: &KvTables<K>, table: TableId, indexes: usize) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut rows = Vec::new();
    tables.scan_rows(table, b"", usize::MAX, &mut |row| rows.push(text(row.primary_key))).unwrap();
    let entries = (0..indexes).map(|index| {
        let mut entries = Vec::new();
        tables.scan_index(table, index, b"", usize::MAX, &mut |entry| entries.push(text(entry))).unwrap();
        entries.join(" ")
    });
    std::iter::once(rows.join(" ")).chain(entries).collect()
}

#[test]
fn tables_over_engines_that_keep_nothing_and_over_one_that_does_keep_the_contract() {
    let memory =
        Openers { tables: Some(&|_| Ok(Box::new(KvTables::open(MemoryEngine::new())?))), ..Openers::default() };
    assert_eq!(check_all(&memory, Path::new(".")).ran, ["tables", "added indexes", "writers in turns"]);
    let dir = TempDir::new().unwrap();
    let stored = Openers { tables: Some(&|dir| Ok(Box::new(KvTables::open(lsm(dir)?)?))), ..Openers::default() };
    let ran = check_all(&stored, dir.path()).ran;
    assert!(["tables", "added indexes", "persistence"].iter().all(|check| ran.contains(check)), "{ran:?}");
}

#[test]
#[cfg(feature = "peers")]
fn tables_over_foreign_engines_keep_the_contract() {
    use siltstone_base::engine::conformance_tables::Opener;
    use siltstone_compare::{
        PeerSettings, fjall::FjallEngine, lmdb::LmdbEngine, redb::RedbEngine, sqlite::SqliteEngine,
    };
    let peers = || -> Result<PeerSettings> { settings().for_tables_of_peers() };
    let openers: &[(&str, &Opener<'_>)] = &[
        ("fjall", &|dir| Ok(Box::new(KvTables::open(FjallEngine::open(dir, &peers()?)?)?))),
        ("redb", &|dir| Ok(Box::new(KvTables::open(RedbEngine::open(dir, &peers()?)?)?))),
        ("lmdb", &|dir| Ok(Box::new(KvTables::open(LmdbEngine::open(dir, &peers()?)?)?))),
        ("sqlite", &|dir| Ok(Box::new(KvTables::open(SqliteEngine::open(dir, &peers()?)?)?))),
        #[cfg(feature = "rocksdb")]
        ("rocksdb", &|dir| {
            let engine = siltstone_compare::rocksdb::RocksdbEngine::open(dir, &peers()?)?;
            Ok(Box::new(KvTables::open(engine)?))
        }),
    ];
    for (name, open) in openers {
        let dir = TempDir::new().unwrap();
        let ran = check_all(&Openers { tables: Some(*open), ..Openers::default() }, dir.path()).ran;
        assert!(["tables", "added indexes", "persistence"].iter().all(|check| ran.contains(check)), "{name}: {ran:?}");
    }
}

#[test]
fn tables_are_found_again_under_their_numbers_and_go_on() {
    let dir = TempDir::new().unwrap();
    let [first, second] = [index("first", 0), index("second", 1)];
    let (rows, other) = (spec("rows", &[&first, &second]), spec("other", &[&first]));
    let tables = KvTables::open(lsm(dir.path()).unwrap()).unwrap();
    let ids = [&rows, &other].map(|spec| tables.create_table(spec).unwrap());
    assert_eq!(ids, [TableId(256), TableId(259)], "a number each for rows and for every index");
    tables.insert(ids[0], &[row("a", "x1"), row("b", "y2")]).unwrap();
    tables.insert(ids[1], &[row("c", "z3")]).unwrap();
    tables.close().unwrap();
    drop(tables);
    let tables = KvTables::open(lsm(dir.path()).unwrap()).unwrap();
    let unopened = tables.insert(ids[0], &[row("c", "w0")]).unwrap_err();
    assert_eq!(unopened.kind(), ErrorKind::NotFound);
    assert_eq!(tables.create_table(&rows).unwrap_err().kind(), ErrorKind::AlreadyExists);
    // In any order.
    assert_eq!([&other, &rows].map(|spec| tables.open_table(spec).unwrap()), [ids[1], ids[0]]);
    let new = tables.create_table(&spec("new", &[&second])).unwrap();
    assert_eq!(new, TableId(261));
    tables.insert(ids[0], &[row("c", "w0")]).unwrap();
    tables.update(ids[0], &[(row("a", "x1"), row("a", "x9"))]).unwrap();
    tables.delete(ids[0], &[row("b", "y2")]).unwrap();
    assert_eq!(content(&tables, ids[0], 2), ["a c", "wc xa", "0c 9a"]);
    assert_eq!(content(&tables, ids[1], 1), ["c", "zc"]);
    assert_eq!(content(&tables, new, 1), ["", ""]);
    tables.close().unwrap();
}

#[test]
fn a_table_of_another_definition_is_refused() {
    let [first, second] = [index("first", 0), index("second", 1)];
    let tables = KvTables::open(MemoryEngine::new()).unwrap();
    let table = tables.create_table(&spec("rows", &[&first, &second])).unwrap();
    let longer = IndexSpec::over_columns("second", Some(1..3));
    for (others, said) in [
        (vec![&first], "table rows has 2 indexes, not 1"),
        (vec![&second, &first], "index first of table rows was created with another name"),
        (vec![&first, &longer], "index second of table rows was created with another length of keys"),
        (vec![&first, &index("second", 2)], "index second of table rows was created with another extractor"),
        (vec![&first, &second.clone().unique(true)], "index second of table rows was created with another uniqueness"),
    ] {
        let error = tables.open_table(&spec("rows", &others)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(said), "{error}");
    }
    assert_eq!(tables.open_table(&spec("rows", &[&first, &second])).unwrap(), table);
    for wrong in [spec("", &[]), spec("twice", &[&first, &first])] {
        assert_eq!(tables.create_table(&wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let covered = first.clone().covered(second.extractor.clone());
    assert_eq!(tables.create_table(&spec("covered", &[&covered])).unwrap_err().kind(), ErrorKind::NotSupported);
}

#[test]
fn definitions_that_make_no_sense_are_refused() {
    /// The key of a stored row behind its number, and its value.
    type Stored<'a> = (&'a [u8], &'a [u8]);
    let opened = |rows: &[Stored<'_>]| {
        let kv = MemoryEngine::new();
        rows.iter().for_each(|(key, value)| kv.put(&[&b"\0\0\0\x01"[..], *key].concat(), value).unwrap());
        KvTables::open(kv).map(drop).map_err(|error| error.kind())
    };
    let next: Stored<'_> = (b"", b"\0\0\x01\x02");
    let table = br#"{"name":"t","rows":256,"indexes":[]}"#;
    assert_eq!(opened(&[next, (b"t", table)]), Ok(()));
    let beyond = br#"{"name":"t","rows":258,"indexes":[]}"#;
    let reserved = br#"{"name":"t","rows":1,"indexes":[]}"#;
    let own_index = br#"{"name":"t","rows":256,"indexes":[{"number":256,"name":"i","unique":false,"covering":true,"fixed_len":1,"identity":[]}]}"#;
    let (one, other) = (br#"{"name":"a","rows":256,"indexes":[]}"#, br#"{"name":"b","rows":256,"indexes":[]}"#);
    let wrong: [&[Stored<'_>]; 9] = [
        &[(b"t", table)],
        &[next, (b"u", table)],
        &[next, (b"t", beyond)],
        &[next, (b"t", reserved)],
        &[next, (b"t", b"{")],
        &[(b"", b"\0\x01")],
        &[(b"", b"\0\0\0\xff")],
        &[next, (b"t", own_index)],
        &[next, (b"a", one), (b"b", other)],
    ];
    for rows in wrong {
        assert_eq!(opened(rows), Err(ErrorKind::Corruption), "{rows:?}");
    }
}

#[test]
fn an_added_index_has_an_entry_of_every_row_and_a_dropped_one_leaves_nothing() {
    let [first, second] = [index("first", 0), index("second", 1)];
    let tables = KvTables::open(MemoryEngine::new()).unwrap();
    let table = tables.create_table(&spec("rows", &[&first])).unwrap();
    let rows: Vec<_> = (0..2_500).map(|number| (format!("{number:04}"), format!("{}{}", number % 10, 9))).collect();
    let rows: Vec<_> = rows.iter().map(|(key, value)| row(key, value)).collect();
    tables.insert(table, &rows).unwrap();
    assert_eq!(tables.add_index(table, &second).unwrap(), 1);
    for index in [0, 1] {
        let all = IndexScan::all();
        assert_eq!(tables.scan_rows_by(table, index, &all, &mut |_, value| assert_eq!(value[1], b'9')).unwrap(), 2_500);
    }
    tables.drop_index(table, "second").unwrap();
    tables.drop_table(table).unwrap();
    let mut cursor = tables.kv.cursor().unwrap();
    // What is left is the number that is next: that of the second index was not given out again.
    assert!(cursor.seek_to_first().unwrap());
    assert_eq!((cursor.key(), cursor.value()), (&b"\0\0\0\x01"[..], &259_u32.to_be_bytes()[..]));
    assert!(!cursor.next().unwrap());
}

/// An engine of which some writes fail.
struct Failing {
    memory: MemoryEngine,
    /// Writes of batches until one fails.
    left: AtomicUsize,
}

impl Admin for Failing {
    fn name(&self) -> String {
        self.memory.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn flush(&self) -> Result<()> {
        self.memory.flush()
    }

    fn settle(&self) -> Result<()> {
        self.memory.settle()
    }

    fn stats(&self) -> Result<EngineStats> {
        self.memory.stats()
    }

    fn close(&self) -> Result<()> {
        self.memory.close()
    }
}

impl Kv for Failing {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.memory.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Kv::delete(&self.memory, key)
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            1 => Err(Error::new(ErrorKind::NoSpace, "the batch that was to fail")),
            _ => self.memory.write(batch),
        }
    }

    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.memory.get_pinned(key, found)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.memory.multi_get(keys, found)
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        self.memory.cursor()
    }
}

#[test]
fn an_index_that_cannot_be_built_leaves_no_entries() {
    let failing = Failing { memory: MemoryEngine::new(), left: AtomicUsize::new(usize::MAX) };
    let tables = KvTables::open(failing).unwrap();
    let table = tables.create_table(&spec("rows", &[])).unwrap();
    let keys: Vec<_> = (0..2_500).map(|number| format!("{number:04}")).collect();
    let rows: Vec<_> = keys.iter().map(|key| row(key, "x")).collect();
    tables.insert(table, &rows).unwrap();
    // The first batch of entries is there by then.
    tables.kv.left.store(2, Ordering::Relaxed);
    let first = index("first", 0);
    assert_eq!(tables.add_index(table, &first).unwrap_err().kind(), ErrorKind::NoSpace);
    let count = || {
        let mut cursor = tables.kv.cursor().unwrap();
        let mut is_there = cursor.seek_to_first().unwrap();
        let mut count = 0;
        while is_there {
            count += 1;
            is_there = cursor.next().unwrap();
        }
        count
    };
    assert_eq!(count(), 2_500 + 2, "rows, the definition, and the next number");
    assert_eq!(tables.add_index(table, &first).unwrap(), 0);
    assert_eq!(count(), 2 * 2_500 + 2);
}

#[test]
fn a_row_that_changes_takes_its_entries_along_and_leaves_alone_what_stays() {
    let [first, second] = [index("first", 0), index("second", 1)];
    let tables = KvTables::open(MemoryEngine::new()).unwrap();
    let table = tables.create_table(&spec("rows", &[&first, &second])).unwrap();
    tables.insert(table, &[row("a", "xy"), row("b", "zz")]).unwrap();
    let table = tables.table(table).unwrap();
    let ops = |change: RowChange<'_>| {
        let (mut gone, mut new, mut keys) = (KvBatch::new(), KvBatch::new(), [Vec::new(), Vec::new()]);
        table.add_change(&change, &mut keys, &mut gone, &mut new);
        gone.append(&new);
        let text = |key: &[u8]| format!("{}{}", key[3], String::from_utf8_lossy(&key[4..]));
        let words = gone.iter().map(|op| match op {
            KvOp::Put { key, value } => format!("put {}={}", text(key), String::from_utf8_lossy(value)),
            KvOp::Delete { key } => format!("delete {}", text(key)),
            KvOp::DeleteOnce { key } => format!("delete once {}", text(key)),
        });
        words.collect::<Vec<_>>().join(", ")
    };
    // The last bytes of the numbers: 0 of the rows, 1 and 2 of the indexes. A value that is too short has no entry.
    assert_eq!(ops(RowChange::Insert(row("a", "xy"))), "put 0a=xy, put 1xa=, put 2ya=");
    assert_eq!(ops(RowChange::Delete(row("a", "xy"))), "delete 0a, delete once 1xa, delete once 2ya");
    assert_eq!(ops(RowChange::Update(row("a", "xy"), row("a", "xz"))), "delete once 2ya, put 0a=xz, put 2za=");
    assert_eq!(ops(RowChange::Update(row("a", "xy"), row("a", "x"))), "delete once 2ya, put 0a=x");
    assert_eq!(
        ops(RowChange::Update(row("a", "xy"), row("c", "xy"))),
        "delete 0a, delete once 1xa, delete once 2ya, put 0c=xy, put 1xc=, put 2yc="
    );
}

#[test]
fn a_row_of_a_table_that_is_not_open_is_not_looked_for() {
    let tables = KvTables::open(MemoryEngine::new()).unwrap();
    let table = tables.create_table(&spec("rows", &[])).unwrap();
    tables.insert(table, &[row("a", "x")]).unwrap();
    assert!(tables.get_row(table, b"a", &mut |value| assert_eq!(value, b"x")).unwrap());
    assert!(!tables.get_row(table, b"b", &mut |_| panic!("there is no such row")).unwrap());
    tables.drop_table(table).unwrap();
    for unknown in [table, TableId(1)] {
        let error = tables.get_row(unknown, b"a", &mut |_| panic!("there is no such table")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}

#[test]
fn a_lookup_within_a_lookup_has_a_key_of_its_own() {
    with_key(1, b"outer", |outer| {
        with_key(2, b"in", |inner| assert_eq!((outer, inner), (&b"\0\0\0\x01outer"[..], &b"\0\0\0\x02in"[..])));
    });
    with_key(3, b"", |key| assert_eq!(key, b"\0\0\0\x03"));
}

#[test]
fn rows_are_not_changed_while_their_table_is() {
    let tables = KvTables::open(MemoryEngine::new()).unwrap();
    let [one, other] = ["one", "other"].map(|name| tables.create_table(&spec(name, &[&index("first", 0)])).unwrap());
    let passage = tables.to_change(one).unwrap();
    let change =
        |table| tables.commit(&[(other, RowChange::Insert(row("a", "1"))), (table, RowChange::Insert(row("b", "2")))]);
    assert_eq!(change(one).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(tables.add_index(one, &index("second", 1)).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(content(&tables, other, 1), ["", ""], "nothing is done where not all can be");
    drop(passage);
    change(one).unwrap();
    let passages = [(); 2].map(|()| tables.to_change_rows(one).unwrap());
    assert_eq!(tables.drop_index(one, "first").unwrap_err().kind(), ErrorKind::Busy);
    drop(passages);
    tables.drop_index(one, "first").unwrap();
    assert_eq!(content(&tables, one, 0), ["b"]);
}

#[test]
fn tables_over_an_engine_that_does_nothing_open_and_change() {
    let tables = KvTables::open(NullEngine::new()).unwrap();
    let table = tables.create_table(&spec("rows", &[&index("first", 0)])).unwrap();
    tables.insert(table, &[row("a", "1")]).unwrap();
    assert_eq!(tables.add_index(table, &index("second", 1)).unwrap(), 1);
    tables.drop_table(table).unwrap();
}
