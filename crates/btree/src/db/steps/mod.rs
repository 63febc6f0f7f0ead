//! Steps of background jobs, as who drops a database meets them.
//!
//! A job has the database only while it makes a step. Whoever drops the last handle waits for the steps that are being made: otherwise the directory would stay locked for
//! a moment, and who opens it again at once would be refused.

use super::state::State;
use siltstone_base::executor::Executor;
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use siltstone_base::sync::{Arc, Signal, Weak};
use std::cell::Cell;
use std::ops::Deref;

thread_local! {
    /// How many steps this thread is in.
    static IN_STEPS: Cell<usize> = const { Cell::new(0) };
}

/// The handles of a database, and the steps that are being made.
#[derive(Debug, Default)]
pub(super) struct Steps {
    handles: AtomicUsize,
    running: AtomicUsize,
    ended: Signal,
}

/// A database as its jobs know it between their steps.
#[derive(Debug)]
pub(super) struct WeakState {
    state: Weak<State>,
    steps: Arc<Steps>,
}

/// A database during a step.
pub(super) struct InStep {
    // Gone before the step counts as ended.
    state: Arc<State>,
    _running: Running,
}

/// Counts as a step that is being made.
struct Running(Arc<Steps>);

/// What a handle leaves behind: the last one waits. Dropped after the database that the handle held.
#[derive(Debug)]
pub(super) struct Handle {
    steps: Arc<Steps>,
    executor: Arc<dyn Executor>,
}

impl State {
    /// For a job.
    pub(super) fn weak(self: &Arc<Self>) -> WeakState {
        WeakState { state: Arc::downgrade(self), steps: Arc::clone(&self.steps) }
    }

    /// For a handle.
    pub(super) fn handle(&self) -> Handle {
        self.steps.handles.fetch_add(1, Ordering::Relaxed);
        Handle { steps: Arc::clone(&self.steps), executor: Arc::clone(&self.executor) }
    }
}

impl WeakState {
    /// Begins a step; `None` if the database was dropped.
    pub(super) fn begin_step(&self) -> Option<InStep> {
        // Counted before there is a reference that whoever drops the last handle would have to wait for.
        let running = Running::begin(&self.steps);
        Some(InStep { state: self.state.upgrade()?, _running: running })
    }
}

impl Deref for InStep {
    type Target = Arc<State>;

    fn deref(&self) -> &Arc<State> {
        &self.state
    }
}

impl Running {
    fn begin(steps: &Arc<Steps>) -> Self {
        steps.running.fetch_add(1, Ordering::SeqCst);
        IN_STEPS.set(IN_STEPS.get() + 1);
        Self(Arc::clone(steps))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        IN_STEPS.set(IN_STEPS.get() - 1);
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify_all();
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.steps.handles.fetch_add(1, Ordering::Relaxed);
        Self { steps: Arc::clone(&self.steps), executor: Arc::clone(&self.executor) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let is_last = self.steps.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        // A step that drops the last handle, in something of the user's that it calls, does not wait for itself.
        if is_last && IN_STEPS.get() == 0 {
            let steps = &self.steps;
            self.executor.wait_until(&steps.ended, None, &mut || steps.running.load(Ordering::SeqCst) == 0);
        }
    }
}

#[cfg(test)]
mod tests;
