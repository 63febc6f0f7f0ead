//! Scans of an index: which entries, in which order, and the walk over them.

use super::TableDb;
use super::ground::Ground;
use super::index::Index;
use super::layout::without_id;
use crate::db::Iter;
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use siltstone_base::Result;
use siltstone_base::engine::TableId;
use siltstone_base::expiry::ROW_STAMP_LEN;
use siltstone_base::index_scan::IndexEntry;

/// Which entries of an index are wanted, in which order, and at which [snapshot](TableDb::snapshot).
pub type IndexScan = siltstone_base::index_scan::IndexScan<Snapshot>;

/// The same scan at the snapshot that it is at, or else at one of now.
pub(super) fn at_one_moment(scan: &IndexScan, db: &TableDb) -> (IndexScan, Snapshot) {
    let snapshot = scan.snapshot().cloned().unwrap_or_else(|| db.snapshot());
    (scan.clone().at(&snapshot), snapshot)
}

/// A walk over the entries of an index.
pub(super) struct Walk<'a> {
    index: &'a Index,
    scan: &'a IndexScan,
    entries: Iter,
    /// The entry at hand as it counts, where that is not its key.
    whole: Vec<u8>,
    /// Entries passed so far.
    position: u64,
}

impl<'a> Walk<'a> {
    /// A walk that stands on the first entry, if there is one.
    pub(super) fn new(ground: &Ground, index: &'a Index, scan: &'a IndexScan) -> Result<Self> {
        Self::expecting(ground, index, scan, 0)
    }

    /// The same for one that is likely to show so many entries; 0: nobody knows.
    fn expecting(ground: &Ground, index: &'a Index, scan: &'a IndexScan, expected: usize) -> Result<Self> {
        index.check_since(scan.snapshot())?;
        let end = scan.end().map_or_else(|| index.id.end().to_vec(), |end| index.id.key(end));
        let mut options = ReadOptions::default()
            .snapshot(scan.snapshot().cloned())
            .iterate_upper_bound(Some(end))
            .expected_entries(expected)
            .fill_cache(scan.fills_cache());
        if scan.is_reverse() {
            options = options.iterate_lower_bound(Some(index.id.to_bytes().to_vec()));
        }
        let entries = ground.db.iter_cf(&ground.rows, &options)?;
        ground.check_not_dropped(index.id)?;
        let mut walk = Self { index, scan, entries, whole: Vec::new(), position: 0 };
        walk.start()?;
        Ok(walk)
    }

    fn start(&mut self) -> Result<()> {
        if self.scan.is_reverse() {
            self.entries.seek_to_last();
            // An entry's key may be before the end, and all of the entry behind it.
            return self.skip_while(|entry, scan| scan.end().is_some_and(|end| entry >= end));
        }
        let from = self.index.id.key(self.scan.from());
        if self.index.spec.unique && !self.scan.from().is_empty() {
            // The key of one entry at most is the beginning of `from`.
            self.entries.seek_for_prev(&from);
            if self.entries.valid() && from.starts_with(self.entries.key()) && self.entries.key().len() < from.len() {
                return self.skip_while(|entry, scan| entry < scan.from());
            }
        }
        self.entries.seek(&from);
        self.entries.status()
    }

    fn skip_while(&mut self, mut skips: impl FnMut(&[u8], &IndexScan) -> bool) -> Result<()> {
        while let Some(entry) = self.entry()? {
            let whole = [entry.index_key, entry.primary_key].concat();
            if !skips(&whole, self.scan) {
                break;
            }
            self.step();
        }
        self.entries.status()
    }

    fn step(&mut self) {
        match self.scan.is_reverse() {
            true => self.entries.prev(),
            false => self.entries.next(),
        }
    }

    /// The entry at hand.
    pub(super) fn entry(&self) -> Result<Option<IndexEntry<'_>>> {
        if !self.entries.valid() {
            return self.entries.status().map(|()| None);
        }
        let entry = self.index.decode(without_id(self.entries.key()), self.entries.value());
        entry.map(Some).ok_or_else(|| self.index.damaged(self.position))
    }

    /// The entry at hand if it is within the scan.
    pub(super) fn wanted(&self) -> Result<Option<IndexEntry<'_>>> {
        if self.index.spec.unique
            && let Some(entry) = self.entry()?
        {
            let whole = [entry.index_key, entry.primary_key].concat();
            if self.scan.is_beyond(&whole) {
                return Ok(None);
            }
        } else if self.scan.is_reverse() && self.entries.valid() && self.scan.is_beyond(without_id(self.entries.key()))
        {
            return Ok(None);
        }
        self.entry()
    }

    /// The stamp of the entry at hand, where rows expire.
    pub(super) fn stamp(&self) -> Option<[u8; ROW_STAMP_LEN]> {
        (self.index.expires && self.entries.valid()).then(|| self.entries.value().first_chunk().copied()).flatten()
    }

    /// The entry at hand as it counts: its index key followed by its primary key.
    pub(super) fn whole(&mut self) -> Result<Option<&[u8]>> {
        if !self.index.spec.unique {
            return Ok(self.wanted()?.is_some().then(|| without_id(self.entries.key())));
        }
        let mut whole = std::mem::take(&mut self.whole);
        whole.clear();
        let Some(entry) = self.wanted()? else { return Ok(None) };
        whole.extend_from_slice(entry.index_key);
        whole.extend_from_slice(entry.primary_key);
        self.whole = whole;
        Ok(Some(&self.whole))
    }

    /// Goes to the next entry.
    pub(super) fn advance(&mut self) {
        self.position += 1;
        self.step();
    }

    /// Entries passed so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }
}

impl TableDb {
    /// Walks a secondary index and hands its entries to `found`. Rows are not read: an entry of an eager table is there as long as its row yields it. Returns the
    /// number of entries.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id or it has no such index, or it is dropped at the same time, `Busy` if the index is being built, `InvalidArgument` for a lazy table or a snapshot from before the index,
    /// `Corruption` if an entry does not decode, with its position, and those of a read.
    pub fn scan_entries(
        &self,
        table: TableId,
        index: usize,
        scan: &IndexScan,
        found: &mut dyn FnMut(IndexEntry<'_>),
    ) -> Result<usize> {
        let table = self.table(table)?;
        table.definition.check_mode(false)?;
        let mut walk = Walk::new(&self.ground, table.index(index)?, scan)?;
        let mut seen = 0;
        while seen < scan.most()
            && let Some(entry) = walk.wanted()?
        {
            found(entry);
            seen += 1;
            if seen < scan.most() {
                walk.advance();
            }
        }
        Ok(seen)
    }

    /// Walks a secondary index from the first entry at or after `from`, over at most `limit` entries, and hands each to `entry`: the
    /// index key followed by the primary key. Rows are not read. Returns the number of entries.
    ///
    /// # Errors
    ///
    /// Those of [`scan_entries`](Self::scan_entries).
    pub fn scan_index(
        &self,
        table: TableId,
        index: usize,
        from: &[u8],
        limit: usize,
        entry: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        let table = self.table(table)?;
        table.definition.check_mode(false)?;
        let scan = IndexScan::all().starting_at(from);
        let mut walk = Walk::expecting(&self.ground, table.index(index)?, &scan, limit)?;
        let mut seen = 0;
        while seen < limit
            && let Some(whole) = walk.whole()?
        {
            entry(whole);
            seen += 1;
            if seen < limit {
                walk.advance();
            }
        }
        Ok(seen)
    }
}
