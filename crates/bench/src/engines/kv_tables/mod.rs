//! Tables over any engine of keys and values.
//!
//! The layout is MyRocks': the number of the index, big-endian, in front of every key; a row is `number || primary key ->
//! value`, an index entry `number || index key || primary key` with an empty value, and an insert is a blind put of all
//! of them in one batch. A row that goes is deleted. An entry that goes was put once since it last went, and is deleted once ([`KvOp::DeleteOnce`](siltstone_base::engine::KvOp::DeleteOnce)): a single delete, as
//! MyRocks and our LSM engine under its own tables have it, where the engine knows such a thing.
//!
//! Definitions of tables are stored in the engine ([`definition`]): a table is found again when the engine is opened anew, with its rows and under its number. Numbers are given out in the order in which tables and indexes
//! are created, and none twice.

mod build;
mod definition;
mod gate;
mod layout;
#[cfg(test)]
mod tests;

use build::{build, clear};
use definition::{Definitions, TableDefinition, after, next_row};
use gate::{Gate, Passage};
use layout::{OpenTable, key, no_index, prefix, set_key, with_key};
use siltstone_base::engine::{
    Admin, Capabilities, EngineStats, Kv, KvBatch, Row, RowChange, TableId, TableSpec, Tables, check_distinct,
};
use siltstone_base::index_scan::{IndexEntries, IndexEntry, IndexScan, walk_entries};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::sync::{Arc, Rank, RwLock};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Taken with no other lock held; held while a definition is written, and not while rows or entries are.
const RANK: Rank = Rank(2);

/// Tables over `K`. Any thread may call it. While an index is added or dropped, who changes rows of the table is refused with [`Busy`](ErrorKind::Busy); who reads them is not, and may find that an index has
/// gone beneath it.
pub struct KvTables<K> {
    kv: K,
    registry: RwLock<Registry>,
}

/// Which tables there are. Any thread may read it under the lock; who changes it has the lock alone from before the change is written to the engine until it is made here.
///
/// What always holds: `stored` is what the engine has, but for a write that failed, of which nobody knows. Every table that is open is stored, under the same number and definition. A table is replaced
/// or taken out only by whoever passes its gate alone.
struct Registry {
    stored: Definitions,
    /// Those of them that are open, by the numbers of their rows.
    open: BTreeMap<TableId, Arc<OpenTable>>,
}

impl Registry {
    fn table(&self, table: TableId) -> Result<&Arc<OpenTable>> {
        self.open.get(&table).ok_or_else(no_table)
    }

    /// Puts a table in the place of what it was. Its definition is stored.
    fn put(&mut self, definition: TableDefinition, specs: Vec<IndexSpec>, gate: Arc<Gate>) -> TableId {
        let id = TableId(definition.rows);
        self.stored.tables.insert(definition.name.clone(), definition.clone());
        self.open.insert(id, Arc::new(OpenTable { definition, specs, gate }));
        id
    }
}

#[cold]
fn no_table() -> Error {
    Error::new(ErrorKind::NotFound, "no such table, or it is not open")
}

impl<K: Kv> KvTables<K> {
    /// Tables in an engine that is empty, or has such tables. They are opened one by one, by [`Tables::open_table`].
    ///
    /// # Errors
    ///
    /// `Corruption`, if the stored definitions make no sense; those of the engine.
    pub fn open(kv: K) -> Result<Self> {
        let stored = Definitions::read(&mut *kv.cursor()?)?;
        Ok(Self { kv, registry: RwLock::new(RANK, Registry { stored, open: BTreeMap::new() }) })
    }

    fn table(&self, table: TableId) -> Result<Arc<OpenTable>> {
        self.registry.read().table(table).cloned()
    }

    /// The table, for whoever changes its rows as long as the passage is there.
    fn to_change_rows(&self, table: TableId) -> Result<(Arc<OpenTable>, Passage)> {
        let registry = self.registry.read();
        let table = registry.table(table)?;
        // Under the lock: whoever changes the table itself puts the new one in its place before others may pass again.
        let passage = table.gate.pass()?;
        Ok((Arc::clone(table), passage))
    }

    /// The table, for whoever changes it itself as long as the passage is there.
    fn to_change(&self, table: TableId) -> Result<(Arc<OpenTable>, Passage)> {
        let registry = self.registry.read();
        let table = registry.table(table)?;
        let passage = table.gate.pass_alone()?;
        Ok((Arc::clone(table), passage))
    }

    /// A number for an index. It is never given out again, whatever becomes of the index.
    fn new_number(&self) -> Result<u32> {
        let mut registry = self.registry.write();
        let number = registry.stored.next;
        let next = after(number)?;
        let (key, value) = next_row(next);
        self.kv.put(&key, &value)?;
        registry.stored.next = next;
        Ok(number)
    }

    /// Stores what became of a table and puts it in the place of what it was.
    fn replace(&self, table: &OpenTable, definition: TableDefinition, specs: Vec<IndexSpec>) -> Result<()> {
        let mut registry = self.registry.write();
        self.kv.put(&definition.key(), &definition.encode()?)?;
        registry.put(definition, specs, Arc::clone(&table.gate));
        Ok(())
    }
}

impl<K: Kv> Admin for KvTables<K> {
    fn name(&self) -> String {
        self.kv.name()
    }

    fn capabilities(&self) -> Capabilities {
        let Capabilities { concurrent_writers, background_work, persistent, .. } = self.kv.capabilities();
        Capabilities {
            tables: true,
            added_indexes: true,
            concurrent_writers,
            background_work,
            persistent,
            ..Capabilities::default()
        }
    }

    fn flush(&self) -> Result<()> {
        self.kv.flush()
    }

    fn settle(&self) -> Result<()> {
        self.kv.settle()
    }

    fn drain(&self) -> Result<()> {
        self.kv.drain()
    }

    fn stats(&self) -> Result<EngineStats> {
        self.kv.stats()
    }

    fn close(&self) -> Result<()> {
        self.kv.close()
    }
}

impl<K: Kv> Tables for KvTables<K> {
    fn create_table(&self, spec: &TableSpec) -> Result<TableId> {
        let mut registry = self.registry.write();
        if registry.stored.tables.contains_key(&spec.name) {
            return Err(Error::new(ErrorKind::AlreadyExists, "a table of that name exists"));
        }
        let definition = TableDefinition::new(spec, registry.stored.next)?;
        let next = definition.end()?;
        let (next_key, next_value) = next_row(next);
        let mut batch = KvBatch::new();
        batch.put(&next_key, &next_value);
        batch.put(&definition.key(), &definition.encode()?);
        self.kv.write(&batch)?;
        registry.stored.next = next;
        Ok(registry.put(definition, spec.indexes.clone(), Arc::default()))
    }

    fn open_table(&self, spec: &TableSpec) -> Result<TableId> {
        let mut registry = self.registry.write();
        let definition = registry.stored.tables.get(&spec.name).cloned().ok_or_else(no_table)?;
        definition.check(spec)?;
        let id = TableId(definition.rows);
        let open = || Arc::new(OpenTable { definition, specs: spec.indexes.clone(), gate: Arc::default() });
        registry.open.entry(id).or_insert_with(open);
        Ok(id)
    }

    fn add_index(&self, table: TableId, spec: &IndexSpec) -> Result<usize> {
        let (table, _passage) = self.to_change(table)?;
        let number = self.new_number()?;
        let definition = table.definition.with_index(spec, number)?;
        if let Err(error) = build(&self.kv, definition.rows, number, spec) {
            // Nobody will look there again. Why the index could not be built says more than why not all of it could be removed.
            drop(clear(&self.kv, number));
            return Err(error);
        }
        // Where this fails, the definition may be stored all the same, and finds its entries when the engine is opened anew.
        let mut specs = table.specs.clone();
        specs.push(spec.clone());
        self.replace(&table, definition, specs)?;
        Ok(table.specs.len())
    }

    fn drop_index(&self, table: TableId, name: &str) -> Result<()> {
        let (table, _passage) = self.to_change(table)?;
        let mut definition = table.definition.clone();
        let position = definition.indexes.iter().position(|index| index.name == name).ok_or_else(no_index)?;
        let number = definition.indexes.remove(position).number;
        let mut specs = table.specs.clone();
        specs.remove(position);
        self.replace(&table, definition, specs)?;
        clear(&self.kv, number)
    }

    fn drop_table(&self, table: TableId) -> Result<()> {
        let (table, _passage) = self.to_change(table)?;
        let definition = &table.definition;
        {
            let mut registry = self.registry.write();
            self.kv.delete(&definition.key())?;
            registry.stored.tables.remove(&definition.name);
            registry.open.remove(&TableId(definition.rows));
        }
        definition.numbers().try_for_each(|number| clear(&self.kv, number))
    }

    fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        let (table, _passage) = self.to_change_rows(table)?;
        let mut batch = KvBatch::new();
        let mut key = Vec::with_capacity(64);
        for row in rows {
            table.each_key(row, &mut key, |key, is_row| batch.put(key, if is_row { row.value } else { b"" }));
        }
        self.kv.write(&batch)
    }

    fn delete(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        let (table, _passage) = self.to_change_rows(table)?;
        let mut batch = KvBatch::new();
        let mut key = Vec::with_capacity(64);
        for row in rows {
            table.each_key(row, &mut key, |key, is_row| match is_row {
                true => batch.delete(key),
                false => batch.delete_once(key),
            });
        }
        self.kv.write(&batch)
    }

    fn update(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()> {
        let changes: Vec<_> = rows.iter().map(|(old, new)| (table, RowChange::Update(*old, *new))).collect();
        self.commit(&changes)
    }

    fn commit(&self, changes: &[(TableId, RowChange<'_>)]) -> Result<()> {
        check_distinct(changes.iter().copied())?;
        let mut tables: BTreeMap<TableId, (Arc<OpenTable>, Passage)> = BTreeMap::new();
        let (mut batch, mut new, mut keys) = (KvBatch::new(), KvBatch::new(), [Vec::new(), Vec::new()]);
        for (id, change) in changes {
            let (table, _) = match tables.entry(*id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(self.to_change_rows(*id)?),
            };
            table.add_change(change, &mut keys, &mut batch, &mut new);
        }
        // Whatever goes, goes before anything comes.
        batch.append(&new);
        self.kv.write(&batch)
    }

    fn get_row(&self, table: TableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let rows = self.registry.read().table(table)?.definition.rows;
        with_key(rows, primary_key, |key| self.kv.get_pinned(key, found))
    }

    fn scan_index(
        &self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        let (number, _) = self.table(table)?.index(index)?;
        let mut cursor = self.kv.cursor()?;
        let mut found = limit > 0 && cursor.seek(&key(number, from))?;
        let mut count = 0;
        while found && let Some(bytes) = cursor.key().strip_prefix(&prefix(number)[..]) {
            entry(bytes);
            count += 1;
            found = count < limit && cursor.next()?;
        }
        Ok(count)
    }

    fn scan_entries(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>),
    ) -> Result<usize> {
        let table = self.table(table)?;
        let (number, spec) = table.index(index)?;
        walk_entries(&mut *self.kv.cursor()?, &prefix(number), scan, &mut |entry| {
            found(spec.split(entry)?);
            Ok(())
        })
    }

    fn scan_rows_by(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>, &[u8]),
    ) -> Result<usize> {
        let table = self.table(table)?;
        let (number, spec) = table.index(index)?;
        // One cursor for entries and rows shows both at one moment.
        let mut cursor = self.kv.cursor()?;
        let mut entries = IndexEntries::default();
        let seen = walk_entries(&mut *cursor, &prefix(number), scan, &mut |entry| {
            entries.push(spec.split(entry)?);
            Ok(())
        })?;
        let mut key = Vec::new();
        for at in 0..seen {
            let entry = entries.get(at);
            set_key(&mut key, table.definition.rows, entry.primary_key);
            if !cursor.seek(&key)? || cursor.key() != key {
                return Err(Error::corrupt(format!("an entry of index {} leads to no row", spec.name)));
            }
            found(entry, cursor.value());
        }
        Ok(seen)
    }

    fn scan_rows(&self, table: TableId, from: &[u8], limit: usize, found: &mut dyn FnMut(Row<'_>)) -> Result<usize> {
        let rows = self.table(table)?.definition.rows;
        let mut cursor = self.kv.cursor()?;
        let mut is_there = limit > 0 && cursor.seek(&key(rows, from))?;
        let mut count = 0;
        while is_there && let Some(primary_key) = cursor.key().strip_prefix(&prefix(rows)[..]) {
            found(Row { primary_key, value: cursor.value() });
            count += 1;
            is_there = count < limit && cursor.next()?;
        }
        Ok(count)
    }
}
