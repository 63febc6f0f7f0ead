//! Which range tombstones a table of a compaction gets: pure decisions.
//!
//! A table gets what lies before the first key of the next one. Tombstones alone end a table, too: without that as many as are in all inputs would come into
//! one block, and no block is larger than its format allows.

use crate::key::{InternalKeyComparator, TRAILER_LEN};
use crate::range_tombstones::{RangeTombstone, sort};
use std::collections::VecDeque;

/// The most bytes of tombstones that a table has before it ends.
const MAX_BYTES: u64 = 64 << 20;
/// The most tombstones that a table has before it ends: whoever opens it cuts them into fragments.
const MAX_TOMBSTONES: usize = 1 << 18;

/// Range tombstones that are in no table.
#[derive(Debug)]
pub(in crate::compaction) struct WaitingRanges {
    order: InternalKeyComparator,
    /// What is left of those of which the table before has the front. All begin where it ended.
    begun: Vec<RangeTombstone>,
    /// Those of which no table has any, in the order of internal keys.
    waiting: VecDeque<RangeTombstone>,
    /// What of them begins before the last key that was asked about.
    before: Amount,
    most: Amount,
}

/// So many tombstones, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    tombstones: usize,
    bytes: u64,
}

impl Amount {
    fn add(&mut self, tombstone: &RangeTombstone) {
        self.tombstones += 1;
        self.bytes += bytes_of(tombstone);
    }

    /// Whether it is enough for a table that has at most `most`.
    fn fills(self, most: Self) -> bool {
        self.tombstones >= most.tombstones || self.bytes >= most.bytes
    }
}

/// What a tombstone takes in its block beside the trailer of its key: three short lengths and a restart point.
const ENTRY_OVERHEAD: usize = 3 + 4;

fn bytes_of(tombstone: &RangeTombstone) -> u64 {
    (tombstone.start.len() + TRAILER_LEN + tombstone.end.len() + ENTRY_OVERHEAD) as u64
}

/// What a table gets.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::compaction) struct TableRanges {
    /// In the order of internal keys.
    pub(in crate::compaction) tombstones: Vec<RangeTombstone>,
    /// Whether it ends before the key that was asked about, since it has enough.
    pub(in crate::compaction) is_cut: bool,
}

impl WaitingRanges {
    /// No tombstones, for tables of about `max_table_bytes`; `None`: there may only be one table.
    pub(in crate::compaction) fn new(order: InternalKeyComparator, max_table_bytes: Option<u64>) -> Self {
        let most = match max_table_bytes {
            Some(bytes) => Amount { tombstones: MAX_TOMBSTONES, bytes: bytes.clamp(1, MAX_BYTES) },
            None => Amount { tombstones: usize::MAX, bytes: u64::MAX },
        };
        Self { order, begun: Vec::new(), waiting: VecDeque::new(), before: Amount::default(), most }
    }

    /// Takes all that there are, in the order of internal keys. Before anything else.
    pub(in crate::compaction) fn set(&mut self, tombstones: Vec<RangeTombstone>) {
        self.waiting = tombstones.into();
    }

    /// Whether a table is needed before `next_key`, `None` is behind all, also where no entry comes before it.
    pub(in crate::compaction) fn need_table_before(&mut self, next_key: Option<&[u8]>) -> bool {
        match next_key {
            Some(next_key) => self.fill_table_before(next_key),
            None => !self.begun.is_empty() || !self.waiting.is_empty(),
        }
    }

    /// Whether those that begin before `user_key` are enough for a table. Keys ascend from call to call.
    #[inline]
    pub(in crate::compaction) fn fill_table_before(&mut self, user_key: &[u8]) -> bool {
        while let Some(next) = self.waiting.get(self.before.tombstones)
            && self.order.compare_user(&next.start, user_key).is_lt()
        {
            self.before.add(next);
        }
        self.before.fills(self.most)
    }

    /// What the table gets whose last entry is of `last_key`, if it has any, and that ends before `next_key`, or with the last tombstone. What reaches further waits.
    pub(in crate::compaction) fn next_table(
        &mut self,
        last_key: Option<&[u8]>,
        next_key: Option<&[u8]>,
    ) -> TableRanges {
        let (taken, cut) = self.decide(last_key, next_key);
        let end = cut.as_deref().or(next_key);
        let mut tombstones = std::mem::take(&mut self.begun);
        for tombstone in self.waiting.drain(..taken) {
            if self.before.tombstones > 0 {
                self.before.tombstones -= 1;
                self.before.bytes -= bytes_of(&tombstone);
            }
            tombstones.push(tombstone);
        }
        if let Some(end) = end {
            for tombstone in tombstones.iter_mut().filter(|one| self.order.compare_user(&one.end, end).is_gt()) {
                self.begun.push(RangeTombstone { start: end.into(), ..tombstone.clone() });
                tombstone.end = end.into();
            }
        }
        // Some that were begun may begin where others do.
        sort(&self.order, &mut tombstones);
        TableRanges { tombstones, is_cut: cut.is_some() }
    }

    /// How many of those that wait a table gets, and where it ends before `next_key`, if it does.
    fn decide(&self, last_key: Option<&[u8]>, next_key: Option<&[u8]>) -> (usize, Option<Box<[u8]>>) {
        let is_behind = |key: Option<&[u8]>, start| key.is_none_or(|key| self.order.compare_user(key, start).is_lt());
        let mut taken = Amount::default();
        let mut last_start = None;
        for tombstone in &self.waiting {
            let start = &*tombstone.start;
            if next_key.is_some_and(|next_key| self.order.compare_user(start, next_key).is_ge()) {
                break;
            }
            // Of one key everything is in one table.
            if taken.fills(self.most) && is_behind(last_key, start) && is_behind(last_start, start) {
                return (taken.tombstones, Some(start.into()));
            }
            taken.add(tombstone);
            last_start = Some(start);
        }
        (taken.tombstones, None)
    }
}
