//! Tables as the laboratory and the differential tests know them.

use super::TableDb;
use siltstone_base::Result;
use siltstone_base::engine::{
    Admin, Capabilities, EngineStats, LazyTableId, LazyTableSpec, LazyTables, Row, RowChange, StaleEntries, TableId,
    TableSpec, Tables,
};
use siltstone_base::index_scan::{IndexEntry, IndexScan};
use siltstone_base::index_spec::{IndexSpec, LazyIndexSpec};

impl Admin for TableDb {
    fn name(&self) -> String {
        Admin::name(&self.ground.db)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            tables: true,
            unique_indexes: true,
            added_indexes: true,
            lazy_tables: true,
            ..Admin::capabilities(&self.ground.db)
        }
    }

    fn flush(&self) -> Result<()> {
        Admin::flush(&self.ground.db)
    }

    fn settle(&self) -> Result<()> {
        Admin::settle(&self.ground.db)?;
        while self.sweeper.is_busy() && self.ground.db.gives_turns() {
            self.sweeper.wait_until_idle(self.ground.db.executor());
            // What sweeps removed may make compactions due, and those find more.
            Admin::settle(&self.ground.db)?;
        }
        Ok(())
    }

    fn drain(&self) -> Result<()> {
        // What compacting finds of rows that are gone, sweeps remove.
        loop {
            Admin::settle(self)?;
            Admin::drain(&self.ground.db)?;
            if !self.sweeper.is_busy() {
                return Ok(());
            }
        }
    }

    fn stats(&self) -> Result<EngineStats> {
        let mut stats = Admin::stats(&self.ground.db)?;
        let swept = self.sweep_figures();
        let counters = [
            ("sweep.found", swept.found),
            ("sweep.missed", swept.missed),
            ("sweep.removed", swept.removed),
            ("sweep.samples", swept.samples),
            ("sweep.passes", swept.passes),
            ("sweep.entries.read", swept.entries_read),
            ("sweep.rows.read", swept.rows_read),
            ("sweep.seeks", swept.seeks),
            ("sweep.walks", swept.walks),
            ("sweep.rows.walked", swept.rows_walked),
            ("sweep.failures", swept.failures),
        ];
        let counted = counters.into_iter().filter(|(_, count)| *count > 0);
        stats.counters.extend(counted.map(|(name, count)| (name.to_owned(), count)));
        Ok(stats)
    }

    fn close(&self) -> Result<()> {
        self.sweeper.stop();
        Admin::close(&self.ground.db)
    }
}

impl Tables for TableDb {
    fn create_table(&self, spec: &TableSpec) -> Result<TableId> {
        Self::create_table(self, spec)
    }

    fn open_table(&self, spec: &TableSpec) -> Result<TableId> {
        Self::open_table(self, spec)
    }

    fn add_index(&self, table: TableId, spec: &IndexSpec) -> Result<usize> {
        Self::add_index(self, table, spec)
    }

    fn drop_index(&self, table: TableId, name: &str) -> Result<()> {
        Self::drop_index(self, table, name)
    }

    fn drop_table(&self, table: TableId) -> Result<()> {
        Self::drop_table(self, table)
    }

    fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        Self::insert(self, table, rows)
    }

    fn delete(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        Self::delete(self, table, rows)
    }

    fn update(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()> {
        Self::update(self, table, rows)
    }

    fn commit(&self, changes: &[(TableId, RowChange<'_>)]) -> Result<()> {
        Self::commit(self, changes)
    }

    fn get_row(&self, table: TableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Self::get_row(self, table, primary_key, found)
    }

    fn scan_index(
        &self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        Self::scan_index(self, table, index, from, limit, entry)
    }

    fn scan_entries(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>),
    ) -> Result<usize> {
        Self::scan_entries(self, table, index, &scan.at_newest(), found)
    }

    fn scan_rows_by(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>, &[u8]),
    ) -> Result<usize> {
        Self::scan_rows_by(self, table, index, &scan.at_newest(), found)
    }

    fn scan_rows(&self, table: TableId, from: &[u8], limit: usize, found: &mut dyn FnMut(Row<'_>)) -> Result<usize> {
        Self::scan_rows(self, table, from, limit, found)
    }
}

impl LazyTables for TableDb {
    fn create_lazy_table(&self, spec: &LazyTableSpec) -> Result<LazyTableId> {
        Self::create_lazy_table(self, spec)
    }

    fn open_lazy_table(&self, spec: &LazyTableSpec) -> Result<LazyTableId> {
        Self::open_lazy_table(self, spec)
    }

    fn add_lazy_index(&self, table: LazyTableId, spec: &LazyIndexSpec) -> Result<usize> {
        Self::add_lazy_index(self, table, spec)
    }

    fn drop_lazy_table(&self, table: LazyTableId) -> Result<()> {
        Self::drop_table(self, table)
    }

    fn upsert(&self, table: LazyTableId, rows: &[Row<'_>]) -> Result<()> {
        Self::upsert(self, table, rows)
    }

    fn delete_keys(&self, table: LazyTableId, primary_keys: &[&[u8]]) -> Result<()> {
        Self::delete_keys(self, table, primary_keys)
    }

    fn lazy_row(&self, table: LazyTableId, primary_key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Self::get_row(self, table, primary_key, found)
    }

    fn lazy_rows(
        &self,
        table: LazyTableId,
        from: &[u8],
        limit: usize,
        found: &mut dyn FnMut(Row<'_>),
    ) -> Result<usize> {
        Self::scan_rows(self, table, from, limit, found)
    }

    fn lazy_rows_by(
        &self,
        table: LazyTableId,
        index: usize,
        from: &[u8],
        limit: usize,
        found: &mut dyn FnMut(&[u8], Row<'_>),
    ) -> Result<usize> {
        let scan = super::IndexScan::all().starting_at(from).limit(limit);
        Self::scan_rows_by(self, table, index, &scan, &mut |entry, value| {
            found(entry.index_key, Row { primary_key: entry.primary_key, value });
        })
    }

    fn count_stale(&self, table: LazyTableId) -> Result<StaleEntries> {
        Self::count_stale(self, table)
    }
}
