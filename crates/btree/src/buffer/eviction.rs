//! Which frame holds which page: frames are given to pages, and the pages that were not used for the longest time are let go.

use super::guard::ExclusiveGuard;
use super::lru::Lru;
use super::pool::Pool;
use crate::meanwhile::{Gap, passing};
use crate::metrics::Counter;
use crate::page::PageId;
use siltstone_base::env::IoPriority;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, ErrorKind, Result};

/// Frames without pages, and the order of use of the others.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) free: Vec<u32>,
    pub(super) lru: Lru,
}

/// Batches that a caller writes before it gives up looking for a frame.
const FOREGROUND_ROUNDS: usize = 4;

/// Pages of such a batch.
const FOREGROUND_PAGES: usize = 32;

/// Pages that came in, or were made young, since so few others went are left alone as long as possible: those of one change of shape.
const RECENT: u32 = 12;

/// Oldest pages that are looked at for one that can go at once, though fewer are old: more than came in of late.
const LEAST_TAIL: usize = RECENT as usize + 4;

/// Oldest pages that are looked at at most: who passed so many that can't go at once writes some, and does not hold the lists for longer.
const MOST_TAIL: usize = 100;

/// Which pages may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Among {
    /// The oldest ones.
    Tail,
    /// All but those that came in last.
    NotRecent,
    /// All.
    All,
}

/// A frame that was to hold a page.
#[derive(Debug)]
pub(super) enum Claimed<'a> {
    /// It does, and is latched.
    Mine(ExclusiveGuard<'a>),
    /// This one held the page already, though a lookup may have missed that.
    Others(u32),
}

impl Claimed<'_> {
    /// The frame, which is not latched any more.
    pub(super) fn index(self) -> u32 {
        match self {
            Self::Mine(guard) => guard.index,
            Self::Others(index) => index,
        }
    }
}

impl Pool {
    /// A free frame that was given the page's name, unless the page is here already.
    pub(super) fn claim(&self, id: PageId) -> Result<Claimed<'_>> {
        let index = self.free_frame()?;
        Ok(self.name(id, index))
    }

    /// The same for a page that nobody asked for: only if a frame is to be had without writing pages or, if `only_free`, giving any up.
    pub(super) fn claim_spare(&self, id: PageId, only_free: bool) -> Option<ExclusiveGuard<'_>> {
        let index = self.take_free().or_else(|| if only_free { None } else { self.evict(Among::Tail) })?;
        match self.name(id, index) {
            Claimed::Mine(guard) => Some(guard),
            Claimed::Others(_) => None,
        }
    }

    /// Gives a page's name to a frame that was taken; the frame is free again if the page is here already.
    fn name(&self, id: PageId, index: u32) -> Claimed<'_> {
        let frame = &self.frames[index as usize];
        let guard = ExclusiveGuard { id, index, frame, words: self.memory.words(index), signal: &self.signal };
        frame.set_page_lsn(0);
        if let Some(other) = self.table.insert(&self.frames, id, index) {
            self.lists.lock().free.push(index);
            return Claimed::Others(other);
        }
        Claimed::Mine(guard)
    }

    /// Lists a page that came in.
    pub(super) fn enter(&self, index: u32) {
        let frame = &self.frames[index as usize];
        frame.first_use_micros.store(0, Ordering::Relaxed);
        frame.young_clock.store(self.evictions.load(Ordering::Relaxed), Ordering::Relaxed);
        self.lists.lock().lru.insert(index, &mut |frame, is_old| self.tell(frame, is_old));
    }

    fn tell(&self, frame: u32, is_old: bool) {
        self.frames[frame as usize].is_old.store(is_old, Ordering::Relaxed);
    }

    /// Takes a page out that is clean. Its frame is free from then on, once its latch is given back.
    pub(super) fn give_up(&self, guard: &ExclusiveGuard<'_>) {
        let mut lists = self.lists.lock();
        lists.lru.remove(guard.index, &mut |frame, is_old| self.tell(frame, is_old));
        self.table.remove(&self.frames, guard.id, guard.index, &self.signal);
        lists.free.push(guard.index);
    }

    /// Forgets a page, dirty or not: its tablespace is gone.
    pub(crate) fn discard(&self, space: u32) {
        for (index, frame) in (0_u32..).zip(&self.frames) {
            if frame.page().is_none_or(|id| id.space != space) {
                continue;
            }
            frame.latch.lock_exclusive(&self.signal);
            let words = self.memory.words(index);
            let Some(id) = frame.page().filter(|id| id.space == space) else {
                frame.latch.unlock_exclusive(&self.signal);
                continue;
            };
            let guard = ExclusiveGuard { id, index, frame, words, signal: &self.signal };
            let mut list = self.flush_list.lock();
            if frame.oldest_lsn.swap(0, Ordering::AcqRel) != 0 {
                list.forget();
            }
            // Under the lock: a write that fails makes the page dirty again before it is over.
            let is_flushing = frame.is_flushing.load(Ordering::Acquire);
            drop(list);
            // A page that is being written stays until it is written.
            if !is_flushing {
                self.give_up(&guard);
            }
        }
    }

    /// Takes note of a use.
    #[inline]
    pub(super) fn touch(&self, index: u32) {
        let frame = &self.frames[index as usize];
        let evictions = self.evictions.load(Ordering::Relaxed);
        let is_recent =
            evictions.wrapping_sub(frame.young_clock.load(Ordering::Relaxed)) < self.frames.len() as u32 / 4;
        if is_recent && !frame.is_old.load(Ordering::Relaxed) {
            return;
        }
        // Until the first page was evicted the order does not matter.
        if evictions > 0 || frame.is_ahead.load(Ordering::Relaxed) {
            self.touch_slow(index, evictions);
        }
    }

    #[cold]
    fn touch_slow(&self, index: u32, evictions: u32) {
        let frame = &self.frames[index as usize];
        if frame.is_ahead.load(Ordering::Relaxed) {
            frame.is_ahead.store(false, Ordering::Relaxed);
        }
        if frame.is_old.load(Ordering::Relaxed) {
            let now = self.clock.now_micros().max(1);
            let first = frame.first_use_micros.load(Ordering::Relaxed);
            if first == 0 {
                frame.first_use_micros.store(now, Ordering::Relaxed);
                return;
            }
            if now.saturating_sub(first) < self.old_time_micros {
                return;
            }
        }
        frame.young_clock.store(evictions, Ordering::Relaxed);
        self.lists.lock().lru.make_young(index, &mut |frame, is_old| self.tell(frame, is_old));
    }

    /// A frame that holds no page, latched exclusively.
    fn free_frame(&self) -> Result<u32> {
        let spare = || self.take_free().or_else(|| self.evict(Among::Tail));
        for _ in 0..FOREGROUND_ROUNDS {
            // Where others write as many batches as may be written, the one that is waited for leaves frames for all who wait.
            if let Some(index) = spare().or_else(|| if self.flushing.wait_for_any() { spare() } else { None }) {
                return Ok(index);
            }
            self.metrics.add(Counter::ForegroundFlushes, 1);
            let oldest = self.dirty_tail(self.frames.len(), 4 * FOREGROUND_PAGES);
            if self.flush_frames(&oldest, FOREGROUND_PAGES, IoPriority::User)? == 0 {
                // The oldest may be of a group that is open; others are clean.
                if let Some(index) = self.evict(Among::NotRecent) {
                    return Ok(index);
                }
                // What could go others hold, or write: then it can when they are done.
                passing(Gap::NoFrame);
                self.flushing.wait_for_all();
                self.health.check()?;
            }
        }
        let any = || self.take_free().or_else(|| self.evict(Among::NotRecent)).or_else(|| self.evict(Among::All));
        let waited = || {
            // Others took what had become free, and write what could go.
            self.flushing.wait_for_all();
            any()
        };
        any().or_else(waited).ok_or_else(|| {
            Error::new(
                ErrorKind::Busy,
                "every page of the buffer pool is in use; buffer_pool_bytes is too small for this call",
            )
        })
    }

    /// The dirty ones among the `depth` oldest pages in the order of use, at most `count`.
    pub(super) fn dirty_tail(&self, depth: usize, count: usize) -> Vec<u32> {
        let is_dirty = |index: &u32| self.frames[*index as usize].is_dirty();
        self.lists.lock().lru.oldest_first().take(depth).filter(is_dirty).take(count).collect()
    }

    /// The pages in the order of use, the oldest first, but for those that are being written: they are many at times, and clean ones lie behind.
    fn oldest_at_rest<'a>(&'a self, lists: &'a Lists) -> impl Iterator<Item = u32> + 'a {
        let is_at_rest = |index: &u32| !self.frames[*index as usize].is_flushing.load(Ordering::Acquire);
        lists.lru.oldest_first().filter(is_at_rest)
    }

    /// The oldest pages in the order of use that have to go for `target` frames to be free, at most `count` behind `skip` others. Those that are being written are left to who
    /// writes them.
    pub(super) fn tail_to_free(&self, target: usize, skip: usize, count: usize) -> Vec<u32> {
        let lists = self.lists.lock();
        let wanted = target.saturating_sub(lists.free.len() + skip).min(count);
        self.oldest_at_rest(&lists).skip(skip).take(wanted).collect()
    }

    /// Lets a page go that is clean and that nobody holds. Returns whether its frame is free now.
    pub(super) fn free(&self, index: u32) -> bool {
        let mut lists = self.lists.lock();
        // Others may have taken it meanwhile.
        if !lists.lru.is_listed(index) {
            return false;
        }
        let Some(id) = self.try_take(index) else { return false };
        self.forget(&mut lists, index, id);
        lists.free.push(index);
        drop(lists);
        self.frames[index as usize].latch.unlock_exclusive(&self.signal);
        true
    }

    /// A percentage of the pages that are here, the youngest first.
    pub(crate) fn youngest(&self, percent: usize) -> Vec<PageId> {
        let lists = self.lists.lock();
        let count = (lists.lru.lens().0 * percent).div_ceil(100);
        lists.lru.youngest_first().take(count).filter_map(|index| self.frames[index as usize].page()).collect()
    }

    /// The pages that are here, the oldest in the order of use first.
    #[cfg(test)]
    pub(super) fn oldest_for_test(&self) -> Vec<PageId> {
        self.lists.lock().lru.oldest_first().filter_map(|index| self.frames[index as usize].page()).collect()
    }

    /// Frames without pages; pages in the order of use, and the old ones among them.
    pub(super) fn lens(&self) -> (usize, usize, usize) {
        let lists = self.lists.lock();
        let (len, old) = lists.lru.lens();
        (lists.free.len(), len, old)
    }

    /// Frames that have to become free for `target` of them to be, or a sixteenth of all.
    pub(crate) fn lacking(&self, target: usize) -> usize {
        self.most_free(target).saturating_sub(self.lists.lock().free.len())
    }

    /// Frames that are kept free where `wanted` are asked for: a sixteenth of all at most.
    pub(super) fn most_free(&self, wanted: usize) -> usize {
        wanted.min(self.frames.len() / 16)
    }

    /// Whether there are frames without pages.
    pub(crate) fn has_free(&self) -> bool {
        !self.lists.lock().free.is_empty()
    }

    /// The frame in which a page was last seen.
    pub(super) fn frame_of(&self, id: PageId) -> Option<u32> {
        self.table.find(&self.frames, id)
    }

    fn take_free(&self) -> Option<u32> {
        let index = self.lists.lock().free.pop()?;
        // Only a lookup that came too late may hold it, and not for long.
        self.frames[index as usize].latch.lock_exclusive(&self.signal);
        Some(index)
    }

    /// Takes the oldest page out that is clean and that nobody holds. One that just came in is no candidate but in the last resort: where most pages are dirty, or few are
    /// old, it would be the only clean one, and the pages of one descent would push each other out.
    fn evict(&self, among: Among) -> Option<u32> {
        let mut lists = self.lists.lock();
        let (len, old_len) = lists.lru.lens();
        let depth =
            if among == Among::Tail { (old_len * 3 / 4).min(len / 4).clamp(LEAST_TAIL, MOST_TAIL) } else { len };
        let evictions = self.evictions.load(Ordering::Relaxed);
        // Of what came in before the first page went nobody knows when it came: the tail goes by order then.
        let may_be_recent = among == Among::NotRecent || (among == Among::Tail && evictions >= RECENT);
        let found = self.oldest_at_rest(&lists).take(depth).find_map(|index| {
            let came_in = self.frames[index as usize].young_clock.load(Ordering::Relaxed);
            if may_be_recent && evictions.wrapping_sub(came_in) < RECENT {
                return None;
            }
            Some((index, self.try_take(index)?))
        });
        let (index, id) = found?;
        self.forget(&mut lists, index, id);
        Some(index)
    }

    /// Latches a frame exclusively whose page is clean and that nobody holds. Returns its page, if it has one.
    fn try_take(&self, index: u32) -> Option<Option<PageId>> {
        let frame = &self.frames[index as usize];
        // In this order: a write that fails makes the page dirty again before it is over.
        let is_busy = || frame.is_flushing.load(Ordering::Acquire) || frame.is_dirty();
        if is_busy() || !frame.latch.try_lock_exclusive() {
            return None;
        }
        if is_busy() {
            frame.latch.unlock_exclusive(&self.signal);
            return None;
        }
        Some(frame.page())
    }

    /// Takes the page of a frame out that is latched exclusively.
    fn forget(&self, lists: &mut Lists, index: u32, id: Option<PageId>) {
        lists.lru.remove(index, &mut |frame, is_old| self.tell(frame, is_old));
        if let Some(id) = id {
            self.table.remove(&self.frames, id, index, &self.signal);
        }
        self.evictions.fetch_add(1, Ordering::Relaxed);
        self.metrics.add(Counter::PagesEvicted, 1);
        if self.frames[index as usize].is_ahead.swap(false, Ordering::Relaxed) {
            self.metrics.add(Counter::PagesReadAheadEvicted, 1);
        }
    }
}
