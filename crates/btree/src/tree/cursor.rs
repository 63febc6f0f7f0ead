//! Reading rows in order, a chunk at a time.
//!
//! A reader holds no latch between chunks. It remembers its page and the page's version: if both still stand it goes on where it was, else it
//! looks for its place by key. It follows a link to a neighbour only if the page that has the link did not change before the neighbour was latched.

use super::Tree;
use super::overflow::Value;
use super::search::Route;
use crate::buffer::{Place, SharedGuard, Trail};
use crate::meanwhile::{Gap, passing};
use crate::page::{self, Header, PageKind};
use crate::space::SpaceHeader;
use siltstone_base::Result;
use siltstone_base::plant::{PlantedBug, is_planted};
use std::cell::RefCell;

/// Bytes of rows up to which the memory of a chunk is kept.
const MAX_SPARE_BYTES: usize = 64 << 10;

thread_local! {
    /// The memory of a chunk that is not used.
    static SPARE: RefCell<Chunk> = const { RefCell::new(Chunk { bytes: Vec::new(), ends: Vec::new(), flags: Vec::new() }) };
}

/// Rows that were copied out of a page, in the order in which they were read.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
    /// The rows that have flags, in order, and which: their values begin with stamps.
    flags: Vec<(usize, u8)>,
}

impl Chunk {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.flags.clear();
    }

    /// Whether a row has flags.
    #[inline]
    pub(crate) fn has_flags(&self) -> bool {
        !self.flags.is_empty()
    }

    /// The flags of row `index`.
    pub(crate) fn flags(&self, index: usize) -> u8 {
        let found = self.flags.binary_search_by_key(&index, |(index, _)| *index);
        found.ok().and_then(|place| self.flags.get(place)).map_or(0, |(_, flags)| *flags)
    }

    /// Adds a row with flags.
    pub(crate) fn push_cell(&mut self, flags: u8, key: &[u8], value: &[u8]) {
        if flags != 0 {
            self.flags.push((self.ends.len(), flags));
        }
        self.push(key, value);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// An empty chunk, in the memory of one that this thread gave back.
    pub(crate) fn recycled() -> Self {
        SPARE.try_with(RefCell::take).unwrap_or_default()
    }

    /// Keeps the memory for the next chunk of this thread.
    pub(crate) fn recycle(&mut self) {
        let mut spare = std::mem::take(self);
        if spare.bytes.capacity() <= MAX_SPARE_BYTES {
            spare.clear();
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|kept| kept.replace(spare));
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Key and value of row `index`.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let (key_end, end) = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some((&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }
}

/// Where to begin.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start<'a> {
    /// At the first row, or for a reader that goes back at the last one.
    End,
    /// At the first row whose key is not less, or for a reader that goes back not greater.
    At(&'a [u8]),
    /// At the first row whose key is greater, or for a reader that goes back less.
    Beyond(&'a [u8]),
}

/// The way to the leaf at which a reader begins.
fn route_of(start: Start<'_>, is_forward: bool) -> Route<'_> {
    match start {
        Start::End if is_forward => Route::First,
        Start::End => Route::Last,
        Start::At(key) | Start::Beyond(key) => Route::Key(key),
    }
}

/// Where a reader stopped: the slot that is next, or one above it for a reader that goes back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    place: Option<(Place, u32, usize)>,
    /// For what is read ahead of the reader.
    trail: Trail,
}

/// Empty leaves in a row between two looks whether there can be so many.
const CIRCLE_LOOK: u32 = 1 << 10;

impl Tree {
    /// Reads up to `count` rows from `start` on, forwards or back, all of one leaf. `position` is where the last chunk ended that is continued; a new
    /// one goes by `start` alone. The chunk is empty at the end of the tree.
    pub(crate) fn read_chunk(
        &self,
        start: Start<'_>,
        is_forward: bool,
        position: &mut Position,
        count: usize,
        chunk: &mut Chunk,
    ) -> Result<()> {
        chunk.clear();
        'again: loop {
            let (mut number, mut leaf, mut slot) = match self.resume(position) {
                Some(found) => found,
                None => self.locate(start, is_forward)?,
            };
            let mut empty_leaves = 0;
            loop {
                let header = Header::read(leaf.bytes());
                slot = self.copy_rows(number, leaf.bytes(), &header, slot, is_forward, count, chunk)?;
                let place = leaf.place(self.page_id(number));
                if !chunk.is_empty() {
                    position.place = place.map(|place| (place, number, slot));
                    return Ok(());
                }
                let next = if is_forward { header.right } else { header.left };
                position.place = None;
                if next == 0 {
                    return Ok(());
                }
                // Never two latches at once: a split or a merge latches neighbours in its own order, and would wait for this reader as it for them.
                drop(leaf);
                self.pool.follow(&mut position.trail, number, self.page_id(next));
                empty_leaves += 1;
                if empty_leaves % CIRCLE_LOOK == 0 && empty_leaves > self.page_count()? {
                    return Err(self.corruption(number, "the leaves are linked in a circle"));
                }
                self.pool.note_asked(1);
                let neighbour = self.pool.shared(self.page_id(next));
                passing(Gap::NextLeaf);
                if !place.is_some_and(|place| self.pool.is_still(&place)) {
                    continue 'again;
                }
                leaf = neighbour?;
                if self.is_waited_for(next) && !is_planted(PlantedBug::WaitingEntriesAreSkipped) {
                    drop(leaf);
                    self.merge_waiting(next)?;
                    // From here again, unless the leaf has changed meanwhile.
                    position.place = place.map(|place| (place, number, slot));
                    continue 'again;
                }
                let found = Header::read(leaf.bytes());
                if found.kind() != Some(PageKind::Leaf) || (if is_forward { found.left } else { found.right }) != number
                {
                    return Err(self.corruption(next, "a leaf was expected that leads back to its neighbour"));
                }
                number = next;
                slot = if is_forward { 0 } else { usize::from(found.count) };
            }
        }
    }

    /// Where the leaf begins that is behind the one at which a reader begins that goes forward, as the pages above them say; `None` if that is the last one. Neither need be readable.
    pub(crate) fn next_leaf(&self, start: Start<'_>) -> Result<Option<Vec<u8>>> {
        let end = self.end_of(route_of(start, true))?;
        let is_behind = |end: &Vec<u8>| match start {
            Start::End => true,
            Start::At(key) | Start::Beyond(key) => key < end.as_slice(),
        };
        match end {
            Some(end) if !is_behind(&end) => Err(self.corruption(SpaceHeader::ROOT, "separators are out of order")),
            end => Ok(end),
        }
    }

    fn resume(&self, position: &mut Position) -> Option<(u32, SharedGuard<'_>, usize)> {
        let (place, number, slot) = position.place.take()?;
        let leaf = self.pool.resume(&place)?;
        (!self.is_waited_for(number)).then_some((number, leaf, slot))
    }

    fn locate(&self, start: Start<'_>, is_forward: bool) -> Result<(u32, SharedGuard<'_>, usize)> {
        let (number, leaf) = self.leaf_shared(route_of(start, is_forward))?;
        let slot = match start {
            Start::End if is_forward => 0,
            Start::End => usize::from(Header::read(leaf.bytes()).count),
            Start::At(key) | Start::Beyond(key) => {
                let found = page::find(leaf.bytes(), key);
                match found.ok_or_else(|| self.corruption(number, "the slots make no sense"))? {
                    // The slots before this one are less, those from it on greater: the row itself is on the side where it is wanted.
                    Ok((slot, _)) => slot + usize::from(matches!(start, Start::At(_)) != is_forward),
                    Err(slot) => slot,
                }
            }
        };
        Ok((number, leaf, slot))
    }

    /// Copies rows from `slot` on, or below it. Returns where to go on.
    #[expect(clippy::too_many_arguments, reason = "one step of read_chunk, of which it has the state")]
    fn copy_rows(
        &self,
        number: u32,
        bytes: &[u8],
        header: &Header,
        mut slot: usize,
        is_forward: bool,
        count: usize,
        chunk: &mut Chunk,
    ) -> Result<usize> {
        let rows = count.min(if is_forward { usize::from(header.count).saturating_sub(slot) } else { slot });
        let first = if is_forward { slot } else { slot - rows };
        // The cells lie anywhere: the waits for their lines overlap.
        page::prefetch_cells(bytes, first, rows);
        while chunk.len() < count {
            let index = if is_forward { Some(slot) } else { slot.checked_sub(1) };
            let Some(index) = index.filter(|index| *index < usize::from(header.count)) else { break };
            let cell = page::cell(bytes, header, index);
            let cell = cell.ok_or_else(|| self.corruption(number, "the slots make no sense"))?;
            if cell.flags == 0 {
                chunk.push(cell.key, cell.value);
            } else {
                let (flags, value) = self.whole(Value::in_leaf(number, cell.flags, cell.value))?;
                chunk.push_cell(flags, cell.key, &value);
            }
            slot = if is_forward { slot + 1 } else { index };
        }
        Ok(slot)
    }
}
