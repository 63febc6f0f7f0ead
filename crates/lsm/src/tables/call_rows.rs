//! Rows of one call: of which ones extractors are asked twice, and how an error names one.
//!
//! An extractor that does not yield the same twice for one row makes entries that nobody removes. So all rows of a small call are tried; of a larger one, whose callers want each row to be cheap, the first, the middle and the last.
//! Of a change, what a row was is tried as well as what it becomes.
//!
//! A second question about a column at a fixed place takes 33 ns, and an insert of a row with four indexes 5 to 10 us (on two cores, in a test build, while others compiled): about two per cent of a call of 16 rows, and a thousandth of one of 100.

use super::index::Index;
use super::insert::Scratch;
use siltstone_base::engine::Row;
use siltstone_base::{Error, Result};

/// Calls of at most so many rows have all of them tried.
const MOST_ALL_TRIED: usize = 16;

/// Which rows of a call are tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tried {
    rows: usize,
}

impl Tried {
    /// Those of a call of so many rows.
    pub(super) fn of(rows: usize) -> Self {
        Self { rows }
    }

    /// Whether the row of this number, from 0, is one of them.
    #[inline]
    pub(super) fn has(self, number: usize) -> bool {
        let Self { rows } = self;
        rows <= MOST_ALL_TRIED || number == 0 || number == rows / 2 || number + 1 == rows
    }
}

impl Scratch {
    /// Does what a change of one row asks for. `number` is the row's place in its call, by which an error names it.
    #[inline]
    pub(super) fn with_row(
        &mut self,
        number: usize,
        is_tried: bool,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.is_tried = is_tried;
        work(self).map_err(|error| of_call(error, number))
    }

    /// Makes key and value of a row's entry, twice if the row at hand is tried. Returns whether there is one.
    #[inline]
    pub(super) fn entry_of(&mut self, index: &Index, row: &Row<'_>, stamp: &[u8]) -> Result<bool> {
        let has_entry = index.entry_of(row, stamp, &mut self.key, &mut self.value)?;
        if self.is_tried {
            let has_again = index.entry_of(row, stamp, &mut self.other_key, &mut self.other_value)?;
            let is_same = !has_entry || (self.key == self.other_key && self.value == self.other_value);
            if has_entry != has_again || !is_same {
                return Err(index.spec.unstable());
            }
        }
        Ok(has_entry)
    }
}

/// Says which row of a call cannot be written.
#[cold]
fn of_call(error: Error, number: usize) -> Error {
    Error::new(error.kind(), format!("row {number} of the call, from 0")).with_source(error)
}
