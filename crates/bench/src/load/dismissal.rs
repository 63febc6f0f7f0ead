//! Keeps workers that are done until the system was asked what they used: it forgets the context switches of threads that have ended.

use siltstone_base::sync::Signal;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};

/// Given once; until then everyone stays.
///
/// Thread safety: any number of threads wait for it, any gives it.
#[derive(Debug, Default)]
pub(super) struct Dismissal {
    is_given: AtomicBool,
    given: Signal,
}

impl Dismissal {
    /// Returns once it is given.
    pub(super) fn wait(&self) {
        self.given.wait_while(None, &mut || !self.is_given.load(Ordering::Acquire));
    }

    /// Lets everyone go, now and later.
    pub(super) fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        self.given.notify_all();
    }
}
