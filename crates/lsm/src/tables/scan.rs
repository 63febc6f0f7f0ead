//! Scans of an index: which entries, in which order, and the walk over them.

use super::TableDb;
use super::ground::Ground;
use super::index::Index;
use super::layout::{IndexEntry, without_id};
use crate::db::Iter;
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use siltstone_base::Result;
use siltstone_base::engine::TableId;

/// Which entries of an index are wanted, and in which order. An entry counts as its index key followed by its primary key.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct IndexScan {
    from: Vec<u8>,
    end: Option<Vec<u8>>,
    reverse: bool,
    limit: Option<usize>,
    snapshot: Option<Snapshot>,
    /// Blocks that are read do not push others out of the cache.
    is_background: bool,
}

impl IndexScan {
    /// All entries, ascending, at the newest state.
    pub fn all() -> Self {
        Self::default()
    }

    /// No entries before `from`.
    pub fn starting_at(mut self, from: impl AsRef<[u8]>) -> Self {
        self.from = from.as_ref().to_vec();
        self
    }

    /// No entries at or after `end`.
    pub fn ending_before(mut self, end: impl AsRef<[u8]>) -> Self {
        self.end = Some(end.as_ref().to_vec());
        self
    }

    /// The entries that begin with `prefix`; for the columns that an index sorts by first, encoded.
    pub fn prefix(self, prefix: impl AsRef<[u8]>) -> Self {
        let prefix = prefix.as_ref();
        let scan = self.starting_at(prefix);
        // The prefix with its last byte that can grow made larger, and nothing behind.
        match prefix.iter().rposition(|byte| *byte != u8::MAX) {
            None => Self { end: None, ..scan },
            Some(last) => {
                let mut end = prefix[..=last].to_vec();
                end[last] += 1;
                Self { end: Some(end), ..scan }
            }
        }
    }

    /// Descending, beginning at the end of the range.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// At most so many.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// As of a [snapshot](TableDb::snapshot).
    pub fn at(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Without putting what is read into the block cache.
    pub(super) fn in_background(mut self) -> Self {
        self.is_background = true;
        self
    }

    /// How many are wanted.
    pub(super) fn most(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// The same at the snapshot that it is at, or at this one.
    pub(super) fn at_one_moment(&self, db: &TableDb) -> (Self, Snapshot) {
        let snapshot = self.snapshot.clone().unwrap_or_else(|| db.snapshot());
        (self.clone().at(&snapshot), snapshot)
    }
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
        index.check_since(scan.snapshot.as_ref())?;
        let end = scan.end.as_ref().map_or_else(|| index.id.end().to_vec(), |end| index.id.key(end));
        let mut options = ReadOptions::default()
            .snapshot(scan.snapshot.clone())
            .iterate_upper_bound(Some(end))
            .fill_cache(!scan.is_background);
        if scan.reverse {
            options = options.iterate_lower_bound(Some(index.id.to_bytes().to_vec()));
        }
        let entries = ground.db.iter_cf(&ground.rows, &options)?;
        ground.check_not_dropped(index.id)?;
        let mut walk = Self { index, scan, entries, whole: Vec::new(), position: 0 };
        walk.start()?;
        Ok(walk)
    }

    fn start(&mut self) -> Result<()> {
        if self.scan.reverse {
            self.entries.seek_to_last();
            // An entry's key may be before the end, and all of the entry behind it.
            return self.skip_while(|entry, scan| scan.end.as_ref().is_some_and(|end| entry >= &end[..]));
        }
        let from = self.index.id.key(&self.scan.from);
        if self.index.spec.unique && !self.scan.from.is_empty() {
            // The key of one entry at most is the beginning of `from`.
            self.entries.seek_for_prev(&from);
            if self.entries.valid() && from.starts_with(self.entries.key()) && self.entries.key().len() < from.len() {
                return self.skip_while(|entry, scan| entry < &scan.from[..]);
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
        match self.scan.reverse {
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
            let is_beyond = match self.scan.reverse {
                true => whole < self.scan.from,
                false => self.scan.end.as_ref().is_some_and(|end| whole >= *end),
            };
            if is_beyond {
                return Ok(None);
            }
        } else if self.scan.reverse && self.entries.valid() && without_id(self.entries.key()) < &self.scan.from[..] {
            return Ok(None);
        }
        self.entry()
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
        let mut walk = Walk::new(&self.ground, table.index(index)?, &scan)?;
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
