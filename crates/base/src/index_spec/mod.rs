//! What a secondary index is; each engine maintains its own.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Reads from a row what an index sorts by.
pub trait IndexExtractor: Send + Sync + fmt::Debug {
    /// Appends the memcomparable form of the indexed columns of a row to `index_key`, which may hold other bytes in
    /// front; returns whether the row has an entry at all. If not, what was appended is ignored.
    ///
    /// The same row must always yield the same bytes, and no row's bytes may be a proper prefix of another's: the primary
    /// key follows them in the entry.
    fn extract(&self, primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool;
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
}

impl IndexSpec {
    /// A covering index that is not unique.
    pub fn new(name: impl Into<String>, extractor: Arc<dyn IndexExtractor>) -> Self {
        Self { name: name.into(), unique: false, covering: true, extractor }
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
}

/// Reads columns that stand in memcomparable form at fixed places of a row's value. A row that is too short for one of
/// them has no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedColumns {
    columns: Box<[Range<usize>]>,
}

impl FixedColumns {
    /// The columns at these ranges of the value, in the order in which the index sorts by them.
    pub fn new(columns: impl IntoIterator<Item = Range<usize>>) -> Self {
        Self { columns: columns.into_iter().collect() }
    }
}

impl IndexExtractor for FixedColumns {
    fn extract(&self, _primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        self.columns.iter().all(|column| match value.get(column.clone()) {
            Some(bytes) => {
                index_key.extend_from_slice(bytes);
                true
            }
            None => false,
        })
    }
}

#[cfg(test)]
mod tests;
