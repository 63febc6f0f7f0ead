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

/// Asks for the first `lines` cache lines of `bytes`.
#[inline(always)]
pub fn prefetch_front(bytes: &[u8], lines: usize) {
    for line in bytes.chunks(CACHE_LINE).take(lines) {
        prefetch(line.as_ptr());
    }
}
