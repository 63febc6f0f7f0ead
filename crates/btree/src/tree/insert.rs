//! Putting rows.
//!
//! Path: put 3/5. Before: db/write.rs. After: buffer/pool.rs.

use super::Tree;
use super::overflow::Value;
use super::search::Route;
use crate::buffer::ExclusiveGuard;
use crate::mtr::{Close, Mtr, change_one};
use crate::page::{self, CELL_HEADER_LEN, Cell, Change, Header, PageMut, PageRead, SLOT_LEN};
use siltstone_base::{Error, ErrorKind, Result};

/// A row as it was, for whoever must be able to bring it back.
pub(crate) type Row<'a> = Option<Value<'a>>;

/// Insertions in a row from which on a page counts as filled in order.
pub(super) const RUN: i16 = 4;

/// Splits for one row: a page may have to be split again because the row's neighbours are large.
const MAX_SPLITS: usize = 16;

/// What stands in the way of a change.
pub(super) enum Outcome {
    /// It was made.
    Done,
    /// The leaf has no room.
    NoRoom,
}

impl Tree {
    /// Sets a key. `before` is told what the row was, before it changes. `keep_chain`: a long value that is replaced keeps its pages. The last
    /// mini-transaction ends with `close`, changes of shape with `shape`.
    #[inline]
    pub(crate) fn put(
        &self,
        key: &[u8],
        value: Value<'_>,
        keep_chain: bool,
        close: Close,
        shape: Close,
        before: &mut dyn FnMut(Row<'_>) -> Result<()>,
    ) -> Result<()> {
        for _ in 0..MAX_SPLITS {
            let (number, leaf) = self.leaf_exclusive(Route::Key(key))?;
            match self.put_in(number, leaf, key, value, keep_chain, close, before)? {
                Outcome::Done => return Ok(()),
                Outcome::NoRoom => self.make_room(key, value.bytes.len(), shape)?,
            }
        }
        Err(Error::new(ErrorKind::LimitExceeded, "a row does not fit between its neighbours"))
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "one step of put, of which it has the arguments")]
    fn put_in(
        &self,
        number: u32,
        mut leaf: ExclusiveGuard<'_>,
        key: &[u8],
        value: Value<'_>,
        keep_chain: bool,
        close: Close,
        before: &mut dyn FnMut(Row<'_>) -> Result<()>,
    ) -> Result<Outcome> {
        let header = leaf.header();
        let found = page::find(leaf.bytes(), key).ok_or_else(|| self.corruption(number, "the slots make no sense"))?;
        let (change, free) = match found {
            Ok((slot, old)) => {
                let old_value = Value::in_leaf(number, old.flags, old.value);
                if header.free() + old.value.len() < value.bytes.len() {
                    return Ok(Outcome::NoRoom);
                }
                before(Some(old_value))?;
                let change = Change::Replace { slot: slot as u16, flags: value.flags, value: value.bytes };
                if let Some(chain) = old_value.chain().filter(|_| !keep_chain) {
                    drop(leaf);
                    return self.replace_long(key, &change, &chain, close);
                }
                (change, header.free() + old.value.len() - value.bytes.len())
            }
            Err(slot) => {
                let cell = Cell { flags: value.flags, key, value: value.bytes };
                if !has_room(&header, slot, cell.footprint(), leaf.page_len()) {
                    return Ok(Outcome::NoRoom);
                }
                before(None)?;
                (Change::Insert { slot: slot as u16, cell }, header.free() - cell.footprint())
            }
        };
        self.note_free(number, free)?;
        change_one(&self.pool, &mut leaf, &change, close)?;
        Ok(Outcome::Done)
    }

    /// Replaces a long value and gives its pages back: page 0 must be latched before the leaf. The caller's lock keeps other writers away meanwhile.
    #[cold]
    pub(super) fn replace_long(
        &self,
        key: &[u8],
        change: &Change<'_>,
        chain: &page::OverflowRef,
        close: Close,
    ) -> Result<Outcome> {
        let mut mtr = Mtr::new(&self.pool);
        mtr.space(self.space)?;
        let (number, leaf) = self.leaf_exclusive(Route::Key(key))?;
        drop(leaf);
        let page = mtr.latch(self.page_id(number))?;
        let is_there = page::find(mtr.page(page).bytes(), key).is_some_and(|found| found.is_ok());
        if !is_there {
            return Err(self.corruption(number, "a row left while its writer held the lock of writers"));
        }
        mtr.change(page, change);
        mtr.free_chain(self.space, chain)?;
        mtr.commit(close)?;
        Ok(Outcome::Done)
    }
}

/// Whether a cell goes into a leaf. Leaves that are filled in order keep a sixteenth free for rows that grow.
#[inline]
pub(super) fn has_room(header: &Header, slot: usize, footprint: usize, page_len: usize) -> bool {
    let is_ascending = header.run >= RUN && slot == usize::from(header.count);
    let spare = if is_ascending { page_len / 16 } else { 0 };
    debug_assert!(footprint >= SLOT_LEN + CELL_HEADER_LEN);
    header.free() >= footprint + spare
}
