//! Tables of arbitrary bytes: every operation ends in success or a typed error.

use crate::iterator::InternalIterator;
use crate::key::{InternalKey, LookupKey, ValueType};
use crate::options::{ChecksumType, CompressionType, DataBlockIndexType, IndexType, TableOptions};
use crate::range_tombstones::RangeTombstone;
use crate::sst::block::{Block, for_each_entry};
use crate::sst::block_cursor::BlockCursor;
use crate::sst::format::{BLOCK_TRAILER_LEN, BlockChecksum, BlockHandle, FOOTER_LEN, Footer};
use crate::sst::index_block::{Index, IndexEncoding};
use crate::sst::properties::TableProperties;
use crate::sst::range_del_block;
use crate::sst::test_util::{build_with_ranges, builder_options, comparator, open, reader_options};
use crate::sst::{TableBuilderOptions, TableIter, TableReadOptions, TableReaderOptions};
use proptest::prelude::*;
use siltstone_base::block_pool::PooledBuf;
use siltstone_base::prefix_extractor::{FixedPrefix, PrefixExtractor};
use siltstone_base::{Error, ErrorKind};
use std::sync::Arc;

/// The kinds of indexes that are written.
const INDEX_TYPES: [IndexType; 4] =
    [IndexType::BinarySearch, IndexType::HashSearch, IndexType::TwoLevel, IndexType::BinarySearchWithFirstKey];

/// Of a prefix for ten keys each.
fn extractor() -> Option<Arc<dyn PrefixExtractor>> {
    Some(Arc::new(FixedPrefix::new(6)))
}

/// The kinds of errors that damage may become.
fn is_typed(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Corruption | ErrorKind::NotSupported | ErrorKind::LimitExceeded | ErrorKind::InvalidArgument
    )
}

/// Uses everything that a reader offers; returns the entries of a walk, or the first error.
fn exercise(bytes: Vec<u8>) -> Result<usize, Error> {
    let limit = bytes.len();
    let reader = open(bytes, &TableReaderOptions { prefix_extractor: extractor(), ..reader_options() })?;
    let read = TableReadOptions::default();
    let mut first_error = None;
    for number in 0..12u64 {
        let key = LookupKey::new(format!("key{:04}", number * 17).as_bytes(), 1000);
        if let Err(error) = reader.get(&read, &key, None) {
            assert!(is_typed(&error), "{error}");
        }
    }
    let mut entries = 0;
    for compaction in [true, false] {
        let mut iter = match compaction {
            true => TableIter::for_compaction(reader.clone(), read, 1 << 16),
            false => TableIter::new(reader.clone(), read, 0),
        };
        let mut steps = 0;
        iter.seek_to_last();
        while iter.valid() {
            iter.prev();
            steps += 1;
            // An entry takes at least three bytes; what compression hides is bounded too.
            assert!(steps <= 300 * limit, "endless walk backwards");
        }
        iter.seek(InternalKey::new(b"key0100", 5, ValueType::Put).as_bytes());
        iter.seek_for_prev(InternalKey::new(b"key0100", 5, ValueType::Put).as_bytes());
        entries = 0;
        iter.seek_to_first();
        while iter.valid() {
            iter.next();
            entries += 1;
            assert!(entries <= 300 * limit, "endless walk forwards");
        }
        if let Err(error) = iter.status() {
            first_error = first_error.or(Some(error));
        }
    }
    first_error.map_or(Ok(entries), Err)
}

fn sample(version: u32, codec: CompressionType) -> Vec<u8> {
    sample_with(TableOptions::default().format_version(version), codec)
}

fn sample_with(table: TableOptions, codec: CompressionType) -> Vec<u8> {
    let table = table
        .block_size(300)
        .block_restart_interval(4)
        .index_block_restart_interval(2)
        .checksum(ChecksumType::Crc32c)
        .data_block_index_type(DataBlockIndexType::BinarySearchAndHash)
        .bloom_bits_per_key(10.0);
    let entries = (0..200u64).map(|number| {
        let key = InternalKey::new(format!("key{number:04}").as_bytes(), number, ValueType::Put);
        (key.as_bytes().to_vec(), vec![number as u8; 20])
    });
    let ranges = [(b"key0010", b"key0020", 400), (b"key0015", b"key0150", 90), (b"key0015", b"key0017", 8)];
    let ranges = ranges.map(|(start, end, seqno)| RangeTombstone::new(start, end, seqno));
    let prefix_extractor = extractor().filter(|_| table.index_type == IndexType::HashSearch);
    let options = TableBuilderOptions { prefix_extractor, ..builder_options(table, codec) };
    build_with_ranges(options, entries, &ranges).unwrap().0
}

/// The blocks of a table that the footer, the metaindex and the index name.
fn blocks_of(bytes: &[u8]) -> (Footer, Vec<BlockHandle>) {
    let footer = Footer::decode(&bytes[bytes.len() - FOOTER_LEN..], bytes.len() as u64).unwrap();
    let mut handles = vec![footer.metaindex];
    let data = &bytes[footer.metaindex.offset as usize..][..footer.metaindex.size as usize];
    for_each_entry(data, |_, mut value| {
        handles.push(BlockHandle::decode(&mut value)?);
        Ok(())
    })
    .unwrap();
    let reader = open(bytes.to_vec(), &reader_options()).unwrap();
    handles.extend((0..reader.index().len()).map(|index| reader.index().handle(index)));
    for number in 0..if reader.is_partitioned() { reader.index().len() } else { 0 } {
        let partition = reader.index_partition(number, &TableReadOptions::default()).unwrap();
        let index = partition.index().unwrap();
        handles.extend((0..index.len()).map(|at| index.handle(at)));
    }
    handles.extend(footer.index);
    (footer, handles)
}

/// Makes the checksums of all blocks right again.
fn repair_checksums(bytes: &mut [u8], checksum: BlockChecksum, handles: &[BlockHandle]) {
    for handle in handles {
        let start = handle.offset as usize;
        let end = start + handle.size as usize + 1;
        let stored = checksum.stored(&bytes[start..end], handle.offset);
        bytes[end..end + BLOCK_TRAILER_LEN - 1].copy_from_slice(&stored.to_le_bytes());
    }
}

#[test]
fn every_flipped_bit_of_a_protected_block_is_found() {
    for (version, kind) in [5, 6].into_iter().flat_map(|version| INDEX_TYPES.map(|kind| (version, kind))) {
        let table = TableOptions::default().format_version(version).index_type(kind).metadata_block_size(64);
        let whole = sample_with(table, CompressionType::Lz4);
        let entries = exercise(whole.clone()).unwrap();
        assert_eq!(entries, 200);
        let (_, handles) = blocks_of(&whole);
        for handle in handles {
            let end = (handle.offset + handle.size) as usize + BLOCK_TRAILER_LEN;
            for at in [handle.offset as usize, (handle.offset + handle.size / 2) as usize, end - 5, end - 1] {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << (at % 8);
                assert_eq!(
                    exercise(bytes).unwrap_err().kind(),
                    ErrorKind::Corruption,
                    "version {version}, {kind:?}, byte {at}"
                );
            }
        }
    }
}

#[test]
fn a_flipped_bit_of_the_kind_of_checksums_does_not_switch_them_off() {
    for version in [5, 6, 7] {
        let whole = sample(version, CompressionType::None);
        let at = whole.len() - FOOTER_LEN;
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            assert_eq!(exercise(bytes).unwrap_err().kind(), ErrorKind::Corruption, "version {version}, bit {bit}");
        }
    }
}

#[test]
fn a_block_in_the_wrong_place_is_found_from_version_6_on() {
    let mut bytes = sample(6, CompressionType::None);
    let (_, handles) = blocks_of(&bytes);
    let data: Vec<_> = handles.iter().filter(|handle| handle.offset < 3000).collect();
    let (a, b) = (data[0], data.iter().find(|b| b.size == data[0].size && b.offset != data[0].offset).unwrap());
    let len = a.size as usize + BLOCK_TRAILER_LEN;
    let (a, b) = (a.offset as usize, b.offset as usize);
    let moved = bytes[a..a + len].to_vec();
    bytes.copy_within(b..b + len, a);
    bytes[b..b + len].copy_from_slice(&moved);
    assert_eq!(exercise(bytes).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn truncated_tables_are_refused() {
    let whole = sample(6, CompressionType::Zstd);
    for len in [0, 1, 7, 8, 47, 48, 52, 53, 54, whole.len() / 2, whole.len() - 1] {
        assert_eq!(exercise(whole[..len].to_vec()).unwrap_err().kind(), ErrorKind::Corruption, "{len} bytes");
    }
}

#[test]
fn other_files_are_refused_by_name() {
    for (magic, name) in [
        (0xdb47_7524_8b80_fb57_u64, "table of format_version 0"),
        (0x8242_2296_63bf_9564, "plain table"),
        (0x9267_89d0_c5f1_7873, "cuckoo table"),
    ] {
        let mut bytes = vec![0; 100];
        bytes.extend_from_slice(&magic.to_le_bytes());
        let error = exercise(bytes).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::NotSupported, name));
    }
    let mut bytes = sample(5, CompressionType::None);
    let at = bytes.len() - 12;
    bytes[at] = 9;
    let error = exercise(bytes).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::NotSupported, "table of format_version 9"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damage_behind_right_checksums_is_an_error_or_other_data(
        version in 5u32..=6,
        kind in prop::sample::select(INDEX_TYPES.to_vec()),
        codec in prop::sample::select(vec![CompressionType::None, CompressionType::Lz4, CompressionType::Zstd]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let table = TableOptions::default().format_version(version).index_type(kind).metadata_block_size(64);
        let mut bytes = sample_with(table, codec);
        let (footer, handles) = blocks_of(&bytes);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        repair_checksums(&mut bytes, footer.checksum, &handles);
        if let Err(error) = exercise(bytes) {
            prop_assert!(is_typed(&error), "{}", error);
        }
    }

    #[test]
    fn arbitrary_tables_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..400), version in 0u8..9) {
        bytes.extend_from_slice(&[version, 0, 0, 0]);
        bytes.extend_from_slice(&0x88e2_41b7_85f4_cff7_u64.to_le_bytes());
        let error = exercise(bytes).unwrap_err();
        prop_assert!(is_typed(&error), "{}", error);
    }

    #[test]
    fn arbitrary_blocks_end(bytes in garbage_block(), target in prop::collection::vec(any::<u8>(), 8..20)) {
        let order = comparator();
        let len = bytes.len();
        let Ok(block) = Block::new(PooledBuf::unpooled(bytes.clone()), len) else { return Ok(()) };
        block.prefetch_restarts();
        block.prefetch_restart_keys();
        let mut cursor = BlockCursor::new();
        let mut steps = 0;
        if cursor.seek_to_first(&block) {
            while cursor.next(&block) {
                prop_assert!(cursor.value(&block).len() <= len);
                steps += 1;
                prop_assert!(steps <= len);
            }
        }
        steps = 0;
        if cursor.seek_to_last(&block) {
            while cursor.prev(&block) {
                steps += 1;
                prop_assert!(steps <= len);
            }
        }
        cursor.reset();
        cursor.seek_by_hash(&block, &target, &order);
        cursor.reset();
        if cursor.seek(&block, &target, &order) {
            prop_assert!(order.compare(cursor.key(), &target).is_ge());
        }
        cursor.seek_for_prev(&block, &target, &order);
        let _ = for_each_entry(&bytes, |_, _| Ok(()));
        let _ = TableProperties::decode(&bytes);
        if let Ok(tombstones) = range_del_block::decode(&order, &bytes) {
            prop_assert!(tombstones.len() <= len);
        }
        for flags in 0..8 {
            let encoding =
                IndexEncoding { user_keys: flags & 1 > 0, delta_values: flags & 2 > 0, first_keys: flags & 4 > 0 };
            if let Ok(index) = Index::decode(&bytes, encoding, &order, 1 << 20) {
                prop_assert!(index.seek(&target, &order) <= index.len());
            }
        }
    }
}

/// Bytes that look like a block: small numbers as lengths, few restart points.
fn garbage_block() -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![3 => 0u8..12, 1 => any::<u8>()];
    let entries = prop::collection::vec(small, 0..120);
    let restarts = prop::collection::vec(0u32..60, 1..4);
    let buckets = prop::option::of(prop::collection::vec(prop_oneof![0u8..6, any::<u8>()], 0..9));
    (entries, restarts, buckets).prop_map(|(mut block, restarts, buckets)| {
        for restart in &restarts {
            block.extend_from_slice(&restart.to_le_bytes());
        }
        let mut footer = restarts.len() as u32;
        if let Some(buckets) = buckets {
            block.extend_from_slice(&buckets);
            block.extend_from_slice(&(buckets.len() as u16).to_le_bytes());
            footer |= 1 << 31;
        }
        block.extend_from_slice(&footer.to_le_bytes());
        block
    })
}
