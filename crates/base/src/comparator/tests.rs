//! Separators and successors by table, order by property.

use super::*;
use proptest::prelude::*;

fn separator(start: &[u8], limit: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Bytewise.shortest_separator(start, limit, &mut out);
    out
}

fn successor(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Bytewise.short_successor(key, &mut out);
    out
}

#[test]
fn separators_are_those_of_leveldb() {
    let rows: &[(&[u8], &[u8], &[u8])] = &[
        (b"abcdefghi", b"abcfz", b"abce"),
        (b"abc", b"abcd", b"abc"),
        (b"abc1", b"abc2", b"abc1"),
        (b"abc1xyz", b"abc2", b"abc1y"),
        (b"abc1\xff\xffa", b"abc2", b"abc1\xff\xffb"),
        (b"abc1\xff", b"abc2", b"abc1\xff"),
        (b"abc1xyz", b"abc2z", b"abc2"),
        (b"", b"a", b""),
        (b"a\xff", b"b\x01", b"b"),
    ];
    for &(start, limit, expected) in rows {
        assert_eq!(separator(start, limit), expected, "{start:?} {limit:?}");
    }
}

#[test]
fn successors_grow_the_first_byte_that_can() {
    for (key, expected) in
        [(&b"abc"[..], &b"b"[..]), (b"\xff\xffa", b"\xff\xffb"), (b"\xff\xff", b"\xff\xff"), (b"", b"")]
    {
        assert_eq!(successor(key), expected);
    }
}

#[test]
fn names_are_those_stored_with_the_data() {
    assert_eq!(Bytewise.name(), "leveldb.BytewiseComparator");
    assert_eq!(ReverseBytewise.name(), "rocksdb.ReverseBytewiseComparator");
    assert!(Bytewise.is_bytewise() && !ReverseBytewise.is_bytewise());
    assert!(!Bytewise.equal_may_differ() && !ReverseBytewise.equal_may_differ());
}

#[test]
fn of_one_key_the_newest_timestamp_comes_first() {
    let key = |bare: &[u8], timestamp: u64| [bare, &timestamp.to_le_bytes()].concat();
    for (order, a_to_b) in
        [(&BytewiseU64Ts as &dyn Comparator, Ordering::Less), (&ReverseBytewiseU64Ts, Ordering::Greater)]
    {
        assert_eq!(order.compare(&key(b"a", 1), &key(b"b", 2)), a_to_b);
        assert_eq!(order.compare(&key(b"a", 300), &key(b"a", 2)), Ordering::Less);
        assert_eq!(order.compare(&key(b"a", 2), &key(b"a", 2)), Ordering::Equal);
        assert_eq!(order.compare(b"a", &key(b"a", u64::MAX)), Ordering::Less);
        assert_eq!(order.without_timestamp().unwrap().compare(b"a", b"b"), a_to_b);
    }
    assert_eq!(split_timestamp(&key(b"ab", 7)), Some((&b"ab"[..], 7)));
    assert_eq!(split_timestamp(b"1234567"), None);
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff)], 0..6)
}

proptest! {
    #[test]
    fn separators_and_successors_keep_the_order(a in keys(), b in keys()) {
        let comparators: [&dyn Comparator; 4] = [&Bytewise, &ReverseBytewise, &BytewiseU64Ts, &ReverseBytewiseU64Ts];
        for comparator in comparators {
            let (start, limit) = if comparator.compare(&a, &b).is_le() { (&a, &b) } else { (&b, &a) };
            if comparator.compare(start, limit).is_lt() {
                let mut out = Vec::new();
                comparator.shortest_separator(start, limit, &mut out);
                prop_assert!(comparator.compare(start, &out).is_le());
                prop_assert!(comparator.compare(&out, limit).is_lt());
                prop_assert!(out.len() <= start.len());
            }
            let mut out = Vec::new();
            comparator.short_successor(&a, &mut out);
            prop_assert!(comparator.compare(&a, &out).is_le());
            prop_assert!(out.len() <= a.len());
            prop_assert_eq!(comparator.compare(&a, &b), comparator.compare(&b, &a).reverse());
        }
    }
}

#[test]
fn comparators_are_found_by_the_name_that_is_stored() {
    for comparator in [&Bytewise as &dyn Comparator, &ReverseBytewise, &BytewiseU64Ts, &ReverseBytewiseU64Ts] {
        assert_eq!(by_name(comparator.name()).unwrap().name(), comparator.name());
    }
    assert!(by_name("leveldb.bytewisecomparator").is_none());
}
