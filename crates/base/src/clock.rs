//! Time: monotonic for durations, wall time for stamps.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Monotonic time in microseconds since an arbitrary moment before the first call.
    fn now_micros(&self) -> u64;

    /// Wall time in seconds since 1970-01-01 UTC.
    fn unix_seconds(&self) -> u64;

    /// Lets `duration` pass.
    fn sleep(&self, duration: Duration);
}

/// The time of the operating system.
#[derive(Debug)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's monotonic clock")]
    pub fn new() -> Self {
        Self { origin: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_micros(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's wall clock")]
    fn unix_seconds(&self) -> u64 {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that sleeps")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicU64,
    unix_origin_seconds: u64,
}

impl ManualClock {
    /// A clock at monotonic time 0 and wall time `unix_seconds`.
    pub fn new(unix_seconds: u64) -> Self {
        Self { micros: AtomicU64::new(0), unix_origin_seconds: unix_seconds }
    }

    /// Moves both times forward.
    pub fn advance(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let advance = |now: u64| Some(now.saturating_add(micros));
        let _ = self.micros.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance);
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> u64 {
        self.micros.load(Ordering::SeqCst)
    }

    fn unix_seconds(&self) -> u64 {
        self.unix_origin_seconds + self.now_micros() / 1_000_000
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

/// The moment `timeout` from now, for parking; `None` when it is beyond what the system can express.
#[expect(clippy::disallowed_methods, reason = "parking needs the system's monotonic clock")]
pub(crate) fn deadline_after(timeout: Duration) -> Option<std::time::Instant> {
    std::time::Instant::now().checked_add(timeout)
}
