//! The rows of the dictionary: golden bytes, damage, and refused definitions.

use super::super::dictionary::{DictionaryRow, IndexDefinition, MAX_INDEXES, MAX_NAME_LEN, dropped_key};
use super::super::layout::LAST_ID;
use super::*;

fn definition() -> TableDefinition {
    let index = |id, name: &str, covering| IndexDefinition {
        id: IndexId(id),
        name: name.to_owned(),
        unique: false,
        covering,
        sized: false,
        covered: false,
        building: false,
    };
    TableDefinition {
        name: "stones".to_owned(),
        primary: IndexId(300),
        lazy: false,
        indexes: vec![index(301, "by_age", true), index(302, "é", false)],
    }
}

#[test]
fn rows_have_these_bytes() {
    let (key, value) = definition().encode();
    assert_eq!(key, b"\0\0\0\x02stones");
    assert_eq!(value, b"\0\x01\0\0\x01\x2c\0\x02\0\0\x01\x2d\x02\0\x06by_age\0\0\x01\x2e\0\0\x02\xc3\xa9");
    assert_eq!(decode_row(&key, &value).unwrap(), DictionaryRow::Table(definition()));

    let mut other = definition();
    other.lazy = true;
    other.indexes[0] =
        IndexDefinition { unique: true, sized: true, covered: true, building: true, ..other.indexes[0].clone() };
    let (key, value) = other.encode();
    assert_eq!(&value[6..8], b"\x80\x02");
    assert_eq!(value[12], 0x1f);
    assert_eq!(decode_row(&key, &value).unwrap(), DictionaryRow::Table(other));

    let (key, value) = next_id_row(303);
    assert_eq!((key.as_slice(), value.as_slice()), (&b"\0\0\0\x01"[..], &b"\0\x01\0\0\x01\x2f"[..]));
    assert_eq!(decode_row(&key, &value).unwrap(), DictionaryRow::NextId(303));

    let key = dropped_key(IndexId(301));
    assert_eq!(key, b"\0\0\0\x03\0\0\x01\x2d");
    assert_eq!(decode_row(&key, b"").unwrap(), DictionaryRow::Dropped(IndexId(301)));
}

#[test]
fn damaged_rows_are_errors() {
    let (key, value) = definition().encode();
    for len in 0..value.len() {
        assert_eq!(decode_row(&key, &value[..len]).unwrap_err().kind(), ErrorKind::Corruption, "{len}");
    }
    let corrupt: [(&[u8], &[u8]); 9] = [
        (b"", b""),
        (b"\0\0\0", b""),
        (b"\0\0\0\x02", &value),
        (b"\0\0\0\x02\xff\xfe", &value),
        (&key, &[&value[..], b"x"].concat()),
        (b"\0\0\0\x01x", b"\0\x01\0\0\x01\x2f"),
        (b"\0\0\0\x01", b"\0\x01\0\0\0\xff"),
        (b"\0\0\0\x03\0\0\0\xff", b""),
        (b"\0\0\0\x03\xff\xff\xff\xff", b""),
    ];
    for (key, value) in corrupt {
        assert_eq!(decode_row(key, value).unwrap_err().kind(), ErrorKind::Corruption, "{key:?}");
    }
    let newer: [(&[u8], &[u8]); 3] = [
        (b"\0\0\0\x04", b""),
        (b"\0\0\0\x01", b"\0\x02\0\0\x01\x2f"),
        (b"\0\0\0\x02t", b"\0\x01\0\0\x01\0\0\x01\0\0\x01\x01\x20\0\x01i"),
    ];
    for (key, value) in newer {
        assert_eq!(decode_row(key, value).unwrap_err().kind(), ErrorKind::NotSupported, "{key:?}");
    }
    let many = [&b"\0\x01\0\0\x01\0"[..], &(MAX_INDEXES as u16 + 1).to_be_bytes()].concat();
    assert_eq!(decode_row(&key, &many).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn bad_definitions_are_refused() {
    let kind = |spec: &TableSpec, first_id| TableDefinition::new(spec, first_id, false).map(|_| ()).unwrap_err().kind();
    assert_eq!(kind(&spec("", 1), 256), ErrorKind::InvalidArgument);
    assert_eq!(kind(&spec(&"n".repeat(MAX_NAME_LEN + 1), 1), 256), ErrorKind::InvalidArgument);
    assert_eq!(kind(&spec("t", MAX_INDEXES + 1), 256), ErrorKind::LimitExceeded);
    let mut double = spec("t", 2);
    double.indexes[1].name = "by_0".to_owned();
    assert_eq!(kind(&double, 256), ErrorKind::InvalidArgument);
    let last = TableDefinition::new(&spec("t", 2), LAST_ID.0 - 2, false).unwrap();
    assert_eq!(last.ids().last(), Some(LAST_ID));
    assert_eq!(kind(&spec("t", 2), LAST_ID.0 - 1), ErrorKind::LimitExceeded);
}

#[test]
fn a_damaged_dictionary_is_refused_at_open() {
    let refused = |key: &[u8], value: &[u8]| {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        let mut batch = WriteBatch::new();
        batch.put_cf(&db.system, key, value);
        db.db().write(&mut batch, &WriteOptions::default()).unwrap();
        db.close().unwrap();
        let options = DbOptions::default();
        TableDb::open(dir.path(), &options, &ColumnFamilyOptions::default(), &WriteOptions::default())
            .map(|_| ())
            .unwrap_err()
            .kind()
    };
    let (key, value) = definition().encode();
    assert_eq!(refused(&key, &value), ErrorKind::Corruption, "ids that were not given out");
    assert_eq!(refused(b"\0\0\0\x03x", b""), ErrorKind::Corruption);
    assert_eq!(refused(b"\0\0\0\x09", b""), ErrorKind::NotSupported);
}
