//! Adding an index to a table whose rows go on changing.
//!
//! 1. The dictionary has the index, marked as being built; writers maintain it from now on, readers refuse it. A crash leaves the mark, and the next opening drops the index.
//! 2. Whoever began to write before that, and does not know of the index, is waited for.
//! 3. A snapshot. Every row that it shows gets its entry: many of them together in tables, where that does no harm (see [load](super::load)); else one by one, unless the row changed since: then its writer has made the entry. Of a lazy table whose rows do not expire the entry may be put
//!    in any case, since nobody counts it that its row does not yield.
//! 4. The mark goes.

use super::fetch::at_position;
use super::index::{Index, Table, eager_spec};
use super::layout::{IndexId, without_id};
use super::{AnyTableId, Dictionary, TableDb};
use crate::batch::WriteBatch;
use crate::db::Watched;
use crate::key::SeqNo;
use crate::options::{FlushOptions, ReadOptions};
use crate::snapshot::Snapshot;
use siltstone_base::engine::{LazyTableId, Row, TableId};
use siltstone_base::index_spec::{IndexSpec, LazyIndexSpec};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::text_table::Shown;
use siltstone_base::{Error, ErrorKind, Result};

/// Rows whose entries are written together. Of a unique index, one: its key is looked for while it is locked.
const ROWS: usize = 64;

/// The entry of a row from the snapshot: the row's key, and key and value of the entry.
type Entry = (Vec<u8>, Vec<u8>, Vec<u8>);

impl TableDb {
    /// Adds an index to a table behind those that it has, while rows may be read and changed; while a unique one is added, rows can only be read, and changes fail with `Busy`. Returns
    /// its position. It can be read when this returns.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, `Busy` while another index is added to any table, or where rows expire and the clock is not [trusted](crate::Db::confirm_clock), `AlreadyExists` if rows have the same key in a unique index, `Corruption` if a
    /// row does not decode, with its position in the order of primary keys, those of [`create_table`](Self::create_table), and those of reads and writes. The table then has no such
    /// index; if the dictionary cannot be written, from the next change of a row or a table on that comes when it can, at the latest from the next opening on.
    pub fn add_index(&self, table: TableId, spec: &IndexSpec) -> Result<usize> {
        self.add(table.into(), spec, false)
    }

    /// Adds an index to a lazy table.
    ///
    /// # Errors
    ///
    /// Those of [`add_index`](Self::add_index).
    pub fn add_lazy_index(&self, table: LazyTableId, spec: &LazyIndexSpec) -> Result<usize> {
        self.add(table.into(), &eager_spec(spec), true)
    }

    /// What says that an index is whole must not outlive its entries.
    fn keep_entries(&self) -> Result<()> {
        match self.ground.write_options.disable_wal {
            true => self.ground.db.flush_families(&[&self.ground.rows], &FlushOptions::default()),
            false => Ok(()),
        }
    }

    fn add(&self, id: AnyTableId, spec: &IndexSpec, lazy: bool) -> Result<usize> {
        let (table, index, learned) = self.begin_index(id, spec, lazy)?;
        let position = table.indexes.len() - 1;
        let waited = self.writers.wait_for_earlier(self.ground.db.executor());
        let filled = waited.and_then(|()| self.fill_index(&table, &index, learned));
        let filled = filled.and_then(|()| self.keep_entries());
        let ended = self.end_index(id, index.id, filled.is_ok());
        filled.and(ended).map(|()| position)
    }

    /// Lets writers maintain the new index. Returns the newest number from before they learn of it, too.
    fn begin_index(&self, id: AnyTableId, spec: &IndexSpec, lazy: bool) -> Result<(Arc<Table>, Index, SeqNo)> {
        self.remove_left_index();
        let mut dictionary = self.dictionary.lock();
        if dictionary.building.is_some() {
            return Err(Error::new(ErrorKind::Busy, "an index is being added"));
        }
        let table = self.table(id)?;
        table.definition.check_mode(lazy)?;
        if table.expires() {
            // Rows that it hides now would have no entries when they are seen again.
            self.ground.db.check_clock()?;
        }
        let mut definition = dictionary.table(id)?.clone();
        let new_id = dictionary.next_id;
        definition.add(spec, new_id)?;
        let Some(own) = definition.indexes.last_mut() else { return Err(not_there()) };
        own.building = true;
        let index = Index::new(own, spec, table.expires());
        // The id is at most the largest one, whose successor is none.
        self.store_definition(&mut dictionary, definition.clone(), Some(new_id + 1), &[])?;
        if let Err(error) = self.adopt(&definition) {
            // Nothing has its id. Where that fails, too, the next opening drops the index, and until then none is added.
            definition.indexes.pop();
            self.store_definition(&mut dictionary, definition, None, &[])?;
            return Err(error);
        }
        dictionary.building = Some(definition.primary);
        let mut indexes = table.indexes.clone();
        indexes.push(index.clone());
        let table = table.with_indexes(definition, indexes);
        let learned = self.ground.db.latest_seqno();
        self.publish(Arc::clone(&table));
        Ok((table, index, learned))
    }

    /// Lets readers see the index, or takes it away again. Where neither can be written down, writers go on keeping it, as what was written may come back with a crash, until it can be taken away.
    fn end_index(&self, id: AnyTableId, index: IndexId, is_filled: bool) -> Result<()> {
        let mut dictionary = self.dictionary.lock();
        let ended = self.write_end(&mut dictionary, id, index, is_filled);
        if ended.is_err() {
            dictionary.left = Some((id, index));
            self.has_left_index.store(true, Ordering::Release);
        }
        drop(dictionary);
        if ended.is_ok() && !is_filled {
            self.give_space_back([index]);
        }
        ended
    }

    /// Takes away the index that is left of an addition that failed, if it can be written down by now. Called by all who would be told that an index is being added.
    pub(super) fn remove_left_index(&self) {
        if !self.has_left_index.load(Ordering::Acquire) {
            return;
        }
        // Its holder may be the caller of the listener that calls this.
        let Some(mut dictionary) = self.dictionary.try_lock() else { return };
        let Some((id, index)) = dictionary.left else { return };
        if self.write_end(&mut dictionary, id, index, false).is_ok() {
            self.has_left_index.store(false, Ordering::Release);
            drop(dictionary);
            self.give_space_back([index]);
        }
    }

    /// Makes the end of an addition durable, and then known.
    fn write_end(&self, dictionary: &mut Dictionary, id: AnyTableId, index: IndexId, is_filled: bool) -> Result<()> {
        let mut definition = dictionary.table(id)?.clone();
        let table = self.table(id)?;
        let mut indexes = table.indexes.clone();
        if is_filled {
            definition.indexes.iter_mut().filter(|own| own.id == index).for_each(|own| own.building = false);
            for own in indexes.iter_mut().filter(|own| own.id == index) {
                (own.is_building, own.since) = (false, self.ground.db.latest_seqno());
            }
            self.store_definition(dictionary, definition.clone(), None, &[])?;
        } else {
            definition.indexes.retain(|own| own.id != index);
            indexes.retain(|own| own.id != index);
            self.store_definition(dictionary, definition.clone(), None, &[index])?;
        }
        (dictionary.building, dictionary.left) = (None, None);
        self.publish(table.with_indexes(definition, indexes));
        if !is_filled {
            self.ground.dropped.add([index]);
        }
        Ok(())
    }

    /// Puts the entries of all rows that do not change meanwhile.
    fn fill_index(&self, table: &Table, index: &Index, learned: SeqNo) -> Result<()> {
        let snapshot = self.ground.db.snapshot();
        if self.load_index(table, index, &snapshot, learned)? {
            return Ok(());
        }
        let options = ReadOptions::default()
            .snapshot(Some(snapshot.clone()))
            .iterate_upper_bound(Some(table.definition.primary.end().to_vec()))
            .fill_cache(false);
        let mut rows = self.ground.db.iter_cf(&self.ground.rows, &options)?;
        rows.seek(&table.definition.primary.to_bytes());
        let most = if index.spec.unique { 1 } else { ROWS };
        let (mut entries, mut number): (Vec<Entry>, u64) = (Vec::with_capacity(most), 0);
        while rows.valid() {
            let row = Row { primary_key: without_id(rows.key()), value: rows.value() };
            let (mut key, mut value) = (Vec::new(), Vec::new());
            if index.entry_to_fill(&row, number, &mut key, &mut value).map_err(|error| at_position(error, number))? {
                entries.push((rows.key().to_vec(), key, value));
            }
            if entries.len() == most {
                self.fill(table, index, std::mem::take(&mut entries), &snapshot, number)?;
            }
            number += 1;
            rows.next();
        }
        rows.status()?;
        self.fill(table, index, entries, &snapshot, number)
    }

    fn fill(
        &self,
        table: &Table,
        index: &Index,
        mut entries: Vec<Entry>,
        snapshot: &Snapshot,
        number: u64,
    ) -> Result<()> {
        let is_changed = |row: &[u8]| self.ground.db.is_changed_since(&self.ground.rows, row, snapshot.seqno());
        while !entries.is_empty() {
            let mut batch = WriteBatch::new();
            for (_, key, value) in &entries {
                if !table.definition.lazy && !table.expires() {
                    // A writer that knows of the index may have put the entry before the snapshot: it is single-deleted once for each time that it is put.
                    batch.single_delete(key);
                }
                batch.put(key, value);
            }
            if table.definition.lazy && !table.expires() {
                return self.ground.db.write(&mut batch, &self.ground.write_options);
            }
            let _locked = match &entries[..] {
                [(row, key, _)] if index.spec.unique => {
                    let locked = self.lock_keys([&key[..]])?;
                    if self.ground.db.get(key)?.is_some() {
                        // The row's own writer put the entry, or the row gave its key up since, or another one has the same.
                        let message = format!(
                            "unique index {} of table {}: row {number}, in the order of primary keys from 0, has the key of another row, {}",
                            index.spec.name,
                            table.definition.name,
                            Shown(without_id(key))
                        );
                        // A row that has expired since the snapshot gives its key up, too.
                        return match is_changed(row)? || (table.expires() && self.ground.db.get(row)?.is_none()) {
                            true => Ok(()),
                            false => Err(Error::new(ErrorKind::AlreadyExists, message)),
                        };
                    }
                    Some(locked)
                }
                _ => None,
            };
            let watched: Vec<Watched> = entries
                .iter()
                .map(|(row, _, _)| Watched {
                    family: self.ground.rows.clone(),
                    key: row.clone(),
                    seqno: snapshot.seqno(),
                })
                .collect();
            match self.ground.db.write_if_unchanged(watched, &mut batch, &self.ground.write_options) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Busy => {}
                Err(error) => return Err(error),
            }
            let mut unchanged = Vec::with_capacity(entries.len());
            for entry in entries {
                if !is_changed(&entry.0)? {
                    unchanged.push(entry);
                }
            }
            entries = unchanged;
        }
        Ok(())
    }

    /// Drops the indexes that a crash left half built. REQUIRES: the database is being opened.
    pub(super) fn forget_unfinished(&self) -> Result<()> {
        self.clear_sorting()?;
        let mut dictionary = self.dictionary.lock();
        let is_half_built = |definition: &&super::TableDefinition| definition.indexes.iter().any(|own| own.building);
        let unfinished: Vec<_> = dictionary.tables.values().filter(is_half_built).cloned().collect();
        for mut definition in unfinished {
            let ids: Vec<IndexId> = definition.indexes.iter().filter(|own| own.building).map(|own| own.id).collect();
            definition.indexes.retain(|own| !own.building);
            self.store_definition(&mut dictionary, definition, None, &ids)?;
            self.ground.dropped.add(ids);
        }
        Ok(())
    }
}

#[cold]
fn not_there() -> Error {
    Error::new(ErrorKind::NotFound, "the index is not there")
}
