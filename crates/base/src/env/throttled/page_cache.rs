//! Which pages of which files the operating system would have in memory: a model, no bytes.

use crate::sync::{Mutex, Rank};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::ops::Range;

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 11);

/// A cache of pages that evicts by second chance: the hand clears the mark of a page used since it last came by, and
/// takes the first page without one.
pub(super) struct PageCache {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    /// Slot by file and page.
    index: HashMap<(u64, u64), u32>,
    hand: usize,
    hits: u64,
    misses: u64,
}

struct Slot {
    page: (u64, u64),
    used: bool,
}

impl State {
    /// Brings a page in; returns whether it was there.
    fn touch(&mut self, capacity: usize, page: (u64, u64)) -> bool {
        let len = self.slots.len();
        let entry = match self.index.entry(page) {
            Entry::Occupied(entry) => {
                self.slots[*entry.get() as usize].used = true;
                return true;
            }
            Entry::Vacant(entry) => entry,
        };
        if len < capacity {
            entry.insert(len as u32);
            self.slots.push(Slot { page, used: false });
            return false;
        }
        while std::mem::take(&mut self.slots[self.hand].used) {
            self.hand = (self.hand + 1) % len;
        }
        entry.insert(self.hand as u32);
        let victim = std::mem::replace(&mut self.slots[self.hand], Slot { page, used: false });
        self.index.remove(&victim.page);
        self.hand = (self.hand + 1) % len;
        false
    }
}

fn pages(offset: u64, len: u64) -> Range<u64> {
    if len == 0 { 0..0 } else { offset / PAGE..offset.saturating_add(len).div_ceil(PAGE) }
}

impl PageCache {
    pub(super) fn new(bytes: u64) -> Self {
        let capacity = (bytes / PAGE).min(u64::from(u32::MAX)) as usize;
        Self { capacity, state: Mutex::new(RANK, State::default()) }
    }

    /// Brings in the pages of a range that is read. Calls `miss` with each run of pages that were not there, in order.
    pub(super) fn read(&self, file: u64, offset: u64, len: u64, mut miss: impl FnMut(Range<u64>)) {
        let pages = pages(offset, len);
        if self.capacity == 0 {
            if !pages.is_empty() {
                self.state.lock().misses += pages.end - pages.start;
                miss(pages);
            }
            return;
        }
        let mut runs: Vec<Range<u64>> = Vec::new();
        {
            let mut state = self.state.lock();
            for page in pages {
                if state.touch(self.capacity, (file, page)) {
                    state.hits += 1;
                    continue;
                }
                state.misses += 1;
                match runs.last_mut() {
                    Some(run) if run.end == page => run.end += 1,
                    _ => runs.push(page..page + 1),
                }
            }
        }
        runs.into_iter().for_each(miss);
    }

    /// Brings in the pages of a range that is written.
    pub(super) fn write(&self, file: u64, offset: u64, len: u64) {
        if self.capacity > 0 {
            let mut state = self.state.lock();
            for page in pages(offset, len) {
                state.touch(self.capacity, (file, page));
            }
        }
    }

    /// Pages of reads that were there, and that were not.
    pub(super) fn hits_and_misses(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.hits, state.misses)
    }
}
