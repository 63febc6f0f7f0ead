//! Tables as the laboratory and the differential tests know them.

use super::super::Db;
use siltstone_base::Result;
use siltstone_base::engine::{Row, RowChange, TableId, TableSpec, Tables};
use siltstone_base::index_scan::{IndexEntry, IndexScan};
use siltstone_base::index_spec::IndexSpec;

impl Tables for Db {
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
        self.delete_rows(table, rows)
    }

    fn update(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()> {
        self.update_rows(table, rows)
    }

    fn commit(&self, changes: &[(TableId, RowChange<'_>)]) -> Result<()> {
        self.commit_rows(changes)
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
        Self::scan_entries(self, table, index, scan, found)
    }

    fn scan_rows_by(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>, &[u8]),
    ) -> Result<usize> {
        Self::scan_rows_by(self, table, index, scan, found)
    }

    fn scan_rows(&self, table: TableId, from: &[u8], limit: usize, found: &mut dyn FnMut(Row<'_>)) -> Result<usize> {
        Self::scan_rows(self, table, from, limit, found)
    }
}
