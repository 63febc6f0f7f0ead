//! Until when a rate is spoken for, by priority.
//!
//! The generic cell rate algorithm: granting bytes moves the time until which the rate is spoken for on by what they cost, and who asks waits until the time that
//! stood before. There is such a time for each priority, which its own bytes move, and those of all priorities before it: so nobody stands behind what is
//! less urgent. So that nobody starves behind what is more urgent, each priority behind flushes has a share of the rate that it may always use; what it uses of
//! that counts as most urgent.

use super::{LEAST_FAIRNESS, RateLimit, RatePriority};

const PRIORITIES: usize = RatePriority::ALL.len();

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The times of one limiter, in nanoseconds of its clock.
#[derive(Debug)]
pub(super) struct Schedule {
    limit: RateLimit,
    burst_nanos: u64,
    until: [u64; PRIORITIES],
    /// The same for the shares.
    share: [u64; PRIORITIES],
}

impl Schedule {
    pub(super) fn new(limit: RateLimit) -> Self {
        let burst_nanos = u64::try_from(limit.burst.as_nanos()).unwrap_or(u64::MAX);
        Self { limit, burst_nanos, until: [0; PRIORITIES], share: [0; PRIORITIES] }
    }

    pub(super) fn bytes_per_second(&self) -> u64 {
        self.limit.bytes_per_second
    }

    /// Books `bytes` at `now` and returns the nanoseconds to wait.
    pub(super) fn grant(&mut self, now: u64, bytes: u64, priority: RatePriority) -> u64 {
        if self.limit.bytes_per_second == 0 {
            return 0;
        }
        let cost = u128::from(bytes) * NANOS_PER_SECOND / u128::from(self.limit.bytes_per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let own = priority as usize;
        let by_all = left(self.until[own], now);
        let by_share = left(self.share[own], now);
        let uses_share = priority > RatePriority::Flush && by_share < by_all;
        // What uses a share is before everybody.
        let first = if uses_share { 0 } else { own };
        let burst = self.burst_nanos;
        self.until[first..].iter_mut().for_each(|until| book(until, now, cost, burst));
        if uses_share {
            let cost = cost.saturating_mul(u64::from(self.limit.fairness.max(LEAST_FAIRNESS)));
            book(&mut self.share[own], now, cost, burst);
            return by_share;
        }
        if priority == RatePriority::User { 0 } else { by_all }
    }

    /// Changes the rate at `now`: what is spoken for takes as much longer or shorter.
    pub(super) fn set_rate(&mut self, now: u64, bytes_per_second: u64) {
        let old = std::mem::replace(&mut self.limit.bytes_per_second, bytes_per_second);
        for until in self.until.iter_mut().chain(&mut self.share) {
            let left = left(*until, now);
            if left > 0 {
                *until = now.saturating_add(rescale(left, old, bytes_per_second));
            }
        }
    }
}

/// What a wait of `nanos` at the rate `old` is at the rate `new`.
pub(super) fn rescale(nanos: u64, old: u64, new: u64) -> u64 {
    match new {
        0 => 0,
        new => u64::try_from(u128::from(nanos) * u128::from(old) / u128::from(new)).unwrap_or(u64::MAX),
    }
}

fn left(until: u64, now: u64) -> u64 {
    until.saturating_sub(now)
}

/// Moves `until` on by `cost`, from at most a burst ago.
fn book(until: &mut u64, now: u64, cost: u64, burst: u64) {
    *until = (*until).max(now.saturating_sub(burst)).saturating_add(cost);
}
