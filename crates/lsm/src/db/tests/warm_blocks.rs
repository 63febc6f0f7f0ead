//! Rows that are read in memory still are when compactions and flushes wrote them anew.

use super::basics::options;
use crate::{
    BlockCache, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Counter, DataBlockIndexType, Db, DbOptions,
    FlushOptions, IndexType, TableOptions,
};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use std::ops::Range;
use std::sync::Arc;

const ROWS: u64 = 4_000;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A database whose last level has all rows, and whose level 0 has some of them anew.
fn database(disk: &SimDisk, keeps: bool, family: ColumnFamilyOptions, cache: Option<Arc<BlockCache>>) -> Db {
    let options: DbOptions = options(disk).cache_rewritten_blocks(keeps).block_cache(cache).unnamed_families(family);
    let db = Db::open("/db", &options).unwrap();
    (0..ROWS).for_each(|number| db.put(key(number), [1; 100]).unwrap());
    compact(&db);
    // Between all of the others.
    (0..ROWS).step_by(40).for_each(|number| db.put(key(number), [2; 100]).unwrap());
    db.flush(&FlushOptions::default()).unwrap();
    db
}

fn compact(db: &Db) {
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
}

/// Blocks that are read from the device for these rows, each of which is as it was written.
fn blocks_read(db: &Db, rows: Range<u64>) -> u64 {
    let before = db.metrics().get(Counter::BlocksRead);
    for number in rows {
        let value = if number % 40 == 0 { [2; 100] } else { [1; 100] };
        assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&value[..]), "{number}");
    }
    db.metrics().get(Counter::BlocksRead) - before
}

/// Every block is in use.
fn read_often(db: &Db) {
    for _ in 0..3 {
        blocks_read(db, 0..ROWS);
    }
}

fn family() -> ColumnFamilyOptions {
    // Two tables and more.
    ColumnFamilyOptions::default().compression(CompressionType::None).target_file_size_base(200_000)
}

#[test]
fn rows_that_were_read_in_memory_are_not_read_from_the_device_again_after_a_compaction() {
    let hashed = TableOptions::default().data_block_index_type(DataBlockIndexType::BinarySearchAndHash);
    let [plain, two_level, partitioned] = tables();
    for (keeps, table, codec) in [
        (true, plain.clone(), CompressionType::None),
        (true, plain.clone(), CompressionType::Lz4),
        (true, hashed, CompressionType::Zstd),
        (true, two_level, CompressionType::None),
        (true, partitioned, CompressionType::Lz4),
        (false, plain, CompressionType::None),
    ] {
        let disk = SimDisk::new();
        let db = database(&disk, keeps, family().table(table).compression(codec), None);
        let cold = blocks_read(&db, 0..ROWS / 2);
        assert!(cold > 20);
        assert_eq!(blocks_read(&db, 0..ROWS / 2), 0);
        compact(&db);
        let again = blocks_read(&db, 0..ROWS / 2);
        let others = blocks_read(&db, ROWS / 2..ROWS);
        match keeps {
            // A block at the boundary may have rows of either.
            true => assert!(again <= 1, "{again} of {cold}"),
            false => assert!(again > 20, "{again} of {cold}"),
        }
        assert!(others > 20, "what nobody read is not in memory: {others}");
        db.check().unwrap();
    }
}

/// As many blocks come as go: a cache that is smaller than the rows is not emptied for rows that nobody reads.
#[test]
fn a_compaction_puts_nothing_into_the_cache_that_nobody_read() {
    let disk = SimDisk::new();
    let cache = Arc::new(BlockCache::new(1 << 20));
    let db = database(&disk, true, family(), Some(Arc::clone(&cache)));
    let before = cache.usage();
    compact(&db);
    assert_eq!(cache.usage(), before);
    assert!(blocks_read(&db, 0..ROWS) > 40);
}

/// Tables of each kind of index and filter.
fn tables() -> [TableOptions; 3] {
    let two_level = TableOptions::default().index_type(IndexType::TwoLevel).metadata_block_size(256);
    [TableOptions::default(), two_level.clone(), two_level.bloom_bits_per_key(10.0).partition_filters(true)]
}

/// What nobody can ask for any more gives its room to others, whatever the index of its table is like.
#[test]
fn blocks_of_tables_that_went_leave_the_cache_as_others_come() {
    for (table, keeps) in tables().into_iter().flat_map(|table| [(table.clone(), false), (table, true)]) {
        let disk = SimDisk::new();
        let cache = Arc::new(BlockCache::new(64 << 20));
        let db = database(&disk, keeps, family().table(table.clone()), Some(Arc::clone(&cache)));
        blocks_read(&db, 0..ROWS);
        let full = cache.usage();
        assert!(full > 400_000, "{full}");
        for round in 0..6 {
            (0..ROWS).step_by(40).for_each(|number| db.put(key(number), [2; 100]).unwrap());
            compact(&db);
            blocks_read(&db, 0..ROWS);
            // What went last may still be there.
            assert!(cache.usage() < 2 * full + 100_000, "{round}: {} after {full}, {table:?} {keeps}", cache.usage());
        }
        db.close().unwrap();
        let other = database(&SimDisk::new(), keeps, family().table(table), Some(Arc::clone(&cache)));
        blocks_read(&other, 0..ROWS);
        assert!(cache.usage() < 2 * full, "nor has a database that was closed any");
    }
}

/// Nobody asks for these rows, but they stand in memory through each compaction, and not twice.
#[test]
fn blocks_that_wait_for_a_reader_do_not_pile_up() {
    for table in tables() {
        let disk = SimDisk::new();
        let cache = Arc::new(BlockCache::new(64 << 20));
        let db = database(&disk, true, family().table(table.clone()), Some(Arc::clone(&cache)));
        read_often(&db);
        let full = cache.usage();
        for _ in 0..10 {
            (0..ROWS).step_by(40).for_each(|number| db.put(key(number), [2; 100]).unwrap());
            compact(&db);
        }
        assert!(cache.usage() < 3 * full, "{} after {full}, {table:?}", cache.usage());
    }
}

/// A cache that is too small for a compaction's blocks keeps those of others that are in use.
#[test]
fn a_compaction_fills_no_more_than_half_of_the_cache() {
    let disk = SimDisk::new();
    let cache = Arc::new(BlockCache::new(2 << 20));
    let db = database(&disk, true, family(), Some(Arc::clone(&cache)));
    read_often(&db);
    // Now they are more than half of it.
    cache.set_capacity(700_000);
    blocks_read(&db, 0..ROWS);
    let before = cache.stats().inserts;
    compact(&db);
    let inserted = cache.stats().inserts - before;
    assert!((20..110).contains(&inserted), "{inserted} blocks of 4 KiB");
}

#[test]
fn tables_of_an_abandoned_compaction_leave_nothing_that_is_taken_for_rows() {
    let disk = SimDisk::new();
    let cache = Arc::new(BlockCache::new(64 << 20));
    let db = database(&disk, true, family(), Some(Arc::clone(&cache)));
    read_often(&db);
    let full = cache.usage();
    let filter = OpFilter { class: Some(OpClass::Sync), file: Some(FileKind::Table), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::Io, 0).filter(filter));
    let _ = db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default());
    assert_eq!(disk.fault_hits().len(), 1);
    disk.clear_fault();
    assert!(cache.usage() < 3 * full, "{} after {full}", cache.usage());
    assert_eq!(blocks_read(&db, 0..ROWS), 0, "the tables from before are there, and their blocks");
    compact(&db);
    assert_eq!(blocks_read(&db, 0..ROWS), 0);
    db.check().unwrap();
}
