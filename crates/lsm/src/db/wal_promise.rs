//! Up to where the WALs are known to be durable: what the next group writes into the WAL as a promise.

use super::wal_note::LogPoint;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::sync::{Mutex, Rank};

/// Rank of the lock: taken under those of the write side and of the syncs.
const RANK: Rank = Rank(70);

/// The durable part of the WALs. It only grows.
///
/// Anybody who synced may raise it; the leader of a group reads it.
#[derive(Debug)]
pub(crate) struct DurableWal {
    point: Mutex<LogPoint>,
    /// How often the point was raised: a leader sees without the lock that there is nothing new.
    raised: AtomicU64,
}

impl DurableWal {
    pub(crate) fn new() -> Self {
        Self { point: Mutex::new(RANK, LogPoint::default()), raised: AtomicU64::new(0) }
    }

    /// Says that everything before `number`, `offset` is durable, its entry in the directory too.
    pub(crate) fn raise(&self, number: u64, offset: u64) {
        let mut point = self.point.lock();
        let new = LogPoint { number, offset };
        if new > *point {
            *point = new;
            self.raised.fetch_add(1, Ordering::Release);
        }
    }

    /// The point: everything before it is durable.
    pub(crate) fn point(&self) -> LogPoint {
        *self.point.lock()
    }

    /// The point, and how often it was raised, if that is not `seen`.
    #[inline]
    pub(crate) fn newer_than(&self, seen: u64) -> Option<(LogPoint, u64)> {
        let raised = self.raised.load(Ordering::Acquire);
        if raised == seen { None } else { Some((*self.point.lock(), raised)) }
    }
}
