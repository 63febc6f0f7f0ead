//! Sealed memtables that wait for their flush, or for its end.

use super::{Memtable, PinnedEntry};
use crate::key::LookupKey;
use std::sync::Arc;

/// Sealed memtables of a column family, the newest first. A value: changing it gives another one, and clones are cheap, so that
/// a reader's list stays as it was.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImmutableList {
    newest_first: Arc<[Arc<Memtable>]>,
}

impl ImmutableList {
    /// This list, with a memtable that is newer than all of it.
    #[must_use]
    pub(crate) fn with_newest(&self, memtable: Arc<Memtable>) -> Self {
        debug_assert!(self.newest_first.first().is_none_or(|newest| newest.id() < memtable.id()), "newer than all");
        Self { newest_first: std::iter::once(memtable).chain(self.newest_first.iter().cloned()).collect() }
    }

    /// This list, without the memtables whose numbers `flushed` knows.
    #[must_use]
    pub(crate) fn without(&self, flushed: impl Fn(u64) -> bool) -> Self {
        Self { newest_first: self.newest_first.iter().filter(|memtable| !flushed(memtable.id())).cloned().collect() }
    }

    /// The memtables, the newest first.
    #[inline]
    pub(crate) fn newest_first(&self) -> &[Arc<Memtable>] {
        &self.newest_first
    }

    /// The memtables, the oldest first: the order in which they are flushed.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.newest_first.iter().rev()
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.newest_first.len()
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest_first.is_empty()
    }

    /// The newest version of a key that is visible at the lookup's sequence number, a tombstone included: from the newest memtable that has
    /// one.
    #[inline]
    pub(crate) fn get_pinned(&self, lookup: &LookupKey) -> Option<PinnedEntry> {
        self.newest_first.iter().find_map(|memtable| memtable.get_pinned(lookup))
    }
}
