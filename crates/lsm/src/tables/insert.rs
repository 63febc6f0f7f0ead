//! Rows that are written: one write batch, in which nothing is read, whatever the number of indexes.
//!
//! An index entry is put once and then deleted once, so that its tombstone is a single delete.

use super::layout::IndexId;
use super::{Index, Table, TableDb};
use crate::batch::WriteBatch;
use siltstone_base::Result;
use siltstone_base::engine::{Row, TableId};
use std::cell::RefCell;

/// What a thread keeps between inserts, for its memory.
#[derive(Default)]
struct Scratch {
    batch: WriteBatch,
    key: Vec<u8>,
    other: Vec<u8>,
}

/// A batch that grew beyond this is not kept.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

impl TableDb {
    /// Inserts rows whose primary keys are new, with their index entries, in one commit. The caller vouches for the keys
    /// being new: nothing is read.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, `LimitExceeded` for a key or a value beyond the limits, and those of a write.
    pub fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        self.write_with(table, |table, scratch| rows.iter().for_each(|row| scratch.add(table, row, None)))
    }

    /// Removes rows with their index entries, in one commit. The caller says what they are: nothing is read. Entries of what was never
    /// there are single-deleted, and may come back with what is inserted later.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert).
    pub fn delete(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        self.write_with(table, |table, scratch| rows.iter().for_each(|row| scratch.remove(table, row, None)))
    }

    /// Replaces rows, each the first of a pair by the second, in one commit. Entries that stay the same are left alone. The caller says what the rows are, as for
    /// [`delete`](Self::delete).
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert).
    pub fn update(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()> {
        self.write_with(table, |table, scratch| {
            for (old, new) in rows {
                if old.primary_key == new.primary_key {
                    scratch.remove_entries(table, old, Some(new));
                    scratch.add(table, new, Some(old));
                } else {
                    scratch.remove(table, old, None);
                    scratch.add(table, new, None);
                }
            }
        })
    }

    fn write_with(&self, table: TableId, fill: impl FnOnce(&Table, &mut Scratch)) -> Result<()> {
        // Taken out while it is used: an extractor or a listener that inserts again gets one of its own.
        let mut scratch = SCRATCH.with(|scratch| std::mem::take(&mut *scratch.borrow_mut()));
        scratch.batch.clear();
        let filled = self.with_table(table, |table| {
            fill(table, &mut scratch);
            Ok(())
        });
        let outcome = filled.and_then(|()| self.db.write(&mut scratch.batch, &self.write_options));
        if scratch.batch.size_bytes() <= KEPT_BYTES {
            SCRATCH.with(|kept| *kept.borrow_mut() = scratch);
        }
        outcome
    }
}

impl Scratch {
    /// Puts a row, and its entries other than those of `old`.
    fn add(&mut self, table: &Table, row: &Row<'_>, old: Option<&Row<'_>>) {
        start(&mut self.key, table.definition.primary);
        self.key.extend_from_slice(row.primary_key);
        self.batch.put(&*self.key, row.value);
        for index in &table.indexes {
            if self.entry(index, row, old) {
                self.batch.put(&*self.key, []);
            }
        }
    }

    /// Deletes a row, and its entries other than those of `new`.
    fn remove(&mut self, table: &Table, row: &Row<'_>, new: Option<&Row<'_>>) {
        start(&mut self.key, table.definition.primary);
        self.key.extend_from_slice(row.primary_key);
        self.batch.delete(&*self.key);
        self.remove_entries(table, row, new);
    }

    fn remove_entries(&mut self, table: &Table, row: &Row<'_>, new: Option<&Row<'_>>) {
        for index in &table.indexes {
            if self.entry(index, row, new) {
                self.batch.single_delete(&*self.key);
            }
        }
    }

    /// Makes the key of a row's entry. Returns whether there is one that `other` does not have too.
    fn entry(&mut self, index: &Index, row: &Row<'_>, other: Option<&Row<'_>>) -> bool {
        start(&mut self.key, index.id);
        if !index.spec.entry(row.primary_key, row.value, &mut self.key) {
            return false;
        }
        let Some(other) = other else { return true };
        start(&mut self.other, index.id);
        !index.spec.entry(other.primary_key, other.value, &mut self.other) || self.other != self.key
    }
}

/// Begins a key of the index.
#[inline]
fn start(key: &mut Vec<u8>, id: IndexId) {
    key.clear();
    key.extend_from_slice(&id.to_bytes());
}
