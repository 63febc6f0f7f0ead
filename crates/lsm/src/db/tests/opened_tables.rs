//! Tables that flushes and compactions made: no reader opens them.

use super::basics::options;
use crate::{ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, FlushOptions, ReadOptions};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, IoPriority};

const ROWS: u64 = 2_000;

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// Reads of tables by callers, and of that priority.
fn reads(disk: &SimDisk, priority: IoPriority) -> u64 {
    disk.env().io_stats().snapshot().get(FileKind::Table, priority).reads
}

fn open(disk: &SimDisk, family: ColumnFamilyOptions) -> Db {
    Db::open_families("/db", &options(disk), &[("default", family)]).unwrap()
}

fn family() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().compression(CompressionType::None).target_file_size_base(32 << 10)
}

fn fill(db: &Db, rounds: u8) {
    for round in 0..rounds {
        for number in 0..ROWS {
            db.put(key(number), [round; 100]).unwrap();
        }
        db.flush(&FlushOptions::default()).unwrap();
    }
}

/// One read of a block for each get, and nothing else.
fn check_gets(db: &Db, disk: &SimDisk, expected: u8) {
    let uncached = ReadOptions::default().fill_cache(false);
    let before = reads(disk, IoPriority::User);
    for (gets, number) in (0..ROWS).step_by(37).enumerate() {
        assert_eq!(*db.get_cf(&db.default_family(), key(number), &uncached).unwrap().unwrap(), [expected; 100]);
        assert_eq!(
            reads(disk, IoPriority::User) - before,
            gets as u64 + 1,
            "a get of row {number} read more than its block"
        );
    }
}

#[test]
fn gets_after_a_flush_read_data_blocks_alone() {
    let disk = SimDisk::new();
    let db = open(&disk, family().disable_auto_compactions(true));
    fill(&db, 3);
    check_gets(&db, &disk, 2);
    let written_back = reads(&disk, IoPriority::High) + reads(&disk, IoPriority::Low);
    assert_eq!(written_back, 0, "a flush reads nothing of what it wrote");
    assert_eq!(reads(&disk, IoPriority::User), ROWS.div_ceil(37));
}

#[test]
fn gets_after_a_compaction_read_data_blocks_alone() {
    for subcompactions in [1, 3] {
        let disk = SimDisk::new();
        let db = open(&disk, family());
        fill(&db, 3);
        let before = reads(&disk, IoPriority::User);
        let options = CompactRangeOptions::default().force_bottommost(true).max_subcompactions(subcompactions);
        db.compact_range(&db.default_family(), None, None, &options).unwrap();
        fill(&db, 9);
        db.wait_for_background_work().unwrap();
        assert_eq!(reads(&disk, IoPriority::User), before, "compactions open nothing for callers");
        assert!(db.table_files(&db.default_family()).unwrap().len() > 6, "the outputs are many tables");
        check_gets(&db, &disk, 8);
    }
}

/// Filters and indexes in partitions, a hash index with its prefixes, dictionaries, range tombstones: all that opening reads is handed on.
#[test]
fn every_layout_is_opened_without_reading_it_back() {
    use crate::{FixedPrefix, IndexType, TableOptions};
    let prefix: std::sync::Arc<FixedPrefix> = std::sync::Arc::new(FixedPrefix::new(4));
    let table = TableOptions::default();
    let two_level = table.clone().index_type(IndexType::TwoLevel).partition_filters(true).metadata_block_size(512);
    let layouts = [
        family().table(two_level.clone().pin_filter_partitions(true)),
        family().table(two_level),
        family().table(table.clone().index_type(IndexType::HashSearch)).prefix_extractor(Some(prefix)),
        family().table(table.format_version(5)),
        family().compression(CompressionType::Zstd).max_dict_bytes(4 << 10).zstd_max_train_bytes(0),
    ];
    for (layout, family) in layouts.into_iter().enumerate() {
        let disk = SimDisk::new();
        let db = open(&disk, family);
        fill(&db, 2);
        db.delete_range(key(100), key(200)).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        db.wait_for_background_work().unwrap();
        assert_eq!(reads(&disk, IoPriority::User), 0, "layout {layout}");
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default().force_bottommost(true))
            .unwrap();
        assert_eq!(reads(&disk, IoPriority::User), 0, "layout {layout}");
        assert!(db.get(key(150)).unwrap().is_none(), "layout {layout}");
        assert_eq!(*db.get(key(250)).unwrap().unwrap(), [1; 100], "layout {layout}");
        db.check().unwrap();
    }
}
