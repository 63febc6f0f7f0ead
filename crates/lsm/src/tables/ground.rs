//! What tables stand on: the database, what is open, and what is dropped. Sweeps in the background share it with the tables.

use super::drop_filter::DroppedIndexes;
use super::index::{Index, Table};
use super::layout::{IndexId, without_id};
use super::open_tables::OpenTables;
use super::sweep::Sweeps;
use crate::db::{ColumnFamily, Db};
use crate::options::{ReadOptions, WriteOptions};
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// What tables stand on. Any thread may use it.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) db: Db,
    pub(super) rows: ColumnFamily,
    pub(super) write_options: WriteOptions,
    pub(super) open_tables: Arc<OpenTables>,
    pub(super) dropped: Arc<DroppedIndexes>,
    /// By which rows expire.
    pub(super) expiry: Option<Arc<dyn ExpiryPolicy>>,
    pub(super) sweeps: Sweeps,
}

impl Ground {
    /// Fails if an index is dropped: what was read of it since may be a part. What is read through an iterator that was made before is whole.
    #[inline]
    pub(super) fn check_not_dropped(&self, id: IndexId) -> Result<()> {
        if self.dropped.contains(id) { Err(dropped_meanwhile()) } else { Ok(()) }
    }

    /// The time of the database's clock, in microseconds.
    pub(super) fn now_micros(&self) -> u64 {
        self.db.executor().clock().now_micros()
    }

    /// The primary key of the last row of a table; empty if it has none. One seek.
    pub(super) fn last_row(&self, primary: IndexId) -> Result<Vec<u8>> {
        let mut rows = self.db.iter_cf(&self.rows, &ReadOptions::default())?;
        rows.seek_for_prev(&primary.end());
        rows.status()?;
        let key = rows.valid().then(|| rows.key()).filter(|key| IndexId::of_key(key) == Some(primary));
        Ok(key.map(|key| without_id(key).to_vec()).unwrap_or_default())
    }

    /// About how many entries an index has; old versions and tombstones count.
    pub(super) fn entries_of(&self, index: &Index) -> Result<u64> {
        let (begin, end) = (index.id.to_bytes(), index.id.end());
        let sizes = self.db.approximate_sizes(&self.rows, &[(&begin, &end)])?;
        Ok(sizes.iter().map(|size| size.table_entries.saturating_add(size.memtable_entries)).sum())
    }

    /// The index of this id of a lazy table that is open, with the table, unless it is being built.
    pub(super) fn lazy_index(&self, id: IndexId) -> Option<(Arc<Table>, Index)> {
        let tables = self.open_tables.load();
        let mut lazy = tables.iter().filter(|table| table.definition.lazy);
        lazy.find_map(|table| {
            let index = table.indexes.iter().find(|index| index.id == id && !index.is_building)?;
            Some((Arc::clone(table), index.clone()))
        })
    }
}

#[cold]
fn dropped_meanwhile() -> Error {
    Error::new(ErrorKind::NotFound, "the table or index was dropped meanwhile")
}
