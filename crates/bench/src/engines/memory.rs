//! The model: ordered maps in memory behind one lock.

use siltstone_base::engine::{
    Admin, Capabilities, EngineStats, Kv, KvBatch, KvCursor, KvOp, Row, RowChange, TableId, TableSpec, Tables,
    check_distinct,
};
use siltstone_base::index_scan::{IndexEntry, IndexScan};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::sync::{Arc, Rank, RwLock};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::ops::Bound;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Above the locks of the harness, below nothing.
const RANK: Rank = Rank(900);

#[derive(Debug)]
struct Table {
    spec: TableSpec,
    rows: Map,
    indexes: Vec<std::collections::BTreeSet<Vec<u8>>>,
}

impl Table {
    fn add(&mut self, row: &Row<'_>) {
        for (spec, index) in self.spec.indexes.iter().zip(&mut self.indexes) {
            let mut entry = Vec::new();
            if spec.entry(row.primary_key, row.value, &mut entry) {
                index.insert(entry);
            }
        }
        self.rows.insert(row.primary_key.to_vec(), row.value.to_vec());
    }

    fn remove(&mut self, row: &Row<'_>) {
        for (spec, index) in self.spec.indexes.iter().zip(&mut self.indexes) {
            let mut entry = Vec::new();
            if spec.entry(row.primary_key, row.value, &mut entry) {
                index.remove(&entry);
            }
        }
        self.rows.remove(row.primary_key);
    }
}

/// Keys, values and tables in memory. A cursor copies the map, so that it sees one moment.
#[derive(Debug)]
pub struct MemoryEngine {
    map: RwLock<Arc<Map>>,
    tables: RwLock<BTreeMap<TableId, Table>>,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> Self {
        Self { map: RwLock::new(RANK, Arc::new(Map::new())), tables: RwLock::new(RANK, BTreeMap::new()) }
    }

    fn with_table<T>(&self, table: TableId, change: impl FnOnce(&mut Table) -> T) -> Result<T> {
        let mut tables = self.tables.write();
        tables.get_mut(&table).map(change).ok_or_else(no_table)
    }
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

#[cold]
fn no_table() -> Error {
    Error::new(ErrorKind::NotFound, "no such table")
}

impl Admin for MemoryEngine {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { kv: true, tables: true, added_indexes: true, ..Capabilities::default() }
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats::default())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl Kv for MemoryEngine {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Arc::make_mut(&mut self.map.write()).insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Arc::make_mut(&mut self.map.write()).remove(key);
        Ok(())
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        let mut map = self.map.write();
        let map = Arc::make_mut(&mut map);
        for op in batch {
            match op {
                KvOp::Put { key, value } => drop(map.insert(key.to_vec(), value.to_vec())),
                KvOp::Delete { key } | KvOp::DeleteOnce { key } => drop(map.remove(key)),
            }
        }
        Ok(())
    }

    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let map = self.map.read();
        let value = map.get(key);
        if let Some(value) = value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let map = self.map.read();
        for (position, &key) in keys.iter().enumerate() {
            found(position, map.get(key).map(Vec::as_slice));
        }
        Ok(())
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        Ok(Box::new(MemoryCursor { map: Arc::clone(&self.map.read()), current: None }))
    }
}

struct MemoryCursor {
    map: Arc<Map>,
    current: Option<(Vec<u8>, Vec<u8>)>,
}

impl MemoryCursor {
    fn stand_on(&mut self, entry: Option<(Vec<u8>, Vec<u8>)>) -> Result<bool> {
        self.current = entry;
        Ok(self.current.is_some())
    }

    fn first_in(&self, lower: Bound<&[u8]>) -> Option<(Vec<u8>, Vec<u8>)> {
        let (key, value) = self.map.range::<[u8], _>((lower, Bound::Unbounded)).next()?;
        Some((key.clone(), value.clone()))
    }

    fn last_in(&self, upper: Bound<&[u8]>) -> Option<(Vec<u8>, Vec<u8>)> {
        let (key, value) = self.map.range::<[u8], _>((Bound::Unbounded, upper)).next_back()?;
        Some((key.clone(), value.clone()))
    }
}

impl KvCursor for MemoryCursor {
    fn seek_to_first(&mut self) -> Result<bool> {
        let entry = self.first_in(Bound::Unbounded);
        self.stand_on(entry)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        let entry = self.last_in(Bound::Unbounded);
        self.stand_on(entry)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let entry = self.first_in(Bound::Included(key));
        self.stand_on(entry)
    }

    fn next(&mut self) -> Result<bool> {
        let entry = self.current.take().and_then(|(key, _)| self.first_in(Bound::Excluded(&key)));
        self.stand_on(entry)
    }

    fn prev(&mut self) -> Result<bool> {
        let entry = self.current.take().and_then(|(key, _)| self.last_in(Bound::Excluded(&key)));
        self.stand_on(entry)
    }

    fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(key, _)| key)
    }

    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(_, value)| value)
    }
}

impl Tables for MemoryEngine {
    fn create_table(&self, spec: &TableSpec) -> Result<TableId> {
        let mut tables = self.tables.write();
        if tables.values().any(|table| table.spec.name == spec.name) {
            return Err(Error::new(ErrorKind::AlreadyExists, "a table of that name exists"));
        }
        let id = TableId(tables.keys().next_back().map_or(1, |last| last.0 + 1));
        let indexes = spec.indexes.iter().map(|_| std::collections::BTreeSet::new()).collect();
        tables.insert(id, Table { spec: spec.clone(), rows: Map::new(), indexes });
        Ok(id)
    }

    fn open_table(&self, spec: &TableSpec) -> Result<TableId> {
        let tables = self.tables.read();
        let found = tables.iter().find(|(_, table)| table.spec.name == spec.name);
        found.map(|(id, _)| *id).ok_or_else(no_table)
    }

    fn add_index(&self, table: TableId, spec: &IndexSpec) -> Result<usize> {
        self.with_table(table, |table| {
            if table.spec.indexes.iter().any(|index| index.name == spec.name) {
                return Err(Error::invalid_argument("the table has an index of that name"));
            }
            let entries = table.rows.iter().filter_map(|(key, value)| {
                let mut entry = Vec::new();
                spec.entry(key, value, &mut entry).then_some(entry)
            });
            table.indexes.push(entries.collect());
            table.spec.indexes.push(spec.clone());
            Ok(table.indexes.len() - 1)
        })?
    }

    fn drop_index(&self, table: TableId, name: &str) -> Result<()> {
        self.with_table(table, |table| {
            let position = table.spec.indexes.iter().position(|index| index.name == name);
            let position = position.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such index"))?;
            table.spec.indexes.remove(position);
            table.indexes.remove(position);
            Ok(())
        })?
    }

    fn drop_table(&self, table: TableId) -> Result<()> {
        self.tables.write().remove(&table).map(drop).ok_or_else(no_table)
    }

    fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        self.with_table(table, |table| rows.iter().for_each(|row| table.add(row)))
    }

    fn delete(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        self.with_table(table, |table| rows.iter().for_each(|row| table.remove(row)))
    }

    fn update(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()> {
        self.with_table(table, |table| {
            rows.iter().for_each(|(old, _)| table.remove(old));
            rows.iter().for_each(|(_, new)| table.add(new));
        })
    }

    fn commit(&self, changes: &[(TableId, RowChange<'_>)]) -> Result<()> {
        check_distinct(changes.iter().copied())?;
        let mut tables = self.tables.write();
        if !changes.iter().all(|(table, _)| tables.contains_key(table)) {
            return Err(no_table());
        }
        for (table, change) in changes {
            if let (Some(table), Some(old)) = (tables.get_mut(table), change.before()) {
                table.remove(&old);
            }
        }
        for (table, change) in changes {
            if let (Some(table), Some(new)) = (tables.get_mut(table), change.after()) {
                table.add(&new);
            }
        }
        Ok(())
    }

    fn get_row(&self, table: TableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.with_table(table, |table| {
            let value = table.rows.get(primary_key);
            if let Some(value) = value {
                found(value);
            }
            value.is_some()
        })
    }

    fn scan_index(
        &self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        self.with_table(table, |table| {
            let entries = table.indexes.get(index)?;
            let found = entries.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).take(limit);
            Some(found.map(|found| entry(found)).count())
        })?
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "no such index"))
    }

    fn scan_entries(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>),
    ) -> Result<usize> {
        self.scan_rows_by(table, index, scan, &mut |entry, _| found(entry))
    }

    fn scan_rows_by(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>, &[u8]),
    ) -> Result<usize> {
        self.with_table(table, |table| {
            let (Some(entries), Some(spec)) = (table.indexes.get(index), table.spec.indexes.get(index)) else {
                return Err(Error::new(ErrorKind::NotFound, "no such index"));
            };
            let is_wanted = |entry: &&Vec<u8>| {
                entry.as_slice() >= scan.from() && scan.end().is_none_or(|end| entry.as_slice() < end)
            };
            let mut wanted: Vec<_> = entries.iter().filter(is_wanted).collect();
            if scan.is_reverse() {
                wanted.reverse();
            }
            wanted.truncate(scan.most());
            for entry in &wanted {
                let entry = spec.split(entry)?;
                found(entry, table.rows.get(entry.primary_key).map_or(&[], Vec::as_slice));
            }
            Ok(wanted.len())
        })?
    }

    fn scan_rows(&self, table: TableId, from: &[u8], limit: usize, found: &mut dyn FnMut(Row<'_>)) -> Result<usize> {
        self.with_table(table, |table| {
            let rows = table.rows.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).take(limit);
            rows.map(|(primary_key, value)| found(Row { primary_key, value })).count()
        })
    }
}
