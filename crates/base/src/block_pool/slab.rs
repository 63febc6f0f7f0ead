//! Slabs: mapped memory that is cut into slots of one size.
//!
//! A slot that was never taken has no memory yet, unless its slab's mapping was another one's before. One that was given back keeps its own until its slab is [trimmed](Slab::trim), or is [released](Slab::release) as a whole.

#![expect(unsafe_code, reason = "pages that no slot needs are given back")]

use super::pages::PageSet;
use super::source::{Mapping, Source, WAITING_BYTES};
use memmap2::{MmapRaw, UncheckedAdvice};
use std::ops::Range;
use std::ptr::NonNull;

/// A slab has at least so many bytes, if its slots are not larger.
const LEAST_BYTES: usize = WAITING_BYTES;

/// And at most so many, if its slots are not larger.
const MOST_BYTES: usize = 4 << 20;

/// The slabs of a class that has grown have this part of its bytes each, so that there are few mappings: with more than about 200 GiB the kernel's limit of them may be met, from where on buffers are the allocator's.
const PART: usize = 64;

/// Bytes of a slab of a class that has `class_bytes`, if its slots are not larger.
#[inline]
pub(super) fn slab_bytes(class_bytes: usize) -> usize {
    (class_bytes / PART).clamp(LEAST_BYTES, MOST_BYTES)
}

/// See the module's documentation.
pub(super) struct Slab {
    memory: MmapRaw,
    slot_len: usize,
    slots: u16,
    /// Slots from here on were never taken.
    touched: u16,
    live: u16,
    /// Slots that were given back; the last one is taken first. Those without all of their memory are first.
    free: Vec<u16>,
    page_len: usize,
    /// Pages that have memory.
    resident: PageSet,
    /// Where it stands among those that are empty, or were.
    pub(super) standing: Standing,
    source: &'static Source,
}

/// Whether a slab is listed as an empty one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was not empty yet since it was looked at.
    Unlisted,
    /// It is listed.
    Listed,
    /// And was taken from since.
    Reused,
}

impl Slab {
    /// For slots of `slot_len` bytes in a class that has `class_bytes` already.
    pub(super) fn new(slot_len: usize, class_bytes: usize, source: &'static Source) -> Option<Self> {
        let slots = u16::try_from((slab_bytes(class_bytes) / slot_len).max(1)).unwrap_or(u16::MAX);
        let len = usize::from(slots).checked_mul(slot_len)?;
        let Mapping { memory, resident } = source.take(len)?;
        Some(Self {
            memory,
            slot_len,
            slots,
            touched: 0,
            live: 0,
            free: Vec::new(),
            page_len: rustix::param::page_size(),
            resident,
            standing: Standing::Unlisted,
            source,
        })
    }

    /// Gives its memory back, to the operating system or for the next slab. That takes its time: not under a lock.
    pub(super) fn release(self) {
        self.source.give_back(Mapping { memory: self.memory, resident: self.resident });
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
        if !self.resident.is_full() {
            self.resident.insert(self.pages_of(slot));
        }
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

    /// Bytes of the pages that have memory.
    pub(super) fn resident_bytes(&self) -> usize {
        (self.resident.len() * self.page_len).min(self.memory.len())
    }

    /// The pages that a slot lies on.
    fn pages_of(&self, slot: u16) -> Range<usize> {
        let start = usize::from(slot) * self.slot_len;
        start / self.page_len..(start + self.slot_len).div_ceil(self.page_len)
    }

    /// Gives the memory of all pages back to the operating system that hold nothing of a slot that is taken. The slots of such pages are taken last.
    #[cold]
    pub(super) fn trim(&mut self) {
        let mut is_taken = vec![true; usize::from(self.touched)];
        for slot in &self.free {
            if let Some(is_taken) = is_taken.get_mut(usize::from(*slot)) {
                *is_taken = false;
            }
        }
        let mut needed = PageSet::none_of(self.memory.len().div_ceil(self.page_len));
        for (slot, _) in (0..self.touched).zip(is_taken).filter(|(_, is_taken)| *is_taken) {
            needed.insert(self.pages_of(slot));
        }
        let mut from = 0;
        while let Some(run) = self.resident.next_run_beside(&needed, from) {
            from = run.end;
            let start = run.start * self.page_len;
            let len = (run.end * self.page_len).min(self.memory.len()) - start;
            // SAFETY: nobody has a reference to these bytes: no slot that is taken has any of them. They are zero when they are looked at again, so initialised.
            if unsafe { self.memory.unchecked_advise_range(UncheckedAdvice::DontNeed, start, len) }.is_ok() {
                self.resident.remove(run);
            }
        }
        let mut free = std::mem::take(&mut self.free);
        free.sort_by_key(|slot| self.pages_of(*slot).all(|page| self.resident.contains(page)));
        self.free = free;
    }
}
