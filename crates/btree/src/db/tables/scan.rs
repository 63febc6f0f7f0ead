//! Scans of an index: ranges of entries, in either direction, and the rows that they lead to.
//!
//! Rows are fetched in batches, in the order of their primary keys, and handed out in the order of the index, as MySQL's multi-range read does: the leaves of the rows are then gone through
//! once and in one direction.

use super::super::Db;
use super::super::scan::Cursor;
use super::super::state::State;
use super::super::transactions::View;
use super::OpenTable;
use super::entry::EntryForm;
use super::read::walk;
use siltstone_base::engine::TableId;
use siltstone_base::index_scan::{IndexEntries, IndexEntry, IndexScan, NoSnapshot, walk_entries};
use siltstone_base::{Error, ErrorKind, Result};

/// Rows that are fetched together: few at first, for scans that end soon.
const FIRST_BATCH: usize = 16;
const BATCH: usize = 256;

impl OpenTable {
    /// Hands the entries of a range of an index to `found`, as a cursor over the index has them.
    pub(in super::super) fn each_entry<S: Clone>(
        &self,
        index: usize,
        cursor: &mut Cursor,
        scan: &IndexScan<S>,
        found: &mut dyn FnMut(IndexEntry<'_>) -> Result<()>,
    ) -> Result<usize> {
        let (form, spec) = self.spec(index)?;
        let scan = form.range(cursor, scan)?;
        let (mut primary_key, mut position) = (Vec::new(), 0);
        walk_entries(cursor, &[], &scan, &mut |entry| {
            let read = form.read(spec, entry, &mut primary_key);
            found(read.map_err(|error| self.damaged(index, entry, position, error))?)?;
            position += 1;
            Ok(())
        })
    }

    /// Says where a scan met an entry that does not decode.
    #[cold]
    fn damaged(&self, index: usize, entry: &[u8], position: usize, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Corruption => self.wrong_entry(index, entry, position, "is damaged").with_source(error),
            _ => error,
        }
    }

    /// The error that something is wrong with an entry that a scan met: which one of the scan it was, and the leaf in which it is.
    #[cold]
    fn wrong_entry(&self, index: usize, entry: &[u8], position: usize, what: &str) -> Error {
        let name = self.specs.get(index).map_or("", |spec| spec.name.as_str());
        let message = format!("index {name}: entry {position} of a scan, from 0, {what}");
        match self.index(index).and_then(|tree| tree.live()) {
            Ok(tree) => tree.corruption_at(entry, &message),
            Err(_) => Error::corrupt(message),
        }
    }

    /// Hands up to `limit` entries, from the first one at or after `from`, to `found`: index key and primary key, one behind the other.
    pub(in super::super) fn walk_index(
        &self,
        index: usize,
        cursor: &mut Cursor,
        from: &[u8],
        limit: usize,
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        let (form, _) = self.spec(index)?;
        if form == EntryForm::Plain {
            return walk(cursor, from, limit, &mut |entry, _| found(entry));
        }
        let mut whole = Vec::new();
        let scan = IndexScan::<NoSnapshot>::all().starting_at(from).limit(limit);
        self.each_entry(index, cursor, &scan, &mut |entry| {
            whole.clear();
            whole.extend_from_slice(entry.index_key);
            whole.extend_from_slice(entry.primary_key);
            found(&whole);
            Ok(())
        })
    }
}

impl Db {
    /// Walks a range of a secondary index and hands its entries to `found`, without looking at rows. All are of one moment. Returns their number.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id or it has no such index; `NotSupported` for an index with keys of different lengths that an earlier version made: its entries do not say where
    /// they end; `Corruption` for an entry that is damaged, with its position in the scan and the leaf that has it; those of [`get`](Self::get).
    pub fn scan_entries(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>),
    ) -> Result<usize> {
        let table = self.0.tables.get(table)?;
        let mut cursor = Cursor::new(&self.0, table.index(index)?)?;
        table.each_entry(index, &mut cursor, scan, &mut |entry| {
            found(entry);
            Ok(())
        })
    }

    /// The same, with the value of each entry's row, of the same moment.
    ///
    /// # Errors
    ///
    /// Those of [`scan_entries`](Self::scan_entries); `Corruption` for an entry that leads to no row, with its position in the scan and the leaf that has it.
    pub fn scan_rows_by(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>, &[u8]),
    ) -> Result<usize> {
        let table = self.0.tables.get(table)?;
        let mut cursor = Cursor::new(&self.0, table.index(index)?)?;
        let view = cursor.view().again();
        let (mut entries, mut batch, mut first) = (IndexEntries::default(), FIRST_BATCH, 0);
        let mut fetch = |entries: &IndexEntries| {
            self.0.hand_rows_out(&table, index, &view, entries, first, found)?;
            first += entries.len();
            Ok(())
        };
        let seen = table.each_entry(index, &mut cursor, scan, &mut |entry| {
            entries.push(entry);
            if entries.len() == batch {
                fetch(&entries)?;
                entries.clear();
                batch = (2 * batch).min(BATCH);
            }
            Ok(())
        })?;
        fetch(&entries)?;
        Ok(seen)
    }
}

impl State {
    /// Hands out the rows of entries, of which the first one has this position in the scan.
    fn hand_rows_out(
        &self,
        table: &OpenTable,
        index: usize,
        view: &View,
        entries: &IndexEntries,
        first: usize,
        found: &mut dyn FnMut(IndexEntry<'_>, &[u8]),
    ) -> Result<()> {
        let mut rows: Vec<Option<Vec<u8>>> = (0..entries.len()).map(|_| None).collect();
        for at in entries.by_primary_key() {
            if let Some(row) = rows.get_mut(at) {
                *row = self.read_row_of(view, &table.table.rows, entries.get(at).primary_key)?;
            }
        }
        for (at, row) in rows.into_iter().enumerate() {
            let entry = entries.get(at);
            let Some(row) = row else {
                let key = table.spec(index)?.0.key(entry);
                return Err(table.wrong_entry(index, &key, first + at, "leads to no row"));
            };
            found(entry, &row);
        }
        Ok(())
    }
}
