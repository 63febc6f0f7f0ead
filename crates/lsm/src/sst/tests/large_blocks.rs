//! Indexes that are larger than a data block may be, and filters and indexes that are larger than any block.

use crate::key::{InternalKey, LookupKey, MAX_SEQNO, ValueType};
use crate::options::{CompressionType, IndexType, TableOptions};
use crate::sst::properties::index_type;
use crate::sst::test_util::{MemoryFile, build, builder_options, open, reader_options};
use crate::sst::{TableBuilder, TableReadOptions};
use siltstone_base::compression::MAX_BLOCK_LEN;
use siltstone_base::prefix_extractor::FixedPrefix;
use std::path::PathBuf;
use std::sync::Arc;

/// A table of tens of gigabytes has such an index; here few keys are long.
#[test]
fn a_table_with_an_index_of_more_than_64_mib_is_written_and_read() {
    const KEY_BYTES: usize = 64_000;
    let user_key = |number: usize| format!("{number:0>KEY_BYTES$}").into_bytes();
    let count = MAX_BLOCK_LEN / KEY_BYTES + 10;
    let entries = (0..count).map(|number| {
        let key = InternalKey::new(&user_key(2 * number), 7, ValueType::Put);
        (key.as_bytes().to_vec(), number.to_be_bytes().to_vec())
    });
    let options = builder_options(TableOptions::default().block_size(256), CompressionType::Lz4);
    let (bytes, _) = build(options, entries).unwrap();
    let reader = open(bytes, &reader_options()).unwrap();
    assert!(reader.properties().index_size > MAX_BLOCK_LEN as u64);
    let get = |number: usize| {
        let found = reader.get(&TableReadOptions::default(), &LookupKey::new(&user_key(number), MAX_SEQNO), None);
        found.unwrap().map(|entry| entry.value.into_vec())
    };
    for number in [0, count / 2, count - 1] {
        assert_eq!(get(2 * number), Some(number.to_be_bytes().to_vec()));
        assert_eq!(get(2 * number + 1), None);
    }
}

/// Here no such block is larger than 8 KiB. Failing would stop all compactions of such a family.
#[test]
fn a_table_whose_filter_and_index_fit_no_block_has_no_filter_and_a_partitioned_index() {
    let kinds = [IndexType::BinarySearch, IndexType::HashSearch, IndexType::BinarySearchWithFirstKey];
    for (kind, keys) in kinds.into_iter().flat_map(|kind| [(kind, 20_u32), (kind, 20_000)]) {
        let table = TableOptions::default().block_size(256).index_type(kind).bloom_bits_per_key(10.0);
        let mut options = builder_options(table, CompressionType::Lz4);
        options.prefix_extractor = Some(Arc::new(FixedPrefix::new(6)));
        let file = MemoryFile::new(Vec::new());
        let mut builder = TableBuilder::new(Box::new(file.clone()), PathBuf::from("000009.sst"), options).unwrap();
        builder.limit_meta_blocks(8192);
        let key = |number: u32| format!("key{number:08}").into_bytes();
        for number in 0..keys {
            builder
                .add(InternalKey::new(&key(2 * number), 7, ValueType::Put).as_bytes(), &number.to_be_bytes())
                .unwrap();
        }
        let summary = builder.finish().unwrap();
        assert_eq!(summary.num_entries, u64::from(keys));
        let mut options = reader_options();
        options.prefix_extractor = Some(Arc::new(FixedPrefix::new(6)));
        let reader = open(file.bytes(), &options).unwrap();
        let properties = reader.properties();
        let is_small = keys == 20;
        assert_eq!(properties.index_type == index_type::TWO_LEVEL, !is_small, "{kind:?}");
        assert_eq!((properties.num_filter_entries > 0, properties.filter_size > 0), (is_small, is_small));
        assert_eq!(properties.filter_policy.is_empty(), !is_small);
        for number in 0..keys {
            let get = |key: &[u8]| {
                let found = reader.get(&TableReadOptions::default(), &LookupKey::new(key, MAX_SEQNO), None);
                found.unwrap().map(|entry| entry.value.into_vec())
            };
            assert_eq!(get(&key(2 * number)), Some(number.to_be_bytes().to_vec()), "{kind:?}");
            assert_eq!(get(&key(2 * number + 1)), None);
        }
    }
}
