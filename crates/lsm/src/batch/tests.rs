//! Batches there and back, and damaged ones.

use super::*;
use crate::key::ValueType;
use proptest::prelude::*;

fn family(id: u32) -> ColumnFamilyId {
    ColumnFamilyId(id)
}

fn entry(id: u32, kind: ValueType, key: &'static [u8], value: &'static [u8]) -> BatchEntry<'static> {
    BatchEntry { column_family: family(id), kind, key, value }
}

/// All records of a body, or the reason why it has none or not only records.
fn parse(body: &[u8]) -> Result<Vec<Record<'_>>, Malformed> {
    let mut records = Records::new(body);
    let mut out = Vec::new();
    while let Some(record) = records.next_record()? {
        out.push(record);
    }
    Ok(out)
}

#[test]
fn bytes_are_those_of_the_format() {
    let mut batch = WriteBatch::new();
    batch.put("plain", "p");
    assert_eq!(batch.as_bytes(), b"\0\0\0\0\0\0\0\0\x01\0\0\0\x01\x05plain\x01p");

    batch.clear();
    assert_eq!(batch.as_bytes(), [0; HEADER_LEN]);
    batch.delete_cf(family(300), "k");
    batch.single_delete("s");
    batch.put_log_data("log");
    batch.put_cf(family(0), "", "");
    assert_eq!(batch.count(), 3);
    assert_eq!(batch.body(), b"\x04\xac\x02\x01k\x07\x01s\x03\x03log\x01\0\0");
    assert_eq!(encode_header(0, 3), batch.as_bytes()[..HEADER_LEN]);
}

#[test]
fn entries_come_back_in_order() {
    let mut batch = WriteBatch::with_capacity(100);
    assert!(batch.is_empty());
    assert_eq!(batch.size_bytes(), HEADER_LEN);
    batch.put("a", "1");
    batch.put_log_data("x");
    batch.put_cf(family(7), "b", "2");
    batch.delete("c");
    batch.single_delete_cf(family(9), "d");
    batch.put_log_data("");
    let expected = [
        entry(0, ValueType::Put, b"a", b"1"),
        entry(7, ValueType::Put, b"b", b"2"),
        entry(0, ValueType::Delete, b"c", b""),
        entry(9, ValueType::SingleDelete, b"d", b""),
    ];
    assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
    assert_eq!(batch.log_data().collect::<Vec<_>>(), [b"x".as_slice(), b""]);
    assert_eq!(batch.len(), expected.len());
    assert_eq!(batch.size_bytes(), batch.as_bytes().len());

    let logged = [encode_header(77, batch.count()).as_slice(), batch.body()].concat();
    assert_eq!(BatchReader::new(&logged).unwrap().seqno(), 77);
    let back = WriteBatch::from_bytes(logged).unwrap();
    assert_eq!(back.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_change_beyond_a_limit_is_missing_and_remembered() {
    let mut batch = WriteBatch::new();
    batch.put(vec![1; MAX_KEY_LEN], "fits");
    batch.check().unwrap();
    batch.put("before", "");
    batch.put(vec![1; MAX_KEY_LEN + 1], "");
    batch.delete(vec![1; MAX_KEY_LEN + 2]);
    batch.put("after", "");
    assert_eq!(batch.len(), 3);
    let error = batch.check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.message().contains("65521"), "{error}");
    batch.clear();
    batch.check().unwrap();
}

#[test]
fn every_record_of_the_format_is_read() {
    use Marker::*;
    let cases: &[(&[u8], Record<'_>)] = &[
        (b"\x02\x01k\x01v", Record::Entry(entry(0, ValueType::Merge, b"k", b"v"))),
        (b"\x06\x05\x01k\x01v", Record::Entry(entry(5, ValueType::Merge, b"k", b"v"))),
        (b"\x05\x00\x01k\x01v", Record::Entry(entry(0, ValueType::Put, b"k", b"v"))),
        (b"\x08\x01\x01k", Record::Entry(entry(1, ValueType::SingleDelete, b"k", b""))),
        (b"\x0e\x05\x01a\x01b", Record::Entry(entry(5, ValueType::RangeDelete, b"a", b"b"))),
        (b"\x0f\x01a\x01b", Record::Entry(entry(0, ValueType::RangeDelete, b"a", b"b"))),
        (b"\x10\x05\x01a\x01b", Record::Entry(entry(5, ValueType::BlobIndex, b"a", b"b"))),
        (b"\x11\x01a\x01b", Record::Entry(entry(0, ValueType::BlobIndex, b"a", b"b"))),
        (b"\x16\x01a\x01b", Record::Entry(entry(0, ValueType::WideColumnEntity, b"a", b"b"))),
        (b"\x17\x05\x01a\x01b", Record::Entry(entry(5, ValueType::WideColumnEntity, b"a", b"b"))),
        (b"\x18\x01k\x09v12345678", Record::Entry(entry(0, ValueType::Put, b"k", b"v"))),
        (b"\x19\x05\x01k\x0812345678", Record::Entry(entry(5, ValueType::Put, b"k", b""))),
        (b"\x09", Record::Marker(BeginPrepare)),
        (b"\x0a\x01x", Record::Marker(EndPrepare(b"x"))),
        (b"\x0b\x01x", Record::Marker(Commit(b"x"))),
        (b"\x0c\x01x", Record::Marker(Rollback(b"x"))),
        (b"\x0d", Record::Marker(Noop)),
        (b"\x12", Record::Marker(BeginPersistedPrepare)),
        (b"\x13", Record::Marker(BeginUnprepare)),
        (b"\x15\x01t\x01x", Record::Marker(CommitWithTimestamp { timestamp: b"t", name: b"x" })),
    ];
    for (bytes, expected) in cases {
        assert_eq!(parse(bytes).as_deref(), Ok([*expected].as_slice()), "{bytes:02x?}");
        for len in 1..bytes.len() {
            assert_eq!(parse(&bytes[..len]), Err(Malformed::Truncated), "{:02x?}", &bytes[..len]);
        }
    }
}

#[test]
fn what_cannot_be_applied_is_refused_by_name() {
    let refused = |body: &[u8], count: u32| {
        let bytes = [encode_header(1, count).as_slice(), body].concat();
        WriteBatch::from_bytes(bytes).unwrap_err()
    };
    assert_eq!(refused(b"\x18\x01k\x071234567", 1).kind(), ErrorKind::Corruption);
    let unknown = refused(b"\x14\x01k", 1);
    assert_eq!(unknown.kind(), ErrorKind::Corruption);
    assert!(unknown.message().contains("0x14"));
    for count in [0, 2] {
        let wrong = refused(b"\x01\x01k\x01v", count);
        assert!(wrong.message().contains("wrong count"), "{wrong}");
    }
    assert_eq!(WriteBatch::from_bytes(vec![0; 11]).unwrap_err().kind(), ErrorKind::Corruption);
    // A length as varint of more than 32 bits, and a sequence number beyond 56.
    assert_eq!(refused(b"\x00\xff\xff\xff\xff\x1f", 1).kind(), ErrorKind::Corruption);
    assert_eq!(WriteBatch::from_bytes(vec![0xff; 12]).unwrap_err().kind(), ErrorKind::Corruption);
    let long = [b"\x00\xf1\xff\x03".as_slice(), &vec![0; MAX_KEY_LEN + 1]].concat();
    assert_eq!(refused(&long, 1).kind(), ErrorKind::LimitExceeded);
}

#[derive(Debug, Clone)]
enum Op {
    Put(u32, Vec<u8>, Vec<u8>),
    Delete(u32, Vec<u8>),
    SingleDelete(u32, Vec<u8>),
    LogData(Vec<u8>),
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    let id = || prop_oneof![Just(0), any::<u32>()];
    prop_oneof![
        (id(), bytes(), bytes()).prop_map(|(id, key, value)| Op::Put(id, key, value)),
        (id(), bytes()).prop_map(|(id, key)| Op::Delete(id, key)),
        (id(), bytes()).prop_map(|(id, key)| Op::SingleDelete(id, key)),
        bytes().prop_map(Op::LogData),
    ]
}

proptest! {
    #[test]
    fn batches_survive_a_round_trip(ops in proptest::collection::vec(op(), 0..30)) {
        let mut batch = WriteBatch::new();
        let mut expected = Vec::new();
        for op in &ops {
            let (id, kind, key, value): (_, _, &[u8], &[u8]) = match op {
                Op::Put(id, key, value) => {
                    batch.put_cf(family(*id), key, value);
                    (*id, ValueType::Put, key, value)
                }
                Op::Delete(id, key) => {
                    batch.delete_cf(family(*id), key);
                    (*id, ValueType::Delete, key, b"")
                }
                Op::SingleDelete(id, key) => {
                    batch.single_delete_cf(family(*id), key);
                    (*id, ValueType::SingleDelete, key, b"")
                }
                Op::LogData(data) => {
                    batch.put_log_data(data);
                    continue;
                }
            };
            expected.push(BatchEntry { column_family: family(id), kind, key, value });
        }
        let back = WriteBatch::from_bytes(batch.as_bytes().to_vec()).unwrap();
        prop_assert_eq!(back.iter().collect::<Vec<_>>(), expected);
    }

    /// Whatever the bytes: success with the promised count, or an error.
    #[test]
    fn garbage_ends_in_an_error_or_a_batch(body in proptest::collection::vec(0_u8..0x1c, 0..60), count in 0_u32..6) {
        let bytes = [encode_header(5, count).as_slice(), &body].concat();
        if let Ok(batch) = WriteBatch::from_bytes(bytes) {
            prop_assert_eq!(batch.iter().count(), count as usize);
        }
    }

    #[test]
    fn a_cut_batch_is_refused_or_has_fewer_entries(cut in 0_usize..200) {
        let mut batch = WriteBatch::new();
        for key in 0..20_u8 {
            batch.put([key; 3], [key; 4]);
        }
        let bytes = batch.as_bytes();
        let cut = cut.min(bytes.len() - 1);
        prop_assert!(WriteBatch::from_bytes(bytes[..cut].to_vec()).is_err());
    }
}

/// Recovery would take them for its own, and those of another log for damage of this one.
#[test]
fn notes_of_an_engine_about_its_log_do_not_come_in_with_batches() {
    let mut batch = WriteBatch::new();
    batch.put_log_data([b"SLTSELF1".as_slice(), &7_u64.to_le_bytes()].concat());
    assert_eq!(batch.check().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let record = |blob: &[u8]| [&[tag::LOG_DATA, blob.len() as u8], blob].concat();
    let mut plain = WriteBatch::new();
    plain.put_log_data("SLTSELF");
    plain.put("a", "1");
    plain.delete("b");
    let mut noted = Vec::new();
    noted.extend_from_slice(&encode_header(0, 2));
    for note in [notes::OWN_NUMBER, notes::PREDECESSOR, notes::REPETITION, notes::PROMISE] {
        noted.extend_from_slice(&record(&[note.as_slice(), b"12345678"].concat()));
    }
    let body = plain.body().to_vec();
    let middle = body.len() - 3;
    noted.extend_from_slice(&body[..middle]);
    noted.extend_from_slice(&record(notes::PROMISE));
    noted.extend_from_slice(&body[middle..]);
    noted.extend_from_slice(&record(notes::PROMISE));
    let read = WriteBatch::from_bytes(noted).unwrap();
    assert_eq!(read.body(), body);
    assert_eq!(read.log_data().collect::<Vec<_>>(), [b"SLTSELF"]);
}
