//! Tables that are changed without saying, or reading, what was there.

use super::{Admin, LazyTableId, LazyTableSpec, Row};
use crate::Result;
use crate::index_spec::LazyIndexSpec;

/// Tables whose rows are put and deleted by their keys, whatever was there: nothing is read for it, neither rows nor indexes. Entries that rows do not yield any more are hidden from
/// readers, and removed later.
///
/// That is what an LSM-tree can do. A B-tree finds the place of a row before it changes it, so it has the old row at hand and has no use for this.
pub trait LazyTables: Admin {
    /// Creates a lazy table. One of the same name, lazy or not, is an error of kind [`AlreadyExists`](crate::ErrorKind::AlreadyExists).
    fn create_lazy_table(&self, spec: &LazyTableSpec) -> Result<LazyTableId>;

    /// Finds a lazy table that was created before, perhaps by an earlier run, and gives it its extractors again. An unknown name is an error of kind
    /// [`NotFound`](crate::ErrorKind::NotFound), that of a table which is not lazy one of kind [`InvalidArgument`](crate::ErrorKind::InvalidArgument).
    fn open_lazy_table(&self, spec: &LazyTableSpec) -> Result<LazyTableId>;

    /// Adds an index behind those that a lazy table has, with entries of all its rows, and returns its position. For the rest as [`Tables::add_index`](super::Tables::add_index).
    fn add_lazy_index(&self, table: LazyTableId, spec: &LazyIndexSpec) -> Result<usize>;

    /// Drops a lazy table with its indexes. The space comes back in the background.
    fn drop_lazy_table(&self, table: LazyTableId) -> Result<()>;

    /// Puts rows with their index entries, in one commit, whether there are rows of their primary keys or not.
    fn upsert(&self, table: LazyTableId, rows: &[Row<'_>]) -> Result<()>;

    /// Deletes the rows of these primary keys, in one commit, whether there are such rows or not.
    fn delete_keys(&self, table: LazyTableId, primary_keys: &[&[u8]]) -> Result<()>;

    /// Hands the value of the row with this primary key to `found`; returns whether it exists.
    fn lazy_row(&self, table: LazyTableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Walks the rows of a table from the first one whose primary key is at or after `from`, over at most `limit` rows, and hands each to `found`. Returns their number.
    fn lazy_rows(&self, table: LazyTableId, from: &[u8], limit: usize, found: &mut dyn FnMut(Row<'_>))
    -> Result<usize>;

    /// Walks a secondary index from the first entry at or after `from`, and hands the rows of at most `limit` entries to `found`: the index key, and the row. Only entries that
    /// their rows yield count. Returns the number of rows.
    fn lazy_rows_by(
        &self,
        table: LazyTableId,
        index: usize,
        from: &[u8],
        limit: usize,
        found: &mut dyn FnMut(&[u8], Row<'_>),
    ) -> Result<usize>;

    /// Counts the entries of all indexes of a table, and those of them that are hidden, by reading all of it.
    fn count_stale(&self, table: LazyTableId) -> Result<StaleEntries>;
}

/// Entries of a lazy table's indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaleEntries {
    /// All of them.
    pub entries: u64,
    /// Those that no row yields.
    pub stale: u64,
}

impl StaleEntries {
    /// The stale share of the entries, from 0 to 1.
    pub fn share(&self) -> f64 {
        if self.entries == 0 { 0.0 } else { self.stale as f64 / self.entries as f64 }
    }
}
