//! Entries of rows.

use super::*;
use crate::memcomparable::{put, put_bytes};

#[derive(Debug)]
struct Even;

impl IndexExtractor for Even {
    fn extract(&self, primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        index_key.extend_from_slice(value);
        primary_key.last().is_some_and(|byte| byte.is_multiple_of(2))
    }
}

#[test]
fn an_entry_is_the_index_key_and_the_primary_key() {
    let index = IndexSpec::over_columns("price_first", [4..8, 0..2]);
    let mut entry = vec![7];
    assert!(index.entry(b"pk", b"abcdefgh", &mut entry));
    assert_eq!(entry, b"\x07efghabpk");
    assert!(!index.entry(b"pk", b"abcdefg", &mut entry), "too short for a column");
    assert_eq!(entry, b"\x07efghabpk");
}

#[test]
fn a_row_may_have_no_entry() {
    let index = IndexSpec::new("even", Arc::new(Even)).unique(true).covering(false);
    assert!(index.unique && !index.covering);
    let mut entry = Vec::new();
    assert!(!index.entry(&[1], b"v", &mut entry));
    assert!(entry.is_empty());
    assert!(index.entry(&[2], b"v", &mut entry));
    assert_eq!(entry, b"v\x02");
}

#[test]
fn entries_sort_by_columns_and_then_by_primary_key() {
    let index = IndexSpec::over_columns("by_number", std::iter::once(0..4));
    let entry = |number: i32, name: &[u8]| {
        let (mut value, mut key, mut entry) = (Vec::new(), Vec::new(), Vec::new());
        put(&mut value, number);
        put_bytes(&mut key, name);
        assert!(index.entry(&key, &value, &mut entry));
        entry
    };
    let sorted = [entry(-5, b"z"), entry(-5, b"zz"), entry(0, b""), entry(3, b"a")];
    assert!(sorted.is_sorted());
}

/// Does whatever is asked of it by the first byte of the value.
#[derive(Debug)]
struct Unruly;

impl IndexExtractor for Unruly {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        index_key.extend_from_slice(b"key");
        match value.first() {
            Some(b'p') => panic!("asked for"),
            Some(b't') => index_key.clear(),
            Some(b'l') => index_key.push(0),
            _ => {}
        }
        value.first() != Some(&b'n')
    }

    fn try_extract(&self, primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> Result<bool> {
        if value.is_empty() {
            return Err(Error::corrupt("an empty row"));
        }
        Ok(self.extract(primary_key, value, index_key))
    }

    fn fixed_len(&self) -> Option<usize> {
        Some(3)
    }
}

#[test]
fn an_extractor_that_misbehaves_is_named() {
    let index = IndexSpec::new("unruly", Arc::new(Unruly));
    for (value, kind) in [
        (&b"p"[..], ErrorKind::Poisoned),
        (b"t", ErrorKind::InvalidArgument),
        (b"l", ErrorKind::InvalidArgument),
        (b"", ErrorKind::Corruption),
    ] {
        let mut out = b"before".to_vec();
        let error = index.try_key(b"pk", value, &mut out).unwrap_err();
        assert_eq!(error.kind(), kind, "{value:?}");
        assert!(error.to_string().contains("index unruly"), "{error}");
        assert!(b"before".starts_with(&out), "nothing is left of it");
    }
    let mut out = b"before".to_vec();
    assert!(!index.try_key(b"pk", b"n", &mut out).unwrap());
    assert_eq!(out, b"before");
    assert!(index.try_key(b"pk", b"x", &mut out).unwrap());
    assert_eq!(out, b"beforekey");
}

#[test]
fn an_entry_may_hold_other_columns() {
    let index = IndexSpec::over_columns("by", Some(0..2)).covered(Arc::new(FixedColumns::new([4..6, 2..3])));
    let mut covered = Vec::new();
    index.try_covered(b"pk", b"abcdef", &mut covered).unwrap();
    assert_eq!(covered, b"efc");
    index.try_covered(b"pk", b"abcde", &mut covered).unwrap();
    assert_eq!(covered, b"efc", "too short for a column");
}

#[test]
fn columns_say_where_they_are() {
    assert_eq!(FixedColumns::new([4..6, 2..3]).identity(), b"columns 4..6 2..3");
    assert_ne!(FixedColumns::new(Some(0..1)).identity(), FixedColumns::new(Some(1..2)).identity());
    assert!(Even.identity().is_empty(), "nobody can tell");
}
