//! What the range tombstones of one source say of each stretch of keys.
//!
//! 1. The starts and ends of all tombstones, sorted and each once, are the borders; a fragment lies between two neighbours.
//! 2. Of each fragment the newest sequence number is kept, 0 for a gap; older ones are in [`Stacks`], which only reads at old snapshots ask.
//! 3. A search bisects the borders. Under the bytewise order it looks at 8 bytes of each behind what all share, as integers in one array,
//!    and only then at the few borders that are equal there.

use super::RangeTombstone;
use super::stacks::{Cover, Stacks};
use crate::heads::Heads;
use crate::key::{InternalKeyComparator, SeqNo, head_of};
use std::cmp::Ordering;

/// Fragments of range tombstones. Immutable.
#[derive(Debug)]
pub(crate) struct Fragments {
    order: InternalKeyComparator,
    /// The borders, one behind the other.
    borders: Vec<u8>,
    /// Where each border ends.
    ends: Vec<usize>,
    /// Under the bytewise order: what all borders begin with, and the head of each behind that.
    heads: Option<(usize, Heads)>,
    /// Of each fragment the newest number, 0 for a gap. One less than there are borders.
    newest: Vec<SeqNo>,
    /// Of each fragment: where the run of fragments without a gap that it is in begins and ends, as indexes of borders.
    runs: Vec<(usize, usize)>,
    /// Empty if no two tombstones overlap.
    stacks: Stacks,
    smallest_seqno: SeqNo,
    largest_seqno: SeqNo,
    tombstones: usize,
}

/// A stretch of keys over which one answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch<'a> {
    /// The largest visible number over it; 0 if nothing covers it.
    pub(crate) seqno: SeqNo,
    /// Its first key; `None`: no bound.
    pub(crate) start: Option<&'a [u8]>,
    /// The first key behind it; `None`: no bound.
    pub(crate) end: Option<&'a [u8]>,
}

impl Fragments {
    /// The fragments of `tombstones`, in any order. Those that end before they begin, or where they begin, delete nothing.
    pub(crate) fn new(order: &InternalKeyComparator, tombstones: &[RangeTombstone]) -> Self {
        match Self::within(order, tombstones, usize::MAX) {
            Some(fragments) => fragments,
            None => Self::of(order, &[], Vec::new(), Stacks::default()),
        }
    }

    /// The same; `None` if the tombstones overlap so much that more than `max_numbers` sequence numbers had to be kept.
    pub(crate) fn within(
        order: &InternalKeyComparator,
        tombstones: &[RangeTombstone],
        max_numbers: usize,
    ) -> Option<Self> {
        let (borders, covers) = covers_of(order, tombstones);
        let leaves = borders.len().saturating_sub(1);
        let (newest, overlaps) = newest_numbers(leaves, &covers);
        let stacks = if overlaps { Stacks::new(leaves, &covers, max_numbers)? } else { Stacks::default() };
        let mut fragments = Self::of(order, &borders, newest, stacks);
        fragments.largest_seqno = covers.first().map_or(0, |cover| cover.seqno);
        fragments.smallest_seqno = covers.last().map_or(0, |cover| cover.seqno);
        fragments.tombstones = covers.len();
        Some(fragments)
    }

    fn of(order: &InternalKeyComparator, borders: &[&[u8]], newest: Vec<SeqNo>, stacks: Stacks) -> Self {
        let mut bytes = Vec::with_capacity(borders.iter().map(|border| border.len()).sum());
        let mut ends = Vec::with_capacity(borders.len());
        for border in borders {
            bytes.extend_from_slice(border);
            ends.push(bytes.len());
        }
        let heads = order.is_bytewise().then(|| {
            let shared = match borders {
                // Sorted: what the first and the last share, all share.
                [first, .., last] => first.iter().zip(*last).take_while(|(a, b)| a == b).count(),
                _ => 0,
            };
            (shared, Heads::new(borders.iter().map(|border| head_of(&border[shared..])).collect()))
        });
        let runs = runs_of(&newest);
        Self {
            order: order.clone(),
            borders: bytes,
            ends,
            heads,
            newest,
            runs,
            stacks,
            smallest_seqno: 0,
            largest_seqno: 0,
            tombstones: 0,
        }
    }

    /// Whether no key is covered.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// How many tombstones these are the fragments of.
    pub(crate) fn num_tombstones(&self) -> usize {
        self.tombstones
    }

    /// The smallest and the largest sequence number; 0 if there is none.
    pub(crate) fn seqnos(&self) -> (SeqNo, SeqNo) {
        (self.smallest_seqno, self.largest_seqno)
    }

    /// The largest number of a tombstone over `key` that is not above `limit`; 0 if there is none.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8], limit: SeqNo) -> SeqNo {
        self.seqno_at(self.position(key), limit)
    }

    /// What holds at `key` for a reader at `limit`, and how far. Without a gap, a covered stretch goes on over all fragments that the reader
    /// sees covered by something: `seqno` is then the number at `key` alone.
    #[inline]
    pub(crate) fn run_at(&self, key: &[u8], limit: SeqNo) -> Stretch<'_> {
        let position = self.position(key);
        let stretch = self.stretch(position, limit);
        if stretch.seqno == 0 || limit < self.largest_seqno {
            return stretch;
        }
        match self.runs.get(position.wrapping_sub(1)) {
            Some((start, end)) => Stretch { start: self.border(*start), end: self.border(*end), ..stretch },
            None => stretch,
        }
    }

    /// What holds at `key` for a reader at `limit`, and how far at least.
    #[inline]
    pub(crate) fn stretch_at(&self, key: &[u8], limit: SeqNo) -> Stretch<'_> {
        self.stretch(self.position(key), limit)
    }

    fn stretch(&self, position: usize, limit: SeqNo) -> Stretch<'_> {
        let start = position.checked_sub(1).and_then(|index| self.border(index));
        Stretch { seqno: self.seqno_at(position, limit), start, end: self.border(position) }
    }

    /// The largest number over fragment `index` that is not above `limit`; 0 if there is none.
    #[inline]
    fn newest_of(&self, index: usize, limit: SeqNo) -> SeqNo {
        match self.newest.get(index) {
            Some(&newest) if newest <= limit => newest,
            // Without an overlap the newest number is the only one.
            Some(_) => self.stacks.newest_at(index, limit),
            None => 0,
        }
    }

    /// The bytes of memory that the fragments take.
    pub(crate) fn memory_usage(&self) -> usize {
        let per_border = size_of::<usize>() + size_of::<u64>();
        let per_fragment = size_of::<SeqNo>() + size_of::<(usize, usize)>();
        size_of::<Self>()
            + self.borders.capacity()
            + self.ends.capacity() * per_border
            + self.newest.capacity() * per_fragment
            + self.stacks.memory_usage()
    }

    #[inline]
    fn border(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = match index {
            0 => 0,
            index => self.ends[index - 1],
        };
        Some(&self.borders[start..end])
    }

    /// How many borders are at or before `key`: one more than the index of its fragment.
    #[inline]
    fn position(&self, key: &[u8]) -> usize {
        let among = match &self.heads {
            None => 0..self.ends.len(),
            Some((shared, heads)) => {
                let Some(first) = self.border(0) else { return 0 };
                let Some((front, rest)) = key.split_at_checked(*shared) else {
                    return if *key < first[..*shared] { 0 } else { self.ends.len() };
                };
                match front.cmp(&first[..*shared]) {
                    Ordering::Less => return 0,
                    Ordering::Greater => return self.ends.len(),
                    Ordering::Equal => {}
                }
                let (start, end) = heads.equal_range(head_of(rest));
                start..end
            }
        };
        // Bisects what the heads do not tell apart.
        let (mut low, mut high) = (among.start, among.end);
        while low < high {
            let middle = low + (high - low) / 2;
            let is_at_or_before =
                self.border(middle).is_some_and(|border| self.order.compare_user(border, key).is_le());
            if is_at_or_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    #[inline]
    fn seqno_at(&self, position: usize, limit: SeqNo) -> SeqNo {
        match position {
            0 => 0,
            position => self.newest_of(position - 1, limit),
        }
    }
}

/// The borders of `tombstones`, and which fragments each of them covers, newest first. Those that delete nothing are left out.
fn covers_of<'a>(order: &InternalKeyComparator, tombstones: &'a [RangeTombstone]) -> (Vec<&'a [u8]>, Vec<Cover>) {
    let deletes_keys = |tombstone: &&RangeTombstone| order.compare_user(&tombstone.start, &tombstone.end).is_lt();
    let mut sorted: Vec<&RangeTombstone> = tombstones.iter().filter(deletes_keys).collect();
    sorted.sort_unstable_by_key(|tombstone| std::cmp::Reverse(tombstone.seqno));
    let mut borders: Vec<&[u8]> = sorted.iter().flat_map(|tombstone| [&*tombstone.start, &*tombstone.end]).collect();
    borders.sort_unstable_by(|a, b| order.compare_user(a, b));
    borders.dedup_by(|a, b| order.compare_user(a, b).is_eq());
    let index = |key: &[u8]| borders.partition_point(|border| order.compare_user(border, key).is_lt());
    let covers: Vec<Cover> = sorted
        .iter()
        .map(|tombstone| Cover { fragments: index(&tombstone.start)..index(&tombstone.end), seqno: tombstone.seqno })
        .collect();
    (borders, covers)
}

/// Calls `visit` for each fragment of `tombstones` that is no gap, ascending: its newest number, start and end.
pub(super) fn for_each_newest(
    order: &InternalKeyComparator,
    tombstones: &[RangeTombstone],
    mut visit: impl FnMut(SeqNo, &[u8], &[u8]),
) {
    let (borders, covers) = covers_of(order, tombstones);
    let (newest, _) = newest_numbers(borders.len().saturating_sub(1), &covers);
    for (seqno, ends) in newest.into_iter().zip(borders.windows(2)) {
        if let (1.., [start, end]) = (seqno, ends) {
            visit(seqno, start, end);
        }
    }
}

/// Of each fragment the newest number, and whether any two of `covers`, newest first, overlap.
fn newest_numbers(leaves: usize, covers: &[Cover]) -> (Vec<SeqNo>, bool) {
    let mut newest = vec![0; leaves];
    let mut overlaps = false;
    // Of each fragment: the next one, from itself on, that has no number yet. Followed with path halving.
    let mut next: Vec<usize> = (0..=leaves).collect();
    let find = |next: &mut Vec<usize>, mut index: usize| {
        while next[index] != index {
            next[index] = next[next[index]];
            index = next[index];
        }
        index
    };
    for cover in covers {
        let mut filled = 0;
        let mut index = find(&mut next, cover.fragments.start);
        while index < cover.fragments.end {
            newest[index] = cover.seqno;
            next[index] = index + 1;
            filled += 1;
            index = find(&mut next, index + 1);
        }
        overlaps |= filled < cover.fragments.len();
    }
    (newest, overlaps)
}

/// Of each fragment the borders between which there is no gap.
fn runs_of(newest: &[SeqNo]) -> Vec<(usize, usize)> {
    let mut runs = Vec::with_capacity(newest.len());
    while runs.len() < newest.len() {
        let start = runs.len();
        let covered = newest[start..].iter().take_while(|seqno| **seqno != 0).count();
        let end = start + covered.max(1);
        runs.resize(end, (start, end));
    }
    runs
}

/// Asks about ascending keys, so that each border is passed once.
#[derive(Debug)]
pub(crate) struct FragmentWalk {
    fragments: Fragments,
    /// How many borders are at or before the last key.
    position: usize,
}

impl FragmentWalk {
    /// Begins before all of `fragments`.
    pub(crate) fn new(fragments: Fragments) -> Self {
        Self { fragments, position: 0 }
    }

    /// [`Fragments::covering`] for a key that is not before the last one.
    #[inline]
    pub(crate) fn covering(&mut self, key: &[u8], limit: SeqNo) -> SeqNo {
        let fragments = &self.fragments;
        while let Some(border) = fragments.border(self.position)
            && fragments.order.compare_user(border, key).is_le()
        {
            self.position += 1;
        }
        fragments.seqno_at(self.position, limit)
    }
}
