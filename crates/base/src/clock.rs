//! Time: monotonic for durations, wall time for stamps.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Monotonic time in microseconds since an arbitrary moment before the first call.
    fn now_micros(&self) -> u64;

    /// The same in nanoseconds, as finely as the clock tells it.
    fn now_nanos(&self) -> u64 {
        self.now_micros().saturating_mul(1_000)
    }

    /// Wall time in seconds since 1970-01-01 UTC.
    fn unix_seconds(&self) -> u64;

    /// Lets `duration` pass.
    fn sleep(&self, duration: Duration);

    /// How long `duration` of this clock takes by the clock that it follows; as long, if it follows none.
    fn lasts(&self, duration: Duration) -> Duration {
        duration
    }
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

    fn now_nanos(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
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
    unix_origin_seconds: AtomicU64,
}

impl ManualClock {
    /// A clock at monotonic time 0 and wall time `unix_seconds`.
    pub fn new(unix_seconds: u64) -> Self {
        Self { micros: AtomicU64::new(0), unix_origin_seconds: AtomicU64::new(unix_seconds) }
    }

    /// Moves both times forward.
    pub fn advance(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let advance = |now: u64| Some(now.saturating_add(micros));
        let _ = self.micros.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance);
    }
}

impl ManualClock {
    /// Moves the wall time alone, forward or back: somebody set it, or the machine slept.
    pub fn move_wall(&self, seconds: i64) {
        let shift = |origin: u64| Some(origin.saturating_add_signed(seconds));
        let _ = self.unix_origin_seconds.fetch_update(Ordering::SeqCst, Ordering::SeqCst, shift);
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> u64 {
        self.micros.load(Ordering::SeqCst)
    }

    fn unix_seconds(&self) -> u64 {
        self.unix_origin_seconds.load(Ordering::SeqCst) + self.now_micros() / 1_000_000
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

/// A clock that runs so many times as fast as another: what takes it an hour is a second of the other one, for a factor of 3600.
#[derive(Debug)]
pub struct FastClock {
    slow: std::sync::Arc<dyn Clock>,
    factor: u64,
    begin_micros: u64,
    begin_unix_seconds: u64,
}

impl FastClock {
    /// A clock that begins now at the wall time `unix_seconds`, and runs `factor` times as fast as `slow`; 0 counts as 1.
    pub fn new(slow: std::sync::Arc<dyn Clock>, factor: u64, unix_seconds: u64) -> Self {
        let begin_micros = slow.now_micros();
        Self { slow, factor: factor.max(1), begin_micros, begin_unix_seconds: unix_seconds }
    }

    /// How many times as fast it is.
    pub fn factor(&self) -> u64 {
        self.factor
    }
}

impl Clock for FastClock {
    fn now_micros(&self) -> u64 {
        self.slow.now_micros().saturating_sub(self.begin_micros).saturating_mul(self.factor)
    }

    fn unix_seconds(&self) -> u64 {
        self.begin_unix_seconds.saturating_add(self.now_micros() / 1_000_000)
    }

    fn sleep(&self, duration: Duration) {
        self.slow.sleep(self.lasts(duration));
    }

    fn lasts(&self, duration: Duration) -> Duration {
        let nanos = duration.as_nanos() / u128::from(self.factor);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The moment `timeout` from now, for parking; `None` when it is beyond what the system can express.
#[expect(clippy::disallowed_methods, reason = "parking needs the system's monotonic clock")]
pub(crate) fn deadline_after(timeout: Duration) -> Option<std::time::Instant> {
    std::time::Instant::now().checked_add(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_fast_clock_runs_so_many_times_as_fast() {
        let slow = Arc::new(ManualClock::new(5));
        slow.advance(Duration::from_secs(1));
        let fast = FastClock::new(slow.clone(), 3600, 1_000_000);
        assert_eq!((fast.now_micros(), fast.unix_seconds(), fast.factor()), (0, 1_000_000, 3600));
        slow.advance(Duration::from_secs(2));
        assert_eq!((fast.now_micros(), fast.unix_seconds()), (7_200_000_000, 1_007_200));
        fast.sleep(Duration::from_secs(3600));
        assert_eq!(slow.now_micros(), 4_000_000);
        let hour = Duration::from_secs(3600);
        assert_eq!((fast.lasts(hour), slow.lasts(hour)), (Duration::from_secs(1), hour));
    }

    #[test]
    fn the_wall_time_of_a_manual_clock_moves_alone() {
        let clock = ManualClock::new(1000);
        clock.advance(Duration::from_secs(5));
        clock.move_wall(-100);
        assert_eq!((clock.now_micros(), clock.unix_seconds()), (5_000_000, 905));
    }
}
