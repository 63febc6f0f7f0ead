//! Merging sorted children into one sorted sequence.

use super::{InternalIterator, SeekStage};
use crate::key::{InternalKeyComparator, user_key, wide_head_of};
use siltstone_base::{Error, Result};
use std::cmp::Ordering;

/// Merges children in both directions. Of equal internal keys the one of the child with the smaller index comes first.
///
/// The children that stand on an entry form a binary heap with the current one on top. While the same child stays in
/// front, a step costs one comparison, with the runner-up; otherwise the top is replaced and sinks.
///
/// An error of any child ends the walk: entries of the others are not yielded as if it had none.
#[derive(Debug)]
pub(crate) struct MergingIter<I> {
    comparator: InternalKeyComparator,
    /// Newest source first.
    children: Vec<I>,
    /// The children that are valid, as a heap. Empty: not valid.
    heap: Vec<Slot>,
    /// Whether heads tell keys apart: they do under the bytewise order alone.
    has_heads: bool,
    /// Where in the heap the runner-up is; 0: not known.
    runner_up: usize,
    backward: bool,
    error: Option<Error>,
}

/// A child in the heap, with the first sixteen bytes of its user key: most comparisons need no more, and touch no other
/// memory. Eight would be as good for short keys, but those of index entries begin with the index and values that many rows have.
#[derive(Debug, Clone, Copy)]
struct Slot {
    head: u128,
    child: u32,
}

impl<I: InternalIterator> MergingIter<I> {
    /// Merges `children`.
    pub(crate) fn new(comparator: InternalKeyComparator, children: Vec<I>) -> Self {
        let heap = Vec::with_capacity(children.len());
        let has_heads = comparator.is_bytewise();
        Self { comparator, children, heap, has_heads, runner_up: 0, backward: false, error: None }
    }

    /// The sources.
    pub(crate) fn children(&self) -> &[I] {
        &self.children
    }

    /// The children, in the order in which they were given. Whoever moves one must seek next.
    pub(crate) fn children_mut(&mut self) -> &mut [I] {
        &mut self.children
    }

    /// The child that the current entry comes from. REQUIRES: valid.
    fn current(&self) -> &I {
        &self.children[self.heap[0].child as usize]
    }

    /// Whether child `a` comes before child `b` in the direction of the walk.
    #[inline]
    fn precedes(&self, a: Slot, b: Slot) -> bool {
        if a.head != b.head {
            return (a.head < b.head) != self.backward;
        }
        let order =
            self.comparator.compare(self.children[a.child as usize].key(), self.children[b.child as usize].key());
        match order {
            Ordering::Equal => (a.child < b.child) != self.backward,
            Ordering::Less => !self.backward,
            Ordering::Greater => self.backward,
        }
    }

    /// The slot of a child that stands on an entry.
    #[inline]
    fn slot(&self, child: u32) -> Slot {
        let head = if self.has_heads { wide_head_of(user_key(self.children[child as usize].key())) } else { 0 };
        Slot { head, child }
    }

    /// Fills the heap with the children that are valid; fails if one of the others has an error.
    fn rebuild(&mut self) {
        self.heap.clear();
        self.runner_up = 0;
        for index in 0..self.children.len() {
            let child = &self.children[index];
            if child.valid() {
                let slot = self.slot(index as u32);
                self.heap.push(slot);
            } else if let Err(error) = child.status() {
                self.heap.clear();
                self.error = Some(error);
                return;
            }
        }
        for position in (0..self.heap.len() / 2).rev() {
            self.sink(position);
        }
    }

    /// Moves the child at `position` down to its place.
    fn sink(&mut self, mut position: usize) {
        loop {
            let left = 2 * position + 1;
            let Some(&left_child) = self.heap.get(left) else { return };
            let smaller = match self.heap.get(left + 1) {
                Some(&right_child) if self.precedes(right_child, left_child) => left + 1,
                _ => left,
            };
            if !self.precedes(self.heap[smaller], self.heap[position]) {
                return;
            }
            self.heap.swap(smaller, position);
            position = smaller;
        }
    }

    /// Restores the heap after the child on top moved.
    #[inline]
    fn top_moved(&mut self) {
        let child = self.heap[0].child;
        if !self.children[child as usize].valid() {
            return self.remove_top();
        }
        let top = self.slot(child);
        self.heap[0] = top;
        if self.runner_up == 0 {
            self.runner_up = match *self.heap.as_slice() {
                [_, _] => 1,
                [_, left, right, ..] => 1 + usize::from(self.precedes(right, left)),
                _ => return,
            };
        }
        if self.precedes(self.heap[self.runner_up], top) {
            self.heap.swap(0, self.runner_up);
            self.sink(self.runner_up);
            self.runner_up = 0;
        }
    }

    #[inline(never)]
    fn remove_top(&mut self) {
        let top = self.heap.swap_remove(0);
        self.runner_up = 0;
        match self.children[top.child as usize].status() {
            Ok(()) => self.sink(0),
            Err(error) => {
                self.heap.clear();
                self.error = Some(error);
            }
        }
    }

    /// Lets all children wait for memory together.
    fn prepare(&mut self, target: &[u8]) {
        for stage in SeekStage::ALL {
            self.children.iter_mut().for_each(|child| child.prepare_seek(target, stage));
        }
    }

    fn position_all(&mut self, backward: bool, mut position: impl FnMut(&mut I)) {
        self.error = None;
        self.backward = backward;
        self.children.iter_mut().for_each(&mut position);
        self.rebuild();
    }

    /// Positions each child by itself: `position` gets its index. For seeks to different targets, all in one direction.
    pub(crate) fn position_each(&mut self, backward: bool, mut position: impl FnMut(usize, &mut I)) {
        self.error = None;
        self.backward = backward;
        self.children.iter_mut().enumerate().for_each(|(index, child)| position(index, child));
        self.rebuild();
    }

    /// Moves the children from `first` on to `target`, an internal key, in the direction of the walk; those that are there already stay.
    pub(crate) fn skip_children(&mut self, first: usize, target: &[u8]) {
        for child in self.children.iter_mut().skip(first) {
            if !child.valid() {
                continue;
            }
            match (self.comparator.compare(child.key(), target), self.backward) {
                (Ordering::Less, false) => child.seek(target),
                (Ordering::Greater, true) => child.seek_for_prev(target),
                _ => {}
            }
        }
        self.rebuild();
    }

    /// Places all children but the current one on the other side of the current entry.
    #[inline(never)]
    fn turn(&mut self) {
        let current = self.heap[0].child as usize;
        let key = self.children[current].key().to_vec();
        let backward = !self.backward;
        for (index, child) in self.children.iter_mut().enumerate() {
            if index == current {
                continue;
            }
            if backward {
                child.seek_for_prev(&key);
            } else {
                child.seek(&key);
            }
            // An equal entry of another child lies before the current one if that child comes first.
            let lies_behind = (index < current) != backward;
            if lies_behind && child.valid() && self.comparator.compare(child.key(), &key) == Ordering::Equal {
                if backward {
                    child.prev();
                } else {
                    child.next();
                }
            }
        }
        self.backward = backward;
        let child = &mut self.children[current];
        if backward {
            child.prev();
        } else {
            child.next();
        }
        self.rebuild();
    }
}

impl<I: InternalIterator> InternalIterator for MergingIter<I> {
    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) {
        self.position_all(false, I::seek_to_first);
    }

    fn seek_to_last(&mut self) {
        self.position_all(true, I::seek_to_last);
    }

    fn seek(&mut self, target: &[u8]) {
        self.prepare(target);
        self.position_all(false, |child| child.seek(target));
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        self.prepare(target);
        self.position_all(true, |child| child.seek_for_prev(target));
    }

    #[inline]
    fn next(&mut self) {
        debug_assert!(self.valid());
        if self.backward {
            return self.turn();
        }
        let top = self.heap[0].child as usize;
        self.children[top].next();
        self.top_moved();
    }

    #[inline]
    fn prev(&mut self) {
        debug_assert!(self.valid());
        if !self.backward {
            return self.turn();
        }
        let top = self.heap[0].child as usize;
        self.children[top].prev();
        self.top_moved();
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current().key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current().value()
    }

    fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}
