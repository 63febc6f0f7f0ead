//! A condition that threads park on and tasks register wakers with.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::task::Waker;
use std::time::Duration;

/// Wakes everyone who waits for some state to change.
///
/// Thread safety: all methods may be called from any thread.
///
/// Protocol: the notifier changes the state, then calls [`notify_all`](Self::notify_all), which costs one atomic load
/// while nobody waits. The waiter calls [`wait_while`](Self::wait_while) with the condition that keeps it waiting. No wake-up is lost: a waiter announces
/// itself before it looks at the state, a notifier looks for waiters after it changed the state, and a sequentially
/// consistent fence stands between the two steps on both sides.
#[derive(Default)]
pub struct Signal {
    waiters: AtomicUsize,
    inner: parking_lot::Mutex<Inner>,
    condvar: parking_lot::Condvar,
}

#[derive(Default)]
struct Inner {
    generation: u64,
    wakers: Vec<Waker>,
}

impl Signal {
    /// A signal that nobody waits for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes every waiting thread and task. Call after the change that they wait for.
    #[inline]
    pub fn notify_all(&self) {
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.notify_slow();
        }
    }

    #[cold]
    fn notify_slow(&self) {
        let wakers = {
            let mut inner = self.inner.lock();
            inner.generation = inner.generation.wrapping_add(1);
            let wakers = std::mem::take(&mut inner.wakers);
            self.waiters.fetch_sub(wakers.len(), Ordering::SeqCst);
            self.condvar.notify_all();
            wakers
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Parks this thread while `waiting` holds, at most for `timeout`. Returns whether the condition ended (false: the time did).
    pub fn wait_while(&self, timeout: Option<Duration>, waiting: &mut dyn FnMut() -> bool) -> bool {
        if !waiting() {
            return true;
        }
        let deadline = timeout.and_then(crate::clock::deadline_after);
        let _announced = Announced::new(&self.waiters);
        loop {
            let seen = self.inner.lock().generation;
            fence(Ordering::SeqCst);
            if !waiting() {
                return true;
            }
            let mut inner = self.inner.lock();
            let mut timed_out = false;
            while inner.generation == seen && !timed_out {
                match deadline {
                    None => self.condvar.wait(&mut inner),
                    Some(deadline) => timed_out = self.condvar.wait_until(&mut inner, deadline).timed_out(),
                }
            }
            drop(inner);
            if timed_out {
                return !waiting();
            }
        }
    }

    /// Registers `waker` for the next notification. The caller looks at the state *after* this call and before it
    /// returns "pending".
    pub fn register(&self, waker: &Waker) {
        // Cloned before locking: cloning a waker runs foreign code.
        let waker = waker.clone();
        let mut inner = self.inner.lock();
        if !inner.wakers.iter().any(|known| known.will_wake(&waker)) {
            inner.wakers.push(waker);
            self.waiters.fetch_add(1, Ordering::SeqCst);
        }
        drop(inner);
        fence(Ordering::SeqCst);
    }
}

/// A thread that may park. Counted until it is dropped, also when the condition panics.
struct Announced<'a>(&'a AtomicUsize);

impl<'a> Announced<'a> {
    fn new(waiters: &'a AtomicUsize) -> Self {
        waiters.fetch_add(1, Ordering::SeqCst);
        Self(waiters)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("waiters", &self.waiters).finish_non_exhaustive()
    }
}
