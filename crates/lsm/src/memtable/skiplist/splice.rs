//! The bracket of a key at every level: between which nodes it belongs.

#![expect(unsafe_code, reason = "nodes are reached through raw addresses")]

use super::node::{NO_SUCCESSOR, Node};
use super::{MAX_HEIGHT, SkipList, Target};
use crate::key::user_key;
use std::cmp::Ordering as Order;
use std::sync::atomic::Ordering;

/// Where an insertion took place: the bracket of the last target at each level.
pub(super) struct Splice {
    pub(super) prev: [Node; MAX_HEIGHT],
    pub(super) next: [Node; MAX_HEIGHT],
    /// At most the prefix of `prev`; 0 for the head.
    pub(super) prev_prefix: [u64; MAX_HEIGHT],
    /// At most the prefix of `next`.
    pub(super) next_prefix: [u64; MAX_HEIGHT],
}

impl Splice {
    /// The bracket of everything in a list without entries.
    pub(super) const fn of_empty(head: Node) -> Self {
        Self {
            prev: [head; MAX_HEIGHT],
            next: [Node::NULL; MAX_HEIGHT],
            prev_prefix: [0; MAX_HEIGHT],
            next_prefix: [NO_SUCCESSOR; MAX_HEIGHT],
        }
    }
}

impl SkipList {
    /// Makes the splice hold for any target, by brackets that start at the head.
    #[cold]
    pub(super) fn reset_splice(&self, splice: &mut Splice) {
        for level in 0..MAX_HEIGHT {
            // SAFETY: the head has all levels.
            let link = unsafe { self.head.link(level) };
            splice.prev[level] = self.head;
            splice.prev_prefix[level] = 0;
            splice.next[level] = Node(link.next.load(Ordering::Acquire));
            splice.next_prefix[level] = link.prefix.load(Ordering::Relaxed);
        }
    }

    /// Whether the splice brackets the target at `level`. `false` is always a safe answer.
    #[inline]
    pub(super) fn brackets(&self, splice: &Splice, level: usize, target: &Target<'_>) -> bool {
        let (prev, next) = (splice.prev[level], splice.next[level]);
        let starts_before = match splice.prev_prefix[level].cmp(&target.prefix) {
            Order::Less => true,
            // SAFETY: nodes of the splice are reachable.
            Order::Equal => unsafe { self.is_before(prev, target) },
            Order::Greater => false,
        };
        let ends_after = || match splice.next_prefix[level].cmp(&target.prefix) {
            Order::Less => false,
            // SAFETY: as above.
            Order::Equal => unsafe { self.compare(next, target) == Order::Greater },
            Order::Greater => true,
        };
        starts_before && (next.is_null() || ends_after())
    }

    /// Makes the splice bracket the target at all levels below `from`, at which it does, or `height` for all.
    #[inline]
    pub(super) fn search_splice(&self, splice: &mut Splice, from: usize, height: usize, target: &Target<'_>) {
        self.descend_splice::<false>(splice, from, height, target);
        // As in `find`; the splice's own prefixes may also have been too small.
        // SAFETY: nodes of the splice are reachable.
        if !unsafe { self.is_before(splice.prev[0], target) } {
            self.search_splice_exactly(splice, height, target);
        }
    }

    #[cold]
    pub(super) fn search_splice_exactly(&self, splice: &mut Splice, height: usize, target: &Target<'_>) {
        self.descend_splice::<true>(splice, height, height, target);
    }

    #[inline]
    pub(super) fn descend_splice<const EXACT: bool>(
        &self,
        splice: &mut Splice,
        from: usize,
        height: usize,
        target: &Target<'_>,
    ) {
        let (mut prev, mut prefix, mut next) = if from < height {
            (splice.prev[from], splice.prev_prefix[from], splice.next[from])
        } else {
            (self.head, 0, Node::NULL)
        };
        for level in (0..from).rev() {
            let next_prefix;
            // SAFETY: nodes of the splice are reachable, and those at a level are higher than it.
            (prev, prefix, next, next_prefix) = unsafe { self.walk::<EXACT>(prev, prefix, level, next, target) };
            splice.prev[level] = prev;
            splice.prev_prefix[level] = prefix;
            splice.next[level] = next;
            splice.next_prefix[level] = next_prefix;
        }
    }

    /// The prefix of the splice's successor at `level`. What the search found may be less: a writer that was overtaken has lowered it to its own node's (5). Every node that is inserted here would
    /// inherit that, and searches would visit all of them.
    #[inline]
    pub(super) fn successor_prefix(&self, splice: &Splice, level: usize, target: &Target<'_>) -> u64 {
        let (next, prefix) = (splice.next[level], splice.next_prefix[level]);
        if next.is_null() {
            NO_SUCCESSOR
        } else if prefix > target.prefix {
            prefix
        } else {
            // SAFETY: nodes of the splice are reachable, and a successor is not the head.
            self.prefixes.of(user_key(unsafe { next.internal_key() }))
        }
    }

    /// Whether the entry after the splice's lowest level is the target itself.
    #[inline]
    pub(super) fn is_duplicate(&self, splice: &Splice, target: &Target<'_>) -> bool {
        let next = splice.next[0];
        // SAFETY: nodes of the splice are reachable.
        splice.next_prefix[0] <= target.prefix
            && !next.is_null()
            && unsafe { self.compare(next, target) } == Order::Equal
    }
}
