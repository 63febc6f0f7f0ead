//! When leaders wait for company, and for how long.

use super::*;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LARGE: usize = LARGE_BATCH_BYTES;

#[test]
fn a_writer_of_small_batches_and_one_without_others_never_wait() {
    let mut company = Expectation::default();
    assert!(!company.is_expected(LARGE, false), "nobody else has been seen");
    assert!(!company.is_expected(LARGE - 1, true));
    assert!(company.is_expected(LARGE, true));
    company.waited(true);
    company.grouped(2);
    assert!(company.is_expected(LARGE, false), "the other one was in the last group");
    assert!(!company.is_expected(LARGE - 1, false));
    company.grouped(1);
    assert!(!company.is_expected(LARGE, false));
}

#[test]
fn leaders_that_wait_in_vain_become_rare_until_somebody_comes() {
    let mut company = Expectation::default();
    let mut passed = Vec::new();
    for _ in 0..12 {
        let mut before = 0;
        while !company.is_expected(LARGE, true) {
            before += 1;
        }
        passed.push(before);
        company.waited(false);
    }
    assert_eq!(passed, [0, 1, 3, 7, 15, 31, 63, 127, 255, 255, 255, 255]);
    while !company.is_expected(LARGE, true) {}
    company.waited(true);
    assert!(company.is_expected(LARGE, true));
}

/// A clock that goes on by so much whenever somebody looks at it.
#[derive(Debug)]
struct Steps(AtomicU64, u64);

impl Clock for Steps {
    fn now_micros(&self) -> u64 {
        self.0.fetch_add(self.1, Ordering::Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {}
}

#[test]
fn a_wait_ends_when_somebody_has_come_or_its_time_is_over_also_where_time_stands_still() {
    for (micros, bytes, most_clocks) in [(10, 64 * 100, 12), (10, 1 << 30, 52), (0, LARGE, 1_001)] {
        let clock = Steps(AtomicU64::new(0), micros);
        let looks = AtomicU64::new(0);
        let look = |enough: u64| looks.fetch_add(1, Ordering::Relaxed) + 1 >= enough;
        assert!(!wait(&clock, bytes, || look(u64::MAX)));
        let clocks = looks.load(Ordering::Relaxed) / u64::from(LOOKS);
        assert!((most_clocks / 2..=most_clocks).contains(&clocks), "{clocks} for {bytes} bytes");
        looks.store(0, Ordering::Relaxed);
        assert!(wait(&clock, bytes, || look(3)));
        assert_eq!(looks.load(Ordering::Relaxed), 3);
    }
}
