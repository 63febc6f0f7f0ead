//! Deleting rows.

use super::Tree;
use super::insert::Row;
use super::overflow::Value;
use super::search::Route;
use crate::mtr::{Close, change_one};
use crate::page::{self, Change, PageMut};
use siltstone_base::Result;

impl Tree {
    /// Removes a key, if it is there; returns whether its leaf is now so empty that it should be merged. `before` is told what the row was,
    /// before it goes. `keep_chain`: a long value keeps its pages.
    pub(crate) fn delete(
        &self,
        key: &[u8],
        keep_chain: bool,
        close: Close,
        before: &mut dyn FnMut(Row<'_>) -> Result<()>,
    ) -> Result<bool> {
        let (number, mut leaf) = self.leaf_exclusive(Route::Key(key))?;
        let found = page::find(leaf.bytes(), key).ok_or_else(|| self.corruption(number, "the slots make no sense"))?;
        let Ok((slot, old)) = found else {
            before(None)?;
            return Ok(false);
        };
        let old_value = Value::in_leaf(number, old.flags, old.value);
        let used = leaf.header().used(self.pool.page_len()) - old.footprint();
        before(Some(old_value))?;
        let change = Change::Remove { slot: slot as u16 };
        if let Some(chain) = old_value.chain().filter(|_| !keep_chain) {
            drop(leaf);
            self.replace_long(key, &change, &chain, close)?;
        } else {
            self.note_free(number, leaf.header().free() + old.footprint())?;
            change_one(&self.pool, &mut leaf, &change, close)?;
        }
        Ok(self.is_underfull(used))
    }

    /// Whether a page with so many bytes in use should be merged with a neighbour.
    pub(super) fn is_underfull(&self, used: usize) -> bool {
        used < self.pool.page_len() / 2
    }
}
