//! Tables over any engine of keys and values.
//!
//! The layout is MyRocks': the number of the index, big-endian, in front of every key; a row is `number || primary key ->
//! value`, an index entry `number || index key || primary key` with an empty value, and an insert is a blind put of all
//! of them in one batch. Definitions of tables are not stored: such tables live as long as the engine is open.

use siltstone_base::engine::{
    Admin, Capabilities, EngineStats, Kv, KvBatch, KvOp, Row, RowChange, TableId, TableSpec, Tables, check_distinct,
};
use siltstone_base::index_scan::{IndexEntries, IndexEntry, IndexScan, walk_entries};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::sync::{Arc, Rank, RwLock};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

const ID_BYTES: usize = 4;

/// Taken with no other lock held.
const RANK: Rank = Rank(2);

/// Tables over `K`.
pub struct KvTables<K> {
    kv: K,
    tables: RwLock<BTreeMap<TableId, Arc<TableSpec>>>,
}

impl<K: Kv> KvTables<K> {
    /// Tables in an empty engine.
    pub fn new(kv: K) -> Self {
        Self { kv, tables: RwLock::new(RANK, BTreeMap::new()) }
    }

    fn table(&self, table: TableId) -> Result<Arc<TableSpec>> {
        self.tables.read().get(&table).cloned().ok_or_else(|| Error::new(ErrorKind::NotFound, "no such table"))
    }
}

/// The number of index `index` of a table; the rows themselves are number 0.
fn id(table: TableId, index: usize) -> [u8; ID_BYTES] {
    (table.0 + index as u32).to_be_bytes()
}

#[cold]
fn no_index() -> Error {
    Error::new(ErrorKind::NotFound, "no such index")
}

/// Hands the key of a row to `each`, and then those of its entries; `true`: it is that of the row.
fn each_key(table: TableId, spec: &TableSpec, row: &Row<'_>, key: &mut Vec<u8>, mut each: impl FnMut(&[u8], bool)) {
    key.clear();
    key.extend_from_slice(&id(table, 0));
    key.extend_from_slice(row.primary_key);
    each(key, true);
    for (number, index) in spec.indexes.iter().enumerate() {
        key.clear();
        key.extend_from_slice(&id(table, number + 1));
        if index.entry(row.primary_key, row.value, key) {
            each(key, false);
        }
    }
}

/// Adds what a change takes away to `gone`, and what it brings to `new`; entries that stay the same are left alone.
fn add_change(table: TableId, spec: &TableSpec, change: &RowChange<'_>, gone: &mut KvBatch, new: &mut KvBatch) {
    let mut key = Vec::with_capacity(64);
    let mut kept: Vec<(Vec<u8>, bool)> = Vec::new();
    if let Some(row) = change.after() {
        each_key(table, spec, &row, &mut key, |key, is_row| kept.push((key.to_vec(), is_row)));
    }
    if let Some(row) = change.before() {
        each_key(table, spec, &row, &mut key, |key, is_row| match kept.iter().position(|(kept, _)| kept == key) {
            None => gone.delete(key),
            // A row of the same key is another one.
            Some(_) if is_row => {}
            Some(place) => drop(kept.remove(place)),
        });
    }
    let value = change.after().map_or(&b""[..], |row| row.value);
    kept.iter().for_each(|(key, is_row)| new.put(key, if *is_row { value } else { b"" }));
}

impl<K: Kv> Admin for KvTables<K> {
    fn name(&self) -> String {
        self.kv.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            tables: true,
            concurrent_writers: self.kv.capabilities().concurrent_writers,
            background_work: self.kv.capabilities().background_work,
            ..Capabilities::default()
        }
    }

    fn flush(&self) -> Result<()> {
        self.kv.flush()
    }

    fn settle(&self) -> Result<()> {
        self.kv.settle()
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
        let mut tables = self.tables.write();
        if tables.values().any(|table| table.name == spec.name) {
            return Err(Error::new(ErrorKind::AlreadyExists, "a table of that name exists"));
        }
        let next = tables.iter().next_back().map_or(256, |(id, table)| id.0 + 1 + table.indexes.len() as u32);
        tables.insert(TableId(next), Arc::new(spec.clone()));
        Ok(TableId(next))
    }

    fn open_table(&self, spec: &TableSpec) -> Result<TableId> {
        let tables = self.tables.read();
        let found = tables.iter().find(|(_, table)| table.name == spec.name);
        found.map(|(id, _)| *id).ok_or_else(|| Error::new(ErrorKind::NotFound, "no such table"))
    }

    fn add_index(&self, _: TableId, _: &IndexSpec) -> Result<usize> {
        Err(Error::not_supported("adding an index to a table over an engine of keys and values"))
    }

    fn drop_index(&self, _: TableId, _: &str) -> Result<()> {
        Err(Error::not_supported("dropping an index of a table over an engine of keys and values"))
    }

    fn drop_table(&self, table: TableId) -> Result<()> {
        let spec = self.table(table)?;
        let mut batch = KvBatch::new();
        let (first, end) = (id(table, 0), id(table, spec.indexes.len() + 1));
        let mut cursor = self.kv.cursor()?;
        let mut found = cursor.seek(&first)?;
        while found && cursor.key() < &end[..] {
            batch.delete(cursor.key());
            found = cursor.next()?;
        }
        drop(cursor);
        self.kv.write(&batch)?;
        self.tables.write().remove(&table);
        Ok(())
    }

    fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        let spec = self.table(table)?;
        let mut batch = KvBatch::new();
        let mut key = Vec::with_capacity(64);
        for row in rows {
            each_key(table, &spec, row, &mut key, |key, is_row| batch.put(key, if is_row { row.value } else { b"" }));
        }
        self.kv.write(&batch)
    }

    fn delete(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        let spec = self.table(table)?;
        let mut batch = KvBatch::new();
        let mut key = Vec::with_capacity(64);
        for row in rows {
            each_key(table, &spec, row, &mut key, |key, _| batch.delete(key));
        }
        self.kv.write(&batch)
    }

    fn update(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()> {
        let changes: Vec<_> = rows.iter().map(|(old, new)| (table, RowChange::Update(*old, *new))).collect();
        self.commit(&changes)
    }

    fn commit(&self, changes: &[(TableId, RowChange<'_>)]) -> Result<()> {
        check_distinct(changes.iter().copied())?;
        let (mut batch, mut new) = (KvBatch::new(), KvBatch::new());
        for (table, change) in changes {
            add_change(*table, &*self.table(*table)?, change, &mut batch, &mut new);
        }
        for op in &new {
            if let KvOp::Put { key, value } = op {
                batch.put(key, value);
            }
        }
        self.kv.write(&batch)
    }

    fn get_row(&self, table: TableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let key = [&id(table, 0)[..], primary_key].concat();
        self.kv.get_pinned(&key, found)
    }

    fn scan_index(
        &self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        if index >= self.table(table)?.indexes.len() {
            return Err(no_index());
        }
        let prefix = id(table, index + 1);
        let mut cursor = self.kv.cursor()?;
        let mut found = limit > 0 && cursor.seek(&[&prefix[..], from].concat())?;
        let mut count = 0;
        while found && let Some(bytes) = cursor.key().strip_prefix(&prefix[..]) {
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
        let spec = self.table(table)?;
        let spec = spec.indexes.get(index).ok_or_else(no_index)?;
        walk_entries(&mut *self.kv.cursor()?, &id(table, index + 1), scan, &mut |entry| {
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
        let spec = self.table(table)?;
        let spec = spec.indexes.get(index).ok_or_else(no_index)?;
        // One cursor for entries and rows shows both at one moment.
        let mut cursor = self.kv.cursor()?;
        let mut entries = IndexEntries::default();
        let seen = walk_entries(&mut *cursor, &id(table, index + 1), scan, &mut |entry| {
            entries.push(spec.split(entry)?);
            Ok(())
        })?;
        for at in 0..seen {
            let entry = entries.get(at);
            let key = [&id(table, 0)[..], entry.primary_key].concat();
            if !cursor.seek(&key)? || cursor.key() != key {
                return Err(Error::corrupt(format!("an entry of index {} leads to no row", spec.name)));
            }
            found(entry, cursor.value());
        }
        Ok(seen)
    }

    fn scan_rows(&self, table: TableId, from: &[u8], limit: usize, found: &mut dyn FnMut(Row<'_>)) -> Result<usize> {
        self.table(table)?;
        let prefix = id(table, 0);
        let mut cursor = self.kv.cursor()?;
        let mut is_there = limit > 0 && cursor.seek(&[&prefix[..], from].concat())?;
        let mut count = 0;
        while is_there && let Some(primary_key) = cursor.key().strip_prefix(&prefix[..]) {
            found(Row { primary_key, value: cursor.value() });
            count += 1;
            is_there = count < limit && cursor.next()?;
        }
        Ok(count)
    }
}
