//! Checking the change buffer against the bitmaps and the leaves.

use super::record::{Record, page_of};
use super::{ChangeBuffer, growth};
use crate::page::{Header, PageId, PageKind};
use crate::space::{LeafState, bitmap_of, place_of, state_in};
use crate::tree::{Chunk, Position, Start, Tree};
use siltstone_base::Result;
use std::collections::BTreeMap;

/// What a check counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ChangesReport {
    /// Operations that wait for leaves.
    pub(crate) ops: u64,
    /// Operations of tablespaces that are gone.
    pub(crate) stale: u64,
    /// Pages of the buffer's tree that nothing leads to.
    pub(crate) lost_pages: u64,
}

/// What was found so far of the operations of one page.
#[derive(Debug)]
struct Run {
    page: PageId,
    next: u32,
    volume: usize,
}

impl ChangeBuffer {
    /// Checks the buffer's tree, that what waits does so in order for leaves of `trees` that know of it and have room, and that every leaf that is waited for has something. Nobody
    /// writes meanwhile.
    pub(crate) fn check(&self, trees: &BTreeMap<u32, &Tree>) -> Result<ChangesReport> {
        Self::check_known(trees)?;
        let mut report = ChangesReport { lost_pages: self.tree.check()?.lost_pages, ..ChangesReport::default() };
        let mut runs: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut position, mut chunk, mut last) = (Position::default(), Chunk::default(), Vec::new());
        let mut run: Option<Run> = None;
        loop {
            let start = if last.is_empty() { Start::End } else { Start::Beyond(&last) };
            self.tree.read_chunk(start, true, &mut position, 64, &mut chunk)?;
            let Some((key, _)) = chunk.len().checked_sub(1).and_then(|last| chunk.get(last)) else { break };
            last = key.to_vec();
            for index in 0..chunk.len() {
                let Some((key, value)) = chunk.get(index) else { break };
                let malformed = || self.damaged("an entry that waits is malformed");
                let (page, number) = page_of(key).ok_or_else(malformed)?;
                let record = Record::decode(value).ok_or_else(malformed)?;
                let Some(tree) = trees.get(&page.space) else {
                    report.stale += 1;
                    continue;
                };
                report.ops += 1;
                let current = match &mut run {
                    Some(run) if run.page == page => run,
                    _ => {
                        self.check_leaf(tree, page)?;
                        *runs.entry(page.space).or_default() += 1;
                        run.insert(Run { page, next: 0, volume: 0 })
                    }
                };
                if number != current.next {
                    return Err(self.damaged("what waits for a leaf has gaps"));
                }
                current.next = number.saturating_add(1);
                current.volume += growth(record.op, record.key);
                if current.volume != usize::from(record.volume) {
                    return Err(self.damaged("what waits for a leaf has another volume than it says"));
                }
                let room = tree.states().map_or(0, |states| states.get(page.number).room(self.pool().page_len()));
                if growth(record.op, record.key) > 0 && current.volume > room {
                    return Err(self.pool().spaces.corruption(page, "more waits for a leaf than it has room for"));
                }
                if tree.leaf_number(record.key)? != Some(page.number) {
                    return Err(self.pool().spaces.corruption(page, "an entry waits for a leaf that is not its own"));
                }
            }
        }
        for (space, tree) in trees {
            let Some(states) = tree.states() else { continue };
            self.check_states(tree)?;
            if states.pending_pages() != runs.get(space).copied().unwrap_or(0) {
                return Err(self.damaged("a leaf is said to be waited for, and nothing waits"));
            }
        }
        Ok(report)
    }

    /// Refuses trees of which it is not known what waits for them.
    fn check_known(trees: &BTreeMap<u32, &Tree>) -> Result<()> {
        let damage = trees.values().find_map(|tree| tree.states()?.damage());
        damage.cloned().map_or(Ok(()), Err)
    }

    fn check_leaf(&self, tree: &Tree, page: PageId) -> Result<()> {
        let wrong = |what: &str| Err(self.pool().spaces.corruption(page, what));
        let Some(states) = tree.states() else { return wrong("entries wait for a tree of which none may") };
        if !states.get(page.number).is_pending() {
            return wrong("entries wait for a leaf whose bit does not say so");
        }
        let leaf = self.pool().shared(page)?;
        match Header::read(leaf.bytes()).kind() {
            Some(PageKind::Leaf) => Ok(()),
            _ => wrong("entries wait for a page that is no leaf"),
        }
    }

    /// The bitmap pages say what is in memory, and no leaf has less room than they say.
    fn check_states(&self, tree: &Tree) -> Result<()> {
        let (pool, page_len) = (self.pool(), self.pool().page_len());
        let Some(states) = tree.states() else { return Ok(()) };
        for number in tree.pages()? {
            let bitmap = tree.page(bitmap_of(number, page_len));
            let (offset, shift) = place_of(number, page_len);
            let byte = pool.shared(bitmap)?.bytes().get(offset).copied().unwrap_or(0);
            let state = states.get(number);
            if state_in(byte, shift) != state {
                return Err(pool.spaces.corruption(bitmap, "the bitmap is not what it is in memory"));
            }
            if state == LeafState::default() {
                continue;
            }
            let page = tree.page(number);
            let header = Header::read(pool.shared(page)?.bytes());
            if header.kind() != Some(PageKind::Leaf) || header.free() < state.room(page_len) {
                return Err(pool.spaces.corruption(page, "a leaf has less room than its bitmap says"));
            }
        }
        Ok(())
    }
}
