//! Keeps background I/O below a rate, shared out by priority. It computes waits and never sleeps.
//!
//! A job asks for bytes and gets a [`Ticket`], which says how long it has to wait before it goes on. Waiting is the job's own affair: between two of its steps it
//! gives its place back. The arithmetic is in `schedule.rs`.

mod schedule;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Rank};
use schedule::Schedule;
use std::fmt;
use std::time::Duration;

/// Taken by jobs that hold nothing.
const RANK: Rank = Rank(980);

/// Who asks. In this order they come to their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RatePriority {
    /// A caller of the engine waits: never made to wait, but what it moves is taken from the others.
    User,
    /// A flush: writers will wait for it.
    Flush,
    /// A compaction of level 0: writers will wait for it next.
    Level0,
    /// Another compaction that writes have made necessary.
    Deep,
    /// What can wait: compactions for the age of tables.
    Upkeep,
}

impl RatePriority {
    /// Every priority, the first one first.
    pub const ALL: [Self; 5] = [Self::User, Self::Flush, Self::Level0, Self::Deep, Self::Upkeep];
}

/// The least [`fairness`](RateLimit::fairness): with it, a quarter is left to what is urgent.
pub const LEAST_FAIRNESS: u32 = 4;

/// What a limiter keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Bytes that may pass in a second. 0: no limit.
    pub bytes_per_second: u64,
    /// After a pause, so much of the rate may pass at once.
    pub burst: Duration,
    /// Each priority behind [`Flush`](RatePriority::Flush) may always use one part in so many of the rate, whatever those before it do. Less than
    /// [`LEAST_FAIRNESS`] counts as that: three priorities must not have more than all of it.
    pub fairness: u32,
}

impl RateLimit {
    /// The burst and the fairness that RocksDB has by default.
    pub const fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, burst: Duration::from_millis(100), fairness: 10 }
    }
}

/// Until when a job has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    until_nanos: u64,
    /// The rate that this was computed by.
    bytes_per_second: u64,
}

/// Shares out a rate among the background jobs of an engine.
///
/// Thread safety: every method may be called from any thread.
pub struct RateLimiter {
    clock: Arc<dyn Clock>,
    /// The rate, to be looked at without the lock.
    rate: AtomicU64,
    schedule: Mutex<Schedule>,
    granted: [AtomicU64; RatePriority::ALL.len()],
    waited_nanos: AtomicU64,
}

impl RateLimiter {
    /// A limiter that nobody has asked yet.
    pub fn new(clock: Arc<dyn Clock>, limit: RateLimit) -> Self {
        Self {
            clock,
            rate: AtomicU64::new(limit.bytes_per_second),
            schedule: Mutex::new(RANK, Schedule::new(limit)),
            granted: Default::default(),
            waited_nanos: AtomicU64::new(0),
        }
    }

    /// Whether there is a limit.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.bytes_per_second() > 0
    }

    /// The rate; 0 is no limit.
    #[inline]
    pub fn bytes_per_second(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Grants `bytes` that the caller has just moved or is about to. It goes on when [`remaining`](Self::remaining) says so.
    pub fn request(&self, bytes: u64, priority: RatePriority) -> Ticket {
        self.granted[priority as usize].fetch_add(bytes, Ordering::Relaxed);
        let now = self.now_nanos();
        let mut schedule = self.schedule.lock();
        let wait = schedule.grant(now, bytes, priority);
        let bytes_per_second = schedule.bytes_per_second();
        drop(schedule);
        self.waited_nanos.fetch_add(wait, Ordering::Relaxed);
        Ticket { until_nanos: now.saturating_add(wait), bytes_per_second }
    }

    /// How long the holder of `ticket` has to wait yet. If the rate was changed, so is the rest of the wait.
    pub fn remaining(&self, ticket: &mut Ticket) -> Duration {
        let (now, rate) = (self.now_nanos(), self.bytes_per_second());
        let left = ticket.until_nanos.saturating_sub(now);
        if left == 0 || rate == 0 {
            return Duration::ZERO;
        }
        if rate != ticket.bytes_per_second {
            let left = schedule::rescale(left, ticket.bytes_per_second, rate);
            *ticket = Ticket { until_nanos: now.saturating_add(left), bytes_per_second: rate };
            return whole_micros(left);
        }
        whole_micros(left)
    }

    /// Changes the rate from now on. What is granted and waits is not recalled; its waits are recomputed.
    pub fn set_bytes_per_second(&self, bytes_per_second: u64) {
        let now = self.now_nanos();
        let mut schedule = self.schedule.lock();
        schedule.set_rate(now, bytes_per_second);
        self.rate.store(bytes_per_second, Ordering::Relaxed);
    }

    /// The bytes granted so far to `priority`.
    pub fn granted_bytes(&self, priority: RatePriority) -> u64 {
        self.granted[priority as usize].load(Ordering::Relaxed)
    }

    /// The sum of the waits that tickets were given with.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }

    fn now_nanos(&self) -> u64 {
        self.clock.now_micros().saturating_mul(1000)
    }
}

/// Rounded up to what a clock can tell: whoever waits for so long has waited long enough.
fn whole_micros(nanos: u64) -> Duration {
    Duration::from_micros(nanos.div_ceil(1000))
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").field("bytes_per_second", &self.bytes_per_second()).finish_non_exhaustive()
    }
}
