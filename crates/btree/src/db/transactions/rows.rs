//! Rows of tables, and their entries, in a transaction.

use super::super::state::State;
use super::super::tables::{OpenTable, Plan, Step, walk};
use super::handle::Transaction;
use crate::mtr::close_group;
use crate::page::{self, FLAG_DELETED, Stamp};
use siltstone_base::engine::{KvOp, Row, RowChange, TableId};
use siltstone_base::row_locks::LockMode;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// What is to become of a row.
#[derive(Debug, Clone, Copy)]
enum Wanted<'a> {
    Insert(&'a [u8]),
    Update(&'a [u8]),
    Delete,
}

/// Locks that a call took, of its row and of keys of unique indexes: tablespace and key.
#[derive(Debug, Default)]
struct Took(Vec<(u32, Vec<u8>)>);

impl Transaction {
    /// Inserts a row with its index entries.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id; `AlreadyExists` for a primary key, or a key of a unique index, that another row has; `Busy` if an index that is about to be [added](crate::Db::add_index) is waited for too long; those of
    /// [`get_for_update`](Self::get_for_update) and of [`Db::put`](crate::Db::put).
    pub fn insert_row(&mut self, table: TableId, row: Row<'_>) -> Result<()> {
        self.change_table(table, row.primary_key, Wanted::Insert(row.value)).map(drop)
    }

    /// Gives a row another value. Entries that stay the same are left alone.
    ///
    /// # Errors
    ///
    /// Those of [`insert_row`](Self::insert_row); `NotFound` if there is no such row.
    pub fn update_row(&mut self, table: TableId, row: Row<'_>) -> Result<()> {
        self.change_table(table, row.primary_key, Wanted::Update(row.value)).map(drop)
    }

    /// Removes a row with its index entries; returns whether there was one. Its primary key is locked also if there was none.
    ///
    /// # Errors
    ///
    /// Those of [`insert_row`](Self::insert_row).
    pub fn delete_row(&mut self, table: TableId, primary_key: &[u8]) -> Result<bool> {
        self.change_table(table, primary_key, Wanted::Delete)
    }

    /// The value of a row, if the transaction sees it.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id; those of [`get`](Self::get).
    pub fn get_row(&mut self, table: TableId, primary_key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.state.tables.get(table)?;
        self.get_of(&table.table.rows, primary_key)
    }

    /// Locks a row, which need not exist, and reads its newest value, which nobody changes before the transaction ends.
    ///
    /// # Errors
    ///
    /// Those of [`get_row`](Self::get_row) and of [`get_for_update`](Self::get_for_update).
    pub fn get_row_for_update(&mut self, table: TableId, primary_key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.state.tables.get(table)?;
        self.get_for_update_of(&table.table.rows, primary_key)
    }

    /// Walks a secondary index as the transaction sees it now, from the first entry at or after `from`, over at most `limit` entries, and hands each to `entry`: the
    /// index key followed by the primary key. Returns their number.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id or it has no such index; those of [`get`](Self::get).
    pub fn scan_index(
        &mut self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        let table = self.state.tables.get(table)?;
        let mut cursor = self.cursor_of(table.index(index)?)?;
        table.walk_index(index, &mut cursor, from, limit, entry)
    }

    /// Walks the rows of a table as the transaction sees them now, from the first one whose primary key is at or after `from`, over at most `limit` rows. Returns their
    /// number.
    ///
    /// # Errors
    ///
    /// Those of [`get_row`](Self::get_row).
    pub fn scan_rows(
        &mut self,
        table: TableId,
        from: &[u8],
        limit: usize,
        found: &mut dyn FnMut(Row<'_>),
    ) -> Result<usize> {
        let table = self.state.tables.get(table)?;
        let mut cursor = self.cursor_of(&table.table.rows)?;
        walk(&mut cursor, from, limit, &mut |primary_key, value| found(Row { primary_key, value }))
    }

    fn change_table(&mut self, table: TableId, key: &[u8], wanted: Wanted<'_>) -> Result<bool> {
        self.check_doom()?;
        let state = Arc::clone(&self.state);
        let mut took = Took::default();
        let outcome = loop {
            let changed =
                state.tables.get(table).and_then(|table| self.try_change_table(&state, &table, key, wanted, &mut took));
            // A table that has other indexes by now is planned for anew.
            if let Some(outcome) = changed.transpose() {
                break outcome;
            }
        };
        if outcome.is_err() && !self.is_doomed {
            // A call that fails keeps no lock that it took, unless its change is there still.
            took.0.iter().for_each(|(space, key)| state.locks.unlock(self.id, *space, key));
        }
        state.wake_jobs();
        outcome
    }

    /// `None`: the table has other indexes by now.
    fn try_change_table(
        &mut self,
        state: &Arc<State>,
        table: &OpenTable,
        key: &[u8],
        wanted: Wanted<'_>,
        took: &mut Took,
    ) -> Result<Option<bool>> {
        let rows = &table.table.rows;
        let (op, value_len) = match wanted {
            Wanted::Insert(value) | Wanted::Update(value) => (KvOp::Put { key, value }, value.len()),
            Wanted::Delete => (KvOp::Delete { key }, 0),
        };
        let needed = state.check_ops(&[(rows, op)])? + state.room_for(key, value_len) + state.room_for_entries(table);
        state.hold_back();
        state.bring_in(rows, key);
        loop {
            let writer = state.lock_with_room(needed)?;
            let live = rows.live()?;
            let standing = &table.table.standing;
            if standing.is_replaced() {
                return Ok(None);
            }
            // Who adds an index waits for this transaction, if it changed the table before: it goes on.
            if standing.is_held() && !state.has_changed(self.id, &table.table)? {
                drop(writer);
                // Whoever else is waited for may need them.
                took.0.drain(..).for_each(|(space, key)| state.locks.unlock(self.id, space, &key));
                state.wait_while_held(&table.table, self.timeout)?;
                return Ok(None);
            }
            standing.note(key);
            let before = live.raw(key)?;
            let stamp = before.as_ref().and_then(|(flags, bytes)| Stamp::of(*flags, bytes));
            if state.is_row_locked(self.id, rows, key, stamp) {
                let had_lock = self.has_lock(rows, key);
                state.lock_row_from(writer, self.id, rows, key, self.timeout)?;
                if !had_lock {
                    took.0.push((live.space(), key.to_vec()));
                }
                continue;
            }
            self.check_unchanged(rows, key, stamp)?;
            // A batch that is not safe yet is safe before this transaction is, also where there is nothing to change any more.
            self.seen_end = Some(state.redo.closed());
            let old =
                live.get(key, |flags, bytes| (flags & FLAG_DELETED == 0).then(|| page::body(flags, bytes).to_vec()))?;
            let old = old.flatten();
            let row = |value| Row { primary_key: key, value };
            let change = match (wanted, &old) {
                (Wanted::Insert(value), None) => RowChange::Insert(row(value)),
                (Wanted::Update(value), Some(old)) => RowChange::Update(row(old), row(value)),
                (Wanted::Delete, Some(old)) => RowChange::Delete(row(old)),
                (Wanted::Delete, None) => {
                    // There is no row whose stamp could be the lock.
                    state.locks.try_lock(self.id, live.space(), key, LockMode::Exclusive)?;
                    return Ok(Some(false));
                }
                (Wanted::Insert(_), Some(_)) => {
                    return Err(Error::new(ErrorKind::AlreadyExists, "a row of this primary key exists"));
                }
                (Wanted::Update(_), None) => {
                    return Err(Error::new(ErrorKind::NotFound, "no row has this primary key"));
                }
            };
            let plan = Plan::new(table, std::iter::once((0, change)))?;
            plan.check_entries(table, state.pool.page_len())?;
            if let Some((index, index_key)) = self.locked_key(state, table, &plan)? {
                let tree = table.index(index)?;
                let had_lock = self.has_lock(tree, index_key);
                match state.lock_key_from(writer, self.id, tree, index_key, self.timeout) {
                    // The index was dropped meanwhile.
                    Err(_) if table.table.standing.is_replaced() => return Ok(None),
                    outcome => outcome?,
                }
                if !had_lock {
                    took.0.push((tree.tree().space(), index_key.to_vec()));
                }
                continue;
            }
            for (index, index_key, _) in plan.unique_keys(table).filter(|(_, _, is_insertion)| *is_insertion) {
                state.check_unique(table.index(index)?, index_key)?;
            }
            let before = before.as_ref().map(|(flags, bytes)| (*flags, bytes.as_slice()));
            self.apply_plan(state, table, &plan, before)?;
            return Ok(Some(true));
        }
    }

    /// A key of a unique index that the plan needs and somebody else may have the right to.
    fn locked_key<'p>(
        &self,
        state: &State,
        table: &'p OpenTable,
        plan: &'p Plan<'_>,
    ) -> Result<Option<(usize, &'p [u8])>> {
        for (index, key, is_insertion) in plan.unique_keys(table) {
            if state.is_key_locked(self.id, table.index(index)?, key, is_insertion)? {
                return Ok(Some((index, key)));
            }
        }
        Ok(None)
    }

    /// Makes the steps of a plan as one group, or none of them. For who holds the lock of writers.
    fn apply_plan(
        &mut self,
        state: &State,
        table: &OpenTable,
        plan: &Plan<'_>,
        before: Option<(u8, &[u8])>,
    ) -> Result<()> {
        let too_many = || Error::new(ErrorKind::LimitExceeded, "a transaction makes less than 2^32 changes");
        u32::try_from(plan.len()).ok().and_then(|steps| self.number.checked_add(steps)).ok_or_else(too_many)?;
        let first = self.number;
        let mut outcome = Ok(());
        for step in plan.steps() {
            // Before anything changes, and also for a change that fails: its record may be there still.
            self.number += 1;
            let stamp = Stamp { id: self.id, number: self.number };
            outcome = match step {
                Step::Row { op: KvOp::Put { key, value }, .. } => {
                    state.change_row(table.table.rows.tree(), stamp, key, Some(value), before)
                }
                Step::Row { op: KvOp::Delete { key } | KvOp::DeleteOnce { key }, .. } => {
                    state.change_row(table.table.rows.tree(), stamp, key, None, before)
                }
                Step::Entry { index, entry, is_insertion, .. } => {
                    table.index(index).and_then(|tree| state.change_entry(tree.tree(), stamp, entry, is_insertion))
                }
            };
            if outcome.is_err() {
                break;
            }
        }
        if outcome.is_err() {
            self.is_doomed = self.take_back(state, first).is_err();
        }
        close_group(&state.pool)?;
        outcome
    }

    /// Undoes the changes behind a number, all of the open group.
    #[cold]
    fn take_back(&self, state: &State, first: u32) -> Result<()> {
        for number in (first + 1..=self.number).rev() {
            let stamp = Stamp { id: self.id, number };
            if let Some(record) = state.undo.get(stamp)? {
                state.undo_in_group(stamp, &record)?;
            }
        }
        Ok(())
    }
}

impl State {
    /// Bytes of the redo log that the entries of one row may need.
    fn room_for_entries(&self, table: &OpenTable) -> u64 {
        // Of each index an old entry and a new one; for each of them a split in its tree, one in the undo log, and their records.
        10 * (table.len() * self.pool.page_len()) as u64
    }
}
