//! Values as cells hold them, and the long ones among them.

use super::Tree;
use crate::mtr::{Close, Mtr};
use crate::page::{
    self, Change, FLAG_OVERFLOW, FLAG_STAMP, HEADER_LEN, Header, OverflowRef, PageKind, PageMut, TRAILER_LEN,
};
use siltstone_base::{Error, ErrorKind, Result};

/// A value as a cell holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    /// Flags of the cell.
    pub(crate) flags: u8,
    /// The value, or the reference to it.
    pub(crate) bytes: &'a [u8],
    /// The leaf with the cell, if whoever has the value holds its latch.
    leaf: Option<u32>,
}

impl<'a> Value<'a> {
    /// A value that lies in its cell.
    pub(crate) const fn inline(bytes: &'a [u8]) -> Self {
        Self::new(0, bytes)
    }

    /// A value of which nobody holds the leaf.
    pub(crate) const fn new(flags: u8, bytes: &'a [u8]) -> Self {
        Self { flags, bytes, leaf: None }
    }

    /// The value of a cell of a leaf whose latch is held.
    pub(super) const fn in_leaf(leaf: u32, flags: u8, bytes: &'a [u8]) -> Self {
        Self { flags, bytes, leaf: Some(leaf) }
    }

    /// The pages that belong to the value.
    pub(crate) fn chain(&self) -> Option<OverflowRef> {
        page::chain(self.flags, self.bytes)
    }
}

/// Why a value is refused.
pub(crate) const TOO_LONG: &str = "a value takes no more than an eighth of the buffer pool and of the redo log";

impl Tree {
    /// Whether a value goes to overflow pages.
    #[inline]
    pub(crate) fn is_long(&self, key: &[u8], value: &[u8]) -> bool {
        value.len() > page::max_inline_len(self.pool.page_len(), key.len())
    }

    /// The longest value: its pages stay in memory until its group is closed.
    pub(crate) fn max_value_len(&self) -> usize {
        let pages = (self.pool.frames() / 8).min(self.pool.redo.capacity() as usize / 8 / self.pool.page_len());
        pages * (self.pool.page_len() - HEADER_LEN - TRAILER_LEN)
    }

    /// Writes a long value to pages of its own, as part of an open group. Returns the reference.
    pub(crate) fn write_long(&self, value: &[u8]) -> Result<OverflowRef> {
        if value.len() > self.max_value_len() {
            return Err(Error::new(ErrorKind::LimitExceeded, TOO_LONG));
        }
        let payload = self.pool.page_len() - HEADER_LEN - TRAILER_LEN;
        let mut next = 0;
        let mut last = 0;
        // From the last page to the first, so that each knows the one behind it.
        for part in value.chunks(payload).rev() {
            let mut mtr = Mtr::new(&self.pool);
            let page = match mtr.allocate(self.space) {
                Ok(page) => page,
                Err(error) => {
                    // It holds page 0, which giving back needs.
                    drop(mtr);
                    self.abandon_chain(value, next, last, payload);
                    return Err(error);
                }
            };
            let number = mtr.page(page).id().number;
            let mut bytes = vec![0; self.pool.page_len()];
            let header = Header::empty(PageKind::Overflow, 0, bytes.len());
            Header { heap: (HEADER_LEN + part.len()) as u16, right: next, ..header }.write(bytes.as_mut_slice());
            bytes.as_mut_slice().write(HEADER_LEN, part);
            mtr.change(page, &Change::Image(&Change::image(&bytes)));
            mtr.commit(Close::Open)?;
            if last == 0 {
                last = number;
            }
            next = number;
        }
        Ok(OverflowRef { len: value.len() as u32, first: next, last })
    }

    /// Gives the pages back that were written so far.
    #[cold]
    fn abandon_chain(&self, value: &[u8], first: u32, last: u32, payload: usize) {
        let written = value.chunks(payload).rev();
        let mut len = 0;
        let mut at = first;
        // The chain is as long as its pages say.
        for part in written {
            if at == 0 {
                break;
            }
            len += part.len();
            at = match self.pool.shared(self.page_id(at)) {
                Ok(page) => Header::read(page.bytes()).right,
                Err(_) => 0,
            };
        }
        if last != 0 {
            let _ = self.give_back(&OverflowRef { len: len as u32, first, last }, Close::Open);
        }
    }

    /// Gives the pages of a long value back that no row has.
    pub(crate) fn give_back(&self, chain: &OverflowRef, close: Close) -> Result<()> {
        let mut mtr = Mtr::new(&self.pool);
        mtr.free_chain(self.space, chain)?;
        mtr.commit(close).map(drop)
    }

    /// A cell's value with its stamp, and with what it refers to in place of the reference; its flags say so. Whoever calls holds its leaf, or knows that the
    /// value's pages are not given back meanwhile.
    #[cold]
    pub(crate) fn whole(&self, value: Value<'_>) -> Result<(u8, Vec<u8>)> {
        let long = self.read_long(value)?;
        let stamp = &value.bytes[..value.bytes.len() - page::body(value.flags, value.bytes).len()];
        let stamp = if value.flags & FLAG_STAMP == 0 { &[][..] } else { stamp.get(..page::Stamp::LEN).unwrap_or(&[]) };
        Ok((value.flags & !FLAG_OVERFLOW, [stamp, &long].concat()))
    }

    /// Reads the value behind a stamp, which may be long. Whoever calls holds its leaf.
    #[cold]
    pub(crate) fn read_long(&self, value: Value<'_>) -> Result<Vec<u8>> {
        if value.flags & FLAG_OVERFLOW == 0 {
            return Ok(page::body(value.flags, value.bytes).to_vec());
        }
        let chain = value.chain().ok_or_else(|| Error::corrupt("a reference to a long value is malformed"))?;
        let len = chain.len as usize;
        let pages = chain.pages(self.pool.page_len());
        let mut out = Vec::new();
        // What a reference claims is reserved in steps, as its pages bear it out.
        let mut number = chain.first;
        // A chain that leads back into itself would bear out any length. Brent's algorithm: the chain is compared with one of its pages, which moves on to the present one after 1, 2, 4, 8 steps and so on.
        let (mut mark, mut left) = (None, 1_usize);
        let mut reach = 1_usize;
        for _ in 0..pages {
            if mark == Some(number) {
                return Err(self.corruption(number, "a long value leads back into itself"));
            }
            if value.leaf == Some(number) {
                // Whoever holds that would wait for itself.
                return Err(self.corruption(number, "a long value leads into the leaf of its row"));
            }
            left -= 1;
            if left == 0 {
                (mark, reach) = (Some(number), 2 * reach);
                left = reach;
            }
            let page = self.pool.shared(self.page_id(number))?;
            let header = Header::read(page.bytes());
            let payload =
                page::overflow_payload(page.bytes(), &header).filter(|_| header.kind() == Some(PageKind::Overflow));
            let payload = payload.ok_or_else(|| self.corruption(number, "part of a long value was expected"))?;
            out.extend_from_slice(payload);
            number = header.right;
        }
        if out.len() != len {
            return Err(self.corruption(chain.first, "a long value is not as long as its row says"));
        }
        Ok(out)
    }
}
