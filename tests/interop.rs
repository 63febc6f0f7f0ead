//! Directories that this engine wrote, judged by RocksDB's own tools; and directories that RocksDB wrote, read here.
//!
//! Every comparison is of all rows of all families.

mod interop_cases;
mod interop_matrix;
mod interop_tools;

use ::siltstone::lsm::{
    AppendOperator, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions, FilterPolicy,
    MaxOperator, MergeOperator, TableDb, TableOptions, UInt64AddOperator, WideColumn,
};
use interop_tools::siltstone::{self as engine, Settings};
use interop_tools::{Copy, Python, RocksDbTools, Rows, Script, WriteOptions, options_files};
use siltstone_base::engine::{Row, TableSpec};
use siltstone_base::index_spec::{IndexExtractor, IndexSpec};
use std::path::Path;
use std::sync::Arc;

const FAMILIES: [&str; 3] = ["default", "meta", "index"];

/// Families without a row: printed by some judges and not by others.
fn without_empty(rows: &Rows) -> Rows {
    rows.iter().filter(|(_, family)| !family.is_empty()).map(|(name, family)| (name.clone(), family.clone())).collect()
}

/// All judges of the format accept the directory and see `rows` in it.
fn judge(db: &Path, rows: &Rows, format_version: u32, tools: RocksDbTools, python: &Python) {
    python.check_bytes(db);
    assert_eq!(python.rows(db), without_empty(rows), "RocksDB 9.8.4");
    for (family, wanted) in rows {
        assert_eq!(&python.dumped_rows(db, family), wanted, "the independent reader, {family}");
    }
    if format_version <= 5 {
        tools.check_consistency(db);
        assert_eq!(&tools.rows(db), rows, "RocksDB 7.8.3");
        tools.verify_tables(db);
    }
}

fn tools() -> Option<(RocksDbTools, Python)> {
    Some((RocksDbTools::find()?, Python::find()?))
}

/// The judges agree with each other and with the model on what RocksDB itself wrote.
#[test]
fn judges_agree_on_a_directory_of_rocksdb() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let script = Script::new(1, &FAMILIES, 3_000).creating(&FAMILIES);
    let mut rows = Rows::new();
    script.apply(&mut rows);
    python.write(&db, &script, &WriteOptions::new("format_version=5 compression=lz4 bloom=10 unclean"));
    python.check_bytes(&db);
    assert_eq!(python.rows(&db), without_empty(&rows));
    for family in FAMILIES {
        assert_eq!(python.dumped_rows(&db, family), rows[family], "{family}");
    }
    assert!(tools.verify_tables(&db) > 0);
}

#[test]
fn rocksdb_reads_what_this_engine_wrote() {
    let Some((tools, python)) = tools() else { return };
    let settings = [
        Settings::new(5, CompressionType::None),
        Settings { bottommost: CompressionType::Zstd, ..Settings::new(5, CompressionType::Lz4) },
        Settings::new(6, CompressionType::Lz4),
        Settings { bottommost: CompressionType::Lz4, ..Settings::new(6, CompressionType::Zstd) },
        Settings::new(6, CompressionType::Snappy),
    ];
    for (seed, settings) in settings.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script::with_ranges(seed as u64, &FAMILIES, 6_000).creating(&FAMILIES);
        let mut rows = Rows::new();
        script.apply(&mut rows);
        let db = engine::open(dir.path(), settings);
        engine::write(&db, &script, settings);
        assert_eq!(engine::rows(&db), rows, "{settings:?}");
        db.wait_for_background_work().unwrap();
        // As after the death of the process: the last writes are in the WAL alone.
        let killed = Copy::of(dir.path());
        judge(killed.path(), &rows, settings.format_version, tools, &python);
        db.close().unwrap();
        judge(dir.path(), &rows, settings.format_version, tools, &python);
    }
}

/// Each style goes on from the tree that the one before left, in one open database.
#[test]
fn rocksdb_reads_what_every_style_leaves_behind() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings::new(5, CompressionType::Lz4);
    let mut rows = Rows::new();
    let db = engine::open(dir.path(), settings);
    for (turn, style) in
        ["Universal", "Level", "FIFO", "Universal", "FIFO", "Universal", "Level"].into_iter().enumerate()
    {
        let script = Script::with_ranges(700 + turn as u64, &FAMILIES, 3_000);
        let script = if turn == 0 { script.creating(&FAMILIES) } else { script };
        script.apply(&mut rows);
        let style = format!("kCompactionStyle{style}");
        let set = || {
            for family in db.families() {
                let changes = [("compaction_style", &*style), ("level0_file_num_compaction_trigger", "3")];
                db.set_options(&family, &changes).unwrap();
                if turn == 5 {
                    db.set_options(&family, &[("lazy_leveling", "true")]).unwrap();
                }
            }
        };
        // In the midst of what the last one began.
        set();
        engine::write(&db, &script, settings);
        // Of families that came just now, too.
        set();
        assert_eq!(engine::rows(&db), rows, "{style}");
        db.wait_for_background_work().unwrap();
        let killed = Copy::of(dir.path());
        judge(killed.path(), &rows, 5, tools, &python);
    }
    db.close().unwrap();
    judge(dir.path(), &rows, 5, tools, &python);
}

#[test]
fn this_engine_reads_what_rocksdb_wrote() {
    let Some((tools, python)) = tools() else { return };
    let tools = tools.ignoring_unknown_options();
    let settings = [
        (5, "format_version=5 compression=none"),
        (5, "format_version=5 compression=lz4 bloom=10 write_buffer_size=65536 unclean"),
        (6, "format_version=6 compression=zstd bloom=10 write_buffer_size=65536 unclean"),
        (6, "format_version=6 compression=snappy bloom=12.5"),
    ];
    for (seed, (format_version, rocksdb)) in settings.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script::with_ranges(100 + seed as u64, &FAMILIES, 4_000).creating(&FAMILIES);
        let mut rows = Rows::new();
        script.apply(&mut rows);
        python.write(dir.path(), &script, &WriteOptions::new(rocksdb));

        // Reading only, which must change nothing.
        let names: Vec<_> = FAMILIES.iter().map(|name| (*name, Default::default())).collect();
        let db = Db::open_read_only(dir.path(), &DbOptions::default(), &names).unwrap();
        assert_eq!(engine::rows(&db), rows, "{rocksdb}");
        db.close().unwrap();

        // Writing on, in the same format, and back.
        let settings = Settings::new(format_version, CompressionType::Lz4);
        let db = engine::open(dir.path(), settings);
        assert_eq!(engine::rows(&db), rows, "{rocksdb}");
        let more = Script::with_ranges(200 + seed as u64, &FAMILIES, 2_000);
        more.apply(&mut rows);
        engine::write(&db, &more, settings);
        assert_eq!(engine::rows(&db), rows, "{rocksdb}");
        db.close().unwrap();
        judge(dir.path(), &rows, format_version, tools, &python);
    }
}

#[test]
fn both_take_turns_in_one_directory() {
    let Some((tools, python)) = tools() else { return };
    let tools = tools.ignoring_unknown_options();
    for format_version in [5, 6] {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::new(format_version, CompressionType::Zstd);
        let rocksdb = WriteOptions::new(&format!("format_version={format_version} compression=lz4 bloom=10 unclean"));
        let mut rows = Rows::new();
        for turn in 0..6 {
            let script = Script::with_ranges(300 + turn, &FAMILIES, 1_500);
            let script = if turn == 0 { script.creating(&FAMILIES) } else { script };
            script.apply(&mut rows);
            if turn % 2 == 0 {
                let db = engine::open(dir.path(), settings);
                engine::write(&db, &script, settings);
                assert_eq!(engine::rows(&db), rows, "turn {turn}");
                db.close().unwrap();
            } else {
                python.write(dir.path(), &script, &rocksdb);
            }
            python.check_bytes(dir.path());
            assert_eq!(python.rows(dir.path()), without_empty(&rows), "turn {turn}");
        }
        let db = engine::open(dir.path(), settings);
        assert_eq!(engine::rows(&db), rows);
        db.close().unwrap();
        judge(dir.path(), &rows, format_version, tools, &python);
    }
}

/// `ldb` 7.8.3 opens the directory for writing with the OPTIONS that this engine wrote.
#[test]
fn ldb_writes_into_a_directory_of_this_engine() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings::new(5, CompressionType::Lz4);
    let script = Script::new(400, &FAMILIES, 2_000).creating(&FAMILIES);
    let mut rows = Rows::new();
    script.apply(&mut rows);
    let db = engine::open(dir.path(), settings);
    engine::write(&db, &script, settings);
    db.close().unwrap();

    for family in FAMILIES {
        let (gone, _) = rows[family].first_key_value().unwrap();
        let gone = gone.clone();
        tools.put(dir.path(), family, b"\x00from ldb", b"\xff\x00");
        tools.delete(dir.path(), family, &gone);
        let own = rows.get_mut(family).unwrap();
        own.remove(&gone);
        own.insert(b"\x00from ldb".to_vec(), b"\xff\x00".to_vec());
    }
    tools.compact(dir.path(), "meta");
    let db = engine::open(dir.path(), settings);
    assert_eq!(engine::rows(&db), rows);
    db.close().unwrap();
    judge(dir.path(), &rows, 5, tools, &python);
}

/// RocksDB takes its options from the file that this engine wrote, adds all its own names, and those stay.
#[test]
fn options_files_go_back_and_forth() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings::new(5, CompressionType::Lz4);
    let script = Script::new(500, &FAMILIES, 500).creating(&FAMILIES);
    let mut rows = Rows::new();
    script.apply(&mut rows);
    let db = engine::open(dir.path(), settings);
    engine::write(&db, &script, settings);
    db.close().unwrap();
    assert_eq!(options_files(dir.path()).len(), 2, "the last two are kept");
    assert_eq!(python.families_by_options(dir.path()), ["default", "index", "meta"]);
    let families = Db::load_latest_options(dir.path(), &DbOptions::default()).unwrap().families;
    assert_eq!(families.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["default", "meta", "index"]);

    // The old tool opens the directory with what the file says, and writes a file of all its names.
    tools.ldb(dir.path(), &["--try_load_options", "put", "a", "b"]);
    rows.get_mut("default").unwrap().insert(b"a".to_vec(), b"b".to_vec());
    let loaded = Db::load_latest_options(dir.path(), &DbOptions::default()).unwrap();
    assert_eq!(loaded.rocksdb_version.as_deref(), Some("7.8.3"));
    assert!(loaded.ignored.len() > 50, "{:?}", loaded.ignored);
    for (name, family) in &loaded.families {
        assert_eq!(family.write_buffer_size, 128 << 10, "{name}");
        assert_eq!(family.table.filter_policy, FilterPolicy::Bloom { bits_per_key: 10.0 }, "{name}");
    }

    // Ours again: its names are still there, and its tool is content.
    let db = engine::open(dir.path(), settings);
    db.drop_family(&db.family("meta").unwrap()).unwrap();
    rows.remove("meta");
    db.close().unwrap();
    let again = Db::load_latest_options(dir.path(), &DbOptions::default()).unwrap();
    let of_default = |option: &&siltstone::lsm::IgnoredOption| !option.section.contains("meta");
    assert_eq!(
        again.ignored.iter().filter(of_default).map(|option| &option.name).collect::<Vec<_>>(),
        loaded.ignored.iter().filter(of_default).map(|option| &option.name).collect::<Vec<_>>()
    );
    assert_eq!(again.families.len(), 2);
    tools.ldb(dir.path(), &["--try_load_options", "put", "c", "d"]);
    rows.get_mut("default").unwrap().insert(b"c".to_vec(), b"d".to_vec());
    judge(dir.path(), &rows, 5, tools, &python);
}

/// What RocksDB only writes into WALs on request: compressed, recycled, and with prepared transactions.
#[test]
fn this_engine_reads_every_kind_of_wal() {
    let Some((tools, _)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let fill = ["--benchmarks=fillrandom", "--num=2000", "--value_size=100", "--seed=5"];
    let check = |db: &Path, first_record: Option<u8>| {
        if let Some(wanted) = first_record {
            let records = interop_tools::first_wal_records(db);
            assert!(!records.is_empty() && records.iter().all(|record| *record == wanted), "{records:?}");
        }
        let rows = tools.rows(db);
        assert!(rows["default"].len() > 100);
        let ours = Db::open_read_only(db, &DbOptions::default(), &[]).unwrap();
        assert_eq!(engine::rows(&ours), rows, "{}", db.display());
        drop(ours);
        let ours = Db::open(db, &DbOptions::default()).unwrap();
        assert_eq!(engine::rows(&ours), rows, "{}", db.display());
        ours.close().unwrap();
    };

    let compressed = place("compressed");
    tools.bench(&compressed, &[&fill[..], &["--wal_compression=zstd"]].concat());
    interop_tools::copy_options(
        &compressed,
        &place("OPTIONS"),
        &[
            ("recycle_log_file_num", "2"),
            // Others forbid it.
            ("wal_recovery_mode", "kSkipAnyCorruptedRecords"),
            ("wal_compression", "kNoCompression"),
            ("write_buffer_size", "65536"),
            ("arena_block_size", "8192"),
        ],
    );
    check(&compressed, Some(9));

    let recycled = place("recycled");
    tools.bench(&recycled, &[&fill[..], &[&format!("--options_file={}", place("OPTIONS").display())]].concat());
    // In that mode 7.8.3 reads a recycled WAL for ever.
    interop_tools::remove_options(&recycled);
    check(&recycled, Some(5));

    let prepared = place("prepared");
    let transactions = ["--benchmarks=randomtransaction", "--transaction_db=1", "--num=500", "--transaction_sets=2"];
    tools.bench(&prepared, &transactions);
    check(&prepared, None);
}

/// An engine that nobody told otherwise writes tables that the RocksDB which made the directory still reads.
#[test]
fn the_format_of_tables_stays_that_of_the_directory() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    tools.ldb(dir.path(), &["--create_if_missing", "put", "a", "b"]);
    let db = Db::open(dir.path(), &DbOptions::default()).unwrap();
    assert_eq!(db.default_family().options().table.format_version, 5);
    let new = db.create_family("new", &ColumnFamilyOptions::default()).unwrap();
    db.put("c", "d").unwrap();
    db.put_cf(&new, "e", "f", &Default::default()).unwrap();
    db.flush_families(&[&db.default_family(), &new], &Default::default()).unwrap();
    db.compact_range(&db.default_family(), None, None, &Default::default()).unwrap();
    let rows = engine::rows(&db);
    db.close().unwrap();
    judge(dir.path(), &rows, 5, tools, &python);

    let upgraded = Db::open(dir.path(), &DbOptions::default().keep_table_format(false)).unwrap();
    assert_eq!(upgraded.default_family().options().table.format_version, 6);
    upgraded.close().unwrap();
}

/// The first bytes of a row, in order.
#[derive(Debug)]
struct First(usize);

impl IndexExtractor for First {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        index_key.extend_from_slice(&value[..self.0]);
        true
    }
}

/// Rows, index entries and the dictionary are plain rows of two families to RocksDB.
#[test]
fn rocksdb_reads_tables_and_what_a_drop_left() {
    let Some((tools, python)) = tools() else { return };
    for format_version in [5, 6] {
        let dir = tempfile::tempdir().unwrap();
        let options = DbOptions::default().create_if_missing(true);
        let table = TableOptions::default().format_version(format_version).bloom_bits_per_key(10.0);
        let family = ColumnFamilyOptions::default()
            .write_buffer_size(64 << 10)
            .target_file_size_base(32 << 10)
            .max_bytes_for_level_base(128 << 10)
            .table(table);
        let db = TableDb::open(dir.path(), &options, &family, &Default::default()).unwrap();
        let index = |len| IndexSpec::new(format!("first_{len}"), Arc::new(First(len)));
        let spec = |name: &str| TableSpec { name: name.to_owned(), indexes: vec![index(1), index(3), index(8)] };
        let ids = ["a", "b", "c"].map(|name| db.create_table(&spec(name)).unwrap());
        for i in 0..4_000_u64 {
            let value = [&i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[..], &[b'v'; 60]].concat();
            let row = [Row { primary_key: &i.to_be_bytes(), value: &value }];
            db.insert(ids[i as usize % 3], &row).unwrap();
        }
        db.db().wait_for_background_work().unwrap();
        db.drop_table(ids[1]).unwrap();
        // Compactions remove what the drop left while they are at it: rows are compared when none runs.
        db.db().wait_for_background_work().unwrap();
        let rows = engine::rows(db.db());
        assert_eq!(rows.keys().collect::<Vec<_>>(), ["__system__", "default"]);
        judge(Copy::of(dir.path()).path(), &rows, format_version, tools, &python);
        db.reclaim().unwrap();
        db.db().wait_for_background_work().unwrap();
        let rows = engine::rows(db.db());
        let live: usize = [0, 2].into_iter().map(|table| (0..4_000).filter(|i| i % 3 == table).count()).sum();
        assert_eq!(rows["default"].len(), live * 4, "each row has three entries");
        db.close().unwrap();
        judge(dir.path(), &rows, format_version, tools, &python);
    }
}

/// Values in blob files are read here, carried through compactions, and still read by RocksDB afterwards.
#[test]
#[expect(clippy::disallowed_methods, reason = "counts the files that are really there")]
fn values_in_blob_files_stay_readable_for_both() {
    let Some((tools, python)) = tools() else { return };
    for (seed, codec) in [(500, "none"), (600, "lz4")] {
        let dir = tempfile::tempdir().unwrap();
        let script = Script::new(seed, &FAMILIES, 3_000).creating(&FAMILIES);
        let mut rows = Rows::new();
        script.apply(&mut rows);
        let options =
            format!("format_version=6 compression=lz4 write_buffer_size=65536 blob=20 blob_compression={codec}");
        python.write(dir.path(), &script, &WriteOptions::new(&options));
        let blob_files = || {
            let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().ends_with(".blob")).count()
        };
        let before = blob_files();
        assert!(before > 3, "{before} blob files");
        let settings = Settings::new(6, CompressionType::Lz4);
        let db = engine::open(dir.path(), settings);
        assert_eq!(engine::rows(&db), rows, "{codec}");
        let tables = db.families().iter().map(|family| db.table_files(family).unwrap().len()).sum::<usize>();
        assert_eq!(db.verify_checksums().unwrap(), (tables + before) as u64, "each blob file is read, too");
        let more = Script::new(seed + 1, &FAMILIES, 2_000);
        more.apply(&mut rows);
        engine::write(&db, &more, settings);
        let all = CompactRangeOptions::default().force_bottommost(true);
        for family in db.families() {
            db.compact_range(&family, None, None, &all).unwrap();
        }
        db.check().unwrap();
        assert_eq!(engine::rows(&db), rows, "{codec}");
        db.close().unwrap();
        assert!(blob_files() > 0);
        judge(dir.path(), &rows, 6, tools, &python);
        let db = engine::open(dir.path(), settings);
        assert_eq!(engine::rows(&db), rows, "{codec}");

        // Once nothing refers to them, they are deleted.
        for family in db.families() {
            let name = family.name().to_owned();
            for key in rows[&name].keys() {
                db.delete_cf(&family, key, &Default::default()).unwrap();
            }
            db.compact_range(&family, None, None, &all).unwrap();
        }
        db.close().unwrap();
        let db = engine::open(dir.path(), settings);
        assert_eq!(blob_files(), 0);
        db.close().unwrap();
    }
}

/// Entities: from the WAL, from tables, through a compaction, and back.
#[test]
fn entities_of_rocksdb_are_read_and_kept() {
    let Some((_, python)) = tools() else { return };
    for unclean in ["", " unclean"] {
        let dir = tempfile::tempdir().unwrap();
        let lines = [
            "entity\tdefault\t6b31\t\t64\t6e\t76",
            "entity\tdefault\t6b32\t6e\t76",
            "put\tdefault\t6b33\t70",
            "entity\tdefault\t6b34\t\t64",
            "delete\tdefault\t6b34",
        ];
        python.write_lines(dir.path(), &lines.join("\n"), &WriteOptions::new(&format!("format_version=6{unclean}")));
        let rows: Rows = [("default", [("k1", "d"), ("k2", ""), ("k3", "p")])]
            .map(|(family, rows)| (family.to_owned(), rows.map(|(key, value)| (key.into(), value.into())).into()))
            .into();
        let settings = Settings::new(6, CompressionType::Lz4);
        for _ in 0..2 {
            let db = engine::open(dir.path(), settings);
            assert_eq!(engine::rows(&db), rows);
            let columns = |key: &str| {
                let columns = db.get_entity_cf(&db.default_family(), key, &Default::default()).unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                columns.map(|columns| {
                    let column = |column: &WideColumn| format!("{}={}", text(&column.name), text(&column.value));
                    columns.iter().map(column).collect::<Vec<_>>().join(" ")
                })
            };
            assert_eq!(columns("k1").as_deref(), Some("=d n=v"));
            assert_eq!(columns("k2").as_deref(), Some("n=v"));
            assert_eq!(columns("k3").as_deref(), Some("=p"));
            assert_eq!(columns("k4"), None);
            let all = CompactRangeOptions::default().force_bottommost(true);
            db.compact_range(&db.default_family(), None, None, &all).unwrap();
            db.close().unwrap();
            assert_eq!(python.rows(dir.path()), rows);
        }
    }
}

/// `db_bench` writes operands; this engine merges them as `ldb` does, also in its compactions.
#[test]
fn operands_of_rocksdb_are_merged_as_rocksdb_does() {
    let Some(tools) = RocksDbTools::find() else { return };
    let operators: [(&str, Arc<dyn MergeOperator>); 3] = [
        ("uint64add", Arc::new(UInt64AddOperator)),
        ("max", Arc::new(MaxOperator)),
        ("stringappend", Arc::new(AppendOperator::new(","))),
    ];
    for (name, operator) in operators {
        let dir = tempfile::tempdir().unwrap();
        tools.merge_randomly(dir.path(), name);
        let expected = tools.merged_rows(dir.path());
        assert!(!expected.is_empty());
        let family = ColumnFamilyOptions::default()
            .merge_operator(Some(operator))
            .table(TableOptions::default().format_version(5));
        for _ in 0..2 {
            let db = Db::open_families(dir.path(), &DbOptions::default(), &[("default", family.clone())]).unwrap();
            assert_eq!(engine::rows(&db)["default"], expected, "{name}");
            let all = CompactRangeOptions::default().force_bottommost(true);
            db.compact_range(&db.default_family(), None, None, &all).unwrap();
            assert_eq!(engine::rows(&db)["default"], expected, "{name}");
            db.close().unwrap();
            assert_eq!(tools.merged_rows(dir.path()), expected, "{name}");
        }
    }
}
