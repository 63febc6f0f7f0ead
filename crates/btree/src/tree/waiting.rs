//! Leaves for which entries wait: a tree of index entries may have a [`Gate`], which keeps operations back for leaves that are not in memory.
//!
//! Nobody uses a leaf for which entries wait. Whoever has one latched looks at its state, lets go of it if entries wait, has them merged, and begins again: every descent does, and so
//! does a reader that steps to a neighbour or comes back to a page. Splits and merges of pages leave such leaves alone.
//!
//! The state of a leaf is changed by whoever holds the lock of writers. A reader that saw none before its latch reads what was there before the operation came.

use super::search::Route;
use super::{EntryOp, Tree};
use crate::buffer::Pool;
use crate::mtr::{Close, Mtr};
use crate::page::{self, Change, Header, PageId, PageKind, PageMut};
use crate::space::{LeafState, LeafStates, SpaceHeader, is_bitmap};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;

/// Keeps operations on entries back, and brings them in.
pub(crate) trait Gate: fmt::Debug + Send + Sync {
    /// Keeps an operation for a leaf, as part of an open group. Returns whether it did; if not the leaf itself is to be changed. For who holds the lock of
    /// writers.
    fn keep(&self, tree: &Tree, leaf: u32, key: &[u8], op: EntryOp) -> Result<bool>;

    /// Takes an operation back that was kept for a leaf, as part of an open group, if it is the last one that waits for it. Returns whether it did. For who holds the lock of writers.
    fn take_back(&self, tree: &Tree, leaf: u32, key: &[u8], op: EntryOp) -> Result<bool>;

    /// Whether operations for a leaf of this state are likely to be kept. Anyone may ask.
    fn may_keep(&self, state: LeafState) -> bool;

    /// Brings everything that waits for a leaf in. The caller holds no latch, and perhaps the lock of writers.
    fn merge(&self, tree: &Tree, leaf: u32) -> Result<()>;
}

/// What a tree has whose entries may be kept back.
#[derive(Debug)]
pub(super) struct Waiting {
    states: Arc<LeafStates>,
    gate: Arc<dyn Gate>,
}

impl Tree {
    /// The tree of a tablespace that is open, of entries that may be kept back.
    pub(crate) fn with_gate(space: u32, pool: Arc<Pool>, gate: Arc<dyn Gate>) -> Result<Self> {
        let states = pool.spaces.states(space);
        let states = states.ok_or_else(|| Error::new(ErrorKind::MissingFile, "a tablespace is not open"))?;
        Ok(Self { waiting: Some(Waiting { states, gate }), ..Self::new(space, pool) })
    }

    /// What is known of the leaves, if entries for them may be kept back.
    pub(crate) fn states(&self) -> Option<&LeafStates> {
        self.waiting.as_ref().map(|waiting| &*waiting.states)
    }

    /// Whether entries wait for a leaf: then it may not be used.
    #[inline]
    pub(super) fn is_waited_for(&self, number: u32) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.states.is_pending(number))
    }

    /// Has the entries brought in that wait for a leaf. The caller holds no latch.
    #[cold]
    pub(super) fn merge_waiting(&self, number: u32) -> Result<()> {
        match &self.waiting {
            Some(waiting) => waiting.gate.merge(self, number),
            None => Ok(()),
        }
    }

    /// Whether operations for a leaf are likely to be kept back: it need not be brought in for them.
    pub(super) fn may_keep_back(&self, number: u32) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.gate.may_keep(waiting.states.get(number)))
    }

    /// Keeps an operation back, if it may be. Returns whether it was.
    #[inline]
    pub(super) fn keep_back(&self, key: &[u8], op: EntryOp) -> Result<bool> {
        match &self.waiting {
            Some(waiting) => match self.leaf_number(key)? {
                Some(leaf) => waiting.gate.keep(self, leaf, key, op),
                None => Ok(false),
            },
            None => Ok(false),
        }
    }

    /// Takes an operation back, if it still waits and nothing came after it. Returns whether it did: then it is undone, and nobody had to look at the leaf. What leads back from an operation may
    /// be one that cannot be kept, and the leaf one that cannot be read.
    pub(crate) fn take_back(&self, key: &[u8], op: EntryOp) -> Result<bool> {
        match &self.waiting {
            Some(waiting) => match self.leaf_number(key)? {
                Some(leaf) => waiting.gate.take_back(self, leaf, key, op),
                None => Ok(false),
            },
            None => Ok(false),
        }
    }

    /// Takes note, as part of an open group, of what will be free on a leaf that is about to change.
    #[inline]
    pub(super) fn note_free(&self, number: u32, free: usize) -> Result<()> {
        let Some(waiting) = &self.waiting else { return Ok(()) };
        let state = waiting.states.get(number);
        if state.with_free(free, self.pool.page_len()) == state {
            return Ok(());
        }
        let mut mtr = Mtr::new(&self.pool);
        self.note_leaf(&mut mtr, number, free)?;
        mtr.commit(Close::Open).map(drop)
    }

    /// The same, with the changes of a mini-transaction.
    pub(super) fn note_leaf(&self, mtr: &mut Mtr<'_>, number: u32, free: usize) -> Result<()> {
        if self.waiting.is_none() {
            return Ok(());
        }
        mtr.set_state(self.page_id(number), |state| state.with_free(free, self.pool.page_len()))
    }

    /// Takes note that a page is no leaf any more.
    pub(super) fn forget_leaf(&self, mtr: &mut Mtr<'_>, number: u32) -> Result<()> {
        if self.waiting.is_none() {
            return Ok(());
        }
        mtr.set_state(self.page_id(number), |_| LeafState::default())
    }

    /// Whether pages may change their shape: no entries wait for them.
    pub(super) fn may_change_shape(&self, pages: &[u32]) -> bool {
        is_planted(PlantedBug::FreedLeafKeepsEntries) || !pages.iter().any(|number| self.is_waited_for(*number))
    }

    /// Collects that all rows with keys from `low` up to `high`, exclusive, are removed, and hands them to `each`. Their values are not long. Returns whether the tree should be merged at
    /// `low` afterwards. For who holds the lock of writers.
    pub(crate) fn take_range(
        &self,
        mtr: &mut Mtr<'_>,
        low: &[u8],
        high: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<bool> {
        let (mut number, leaf) = self.leaf_shared(Route::Key(low))?;
        drop(leaf);
        let mut is_underfull = false;
        loop {
            if mtr.has(self.page_id(number)) {
                return Err(self.corruption(number, "the leaves are linked in a circle"));
            }
            let place = mtr.latch(self.page_id(number))?;
            let bytes = mtr.page(place).bytes();
            let header = Header::read(bytes);
            if header.kind() != Some(PageKind::Leaf) {
                return Err(self.corruption(number, "a leaf was expected"));
            }
            let malformed = || self.corruption(number, "the slots make no sense");
            let (Ok(first) | Err(first)) = page::find(bytes, low).ok_or_else(malformed)?.map(|(slot, _)| slot);
            let (mut gone, mut bytes_gone, mut is_end) = (0, 0, false);
            for slot in first..usize::from(header.count) {
                let cell = page::cell(bytes, &header, slot).ok_or_else(malformed)?;
                if cell.key >= high {
                    is_end = true;
                    break;
                }
                if cell.flags != 0 {
                    return Err(self.corruption(number, "a row has flags that none of its tree has"));
                }
                each(cell.key, cell.value);
                gone += 1;
                bytes_gone += cell.footprint();
            }
            let used = header.used(self.pool.page_len()).saturating_sub(bytes_gone);
            for _ in 0..gone {
                mtr.change(place, &Change::Remove { slot: first as u16 });
            }
            is_underfull |= gone > 0 && self.is_underfull(used);
            if is_end || header.right == 0 {
                return Ok(is_underfull);
            }
            number = header.right;
        }
    }

    /// The leaf that has a key, or would have it, without looking at it; `None` if the root is a leaf. For who holds the lock of writers.
    pub(crate) fn leaf_number(&self, key: &[u8]) -> Result<Option<u32>> {
        self.number_of(Route::Key(key))
    }

    /// The numbers of all pages that the tablespace has, but for bitmaps.
    pub(crate) fn pages(&self) -> Result<impl Iterator<Item = u32>> {
        let page_len = self.pool.page_len();
        Ok((0..self.page_count()?).filter(move |number| !is_bitmap(*number, page_len)))
    }

    /// How many pages the tablespace has.
    pub(crate) fn page_count(&self) -> Result<u32> {
        let page = self.pool.shared(self.page_id(0))?;
        SpaceHeader::read(page.bytes()).map(|header| header.pages).map_err(|what| self.corruption(0, what))
    }

    /// Names a page of the tree.
    pub(crate) fn page(&self, number: u32) -> PageId {
        self.page_id(number)
    }
}
