//! Rows by a secondary index: entries are gathered, their rows are read together in the order of primary keys, and handed out in the order of the index.
//!
//! Entries and rows are read at one snapshot. An entry of a lazy table counts if its row at that snapshot yields it: whatever wrote the row last wrote the entry with it, so
//! an entry that counts is never missing, and one that does not is left over from an older version of the row. An entry of an eager table always leads to a row, unless rows expire.
//!
//! Where they do, an entry counts if its stamp is the row's. One that was expired when its row was written or deleted is left as it is, and may be seen again where a crash sets time back.

use super::expiring::without_stamp;
use super::ground::Ground;
use super::index::{Index, Table};
use super::scan::{IndexScan, Walk, at_one_moment};
use super::{AnyTableId, TableDb};
use crate::db::PinnedValue;
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use siltstone_base::engine::Row;
use siltstone_base::index_scan::{IndexEntries, IndexEntry};
use siltstone_base::{Error, Result};

/// Rows that are read together: few at first, for scans that end soon.
const FIRST_BATCH: usize = 16;
const BATCH: usize = 256;

/// About how many bytes of rows are held at a time.
const BATCH_BYTES: usize = 1 << 20;

/// How many rows are read together next: as many as the last ones let expect to be of a bearable size.
#[derive(Debug)]
pub(super) struct BatchLen(usize);

impl Default for BatchLen {
    fn default() -> Self {
        Self(FIRST_BATCH)
    }
}

impl BatchLen {
    pub(super) fn get(&self) -> usize {
        self.0
    }

    /// Rows were read, as many as it said or fewer.
    pub(super) fn note(&mut self, rows: &[Option<PinnedValue>]) {
        let bytes: usize = rows.iter().flatten().map(|row| row.len()).sum();
        let bearable = rows.len().saturating_mul(BATCH_BYTES) / bytes.max(1);
        self.0 = bearable.clamp(1, (2 * self.0).min(BATCH));
    }
}

/// Asks rows what they yield.
#[derive(Debug, Default)]
pub(super) struct Yields {
    key: Vec<u8>,
}

impl Yields {
    /// Whether a stored row yields this index key.
    pub(super) fn yields(&mut self, index: &Index, row: &Row<'_>, index_key: &[u8]) -> Result<bool> {
        self.key.clear();
        let value = without_stamp(index.expires, row.value)?;
        Ok(index.spec.try_key(row.primary_key, value, &mut self.key)? && self.key == index_key)
    }
}

impl Ground {
    /// The rows of these entries at a snapshot, in the order of the entries. They are read in the order of primary keys.
    pub(super) fn rows_of(
        &self,
        table: &Table,
        entries: &IndexEntries,
        snapshot: &Snapshot,
        fill_cache: bool,
    ) -> Result<Vec<Option<PinnedValue>>> {
        let order = entries.by_primary_key();
        let mut rows: Vec<Option<PinnedValue>> = (0..entries.len()).map(|_| None).collect();
        for (at, row) in order.iter().zip(self.rows_at(table, entries, &order, snapshot, fill_cache)?) {
            rows[*at] = row;
        }
        Ok(rows)
    }

    /// The rows of the entries at these positions, at a snapshot.
    ///
    /// # Errors
    ///
    /// `NotFound` if the table is dropped, and those of a read.
    pub(super) fn rows_at(
        &self,
        table: &Table,
        entries: &IndexEntries,
        wanted: &[usize],
        snapshot: &Snapshot,
        fill_cache: bool,
    ) -> Result<Vec<Option<PinnedValue>>> {
        let keys: Vec<Vec<u8>> =
            wanted.iter().map(|at| table.definition.primary.key(entries.get(*at).primary_key)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let options = ReadOptions::default().snapshot(Some(snapshot.clone())).fill_cache(fill_cache);
        let rows = self.db.multi_get_cf(&self.rows, &keys, &options).into_iter().collect::<Result<_>>()?;
        // A drop beside removes rows whatever snapshots there are.
        self.check_not_dropped(table.definition.primary)?;
        Ok(rows)
    }
}

impl TableDb {
    /// Walks a secondary index and hands each entry with the value of its row to `found`. Of a lazy table, only entries that their rows yield. Entries and rows are those of
    /// one moment. Returns the number of rows.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id or it has no such index, or it is dropped at the same time, `Busy` if the index is being built, `InvalidArgument` for a snapshot from before the index, `Corruption` if an entry does not decode or, of an eager table whose rows do not expire,
    /// leads to no row, with its position in the scan, or if a row does not decode, `Poisoned` if an extractor panics, and those of a read.
    pub fn scan_rows_by(
        &self,
        table: impl Into<AnyTableId>,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>, &[u8]),
    ) -> Result<usize> {
        let table = self.table(table)?;
        let index = table.index(index)?;
        let (scan, snapshot) = at_one_moment(scan, self);
        let mut walk = Walk::new(&self.ground, index, &scan)?;
        let (mut entries, mut stamps, mut yields) = (IndexEntries::default(), Vec::new(), Yields::default());
        let (mut seen, mut batch_len) = (0, BatchLen::default());
        while seen < scan.most() {
            entries.clear();
            stamps.clear();
            let first = walk.position();
            while entries.len() < batch_len.get().min(scan.most() - seen)
                && let Some(entry) = walk.wanted()?
            {
                entries.push(entry);
                stamps.extend(walk.stamp());
                walk.advance();
            }
            if entries.is_empty() {
                break;
            }
            let rows = self.ground.rows_of(&table, &entries, &snapshot, true)?;
            batch_len.note(&rows);
            for (at, row) in rows.iter().enumerate() {
                let entry = entries.get(at);
                let position = first + at as u64;
                let Some(row) = row else {
                    if table.definition.lazy || index.expires {
                        continue;
                    }
                    return Err(leads_nowhere(index, position));
                };
                let is_anothers = |stamp| row.first_chunk().is_some_and(|own| own != stamp);
                if stamps.get(at).is_some_and(is_anothers) {
                    continue;
                }
                if table.definition.lazy {
                    let row = Row { primary_key: entry.primary_key, value: row };
                    let is_yielded = yields.yields(index, &row, entry.index_key);
                    if !is_yielded.map_err(|error| at_position(error, position))? {
                        continue;
                    }
                }
                found(entry, without_stamp(index.expires, row).map_err(|error| at_position(error, position))?);
                seen += 1;
            }
        }
        Ok(seen)
    }
}

#[cold]
fn leads_nowhere(index: &Index, position: u64) -> Error {
    Error::corrupt(format!("index {}: entry {position} of a scan, from 0, leads to no row", index.spec.name))
}

/// Says where a scan met a row that its extractor cannot read.
#[cold]
pub(super) fn at_position(error: Error, position: u64) -> Error {
    Error::new(error.kind(), format!("the row of entry {position} of a scan, from 0")).with_source(error)
}
