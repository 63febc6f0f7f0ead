//! Taking row locks: those in the table, and those that stamps stand for.

use super::super::startup::since;
use super::super::state::{OpenTree, State};
use super::super::writers::Writer;
use crate::event::Event;
use crate::page::Stamp;
use siltstone_base::row_locks::{Deadlock, LockMode, Requested};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

impl State {
    /// Whether someone else may have the lock of a row: by its stamp or in the table. For who holds the lock of writers.
    pub(in super::super) fn is_row_locked(
        &self,
        owner: u64,
        tree: &OpenTree,
        key: &[u8],
        stamp: Option<Stamp>,
    ) -> bool {
        let space = tree.tree().space();
        let is_stamped = stamp.is_some_and(|stamp| stamp.id != owner && self.transactions.is_active(stamp.id));
        is_stamped
            || (self.locks.is_locked_by_other(owner, space, key)
                && self.locks.mode(owner, space, key) != Some(LockMode::Exclusive))
    }

    /// Locks a row; `owner` holds the lock in the table afterwards. The caller holds no lock.
    pub(in super::super) fn lock_row(
        self: &Arc<Self>,
        owner: u64,
        tree: &OpenTree,
        key: &[u8],
        timeout: Option<Duration>,
    ) -> Result<()> {
        let writer = self.writer.lock();
        self.check_open()?;
        self.lock_row_from(writer, owner, tree, key, timeout)
    }

    /// Tells the table of the locks that stamps of active transactions stand for: it learns of them when somebody else wants them.
    pub(in super::super) fn grant_to_active(&self, holders: &[u64], space: u32, key: &[u8]) {
        let inner = self.transactions.inner.lock();
        for holder in holders.iter().filter(|holder| inner.active.contains(holder)) {
            self.locks.grant(*holder, space, key);
        }
    }

    /// The same, for who holds the lock of writers, which is given back before anything is waited for.
    pub(in super::super) fn lock_row_from(
        self: &Arc<Self>,
        writer: Writer<'_>,
        owner: u64,
        tree: &OpenTree,
        key: &[u8],
        timeout: Option<Duration>,
    ) -> Result<()> {
        let space = tree.tree().space();
        if let Some(stamp) = tree.live()?.stamp(key)?.filter(|stamp| stamp.id != owner) {
            self.grant_to_active(&[stamp.id], space, key);
        }
        self.lock_from(writer, owner, space, key, timeout)
    }

    /// Asks the table of the locks, in which all holders are, and waits.
    pub(in super::super) fn lock_from(
        &self,
        writer: Writer<'_>,
        owner: u64,
        space: u32,
        key: &[u8],
        timeout: Option<Duration>,
    ) -> Result<()> {
        let requested = self.locks.request(owner, space, key, LockMode::Exclusive);
        drop(writer);
        let start = self.events.now_micros();
        let outcome = requested.and_then(|requested| match requested {
            Requested::Granted => Ok(()),
            Requested::Waiting(wait) => wait.wait(&*self.executor, Some(timeout.unwrap_or(self.lock_timeout))),
        });
        outcome.inspect_err(|error| self.note_lock_error(owner, start, error))
    }

    #[cold]
    fn note_lock_error(&self, owner: u64, start: u64, error: &Error) {
        let cycle = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Deadlock>());
        match (error.kind(), cycle) {
            (ErrorKind::TimedOut, _) => {
                let duration = since(&**self.executor.clock(), start);
                self.events.note(|| Event::LockTimedOut { owner, duration });
            }
            (_, Some(deadlock)) => self.events.note(|| Event::DeadlockFound { cycle: deadlock.cycle.clone() }),
            _ => {}
        }
    }
}
