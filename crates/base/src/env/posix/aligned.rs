//! Memory aligned for direct I/O, and the bounce buffer of each thread.

use std::cell::RefCell;
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

use crate::env::DIRECT_ALIGNMENT;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Whether `offset`, the length and the memory of `buffer` suit direct I/O.
#[inline]
pub(super) fn is_aligned(offset: u64, buffer: &[u8]) -> bool {
    offset.is_multiple_of(DIRECT_ALIGNMENT as u64)
        && buffer.len().is_multiple_of(DIRECT_ALIGNMENT)
        && buffer.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT)
}

/// Bytes of all such buffers of the process.
static BUFFERS: AtomicU64 = AtomicU64::new(0);

/// Bytes that buffers of direct I/O take in this process: of files that are appended to, of ranges that are read ahead, and one of each thread that moves bytes at odd places.
pub fn buffer_bytes() -> u64 {
    BUFFERS.load(Ordering::Relaxed)
}

/// Zeroed bytes whose memory is aligned to [`DIRECT_ALIGNMENT`]. They go back to the operating system, but for one that waits for the next range to read ahead: an allocator would keep some of what comes and goes with every file.
pub(super) struct AlignedBuffer {
    memory: Memory,
    start: usize,
    len: usize,
}

enum Memory {
    Mapped(MmapMut),
    /// Where nothing more can be mapped.
    Allocated(Vec<u8>),
}

impl AlignedBuffer {
    /// `len` zero bytes; `len` is a multiple of the alignment.
    pub(super) fn new(len: usize) -> Self {
        debug_assert!(len.is_multiple_of(DIRECT_ALIGNMENT));
        let memory = match MmapMut::map_anon(len + DIRECT_ALIGNMENT) {
            Ok(mapped) => Memory::Mapped(mapped),
            Err(_) => Memory::Allocated(vec![0; len + DIRECT_ALIGNMENT]),
        };
        let address = match &memory {
            Memory::Mapped(mapped) => mapped.as_ptr().addr(),
            Memory::Allocated(bytes) => bytes.as_ptr().addr(),
        };
        BUFFERS.fetch_add(len as u64, Ordering::Relaxed);
        Self { memory, start: address.next_multiple_of(DIRECT_ALIGNMENT) - address, len }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        BUFFERS.fetch_sub(self.len as u64, Ordering::Relaxed);
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let memory: &[u8] = match &self.memory {
            Memory::Mapped(mapped) => mapped,
            Memory::Allocated(bytes) => bytes,
        };
        &memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let memory: &mut [u8] = match &mut self.memory {
            Memory::Mapped(mapped) => mapped,
            Memory::Allocated(bytes) => bytes,
        };
        &mut memory[self.start..self.start + self.len]
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
