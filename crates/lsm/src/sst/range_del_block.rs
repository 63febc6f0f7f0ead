//! The block of a table that holds its range tombstones: internal keys of the starts, with the exclusive ends as values.

use super::block::for_each_entry;
use super::block_builder::BlockBuilder;
use crate::key::{
    InternalKey, InternalKeyComparator, MAX_SEQNO, ParsedKey, SeqNo, TRAILER_LEN, ValueType, append_internal_key,
};
use crate::range_tombstones::RangeTombstone;
use siltstone_base::{Error, Result};
use std::cmp::Ordering;

/// Key of the metaindex for range tombstones.
pub(super) const RANGE_DELETIONS_BLOCK: &str = "rocksdb.range_del";

/// Bytes that decoded tombstones may take, beside 64 times the size of their block: prefix compression of damaged blocks has no other bound.
const MAX_KEYS_LEN: usize = 64 << 20;

/// Gathers the range tombstones of a table while it is built.
#[derive(Debug)]
pub(super) struct RangeDelBuilder {
    block: BlockBuilder,
    scratch: Vec<u8>,
    pub(super) num_tombstones: u64,
    pub(super) raw_key_size: u64,
    pub(super) raw_value_size: u64,
    pub(super) smallest_seqno: SeqNo,
    pub(super) largest_seqno: SeqNo,
    /// What the tombstones make of the table's bounds.
    bounds: Option<(InternalKey, InternalKey)>,
}

impl RangeDelBuilder {
    pub(super) fn new() -> Self {
        Self {
            block: BlockBuilder::new(1),
            scratch: Vec::new(),
            num_tombstones: 0,
            raw_key_size: 0,
            raw_value_size: 0,
            smallest_seqno: MAX_SEQNO,
            largest_seqno: 0,
            bounds: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.num_tombstones == 0
    }

    /// Bytes of the block so far.
    pub(super) fn len(&self) -> usize {
        if self.is_empty() { 0 } else { self.block.len() }
    }

    /// Bytes of memory that it holds.
    pub(super) fn memory_usage(&self) -> usize {
        self.block.memory_usage() + self.scratch.capacity()
    }

    /// Adds a tombstone. The internal keys of the starts strictly ascend.
    pub(super) fn add(&mut self, order: &InternalKeyComparator, tombstone: &RangeTombstone) -> Result<()> {
        if !order.compare_user(&tombstone.start, &tombstone.end).is_lt() {
            return Err(Error::invalid_argument("a range tombstone ends before it begins"));
        }
        self.scratch.clear();
        append_internal_key(&mut self.scratch, &tombstone.start, tombstone.seqno, ValueType::RangeDelete);
        if !self.is_empty() && order.compare(self.block.last_key(), &self.scratch) != Ordering::Less {
            return Err(Error::invalid_argument("range tombstones of a table must ascend"));
        }
        self.block.add(&self.scratch, &tombstone.end);
        // The end is exclusive: as a bound it stands before every entry of its key.
        let end = InternalKey::new(&tombstone.end, MAX_SEQNO, ValueType::RangeDelete);
        match &mut self.bounds {
            None => self.bounds = Some((InternalKey::decode(&self.scratch)?, end)),
            Some((_, largest)) if order.compare(largest.as_bytes(), end.as_bytes()).is_lt() => *largest = end,
            Some(_) => {}
        }
        self.num_tombstones += 1;
        self.raw_key_size += self.scratch.len() as u64;
        self.raw_value_size += tombstone.end.len() as u64;
        self.smallest_seqno = self.smallest_seqno.min(tombstone.seqno);
        self.largest_seqno = self.largest_seqno.max(tombstone.seqno);
        Ok(())
    }

    /// The smallest and the largest internal key of a table with these tombstones and the bounds of its point entries, if it has any.
    pub(super) fn bounds(
        &self,
        order: &InternalKeyComparator,
        points: Option<(InternalKey, InternalKey)>,
    ) -> (InternalKey, InternalKey) {
        match (&self.bounds, points) {
            (None, None) => (InternalKey::default(), InternalKey::default()),
            (Some(ranges), None) => ranges.clone(),
            (None, Some(points)) => points,
            (Some((low, high)), Some((smallest, largest))) => {
                let begins_before = order.compare(low.as_bytes(), smallest.as_bytes()).is_lt();
                let ends_behind = order.compare(high.as_bytes(), largest.as_bytes()).is_gt();
                (if begins_before { low.clone() } else { smallest }, if ends_behind { high.clone() } else { largest })
            }
        }
    }

    /// The block.
    pub(super) fn finish(&mut self) -> &[u8] {
        self.block.finish()
    }
}

/// Reads the tombstones of a block.
///
/// # Errors
///
/// `Corruption` for anything that is no range tombstone, `LimitExceeded` if the tombstones take too much memory.
pub(super) fn decode(order: &InternalKeyComparator, data: &[u8]) -> Result<Vec<RangeTombstone>> {
    let limit = data.len().saturating_mul(64).saturating_add(MAX_KEYS_LEN);
    let mut tombstones = Vec::new();
    let mut len = 0;
    for_each_entry(data, |key, end| {
        let parsed = ParsedKey::parse(key)?;
        if parsed.value_type != ValueType::RangeDelete {
            return Err(Error::corrupt("an entry among range tombstones that is none"));
        }
        if order.compare_user(parsed.user_key, end) == Ordering::Greater {
            return Err(Error::corrupt("a range tombstone ends before it begins"));
        }
        len += key.len() - TRAILER_LEN + end.len();
        if len > limit {
            return Err(Error::corrupt("range tombstones are too long for their block"));
        }
        tombstones.push(RangeTombstone::new(parsed.user_key, end, parsed.seqno));
        Ok(())
    })?;
    Ok(tombstones)
}
