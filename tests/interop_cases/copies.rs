//! Checkpoints, backups and tables from outside, between this engine and RocksDB.

use crate::interop_tools::siltstone::{self as engine, Settings};
use crate::interop_tools::{Copy, Rows, Script, hex};
use crate::{FAMILIES, judge, tools};
use ::siltstone::lsm::{
    BackupEngine, BackupEngineOptions, Checkpoint, CheckpointOptions, ColumnFamilyOptions, CompactRangeOptions,
    CompressionType, CreateBackupOptions, Db, DbOptions, IngestExternalFileOptions, RestoreOptions, SstFileReader,
    SstFileWriter, TableOptions,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn settings() -> Settings {
    Settings { bottommost: CompressionType::Zstd, ..Settings::new(5, CompressionType::Lz4) }
}

#[test]
fn rocksdb_reads_checkpoints() {
    let Some((tools, python)) = tools() else { return };
    for (seed, options) in
        [CheckpointOptions::default(), CheckpointOptions::default().log_size_for_flush(u64::MAX)].iter().enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let script = Script::with_ranges(700 + seed as u64, &FAMILIES, 3_000).creating(&FAMILIES);
        let mut rows = Rows::new();
        script.apply(&mut rows);
        let db = engine::open(&dir.path().join("db"), settings());
        engine::write(&db, &script, settings());
        let checkpoint = dir.path().join("checkpoint");
        Checkpoint::new(&db).create(&checkpoint, options).unwrap();
        db.put("later", "than the checkpoint").unwrap();
        judge(&checkpoint, &rows, 5, tools, &python);
        let copied = engine::open(&checkpoint, settings());
        assert_eq!(engine::rows(&copied), rows);
        copied.check().unwrap();
    }
}

#[test]
fn backups_pass_both_ways() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let script = Script::new(710, &["default"], 3_000);
    let mut rows = Rows::new();
    script.apply(&mut rows);
    let db = engine::open(&path("db"), settings());
    engine::write(&db, &script, settings());
    let mut backups = BackupEngine::open(path("backups"), &BackupEngineOptions::default()).unwrap();
    for flush in [false, true] {
        let options = CreateBackupOptions::default().flush_before_backup(flush).app_metadata(b"one of two".to_vec());
        backups.create(&db, &options).unwrap();
    }
    drop(backups);
    db.close().unwrap();
    let restore = format!("--backup_dir={}", path("backups").display());
    tools.ldb(&path("theirs"), &[&restore, "restore"]);
    judge(&path("theirs"), &rows, 5, tools, &python);

    // Theirs, on top of ours: with WALs, and tables that both have.
    tools.put_all(&path("theirs"), &[&b"later".to_vec()], &[&b"1".to_vec()]);
    rows.get_mut("default").unwrap().insert(b"later".to_vec(), b"1".to_vec());
    tools.ldb(&path("theirs"), &[&restore, "backup"]);
    let backups = BackupEngine::open(path("backups"), &BackupEngineOptions::default()).unwrap();
    let list = backups.list();
    assert_eq!(list.iter().map(|info| info.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(list[0].app_metadata, b"one of two");
    backups.restore(3, path("ours"), &RestoreOptions::default()).unwrap();
    let db = engine::open(&path("ours"), settings());
    assert_eq!(engine::rows(&db), rows);
    db.check().unwrap();
}

fn external_options() -> ColumnFamilyOptions {
    let table = TableOptions::default().format_version(5).block_size(512);
    ColumnFamilyOptions::default().compression(CompressionType::Lz4).table(table)
}

#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn written(path: &Path, numbers: std::ops::Range<u32>, value: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut writer = SstFileWriter::create(path, &DbOptions::default(), &external_options()).unwrap();
    let mut rows = BTreeMap::new();
    for number in numbers {
        let key = format!("key{number:06}").into_bytes();
        writer.put(&key, value).unwrap();
        rows.insert(key, value.as_bytes().to_vec());
    }
    writer.finish().unwrap();
    rows
}

#[test]
fn rocksdb_takes_in_tables_of_this_engine() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (db, table) = (dir.path().join("db"), dir.path().join("table.sst"));
    let mut rows = written(&table, 0..5_000, "from outside");
    assert_eq!(tools.verify_tables(&table), 1);
    tools.load(&db, &rows.keys().map(|key| (key.clone(), b"before".to_vec())).collect(), &[]);
    tools.ldb(&db, &["ingest_extern_sst", &table.display().to_string()]);
    tools.put_all(&db, &[&b"key000003".to_vec()], &[&b"behind".to_vec()]);
    rows.insert(b"key000003".to_vec(), b"behind".to_vec());
    assert_eq!(tools.scan(&db, "default"), rows);
    assert_eq!(python.rows(&db)["default"], rows);
    // And what comes of it is read here.
    let copy = Copy::of(&db);
    let db = engine::open(copy.path(), settings());
    assert_eq!(engine::rows(&db)["default"], rows);
    db.check().unwrap();
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    assert_eq!(engine::rows(&db)["default"], rows);
}

#[test]
fn this_engine_takes_in_tables_of_its_own_and_of_rocksdb() {
    let Some((tools, python)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (theirs, ours) = (dir.path().join("theirs.sst"), dir.path().join("ours.sst"));
    let mut command = Command::new("ldb");
    command.arg(format!("--db={}", dir.path().join("none").display())).args(["--hex", "write_extern_sst"]).arg(&theirs);
    command.arg("--create_if_missing");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = String::new();
    let mut rows = BTreeMap::new();
    for number in 2_000..6_000_u32 {
        let key = format!("key{number:06}").into_bytes();
        lines.push_str(&format!("0x{} ==> 0x{}\n", hex(&key), hex(b"theirs")));
        rows.insert(key, b"theirs".to_vec());
    }
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reader = SstFileReader::open(&theirs, &DbOptions::default(), &ColumnFamilyOptions::default()).unwrap();
    assert_eq!((reader.is_external(), reader.verify_checksums().unwrap()), (true, 4_000));

    let db = engine::open(&dir.path().join("db"), settings());
    for number in 0..3_000_u32 {
        let key = format!("key{number:06}").into_bytes();
        db.put(&key, "before").unwrap();
        rows.entry(key).or_insert_with(|| b"before".to_vec());
    }
    let options = IngestExternalFileOptions::default();
    db.ingest_external_files(&db.default_family(), &[&theirs], &options).unwrap();
    rows.extend(written(&ours, 5_500..5_600, "ours"));
    rows.extend(written(&dir.path().join("apart.sst"), 9_000..9_100, "apart"));
    let apart = dir.path().join("apart.sst");
    db.ingest_external_files(&db.default_family(), &[&ours, &apart], &options).unwrap();
    db.put("key002500", "behind").unwrap();
    rows.insert(b"key002500".to_vec(), b"behind".to_vec());
    let all: Rows = [("default".to_owned(), rows)].into();
    assert_eq!(engine::rows(&db), all);
    db.check().unwrap();
    db.close().unwrap();
    judge(&dir.path().join("db"), &all, 5, tools, &python);
    let copy = Copy::of(&dir.path().join("db"));
    tools.compact(copy.path(), "default");
    assert_eq!(tools.scan(copy.path(), "default"), all["default"]);
    let db = Db::open(dir.path().join("db"), &DbOptions::default()).unwrap();
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    assert_eq!(engine::rows(&db), all);
    db.check().unwrap();
}
