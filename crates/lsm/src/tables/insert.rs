//! Rows of eager tables that are written: one write batch, in which nothing is read, whatever the number of indexes that are not unique.
//!
//! An index entry is put once and then deleted once, so that its tombstone is a single delete. Within one batch everything is removed before anything is
//! added: a row may take over a primary key, or a key of a unique index, that another row of the batch gives up.

use super::expiring::{Release, RowStamp};
use super::index::{Index, Table};
use super::unique::Claim;
use super::{AnyTableId, TableDb, find};
use crate::batch::WriteBatch;
use siltstone_base::engine::{Row, RowChange, TableId, check_distinct};
use siltstone_base::index_spec::Tried;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::cell::RefCell;

/// What a thread keeps between inserts, for its memory.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) batch: WriteBatch,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) other_key: Vec<u8>,
    pub(super) other_value: Vec<u8>,
    /// A row with its stamp.
    stored: Vec<u8>,
    /// The time of writing, in Unix seconds.
    now: u64,
    /// Extractors are asked twice about the row at hand.
    pub(super) is_tried: bool,
    /// Keys of unique indexes that rows get.
    pub(super) claims: Vec<Claim>,
    /// Those that rows give up.
    pub(super) freed: Vec<Vec<u8>>,
    /// The same of rows that expire: to be deleted unless others have them by now.
    pub(super) releases: Vec<Release>,
}

/// A batch that grew beyond this is not kept.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

impl TableDb {
    /// Inserts rows whose primary keys are new, with their index entries, in one commit. The caller vouches for the keys
    /// being new: nothing is read, but for the keys of unique indexes.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, `LimitExceeded` for a key or a value beyond the limits, `AlreadyExists` if a row would have the key of another one
    /// in a unique index: it names the index, and the row by its place in `rows`. So do `Poisoned` or `InvalidArgument` for an index whose extractor panics or breaks its promises, and
    /// `Corruption` for one whose extractor cannot read a row. `InvalidArgument` also for a primary key that comes twice, or a row without the column that says when it expires; `Busy` while a unique index is added. Nothing is written then. And those of a write.
    pub fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        self.change(table, false, |table, scratch| {
            check_doubles(rows.iter().map(|row| row.primary_key))?;
            let tried = Tried::of(rows.len());
            rows.iter().enumerate().try_for_each(|(number, row)| {
                scratch.with_row(number, tried.has(number), |scratch| scratch.add(table, number, row, None))
            })
        })
    }

    /// Removes rows with their index entries, in one commit. The caller says what they are: nothing is read. Entries of what was never
    /// there are single-deleted, and may come back with what is inserted later.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert).
    pub fn delete(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        self.change(table, false, |table, scratch| {
            check_doubles(rows.iter().map(|row| row.primary_key))?;
            let tried = Tried::of(rows.len());
            rows.iter().enumerate().try_for_each(|(number, row)| {
                scratch.with_row(number, tried.has(number), |scratch| scratch.remove(table, row))
            })
        })
    }

    /// Replaces rows, each the first of a pair by the second, in one commit. Entries that stay the same are left alone. The caller says what the rows are, as for
    /// [`delete`](Self::delete).
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert).
    pub fn update(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()> {
        self.change(table, false, |table, scratch| {
            check_doubles(rows.iter().map(|(old, _)| old.primary_key))?;
            check_doubles(rows.iter().map(|(_, new)| new.primary_key))?;
            let tried = Tried::of(rows.len());
            for (number, (old, new)) in rows.iter().enumerate() {
                let change = RowChange::Update(*old, *new);
                scratch.with_row(number, tried.has(number), |scratch| scratch.take_away(table, &change))?;
            }
            for (number, (old, new)) in rows.iter().enumerate() {
                let old = Some(old).filter(|old| old.primary_key == new.primary_key);
                scratch.with_row(number, tried.has(number), |scratch| scratch.add(table, number, new, old))?;
            }
            Ok(())
        })
    }

    /// Changes rows of any eager tables in one commit. Everything goes that goes before anything comes: a row may take over a primary key, or a key of a unique index, that another
    /// one gives up. Entries that stay the same are left alone. The caller says what rows are, as for [`delete`](Self::delete).
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert); a row is named by its place in `changes`. `InvalidArgument` also if two changes say what the row of one primary key was, or will be.
    pub fn commit(&self, changes: &[(TableId, RowChange<'_>)]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        check_distinct(changes.iter().copied())?;
        // The changes of a table together, in the order of the call.
        let mut order: Vec<(TableId, usize, &RowChange<'_>)> =
            changes.iter().enumerate().map(|(number, (table, change))| (*table, number, change)).collect();
        order.sort_by_key(|(table, _, _)| *table);
        self.write_batch(|tables, scratch| {
            for own in order.chunk_by(|(table, _, _), (next, _, _)| table == next) {
                let Some((id, _, _)) = own.first() else { continue };
                let table = find(tables, (*id).into())?;
                table.definition.check_mode(false)?;
                table.check_writable()?;
                let tried = Tried::of(own.len());
                for (at, (_, number, change)) in own.iter().enumerate() {
                    scratch.with_row(*number, tried.has(at), |scratch| scratch.take_away(table, change))?;
                }
                for (at, (_, number, change)) in own.iter().enumerate() {
                    if let Some(row) = change.after() {
                        let old = change.before().filter(|old| old.primary_key == row.primary_key);
                        scratch.with_row(*number, tried.has(at), |scratch| {
                            scratch.add(table, *number, &row, old.as_ref())
                        })?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Writes what `fill` puts into a batch for a table that is `lazy` or not.
    pub(super) fn change(
        &self,
        table: impl Into<AnyTableId>,
        lazy: bool,
        fill: impl FnOnce(&Table, &mut Scratch) -> Result<()>,
    ) -> Result<()> {
        let id = table.into();
        self.write_batch(|tables, scratch| {
            let table = find(tables, id)?;
            table.definition.check_mode(lazy)?;
            table.check_writable()?;
            fill(table, scratch)
        })
    }

    /// Writes what `fill` puts into a batch for tables of those that are open.
    fn write_batch(&self, fill: impl FnOnce(&[Arc<Table>], &mut Scratch) -> Result<()>) -> Result<()> {
        // Taken out while it is used: an extractor or a listener that inserts again gets one of its own.
        let mut scratch = SCRATCH.with(|scratch| std::mem::take(&mut *scratch.borrow_mut()));
        scratch.clear();
        self.remove_left_index();
        // Until the changes are visible: whoever adds an index waits for those who do not know of it.
        let writing = self.writers.enter();
        let tables = self.ground.open_tables.load();
        scratch.now = if self.ground.expiry.is_some() { self.ground.db.expiry_now() } else { 0 };
        let outcome = fill(&tables, &mut scratch).and_then(|()| {
            let _claimed = self.claim(&tables, &mut scratch)?;
            self.ground.db.write(&mut scratch.batch, &self.ground.write_options)
        });
        drop(writing);
        if scratch.batch.size_bytes() <= KEPT_BYTES {
            SCRATCH.with(|kept| *kept.borrow_mut() = scratch);
        }
        outcome
    }
}

/// Refuses a primary key that comes twice in one call: its entries would be put twice, or removed before they are added.
fn check_doubles<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<()> {
    if keys.len() < 2 {
        return Ok(());
    }
    let mut keys: Vec<&[u8]> = keys.collect();
    keys.sort_unstable();
    match keys.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(Error::invalid_argument("a primary key comes twice in one call")),
        false => Ok(()),
    }
}

impl Scratch {
    fn clear(&mut self) {
        self.batch.clear();
        self.claims.clear();
        self.freed.clear();
        self.releases.clear();
    }

    /// Puts a row. Returns its stamp.
    pub(super) fn put_row(&mut self, table: &Table, row: &Row<'_>) -> Result<RowStamp> {
        table.definition.primary.begin(&mut self.key);
        self.key.extend_from_slice(row.primary_key);
        let stamp = table.stamp(row.value, self.now)?;
        match &stamp {
            None => self.batch.put(&*self.key, row.value),
            Some(stamp) => {
                self.stored.clear();
                self.stored.extend_from_slice(stamp);
                self.stored.extend_from_slice(row.value);
                self.batch.put(&*self.key, &*self.stored);
            }
        }
        Ok(stamp)
    }

    /// Puts a row, the one of this number of the call, and its entries other than those of `old`.
    fn add(&mut self, table: &Table, number: usize, row: &Row<'_>, old: Option<&Row<'_>>) -> Result<()> {
        let stamp = self.put_row(table, row)?;
        let stamp = stamp.as_ref().map_or(&[][..], |stamp| stamp);
        // Entries that stay the same get the new stamp.
        let old = old.filter(|_| !table.expires());
        for index in &table.indexes {
            if self.entry(index, row, stamp, old)? {
                self.batch.put(&*self.key, &*self.value);
                if index.spec.unique {
                    self.claims.push(Claim { key: self.key.clone(), row: number, index: index.id });
                }
            }
        }
        Ok(())
    }

    /// Deletes what is not there any more after a change.
    fn take_away(&mut self, table: &Table, change: &RowChange<'_>) -> Result<()> {
        match change {
            RowChange::Insert(_) => Ok(()),
            RowChange::Update(old, new) if old.primary_key == new.primary_key => {
                self.remove_entries(table, old, Some(new))
            }
            RowChange::Update(old, _) | RowChange::Delete(old) => self.remove(table, old),
        }
    }

    /// Deletes a row, and its entries.
    fn remove(&mut self, table: &Table, row: &Row<'_>) -> Result<()> {
        table.definition.primary.begin(&mut self.key);
        self.key.extend_from_slice(row.primary_key);
        self.batch.delete(&*self.key);
        self.remove_entries(table, row, None)
    }

    /// Deletes the entries of a row other than those of `new`.
    fn remove_entries(&mut self, table: &Table, row: &Row<'_>, new: Option<&Row<'_>>) -> Result<()> {
        if table.expires() {
            return self.remove_expiring(table, row, new);
        }
        for index in &table.indexes {
            if self.entry(index, row, &[], new)? {
                self.batch.single_delete(&*self.key);
                if index.spec.unique {
                    self.freed.push(self.key.clone());
                }
            }
        }
        Ok(())
    }

    /// Makes key and value of a row's entry. Returns whether there is one that `other` does not have too. In an index that is being built, the entry of `other` may be
    /// missing, so nothing is left alone.
    fn entry(&mut self, index: &Index, row: &Row<'_>, stamp: &[u8], other: Option<&Row<'_>>) -> Result<bool> {
        if !self.entry_of(index, row, stamp)? {
            return Ok(false);
        }
        let Some(other) = other.filter(|_| !index.is_building) else { return Ok(true) };
        let has_other = index.entry_of(other, stamp, &mut self.other_key, &mut self.other_value)?;
        Ok(!has_other || self.other_key != self.key || self.other_value != self.value)
    }
}
