//! Memory aligned for direct I/O, and the bounce buffer of each thread.

use std::cell::RefCell;
use std::io;
use std::ops::{Deref, DerefMut};

use crate::env::DIRECT_ALIGNMENT;

/// Whether `offset`, the length and the memory of `buffer` suit direct I/O.
#[inline]
pub(super) fn is_aligned(offset: u64, buffer: &[u8]) -> bool {
    offset.is_multiple_of(DIRECT_ALIGNMENT as u64)
        && buffer.len().is_multiple_of(DIRECT_ALIGNMENT)
        && buffer.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT)
}

/// Zeroed bytes whose memory is aligned to [`DIRECT_ALIGNMENT`].
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` zero bytes; `len` is a multiple of the alignment.
    pub(super) fn new(len: usize) -> Self {
        debug_assert!(len.is_multiple_of(DIRECT_ALIGNMENT));
        let memory = vec![0; len + DIRECT_ALIGNMENT];
        let start = memory.as_ptr().addr().next_multiple_of(DIRECT_ALIGNMENT) - memory.as_ptr().addr();
        Self { memory, start, len }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// What a bounce buffer holds, in bytes: longer transfers go piece by piece.
pub(super) const BOUNCE_LEN: usize = 256 << 10;

thread_local! {
    static BOUNCE: RefCell<Option<AlignedBuffer>> = const { RefCell::new(None) };
}

/// Runs `use_buffer` on the bounce buffer of this thread: [`BOUNCE_LEN`] bytes of any content, kept until the thread ends.
pub(super) fn with_bounce<T>(use_buffer: impl FnOnce(&mut [u8]) -> io::Result<T>) -> io::Result<T> {
    BOUNCE.with_borrow_mut(|buffer| use_buffer(buffer.get_or_insert_with(|| AlignedBuffer::new(BOUNCE_LEN))))
}
