//! Filters of tables, in one block and in partitions: what they spare, and that they deny nothing that is there.

use crate::iterator::InternalIterator;
use crate::key::{InternalKey, LookupKey, MAX_SEQNO, ValueType};
use crate::options::{ChecksumType, CompressionType, FilterPolicy, IndexType, ReadTier, TableOptions};
use crate::sst::test_util::{build, builder_options, open, reader_options};
use crate::sst::{TableIter, TableReadOptions, TableReader};
use proptest::prelude::*;
use siltstone_base::checksum::xxph3;
use siltstone_base::prefix_extractor::{FixedPrefix, PrefixExtractor};
use std::sync::Arc;

/// Keys `0000` to `0999` in steps of 2, each in `versions` versions, in small blocks; partitions of the filter have few blocks.
fn partitioned(policy: FilterPolicy) -> TableOptions {
    TableOptions::default()
        .filter_policy(policy)
        .block_size(256)
        .checksum(ChecksumType::None)
        .index_type(IndexType::TwoLevel)
        .partition_filters(true)
        .metadata_block_size(128)
}

fn bloom() -> FilterPolicy {
    FilterPolicy::Bloom { bits_per_key: 20.0 }
}

fn ribbon() -> FilterPolicy {
    FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 20.0, bloom_before_level: -1 }
}

fn user_key(number: u64) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

fn bytes_of(table: TableOptions, extractor: Option<Arc<dyn PrefixExtractor>>, versions: u64) -> Vec<u8> {
    let mut options = builder_options(table, CompressionType::None);
    options.prefix_extractor = extractor;
    let entries = (0..500).flat_map(|number| {
        (0..versions).rev().map(move |version| {
            let key = InternalKey::new(&user_key(2 * number), version + 1, ValueType::Put);
            (key.as_bytes().to_vec(), vec![b'v'; 10])
        })
    });
    build(options, entries).unwrap().0
}

fn fixed(len: usize) -> Option<Arc<dyn PrefixExtractor>> {
    Some(Arc::new(FixedPrefix::new(len)))
}

fn open_with(bytes: Vec<u8>, extractor: Option<Arc<dyn PrefixExtractor>>, pin: bool) -> Arc<TableReader> {
    let mut options = reader_options();
    options.prefix_extractor = extractor;
    options.pin_filter_partitions = pin;
    open(bytes, &options).unwrap()
}

/// Whether a get of an absent key needs no data block.
fn is_spared(reader: &TableReader, number: u64) -> bool {
    let read = TableReadOptions { read_tier: ReadTier::BlockCache, ..TableReadOptions::default() };
    match reader.get(&read, &LookupKey::new(&user_key(number), MAX_SEQNO), None) {
        Ok(found) => {
            assert!(found.is_none());
            true
        }
        Err(_) => false,
    }
}

#[test]
fn partitions_are_asked_through_the_cache_or_pinned() {
    for policy in [bloom(), ribbon()] {
        let bytes = bytes_of(partitioned(policy), None, 1);
        let pinned = open_with(bytes.clone(), None, true);
        assert!(pinned.memory_usage() > open_with(bytes.clone(), None, false).memory_usage() + 1000);
        assert!((0..500).filter(|number| is_spared(&pinned, 2 * number + 1)).count() > 490);
        assert!((0..500).all(|number| !is_spared(&pinned, 2 * number)));

        let reader = open_with(bytes, None, false);
        assert!(!is_spared(&reader, 501), "the partition is not in the cache");
        let read = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        let absent = LookupKey::new(b"0501", MAX_SEQNO);
        assert_eq!(reader.get(&read, &absent, None).unwrap(), None);
        assert!(!is_spared(&reader, 501), "nor was it put there");
        assert_eq!(reader.get(&TableReadOptions::default(), &absent, Some(xxph3(b"0501"))).unwrap(), None);
        assert!(is_spared(&reader, 501));
        assert_eq!(reader.properties().num_filter_entries, 500);
        assert!(reader.properties().filter_size > 1000);
    }
}

#[test]
fn every_version_is_found_where_keys_span_blocks() {
    for versions in [1, 3, 40] {
        let reader = open_with(bytes_of(partitioned(bloom()), fixed(2), versions), fixed(2), false);
        assert_eq!(reader.properties().index_key_is_user_key, versions == 1);
        for number in 0..500 {
            for version in 0..versions {
                let key = LookupKey::new(&user_key(2 * number), version + 1);
                let found = reader.get(&TableReadOptions::default(), &key, None).unwrap();
                assert_eq!(found.map(|entry| entry.seqno), Some(version + 1), "{number}, {versions} versions");
            }
        }
    }
}

#[test]
fn limited_seeks_find_every_key_of_their_prefix() {
    let full = TableOptions::default().filter_policy(ribbon()).block_size(256);
    for (whole_keys, table) in [(true, partitioned(bloom())), (false, partitioned(ribbon())), (false, full)] {
        for versions in [1, 40] {
            let table = table.clone().whole_key_filtering(whole_keys);
            let reader = open_with(bytes_of(table, fixed(3), versions), fixed(3), false);
            let mut iter = TableIter::new(reader, TableReadOptions::default(), 0);
            for number in 0..1000 {
                let prefix = user_key(number)[..3].to_vec();
                iter.set_prefix(Some(xxph3(&prefix)));
                let target = LookupKey::new(&user_key(number), MAX_SEQNO);
                iter.seek(target.internal_key());
                let next = number.next_multiple_of(2);
                let found = iter.valid().then(|| iter.key()[..4].to_vec());
                if user_key(next).starts_with(&prefix) && next < 1000 {
                    assert_eq!(found, Some(user_key(next)), "at or after {number}");
                }
                iter.seek_for_prev(InternalKey::new(&user_key(number), 0, ValueType::Delete).as_bytes());
                let found = iter.valid().then(|| iter.key()[..4].to_vec());
                assert_eq!(found, Some(user_key(number - number % 2)), "at or before {number}");
            }
            for absent in ["1000", "999x", "/"] {
                iter.set_prefix(Some(xxph3(absent.get(..3).unwrap_or(absent).as_bytes())));
                iter.seek(LookupKey::new(absent.as_bytes(), MAX_SEQNO).internal_key());
                assert!(!iter.valid(), "{absent}");
            }
        }
    }
}

#[test]
fn properties_name_what_is_in_the_filter() {
    let reader = open_with(bytes_of(partitioned(ribbon()), fixed(3), 1), None, false);
    let properties = reader.properties();
    assert_eq!(properties.filter_policy, "ribbonfilter");
    assert_eq!((properties.whole_key_filtering, properties.prefix_filtering), (true, true));
    assert_eq!(properties.prefix_extractor, "rocksdb.FixedPrefix.3");
    let plain = TableOptions::default().whole_key_filtering(false);
    let reader = open_with(bytes_of(plain, None, 1), None, false);
    let properties = reader.properties();
    assert_eq!((properties.filter_policy.as_str(), properties.prefix_extractor.as_str()), ("", ""));
    assert_eq!((properties.whole_key_filtering, properties.prefix_filtering), (false, false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever a filter's bytes are: an answer or a typed error, and no entry that is not there.
    #[test]
    fn damaged_filters_answer(at: prop::sample::Index, wound in prop::collection::vec(any::<u8>(), 1..80), cut: bool, pin: bool) {
        let mut table = partitioned(ribbon());
        if cut {
            table = table.partition_filters(false);
        }
        let mut bytes = bytes_of(table, fixed(3), 1);
        let whole = open_with(bytes.clone(), fixed(3), false);
        let (start, len) = (whole.properties().data_size as usize, whole.properties().filter_size as usize);
        let at = start + at.index(len);
        for (byte, wound) in bytes[at..start + len].iter_mut().zip(&wound) {
            *byte = *wound;
        }
        let mut options = reader_options();
        options.prefix_extractor = fixed(3);
        options.pin_filter_partitions = pin;
        let Ok(reader) = open(bytes, &options) else { return Ok(()) };
        for number in (0..1000).step_by(7) {
            let key = LookupKey::new(&user_key(number), MAX_SEQNO);
            let found = reader.get(&TableReadOptions::default(), &key, None).unwrap();
            prop_assert!(found.is_none() || number % 2 == 0);
            let _ = reader.may_have_prefix(xxph3(&user_key(number)[..3]), key.internal_key(), true, &TableReadOptions::default());
        }
    }
}
