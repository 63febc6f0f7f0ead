//! A bump allocator that gives memory back only as a whole.
//!
//! Memory comes in blocks that double in size up to [`MAX_BLOCK_LEN`]. An allocation takes the next bytes of the current
//! block; when it does not fit, a larger block becomes the current one and the rest of the old one is lost. An allocation
//! that would waste too much of a block gets one of its own.
//! What [blocks](super::block) are, and what becomes of the largest when their arena goes, is elsewhere: the [next memtables](super::spare) take them.
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

use super::block::{ALIGNMENT, Block, HEAD_LEN, LEAST_MAPPED_LEN, MAX_BLOCK_LEN, OwnedBlock, data};
use super::memory::MemtableMemory;
use siltstone_base::sync::Arc;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Bytes of the first block.
const MIN_BLOCK_LEN: usize = if cfg!(miri) { 512 } else { 16 << 10 };

/// An allocation of more than this part of a block gets its own.
const OWN_BLOCK_DIVISOR: usize = 4;

/// See the module's documentation.
pub(super) struct Arena {
    /// The block that allocations are taken from; null before the first.
    current: AtomicPtr<Block>,
    /// All blocks.
    list: AtomicPtr<Block>,
    /// Bytes of all blocks but the current one.
    closed: AtomicUsize,
    /// Whether it took a block of the largest size before it was that large.
    is_early: AtomicBool,
    /// Who counts the blocks.
    memory: Arc<MemtableMemory>,
}

impl Arena {
    pub(super) fn new(memory: Arc<MemtableMemory>) -> Self {
        Self {
            current: AtomicPtr::new(std::ptr::null_mut()),
            list: AtomicPtr::new(std::ptr::null_mut()),
            closed: AtomicUsize::new(0),
            is_early: AtomicBool::new(false),
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
            let own = OwnedBlock::new(len).into_raw();
            self.closed.fetch_add(HEAD_LEN + len, Ordering::Relaxed);
            self.memory.took(HEAD_LEN + len);
            self.add_to_list(own);
            // SAFETY: the block is new and exactly as large as the allocation.
            return Some(unsafe { data(own, 0) });
        }
        let (block, block_len) = self.new_block(block_len);
        let block = block.into_raw();
        if self.current.compare_exchange(full, block, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.closed.fetch_add(full_len, Ordering::Relaxed);
            self.add_to_list(block);
        } else if let Some(block) = NonNull::new(block) {
            // SAFETY: the block was made here, and no other thread has seen it.
            self.memory.take_back(unsafe { OwnedBlock::from_raw(block) }, block_len);
        }
        None
    }

    /// A block of `len` bytes, or one of the largest that is there already, in place of one that would have to be mapped: whoever maps memory waits for all that other threads map, give back and touch for the first
    /// time, and for as long as the processor is kept from them meanwhile.
    fn new_block(&self, len: usize) -> (OwnedBlock, usize) {
        if len == MAX_BLOCK_LEN {
            return (self.memory.largest_block(), MAX_BLOCK_LEN);
        }
        if len >= LEAST_MAPPED_LEN
            && let Some(spare) = self.memory.early_block()
        {
            if self.is_early.swap(true, Ordering::AcqRel) {
                // Another thread took one at the same time.
                self.memory.early_ended();
            }
            return (spare, MAX_BLOCK_LEN);
        }
        self.memory.took(len);
        (OwnedBlock::new(len - HEAD_LEN), len)
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
        if *self.is_early.get_mut() {
            self.memory.early_ended();
        }
        let mut next = *self.list.get_mut();
        while let Some(mut block) = NonNull::new(next) {
            // SAFETY: no other thread is left, every block of the list is allocated, and it is there once (3).
            let (len, owned) = unsafe {
                next = *block.as_mut().next.get_mut();
                (HEAD_LEN + block.as_ref().capacity, OwnedBlock::from_raw(block))
            };
            self.memory.take_back(owned, len);
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("used", &self.used_bytes()).finish_non_exhaustive()
    }
}
