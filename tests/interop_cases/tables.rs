//! Every kind of table: indexes, hash indexes, codecs, checksums, dictionaries, sequence numbers of whole files.

use crate::interop_tools::siltstone::{self as engine, Settings};
use crate::interop_tools::{Python, RocksDbTools, Rows, Script, WriteOptions, hex};
use crate::{tools, without_empty};
use ::siltstone::lsm::{
    ChecksumType, ColumnFamilyOptions, CompressionType, DataBlockIndexType, Db, DbOptions, FileChecksum, IndexType,
    TableOptions,
};
use std::path::Path;

/// What RocksDB is told for each kind of table that it writes.
const ROCKSDB: &[&str] = &[
    "format_version=5 compression=lz4 index_type=two_level_index_search metadata_block_size=256 block_size=512",
    "format_version=6 compression=zstd index_type=two_level_index_search metadata_block_size=300 block_size=512 bloom=10",
    "format_version=6 compression=snappy index_type=hash_search fixed_prefix=4 block_size=512",
    "format_version=5 compression=none data_block_index=binary_and_hash checksum=crc32c",
    "format_version=2 compression=lz4 checksum=xxhash",
    "format_version=3 compression=bz2 checksum=xxhash64",
    "format_version=4 compression=lz4hc checksum=no_checksum",
    "format_version=6 compression=zstd max_dict_bytes=4096 zstd_max_train_bytes=100000 block_size=1024",
    "format_version=5 compression=lz4 max_dict_bytes=4096 block_size=1024",
];

#[test]
fn this_engine_reads_every_kind_of_table_of_rocksdb() {
    let Some((_, python)) = tools() else { return };
    for (seed, rocksdb) in ROCKSDB.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script::new(600 + seed as u64, &["default"], 1_500);
        let mut rows = Rows::new();
        script.apply(&mut rows);
        python.write(dir.path(), &script, &WriteOptions::new(rocksdb));
        let options = DbOptions::default();
        let db = Db::open_families(dir.path(), &options, &[("default", ColumnFamilyOptions::default())]).unwrap();
        assert_eq!(engine::rows(&db), rows, "{rocksdb}");
        db.check().unwrap();
        db.close().unwrap();
    }
}

/// Codecs that RocksDB 7.8.3 has and 9.8.4 as packaged has not.
#[test]
fn this_engine_reads_the_codecs_of_ldb() {
    let Some((tools, python)) = tools() else { return };
    let mut rows = Rows::new();
    let own = rows.entry("default".to_owned()).or_default();
    for number in 0..3_000_u32 {
        let value = format!("city=Amsterdam street=Damrak number={}", number.wrapping_mul(0x9E37_79B9) % 977);
        own.insert(number.to_be_bytes().to_vec(), value.into_bytes());
    }
    for arguments in [
        &["--compression_type=zlib"][..],
        &["--compression_type=zlib", "--compression_max_dict_bytes=4096"],
        &["--compression_type=lz4", "--compression_max_dict_bytes=4096"],
        &["--compression_type=bzip2"],
        &["--compression_type=lz4hc"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        tools.load(dir.path(), &rows["default"], arguments);
        python.check_bytes(dir.path());
        let family = ColumnFamilyOptions::default();
        let db = Db::open_families(dir.path(), &DbOptions::default(), &[("default", family)]).unwrap();
        assert_eq!(db.table_files(&db.default_family()).unwrap().len(), 1);
        assert_eq!(engine::rows(&db), rows, "{arguments:?}");
        db.close().unwrap();
    }
}

/// The kinds of tables that this engine writes.
fn families() -> Vec<ColumnFamilyOptions> {
    let table = |version: u32| TableOptions::default().format_version(version).block_size(512).bloom_bits_per_key(10.0);
    let family = |table: TableOptions, codec| {
        ColumnFamilyOptions::default()
            .write_buffer_size(64 << 10)
            .target_file_size_base(32 << 10)
            .max_bytes_for_level_base(128 << 10)
            .compression(codec)
            .table(table)
    };
    let hash = DataBlockIndexType::BinarySearchAndHash;
    vec![
        family(table(5).index_type(IndexType::TwoLevel).metadata_block_size(256), CompressionType::Lz4),
        family(table(6).index_type(IndexType::TwoLevel).metadata_block_size(256), CompressionType::Zstd),
        family(table(5).index_type(IndexType::BinarySearchWithFirstKey), CompressionType::None),
        family(
            table(6).index_type(IndexType::BinarySearchWithFirstKey).index_block_restart_interval(3),
            CompressionType::Lz4,
        ),
        family(table(5).data_block_index_type(hash).checksum(ChecksumType::Crc32c), CompressionType::Zlib),
        family(table(6).data_block_index_type(hash).checksum(ChecksumType::None), CompressionType::Snappy),
        family(table(5).checksum(ChecksumType::XxHash), CompressionType::Zstd)
            .max_dict_bytes(2048)
            .zstd_max_train_bytes(32 << 10),
        family(table(6).checksum(ChecksumType::XxHash64), CompressionType::Lz4).max_dict_bytes(2048),
        family(table(5), CompressionType::Zlib).max_dict_bytes(2048).max_dict_buffer_bytes(8 << 10),
    ]
}

fn judge(db: &Path, rows: &Rows, family: &ColumnFamilyOptions, tools: RocksDbTools, python: &Python) {
    python.check_bytes(db);
    // That build of RocksDB has no zlib: asked to write it, it leaves blocks uncompressed.
    if family.compression != CompressionType::Zlib {
        assert_eq!(python.rows(db), without_empty(rows), "RocksDB 9.8.4");
    }
    if family.table.format_version <= 5 {
        assert_eq!(&tools.rows(db), rows, "RocksDB 7.8.3");
        tools.verify_tables(db);
    }
}

#[test]
fn rocksdb_reads_every_kind_of_table_of_this_engine() {
    let Some((tools, python)) = tools() else { return };
    for (seed, family) in families().into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script::new(700 + seed as u64, &["default"], 2_500);
        let mut rows = Rows::new();
        script.apply(&mut rows);
        let options = DbOptions::default().create_if_missing(true).file_checksum(FileChecksum::Crc32c);
        let db = Db::open_families(dir.path(), &options, &[("default", family.clone())]).unwrap();
        engine::write(&db, &script, Settings::new(5, CompressionType::Lz4));
        db.wait_for_background_work().unwrap();
        assert_eq!(engine::rows(&db), rows, "{family:?}");
        assert!(db.verify_file_checksums().unwrap() > 0);
        db.close().unwrap();
        judge(dir.path(), &rows, &family, tools, &python);
    }
}

/// RocksDB compares the checksums of whole files that this engine put into the MANIFEST.
#[test]
fn rocksdb_verifies_checksums_of_files_of_this_engine() {
    let Some((tools, _)) = tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true).file_checksum(FileChecksum::Crc32c);
    let family = ColumnFamilyOptions::default().table(TableOptions::default().format_version(5));
    let db = Db::open_families(dir.path(), &options, &[("default", family)]).unwrap();
    let script = Script::new(800, &["default"], 1_500);
    engine::write(&db, &script, Settings::new(5, CompressionType::Lz4));
    db.flush(&Default::default()).unwrap();
    let expected: Vec<_> = db
        .table_files(&db.default_family())
        .unwrap()
        .iter()
        .map(|table| format!("{}, FileChecksumCrc32c, 0x{:08X}", table.number, table.file_crc.unwrap()))
        .collect();
    db.close().unwrap();
    let said = tools.ldb(dir.path(), &["file_checksum_dump", "--hex"]);
    for line in expected {
        assert!(said.contains(&line), "{line} is not in:\n{said}");
    }
}

/// Tables that were written outside and taken in between other writes: all their entries have one sequence number.
#[test]
fn tables_that_rocksdb_took_in_are_read() {
    let Some((_, python)) = tools() else { return };
    for rocksdb in ["format_version=5 compression=lz4 block_size=512", "format_version=6 compression=none bloom=10"] {
        let dir = tempfile::tempdir().unwrap();
        let mut lines = String::new();
        let mut rows = Rows::new();
        let own = rows.entry("default".to_owned()).or_default();
        let mut put = |lines: &mut String, number: u64, value: &str| {
            let key = format!("user{number:05}");
            own.insert(key.clone().into_bytes(), value.as_bytes().to_vec());
            lines.push_str(&format!("\t{}\t{}", hex(key.as_bytes()), hex(value.as_bytes())));
        };
        let puts = |lines: &mut String, put: &mut dyn FnMut(&mut String, u64, &str), step: usize, value: &str| {
            for number in (0..2_000).step_by(step) {
                lines.push_str("put\tdefault");
                put(lines, number, value);
                lines.push('\n');
            }
            lines.push_str("flush\tdefault\n");
        };
        puts(&mut lines, &mut put, 2, "before");
        lines.push_str("ingest\tdefault");
        for number in (0..2_000).step_by(3) {
            put(&mut lines, number, "taken in");
        }
        lines.push('\n');
        puts(&mut lines, &mut put, 5, "after");
        python.write_lines(dir.path(), &lines, &WriteOptions::new(rocksdb));

        let family = ColumnFamilyOptions::default().disable_auto_compactions(true);
        let db = Db::open_families(dir.path(), &DbOptions::default(), &[("default", family)]).unwrap();
        assert_eq!(engine::rows(&db), rows, "{rocksdb}");
        db.check().unwrap();
        db.compact_range(&db.default_family(), None, None, &Default::default()).unwrap();
        assert_eq!(engine::rows(&db), rows, "{rocksdb}, compacted");
        db.close().unwrap();
        python.check_bytes(dir.path());
        assert_eq!(python.rows(dir.path()), rows);
    }
}
