//! The engines that are made here keep what every engine keeps; and one that does not is found out.

use super::{Device, EngineKind, EngineSettings, MemoryEngine};
use crate::place::copy_database;
use siltstone_base::engine::conformance_all::{Checked, Openers, check_all};
use siltstone_base::engine::{
    Admin, Capabilities, EngineStats, Kv, KvBatch, KvCursor, KvOp, Row, RowChange, TableId, TableSpec, Tables,
};
use siltstone_base::index_scan::{IndexEntry, IndexScan};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::{ErrorKind, Result};
use std::path::Path;

#[test]
fn the_model_keeps_what_every_engine_keeps() {
    let model = Openers {
        kv: Some(&|_| Ok(Box::new(MemoryEngine::new()))),
        tables: Some(&|_| Ok(Box::new(MemoryEngine::new()))),
        ..Openers::default()
    };
    assert_eq!(check_all(&model, Path::new(".")).ran, ["kv", "tables", "added indexes", "writers in turns"]);
}

/// A promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    ClaimsTransactions,
    HidesTables,
    ForgetsDeletes,
    TearsBatches,
    MixesUpValues,
    ShowsLaterWrites,
    LeavesOldEntries,
    IgnoresTheLimit,
    CommitsInParts,
    DropsNothing,
    AddsEmptyIndexes,
    WalksForwards,
    ReadsOtherRows,
}

const BUGS: &[Bug] = &[
    Bug::ClaimsTransactions,
    Bug::HidesTables,
    Bug::ForgetsDeletes,
    Bug::TearsBatches,
    Bug::MixesUpValues,
    Bug::ShowsLaterWrites,
    Bug::LeavesOldEntries,
    Bug::IgnoresTheLimit,
    Bug::CommitsInParts,
    Bug::DropsNothing,
    Bug::AddsEmptyIndexes,
    Bug::WalksForwards,
    Bug::ReadsOtherRows,
];

/// The model with a bug.
struct Planted {
    model: siltstone_base::sync::Arc<MemoryEngine>,
    bug: Bug,
}

impl Planted {
    fn new(bug: Bug) -> Self {
        Self { model: siltstone_base::sync::Arc::new(MemoryEngine::new()), bug }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == bug
    }
}

impl Admin for Planted {
    fn name(&self) -> String {
        self.model.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            transactions: self.has(Bug::ClaimsTransactions),
            tables: !self.has(Bug::HidesTables),
            ..self.model.capabilities()
        }
    }

    fn flush(&self) -> Result<()> {
        self.model.flush()
    }

    fn settle(&self) -> Result<()> {
        self.model.settle()
    }

    fn stats(&self) -> Result<EngineStats> {
        self.model.stats()
    }

    fn close(&self) -> Result<()> {
        self.model.close()
    }
}

/// A cursor that begins anew at the newest moment wherever it seeks.
struct LateCursor {
    model: siltstone_base::sync::Arc<MemoryEngine>,
    inner: Box<dyn KvCursor>,
}

impl KvCursor for LateCursor {
    fn seek_to_first(&mut self) -> Result<bool> {
        self.inner.seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.inner.seek_to_last()
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.inner = self.model.cursor()?;
        self.inner.seek(key)
    }

    fn next(&mut self) -> Result<bool> {
        self.inner.next()
    }

    fn prev(&mut self) -> Result<bool> {
        self.inner.prev()
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }
}

impl Kv for Planted {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.model.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        if self.has(Bug::ForgetsDeletes) { Ok(()) } else { Kv::delete(&*self.model, key) }
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        if !self.has(Bug::TearsBatches) {
            return self.model.write(batch);
        }
        match batch.iter().next() {
            Some(KvOp::Put { key, value }) => self.model.put(key, value),
            Some(KvOp::Delete { key } | KvOp::DeleteOnce { key }) => Kv::delete(&*self.model, key),
            None => Ok(()),
        }
    }

    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.model.get_pinned(key, found)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let last = keys.len().saturating_sub(1);
        self.model.multi_get(keys, &mut |position, value| {
            found(if self.has(Bug::MixesUpValues) { last - position } else { position }, value);
        })
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        let inner = self.model.cursor()?;
        Ok(match self.bug {
            Bug::ShowsLaterWrites => {
                Box::new(LateCursor { model: siltstone_base::sync::Arc::clone(&self.model), inner })
            }
            _ => inner,
        })
    }
}

impl Tables for Planted {
    fn create_table(&self, spec: &TableSpec) -> Result<TableId> {
        self.model.create_table(spec)
    }

    fn open_table(&self, spec: &TableSpec) -> Result<TableId> {
        self.model.open_table(spec)
    }

    fn add_index(&self, table: TableId, spec: &IndexSpec) -> Result<usize> {
        if !self.has(Bug::AddsEmptyIndexes) {
            return self.model.add_index(table, spec);
        }
        let mut rows = Vec::new();
        self.model.scan_rows(table, b"", usize::MAX, &mut |row| {
            rows.push((row.primary_key.to_vec(), row.value.to_vec()));
        })?;
        let rows: Vec<_> = rows.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        Tables::delete(&*self.model, table, &rows)?;
        self.model.add_index(table, spec)
    }

    fn drop_index(&self, table: TableId, name: &str) -> Result<()> {
        self.model.drop_index(table, name)
    }

    fn drop_table(&self, table: TableId) -> Result<()> {
        if self.has(Bug::DropsNothing) { Ok(()) } else { self.model.drop_table(table) }
    }

    fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        self.model.insert(table, rows)
    }

    fn delete(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        Tables::delete(&*self.model, table, rows)
    }

    fn update(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()> {
        if !self.has(Bug::LeavesOldEntries) {
            return self.model.update(table, rows);
        }
        let new: Vec<_> = rows.iter().map(|(_, new)| *new).collect();
        self.model.insert(table, &new)
    }

    fn commit(&self, changes: &[(TableId, RowChange<'_>)]) -> Result<()> {
        if self.has(Bug::CommitsInParts) {
            return changes.iter().try_for_each(|change| self.model.commit(std::slice::from_ref(change)));
        }
        self.model.commit(changes)
    }

    fn get_row(&self, table: TableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.model.get_row(table, primary_key, found)
    }

    fn scan_index(
        &self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        let limit = if self.has(Bug::IgnoresTheLimit) { usize::MAX } else { limit };
        self.model.scan_index(table, index, from, limit, entry)
    }

    fn scan_entries(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>),
    ) -> Result<usize> {
        if self.has(Bug::WalksForwards) {
            let forwards = IndexScan::all().starting_at(scan.from()).limit(scan.most());
            let forwards = scan.end().map_or(forwards.clone(), |end| forwards.ending_before(end));
            return self.model.scan_entries(table, index, &forwards, found);
        }
        self.model.scan_entries(table, index, scan, found)
    }

    fn scan_rows_by(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>, &[u8]),
    ) -> Result<usize> {
        let mut last = Vec::new();
        self.model.scan_rows_by(table, index, scan, &mut |entry, value| {
            found(entry, if self.has(Bug::ReadsOtherRows) { &last } else { value });
            last = value.to_vec();
        })
    }

    fn scan_rows(&self, table: TableId, from: &[u8], limit: usize, found: &mut dyn FnMut(Row<'_>)) -> Result<usize> {
        self.model.scan_rows(table, from, limit, found)
    }
}

fn check(bug: Bug) -> std::thread::Result<Checked> {
    std::panic::catch_unwind(|| {
        let openers = Openers {
            kv: Some(&|_| Ok(Box::new(Planted::new(bug)))),
            tables: Some(&|_| Ok(Box::new(Planted::new(bug)))),
            ..Openers::default()
        };
        check_all(&openers, Path::new("."))
    })
}

#[test]
fn an_engine_that_breaks_a_promise_is_found_out() {
    assert!(check(Bug::None).is_ok());
    for &bug in BUGS {
        assert!(check(bug).is_err(), "{bug:?} goes unseen");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files of foreign engines")]
fn logs_of_engines_that_do_not_say_what_theirs_occupy_are_not_counted_as_data() {
    let dir = tempfile::TempDir::new().unwrap();
    let tables = dir.path().join("tables");
    std::fs::create_dir(&tables).unwrap();
    for (name, kilobytes) in [("000004.log", 8), ("0.jnl", 16), ("rows.db-wal", 32), ("000005.sst", 64)] {
        std::fs::write(tables.join(name), vec![7; kilobytes << 10]).unwrap();
    }
    let engine = super::OpenEngine::kv(std::sync::Arc::new(MemoryEngine::new())).in_dir(dir.path());
    let stats = engine.stats().unwrap();
    assert_eq!((stats.log_bytes, stats.data_bytes()), (Some(56 << 10), Some(64 << 10)));
}

/// Engines of tables whose rows stay when they are closed: two of ours, and all others of this build.
fn engines_that_keep_rows() -> impl Iterator<Item = EngineKind> {
    let is_meant = |kind: &EngineKind| kind.is_foreign() || [EngineKind::LsmLeveled, EngineKind::Btree].contains(kind);
    EngineKind::ALL.iter().copied().filter(is_meant)
}

#[test]
fn a_copy_of_a_closed_database_opens_with_its_tables() {
    let settings = EngineSettings::default().with_memory(16 << 20);
    let spec = |name: &str| TableSpec {
        name: name.to_owned(),
        indexes: vec![IndexSpec::over_columns("first", Some(0..1)), IndexSpec::over_columns("second", Some(1..2))],
    };
    for kind in engines_that_keep_rows() {
        let dir = tempfile::TempDir::new().unwrap();
        let (loaded, copy) = (dir.path().join("loaded"), dir.path().join("copy"));
        let engine = kind.open_tables(&loaded, &settings).unwrap();
        let tables = engine.as_tables().unwrap();
        let ids = ["one", "other"].map(|name| tables.create_table(&spec(name)).unwrap());
        let rows: Vec<_> = (0..200_u32).map(|number| (number.to_be_bytes(), [number as u8, 7, 7])).collect();
        let rows: Vec<_> = rows.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        rows.chunks(20).for_each(|rows| ids.iter().for_each(|id| tables.insert(*id, rows).unwrap()));
        engine.admin.close().unwrap();
        drop(engine);
        // What is made of a copy has no part in the next one.
        for _ in 0..2 {
            copy_database(&loaded, &copy).unwrap();
            let engine = kind.open_tables(&copy, &settings).unwrap();
            let tables = engine.as_tables().unwrap();
            for (name, id) in [("other", ids[1]), ("one", ids[0])] {
                assert_eq!(tables.open_table(&spec(name)).unwrap(), id, "{kind}");
            }
            assert_eq!(counts(tables, ids[0]), [200; 3], "{kind}");
            tables.delete(ids[0], &rows[..20]).unwrap();
            assert_eq!((counts(tables, ids[0]), counts(tables, ids[1])), ([180; 3], [200; 3]), "{kind}");
            engine.admin.close().unwrap();
        }
    }
}

/// Rows of a table with two indexes, and entries of each that lead to one.
fn counts(tables: &dyn Tables, table: TableId) -> [usize; 3] {
    let rows = tables.scan_rows(table, b"", usize::MAX, &mut |_| {}).unwrap();
    let entries = [0, 1].map(|index| tables.scan_rows_by(table, index, &IndexScan::all(), &mut |_, _| {}).unwrap());
    [rows, entries[0], entries[1]]
}

#[test]
fn an_engine_of_somebody_else_s_runs_on_no_modelled_device() {
    for &kind in EngineKind::ALL {
        let dir = tempfile::TempDir::new().unwrap();
        let settings = EngineSettings { device: Device::FastSsd, ..EngineSettings::default().with_memory(16 << 20) };
        let refusal = kind.open_tables(&dir.path().join("db"), &settings).err().map(|error| error.kind());
        assert_eq!(refusal, kind.is_foreign().then_some(ErrorKind::NotSupported), "{kind}");
    }
}

#[test]
fn a_write_buffer_of_another_size_leaves_the_memory_what_it_was() {
    let settings = EngineSettings::default().with_memory(48 << 20);
    let smaller = settings.clone().with_write_buffer(1 << 20).unwrap();
    assert_eq!((smaller.write_buffer_bytes, smaller.cache_bytes), (1 << 20, 46 << 20));
    assert_eq!(smaller.memory_bytes(), settings.memory_bytes());
    assert_eq!(settings.clone().with_write_buffer(24 << 20), None, "nothing is left for blocks");
    assert_eq!(settings.with_write_buffer(usize::MAX), None);
}

#[test]
fn every_engine_opens_without_compression() {
    for &kind in EngineKind::ALL {
        let dir = tempfile::TempDir::new().unwrap();
        let settings = EngineSettings { compress: false, ..EngineSettings::default().with_memory(16 << 20) };
        let engine = kind.open_tables(&dir.path().join("db"), &settings).unwrap();
        assert!(engine.name().starts_with(kind.name()), "{kind}");
        engine.admin.close().unwrap();
    }
}
