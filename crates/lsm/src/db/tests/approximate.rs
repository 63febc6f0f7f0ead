//! Sizes and numbers of entries, about.

use super::basics::options;
use crate::{ApproximateSize, ColumnFamilyOptions, CompactRangeOptions, Db, FlushOptions, IndexType, TableOptions};
use siltstone_base::env::sim::SimDisk;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn put(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        // Bytes that no codec shortens much.
        let value: Vec<u8> = (0..50_u32).map(|at| (number.wrapping_mul(2_654_435_761) >> (at % 24)) as u8).collect();
        db.put(key(number), value).unwrap();
    }
}

fn size(db: &Db, numbers: std::ops::Range<u32>) -> ApproximateSize {
    let (begin, end) = (key(numbers.start), key(numbers.end));
    db.approximate_sizes(&db.default_family(), &[(&begin, &end)]).unwrap()[0]
}

fn assert_near(found: u64, wanted: u64, what: &str) {
    assert!(found * 10 > wanted * 7 && found * 10 < wanted * 13, "{what}: {found}, not about {wanted}");
}

#[test]
fn memtables_are_sampled() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    put(&db, 0..20_000);
    let whole = size(&db, 0..20_000);
    assert_near(whole.memtable_entries, 20_000, "all");
    assert_near(
        whole.memtable_bytes,
        db.property("rocksdb.cur-size-active-mem-table").unwrap().parse().unwrap(),
        "bytes",
    );
    for part in [0..5_000, 7_000..17_000, 19_000..30_000] {
        let there = u64::from(part.end.min(20_000) - part.start);
        let part = size(&db, part);
        assert_near(part.memtable_entries, there, "a part");
        assert_eq!((part.table_bytes, part.table_entries), (0, 0));
    }
    assert_eq!(size(&db, 100..150).memtable_entries, 50, "few are counted");
    assert_eq!(size(&db, 30_000..40_000), ApproximateSize::default());
    let backwards = db.approximate_sizes(&db.default_family(), &[(b"z", b"a"), (b"a", b"a")]).unwrap();
    assert_eq!(backwards, [ApproximateSize::default(); 2]);
}

#[test]
fn tables_are_asked_for_what_their_indexes_know() {
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevel] {
        let disk = SimDisk::new();
        let table = TableOptions::default().index_type(index_type).metadata_block_size(256).block_size(512);
        let family =
            ColumnFamilyOptions::default().table(table).target_file_size_base(100 << 10).disable_auto_compactions(true);
        let db = Db::open_families("/db", &options(&disk), &[("default", family)]).unwrap();
        put(&db, 0..20_000);
        db.flush(&FlushOptions::default()).unwrap();
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        // A table of level 0 over a part of them.
        put(&db, 5_000..6_000);
        db.flush(&FlushOptions::default()).unwrap();
        let total: u64 = db.property("rocksdb.live-sst-files-size").unwrap().parse().unwrap();
        let whole = size(&db, 0..20_000);
        assert_eq!((whole.table_bytes, whole.table_entries, whole.memtable_entries), (total, 21_000, 0));
        for (part, there) in
            [(0..10_000, 11_000), (2_000..4_000, 2_000), (5_000..6_000, 2_000), (12_345..20_000, 7_655)]
        {
            let part = size(&db, part);
            assert_near(part.table_entries, there, "entries");
            assert_near(part.table_bytes, total * there / 21_000, "bytes");
        }
        assert_eq!(size(&db, 20_000..30_000), ApproximateSize::default());
        put(&db, 8_000..8_050);
        assert_eq!(size(&db, 7_000..9_000).memtable_entries, 50);
    }
}
