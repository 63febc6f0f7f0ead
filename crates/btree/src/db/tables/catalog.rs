//! Creating, opening and dropping tables: all trees of a table in one group.

use super::super::Db;
use super::super::state::State;
use super::{Table, TableDefinition};
use crate::event::Event;
use crate::mtr::{Close, Mtr, close_group};
use crate::tree::Value;
use siltstone_base::engine::{TableId, TableSpec};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

impl Db {
    /// Creates a table and opens it. It is durable when this returns, whatever [`durability`](crate::DbOptions::durability) says.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `InvalidArgument` for bad names; `LimitExceeded` for more than 64 indexes, or more than a buffer pool of this size can create at once; those of
    /// [`put`](Self::put).
    pub fn create_table(&self, spec: &TableSpec) -> Result<TableId> {
        self.0.create_table(spec)
    }

    /// Opens a table that exists and gives it its extractors.
    ///
    /// # Errors
    ///
    /// `NotFound`; `InvalidArgument` if it was created with indexes of other names, flags, lengths of keys or extractors, as far as those say who they are.
    pub fn open_table(&self, spec: &TableSpec) -> Result<TableId> {
        let state = &self.0;
        let _writer = state.writer.lock();
        state.check_open()?;
        let found = state.tables.all.read().get(&spec.name).cloned();
        let table = found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no table {}", spec.name)))?;
        table.definition.check_spec(spec)?;
        Ok(state.tables.publish(table, spec.indexes.clone()))
    }

    /// Drops a table with its indexes and gives their space back to the file system. What is still read of it ends with `NotFound`.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id; `Busy` while an index is added to it; those of [`put`](Self::put).
    pub fn drop_table(&self, table: TableId) -> Result<()> {
        self.0.drop_table(table)
    }

    /// The names of all tables, sorted, those included that were not opened yet.
    pub fn table_names(&self) -> Vec<String> {
        self.0.tables.all.read().keys().cloned().collect()
    }
}

impl State {
    fn create_table(self: &Arc<Self>, spec: &TableSpec) -> Result<TableId> {
        let trees = spec.indexes.len() + 1;
        TableDefinition::new(spec, 0)?;
        self.check_compression(self.page_compression)?;
        // Their first pages stay in memory until the group is closed.
        if 4 * trees > self.pool.frames() / 2 {
            let message = format!("the buffer pool has too few pages for creating {trees} trees at once");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        self.make_room_for_trees(trees)?;
        let _writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        if self.tables.all.read().contains_key(&spec.name) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("the table {} exists", spec.name)));
        }
        let definition = TableDefinition::new(spec, self.catalog_header()?.next_space)?;
        // Durable in their directory before the log speaks of them.
        for (created, space) in definition.spaces().enumerate() {
            if let Err(error) = self.spaces.create(space) {
                definition.spaces().take(created).for_each(|space| drop(self.spaces.delete(space)));
                return Err(error);
            }
        }
        definition.spaces().for_each(|space| self.spaces.set_compression(space, self.page_compression));
        // The table is opened within its group: what fails leaves none.
        let made = self.define_table(&definition).and_then(|()| {
            let table = Table::new(definition.clone(), &self.pool, &self.gate)?;
            Ok((Arc::new(table), close_group(&self.pool)?))
        });
        let (table, end) = match made {
            Ok(made) => made,
            Err(error) => {
                self.forget_table(&definition)?;
                return Err(error);
            }
        };
        self.redo.sync_to(end)?;
        self.tables.add(&table);
        let id = self.tables.publish(table, spec.indexes.clone());
        self.events.note(|| Event::TableCreated { name: spec.name.clone() });
        self.wake_jobs();
        Ok(id)
    }

    fn define_table(&self, definition: &TableDefinition) -> Result<()> {
        definition.spaces().try_for_each(|space| self.define_space(space, self.page_compression))?;
        for (key, value) in definition.rows() {
            self.catalog.put(&key, Value::inline(&value), false, Close::Open, Close::Open, &mut |_| Ok(()))?;
        }
        Ok(())
    }

    /// Takes back what was done for a table that could not be created: it never was.
    #[cold]
    fn forget_table(&self, definition: &TableDefinition) -> Result<()> {
        self.health.check()?;
        for (key, _) in definition.rows() {
            let outcome = self.catalog.delete(&key, false, Close::Open, &mut |_| Ok(()));
            // The group must not end with half a table in it.
            outcome.map_err(|error| self.health.fail(error))?;
        }
        definition.spaces().for_each(|space| self.forget_space(space));
        Ok(())
    }

    fn drop_table(self: &Arc<Self>, id: TableId) -> Result<()> {
        let count = self.tables.get(id)?.table.indexes.len() + 1;
        self.make_room_for_trees(count)?;
        let writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        let table = Arc::clone(&self.tables.get(id)?.table);
        table.standing.check()?;
        for (key, _) in table.definition.rows() {
            let outcome = self.catalog.delete(&key, false, Close::Open, &mut |_| Ok(()));
            // The group must not end with half a table in it.
            outcome.map_err(|error| self.health.fail(error))?;
        }
        let mut mtr = Mtr::new(&self.pool);
        table.definition.spaces().for_each(|space| mtr.drop_space(space));
        mtr.commit(Close::Group)?;
        self.redo.sync_all()?;
        table.trees().for_each(|tree| tree.set_dropped());
        self.tables.remove(&table);
        for (key, _) in table.definition.rows().iter().take(1) {
            let _ = self.catalog.merge_at(key, Close::Group);
        }
        drop(writer);
        self.events.note(|| Event::TableDropped { name: table.definition.name.clone() });
        self.wake_jobs();
        for space in table.definition.spaces() {
            self.pool.discard(space);
            // A file that can't be deleted now goes when the database is opened again: nothing names it.
            let _ = self.spaces.delete(space);
        }
        Ok(())
    }
}
