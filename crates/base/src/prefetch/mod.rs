//! Hints to the processor about memory that will be read soon.
//!
//! A search through several structures is a row of waits for memory, one behind the other. Where the next address of each is
//! known early, asking for all of them first makes the waits overlap.
#![expect(unsafe_code, reason = "the instruction is an intrinsic that takes a raw pointer")]

/// The bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Asks for the cache line of `pointer`. Any address is allowed, a dangling one too: nothing is read that the program could
/// see. Does nothing on processors for which no instruction is known.
#[inline(always)]
pub fn prefetch<T: ?Sized>(pointer: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction belongs to the baseline of x86-64 and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(pointer.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}

/// Bytes that begin with a cache line.
#[derive(Debug)]
pub struct LineAligned {
    memory: Vec<u8>,
    start: usize,
}

impl LineAligned {
    /// A copy of `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        let mut memory: Vec<u8> = Vec::with_capacity(bytes.len() + CACHE_LINE);
        // It may say that it does not know: then what comes of it is only slower.
        let start = memory.as_ptr().align_offset(CACHE_LINE) % CACHE_LINE;
        memory.resize(start, 0);
        memory.extend_from_slice(bytes);
        Self { memory, start }
    }

    /// The bytes of memory that it takes.
    pub fn memory_usage(&self) -> usize {
        self.memory.capacity()
    }
}

impl std::ops::Deref for LineAligned {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.memory.get(self.start..).unwrap_or_default()
    }
}

/// Asks for the first `lines` cache lines of `bytes`.
#[inline(always)]
pub fn prefetch_front(bytes: &[u8], lines: usize) {
    for line in bytes.chunks(CACHE_LINE).take(lines) {
        prefetch(line.as_ptr());
    }
}

#[cfg(test)]
mod tests;
