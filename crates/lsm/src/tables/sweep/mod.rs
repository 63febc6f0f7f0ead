//! Sweeps: stale entries of lazy tables are removed.
//!
//! Most are found without reading anything: a flush or a compaction that drops an older version of a row has the newer one at hand, and tells what the one yields and the
//! other does not ([`found`]). A job of the background removes that ([`job`]). Where too much is stale whose rows' versions have not met, the job and writers walk over the
//! versions of the table's rows ([`versions`]). What is not found so, because memory for it was full or lost, is found by
//! going through an index ([`batch`]): in the background where a sample shows that it is worth while, or when somebody asks for it.
//!
//! A pass over an index goes on where the last batch ended. When it began is remembered, in memory alone: it spares the next one reads, and a restart loses it.
//!
//! What is written is a plain tombstone: older snapshots see the entry as before, newer ones would have hidden it, and compactions drop the tombstone where
//! nothing lies beneath.

mod batch;
mod found;
mod job;
mod options;
mod removal;
mod sweeper;
mod versions;

pub use options::SweepOptions;
pub use sweeper::SweepFigures;
pub(super) use sweeper::Sweeper;

use super::TableDb;
use super::figures::Mark;
use super::ground::Ground;
use super::index::{Index, Table};
use super::layout::IndexId;
use crate::db::Moment;
use batch::{Advance, Batch};
use siltstone_base::engine::LazyTableId;
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Taken alone.
const RANK: Rank = Rank(322);

/// A pass over an index that has become so many times as large since is given up: it may have been begun because there was too little for a sample.
const OUTGROWN_TIMES: u64 = 8;

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
    /// What the next batch begins with.
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
    /// A caller began it, and not the background.
    is_by_hand: bool,
    began: Moment,
    mark: Mark,
    /// Entries that the index had then, as far as that was known.
    of: u64,
    entries: u64,
    removed: u64,
}

impl Progress {
    /// Gives up a pass that the background began: a caller is told that everything was looked at since the last call.
    fn give_up_others(&mut self) {
        if self.pass.take_if(|pass| !pass.is_by_hand).is_some() {
            self.next.clear();
        }
    }

    /// Gives up a pass of an index that has far more entries than when it began.
    fn give_up_outgrown(&mut self, entries: u64) -> bool {
        let is_outgrown = self.pass.is_some_and(|pass| pass.of.saturating_mul(OUTGROWN_TIMES) < entries);
        if is_outgrown {
            self.pass = None;
            self.next.clear();
        }
        is_outgrown
    }
}

/// The sweeps of all indexes.
#[derive(Debug)]
pub(super) struct Sweeps {
    /// `None`: a caller sweeps it.
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

    /// A copy of the progress of an index that no caller sweeps.
    fn copy(&self, id: IndexId) -> Progress {
        self.indexes.lock().get(&id).cloned().flatten().unwrap_or_default()
    }

    fn put(&self, id: IndexId, progress: Progress) {
        self.indexes.lock().insert(id, Some(progress));
    }

    /// The same for the background, which does not count as a pass: those who sweep by hand count their own, and one of a new index begins as if it had been swept as often as others of the table.
    fn put_uncounted(&self, table: &Table, id: IndexId, progress: Progress) {
        let of_others = || table.indexes.iter().filter_map(|other| self.passes(other.id)).min();
        let passes = self.passes(id).or_else(of_others).unwrap_or(0);
        self.put(id, Progress { passes, ..progress });
    }
}

impl TableDb {
    /// Removes stale entries of a lazy table's indexes, reading about `budget` entries at most. Goes on where the last call ended; ends when every index was gone
    /// through. [`lazy_figures`](Self::lazy_figures) says whether that is worth while. Rows may be read and changed at the same time; sweeps in the background wait.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, `Busy` if somebody else sweeps it, `Corruption` if an entry or a row does not decode, and those of reads and writes.
    pub fn sweep(&self, table: LazyTableId, budget: usize) -> Result<Swept> {
        let table = self.table(table)?;
        table.definition.check_mode(true)?;
        let _by_hand = self.sweeper.by_hand(self.ground.db.executor())?;
        let (ground, sweeps) = (&self.ground, &self.ground.sweeps);
        let mut indexes: Vec<&Index> = table.indexes.iter().filter(|index| !index.is_building).collect();
        // One pass over each, before the next one over any.
        let fewest = indexes.iter().filter_map(|index| sweeps.passes(index.id)).min().unwrap_or(0);
        indexes.retain(|index| sweeps.passes(index.id).is_none_or(|passes| passes == fewest));
        let mut swept = Swept { is_through: true, ..Swept::default() };
        for index in indexes {
            let Some(mut progress) = sweeps.take(index.id, fewest) else {
                return Err(Error::new(ErrorKind::Busy, format!("index {} is being swept", index.spec.name)));
            };
            let step = self.sweeper.options().step_entries;
            let outcome = ground.sweep_index(&table, index, &mut progress, budget as u64, step, &mut swept);
            sweeps.put(index.id, progress);
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
        self.with_table(table, |table| {
            Ok(table.indexes.iter().any(|index| self.ground.sweeps.is_within_pass(index.id)))
        })
    }

    /// What sweeps in the background have done since the database was opened.
    pub fn sweep_figures(&self) -> SweepFigures {
        self.sweeper.figures()
    }
}

impl Ground {
    /// Batches until the pass is through or the budget spent.
    fn sweep_index(
        &self,
        table: &Table,
        index: &Index,
        progress: &mut Progress,
        budget: u64,
        step: usize,
        swept: &mut Swept,
    ) -> Result<()> {
        progress.give_up_others();
        loop {
            let left = budget.saturating_sub(swept.entries);
            if left == 0 {
                swept.is_through = false;
                return Ok(());
            }
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(step);
            let mut batch = Batch::next_of(self, index, progress, most, true);
            loop {
                match batch.advance(self, table, index, usize::MAX)? {
                    Advance::More(_) => {}
                    Advance::Remove(removal) => {
                        let (removed, _, outcome) = self.remove_stale(removal);
                        batch.removed += removed;
                        outcome?;
                    }
                    Advance::Done => break,
                }
            }
            let (entries, rows, stale) = batch.figures();
            swept.entries += entries;
            swept.rows += rows;
            swept.removed += batch.removed;
            swept.left += stale - batch.removed;
            if batch.end(index, progress) {
                return Ok(());
            }
        }
    }
}
