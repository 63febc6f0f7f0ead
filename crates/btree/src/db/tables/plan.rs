//! What changes of rows mean for trees: steps in the order in which they are made. A row comes before its entries, so that undoing them ends with the row, whose stamp is its lock.

use super::super::write::Expected;
use super::OpenTable;
use crate::page;
use crate::tree::Tree;
use siltstone_base::engine::{KvOp, Row};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::{Error, ErrorKind, Result};
use std::ops::Range;

/// A change of one row.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum RowChange<'a> {
    /// The row is new.
    Insert(Row<'a>),
    /// The row goes that was so.
    Delete(Row<'a>),
    /// The first row becomes the second.
    Update(Row<'a>, Row<'a>),
}

/// A change of one tree.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Step<'a> {
    /// Of a row.
    Row { op: KvOp<'a>, expected: Expected<'a> },
    /// Of an entry of index `index`, of which the first bytes are the index key.
    Entry { index: usize, entry: &'a [u8], key_len: usize, is_insertion: bool },
}

#[derive(Debug, Clone)]
enum Kept<'a> {
    Row(KvOp<'a>, Expected<'a>),
    Entry { index: usize, entry: Range<usize>, key_len: usize, is_insertion: bool },
}

/// Changes of rows as steps.
#[derive(Debug, Default)]
pub(in super::super) struct Plan<'a> {
    entries: Vec<u8>,
    steps: Vec<Kept<'a>>,
}

impl<'a> Plan<'a> {
    /// The steps of changes, in their order.
    pub(in super::super) fn new(table: &OpenTable, changes: impl ExactSizeIterator<Item = RowChange<'a>>) -> Self {
        let mut plan = Self::default();
        plan.steps.reserve(changes.len() * (table.specs.len() + 1));
        for change in changes {
            plan.add(table, change);
        }
        plan
    }

    fn add(&mut self, table: &OpenTable, change: RowChange<'a>) {
        let put = |row: Row<'a>| KvOp::Put { key: row.primary_key, value: row.value };
        let (old, new) = match change {
            RowChange::Insert(new) => {
                self.steps.push(Kept::Row(put(new), Expected::Absent));
                (None, Some(new))
            }
            RowChange::Delete(old) => {
                self.steps.push(Kept::Row(KvOp::Delete { key: old.primary_key }, Expected::Value(old.value)));
                (Some(old), None)
            }
            RowChange::Update(old, new) if old.primary_key != new.primary_key => {
                self.add(table, RowChange::Delete(old));
                return self.add(table, RowChange::Insert(new));
            }
            RowChange::Update(old, new) => {
                self.steps.push(Kept::Row(put(new), Expected::Value(old.value)));
                (Some(old), Some(new))
            }
        };
        for (index, spec) in table.specs.iter().enumerate() {
            let old = old.and_then(|row| self.entry(spec, row));
            let new = new.and_then(|row| self.entry(spec, row));
            let bytes =
                |entry: &Option<(Range<usize>, usize)>| entry.as_ref().and_then(|(at, _)| self.entries.get(at.clone()));
            if bytes(&old) == bytes(&new) {
                continue;
            }
            for (entry, is_insertion) in [(old, false), (new, true)] {
                let kept = entry.map(|(entry, key_len)| Kept::Entry { index, entry, key_len, is_insertion });
                self.steps.extend(kept);
            }
        }
    }

    /// The entry of a row, and how many of its bytes are the index key.
    fn entry(&mut self, spec: &IndexSpec, row: Row<'_>) -> Option<(Range<usize>, usize)> {
        let start = self.entries.len();
        let has_entry = spec.entry(row.primary_key, row.value, &mut self.entries);
        let entry = start..self.entries.len();
        has_entry.then(|| (entry.clone(), entry.len().saturating_sub(row.primary_key.len())))
    }

    /// The steps.
    pub(in super::super) fn steps(&self) -> impl ExactSizeIterator<Item = Step<'_>> {
        self.steps.iter().map(|step| match step {
            Kept::Row(op, expected) => Step::Row { op: *op, expected: *expected },
            Kept::Entry { index, entry, key_len, is_insertion } => Step::Entry {
                index: *index,
                entry: self.entries.get(entry.clone()).unwrap_or_default(),
                key_len: *key_len,
                is_insertion: *is_insertion,
            },
        })
    }

    /// The index keys that its rows get in unique indexes, or had, with the indexes, and whether they get them.
    pub(in super::super) fn unique_keys<'p>(
        &'p self,
        table: &'p OpenTable,
    ) -> impl Iterator<Item = (usize, &'p [u8], bool)> {
        self.steps().filter_map(|step| match step {
            Step::Entry { index, entry, key_len, is_insertion } if table.is_unique(index) => {
                Some((index, entry.get(..key_len)?, is_insertion))
            }
            _ => None,
        })
    }

    /// Refuses an entry that is too long for a page.
    pub(in super::super) fn check_entries(&self, table: &OpenTable, page_len: usize) -> Result<()> {
        for step in self.steps() {
            if let Step::Entry { index, entry, .. } = step
                && entry.len() > page::max_key_len(page_len)
            {
                let name = table.table.indexes.get(index).map_or("", |index| index.name.as_str());
                let message = format!("an entry of the index {name} takes no more than an eighth of a page");
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
        }
        Ok(())
    }

    /// For each step its tree, its key, and the length of its value.
    pub(in super::super) fn sizes<'p>(
        &'p self,
        table: &'p OpenTable,
    ) -> impl ExactSizeIterator<Item = (&'p Tree, &'p [u8], usize)> {
        let rows = table.table.rows.tree();
        self.steps().map(move |step| match step {
            Step::Row { op: KvOp::Put { key, value }, .. } => (rows, key, value.len()),
            Step::Row { op: KvOp::Delete { key }, .. } => (rows, key, 0),
            Step::Entry { index, entry, .. } => {
                (table.table.indexes.get(index).map_or(rows, |index| index.tree()), entry, 0)
            }
        })
    }
}
