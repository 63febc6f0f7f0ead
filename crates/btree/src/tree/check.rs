//! Checking a whole tree: order, separators, levels, links, long values, free pages, and that every page is accounted for.

use super::Tree;
use super::overflow::Value;
use crate::page::{self, FLAG_DELETED, FLAG_OVERFLOW, Header, PageKind};
use crate::space::{SpaceHeader, is_bitmap};
use siltstone_base::Result;
use std::collections::BTreeSet;

/// What a check counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TreeReport {
    pub(crate) rows: u64,
    /// Rows that are marked as deleted; not among `rows`.
    pub(crate) deleted_rows: u64,
    pub(crate) levels: u8,
    pub(crate) leaf_pages: u64,
    pub(crate) inner_pages: u64,
    pub(crate) overflow_pages: u64,
    pub(crate) free_pages: u64,
    /// Pages that nothing leads to.
    pub(crate) lost_pages: u64,
    /// Bytes of leaves that cells and slots take.
    pub(crate) leaf_bytes_used: u64,
}

/// A page that is to be looked at, and the range of its keys.
#[derive(Debug, Clone)]
struct Visit {
    number: u32,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

struct Checker<'a> {
    tree: &'a Tree,
    pages: u32,
    seen: BTreeSet<u32>,
    report: TreeReport,
}

impl Tree {
    /// Walks the whole tree. Nobody writes meanwhile.
    pub(crate) fn check(&self) -> Result<TreeReport> {
        let _structure = self.structure.lock();
        let space = {
            let page = self.pool.shared(self.page_id(0))?;
            SpaceHeader::read(page.bytes()).map_err(|what| self.corruption(0, what))?
        };
        let mut checker =
            Checker { tree: self, pages: space.pages, seen: BTreeSet::new(), report: TreeReport::default() };
        checker.walk()?;
        checker.walk_free(&space)?;
        let reserved = |number: &u32| is_bitmap(*number, self.pool.page_len());
        let all = (2..space.pages).filter(|number| !reserved(number)).count();
        checker.report.lost_pages = (all - checker.seen.len().min(all)) as u64;
        Ok(checker.report)
    }
}

impl Checker<'_> {
    fn see(&mut self, number: u32) -> Result<()> {
        if number < 2 || number >= self.pages {
            return Err(self.tree.corruption(number, "a page outside of its tablespace is in use"));
        }
        if !self.seen.insert(number) {
            return Err(self.tree.corruption(number, "a page is in use twice"));
        }
        Ok(())
    }

    /// Level by level, from the root down.
    fn walk(&mut self) -> Result<()> {
        let mut level = vec![Visit { number: self.tree.root().number, low: None, high: None }];
        let mut expected = None;
        while !level.is_empty() {
            let mut below = Vec::new();
            let numbers: Vec<u32> = level.iter().map(|visit| visit.number).collect();
            for (index, visit) in level.iter().enumerate() {
                self.see(visit.number)?;
                let neighbour = |index: Option<usize>| index.and_then(|index| numbers.get(index)).copied().unwrap_or(0);
                let links = (neighbour(index.checked_sub(1)), neighbour(Some(index + 1)));
                self.visit(visit, links, &mut expected, &mut below)?;
            }
            self.report.levels = self.report.levels.saturating_add(1);
            expected = match expected {
                Some(0) | None => None,
                Some(level) => Some(level - 1),
            };
            level = below;
        }
        Ok(())
    }

    fn visit(
        &mut self,
        visit: &Visit,
        links: (u32, u32),
        expected: &mut Option<u8>,
        below: &mut Vec<Visit>,
    ) -> Result<()> {
        let wrong = |what: &str| Err(self.tree.corruption(visit.number, what));
        let page = self.tree.pool.shared(self.tree.page_id(visit.number))?;
        let header = Header::read(page.bytes());
        if let Err(what) = page::check(page.bytes()) {
            return wrong(what);
        }
        if *expected.get_or_insert(header.level) != header.level {
            return wrong("a page is on the wrong level");
        }
        if (header.left, header.right) != links {
            return wrong("a page is linked to others than its neighbours");
        }
        let is_inner = header.kind() == Some(PageKind::Inner);
        if !is_inner && header.kind() != Some(PageKind::Leaf) {
            return wrong("a page of the tree was expected");
        }
        let cells = self.tree.cells(visit.number, page.bytes(), &header)?;
        for (index, cell) in cells.iter().enumerate().filter(|(index, _)| !is_inner || *index > 0) {
            let is_high = visit.high.as_deref().is_some_and(|high| cell.key >= high);
            if visit.low.as_deref().is_some_and(|low| cell.key < low) || is_high {
                return wrong("a key is outside the range of its page");
            }
            let _ = index;
        }
        if is_inner {
            self.report.inner_pages += 1;
            for (index, cell) in cells.iter().enumerate() {
                let number = page::child_at(page.bytes(), index).unwrap_or(0);
                let low = if index == 0 { visit.low.clone() } else { Some(cell.key.to_vec()) };
                let high = cells.get(index + 1).map_or_else(|| visit.high.clone(), |next| Some(next.key.to_vec()));
                below.push(Visit { number, low, high });
            }
            return Ok(());
        }
        self.report.leaf_pages += 1;
        let deleted = cells.iter().filter(|cell| cell.flags & FLAG_DELETED != 0).count() as u64;
        self.report.rows += u64::from(header.count) - deleted;
        self.report.deleted_rows += deleted;
        self.report.leaf_bytes_used += header.used(page.bytes().len()) as u64;
        for cell in cells.iter().filter(|cell| cell.flags & FLAG_OVERFLOW != 0) {
            self.walk_long(Value::new(cell.flags, cell.value))?;
        }
        Ok(())
    }

    fn walk_long(&mut self, value: Value<'_>) -> Result<()> {
        self.tree.read_long(value)?;
        let Some(chain) = value.chain() else { return Ok(()) };
        let mut number = chain.first;
        for index in 1..=chain.pages(self.tree.pool.page_len()) {
            self.see(number)?;
            self.report.overflow_pages += 1;
            if index == chain.pages(self.tree.pool.page_len()) && number != chain.last {
                return Err(self.tree.corruption(number, "a long value ends on another page than its row says"));
            }
            number = Header::read(self.tree.pool.shared(self.tree.page_id(number))?.bytes()).right;
        }
        Ok(())
    }

    fn walk_free(&mut self, space: &SpaceHeader) -> Result<()> {
        let mut number = space.free_head;
        for _ in 0..space.free_count {
            self.see(number)?;
            let header = Header::read(self.tree.pool.shared(self.tree.page_id(number))?.bytes());
            if !matches!(header.kind(), Some(PageKind::Free | PageKind::Overflow)) {
                return Err(self.tree.corruption(number, "a page in use is on the free list"));
            }
            self.report.free_pages += 1;
            number = header.right;
        }
        if number != 0 {
            return Err(self.tree.corruption(number, "the free list is longer than its count"));
        }
        Ok(())
    }
}
