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
