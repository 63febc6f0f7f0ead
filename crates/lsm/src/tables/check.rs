//! Whether indexes and rows agree.

use super::fetch::{BatchLen, Yields, at_position};
use super::index::{Index, Table};
use super::layout::without_id;
use super::scan::{IndexScan, Walk};
use super::{AnyTableId, TableDb};
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use siltstone_base::Result;
use siltstone_base::engine::{LazyTableId, Row, StaleEntries};
use siltstone_base::index_scan::IndexEntries;

/// Differences of an index that are shown.
const SHOWN: usize = 16;

/// Entries that are looked for at a time, and their bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// What [`TableDb::check_table`] says of an index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IndexCheck {
    /// The name of the index.
    pub index: String,
    /// Entries that are stored.
    pub entries: u64,
    /// Entries that no row yields. Of a lazy table they are stale, which is no fault.
    pub stale: u64,
    /// Entries that rows yield, and that are not there, or hold other covered columns.
    pub missing: u64,
    /// Those among the missing in whose place the entry of another row stands: two rows have one key of a unique index, or the extractor yields keys that are beginnings of others.
    pub taken: u64,
    /// The first faults.
    pub differences: Vec<IndexDifference>,
}

/// A fault of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexDifference {
    /// What the index sorts by; where the entry is missing, as it would be stored, with what follows it.
    pub index_key: Vec<u8>,
    /// The row.
    pub primary_key: Vec<u8>,
    /// Whether the row yields the entry, which is not there. Otherwise the entry is there, and the row does not yield it.
    pub is_missing: bool,
}

impl IndexCheck {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.differences.is_empty()
    }

    fn differs(&mut self, index_key: &[u8], primary_key: &[u8], is_missing: bool) {
        if self.differences.len() < SHOWN {
            let (index_key, primary_key) = (index_key.to_vec(), primary_key.to_vec());
            self.differences.push(IndexDifference { index_key, primary_key, is_missing });
        }
    }
}

impl TableDb {
    /// Compares every index of a table with its rows, in both directions, at one snapshot. Reads all of them.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, or it or one of its indexes is dropped at the same time, `Corruption` if an entry or a row does not decode, with its position, `Poisoned` if an extractor panics, and those of a read.
    pub fn check_table(&self, table: impl Into<AnyTableId>) -> Result<Vec<IndexCheck>> {
        let table = self.table(table)?;
        let snapshot = self.ground.db.snapshot();
        let indexes: Vec<&Index> = table.indexes.iter().filter(|index| !index.is_building).collect();
        let mut checks = Vec::with_capacity(indexes.len());
        for index in &indexes {
            checks.push(self.check_entries(&table, index, &snapshot)?);
        }
        self.check_rows(&table, &indexes, &snapshot, &mut checks)?;
        Ok(checks)
    }

    /// Counts the entries of a lazy table's indexes, and those of them that no row yields, at one snapshot: reads entries and rows once, each in their order.
    ///
    /// # Errors
    ///
    /// Those of [`check_table`](Self::check_table).
    pub fn count_stale(&self, table: LazyTableId) -> Result<StaleEntries> {
        let table = self.table(table)?;
        table.definition.check_mode(true)?;
        let snapshot = self.ground.db.snapshot();
        let indexes: Vec<&Index> = table.indexes.iter().filter(|index| !index.is_building).collect();
        let mut counted = StaleEntries::default();
        for index in &indexes {
            let scan = IndexScan::all().at(&snapshot).fill_cache(false);
            let mut walk = Walk::new(&self.ground, index, &scan)?;
            while walk.wanted()?.is_some() {
                walk.advance();
            }
            counted.entries += walk.position();
        }
        let primary = table.definition.primary;
        let options = ReadOptions::default()
            .snapshot(Some(snapshot))
            .iterate_upper_bound(Some(primary.end().to_vec()))
            .fill_cache(false);
        let mut rows = self.ground.db.iter_cf(&self.ground.rows, &options)?;
        self.ground.check_not_dropped(primary)?;
        rows.seek(&primary.to_bytes());
        let (mut key, mut value, mut yielded, mut number) = (Vec::new(), Vec::new(), 0_u64, 0_u64);
        while rows.valid() {
            let row = Row { primary_key: without_id(rows.key()), value: rows.value() };
            for index in &indexes {
                let is_yielded = index.entry(&row, &mut key, &mut value).map_err(|error| at_position(error, number))?;
                yielded += u64::from(is_yielded);
            }
            number += 1;
            rows.next();
        }
        rows.status()?;
        // No entry that counts is missing.
        counted.stale = counted.entries.saturating_sub(yielded);
        Ok(counted)
    }

    /// Asks rows for the entries that are there.
    fn check_entries(&self, table: &Table, index: &Index, snapshot: &Snapshot) -> Result<IndexCheck> {
        let mut check = IndexCheck { index: index.spec.name.clone(), ..IndexCheck::default() };
        let scan = IndexScan::all().at(snapshot).fill_cache(false);
        let mut walk = Walk::new(&self.ground, index, &scan)?;
        let (mut entries, mut yields) = (IndexEntries::default(), Yields::default());
        let mut batch_len = BatchLen::default();
        loop {
            entries.clear();
            while entries.len() < batch_len.get()
                && let Some(entry) = walk.wanted()?
            {
                entries.push(entry);
                walk.advance();
            }
            if entries.is_empty() {
                return Ok(check);
            }
            let rows = self.ground.rows_of(table, &entries, snapshot, false)?;
            batch_len.note(&rows);
            for (at, row) in rows.iter().enumerate() {
                let entry = entries.get(at);
                let is_yielded = row.as_ref().map_or(Ok(false), |value| {
                    let row = Row { primary_key: entry.primary_key, value };
                    yields.yields(index, &row, entry.index_key)
                });
                if !is_yielded.map_err(|error| at_position(error, check.entries))? {
                    check.stale += 1;
                    if !table.definition.lazy {
                        check.differs(entry.index_key, entry.primary_key, false);
                    }
                }
                check.entries += 1;
            }
        }
    }

    /// Looks for the entries that rows yield.
    fn check_rows(
        &self,
        table: &Table,
        indexes: &[&Index],
        snapshot: &Snapshot,
        checks: &mut [IndexCheck],
    ) -> Result<()> {
        let options = ReadOptions::default().snapshot(Some(snapshot.clone())).fill_cache(false);
        let bounded = options.clone().iterate_upper_bound(Some(table.definition.primary.end().to_vec()));
        let mut rows = self.ground.db.iter_cf(&self.ground.rows, &bounded)?;
        self.ground.check_not_dropped(table.definition.primary)?;
        rows.seek(&table.definition.primary.to_bytes());
        let (mut number, mut bytes) = (0, 0);
        // Of each index: key, value and primary key of what rows yield.
        let mut yielded: Vec<Vec<[Vec<u8>; 3]>> = indexes.iter().map(|_| Vec::new()).collect();
        loop {
            let is_over = !rows.valid();
            if is_over || number % BATCH as u64 == 0 || bytes > BATCH_BYTES {
                bytes = 0;
                for ((index, yielded), check) in indexes.iter().zip(&mut yielded).zip(&mut *checks) {
                    let keys: Vec<&[u8]> = yielded.iter().map(|[key, _, _]| &key[..]).collect();
                    let found = self.ground.db.multi_get_cf(&self.ground.rows, &keys, &options);
                    self.ground.check_not_dropped(index.id)?;
                    for ([key, value, primary_key], found) in yielded.iter().zip(found) {
                        let found = found?;
                        if found.as_ref().is_none_or(|found| **found != **value) {
                            check.missing += 1;
                            let other = found.as_ref().and_then(|found| index.decode(without_id(key), found));
                            check.taken += u64::from(other.is_some_and(|other| other.primary_key != &primary_key[..]));
                            check.differs(without_id(key), primary_key, true);
                        }
                    }
                    yielded.clear();
                }
            }
            if is_over {
                return rows.status();
            }
            let row = Row { primary_key: without_id(rows.key()), value: rows.value() };
            for (index, yielded) in indexes.iter().zip(&mut yielded) {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                if index.entry(&row, &mut key, &mut value).map_err(|error| at_position(error, number))? {
                    bytes += key.len() + value.len() + row.primary_key.len();
                    yielded.push([key, value, row.primary_key.to_vec()]);
                }
            }
            number += 1;
            rows.next();
        }
    }
}
