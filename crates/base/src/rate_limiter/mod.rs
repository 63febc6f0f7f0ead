//! Keeps background I/O below a rate: a token bucket that computes waits and never sleeps.
//!
//! Instead of tokens, the limiter keeps the time until which the rate is spoken for (the generic cell rate algorithm):
//! granting bytes moves that time on by what they cost; a caller waits until the time that stood before.
//! There are two such times. All bytes move the one that low-priority requests wait for; only bytes of high priority move the one
//! that high-priority requests wait for, so that they never stand behind queued low ones. So that low priority does not
//! starve behind a stream of high, it may always use a tenth of the rate, which then counts as high.

use crate::clock::Clock;
use crate::env::IoPriority;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Rank};
use std::fmt;
use std::time::Duration;

/// Taken by jobs that hold nothing.
const RANK: Rank = Rank(980);

/// The share of the rate that low priority may use at any time: one part in so many.
const LOW_SHARE: u64 = 10;

/// What may be used at once after a pause: the rate of so many nanoseconds.
const BURST_NANOS: u64 = 100_000_000;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Shares out a rate among the background jobs of an engine.
///
/// Thread safety: every method may be called from any thread.
pub struct RateLimiter {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    granted: [AtomicU64; IoPriority::ALL.len()],
    waited_nanos: AtomicU64,
}

struct State {
    /// 0: no limit.
    bytes_per_second: u64,
    /// Until when the rate is spoken for, in nanoseconds of the clock.
    all: u64,
    high: u64,
    /// The same for the share of low priority.
    low_share: u64,
}

impl RateLimiter {
    /// A limiter of `bytes_per_second`; 0 is no limit.
    pub fn new(clock: Arc<dyn Clock>, bytes_per_second: u64) -> Self {
        let state = State { bytes_per_second, all: 0, high: 0, low_share: 0 };
        Self { clock, state: Mutex::new(RANK, state), granted: Default::default(), waited_nanos: AtomicU64::new(0) }
    }

    /// Grants `bytes`, and returns how long the caller has to wait before it moves them. Requests of
    /// [`IoPriority::User`] never wait, but count.
    pub fn request(&self, bytes: u64, priority: IoPriority) -> Duration {
        self.granted[priority as usize].fetch_add(bytes, Ordering::Relaxed);
        let now = self.clock.now_micros().saturating_mul(1000);
        let wait = self.state.lock().grant(now, bytes, priority);
        self.waited_nanos.fetch_add(wait, Ordering::Relaxed);
        Duration::from_nanos(wait)
    }

    /// The rate; 0 is no limit.
    pub fn bytes_per_second(&self) -> u64 {
        self.state.lock().bytes_per_second
    }

    /// Changes the rate from now on. Bytes that were granted but wait are not recalled; what they still occupy is
    /// recomputed at the new rate.
    pub fn set_bytes_per_second(&self, bytes_per_second: u64) {
        let now = self.clock.now_micros().saturating_mul(1000);
        self.state.lock().set_rate(now, bytes_per_second);
    }

    /// The most that one request should ask for, so that others get their turn: the rate of 10 ms, at least 4 KiB.
    /// Larger ones are granted too.
    pub fn preferred_request(&self) -> u64 {
        match self.bytes_per_second() {
            0 => u64::MAX,
            rate => (rate / 100).max(4096),
        }
    }

    /// The bytes granted so far to `priority`.
    pub fn granted_bytes(&self, priority: IoPriority) -> u64 {
        self.granted[priority as usize].load(Ordering::Relaxed)
    }

    /// The sum of the waits that were returned.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }
}

impl State {
    /// Books `bytes` at `now` and returns the nanoseconds to wait.
    fn grant(&mut self, now: u64, bytes: u64, priority: IoPriority) -> u64 {
        if self.bytes_per_second == 0 {
            return 0;
        }
        let cost = u128::from(bytes) * NANOS_PER_SECOND / u128::from(self.bytes_per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        match priority {
            IoPriority::User => {
                book(&mut self.all, now, cost);
                book(&mut self.high, now, cost);
                0
            }
            IoPriority::High => {
                book(&mut self.all, now, cost);
                book(&mut self.high, now, cost)
            }
            IoPriority::Low => {
                let (by_all, by_share) = (wait(self.all, now), wait(self.low_share, now));
                book(&mut self.all, now, cost);
                if by_share < by_all {
                    book(&mut self.low_share, now, cost.saturating_mul(LOW_SHARE));
                    book(&mut self.high, now, cost);
                    by_share
                } else {
                    by_all
                }
            }
        }
    }

    fn set_rate(&mut self, now: u64, bytes_per_second: u64) {
        let old = std::mem::replace(&mut self.bytes_per_second, bytes_per_second);
        for until in [&mut self.all, &mut self.high, &mut self.low_share] {
            let left = u128::from(wait(*until, now));
            let scaled = match bytes_per_second {
                0 => 0,
                rate => left * u128::from(old) / u128::from(rate),
            };
            if left > 0 {
                *until = now.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX));
            }
        }
    }
}

fn wait(until: u64, now: u64) -> u64 {
    until.saturating_sub(now)
}

/// Moves `until` on by `cost`, from at most a burst ago; returns what is to wait before.
fn book(until: &mut u64, now: u64, cost: u64) -> u64 {
    let before = *until;
    *until = before.max(now.saturating_sub(BURST_NANOS)).saturating_add(cost);
    wait(before, now)
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").field("bytes_per_second", &self.bytes_per_second()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
