//! Tests of fragments against lists of tombstones that are searched one by one.

use super::*;
use crate::key::InternalKeyComparator;
use proptest::prelude::*;
use siltstone_base::comparator::Bytewise;
use siltstone_base::sync::Arc;

fn order() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(Bytewise))
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(&b"ab\x00\xff"[..]), 0..4),
        4 => (0u32..40).prop_map(|number| format!("a long shared start {number:04}").into_bytes()),
        1 => (0u32..40).prop_map(|number| format!("a long shared start 0001 and a shared tail {number:04}").into_bytes()),
    ]
}

fn tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
    let tombstone = (keys(), keys(), 1u64..60).prop_map(|(start, end, seqno)| RangeTombstone::new(&start, &end, seqno));
    prop::collection::vec(tombstone, 0..30)
}

/// The newest of `tombstones` over `key` at `limit`.
fn naive(tombstones: &[RangeTombstone], key: &[u8], limit: SeqNo) -> SeqNo {
    let covers =
        |tombstone: &&RangeTombstone| *tombstone.start <= *key && *key < *tombstone.end && tombstone.seqno <= limit;
    tombstones.iter().filter(covers).map(|tombstone| tombstone.seqno).max().unwrap_or(0)
}

fn is_within(key: &[u8], stretch: &Stretch<'_>) -> bool {
    stretch.start.is_none_or(|start| start <= key) && stretch.end.is_none_or(|end| key < end)
}

proptest! {
    #[test]
    fn fragments_answer_as_their_tombstones(
        tombstones in tombstones(),
        asked in prop::collection::vec((keys(), 0u64..70), 1..40),
    ) {
        let fragments = Fragments::new(&order(), &tombstones);
        let mut edges: Vec<_> = tombstones.iter().flat_map(|tombstone| [&tombstone.start, &tombstone.end]).collect();
        edges.sort();
        let asked: Vec<(Vec<u8>, SeqNo)> =
            asked.into_iter().chain(edges.iter().map(|edge| (edge.to_vec(), 30))).collect();
        for (key, limit) in &asked {
            let expected = naive(&tombstones, key, *limit);
            prop_assert_eq!(fragments.covering(key, *limit), expected);
            let stretch = fragments.stretch_at(key, *limit);
            prop_assert_eq!(stretch.seqno, expected);
            prop_assert!(is_within(key, &stretch));
            let run = fragments.run_at(key, *limit);
            prop_assert_eq!(run.seqno, expected);
            prop_assert!(is_within(key, &run));
            for (other, _) in &asked {
                if is_within(other, &stretch) {
                    prop_assert_eq!(naive(&tombstones, other, *limit), expected);
                }
                if is_within(other, &run) {
                    prop_assert_eq!(naive(&tombstones, other, *limit) == 0, expected == 0);
                }
            }
        }
        let mut sorted = asked.clone();
        sorted.sort();
        let mut walk = FragmentWalk::new(fragments);
        for (key, limit) in &sorted {
            prop_assert_eq!(walk.covering(key, *limit), naive(&tombstones, key, *limit));
        }
    }

    /// Neither a reader at a snapshot nor the newest one can tell what is retained from what there was, as far as something lies beneath.
    #[test]
    fn readers_cannot_tell_what_was_dropped(
        tombstones in tombstones(),
        snapshots in prop::collection::btree_set(1u64..60, 0..5),
        empty_from in keys(),
        asked in prop::collection::vec(keys(), 1..40),
    ) {
        let order = order();
        let snapshots: Vec<SeqNo> = snapshots.into_iter().collect();
        let kept = retained(&order, tombstones.clone(), &snapshots, |start, _| start < empty_from.as_slice());
        let key_of = |tombstone: &RangeTombstone| (tombstone.start.clone(), SeqNo::MAX - tombstone.seqno);
        for pair in kept.windows(2) {
            prop_assert!(key_of(&pair[0]) < key_of(&pair[1]), "{:?}", kept);
        }
        for (index, one) in kept.iter().enumerate() {
            prop_assert!(one.start < one.end);
            let touches = |other: &RangeTombstone| other.seqno == one.seqno && other.start <= one.end;
            prop_assert!(!kept[index + 1..].iter().any(touches), "{:?}", kept);
        }
        // Those between two snapshots are disjoint.
        let stripe = |tombstone: &RangeTombstone| snapshots.partition_point(|snapshot| *snapshot < tombstone.seqno);
        for number in 0..=snapshots.len() {
            let of_stripe: Vec<_> = kept.iter().filter(|tombstone| stripe(tombstone) == number).collect();
            prop_assert!(of_stripe.windows(2).all(|pair| pair[0].end <= pair[1].start), "{:?}", of_stripe);
        }
        prop_assert!(kept.len() < 2 * tombstones.len().max(1), "{} of {}", kept.len(), tombstones.len());
        let earliest = snapshots.first().copied().unwrap_or(SeqNo::MAX);
        for key in &asked {
            for reader in snapshots.iter().copied().chain([SeqNo::MAX]) {
                let (before, after) = (naive(&tombstones, key, reader), naive(&kept, key, reader));
                let dropped = after == 0 && before <= earliest && key.as_slice() >= empty_from.as_slice();
                prop_assert!(before == after || dropped, "{:?} at {}: {} became {}", key, reader, before, after);
            }
        }
    }
}

#[test]
fn nested_tombstones_take_little_memory() {
    let nested: Vec<_> =
        (1..20_000u64).map(|seqno| RangeTombstone::new(b"", format!("{seqno:08}").as_bytes(), seqno)).collect();
    let fragments = Fragments::new(&order(), &nested);
    assert!(fragments.memory_usage() < 20_000 * 400, "{}", fragments.memory_usage());
    assert_eq!(fragments.num_tombstones(), 19_999);
    assert_eq!(fragments.seqnos(), (1, 19_999));
    assert_eq!(fragments.covering(b"00000007", SeqNo::MAX), 19_999);
    assert_eq!(fragments.covering(b"00000007", 500), 500);
    assert_eq!(fragments.covering(b"00000700", 500), 0);
    assert!(Fragments::within(&order(), &nested, 20_000).is_none());
    assert_eq!(retained(&order(), nested.clone(), &[], |_, _| true), [nested.last().unwrap().clone()]);
    assert_eq!(retained(&order(), nested, &[], |_, _| false), []);
}

/// As a queue does it that deletes what lies before a moving key while somebody reads behind it. A piece for each fragment and each snapshot would be more than a table may
/// have: the flush would fail, again and again.
#[test]
fn nested_deletes_with_a_snapshot_each_stay_as_many_as_they_were() {
    const DELETES: u64 = 6_000;
    let nested: Vec<_> =
        (1..=DELETES).map(|seqno| RangeTombstone::new(b"", format!("{seqno:08}").as_bytes(), seqno)).collect();
    let snapshots: Vec<SeqNo> = (1..=DELETES).collect();
    let kept = retained(&order(), nested.clone(), &snapshots, |_, _| true);
    assert_eq!(kept, nested.into_iter().rev().collect::<Vec<_>>());
    assert!(Fragments::within(&order(), &kept, 30 * DELETES as usize).is_some(), "what a table's reader asks for");
}

#[test]
fn what_deletes_nothing_is_ignored() {
    let nothing = [RangeTombstone::new(b"b", b"b", 3), RangeTombstone::new(b"c", b"a", 4)];
    let fragments = Fragments::new(&order(), &nothing);
    assert!(fragments.is_empty());
    assert_eq!(fragments.covering(b"b", SeqNo::MAX), 0);
    assert_eq!(fragments.run_at(b"b", SeqNo::MAX), Stretch { seqno: 0, start: None, end: None });
}
