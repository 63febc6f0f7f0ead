//! Dropping a table, and giving its space back.

use super::dictionary::{TableDefinition, dropped_key, table_key};
use super::layout::IndexId;
use super::{AnyTableId, Dictionary, TableDb};
use crate::batch::WriteBatch;
use crate::options::{CompactRangeOptions, ReadOptions};
use siltstone_base::{Error, ErrorKind, Result};

impl TableDb {
    /// Drops a table with its indexes. It is gone when this returns, also after a crash. The space of files that hold nothing else is back at once; the others, at most two for each level and those of level 0, are rewritten in the background soon, or
    /// now with [`reclaim`](Self::reclaim), which styles other than [`Leveled`](crate::CompactionStyle::Leveled) need. Inserts that run beside the drop are lost with the table; reads that run beside it see all of what they read, or end with
    /// `NotFound`.
    ///
    /// # Errors
    ///
    /// `NotFound` if no table has this id, `Busy` while an index is added to it, and those of a write.
    pub fn drop_table(&self, table: impl Into<AnyTableId>) -> Result<()> {
        let table = table.into();
        self.remove_left_index();
        let mut dictionary = self.dictionary.lock();
        let definition = dictionary.table(table)?.clone();
        dictionary.check_not_building(&definition)?;
        self.remove_definition(&mut dictionary, &definition)?;
        let mut tables = Vec::clone(&self.ground.open_tables.load());
        tables.retain(|other| other.number() != table.0);
        self.ground.open_tables.store(tables);
        self.ground.dropped.add(definition.ids());
        drop(dictionary);
        self.give_space_back(definition.ids());
        Ok(())
    }

    /// Drops an index of a table, by its name. It is gone when this returns, also after a crash, and those behind it move up by one position; its space comes
    /// back like that of a [table](Self::drop_table).
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, or it has no such index; `Busy` while an index is added to it; and those of a write.
    pub fn drop_index(&self, table: impl Into<AnyTableId>, name: &str) -> Result<()> {
        let id = table.into();
        self.remove_left_index();
        let mut dictionary = self.dictionary.lock();
        let mut definition = dictionary.table(id)?.clone();
        dictionary.check_not_building(&definition)?;
        let table = self.table(id)?;
        let position = definition.indexes.iter().position(|index| index.name == name);
        let Some(position) = position else {
            let message = format!("table {} has no index {name}", definition.name);
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let dropped = definition.indexes.remove(position).id;
        self.store_definition(&mut dictionary, definition.clone(), None, &[dropped])?;
        let indexes = table.indexes.iter().filter(|index| index.id != dropped).cloned().collect();
        self.publish(table.with_indexes(definition, indexes));
        self.ground.dropped.add([dropped]);
        drop(dictionary);
        self.give_space_back([dropped]);
        Ok(())
    }

    /// Takes a table out of the dictionary; entries with its ids are of no table from the next opening on.
    pub(super) fn remove_definition(&self, dictionary: &mut Dictionary, definition: &TableDefinition) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_cf(&self.system, table_key(&definition.name));
        for id in definition.ids() {
            batch.put_cf(&self.system, dropped_key(id), []);
        }
        self.write_dictionary(&mut batch)?;
        dictionary.tables.remove(&definition.name);
        Ok(())
    }

    /// Deletes the files that hold nothing but entries of these indexes, which are dropped, and has those rewritten that hold others as well.
    pub(super) fn give_space_back(&self, ids: impl IntoIterator<Item = IndexId>) {
        let ranges: Vec<_> = ids.into_iter().map(|id| (id.to_bytes(), id.end())).collect();
        // They are gone whatever comes of this: what is left is found by compactions.
        for (begin, end) in &ranges {
            let _ = self.ground.db.delete_files_in_range(&self.ground.rows, begin, end);
        }
        // All at once: what is written anew for the sake of one index has nothing of the others any more.
        let _ = self.ground.db.suggest_compact_ranges(&self.ground.rows, &ranges);
    }

    /// Rewrites what still holds entries of dropped tables, and waits for it: their space is back then, but for tables that a snapshot or an iterator still reads.
    pub fn reclaim(&self) -> Result<()> {
        let options = CompactRangeOptions::default().force_bottommost(true);
        for id in self.ground.dropped.all() {
            self.ground.db.delete_files_in_range(&self.ground.rows, &id.to_bytes(), &id.end())?;
            if self.has_entries(id)? {
                self.ground.db.compact_range(&self.ground.rows, Some(&id.to_bytes()), Some(&id.end()), &options)?;
            }
        }
        Ok(())
    }

    /// Removes the marks of dropped indexes that have no entry any more. REQUIRES: the database is being opened. Later, an
    /// insert that began before a drop could still bring entries behind a mark.
    pub(super) fn forget_removed(&self) -> Result<()> {
        let mut removed = Vec::new();
        for id in self.ground.dropped.all() {
            if !self.has_entries(id)? {
                removed.push(id);
            }
        }
        if removed.is_empty() {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        for id in &removed {
            batch.delete_cf(&self.system, dropped_key(*id));
        }
        self.write_dictionary(&mut batch)?;
        self.ground.dropped.remove(&removed);
        Ok(())
    }

    /// Whether the shared family has a live entry of this index.
    fn has_entries(&self, id: IndexId) -> Result<bool> {
        let bounds = ReadOptions::default().iterate_upper_bound(Some(id.end().to_vec())).fill_cache(false);
        let mut entries = self.ground.db.iter_cf(&self.ground.rows, &bounds)?;
        entries.seek(&id.to_bytes());
        entries.status()?;
        Ok(entries.valid())
    }
}
