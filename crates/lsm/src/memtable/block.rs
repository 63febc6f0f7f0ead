//! Blocks of memory that arenas hand out piece by piece.
//!
//! Large blocks come from the operating system and go back to it, since an allocator would keep some of them among its own. The largest are aligned to their size, and the operating system is asked to back them by huge
//! pages: whoever follows pointers through a memtable touches another page with every step, and the processor knows the places of few small ones.

#![expect(unsafe_code, reason = "memory of changing size behind one head")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

/// Alignment of everything handed out, in bytes.
pub(super) const ALIGNMENT: usize = 16;

/// Bytes of the largest block that is not made for one allocation: a huge page.
pub(super) const MAX_BLOCK_LEN: usize = if cfg!(miri) { 2048 } else { 2 << 20 };

/// Blocks of so many bytes and more come from the operating system.
pub(super) const LEAST_MAPPED_LEN: usize = 128 << 10;

/// Bytes of a page, at least.
const PAGE_LEN: usize = 4 << 10;

/// The head of a block; the memory that is handed out follows it.
#[repr(C)]
pub(super) struct Block {
    /// The block that was in the list before this one.
    pub(super) next: AtomicPtr<Block>,
    /// Bytes that follow the head.
    pub(super) capacity: usize,
    /// Bytes claimed; more than `capacity` once allocations have failed.
    pub(super) used: AtomicUsize,
    /// Bytes of the mapping that the block is; 0: it is the allocator's.
    mapped: usize,
}

pub(super) const HEAD_LEN: usize = size_of::<Block>().next_multiple_of(ALIGNMENT);

const _: () = assert!(align_of::<Block>() <= ALIGNMENT && MAX_BLOCK_LEN.is_power_of_two());

/// A block that is in no list, and of which nothing is handed out.
pub(super) struct OwnedBlock(NonNull<Block>);

// SAFETY: nobody else knows the block, and its memory is of no thread.
unsafe impl Send for OwnedBlock {}

impl OwnedBlock {
    /// A block of `capacity` bytes beside its head.
    pub(super) fn new(capacity: usize) -> Self {
        let layout = layout(capacity);
        let mapping = if layout.size() >= LEAST_MAPPED_LEN { map(layout) } else { None };
        let mapped = mapping.map_or(0, |_| layout.size());
        // SAFETY: the layout is larger than nothing, for it has a head.
        let Some(memory) = mapping.or_else(|| NonNull::new(unsafe { alloc(layout) })) else {
            handle_alloc_error(layout);
        };
        let block = memory.cast::<Block>();
        // SAFETY: `block` is large enough for its head, aligned, and nobody else's.
        unsafe { block.write(Block { next: AtomicPtr::default(), capacity, used: AtomicUsize::new(0), mapped }) };
        Self(block)
    }

    /// One of [`MAX_BLOCK_LEN`] bytes with its head.
    pub(super) fn largest() -> Self {
        Self::new(MAX_BLOCK_LEN - HEAD_LEN)
    }

    /// Whether it is one of [`MAX_BLOCK_LEN`] bytes with its head.
    pub(super) fn is_largest(&self) -> bool {
        // SAFETY: an owned block is allocated, and its head is initialised.
        HEAD_LEN + unsafe { self.0.as_ref() }.capacity == MAX_BLOCK_LEN
    }

    /// Takes every page of it from the operating system now, so that it does not have to be waited for by whoever writes there first.
    pub(super) fn touch(&mut self) {
        // SAFETY: as in `is_largest`.
        let capacity = unsafe { self.0.as_ref() }.capacity;
        for start in (0..capacity).step_by(PAGE_LEN) {
            // SAFETY: the byte lies within the block, of which nothing is handed out.
            unsafe { data(self.0.as_ptr(), start).write_volatile(0) };
        }
    }

    /// The block, which the caller has to free from now on.
    pub(super) fn into_raw(self) -> *mut Block {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// Takes a block back, as if nothing of it had been handed out.
    ///
    /// # Safety
    ///
    /// `block` comes from [`into_raw`](Self::into_raw), and nobody uses it, or what was handed out of it, any more.
    pub(super) unsafe fn from_raw(block: NonNull<Block>) -> Self {
        let mut block = block;
        // SAFETY: by the caller.
        let head = unsafe { block.as_mut() };
        *head.next.get_mut() = std::ptr::null_mut();
        *head.used.get_mut() = 0;
        Self(block)
    }
}

impl Drop for OwnedBlock {
    fn drop(&mut self) {
        let block = self.0.as_ptr();
        // SAFETY: an owned block is allocated, and its head is initialised.
        let (capacity, mapped) = unsafe { ((*block).capacity, (*block).mapped) };
        if mapped == 0 {
            // SAFETY: it was allocated with this layout, and nobody else knows it.
            return unsafe { dealloc(block.cast(), layout(capacity)) };
        }
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: the block is a mapping of so many bytes. Should the system refuse, its memory goes all the same, and only the addresses stay taken.
        unsafe {
            if libc::munmap(block.cast(), mapped) != 0 {
                libc::madvise(block.cast(), mapped, libc::MADV_DONTNEED);
            }
        }
    }
}

/// The memory of `block` from byte `start` after its head.
///
/// # Safety
///
/// `block` is allocated, and `start` does not exceed its capacity.
#[inline]
pub(super) unsafe fn data(block: *mut Block, start: usize) -> NonNull<u8> {
    // SAFETY: the offset lies within the allocation or at its end, so the sum is no null pointer either.
    unsafe { NonNull::new_unchecked(block.cast::<u8>().add(HEAD_LEN + start)) }
}

fn layout(capacity: usize) -> Layout {
    let len = capacity.saturating_add(HEAD_LEN);
    let alignment = if len == MAX_BLOCK_LEN { MAX_BLOCK_LEN } else { ALIGNMENT };
    match Layout::from_size_align(len, alignment) {
        Ok(layout) => layout,
        Err(_) => handle_alloc_error(Layout::new::<Block>()),
    }
}

/// A mapping for a block of this layout; `None` if there is none. Huge pages are asked for under the largest; nothing depends on the answer.
#[cfg(all(target_os = "linux", not(miri)))]
fn map(layout: Layout) -> Option<NonNull<u8>> {
    let (len, align) = (layout.size(), layout.align());
    let is_largest = align == MAX_BLOCK_LEN;
    // Twice as much has an aligned block of the largest size somewhere.
    let whole = if is_largest { len + align } else { len };
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new private mapping at an address that the system chooses touches no memory that is in use.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), whole, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let before = if is_largest { start.addr().next_multiple_of(align) - start.addr() } else { 0 };
    let block = start.wrapping_byte_add(before);
    if is_largest {
        // SAFETY: both ranges are parts of the new mapping beside the block, and the advice changes neither what is in the block nor who may use it.
        unsafe {
            if before > 0 {
                libc::munmap(start, before);
            }
            if whole > before + len {
                libc::munmap(block.wrapping_byte_add(len), whole - before - len);
            }
            libc::madvise(block, len, libc::MADV_HUGEPAGE);
        }
    }
    NonNull::new(block.cast())
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map(_: Layout) -> Option<NonNull<u8>> {
    None
}
