//! Reads of rows by their primary keys.

use super::expiring::without_stamp;
use super::layout::{ID_LEN, without_id};
use super::{AnyTableId, TableDb};
use crate::options::ReadOptions;
use siltstone_base::engine::Row;
use siltstone_base::{Error, Result};

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
    /// `NotFound` if no open table has this id, or it is dropped at the same time, `Corruption` for a row without the stamp that it is to have, and those of a read.
    pub fn get_row(
        &self,
        table: impl Into<AnyTableId>,
        primary_key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let (id, expires) = self.with_table(table, |table| Ok((table.definition.primary, table.expires())))?;
        let Some(value) = with_key(id.to_bytes(), primary_key, |key| self.ground.db.get(key))? else {
            return self.ground.check_not_dropped(id).map(|()| false);
        };
        found(without_stamp(expires, &value)?);
        Ok(true)
    }

    /// Walks the rows of a table from the first one whose primary key is at or after `from`, over at most `limit` rows. Returns their number.
    ///
    /// # Errors
    ///
    /// Those of [`get_row`](Self::get_row); `Corruption` says the position of the row in the scan.
    pub fn scan_rows(
        &self,
        table: impl Into<AnyTableId>,
        from: &[u8],
        limit: usize,
        found: &mut dyn FnMut(Row<'_>),
    ) -> Result<usize> {
        let (id, expires) = self.with_table(table, |table| Ok((table.definition.primary, table.expires())))?;
        let options = ReadOptions::default().iterate_upper_bound(Some(id.end().to_vec())).expected_entries(limit);
        let mut rows = self.ground.db.iter_cf(&self.ground.rows, &options)?;
        self.ground.check_not_dropped(id)?;
        with_key(id.to_bytes(), from, |key| rows.seek(key));
        let mut seen = 0;
        while seen < limit && rows.valid() {
            let value = without_stamp(expires, rows.value()).map_err(|error| of_scan(error, seen))?;
            found(Row { primary_key: without_id(rows.key()), value });
            seen += 1;
            if seen < limit {
                rows.next();
            }
        }
        rows.status()?;
        Ok(seen)
    }
}

/// Says where a scan met a row that is damaged.
#[cold]
fn of_scan(error: Error, number: usize) -> Error {
    Error::new(error.kind(), format!("row {number} of a scan, from 0")).with_source(error)
}
