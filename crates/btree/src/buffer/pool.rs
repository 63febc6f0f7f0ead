//! The pool: finding a page, reading it, making room for it.
//!
//! Path: get 4/5. Before: tree/search.rs. After: page/leaf.rs.
//! Path: put 4/5. Before: tree/insert.rs. After: mtr/mod.rs.

use super::doublewrite::DoublewriteFile;
use super::flush::FlushBuffer;
use super::flush_list::FlushList;
use super::frame::{Frame, Memory};
use super::guard::{ExclusiveGuard, Optimistic, SharedGuard};
use super::lru::Lru;
use super::page_table::PageTable;
use super::read_ahead::ReadAhead;
use crate::health::Health;
use crate::metrics::{Counter, Metrics};
use crate::options::FlushNeighbors;
use crate::page::{self, Lsn, PageId};
use crate::redo::Redo;
use crate::space::Spaces;
use siltstone_base::block_pool::{BlockPool, PooledBuf};
use siltstone_base::clock::Clock;
use siltstone_base::env::{DIRECT_ALIGNMENT, IoPriority};
use siltstone_base::executor::Executor;
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::sync::{Arc, LatchVersion, Mutex, Rank, Signal};
use siltstone_base::{Error, ErrorKind, Result};

/// Held while pages are written.
const FLUSH_RANK: Rank = Rank(340);
/// Taken under the redo log's buffer.
const FLUSH_LIST_RANK: Rank = Rank(450);
/// Taken under any latch.
const LISTS_RANK: Rank = Rank(470);

/// What the pool is made with.
#[derive(Debug, Clone)]
pub(crate) struct PoolOptions {
    pub(crate) frames: usize,
    pub(crate) old_percent: usize,
    pub(crate) old_time_micros: u64,
    pub(crate) flush_neighbors: FlushNeighbors,
    pub(crate) read_ahead_threshold: usize,
    pub(crate) random_read_ahead: bool,
}

/// What is in the pool, for who decides how much to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolState {
    pub(crate) frames: usize,
    pub(crate) dirty: usize,
    pub(crate) oldest_lsn: Option<Lsn>,
    /// Pages that went since the pool was made.
    pub(crate) evictions: u32,
}

/// Where a reader left a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    index: u32,
    id: PageId,
    version: LatchVersion,
}

impl SharedGuard<'_> {
    /// For coming back to the page as long as it is what it is now.
    pub(crate) fn place(&self, id: PageId) -> Option<Place> {
        Some(Place { index: self.index, id, version: self.frame.latch.version()? })
    }
}

#[derive(Debug)]
struct Lists {
    free: Vec<u32>,
    lru: Lru,
}

/// The pages in memory. Any thread may use it.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(super) frames: Box<[Frame]>,
    pub(super) memory: Memory,
    table: PageTable,
    lists: Mutex<Lists>,
    pub(super) flush_list: Mutex<FlushList>,
    pub(super) flushing: Mutex<FlushBuffer>,
    /// Whoever waits for a latch waits here.
    signal: Signal,
    /// Counts evictions: a page that was made young not long ago is not moved again.
    evictions: AtomicU32,
    /// So many more changes bring their leaves in before they take the lock of writers.
    ahead: AtomicU32,
    old_time_micros: u64,
    pub(super) flush_neighbors: FlushNeighbors,
    pub(crate) redo: Arc<Redo>,
    pub(crate) spaces: Arc<Spaces>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    scratch: BlockPool,
    pub(super) read_ahead: ReadAhead,
}

/// Batches that a caller writes before it gives up looking for a frame.
const FOREGROUND_ROUNDS: usize = 4;

/// Changes without a page that was missing after which pages are not brought in ahead any more.
const CHANGES_AHEAD: u32 = 1024;

/// Pages that came in, or were made young, since so few others went are left alone as long as possible: those of one change of shape.
const RECENT: u32 = 12;

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

/// Pages of such a batch.
const FOREGROUND_PAGES: usize = 32;

/// A frame that was to hold a page.
#[derive(Debug)]
enum Claimed<'a> {
    /// It does, and is latched.
    Mine(ExclusiveGuard<'a>),
    /// This one held the page already, though a lookup may have missed that.
    Others(u32),
}

impl Claimed<'_> {
    /// The frame, which is not latched any more.
    fn index(self) -> u32 {
        match self {
            Self::Mine(guard) => guard.index,
            Self::Others(index) => index,
        }
    }
}

#[cfg(test)]
thread_local! {
    /// What happens when a new page was found in a frame that is not latched yet, once.
    pub(super) static MEANWHILE: std::cell::RefCell<Option<Box<dyn FnOnce()>>> = const { std::cell::RefCell::new(None) };
}

/// Where others may take the page out again: a test lets it happen.
#[inline(always)]
fn meanwhile() {
    #[cfg(test)]
    if let Some(act) = MEANWHILE.take() {
        act();
    }
}

impl Pool {
    pub(crate) fn new(
        options: &PoolOptions,
        redo: Arc<Redo>,
        spaces: Arc<Spaces>,
        doublewrite: Option<DoublewriteFile>,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        executor: Arc<dyn Executor>,
    ) -> Self {
        let frames = options.frames;
        let lru = Lru::new(frames, options.old_percent);
        let free = (0..frames as u32).rev().collect();
        let page_len = spaces.page_len();
        let scratch = BlockPool::new(16 * (page_len + DIRECT_ALIGNMENT));
        Self {
            frames: (0..frames).map(|_| Frame::new()).collect(),
            memory: Memory::new(frames, page_len),
            table: PageTable::new(frames),
            lists: Mutex::new(LISTS_RANK, Lists { free, lru }),
            flush_list: Mutex::new(FLUSH_LIST_RANK, FlushList::default()),
            flushing: Mutex::new(FLUSH_RANK, FlushBuffer::new(page_len, doublewrite)),
            signal: Signal::new(),
            evictions: AtomicU32::new(0),
            ahead: AtomicU32::new(0),
            old_time_micros: options.old_time_micros,
            flush_neighbors: options.flush_neighbors,
            redo,
            spaces,
            health,
            metrics,
            clock: Arc::clone(executor.clock()),
            scratch,
            read_ahead: ReadAhead::new(executor, options.read_ahead_threshold, options.random_read_ahead),
        }
    }

    /// Bytes of a page.
    #[inline]
    pub(crate) fn page_len(&self) -> usize {
        self.memory.page_len()
    }

    /// Frames of the pool.
    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// What is in the pool.
    pub(crate) fn state(&self) -> PoolState {
        let mut list = self.flush_list.lock();
        PoolState {
            frames: self.frames.len(),
            dirty: list.len(),
            oldest_lsn: list.oldest(&self.frames),
            evictions: self.evictions.load(Ordering::Relaxed),
        }
    }

    /// A page for reading; read from its tablespace if it is not here.
    #[inline]
    pub(crate) fn shared(&self, id: PageId) -> Result<SharedGuard<'_>> {
        loop {
            let index = match self.table.find(&self.frames, id) {
                Some(index) => index,
                None => self.load(id)?.index(),
            };
            // Header and slots are needed next: the waits for their lines overlap with the one for the latch.
            self.memory.words(index).prefetch_front();
            if let Some(guard) = self.shared_in(index, id) {
                self.touch(index);
                return Ok(guard);
            }
        }
    }

    #[inline]
    fn shared_in(&self, index: u32, id: PageId) -> Option<SharedGuard<'_>> {
        let frame = &self.frames[index as usize];
        frame.latch.lock_shared(&self.signal);
        let guard = SharedGuard { index, frame, words: self.memory.words(index), signal: &self.signal };
        frame.holds(id).then_some(guard)
    }

    /// The page in a frame for reading, if that is possible at once.
    pub(super) fn try_shared(&self, index: u32) -> Option<SharedGuard<'_>> {
        let frame = &self.frames[index as usize];
        if !frame.latch.try_lock_shared() {
            return None;
        }
        Some(SharedGuard { index, frame, words: self.memory.words(index), signal: &self.signal })
    }

    /// A page for writing; read from its tablespace if it is not here.
    #[inline]
    pub(crate) fn exclusive(&self, id: PageId) -> Result<ExclusiveGuard<'_>> {
        loop {
            let index = match self.table.find(&self.frames, id) {
                Some(index) => index,
                None => match self.load_for_writer(id)? {
                    Claimed::Mine(guard) => return Ok(guard),
                    Claimed::Others(index) => index,
                },
            };
            if let Some(guard) = self.exclusive_in(index, id) {
                self.touch(index);
                return Ok(guard);
            }
        }
    }

    #[inline]
    fn exclusive_in(&self, index: u32, id: PageId) -> Option<ExclusiveGuard<'_>> {
        let frame = &self.frames[index as usize];
        frame.latch.lock_exclusive(&self.signal);
        let guard = ExclusiveGuard { id, index, frame, words: self.memory.words(index), signal: &self.signal };
        frame.holds(id).then_some(guard)
    }

    /// A page for reading, for who holds the lock of writers.
    pub(crate) fn shared_by_writer(&self, id: PageId) -> Result<SharedGuard<'_>> {
        if self.table.find(&self.frames, id).is_none() {
            drop(self.load_for_writer(id)?);
        }
        self.shared(id)
    }

    /// Reads a page while others wait: who changes rows from now on should bring their pages in before.
    #[cold]
    fn load_for_writer(&self, id: PageId) -> Result<Claimed<'_>> {
        let loaded = self.load(id)?;
        if matches!(loaded, Claimed::Mine(_)) {
            self.metrics.add(Counter::PagesReadByWriter, 1);
            self.ahead.store(CHANGES_AHEAD, Ordering::Relaxed);
        }
        Ok(loaded)
    }

    /// Whether the next change should bring its leaf in before it takes the lock of writers: of late leaves were not here.
    #[inline]
    pub(crate) fn is_ahead(&self) -> bool {
        let left = self.ahead.load(Ordering::Relaxed);
        if left > 0 {
            self.ahead.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// Reads a page that is not here, so that it will be.
    pub(crate) fn bring_in(&self, id: PageId) -> Result<()> {
        if self.table.find(&self.frames, id).is_none() && matches!(self.load(id)?, Claimed::Mine(_)) {
            self.ahead.store(CHANGES_AHEAD, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A page for writing of which nothing is known yet but that it will be written as a whole. It is never read: there may be nothing in its place. A frame that holds it may be
    /// one of read-ahead, which finds that out.
    pub(crate) fn create(&self, id: PageId) -> Result<ExclusiveGuard<'_>> {
        loop {
            let index = match self.table.find(&self.frames, id) {
                Some(index) => index,
                None => match self.claim(id)? {
                    Claimed::Mine(guard) => {
                        self.enter(guard.index);
                        return Ok(guard);
                    }
                    Claimed::Others(index) => index,
                },
            };
            meanwhile();
            if let Some(guard) = self.exclusive_in(index, id) {
                self.touch(index);
                return Ok(guard);
            }
        }
    }

    /// Whether a page is here, or being read.
    pub(crate) fn is_resident(&self, id: PageId) -> bool {
        self.table.has(&self.frames, id)
    }

    /// The version of a page that is here; `None` if it is not, or if it is being changed.
    #[inline]
    pub(crate) fn optimistic(&self, id: PageId) -> Option<Optimistic<'_>> {
        let index = self.table.find(&self.frames, id)?;
        self.optimistic_in(index, id)
    }

    /// The same, if the page is in the frame where it was last seen.
    #[inline]
    pub(crate) fn optimistic_in(&self, index: u32, id: PageId) -> Option<Optimistic<'_>> {
        let frame = self.frames.get(index as usize)?;
        let version = frame.latch.version()?;
        if !frame.holds(id) {
            return None;
        }
        self.touch(index);
        Some(Optimistic { index, frame, words: self.memory.words(index), version })
    }

    /// Whether nobody changed a page or took it out since a reader left it. Takes no latch, so that others may be held.
    pub(crate) fn is_still(&self, place: &Place) -> bool {
        let frame = self.frames.get(place.index as usize);
        frame.is_some_and(|frame| frame.holds(place.id) && frame.latch.validate(place.version))
    }

    /// A page for reading where a reader left it, if nobody changed it or took it out since.
    pub(crate) fn resume(&self, place: &Place) -> Option<SharedGuard<'_>> {
        let frame = self.frames.get(place.index as usize)?;
        frame.latch.lock_shared(&self.signal);
        let words = self.memory.words(place.index);
        let guard = SharedGuard { index: place.index, frame, words, signal: &self.signal };
        (frame.holds(place.id) && frame.latch.validate(place.version)).then_some(guard)
    }

    /// Reads a page into a frame, if nobody else does. The frame is latched until the page was checked.
    #[cold]
    fn load(&self, id: PageId) -> Result<Claimed<'_>> {
        let mut guard = match self.claim(id)? {
            Claimed::Mine(guard) => guard,
            others => return Ok(others),
        };
        match self.read_into(&mut guard) {
            Ok(()) => {
                self.enter(guard.index);
                self.read_around(id);
                Ok(Claimed::Mine(guard))
            }
            Err(error) => {
                self.give_up(&guard);
                Err(error)
            }
        }
    }

    fn read_into(&self, guard: &mut ExclusiveGuard<'_>) -> Result<()> {
        let id = guard.id;
        let mut buffer = self.scratch.alloc_aligned(self.page_len(), DIRECT_ALIGNMENT);
        self.spaces.read(id, &mut buffer, IoPriority::User)?;
        self.accept(guard, &buffer)
    }

    #[cold]
    pub(super) fn decompress(&self, id: PageId, stored: &[u8]) -> Result<PooledBuf> {
        let mut page = self.scratch.alloc_aligned(self.page_len(), DIRECT_ALIGNMENT);
        page::decompress(stored, &mut page).map_err(|damage| self.spaces.corruption(id, &damage.to_string()))?;
        Ok(page)
    }

    /// A free frame that was given the page's name, unless the page is here already.
    fn claim(&self, id: PageId) -> Result<Claimed<'_>> {
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
        self.table.remove(&self.frames, guard.id, guard.index);
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
            drop(list);
            // A page that is being written stays until it is written, and is then the first to go.
            if !frame.is_flushing.load(Ordering::Acquire) {
                self.give_up(&guard);
            }
        }
    }

    /// Takes note of a use.
    #[inline]
    fn touch(&self, index: u32) {
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
        for _ in 0..FOREGROUND_ROUNDS {
            if let Some(index) = self.take_free().or_else(|| self.evict(Among::Tail)) {
                return Ok(index);
            }
            self.metrics.add(Counter::ForegroundFlushes, 1);
            let oldest = self.dirty_tail(self.frames.len(), 4 * FOREGROUND_PAGES);
            if self.flush_frames(&oldest, FOREGROUND_PAGES, IoPriority::User)? == 0 {
                // Others may hold, or just have written, what could go.
                self.health.check()?;
            }
        }
        let any = || self.evict(Among::NotRecent).or_else(|| self.evict(Among::All));
        self.take_free().or_else(any).ok_or_else(|| {
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

    /// The oldest pages in the order of use that have to go for `target` frames to be free, at most `count`.
    pub(super) fn tail_to_free(&self, target: usize, count: usize) -> Vec<u32> {
        let lists = self.lists.lock();
        let wanted = target.saturating_sub(lists.free.len()).min(count);
        lists.lru.oldest_first().take(wanted).collect()
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

    /// Frames without pages; pages in the order of use, and the old ones among them.
    pub(super) fn lens(&self) -> (usize, usize, usize) {
        let lists = self.lists.lock();
        let (len, old) = lists.lru.lens();
        (lists.free.len(), len, old)
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

    /// Takes the oldest page out that is clean and that nobody holds. One that just came in is no candidate but in the last resort: where most pages are dirty it would be the
    /// only clean one, and the pages of one descent would push each other out.
    fn evict(&self, among: Among) -> Option<u32> {
        let mut lists = self.lists.lock();
        let (len, old_len) = lists.lru.lens();
        let depth = if among == Among::Tail { (old_len * 3 / 4).min(len / 4).max(1) } else { len };
        let evictions = self.evictions.load(Ordering::Relaxed);
        let found = lists.lru.oldest_first().take(depth).find_map(|index| {
            let came_in = self.frames[index as usize].young_clock.load(Ordering::Relaxed);
            if among == Among::NotRecent && evictions.wrapping_sub(came_in) < RECENT {
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
        let is_busy = || frame.is_dirty() || frame.is_flushing.load(Ordering::Acquire);
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
            self.table.remove(&self.frames, id, index);
        }
        self.evictions.fetch_add(1, Ordering::Relaxed);
        self.metrics.add(Counter::PagesEvicted, 1);
        if self.frames[index as usize].is_ahead.swap(false, Ordering::Relaxed) {
            self.metrics.add(Counter::PagesReadAheadEvicted, 1);
        }
    }

    /// Takes note that the record that begins at `lsn` changes a page. Called under the lock of the redo log's buffer.
    #[inline]
    pub(crate) fn mark_dirty(&self, guard: &ExclusiveGuard<'_>, lsn: Lsn) {
        if !guard.frame.is_dirty() {
            let mut list = self.flush_list.lock();
            if !guard.frame.is_dirty() {
                guard.frame.oldest_lsn.store(lsn, Ordering::Release);
                list.push(lsn, guard.index);
            }
        }
    }
}
