//! Tests of the encoding of version edits.

use super::*;
use crate::key::{InternalKey, ValueType};
use proptest::prelude::*;
use siltstone_base::ErrorKind;
use siltstone_base::coding::{put_length_prefixed, put_varint32, put_varint64};

fn file(number: u64) -> FileMetaData {
    FileMetaData {
        number,
        file_size: 4096 * number,
        smallest: InternalKey::new(b"apple", 7, ValueType::Put),
        largest: InternalKey::new(b"pear", 3, ValueType::Delete),
        smallest_seqno: 3,
        largest_seqno: 7,
        epoch_number: 2,
        oldest_ancestor_time: 1_700_000_000,
        file_creation_time: 1_700_000_001,
        unique_id: Some([9; 16]),
        other_fields: vec![(15, vec![0x80, 0x01])],
        has_ranges: None,
    }
}

fn full_edit() -> VersionEdit {
    let mut edit = VersionEdit::new(ColumnFamilyId(4));
    edit.comparator = Some("leveldb.BytewiseComparator".to_owned());
    edit.log_number = Some(300);
    edit.prev_log_number = Some(0);
    edit.next_file_number = Some(u64::MAX);
    edit.last_sequence = Some(crate::key::MAX_SEQNO);
    edit.min_log_number_to_keep = Some(299);
    edit.max_column_family = Some(u32::MAX);
    edit.db_id = Some("5a5ed2ff-0000-4000-8000-000000000000".to_owned());
    edit.atomic_group_remaining = Some(2);
    edit.delete_file(0, 17);
    edit.delete_file(6, 1 << 40);
    edit.add_file(1, file(18));
    edit.add_file(6, file(19));
    edit
}

fn encoded(edit: &VersionEdit) -> Vec<u8> {
    let mut bytes = Vec::new();
    edit.encode(&mut bytes);
    bytes
}

#[test]
fn an_edit_survives_a_round_trip() {
    for edit in [VersionEdit::default(), full_edit()] {
        assert_eq!(VersionEdit::decode(&encoded(&edit)).unwrap(), edit);
    }
    let mut add = VersionEdit::new(ColumnFamilyId(1));
    add.add_family = Some("meta".to_owned());
    assert_eq!(VersionEdit::decode(&encoded(&add)).unwrap(), add);
    let mut drop = VersionEdit::new(ColumnFamilyId(1));
    drop.drop_family = true;
    assert_eq!(VersionEdit::decode(&encoded(&drop)).unwrap(), drop);
}

#[test]
fn the_first_edit_of_a_database_has_the_bytes_that_rocksdb_accepts() {
    let edit = VersionEdit {
        log_number: Some(0),
        next_file_number: Some(2),
        last_sequence: Some(0),
        ..VersionEdit::default()
    };
    assert_eq!(encoded(&edit), [2, 0, 3, 2, 4, 0]);
}

#[test]
fn a_new_file_has_the_fields_in_rocksdbs_order() {
    let mut edit = VersionEdit::default();
    edit.add_file(6, FileMetaData { other_fields: Vec::new(), unique_id: None, ..file(1) });
    let mut expected = vec![103, 6, 1];
    put_varint64(&mut expected, 4096);
    put_length_prefixed(&mut expected, b"apple\x01\x07\0\0\0\0\0\0");
    put_length_prefixed(&mut expected, b"pear\x00\x03\0\0\0\0\0\0");
    expected.extend([3, 7]);
    for (tag, value) in [(5, 1_700_000_000u64), (6, 1_700_000_001), (13, 2)] {
        let mut varint = Vec::new();
        put_varint64(&mut varint, value);
        put_varint32(&mut expected, tag);
        put_length_prefixed(&mut expected, &varint);
    }
    expected.push(1);
    // The tag 103 is one byte long.
    assert_eq!(encoded(&edit), expected);
}

#[test]
fn what_may_be_skipped_is_skipped() {
    let mut bytes = Vec::new();
    // A compaction cursor, a WAL addition and deletion of either form, an unknown ignorable tag.
    put_varint32(&mut bytes, 5);
    put_varint32(&mut bytes, 1);
    put_length_prefixed(&mut bytes, b"k\x01\0\0\0\0\0\0\0");
    for tag in [8199, 8200, 8202, 8203, 8192 | 700] {
        put_varint32(&mut bytes, tag);
        put_length_prefixed(&mut bytes, if tag == 8200 { b"\x04" } else { b"\x05\x01" });
    }
    put_varint32(&mut bytes, 8196);
    bytes.extend([5, 2, 77, 1]);
    put_varint32(&mut bytes, 8197);
    bytes.push(5);
    put_varint32(&mut bytes, 8201);
    put_length_prefixed(&mut bytes, &[1]);
    put_varint32(&mut bytes, 8198);
    put_length_prefixed(&mut bytes, &[]);
    bytes.extend([2, 9]);
    let edit = VersionEdit::decode(&bytes).unwrap();
    let (wals, forget_wals_below) = (vec![(5, None), (5, Some(77))], Some(5));
    assert_eq!(edit, VersionEdit { log_number: Some(9), wals, forget_wals_below, ..VersionEdit::default() });
    for (tag, payload) in [(8199, &[5, 2][..]), (8199, &[5, 3, 1]), (8199, &[]), (8200, &[])] {
        let mut bytes = Vec::new();
        put_varint32(&mut bytes, tag);
        put_length_prefixed(&mut bytes, payload);
        assert_eq!(error_of(&bytes).0, ErrorKind::Corruption, "{tag} {payload:?}");
    }
}

#[test]
fn files_of_older_forms_are_read() {
    let mut bytes = Vec::new();
    for tag in [7u32, 100, 102] {
        put_varint32(&mut bytes, tag);
        bytes.extend([2, 33]);
        if tag == 102 {
            bytes.push(0);
        }
        bytes.push(99);
        put_length_prefixed(&mut bytes, b"a\x01\x09\0\0\0\0\0\0");
        put_length_prefixed(&mut bytes, b"b\x01\x04\0\0\0\0\0\0");
        if tag != 7 {
            bytes.extend([1, 9]);
        }
    }
    let edit = VersionEdit::decode(&bytes).unwrap();
    let ranges: Vec<_> = edit.new_files.iter().map(|(_, file)| (file.smallest_seqno, file.largest_seqno)).collect();
    assert_eq!(ranges, [(0, 9), (1, 9), (1, 9)]);
    assert!(edit.new_files.iter().all(|(level, file)| (*level, file.number, file.file_size) == (2, 33, 99)));
}

#[test]
fn the_smallest_log_to_keep_may_hide_in_a_new_file() {
    let mut edit = VersionEdit::default();
    edit.add_file(0, FileMetaData { other_fields: vec![(3, 77u64.to_le_bytes().to_vec())], ..file(1) });
    let decoded = VersionEdit::decode(&encoded(&edit)).unwrap();
    assert_eq!(decoded.min_log_number_to_keep, Some(77));
    assert_eq!(decoded.new_files[0].1.other_fields, []);
}

#[test]
fn blob_files_are_kept_as_they_are() {
    let mut bytes = Vec::new();
    put_varint32(&mut bytes, 400);
    bytes.extend([7, 3, 99, 0, 0, 0]);
    put_varint32(&mut bytes, 401);
    bytes.extend([7, 1, 33, 2, 1, b'x', 0]);
    let edit = VersionEdit::decode(&bytes).unwrap();
    let expected = [
        BlobChange::Added { number: 7, count: 3, bytes: 99, rest: vec![0, 0, 0] },
        BlobChange::Garbage { number: 7, count: 1, bytes: 33, rest: vec![2, 1, b'x', 0] },
    ];
    assert_eq!(edit.blob_files, expected);
    assert_eq!(encoded(&edit), bytes);
}

fn error_of(bytes: &[u8]) -> (ErrorKind, String) {
    let error = VersionEdit::decode(bytes).unwrap_err();
    (error.kind(), error.message().to_owned())
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let with_field = |tag: u32, value: &[u8]| {
        let mut edit = VersionEdit::default();
        edit.add_file(0, FileMetaData { other_fields: vec![(tag, value.to_vec())], ..file(1) });
        error_of(&encoded(&edit))
    };
    let refused = |message: &str| (ErrorKind::NotSupported, message.to_owned());
    assert_eq!(with_field(65, &[1]), refused("tables outside the directory of the database"));
    assert_eq!(with_field(16, &[0]), refused("tables without their user-defined timestamps"));
    assert_eq!(with_field(66, b""), refused("custom field 66 of a file"));
    let mut bytes = Vec::new();
    put_varint32(&mut bytes, 8201);
    put_length_prefixed(&mut bytes, &[0]);
    assert_eq!(error_of(&bytes), refused("user-defined timestamps in memtables only"));
    let with_low = |low: &[u8]| {
        let mut bytes = Vec::new();
        put_varint32(&mut bytes, 8198);
        put_length_prefixed(&mut bytes, low);
        bytes
    };
    assert_eq!(error_of(&with_low(b"1234")), refused("user-defined timestamps of 4 bytes"));
    assert_eq!(VersionEdit::decode(&with_low(b"")).unwrap(), VersionEdit::default());
    let low = with_low(&77_u64.to_le_bytes());
    let edit = VersionEdit::decode(&low).unwrap();
    assert_eq!((edit.timestamp_low, encoded(&edit)), (Some(77), low));
}

#[test]
fn damage_is_corruption() {
    let corrupt = |bytes: &[u8], message: &str| {
        assert_eq!(error_of(bytes), (ErrorKind::Corruption, message.to_owned()), "{bytes:?}");
    };
    corrupt(&[8], "unknown tag 8 in a version edit");
    corrupt(&[0], "unknown tag 0 in a version edit");
    corrupt(&[2], "version edit: bad log number");
    corrupt(&[6, 64, 1], "version edit: bad level");
    corrupt(&[1, 9, b'x'], "version edit: bad comparator");
    corrupt(&[1, 1, 0xFF], "version edit: bad comparator");
    let mut bytes = vec![4];
    put_varint64(&mut bytes, 1 << 56);
    corrupt(&bytes, "version edit: bad last sequence");
    let mut reversed = VersionEdit::default();
    reversed.add_file(0, FileMetaData { smallest_seqno: 8, ..file(5) });
    corrupt(&encoded(&reversed), "sequence numbers of file 5 are reversed");
    let mut short = VersionEdit::default();
    short.add_file(0, file(5));
    let whole = encoded(&short);
    let mut key = whole.clone();
    let at = key.windows(5).position(|window| window == b"apple").unwrap();
    key[at + 5] = 0x33;
    corrupt(&key, "unknown value type 0x33");
    for len in 1..whole.len() {
        assert!(VersionEdit::decode(&whole[..len]).is_err(), "{len} of {} bytes", whole.len());
    }
    let mut both = full_edit();
    both.drop_family = true;
    corrupt(&encoded(&both), "version edit that adds or drops a column family and changes its files");
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(edit) = VersionEdit::decode(&bytes) {
            prop_assert_eq!(VersionEdit::decode(&encoded(&edit)).unwrap(), edit);
        }
    }

    #[test]
    fn a_damaged_edit_decodes_or_fails(at in 0usize..400, byte in any::<u8>()) {
        let mut bytes = encoded(&full_edit());
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = VersionEdit::decode(&bytes);
    }
}
