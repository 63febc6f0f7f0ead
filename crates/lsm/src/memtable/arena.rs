//! A bump allocator that gives memory back only as a whole.
//!
//! Memory comes in blocks that double in size up to [`MAX_BLOCK_LEN`]. An allocation takes the next bytes of the current
//! block; when it does not fit, a larger block becomes the current one and the rest of the old one is lost. An allocation
//! that would waste too much of a block gets one of its own.
//!
//! Large blocks come from the operating system and go back to it, since an allocator would keep some of them among its own. The largest are aligned to their size, and the operating system is asked to back them by huge
//! pages: whoever follows pointers through a memtable touches another page with every step, and the processor knows the places of few small ones.
//!
//! # Thread safety
//!
//! Any number of threads may allocate at the same time: the fill mark of a block is claimed by an atomic addition, and blocks are
//! replaced by compare-and-swap. [`Arena::allocate_exclusive`] does without the atomic addition for a caller who excludes all others.
//!
//! # Invariants
//!
//! 1. A block, once in the list, stays allocated and where it is until the arena is dropped.
//! 2. Ranges handed out lie within the capacity of their block, are disjoint, and are aligned to [`ALIGNMENT`].
//! 3. The list holds every block, so that dropping the arena frees each exactly once.
//! 4. The arena never reads or writes memory that it has handed out.

#![expect(unsafe_code, reason = "memory of changing size that many threads take without locks")]

use super::memory::MemtableMemory;
use siltstone_base::sync::Arc;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Alignment of everything handed out, in bytes.
pub(super) const ALIGNMENT: usize = 16;

/// Bytes of the first block.
const MIN_BLOCK_LEN: usize = if cfg!(miri) { 512 } else { 16 << 10 };

/// Bytes of the largest block that is not made for one allocation: a huge page.
const MAX_BLOCK_LEN: usize = if cfg!(miri) { 2048 } else { 2 << 20 };

/// Blocks of so many bytes and more come from the operating system.
const LEAST_MAPPED_LEN: usize = 128 << 10;

/// An allocation of more than this part of a block gets its own.
const OWN_BLOCK_DIVISOR: usize = 4;

/// The head of a block; the memory that is handed out follows it.
#[repr(C)]
struct Block {
    /// The block that was in the list before this one.
    next: AtomicPtr<Block>,
    /// Bytes that follow the head.
    capacity: usize,
    /// Bytes claimed; more than `capacity` once allocations have failed.
    used: AtomicUsize,
    /// Bytes of the mapping that the block is; 0: it is the allocator's.
    mapped: usize,
}

const HEAD_LEN: usize = size_of::<Block>().next_multiple_of(ALIGNMENT);

/// See the module's documentation.
pub(super) struct Arena {
    /// The block that allocations are taken from; null before the first.
    current: AtomicPtr<Block>,
    /// All blocks.
    list: AtomicPtr<Block>,
    /// Bytes of all blocks but the current one.
    closed: AtomicUsize,
    /// Who counts the blocks.
    memory: Arc<MemtableMemory>,
}

impl Arena {
    pub(super) fn new(memory: Arc<MemtableMemory>) -> Self {
        Self {
            current: AtomicPtr::new(std::ptr::null_mut()),
            list: AtomicPtr::new(std::ptr::null_mut()),
            closed: AtomicUsize::new(0),
            memory,
        }
    }

    /// `len` uninitialised bytes, aligned to [`ALIGNMENT`], that live as long as the arena.
    #[inline]
    pub(super) fn allocate(&self, len: usize) -> NonNull<u8> {
        let len = len.next_multiple_of(ALIGNMENT);
        loop {
            let block = self.current.load(Ordering::Acquire);
            // SAFETY: `current` is null or a block, which lives until the arena is dropped (1), and it was published with its head
            // initialised.
            if let Some(head) = unsafe { block.as_ref() } {
                let start = head.used.fetch_add(len, Ordering::Relaxed);
                if start.checked_add(len).is_some_and(|end| end <= head.capacity) {
                    // SAFETY: the range lies within the block, and no other call can have claimed it (2).
                    return unsafe { data(block, start) };
                }
            }
            if let Some(own) = self.replace_current(block, len) {
                return own;
            }
        }
    }

    /// [`allocate`](Self::allocate), a little cheaper.
    ///
    /// # Safety
    ///
    /// No other thread allocates from this arena at the same time.
    #[inline]
    pub(super) unsafe fn allocate_exclusive(&self, len: usize) -> NonNull<u8> {
        let len = len.next_multiple_of(ALIGNMENT);
        let block = self.current.load(Ordering::Acquire);
        // SAFETY: as in `allocate`.
        if let Some(head) = unsafe { block.as_ref() } {
            let start = head.used.load(Ordering::Relaxed);
            if start.checked_add(len).is_some_and(|end| end <= head.capacity) {
                head.used.store(start + len, Ordering::Relaxed);
                // SAFETY: the range lies within the block, and the caller excludes that another call claims it (2).
                return unsafe { data(block, start) };
            }
        }
        self.allocate(len)
    }

    /// Bytes handed out, and those lost at the ends of blocks. Approximate while threads allocate.
    #[inline]
    pub(super) fn used_bytes(&self) -> usize {
        let closed = self.closed.load(Ordering::Relaxed);
        // SAFETY: as in `allocate`.
        let current = unsafe { self.current.load(Ordering::Acquire).as_ref() };
        closed + current.map_or(0, |head| HEAD_LEN + head.used.load(Ordering::Relaxed).min(head.capacity))
    }

    /// Bytes of memory that are taken, approximately: a block that huge pages back is there as a whole once it is touched.
    pub(super) fn reserved_bytes(&self) -> usize {
        let closed = self.closed.load(Ordering::Relaxed);
        closed
            + self.current_head().map_or(0, |head| match HEAD_LEN + head.capacity {
                len @ MAX_BLOCK_LEN => len,
                _ => HEAD_LEN + head.used.load(Ordering::Relaxed).min(head.capacity),
            })
    }

    /// Bytes of all blocks, whether anything is in them or not: what [`MemtableMemory`] counts of it.
    pub(super) fn block_bytes(&self) -> usize {
        self.closed.load(Ordering::Relaxed) + self.current_head().map_or(0, |head| HEAD_LEN + head.capacity)
    }

    fn current_head(&self) -> Option<&Block> {
        // SAFETY: as in `allocate`.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    /// Who counts the blocks.
    pub(super) fn memory(&self) -> &Arc<MemtableMemory> {
        &self.memory
    }

    /// Makes room after `full` had none: gives a large allocation a block of its own and returns it, or sees to it that
    /// another block is the current one.
    #[cold]
    fn replace_current(&self, full: *mut Block, len: usize) -> Option<NonNull<u8>> {
        // SAFETY: as in `allocate`.
        let full_len = unsafe { full.as_ref() }.map_or(0, |head| head.capacity + HEAD_LEN);
        let block_len = (full_len * 2).clamp(MIN_BLOCK_LEN, MAX_BLOCK_LEN);
        if len > block_len / OWN_BLOCK_DIVISOR {
            let own = new_block(len);
            self.closed.fetch_add(HEAD_LEN + len, Ordering::Relaxed);
            self.memory.took(HEAD_LEN + len);
            self.add_to_list(own);
            // SAFETY: the block is new and exactly as large as the allocation.
            return Some(unsafe { data(own, 0) });
        }
        let block = new_block(block_len - HEAD_LEN);
        if self.current.compare_exchange(full, block, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.closed.fetch_add(full_len, Ordering::Relaxed);
            self.memory.took(block_len);
            self.add_to_list(block);
        } else {
            // SAFETY: the block was made here, and no other thread has seen it.
            unsafe { free(block) };
        }
        None
    }

    fn add_to_list(&self, block: *mut Block) {
        // SAFETY: blocks stay allocated (1).
        let head = unsafe { &*block };
        let mut next = self.list.load(Ordering::Relaxed);
        loop {
            head.next.store(next, Ordering::Relaxed);
            match self.list.compare_exchange_weak(next, block, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => next = newer,
            }
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut block = *self.list.get_mut();
        while !block.is_null() {
            // SAFETY: no other thread is left, every block of the list is allocated, and it is there once (3).
            unsafe {
                let next = *(*block).next.get_mut();
                let len = HEAD_LEN + (*block).capacity;
                free(block);
                self.memory.gave_back(len);
                block = next;
            }
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("used", &self.used_bytes()).finish_non_exhaustive()
    }
}

fn layout(capacity: usize) -> Layout {
    let len = capacity.saturating_add(HEAD_LEN);
    let alignment = if len == MAX_BLOCK_LEN { MAX_BLOCK_LEN } else { ALIGNMENT };
    match Layout::from_size_align(len, alignment) {
        Ok(layout) => layout,
        Err(_) => handle_alloc_error(Layout::new::<Block>()),
    }
}

const _: () = assert!(align_of::<Block>() <= ALIGNMENT && MAX_BLOCK_LEN.is_power_of_two());

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

/// A block of `capacity` bytes, in no list yet.
fn new_block(capacity: usize) -> *mut Block {
    let layout = layout(capacity);
    let mapping = if layout.size() >= LEAST_MAPPED_LEN { map(layout) } else { None };
    let mapped = mapping.map_or(0, |_| layout.size());
    // SAFETY: the layout is larger than nothing, for it has a head.
    let Some(memory) = mapping.or_else(|| NonNull::new(unsafe { alloc(layout) })) else {
        handle_alloc_error(layout);
    };
    let block = memory.as_ptr().cast::<Block>();
    // SAFETY: `block` is large enough for its head, aligned, and nobody else's.
    unsafe { block.write(Block { next: AtomicPtr::default(), capacity, used: AtomicUsize::new(0), mapped }) };
    block
}

/// # Safety
///
/// `block` comes from [`new_block`], was not freed, and nobody uses it any more.
unsafe fn free(block: *mut Block) {
    // SAFETY: by the caller.
    let (capacity, mapped) = unsafe { ((*block).capacity, (*block).mapped) };
    if mapped == 0 {
        // SAFETY: by the caller, the block is allocated with this layout.
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

/// The memory of `block` from byte `start` after its head.
///
/// # Safety
///
/// `block` is allocated, and `start` does not exceed its capacity.
#[inline]
unsafe fn data(block: *mut Block, start: usize) -> NonNull<u8> {
    // SAFETY: the offset lies within the allocation or at its end, so the sum is no null pointer either.
    unsafe { NonNull::new_unchecked(block.cast::<u8>().add(HEAD_LEN + start)) }
}
