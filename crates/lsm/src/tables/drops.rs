//! Dropping a table, and giving its space back.

use super::TableDb;
use super::dictionary::{dropped_key, table_key};
use super::layout::IndexId;
use crate::batch::WriteBatch;
use crate::options::{CompactRangeOptions, ReadOptions};
use siltstone_base::engine::TableId;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

impl TableDb {
    /// Drops a table with its indexes. It is gone when this returns, also after a crash; its space comes back as compactions
    /// reach it, or at once with [`reclaim`](Self::reclaim). Inserts that run beside the drop are lost with the table.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, and those of a write.
    pub fn drop_table(&self, table: TableId) -> Result<()> {
        let mut dictionary = self.dictionary.lock();
        let definition = dictionary
            .tables
            .values()
            .find(|definition| definition.primary.0 == table.0)
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no table has this id"))?;
        let mut batch = WriteBatch::new();
        batch.delete_cf(&self.system, table_key(&definition.name));
        for id in definition.ids() {
            batch.put_cf(&self.system, dropped_key(id), []);
        }
        self.write_dictionary(&mut batch)?;
        dictionary.tables.remove(&definition.name);
        let mut tables = Vec::clone(&self.open_tables.load());
        tables.retain(|other| other.id() != table);
        self.open_tables.store(Arc::new(tables));
        self.dropped.add(definition.ids());
        drop(dictionary);
        // The table is gone whatever comes of this: what is left is found by compactions.
        for id in definition.ids() {
            let _ = self.db.delete_files_in_range(&self.rows, &id.to_bytes(), &id.end());
        }
        Ok(())
    }

    /// Rewrites what still holds entries of dropped tables, so that their space comes back now.
    pub fn reclaim(&self) -> Result<()> {
        let options = CompactRangeOptions::default().force_bottommost(true);
        for id in self.dropped.all() {
            self.db.delete_files_in_range(&self.rows, &id.to_bytes(), &id.end())?;
            if self.has_entries(id)? {
                self.db.compact_range(&self.rows, Some(&id.to_bytes()), Some(&id.end()), &options)?;
            }
        }
        Ok(())
    }

    /// Removes the marks of dropped indexes that have no entry any more. REQUIRES: the database is being opened. Later, an
    /// insert that began before a drop could still bring entries behind a mark.
    pub(super) fn forget_removed(&self) -> Result<()> {
        let mut removed = Vec::new();
        for id in self.dropped.all() {
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
        self.dropped.remove(&removed);
        Ok(())
    }

    /// Whether the shared family has a live entry of this index.
    fn has_entries(&self, id: IndexId) -> Result<bool> {
        let bounds = ReadOptions::default().iterate_upper_bound(Some(id.end().to_vec())).fill_cache(false);
        let mut entries = self.db.iter_cf(&self.rows, &bounds)?;
        entries.seek(&id.to_bytes());
        entries.status()?;
        Ok(entries.valid())
    }
}
