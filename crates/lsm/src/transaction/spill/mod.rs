//! What a transaction has on disk because it is too much for memory.
//!
//! ```text
//!   all entries  1 2 3 4 5 6 7 8 9 10 11 12 13 14 | 15 16 17
//!   parts        -------------------  ----------    in memory
//!                a file with a run    the same
//!                of each family
//! ```
//!
//! 1. When the changes in memory reach their limit they become a part: one file, with a sorted run for each family. The newest part is last; reads ask memory first, then parts from the newest on.
//! 2. A savepoint is a number of entries. Rolling back to one drops the parts that came after it. What is behind it within a part is hidden by its numbers, which never come again.
//! 3. Where the last parts are [`FAN_IN`] of one size, they become one. So n parts of memory's size are at most `FAN_IN` × log(n) runs of each family, and each entry is written log(n) times.
//! 4. At the commit everything is merged, and of each key remains [what its entries amount to](collapse), in tables that the database [takes in](write) at once.

mod collapse;
mod run;
mod section;
mod write;

use super::layers::own_seqno;
use crate::db::{Db, PinnedValue};
use crate::iterator::{ChildIter, InternalIterator, MergingIter};
use crate::key::{InternalKeyComparator, LookupKey, ParsedKey, SeqNo, ValueType};
use crate::memtable::Memtable;
use crate::options::ReadOptions;
use crate::sst::{GetCounts, TableIter, TableReadOptions, TableReader};
use run::{Run, RunsWriter};
use siltstone_base::Result;
use siltstone_base::env::{FileKind, IoContext, IoPriority};
use siltstone_base::sync::Arc;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// So many parts of one size become one.
const FAN_IN: usize = 8;

/// Bytes that are read at a time of each run that is merged.
const READ_AHEAD: usize = 128 << 10;

/// How much there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Changes.
    pub(super) count: usize,
    /// Bytes of them, in the form in which the WAL has them.
    pub(super) bytes: usize,
}

impl Size {
    pub(super) fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, bytes: self.bytes + other.bytes }
    }
}

/// Changes that left memory together.
#[derive(Debug)]
struct Part {
    /// By family.
    runs: BTreeMap<u32, Run>,
    /// The index of its first entry among all, and the one behind its last entry.
    indexes: Range<u64>,
    /// From this index on entries are hidden.
    end: u64,
    /// How much there is up to its end, with all parts before it.
    size: Size,
    /// How often its entries were merged.
    rounds: u32,
}

/// What is on disk, oldest first.
#[derive(Debug, Default)]
pub(super) struct Spilled {
    parts: Vec<Part>,
}

impl Spilled {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How much there is.
    pub(super) fn size(&self) -> Size {
        self.parts.last().map(|part| part.size).unwrap_or_default()
    }

    /// Bytes of memory that open runs take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.parts.iter().flat_map(|part| part.runs.values()).map(|run| run.table.memory_usage()).sum()
    }

    /// The index behind the last entry that is not hidden.
    pub(super) fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// The index of the next entry.
    pub(super) fn next_index(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.indexes.end)
    }

    /// The families that have entries which are not hidden.
    pub(super) fn families(&self) -> BTreeSet<u32> {
        let shown = |part: &Part| {
            let end = own_seqno(part.end);
            part.runs.iter().filter(move |(_, run)| run.oldest < end).map(|(family, _)| *family).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(shown).collect()
    }

    /// Bytes of all files of a family.
    fn file_bytes(&self, family: u32) -> u64 {
        self.runs(family).map(|(_, run)| run.file_size()).sum()
    }

    /// The runs of a family with their parts, newest first.
    fn runs(&self, family: u32) -> impl Iterator<Item = (&Part, &Run)> {
        self.parts.iter().rev().filter_map(move |part| Some((part, part.runs.get(&family)?)))
    }

    /// The tables of a family, newest first.
    pub(super) fn tables(&self, family: u32) -> Vec<Arc<TableReader>> {
        self.runs(family).map(|(_, run)| Arc::clone(&run.table)).collect()
    }

    /// The numbers of entries that were taken back.
    pub(super) fn hidden(&self) -> Vec<Range<SeqNo>> {
        let hidden = self.parts.iter().filter(|part| part.end < part.indexes.end);
        hidden.map(|part| own_seqno(part.end)..own_seqno(part.indexes.end)).collect()
    }

    /// The newest entry of a key: its type, and what it holds.
    pub(super) fn get(
        &self,
        family: u32,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<(ValueType, PinnedValue)>> {
        let options = TableReadOptions::from(options);
        for (part, run) in self.runs(family) {
            let newest = LookupKey::new(key, own_seqno(part.end).saturating_sub(1));
            if let Some(entry) = run.table.get_counted(&options, &newest, None, &mut GetCounts::default())? {
                return Ok(Some((entry.value_type, PinnedValue::in_table(entry.value))));
            }
        }
        Ok(None)
    }

    /// Takes in what is in memory: by family its memtables, newest first, with entries up to before index `end`, which are so much. After an error everything is as it was.
    pub(super) fn take_in<'a>(
        &mut self,
        db: &Db,
        families: impl Iterator<Item = (u32, Vec<&'a Memtable>)>,
        end: u64,
        size: Size,
    ) -> Result<()> {
        let mut writer = RunsWriter::create(db)?;
        for (family, memtables) in families {
            let Some(order) = memtables.first().map(|memtable| memtable.comparator().clone()) else { continue };
            let children = memtables.iter().map(|memtable| ChildIter::Memtable(memtable.iter())).collect();
            let mut run = writer.begin(family, &order)?;
            run.add_all(&mut MergingIter::new(order, children))?;
            writer.end(run)?;
        }
        let runs = writer.finish()?;
        let (indexes, size) = (self.next_index()..end, self.size().plus(size));
        self.parts.push(Part { runs, indexes, end, size, rounds: 0 });
        Ok(())
    }

    /// Merges parts where there are too many. After an error everything is as it was.
    pub(super) fn merge(&mut self, db: &Db) -> Result<()> {
        while let Some(first) = self.parts.len().checked_sub(FAN_IN)
            && let Some(last @ [.., newest]) = self.parts.get(first..)
            && last.iter().all(|part| part.rounds == newest.rounds)
        {
            let merged = Part {
                runs: self.merge_from(db, first)?,
                indexes: last.first().map_or(0, |oldest| oldest.indexes.start)..newest.indexes.end,
                end: newest.end,
                size: newest.size,
                rounds: newest.rounds + 1,
            };
            self.parts.truncate(first);
            self.parts.push(merged);
        }
        Ok(())
    }

    /// The runs of the parts from `first` on as one of each family, without what is hidden.
    fn merge_from(&self, db: &Db, first: usize) -> Result<BTreeMap<u32, Run>> {
        let parts = self.parts.get(first..).unwrap_or_default();
        let families: BTreeSet<u32> = parts.iter().flat_map(|part| part.runs.keys().copied()).collect();
        let mut writer = RunsWriter::create(db)?;
        for family in families {
            let tables: Vec<_> = parts.iter().rev().filter_map(|part| part.runs.get(&family)).collect();
            let Some(order) = tables.first().map(|run| run.table.comparator().clone()) else { continue };
            let mut run = writer.begin(family, &order)?;
            let children = tables.iter().map(|run| ChildIter::Table(for_merging(&run.table))).collect();
            let mut entries = Entries { merged: MergingIter::new(order, children), hidden: self.hidden() };
            entries.seek_to_first()?;
            while entries.valid() {
                run.add(entries.merged.key(), entries.merged.value())?;
                entries.next()?;
            }
            writer.end(run)?;
        }
        writer.finish()
    }

    /// Takes back everything from `end` on, an index that a savepoint had when there was so much.
    pub(super) fn cut(&mut self, end: u64, size: Size) {
        while self.parts.pop_if(|newest| newest.indexes.start >= end).is_some() {}
        if let Some(newest) = self.parts.last_mut().filter(|newest| newest.end > end) {
            (newest.end, newest.size) = (end, size);
        }
    }

    /// All entries of a family that are not hidden, those in `memtables` (newest first) as well.
    fn entries(&self, family: u32, memtables: &[&Memtable], order: &InternalKeyComparator) -> Entries {
        let memtables = memtables.iter().map(|memtable| ChildIter::Memtable(memtable.iter()));
        let runs = self.runs(family).map(|(_, run)| ChildIter::Table(for_merging(&run.table)));
        Entries { merged: MergingIter::new(order.clone(), memtables.chain(runs).collect()), hidden: self.hidden() }
    }

    #[cfg(test)]
    pub(super) fn parts_for_test(&self) -> usize {
        self.parts.len()
    }
}

/// Walks entries forward, past those that are hidden.
struct Entries {
    merged: MergingIter<ChildIter>,
    hidden: Vec<Range<SeqNo>>,
}

impl Entries {
    fn seek_to_first(&mut self) -> Result<()> {
        self.merged.seek_to_first();
        self.pass_hidden()
    }

    fn valid(&self) -> bool {
        self.merged.valid()
    }

    fn next(&mut self) -> Result<()> {
        self.merged.next();
        self.pass_hidden()
    }

    fn pass_hidden(&mut self) -> Result<()> {
        while self.merged.valid() {
            let seqno = ParsedKey::parse(self.merged.key())?.seqno;
            if !self.hidden.iter().any(|range| range.contains(&seqno)) {
                return Ok(());
            }
            self.merged.next();
        }
        self.merged.status()
    }
}

fn for_merging(table: &Arc<TableReader>) -> TableIter {
    let context = IoContext::new(FileKind::Table, IoPriority::User);
    let options = TableReadOptions { fill_cache: false, context, ..TableReadOptions::default() };
    TableIter::for_compaction(Arc::clone(table), options, READ_AHEAD)
}
