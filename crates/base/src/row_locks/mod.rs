//! Row locks: who may change a row until when. What a row is, the locks do not know: a number for its space, and bytes.
//!
//! An owner, a transaction by its number, holds locks until it gives all of them back. A lock is shared or exclusive. Requests for one row wait in a
//! fair queue: who comes later never passes who waits, but for an owner that has the lock shared and wants it exclusively; it goes first, since
//! those behind it would wait for it anyway. There are no locks of gaps: a row that does not exist can be locked, a range can't.
//!
//! **Deadlocks** are found when a wait begins, by walking from owner to owner that it waits for. Waits begin one at a time, and an owner that waits gives nothing
//! back; so whoever closes a circle sees all of it. The one who closes it gets the error, with the circle as its source ([`Deadlock`]).
//!
//! **Locks of others.** [`RowLocks::grant`] gives a lock to an owner that asked for nothing: to a transaction that recovery found, or to one whose changes of a row are
//! lock enough until somebody else asks for it.
//!
//! **Limits** are in bytes: one of all locks, and one of those of each owner, so that nobody takes all of the former. Locks that were [restored](RowLocks::restore) count for neither: nobody
//! could lock anything beside a large transaction that waits for a decision.
//!
//! Lock order: waits, then one shard; or one part of the owners, alone. Threads are woken under none of them.

mod deadlock;
mod owners;
mod queue;
mod shard;
#[cfg(test)]
mod tests;
mod wait;

pub use deadlock::Deadlock;
pub use wait::LockWait;

use crate::executor::Executor;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, CachePadded, Mutex, MutexGuard, Rank};
use crate::{Error, ErrorKind, Result};
use deadlock::Waits;
use owners::Owners;
use queue::{Answer, Granted, Waiter};
use shard::{RowKey, Shard, lock_bytes};
use std::time::Duration;

/// Who waits for what; held while a wait begins.
const WAITS_RANK: Rank = Rank(700);
/// One shard of the rows.
const SHARD_RANK: Rank = Rank(710);

/// Shards of the table. A power of two.
const SHARDS: usize = 16;

/// Bytes that a request takes while it waits.
const WAITER_BYTES: usize = 128;

/// How a row is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Others may hold it shared too.
    Shared,
    /// Nobody else holds it.
    Exclusive,
}

impl LockMode {
    /// Whether two owners may hold these at the same time.
    pub const fn is_compatible(self, other: Self) -> bool {
        matches!((self, other), (Self::Shared, Self::Shared))
    }
}

/// What became of a request.
#[derive(Debug)]
#[must_use]
pub enum Requested<'a> {
    /// The owner holds the lock.
    Granted,
    /// Others hold it, or were first. Dropping the wait gives the request up.
    Waiting(LockWait<'a>),
}

/// What the locks count. The first three are what is now, the others only ever grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowLockStats {
    /// Locks that are held, each owner's counted.
    pub locks: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Bytes that locks and requests take.
    pub bytes: usize,
    /// Requests that had to wait.
    pub waits: u64,
    /// Requests that would have closed a circle.
    pub deadlocks: u64,
    /// Requests that were given up because their time was over.
    pub timeouts: u64,
}

#[derive(Debug, Default)]
struct Counters {
    locks: AtomicUsize,
    bytes: AtomicUsize,
    /// Of locks that count for no limit.
    restored_bytes: AtomicUsize,
    waits: AtomicU64,
    deadlocks: AtomicU64,
    timeouts: AtomicU64,
}

/// The row locks of one database. Any thread may use it; the requests of one owner are made one at a time.
#[derive(Debug)]
pub struct RowLocks {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    owners: Owners,
    waits: Mutex<Waits>,
    counters: Counters,
    max_bytes: usize,
    max_owner_bytes: usize,
}

impl RowLocks {
    /// No locks, of which all together may take `max_bytes` of memory.
    pub fn new(max_bytes: usize) -> Self {
        let shards = (0..SHARDS).map(|_| CachePadded::new(Mutex::new(SHARD_RANK, Shard::default())));
        Self {
            shards: shards.collect(),
            owners: Owners::new(),
            waits: Mutex::new(WAITS_RANK, Waits::default()),
            counters: Counters::default(),
            max_bytes,
            max_owner_bytes: usize::MAX,
        }
    }

    /// Lets those of one owner take no more than `max_owner_bytes`.
    #[must_use]
    pub fn limit_owners(mut self, max_owner_bytes: usize) -> Self {
        self.max_owner_bytes = max_owner_bytes;
        self
    }

    /// Whether nobody holds a lock.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.counters.locks.load(Ordering::Acquire) == 0
    }

    /// What the locks count.
    pub fn stats(&self) -> RowLockStats {
        let counters = &self.counters;
        RowLockStats {
            locks: counters.locks.load(Ordering::Acquire),
            waiting: self.waits.lock().len(),
            bytes: counters.bytes.load(Ordering::Acquire),
            waits: counters.waits.load(Ordering::Relaxed),
            deadlocks: counters.deadlocks.load(Ordering::Relaxed),
            timeouts: counters.timeouts.load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 57) as usize % SHARDS]
    }

    /// How `owner` holds the lock of a row, if it does.
    pub fn mode(&self, owner: u64, space: u32, key: &[u8]) -> Option<LockMode> {
        let hash = RowKey::hash_of(space, key);
        self.shard(hash).lock().find(hash, space, key)?.queue.mode_of(owner)
    }

    /// Whether somebody else holds the lock of a row, or waits for it.
    pub fn is_locked_by_other(&self, owner: u64, space: u32, key: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let hash = RowKey::hash_of(space, key);
        self.shard(hash).lock().find(hash, space, key).is_some_and(|entry| entry.queue.has_other(owner))
    }

    /// Takes the lock of a row if that is possible at once; returns whether it is held now. Nobody who waits is passed.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` if all locks together, or those of the owner, would take more memory than they may.
    pub fn try_lock(&self, owner: u64, space: u32, key: &[u8], mode: LockMode) -> Result<bool> {
        let hash = RowKey::hash_of(space, key);
        let row = {
            let mut shard = self.shard(hash).lock();
            if self.is_full() && shard.find(hash, space, key).is_none() {
                let message = "row locks take more memory than they may; end transactions, or lock fewer rows in each";
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
            let entry = shard.entry(hash, space, key, &self.counters.bytes);
            match entry.queue.ask(owner, mode) {
                Answer::Held => return Ok(true),
                Answer::Wait => return Ok(false),
                Answer::Granted => {}
            }
            self.counters.locks.fetch_add(1, Ordering::AcqRel);
            Arc::clone(&entry.row)
        };
        if self.owners.note(owner, Arc::clone(&row)) > self.max_owner_bytes {
            self.give_back(owner, &row);
            return Err(owner_is_full());
        }
        Ok(true)
    }

    /// Asks for the lock of a row. If it can't be had at once the request waits in its queue from now on; the caller waits by
    /// what is returned, when it holds no lock and no latch.
    ///
    /// # Errors
    ///
    /// `Deadlock` if the owner would wait for itself; its source is the circle. `LimitExceeded` as for [`try_lock`](Self::try_lock). `Busy` if the owner
    /// waits already.
    pub fn request(&self, owner: u64, space: u32, key: &[u8], mode: LockMode) -> Result<Requested<'_>> {
        if self.try_lock(owner, space, key, mode)? {
            return Ok(Requested::Granted);
        }
        if self.mode(owner, space, key).is_none()
            && self.owners.bytes(owner).saturating_add(lock_bytes(key)) > self.max_owner_bytes
        {
            return Err(owner_is_full());
        }
        let mut waits = self.waits.lock();
        if waits.is_waiting(owner) {
            return Err(Error::new(ErrorKind::Busy, "the owner of locks waits for another one"));
        }
        let hash = RowKey::hash_of(space, key);
        let waiter = Arc::new(Waiter::new(owner, mode));
        let mut shard = self.shard(hash).lock();
        let entry = shard.entry(hash, space, key, &self.counters.bytes);
        let row = Arc::clone(&entry.row);
        let answer = entry.queue.ask(owner, mode);
        let is_known = entry.queue.mode_of(owner).is_some() && answer != Answer::Granted;
        match answer {
            Answer::Wait => entry.queue.enqueue(Arc::clone(&waiter)),
            Answer::Granted => drop(self.counters.locks.fetch_add(1, Ordering::AcqRel)),
            Answer::Held => {}
        }
        drop(shard);
        if answer != Answer::Wait {
            // It became free since.
            drop(waits);
            if !is_known {
                self.owners.note(owner, row);
            }
            return Ok(Requested::Granted);
        }
        waits.begin(Arc::clone(&row), Arc::clone(&waiter));
        let circle = waits.circle_of(owner, &|row, waiter| self.blockers(row, waiter));
        drop(waits);
        self.counters.bytes.fetch_add(WAITER_BYTES, Ordering::AcqRel);
        if !is_known {
            // Before the lock is had: who gives it must not have to.
            self.owners.note(owner, Arc::clone(&row));
        }
        let wait = LockWait::new(self, row, waiter, !is_known);
        match circle {
            None => {
                self.counters.waits.fetch_add(1, Ordering::Relaxed);
                Ok(Requested::Waiting(wait))
            }
            Some(cycle) => {
                self.counters.deadlocks.fetch_add(1, Ordering::Relaxed);
                drop(wait);
                Err(Error::new(ErrorKind::Deadlock, "transactions wait for one another")
                    .with_source(Deadlock { cycle }))
            }
        }
    }

    /// Asks for the lock of a row and waits for it, at most for `timeout`. The caller holds no lock and no latch.
    ///
    /// # Errors
    ///
    /// Those of [`request`](Self::request) and of [`LockWait::wait`].
    pub fn lock(
        &self,
        executor: &dyn Executor,
        owner: u64,
        space: u32,
        key: &[u8],
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> Result<()> {
        match self.request(owner, space, key, mode)? {
            Requested::Granted => Ok(()),
            Requested::Waiting(wait) => wait.wait(executor, timeout),
        }
    }

    /// Gives `owner` the exclusive lock of a row although it did not ask, whatever the limits. Where others hold the lock the promise of exclusion is the caller's.
    pub fn grant(&self, owner: u64, space: u32, key: &[u8]) {
        if let Some(row) = self.hold(owner, space, key) {
            self.owners.note(owner, row);
        }
    }

    /// The same for an owner from before the database was opened, who has no other locks: none of its locks counts for a limit.
    pub fn restore(&self, owner: u64, space: u32, key: &[u8]) {
        if let Some(row) = self.hold(owner, space, key) {
            let bytes = self.owners.note_restored(owner, row);
            self.counters.restored_bytes.fetch_add(bytes, Ordering::AcqRel);
        }
    }

    /// Makes an owner hold the exclusive lock of a row; returns the row if it held none before.
    fn hold(&self, owner: u64, space: u32, key: &[u8]) -> Option<Arc<RowKey>> {
        let hash = RowKey::hash_of(space, key);
        let mut shard = self.shard(hash).lock();
        let entry = shard.entry(hash, space, key, &self.counters.bytes);
        if entry.queue.hold(owner, LockMode::Exclusive) {
            return None;
        }
        self.counters.locks.fetch_add(1, Ordering::AcqRel);
        Some(Arc::clone(&entry.row))
    }

    /// Gives all locks of an owner back, to those who waited for them. The owner waits for nothing.
    pub fn release_all(&self, owner: u64) {
        let taken = self.owners.take(owner);
        for row in &taken.rows {
            self.release(owner, row);
        }
        self.counters.restored_bytes.fetch_sub(taken.restored_bytes, Ordering::AcqRel);
    }

    /// Gives one lock of an owner back, to those who waited for it; none if it has none.
    pub fn unlock(&self, owner: u64, space: u32, key: &[u8]) {
        let hash = RowKey::hash_of(space, key);
        let row = self.shard(hash).lock().find(hash, space, key).map(|entry| Arc::clone(&entry.row));
        if let Some(row) = row {
            self.give_back(owner, &row);
        }
    }

    fn give_back(&self, owner: u64, row: &RowKey) {
        let restored_bytes = self.owners.retract(owner, row);
        self.release(owner, row);
        self.counters.restored_bytes.fetch_sub(restored_bytes, Ordering::AcqRel);
    }

    fn release(&self, owner: u64, row: &RowKey) {
        let mut granted = Vec::new();
        let mut shard = self.shard(row.hash).lock();
        if let Some(entry) = shard.find_mut(row) {
            let released = usize::from(entry.queue.release(owner, &mut granted));
            self.finish(shard, row, granted, released);
        }
    }

    /// Ends a wait. Returns whether the lock was had in the meantime.
    fn end_wait(&self, row: &RowKey, waiter: &Waiter) -> bool {
        let mut granted = Vec::new();
        let mut shard = self.shard(row.hash).lock();
        let is_held = match shard.find_mut(row) {
            Some(entry) => !entry.queue.cancel(waiter, &mut granted),
            None => true,
        };
        self.finish(shard, row, granted, 0);
        self.counters.bytes.fetch_sub(WAITER_BYTES, Ordering::AcqRel);
        self.waits.lock().end(waiter.owner);
        is_held
    }

    /// Ends a change of a queue, and tells those who were given the lock; under no lock, since a waker is foreign code.
    fn finish(&self, mut shard: MutexGuard<'_, Shard>, row: &RowKey, granted: Vec<Granted>, released: usize) {
        let new = granted.iter().filter(|granted| granted.is_new).count();
        // One step: who asks meanwhile whether there are locks must not find none while one is handed over.
        match new.checked_sub(released) {
            Some(more) => self.counters.locks.fetch_add(more, Ordering::AcqRel),
            None => self.counters.locks.fetch_sub(released - new, Ordering::AcqRel),
        };
        shard.remove_if_unused(row, &self.counters.bytes);
        drop(shard);
        granted.iter().for_each(|granted| granted.waiter.grant());
    }

    /// The owners that a waiter waits for.
    fn blockers(&self, row: &RowKey, waiter: &Waiter) -> Vec<u64> {
        let shard = self.shard(row.hash).lock();
        shard.find(row.hash, row.space, &row.bytes).map_or_else(Vec::new, |entry| entry.queue.blockers(waiter))
    }

    fn is_full(&self) -> bool {
        let counters = &self.counters;
        let counted =
            counters.bytes.load(Ordering::Relaxed).saturating_sub(counters.restored_bytes.load(Ordering::Relaxed));
        counted > self.max_bytes
    }
}

#[cold]
fn owner_is_full() -> Error {
    let message = "the row locks of one transaction take more memory than they may; lock fewer rows in it";
    Error::new(ErrorKind::LimitExceeded, message)
}
