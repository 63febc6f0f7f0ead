//! Iterators over internal entries.

mod child;
mod level;
mod merging;
#[cfg(test)]
mod tests;

pub(crate) use child::ChildIter;
pub(crate) use level::{IterPurpose, LevelIter};
pub(crate) use merging::MergingIter;

use siltstone_base::Result;

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
