//! Background jobs that free frames beside the page cleaner, which is alone with the flush list and the checkpoints.

use super::background::{CleanerOptions, STEP_PAGES, poisoned};
use super::state::State;
use super::steps::WeakState;
use crate::buffer::Freed;
use crate::event::FlushCause;
use siltstone_base::Result;
use siltstone_base::env::IoPriority;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;

/// Of the pages at the end of the order of use that InnoDB frees in a second, the part that is free here: the page cleaner looks a hundred times in a second.
const FREE_PARTS: usize = 4;

impl CleanerOptions {
    /// Frames that should be free.
    pub(super) fn free_target(&self) -> usize {
        self.lru_scan_depth / FREE_PARTS
    }
}

/// Frees frames as long as few are free.
#[derive(Debug)]
pub(super) struct Freeing {
    pub(super) state: WeakState,
    /// Pages that are left to those who began before.
    pub(super) skip: usize,
}

impl State {
    /// Lets some pages go where few frames are free, behind `skip` that others let go. Returns how many went.
    pub(super) fn free_frames(&self, skip: usize) -> Result<usize> {
        let mut freed = Freed::default();
        self.flush(FlushCause::FreeFrames, || {
            freed = self.pool.free_tail(self.options.free_target(), skip, STEP_PAGES, IoPriority::High)?;
            Ok(freed.written)
        })?;
        Ok(freed.frames)
    }

    /// Starts jobs that free frames beside the page cleaner, where it alone would not be done in this step.
    pub(super) fn wake_freeing(self: &Arc<Self>) {
        if self.pool.lacking(self.options.free_target()) <= STEP_PAGES {
            return;
        }
        // One thread is left to other jobs, whose priority is lower.
        let most = self.options.page_cleaners.min(self.executor.threads().saturating_sub(1));
        let add_one = |count: usize| Some(count + 1).filter(|count| *count < most);
        while let Ok(others) = self.freeing.fetch_update(Ordering::AcqRel, Ordering::Acquire, add_one) {
            let job = Freeing { state: self.weak(), skip: (others + 1) * STEP_PAGES };
            self.executor.submit(Priority::High, Box::new(job));
        }
    }
}

impl Job for Freeing {
    fn name(&self) -> &'static str {
        "free frames"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let Some(state) = self.state.begin_step() else { return Progress::Done };
        let is_over = state.is_closed.load(Ordering::Acquire) || state.health.error().is_some();
        let freed = if is_over { Ok(0) } else { state.free_frames(self.skip) };
        // After an error the pages are as dirty as before: the page cleaner goes on.
        if freed.is_ok_and(|freed| freed > 0) {
            return Progress::More;
        }
        state.freeing.fetch_sub(1, Ordering::AcqRel);
        Progress::Done
    }

    fn poisoned(&mut self, message: &str) {
        poisoned(&self.state, "free frames", message);
    }
}
