//! Pages: the unit of everything that lies on disk. `docs/src/formats/page.md` has the tables of bytes.
//!
//! A page is a header, a directory of slots that grows upwards, cells that grow downwards from the end, and a trailer:
//!
//! ```text
//! 0        96                                                        length - 8
//! | header | slot 0 | slot 1 | ... -> |   free   | <- ... cell 1 | cell 0 | trailer |
//! ```
//!
//! Slots are in the order of their keys, cells lie anywhere. A slot is one word: where the cell is, how long its key is, and the
//! first four bytes of the key behind the prefix that all keys of the page share. So a search mostly stays within the
//! directory, and a reader without a latch sees each slot as a whole.
//!
//! All code here is total: it takes any bytes, and answers with an error or a harmless value where they are no page.

mod access;
mod change;
mod check;
mod compressed;
mod dump;
mod header;
mod inner;
mod leaf;
mod overflow;
mod seal;
mod search;
mod slotted;
mod stamp;
#[cfg(test)]
mod tests;

pub use access::{PageMut, PageRead};
pub use change::Change;
pub use check::check;
pub use compressed::{PageCompressor, block_len, decompress, is_compressed, stored_len};
pub use dump::dump;
pub use header::{Header, PageId, PageKind};
pub use inner::{child_at, child_for, separator_at, shortest_separator};
pub use leaf::find;
pub use overflow::{OverflowRef, overflow_payload};
pub use seal::{Damage, seal, verify};
pub use search::{search, search_from};
pub use slotted::{Cell, EditError, build, cell, compact, highest_id, insert, key_at, remove, replace_value, truncate};
pub use stamp::{Stamp, body, chain};

pub(crate) use access::u32_at;
pub(crate) use slotted::prefetch_cells;

/// A position in the redo log: the number of bytes that were ever appended before it.
pub type Lsn = u64;

/// Bytes before the slots.
pub const HEADER_LEN: usize = 96;

/// Bytes at the end of a page: the page's LSN again, so that a page written by halves shows it.
pub const TRAILER_LEN: usize = 8;

/// Bytes of one slot.
pub const SLOT_LEN: usize = 8;

/// Bytes of a cell before its key: flags and the length of the value.
pub const CELL_HEADER_LEN: usize = 3;

/// The longest page, in bytes.
pub const MAX_PAGE_LEN: usize = 64 << 10;

/// The longest prefix that the header keeps.
pub const MAX_PREFIX_LEN: usize = 32;

/// Cell flag: the value begins with a [`Stamp`].
pub const FLAG_STAMP: u8 = 0x01;

/// Cell flag: the row is deleted, for those who see its stamp.
pub const FLAG_DELETED: u8 = 0x04;

/// Cell flag: the value lies on overflow pages; the cell holds an [`OverflowRef`].
pub const FLAG_OVERFLOW: u8 = 0x02;

/// Every cell flag that this version knows. A page with another is refused.
pub const KNOWN_FLAGS: u8 = FLAG_STAMP | FLAG_OVERFLOW | FLAG_DELETED;

/// The longest key of pages of `page_len` bytes: four cells always fit on a page.
pub const fn max_key_len(page_len: usize) -> usize {
    page_len / 8
}

/// The longest value that lies in its cell, which has room for a stamp beside it; a longer one goes to overflow pages.
pub const fn max_inline_len(page_len: usize, key_len: usize) -> usize {
    let most = (page_len - HEADER_LEN - TRAILER_LEN) / 4 - SLOT_LEN - CELL_HEADER_LEN - Stamp::LEN;
    most.saturating_sub(key_len)
}
