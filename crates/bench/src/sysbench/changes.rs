//! What a transaction changed and has not committed.

use super::rows::RowBuffer;
use siltstone_base::engine::{RowChange, TableId, Tables};
use siltstone_base::{Error, ErrorKind, Result};

/// The row of a table that has this number.
pub(super) type Place = (TableId, u32);

/// What statements made of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Updated,
    Deleted,
    /// Deleted, and inserted with the same key.
    Replaced,
}

/// A row that a transaction changes.
#[derive(Debug)]
pub(super) struct ChangedRow {
    place: Place,
    /// As it is committed.
    old: RowBuffer,
    /// As the last statement left it.
    new: RowBuffer,
    made: Made,
}

impl ChangedRow {
    /// The row, for a statement that updates it.
    pub(super) fn update(&mut self) -> Result<&mut RowBuffer> {
        match self.made {
            Made::Deleted => Err(missing()),
            _ => Ok(&mut self.new),
        }
    }

    /// Deletes the row.
    pub(super) fn delete(&mut self) -> Result<()> {
        self.update()?.value.clear();
        self.made = Made::Deleted;
        Ok(())
    }

    /// The row, for a statement that inserts it: its key must be free, which it only is where the transaction deleted the row itself.
    pub(super) fn insert(&mut self) -> Result<&mut RowBuffer> {
        if self.made != Made::Deleted {
            return Err(Error::new(ErrorKind::AlreadyExists, "a row of this primary key exists"));
        }
        self.made = Made::Replaced;
        Ok(&mut self.new)
    }

    /// Bytes of the row and of its entry, as the last statement left them.
    pub(super) fn bytes(&self) -> u64 {
        self.new.bytes()
    }
}

/// The rows that a transaction changes, in the order in which it first changed each.
#[derive(Debug, Default)]
pub(super) struct Changes {
    rows: Vec<ChangedRow>,
    /// Rows of earlier transactions, kept for their memory.
    spare: Vec<ChangedRow>,
}

impl Changes {
    /// Forgets them, for the next transaction.
    pub(super) fn clear(&mut self) {
        self.spare.append(&mut self.rows);
    }

    /// A row as the transaction sees it, for a statement that changes it: as an earlier statement left it, or else as it is committed.
    pub(super) fn row(&mut self, engine: &dyn Tables, place: Place) -> Result<&mut ChangedRow> {
        let known = self.rows.iter().position(|row| row.place == place);
        let at = known.unwrap_or(self.rows.len());
        if known.is_none() {
            let mut row = self.spare.pop().unwrap_or_else(|| ChangedRow {
                place,
                old: RowBuffer::default(),
                new: RowBuffer::default(),
                made: Made::Updated,
            });
            (row.place, row.made) = (place, Made::Updated);
            let (table, id) = place;
            let old = &mut row.old;
            old.set_id(id);
            old.value.clear();
            if !engine.get_row(table, &old.key, &mut |value| old.value.extend_from_slice(value))? {
                return Err(missing());
            }
            row.new.clone_from(old);
            self.rows.push(row);
        }
        self.rows.get_mut(at).ok_or_else(missing)
    }

    /// What is to be committed: a row that several statements changed goes from what it was to what the last one left.
    pub(super) fn to_commit(&self) -> Vec<(TableId, RowChange<'_>)> {
        let mut changes = Vec::with_capacity(2 * self.rows.len());
        for ChangedRow { place: (table, _), old, new, made } in &self.rows {
            let (old, new) = (old.as_row(), new.as_row());
            if *made == Made::Updated {
                changes.push((*table, RowChange::Update(old, new)));
                continue;
            }
            changes.push((*table, RowChange::Delete(old)));
            if *made == Made::Replaced {
                changes.push((*table, RowChange::Insert(new)));
            }
        }
        changes
    }
}

/// What is said of a row that was loaded and is not there.
#[cold]
pub(super) fn missing() -> Error {
    Error::new(ErrorKind::Corruption, "a row that was loaded is missing")
}
