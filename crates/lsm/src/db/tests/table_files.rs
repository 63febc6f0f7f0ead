//! The list of live tables, what collectors stored in them, and their checksums.

use super::basics::options;
use crate::{
    CollectedEntry, ColumnFamilyId, ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, FileChecksum,
    FlushOptions, TablePropertiesCollector, TablePropertiesCollectorFactory,
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
