//! Lazy tables: rows are put and deleted without reading anything, not even what they were.
//!
//! A row's entries are put with the row, in one batch, whether they are there or not. What an older version of the row yielded stays, as a stale entry: readers
//! tell by looking at the row ([`fetch`](super::fetch)), and sweeps remove it ([`sweep`](super::sweep)). An entry may be put many times, so it is deleted by a tombstone, never by a single delete.

use super::TableDb;
use super::figures::LazyFigures;
use super::index::Table;
use super::insert::Scratch;
use siltstone_base::Result;
use siltstone_base::engine::{LazyTableId, Row};
use siltstone_base::index_spec::Tried;

impl TableDb {
    /// Puts rows with their index entries, in one commit, whether there are rows of their primary keys or not. Nothing is read.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), but there are no unique indexes.
    pub fn upsert(&self, table: LazyTableId, rows: &[Row<'_>]) -> Result<()> {
        self.change(table, true, |table, scratch| {
            let tried = Tried::of(rows.len());
            for (number, row) in rows.iter().enumerate() {
                scratch.with_row(number, tried.has(number), |scratch| scratch.put_with_entries(table, row))?;
            }
            let new = table.last_key.note(rows);
            table.indexes.iter().for_each(|index| index.counts.note_written(rows.len() as u64 - new, new));
            Ok(())
        })?;
        self.sweeper.wake_if_due(table.into());
        self.sweeper.help(&self.ground, table.into(), rows.len());
        Ok(())
    }

    /// Deletes the rows of these primary keys, in one commit, whether there are such rows or not. Nothing is read.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, and those of a write.
    pub fn delete_keys(&self, table: LazyTableId, primary_keys: &[&[u8]]) -> Result<()> {
        self.change(table, true, |table, scratch| {
            for primary_key in primary_keys {
                table.definition.primary.begin(&mut scratch.key);
                scratch.key.extend_from_slice(primary_key);
                scratch.batch.delete(&*scratch.key);
            }
            table.indexes.iter().for_each(|index| index.counts.note_written(primary_keys.len() as u64, 0));
            Ok(())
        })?;
        self.sweeper.wake_if_due(table.into());
        self.sweeper.help(&self.ground, table.into(), primary_keys.len());
        Ok(())
    }

    /// How many index entries of a lazy table lead nowhere, as far as that is known without reading anything.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id.
    pub fn lazy_figures(&self, table: LazyTableId) -> Result<LazyFigures> {
        self.with_table(table, |table| {
            let mut figures = LazyFigures { is_known: true, ..LazyFigures::default() };
            table.indexes.iter().for_each(|index| figures.add(index.counts.figures()));
            Ok(figures)
        })
    }
}

impl Scratch {
    /// Puts a row and all of its entries.
    fn put_with_entries(&mut self, table: &Table, row: &Row<'_>) -> Result<()> {
        let stamp = self.put_row(table, row)?;
        let stamp = stamp.as_ref().map_or(&[][..], |stamp| stamp);
        for index in &table.indexes {
            if self.entry_of(index, row, stamp)? {
                self.batch.put(&*self.key, &*self.value);
            }
        }
        Ok(())
    }
}
