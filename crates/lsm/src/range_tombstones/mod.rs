//! Range tombstones: one entry that deletes every key from its start to its exclusive end.
//!
//! A memtable and a table each keep theirs apart from their point entries, as [`Fragments`]: what all tombstones of the source say of each
//! stretch of keys between two neighbouring borders. Fragments are immutable; they are made when tombstones are written or a table is opened,
//! never by a read. Flushes and compactions write [`retained`] tombstones: what readers can still tell apart.

mod fragments;
mod retained;
mod stacks;
#[cfg(test)]
mod tests;

pub(crate) use fragments::{FragmentWalk, Fragments, Stretch};
pub(crate) use retained::{retained, sort};

use crate::key::SeqNo;
use std::fmt;

/// One range tombstone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    /// The first user key that it deletes.
    pub(crate) start: Box<[u8]>,
    /// The first user key behind it.
    pub(crate) end: Box<[u8]>,
    /// Its sequence number: it hides entries of smaller ones.
    pub(crate) seqno: SeqNo,
}

impl RangeTombstone {
    /// Copies the keys.
    pub(crate) fn new(start: &[u8], end: &[u8], seqno: SeqNo) -> Self {
        Self { start: start.into(), end: end.into(), seqno }
    }

    /// The bytes of memory that it takes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.start.len() + self.end.len()
    }
}

impl fmt::Debug for RangeTombstone {
    /// The notation of the tests: `[start, end)#seqno`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})#{}", self.start.escape_ascii(), self.end.escape_ascii(), self.seqno)
    }
}
