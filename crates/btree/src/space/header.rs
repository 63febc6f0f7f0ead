//! Page 0 of a tablespace: what the file is, and which of its pages are free.

use super::bitmap::is_bitmap;
use crate::options::PageCompression;
use crate::page::{Change, HEADER_LEN, PageMut, PageRead};

/// The page of a tablespace at which its tree begins. It never moves. Page 1 is a bitmap.
pub(crate) const ROOT: u32 = 2;

/// The first page that may be given out.
const FIRST: u32 = 3;

const MAGIC: u64 = u64::from_le_bytes(*b"SiltPage");
const VERSION: u32 = 1;

/// What page 0 says behind its page header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpaceHeader {
    /// Pages in use or free: the next one is this.
    pub(crate) pages: u32,
    /// The first free page, or 0.
    pub(crate) free_head: u32,
    /// Free pages.
    pub(crate) free_count: u32,
    /// For the catalog: the number of the tablespace that is created next. No number is used twice.
    pub(crate) next_space: u32,
    /// How pages of the tablespace are stored.
    pub(crate) compression: PageCompression,
}

impl SpaceHeader {
    /// The number of a tree's root.
    pub(crate) const ROOT: u32 = ROOT;

    /// That of a tablespace with nothing but a root.
    pub(crate) const fn new(next_space: u32) -> Self {
        Self { pages: FIRST, free_head: 0, free_count: 0, next_space, compression: PageCompression::None }
    }

    /// Reads page 0; an error says what this version can't read.
    pub(crate) fn read<P: PageRead + ?Sized>(page: &P) -> Result<Self, &'static str> {
        if page.word(HEADER_LEN) != MAGIC {
            return Err("the tablespace has no header");
        }
        let versions = page.word(HEADER_LEN + 8);
        let compression = u8::try_from(versions >> 32).ok().and_then(PageCompression::from_code);
        let (VERSION, Some(compression)) = (versions as u32, compression) else {
            return Err("the tablespace has a format or a feature that this version does not know");
        };
        let (numbers, free) = (page.word(HEADER_LEN + 16), page.word(HEADER_LEN + 24));
        let header = Self {
            pages: numbers as u32,
            free_head: (numbers >> 32) as u32,
            free_count: free as u32,
            next_space: (free >> 32) as u32,
            compression,
        };
        if header.pages < FIRST || header.free_head >= header.pages || header.free_count >= header.pages {
            return Err("the header of the tablespace makes no sense");
        }
        Ok(header)
    }

    /// The bytes behind the page header.
    pub(crate) fn encode(&self) -> [u8; 32] {
        let mut out = [0; 32];
        out.as_mut_slice().set_word(0, MAGIC);
        out.as_mut_slice().set_word(8, u64::from(VERSION) | u64::from(self.compression.code()) << 32);
        out.as_mut_slice().set_word(16, u64::from(self.pages) | u64::from(self.free_head) << 32);
        out.as_mut_slice().set_word(24, u64::from(self.free_count) | u64::from(self.next_space) << 32);
        out
    }

    /// The change that makes page 0 say this.
    pub(crate) fn change(bytes: &[u8; 32]) -> Change<'_> {
        Change::Write { offset: HEADER_LEN as u16, data: bytes }
    }

    /// The number of pages that a change of page 0 states.
    pub(crate) fn pages_in(change: &Change<'_>) -> Option<u32> {
        match change {
            Change::Write { offset, data } if usize::from(*offset) == HEADER_LEN => {
                data.get(16..20)?.try_into().ok().map(u32::from_le_bytes)
            }
            _ => None,
        }
    }

    /// The page that the file grows by, and the bitmap page that it then has too, if there is a new one.
    pub(crate) fn grow(&mut self, page_len: usize) -> Option<(u32, Option<u32>)> {
        let mut number = self.pages;
        if is_bitmap(number, page_len) {
            number = number.checked_add(1)?;
        }
        self.pages = number.checked_add(1)?;
        // The first page of those of a bitmap comes before it.
        let is_first = (number as usize).is_multiple_of(page_len);
        Some((number, if is_first { Some(self.pages) } else { None }))
    }
}
