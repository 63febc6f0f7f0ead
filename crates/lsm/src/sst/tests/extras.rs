//! Dictionaries, collected properties and the checksum of a whole file.

use crate::iterator::InternalIterator;
use crate::key::{ColumnFamilyId, InternalKey, LookupKey, ValueType};
use crate::options::{CompressionType, FilterPolicy, IndexType, TableOptions};
use crate::sst::block::for_each_entry;
use crate::sst::properties::TableProperties;
use crate::sst::test_util::{MemoryFile, build, builder_options, open, reader_options};
use crate::sst::{
    CollectedEntry, DictionaryOptions, TableBuilder, TableIter, TablePropertiesCollector,
    TablePropertiesCollectorFactory, TableReadOptions,
};
use siltstone_base::checksum::crc32c;
use std::path::PathBuf;
use std::sync::Arc;

fn entries(count: u64) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..count).map(|number| {
        let key = InternalKey::new(format!("user{number:06}").as_bytes(), number + 1, ValueType::Put);
        let value = format!("city=Amsterdam street=Damrak number={} name={}", number * 7919 % 100, number * 31 % 977);
        (key.as_bytes().to_vec(), value.into_bytes())
    })
}

#[test]
fn tables_with_dictionaries_are_smaller_and_read_back() {
    let codecs = [CompressionType::Zstd, CompressionType::Lz4, CompressionType::Zlib];
    for (codec, index_type) in codecs.into_iter().flat_map(|codec| {
        [IndexType::BinarySearch, IndexType::TwoLevel, IndexType::BinarySearchWithFirstKey].map(|kind| (codec, kind))
    }) {
        let size = |dictionary: DictionaryOptions| {
            let table = TableOptions::default().block_size(256).index_type(index_type);
            let mut options = builder_options(table, codec);
            options.dictionary = dictionary;
            let (bytes, summary) = build(options, entries(3000)).unwrap();
            let reader = open(bytes, &reader_options()).unwrap();
            let mut iter = TableIter::new(reader.clone(), TableReadOptions::default(), 0);
            iter.seek_to_first();
            for (key, value) in entries(3000) {
                iter.status().unwrap();
                assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
                iter.next();
            }
            assert!(!iter.valid());
            for number in [0, 1, 1500, 2999] {
                let key = LookupKey::new(format!("user{number:06}").as_bytes(), 10_000);
                assert!(reader.get(&TableReadOptions::default(), &key, None).unwrap().is_some());
            }
            assert_eq!(reader.properties().num_data_blocks, summary.num_data_blocks);
            summary.data_size
        };
        let none = size(DictionaryOptions::default());
        // Samples as they are; trained on a part of the table; trained when the whole table waited.
        for (train_bytes, buffer_bytes) in [(0, 0), (40 << 10, 50 << 10), (40 << 10, 64 << 20)] {
            let dictionary = DictionaryOptions { max_bytes: 4096, train_bytes, buffer_bytes };
            let with = size(dictionary);
            assert!(with < none * 9 / 10, "{codec:?}, {dictionary:?}: {with} of {none} bytes");
        }
    }
}

/// What ends a table takes as many steps as it needs, and changes nothing.
#[test]
fn tables_that_are_ended_in_steps_are_the_same() {
    let ribbon = FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 10.0, bloom_before_level: -1 };
    for policy in [FilterPolicy::None, FilterPolicy::Bloom { bits_per_key: 10.0 }, ribbon] {
        for waiting in [0, 64 << 20] {
            let options = || {
                let table = TableOptions::default().block_size(256).filter_policy(policy);
                let mut options = builder_options(table, CompressionType::Zstd);
                options.dictionary =
                    DictionaryOptions { max_bytes: waiting.min(1000), train_bytes: 0, buffer_bytes: waiting };
                options
            };
            let (at_once, summary) = build(options(), entries(10_000)).unwrap();
            let file = MemoryFile::new(Vec::new());
            let mut builder =
                TableBuilder::new(Box::new(file.clone()), PathBuf::from("000009.sst"), options()).unwrap();
            entries(10_000).for_each(|(key, value)| builder.add(&key, &value).unwrap());
            let mut steps = 1;
            while !builder.prepare(&mut || true).unwrap() {
                steps += 1;
            }
            assert_eq!(builder.finish().unwrap(), summary);
            assert!(file.bytes() == at_once, "{policy:?}");
            let least = if waiting > 0 { 100 } else { 0 } + if policy == FilterPolicy::None { 1 } else { 2 };
            assert!(steps >= least, "{policy:?}, {waiting} bytes wait: {steps} steps");
        }
    }
}

#[test]
fn a_dictionary_of_nothing_is_none() {
    for count in [0, 1] {
        let mut options = builder_options(TableOptions::default(), CompressionType::Zstd);
        options.dictionary = DictionaryOptions { max_bytes: 1000, train_bytes: 1000, buffer_bytes: 0 };
        let (bytes, summary) = build(options, entries(count)).unwrap();
        assert_eq!(summary.num_entries, count);
        let mut iter = TableIter::new(open(bytes, &reader_options()).unwrap(), TableReadOptions::default(), 0);
        iter.seek_to_first();
        assert_eq!(iter.valid(), count == 1);
    }
}

#[derive(Debug)]
struct Sums;

#[derive(Debug, Default)]
struct Sum {
    seqnos: u64,
    value_bytes: u64,
}

impl TablePropertiesCollectorFactory for Sums {
    fn name(&self) -> &str {
        "sums"
    }

    fn collector(&self, family: ColumnFamilyId) -> Box<dyn TablePropertiesCollector> {
        assert_eq!(family, ColumnFamilyId(0));
        Box::new(Sum::default())
    }
}

impl TablePropertiesCollector for Sum {
    fn add(&mut self, entry: &CollectedEntry<'_>) {
        assert!(entry.user_key.starts_with(b"user"));
        assert_eq!(entry.value_type, ValueType::Put);
        self.seqnos += entry.seqno;
        self.value_bytes += entry.value.len() as u64;
    }

    fn finish(self: Box<Self>) -> Vec<(String, Vec<u8>)> {
        vec![
            ("sum.of.seqnos".to_owned(), self.seqnos.to_le_bytes().to_vec()),
            ("~value.bytes".to_owned(), self.value_bytes.to_le_bytes().to_vec()),
            ("rocksdb.num.entries".to_owned(), b"not yours".to_vec()),
            (String::new(), Vec::new()),
            ("too long".to_owned(), vec![0; (1 << 20) + 1]),
        ]
    }
}

#[test]
fn collected_properties_are_stored() {
    let mut options = builder_options(TableOptions::default(), CompressionType::Lz4);
    options.collectors = vec![Arc::new(Sums)];
    let (bytes, summary) = build(options, entries(100)).unwrap();
    let reader = open(bytes, &reader_options()).unwrap();
    let properties = reader.properties();
    assert_eq!(properties.num_entries, 100);
    assert_eq!(properties.collectors, "[sums]");
    let collected: Vec<_> = properties.collected().into_iter().collect();
    assert_eq!(
        collected,
        [
            (b"sum.of.seqnos".to_vec(), 5050u64.to_le_bytes().to_vec()),
            (b"~value.bytes".to_vec(), summary.raw_value_size.to_le_bytes().to_vec()),
        ]
    );
    assert_eq!((properties.smallest_seqno, properties.largest_seqno), (Some(1), Some(100)));
    assert_eq!(properties.data_block_restart_interval, 16);
}

#[test]
fn the_checksum_of_a_file_is_that_of_all_its_bytes() {
    let mut options = builder_options(TableOptions::default(), CompressionType::None);
    assert_eq!(build(options.clone(), entries(10)).unwrap().1.file_crc, None);
    options.file_checksum = true;
    // More than one append.
    let (bytes, summary) = build(options, entries(40_000)).unwrap();
    assert!(bytes.len() > 2 << 20);
    assert_eq!(summary.file_crc, Some(crc32c(&bytes)));
}

/// Everything that RocksDB 11 writes of a table, or has none of.
#[test]
fn properties_say_what_those_of_rocksdb_say() {
    let names = |codec, version| {
        let table = TableOptions::default().block_size(256).format_version(version);
        let reader = open(build(builder_options(table, codec), entries(100)).unwrap().0, &reader_options()).unwrap();
        let properties = reader.properties().clone();
        assert_eq!(TableProperties::decode(&properties.encode()).unwrap(), properties);
        assert_eq!(properties.newest_key_time, 1_700_000_002);
        assert_eq!(properties.host_id, "host");
        assert_eq!(properties.format_version, u64::from(version));
        assert!(properties.others.is_empty());
        let mut names = Vec::new();
        for_each_entry(&properties.encode(), |name, _| {
            names.push(String::from_utf8_lossy(name).strip_prefix("rocksdb.").unwrap().to_owned());
            Ok(())
        })
        .unwrap();
        (names, properties)
    };
    let (compressed, properties) = names(CompressionType::Zstd, 6);
    assert_eq!((properties.num_blocks_rejected, properties.num_blocks_bypassed), (0, 0));
    for wanted in [
        "block.based.table.decoupled.partitioned.filters",
        "block.based.table.index.type",
        "block.based.table.prefix.filtering",
        "block.based.table.whole.key.filtering",
        "column.family.id",
        "column.family.name",
        "comparator",
        "compression",
        "compression_options",
        "creating.db.identity",
        "creating.host.identity",
        "creating.session.identity",
        "creation.time",
        "data.block.restart.interval",
        "data.size",
        "deleted.keys",
        "file.creation.time",
        "filter.size",
        "fixed.key.length",
        "format.version",
        "index.block.restart.interval",
        "index.key.is.user.key",
        "index.size",
        "index.value.is.delta.encoded",
        "key.largest.seqno",
        "key.smallest.seqno",
        "merge.operands",
        "merge.operator",
        "newest.key.time",
        "num.data.blocks",
        "num.entries",
        "num.filter_entries",
        "num.range-deletions",
        "num.uniform.blocks",
        "oldest.key.time",
        "original.file.number",
        "prefix.extractor.name",
        "property.collectors",
        "raw.key.size",
        "raw.value.size",
        "tail.start.offset",
    ] {
        assert!(compressed.iter().any(|name| name == wanted), "{wanted}");
    }
    let (_, properties) = names(CompressionType::None, 7);
    assert_eq!((properties.num_blocks_rejected, properties.num_blocks_bypassed), (0, properties.num_data_blocks));
}
