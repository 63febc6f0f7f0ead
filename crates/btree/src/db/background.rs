//! Background jobs: the page cleaner, and the one that syncs the redo log from time to time.
//!
//! A job exists only while there is something for it to do. It holds the database weakly: one that was dropped ends it.

use super::state::State;
use super::steps::WeakState;
use crate::buffer::{FlushInputs, flush_goal, sync_flush_limit};
use crate::event::{CheckpointCause, Event, FlushCause};
#[cfg(feature = "testing")]
use crate::meanwhile::{self, Moment, Step};
use siltstone_base::engine::Durability;
use siltstone_base::env::IoPriority;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::Arc;
#[cfg(feature = "testing")]
use siltstone_base::sync::Weak;
use siltstone_base::sync::atomic::{Ordering, fence};
use siltstone_base::{Error, Result};
use std::time::Duration;

/// Between two looks of the page cleaner.
const INTERVAL: Duration = Duration::from_millis(10);

/// After a round that failed.
const RETRY: Duration = Duration::from_millis(100);

/// Without a write for so long the engine is idle.
const IDLE_MICROS: u64 = 1_000_000;

/// Pages of one step.
pub(super) const STEP_PAGES: usize = 64;

/// A checkpoint is due when the log grew by this share of its capacity since the last one.
const CHECKPOINT_SHARE: u64 = 32;

/// Options that the page cleaner goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct CleanerOptions {
    pub(super) io_capacity: usize,
    pub(super) io_capacity_max: usize,
    pub(super) max_dirty_percent: usize,
    pub(super) low_dirty_percent: usize,
    pub(super) idle_percent: usize,
    pub(super) lru_scan_depth: usize,
    pub(super) page_cleaners: usize,
}

/// What the page cleaner remembers between its steps.
#[derive(Debug, Default)]
pub(super) struct CleanerState {
    last_micros: u64,
    last_end: u64,
    last_growth_micros: u64,
    /// Parts of a page that the last steps left over.
    owed: f64,
    /// Pages written since the last look, and in a second of late.
    written: usize,
    written_rate: f64,
    /// Whether the redo log was nearly full, and has not been relieved since.
    is_log_full: bool,
    pub(super) last_error: Option<Error>,
}

#[derive(Debug)]
struct Cleaner(WeakState);

#[derive(Debug)]
struct LogSyncer {
    state: WeakState,
    interval: Duration,
}

impl State {
    /// Starts the jobs for which there is something to do.
    #[inline]
    pub(super) fn wake_jobs(self: &Arc<Self>) {
        if !self.is_cleaning.load(Ordering::Relaxed) {
            self.wake_cleaner();
        }
        self.wake_merging();
        if let Durability::EveryMillis(millis) = self.durability
            && {
                // Either the job that ends sees the group that was closed before, or it is seen here that it has ended.
                fence(Ordering::SeqCst);
                !self.is_syncing.load(Ordering::Relaxed)
            }
            && !self.is_syncing.swap(true, Ordering::AcqRel)
        {
            let job = LogSyncer { state: self.weak(), interval: Duration::from_millis(millis) };
            self.executor.submit(Priority::High, Box::new(job));
        }
    }

    #[cold]
    pub(super) fn wake_cleaner(self: &Arc<Self>) {
        if !self.is_cleaning.swap(true, Ordering::AcqRel) {
            self.executor.submit(Priority::High, Box::new(Cleaner(self.weak())));
        }
    }

    /// One step of the page cleaner.
    fn clean(&self) -> Result<Progress> {
        let pool = self.pool.state();
        let (end, age, capacity) = (self.redo.end(), self.redo.age(), self.redo.capacity());
        let limit = sync_flush_limit(end, age, capacity, self.redo.wanted());
        self.note_log(age, capacity);
        if let Some(limit) = limit {
            if self.flush(FlushCause::LogFull, || self.pool.flush_oldest(STEP_PAGES, limit, IoPriority::High))? == 0 {
                // Others write the oldest: the checkpoint can move when they are done.
                self.pool.wait_for_flush();
            }
            self.write_checkpoint(CheckpointCause::LogFull, IoPriority::High)?;
            self.room.notify_all();
            // What can't be written yet belongs to a group that is being made.
            let is_still = sync_flush_limit(self.redo.end(), self.redo.age(), capacity, self.redo.wanted()).is_some();
            return Ok(if is_still { Progress::After(Duration::from_micros(100)) } else { Progress::More });
        }
        let goal = self.pages_due(pool.frames, pool.dirty, end, age, capacity);
        let mut written = match goal {
            0 => 0,
            _ => self.flush(FlushCause::Adaptive, || self.pool.flush_oldest(goal, u64::MAX, IoPriority::High))?,
        };
        {
            let mut memory = self.cleaner.lock();
            memory.written += written;
            // What neighbors made more is made up for.
            memory.owed -= written.saturating_sub(goal) as f64;
        }
        // Whoever needs the next frames should find them free.
        written += self.free_frames(0)?;
        let behind = pool.oldest_lsn.unwrap_or(end).saturating_sub(self.redo.checkpoint().lsn);
        // Pages that others are writing count as well.
        let is_clean = pool.oldest_lsn.is_none();
        let is_idle_end = is_clean && age > 0;
        if behind > capacity / CHECKPOINT_SHARE || is_idle_end {
            let cause = if is_idle_end { CheckpointCause::Idle } else { CheckpointCause::LogGrown };
            self.write_checkpoint(cause, IoPriority::High)?;
            self.room.notify_all();
        }
        if is_clean {
            return Ok(Progress::Done);
        }
        Ok(if written >= STEP_PAGES { Progress::More } else { Progress::After(INTERVAL) })
    }

    /// Writes pages, and tells how many. One that only lets pages go writes none.
    pub(super) fn flush(&self, cause: FlushCause, write: impl FnOnce() -> Result<usize>) -> Result<usize> {
        let start = self.events.now_micros();
        let pages = write()?;
        if pages > 0 {
            let duration = super::startup::since(&**self.executor.clock(), start);
            self.events.note(|| Event::PagesFlushed { cause, pages: pages as u64, duration });
        }
        Ok(pages)
    }

    /// Tells when the redo log becomes nearly full, and when it is not any more.
    fn note_log(&self, age: u64, capacity: u64) {
        let mut memory = self.cleaner.lock();
        // Between the two it is what it was: nobody is told of every step back and forth.
        let is_full = if memory.is_log_full { age > capacity / 2 } else { age > capacity / 4 * 3 };
        let was_full = std::mem::replace(&mut memory.is_log_full, is_full);
        drop(memory);
        if is_full != was_full {
            self.events.note(|| match is_full {
                true => Event::RedoNearlyFull { age, capacity },
                false => Event::RedoRelieved { age, capacity },
            });
        }
    }

    /// Tells that background work failed, and is tried again. What ended the engine's health tells so itself.
    pub(super) fn note_failure(&self, job: &'static str, error: &Error) {
        if self.health.error().is_none() && self.check_open().is_ok() {
            self.events.note(|| Event::BackgroundFailed { job, error: error.clone() });
        }
    }

    /// Pages to write in this step.
    fn pages_due(&self, frames: usize, dirty: usize, end: u64, age: u64, capacity: u64) -> usize {
        let now = self.executor.clock().now_micros();
        let mut memory = self.cleaner.lock();
        let elapsed = now.saturating_sub(memory.last_micros).clamp(1, IDLE_MICROS);
        let growth = end.saturating_sub(memory.last_end);
        if growth > 0 || memory.last_micros == 0 {
            memory.last_growth_micros = now;
        }
        (memory.last_micros, memory.last_end) = (now, end);
        // An average whose weights fall by a factor of e in a second.
        let newly = std::mem::take(&mut memory.written) as f64;
        memory.written_rate += newly - memory.written_rate * elapsed as f64 / 1e6;
        // The oldest pages that the log's growth in a second would have to push out.
        let share = growth as f64 / age.max(1) as f64 * dirty as f64;
        let rate_pages = (share * 1e6 / elapsed as f64) as usize;
        let goal = flush_goal(&FlushInputs {
            frames,
            dirty,
            age,
            capacity,
            is_idle: now.saturating_sub(memory.last_growth_micros) >= IDLE_MICROS,
            rate_pages,
            written_pages: memory.written_rate as usize,
            io_capacity: self.options.io_capacity,
            io_capacity_max: self.options.io_capacity_max,
            max_dirty_percent: self.options.max_dirty_percent,
            low_dirty_percent: self.options.low_dirty_percent,
            idle_percent: self.options.idle_percent,
        });
        memory.owed = (memory.owed + goal as f64 * elapsed as f64 / 1e6).min(goal as f64);
        let pages = (memory.owed.max(0.0) as usize).min(STEP_PAGES);
        memory.owed -= pages as f64;
        pages
    }

    fn stop_cleaning(self: &Arc<Self>) -> Progress {
        self.is_cleaning.store(false, Ordering::Release);
        // Whoever made a page dirty just before found the job running.
        if self.pool.state().oldest_lsn.is_some()
            && !self.is_closed.load(Ordering::Acquire)
            && self.health.error().is_none()
        {
            self.wake_cleaner();
        } else {
            self.wake_idle_merging();
        }
        Progress::Done
    }
}

impl Job for Cleaner {
    fn name(&self) -> &'static str {
        "page cleaner"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let Some(state) = self.0.begin_step() else { return Progress::Done };
        if state.is_closed.load(Ordering::Acquire) || state.health.error().is_some() {
            state.is_cleaning.store(false, Ordering::Release);
            state.room.notify_all();
            return Progress::Done;
        }
        state.wake_freeing();
        match state.clean() {
            Ok(Progress::Done) => state.stop_cleaning(),
            Ok(progress) => progress,
            Err(error) => {
                state.note_failure(self.name(), &error);
                state.cleaner.lock().last_error = Some(error);
                state.cleaner_failures.fetch_add(1, Ordering::AcqRel);
                state.room.notify_all();
                Progress::After(RETRY)
            }
        }
    }

    fn poisoned(&mut self, message: &str) {
        poisoned(&self.0, "page cleaner", message);
    }
}

impl Job for LogSyncer {
    fn name(&self) -> &'static str {
        "redo log sync"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let Some(state) = self.state.begin_step() else { return Progress::Done };
        let is_over = state.is_closed.load(Ordering::Acquire) || state.health.error().is_some();
        if is_over || !state.redo.has_unsynced() {
            state.is_syncing.store(false, Ordering::Release);
            fence(Ordering::SeqCst);
            if !is_over && state.redo.has_unsynced() {
                state.wake_jobs();
            }
            return Progress::Done;
        }
        // A failure is final, and known to whoever writes next.
        let _ = state.redo.sync_all();
        Progress::After(self.interval)
    }

    fn poisoned(&mut self, message: &str) {
        poisoned(&self.state, "redo log sync", message);
    }
}

/// Lets tests have done here what jobs do on other threads.
#[cfg(feature = "testing")]
pub(super) fn let_happen(state: &Arc<State>) {
    let state: Weak<State> = Arc::downgrade(state);
    meanwhile::opened(state);
}

#[cfg(feature = "testing")]
impl meanwhile::Background for State {
    fn step(&self, moment: Moment, step: Step) {
        // A failure is known to whoever writes next, as that of a job is.
        let _ = match (moment, step) {
            (Moment::Write, Step::Sync) => self.redo.sync_written(),
            (Moment::Write, _) => Ok(()),
            (_, Step::Sync) => self.redo.sync_late(),
            (_, Step::Flush) => self.flush_some(),
            (_, Step::Checkpoint) => self.pool.checkpoint(false, IoPriority::High).map(drop),
        };
    }
}

#[cfg(feature = "testing")]
impl State {
    fn flush_some(&self) -> Result<()> {
        self.pool.flush_oldest(STEP_PAGES, u64::MAX, IoPriority::High)?;
        self.pool.free_tail(self.options.lru_scan_depth, 0, STEP_PAGES, IoPriority::High).map(drop)
    }
}

pub(super) fn poisoned(state: &WeakState, job: &str, message: &str) {
    if let Some(state) = state.begin_step() {
        let error = Error::new(siltstone_base::ErrorKind::Poisoned, format!("the job {job} panicked: {message}"));
        state.health.fail(error);
        state.room.notify_all();
    }
}
