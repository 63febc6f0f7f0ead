//! Rows of one call, some of which extractors are asked about [twice](siltstone_base::index_spec::Tried); and so are some of the rows of which a new index is filled.

use super::index::Index;
use super::insert::Scratch;
use siltstone_base::Result;
use siltstone_base::engine::Row;
use siltstone_base::index_spec::of_call;

/// Of the rows of which an index is filled, so many are tried at the beginning, and then one of so many.
const FIRST_TRIED: u64 = 16;
const TRIED_EVERY: u64 = 64;

impl Index {
    /// Makes key and value of a stored row's entry, twice if the row is tried. `number` is its place among those of which the index is filled. Returns whether there is one.
    pub(super) fn entry_to_fill(
        &self,
        row: &Row<'_>,
        number: u64,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let has_entry = self.entry(row, key, value)?;
        if number < FIRST_TRIED || number.is_multiple_of(TRIED_EVERY) {
            let (mut other_key, mut other_value) = (Vec::new(), Vec::new());
            let has_again = self.entry(row, &mut other_key, &mut other_value)?;
            let is_same = !has_entry || (*key == other_key && *value == other_value);
            if has_entry != has_again || !is_same {
                return Err(self.spec.unstable());
            }
        }
        Ok(has_entry)
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
