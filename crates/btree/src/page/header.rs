//! The header of a page.

use super::access::{PageMut, PageRead};
use super::{HEADER_LEN, MAX_PREFIX_LEN, TRAILER_LEN};
use std::fmt;

/// A page by the tablespace that it is in and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The tablespace.
    pub space: u32,
    /// The page's number in the tablespace: its offset is this times the length of a page.
    pub number: u32,
}

impl PageId {
    /// A page of a tablespace.
    pub const fn new(space: u32, number: u32) -> Self {
        Self { space, number }
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}:{}", self.space, self.number)
    }
}

/// What a page is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageKind {
    /// The first page of a tablespace: what it is, and where its free pages are.
    Space,
    /// Rows.
    Leaf,
    /// Separators and children.
    Inner,
    /// Part of a long value.
    Overflow,
    /// Given back.
    Free,
    /// What is known of leaves without reading them.
    Bitmap,
}

impl PageKind {
    /// The number that stands for the kind in a page.
    pub const fn code(self) -> u8 {
        match self {
            Self::Space => 1,
            Self::Leaf => 2,
            Self::Inner => 3,
            Self::Overflow => 4,
            Self::Free => 5,
            Self::Bitmap => 6,
        }
    }

    /// The kind of a number.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Space,
            2 => Self::Leaf,
            3 => Self::Inner,
            4 => Self::Overflow,
            5 => Self::Free,
            6 => Self::Bitmap,
            _ => return None,
        })
    }
}

/// Offsets of the header's fields, in bytes.
pub(super) mod at {
    pub(in super::super) const CHECKSUM: usize = 0;
    pub(in super::super) const LSN: usize = 8;
    pub(in super::super) const ID: usize = 16;
    pub(in super::super) const KIND: usize = 24;
    pub(in super::super) const RIGHT: usize = 32;
    pub(in super::super) const GARBAGE: usize = 40;
    pub(in super::super) const HIGHEST_ID: usize = 48;
    pub(in super::super) const PREFIX: usize = 64;
}

/// The fields of a header that say what a page holds, read at once. Nothing here was checked against the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number that stands for the [`PageKind`].
    pub kind_code: u8,
    /// Levels beneath: 0 for a leaf.
    pub level: u8,
    /// The page before at the same level, or 0.
    pub left: u32,
    /// The page behind at the same level, or 0. For overflow and free pages the next of the chain.
    pub right: u32,
    /// Slots.
    pub count: u16,
    /// Where the lowest cell begins.
    pub heap: u16,
    /// Bytes among the cells that belong to none.
    pub garbage: u16,
    /// Bytes that all keys share; those before the first slot of an inner page are left out.
    pub prefix_len: u8,
    /// Consecutive insertions, each right behind the one before (positive) or right before it (negative).
    pub run: i16,
    /// The slot of the last insertion.
    pub last_insert: u16,
}

impl Header {
    /// The header of an empty page.
    pub const fn empty(kind: PageKind, level: u8, page_len: usize) -> Self {
        Self {
            kind_code: kind.code(),
            level,
            left: 0,
            right: 0,
            count: 0,
            heap: page_len.saturating_sub(TRAILER_LEN) as u16,
            garbage: 0,
            prefix_len: 0,
            run: 0,
            last_insert: 0,
        }
    }

    /// Reads the header of a page, which may change meanwhile: each word is read once.
    #[inline]
    pub fn read<P: PageRead + ?Sized>(page: &P) -> Self {
        let (kind, links, counts) = (page.word(at::KIND), page.word(at::RIGHT), page.word(at::GARBAGE));
        Self {
            kind_code: kind as u8,
            level: (kind >> 8) as u8,
            left: (kind >> 32) as u32,
            right: links as u32,
            count: (links >> 32) as u16,
            heap: (links >> 48) as u16,
            garbage: counts as u16,
            prefix_len: ((counts >> 16) as u8).min(MAX_PREFIX_LEN as u8),
            run: (counts >> 32) as u16 as i16,
            last_insert: (counts >> 48) as u16,
        }
    }

    /// Writes these fields. The others stay.
    #[inline]
    pub fn write<P: PageMut + ?Sized>(&self, page: &mut P) {
        let kind = u64::from(self.kind_code) | u64::from(self.level) << 8 | u64::from(self.left) << 32;
        let links = u64::from(self.right) | u64::from(self.count) << 32 | u64::from(self.heap) << 48;
        let counts = u64::from(self.garbage)
            | u64::from(self.prefix_len) << 16
            | u64::from(self.run as u16) << 32
            | u64::from(self.last_insert) << 48;
        page.set_word(at::KIND, kind);
        page.set_word(at::RIGHT, links);
        page.set_word(at::GARBAGE, counts);
    }

    /// The kind, if this version knows it.
    pub const fn kind(&self) -> Option<PageKind> {
        PageKind::from_code(self.kind_code)
    }

    /// Where the slots end.
    #[inline]
    pub const fn slots_end(&self) -> usize {
        HEADER_LEN + self.count as usize * super::SLOT_LEN
    }

    /// Bytes that cells and slots may still take, once the page is compact.
    #[inline]
    pub const fn free(&self) -> usize {
        (self.heap as usize + self.garbage as usize).saturating_sub(self.slots_end())
    }

    /// Bytes that cells and slots take.
    pub const fn used(&self, page_len: usize) -> usize {
        page_len.saturating_sub(HEADER_LEN + TRAILER_LEN + self.free())
    }
}
