//! A cleanly closed database to damage, and every state that damage may legally leave of it.

use siltstone::lsm::{
    ColumnFamilyOptions, CompressionType, Db, DbOptions, FlushOptions, TableOptions, WriteBatch, WriteOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the database is.
pub const DIR: &str = "/db";
/// Its families.
pub const FAMILIES: [&str; 2] = ["default", "other"];

/// The rows of both families.
pub type Rows = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

/// A closed database.
pub struct Corpus {
    /// What it was made with.
    pub format_version: u32,
    /// The disk it lies on; damage copies.
    pub disk: SimDisk,
    /// The rows in tables, then the rows after each commit that is in a WAL alone. The last state is the right one.
    pub states: Vec<Rows>,
}

impl Corpus {
    /// The paths of its files.
    pub fn files(&self) -> Vec<PathBuf> {
        let entries = self.disk.env().list_dir(Path::new(DIR)).unwrap();
        entries.into_iter().map(|entry| Path::new(DIR).join(entry.name)).collect()
    }

    /// The paths of its files with this extension.
    pub fn files_with(&self, extension: &str) -> Vec<PathBuf> {
        let matches = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
        self.files().into_iter().filter(matches).collect()
    }
}

/// Options of a database on `disk`, on one thread.
pub fn options(disk: &SimDisk) -> DbOptions {
    let executor = StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000)));
    DbOptions::default().env(Some(disk.env())).executor(Some(Arc::new(executor)))
}

/// Options of both families: tiny files, so that a few hundred rows make a tree.
pub fn family_options(format_version: u32) -> ColumnFamilyOptions {
    ColumnFamilyOptions::default()
        .write_buffer_size(16 << 10)
        .level0_file_num_compaction_trigger(2)
        .target_file_size_base(3 << 10)
        .max_bytes_for_level_base(10 << 10)
        .max_bytes_for_level_multiplier(2)
        .level_compaction_dynamic_level_bytes(false)
        .compression(CompressionType::None)
        .bottommost_compression(Some(CompressionType::Lz4))
        .table(TableOptions::default().format_version(format_version).block_size(512).bloom_bits_per_key(10.0))
}

/// Opens the database on `disk`.
pub fn open(disk: &SimDisk, format_version: u32, create: bool) -> siltstone::lsm::Result<Db> {
    let families = FAMILIES.map(|name| (name, family_options(format_version)));
    let options = options(disk).create_if_missing(create).create_missing_column_families(create);
    Db::open_families(DIR, &options, &families)
}

/// Makes a database with tables in several levels, and two WALs with commits that no table of family `other` has.
///
/// `seed` tells it from others: the same keys with other values.
pub fn build(format_version: u32, seed: u64) -> Corpus {
    let disk = SimDisk::new();
    let mut rows = Rows::default();
    let mut random = seed;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let mut commit = |db: &Db, rows: &mut Rows, both: bool| {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + next() % 3 {
            let key = format!("key{:05}", next() % 1_200).into_bytes();
            let value = format!("{seed}-{}-{}", next(), "v".repeat((next() % 90) as usize)).into_bytes();
            let delete = next() % 12 == 0;
            for (index, name) in FAMILIES.iter().enumerate().skip(usize::from(!both)) {
                let family = db.family(name).unwrap();
                if delete {
                    batch.delete_cf(&family, &key);
                    rows[index].remove(&key);
                } else {
                    batch.put_cf(&family, &key, &value);
                    rows[index].insert(key.clone(), value.clone());
                }
            }
        }
        db.write(&mut batch, &WriteOptions::default()).unwrap();
    };
    {
        let db = open(&disk, format_version, true).unwrap();
        for _ in 0..1_500 {
            commit(&db, &mut rows, true);
        }
        let families = FAMILIES.map(|name| db.family(name).unwrap());
        db.flush_families(&[&families[0], &families[1]], &FlushOptions::default()).unwrap();
        db.wait_for_background_work().unwrap();
        db.close().unwrap();
    }
    // The MANIFEST of a fresh opening: all that it says is in its first part, which is durable before CURRENT names it.
    let db = open(&disk, format_version, false).unwrap();
    db.wait_for_background_work().unwrap();
    db.pause_background_work().unwrap();
    let mut states = vec![rows.clone()];
    for _ in 0..40 {
        commit(&db, &mut rows, true);
        states.push(rows.clone());
    }
    db.close().unwrap();
    Corpus { format_version, disk, states }
}

/// Makes a database with one table of rows that all have the same size.
pub fn build_even(format_version: u32) -> Corpus {
    let disk = SimDisk::new();
    let mut rows = Rows::default();
    let db = open(&disk, format_version, true).unwrap();
    for number in 0..120 {
        let key = format!("key{number:05}").into_bytes();
        let value = format!("{number:048}").into_bytes();
        db.put(&key, &value).unwrap();
        rows[0].insert(key, value);
    }
    db.flush(&FlushOptions::default()).unwrap();
    db.close().unwrap();
    Corpus { format_version, disk, states: vec![rows] }
}

/// Makes a database whose first family is in a table as of the middle, and whose second one is in two WALs.
pub fn build_two_wals(format_version: u32) -> Corpus {
    let disk = SimDisk::new();
    let mut rows = Rows::default();
    let db = open(&disk, format_version, true).unwrap();
    let mut states = Vec::new();
    for number in 0..60 {
        if number == 30 {
            db.flush(&FlushOptions::default()).unwrap();
            db.pause_background_work().unwrap();
            states.push(rows.clone());
        }
        let key = format!("key{number:05}").into_bytes();
        let value = format!("{number:030}").into_bytes();
        let mut batch = WriteBatch::new();
        for (index, name) in FAMILIES.iter().enumerate() {
            batch.put_cf(&db.family(name).unwrap(), &key, &value);
            rows[index].insert(key.clone(), value.clone());
        }
        db.write(&mut batch, &WriteOptions::default()).unwrap();
        if number >= 30 {
            states.push(rows.clone());
        }
    }
    db.close().unwrap();
    Corpus { format_version, disk, states }
}

/// Makes a database of 256 KiB with tables of a few blocks in several levels and the last commits in a WAL alone, and closes it.
pub fn build_256_kib(format_version: u32) -> Corpus {
    let disk = SimDisk::new();
    let mut rows = Rows::default();
    let table = TableOptions::default().format_version(format_version).block_size(2048).bloom_bits_per_key(10.0);
    let family = family_options(format_version)
        .write_buffer_size(64 << 10)
        .target_file_size_base(14 << 10)
        .max_bytes_for_level_base(40 << 10)
        .table(table);
    let opened = || {
        let families = FAMILIES.map(|name| (name, family.clone()));
        let options = options(&disk).create_if_missing(true).create_missing_column_families(true);
        Db::open_families(DIR, &options, &families).unwrap()
    };
    let mut number = 0_u64;
    let mut commit = |db: &Db, rows: &mut Rows| {
        number += 1;
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let key = format!("key{:05}", (mixed >> 40) % 4_400).into_bytes();
        let value = format!("{mixed:016x}").repeat(1 + (mixed >> 20) as usize % 9).into_bytes();
        let mut batch = WriteBatch::new();
        for (index, name) in FAMILIES.iter().enumerate() {
            let family = db.family(name).unwrap();
            if mixed.is_multiple_of(13) {
                batch.delete_cf(&family, &key);
                rows[index].remove(&key);
            } else {
                batch.put_cf(&family, &key, &value);
                rows[index].insert(key.clone(), value.clone());
            }
        }
        db.write(&mut batch, &WriteOptions::default()).unwrap();
    };
    let db = opened();
    for _ in 0..6_900 {
        commit(&db, &mut rows);
    }
    let families = FAMILIES.map(|name| db.family(name).unwrap());
    db.flush_families(&[&families[0], &families[1]], &FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    db.close().unwrap();
    let db = opened();
    db.wait_for_background_work().unwrap();
    db.pause_background_work().unwrap();
    let mut states = vec![rows.clone()];
    for _ in 0..30 {
        commit(&db, &mut rows);
        states.push(rows.clone());
    }
    db.close().unwrap();
    Corpus { format_version, disk, states }
}

/// How many levels of a family have tables.
pub fn levels(db: &Db, family: &str) -> usize {
    let family = db.family(family).unwrap();
    let files = |level| db.property_cf(&family, &format!("rocksdb.num-files-at-level{level}")).unwrap();
    (0..7).filter(|level| files(*level) != "0").count()
}
