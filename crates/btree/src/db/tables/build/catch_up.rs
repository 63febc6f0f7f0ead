//! Bringing a new index up to what its table became while it was built.
//!
//! The index has the entries of a view. Whoever changes a row notes its primary key; what the row yields now then takes the place of what it yielded before. Who it was that changed it, and how
//! often, does not matter. A row that somebody changed who has not ended is left for later: he may undo it.
//!
//! What goes goes before anything comes, as within a batch: rows may take over keys of a unique index from each other. Between two looks at a row it may change, and is noted once more. So in the midst of it a key may have
//! an entry of a row that is to be looked at again: who wants the key waits for that, and is looked at once more himself.

use super::super::super::state::{OpenTree, State};
use super::super::super::transactions::View;
use super::super::Table;
use super::super::entry::EntryForm;
use super::super::standing::busy;
use crate::mtr::{Close, close_group};
use crate::page::{self, FLAG_DELETED, Stamp};
use crate::tree::EntryOp;
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::text_table::Shown;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};

/// So few rows are left for when nobody else changes any. Tests look at nearly all before.
const FEW: usize = if cfg!(any(test, feature = "testing")) { 2 } else { 64 };

/// Rows that are looked at between two wakings of jobs.
const ROWS: usize = 256;

/// An entry, and how many of its bytes are the index key.
type Entry = (Vec<u8>, usize);

/// A new index that nobody reads yet.
#[derive(Debug)]
pub(super) struct CatchUp<'a, 's> {
    state: &'a Arc<State>,
    table: Arc<Table>,
    spec: &'s IndexSpec,
    form: EntryForm,
    index: Arc<OpenTree>,
    /// What the index was built from.
    view: View,
    /// The entries of rows that were looked at since. The others have those of the view.
    entries: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Rows that are to be looked at again.
    later: BTreeSet<Vec<u8>>,
    /// Entries that the index has.
    count: u64,
}

impl Drop for CatchUp<'_, '_> {
    fn drop(&mut self) {
        self.state.tables.forget_index(&self.index);
    }
}

impl<'a, 's> CatchUp<'a, 's> {
    /// An index in a tablespace, with `count` entries of a view.
    pub(super) fn new(
        state: &'a Arc<State>,
        table: &Arc<Table>,
        spec: &'s IndexSpec,
        space: u32,
        view: View,
        count: u64,
    ) -> Result<Self> {
        let definition = table.definition.with_index(spec, space)?;
        let index = definition.indexes.last().ok_or_else(|| Error::corrupt("a definition lacks its last index"))?;
        let _writer = state.writer.lock();
        state.check_open()?;
        let index = Arc::new(definition.open_index(index, &state.pool, &state.gate)?);
        // What waits for its leaves finds it.
        state.tables.add_index(&index);
        let form = EntryForm::of(spec);
        let (entries, later) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { state, table: Arc::clone(table), spec, form, index, view, entries, later, count })
    }

    /// Entries that the index has.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Looks at rows that changed, while others do, until few are left, or it gets no nearer to that.
    pub(super) fn approach(&mut self) -> Result<()> {
        let mut last = usize::MAX;
        loop {
            let rows = self.take()?;
            if rows.len() <= FEW || rows.len() > last / 4 * 3 {
                self.later = rows;
                return Ok(());
            }
            last = rows.len();
            self.look_at(rows)?;
        }
    }

    /// Looks at what is left, while nobody changes rows: the index has their entries afterwards.
    pub(super) fn finish(&mut self) -> Result<()> {
        let rows = self.take()?;
        self.look_at(rows)?;
        if self.later.is_empty() { Ok(()) } else { Err(busy()) }
    }

    /// The rows to be looked at.
    fn take(&mut self) -> Result<BTreeSet<Vec<u8>>> {
        let mut rows = self.table.standing.take()?;
        rows.append(&mut self.later);
        Ok(rows)
    }

    fn look_at(&mut self, rows: BTreeSet<Vec<u8>>) -> Result<()> {
        let mut coming = Vec::new();
        for (number, row) in (1..).zip(rows) {
            if self.take_out(&row)? {
                coming.push(row);
            }
            self.go_on(number)?;
        }
        for (number, row) in (1..).zip(coming) {
            self.put_in(row)?;
            self.go_on(number)?;
        }
        self.state.wake_jobs();
        Ok(())
    }

    fn go_on(&self, number: usize) -> Result<()> {
        if number.is_multiple_of(ROWS) {
            self.state.wake_jobs();
            self.table.standing.check_noted()?;
        }
        Ok(())
    }

    /// Removes the entry of a row that yields another one now, or none. Returns whether one is to come.
    fn take_out(&mut self, row: &[u8]) -> Result<bool> {
        let state = self.state;
        let old = match self.entries.get(row) {
            Some(entry) => entry.clone(),
            None => match state.read_row_of(&self.view, &self.table.rows, row)? {
                Some(value) => self.entry_of(row, &value)?.map(|(entry, _)| entry),
                None => None,
            },
        };
        state.bring_in(&self.table.rows, row);
        old.iter().for_each(|entry| state.bring_in(&self.index, entry));
        let _writer = state.lock_with_room(self.room())?;
        let Some(now) = self.entry_now(row)? else {
            self.later.insert(row.to_vec());
            return Ok(false);
        };
        if old.as_ref() == now.as_ref().map(|(entry, _)| entry) {
            return Ok(false);
        }
        if let Some(entry) = &old {
            self.apply(entry, EntryOp::Remove { only_if: None })?;
            self.count = self.count.saturating_sub(1);
        }
        self.entries.insert(row.to_vec(), None);
        Ok(now.is_some())
    }

    /// Adds the entry of a row that has none.
    fn put_in(&mut self, row: Vec<u8>) -> Result<()> {
        let _writer = self.state.lock_with_room(self.room())?;
        let Some(now) = self.entry_now(&row)? else {
            self.later.insert(row);
            return Ok(());
        };
        let Some((entry, key_len)) = now else { return Ok(()) };
        let key = entry.get(..key_len).unwrap_or_default();
        if let Some(other) = self.holder_of(key)? {
            if self.later.contains(&other) || self.table.standing.is_noted(&other) {
                self.later.insert(row);
                return Ok(());
            }
            let error = Error::new(ErrorKind::AlreadyExists, format!("another row has the same key {}", Shown(key)));
            return Err(self.at_row(&row, error));
        }
        self.apply(&entry, EntryOp::Insert { stamp: None })?;
        self.count += 1;
        self.entries.insert(row, Some(entry));
        Ok(())
    }

    /// The entry that a row yields. `None`: somebody changed it who has not ended. For who holds the lock of writers.
    fn entry_now(&self, row: &[u8]) -> Result<Option<Option<Entry>>> {
        let found = self.table.rows.live()?.get(row, |flags, bytes| {
            let is_active = Stamp::of(flags, bytes).is_some_and(|stamp| self.state.transactions.is_active(stamp.id));
            (is_active, (flags & FLAG_DELETED == 0 && !is_active).then(|| page::body(flags, bytes).to_vec()))
        })?;
        match found {
            Some((true, _)) => Ok(None),
            Some((false, Some(value))) => self.entry_of(row, &value).map(Some),
            _ => Ok(Some(None)),
        }
    }

    fn entry_of(&self, row: &[u8], value: &[u8]) -> Result<Option<Entry>> {
        let mut entry = Vec::new();
        let key_len = self.form.put(self.spec, row, value, &mut entry).map_err(|error| self.at_row(row, error))?;
        if entry.len() > page::max_key_len(self.state.pool.page_len()) {
            let error = Error::new(ErrorKind::LimitExceeded, "an entry takes no more than an eighth of a page");
            return Err(self.at_row(row, error));
        }
        Ok(key_len.map(|key_len| (entry, key_len)))
    }

    /// The row that has an index key, if the index is unique.
    fn holder_of(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if !self.spec.unique || is_planted(PlantedBug::UniqueIsNotChecked) {
            return Ok(None);
        }
        let mut holder = None;
        self.state.each_entry(self.index.live()?, key, |entry, _, _| {
            let mut primary_key = Vec::new();
            let read = self.form.read(self.spec, entry, &mut primary_key);
            holder.get_or_insert(read.map(|entry| entry.primary_key.to_vec()));
        })?;
        holder.transpose()
    }

    /// Changes an entry, as a group of its own.
    fn apply(&self, entry: &[u8], op: EntryOp) -> Result<()> {
        let tree = self.index.live()?;
        let outcome = tree.apply_entry(entry, op);
        close_group(&self.state.pool)?;
        if outcome? {
            // That it can't be done now is no error: the tree is as good as before.
            let _ = tree.merge_at(entry, Close::Group);
        }
        Ok(())
    }

    /// Bytes of the redo log that the change of an entry may need.
    fn room(&self) -> u64 {
        12 * self.state.pool.page_len() as u64
    }

    #[cold]
    fn at_row(&self, row: &[u8], error: Error) -> Error {
        let (index, table) = (&self.spec.name, &self.table.definition.name);
        let message = format!("index {index} of table {table}: the row {}, which changed meanwhile", Shown(row));
        Error::new(error.kind(), message).with_source(error)
    }
}
