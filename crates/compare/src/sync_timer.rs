//! A timer that syncs a foreign engine's log.

use siltstone_base::clock::SystemClock;
use siltstone_base::executor::{Budget, Executor, Job, Priority, Progress, ThreadExecutor};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;

/// Calls a function every so often until it is dropped.
pub(crate) struct SyncTimer {
    stopped: Arc<AtomicBool>,
    _executor: ThreadExecutor,
}

struct Tick {
    stopped: Arc<AtomicBool>,
    interval: Duration,
    is_first: bool,
    sync: Box<dyn FnMut() -> bool + Send>,
}

impl SyncTimer {
    /// Calls `sync` every `interval_millis` until it returns false.
    pub(crate) fn new(interval_millis: u64, sync: impl FnMut() -> bool + Send + 'static) -> Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let executor = ThreadExecutor::new(1, Arc::new(SystemClock::new()))
            .map_err(|error| Error::new(ErrorKind::Io, "start the timer's thread").with_source(error))?;
        let interval = Duration::from_millis(interval_millis);
        let tick = Tick { stopped: Arc::clone(&stopped), interval, is_first: true, sync: Box::new(sync) };
        executor.submit(Priority::High, Box::new(tick));
        Ok(Self { stopped, _executor: executor })
    }
}

impl Drop for SyncTimer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
    }
}

impl fmt::Debug for SyncTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncTimer").finish_non_exhaustive()
    }
}

impl Job for Tick {
    fn name(&self) -> &'static str {
        "sync-timer"
    }

    fn step(&mut self, _budget: &mut Budget<'_>) -> Progress {
        if self.stopped.load(Ordering::Acquire) {
            return Progress::Done;
        }
        if std::mem::take(&mut self.is_first) || (self.sync)() {
            Progress::After(self.interval)
        } else {
            Progress::Done
        }
    }

    fn poisoned(&mut self, _message: &str) {
        self.stopped.store(true, Ordering::Release);
    }
}
