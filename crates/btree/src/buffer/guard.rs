//! Guards: a page that is held.

use super::frame::{Frame, Words};
use crate::page::{Header, Lsn, PageId, PageMut, PageRead};
use siltstone_base::sync::{LatchVersion, Signal};
use std::cmp::Ordering;

/// A page that nobody changes while the guard lives.
#[derive(Debug)]
pub(crate) struct SharedGuard<'a> {
    pub(super) index: u32,
    pub(super) frame: &'a Frame,
    pub(super) words: Words<'a>,
    pub(super) signal: &'a Signal,
}

impl SharedGuard<'_> {
    /// The page.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.words.latched_bytes()
    }
}

impl Drop for SharedGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frame.latch.unlock_shared(self.signal);
    }
}

/// A page that only the holder of the guard uses.
#[derive(Debug)]
pub(crate) struct ExclusiveGuard<'a> {
    pub(super) id: PageId,
    pub(super) index: u32,
    pub(super) frame: &'a Frame,
    pub(super) words: Words<'a>,
    pub(super) signal: &'a Signal,
}

impl ExclusiveGuard<'_> {
    /// The page's name.
    pub(crate) fn id(&self) -> PageId {
        self.id
    }

    /// The page's header.
    #[inline]
    pub(crate) fn header(&self) -> Header {
        Header::read(self)
    }

    /// Says that the record that ends at `lsn` changed the page.
    #[inline]
    pub(crate) fn set_lsn(&self, lsn: Lsn) {
        self.frame.set_page_lsn(lsn);
    }

    /// The LSN of the last change.
    #[inline]
    pub(crate) fn lsn(&self) -> Lsn {
        self.frame.page_lsn()
    }
}

impl PageRead for ExclusiveGuard<'_> {
    #[inline]
    fn page_len(&self) -> usize {
        self.words.page_len()
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.words.word(at)
    }

    #[inline]
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Option<Ordering> {
        self.bytes().compare(at, len, other)
    }
}

impl PageMut for ExclusiveGuard<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.words.latched_bytes()
    }

    #[inline]
    fn write(&mut self, at: usize, data: &[u8]) {
        self.words.write(at, data);
    }

    #[inline]
    fn set_word(&mut self, at: usize, word: u64) {
        self.words.set_word(at, word);
    }

    #[inline]
    fn copy_words(&mut self, from: usize, to: usize, count: usize) {
        self.words.copy_words(from, to, count);
    }
}

impl Drop for ExclusiveGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frame.latch.unlock_exclusive(self.signal);
    }
}

/// A page as it was at one moment, held by nobody. What is read of it counts only if [`is_valid`](Self::is_valid) says so
/// afterwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Optimistic<'a> {
    pub(super) index: u32,
    pub(super) frame: &'a Frame,
    pub(super) words: Words<'a>,
    pub(super) version: LatchVersion,
}

impl<'a> Optimistic<'a> {
    /// The bytes, which may change.
    #[inline]
    pub(crate) fn page(&self) -> &(impl PageRead + 'a) {
        &self.words
    }

    /// The frame that holds the page.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Whether the page is as it was, and still in its frame.
    #[inline]
    pub(crate) fn is_valid(&self) -> bool {
        self.frame.latch.validate(self.version)
    }
}
