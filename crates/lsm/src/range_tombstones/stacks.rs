//! Which sequence numbers cover which fragment, when tombstones overlap.
//!
//! A list of all numbers at each fragment would take quadratic memory where tombstones nest, as those do that delete everything before a
//! moving key. So the lists are the nodes of a segment tree over the fragments: a tombstone is in at most two nodes of each height, and the
//! numbers over a fragment are those of its leaf and of the nodes above.

use crate::key::SeqNo;
use std::ops::Range;

/// See the module's documentation. Without overlaps it is empty: the newest number of each fragment, kept elsewhere, says all.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// How many fragments there are; leaf `i` is node `leaves + i`, the parent of node `n` is `n / 2`, the root is node 1.
    leaves: usize,
    /// Where the numbers of each node begin; one more than there are nodes.
    starts: Vec<usize>,
    /// The numbers of each node, newest first.
    seqnos: Vec<SeqNo>,
}

/// A tombstone as the fragments that it covers.
#[derive(Debug, Clone)]
pub(super) struct Cover {
    pub(super) fragments: Range<usize>,
    pub(super) seqno: SeqNo,
}

/// Calls `visit` for the nodes of a tree over `leaves` leaves that together cover `range`.
fn for_each_node(leaves: usize, range: &Range<usize>, mut visit: impl FnMut(usize)) {
    let (mut low, mut high) = (range.start + leaves, range.end + leaves);
    while low < high {
        if low % 2 == 1 {
            visit(low);
            low += 1;
        }
        if high % 2 == 1 {
            high -= 1;
            visit(high);
        }
        low /= 2;
        high /= 2;
    }
}

impl Stacks {
    /// The stacks of `covers`, newest first, over `leaves` fragments. `None` if they would hold more than `max_numbers`.
    pub(super) fn new(leaves: usize, covers: &[Cover], max_numbers: usize) -> Option<Self> {
        let mut starts = vec![0; 2 * leaves + 1];
        let mut total = 0;
        for cover in covers {
            for_each_node(leaves, &cover.fragments, |node| {
                starts[node + 1] += 1;
                total += 1;
            });
            if total > max_numbers {
                return None;
            }
        }
        for node in 1..starts.len() {
            starts[node] += starts[node - 1];
        }
        let mut next = starts.clone();
        let mut seqnos = vec![0; total];
        for cover in covers {
            for_each_node(leaves, &cover.fragments, |node| {
                seqnos[next[node]] = cover.seqno;
                next[node] += 1;
            });
        }
        Some(Self { leaves, starts, seqnos })
    }

    /// The largest number over `fragment` that is not above `limit`; 0 if there is none.
    #[cold]
    pub(super) fn newest_at(&self, fragment: usize, limit: SeqNo) -> SeqNo {
        let mut newest = 0;
        let mut node = fragment + self.leaves;
        while node > 0 {
            if let (Some(&start), Some(&end)) = (self.starts.get(node), self.starts.get(node + 1)) {
                let stack = &self.seqnos[start..end];
                let index = stack.partition_point(|seqno| *seqno > limit);
                newest = newest.max(stack.get(index).copied().unwrap_or(0));
            }
            node /= 2;
        }
        newest
    }

    /// The bytes of memory that the lists take.
    pub(super) fn memory_usage(&self) -> usize {
        self.starts.capacity() * size_of::<usize>() + self.seqnos.capacity() * size_of::<SeqNo>()
    }
}
