//! Tests of ranges of entries.

use super::*;

type Scan = IndexScan;

#[test]
fn a_prefix_ends_before_whatever_does_not_begin_with_it() {
    for (prefix, end) in [
        (&b"me"[..], Some(&b"mf"[..])),
        (b"m\xff", Some(b"n")),
        (b"m\xfe\xff\xff", Some(b"m\xff")),
        (b"\xff\xff", None),
        (b"", None),
    ] {
        let scan = Scan::all().prefix(prefix);
        assert_eq!((scan.from(), scan.end()), (prefix, end), "{prefix:?}");
    }
    // Whatever the range was before.
    assert_eq!(Scan::all().ending_before("z").prefix("\u{7f}").end(), Some(&b"\x80"[..]));
    assert_eq!(Scan::all().ending_before("z").prefix("").end(), None);
}

#[test]
fn a_walk_is_over_at_the_end_of_its_direction() {
    let range = || Scan::all().starting_at("b").ending_before("d");
    let beyond = |scan: &Scan| ["a", "b", "c", "d"].map(|entry| scan.is_beyond(entry.as_bytes()));
    assert_eq!(beyond(&range()), [false, false, false, true]);
    assert_eq!(beyond(&range().reverse()), [true, false, false, false]);
    assert_eq!(beyond(&Scan::all()), [false; 4]);
    assert_eq!(beyond(&Scan::all().reverse()), [false; 4]);
}

#[test]
fn a_scan_at_a_snapshot_becomes_one_of_the_newest_state_with_all_else_kept() {
    let scan = IndexScan::<u64>::all().prefix("a").reverse().limit(3).fill_cache(false).at(&7);
    assert_eq!(scan.snapshot(), Some(&7));
    let newest: Scan = scan.at_newest();
    assert!(newest.snapshot().is_none() && newest.is_reverse() && !newest.fills_cache());
    assert_eq!((newest.from(), newest.end(), newest.most()), (&b"a"[..], Some(&b"b"[..]), 3));
}

#[test]
fn entries_come_back_in_their_order_and_in_that_of_primary_keys() {
    let all = [("x", "3", "one"), ("y", "1", ""), ("", "2", "three")];
    let mut entries = IndexEntries::default();
    for (index_key, primary_key, covered) in all.map(|(a, b, c)| (a.as_bytes(), b.as_bytes(), c.as_bytes())) {
        entries.push(IndexEntry { index_key, primary_key, covered });
    }
    assert_eq!((entries.len(), entries.bytes(), entries.is_empty()), (3, 13, false));
    for (at, (index_key, primary_key, covered)) in all.iter().enumerate() {
        let [index_key, primary_key, covered] = [index_key, primary_key, covered].map(|part| part.as_bytes());
        assert_eq!(entries.get(at), IndexEntry { index_key, primary_key, covered });
    }
    assert_eq!(entries.by_primary_key(), [1, 2, 0]);
    entries.clear();
    assert!(entries.is_empty() && entries.bytes() == 0);
}
