//! Dropping one index of a table.

use super::super::Db;
use super::super::state::State;
use crate::event::Event;
use crate::mtr::{Close, Mtr};
use crate::tree::Value;
use siltstone_base::engine::TableId;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

impl Db {
    /// Drops an index of a table, by its name, and gives its space back to the file system. It is gone when this returns, also after a crash, and those behind it move up by one
    /// position. It waits for no transaction; what is still read of the index ends with `NotFound`.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, or it has no such index; `Busy` while an index is added to it; those of [`put`](Self::put). A file that can't be deleted goes when the
    /// database is opened again, and is no error.
    pub fn drop_index(&self, table: TableId, name: &str) -> Result<()> {
        self.0.drop_index(table, name)
    }
}

impl State {
    fn drop_index(self: &Arc<Self>, id: TableId, name: &str) -> Result<()> {
        self.make_room_for_trees(self.tables.get(id)?.len() + 1)?;
        let writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        let open = self.tables.get(id)?;
        let old = &open.table;
        old.standing.check()?;
        let position = old.definition.indexes.iter().position(|index| index.name == name);
        let (Some(position), mut specs, mut trees) = (position, open.specs.clone(), old.indexes.clone()) else {
            let message = format!("table {} has no index {name}", old.definition.name);
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let definition = old.definition.without_index(position);
        specs.remove(position);
        let dropped = trees.remove(position);
        let space = dropped.tree().space();
        self.define_without(&old.definition.rows(), &definition.rows(), position).map_err(|error| {
            // The group must not end with half a table in it.
            self.health.fail(error)
        })?;
        let mut mtr = Mtr::new(&self.pool);
        mtr.drop_space(space);
        mtr.commit(Close::Group)?;
        self.redo.sync_all()?;
        dropped.set_dropped();
        let table = Arc::new(old.with(definition, trees));
        self.tables.replace(old, &table, specs);
        if let Some((key, _)) = old.definition.rows().last() {
            let _ = self.catalog.merge_at(key, Close::Group);
        }
        drop(writer);
        let (table, index) = (table.definition.name.clone(), name.to_owned());
        self.events.note(|| Event::IndexDropped { table, index });
        self.wake_jobs();
        self.pool.discard(space);
        // A file that can't be deleted now goes when the database is opened again: nothing names it.
        let _ = self.spaces.delete(space);
        Ok(())
    }

    /// Lets the catalog say what a table is without an index: the rows of those behind it move up, and the last one goes.
    fn define_without(&self, old: &[(Vec<u8>, Vec<u8>)], new: &[(Vec<u8>, Vec<u8>)], position: usize) -> Result<()> {
        for (key, value) in new.iter().skip(position + 1) {
            self.catalog.put(key, Value::inline(value), false, Close::Open, Close::Open, &mut |_| Ok(()))?;
        }
        for (key, _) in old.iter().skip(new.len()) {
            self.catalog.delete(key, false, Close::Open, &mut |_| Ok(()))?;
        }
        Ok(())
    }
}
