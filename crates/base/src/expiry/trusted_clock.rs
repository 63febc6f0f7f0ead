//! Wall time as far as it is believed.

use crate::clock::Clock;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A wall clock that went forward further than anyone would expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockJump {
    /// The latest time that was known before, in Unix seconds.
    pub known: u64,
    /// The time when the clock was looked at first, in Unix seconds.
    pub found: u64,
}

/// Wall time that never goes back, and forward no faster than the monotonic clock does.
///
/// 1. It begins at the wall time, or at the latest time that was known before if that is later.
/// 2. From then on it is the wall time, but no more than what the monotonic clock allows, and no less than it was.
/// 3. Where it began too far behind the latest time known before, it is told, but not *trusted* until somebody confirms it: rows may be hidden by it, which can
///    be taken back, and none may be removed.
///
/// Thread safety: every method may be called from any thread; none of them waits.
#[derive(Debug)]
pub struct TrustedClock {
    clock: Arc<dyn Clock>,
    origin_seconds: u64,
    origin_micros: u64,
    /// The latest time that was told.
    latest: AtomicU64,
    /// The latest time known before.
    known: u64,
    is_trusted: AtomicBool,
}

impl TrustedClock {
    /// A clock that begins now. `known` is the latest time that was known before, if any was; a jump from it of more than `jump_limit` seconds
    /// is not trusted, unless the limit is 0.
    pub fn new(clock: Arc<dyn Clock>, known: Option<u64>, jump_limit: u64) -> Self {
        let (wall, origin_micros) = (clock.unix_seconds(), clock.now_micros());
        let origin_seconds = wall.max(known.unwrap_or(0));
        let is_trusted = jump_limit == 0 || known.is_none_or(|known| wall.saturating_sub(known) <= jump_limit);
        Self {
            clock,
            origin_seconds,
            origin_micros,
            latest: AtomicU64::new(origin_seconds),
            known: known.unwrap_or(origin_seconds),
            is_trusted: AtomicBool::new(is_trusted),
        }
    }

    /// The time, trusted or not, in Unix seconds. Never less than it was.
    pub fn now(&self) -> u64 {
        let elapsed = self.clock.now_micros().saturating_sub(self.origin_micros) / 1_000_000;
        let told = self.clock.unix_seconds().min(self.origin_seconds.saturating_add(elapsed));
        self.latest.fetch_max(told, Ordering::AcqRel).max(told)
    }

    /// The time, in Unix seconds; `None` while it is not trusted.
    pub fn trusted_now(&self) -> Option<u64> {
        self.is_trusted.load(Ordering::Acquire).then(|| self.now())
    }

    /// The time, or the latest one known before while it is not trusted.
    pub fn trusted_or_known(&self) -> u64 {
        self.trusted_now().unwrap_or(self.known)
    }

    /// The jump because of which the time is not trusted; `None` if it is.
    pub fn distrusted(&self) -> Option<ClockJump> {
        let jump = ClockJump { known: self.known, found: self.origin_seconds };
        (!self.is_trusted.load(Ordering::Acquire)).then_some(jump)
    }

    /// Says that the time is right.
    pub fn confirm(&self) {
        self.is_trusted.store(true, Ordering::Release);
    }
}
