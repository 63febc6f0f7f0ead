//! Trees with tables on levels between level 0 and the base level, newer than what lies beneath and older than what lies above: as sublevels of level 0, lazy leveling and
//! a change of options leave them. To RocksDB they are levels that the tree does not need, which it drains.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::interop_tools::siltstone::{self as engine, Settings};
use crate::interop_tools::{Copy, Python, RocksDbTools, Rows, Script, Step, WriteOptions};
use crate::{judge, tools};
use ::siltstone::lsm::{CompactRangeOptions, CompressionType, Db, FlushOptions};
use std::path::Path;

/// Tables by level.
fn shape(db: &Db) -> Vec<usize> {
    let count = |level| db.property(&format!("rocksdb.num-files-at-level{level}")).unwrap().parse().unwrap();
    (0..7).map(count).collect()
}

/// A directory with tables on level 0, on three further levels, and on the last one, whose OPTIONS ask for dynamic levels. Returns the rows.
fn build(dir: &Path) -> Rows {
    let settings = Settings::new(5, CompressionType::Lz4);
    let mut rows = Rows::new();
    let mut write = |db: &Db, seed, writes| {
        let mut script = Script::with_ranges(seed, &["default"], writes);
        script.steps.retain(|step| !matches!(step, Step::Compact(_)));
        script.apply(&mut rows);
        engine::write(db, &script, settings);
    };
    let db = engine::open(dir, settings);
    let family = db.default_family();
    write(&db, 900, 3_000);
    db.compact_range(&family, None, None, &CompactRangeOptions::default()).unwrap();
    assert_eq!(shape(&db)[..6], [0; 6], "all is on the last level");
    let steps = [
        ("level_compaction_dynamic_level_bytes", "false"),
        ("max_bytes_for_level_base", "16384"),
        ("max_bytes_for_level_multiplier", "2"),
        ("target_file_size_base", "8192"),
        ("level0_file_num_compaction_trigger", "2"),
    ];
    db.set_options(&family, &steps).unwrap();
    for seed in 901..907 {
        write(&db, seed, 400);
        db.flush(&FlushOptions::default()).unwrap();
    }
    db.wait_for_background_work().unwrap();
    let back = [
        ("disable_auto_compactions", "true"),
        ("level_compaction_dynamic_level_bytes", "true"),
        ("max_bytes_for_level_base", "131072"),
        ("max_bytes_for_level_multiplier", "10"),
        ("target_file_size_base", "49152"),
        ("level0_file_num_compaction_trigger", "4"),
    ];
    db.set_options(&family, &back).unwrap();
    write(&db, 907, 100);
    db.flush(&FlushOptions::default()).unwrap();
    let levels = shape(&db);
    let between = levels[1..6].iter().filter(|files| **files > 0).count();
    assert!(levels[0] > 0 && between >= 2 && levels[6] > 0, "{levels:?}");
    // RocksDB compacts what it opens.
    db.set_options(&family, &[("disable_auto_compactions", "false")]).unwrap();
    db.close().unwrap();
    rows
}

/// The rows of ours that the directory has, by this engine.
fn rows_of(dir: &Path, wanted: &Rows) -> Rows {
    let db = engine::open(dir, Settings::new(5, CompressionType::Lz4));
    let mut found = engine::rows(&db);
    db.check().unwrap();
    db.close().unwrap();
    for (family, rows) in &mut found {
        rows.retain(|key, _| wanted[family].contains_key(key));
    }
    found
}

#[test]
fn rocksdb_opens_checks_and_compacts_trees_with_levels_above_the_base_level() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let rows = build(dir.path());
    judge(dir.path(), &rows, 5, tools, &python);
    by_ldb(dir.path(), &rows, tools, &python);
    by_db_bench(dir.path(), &rows, tools);
    by_rocksdict(dir.path(), &rows, tools, &python);
}

/// 7.8.3 compacts everything.
fn by_ldb(dir: &Path, rows: &Rows, tools: RocksDbTools, python: &Python) {
    let copy = Copy::of(dir);
    tools.ldb(copy.path(), &["--try_load_options", "compact"]);
    judge(copy.path(), rows, 5, tools, python);
    assert_eq!(&rows_of(copy.path(), rows), rows);
}

/// 7.8.3 goes on with dynamic levels, and drains what its tree does not need.
fn by_db_bench(dir: &Path, rows: &Rows, tools: RocksDbTools) {
    let copy = Copy::of(dir);
    let arguments = [
        "--benchmarks=overwrite,waitforcompaction",
        "--use_existing_db=1",
        "--num=20000",
        "--value_size=100",
        "--level_compaction_dynamic_level_bytes=true",
        "--write_buffer_size=131072",
        "--target_file_size_base=49152",
        "--max_bytes_for_level_base=131072",
        "--compression_type=lz4",
    ];
    tools.bench(copy.path(), &arguments);
    tools.check_consistency(copy.path());
    assert_eq!(&rows_of(copy.path(), rows), rows, "what it wrote besides is not looked at");
}

/// 9.8.4 goes on writing with dynamic levels, its default, and compacts everything.
fn by_rocksdict(dir: &Path, rows: &Rows, tools: RocksDbTools, python: &Python) {
    let copy = Copy::of(dir);
    let mut rows = rows.clone();
    let more = Script::with_ranges(910, &["default"], 3_000);
    more.apply(&mut rows);
    let options = WriteOptions::new("format_version=5 compression=lz4 write_buffer_size=65536");
    python.write(copy.path(), &more, &options);
    judge(copy.path(), &rows, 5, tools.ignoring_unknown_options(), python);
    python.write_lines(copy.path(), "compact\tdefault\n", &options);
    judge(copy.path(), &rows, 5, tools.ignoring_unknown_options(), python);
    assert_eq!(rows_of(copy.path(), &rows), rows);
}
