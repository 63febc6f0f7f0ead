//! Tells listeners when pacing begins to hold writers back, when it ends, and when something else becomes what is scarcest.
//!
//! Writers wait for some hundred microseconds at a time, and no listener wants to hear of each. So the first one that waits starts a job, which looks a few times a second and ends when nobody
//! has waited for a while. No listener is called by a writer.

use super::state::DbInner;
use crate::event::{PacingInfo, StallCause};
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, Weak};
use std::time::Duration;

/// The job looks so often.
const EVERY: Duration = Duration::from_millis(250);

/// Writers are free again when none was held back for so long.
const FREE_AFTER_NANOS: u64 = 1_000_000_000;

/// Whether the job of a database runs.
#[derive(Debug, Default)]
pub(crate) struct PacingWatch {
    is_watched: AtomicBool,
}

struct WatchJob {
    db: Weak<DbInner>,
    /// What listeners were told last.
    told: Option<StallCause>,
}

impl Job for WatchJob {
    fn name(&self) -> &'static str {
        "pacing watch"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let Some(db) = self.db.upgrade() else { return Progress::Done };
        if db.is_closing() || db.errors.is_failed() {
            return Progress::Done;
        }
        let current = db.pacing_cause();
        if current != self.told {
            let previous = std::mem::replace(&mut self.told, current);
            let info = PacingInfo { previous, current, bytes_per_sec: current.and_then(|_| db.idle_pacer.rate()) };
            db.notify(|listener| listener.pacing_changed(&info));
        }
        if current.is_some() {
            return Progress::After(EVERY);
        }
        db.pacing_watch.is_watched.store(false, Ordering::SeqCst);
        // A writer that waited meanwhile saw the job running.
        let goes_on = db.pacing_cause().is_some() && !db.pacing_watch.is_watched.swap(true, Ordering::SeqCst);
        if goes_on { Progress::More } else { Progress::Done }
    }

    fn poisoned(&mut self, message: &str) {
        if let Some(db) = self.db.upgrade() {
            db.fail_poisoned(self.name(), message);
        }
    }
}

impl DbInner {
    /// Whether somebody must start to watch how writers are paced: there is a listener to be told.
    #[inline]
    pub(super) fn is_pacing_unwatched(&self) -> bool {
        !self.options.listeners.is_empty() && !self.pacing_watch.is_watched.load(Ordering::Relaxed)
    }

    /// Starts the job, unless it runs. The caller is held back.
    #[cold]
    pub(super) fn watch_pacing(self: &Arc<Self>) {
        if !self.pacing_watch.is_watched.swap(true, Ordering::SeqCst) {
            self.executor.submit(Priority::Idle, Box::new(WatchJob { db: Arc::downgrade(self), told: None }));
        }
    }

    /// What holds writers back, if any of them was within the last second.
    fn pacing_cause(&self) -> Option<StallCause> {
        let (until_nanos, cause) = self.idle_pacer.last_held_back();
        let now_nanos = self.clock.now_micros().saturating_mul(1000);
        (until_nanos > 0 && until_nanos.saturating_add(FREE_AFTER_NANOS) > now_nanos).then_some(cause)
    }
}
