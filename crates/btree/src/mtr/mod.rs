//! Mini-transactions: changes of pages that happen together, or not at all.
//!
//! A mini-transaction latches its pages exclusively and collects what is to change. Committing it appends one record to the redo log, and only then makes the changes,
//! with the code that recovery uses. One that is dropped before left no trace.
//!
//! The order of latches: page 0 of the tablespace, then what is allocated, then pages of the tree. Nothing is freed and allocated in one mini-transaction.
//!
//! Path: put 5/5. Before: buffer/pool.rs.

use crate::buffer::{ExclusiveGuard, Pool};
use crate::page::{Change, Lsn, OverflowRef, PageId, PageKind, PageMut};
use crate::redo::{END, Entries, Entry, GroupEnd, encode_change, encode_drop};
use crate::space::{LeafState, SpaceHeader, bitmap_of, is_bitmap, place_of, state_in, with_state};
use siltstone_base::{Error, ErrorKind, Result};
use std::cell::RefCell;

/// How a mini-transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// More of its group follows.
    Open,
    /// Its group ends here.
    Group,
    /// Its group ends here, and the record is handed to the operating system before anything changes.
    Written,
}

impl Close {
    fn flags(self) -> u8 {
        if self == Self::Open { 0 } else { END }
    }
}

/// A mini-transaction that is being collected.
#[derive(Debug)]
pub(crate) struct Mtr<'a> {
    pool: &'a Pool,
    pages: Vec<ExclusiveGuard<'a>>,
    entries: Vec<u8>,
    /// The page that each change is of, in their order.
    changed: Vec<usize>,
    /// Page 0, and what it will say.
    space: Option<(usize, SpaceHeader)>,
    /// The bitmap page that comes into being.
    new_bitmap: Option<usize>,
    /// Bytes of bitmap pages, and what they will say.
    states: Vec<(usize, usize, u8)>,
}

thread_local! {
    /// The entries of one small record, kept for its memory.
    static ENTRIES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Changes one page: a mini-transaction of its own, without the cost of collecting one.
#[inline]
pub(crate) fn change_one(pool: &Pool, page: &mut ExclusiveGuard<'_>, change: &Change<'_>, close: Close) -> Result<Lsn> {
    ENTRIES.with_borrow_mut(|entries| {
        entries.clear();
        encode_change(entries, page.id(), change);
        let end = pool.redo.append(entries, close.flags(), |start, _| pool.mark_dirty(page, start))?;
        if close == Close::Written {
            pool.redo.write_to(pool.redo.closed())?;
        }
        apply(pool, page, change, end)?;
        Ok(end)
    })
}

/// Makes a change whose record is in the log.
#[inline]
fn apply(pool: &Pool, page: &mut ExclusiveGuard<'_>, change: &Change<'_>, lsn: Lsn) -> Result<()> {
    if change.apply(page).is_err() {
        return Err(pool.health.fail(pool.spaces.corruption(page.id(), "a change does not fit the page")));
    }
    page.set_lsn(lsn);
    if is_bitmap(page.id().number, pool.page_len()) {
        note_states(pool, page.id(), change);
    }
    Ok(())
}

/// Keeps the image of a bitmap page in memory as the page is.
#[cold]
fn note_states(pool: &Pool, id: PageId, change: &Change<'_>) {
    if let (Some(states), Change::Write { offset, data }) = (pool.spaces.states(id.space), change) {
        states.note(id.number, usize::from(*offset), data);
    }
}

/// Appends a record without changes of pages: the end of a group. Returns where that is. For who holds the lock of writers.
pub(crate) fn close_group(pool: &Pool) -> Result<GroupEnd> {
    pool.redo.append(&[], END, |_, _| {})?;
    Ok(pool.redo.closed())
}

impl<'a> Mtr<'a> {
    pub(crate) fn new(pool: &'a Pool) -> Self {
        let (pages, entries, changed, states) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { pool, pages, entries, changed, space: None, new_bitmap: None, states }
    }

    /// Latches a page. Returns its place among the pages of the mini-transaction.
    pub(crate) fn latch(&mut self, id: PageId) -> Result<usize> {
        if let Some(known) = self.pages.iter().position(|page| page.id() == id) {
            return Ok(known);
        }
        self.pages.push(self.pool.exclusive(id)?);
        Ok(self.pages.len() - 1)
    }

    /// Whether a page is latched.
    pub(crate) fn has(&self, id: PageId) -> bool {
        self.pages.iter().any(|page| page.id() == id)
    }

    /// Latches a page of which nothing is known: it must become something by a change of it as a whole.
    pub(crate) fn create(&mut self, id: PageId) -> Result<usize> {
        if self.is_latched(id) {
            return Err(self.pool.spaces.corruption(id, "a page in use is given out as a new one"));
        }
        self.pages.push(self.pool.create(id)?);
        Ok(self.pages.len() - 1)
    }

    fn is_latched(&self, id: PageId) -> bool {
        self.pages.iter().any(|page| page.id() == id)
    }

    /// A page that is latched.
    pub(crate) fn page(&self, page: usize) -> &ExclusiveGuard<'a> {
        &self.pages[page]
    }

    /// Collects a change. The page stays as it is until the commit.
    pub(crate) fn change(&mut self, page: usize, change: &Change<'_>) {
        encode_change(&mut self.entries, self.pages[page].id(), change);
        self.changed.push(page);
    }

    /// Collects that a tablespace is gone.
    pub(crate) fn drop_space(&mut self, space: u32) {
        encode_drop(&mut self.entries, space);
    }

    /// Latches page 0 of a tablespace, for allocating or freeing.
    pub(crate) fn space(&mut self, space: u32) -> Result<&mut SpaceHeader> {
        if self.space.is_none() {
            let page = self.latch(PageId::new(space, 0))?;
            let header = SpaceHeader::read(self.page(page));
            let header = header.map_err(|what| self.pool.spaces.corruption(PageId::new(space, 0), what))?;
            self.space = Some((page, header));
        }
        match &mut self.space {
            Some((_, header)) => Ok(header),
            None => Err(Error::corrupt("a tablespace without a header")),
        }
    }

    /// Takes a free page, or lets the tablespace grow. The page must become something by a change of it as a whole.
    pub(crate) fn allocate(&mut self, space: u32) -> Result<usize> {
        let page_len = self.pool.page_len();
        let head = self.space(space)?.free_head;
        if head != 0 {
            let id = PageId::new(space, head);
            // One that is used already, or was just given out, if the list leads back into itself.
            if self.is_latched(id) {
                return Err(self.pool.spaces.corruption(id, "a page in use is on the free list"));
            }
            let page = self.latch(id)?;
            let header = self.page(page).header();
            if !matches!(header.kind(), Some(PageKind::Free | PageKind::Overflow)) {
                return Err(self.pool.spaces.corruption(id, "a page in use is on the free list"));
            }
            let space = self.space(space)?;
            space.free_head = header.right;
            space.free_count = space.free_count.saturating_sub(1);
            return Ok(page);
        }
        let (number, bitmap) = self
            .space(space)?
            .grow(page_len)
            .ok_or_else(|| Error::new(ErrorKind::LimitExceeded, "a tablespace has no more than 2^32 pages"))?;
        if let Some(bitmap) = bitmap {
            let bitmap = self.create(PageId::new(space, bitmap))?;
            self.change(bitmap, &Change::Format { kind: PageKind::Bitmap, level: 0, left: 0, right: 0 });
            self.new_bitmap = Some(bitmap);
        }
        self.create(PageId::new(space, number))
    }

    /// Gives a page back that is latched.
    pub(crate) fn free(&mut self, page: usize) -> Result<()> {
        let id = self.page(page).id();
        let space = self.space(id.space)?;
        let next = std::mem::replace(&mut space.free_head, id.number);
        space.free_count += 1;
        self.change(page, &Change::Format { kind: PageKind::Free, level: 0, left: 0, right: next });
        Ok(())
    }

    /// Gives the pages of a long value back, all at once.
    pub(crate) fn free_chain(&mut self, space: u32, chain: &OverflowRef) -> Result<()> {
        let pages = chain.pages(self.pool.page_len()) as u32;
        self.space(space)?;
        let last = self.latch(PageId::new(space, chain.last))?;
        if self.page(last).header().kind() != Some(PageKind::Overflow) {
            return Err(self
                .pool
                .spaces
                .corruption(PageId::new(space, chain.last), "a long value ends on another page"));
        }
        let header = self.space(space)?;
        let next = std::mem::replace(&mut header.free_head, chain.first);
        header.free_count = header.free_count.saturating_add(pages);
        self.change(last, &Change::SetRight(next));
        Ok(())
    }

    /// Says in the bitmap what is known of a leaf from now on. `change` is told what that was before.
    pub(crate) fn set_state(&mut self, id: PageId, change: impl FnOnce(LeafState) -> LeafState) -> Result<()> {
        let page_len = self.pool.page_len();
        let page = self.latch(PageId::new(id.space, bitmap_of(id.number, page_len)))?;
        if self.new_bitmap != Some(page) && self.page(page).header().kind() != Some(PageKind::Bitmap) {
            return Err(self.pool.spaces.corruption(self.page(page).id(), "a bitmap was expected"));
        }
        let (offset, shift) = place_of(id.number, page_len);
        let known = self.states.iter().position(|(known, at, _)| (*known, *at) == (page, offset));
        let known = known.unwrap_or_else(|| {
            self.states.push((page, offset, self.state_byte(page, offset)));
            self.states.len() - 1
        });
        let (_, _, byte) = &mut self.states[known];
        *byte = with_state(*byte, shift, change(state_in(*byte, shift)));
        Ok(())
    }

    /// A byte of a bitmap as it was before this mini-transaction. A new bitmap has nothing but zeros, though its frame still has what was there before.
    fn state_byte(&self, page: usize, offset: usize) -> u8 {
        match self.new_bitmap == Some(page) {
            true => 0,
            false => self.pages[page].bytes().get(offset).copied().unwrap_or(0),
        }
    }

    /// Appends the record, then makes the changes. Returns where the record ends.
    pub(crate) fn commit(mut self, close: Close) -> Result<Lsn> {
        if let Some((page, header)) = self.space.take() {
            self.change(page, &SpaceHeader::change(&header.encode()));
        }
        for (page, offset, byte) in std::mem::take(&mut self.states) {
            if self.state_byte(page, offset) != byte {
                self.change(page, &Change::Write { offset: offset as u16, data: &[byte] });
            }
        }
        let pool = self.pool;
        let end = pool.redo.append(&self.entries, close.flags(), |start, _| {
            self.changed.iter().for_each(|page| pool.mark_dirty(&self.pages[*page], start));
        })?;
        if close == Close::Written {
            pool.redo.write_to(pool.redo.closed())?;
        }
        let mut changed = self.changed.iter();
        for entry in Entries(&self.entries) {
            if let Ok(Entry::Change(_, change)) = entry
                && let Some(page) = changed.next()
            {
                apply(pool, &mut self.pages[*page], &change, end)?;
            }
        }
        Ok(end)
    }
}
