//! Which entries of a secondary index are wanted, and in which order, in any engine; entries as they are handed out.
//!
//! ```
//! use siltstone_base::index_scan::{IndexScan, NoSnapshot};
//!
//! // The last two entries of those that begin with "me".
//! let scan = IndexScan::<NoSnapshot>::all().prefix("me").reverse().limit(2);
//! assert_eq!((scan.from(), scan.end(), scan.most()), (&b"me"[..], Some(&b"mf"[..]), 2));
//! ```

mod entries;
mod walk;

pub use entries::{IndexEntries, IndexEntry};
pub use walk::walk_entries;

/// What an engine without snapshots of tables has for one: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSnapshot {}

/// Which entries of an index are wanted, and in which order. An entry counts as its index key followed by its primary key. `S` is what the engine has for snapshots.
#[derive(Debug, Clone)]
#[must_use]
pub struct IndexScan<S = NoSnapshot> {
    from: Vec<u8>,
    end: Option<Vec<u8>>,
    reverse: bool,
    limit: Option<usize>,
    snapshot: Option<S>,
    fill_cache: bool,
}

impl<S> Default for IndexScan<S> {
    fn default() -> Self {
        Self { from: Vec::new(), end: None, reverse: false, limit: None, snapshot: None, fill_cache: true }
    }
}

/// The first bytes behind all that begin with `prefix`; `None` if there are none.
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    // The prefix with its last byte that can grow made larger, and nothing behind.
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    end.last_mut().into_iter().for_each(|byte| *byte += 1);
    Some(end)
}

impl<S> IndexScan<S> {
    /// All entries, ascending, at the newest state.
    pub fn all() -> Self {
        Self::default()
    }

    /// No entries before `from`.
    pub fn starting_at(mut self, from: impl AsRef<[u8]>) -> Self {
        self.from = from.as_ref().to_vec();
        self
    }

    /// No entries at or after `end`.
    pub fn ending_before(mut self, end: impl AsRef<[u8]>) -> Self {
        self.end = Some(end.as_ref().to_vec());
        self
    }

    /// The entries that begin with `prefix`; for the columns that an index sorts by first, encoded.
    pub fn prefix(self, prefix: impl AsRef<[u8]>) -> Self {
        let end = end_of_prefix(prefix.as_ref());
        Self { end, ..self.starting_at(prefix) }
    }

    /// Descending, beginning at the end of the range.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// At most so many.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// As of a snapshot of the engine.
    pub fn at(mut self, snapshot: &S) -> Self
    where
        S: Clone,
    {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Whether what is read takes the place of other blocks in the cache. Default: true. For engines that have the choice.
    pub fn fill_cache(mut self, fill_cache: bool) -> Self {
        self.fill_cache = fill_cache;
        self
    }

    /// The same at the newest state, for an engine with other snapshots.
    pub fn at_newest<T>(&self) -> IndexScan<T> {
        let Self { from, end, reverse, limit, fill_cache, .. } = self;
        let (from, end) = (from.clone(), end.clone());
        IndexScan { from, end, reverse: *reverse, limit: *limit, snapshot: None, fill_cache: *fill_cache }
    }

    /// The beginning of the range.
    pub fn from(&self) -> &[u8] {
        &self.from
    }

    /// The end of the range, exclusive.
    pub fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    /// Whether it descends.
    pub fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// How many entries are wanted.
    pub fn most(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// The snapshot that it is at.
    pub fn snapshot(&self) -> Option<&S> {
        self.snapshot.as_ref()
    }

    /// What [`fill_cache`](Self::fill_cache) says.
    pub fn fills_cache(&self) -> bool {
        self.fill_cache
    }

    /// Whether the walk is over at this entry.
    pub fn is_beyond(&self, entry: &[u8]) -> bool {
        match self.reverse {
            true => entry < self.from(),
            false => self.end().is_some_and(|end| entry >= end),
        }
    }
}

#[cfg(test)]
mod tests;
