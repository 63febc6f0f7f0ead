//! Splitting pages.
//!
//! The upper part of a page goes to a new page on its right; their parent learns where the new one begins. Where the parent has no room it is
//! split first, and the caller begins again. Every split is complete in itself: rows stay where they were in the order.

use super::Tree;
use super::insert::{RUN, has_room};
use super::search::Route;
use super::structure::Step;
use crate::metrics::Counter;
use crate::mtr::{Close, Mtr};
use crate::page::{self, CELL_HEADER_LEN, Cell, Change, Header, PageKind, PageMut, SLOT_LEN, shortest_separator};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::{Error, ErrorKind, Result};

/// A row that waits for room.
#[derive(Debug, Clone, Copy)]
struct Pending<'a> {
    key: &'a [u8],
    value_len: usize,
}

/// Where to split: cells from `at` on go to the right, where keys are not less than `separator`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SplitPoint {
    pub(super) at: usize,
    pub(super) separator: Vec<u8>,
}

/// The first of the upper half's cells, by bytes: `extra` bytes come before cell `slot`.
fn middle(cells: &[Cell<'_>], slot: usize, extra: usize) -> usize {
    let total: usize = cells.iter().map(Cell::footprint).sum::<usize>() + extra;
    let mut left = 0;
    for (index, cell) in cells.iter().enumerate() {
        let pending = if index == slot { extra } else { 0 };
        let next = left + pending + cell.footprint();
        // The better of the two places around the middle.
        if next * 2 >= total {
            return if next * 2 - total < total.saturating_sub(left * 2) { index + 1 } else { index };
        }
        left = next;
    }
    cells.len()
}

/// Where to split a leaf so that there is room for a row: at the end of a run, so that its pages stay full, else in the middle.
pub(super) fn leaf_split_point(
    header: &Header,
    cells: &[Cell<'_>],
    slot: usize,
    key: &[u8],
    footprint: usize,
) -> SplitPoint {
    let count = cells.len();
    let at = if header.run >= RUN && slot == count {
        count
    } else if header.run <= -RUN && slot == 0 {
        0
    } else {
        let at = middle(cells, slot, footprint);
        // Both sides get something: the pending row counts.
        if at == 0 && slot > 0 {
            1
        } else if at == count && slot < count {
            count - 1
        } else {
            at
        }
    };
    let left = at.checked_sub(1).map_or(key, |last| cells[last].key);
    let right = cells.get(at).map_or(key, |first| first.key);
    SplitPoint { at, separator: shortest_separator(left, right).to_vec() }
}

/// Where to split an inner page: both sides get a child at least.
pub(super) fn inner_split_point(header: &Header, cells: &[Cell<'_>]) -> Option<SplitPoint> {
    let count = cells.len();
    let is_ascending = header.run >= RUN && usize::from(header.last_insert) + 1 == count;
    let at = if is_ascending { count - 1 } else { middle(cells, count, 0) };
    let at = at.clamp(1, count.checked_sub(1)?.max(1));
    Some(SplitPoint { at, separator: cells.get(at)?.key.to_vec() })
}

impl Tree {
    /// Changes the shape of the tree so that a row of `key` and so long a value comes nearer to having room.
    pub(super) fn make_room(&self, key: &[u8], value_len: usize, close: Close) -> Result<()> {
        let structure = self.structure.lock();
        let path = self.path(Route::Key(key), &structure)?;
        self.split(&path, Some(Pending { key, value_len }), close)
    }

    /// Splits the last page of a path, or the one above that must be split first.
    fn split(&self, path: &[Step], pending: Option<Pending<'_>>, close: Close) -> Result<()> {
        let Some((page, above)) = path.split_last() else { return Ok(()) };
        let Some(parent) = above.last() else { return self.split_root(page.number, pending, close) };
        let mut mtr = Mtr::new(&self.pool);
        let right = mtr.allocate(self.space)?;
        let left = mtr.latch(self.page_id(page.number))?;
        let header = mtr.page(left).header();
        let Some(point) = self.split_point(page.number, mtr.page(left).bytes(), &header, pending)? else {
            return Ok(());
        };
        let behind = if header.right == 0 { None } else { Some(mtr.latch(self.page_id(header.right))?) };
        let parent_page = mtr.latch(self.page_id(parent.number))?;
        let footprint = SLOT_LEN + CELL_HEADER_LEN + point.separator.len() + 4;
        if mtr.page(parent_page).header().free() < footprint {
            drop(mtr);
            return self.split(above, None, close);
        }
        if !self.may_change_shape(&[page.number]) {
            return Err(self.corruption(page.number, "a leaf for which entries wait was to be split"));
        }
        let right_number = mtr.page(right).id().number;
        let cells = self.cells(page.number, mtr.page(left).bytes(), &header)?;
        let right_header = Header { left: page.number, ..header };
        let image = page::build(self.pool.page_len(), &right_header, cells[point.at..].iter().copied());
        let image = image.ok_or_else(|| self.corruption(page.number, "half a page does not fit into one"))?;
        if header.level == 0 {
            let gone: usize = cells[point.at..].iter().map(Cell::footprint).sum();
            self.note_leaf(&mut mtr, page.number, header.free() + gone)?;
            self.note_leaf(&mut mtr, right_number, Header::read(image.as_slice()).free())?;
        }
        mtr.change(right, &Change::Image(&Change::image(&image)));
        if point.at < usize::from(header.count) {
            mtr.change(left, &Change::Truncate { from: point.at as u16 });
        }
        mtr.change(left, &Change::SetRight(right_number));
        if let Some(behind) = behind
            && !is_planted(PlantedBug::SplitForgetsLeftLink)
        {
            mtr.change(behind, &Change::SetLeft(right_number));
        }
        let cell = Cell { flags: 0, key: &point.separator, value: &right_number.to_le_bytes() };
        mtr.change(parent_page, &Change::Insert { slot: parent.slot as u16 + 1, cell });
        mtr.commit(close)?;
        self.pool.metrics.add(Counter::Splits, 1);
        Ok(())
    }

    /// Moves what the root holds to two new pages below it.
    fn split_root(&self, root: u32, pending: Option<Pending<'_>>, close: Close) -> Result<()> {
        let mut mtr = Mtr::new(&self.pool);
        let left = mtr.allocate(self.space)?;
        let right = mtr.allocate(self.space)?;
        let page = mtr.latch(self.page_id(root))?;
        let header = mtr.page(page).header();
        let Some(point) = self.split_point(root, mtr.page(page).bytes(), &header, pending)? else { return Ok(()) };
        let level = header.level.checked_add(1);
        let level = level.ok_or_else(|| Error::new(ErrorKind::LimitExceeded, "a tree has no more than 255 levels"))?;
        let (left_number, right_number) = (mtr.page(left).id().number, mtr.page(right).id().number);
        let cells = self.cells(root, mtr.page(page).bytes(), &header)?;
        let (lower, upper) = cells.split_at(point.at);
        let left_header = Header { left: 0, right: right_number, ..header };
        let right_header = Header { left: left_number, right: 0, ..header };
        let root_header = Header { left: 0, right: 0, ..Header::empty(PageKind::Inner, level, self.pool.page_len()) };
        let (left_child, right_child) = (left_number.to_le_bytes(), right_number.to_le_bytes());
        let children = [
            Cell { flags: 0, key: b"", value: &left_child },
            Cell { flags: 0, key: &point.separator, value: &right_child },
        ];
        let build = |header: &Header, cells: &[Cell<'_>]| {
            let built = page::build(self.pool.page_len(), header, cells.iter().copied());
            built.ok_or_else(|| self.corruption(root, "half a page does not fit into one"))
        };
        let images = [
            (left, build(&left_header, lower)?),
            (right, build(&right_header, upper)?),
            (page, build(&root_header, &children)?),
        ];
        if header.level == 0 {
            self.forget_leaf(&mut mtr, root)?;
            for (number, (_, image)) in [left_number, right_number].into_iter().zip(&images) {
                self.note_leaf(&mut mtr, number, Header::read(image.as_slice()).free())?;
            }
        }
        for (page, image) in &images {
            mtr.change(*page, &Change::Image(&Change::image(image)));
        }
        mtr.commit(close)?;
        self.pool.metrics.add(Counter::Splits, 1);
        Ok(())
    }

    /// Where to split a page; `None` if there is room by now.
    fn split_point(
        &self,
        number: u32,
        bytes: &[u8],
        header: &Header,
        pending: Option<Pending<'_>>,
    ) -> Result<Option<SplitPoint>> {
        let cells = self.cells(number, bytes, header)?;
        let Some(Pending { key, value_len }) = pending else {
            let point = inner_split_point(header, &cells);
            return point.map(Some).ok_or_else(|| self.corruption(number, "an inner page is full of one child"));
        };
        let found = page::find(bytes, key).ok_or_else(|| self.corruption(number, "the slots make no sense"))?;
        let footprint = SLOT_LEN + CELL_HEADER_LEN + key.len() + value_len;
        Ok(match found {
            Ok((slot, old)) => {
                let growth = value_len.saturating_sub(old.value.len());
                if header.free() >= growth {
                    return Ok(None);
                }
                // A row that grows stands already where it will be.
                let at = middle(&cells, slot, growth).clamp(1, cells.len().saturating_sub(1).max(1));
                let (left, right) = match (cells.get(at - 1), cells.get(at)) {
                    (Some(left), Some(right)) => (left.key, right.key),
                    _ => return Err(self.corruption(number, "a row fills a page alone")),
                };
                Some(SplitPoint { at, separator: shortest_separator(left, right).to_vec() })
            }
            Err(slot) if has_room(header, slot, footprint, bytes.len()) => None,
            Err(slot) => Some(leaf_split_point(header, &cells, slot, key, footprint)),
        })
    }
}
