//! Rows with a primary key, and secondary indexes that the engine maintains.

use super::{Admin, RowChange};
use crate::Result;
use crate::index_scan::{IndexEntry, IndexScan};
use crate::index_spec::{IndexSpec, LazyIndexSpec};

/// A table of an engine, as long as the engine is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// What a table is. Its primary key is whatever memcomparable bytes the rows bring.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// The name, unique within the engine.
    pub name: String,
    /// The secondary indexes. [`Tables::scan_index`] names them by their position here.
    pub indexes: Vec<IndexSpec>,
}

/// A lazy table of an engine, as long as the engine is open: one that is changed without reading what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LazyTableId(pub u32);

/// What a lazy table is.
#[derive(Debug, Clone)]
pub struct LazyTableSpec {
    /// The name, unique within the engine, also among tables that are not lazy.
    pub name: String,
    /// The secondary indexes, named by their position here.
    pub indexes: Vec<LazyIndexSpec>,
}

/// A row as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// The primary key in memcomparable form.
    pub primary_key: &'a [u8],
    /// Everything else, in a form that the extractors of the table's indexes can read.
    pub value: &'a [u8],
}

/// Tables of rows.
pub trait Tables: Admin {
    /// Creates a table. One of the same name is an error of kind [`AlreadyExists`](crate::ErrorKind::AlreadyExists).
    fn create_table(&self, spec: &TableSpec) -> Result<TableId>;

    /// Finds a table that was created before, perhaps by an earlier run, and gives it its extractors again.
    /// The names and flags of the indexes must be those that it was created with, and an engine may compare what extractors say of themselves. An unknown name is an error of kind
    /// [`NotFound`](crate::ErrorKind::NotFound).
    fn open_table(&self, spec: &TableSpec) -> Result<TableId>;

    /// Adds an index behind those that a table has, with entries of all its rows, and returns its position. Rows may be read meanwhile; whether they may be changed is up to the engine:
    /// who may not is refused with [`Busy`](crate::ErrorKind::Busy), and so is who adds an index while the engine adds another one and can't do both. From then on [`open_table`](Self::open_table) takes the table with it. Rows that
    /// have the same key in a unique index are an error of kind [`AlreadyExists`](crate::ErrorKind::AlreadyExists), a name that the table has one of kind
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument); the table is then as it was. An engine that can't says [`NotSupported`](crate::ErrorKind::NotSupported).
    fn add_index(&self, table: TableId, spec: &IndexSpec) -> Result<usize>;

    /// Drops an index of a table, by its name: those behind it move up by one position. A name that the table does not have is an error of kind
    /// [`NotFound`](crate::ErrorKind::NotFound).
    fn drop_index(&self, table: TableId, name: &str) -> Result<()>;

    /// Drops a table with its indexes. The space comes back in the background.
    fn drop_table(&self, table: TableId) -> Result<()>;

    /// Inserts rows whose primary keys are new, with their index entries, in one commit. The caller vouches for the keys
    /// being new: no row is read.
    fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()>;

    /// Removes rows with their index entries, in one commit. The caller says what they are; an engine that notices that one is another may refuse.
    fn delete(&self, table: TableId, rows: &[Row<'_>]) -> Result<()>;

    /// Replaces rows, each the first of a pair by the second, in one commit. Entries that stay the same are left alone. The caller says what the rows are, as for
    /// [`delete`](Self::delete).
    fn update(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()>;

    /// Changes rows of any tables in one commit: all changes become visible and safe together, or none is made. Whatever goes goes before anything comes, so that a row may take
    /// over a primary key, or a key of a unique index, that another one gives up. A primary key of which two changes say what it was, or two what it will be, is an error of kind
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument). For the rest as [`insert`](Self::insert), [`delete`](Self::delete) and [`update`](Self::update).
    fn commit(&self, changes: &[(TableId, RowChange<'_>)]) -> Result<()>;

    /// Hands the value of the row with this primary key to `found`; returns whether it exists.
    fn get_row(&self, table: TableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Walks a secondary index from the first entry at or after `from`, over at most `limit` entries, and hands each to
    /// `entry`: the index key followed by the primary key. Rows are not read. Returns the number of entries.
    fn scan_index(
        &self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize>;

    /// Walks a range of a secondary index, forwards or backwards, and hands its entries to `found`. Rows are not read. Returns the number of entries. Where entries do not say how long their
    /// keys are, an index with keys of different lengths is an error of kind [`NotSupported`](crate::ErrorKind::NotSupported).
    fn scan_entries(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>),
    ) -> Result<usize>;

    /// The same, with the value of each entry's row, of the same moment.
    fn scan_rows_by(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>, &[u8]),
    ) -> Result<usize>;

    /// Walks the rows of a table from the first one whose primary key is at or after `from`, over at most `limit` rows, and hands each to `found`. Returns their number.
    fn scan_rows(&self, table: TableId, from: &[u8], limit: usize, found: &mut dyn FnMut(Row<'_>)) -> Result<usize>;
}
