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

/// Bits of a [`Moment`] that count who holds the time.
const HOLD_BITS: u32 = 24;

/// The latest time that is told: later ones count as this one.
const MAX_SECONDS: u64 = (1 << (u64::BITS - HOLD_BITS)) - 1;

/// A time in Unix seconds, and how many hold it, in one number.
#[derive(Debug, Clone, Copy)]
struct Moment(u64);

impl Moment {
    const fn new(seconds: u64) -> Self {
        Self(seconds << HOLD_BITS)
    }

    const fn seconds(self) -> u64 {
        self.0 >> HOLD_BITS
    }

    const fn is_held(self) -> bool {
        self.0 & ((1 << HOLD_BITS) - 1) > 0
    }
}

/// Wall time that never goes back, and forward no faster than the monotonic clock does.
///
/// 1. It begins at the wall time, or at the latest time that was known before if that is later.
/// 2. From then on it is the wall time, but no more than what the monotonic clock allows, and no less than it was.
/// 3. Where it began too far behind the latest time known before, it is told, but not *trusted* until somebody confirms it: rows may be hidden by it, which can
///    be taken back, and none may be removed.
/// 4. It stands still while somebody [holds](Self::hold) it.
///
/// Thread safety: every method may be called from any thread; none of them waits.
#[derive(Debug)]
pub struct TrustedClock {
    clock: Arc<dyn Clock>,
    /// What it was, in microseconds, when the monotonic clock was at 0; wraps around.
    origin_micros: AtomicU64,
    /// The latest [`Moment`] that was told.
    latest: AtomicU64,
    /// What was known at the beginning, and what was found then.
    jump: ClockJump,
    is_trusted: AtomicBool,
}

impl TrustedClock {
    /// A clock that begins now. `known` is the latest time that was known before, if any was; a jump from it of more than `jump_limit` seconds
    /// is not trusted, unless the limit is 0.
    pub fn new(clock: Arc<dyn Clock>, known: Option<u64>, jump_limit: u64) -> Self {
        Self::with_witness(clock, known, None, jump_limit)
    }

    /// The same, where something was written at the time `witness`, in Unix seconds, as it says: where no time is known, a jump counts from that. It may be a clock's error,
    /// so the time does not begin later because of it.
    pub fn with_witness(clock: Arc<dyn Clock>, known: Option<u64>, witness: Option<u64>, jump_limit: u64) -> Self {
        let (wall, micros) = (clock.unix_seconds().min(MAX_SECONDS), clock.now_micros());
        let begin = wall.max(known.unwrap_or(0).min(MAX_SECONDS));
        let told = known.or(witness);
        let is_trusted = jump_limit == 0 || told.is_none_or(|told| wall.saturating_sub(told) <= jump_limit);
        Self {
            clock,
            origin_micros: AtomicU64::new(origin(begin, micros)),
            latest: AtomicU64::new(Moment::new(begin).0),
            jump: ClockJump { known: told.unwrap_or(begin), found: begin },
            is_trusted: AtomicBool::new(is_trusted),
        }
    }

    /// The time, trusted or not, in Unix seconds. Never less than it was.
    pub fn now(&self) -> u64 {
        let mut latest = Moment(self.latest.load(Ordering::Acquire));
        let allowed = self.origin_micros.load(Ordering::Acquire).wrapping_add(self.clock.now_micros()) / 1_000_000;
        let told = self.wall().min(allowed);
        while told > latest.seconds() && !latest.is_held() {
            let next = Moment::new(told);
            match self.latest.compare_exchange_weak(latest.0, next.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return told,
                Err(found) => latest = Moment(found),
            }
        }
        latest.seconds()
    }

    fn wall(&self) -> u64 {
        self.clock.unix_seconds().min(MAX_SECONDS)
    }

    /// Lets time stand still until the answer is dropped: until then nobody is told a later time than the [answer's](HeldTime::seconds).
    pub fn hold(&self) -> HeldTime<'_> {
        self.now();
        let before = self.latest.fetch_add(1, Ordering::AcqRel);
        HeldTime { clock: self, seconds: Moment(before).seconds() }
    }

    /// The time, in Unix seconds; `None` while it is not trusted.
    pub fn trusted_now(&self) -> Option<u64> {
        self.is_trusted.load(Ordering::Acquire).then(|| self.now())
    }

    /// The time, or the latest one known before while it is not trusted.
    pub fn trusted_or_known(&self) -> u64 {
        self.trusted_now().unwrap_or(self.jump.known)
    }

    /// The jump because of which the time is not trusted; `None` if it is.
    pub fn distrusted(&self) -> Option<ClockJump> {
        (!self.is_trusted.load(Ordering::Acquire)).then_some(self.jump)
    }

    /// How many seconds it is behind the wall clock: that went faster than the monotonic one, as after a time during which the machine was suspended.
    pub fn behind(&self) -> u64 {
        self.wall().saturating_sub(self.now())
    }

    /// Says that the wall clock is right: the time is that from now on, also where it is behind.
    pub fn confirm(&self) {
        let origin = origin(self.wall().max(self.now()), self.clock.now_micros());
        self.origin_micros.store(origin, Ordering::Release);
        self.is_trusted.store(true, Ordering::Release);
    }
}

/// What the time was when the monotonic clock was at 0, if it is `seconds` now.
fn origin(seconds: u64, micros: u64) -> u64 {
    (seconds * 1_000_000).wrapping_sub(micros)
}

/// A time that stands still.
#[derive(Debug)]
#[must_use = "time goes on when it is dropped"]
pub struct HeldTime<'a> {
    clock: &'a TrustedClock,
    seconds: u64,
}

impl HeldTime<'_> {
    /// The time, in Unix seconds.
    pub fn seconds(&self) -> u64 {
        self.seconds
    }
}

impl Drop for HeldTime<'_> {
    fn drop(&mut self) {
        self.clock.latest.fetch_sub(1, Ordering::AcqRel);
    }
}
