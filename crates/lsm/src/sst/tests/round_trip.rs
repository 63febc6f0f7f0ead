//! What is written is read: by gets, seeks and walks in both directions, with all options.

use crate::iterator::InternalIterator;
use crate::key::{InternalKey, LookupKey, MAX_SEQNO, ValueType};
use crate::options::{ChecksumType, CompressionType, DataBlockIndexType, FilterPolicy, IndexType, TableOptions};
use crate::sst::test_util::{build, builder_options, comparator, open, reader_options};
use crate::sst::{TableEntry, TableIter, TableReadOptions, TableReader};
use proptest::prelude::*;
use siltstone_base::checksum::xxph3;
use siltstone_base::sync::Arc;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Entries by user key and descending sequence number.
type Model = BTreeMap<(Vec<u8>, Reverse<u64>), (ValueType, Vec<u8>)>;

fn user_keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(&b"ab\x00\xff"[..]), 0..5),
        2 => (0u32..300).prop_map(|number| format!("key{number:06}").into_bytes()),
        1 => (0u32..300).prop_map(|number| {
            let mut key = vec![7; 200];
            key.extend_from_slice(&number.to_be_bytes());
            key
        }),
    ]
}

fn models() -> impl Strategy<Value = Model> {
    let types =
        prop::sample::select(vec![ValueType::Put, ValueType::Delete, ValueType::Merge, ValueType::SingleDelete]);
    let values = prop_oneof![prop::collection::vec(any::<u8>(), 0..40), Just(vec![b'x'; 300])];
    prop::collection::btree_map((user_keys(), (0u64..50).prop_map(Reverse)), (types, values), 0..400)
}

fn table_options() -> impl Strategy<Value = (TableOptions, CompressionType)> {
    let checksums =
        [ChecksumType::None, ChecksumType::Crc32c, ChecksumType::XxHash, ChecksumType::XxHash64, ChecksumType::Xxh3];
    let codecs = [CompressionType::None, CompressionType::Snappy, CompressionType::Lz4, CompressionType::Zstd];
    let policies = [
        FilterPolicy::None,
        FilterPolicy::Bloom { bits_per_key: 1.0 },
        FilterPolicy::Bloom { bits_per_key: 10.0 },
        FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 10.0, bloom_before_level: -1 },
    ];
    (
        5u32..=7,
        (
            prop::sample::select(vec![256usize, 512, 4096, 65536]),
            prop::sample::select(vec![
                (DataBlockIndexType::BinarySearch, 0.75),
                (DataBlockIndexType::BinarySearchAndHash, 0.75),
                (DataBlockIndexType::BinarySearchAndHash, 0.1),
            ]),
        ),
        prop::sample::select(vec![1usize, 2, 16, 256]),
        prop::sample::select(vec![1usize, 3, 16]),
        prop::sample::select(vec![
            (IndexType::BinarySearch, 4096),
            (IndexType::TwoLevel, 64),
            (IndexType::TwoLevel, 500),
            (IndexType::BinarySearchWithFirstKey, 4096),
        ]),
        prop::sample::select(checksums.to_vec()),
        prop::sample::select(policies.to_vec()),
        prop::sample::select(codecs.to_vec()),
    )
        .prop_map(
            |(
                version,
                (size, (data_index, ratio)),
                interval,
                index_interval,
                (kind, partition_size),
                checksum,
                policy,
                codec,
            )| {
                let options = TableOptions::default()
                    .format_version(version)
                    .block_size(size)
                    .data_block_index_type(data_index)
                    .data_block_hash_table_util_ratio(ratio)
                    .block_restart_interval(interval)
                    .index_block_restart_interval(index_interval)
                    .index_type(kind)
                    .metadata_block_size(partition_size)
                    .checksum(checksum)
                    .partition_filters(interval != 2)
                    .filter_policy(policy);
                (options, codec)
            },
        )
}

/// An internal key and its value.
type Entry = (Vec<u8>, Vec<u8>);

fn table(model: &Model, options: &(TableOptions, CompressionType)) -> (Arc<TableReader>, Vec<Entry>) {
    let entries: Vec<Entry> = model
        .iter()
        .map(|((user_key, seqno), (value_type, value))| {
            (InternalKey::new(user_key, seqno.0, *value_type).as_bytes().to_vec(), value.clone())
        })
        .collect();
    let (bytes, summary) =
        build(builder_options(options.0.clone(), options.1), entries.iter().map(|(key, value)| (key, value))).unwrap();
    assert_eq!(summary.file_size, bytes.len() as u64);
    assert_eq!(summary.num_entries, entries.len() as u64);
    assert_eq!(summary.smallest.as_bytes(), entries.first().map_or(&[][..], |(key, _)| key));
    assert_eq!(summary.largest.as_bytes(), entries.last().map_or(&[][..], |(key, _)| key));
    let mut reader_options = reader_options();
    reader_options.unique_id = summary.unique_id;
    assert!(summary.unique_id.is_some());
    (open(bytes, &reader_options).unwrap(), entries)
}

fn here(iter: &TableIter) -> Option<Entry> {
    iter.status().unwrap();
    iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn gets_find_the_newest_visible_entry(
        model in models(),
        options in table_options(),
        probes in prop::collection::vec((user_keys(), 0u64..52), 100),
    ) {
        let (reader, _) = table(&model, &options);
        let present = model.keys().map(|(key, seqno)| (key.clone(), seqno.0));
        let newest = model.keys().map(|(key, _)| (key.clone(), MAX_SEQNO));
        for (user_key, seqno) in probes.into_iter().chain(present).chain(newest) {
            let expected = model
                .range((user_key.clone(), Reverse(seqno))..)
                .next()
                .filter(|((key, _), _)| *key == user_key)
                .map(|((_, seqno), (value_type, value))| TableEntry {
                    seqno: seqno.0,
                    value_type: *value_type,
                    value: value.clone().into(),
                });
            let key = LookupKey::new(&user_key, seqno);
            let read = TableReadOptions::default();
            prop_assert_eq!(&reader.get(&read, &key, None).unwrap(), &expected);
            prop_assert_eq!(&reader.get(&read, &key, Some(xxph3(&user_key))).unwrap(), &expected);
            prop_assert!(expected.is_none() || reader.may_have(&read, &key, None));
        }
    }

    #[test]
    fn walks_yield_every_entry(model in models(), options in table_options(), compaction: bool) {
        let (reader, entries) = table(&model, &options);
        let read = TableReadOptions::default();
        let mut iter = if compaction {
            TableIter::for_compaction(reader, read, 2 << 20)
        } else {
            TableIter::new(reader, read, 0)
        };
        prop_assert!(!iter.valid());
        iter.seek_to_first();
        for entry in &entries {
            prop_assert_eq!(here(&iter), Some(entry.clone()));
            iter.next();
        }
        prop_assert_eq!(here(&iter), None);
        iter.seek_to_last();
        for entry in entries.iter().rev() {
            prop_assert_eq!(here(&iter), Some(entry.clone()));
            iter.prev();
        }
        prop_assert_eq!(here(&iter), None);
    }

    #[test]
    fn seeks_and_steps_agree_with_the_model(
        model in models(),
        options in table_options(),
        steps in prop::collection::vec((0u8..4, user_keys(), 0u64..52), 60),
    ) {
        let (reader, entries) = table(&model, &options);
        let order = comparator();
        let mut iter = TableIter::new(reader, TableReadOptions::default(), 0);
        let mut position: Option<usize> = None;
        for (step, user_key, seqno) in steps {
            let target = InternalKey::new(&user_key, seqno, ValueType::Put);
            let target = target.as_bytes();
            match step {
                0 => {
                    iter.seek(target);
                    position = Some(entries.partition_point(|(key, _)| order.compare(key, target).is_lt()));
                }
                1 => {
                    iter.seek_for_prev(target);
                    position = entries.partition_point(|(key, _)| order.compare(key, target).is_le()).checked_sub(1);
                }
                2 if iter.valid() => {
                    iter.next();
                    position = position.map(|position| position + 1);
                }
                3 if iter.valid() => {
                    iter.prev();
                    position = position.and_then(|position| position.checked_sub(1));
                }
                _ => {}
            }
            prop_assert_eq!(here(&iter), position.and_then(|position| entries.get(position).cloned()));
        }
    }
}
