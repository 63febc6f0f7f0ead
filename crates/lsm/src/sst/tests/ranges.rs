//! Tables with range tombstones.

use crate::key::{InternalKey, LookupKey, MAX_SEQNO, ValueType};
use crate::options::{CompressionType, TableOptions};
use crate::range_tombstones::RangeTombstone;
use crate::sst::block_builder::BlockBuilder;
use crate::sst::properties::TableProperties;
use crate::sst::range_del_block::decode;
use crate::sst::test_util::{build_with_ranges, builder_options, comparator, open, reader_options};
use crate::sst::{TableBuilderOptions, TableReadOptions};
use siltstone_base::ErrorKind;

fn options() -> TableBuilderOptions {
    builder_options(TableOptions::default().bloom_bits_per_key(10.0), CompressionType::Lz4)
}

fn range(start: &str, end: &str, seqno: u64) -> RangeTombstone {
    RangeTombstone::new(start.as_bytes(), end.as_bytes(), seqno)
}

fn point(key: &str, seqno: u64) -> (Vec<u8>, Vec<u8>) {
    (InternalKey::new(key.as_bytes(), seqno, ValueType::Put).as_bytes().to_vec(), b"value".to_vec())
}

#[test]
fn tombstones_widen_the_bounds_and_count_as_entries() {
    let ranges = [range("a", "c", 9), range("m", "z", 12), range("m", "z", 3)];
    let (bytes, summary) = build_with_ranges(options(), [point("b", 5), point("n", 7)], &ranges).unwrap();
    assert_eq!(summary.smallest, InternalKey::new(b"a", 9, ValueType::RangeDelete));
    assert_eq!(summary.largest, InternalKey::new(b"z", MAX_SEQNO, ValueType::RangeDelete));
    assert!(summary.largest.is_exclusive_end());
    assert_eq!((summary.smallest_seqno, summary.largest_seqno), (3, 12));
    assert_eq!((summary.num_entries, summary.num_deletions, summary.num_range_deletions), (5, 3, 3));

    let reader = open(bytes, &reader_options()).unwrap();
    let properties = reader.properties();
    assert_eq!((properties.num_entries, properties.num_deletions, properties.num_range_deletions), (5, 3, 3));
    assert_eq!((properties.raw_key_size, properties.raw_value_size), (5 * 9, 2 * 5 + 3));
    let read = TableReadOptions::default();
    assert_eq!(reader.read_range_tombstones(read.context).unwrap(), ranges);
    let get = |key: &str, seqno| reader.get(&read, &LookupKey::new(key.as_bytes(), seqno), None).unwrap();
    let found = |key: &str, seqno| get(key, seqno).map(|entry| (entry.seqno, entry.value_type));
    assert_eq!(found("b", 20), Some((9, ValueType::Delete)));
    assert_eq!(found("b", 8), Some((5, ValueType::Put)));
    assert_eq!(found("b", 4), None);
    assert_eq!(found("n", 20), Some((12, ValueType::Delete)));
    assert_eq!(found("n", 11), Some((7, ValueType::Put)));
    assert_eq!(found("n", 6), Some((3, ValueType::Delete)));
    // Not in the filter, but under a tombstone.
    assert_eq!(found("zz", 20), None);
    assert_eq!(found("y", 20), Some((12, ValueType::Delete)));
    assert_eq!(found("c", 20), None);
}

#[test]
fn points_outside_the_tombstones_are_the_bounds() {
    let (_, summary) = build_with_ranges(options(), [point("a", 5), point("z", 7)], &[range("b", "z", 9)]).unwrap();
    assert_eq!(summary.smallest, InternalKey::new(b"a", 5, ValueType::Put));
    // The exclusive end stands before the entry of its key.
    assert_eq!(summary.largest, InternalKey::new(b"z", 7, ValueType::Put));
}

#[test]
fn a_table_of_tombstones_alone_has_no_blocks() {
    let ranges = [range("b", "d", 4)];
    let (bytes, summary) = build_with_ranges::<&[u8], &[u8]>(options(), [], &ranges).unwrap();
    assert_eq!((summary.num_data_blocks, summary.num_entries, summary.smallest_seqno), (0, 1, 4));
    let reader = open(bytes, &reader_options()).unwrap();
    let read = TableReadOptions::default();
    assert!(reader.get(&read, &LookupKey::new(b"c", 3), None).unwrap().is_none());
    let entry = reader.get(&read, &LookupKey::new(b"c", 4), None).unwrap().unwrap();
    assert_eq!((entry.seqno, entry.value_type), (4, ValueType::Delete));
}

#[test]
fn what_is_no_range_is_refused() {
    let order_of = |ranges: &[RangeTombstone]| {
        build_with_ranges::<&[u8], &[u8]>(options(), [], ranges).map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(order_of(&[range("b", "b", 4)]), Err(ErrorKind::InvalidArgument));
    assert_eq!(order_of(&[range("b", "c", 4), range("a", "c", 4)]), Err(ErrorKind::InvalidArgument));
    assert_eq!(order_of(&[range("b", "c", 4), range("b", "c", 5)]), Err(ErrorKind::InvalidArgument));

    let block = |key: &InternalKey, end: &[u8]| {
        let mut block = BlockBuilder::new(1);
        block.add(key.as_bytes(), end);
        decode(&comparator(), block.finish()).map_err(|error| error.kind())
    };
    let start = InternalKey::new(b"b", 4, ValueType::RangeDelete);
    assert_eq!(block(&start, b"c").unwrap(), [range("b", "c", 4)]);
    assert_eq!(block(&start, b"b").unwrap(), [range("b", "b", 4)]);
    assert_eq!(block(&start, b"a"), Err(ErrorKind::Corruption));
    assert_eq!(block(&InternalKey::new(b"b", 4, ValueType::Put), b"c"), Err(ErrorKind::Corruption));
}

/// Tables of RocksDB 5 turned the engine read-only at their first compaction. Others are held to their counts as before.
#[test]
fn tables_count_their_range_tombstones_as_their_release_did() {
    let bounds = |num_entries, num_range_deletions, session: &str, ranges| {
        let session_id = session.to_owned();
        let properties = TableProperties { num_entries, num_range_deletions, session_id, ..TableProperties::default() };
        properties.point_entries(if properties.counts_ranges() { 0 } else { ranges })
    };
    // 6.0 to 6.12, 5.15 to 5.18, earlier: two tombstones and eight other entries.
    for (entries, range_deletions) in [(10, 2), (8, 2), (10, 0)] {
        let (least, most) = bounds(entries, range_deletions, "", 2);
        assert!((least..=most).contains(&8), "{entries}, {range_deletions}");
    }
    assert_eq!(bounds(8, 0, "", 0), (8, 8));
    assert_eq!(bounds(10, 2, "session", 2), (8, 8));
}
