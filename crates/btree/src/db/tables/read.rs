//! Reading rows and entries without a transaction.

use super::super::Db;
use super::super::scan::Cursor;
use siltstone_base::Result;
use siltstone_base::engine::{KvCursor, Row, TableId};

/// Hands up to `limit` rows of a cursor, from the first one at or after `from`, to `found`.
pub(in super::super) fn walk(
    cursor: &mut Cursor,
    from: &[u8],
    limit: usize,
    found: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<usize> {
    let mut seen = 0;
    let mut is_there = limit > 0 && cursor.seek(from)?;
    while is_there {
        found(cursor.key(), cursor.value());
        seen += 1;
        is_there = seen < limit && cursor.next()?;
    }
    Ok(seen)
}

impl Db {
    /// Hands the value of the row with this primary key to `found`; returns whether it exists.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id; those of [`get`](Self::get).
    pub fn get_row(&self, table: TableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.0.tables.get(table)?;
        // A copy: the caller may do anything with the database while he looks at it, and the page is latched.
        let value = self.0.get(&table.table.rows, primary_key, None, <[u8]>::to_vec)?;
        value.iter().for_each(|value| found(value));
        Ok(value.is_some())
    }

    /// Walks a secondary index from the first entry at or after `from`, over at most `limit` entries, and hands each to `entry`: the index key followed by
    /// the primary key. All are of one moment. Returns their number.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id or it has no such index; those of [`get`](Self::get).
    pub fn scan_index(
        &self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        let table = self.0.tables.get(table)?;
        let mut cursor = Cursor::new(&self.0, table.index(index)?)?;
        table.walk_index(index, &mut cursor, from, limit, entry)
    }

    /// Walks the rows of a table from the first one whose primary key is at or after `from`, over at most `limit` rows. All are of one moment. Returns their number.
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
        let table = self.0.tables.get(table)?;
        let mut cursor = Cursor::new(&self.0, &table.table.rows)?;
        walk(&mut cursor, from, limit, &mut |primary_key, value| found(Row { primary_key, value }))
    }
}
