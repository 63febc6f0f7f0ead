//! Merging pages that are less than half full with a neighbour below the same parent.

use super::Tree;
use super::search::Route;
use super::structure::Step;
use crate::metrics::Counter;
use crate::mtr::{Close, Mtr};
use crate::page::{self, Cell, Change, Header, PageKind, PageMut};
use siltstone_base::Result;
use siltstone_base::plant::{PlantedBug, is_planted};

impl Tree {
    /// Merges the leaf of `key`, and the pages above it that this leaves too empty, where they fit. Changes no row.
    pub(crate) fn merge_at(&self, key: &[u8], close: Close) -> Result<()> {
        let structure = self.structure.lock();
        let path = self.path(Route::Key(key), &structure)?;
        let mut path = path.as_slice();
        while let Some((page, above)) = path.split_last() {
            let Some(parent) = above.last() else { break };
            if !self.merge_below(page, parent, close)? {
                break;
            }
            path = above;
        }
        self.lower_root(close)
    }

    /// Merges a page with a neighbour below `parent`. Returns whether the parent is now too empty.
    fn merge_below(&self, page: &Step, parent: &Step, close: Close) -> Result<bool> {
        let mut mtr = Mtr::new(&self.pool);
        mtr.space(self.space)?;
        let (left_slot, left_number, right_number) = {
            let above = self.pool.shared(self.page_id(parent.number))?;
            let header = Header::read(above.bytes());
            let count = usize::from(header.count);
            if count < 2 {
                return Ok(false);
            }
            // The slot that was taken on the way may be gone: another child of the page was merged before.
            let slot = (0..count).find(|slot| page::child_at(above.bytes(), *slot) == Some(page.number));
            let Some(slot) = slot else { return Ok(false) };
            let left_slot = if slot + 1 < count { slot } else { slot - 1 };
            let child = |slot| page::child_at(above.bytes(), slot);
            match (child(left_slot), child(left_slot + 1)) {
                (Some(left), Some(right)) => (left_slot, left, right),
                _ => return Err(self.corruption(parent.number, "an inner page makes no sense")),
            }
        };
        if !self.may_change_shape(&[left_number, right_number]) {
            return Ok(false);
        }
        let left = mtr.latch(self.page_id(left_number))?;
        let right = mtr.latch(self.page_id(right_number))?;
        let (left_header, right_header) = (mtr.page(left).header(), mtr.page(right).header());
        let behind = if right_header.right == 0 { None } else { Some(mtr.latch(self.page_id(right_header.right))?) };
        let above = mtr.latch(self.page_id(parent.number))?;
        if left_header.level != right_header.level || left_header.kind_code != right_header.kind_code {
            return Err(self.corruption(right_number, "neighbours are on different levels"));
        }
        let page_len = self.pool.page_len();
        let (left_used, right_used) = (left_header.used(page_len), right_header.used(page_len));
        let separator = page::key_at(mtr.page(above).bytes(), &mtr.page(above).header(), left_slot + 1);
        let separator = separator.ok_or_else(|| self.corruption(parent.number, "an inner page makes no sense"))?;
        let is_inner = left_header.kind() == Some(PageKind::Inner);
        let used = left_used + right_used + if is_inner { separator.len() } else { 0 };
        let is_wanted = self.is_underfull(left_used) || self.is_underfull(right_used);
        let fits = used <= page_len / 8 * 7 || (!is_inner && (left_used == 0 || right_used == 0));
        if !is_wanted || !fits {
            return Ok(false);
        }
        let mut cells = self.cells(left_number, mtr.page(left).bytes(), &left_header)?;
        let upper = self.cells(right_number, mtr.page(right).bytes(), &right_header)?;
        // The first separator of an inner page counted as lower than all; from now on it says where its child begins.
        let first = upper.first().map(|cell| Cell { key: if is_inner { separator } else { cell.key }, ..*cell });
        cells.extend(first);
        cells.extend(upper.iter().skip(1));
        let header = Header { right: right_header.right, ..left_header };
        let Some(image) = page::build(page_len, &header, cells) else { return Ok(false) };
        let slot = left_slot as u16 + 1;
        let is_empty = self.is_underfull(mtr.page(above).header().used(page_len));
        if !is_inner {
            self.note_leaf(&mut mtr, left_number, Header::read(image.as_slice()).free())?;
            self.forget_leaf(&mut mtr, right_number)?;
        }
        let image = Change::image(&image);
        mtr.change(left, &Change::Image(&image));
        if is_planted(PlantedBug::MergeForgetsRightLink) {
            mtr.change(left, &Change::SetRight(right_number));
        }
        if let Some(behind) = behind {
            mtr.change(behind, &Change::SetLeft(left_number));
        }
        mtr.change(above, &Change::Remove { slot });
        mtr.free(right)?;
        mtr.commit(close)?;
        self.pool.metrics.add(Counter::Merges, 1);
        Ok(is_empty)
    }

    /// While the root has one child, takes the child's contents into the root.
    fn lower_root(&self, close: Close) -> Result<()> {
        loop {
            let child = {
                let root = self.pool.shared(self.root())?;
                let header = Header::read(root.bytes());
                if header.kind() != Some(PageKind::Inner) || header.count != 1 {
                    return Ok(());
                }
                page::child_at(root.bytes(), 0)
            };
            let child = child.ok_or_else(|| self.corruption(self.root().number, "an inner page makes no sense"))?;
            if !self.may_change_shape(&[child]) {
                return Ok(());
            }
            let mut mtr = Mtr::new(&self.pool);
            mtr.space(self.space)?;
            let below = mtr.latch(self.page_id(child))?;
            let root = mtr.latch(self.root())?;
            let header = mtr.page(below).header();
            let cells = self.cells(child, mtr.page(below).bytes(), &header)?;
            let image = page::build(self.pool.page_len(), &Header { left: 0, right: 0, ..header }, cells);
            let image = image.ok_or_else(|| self.corruption(child, "a page does not fit into one"))?;
            if header.level == 0 {
                self.forget_leaf(&mut mtr, child)?;
            }
            mtr.change(root, &Change::Image(&Change::image(&image)));
            mtr.free(below)?;
            mtr.commit(close)?;
        }
    }
}
