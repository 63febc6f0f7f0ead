//! What a flush or a compaction keeps of range tombstones.

use super::{Fragments, RangeTombstone};
use crate::key::{InternalKeyComparator, SeqNo};

/// Range tombstones over the same keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetainedTombstone {
    /// The first user key.
    pub(crate) start: Vec<u8>,
    /// The first user key behind.
    pub(crate) end: Vec<u8>,
    /// Newest first.
    pub(crate) seqnos: Vec<SeqNo>,
}

/// What must be written of `fragments`, ascending and disjoint. Of each fragment and stripe between two of `snapshots`, which ascend, the
/// newest number counts: nobody can tell older ones apart from it. One that every snapshot sees is dropped where `has_beneath(start, end)` is
/// false: then no entry is left that it hides.
pub(crate) fn retained(
    order: &InternalKeyComparator,
    fragments: &Fragments,
    snapshots: &[SeqNo],
    mut has_beneath: impl FnMut(&[u8], &[u8]) -> bool,
) -> Vec<RetainedTombstone> {
    let earliest_snapshot = snapshots.first().copied().unwrap_or(SeqNo::MAX);
    let mut kept: Vec<RetainedTombstone> = Vec::new();
    for (index, start, end) in fragments.iter() {
        let mut seqnos = Vec::new();
        let mut limit = SeqNo::MAX;
        loop {
            let seqno = fragments.newest_of(index, limit);
            if seqno == 0 || (seqno <= earliest_snapshot && !has_beneath(start, end)) {
                break;
            }
            seqnos.push(seqno);
            // The next older stripe: what the largest snapshot below sees.
            match snapshots[..snapshots.partition_point(|snapshot| *snapshot < seqno)].last() {
                Some(snapshot) => limit = *snapshot,
                None => break,
            }
        }
        if seqnos.is_empty() {
            continue;
        }
        match kept.last_mut() {
            Some(last) if last.seqnos == seqnos && order.compare_user(&last.end, start).is_eq() => {
                last.end.clear();
                last.end.extend_from_slice(end);
            }
            _ => kept.push(RetainedTombstone { start: start.to_vec(), end: end.to_vec(), seqnos }),
        }
    }
    kept
}

impl RetainedTombstone {
    /// Its tombstones one by one, in the order of internal keys.
    pub(crate) fn tombstones(&self) -> impl Iterator<Item = RangeTombstone> {
        self.seqnos.iter().map(|seqno| RangeTombstone::new(&self.start, &self.end, *seqno))
    }
}
