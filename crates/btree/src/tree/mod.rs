//! The tree: rows in leaves, separators above them, all pages of a level linked in both directions.
//!
//! The root never moves: when it is full its contents go to two new pages, and when one child is left, its contents come back.
//!
//! **Descent.** Inner pages are read without latches: a page is searched at a version, then its child's version is taken, then the page's
//! own is confirmed; where that fails the descent begins again. The leaf is latched, shared or exclusive, and its parent confirmed once more. So
//! whoever holds a leaf knows that his key belongs to it: a leaf loses part of its range only together with a change of its parent,
//! and only by someone who holds the leaf exclusively.
//!
//! **Changes of rows** need the latch of their leaf alone. **Changes of shape** (splits, merges) are mini-transactions that change no rows; they are made
//! by one thread at a time for each tree, who holds the structure lock, and so finds inner pages as it left them. They latch page 0, then new
//! pages, then pages of one level from left to right, then their parent.
//!
//! **Differences from the textbook.** Leaves may be empty for a while: a split at the end of a run of insertions leaves an empty page to the new row. Pages merge
//! when they are less than half full and fit into seven eighths of one. There are no high keys: readers trust versions instead.

mod bulk;
mod check;
mod cursor;
mod delete;
mod entry;
mod insert;
mod merge;
mod overflow;
mod search;
mod shape;
mod split;
mod structure;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use bulk::{Built, BulkBuilder, BulkOptions};
pub(crate) use check::TreeReport;
pub(crate) use cursor::{Chunk, Position, Start};
pub(crate) use entry::EntryOp;
pub(crate) use overflow::{TOO_LONG, Value};
pub(crate) use search::is_unreadable;
pub use shape::{LevelShape, TreeShape};
pub(crate) use waiting::Gate;

use crate::buffer::Pool;
use crate::page::PageId;
use crate::space::SpaceHeader;
use siltstone_base::sync::atomic::AtomicU32;
use siltstone_base::sync::{Arc, Mutex, Rank};

/// Held by who changes the shape of a tree.
const STRUCTURE_RANK: Rank = Rank(200);

/// One tree: the pages of one tablespace. Any thread may use it.
#[derive(Debug)]
pub(crate) struct Tree {
    space: u32,
    pool: Arc<Pool>,
    /// The frame in which the root was last seen.
    root_frame: AtomicU32,
    structure: Mutex<()>,
    /// Only of trees whose entries may be kept back.
    waiting: Option<waiting::Waiting>,
}

impl Tree {
    /// The tree of a tablespace that is open.
    pub(crate) fn new(space: u32, pool: Arc<Pool>) -> Self {
        Self { space, pool, root_frame: AtomicU32::new(0), structure: Mutex::new(STRUCTURE_RANK, ()), waiting: None }
    }

    /// Whether there is no row, not even one that is marked as deleted.
    pub(crate) fn is_empty(&self) -> siltstone_base::Result<bool> {
        let mut chunk = Chunk::default();
        self.read_chunk(Start::End, true, &mut Position::default(), 1, &mut chunk)?;
        Ok(chunk.is_empty())
    }

    /// Whether its pages are in this pool.
    #[inline]
    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// The tablespace.
    pub(crate) fn space(&self) -> u32 {
        self.space
    }

    /// The pool in which its pages are.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    #[inline]
    fn page_id(&self, number: u32) -> PageId {
        PageId::new(self.space, number)
    }

    #[inline]
    fn root(&self) -> PageId {
        self.page_id(SpaceHeader::ROOT)
    }

    /// The error that what has a key makes no sense: it names the leaf to which the key belongs, if the pages above it can be read.
    #[cold]
    pub(crate) fn corruption_at(&self, key: &[u8], what: &str) -> siltstone_base::Error {
        match self.number_of(search::Route::Key(key)) {
            Ok(number) => self.corruption(number.unwrap_or(SpaceHeader::ROOT), what),
            Err(_) => siltstone_base::Error::corrupt(what.to_owned()).with_file(&self.pool.spaces.path(self.space)),
        }
    }

    /// The error that a page makes no sense.
    #[cold]
    fn corruption(&self, number: u32, what: &str) -> siltstone_base::Error {
        self.pool.spaces.corruption(self.page_id(number), what)
    }
}
