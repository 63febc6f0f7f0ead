//! The lock of writers: it knows whether the calling thread has it, so that code beneath may be called with it and without.

use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use siltstone_base::sync::{Mutex, MutexGuard, Rank};

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
}

/// Holds the lock of writers.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    holder: &'a AtomicUsize,
    _lock: MutexGuard<'a, ()>,
}

impl Writers {
    pub(super) const fn new() -> Self {
        Self { lock: Mutex::new(RANK, ()), holder: AtomicUsize::new(0) }
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> Writer<'_> {
        let lock = self.lock.lock();
        self.holder.store(this_thread(), Ordering::Relaxed);
        Writer { holder: &self.holder, _lock: lock }
    }

    /// Whether the calling thread has the lock.
    pub(super) fn is_mine(&self) -> bool {
        // No other thread ever stores this one's name.
        self.holder.load(Ordering::Relaxed) == this_thread()
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.holder.store(0, Ordering::Relaxed);
    }
}
