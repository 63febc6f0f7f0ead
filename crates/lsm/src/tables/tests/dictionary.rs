//! The rows of the dictionary: golden bytes, damage, and refused definitions.

use super::super::dictionary::{
    DictionaryRow, IndexDefinition, MAX_IDENTITY_LEN, MAX_INDEXES, MAX_NAME_LEN, dropped_key,
};
use super::super::layout::LAST_ID;
use super::*;
use siltstone_base::expiry::TtlDuration;
use siltstone_base::index_spec::{FixedColumns, LazyIndexSpec};

fn definition() -> TableDefinition {
    let index = |id, name: &str, covering| IndexDefinition {
        id: IndexId(id),
        name: name.to_owned(),
        unique: false,
        covering,
        fixed_len: Some(7),
        identity: Vec::new(),
        covered: None,
        building: false,
    };
    TableDefinition {
        name: "stones".to_owned(),
        primary: IndexId(300),
        lazy: false,
        expiry: None,
        expired_until: None,
        indexes: vec![index(301, "by_age", true), index(302, "é", false)],
    }
}

#[test]
fn rows_have_these_bytes() {
    let (key, value) = definition().encode();
    assert_eq!(key, b"\0\0\0\x02stones");
    assert_eq!(value, b"\0\x02\0\0\x01\x2c\0\x02\0\0\x01\x2d\x02\0\0\0\x07\0\x06by_age\0\0\0\0\0\0\x01\x2e\0\0\0\0\x07\0\x02\xc3\xa9\0\0\0\0");
    assert_eq!(decode_row(&key, &value).unwrap(), DictionaryRow::Table(definition()));

    let mut other = definition();
    other.indexes[0] = IndexDefinition {
        unique: true,
        fixed_len: None,
        identity: b"age".to_vec(),
        covered: Some(b"name".to_vec()),
        building: true,
        ..other.indexes[0].clone()
    };
    let (key, value) = other.encode();
    assert_eq!(&value[8..36], b"\0\0\x01\x2d\x1f\0\0\0\0\0\x06by_age\0\x03age\0\x04name");
    assert_eq!(decode_row(&key, &value).unwrap(), DictionaryRow::Table(other));

    let mut other = definition();
    other.lazy = true;
    let (key, value) = other.encode();
    assert_eq!(&value[6..8], b"\x80\x02");
    assert_eq!(decode_row(&key, &value).unwrap(), DictionaryRow::Table(other));

    for (column, bytes) in [(None, b"\0\0\0\0\0"), (Some(9), b"\x01\0\0\0\x09")] {
        let expiry = RowExpiry::after(TtlDuration::from_seconds(60).unwrap());
        let expiry = column.map_or(expiry, |at| expiry.from_column(at));
        let (key, value) = TableDefinition { expiry: Some(expiry), ..definition() }.encode();
        assert_eq!(
            (&value[6..8], &value[value.len() - 13..]),
            (&b"\x40\x02"[..], &[b"\0\0\0\0\0\0\0\x3c", &bytes[..]].concat()[..])
        );
        assert_eq!(
            decode_row(&key, &value).unwrap(),
            DictionaryRow::Table(TableDefinition { expiry: Some(expiry), ..definition() })
        );
        let until = TableDefinition { expiry: Some(expiry), expired_until: Some(5), ..definition() };
        let (key, longer) = until.encode();
        assert_eq!(
            (longer[longer.len() - 13], &longer[longer.len() - 8..]),
            (bytes[0] | 2, &b"\0\0\0\0\0\0\0\x05"[..])
        );
        assert_eq!(decode_row(&key, &longer).unwrap(), DictionaryRow::Table(until));
        let mut endless = value.clone();
        endless[value.len() - 6] = 0;
        assert_eq!(decode_row(&key, &endless).unwrap_err().kind(), ErrorKind::Corruption, "a duration of zero");
    }

    let (key, value) = next_id_row(303);
    assert_eq!((key.as_slice(), value.as_slice()), (&b"\0\0\0\x01"[..], &b"\0\x02\0\0\x01\x2f"[..]));
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
        (b"\0\0\0\x01x", b"\0\x02\0\0\x01\x2f"),
        (b"\0\0\0\x01", b"\0\x02\0\0\0\xff"),
        (b"\0\0\0\x03\0\0\0\xff", b""),
        (b"\0\0\0\x03\xff\xff\xff\xff", b""),
    ];
    for (key, value) in corrupt {
        assert_eq!(decode_row(key, value).unwrap_err().kind(), ErrorKind::Corruption, "{key:?}");
    }
    // Lazy, with an index that is unique, or one that holds columns; two indexes of one name; an identity that is too long.
    for flags in [b"\x01", b"\x08"] {
        let value = [&b"\0\x02\0\0\x01\0\x80\x01\0\0\x01\x01"[..], flags, b"\0\0\0\x01\0\x01i\0\0\0\0"].concat();
        assert_eq!(decode_row(b"\0\0\0\x02t", &value).unwrap_err().kind(), ErrorKind::Corruption);
    }
    let mut twice = definition();
    twice.indexes[1].name = "by_age".to_owned();
    assert_eq!(decode_row(&key, &twice.encode().1).unwrap_err().kind(), ErrorKind::Corruption);
    let mut long = definition();
    long.indexes[1].identity = vec![b'x'; MAX_IDENTITY_LEN + 1];
    assert_eq!(decode_row(&key, &long.encode().1).unwrap_err().kind(), ErrorKind::Corruption);
    let newer: [(&[u8], &[u8]); 4] = [
        (b"\0\0\0\x04", b""),
        (b"\0\0\0\x01", b"\0\x01\0\0\x01\x2f"),
        (b"\0\0\0\x01", b"\0\x03\0\0\x01\x2f"),
        (b"\0\0\0\x02t", b"\0\x02\0\0\x01\0\0\x01\0\0\x01\x01\x20\0\0\0\x01\0\x01i\0\0\0\0"),
    ];
    for (key, value) in newer {
        assert_eq!(decode_row(key, value).unwrap_err().kind(), ErrorKind::NotSupported, "{key:?}");
    }
    let many = [&b"\0\x02\0\0\x01\0"[..], &(MAX_INDEXES as u16 + 1).to_be_bytes()].concat();
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
    // Of a directory with one table that has one index.
    let beside = |rows: &[(Vec<u8>, Vec<u8>)]| {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        let table = db.create_table(&spec("t", 1)).unwrap();
        assert_eq!(table.0, FIRST_ID.0);
        let mut batch = WriteBatch::new();
        rows.iter().for_each(|(key, value)| batch.put_cf(&db.system, key, value));
        db.db().write(&mut batch, &WriteOptions::default()).unwrap();
        db.close().unwrap();
        let options = DbOptions::default();
        TableDb::open(dir.path(), &options, &ColumnFamilyOptions::default(), &WriteOptions::default())
            .map(drop)
            .map_err(|error| error.kind())
    };
    let other = |primary, index| {
        let mut other = TableDefinition::new(&spec("u", 1), primary, false).unwrap();
        other.indexes[0].id = IndexId(index);
        other.encode()
    };
    let (first, next) = (FIRST_ID.0, next_id_row(FIRST_ID.0 + 4));
    assert_eq!(beside(&[other(first + 2, first + 3), next.clone()]), Ok(()));
    assert_eq!(beside(&[other(first + 2, first + 1), next.clone()]), Err(ErrorKind::Corruption), "an id of two tables");
    assert_eq!(
        beside(&[other(first + 2, first + 2), next.clone()]),
        Err(ErrorKind::Corruption),
        "an id of two indexes"
    );
    for id in [first, first + 1, first + 9] {
        let mark = (dropped_key(IndexId(id)), Vec::new());
        assert_eq!(beside(&[mark, next.clone()]), Err(ErrorKind::Corruption), "a mark that drops {id}");
    }
    assert_eq!(refused(b"\0\0\0\x03x", b""), ErrorKind::Corruption);
    assert_eq!(refused(b"\0\0\0\x09", b""), ErrorKind::NotSupported);
}

/// A sweep of an index whose entries are read in another form, or whose rows are read by another extractor, would delete the good entries.
#[test]
fn an_index_that_was_created_otherwise_is_refused_by_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let columns = |name: &str, range| IndexSpec::over_columns(name, Some(range));
    let table = |index: IndexSpec| TableSpec { name: "t".to_owned(), indexes: vec![index] };
    let kind = || columns("kind", 0..1).covered(Arc::new(FixedColumns::new(Some(3..5))));
    let lazy =
        |range| LazyTableSpec { name: "l".to_owned(), indexes: vec![LazyIndexSpec::over_columns("kind", Some(range))] };
    db.create_table(&table(kind())).unwrap();
    let lazy_table = db.create_lazy_table(&lazy(0..1)).unwrap();
    db.upsert(lazy_table, &[row("1", "abcd")]).unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    let covers = |range| Arc::new(FixedColumns::new(Some(range)));
    for (wrong, what) in [
        (columns("kind", 0..2).covered(covers(3..5)), "length of keys"),
        (columns("kind", 1..2).covered(covers(3..5)), "extractor"),
        (columns("kind", 0..1).covered(covers(2..4)), "covered columns"),
        (columns("kind", 0..1), "covered columns"),
        (columns("knd", 0..1).covered(covers(3..5)), "name"),
        (kind().unique(true), "uniqueness"),
        (kind().covering(false), "covering"),
    ] {
        let error = db.open_table(&table(wrong)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(
            error.to_string().contains(&format!("index kind of table t was created with another {what}")),
            "{error}"
        );
    }
    for wrong in [lazy(0..2), lazy(1..2)] {
        assert_eq!(db.open_lazy_table(&wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    // Who says nothing of himself is believed.
    let unnamed = IndexSpec::new("kind", Arc::new(Slice { from: 0, len: 1 })).covered(covers(3..5));
    db.open_table(&table(unnamed)).unwrap();
    db.open_table(&table(kind())).unwrap();
    assert_eq!(db.open_lazy_table(&lazy(0..1)).unwrap(), lazy_table);
    assert_eq!(db.sweep(lazy_table, usize::MAX).unwrap().removed, 0);
}

/// Says too much of itself.
#[derive(Debug)]
struct Talkative(usize);

impl IndexExtractor for Talkative {
    fn extract(&self, _: &[u8], _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }

    fn identity(&self) -> Vec<u8> {
        vec![b'x'; self.0]
    }
}

#[test]
fn an_identity_has_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = |len| TableSpec { name: "t".to_owned(), indexes: vec![IndexSpec::new("i", Arc::new(Talkative(len)))] };
    assert_eq!(db.create_table(&table(MAX_IDENTITY_LEN + 1)).unwrap_err().kind(), ErrorKind::LimitExceeded);
    db.create_table(&table(MAX_IDENTITY_LEN)).unwrap();
    db.close().unwrap();
    open(dir.path()).open_table(&table(MAX_IDENTITY_LEN)).unwrap();
}
