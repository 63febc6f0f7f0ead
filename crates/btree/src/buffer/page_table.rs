//! The page table: which frame holds a page.
//!
//! Buckets of chains that run through the control blocks. Lookups take no lock: they follow atomic links, and the caller checks what it
//! found under the frame's latch. A chain may change under a lookup, which then misses a page that is there, or walks into another chain;
//! so a miss is believed only under the lock of the stripe.

use super::frame::{Frame, NO_FRAME};
use crate::page::PageId;
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::sync::{CachePadded, Mutex, Rank, Signal};

/// Taken under any latch, and under the lock of the lists.
const RANK: Rank = Rank(480);

const STRIPES: usize = 16;

/// Steps of a lookup without a lock before it counts as a miss.
const MAX_STEPS: usize = 64;

#[derive(Debug)]
pub(super) struct PageTable {
    buckets: Box<[AtomicU32]>,
    stripes: [CachePadded<Mutex<()>>; STRIPES],
}

impl PageTable {
    pub(super) fn new(frames: usize) -> Self {
        let buckets = frames.next_power_of_two().max(STRIPES);
        Self {
            buckets: (0..buckets).map(|_| AtomicU32::new(NO_FRAME)).collect(),
            stripes: std::array::from_fn(|_| CachePadded::new(Mutex::new(RANK, ()))),
        }
    }

    #[inline]
    fn bucket(&self, id: PageId) -> usize {
        let word = u64::from(id.space) << 32 | u64::from(id.number);
        let hash = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }

    /// The frame that may hold a page.
    #[inline]
    pub(super) fn find(&self, frames: &[Frame], id: PageId) -> Option<u32> {
        let mut at = self.buckets[self.bucket(id)].load(Ordering::Acquire);
        for _ in 0..MAX_STEPS {
            let frame = frames.get(at as usize)?;
            if frame.holds(id) {
                return Some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }

    /// Whether a frame holds a page, for certain.
    pub(super) fn has(&self, frames: &[Frame], id: PageId) -> bool {
        if self.find(frames, id).is_some() {
            return true;
        }
        let bucket = self.bucket(id);
        let _stripe = self.stripes[bucket % STRIPES].lock();
        let mut at = self.buckets[bucket].load(Ordering::Acquire);
        while let Some(frame) = frames.get(at as usize) {
            if frame.holds(id) {
                return true;
            }
            at = frame.next.load(Ordering::Acquire);
        }
        false
    }

    /// Puts a frame in, unless another one holds the page already; returns the other one.
    pub(super) fn insert(&self, frames: &[Frame], id: PageId, index: u32) -> Option<u32> {
        let bucket = self.bucket(id);
        let _stripe = self.stripes[bucket % STRIPES].lock();
        let mut at = self.buckets[bucket].load(Ordering::Acquire);
        while let Some(frame) = frames.get(at as usize) {
            if frame.holds(id) {
                return Some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        let frame = frames.get(index as usize)?;
        frame.set_page(Some(id));
        frame.next.store(self.buckets[bucket].load(Ordering::Acquire), Ordering::Release);
        self.buckets[bucket].store(index, Ordering::Release);
        None
    }

    /// Takes a frame out. The caller holds its latch exclusively; those who wait for the page in it look for it anew.
    pub(super) fn remove(&self, frames: &[Frame], id: PageId, index: u32, signal: &Signal) {
        let bucket = self.bucket(id);
        let _stripe = self.stripes[bucket % STRIPES].lock();
        let Some(frame) = frames.get(index as usize) else { return };
        let next = frame.next.load(Ordering::Acquire);
        let mut link = &self.buckets[bucket];
        loop {
            let at = link.load(Ordering::Acquire);
            if at == index {
                link.store(next, Ordering::Release);
                break;
            }
            match frames.get(at as usize) {
                Some(frame) => link = &frame.next,
                None => break,
            }
        }
        frame.set_page(None);
        frame.latch.dismiss(signal);
    }
}
