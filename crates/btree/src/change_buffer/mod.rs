//! The change buffer: operations on entries of secondary indexes whose leaves are not in memory wait here instead of reading them.
//!
//! It is a tree in a tablespace of its own, and so has all that trees have. Its keys are page and number of an operation, so that what waits for a page lies together and in order.
//! Bitmap pages say which leaves are waited for, and how much room each has at least: an operation is kept only if its leaf surely has room for all that wait, so that merging
//! never splits a page.
//!
//! One door in, [`keep`](ChangeBuffer::keep), and one door out, [`merge`](ChangeBuffer::merge): the changes of the leaf, the removal of what waited for it, and its bit are one
//! mini-transaction. Who uses a leaf has it merged first ([`Gate`](crate::tree::Gate)). Pages that are waited for are not split, merged or given back; what waits for a tablespace that was
//! dropped is discarded when it is met, since no tablespace gets a number twice.
//!
//! Only who holds the lock of writers changes it.

mod check;
mod record;
#[cfg(test)]
mod tests;

use crate::buffer::Pool;
use crate::metrics::Counter;
use crate::mtr::{Close, Mtr};
use crate::options::ChangeBuffering;
use crate::page::{CELL_HEADER_LEN, EditError, Header, PageId, PageKind, PageMut, SLOT_LEN, Stamp};
use crate::space::{CHANGES_SPACE, LeafState, LeafStates, SpaceHeader, bitmap_of, place_of};
use crate::tree::{Chunk, EntryOp, Position, Start, Tree, Value};
use record::{Record, key_of, page_of};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, Result};

/// Held by who merges or keeps, beside the lock of writers: what they use again.
const RANK: Rank = Rank(160);

/// Operations that may wait for a page, for each 32 bytes that it has.
const BYTES_PER_OP: usize = 32;

/// Operations between two looks at how long the buffer is.
const LOOK_EVERY: u32 = 8;

/// Pages that are merged together: neighbours, beginning at a multiple of this.
const AREA: u32 = 8;

/// Pages of a tree without rows.
const EMPTY_PAGES: u32 = 3;

/// Memory that is used again.
#[derive(Debug, Default)]
struct Scratch {
    record: Vec<u8>,
    page: Vec<u8>,
    /// Where the next background merge begins.
    hand: Option<PageId>,
}

/// What a merge did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merged {
    /// Operations that were merged.
    pub(crate) ops: u32,
    /// A key of the leaf, if it is now so empty that it should be merged with a neighbour.
    pub(crate) underfull: Option<Vec<u8>>,
}

/// The change buffer of an open database.
#[derive(Debug)]
pub(crate) struct ChangeBuffer {
    tree: Tree,
    mode: ChangeBuffering,
    /// Pages that its tree may have.
    max_pages: u32,
    /// Pages that its tree has, as far as known, and operations until somebody looks again.
    pages: AtomicU32,
    until_look: AtomicU32,
    scratch: Mutex<Scratch>,
}

/// What an operation may take on its page at most.
fn growth(op: EntryOp, key: &[u8]) -> usize {
    match op {
        EntryOp::Insert { stamp } => SLOT_LEN + CELL_HEADER_LEN + key.len() + stamp.map_or(0, |_| Stamp::LEN),
        EntryOp::Mark { .. } => Stamp::LEN,
        EntryOp::Remove { .. } => 0,
    }
}

fn covers(mode: ChangeBuffering, op: EntryOp) -> bool {
    mode.covers(matches!(op, EntryOp::Insert { .. }), matches!(op, EntryOp::Mark { .. }))
}

impl ChangeBuffer {
    /// The buffer in the tablespace that is open.
    pub(crate) fn new(pool: Arc<Pool>, mode: ChangeBuffering, max_percent: usize) -> Result<Self> {
        let max_pages = (pool.frames() * max_percent / 100) as u32;
        let buffer = Self {
            tree: Tree::new(CHANGES_SPACE, pool),
            mode,
            max_pages,
            pages: AtomicU32::new(0),
            until_look: AtomicU32::new(0),
            scratch: Mutex::new(RANK, Scratch::default()),
        };
        buffer.look()?;
        Ok(buffer)
    }

    fn pool(&self) -> &Pool {
        self.tree.pool()
    }

    #[cold]
    pub(crate) fn damaged(&self, what: &'static str) -> Error {
        Error::corrupt(what).with_file(&self.pool().spaces.path(CHANGES_SPACE))
    }

    /// Takes note of how long the buffer is, some time after the last look. That it can't be done now is no error of whoever changed the buffer: his change is made.
    fn look_again(&self) {
        let _ = self.look();
    }

    fn look(&self) -> Result<()> {
        self.until_look.store(LOOK_EVERY, Ordering::Relaxed);
        let id = PageId::new(CHANGES_SPACE, 0);
        let page = self.pool().shared(id)?;
        let header = SpaceHeader::read(page.bytes()).map_err(|what| self.pool().spaces.corruption(id, what))?;
        let pages = header.pages.saturating_sub(header.free_count).saturating_sub(EMPTY_PAGES);
        self.pages.store(pages, Ordering::Relaxed);
        Ok(())
    }

    /// Pages that it has, as far as known, and pages that it may have.
    pub(crate) fn lens(&self) -> (u64, u64) {
        (u64::from(self.pages.load(Ordering::Relaxed)), u64::from(self.max_pages))
    }

    /// Whether the buffer may not grow any more.
    pub(crate) fn is_full(&self) -> bool {
        self.pages.load(Ordering::Relaxed) >= self.max_pages
    }

    /// Whether the buffer is so long that merging should begin.
    pub(crate) fn is_crowded(&self) -> bool {
        self.pages.load(Ordering::Relaxed) > self.max_pages / 8 * 7
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        self.first_from(PageId::new(0, 0)).map(|found| found.is_none())
    }

    /// Whether something waits for a page, whatever its bit says.
    pub(crate) fn has(&self, page: PageId) -> Result<bool> {
        self.first_from(page).map(|found| found == Some(page))
    }

    /// Whether operations for a leaf of this state are likely to be kept.
    pub(crate) fn may_keep(&self, state: LeafState) -> bool {
        self.mode != ChangeBuffering::None && !self.is_full() && state.room(self.pool().page_len()) > 0
    }

    /// Keeps an operation for a leaf back, as part of an open group, unless the leaf is in memory, or it is not sure that it has room. Returns whether it did. For who holds
    /// the lock of writers.
    pub(crate) fn keep(&self, states: &LeafStates, leaf: PageId, key: &[u8], op: EntryOp) -> Result<bool> {
        if !covers(self.mode, op) || self.pool().is_resident(leaf) || self.is_full() {
            return Ok(false);
        }
        let page_len = self.pool().page_len();
        let state = states.get(leaf.number);
        let (number, before) = if state.is_pending() { self.last(leaf)? } else { (0, 0) };
        let growth = growth(op, key);
        let volume = usize::from(before) + growth;
        let has_room = growth == 0 || volume <= state.room(page_len) || is_planted(PlantedBug::RoomIsOverstated);
        if !has_room || number as usize >= page_len / BYTES_PER_OP {
            return Ok(false);
        }
        let mut scratch = self.scratch.lock();
        let value = &mut scratch.record;
        value.clear();
        Record { op, volume: volume.min(usize::from(u16::MAX)) as u16, key }.encode(value);
        let place = key_of(leaf, number);
        if self.tree.is_long(&place, value) {
            return Ok(false);
        }
        // The bitmap is latched first: what fails leaves no trace.
        let mut mtr = Mtr::new(self.pool());
        if !state.is_pending() {
            mtr.set_state(leaf, |state| state.with_pending(true))?;
        }
        self.tree.put(&place, Value::inline(value), false, Close::Open, Close::Open, &mut |_| Ok(()))?;
        if !state.is_pending() {
            mtr.commit(Close::Open)?;
            self.pool().metrics.add(Counter::ChangeBufferPages, 1);
        }
        self.pool().metrics.add(Counter::ChangeBufferOps, 1);
        if self.until_look.fetch_sub(1, Ordering::Relaxed) <= 1 {
            self.look_again();
        }
        Ok(true)
    }

    /// Takes an operation back, as part of an open group, if it is the last one that waits for its leaf. Returns whether it is. What fails leaves no trace. For who holds the lock of writers.
    pub(crate) fn take_back(&self, states: &LeafStates, leaf: PageId, key: &[u8], op: EntryOp) -> Result<bool> {
        if !states.get(leaf.number).is_pending() {
            return Ok(false);
        }
        let (next, _) = self.last(leaf)?;
        let Some(number) = next.checked_sub(1) else { return Ok(false) };
        let mut mtr = Mtr::new(self.pool());
        let (place, end) = (key_of(leaf, number), key_of(leaf, next));
        let mut is_it = false;
        let is_sparse = self.tree.take_range(&mut mtr, &place, &end, &mut |_, value| {
            is_it = Record::decode(value).is_some_and(|record| record.key == key && record.op == op);
        })?;
        if !is_it {
            // Nothing was changed: what is collected goes.
            return Ok(false);
        }
        if number == 0 {
            mtr.set_state(leaf, |state| state.with_pending(false))?;
        }
        mtr.commit(Close::Open)?;
        self.pool().metrics.add(Counter::ChangeBufferDiscarded, 1);
        if is_sparse {
            // That it can't be done now is no error: the tree is as good as before.
            let _ = self.tree.merge_at(&place, Close::Open);
        }
        Ok(true)
    }

    /// The number of the next operation of a page that is waited for, and the volume of those before it.
    fn last(&self, leaf: PageId) -> Result<(u32, u16)> {
        let (mut position, mut chunk) = (Position::default(), Chunk::recycled());
        let end = key_of(leaf, u32::MAX);
        self.tree.read_chunk(Start::At(&end), false, &mut position, 1, &mut chunk)?;
        let found = chunk.get(0).and_then(|(key, value)| {
            let (page, number) = page_of(key).filter(|(page, _)| *page == leaf)?;
            debug_assert_eq!(page, leaf);
            Some((number.checked_add(1)?, Record::decode(value)?.volume))
        });
        chunk.recycle();
        found.ok_or_else(|| self.damaged("nothing waits for a leaf whose bit says so"))
    }

    /// Merges what waits for a leaf into it, and ends with `close`. What fails leaves no trace. For who holds the lock of writers.
    pub(crate) fn merge(&self, leaf: PageId, close: Close) -> Result<Merged> {
        let pool = self.pool();
        let mut scratch = self.scratch.lock();
        let mut mtr = Mtr::new(pool);
        let place = mtr.latch(leaf)?;
        if mtr.page(place).header().kind() != Some(PageKind::Leaf) {
            return Err(pool.spaces.corruption(leaf, "entries wait for a page that is no leaf"));
        }
        let page = &mut scratch.page;
        page.clear();
        page.extend_from_slice(mtr.page(place).bytes());
        let mut ops = Chunk::recycled();
        let (low, high) = (key_of(leaf, 0), key_of(leaf, u32::MAX));
        let is_sparse = self.tree.take_range(&mut mtr, &low, &high, &mut |key, value| ops.push(key, value))?;
        if ops.is_empty() {
            return Err(self.damaged("nothing waits for a leaf whose bit says so"));
        }
        for index in 0..ops.len() {
            let Some((_, value)) = ops.get(index) else { break };
            let record = Record::decode(value).ok_or_else(|| self.damaged("an entry that waits is malformed"))?;
            self.merge_one(&mut mtr, place, page, &record).map_err(|what| pool.spaces.corruption(leaf, what))?;
        }
        let merged = ops.len() as u32;
        let header = Header::read(page.as_slice());
        let is_underfull = header.used(pool.page_len()) < pool.page_len() / 2;
        let first = ops.get(0).and_then(|(_, value)| Record::decode(value)).filter(|_| is_underfull);
        let underfull = first.map(|record| record.key.to_vec());
        ops.recycle();
        let is_forgotten = is_planted(PlantedBug::MergeForgetsBitmap);
        mtr.set_state(leaf, |state| state.with_pending(is_forgotten).with_free(header.free(), pool.page_len()))?;
        mtr.commit(close)?;
        drop(scratch);
        pool.metrics.add(Counter::ChangeBufferMerges, 1);
        pool.metrics.add(Counter::ChangeBufferMergedOps, u64::from(merged));
        if is_sparse {
            // That it can't be done now is no error: the tree is as good as before.
            let _ = self.tree.merge_at(&low, close);
        }
        self.look_again();
        Ok(Merged { ops: merged, underfull })
    }

    /// Collects one operation, and makes it on a copy of the leaf.
    fn merge_one(
        &self,
        mtr: &mut Mtr<'_>,
        place: usize,
        page: &mut [u8],
        record: &Record<'_>,
    ) -> std::result::Result<(), &'static str> {
        let stamp = record.op.stamp().map(|stamp| stamp.encode());
        let value = stamp.as_ref().map_or(&[][..], |stamp| &stamp[..]);
        let Some(plan) = record.op.plan(page, record.key, value)? else { return Ok(()) };
        plan.change.apply(page).map_err(|error| match error {
            EditError::Full => "a leaf has no room for what waits for it",
            EditError::Malformed => "the slots make no sense",
        })?;
        mtr.change(place, &plan.change);
        Ok(())
    }

    /// Pages near one another for which operations wait, going round; none if nothing waits.
    pub(crate) fn next_area(&self) -> Result<Vec<PageId>> {
        let hand = self.scratch.lock().hand;
        let found = match hand {
            Some(hand) => match self.first_from(hand)? {
                Some(found) => Some(found),
                None => self.first_from(PageId::new(0, 0))?,
            },
            None => self.first_from(PageId::new(0, 0))?,
        };
        let Some(first) = found else { return Ok(Vec::new()) };
        let end = (first.number / AREA).saturating_add(1).saturating_mul(AREA);
        let mut pages = vec![first];
        if let Some(states) = self.pool().spaces.states(first.space) {
            while let Some(last) = pages.last()
                && let Some(next) = states.next_pending(last.number.saturating_add(1)).filter(|next| *next < end)
            {
                pages.push(PageId::new(first.space, next));
            }
        }
        self.scratch.lock().hand = Some(PageId::new(first.space, end));
        Ok(pages)
    }

    /// The first page from another on for which something waits.
    fn first_from(&self, page: PageId) -> Result<Option<PageId>> {
        let (mut position, mut chunk) = (Position::default(), Chunk::recycled());
        self.tree.read_chunk(Start::At(&key_of(page, 0)), true, &mut position, 1, &mut chunk)?;
        let found = chunk.get(0).map(|(key, _)| page_of(key));
        chunk.recycle();
        match found {
            None => Ok(None),
            Some(Some((page, _))) => Ok(Some(page)),
            Some(None) => Err(self.damaged("a key of the change buffer is malformed")),
        }
    }

    /// Discards what waits for a page of a tablespace that is gone, and ends with `close`.
    pub(crate) fn discard(&self, page: PageId, close: Close) -> Result<u32> {
        let mut mtr = Mtr::new(self.pool());
        let (low, high) = (key_of(page, 0), key_of(page, u32::MAX));
        let mut discarded = 0;
        let is_sparse = self.tree.take_range(&mut mtr, &low, &high, &mut |_, _| discarded += 1)?;
        mtr.commit(close)?;
        self.pool().metrics.add(Counter::ChangeBufferDiscarded, u64::from(discarded));
        if is_sparse {
            let _ = self.tree.merge_at(&low, close);
        }
        self.look_again();
        Ok(discarded)
    }

    /// Reads the bitmap pages of a tablespace whose entries may wait. After redo, and before anything else.
    pub(crate) fn load_states(pool: &Pool, space: u32, states: &LeafStates) -> Result<()> {
        let page_len = pool.page_len();
        let id = PageId::new(space, 0);
        let pages = SpaceHeader::read(pool.shared(id)?.bytes()).map_err(|what| pool.spaces.corruption(id, what))?.pages;
        for first in (0..pages).step_by(page_len) {
            let id = PageId::new(space, bitmap_of(first, page_len));
            let page = pool.shared(id)?;
            if Header::read(page.bytes()).kind() != Some(PageKind::Bitmap) {
                return Err(pool.spaces.corruption(id, "a bitmap was expected"));
            }
            let (offset, _) = place_of(first, page_len);
            states.note(id.number, offset, page.bytes().get(offset..offset + page_len / 2).unwrap_or(&[]));
        }
        Ok(())
    }
}
