//! What changes of rows mean for trees: steps in the order in which they are made.
//!
//! Whatever goes goes before anything comes: a row may take over a primary key, or a key of a unique index, that another one gives up. A row comes before its entries, so that
//! undoing a change of one row ends with the row, whose stamp is its lock.

use super::super::write::Expected;
use super::OpenTable;
use super::entry::EntryForm;
use crate::page;
use crate::tree::Tree;
use siltstone_base::engine::{KvOp, Row, RowChange};
use siltstone_base::index_spec::{IndexSpec, Tried, of_call};
use siltstone_base::{Error, ErrorKind, Result};
use std::ops::Range;

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
    /// Whether extractors are asked twice about the row at hand.
    is_tried: bool,
}

impl<'a> Plan<'a> {
    /// The steps of changes of one table, each with its number in its call, by which errors name it.
    ///
    /// # Errors
    ///
    /// Those of [`IndexSpec::try_key`]; `InvalidArgument` names an index whose extractor does not yield the same twice for a row that is [tried](Tried).
    pub(in super::super) fn new(
        table: &OpenTable,
        changes: impl ExactSizeIterator<Item = (usize, RowChange<'a>)>,
    ) -> Result<Self> {
        let mut plan = Self::default();
        // What comes, which is made when everything is gone that goes.
        let mut coming = Vec::with_capacity(changes.len() * (table.specs.len() + 1));
        let tried = Tried::of(changes.len());
        for (at, (number, change)) in changes.enumerate() {
            plan.is_tried = tried.has(at);
            plan.add(table, change, &mut coming).map_err(|error| of_call(error, number))?;
        }
        match plan.steps.is_empty() {
            true => plan.steps = coming,
            false => plan.steps.append(&mut coming),
        }
        Ok(plan)
    }

    fn add(&mut self, table: &OpenTable, change: RowChange<'a>, coming: &mut Vec<Kept<'a>>) -> Result<()> {
        let put = |row: Row<'a>| KvOp::Put { key: row.primary_key, value: row.value };
        let (old, new) = match change {
            RowChange::Insert(new) => {
                coming.push(Kept::Row(put(new), Expected::Absent));
                (None, Some(new))
            }
            RowChange::Delete(old) => {
                self.steps.push(Kept::Row(KvOp::Delete { key: old.primary_key }, Expected::Value(old.value)));
                (Some(old), None)
            }
            RowChange::Update(old, new) if old.primary_key != new.primary_key => {
                self.add(table, RowChange::Delete(old), coming)?;
                return self.add(table, RowChange::Insert(new), coming);
            }
            RowChange::Update(old, new) => {
                self.steps.push(Kept::Row(put(new), Expected::Value(old.value)));
                (Some(old), Some(new))
            }
        };
        for (index, (form, spec)) in table.specs().enumerate() {
            let old = self.entry(form, spec, old)?;
            let new = self.entry(form, spec, new)?;
            let bytes =
                |entry: &Option<(Range<usize>, usize)>| entry.as_ref().and_then(|(at, _)| self.entries.get(at.clone()));
            if bytes(&old) == bytes(&new) {
                continue;
            }
            for (entry, is_insertion, steps) in [(old, false, &mut self.steps), (new, true, &mut *coming)] {
                steps.extend(entry.map(|(entry, key_len)| Kept::Entry { index, entry, key_len, is_insertion }));
            }
        }
        Ok(())
    }

    /// The entry of a row, if there is one, and how many of its bytes are the index key.
    fn entry(
        &mut self,
        form: EntryForm,
        spec: &IndexSpec,
        row: Option<Row<'_>>,
    ) -> Result<Option<(Range<usize>, usize)>> {
        let Some(row) = row else { return Ok(None) };
        let start = self.entries.len();
        let key_len = form.put(spec, row.primary_key, row.value, &mut self.entries)?;
        let end = self.entries.len();
        if self.is_tried {
            let again = form.put(spec, row.primary_key, row.value, &mut self.entries)?;
            let (first, second) = self.entries.get(start..).unwrap_or_default().split_at(end - start);
            if again != key_len || (key_len.is_some() && first != second) {
                return Err(spec.unstable());
            }
            self.entries.truncate(end);
        }
        Ok(key_len.map(|key_len| (start..end, key_len)))
    }

    /// The steps.
    pub(in super::super) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
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

    /// The number of steps.
    pub(in super::super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// For each step its tree, its key, and the length of its value.
    pub(in super::super) fn sizes<'p>(
        &'p self,
        table: &'p OpenTable,
    ) -> impl Iterator<Item = (&'p Tree, &'p [u8], usize)> {
        let rows = table.table.rows.tree();
        self.steps().map(move |step| match step {
            Step::Row { op: KvOp::Put { key, value }, .. } => (rows, key, value.len()),
            Step::Row { op: KvOp::Delete { key } | KvOp::DeleteOnce { key }, .. } => (rows, key, 0),
            Step::Entry { index, entry, .. } => {
                (table.table.indexes.get(index).map_or(rows, |index| index.tree()), entry, 0)
            }
        })
    }
}
