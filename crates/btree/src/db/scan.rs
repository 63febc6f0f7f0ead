//! Cursors: rows in order, as they were when the cursor was made.

use super::state::{OpenTree, State};
use super::transactions::{Seen, View};
use crate::tree::{Chunk, Position, Start};
use siltstone_base::engine::KvCursor;
use siltstone_base::sync::Arc;
use siltstone_base::{ErrorKind, Result};
use std::fmt;
use std::ops::Bound;

/// Rows of the first chunk after a seek, and of the largest one.
const FIRST_ROWS: usize = 12;
const MOST_ROWS: usize = 256;

/// A position among the rows of one tree at one moment. It stands nowhere until it is told to seek.
///
/// While it lives, older versions of rows that change are kept for it: in memory, up to
/// [`max_version_bytes`](crate::DbOptions::max_version_bytes) for all cursors, and beyond that in the undo log.
pub struct Cursor {
    state: Arc<State>,
    tree: Arc<OpenTree>,
    /// The tree's incarnation that it shows.
    incarnation: u32,
    view: View,
    chunk: Chunk,
    /// The row of the chunk under the cursor; beyond its end the cursor stands nowhere.
    index: usize,
    is_forward: bool,
    position: Position,
    rows: usize,
    /// Pages' rows before older versions took their places.
    pages: Chunk,
    /// The key that the next chunk begins behind.
    key: Vec<u8>,
    /// Whether it shows rows that are expired.
    shows_expired: bool,
}

impl Cursor {
    /// A cursor over a tree as it is now.
    pub(super) fn new(state: &Arc<State>, tree: &Arc<OpenTree>) -> Result<Self> {
        Self::new_for(state, tree, 0, 0)
    }

    /// The same for a transaction.
    pub(super) fn new_for(state: &Arc<State>, tree: &Arc<OpenTree>, own: u64, own_number: u32) -> Result<Self> {
        state.check_open()?;
        loop {
            match Self::with_view(state, tree, state.view(own, own_number)) {
                // It was truncated since.
                Err(error) if error.kind() == ErrorKind::Busy => {}
                outcome => return outcome,
            }
        }
    }

    /// A cursor over a tree at the moment of a view.
    pub(super) fn with_view(state: &Arc<State>, tree: &Arc<OpenTree>, view: View) -> Result<Self> {
        state.check_open()?;
        let incarnation = tree.incarnation()?;
        tree.live_at(view.snapshot)?;
        Ok(Self {
            state: Arc::clone(state),
            tree: Arc::clone(tree),
            incarnation,
            view,
            chunk: Chunk::recycled(),
            index: 0,
            is_forward: true,
            position: Position::default(),
            rows: FIRST_ROWS,
            pages: Chunk::default(),
            key: Vec::new(),
            shows_expired: false,
        })
    }

    /// The same cursor, which shows expired rows, too.
    pub(super) fn with_expired(mut self) -> Self {
        self.shows_expired = true;
        self
    }

    /// The moment that the cursor shows.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Begins anew at a place.
    fn begin(&mut self, start: Start<'_>, is_forward: bool) -> Result<bool> {
        self.position = Position::default();
        self.rows = FIRST_ROWS;
        self.is_forward = is_forward;
        self.fill(start)
    }

    /// Goes on behind the row under the cursor, in a direction.
    #[cold]
    fn go_on(&mut self, is_forward: bool) -> Result<bool> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.chunk.get(self.index).map_or(&[][..], |(key, _)| key));
        let outcome = if is_forward == self.is_forward {
            self.rows = (2 * self.rows).min(MOST_ROWS);
            self.fill(Start::Beyond(&key))
        } else {
            self.begin(Start::Beyond(&key), is_forward)
        };
        self.key = key;
        outcome
    }

    /// Reads the next chunk that has rows.
    fn fill(&mut self, start: Start<'_>) -> Result<bool> {
        let outcome = self.fill_chunk(start);
        // If the tree was truncated meanwhile the pages were gone that the rows were read from.
        let outcome = self.tree.at(self.incarnation).and(outcome);
        self.index = 0;
        if outcome.is_err() {
            self.chunk.clear();
            self.position = Position::default();
        }
        outcome
    }

    fn fill_chunk(&mut self, start: Start<'_>) -> Result<bool> {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let start = last.as_deref().map_or(start, Start::Beyond);
            let abandoned = self.state.versions.abandoned();
            let tree = self.tree.at(self.incarnation)?;
            tree.read_chunk(start, self.is_forward, &mut self.position, self.rows, &mut self.chunk)?;
            self.check_order(start)?;
            // Pages first, versions second: what a page may show too early is kept before.
            let is_plain = self.state.versions.is_empty();
            let hides = !self.shows_expired && self.tree.expiry().is_some();
            let was_abandoned = || abandoned != self.state.versions.abandoned();
            if is_plain && !hides && !self.chunk.has_flags() && !was_abandoned() {
                return Ok(!self.chunk.is_empty());
            }
            let is_end = self.chunk.is_empty();
            let end =
                self.chunk.len().checked_sub(1).and_then(|last| self.chunk.get(last)).map(|(key, _)| key.to_vec());
            if !is_plain {
                self.merge_versions(start, end.as_deref())?;
            }
            if abandoned != self.state.versions.abandoned() {
                // The pages may have shown what a batch did that failed: they are read again.
                self.position = Position::default();
                continue;
            }
            if self.chunk.has_flags() {
                self.resolve_stamps()?;
            }
            if hides {
                self.hide_expired();
            }
            if !self.chunk.is_empty() || is_end {
                return Ok(!self.chunk.is_empty());
            }
            last = end;
        }
    }

    /// Rows must go on in the direction of the walk: links that lead in a circle are damage.
    fn check_order(&self, start: Start<'_>) -> Result<()> {
        let (Start::Beyond(from), Some((first, _))) = (start, self.chunk.get(0)) else { return Ok(()) };
        if (self.is_forward && first > from) || (!self.is_forward && first < from) {
            return Ok(());
        }
        Err(siltstone_base::Error::corrupt("rows are out of order")
            .with_file(&self.state.spaces.path(self.tree.tree().space())))
    }

    /// Puts older versions in the place of what pages show, between the start of the chunk and its last key.
    #[cold]
    fn merge_versions(&mut self, start: Start<'_>, end: Option<&[u8]>) -> Result<()> {
        let near = match start {
            Start::End => Bound::Unbounded,
            Start::At(key) => Bound::Included(key),
            Start::Beyond(key) => Bound::Excluded(key),
        };
        let far = end.map_or(Bound::Unbounded, Bound::Included);
        let (low, high) = if self.is_forward { (near, far) } else { (far, near) };
        let space = self.tree.at(self.incarnation)?.space();
        let mut versions = self.state.versions.range(self.view.snapshot, space, low, high);
        if !self.is_forward {
            versions.reverse();
        }
        if versions.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut self.chunk, &mut self.pages);
        self.chunk.clear();
        let mut versions = versions.into_iter().peekable();
        let comes_first = |version: &[u8], row: &[u8]| if self.is_forward { version < row } else { version > row };
        for index in 0..self.pages.len() {
            let Some((key, value)) = self.pages.get(index) else { break };
            while let Some((old, before)) = versions.next_if(|(old, _)| comes_first(old, key)) {
                before.iter().for_each(|(flags, before)| self.chunk.push_cell(*flags, &old, before));
            }
            let flags = self.pages.flags(index);
            match versions.next_if(|(old, _)| old == key) {
                Some(_) if flags != 0 && self.state.shows_own(&self.view, Some(&(flags, value.to_vec())))? => {
                    self.chunk.push_cell(flags, key, value)
                }
                Some((old, before)) => {
                    before.iter().for_each(|(flags, before)| self.chunk.push_cell(*flags, &old, before))
                }
                None => self.chunk.push_cell(flags, key, value),
            }
        }
        for (old, before) in versions {
            before.iter().for_each(|(flags, before)| self.chunk.push_cell(*flags, &old, before));
        }
        Ok(())
    }

    /// Leaves rows out that are expired for the view.
    #[cold]
    fn hide_expired(&mut self) {
        let Some(expiry) = self.tree.expiry() else { return };
        let is_hidden = |row: (&[u8], &[u8])| expiry.hides(row.0, row.1, self.view.time);
        let Some(first) = (0..self.chunk.len()).find(|index| self.chunk.get(*index).is_some_and(is_hidden)) else {
            return;
        };
        std::mem::swap(&mut self.chunk, &mut self.pages);
        self.chunk.clear();
        for index in 0..self.pages.len() {
            let Some(row) = self.pages.get(index) else { break };
            if index < first || (index > first && !is_hidden(row)) {
                self.chunk.push(row.0, row.1);
            }
        }
    }

    /// Puts what the view sees in the place of rows with stamps.
    #[cold]
    fn resolve_stamps(&mut self) -> Result<()> {
        std::mem::swap(&mut self.chunk, &mut self.pages);
        self.chunk.clear();
        let open = Arc::clone(&self.tree);
        let tree = open.at(self.incarnation)?;
        for index in 0..self.pages.len() {
            let Some((key, value)) = self.pages.get(index) else { break };
            let flags = self.pages.flags(index);
            if flags == 0 {
                self.chunk.push(key, value);
                continue;
            }
            let row = match self.state.resolve(&self.view, tree, key, Some((flags, value.to_vec())))? {
                Seen::Row(row) => row,
                // The row is what it was before by now.
                Seen::Undone(_) => self.state.read_row(&self.view, tree, key)?,
            };
            if let Some(row) = row {
                self.chunk.push(key, &row);
            }
        }
        Ok(())
    }
}

impl KvCursor for Cursor {
    fn seek_to_first(&mut self) -> Result<bool> {
        self.begin(Start::End, true)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.begin(Start::End, false)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.begin(Start::At(key), true)
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        if self.is_forward && self.index + 1 < self.chunk.len() {
            self.index += 1;
            return Ok(true);
        }
        self.go_on(true)
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        if !self.is_forward && self.index + 1 < self.chunk.len() {
            self.index += 1;
            return Ok(true);
        }
        self.go_on(false)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.chunk.get(self.index).map_or(&[], |(key, _)| key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.chunk.get(self.index).map_or(&[], |(_, value)| value)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.chunk.recycle();
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("tree", &self.tree.name).finish_non_exhaustive()
    }
}
