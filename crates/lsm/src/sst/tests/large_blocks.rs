//! Indexes that are larger than a data block may be.

use crate::key::{InternalKey, LookupKey, MAX_SEQNO, ValueType};
use crate::options::{CompressionType, TableOptions};
use crate::sst::TableReadOptions;
use crate::sst::test_util::{build, builder_options, open, reader_options};
use siltstone_base::compression::MAX_BLOCK_LEN;

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
