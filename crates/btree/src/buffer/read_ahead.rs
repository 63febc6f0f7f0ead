//! Pages that are read before somebody asks for them: what follows a scan, what surrounds pages that are in use, and what was in the pool when the database was closed.
//!
//! All of it is a hint. A page that can't be read now, or makes no sense, is left to whoever needs it.

use super::guard::ExclusiveGuard;
use super::pool::Pool;
use crate::metrics::Counter;
use crate::page::{self, PageId};
use siltstone_base::block_pool::BlockPool;
use siltstone_base::env::{DIRECT_ALIGNMENT, IoPriority};
use siltstone_base::executor::{Budget, Executor, Job, Priority, Progress};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, Mutex, OnceLock, Rank, Weak};
use std::collections::VecDeque;

/// Taken under any latch.
const WANTED_RANK: Rank = Rank(485);

/// Pages of one read.
pub(super) const RUN: u32 = 16;

/// Extents that may wait to be read. More come too fast to be read ahead of anybody.
const MOST_WAITING: usize = 16;

/// Pages of an extent of a large pool.
const EXTENT: usize = 64;

/// What is to be read, and who reads it.
#[derive(Debug)]
pub(super) struct ReadAhead {
    executor: Arc<dyn Executor>,
    pool: OnceLock<Weak<Pool>>,
    /// First pages, and how many of each.
    wanted: Mutex<VecDeque<(PageId, u32)>>,
    is_running: AtomicBool,
    /// Pages of an extent of 64 that a scan reads in order before the next extent is read; 0: never.
    threshold: u32,
    is_random: bool,
}

#[derive(Debug)]
struct Reader(Weak<Pool>);

/// How far a scan came within an extent, page by page in one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trail {
    extent: u32,
    in_order: u32,
    is_up: bool,
}

impl ReadAhead {
    pub(super) fn new(executor: Arc<dyn Executor>, threshold: usize, is_random: bool) -> Self {
        Self {
            executor,
            pool: OnceLock::new(),
            wanted: Mutex::new(WANTED_RANK, VecDeque::new()),
            is_running: AtomicBool::new(false),
            threshold: threshold as u32,
            is_random,
        }
    }
}

impl Pool {
    /// Lets pages be read ahead, by jobs.
    pub(crate) fn start_read_ahead(self: &Arc<Self>) {
        // Only the first time counts, and there is one.
        let _ = self.read_ahead.pool.set(Arc::downgrade(self));
    }

    /// Pages of an extent: what is read ahead at once.
    fn extent(&self) -> u32 {
        let share = (self.frames() / 32).max(1);
        EXTENT.min(1 << share.ilog2()) as u32
    }

    /// Takes note that a scan went from a page to its neighbour.
    #[inline]
    pub(crate) fn follow(&self, trail: &mut Trail, from: u32, next: PageId) {
        let extent = self.extent();
        let (at, is_up) = (next.number / extent, next.number > from);
        if at != trail.extent || is_up != trail.is_up {
            *trail = Trail { extent: at, in_order: 0, is_up };
        }
        trail.in_order += 1;
        let threshold = self.read_ahead.threshold;
        if threshold == 0 || trail.in_order != (threshold * extent).div_ceil(EXTENT as u32).max(1) {
            return;
        }
        if let Some(first) =
            if is_up { at.checked_add(1) } else { at.checked_sub(1) }.and_then(|at| at.checked_mul(extent))
        {
            self.want(PageId::new(next.space, first), extent);
        }
    }

    /// Takes note that a page had to be read. If many around it are in use the others are read too.
    #[cold]
    pub(super) fn read_around(&self, id: PageId) {
        if !self.read_ahead.is_random {
            return;
        }
        let extent = self.extent();
        let first = id.number - id.number % extent;
        let is_young = |number: &u32| {
            let found = self.frame_of(PageId::new(id.space, *number));
            found.is_some_and(|index| !self.frames[index as usize].is_old.load(Ordering::Relaxed))
        };
        let young = (first..first.saturating_add(extent)).filter(is_young).count();
        // 13 pages of an extent of 64.
        if young as u32 >= (5 * extent).div_ceil(EXTENT as u32) + extent / 8 {
            self.want(PageId::new(id.space, first), extent);
        }
    }

    fn want(&self, first: PageId, count: u32) {
        let ahead = &self.read_ahead;
        let Some(pool) = ahead.pool.get() else { return };
        {
            let mut wanted = ahead.wanted.lock();
            if wanted.len() >= MOST_WAITING || wanted.iter().any(|(other, _)| *other == first) {
                return;
            }
            wanted.push_back((first, count));
        }
        if !ahead.is_running.swap(true, Ordering::AcqRel) {
            ahead.executor.submit(Priority::High, Box::new(Reader(Weak::clone(pool))));
        }
    }

    /// Reads the next pages that are wanted.
    fn read_wanted(&self) -> Progress {
        let ahead = &self.read_ahead;
        let Some((first, count)) = ahead.wanted.lock().pop_front() else {
            ahead.is_running.store(false, Ordering::Release);
            // Whoever wanted something just before found the job running.
            let is_late = !ahead.wanted.lock().is_empty() && !ahead.is_running.swap(true, Ordering::AcqRel);
            return if is_late { Progress::More } else { Progress::Done };
        };
        let now = count.min(RUN);
        let read = self.read_run(first, now, false);
        self.metrics.add(Counter::PagesReadAhead, read as u64);
        if let Some(rest) = first.number.checked_add(now).filter(|_| count > now) {
            ahead.wanted.lock().push_front((PageId::new(first.space, rest), count - now));
        }
        Progress::More
    }

    /// Reads those pages of a row that are not here, with one read for each gap. Frames come from pages that can go at once, or if `only_free` from those that hold none.
    /// Returns how many came in.
    pub(crate) fn read_run(&self, first: PageId, count: u32, only_free: bool) -> usize {
        let mut claimed: Vec<ExclusiveGuard<'_>> = Vec::new();
        let mut done = 0;
        // What lies behind the end of the file was never written: nothing makes room for it.
        let end = first.number.saturating_add(count).min(self.spaces.stored_pages(first.space));
        for number in first.number..end {
            let id = PageId::new(first.space, number);
            let guard = if self.frame_of(id).is_some() { None } else { self.claim_spare(id, only_free) };
            match guard {
                Some(guard) => claimed.push(guard),
                None => done += self.fill_claimed(&mut claimed),
            }
        }
        done + self.fill_claimed(&mut claimed)
    }

    /// Reads pages that follow each other into their frames, which become visible, or free again.
    fn fill_claimed(&self, claimed: &mut Vec<ExclusiveGuard<'_>>) -> usize {
        let Some(first) = claimed.first().map(ExclusiveGuard::id) else { return 0 };
        let page_len = self.page_len();
        let mut buffer = BlockPool::new(0).alloc_aligned(claimed.len() * page_len, DIRECT_ALIGNMENT);
        let is_read = self.spaces.read(first, &mut buffer, IoPriority::Low).is_ok();
        let mut done = 0;
        for (mut guard, stored) in claimed.drain(..).zip(buffer.chunks_exact(page_len)) {
            if is_read && self.accept(&mut guard, stored).is_ok() {
                guard.frame.is_ahead.store(true, Ordering::Relaxed);
                self.enter(guard.index);
                done += 1;
            } else {
                self.give_up(&guard);
            }
        }
        done
    }

    /// Takes over what was read for a page, if it is the page.
    pub(super) fn accept(&self, guard: &mut ExclusiveGuard<'_>, stored: &[u8]) -> siltstone_base::Result<()> {
        use crate::page::PageMut;
        let id = guard.id;
        let lsn = page::verify(stored, id).map_err(|damage| self.spaces.corruption(id, &damage.to_string()))?;
        // Only closed groups are written, and only when they are durable.
        if !self.redo.closed().covers(lsn) {
            return Err(self.spaces.corruption(id, "the page is newer than the redo log"));
        }
        let plain;
        let page = if page::is_compressed(stored) {
            plain = self.decompress(id, stored)?;
            &plain
        } else {
            stored
        };
        page::check(page).map_err(|what| self.spaces.corruption(id, what))?;
        guard.write(0, page);
        guard.set_lsn(lsn);
        Ok(())
    }
}

impl Job for Reader {
    fn name(&self) -> &'static str {
        "read-ahead"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        let Some(pool) = self.0.upgrade() else { return Progress::Done };
        loop {
            let progress = pool.read_wanted();
            if progress != Progress::More || budget.is_over() {
                return progress;
            }
        }
    }

    /// Nobody waits for pages that nobody asked for; from now on none are read ahead.
    fn poisoned(&mut self, _: &str) {}
}
