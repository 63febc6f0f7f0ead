//! Hash indexes: gets are led by prefixes where that is sound, and by bisection elsewhere.

use crate::iterator::InternalIterator;
use crate::key::{InternalKey, LookupKey, MAX_SEQNO, ValueType};
use crate::options::{CompressionType, IndexType, ReadTier, TableOptions};
use crate::sst::properties::index_type;
use crate::sst::test_util::{build, builder_options, open, reader_options};
use crate::sst::{TableIter, TableReadOptions, TableReader};
use siltstone_base::comparator::ReverseBytewise;
use siltstone_base::prefix_extractor::{CappedPrefix, FixedPrefix, PrefixExtractor};
use std::sync::Arc;

fn fixed(len: usize) -> Option<Arc<dyn PrefixExtractor>> {
    Some(Arc::new(FixedPrefix::new(len)))
}

fn capped(len: usize) -> Option<Arc<dyn PrefixExtractor>> {
    Some(Arc::new(CappedPrefix::new(len)))
}

/// Every third number as four digits.
fn user_key(number: u64) -> Vec<u8> {
    format!("{:04}", number * 3).into_bytes()
}

fn bytes_of(extractor: Option<Arc<dyn PrefixExtractor>>, versions: u64, more: &[&str]) -> Vec<u8> {
    let table =
        TableOptions::default().block_size(256).index_type(IndexType::HashSearch).index_block_restart_interval(8);
    let mut options = builder_options(table, CompressionType::Lz4);
    options.prefix_extractor = extractor;
    let mut keys: Vec<Vec<u8>> = (0..400).map(user_key).collect();
    keys.extend(more.iter().map(|key| key.as_bytes().to_vec()));
    keys.sort();
    let entries = keys.into_iter().flat_map(|user_key| {
        (0..versions).rev().map(move |version| {
            let key = InternalKey::new(&user_key, version + 1, ValueType::Put);
            (key.as_bytes().to_vec(), vec![b'v'; 30])
        })
    });
    build(options, entries).unwrap().0
}

fn open_with(bytes: Vec<u8>, extractor: Option<Arc<dyn PrefixExtractor>>) -> Arc<TableReader> {
    let mut options = reader_options();
    options.prefix_extractor = extractor;
    open(bytes, &options).unwrap()
}

fn find(reader: &TableReader, user_key: &[u8], seqno: u64, read_tier: ReadTier) -> Option<Option<u64>> {
    let read = TableReadOptions { read_tier, fill_cache: false, ..TableReadOptions::default() };
    let found = reader.get(&read, &LookupKey::new(user_key, seqno), None);
    found.ok().map(|entry| entry.map(|entry| entry.seqno))
}

#[test]
fn every_version_is_found_whatever_extractor_reads() {
    for versions in [1, 3, 40] {
        for written in [fixed(2), fixed(3), capped(3)] {
            let bytes = bytes_of(written.clone(), versions, &[]);
            for read in [written, fixed(4), None] {
                let reader = open_with(bytes.clone(), read);
                assert_eq!(reader.properties().index_type, index_type::HASH_SEARCH);
                for number in 0..400 {
                    for version in 1..=versions {
                        let found = find(&reader, &user_key(number), version, ReadTier::All);
                        assert_eq!(found, Some(Some(version)), "{number}, {version} of {versions}");
                    }
                    let next = [user_key(number), vec![b'x']].concat();
                    assert_eq!(find(&reader, &next, MAX_SEQNO, ReadTier::All), Some(None));
                }
                let mut iter = TableIter::new(reader, TableReadOptions::default(), 0);
                iter.seek(LookupKey::new(b"0500", MAX_SEQNO).internal_key());
                assert_eq!(&iter.key()[..4], b"0501");
            }
        }
    }
}

/// Without prefixes a get of a key beyond others has to read the block where it would be.
#[test]
fn prefixes_that_are_not_there_need_no_block() {
    let bytes = bytes_of(fixed(3), 1, &["1x23"]);
    let (with, without) = (open_with(bytes.clone(), fixed(3)), open_with(bytes, fixed(2)));
    assert!(with.memory_usage() > without.memory_usage() + 1000);
    for absent in ["0x00", "1234", "1x2"] {
        let cached = |reader| find(reader, absent.as_bytes(), MAX_SEQNO, ReadTier::BlockCache);
        assert_eq!(cached(&without), None, "{absent}");
        let is_prefix = absent == "1x2";
        assert_eq!(cached(&with), if is_prefix { None } else { Some(None) }, "{absent}");
    }
    assert_eq!(find(&with, b"1x23", MAX_SEQNO, ReadTier::All), Some(Some(1)));
}

#[test]
fn keys_without_a_prefix_are_found_by_bisection() {
    let reader = open_with(bytes_of(fixed(3), 1, &["0", "00", "9"]), fixed(3));
    for key in ["0", "00", "9", "0300"] {
        assert_eq!(find(&reader, key.as_bytes(), MAX_SEQNO, ReadTier::All), Some(Some(1)), "{key}");
    }
    assert_eq!(find(&reader, b"08", MAX_SEQNO, ReadTier::All), Some(None));
}

#[test]
fn a_table_in_another_order_is_read_as_well() {
    let table = TableOptions::default().block_size(256).index_type(IndexType::HashSearch);
    let mut options = builder_options(table, CompressionType::None);
    options.comparator = crate::key::InternalKeyComparator::new(Arc::new(ReverseBytewise));
    options.prefix_extractor = fixed(3);
    let mut read = reader_options();
    (read.comparator, read.prefix_extractor) = (options.comparator.clone(), fixed(3));
    let entries = (0..400)
        .rev()
        .map(|number| (InternalKey::new(&user_key(number), 1, ValueType::Put).as_bytes().to_vec(), vec![b'v'; 30]));
    let reader = open(build(options, entries).unwrap().0, &read).unwrap();
    for number in 0..400 {
        assert_eq!(find(&reader, &user_key(number), 1, ReadTier::All), Some(Some(1)), "{number}");
    }
}
