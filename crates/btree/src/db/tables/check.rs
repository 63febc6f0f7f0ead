//! Whether indexes fit their rows.
//!
//! Rows and entries are compared as one view sees them, so that writers, and transactions that are half rolled back, need not wait. Each row's entries are looked up; then
//! there must be as many entries as were looked up, for the entries of different rows differ.

use super::super::scan::Cursor;
use super::super::state::{OpenTree, State};
use super::super::transactions::View;
use super::OpenTable;
use siltstone_base::engine::KvCursor;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};

impl State {
    /// Compares the indexes of a table with its rows. Returns the number of entries.
    pub(in super::super) fn check_indexes(self: &Arc<Self>, table: &OpenTable, view: &View) -> Result<u64> {
        let mut expected = vec![0_u64; table.specs.len()];
        let mut entry = Vec::new();
        let mut rows = Cursor::with_view(self, &table.table.rows, view.again())?;
        let mut is_there = rows.seek_to_first()?;
        let mut row = 0_u64;
        while is_there {
            for ((tree, form, spec), expected) in table.indexes().zip(&mut expected) {
                entry.clear();
                if form.put(spec, rows.key(), rows.value(), &mut entry)?.is_some() {
                    *expected += 1;
                    if self.read_row(view, tree.live()?, &entry)?.is_none() {
                        let what = format!("lacks the entry of row {row}, in the order of primary keys from 0");
                        return Err(unfit(tree, &entry, &what));
                    }
                }
            }
            row += 1;
            is_there = rows.next()?;
        }
        for ((tree, _, _), expected) in table.indexes().zip(&expected) {
            let mut entries = Cursor::with_view(self, tree, view.again())?;
            let mut found = 0_u64;
            let mut is_there = entries.seek_to_first()?;
            while is_there {
                if !entries.value().is_empty() {
                    let what = format!("has a value at entry {found}, from 0");
                    return Err(unfit(tree, entries.key(), &what));
                }
                found += 1;
                is_there = entries.next()?;
            }
            if found != *expected {
                let what = format!("the index {} has {found} entries, and its rows {expected}", tree.name);
                return Err(Error::corrupt(what).with_file(&self.spaces.path(tree.tree().space())));
            }
        }
        Ok(expected.iter().sum())
    }
}

/// The error that an index does not fit its rows, as the leaf shows to which a key belongs.
#[cold]
fn unfit(tree: &OpenTree, key: &[u8], what: &str) -> Error {
    tree.tree().corruption_at(key, &format!("the index {} {what}", tree.name))
}
