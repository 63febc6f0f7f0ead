//! Rows as they are stored.
//!
//! Keys are the row's number, `id`; values begin with columns of fixed length, integers of four bytes in memcomparable form, so that indexes find them in their places; texts follow.
//! 0 stands for NULL. What Redmine names by a string in an index (`journalized_type`) is a number here.

use siltstone_base::engine::Row;
use siltstone_base::memcomparable::{get, put};
use siltstone_base::{Error, Result};
use std::ops::Range;

/// Bytes of a column, and of a key.
pub(super) const COLUMN: usize = 4;

/// Where column `place` stands in a value.
pub(super) const fn column(place: usize) -> Range<usize> {
    place * COLUMN..(place + 1) * COLUMN
}

/// Columns of `issues` that are written or read one by one, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issue {
    Tracker = 0,
    Project = 1,
    Category = 3,
    Status = 4,
    AssignedTo = 5,
    Priority = 6,
    FixedVersion = 7,
    Author = 8,
    LockVersion = 9,
    CreatedOn = 10,
    UpdatedOn = 11,
    StartDate = 12,
    /// Has no index: the search by it reads the whole table.
    Parent = 15,
    Root = 16,
    Left = 17,
    Right = 18,
}

/// Columns of `issues` before its texts, but for `id`.
pub(super) const ISSUE_COLUMNS: usize = 21;

/// A row in memory that is used again.
#[derive(Debug, Clone, Default)]
pub(super) struct RowBuffer {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl RowBuffer {
    /// A row of these columns and this text, in place of the one before.
    pub(super) fn set(&mut self, id: u32, columns: &[u32], text: &[u8]) {
        encode_id(id, &mut self.key);
        self.value.clear();
        encode_columns(columns, &mut self.value);
        self.value.extend_from_slice(text);
    }

    /// Column `place`.
    pub(super) fn get(&self, place: usize) -> Result<u32> {
        decode_column(&self.value, place)
    }

    /// Sets column `place`.
    pub(super) fn put(&mut self, place: usize, number: u32) -> Result<()> {
        let mut encoded = Vec::with_capacity(COLUMN);
        encode_columns(&[number], &mut encoded);
        self.value.get_mut(column(place)).ok_or_else(cut)?.copy_from_slice(&encoded);
        Ok(())
    }

    pub(super) fn as_row(&self) -> Row<'_> {
        Row { primary_key: &self.key, value: &self.value }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// The key of row `id`.
pub(super) fn encode_id(id: u32, key: &mut Vec<u8>) {
    key.clear();
    encode_columns(&[id], key);
}

/// Appends columns of fixed length, as rows and indexes have them.
pub(super) fn encode_columns(columns: &[u32], out: &mut Vec<u8>) {
    for column in columns {
        put::<i32>(out, *column as i32);
    }
}

/// The number of a row, at the end of an index entry.
pub(super) fn id_at_end(entry: &[u8]) -> Result<u32> {
    let start = entry.len().checked_sub(COLUMN).ok_or_else(cut)?;
    Ok(get::<i32>(&mut entry.get(start..).ok_or_else(cut)?)? as u32)
}

/// Column `place` of a row's value.
pub(super) fn decode_column(value: &[u8], place: usize) -> Result<u32> {
    Ok(get::<i32>(&mut value.get(column(place)).ok_or_else(cut)?)? as u32)
}

#[cold]
fn cut() -> Error {
    Error::corrupt("a row of Redmine's is cut off")
}
