//! The pool: finding a page, reading it, making room for it.
//!
//! Path: get 4/5. Before: tree/search.rs. After: page/leaf.rs.
//! Path: put 4/5. Before: tree/insert.rs. After: mtr/mod.rs.

use super::doublewrite::DoublewriteFile;
use super::eviction::{Claimed, Lists};
use super::flush_buffer::FlushBuffers;
use super::flush_list::FlushList;
use super::frame::{Frame, Memory};
use super::guard::{ExclusiveGuard, Optimistic, SharedGuard};
use super::lru::Lru;
use super::page_table::PageTable;
use super::read_ahead::ReadAhead;
use crate::health::Health;
use crate::meanwhile::{Gap, passing};
use crate::metrics::{Counter, Metrics};
use crate::options::FlushNeighbors;
use crate::page::{self, Lsn, PageId};
use crate::redo::Redo;
use crate::space::Spaces;
use siltstone_base::Result;
use siltstone_base::block_pool::{BlockPool, PooledBuf};
use siltstone_base::clock::Clock;
use siltstone_base::env::{DIRECT_ALIGNMENT, IoPriority};
use siltstone_base::executor::Executor;
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::sync::{Arc, LatchVersion, Mutex, Rank, Signal};

/// Held while a checkpoint is made.
const CHECKPOINT_RANK: Rank = Rank(330);
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
    /// Batches that are written at the same time, where no doublewrite files say how many.
    pub(crate) flush_buffers: usize,
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

/// The pages in memory. Any thread may use it.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(super) frames: Box<[Frame]>,
    pub(super) memory: Memory,
    pub(super) table: PageTable,
    pub(super) lists: Mutex<Lists>,
    pub(super) flush_list: Mutex<FlushList>,
    pub(super) flushing: FlushBuffers,
    /// The right to make a checkpoint.
    pub(super) checkpointing: Mutex<()>,
    /// Whoever waits for a latch waits here.
    pub(super) signal: Signal,
    /// Counts evictions: a page that was made young not long ago is not moved again.
    pub(super) evictions: AtomicU32,
    /// So many more changes bring their leaves in before they take the lock of writers.
    ahead: AtomicU32,
    pub(super) old_time_micros: u64,
    pub(super) flush_neighbors: FlushNeighbors,
    pub(crate) redo: Arc<Redo>,
    pub(crate) spaces: Arc<Spaces>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
    scratch: BlockPool,
    pub(super) read_ahead: ReadAhead,
}

/// Changes without a page that was missing after which pages are not brought in ahead any more.
const CHANGES_AHEAD: u32 = 1024;

impl Pool {
    pub(crate) fn new(
        options: &PoolOptions,
        redo: Arc<Redo>,
        spaces: Arc<Spaces>,
        doublewrite: Option<Vec<DoublewriteFile>>,
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
            flushing: FlushBuffers::new(page_len, options.flush_buffers, doublewrite),
            checkpointing: Mutex::new(CHECKPOINT_RANK, ()),
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
            passing(Gap::Found);
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
        // It may be given to another page meanwhile, whose holder waits for what this thread holds.
        if !frame.latch.lock_shared_while(&self.signal, || frame.holds(id)) {
            return None;
        }
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
        if !frame.latch.lock_exclusive_while(&self.signal, || frame.holds(id)) {
            return None;
        }
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
            passing(Gap::NewPage);
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
        if !frame.latch.lock_shared_while(&self.signal, || frame.holds(place.id)) {
            return None;
        }
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
