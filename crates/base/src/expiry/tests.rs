//! Tests of trusted time.

use super::*;
use crate::clock::Clock;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock whose two times move apart.
#[derive(Debug, Default)]
struct TwoTimes {
    micros: AtomicU64,
    seconds: AtomicU64,
}

impl TwoTimes {
    fn at(seconds: u64) -> Arc<Self> {
        let clock = Self::default();
        clock.seconds.store(seconds, Ordering::SeqCst);
        Arc::new(clock)
    }

    fn pass(&self, monotonic: u64, wall: i64) {
        self.micros.fetch_add(monotonic * 1_000_000, Ordering::SeqCst);
        self.seconds.store(self.unix_seconds().saturating_add_signed(wall), Ordering::SeqCst);
    }
}

impl Clock for TwoTimes {
    fn now_micros(&self) -> u64 {
        self.micros.load(Ordering::SeqCst)
    }

    fn unix_seconds(&self) -> u64 {
        self.seconds.load(Ordering::SeqCst)
    }

    fn sleep(&self, _: Duration) {}
}

const YEAR: u64 = 365 * 86_400;
const DAY: u64 = 86_400;

#[test]
fn time_follows_the_wall_no_faster_than_the_monotonic_clock() {
    let clock = TwoTimes::at(1000);
    let trusted = TrustedClock::new(clock.clone(), None, DAY);
    assert_eq!(trusted.trusted_now(), Some(1000));
    clock.pass(10, 10);
    assert_eq!(trusted.now(), 1010);
    clock.pass(10, YEAR as i64);
    assert_eq!(trusted.now(), 1020, "the wall clock jumped, and ten seconds passed");
    clock.pass(0, -(2 * YEAR as i64).min(1_000_000));
    assert_eq!(trusted.now(), 1020);
}

#[test]
fn time_stands_still_while_the_wall_clock_is_behind() {
    let clock = TwoTimes::at(1000);
    let trusted = TrustedClock::new(clock.clone(), None, DAY);
    clock.pass(100, 100);
    assert_eq!(trusted.now(), 1100);
    clock.pass(50, -500);
    assert_eq!(trusted.now(), 1100);
    clock.pass(600, 600);
    assert_eq!(trusted.now(), 1200);
}

#[test]
fn a_clock_that_went_back_before_the_opening_changes_nothing() {
    let clock = TwoTimes::at(1000);
    let trusted = TrustedClock::new(clock.clone(), Some(5000), DAY);
    assert_eq!((trusted.trusted_now(), trusted.distrusted()), (Some(5000), None));
    clock.pass(100, 100);
    assert_eq!(trusted.now(), 5000);
    clock.pass(4000, 4000);
    assert_eq!(trusted.now(), 5100);
}

#[test]
fn a_jump_at_the_opening_is_not_trusted_until_it_is_confirmed() {
    let clock = TwoTimes::at(1000 + YEAR);
    let trusted = TrustedClock::new(clock.clone(), Some(1000), DAY);
    assert_eq!(trusted.distrusted(), Some(ClockJump { known: 1000, found: 1000 + YEAR }));
    assert_eq!((trusted.trusted_now(), trusted.trusted_or_known(), trusted.now()), (None, 1000, 1000 + YEAR));
    clock.pass(10, 10);
    assert_eq!(trusted.trusted_or_known(), 1000);
    trusted.confirm();
    assert_eq!((trusted.trusted_now(), trusted.distrusted()), (Some(1010 + YEAR), None));
}

#[test]
fn jumps_up_to_the_limit_are_trusted_and_without_a_limit_all_are() {
    let is_trusted =
        |jump, limit| TrustedClock::new(TwoTimes::at(1000 + jump), Some(1000), limit).trusted_now().is_some();
    assert!(is_trusted(DAY, DAY) && !is_trusted(DAY + 1, DAY) && is_trusted(YEAR, 0));
}
