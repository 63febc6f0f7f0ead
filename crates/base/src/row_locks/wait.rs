//! Waiting for a lock: a thread parks, or a task leaves its waker.

use super::RowLocks;
use super::queue::Waiter;
use super::shard::RowKey;
use crate::executor::{Executor, Waited};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::{Error, ErrorKind, Result};
use std::task::{Context, Poll};
use std::time::Duration;

/// A request that waits in its queue. Dropping it gives the request up, unless the lock was given by then.
#[derive(Debug)]
#[must_use]
pub struct LockWait<'a> {
    locks: &'a RowLocks,
    row: Arc<RowKey>,
    waiter: Arc<Waiter>,
    /// Whether the owner has no other note of the row.
    is_noted: bool,
    is_over: bool,
}

impl<'a> LockWait<'a> {
    pub(super) fn new(locks: &'a RowLocks, row: Arc<RowKey>, waiter: Arc<Waiter>, is_noted: bool) -> Self {
        Self { locks, row, waiter, is_noted, is_over: false }
    }

    /// Waits until the lock is given, at most for `timeout`. The caller holds no lock and no latch.
    ///
    /// # Errors
    ///
    /// `TimedOut`; `Busy` where nothing is left that could give the lock, which only a deterministic executor can tell. The request is then given up.
    pub fn wait(mut self, executor: &dyn Executor, timeout: Option<Duration>) -> Result<()> {
        let waiter = Arc::clone(&self.waiter);
        let waited = executor.wait_until(&waiter.signal, timeout, &mut || waiter.is_granted());
        if self.end() {
            return Ok(());
        }
        match waited {
            Waited::Stuck => Err(Error::new(ErrorKind::Busy, "whoever holds a row's lock can't go on")),
            _ => {
                self.locks.counters.timeouts.fetch_add(1, Ordering::Relaxed);
                Err(Error::new(ErrorKind::TimedOut, "another transaction holds a row's lock"))
            }
        }
    }

    /// Whether the lock was given; if not, the task of `context` is woken when it is. Who keeps the time gives the request up by dropping this.
    pub fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Ready(());
        }
        self.waiter.signal.register(context.waker());
        if !self.waiter.is_granted() {
            return Poll::Pending;
        }
        self.end();
        Poll::Ready(())
    }

    /// Leaves the queue; returns whether the lock is held.
    fn end(&mut self) -> bool {
        self.is_over = true;
        let is_held = self.locks.end_wait(&self.row, &self.waiter);
        if !is_held && self.is_noted {
            self.locks.owners.retract(self.waiter.owner, &self.row);
        }
        is_held
    }
}

impl Drop for LockWait<'_> {
    /// A lock that was given in the meantime stays with its owner.
    fn drop(&mut self) {
        if !self.is_over {
            self.end();
        }
    }
}
