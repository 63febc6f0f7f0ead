//! What a secondary index is; each engine maintains its own.

mod columns;
mod tried;

pub use columns::FixedColumns;
pub use tried::{Tried, of_call};

use crate::index_scan::IndexEntry;
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Reads from a row what an index sorts by.
pub trait IndexExtractor: Send + Sync + fmt::Debug {
    /// Appends the memcomparable form of the indexed columns of a row to `index_key`, which may hold other bytes in
    /// front; returns whether the row has an entry at all. If not, what was appended is ignored.
    ///
    /// The same row must always yield the same bytes, and no row's bytes may be a proper prefix of another's: the primary
    /// key follows them in the entry.
    fn extract(&self, primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool;

    /// The same, for extractors that decode rows: an error says that the bytes are no row. The default never fails.
    fn try_extract(&self, primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> Result<bool> {
        Ok(self.extract(primary_key, value, index_key))
    }

    /// The length of the index key, if it is the same for every row that has one. Entries of other indexes store the length of theirs. The
    /// answer must never change.
    fn fixed_len(&self) -> Option<usize> {
        None
    }

    /// What tells it from other extractors, in at most 4,096 bytes: an engine may keep it with the index, and refuse to open the table with an extractor of another one. Empty:
    /// nobody can tell. The answer must never change.
    fn identity(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// A secondary index of a table.
#[derive(Debug, Clone)]
pub struct IndexSpec {
    /// The name, unique within the table.
    pub name: String,
    /// Whether no two rows may have the same index key.
    pub unique: bool,
    /// Whether the entries hold all that the queries on this index ask for, so that a scan needs no rows.
    pub covering: bool,
    /// Reads the indexed columns.
    pub extractor: Arc<dyn IndexExtractor>,
    /// Reads what entries hold beside their keys: columns that queries ask for and that the index does not sort by, in any form. A row for which it says that there is none
    /// has an entry without.
    pub covered: Option<Arc<dyn IndexExtractor>>,
}

impl IndexSpec {
    /// A covering index that is not unique.
    pub fn new(name: impl Into<String>, extractor: Arc<dyn IndexExtractor>) -> Self {
        Self { name: name.into(), unique: false, covering: true, extractor, covered: None }
    }

    /// An index over columns at fixed places of the row's value.
    pub fn over_columns(name: impl Into<String>, columns: impl IntoIterator<Item = Range<usize>>) -> Self {
        Self::new(name, Arc::new(FixedColumns::new(columns)))
    }

    /// The same, unique if `unique`.
    #[must_use]
    pub fn unique(mut self, unique: bool) -> Self {
        self.unique = unique;
        self
    }

    /// The same, covering if `covering`.
    #[must_use]
    pub fn covering(mut self, covering: bool) -> Self {
        self.covering = covering;
        self
    }

    /// The same, with entries that hold what `covered` reads too.
    #[must_use]
    pub fn covered(mut self, covered: Arc<dyn IndexExtractor>) -> Self {
        self.covered = Some(covered);
        self
    }

    /// Appends the entry of a row, which is its index key and then its primary key, to `entry`. Returns whether the row has one;
    /// if not, `entry` is as it was.
    #[inline]
    pub fn entry(&self, primary_key: &[u8], value: &[u8], entry: &mut Vec<u8>) -> bool {
        let start = entry.len();
        if !self.extractor.extract(primary_key, value, entry) {
            entry.truncate(start);
            return false;
        }
        entry.extend_from_slice(primary_key);
        true
    }

    /// [`entry`](Self::entry) for an extractor that may misbehave.
    ///
    /// # Errors
    ///
    /// Those of [`try_key`](Self::try_key).
    #[inline]
    pub fn try_entry(&self, primary_key: &[u8], value: &[u8], entry: &mut Vec<u8>) -> Result<bool> {
        let has_entry = self.try_key(primary_key, value, entry)?;
        if has_entry {
            entry.extend_from_slice(primary_key);
        }
        Ok(has_entry)
    }

    /// Takes an entry apart that is its index key and then its primary key, in an index whose keys have [one length](IndexExtractor::fixed_len).
    ///
    /// # Errors
    ///
    /// `NotSupported` names an index with keys of other lengths; `Corruption` one whose entry is shorter than its key.
    pub fn split<'a>(&self, entry: &'a [u8]) -> Result<IndexEntry<'a>> {
        let of_any_length = || {
            let message = format!("index {}: its entries do not say how long their keys are, which differ", self.name);
            Error::not_supported(message)
        };
        let len = self.extractor.fixed_len().ok_or_else(of_any_length)?;
        let (index_key, primary_key) = entry
            .split_at_checked(len)
            .ok_or_else(|| Error::corrupt(format!("index {}: an entry is shorter than its key", self.name)))?;
        Ok(IndexEntry { index_key, primary_key, covered: &[] })
    }

    /// The error about an extractor that yields different entries for one row.
    #[cold]
    pub fn unstable(&self) -> Error {
        self.broken("yields different entries for one row")
    }

    /// Appends the index key of a row to `index_key`. Returns whether the row has an entry; if not, `index_key` is as it was.
    ///
    /// # Errors
    ///
    /// `Poisoned` names an index whose extractor panicked, `InvalidArgument` one that broke its word about lengths or took away what was there;
    /// `Corruption` if the row does not decode.
    #[inline]
    pub fn try_key(&self, primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> Result<bool> {
        self.call(&*self.extractor, primary_key, value, index_key)
    }

    /// Appends what the entry of a row holds beside its key to `covered`.
    ///
    /// # Errors
    ///
    /// Those of [`try_key`](Self::try_key).
    pub fn try_covered(&self, primary_key: &[u8], value: &[u8], covered: &mut Vec<u8>) -> Result<()> {
        match &self.covered {
            Some(extractor) => self.call(&**extractor, primary_key, value, covered).map(drop),
            None => Ok(()),
        }
    }

    #[inline]
    fn call(&self, extractor: &dyn IndexExtractor, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        // What a panic leaves half done is cut off below.
        let called = catch_unwind(AssertUnwindSafe(|| extractor.try_extract(key, value, out)));
        let len = out.len().checked_sub(start);
        let is_kept = matches!(called, Ok(Ok(true))) && len.is_some();
        if !is_kept {
            out.truncate(start);
        }
        match (called, len) {
            (Err(_), _) => Err(self.panicked()),
            (Ok(Err(error)), _) => Err(self.not_decoded(error)),
            (Ok(Ok(_)), None) => Err(self.broken("took away bytes that were there")),
            (Ok(Ok(false)), _) => Ok(false),
            (Ok(Ok(true)), Some(len)) if extractor.fixed_len().is_none_or(|fixed| fixed == len) => Ok(true),
            (Ok(Ok(true)), _) => {
                out.truncate(start);
                Err(self.broken("yielded a key that has not the length it promised"))
            }
        }
    }

    #[cold]
    fn panicked(&self) -> Error {
        Error::new(ErrorKind::Poisoned, format!("index {}: its extractor panicked", self.name))
    }

    #[cold]
    fn not_decoded(&self, error: Error) -> Error {
        Error::corrupt(format!("index {}: a row does not decode", self.name)).with_source(error)
    }

    #[cold]
    fn broken(&self, what: &str) -> Error {
        Error::invalid_argument(format!("index {}: its extractor {what}", self.name))
    }
}

/// An index that is maintained without reading rows. It is never unique, and a scan of it always looks at rows: both need to know what rows were.
#[derive(Debug, Clone)]
pub struct LazyIndexSpec {
    /// The name, unique within the table.
    pub name: String,
    /// Reads the indexed columns.
    pub extractor: Arc<dyn IndexExtractor>,
}

impl LazyIndexSpec {
    /// An index by what `extractor` reads.
    pub fn new(name: impl Into<String>, extractor: Arc<dyn IndexExtractor>) -> Self {
        Self { name: name.into(), extractor }
    }

    /// An index over columns at fixed places of the row's value.
    pub fn over_columns(name: impl Into<String>, columns: impl IntoIterator<Item = Range<usize>>) -> Self {
        Self::new(name, Arc::new(FixedColumns::new(columns)))
    }
}

#[cfg(test)]
mod tests;
