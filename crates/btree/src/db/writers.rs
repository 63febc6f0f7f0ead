//! The lock of writers: it knows whether the calling thread has it, so that code beneath may be called with it and without.

use crate::redo::Redo;
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use siltstone_base::sync::{Arc, Mutex, MutexGuard, Rank, panicking};

/// One group at a time is written. Groups wait for their sync without the lock.
const RANK: Rank = Rank(100);

thread_local! {
    /// Its address is the name of the thread.
    static THREAD: u8 = const { 0 };
}

fn this_thread() -> usize {
    THREAD.with(|name| std::ptr::from_ref(name).addr())
}

/// The lock of writers. Any thread may use it.
#[derive(Debug)]
pub(super) struct Writers {
    lock: Mutex<()>,
    /// The thread that has the lock, or 0.
    holder: AtomicUsize,
    redo: Arc<Redo>,
}

/// Holds the lock of writers.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    writers: &'a Writers,
    _lock: MutexGuard<'a, ()>,
}

impl Writers {
    pub(super) fn new(redo: Arc<Redo>) -> Self {
        Self { lock: Mutex::new(RANK, ()), holder: AtomicUsize::new(0), redo }
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> Writer<'_> {
        let lock = self.lock.lock();
        self.holder.store(this_thread(), Ordering::Relaxed);
        Writer { writers: self, _lock: lock }
    }

    /// Whether the calling thread has the lock.
    pub(super) fn is_mine(&self) -> bool {
        // No other thread ever stores this one's name.
        self.holder.load(Ordering::Relaxed) == this_thread()
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if panicking() {
            // The next writer would close what this one began, and make half of it durable.
            self.writers.redo.fail_within_group();
        }
        self.writers.holder.store(0, Ordering::Relaxed);
    }
}
