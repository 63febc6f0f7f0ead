//! Reads of several keys: each must be what a read of that key alone is, and what must be read of one table is read together.

use super::basics::options;
use crate::{
    AppendOperator, BlockCache, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Counter, Db, ErrorKind,
    FlushOptions, IndexType, ReadOptions, ReadTier, TableOptions,
};
use proptest::prelude::*;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, SimDisk};
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Clone)]
enum Step {
    Put(u16, u8),
    Delete(u16),
    Merge(u16),
    DeleteRange(u16, u16),
    Flush,
    Compact(u16, u16),
    Snapshot,
    Ask(Vec<u16>, u8),
}

const KEYS: u16 = 400;

fn key(number: u16) -> Vec<u8> {
    // Lengths differ, and some keys are prefixes of others.
    let mut key = format!("{:03}", number / 2).into_bytes();
    key.extend(std::iter::repeat_n(b'x', usize::from(number % 2) * 70));
    key
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0..KEYS;
    let step = prop_oneof![
        12 => (number.clone(), any::<u8>()).prop_map(|(key, len)| Step::Put(key, len)),
        3 => number.clone().prop_map(Step::Delete),
        3 => number.clone().prop_map(Step::Merge),
        1 => (number.clone(), 0_u16..40).prop_map(|(begin, len)| Step::DeleteRange(begin, begin + len)),
        2 => Just(Step::Flush),
        1 => (number.clone(), number.clone()).prop_map(|(a, b)| Step::Compact(a.min(b), a.max(b))),
        1 => Just(Step::Snapshot),
        4 => (prop::collection::vec(0..KEYS + 20, 0..40), any::<u8>()).prop_map(|(keys, how)| Step::Ask(keys, how)),
    ];
    prop::collection::vec(step, 20..160)
}

fn tables(kind: u8) -> TableOptions {
    let table = TableOptions::default().block_size(256).metadata_block_size(128);
    match kind % 4 {
        0 => table,
        1 => table.bloom_bits_per_key(10.0),
        2 => table.bloom_bits_per_key(10.0).index_type(IndexType::TwoLevel),
        _ => table.bloom_bits_per_key(4.0).index_type(IndexType::TwoLevel).partition_filters(true),
    }
}

/// What a read says, in a form that can be compared.
fn said<V: AsRef<[u8]>>(found: Result<Option<V>, siltstone_base::Error>) -> Result<Option<Vec<u8>>, ErrorKind> {
    found.map(|value| value.map(|value| value.as_ref().to_vec())).map_err(|error| error.kind())
}

fn compare(db: &Db, numbers: &[u16], read: &ReadOptions) {
    let family = db.default_family();
    let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
    let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    let together = db.multi_get_cf(&family, &slices, read);
    assert_eq!(together.len(), keys.len());
    for (number, (key, found)) in numbers.iter().zip(keys.iter().zip(together)) {
        let alone = said(db.get_cf(&family, key, read));
        let found = said(found);
        // What the first read brought into the cache the second finds there.
        if read.read_tier == ReadTier::All || found != Err(ErrorKind::Incomplete) {
            assert_eq!(found, alone, "key {number}");
        }
    }
}

fn run(steps: &[Step], kind: u8) {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default()
        .merge_operator(Some(Arc::new(AppendOperator::new(","))))
        .write_buffer_size(8 << 10)
        .target_file_size_base(2 << 10)
        .max_bytes_for_level_base(4 << 10)
        .table(tables(kind));
    // Small enough that blocks come and go.
    let cache = Arc::new(BlockCache::new(6 << 10));
    let db = Db::open_families("/db", &options(&disk).block_cache(Some(cache)), &[("default", family)]).unwrap();
    let family = db.default_family();
    let mut snapshots = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Put(name, len) => db.put(key(*name), vec![number as u8; usize::from(*len)]).unwrap(),
            Step::Delete(name) => db.delete(key(*name)).unwrap(),
            Step::Merge(name) => db.merge(key(*name), number.to_string()).unwrap(),
            Step::DeleteRange(begin, end) => db.delete_range(key(*begin), key(*end)).unwrap_or_default(),
            Step::Flush => db.flush(&FlushOptions::default()).unwrap(),
            Step::Compact(begin, end) => {
                let (begin, end) = (key(*begin), key(*end));
                db.compact_range(&family, Some(&begin), Some(&end), &CompactRangeOptions::default()).unwrap();
            }
            Step::Snapshot => snapshots.push(db.snapshot()),
            Step::Ask(names, how) => {
                let mut read = ReadOptions::default().fill_cache(how & 1 == 0).verify_checksums(how & 2 == 0);
                if how & 4 != 0 {
                    read = read.snapshot(snapshots.get(usize::from(*how >> 4)).cloned());
                }
                if how & 8 != 0 {
                    read = read.read_tier(ReadTier::BlockCache);
                }
                compare(&db, names, &read);
            }
        }
    }
    let all: Vec<u16> = (0..KEYS + 20).rev().collect();
    compare(&db, &all, &ReadOptions::default());
    for snapshot in snapshots {
        compare(&db, &all, &ReadOptions::default().snapshot(Some(snapshot)).fill_cache(false));
    }
    db.check().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn keys_read_together_are_what_each_is_alone(steps in steps(), kind in any::<u8>()) {
        run(&steps, kind);
    }
}

/// A database with one table of `rows` rows, none of it in memory.
fn one_cold_table(disk: &SimDisk, rows: u16, table: TableOptions) -> Db {
    let family = ColumnFamilyOptions::default().table(table).compression(CompressionType::None);
    let open = || Db::open_families("/db", &options(disk), &[("default", family.clone())]).unwrap();
    let db = open();
    for number in 0..rows {
        db.put(format!("{number:05}"), vec![number as u8; 100]).unwrap();
    }
    db.flush(&FlushOptions::default()).unwrap();
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default().force_bottommost(true)).unwrap();
    db.close().unwrap();
    open()
}

fn ask(db: &Db, numbers: &[u16], read: &ReadOptions) -> Vec<Result<Option<Vec<u8>>, ErrorKind>> {
    let keys: Vec<_> = numbers.iter().map(|number| format!("{number:05}")).collect();
    let slices: Vec<_> = keys.iter().map(String::as_bytes).collect();
    db.multi_get_cf(&db.default_family(), &slices, read).into_iter().map(said).collect()
}

#[test]
fn blocks_of_one_table_are_read_in_one_round() {
    for fill_cache in [true, false] {
        let disk = SimDisk::new();
        let db = one_cold_table(&disk, 12_000, TableOptions::default().block_size(1024));
        let read = ReadOptions::default().fill_cache(fill_cache);
        // The table is open.
        ask(&db, &[0], &read);
        let perf = db.metrics().perf_context().unwrap();
        let numbers: Vec<u16> = (0..40).map(|step| step * 97 + 50).collect();
        let found = ask(&db, &numbers, &read);
        for (number, found) in numbers.iter().zip(found) {
            assert_eq!(found, Ok(Some(vec![*number as u8; 100])));
        }
        let counts = perf.counters();
        assert_eq!(counts.get(Counter::MultiGets), 1);
        assert_eq!(counts.get(Counter::KeysRead), 40);
        assert_eq!(counts.get(Counter::BlocksRead), 40);
        assert_eq!(counts.get(Counter::BlocksReadTogether), 40);
        assert_eq!(counts.get(Counter::ReadsTogether), 1);
        ask(&db, &numbers, &read);
        let blocks = perf.counters().get(Counter::BlocksRead);
        assert_eq!(blocks, if fill_cache { 40 } else { 80 });
        // More than a round may have.
        let numbers: Vec<u16> = (0..200).map(|step| step * 59 + 7).collect();
        let rounds = perf.counters().get(Counter::ReadsTogether);
        ask(&db, &numbers, &ReadOptions::default().fill_cache(false));
        let rounds = perf.counters().get(Counter::ReadsTogether) - rounds;
        assert!(rounds >= 2, "{rounds}");
    }
}

#[test]
fn partitions_of_index_and_filter_are_read_together_too() {
    let disk = SimDisk::new();
    let table = TableOptions::default()
        .block_size(512)
        .metadata_block_size(256)
        .bloom_bits_per_key(10.0)
        .index_type(IndexType::TwoLevel)
        .partition_filters(true);
    let db = one_cold_table(&disk, 4_000, table);
    ask(&db, &[0], &ReadOptions::default());
    let perf = db.metrics().perf_context().unwrap();
    let numbers: Vec<u16> = (0..20).map(|step| step * 193 + 50).collect();
    assert!(ask(&db, &numbers, &ReadOptions::default()).iter().all(|found| matches!(found, Ok(Some(_)))));
    assert_eq!(perf.counters().get(Counter::ReadsTogether), 3, "partitions of the filter, of the index, and blocks");
    assert_eq!(perf.counters().get(Counter::BlocksReadTogether), 20);
    assert_eq!(perf.counters().get(Counter::FilterFullPositive), 20);
}

#[test]
fn a_read_that_fails_fails_the_keys_that_need_it_alone() {
    let disk = SimDisk::new();
    let db = one_cold_table(&disk, 2_000, TableOptions::default().block_size(1024));
    let read = ReadOptions::default().fill_cache(false);
    ask(&db, &[0], &read);
    let numbers: Vec<u16> = (0..20).map(|step| step * 97 + 50).collect();
    for after in 0..20 {
        let mut plan = FaultPlan::once(FaultKind::Io, after);
        plan.filter.class = Some(OpClass::Read);
        plan.filter.file = Some(FileKind::Table);
        disk.set_fault(plan);
        let found = ask(&db, &numbers, &read);
        disk.clear_fault();
        let failed: Vec<_> = (0..20).filter(|place| found[*place].is_err()).collect();
        assert_eq!(failed.len(), 1, "{found:?}");
        assert_eq!(found[failed[0]], Err(ErrorKind::Io));
        assert!(ask(&db, &numbers, &read).iter().all(Result::is_ok));
    }
}

#[test]
fn a_damaged_block_is_corrupt_for_its_keys_alone() {
    let disk = SimDisk::new();
    let db = one_cold_table(&disk, 2_000, TableOptions::default().block_size(1024));
    let table = db.table_files(&db.default_family()).unwrap().remove(0);
    let path = Path::new("/db").join(format!("{:06}.sst", table.number));
    let numbers: Vec<u16> = (0..2_000).step_by(7).collect();
    let read = ReadOptions::default().fill_cache(false);
    ask(&db, &[0], &read);
    let mut corrupt = 0;
    for offset in (0..table.file_size / 2).step_by(9_000) {
        disk.flip(&path, offset, 4).unwrap();
        let together = ask(&db, &numbers, &read);
        for (number, found) in numbers.iter().zip(together) {
            let alone = said(db.get_cf(&db.default_family(), format!("{number:05}"), &read));
            corrupt += u32::from(found == Err(ErrorKind::Corruption));
            assert_eq!(found, alone, "{number}");
        }
        disk.flip(&path, offset, 4).unwrap();
    }
    assert!(corrupt > 0);
}
