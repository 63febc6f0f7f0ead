//! A skip list of internal keys and values, with its nodes in an arena.
//!
//! A node is one allocation, and its address is that of its entry; the links of its tower lie before it, the lowest next to it:
//!
//! ```text
//! link[height - 1] .. link[1] link[0] | varint32 key length, internal key, varint32 value length, value, checksum
//! ```
//!
//! A [`Link`](node::Link) is the successor at its level and that successor's [prefix](prefix): eight bytes of its user key as a number.
//! A search compares its target with prefixes and visits only nodes that lie before the target: those beyond it, about as many, cost no
//! cache miss. Where prefixes are equal it compares keys.
//!
//! Nodes are never removed. A level is a subsequence of the level beneath, and the lowest one has every node.
//!
//! # Thread safety
//!
//! Readers take no lock and wait for nobody. Writers hold a token: either one [`ExclusiveWriter`], which links nodes by plain
//! stores and starts its searches where the last insertion ended (so that ascending keys cost no search), or any number of
//! [`SharedWriter`]s, which link them by compare-and-swap.
//!
//! # Invariants
//!
//! 1. The state of [`Tokens`] is 0, the number of shared writers, or that of one exclusive writer. Writers change it when they come and
//!    go. So an exclusive writer is alone, and it alone touches `exclusive`.
//! 2. A node reachable by a link is complete: links and entry were written before the link that made it reachable was stored with release
//!    order. Its entry never changes afterwards. Readers load links with acquire order.
//! 3. Nodes live in the arena, hence as long as the list. Whoever holds a reference to the list, or a share of it, may read them.
//! 4. The successor of a link only ever changes to a smaller key that is larger than the link's owner.
//! 5. A prefix that is loaded after the successor is at most that successor's: a writer stores the smaller prefix *before* the
//!    smaller successor. It may be less, if a smaller successor is just being linked, or if that was tried and another writer was
//!    faster; what is inserted behind it gets its successor's own prefix. So a larger prefix than the target's proves that the successor is beyond the target. A smaller one proves nothing; a
//!    search trusts it all the same, and where it ends it makes sure that it has not gone too far.
//! 6. The exclusive writer's [`Splice`](splice::Splice) brackets: at each level `prev` is before `next`, and `next` is `prev`'s successor. Shared
//!    writers break that, so each one marks it stale.

#![expect(unsafe_code, reason = "nodes of changing size, linked by atomics, in memory that an arena owns")]

mod cursor;
mod node;
mod prefix;
mod splice;
#[cfg(test)]
mod tests;
mod writers;

use super::arena::Arena;
use super::memory::MemtableMemory;
use crate::key::{InternalKeyComparator, trailer, user_key};
pub(super) use cursor::{Cursor, PinnedValue};
use node::{Link, Node};
use prefix::Prefixes;
use siltstone_base::sync::CachePadded;
use std::cell::UnsafeCell;
use std::cmp::Ordering as Order;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use writers::{ExclusiveState, Tokens};
pub(super) use writers::{ExclusiveWriter, SharedWriter};

/// The highest tower: enough for a million nodes.
const MAX_HEIGHT: usize = 20;

/// So many entries of a level tell how many there are on the lowest, within some tenths of that.
const ENOUGH_TO_ESTIMATE: u64 = 128;

/// What a search looks for, taken apart.
#[derive(Clone, Copy)]
struct Target<'a> {
    prefix: u64,
    user_key: &'a [u8],
    trailer: u64,
}

/// See the module's documentation.
pub(super) struct SkipList {
    head: Node,
    /// The height of the highest tower; only grows.
    height: AtomicUsize,
    prefixes: Prefixes,
    comparator: InternalKeyComparator,
    /// Bytes reserved after each value.
    protection_bytes: usize,
    arena: Arena,
    tokens: CachePadded<Tokens>,
    exclusive: CachePadded<UnsafeCell<ExclusiveState>>,
}

// SAFETY: nodes are reached by atomics and immutable once they are reachable (2); `exclusive` is touched by the holder of the exclusive
// token alone (1).
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

/// An entry, borrowed from the list.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    /// The internal key.
    pub(super) internal_key: &'a [u8],
    /// The value.
    pub(super) value: &'a [u8],
}

impl SkipList {
    /// An empty list in the order of `comparator`, with `protection_bytes` reserved after each value. Most keys are
    /// expected between those of `expected`.
    pub(super) fn new(
        memory: Arc<MemtableMemory>,
        comparator: InternalKeyComparator,
        protection_bytes: usize,
        expected: (&[u8], &[u8]),
    ) -> Self {
        let arena = Arena::new(memory);
        let links = arena.allocate(MAX_HEIGHT * size_of::<Link>()).cast::<Link>();
        // SAFETY: the allocation has room for so many links and nobody else's, and is aligned. The head has no entry: its address
        // is the end of the allocation, and is only used to reach its links.
        let head = unsafe {
            for level in 0..MAX_HEIGHT {
                links.add(level).write(Link::to_nowhere());
            }
            Node(links.add(MAX_HEIGHT).as_ptr().cast())
        };
        Self {
            head,
            height: AtomicUsize::new(1),
            prefixes: Prefixes::new(comparator.user().is_bytewise(), expected.0, expected.1),
            comparator,
            protection_bytes,
            arena,
            tokens: CachePadded::new(Tokens::new()),
            exclusive: CachePadded::new(UnsafeCell::new(ExclusiveState::of_empty(head))),
        }
    }

    #[cfg(test)]
    pub(super) fn shared_writers_for_test(&self) -> u64 {
        self.tokens.shared_writers()
    }

    /// The order of the list.
    pub(super) fn comparator(&self) -> &InternalKeyComparator {
        &self.comparator
    }

    /// The start that keys are expected to have.
    pub(super) fn common_start(&self) -> &[u8] {
        self.prefixes.common_start()
    }

    /// The arena's figure: bytes of nodes and what is lost between them.
    #[inline]
    pub(super) fn used_bytes(&self) -> usize {
        self.arena.used_bytes()
    }

    /// Bytes of memory that the arena takes.
    pub(super) fn reserved_bytes(&self) -> usize {
        self.arena.reserved_bytes()
    }

    /// Bytes of the arena's blocks.
    pub(super) fn block_bytes(&self) -> usize {
        self.arena.block_bytes()
    }

    /// Who counts those.
    pub(super) fn memory(&self) -> &Arc<MemtableMemory> {
        self.arena.memory()
    }

    /// The first entry at or after the internal key `target`.
    #[inline]
    pub(super) fn seek(&self, target: &[u8]) -> Option<Entry<'_>> {
        self.entry(self.find(&self.target(target)).1)
    }

    /// What `accept` makes of the first entry at or after `target`, and its value kept alive by itself.
    #[inline]
    pub(super) fn seek_pinned<T>(
        self: &Arc<Self>,
        target: &[u8],
        accept: impl FnOnce(Entry<'_>) -> Option<T>,
    ) -> Option<(T, PinnedValue)> {
        let entry = self.seek(target)?;
        let accepted = accept(entry)?;
        // SAFETY: the entry is one of this list.
        Some((accepted, unsafe { PinnedValue::new(Arc::clone(self), entry.value) }))
    }

    #[inline]
    fn entry(&self, node: Node) -> Option<Entry<'_>> {
        if node.is_null() {
            return None;
        }
        // SAFETY: nodes found by a search are reachable, not the head, and live as long as the list (3).
        Some(unsafe { Entry { internal_key: node.internal_key(), value: node.value() } })
    }

    #[inline]
    fn target<'a>(&self, internal_key: &'a [u8]) -> Target<'a> {
        let user_key = user_key(internal_key);
        Target { prefix: self.prefixes.of(user_key), user_key, trailer: trailer(internal_key) }
    }

    /// Compares a node with a target.
    ///
    /// # Safety
    ///
    /// The node is reachable and not the head.
    #[inline]
    unsafe fn compare(&self, node: Node, target: &Target<'_>) -> Order {
        // SAFETY: by the caller.
        let key = unsafe { node.internal_key() };
        let order = self.comparator.compare_user(user_key(key), target.user_key);
        order.then_with(|| target.trailer.cmp(&trailer(key)))
    }

    /// Follows one level from `node`, whose prefix is at least `prefix`, to the last node before the target. Returns the same of that and
    /// of its successor. Unless `EXACT`, smaller prefixes are trusted, which may lead a step too far (5).
    ///
    /// # Safety
    ///
    /// `node` is reachable and higher than `level`. `known` is null or a reachable node not before the target.
    #[inline]
    unsafe fn walk<const EXACT: bool>(
        &self,
        mut node: Node,
        mut prefix: u64,
        level: usize,
        known: Node,
        target: &Target<'_>,
    ) -> (Node, u64, Node, u64) {
        loop {
            // SAFETY: by the caller; a successor at a level is higher than it.
            let link = unsafe { node.link(level) };
            let next = Node(link.next.load(Ordering::Acquire));
            // After the successor (5).
            let next_prefix = link.prefix.load(Ordering::Relaxed);
            if next_prefix > target.prefix || next.is_null() {
                return (node, prefix, next, next_prefix);
            }
            let goes_on = if !EXACT && next_prefix < target.prefix {
                true
            } else {
                // SAFETY: `next` was reached by a link.
                next != known && unsafe { self.compare(next, target) } == Order::Less
            };
            if !goes_on {
                return (node, prefix, next, next_prefix);
            }
            (node, prefix) = (next, next_prefix);
        }
    }

    /// Whether the node is the head or before the target.
    ///
    /// # Safety
    ///
    /// The node is reachable.
    #[inline]
    unsafe fn is_before(&self, node: Node, target: &Target<'_>) -> bool {
        // SAFETY: by the caller.
        node == self.head || unsafe { self.compare(node, target) } == Order::Less
    }

    /// The last node before the target (or the head) and its successor (or null).
    #[inline]
    fn find(&self, target: &Target<'_>) -> (Node, Node) {
        let (prev, next) = self.descend::<false>(target);
        // A step too far on any level would have ended behind the target, for nothing leads back.
        // SAFETY: nodes found by a search are reachable.
        if unsafe { self.is_before(prev, target) } { (prev, next) } else { self.find_exactly(target) }
    }

    #[cold]
    fn find_exactly(&self, target: &Target<'_>) -> (Node, Node) {
        self.descend::<true>(target)
    }

    #[inline]
    fn descend<const EXACT: bool>(&self, target: &Target<'_>) -> (Node, Node) {
        let mut level = self.height.load(Ordering::Relaxed);
        let (mut prev, mut prefix, mut next) = (self.head, 0, Node::NULL);
        while level > 0 {
            level -= 1;
            // SAFETY: the walk starts at the head, which has all levels, or at a node that was reached on a higher one.
            (prev, prefix, next, _) = unsafe { self.walk::<EXACT>(prev, prefix, level, next, target) };
        }
        (prev, next)
    }

    /// About how many entries there are from the internal key `begin` to before `end`: those on the highest level that has enough of them, times how
    /// many entries each stands for. Exact where there are few.
    pub(super) fn estimate_between(&self, begin: &[u8], end: &[u8]) -> u64 {
        let (begin, end) = (self.target(begin), self.target(end));
        let mut start = self.head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            let mut count = 0_u64;
            // SAFETY: the walk starts at the head, which has all levels, or at a node that was reached on a higher one; what a link leads to is reachable.
            unsafe {
                let mut next = start.next(level);
                while !next.is_null() && self.compare(next, &begin) == Order::Less {
                    start = next;
                    next = next.next(level);
                }
                while !next.is_null() && self.compare(next, &end) == Order::Less {
                    count += 1;
                    next = next.next(level);
                }
            }
            if count >= ENOUGH_TO_ESTIMATE || level == 0 {
                // Each level has half the towers of the one below.
                return count << level;
            }
        }
        0
    }

    /// The last node, or the head.
    fn find_last(&self) -> Node {
        let mut node = self.head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                // SAFETY: as in `find`.
                let next = unsafe { node.next(level) };
                if next.is_null() {
                    break;
                }
                node = next;
            }
        }
        node
    }
}

impl fmt::Debug for SkipList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkipList").field("comparator", &self.comparator).field("arena", &self.arena).finish()
    }
}
