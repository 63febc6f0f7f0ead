//! Reading a memtable from front to back and from back to front, and values that keep it alive.

use super::skiplist::{Cursor, PinnedValue, SkipList};
use crate::iterator::InternalIterator;
use siltstone_base::Result;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The entries of a memtable in order. Keeps their memory alive. Entries that are inserted meanwhile may be seen or not.
pub(crate) struct MemtableIter {
    cursor: Cursor,
    /// Whether seeks find nothing.
    is_skipped: bool,
}

impl MemtableIter {
    pub(super) fn new(list: Arc<SkipList>) -> Self {
        Self { cursor: Cursor::new(list), is_skipped: false }
    }

    /// Lets further seeks find nothing, because no key of the prefix that is sought is here; or lets them find entries again.
    pub(crate) fn set_skipped(&mut self, is_skipped: bool) {
        self.is_skipped = is_skipped;
    }
}

impl InternalIterator for MemtableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    fn seek_to_first(&mut self) {
        self.cursor.seek_to_first();
    }

    fn seek_to_last(&mut self) {
        self.cursor.seek_to_last();
    }

    fn seek(&mut self, target: &[u8]) {
        if self.is_skipped { self.cursor.leave() } else { self.cursor.seek(target) }
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        if self.is_skipped { self.cursor.leave() } else { self.cursor.seek_for_prev(target) }
    }

    #[inline]
    fn next(&mut self) {
        self.cursor.next();
    }

    fn prev(&mut self) {
        self.cursor.prev();
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    fn status(&self) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for MemtableIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableIter").field("valid", &self.cursor.valid()).finish_non_exhaustive()
    }
}

/// A value in a memtable, which it keeps alive; `None`: empty.
pub(crate) struct MemtableValue(Option<PinnedValue>);

impl MemtableValue {
    #[inline]
    pub(super) fn new(value: PinnedValue) -> Self {
        Self(Some(value))
    }

    /// No bytes.
    pub(super) fn empty() -> Self {
        Self(None)
    }
}

impl Deref for MemtableValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for MemtableValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemtableValue({} bytes)", self.len())
    }
}
