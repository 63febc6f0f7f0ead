//! The shape of a tree: how many pages each level has, and how full they are.

use super::Tree;
use crate::page::{self, Header, PageKind};
use crate::space::SpaceHeader;
use siltstone_base::Result;

/// One level of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LevelShape {
    /// Pages.
    pub pages: u64,
    /// Rows, or children.
    pub cells: u64,
    /// Bytes that cells and slots take.
    pub bytes_used: u64,
    /// Pages by how full they are: up to a tenth, up to two, and so on.
    pub fill: [u64; 10],
}

/// A tree by its levels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeShape {
    /// The number of its tablespace.
    pub space: u32,
    /// The root first.
    pub levels: Vec<LevelShape>,
}

impl Tree {
    /// Walks every level from left to right. Nobody writes meanwhile.
    pub(crate) fn shape(&self) -> Result<TreeShape> {
        let _structure = self.structure.lock();
        let most = {
            let front = self.pool.shared(self.page_id(0))?;
            SpaceHeader::read(front.bytes()).map_err(|what| self.corruption(0, what))?.pages
        };
        let mut shape = TreeShape { space: self.space, levels: Vec::new() };
        let mut first = Some(self.root().number);
        let mut seen = 0;
        while let Some(mut number) = first.take() {
            let mut level = LevelShape::default();
            while number != 0 {
                seen += 1;
                if seen > most {
                    return Err(self.corruption(number, "the pages are linked in a circle"));
                }
                let page = self.pool.shared(self.page_id(number))?;
                let header = Header::read(page.bytes());
                let is_inner = header.kind() == Some(PageKind::Inner);
                if !is_inner && header.kind() != Some(PageKind::Leaf) {
                    return Err(self.corruption(number, "a page of the tree was expected"));
                }
                if level.pages == 0 && is_inner {
                    first = page::child_at(page.bytes(), 0);
                }
                let (used, all) = (header.used(page.bytes().len()), page.bytes().len().max(1));
                level.pages += 1;
                level.cells += u64::from(header.count);
                level.bytes_used += used as u64;
                level.fill[(used.saturating_sub(1) * 10 / all).min(9)] += 1;
                number = header.right;
            }
            shape.levels.push(level);
        }
        Ok(shape)
    }
}
