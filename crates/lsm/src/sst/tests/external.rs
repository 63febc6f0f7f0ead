//! Tables that were written outside of a database: every entry has the sequence number of the file.

use crate::iterator::InternalIterator;
use crate::key::{InternalKey, LookupKey, MAX_SEQNO, ValueType};
use crate::options::{CompressionType, IndexType, TableOptions};
use crate::sst::block::for_each_entry;
use crate::sst::block_builder::BlockBuilder;
use crate::sst::format::{BlockHandle, FOOTER_LEN, Footer};
use crate::sst::properties::TableProperties;
use crate::sst::test_util::{build, builder_options, open, reader_options};
use crate::sst::{TableIter, TableReadOptions, TableReader};
use siltstone_base::sync::Arc;
use siltstone_base::{ErrorKind, Result};

/// Where the value of the sequence number lies in an external table.
struct External {
    bytes: Vec<u8>,
    seqno_at: usize,
}

fn user_key(number: u64) -> Vec<u8> {
    // Keys of which one is the beginning of the next, so that blocks share bytes of trailers too.
    let mut key = format!("key{:05}", number / 4).into_bytes();
    key.resize(key.len() + (number % 4) as usize * 3, 0);
    key
}

/// A table of 1000 keys with sequence number 0 whose properties say that it is external.
fn external(table: TableOptions, version: Option<u32>, seqno: Option<u64>) -> External {
    let entries = (0..1000).map(|number| {
        let value_type = if number % 7 == 0 { ValueType::Delete } else { ValueType::Put };
        (InternalKey::new(&user_key(number), 0, value_type).as_bytes().to_vec(), number.to_le_bytes())
    });
    let options = builder_options(table.format_version(5), CompressionType::Lz4);
    let (mut bytes, _) = build(options, entries).unwrap();
    let end = bytes.len();
    let footer = Footer::decode(&bytes[end - FOOTER_LEN..], end as u64).unwrap();
    let block = |handle: BlockHandle| handle.offset as usize..(handle.offset + handle.size) as usize;
    let mut metas: Vec<(Vec<u8>, BlockHandle)> = Vec::new();
    for_each_entry(&bytes[block(footer.metaindex)], |name, mut value| {
        metas.push((name.to_vec(), BlockHandle::decode(&mut value)?));
        Ok(())
    })
    .unwrap();
    bytes.truncate(end - FOOTER_LEN);
    let put = |bytes: &mut Vec<u8>, block: &[u8]| {
        let offset = bytes.len() as u64;
        bytes.extend_from_slice(block);
        bytes.push(0);
        let stored = footer.checksum.stored(&bytes[offset as usize..], offset);
        bytes.extend_from_slice(&stored.to_le_bytes());
        BlockHandle { offset, size: block.len() as u64 }
    };
    let place = metas.iter().position(|(name, _)| name == b"rocksdb.properties").unwrap();
    let mut properties = TableProperties::decode(&bytes[block(metas[place].1)]).unwrap();
    (properties.external_version, properties.global_seqno) = (version, seqno);
    metas[place].1 = put(&mut bytes, &properties.encode());
    let name = b"external_sst_file.global_seqno";
    let seqno_at = bytes.windows(name.len()).rposition(|window| window == name).unwrap_or(0) + name.len();
    let mut metaindex = BlockBuilder::new(1);
    for (name, handle) in metas {
        let mut value = Vec::new();
        handle.encode(&mut value);
        metaindex.add(&name, &value);
    }
    let metaindex = put(&mut bytes, metaindex.finish());
    bytes.extend_from_slice(&Footer { metaindex, ..footer }.encode(bytes.len() as u64).unwrap());
    External { bytes, seqno_at }
}

fn opened(table: &External, recorded: Option<u64>) -> Result<Arc<TableReader>> {
    let mut options = reader_options();
    options.largest_seqno = recorded;
    open(table.bytes.clone(), &options)
}

fn check(reader: &Arc<TableReader>, seqno: u64) {
    let read = TableReadOptions::default();
    for number in (0..1000).step_by(13) {
        let value_type = if number % 7 == 0 { ValueType::Delete } else { ValueType::Put };
        for (at, is_seen) in [(MAX_SEQNO, true), (seqno, true), (seqno - 1, false), (0, false)] {
            let found = reader.get(&read, &LookupKey::new(&user_key(number), at), None).unwrap();
            let found = found.map(|entry| (entry.seqno, entry.value_type, entry.value.to_vec()));
            let expected = is_seen.then(|| (seqno, value_type, number.to_le_bytes().to_vec()));
            assert_eq!(found, expected, "key {number} at {at}");
        }
    }
    for mut iter in [TableIter::new(reader.clone(), read, 0), TableIter::for_compaction(reader.clone(), read, 4096)] {
        iter.seek_to_first();
        for number in 0..1000 {
            let value_type = if number % 7 == 0 { ValueType::Delete } else { ValueType::Put };
            assert_eq!(iter.key(), InternalKey::new(&user_key(number), seqno, value_type).as_bytes());
            iter.next();
        }
        assert!(!iter.valid());
        iter.status().unwrap();
        // A target of the same key that is older than the entry lies behind it.
        iter.seek(InternalKey::new(&user_key(500), seqno - 1, ValueType::Put).as_bytes());
        assert_eq!(iter.key()[..iter.key().len() - 8], user_key(501));
        iter.seek_for_prev(InternalKey::new(&user_key(500), seqno - 1, ValueType::Put).as_bytes());
        assert_eq!(iter.key()[..iter.key().len() - 8], user_key(500));
        iter.prev();
        assert_eq!(iter.key()[..iter.key().len() - 8], user_key(499));
    }
}

#[test]
fn the_sequence_number_comes_from_the_file_or_from_the_manifest() {
    let kinds = [
        TableOptions::default().block_size(300),
        TableOptions::default().block_size(300).block_restart_interval(3).index_type(IndexType::TwoLevel),
    ];
    for table in kinds {
        check(&opened(&external(table.clone(), Some(2), Some(77)), None).unwrap(), 77);
        check(&opened(&external(table.clone(), Some(2), Some(77)), Some(77)).unwrap(), 77);
        check(&opened(&external(table.clone(), Some(2), Some(0)), Some(12_345_678_901)).unwrap(), 12_345_678_901);
        let plain = opened(&external(table, Some(2), Some(0)), Some(0)).unwrap();
        let entry = plain.get(&TableReadOptions::default(), &LookupKey::new(&user_key(1), 5), None).unwrap();
        assert_eq!(entry.unwrap().seqno, 0);
    }
}

#[test]
fn a_sequence_number_set_in_place_is_believed() {
    let mut table = external(TableOptions::default(), Some(2), Some(0));
    let at = table.seqno_at;
    assert_eq!(table.bytes[at..at + 8], [0; 8]);
    table.bytes[at..at + 8].copy_from_slice(&99u64.to_le_bytes());
    check(&opened(&table, Some(99)).unwrap(), 99);
    // Other damage of the block is not.
    table.bytes[at + 9] ^= 1;
    assert_eq!(opened(&table, Some(99)).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn numbers_that_contradict_are_corruption() {
    let kind = |version, seqno, recorded| {
        opened(&external(TableOptions::default(), version, seqno), recorded).map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(kind(Some(2), Some(7), Some(8)), Err(ErrorKind::Corruption));
    assert_eq!(kind(None, Some(7), Some(7)), Err(ErrorKind::Corruption));
    assert_eq!(kind(Some(1), Some(7), Some(7)), Err(ErrorKind::Corruption));
    assert_eq!(kind(Some(2), Some(u64::MAX), None), Err(ErrorKind::Corruption));
    assert_eq!(kind(Some(3), Some(7), Some(7)), Err(ErrorKind::NotSupported));
    assert_eq!(kind(Some(1), None, Some(7)), Ok(()));
}
