//! Merging sorted runs of rows.

use super::WorkDirectory;
use super::run::Run;
use crate::external::{SstFileIter, SstFileReader};
use crate::key::InternalKeyComparator;
use siltstone_base::Result;
use std::cmp::Ordering;
use std::path::PathBuf;

/// A row of the merged runs.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Whether older runs have rows of the key.
    pub(super) hid_others: bool,
}

/// A place in one run.
#[derive(Debug)]
struct Cursor<'a> {
    tables: std::slice::Iter<'a, PathBuf>,
    rows: SstFileIter,
    /// The place of the run among all: the larger, the newer.
    age: usize,
}

/// Walks the rows of several runs in order; of one key, that of the newest run.
#[derive(Debug)]
pub(super) struct Merge<'a> {
    order: InternalKeyComparator,
    work_options: (crate::options::DbOptions, crate::options::ColumnFamilyOptions),
    /// Those that stand on a row, as a heap: none comes before its parent, at half its place.
    heap: Vec<Cursor<'a>>,
}

impl<'a> Merge<'a> {
    /// Begins with the first rows of `runs`, oldest first.
    pub(super) fn new(runs: &'a [Run], work: &WorkDirectory, order: &InternalKeyComparator) -> Result<Self> {
        let work_options = (work.options.clone(), work.family.clone());
        let mut merge = Self { order: order.clone(), work_options, heap: Vec::with_capacity(runs.len()) };
        for (age, run) in runs.iter().enumerate() {
            let mut tables = run.tables.iter();
            if let Some(rows) = merge.next_table(&mut tables)? {
                merge.heap.push(Cursor { tables, rows, age });
            }
        }
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sink(place);
        }
        Ok(merge)
    }

    /// The next row; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Row>> {
        let Some(newest) = self.heap.first() else { return Ok(None) };
        let (key, value) = (newest.rows.key().to_vec(), newest.rows.value().to_vec());
        self.advance_first()?;
        let mut hid_others = false;
        while self.heap.first().is_some_and(|next| self.order.compare_user(next.rows.key(), &key).is_eq()) {
            hid_others = true;
            self.advance_first()?;
        }
        Ok(Some(Row { key, value, hid_others }))
    }

    /// Moves the first cursor on, and to its place in the heap.
    fn advance_first(&mut self) -> Result<()> {
        let Some(first) = self.heap.first_mut() else { return Ok(()) };
        first.rows.next();
        if !first.rows.valid() {
            first.rows.status()?;
            let mut tables = first.tables.clone();
            match self.next_table(&mut tables)? {
                Some(rows) => {
                    if let Some(first) = self.heap.first_mut() {
                        (first.tables, first.rows) = (tables, rows);
                    }
                }
                None => drop(self.heap.swap_remove(0)),
            }
        }
        self.sink(0);
        Ok(())
    }

    /// The first of `tables` that has a row, at that row.
    fn next_table(&self, tables: &mut std::slice::Iter<'a, PathBuf>) -> Result<Option<SstFileIter>> {
        let (options, family) = &self.work_options;
        for path in tables {
            let mut rows = SstFileReader::open(path, options, family)?.iter();
            rows.seek_to_first();
            if rows.valid() {
                return Ok(Some(rows));
            }
            rows.status()?;
        }
        Ok(None)
    }

    /// Lets what stands at `place` change places with the first of its children until it comes before both.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let mut first = place;
            for child in children {
                if child < self.heap.len() && self.compare(child, first).is_lt() {
                    first = child;
                }
            }
            if first == place {
                return;
            }
            self.heap.swap(first, place);
            place = first;
        }
    }

    /// By key, and of equal keys the newest first.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        match (self.heap.get(a), self.heap.get(b)) {
            (Some(a), Some(b)) => self.order.compare_user(a.rows.key(), b.rows.key()).then_with(|| b.age.cmp(&a.age)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}
