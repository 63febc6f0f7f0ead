//! Iterators over internal entries.

mod child;
mod level;
mod merging;
mod ranges;
mod shares;
#[cfg(test)]
mod tests;

pub(crate) use child::ChildIter;
pub(crate) use level::{IterPurpose, LevelIter};
pub(crate) use merging::MergingIter;
pub(crate) use ranges::{RangeSource, RangeView};
pub(crate) use shares::{LevelShares, Shares};

use siltstone_base::Result;

/// What happens to memory before a seek, in this order. A walk over several sources takes each stage for all of them before the
/// next one, so that they wait for memory at the same time rather than one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeekStage {
    /// Finds the block by the index and asks for the slot that knows where it is in memory.
    Locate,
    /// Asks for the block's header.
    Find,
    /// Holds the block, if it is in memory, and asks for its restart points.
    Pin,
    /// Asks for the keys at the restart points.
    Keys,
}

impl SeekStage {
    /// All stages, in order.
    pub(crate) const ALL: [Self; 4] = [Self::Locate, Self::Find, Self::Pin, Self::Keys];
}

/// Walks internal entries in the order of internal keys.
///
/// Contract: a new iterator is not positioned. Each movement either positions it on an entry (`valid`) or not; when it does not,
/// `status` tells the end of the data from an error. An error sticks until the next seek. `next`, `prev`, `key` and `value` require
/// `valid`. Slices live until the next movement.
pub(crate) trait InternalIterator {
    /// Whether the iterator stands on an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry at or after `target`, an internal key.
    fn seek(&mut self, target: &[u8]);
    /// Prepares a seek of `target`, which follows with no other movement between. What it does can be left out.
    fn prepare_seek(&mut self, _target: &[u8], _stage: SeekStage) {}
    /// Moves to the last entry at or before `target`, an internal key.
    fn seek_for_prev(&mut self, target: &[u8]);
    /// Moves to the next entry. REQUIRES: valid.
    fn next(&mut self);
    /// Moves to the previous entry. REQUIRES: valid.
    fn prev(&mut self);
    /// The internal key. REQUIRES: valid.
    fn key(&self) -> &[u8];
    /// The value. REQUIRES: valid.
    fn value(&self) -> &[u8];
    /// The error that made the iterator stop, if one did.
    fn status(&self) -> Result<()>;
}
