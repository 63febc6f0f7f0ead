//! Slabs: mapped memory that is cut into slots of one size.
//!
//! A slot that was never taken has no memory yet; one that was given back keeps its own until its whole slab is given back to the operating system.

use memmap2::{MmapMut, MmapRaw};
use std::ptr::NonNull;

/// A slab has at least so many bytes, if its slots are not larger.
const LEAST_BYTES: usize = 64 << 10;

/// And at most so many, if its slots are not larger.
const MOST_BYTES: usize = 4 << 20;

/// The slabs of a class that has grown have this part of its bytes each, so that there are few mappings: with more than about 200 GiB the kernel's limit of them may be met, from where on buffers are the allocator's.
const PART: usize = 64;

/// Maps so many bytes, zeroed; `None` if the operating system refuses.
pub(super) type Map = fn(usize) -> Option<MmapRaw>;

/// Memory from the operating system.
pub(super) fn map(len: usize) -> Option<MmapRaw> {
    MmapMut::map_anon(len).ok().map(MmapRaw::from)
}

/// See the module's documentation.
pub(super) struct Slab {
    memory: MmapRaw,
    slot_len: usize,
    slots: u16,
    /// Slots from here on were never taken.
    touched: u16,
    live: u16,
    /// Slots that were given back; the last one is taken first.
    free: Vec<u16>,
}

impl Slab {
    /// For slots of `slot_len` bytes in a class that has `class_bytes` already.
    pub(super) fn new(slot_len: usize, class_bytes: usize, map: Map) -> Option<Self> {
        let bytes = (class_bytes / PART).clamp(LEAST_BYTES, MOST_BYTES);
        let slots = u16::try_from((bytes / slot_len).max(1)).unwrap_or(u16::MAX);
        let memory = map(usize::from(slots).checked_mul(slot_len)?)?;
        Some(Self { memory, slot_len, slots, touched: 0, live: 0, free: Vec::new() })
    }

    /// A free slot with its first byte; `None` if all are taken.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(u16, NonNull<u8>)> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.touched < self.slots => {
                self.touched += 1;
                self.touched - 1
            }
            None => return None,
        };
        self.live += 1;
        let start = usize::from(slot) * self.slot_len;
        Some((slot, NonNull::new(self.memory.as_mut_ptr().wrapping_add(start))?))
    }

    /// Takes a slot back that is taken.
    #[inline]
    pub(super) fn give_back(&mut self, slot: u16) {
        debug_assert!(self.live > 0 && slot < self.touched);
        self.live -= 1;
        self.free.push(slot);
    }

    pub(super) fn has_room(&self) -> bool {
        self.live < self.slots
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Bytes of the slots that were ever taken: those that have memory.
    pub(super) fn touched_bytes(&self) -> usize {
        usize::from(self.touched) * self.slot_len
    }
}
