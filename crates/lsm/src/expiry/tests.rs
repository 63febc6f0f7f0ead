//! Tests of histograms of stamps.

use super::histogram::{HistogramBuilder, Tally};
use super::*;
use proptest::prelude::*;
use siltstone_base::expiry::Stamp;

fn histogram(rows: &[(u32, u64, usize)], others: usize) -> Option<StampHistogram> {
    let mut builder = HistogramBuilder::new("a policy");
    rows.iter()
        .for_each(|(group, seconds, bytes)| builder.add(Some(Stamp { group: *group, seconds: *seconds }), *bytes));
    (0..others).for_each(|_| builder.add(None, 1));
    builder.finish()
}

#[test]
fn few_stamps_are_told_apart_exactly() {
    let stamps = histogram(&[(0, 10, 5), (0, 20, 5), (0, 10, 5), (3, 10, 100)], 0).unwrap();
    assert_eq!(stamps.all(), Tally { rows: 4, bytes: 115 });
    let expired = |bound| stamps.expired(|group| (group == 0).then_some(bound));
    assert_eq!((expired(9), expired(10)), (Tally::default(), Tally { rows: 2, bytes: 10 }));
    assert_eq!(expired(20), Tally { rows: 3, bytes: 15 });
    assert!(!stamps.is_all_expired(|group| (group == 0).then_some(20)) && stamps.is_all_expired(|_| Some(20)));
    assert!(!stamps.is_all_expired(|_| Some(19)));
}

#[test]
fn what_never_expires_is_counted_and_keeps_the_whole() {
    let stamps = histogram(&[(0, 10, 5)], 1).unwrap();
    assert_eq!(stamps.all(), Tally { rows: 2, bytes: 6 });
    assert!(!stamps.is_all_expired(|_| Some(u64::MAX)) && stamps.latest().is_none());
    let nothing = histogram(&[], 0).unwrap();
    assert!(!nothing.is_all_expired(|_| Some(u64::MAX)), "nothing is known of such a table");
}

#[test]
fn there_are_no_more_groups_than_can_be_told_apart() {
    let rows: Vec<_> = (0..1024).map(|group| (group, 1, 1)).collect();
    assert!(histogram(&rows, 0).is_some_and(|stamps| StampHistogram::decode(&stamps.encode()) == Some(stamps)));
    let rows: Vec<_> = (0..1025).map(|group| (group, 1, 1)).collect();
    assert!(histogram(&rows, 0).is_none());
}

#[test]
fn damaged_histograms_are_none() {
    let stamps = histogram(&[(0, 10, 5), (0, 20, 5), (7, 1, 1)], 3).unwrap().encode();
    for len in 0..stamps.len() {
        assert_eq!(StampHistogram::decode(&stamps[..len]), None);
    }
    assert_eq!(StampHistogram::decode(&[&stamps[..], b"\0"].concat()), None);
    // A count without end.
    let huge = [&[1, 0, 0, 0][..], &[0xFF; 9], &[1]].concat();
    assert_eq!(StampHistogram::decode(&huge), None);
}

#[test]
fn of_an_entity_the_default_column_is_judged() {
    // A version, a count, a name and a length for each column, then the values.
    assert_eq!(judged(ValueType::WideColumnEntity, b"\x01\x01\0\x03a@7"), Some(&b"a@7"[..]));
    assert_eq!(judged(ValueType::WideColumnEntity, b"\x01\x01\x01n\x03a@7"), None);
    assert_eq!(judged(ValueType::WideColumnEntity, b"\x01\x01\0\x09a@7"), None);
    assert_eq!(judged(ValueType::Put, b"a@7"), Some(&b"a@7"[..]));
    assert_eq!((judged(ValueType::Delete, b"a@7"), judged(ValueType::BlobIndex, b"a@7")), (None, None));
}

proptest! {
    /// No row counts as expired that is not, and all do in the end.
    #[test]
    fn what_counts_as_expired_is(
        rows in proptest::collection::vec((0u32..12, 0u64..5_000_000, 1usize..100), 1..600),
        bounds in proptest::collection::vec(0u64..6_000_000, 1..5),
    ) {
        let stamps = histogram(&rows, 0).unwrap();
        prop_assert_eq!(StampHistogram::decode(&stamps.encode()), Some(stamps.clone()));
        let bytes: usize = rows.iter().map(|row| row.2).sum();
        prop_assert_eq!(stamps.all(), Tally { rows: rows.len() as u64, bytes: bytes as u64 });
        for bound in bounds {
            let expired = stamps.expired(|_| Some(bound));
            let truly: usize = rows.iter().filter(|row| row.1 <= bound).map(|row| row.2).sum();
            prop_assert!(expired.bytes <= truly as u64);
            prop_assert_eq!(stamps.is_all_expired(|_| Some(bound)), truly == bytes);
        }
        prop_assert_eq!(stamps.expired(|_| Some(5_000_000)), stamps.all());
        let latest = stamps.latest().unwrap().map(|stamp| stamp.seconds).max();
        prop_assert_eq!(latest, rows.iter().map(|row| row.1).max());
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = StampHistogram::decode(&bytes);
    }
}
