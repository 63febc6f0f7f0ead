//! This engine, driven by the same scripts as RocksDB.

use super::rows::{Rows, Script, Step};
use ::siltstone::lsm::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions, FlushOptions, ReadOptions,
    TableOptions, WriteOptions,
};
use std::path::Path;

/// How this engine writes: small memtables and files, so that a few thousand rows make several levels.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Version of the tables' format.
    pub format_version: u32,
    /// Codec of all levels but the last.
    pub compression: CompressionType,
    /// Codec of the last level.
    pub bottommost: CompressionType,
}

impl Settings {
    /// The version with one codec.
    pub fn new(format_version: u32, compression: CompressionType) -> Self {
        Self { format_version, compression, bottommost: compression }
    }

    fn family(self) -> ColumnFamilyOptions {
        let table =
            TableOptions::default().format_version(self.format_version).bloom_bits_per_key(10.0).block_size(1024);
        ColumnFamilyOptions::default()
            .write_buffer_size(128 << 10)
            .target_file_size_base(48 << 10)
            .max_bytes_for_level_base(128 << 10)
            .compression(self.compression)
            .bottommost_compression(Some(self.bottommost))
            .table(table)
    }
}

/// Opens a directory with all its families.
pub fn open(dir: &Path, settings: Settings) -> Db {
    let options = DbOptions::default().create_if_missing(true);
    let names = match dir.join("CURRENT").exists() {
        true => Db::list_column_families(dir, &options).unwrap(),
        false => Vec::new(),
    };
    let families: Vec<_> = names.iter().map(|name| (name.as_str(), settings.family())).collect();
    let default = [("default", settings.family())];
    Db::open_families(dir, &options, if families.is_empty() { &default } else { &families }).unwrap()
}

fn family(db: &Db, name: &str) -> ColumnFamily {
    db.family(name).unwrap()
}

/// Carries a script out.
pub fn write(db: &Db, script: &Script, settings: Settings) {
    let options = WriteOptions::default();
    for step in &script.steps {
        match step {
            Step::Create(name) => {
                db.create_family(name, &settings.family()).unwrap();
            }
            Step::Put(name, key, value) => db.put_cf(&family(db, name), key, value, &options).unwrap(),
            Step::Merge(name, key, number) => {
                db.merge_cf(&family(db, name), key, number.to_le_bytes(), &options).unwrap();
            }
            Step::Delete(name, key) => db.delete_cf(&family(db, name), key, &options).unwrap(),
            Step::DeleteRange(name, begin, end) => {
                db.delete_range_cf(&family(db, name), begin, end, &options).unwrap();
            }
            Step::Flush(name) => db.flush_families(&[&family(db, name)], &FlushOptions::default()).unwrap(),
            Step::Compact(name) => {
                db.compact_range(&family(db, name), None, None, &CompactRangeOptions::default()).unwrap();
            }
        }
    }
}

/// Carries a script out that creates no family.
pub fn write_steps(db: &Db, script: &Script) {
    write(db, script, Settings::new(6, CompressionType::None));
}

/// All live rows, walked forward; walking backward and getting must tell the same.
pub fn rows(db: &Db) -> Rows {
    let mut rows = Rows::new();
    for family in db.families() {
        let mut iter = db.iter_cf(&family, &ReadOptions::default()).unwrap();
        let mut forward = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            forward.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status().unwrap();
        let mut backward = Vec::new();
        iter.seek_to_last();
        while iter.valid() {
            backward.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.prev();
        }
        iter.status().unwrap();
        backward.reverse();
        assert_eq!(forward, backward, "{}", family.name());
        for (key, value) in &forward {
            let got = db.get_cf(&family, key, &ReadOptions::default()).unwrap();
            assert_eq!(got.as_deref(), Some(value.as_slice()));
        }
        rows.insert(family.name().to_owned(), forward.into_iter().collect());
    }
    rows
}
