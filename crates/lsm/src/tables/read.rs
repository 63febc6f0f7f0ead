//! Reads: a row by its primary key, and index entries in order.

use super::TableDb;
use super::layout::{ID_LEN, without_id};
use crate::options::ReadOptions;
use siltstone_base::engine::{Row, TableId};
use siltstone_base::{Error, ErrorKind, Result};

/// Keys up to this length are put together on the stack.
const INLINE: usize = 128;

/// Hands `id` followed by `rest` to `work` as one key.
#[inline]
fn with_key<T>(id: [u8; ID_LEN], rest: &[u8], work: impl FnOnce(&[u8]) -> T) -> T {
    let len = ID_LEN + rest.len();
    if len <= INLINE {
        let mut key = [0; INLINE];
        key[..ID_LEN].copy_from_slice(&id);
        key[ID_LEN..len].copy_from_slice(rest);
        return work(&key[..len]);
    }
    work(&[&id[..], rest].concat())
}

impl TableDb {
    /// Hands the value of the row with this primary key to `found`; returns whether it exists.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, and those of a read.
    pub fn get_row(&self, table: TableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let id = self.with_table(table, |table| Ok(table.definition.primary))?;
        let Some(value) = with_key(id.to_bytes(), primary_key, |key| self.db.get(key))? else {
            return Ok(false);
        };
        found(&value);
        Ok(true)
    }

    /// Walks a secondary index from the first entry at or after `from`, over at most `limit` entries, and hands each to `entry`: the
    /// index key followed by the primary key. Rows are not read. Returns the number of entries.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id or it has no such index, and those of a read.
    pub fn scan_index(
        &self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        let (id, mut entries) = self.with_table(table, |table| {
            let index = table
                .indexes
                .get(index)
                .ok_or_else(|| Error::new(ErrorKind::NotFound, "the table has no index at this position"))?;
            Ok((index.id, self.db.iter_cf(&self.rows, &index.read_options)?))
        })?;
        with_key(id.to_bytes(), from, |key| entries.seek(key));
        let mut seen = 0;
        while seen < limit && entries.valid() {
            entry(without_id(entries.key()));
            seen += 1;
            if seen < limit {
                entries.next();
            }
        }
        entries.status()?;
        Ok(seen)
    }

    /// Walks the rows of a table from the first one whose primary key is at or after `from`, over at most `limit` rows. Returns their number.
    ///
    /// # Errors
    ///
    /// Those of [`get_row`](Self::get_row).
    pub fn scan_rows(
        &self,
        table: TableId,
        from: &[u8],
        limit: usize,
        found: &mut dyn FnMut(Row<'_>),
    ) -> Result<usize> {
        let id = self.with_table(table, |table| Ok(table.definition.primary))?;
        let options = ReadOptions::default().iterate_upper_bound(Some(id.end().to_vec()));
        let mut rows = self.db.iter_cf(&self.rows, &options)?;
        with_key(id.to_bytes(), from, |key| rows.seek(key));
        let mut seen = 0;
        while seen < limit && rows.valid() {
            found(Row { primary_key: without_id(rows.key()), value: rows.value() });
            seen += 1;
            if seen < limit {
                rows.next();
            }
        }
        rows.status()?;
        Ok(seen)
    }
}
