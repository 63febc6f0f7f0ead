//! How the bytes of a page are reached: by words, so that an optimistic reader may look at a page that changes under it.
//!
//! A page in a file's buffer is a byte slice. A page in a frame of the buffer pool is an array of atomic words: readers
//! without a latch load words, writers store words. Code that is written over these two traits works on both.

use std::cmp::Ordering;

/// Reads a page. No method panics, whatever the page holds: what lies outside reads as 0, or is `None`.
pub trait PageRead {
    /// The length of the page in bytes.
    fn page_len(&self) -> usize;

    /// The 8 bytes at `at`, a multiple of 8, as a little-endian number; 0 outside the page.
    fn word(&self, at: usize) -> u64;

    /// Compares `len` bytes at `at` with `other`, bytewise; `None` if they do not lie within the page.
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Option<Ordering>;
}

/// Changes a page that nobody else changes.
pub trait PageMut: PageRead {
    /// The page as it is.
    fn bytes(&self) -> &[u8];

    /// Sets the bytes from `at` on. What would lie outside the page is left out.
    fn write(&mut self, at: usize, data: &[u8]);

    /// Sets the 8 bytes at `at`, a multiple of 8.
    fn set_word(&mut self, at: usize, word: u64);

    /// Copies `count` words from `from` to `to`, both multiples of 8; the ranges may overlap.
    fn copy_words(&mut self, from: usize, to: usize, count: usize);
}

impl PageRead for [u8] {
    #[inline]
    fn page_len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
    }

    #[inline]
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Option<Ordering> {
        Some(self.get(at..)?.get(..len)?.cmp(other))
    }
}

impl PageMut for [u8] {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self
    }

    #[inline]
    fn write(&mut self, at: usize, data: &[u8]) {
        if let Some(room) = self.get_mut(at..) {
            let count = room.len().min(data.len());
            room[..count].copy_from_slice(&data[..count]);
        }
    }

    #[inline]
    fn set_word(&mut self, at: usize, word: u64) {
        self.write(at, &word.to_le_bytes());
    }

    #[inline]
    fn copy_words(&mut self, from: usize, to: usize, count: usize) {
        let bytes = count.saturating_mul(8);
        if from.max(to).checked_add(bytes).is_some_and(|end| end <= self.len()) {
            self.copy_within(from..from + bytes, to);
        }
    }
}

/// The two bytes at `at`; 0 outside.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |value| u16::from_le_bytes(*value))
}

/// The four bytes at `at`; 0 outside.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |value| u32::from_le_bytes(*value))
}
