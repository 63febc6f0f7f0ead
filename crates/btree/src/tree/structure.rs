//! What splits and merges share: the way from the root to a leaf, found under the structure lock.

use super::Tree;
use super::search::Route;
use crate::page::{self, Cell, Header, PageKind};
use siltstone_base::Result;
use siltstone_base::sync::MutexGuard;

/// A page on the way, and for an inner one the slot that was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) number: u32,
    pub(super) slot: usize,
}

impl Tree {
    /// The pages from the root to the leaf of a key. They stay so while the structure lock is held.
    pub(super) fn path(&self, route: Route<'_>, _: &MutexGuard<'_, ()>) -> Result<Vec<Step>> {
        let mut path = Vec::new();
        let mut number = self.root().number;
        let mut level = None;
        loop {
            let page = self.pool.shared(self.page_id(number))?;
            let header = Header::read(page.bytes());
            if level.is_some_and(|above: u8| above == 0 || header.level != above - 1) {
                return Err(self.corruption(number, "a page is on the wrong level"));
            }
            match header.kind() {
                Some(PageKind::Leaf) => {
                    path.push(Step { number, slot: 0 });
                    return Ok(path);
                }
                Some(PageKind::Inner) => {}
                _ => return Err(self.corruption(number, "a page of the tree was expected")),
            }
            let Route::Key(key) = route else { return Err(self.corruption(number, "the way to a key was expected")) };
            let child = page::child_for(page.bytes(), &header, key);
            let (slot, child) = child.ok_or_else(|| self.corruption(number, "an inner page makes no sense"))?;
            path.push(Step { number, slot });
            number = child;
            level = Some(header.level);
        }
    }

    /// All cells of a page.
    pub(super) fn cells<'p>(&self, number: u32, bytes: &'p [u8], header: &Header) -> Result<Vec<Cell<'p>>> {
        let cell = |index| page::cell(bytes, header, index);
        let cells: Option<Vec<_>> = (0..usize::from(header.count)).map(cell).collect();
        cells.ok_or_else(|| self.corruption(number, "the slots make no sense"))
    }
}
