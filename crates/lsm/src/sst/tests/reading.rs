//! Options of a read, other orders of keys, and blocks that keep a value alive.

use crate::iterator::InternalIterator;
use crate::key::{InternalKey, InternalKeyComparator, LookupKey, ValueType};
use crate::options::{CompressionType, IndexType, ReadTier, TableOptions};
use crate::sst::test_util::{build, builder_options, open, reader_options};
use crate::sst::{BlockCache, TableIter, TableReadOptions};
use siltstone_base::ErrorKind;
use siltstone_base::comparator::ReverseBytewise;
use siltstone_base::sync::Arc;

fn user_key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn entries(numbers: impl Iterator<Item = u64>) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    numbers.map(|number| {
        let key = InternalKey::new(&user_key(number), number, ValueType::Put);
        (key.as_bytes().to_vec(), number.to_le_bytes().repeat(10))
    })
}

#[test]
fn a_read_of_the_cache_alone_is_incomplete_until_the_block_is_there() {
    let options = builder_options(TableOptions::default(), CompressionType::Lz4);
    let reader = open(build(options, entries(0..500)).unwrap().0, &reader_options()).unwrap();
    let cached = TableReadOptions { read_tier: ReadTier::BlockCache, ..TableReadOptions::default() };
    let unkept = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let key = LookupKey::new(&user_key(250), 1000);
    let walk = |options| {
        let mut iter = TableIter::new(reader.clone(), options, 0);
        iter.seek(key.internal_key());
        iter.status().map(|()| iter.key().to_vec())
    };
    assert_eq!(reader.get(&cached, &key, None).unwrap_err().kind(), ErrorKind::Incomplete);
    assert_eq!(walk(cached).unwrap_err().kind(), ErrorKind::Incomplete);
    assert!(reader.get(&unkept, &key, None).unwrap().is_some());
    assert_eq!(reader.get(&cached, &key, None).unwrap_err().kind(), ErrorKind::Incomplete);
    assert!(reader.get(&TableReadOptions::default(), &key, None).unwrap().is_some());
    assert_eq!(reader.get(&cached, &key, None).unwrap().unwrap().seqno, 250);
    assert_eq!(walk(cached).unwrap()[..8], user_key(250));
}

#[test]
fn a_compaction_leaves_the_cache_alone() {
    let options = builder_options(TableOptions::default(), CompressionType::Lz4);
    let mut read = reader_options();
    read.block_cache = Arc::new(BlockCache::new(1 << 20));
    let reader = open(build(options, entries(0..5000)).unwrap().0, &read).unwrap();
    let mut iter = TableIter::for_compaction(reader, TableReadOptions::default(), 1 << 16);
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next();
    }
    assert_eq!(count, 5000);
    assert_eq!(read.block_cache.usage(), 0);
}

#[test]
fn a_value_outlives_its_table() {
    let options = builder_options(TableOptions::default(), CompressionType::None);
    let reader = open(build(options, entries(0..500)).unwrap().0, &reader_options()).unwrap();
    let key = LookupKey::new(&user_key(7), 1000);
    let entry = reader.get(&TableReadOptions::default(), &key, None).unwrap().unwrap();
    drop(reader);
    assert_eq!(&*entry.value, 7u64.to_le_bytes().repeat(10));
    assert_eq!(entry.value.clone().into_vec(), entry.value.to_vec());
}

#[test]
fn other_orders_of_keys_are_kept() {
    let order = InternalKeyComparator::new(Arc::new(ReverseBytewise));
    let table = TableOptions::default().block_size(256).block_restart_interval(3).bloom_bits_per_key(10.0);
    let mut options = builder_options(table, CompressionType::Lz4);
    options.comparator = order.clone();
    let (bytes, _) = build(options, entries((0..500).rev().map(|number| 2 * number))).unwrap();

    let error = open(bytes.clone(), &reader_options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "the comparator differs");

    let mut read = reader_options();
    read.comparator = order;
    let reader = open(bytes, &read).unwrap();
    let mut iter = TableIter::new(reader.clone(), TableReadOptions::default(), 0);
    iter.seek_to_first();
    for number in (0..500).rev() {
        assert_eq!(iter.key()[..8], user_key(2 * number));
        iter.next();
    }
    assert!(!iter.valid());
    for number in 0..1000 {
        let key = LookupKey::new(&user_key(number), 5000);
        let found = reader.get(&TableReadOptions::default(), &key, None).unwrap();
        assert_eq!(found.is_some(), number % 2 == 0);
        iter.seek(key.internal_key());
        assert_eq!(iter.key()[..8], user_key(number & !1), "the next one in descending order");
        iter.seek_for_prev(key.internal_key());
        let before = (number + 1).next_multiple_of(2);
        assert_eq!(iter.valid(), before < 1000, "the entry at or before");
    }
}

#[test]
fn partitions_of_an_index_come_through_the_cache() {
    let table = TableOptions::default().block_size(256).index_type(IndexType::TwoLevel).metadata_block_size(128);
    let (bytes, _) = build(builder_options(table, CompressionType::None), entries(0..2000)).unwrap();
    let mut read = reader_options();
    read.block_cache = Arc::new(BlockCache::new(1 << 20));
    let reader = open(bytes, &read).unwrap();
    assert!(reader.is_partitioned());
    let properties = reader.properties();
    assert_eq!(properties.index_partitions, reader.index().len() as u64);
    assert!(properties.index_partitions > 10 && properties.top_level_index_size > 100);
    assert_eq!(read.block_cache.usage(), 0, "none is held by an open table");

    let cached = TableReadOptions { read_tier: ReadTier::BlockCache, ..TableReadOptions::default() };
    let key = LookupKey::new(&user_key(777), 5000);
    assert_eq!(reader.get(&cached, &key, None).unwrap_err().kind(), ErrorKind::Incomplete);
    let inserts = |cache: &BlockCache| cache.stats().inserts;
    assert!(reader.get(&TableReadOptions::default(), &key, None).unwrap().is_some());
    assert_eq!(inserts(&read.block_cache), 2, "a partition and a data block");
    assert!(reader.get(&cached, &key, None).unwrap().is_some());

    let mut iter = TableIter::for_compaction(reader.clone(), TableReadOptions::default(), 1 << 16);
    iter.seek_to_first();
    for _ in 0..2000 {
        assert!(iter.valid());
        iter.next();
    }
    assert!(!iter.valid());
    assert_eq!(inserts(&read.block_cache), 2, "a compaction leaves the cache alone");
}
