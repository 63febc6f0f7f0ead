//! Sweeps: stale entries of lazy tables are removed.
//!
//! A pass over an index goes on where the last step ended. A step:
//!
//! 1. takes a snapshot and reads as many entries as its budget allows, in their order;
//! 2. sorts them by primary key, and passes over those whose rows are known to be as they were when the pass before this one began: such an entry was looked at then.
//!    Memory and filters say that, see [`Moment`];
//! 3. reads the rows of the others at the snapshot, in the order of primary keys, and asks them what they yield;
//! 4. deletes the stale ones, if their rows did not change since the snapshot. Whatever makes an entry count again writes its row too.
//!
//! What is written is a plain tombstone: older snapshots see the entry as before, newer ones would have hidden it, and compactions drop the tombstone where
//! nothing lies beneath. When each pass began is kept in memory alone: it spares reads, and a restart loses it.

use super::TableDb;
use super::fetch::{BatchLen, Entries, Yields, at_position};
use super::index::{Index, Table};
use super::layout::{IndexEntry, IndexId};
use super::scan::{IndexScan, Walk};
use crate::batch::WriteBatch;
use crate::db::{Moment, Watched};
use crate::snapshot::Snapshot;
use siltstone_base::engine::{LazyTableId, Row};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Taken alone.
const RANK: Rank = Rank(6);

/// Most entries of a step, and their bytes.
const STEP_ENTRIES: usize = 16 << 10;
const STEP_BYTES: usize = 2 << 20;

/// Entries that are deleted by one write: the rows of all of them are looked at once more while nobody else writes.
const WRITE_ENTRIES: usize = 64;

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Swept {
    /// Entries that were read.
    pub entries: u64,
    /// Rows that were read for them: the others were known to be unchanged.
    pub rows: u64,
    /// Stale entries that were removed.
    pub removed: u64,
    /// Stale entries that were left for the next pass, since their rows changed meanwhile.
    pub left: u64,
    /// Whether every index was gone through since this was said last.
    pub is_through: bool,
}

/// How far the sweep of one index is.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// What the next step begins with.
    next: Vec<u8>,
    /// The pass that is under way.
    pass: Option<Pass>,
    /// When the last pass began that is through.
    validated: Option<Moment>,
    /// Passes that are through.
    passes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Pass {
    began: Moment,
    written: u64,
    entries: u64,
    removed: u64,
}

/// The sweeps of all indexes.
#[derive(Debug)]
pub(super) struct Sweeps {
    /// `None`: somebody sweeps it.
    indexes: Mutex<BTreeMap<IndexId, Option<Progress>>>,
}

impl Sweeps {
    pub(super) fn new() -> Self {
        Self { indexes: Mutex::new(RANK, BTreeMap::new()) }
    }

    /// Passes over an index that are through; `None` for one that is new, or is being swept.
    fn passes(&self, id: IndexId) -> Option<u64> {
        self.indexes.lock().get(&id).and_then(Option::as_ref).map(|progress| progress.passes)
    }

    fn is_within_pass(&self, id: IndexId) -> bool {
        self.indexes.lock().get(&id).and_then(Option::as_ref).is_some_and(|progress| progress.pass.is_some())
    }

    /// The progress of an index, for who sweeps it; a new one begins as if it had been swept as often as others.
    fn take(&self, id: IndexId, passes: u64) -> Option<Progress> {
        let begin = || Some(Progress { passes, ..Progress::default() });
        self.indexes.lock().entry(id).or_insert_with(begin).take()
    }

    fn put(&self, id: IndexId, progress: Progress) {
        self.indexes.lock().insert(id, Some(progress));
    }
}

impl TableDb {
    /// Removes stale entries of a lazy table's indexes, reading about `budget` entries at most. Goes on where the last call ended; ends when every index was gone
    /// through. [`lazy_figures`](Self::lazy_figures) says whether that is worth while. Rows may be read and changed at the same time.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, `Busy` if somebody else sweeps it, `Corruption` if an entry or a row does not decode, and those of reads and writes.
    pub fn sweep(&self, table: LazyTableId, budget: usize) -> Result<Swept> {
        let table = self.table(table)?;
        table.definition.check_mode(true)?;
        let mut indexes: Vec<&Index> = table.indexes.iter().filter(|index| !index.is_building).collect();
        // One pass over each, before the next one over any.
        let fewest = indexes.iter().filter_map(|index| self.sweeps.passes(index.id)).min().unwrap_or(0);
        indexes.retain(|index| self.sweeps.passes(index.id).is_none_or(|passes| passes == fewest));
        let mut swept = Swept { is_through: true, ..Swept::default() };
        for index in indexes {
            let Some(mut progress) = self.sweeps.take(index.id, fewest) else {
                return Err(Error::new(ErrorKind::Busy, format!("index {} is being swept", index.spec.name)));
            };
            let outcome = self.sweep_index(&table, index, &mut progress, budget as u64, &mut swept);
            self.sweeps.put(index.id, progress);
            outcome?;
        }
        Ok(swept)
    }

    /// Sweeps as [`sweep`](Self::sweep) does if more than `max_share` of a lazy table's entries, from 0 to 1, are stale as far as that is [known](Self::lazy_figures), or nothing is
    /// known of what was there when the database was opened. Otherwise does nothing, which costs next to nothing: for a thread that calls it now and then.
    ///
    /// # Errors
    ///
    /// Those of [`sweep`](Self::sweep).
    pub fn sweep_above(&self, table: LazyTableId, max_share: f64, budget: usize) -> Result<Option<Swept>> {
        let figures = self.lazy_figures(table)?;
        if figures.is_known && figures.stale_share() <= max_share && !self.is_within_pass(table)? {
            return Ok(None);
        }
        self.sweep(table, budget).map(Some)
    }

    /// Whether a pass over one of the table's indexes has begun and is not through.
    fn is_within_pass(&self, table: LazyTableId) -> Result<bool> {
        self.with_table(table, |table| Ok(table.indexes.iter().any(|index| self.sweeps.is_within_pass(index.id))))
    }

    /// Steps until the pass is through or the budget spent.
    fn sweep_index(
        &self,
        table: &Table,
        index: &Index,
        progress: &mut Progress,
        budget: u64,
        swept: &mut Swept,
    ) -> Result<()> {
        loop {
            let left = budget.saturating_sub(swept.entries);
            if left == 0 {
                swept.is_through = false;
                return Ok(());
            }
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(STEP_ENTRIES);
            if self.sweep_step(table, index, progress, most, swept)? {
                return Ok(());
            }
        }
    }

    /// Returns whether the pass is through.
    fn sweep_step(
        &self,
        table: &Table,
        index: &Index,
        progress: &mut Progress,
        most: usize,
        swept: &mut Swept,
    ) -> Result<bool> {
        let (began, snapshot) = self.db.moment();
        let written = index.counts.written();
        let pass = progress.pass.get_or_insert(Pass { began, written, entries: 0, removed: 0 });
        let scan = IndexScan::all().starting_at(&progress.next).at(&snapshot).in_background();
        let mut walk = Walk::new(self, index, &scan)?;
        let mut entries = Entries::default();
        let mut is_last = true;
        while let Some(entry) = walk.wanted()? {
            if entries.len() == most || entries.bytes() > STEP_BYTES {
                is_last = false;
                break;
            }
            entries.push(entry);
            walk.advance();
        }
        drop(walk);
        let mut suspects = entries.by_primary_key();
        if let Some(validated) = progress.validated {
            let mut kept = Vec::with_capacity(suspects.len());
            for at in suspects {
                let key = table.definition.primary.key(entries.get(at).primary_key);
                if !self.db.is_known_unchanged(&self.rows, &key, validated)? {
                    kept.push(at);
                }
            }
            suspects = kept;
        }
        let (mut yields, mut stale) = (Yields::default(), Vec::new());
        let (mut unread, mut batch_len) = (&suspects[..], BatchLen::default());
        while !unread.is_empty() {
            let (now, later) = unread.split_at(batch_len.get().min(unread.len()));
            unread = later;
            let rows = self.rows_at(table, &entries, now, &snapshot, false)?;
            for (&at, row) in now.iter().zip(&rows) {
                let entry = entries.get(at);
                let is_yielded = row.as_ref().map_or(Ok(false), |value| {
                    let row = Row { primary_key: entry.primary_key, value };
                    yields.yields(index, &row, entry.index_key)
                });
                if !is_yielded.map_err(|error| at_position(error, pass.entries + at as u64))? {
                    stale.push(entry);
                }
            }
            batch_len.note(&rows);
        }
        let mut removed = 0;
        for group in stale.chunks(WRITE_ENTRIES) {
            removed += self.remove_stale(table, index, group, &snapshot)?;
        }
        pass.entries += entries.len() as u64;
        pass.removed += removed;
        swept.entries += entries.len() as u64;
        swept.rows += suspects.len() as u64;
        swept.removed += removed;
        swept.left += stale.len() as u64 - removed;
        if !is_last {
            progress.next = entries.len().checked_sub(1).map_or_else(Vec::new, |last| {
                let last = entries.get(last);
                [last.index_key, last.primary_key, &[0]].concat()
            });
            return Ok(false);
        }
        index.counts.note_swept(pass.written, pass.entries - pass.removed, pass.removed);
        progress.validated = Some(pass.began);
        progress.passes += 1;
        progress.pass = None;
        progress.next.clear();
        Ok(true)
    }

    /// Deletes entries that were stale at the snapshot, but for those whose rows changed since. Returns how many.
    fn remove_stale(&self, table: &Table, index: &Index, stale: &[IndexEntry<'_>], snapshot: &Snapshot) -> Result<u64> {
        let mut batch = WriteBatch::new();
        let watched = |entry: &IndexEntry<'_>| {
            batch.delete(index.id.key(&[entry.index_key, entry.primary_key].concat()));
            let key = table.definition.primary.key(entry.primary_key);
            Watched { family: self.rows.clone(), key, seqno: snapshot.seqno() }
        };
        let watched: Vec<Watched> = stale.iter().map(watched).collect();
        // A lost tombstone is written again by the next pass.
        let options = self.write_options.clone().sync(false);
        match self.db.write_if_unchanged(watched, &mut batch, &options) {
            Ok(()) => Ok(stale.len() as u64),
            // Its own row changed: only then may an entry be left, for rows that do not change are passed over by the next pass.
            Err(error) if error.kind() == ErrorKind::Busy && stale.len() < 2 => Ok(0),
            Err(error) if error.kind() == ErrorKind::Busy => {
                let (first, second) = stale.split_at(stale.len() / 2);
                let removed = self.remove_stale(table, index, first, snapshot)?;
                Ok(removed + self.remove_stale(table, index, second, snapshot)?)
            }
            Err(error) => Err(error),
        }
    }
}
