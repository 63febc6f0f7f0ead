//! Merging sorted runs of rows.

use super::WorkDirectory;
use super::run::Run;
use crate::external::{SstFileIter, SstFileReader};
use crate::key::InternalKeyComparator;
use siltstone_base::Result;
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
    rows: Option<SstFileIter>,
}

/// Walks the rows of several runs in order; of one key, that of the newest run.
#[derive(Debug)]
pub(super) struct Merge<'a> {
    order: InternalKeyComparator,
    work_options: (crate::options::DbOptions, crate::options::ColumnFamilyOptions),
    /// Oldest first.
    cursors: Vec<Cursor<'a>>,
}

impl<'a> Merge<'a> {
    /// Begins with the first rows of `runs`, oldest first.
    pub(super) fn new(runs: &'a [Run], work: &WorkDirectory, order: &InternalKeyComparator) -> Result<Self> {
        let cursors = runs.iter().map(|run| Cursor { tables: run.tables.iter(), rows: None }).collect();
        let work_options = (work.options.clone(), work.family.clone());
        let mut merge = Self { order: order.clone(), work_options, cursors };
        for index in 0..merge.cursors.len() {
            merge.settle(index)?;
        }
        Ok(merge)
    }

    /// The next row; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Row>> {
        let mut least: Option<(usize, &[u8])> = None;
        for (index, cursor) in self.cursors.iter().enumerate() {
            let Some(rows) = &cursor.rows else { continue };
            // Of equal keys that of the newest run: the last one.
            if least.is_none_or(|(_, key)| self.order.compare_user(rows.key(), key).is_le()) {
                least = Some((index, rows.key()));
            }
        }
        let Some((newest, key)) = least else { return Ok(None) };
        let key = key.to_vec();
        let value = self.cursors.get(newest).and_then(|cursor| cursor.rows.as_ref());
        let value = value.map(|rows| rows.value().to_vec()).unwrap_or_default();
        let mut hid_others = false;
        for index in 0..self.cursors.len() {
            let Some(rows) = self.cursors.get_mut(index).and_then(|cursor| cursor.rows.as_mut()) else { continue };
            if self.order.compare_user(rows.key(), &key).is_eq() {
                hid_others |= index != newest;
                rows.next();
                self.settle(index)?;
            }
        }
        Ok(Some(Row { key, value, hid_others }))
    }

    /// Goes on to the next table of a run where one has ended.
    fn settle(&mut self, index: usize) -> Result<()> {
        let Some(cursor) = self.cursors.get_mut(index) else { return Ok(()) };
        loop {
            if let Some(rows) = &cursor.rows {
                if rows.valid() {
                    return Ok(());
                }
                rows.status()?;
            }
            let Some(path) = cursor.tables.next() else {
                cursor.rows = None;
                return Ok(());
            };
            let (options, family) = &self.work_options;
            let mut rows = SstFileReader::open(path, options, family)?.iter();
            rows.seek_to_first();
            cursor.rows = Some(rows);
        }
    }
}
