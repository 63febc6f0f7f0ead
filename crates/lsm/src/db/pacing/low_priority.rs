//! Writes of low priority go behind the others.

use super::pacer::HeldBack;
use siltstone_base::sync::{Mutex, Rank};

/// Held by nobody who takes another lock.
const RANK: Rank = Rank(311);

/// What writes of low priority have for certain while others are held back, in parts of the rate that is admitted: they go on, if slowly.
const SHARE: f64 = 1.0 / 16.0;

/// The part of writers' time that writes of low priority have used up.
#[derive(Debug)]
pub(crate) struct LowPriority {
    until_nanos: Mutex<u64>,
}

impl LowPriority {
    pub(crate) fn new() -> Self {
        Self { until_nanos: Mutex::new(RANK, 0) }
    }

    /// Until when a write of `bytes` has to wait before it asks again; `None` if it may go on.
    pub(crate) fn wait_for(&self, now_nanos: u64, bytes: u64, held_back: HeldBack) -> Option<u64> {
        let mut until_nanos = self.until_nanos.lock();
        if *until_nanos > now_nanos {
            return Some((*until_nanos).min(held_back.until_nanos));
        }
        let cost = bytes as f64 / (held_back.rate.max(1.0) * SHARE) * 1e9;
        *until_nanos = now_nanos.saturating_add(cost as u64);
        None
    }
}
