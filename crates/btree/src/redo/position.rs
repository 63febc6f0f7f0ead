//! Ends of groups: what may be written, synced and noted.

use crate::page::Lsn;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// Where a closed group of the log ends.
///
/// Whoever wants the log written or durable says up to which group. A position among the records of a group is of no use for that: the log may be durable up to there and yet count for nothing, while its
/// group is open. So an [`Lsn`], which may be the end of any record, never stands where a `GroupEnd` is wanted, and only the log makes these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupEnd(pub(super) Lsn);

impl GroupEnd {
    /// The position, for what follows it and for files.
    #[inline]
    pub(crate) fn lsn(self) -> Lsn {
        self.0
    }

    /// Whether the record that ends at `lsn` is of this group or one before.
    #[inline]
    pub(crate) fn covers(self, lsn: Lsn) -> bool {
        lsn <= self.0
    }

    /// An end that is none: for mistakes that are made on purpose.
    pub(crate) fn mistaken(lsn: Lsn) -> Self {
        Self(lsn)
    }
}

/// A [`GroupEnd`] that only grows.
#[derive(Debug)]
pub(super) struct LastGroup(AtomicU64);

impl LastGroup {
    pub(super) fn new(end: GroupEnd) -> Self {
        Self(AtomicU64::new(end.0))
    }

    #[inline]
    pub(super) fn get(&self) -> GroupEnd {
        GroupEnd(self.0.load(Ordering::Acquire))
    }

    /// Called by one thread at a time.
    #[inline]
    pub(super) fn set(&self, end: GroupEnd) {
        self.0.store(end.0, Ordering::Release);
    }
}
