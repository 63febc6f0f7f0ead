//! What a flush or a compaction keeps of range tombstones.
//!
//! The snapshots cut the sequence numbers into stripes: of two tombstones in one stripe, nobody can tell the older one from the newer one over a key that both
//! cover. So of each stripe the newest number over a key counts. Neighbouring fragments with one number are one piece again: a stripe keeps less than
//! two pieces a tombstone, however many snapshots there are.

use super::RangeTombstone;
use super::fragments::for_each_newest;
use crate::key::{InternalKeyComparator, SeqNo};
use std::cmp::Reverse;

/// What must be written of `tombstones`, in the order of internal keys; pieces of different stripes of `snapshots`, which ascend, overlap. What every snapshot sees is
/// dropped where `has_beneath(start, end)` is false: then no entry is left that it hides.
pub(crate) fn retained(
    order: &InternalKeyComparator,
    mut tombstones: Vec<RangeTombstone>,
    snapshots: &[SeqNo],
    mut has_beneath: impl FnMut(&[u8], &[u8]) -> bool,
) -> Vec<RangeTombstone> {
    // How many snapshots see nothing of it.
    let stripe = |tombstone: &RangeTombstone| snapshots.partition_point(|snapshot| *snapshot < tombstone.seqno);
    tombstones.sort_by_cached_key(stripe);
    let mut kept: Vec<RangeTombstone> = Vec::new();
    for of_stripe in tombstones.chunk_by(|a, b| stripe(a) == stripe(b)) {
        let is_seen_by_all = of_stripe.first().is_some_and(|tombstone| stripe(tombstone) == 0);
        let stripe_start = kept.len();
        for_each_newest(order, of_stripe, |seqno, start, end| {
            if is_seen_by_all && !has_beneath(start, end) {
                return;
            }
            match kept[stripe_start..].last_mut() {
                Some(last) if last.seqno == seqno && order.compare_user(&last.end, start).is_eq() => {
                    last.end = end.into();
                }
                _ => kept.push(RangeTombstone::new(start, end, seqno)),
            }
        });
    }
    sort(order, &mut kept);
    kept
}

/// Brings tombstones into the order of internal keys.
pub(crate) fn sort(order: &InternalKeyComparator, tombstones: &mut [RangeTombstone]) {
    tombstones
        .sort_by(|a, b| order.compare_user(&a.start, &b.start).then_with(|| Reverse(a.seqno).cmp(&Reverse(b.seqno))));
}
