//! Frames: control blocks, and memory that is shared between latched and optimistic readers.
//!
//! The memory of a page is an array of atomic words. It is written by word stores only, under the exclusive latch. Optimistic readers
//! load words. Whoever holds a latch, shared or exclusive, knows that nobody writes, and may look at the words as bytes: that view is the one use of unsafe
//! code in this crate.

use crate::page::{Lsn, PageId, PageRead};
use siltstone_base::prefetch::{CACHE_LINE, prefetch};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use siltstone_base::sync::{Latch, OnceLock};
use std::cmp::Ordering as Order;

/// What `Frame::page` says when the frame holds none.
const NO_PAGE: u64 = u64::MAX;

/// The end of a chain of the page table.
pub(super) const NO_FRAME: u32 = u32::MAX;

/// The control block of a frame.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Frame {
    pub(super) latch: Latch,
    /// The page, as one word. Changed under the exclusive latch.
    page: AtomicU64,
    /// LSN of the last change of the page. Changed under the exclusive latch.
    page_lsn: AtomicU64,
    /// Where the record begins that made the page dirty; 0 while it is clean. Set under the exclusive latch and the redo buffer's lock, cleared
    /// under a latch by whose batch the page is in.
    pub(super) oldest_lsn: AtomicU64,
    /// When the page was first used, in microseconds, while it is old; 0 before.
    pub(super) first_use_micros: AtomicU64,
    /// The next frame of the page table's chain.
    pub(super) next: AtomicU32,
    /// The clock of evictions when the page was last made young.
    pub(super) young_clock: AtomicU32,
    /// Whether the page is in the old sublist.
    pub(super) is_old: AtomicBool,
    /// Whether the page is being written.
    pub(super) is_flushing: AtomicBool,
    /// Whether the page was read ahead, and nobody used it since.
    pub(super) is_ahead: AtomicBool,
}

#[inline]
fn page_word(id: PageId) -> u64 {
    u64::from(id.space) << 32 | u64::from(id.number)
}

impl Frame {
    pub(super) fn new() -> Self {
        Self {
            latch: Latch::new(),
            page: AtomicU64::new(NO_PAGE),
            page_lsn: AtomicU64::new(0),
            oldest_lsn: AtomicU64::new(0),
            first_use_micros: AtomicU64::new(0),
            next: AtomicU32::new(NO_FRAME),
            young_clock: AtomicU32::new(0),
            is_old: AtomicBool::new(false),
            is_flushing: AtomicBool::new(false),
            is_ahead: AtomicBool::new(false),
        }
    }

    /// The page that the frame holds.
    pub(super) fn page(&self) -> Option<PageId> {
        let word = self.page.load(Ordering::Acquire);
        (word != NO_PAGE).then_some(PageId::new((word >> 32) as u32, word as u32))
    }

    #[inline]
    pub(super) fn holds(&self, id: PageId) -> bool {
        self.page.load(Ordering::Acquire) == page_word(id)
    }

    pub(super) fn set_page(&self, id: Option<PageId>) {
        self.page.store(id.map_or(NO_PAGE, page_word), Ordering::Release);
    }

    #[inline]
    pub(super) fn is_dirty(&self) -> bool {
        self.oldest_lsn.load(Ordering::Acquire) != 0
    }

    #[inline]
    pub(super) fn page_lsn(&self) -> Lsn {
        self.page_lsn.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set_page_lsn(&self, lsn: Lsn) {
        self.page_lsn.store(lsn, Ordering::Release);
    }
}

/// Lines of a page that a reader of it mostly needs: the header, and the slots of about a hundred rows.
const FRONT_LINES: usize = 13;

/// Frames whose memory is allocated together.
const CHUNK_BYTES: usize = 4 << 20;

/// The memory of all frames, allocated as it is first used.
#[derive(Debug)]
pub(super) struct Memory {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    words_per_page: usize,
    /// Frames of a chunk, as a power of two.
    chunk_shift: u32,
}

impl Memory {
    pub(super) fn new(frames: usize, page_len: usize) -> Self {
        let per_chunk = (CHUNK_BYTES / page_len).max(1).next_power_of_two().min(frames.max(1).next_power_of_two());
        let chunks = (0..frames.div_ceil(per_chunk)).map(|_| OnceLock::new()).collect();
        Self { chunks, words_per_page: page_len / 8, chunk_shift: per_chunk.ilog2() }
    }

    /// Bytes of a page.
    #[inline]
    pub(super) fn page_len(&self) -> usize {
        self.words_per_page * 8
    }

    /// The words of a frame that exists.
    #[inline]
    pub(super) fn words(&self, frame: u32) -> Words<'_> {
        let chunk = self.chunks[(frame >> self.chunk_shift) as usize].get_or_init(|| self.allocate());
        let first = (frame as usize & ((1 << self.chunk_shift) - 1)) * self.words_per_page;
        Words(&chunk[first..first + self.words_per_page])
    }

    #[cold]
    fn allocate(&self) -> Box<[AtomicU64]> {
        (0..self.words_per_page << self.chunk_shift).map(|_| AtomicU64::new(0)).collect()
    }
}

/// The memory of one page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words<'a>(&'a [AtomicU64]);

impl<'a> Words<'a> {
    /// The page as bytes.
    ///
    /// The caller holds the latch of the frame, shared or exclusive, for as long as it uses the bytes.
    #[inline]
    #[expect(unsafe_code, reason = "latched readers see a page as bytes")]
    pub(super) fn latched_bytes(self) -> &'a [u8] {
        // SAFETY: the words lie together, are initialized, and live as long as 'a. All writes are stores through `Words`, made under the
        // exclusive latch: while the caller holds the latch nobody else makes any, and a guard that stores takes itself mutably, which ends
        // the borrow of these bytes. Optimistic readers only load. Atomic words have the layout of plain ones.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), self.0.len() * 8) }
    }

    /// Asks for the header of the page and its first slots.
    #[inline]
    pub(super) fn prefetch_front(self) {
        for line in self.0.chunks(CACHE_LINE / 8).take(FRONT_LINES) {
            prefetch(line.as_ptr());
        }
    }

    #[inline]
    fn load(self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline]
    fn store(self, index: usize, word: u64) {
        if let Some(cell) = self.0.get(index) {
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// Sets 8 bytes at a multiple of 8. The caller holds the exclusive latch.
    #[inline]
    pub(super) fn set_word(self, at: usize, word: u64) {
        self.store(at / 8, word.to_le());
    }

    /// Copies words. The caller holds the exclusive latch.
    #[inline]
    pub(super) fn copy_words(self, from: usize, to: usize, count: usize) {
        let (from, to) = (from / 8, to / 8);
        if from < to {
            (0..count).rev().for_each(|index| self.store(to + index, self.load(from + index)));
        } else {
            (0..count).for_each(|index| self.store(to + index, self.load(from + index)));
        }
    }

    /// Writes bytes anywhere; what would lie outside is left out. The caller holds the exclusive latch.
    #[inline]
    pub(super) fn write(self, at: usize, data: &[u8]) {
        let mut rest = &data[..data.len().min((self.0.len() * 8).saturating_sub(at))];
        let mut index = at / 8;
        let skip = at % 8;
        if skip != 0 && !rest.is_empty() {
            let count = rest.len().min(8 - skip);
            let mut bytes = self.load(index).to_ne_bytes();
            bytes[skip..skip + count].copy_from_slice(&rest[..count]);
            self.store(index, u64::from_ne_bytes(bytes));
            rest = &rest[count..];
            index += 1;
        }
        let (words, tail) = rest.as_chunks::<8>();
        for word in words {
            self.store(index, u64::from_ne_bytes(*word));
            index += 1;
        }
        if !tail.is_empty() {
            let mut bytes = self.load(index).to_ne_bytes();
            bytes[..tail.len()].copy_from_slice(tail);
            self.store(index, u64::from_ne_bytes(bytes));
        }
    }
}

impl PageRead for Words<'_> {
    #[inline]
    fn page_len(&self) -> usize {
        self.0.len() * 8
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        u64::from_le(self.load(at / 8))
    }

    /// Eight bytes at a time, as big-endian numbers.
    #[inline]
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Option<Order> {
        if at.checked_add(len)? > self.page_len() {
            return None;
        }
        let shared = len.min(other.len());
        let (mut index, shift) = (at / 8, at % 8 * 8);
        let mut done = 0;
        let mut low = self.load(index).to_le();
        while done < shared {
            let high = if shift == 0 && done + 8 >= shared { 0 } else { self.load(index + 1).to_le() };
            let own = if shift == 0 { low } else { low >> shift | high << (64 - shift) };
            let count = (shared - done).min(8);
            let mut bytes = [0; 8];
            bytes[..count].copy_from_slice(&other[done..done + count]);
            let mask = if count == 8 { u64::MAX } else { !(u64::MAX >> (8 * count)) };
            match (own.swap_bytes() & mask).cmp(&u64::from_be_bytes(bytes)) {
                Order::Equal => {}
                order => return Some(order),
            }
            (low, index, done) = (high, index + 1, done + 8);
        }
        Some(len.cmp(&other.len()))
    }
}
