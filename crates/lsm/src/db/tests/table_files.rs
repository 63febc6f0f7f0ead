//! The list of live tables, what collectors stored in them, and their checksums.

use super::basics::options;
use crate::{
    AppendOperator, CollectedEntry, ColumnFamilyId, ColumnFamilyOptions, CompactRangeOptions, CompactionReason,
    CompressionType, Db, ErrorKind, FileChecksum, FilterPolicy, FlushOptions, TableOptions, TablePropertiesCollector,
    TablePropertiesCollectorFactory,
};
use siltstone_base::env::sim::SimDisk;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
struct LastKeys;

#[derive(Debug)]
struct LastKey(Vec<u8>);

impl TablePropertiesCollectorFactory for LastKeys {
    fn name(&self) -> &str {
        "last keys"
    }

    fn collector(&self, _: ColumnFamilyId) -> Box<dyn TablePropertiesCollector> {
        Box::new(LastKey(Vec::new()))
    }
}

impl TablePropertiesCollector for LastKey {
    fn add(&mut self, entry: &CollectedEntry<'_>) {
        self.0 = entry.user_key.to_vec();
    }

    fn finish(self: Box<Self>) -> Vec<(String, Vec<u8>)> {
        vec![("last".to_owned(), self.0)]
    }
}

#[test]
fn tables_are_listed_with_checksums_and_collected_properties() {
    let disk = SimDisk::new();
    let options = options(&disk).file_checksum(FileChecksum::Crc32c);
    let family = ColumnFamilyOptions::default()
        .disable_auto_compactions(true)
        .table_properties_collectors(vec![Arc::new(LastKeys)]);
    let db = Db::open_families("/db", &options, &[("default", family.clone())]).unwrap();
    for round in 0..3 {
        for number in 0..100 {
            db.put(format!("{round}key{number:03}"), vec![round; 100]).unwrap();
        }
        db.flush(&FlushOptions::default()).unwrap();
    }
    db.close().unwrap();

    // The MANIFEST keeps the checksums.
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    let tables = db.table_files(&db.default_family()).unwrap();
    assert_eq!(tables.len(), 3);
    for (table, round) in tables.iter().zip((0..3).rev()) {
        assert_eq!((table.level, table.num_entries, table.num_deletions), (0, 100, 0));
        assert_eq!(table.smallest, format!("{round}key000").into_bytes());
        assert_eq!(table.collected[&b"last"[..]], table.largest);
        assert!(table.file_crc.is_some());
    }
    assert_eq!(db.verify_file_checksums().unwrap(), 3);
    let family = db.default_family();
    db.compact_range(&family, None, None, &CompactRangeOptions::default()).unwrap();
    let tables = db.table_files(&family).unwrap();
    assert_eq!(tables.iter().map(|table| table.num_entries).sum::<u64>(), 300);
    assert_eq!(db.verify_file_checksums().unwrap(), tables.len() as u64);

    let damaged = format!("/db/{:06}.sst", tables[0].number);
    disk.flip(Path::new(&damaged), tables[0].file_size / 2, 1).unwrap();
    let error = db.verify_file_checksums().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    db.close().unwrap();
}

#[test]
fn tables_without_a_checksum_are_passed_over() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    db.put("key", "value").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    let tables = db.table_files(&db.default_family()).unwrap();
    assert_eq!((tables.len(), tables[0].file_crc), (1, None));
    assert_eq!(db.verify_file_checksums().unwrap(), 0);
    db.close().unwrap();
}

#[test]
fn a_flipped_bit_of_any_block_is_seen_although_the_table_is_open() {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default().disable_auto_compactions(true);
    let db = Db::open_families("/db", &options(&disk), &[("default", family)]).unwrap();
    for round in 0..2 {
        (0..300).for_each(|number| db.put(format!("{round}key{number:03}"), vec![number as u8; 60]).unwrap());
        db.delete_range(format!("{round}x"), format!("{round}y")).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    assert_eq!(db.verify_checksums().unwrap(), 2);
    let table = db.table_files(&db.default_family()).unwrap().pop().unwrap();
    let path = format!("/db/{:06}.sst", table.number);
    for offset in (0..table.file_size).step_by(211) {
        disk.flip(Path::new(&path), offset, 4).unwrap();
        // What no checksum covers is padding of the footer.
        if let Err(error) = db.verify_checksums() {
            assert_eq!(error.file(), Some(Path::new(&path)), "{error}");
        } else {
            assert!(offset + 53 >= table.file_size, "offset {offset}");
        }
        disk.flip(Path::new(&path), offset, 4).unwrap();
    }
    assert_eq!(db.verify_checksums().unwrap(), 2);
}

#[test]
fn the_properties_of_a_table_say_what_is_in_it_and_how_large_it_was() {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default()
        .merge_operator(Some(Arc::new(AppendOperator::new(","))))
        .compression(CompressionType::Lz4)
        .table(TableOptions::default().bloom_bits_per_key(10.0));
    let db = Db::open_families("/db", &options(&disk), &[("default", family)]).unwrap();
    for number in 0..1_000 {
        db.put(format!("key{number:04}"), vec![7; 100]).unwrap();
    }
    db.merge("merged", "1").unwrap();
    db.delete("key9999").unwrap();
    db.delete_range("x", "y").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    let table = db.table_files(&db.default_family()).unwrap().remove(0);
    assert_eq!((table.num_merge_operands, table.num_range_deletions), (1, 1));
    assert_eq!(table.raw_key_size, 1_000 * (7 + 8) + (6 + 8) + (7 + 8) + (1 + 8));
    assert_eq!(table.raw_value_size, 1_000 * 100 + 1 + 1);
    assert!(table.data_size < table.raw_value_size / 4, "it shrinks: {}", table.data_size);
    assert!(table.num_data_blocks > 20 && table.index_size > 0 && table.filter_size > 1_000);
    assert!(table.data_size + table.filter_size < table.file_size);
    assert_eq!(table.compression, "LZ4");
    assert!(!table.filter_policy.is_empty());
    assert!(table.file_creation_time >= 1_700_000_000);
}

/// A database with the keys from `key0000` on in a table of the last level, valued 40 times 1, and again in one of level 0, valued 40 times 2.
fn with_last_level_and_one_above(family: ColumnFamilyOptions, keys: usize) -> Db {
    let family = family.disable_auto_compactions(true);
    let db = Db::open_families("/db", &options(&SimDisk::new()), &[("default", family)]).unwrap();
    let put = |value: u8| (0..keys).for_each(|number| db.put(format!("key{number:04}"), [value; 40]).unwrap());
    put(1);
    db.flush(&FlushOptions::default()).unwrap();
    let all = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &all).unwrap();
    put(2);
    db.flush(&FlushOptions::default()).unwrap();
    db
}

#[test]
fn only_tables_of_the_last_level_go_without_filters_where_most_reads_find_their_keys() {
    let family = ColumnFamilyOptions::default()
        .optimize_filters_for_hits(true)
        .table(TableOptions::default().bloom_bits_per_key(10.0));
    let db = with_last_level_and_one_above(family, 300);
    let filters = || {
        let tables = db.table_files(&db.default_family()).unwrap();
        tables.into_iter().map(|table| (table.level, table.filter_size > 0, table.filter_policy)).collect::<Vec<_>>()
    };
    assert_eq!(filters(), [(0, true, "bloomfilter".to_owned()), (6, false, String::new())]);
    assert_eq!(db.get("key0123").unwrap().as_deref(), Some(&[2; 40][..]));
    assert_eq!(db.get("key01234").unwrap(), None);
    let all = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &all).unwrap();
    assert_eq!(filters(), [(6, false, String::new())]);
    assert_eq!(db.get("key0123").unwrap().as_deref(), Some(&[2; 40][..]));
}

#[test]
fn filters_err_less_in_tables_that_are_asked_before_the_last_level() {
    let filter_bits = |policy: FilterPolicy, upper: f64| {
        let table = TableOptions::default().filter_policy(policy).upper_level_filter_bits(upper);
        let db = with_last_level_and_one_above(ColumnFamilyOptions::default().table(table), 4_000);
        let tables = db.table_files(&db.default_family()).unwrap();
        tables.into_iter().map(|table| (table.level, table.filter_size * 8 / 4_000)).collect::<Vec<_>>()
    };
    let bloom = FilterPolicy::Bloom { bits_per_key: 10.0 };
    assert_eq!(filter_bits(bloom, 6.0), [(0, 16), (6, 10)]);
    assert_eq!(filter_bits(bloom, 0.0), [(0, 10), (6, 10)]);
    assert_eq!(filter_bits(FilterPolicy::None, 6.0), [(0, 0), (6, 0)]);
    assert_eq!(filter_bits(FilterPolicy::Bloom { bits_per_key: 0.4 }, 6.0), [(0, 0), (6, 0)]);
    let ribbon = FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 10.0, bloom_before_level: -1 };
    let upper = filter_bits(ribbon, 6.0);
    assert!((10..14).contains(&upper[0].1) && (6..9).contains(&upper[1].1), "{upper:?}");
    assert_eq!(
        TableOptions::default().filter_policy(bloom).upper_level_filter_bits(100.5).validate().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    let db = Db::open("/db", &options(&SimDisk::new())).unwrap();
    db.set_options(&db.default_family(), &[("upper_level_filter_bits", "3.5")]).unwrap();
}

#[test]
fn a_key_is_found_in_its_newest_table_however_many_there_are() {
    let disk = SimDisk::new();
    let table = TableOptions::default().bloom_bits_per_key(10.0);
    let family = ColumnFamilyOptions::default().disable_auto_compactions(true).table(table);
    let db = Db::open_families("/db", &options(&disk), &[("default", family)]).unwrap();
    for round in 0..30 {
        db.put("a", format!("{round}")).unwrap();
        db.put(format!("key{round:02}"), "once").unwrap();
        db.put(format!("key{:02}", round / 2), format!("{round}")).unwrap();
        db.put("z", "").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        if round == 9 {
            let all = CompactRangeOptions::default().force_bottommost(true);
            db.compact_range(&db.default_family(), None, None, &all).unwrap();
        }
    }
    assert_eq!(db.table_files(&db.default_family()).unwrap().len(), 21);
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"29"[..]));
    assert_eq!(db.get("key99").unwrap(), None);
    for key in 0..30 {
        let expected = if key < 15 { format!("{}", 2 * key + 1) } else { "once".to_owned() };
        let found = db.get(format!("key{key:02}")).unwrap();
        assert_eq!(found.as_deref(), Some(expected.as_bytes()), "{key}");
    }
}

#[test]
fn the_log_of_compactions_says_what_was_done_and_forgets_the_oldest() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    let family = db.default_family();
    assert!(db.compaction_log().is_empty());
    let all = CompactRangeOptions::default().force_bottommost(true);
    let round = |round: u8| {
        db.put("a", vec![round; 10]).unwrap();
        db.put("b", vec![round; 10]).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        db.compact_range(&family, None, None, &all).unwrap();
    };
    round(1);
    round(2);
    let log = db.compaction_log();
    let last = log.last().unwrap();
    assert_eq!((last.info.reason, &*last.info.column_family), (CompactionReason::Manual, "default"));
    assert!(!last.info.inputs.is_empty() && last.info.input_bytes > 0);
    assert_eq!((last.info.outputs.len(), last.info.error.is_none()), (1, true));
    assert!(last.info.output_bytes > 0 && last.ended_unix_seconds >= 1_700_000_000);
    (0..=255).chain(0..20).for_each(round);
    let log = db.compaction_log();
    assert_eq!(log.len(), 256);
    assert!(log.windows(2).all(|pair| pair[0].info.job_id < pair[1].info.job_id), "oldest first");
    assert!(log[0].info.job_id > last.info.job_id);
}
