//! Positions in a list, and values, that keep the list alive.

#![expect(unsafe_code, reason = "positions are addresses of nodes")]

use super::SkipList;
use super::node::{Node, prefetch};
use std::cmp::Ordering as Order;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// A position in a list that it keeps alive.
pub(in super::super) struct Cursor {
    list: Arc<SkipList>,
    /// A node of the list, or null.
    node: Node,
}

// SAFETY: the cursor shares the list, which may be shared between threads, and its node is as immutable as the list's (2, 3).
unsafe impl Send for Cursor {}
// SAFETY: as above.
unsafe impl Sync for Cursor {}

impl Cursor {
    /// A cursor that is nowhere.
    pub(in super::super) fn new(list: Arc<SkipList>) -> Self {
        Self { list, node: Node::NULL }
    }

    /// Whether it is on an entry.
    #[inline]
    pub(in super::super) fn valid(&self) -> bool {
        !self.node.is_null()
    }

    /// To no entry.
    pub(in super::super) fn leave(&mut self) {
        self.node = Node::NULL;
    }

    /// To the first entry.
    #[inline]
    pub(in super::super) fn seek_to_first(&mut self) {
        // SAFETY: the head has all levels.
        self.node = unsafe { self.list.head.next(0) };
    }

    /// To the last entry.
    pub(in super::super) fn seek_to_last(&mut self) {
        self.node = self.unless_head(self.list.find_last());
    }

    /// To the first entry at or after an internal key.
    #[inline]
    pub(in super::super) fn seek(&mut self, target: &[u8]) {
        self.node = self.list.find(&self.list.target(target)).1;
    }

    /// To the last entry at or before an internal key.
    pub(in super::super) fn seek_for_prev(&mut self, target: &[u8]) {
        let target = self.list.target(target);
        let (prev, next) = self.list.find(&target);
        // SAFETY: `next` was reached by a search.
        let is_exact = !next.is_null() && unsafe { self.list.compare(next, &target) } == Order::Equal;
        self.node = if is_exact { next } else { self.unless_head(prev) };
    }

    /// To the next entry, if it is on one.
    #[inline]
    pub(in super::super) fn next(&mut self) {
        if self.valid() {
            // SAFETY: the node is one of the list, and every node has the lowest level.
            self.node = unsafe { self.node.next(0) };
            if self.valid() {
                // SAFETY: as above.
                prefetch(unsafe { self.node.next(0) });
            }
        }
    }

    /// To the previous entry, if it is on one. As costly as a seek.
    pub(in super::super) fn prev(&mut self) {
        if self.valid() {
            let prev = self.list.find(&self.list.target(self.key())).0;
            self.node = self.unless_head(prev);
        }
    }

    /// The internal key; empty if it is on no entry.
    #[inline]
    pub(in super::super) fn key(&self) -> &[u8] {
        if self.valid() {
            // SAFETY: the node is one of the list, which lives as long as this cursor (3), and not its head.
            unsafe { self.node.internal_key() }
        } else {
            &[]
        }
    }

    /// The value; empty if it is on no entry.
    #[inline]
    pub(in super::super) fn value(&self) -> &[u8] {
        if self.valid() {
            // SAFETY: as for the key.
            unsafe { self.node.value() }
        } else {
            &[]
        }
    }

    fn unless_head(&self, node: Node) -> Node {
        if node == self.list.head { Node::NULL } else { node }
    }
}

/// A value that keeps its list alive.
pub(in super::super) struct PinnedValue {
    value: NonNull<[u8]>,
    _list: Arc<SkipList>,
}

impl PinnedValue {
    /// # Safety
    ///
    /// `value` is part of an entry of `list`, or static.
    #[inline]
    pub(super) unsafe fn new(list: Arc<SkipList>, value: &[u8]) -> Self {
        Self { value: NonNull::from(value), _list: list }
    }
}

// SAFETY: the value is immutable (2), and the list is shared.
unsafe impl Send for PinnedValue {}
// SAFETY: as above.
unsafe impl Sync for PinnedValue {}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the value is part of the list, or static, and the list lives at least as long as this (3).
        unsafe { self.value.as_ref() }
    }
}
