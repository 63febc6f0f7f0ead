//! Changes of one page, as the redo log keeps them. The same code makes a change while the engine runs and after a crash.

use super::access::{PageMut, u16_at};
use super::header::{Header, PageKind};
use super::slotted::{self, Cell, EditError};
use super::{HEADER_LEN, SLOT_LEN, TRAILER_LEN};
use siltstone_base::coding::{get_varint32, put_varint32};

/// One change of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a> {
    /// The page becomes an empty one of a kind and level; whatever was there before does not matter.
    Format {
        /// What the page is for.
        kind: PageKind,
        /// Levels beneath.
        level: u8,
        /// The page before.
        left: u32,
        /// The page behind, or the next of the chain.
        right: u32,
    },
    /// The page becomes that of an [`image`](Self::image); whatever was there before does not matter.
    Image(&'a [u8]),
    /// A cell is put before a slot.
    Insert {
        /// The slot.
        slot: u16,
        /// The cell.
        cell: Cell<'a>,
    },
    /// A slot and its cell are removed.
    Remove {
        /// The slot.
        slot: u16,
    },
    /// A slot gets another value.
    Replace {
        /// The slot.
        slot: u16,
        /// Flags of the cell.
        flags: u8,
        /// The value.
        value: &'a [u8],
    },
    /// A slot and all behind it are removed.
    Truncate {
        /// The first slot that goes.
        from: u16,
    },
    /// The link to the page before changes.
    SetLeft(u32),
    /// The link to the page behind, or to the next of the chain, changes.
    SetRight(u32),
    /// Bytes at an offset change.
    Write {
        /// Where, in bytes from the front of the page.
        offset: u16,
        /// What.
        data: &'a [u8],
    },
}

const FORMAT: u8 = 1;
const IMAGE: u8 = 2;
const INSERT: u8 = 3;
const REMOVE: u8 = 4;
const REPLACE: u8 = 5;
const TRUNCATE: u8 = 6;
const SET_LEFT: u8 = 7;
const SET_RIGHT: u8 = 8;
const WRITE: u8 = 9;

/// The first byte of a page that an image has: name, LSN and checksum are not part of what changes.
const IMAGE_FROM: usize = 24;

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn get_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = get_varint32(input)? as usize;
    let (bytes, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(bytes)
}

fn get_u16(input: &mut &[u8]) -> Option<u16> {
    u16::try_from(get_varint32(input)?).ok()
}

fn get_u8(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

impl<'a> Change<'a> {
    /// What [`Image`](Self::Image) keeps of a page: everything but its name, its LSN and what is free.
    pub fn image(page: &[u8]) -> Vec<u8> {
        let header = Header::read(page);
        let (low, high) = match header.kind() {
            // Their payload grows upwards from the header.
            Some(PageKind::Overflow | PageKind::Space) => (usize::from(header.heap), page.len()),
            _ => (header.slots_end(), usize::from(header.heap)),
        };
        let low = low.clamp(IMAGE_FROM, page.len());
        let high = high.clamp(low, page.len()).min(page.len().saturating_sub(TRAILER_LEN)).max(low);
        let mut out = Vec::with_capacity(low + page.len() - high);
        out.extend_from_slice(&(low as u16).to_le_bytes());
        out.extend_from_slice(&page[IMAGE_FROM..low]);
        out.extend_from_slice(&page[high..page.len() - TRAILER_LEN.min(page.len() - high)]);
        out
    }

    /// Whether the change needs nothing of what the page was before.
    pub const fn is_whole(&self) -> bool {
        matches!(self, Self::Format { .. } | Self::Image(_))
    }

    /// Appends the change as the redo log keeps it.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Format { kind, level, left, right } => {
                out.extend_from_slice(&[FORMAT, kind.code(), *level]);
                put_varint32(out, *left);
                put_varint32(out, *right);
            }
            Self::Image(image) => {
                out.push(IMAGE);
                put_bytes(out, image);
            }
            Self::Insert { slot, cell } => {
                out.extend_from_slice(&[INSERT, cell.flags]);
                put_varint32(out, u32::from(*slot));
                put_bytes(out, cell.key);
                put_bytes(out, cell.value);
            }
            Self::Remove { slot } => {
                out.push(REMOVE);
                put_varint32(out, u32::from(*slot));
            }
            Self::Replace { slot, flags, value } => {
                out.extend_from_slice(&[REPLACE, *flags]);
                put_varint32(out, u32::from(*slot));
                put_bytes(out, value);
            }
            Self::Truncate { from } => {
                out.push(TRUNCATE);
                put_varint32(out, u32::from(*from));
            }
            Self::SetLeft(page) => {
                out.push(SET_LEFT);
                put_varint32(out, *page);
            }
            Self::SetRight(page) => {
                out.push(SET_RIGHT);
                put_varint32(out, *page);
            }
            Self::Write { offset, data } => {
                out.push(WRITE);
                put_varint32(out, u32::from(*offset));
                put_bytes(out, data);
            }
        }
    }

    /// Takes a change from the front of `input`; `None` if there is none that this version knows.
    pub fn decode(input: &mut &'a [u8]) -> Option<Self> {
        Some(match get_u8(input)? {
            FORMAT => Self::Format {
                kind: PageKind::from_code(get_u8(input)?)?,
                level: get_u8(input)?,
                left: get_varint32(input)?,
                right: get_varint32(input)?,
            },
            IMAGE => Self::Image(get_bytes(input)?),
            INSERT => {
                let flags = get_u8(input)?;
                let slot = get_u16(input)?;
                Self::Insert { slot, cell: Cell { flags, key: get_bytes(input)?, value: get_bytes(input)? } }
            }
            REMOVE => Self::Remove { slot: get_u16(input)? },
            REPLACE => {
                let flags = get_u8(input)?;
                Self::Replace { slot: get_u16(input)?, flags, value: get_bytes(input)? }
            }
            TRUNCATE => Self::Truncate { from: get_u16(input)? },
            SET_LEFT => Self::SetLeft(get_varint32(input)?),
            SET_RIGHT => Self::SetRight(get_varint32(input)?),
            WRITE => Self::Write { offset: get_u16(input)?, data: get_bytes(input)? },
            _ => return None,
        })
    }

    /// Makes the change.
    ///
    /// # Errors
    ///
    /// `Full` and `Malformed` if the page is not the one for which the change was written.
    #[inline]
    pub fn apply<P: PageMut + ?Sized>(&self, page: &mut P) -> Result<(), EditError> {
        match self {
            Self::Insert { slot, cell } => slotted::insert(page, usize::from(*slot), cell),
            Self::Replace { slot, flags, value } => slotted::replace_value(page, usize::from(*slot), *flags, value),
            Self::Remove { slot } => slotted::remove(page, usize::from(*slot)),
            Self::Truncate { from } => slotted::truncate(page, usize::from(*from)),
            _ => self.apply_to_whole(page),
        }
    }

    fn apply_to_whole<P: PageMut + ?Sized>(&self, page: &mut P) -> Result<(), EditError> {
        let len = page.page_len();
        if len < HEADER_LEN + TRAILER_LEN {
            return Err(EditError::Malformed);
        }
        match self {
            Self::Format { kind, level, left, right } => {
                page.write(IMAGE_FROM, &vec![0; len.saturating_sub(IMAGE_FROM)]);
                let header = Header::empty(*kind, *level, len);
                Header { left: *left, right: *right, ..header }.write(page);
            }
            Self::Image(image) => {
                let low = usize::from(u16_at(image, 0));
                let body = image.get(2..).ok_or(EditError::Malformed)?;
                let front = low.checked_sub(IMAGE_FROM).ok_or(EditError::Malformed)?;
                let (front, back) = body.split_at_checked(front).ok_or(EditError::Malformed)?;
                let high = len.checked_sub(TRAILER_LEN + back.len()).ok_or(EditError::Malformed)?;
                if low < HEADER_LEN || low > high {
                    return Err(EditError::Malformed);
                }
                page.write(IMAGE_FROM, front);
                page.write(low, &vec![0; high - low]);
                page.write(high, back);
            }
            Self::SetLeft(left) => Header { left: *left, ..Header::read(page) }.write(page),
            Self::SetRight(right) => Header { right: *right, ..Header::read(page) }.write(page),
            Self::Write { offset, data } => {
                let offset = usize::from(*offset);
                let end = offset + data.len();
                if offset < IMAGE_FROM || end + TRAILER_LEN > len {
                    return Err(EditError::Malformed);
                }
                page.write(offset, data);
            }
            _ => return Err(EditError::Malformed),
        }
        Ok(())
    }
}

const _: () = assert!(IMAGE_FROM.is_multiple_of(SLOT_LEN) && HEADER_LEN.is_multiple_of(SLOT_LEN));
