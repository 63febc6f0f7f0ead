//! The bytes of a table, against known values.

use crate::key::{InternalKey, ValueType};
use crate::options::{ChecksumType, CompressionType, TableOptions};
use crate::sst::format::{BlockChecksum, BlockHandle, Footer};
use crate::sst::properties::TableProperties;
use crate::sst::test_util::{build, builder_options, open, reader_options};
use crate::sst::unique_id::{encode_session_id, unique_id};
use siltstone_base::ErrorKind;

#[test]
fn checksums_are_those_of_rocksdb() {
    let kinds = [ChecksumType::Crc32c, ChecksumType::XxHash, ChecksumType::XxHash64, ChecksumType::Xxh3];
    let plain = [0x838f_a897, 0x76c3_f8e8, 0x2fec_4e26, 0x5c62_dcfd];
    let zstd = [0xcb5d_ff03, 0x60b8_4af6, 0xe498_51e1, 0xac91_4612];
    for ((kind, plain), zstd) in kinds.into_iter().zip(plain).zip(zstd) {
        assert_eq!(kind.compute(b"hello\x00"), plain, "{kind:?}");
        assert_eq!(kind.compute(b"hello\x07"), zstd, "{kind:?}");
    }
    let checksum = BlockChecksum { kind: ChecksumType::None, base_context: 0x0123_4567 };
    assert_eq!(checksum.stored(b"", 0x1_0000_0010), 0x0123_4576);
}

#[test]
fn footers_round_trip() {
    let metaindex = BlockHandle { offset: 1000, size: 95 };
    let index = BlockHandle { offset: 300, size: 200 };
    for version in 2..=7 {
        let base_context = if version < 6 { 0 } else { 77 };
        let checksum = BlockChecksum { kind: ChecksumType::Xxh3, base_context };
        let footer = Footer { version, checksum, metaindex, index: Some(index) };
        let bytes = footer.encode(1100).unwrap();
        let index = (version < 6).then_some(index);
        assert_eq!(Footer::decode(&bytes, 1153).unwrap(), Footer { index, ..footer });
    }
}

#[test]
fn unique_ids_are_those_of_rocksdb() {
    // From a table and the MANIFEST of a database that RocksDB 11.8 wrote.
    let id = unique_id("ed79ba82-7ee9-436d-9856-715430bab6ab", "X1WLT7N8AUPVEPQZPX8M", 18).unwrap();
    let (lower, upper) = id.split_at(8);
    assert_eq!(lower, 1_428_529_398_098_374_534_u64.to_le_bytes());
    assert_eq!(upper, 9_571_461_768_675_450_564_u64.to_le_bytes());

    let text = encode_session_id(0x1234_5678_9abc_def0, 1);
    assert_eq!(text.len(), 20);
    assert_eq!(unique_id("db", &text, 7).unwrap()[..8], 1u64.to_le_bytes());
    assert_eq!(unique_id("", &text, 7), None);
    assert_eq!(unique_id("db", "lower case is wrong!", 7), None);
    assert_eq!(unique_id("db", "", 7), None);
    assert_eq!(unique_id("db", &text, 0), None);
}

#[test]
fn properties_round_trip() {
    let mut properties = TableProperties {
        data_size: 1,
        num_entries: 300,
        num_deletions: 4,
        raw_key_size: 5000,
        index_key_is_user_key: true,
        whole_key_filtering: false,
        comparator: "leveldb.BytewiseComparator".to_owned(),
        db_id: "id".to_owned(),
        ..TableProperties::default()
    };
    properties.others.insert(b"user.collected".to_vec(), vec![1, 2, 3]);
    assert_eq!(TableProperties::decode(&properties.encode()).unwrap(), properties);
}

#[test]
fn version_7_names_the_codecs_of_all_blocks() {
    let key = InternalKey::new(b"key", 1, ValueType::Put);
    let property = |version, codec, value: &[u8]| {
        let options = builder_options(TableOptions::default().format_version(version), codec);
        let (bytes, _) = build(options, [(key.as_bytes(), value)]).unwrap();
        open(bytes, &reader_options()).unwrap().properties().compression.clone()
    };
    let compressible = [b'v'; 1000];
    assert_eq!(property(6, CompressionType::Lz4, &compressible), "LZ4");
    assert_eq!(property(7, CompressionType::Lz4, &compressible), "BuiltinV2;04;");
    assert_eq!(property(7, CompressionType::Zstd, &compressible), "BuiltinV2;07;");
    assert_eq!(property(7, CompressionType::Lz4, b"short"), "BuiltinV2;;");
    assert_eq!(property(7, CompressionType::None, &compressible), ";;");
}

#[test]
fn keys_must_ascend() {
    let key = |user_key: &[u8], seqno| InternalKey::new(user_key, seqno, ValueType::Put).as_bytes().to_vec();
    for (first, second) in [(key(b"b", 1), key(b"a", 1)), (key(b"a", 1), key(b"a", 1)), (key(b"a", 1), key(b"a", 2))] {
        let options = builder_options(TableOptions::default(), CompressionType::None);
        let error = build(options, [(first, b""), (second, b"")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn what_is_not_written_is_refused() {
    let options = builder_options(TableOptions::default().format_version(4), CompressionType::None);
    assert_eq!(build::<&[u8], &[u8]>(options, []).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let options = builder_options(TableOptions::default(), CompressionType::Bzip2);
    assert_eq!(build::<&[u8], &[u8]>(options, []).unwrap_err().kind(), ErrorKind::NotSupported);
    let options = builder_options(TableOptions::default(), CompressionType::None);
    let range = InternalKey::new(b"a", 1, ValueType::RangeDelete);
    assert_eq!(build(options, [(range.as_bytes(), b"b")]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
