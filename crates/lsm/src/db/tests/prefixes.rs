//! Walks within a prefix: what they show, and that filters spare them the disk.

use super::basics::options;
use crate::{
    BlockCache, CappedPrefix, ColumnFamilyOptions, Counter, Db, ErrorKind, FixedPrefix, FlushOptions, PrefixExtractor,
    ReadOptions, ReadTier, TableOptions,
};
use siltstone_base::comparator::ReverseBytewise;
use siltstone_base::env::sim::SimDisk;
use std::sync::Arc;

fn family(extractor: Option<Arc<dyn PrefixExtractor>>) -> ColumnFamilyOptions {
    let table = TableOptions::default().bloom_bits_per_key(20.0).block_size(256);
    ColumnFamilyOptions::default()
        .prefix_extractor(extractor)
        .disable_auto_compactions(true)
        .target_file_size_base(1024)
        .table(table)
}

fn fixed(len: usize) -> Option<Arc<dyn PrefixExtractor>> {
    Some(Arc::new(FixedPrefix::new(len)))
}

fn open(disk: &SimDisk, family: ColumnFamilyOptions) -> Db {
    let cache = Arc::new(BlockCache::new(0));
    Db::open_families("/db", &options(disk).block_cache(Some(cache)), &[("default", family)]).unwrap()
}

/// Keys `p0010` to `p4919`: prefixes of two characters with odd numbers are absent, and so is half of what each prefix could have.
fn fill(db: &Db) {
    for prefix in (0..50).step_by(2) {
        for number in 0..10 {
            db.put(format!("p{prefix:02}{:02}", 2 * number), "v".repeat(20)).unwrap();
        }
    }
    db.flush(&FlushOptions::default()).unwrap();
    // A read that may not read opens none.
    db.open_tables_for_test().unwrap();
}

fn forward(db: &Db, options: &ReadOptions, from: &str) -> crate::Result<Vec<String>> {
    let mut iter = db.iter(options)?;
    iter.seek(from.as_bytes());
    let mut keys = Vec::new();
    while iter.valid() {
        keys.push(String::from_utf8(iter.key().to_vec()).unwrap());
        iter.next();
    }
    iter.status().map(|()| keys)
}

fn backward(db: &Db, options: &ReadOptions, from: &str) -> crate::Result<Vec<String>> {
    let mut iter = db.iter(options)?;
    iter.seek_for_prev(from.as_bytes());
    let mut keys = Vec::new();
    while iter.valid() {
        keys.push(String::from_utf8(iter.key().to_vec()).unwrap());
        iter.prev();
    }
    iter.status().map(|()| keys)
}

/// What was counted of filters: by keys denied, allowed and found, by prefixes checked, useful and found.
fn filter_counts(db: &Db) -> [u64; 6] {
    [
        Counter::FilterUseful,
        Counter::FilterFullPositive,
        Counter::FilterFullTruePositive,
        Counter::FilterPrefixChecked,
        Counter::FilterPrefixUseful,
        Counter::FilterPrefixTruePositive,
    ]
    .map(|counter| db.metrics().get(counter))
}

#[test]
fn what_filters_spare_is_counted() {
    let disk = SimDisk::new();
    let db = open(&disk, family(fixed(3)));
    fill(&db);
    let tables = db.table_files(&db.default_family()).unwrap().len() as u64;
    assert_eq!((tables, filter_counts(&db)), (1, [0; 6]));
    for number in 0..20 {
        let found = db.get(format!("p04{number:02}")).unwrap();
        assert_eq!(found.is_some(), number % 2 == 0);
    }
    assert_eq!(filter_counts(&db), [10, 10, 10, 0, 0, 0], "20 bits a key: no false answer among so few");
    assert_eq!(forward(&db, &limited(), "p0400").unwrap().len(), 10);
    assert_eq!(filter_counts(&db)[3..], [1, 0, 0]);
    assert!(forward(&db, &limited(), "p0500").unwrap().is_empty());
    assert_eq!(filter_counts(&db)[3..], [2, 1, 0]);
    assert_eq!(forward(&db, &ReadOptions::default(), "p04").unwrap().len(), 230);
    assert_eq!(filter_counts(&db)[3..], [2, 1, 0], "such a walk asks no filter");

    // Filters that have prefixes alone.
    let disk = SimDisk::new();
    let options = family(fixed(3));
    let table = options.table.clone().whole_key_filtering(false);
    let db = open(&disk, options.table(table));
    fill(&db);
    for key in ["p0400", "p0401", "p0500"] {
        db.get(key).unwrap();
    }
    assert_eq!(filter_counts(&db), [0, 0, 0, 3, 1, 1]);
}

fn limited() -> ReadOptions {
    ReadOptions::default().prefix_same_as_start(true)
}

/// Fails with `Incomplete` wherever a block would be read: with a cache of nothing only what needs no block at all succeeds.
fn without_reading(options: ReadOptions) -> ReadOptions {
    options.read_tier(ReadTier::BlockCache)
}

fn is_spared(result: crate::Result<Vec<String>>) -> bool {
    match result {
        Ok(keys) => {
            assert!(keys.is_empty());
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Incomplete);
            false
        }
    }
}

#[test]
fn a_limited_walk_shows_its_prefix_and_ends() {
    let disk = SimDisk::new();
    let db = open(&disk, family(fixed(3)));
    fill(&db);
    db.put("p0401", "in the memtable").unwrap();
    db.delete("p0402").unwrap();
    assert_eq!(forward(&db, &limited(), "p0400").unwrap()[..3], ["p0400", "p0401", "p0404"]);
    assert_eq!(forward(&db, &limited(), "p0417").unwrap(), ["p0418"]);
    assert_eq!(backward(&db, &limited(), "p0403").unwrap(), ["p0401", "p0400"]);
    assert!(forward(&db, &limited(), "p0419").unwrap().is_empty());
    assert!(forward(&db, &limited(), "p0500").unwrap().is_empty());
    assert_eq!(forward(&db, &limited(), "p4").unwrap().len(), 50, "a key without prefix limits nothing");
    // The ends: the prefix of the first and of the last key.
    let mut iter = db.iter(&limited()).unwrap();
    iter.seek_to_first();
    let mut keys = 0;
    while iter.valid() {
        keys += 1;
        iter.next();
    }
    assert_eq!(keys, 10);
    iter.seek_to_last();
    assert_eq!(iter.key(), b"p4818");
    iter.prev();
    assert_eq!(iter.key(), b"p4816");
    iter.next();
    iter.next();
    assert!(!iter.valid());
    // Bounds hold within the prefix.
    let bounded = limited().iterate_upper_bound(Some(b"p0408".to_vec())).iterate_lower_bound(Some(b"p0404".to_vec()));
    assert_eq!(forward(&db, &bounded, "p0400").unwrap(), ["p0404", "p0406"]);
    assert_eq!(backward(&db, &bounded, "p0499").unwrap(), ["p0406", "p0404"]);
    assert!(backward(&db, &bounded, "p4800").unwrap().is_empty());
}

#[test]
fn filters_spare_walks_the_tables_without_their_prefix() {
    for levels in [false, true] {
        let disk = SimDisk::new();
        let db = open(&disk, family(fixed(3)));
        fill(&db);
        if levels {
            db.compact_range(&db.default_family(), None, None, &Default::default()).unwrap();
            assert_ne!(db.property("rocksdb.num-files-at-level0").unwrap(), "1");
            db.open_tables_for_test().unwrap();
        }
        for from in ["p0500", "p2101", "p4700"] {
            assert!(is_spared(forward(&db, &without_reading(limited()), from)), "{from}, levels: {levels}");
            assert!(is_spared(backward(&db, &without_reading(limited()), from)), "{from}, levels: {levels}");
            assert!(!is_spared(forward(&db, &without_reading(limited().total_order_seek(true)), from)));
            assert!(!is_spared(forward(&db, &without_reading(ReadOptions::default()), from)));
        }
        let error = forward(&db, &without_reading(limited()), "p0400").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incomplete, "the prefix is there");
    }
}

#[test]
fn the_upper_bound_lets_walks_ask_filters_by_themselves() {
    let disk = SimDisk::new();
    let db = open(&disk, family(fixed(3)));
    fill(&db);
    let auto = |bound: &str| {
        ReadOptions::default().auto_prefix_mode(true).iterate_upper_bound(Some(bound.as_bytes().to_vec()))
    };
    for (from, bound, spared) in [
        ("p0500", "p0599", true),
        ("p0500", "p06", true),
        ("p0500", "p0600", false),
        ("p0500", "p07", false),
        ("p05", "p05", true),
        ("p0", "p05", false),
    ] {
        let spares = match forward(&db, &without_reading(auto(bound)), from) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Incomplete);
                false
            }
        };
        assert_eq!(spares, spared, "from {from} to {bound}");
        let plain = ReadOptions::default().iterate_upper_bound(Some(bound.as_bytes().to_vec()));
        assert_eq!(forward(&db, &auto(bound), from).unwrap(), forward(&db, &plain, from).unwrap());
        assert_eq!(backward(&db, &auto(bound), from).unwrap(), backward(&db, &plain, from).unwrap());
    }
    // Going back leaves the prefix that was sought.
    let mut iter = db.iter(&auto("p0699")).unwrap();
    iter.seek(b"p0600");
    assert_eq!(iter.key(), b"p0600");
    iter.prev();
    assert_eq!(iter.key(), b"p0418");
}

#[test]
fn a_capped_prefix_that_is_short_says_nothing_of_longer_keys() {
    let disk = SimDisk::new();
    let db = open(&disk, family(Some(Arc::new(CappedPrefix::new(3)))));
    fill(&db);
    db.put("p0", "a short key").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    assert_eq!(forward(&db, &limited(), "p0").unwrap(), ["p0"]);
    let auto = ReadOptions::default().auto_prefix_mode(true).iterate_upper_bound(Some(b"p1".to_vec()));
    assert_eq!(forward(&db, &auto, "p0").unwrap().len(), 51);
}

#[test]
fn filters_of_another_extractor_are_not_asked_for_prefixes() {
    let disk = SimDisk::new();
    let db = open(&disk, family(fixed(3)));
    fill(&db);
    db.close().unwrap();
    for extractor in [fixed(2), Some(Arc::new(CappedPrefix::new(3)) as Arc<dyn PrefixExtractor>)] {
        let db = open(&disk, family(extractor));
        assert!(!is_spared(forward(&db, &without_reading(limited()), "p0500")));
        assert_eq!(forward(&db, &limited(), "p0410").unwrap()[0], "p0410");
        assert!(db.get("p0410").unwrap().is_some());
        db.close().unwrap();
    }
    // Without an extractor nothing is limited.
    let db = open(&disk, family(None));
    assert_eq!(forward(&db, &limited(), "p4810").unwrap().len(), 5);
    assert_eq!(forward(&db, &limited(), "p4610").unwrap().len(), 15);
}

#[test]
fn gets_ask_for_the_prefix_where_whole_keys_are_not_in_the_filter() {
    let disk = SimDisk::new();
    let mut options = family(fixed(3));
    options.table = options.table.whole_key_filtering(false);
    let db = open(&disk, options);
    fill(&db);
    let get = |key: &str| {
        let options = without_reading(ReadOptions::default());
        db.get_cf(&db.default_family(), key, &options).map(|value| value.is_some())
    };
    assert!(!get("p0500").unwrap(), "the prefix is absent");
    assert_eq!(get("p0401").unwrap_err().kind(), ErrorKind::Incomplete, "the key is absent, its prefix is not");
    assert!(db.get("p0400").unwrap().is_some());
    assert!(db.get("p0401").unwrap().is_none());
}

#[test]
fn prefixes_are_neighbours_in_the_reverse_order_too() {
    let disk = SimDisk::new();
    let db = open(&disk, family(fixed(3)).comparator(Arc::new(ReverseBytewise)));
    fill(&db);
    db.compact_range(&db.default_family(), None, None, &Default::default()).unwrap();
    assert_eq!(forward(&db, &limited(), "p0404").unwrap(), ["p0404", "p0402", "p0400"]);
    assert_eq!(backward(&db, &limited(), "p0414").unwrap(), ["p0414", "p0416", "p0418"]);
    let auto = ReadOptions::default().auto_prefix_mode(true).iterate_upper_bound(Some(b"p03".to_vec()));
    assert_eq!(forward(&db, &auto, "p0404").unwrap(), ["p0404", "p0402", "p0400"]);
}

#[test]
fn a_key_that_filters_deny_does_not_exist() {
    let disk = SimDisk::new();
    let db = open(&disk, family(None));
    fill(&db);
    db.put("memtable", "v").unwrap();
    let may_exist = |key: &str| db.key_may_exist(&db.default_family(), key, &ReadOptions::default()).unwrap();
    assert!(may_exist("p0400") && may_exist("memtable"));
    assert!(!may_exist("p0501"));
    db.delete("memtable").unwrap();
    assert!(!may_exist("memtable"));
}
