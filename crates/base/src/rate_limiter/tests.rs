//! Jobs on a manual clock.

use super::*;
use crate::clock::ManualClock;

const MB: u64 = 1_000_000;

fn limiter(rate: u64) -> (Arc<ManualClock>, RateLimiter) {
    let clock = Arc::new(ManualClock::new(0));
    clock.advance(Duration::from_secs(10));
    (clock.clone(), RateLimiter::new(clock, rate))
}

/// Lets jobs request 64 KB as often as they may for `seconds`; returns the bytes each has moved.
fn contend(rate: u64, jobs: &[IoPriority], seconds: u64) -> Vec<u64> {
    let (clock, limiter) = limiter(rate);
    let mut moved = vec![0; jobs.len()];
    let mut ready_at = vec![clock.now_micros(); jobs.len()];
    let end = clock.now_micros() + seconds * 1_000_000;
    while clock.now_micros() < end {
        for (job, priority) in jobs.iter().enumerate() {
            if ready_at[job] <= clock.now_micros() {
                moved[job] += 64_000;
                ready_at[job] = clock.now_micros() + limiter.request(64_000, *priority).as_micros() as u64 + 1;
            }
        }
        clock.advance(Duration::from_micros(200));
    }
    moved
}

#[test]
fn one_job_gets_the_rate() {
    for priority in [IoPriority::High, IoPriority::Low] {
        let moved = contend(10 * MB, &[priority], 20)[0];
        assert!((199 * MB..203 * MB).contains(&moved), "{moved}");
    }
}

#[test]
fn high_goes_first_and_low_keeps_a_tenth() {
    let moved = contend(10 * MB, &[IoPriority::High, IoPriority::Low], 20);
    assert!((178 * MB..184 * MB).contains(&moved[0]), "{moved:?}");
    assert!((18 * MB..23 * MB).contains(&moved[1]), "{moved:?}");
}

#[test]
fn equals_share() {
    let moved = contend(10 * MB, &[IoPriority::Low; 4], 20);
    let total: u64 = moved.iter().sum();
    assert!((198 * MB..204 * MB).contains(&total), "{moved:?}");
    assert!(moved.iter().all(|bytes| bytes * 5 > total), "{moved:?}");
}

#[test]
fn high_does_not_stand_behind_queued_low() {
    let (_, limiter) = limiter(MB);
    limiter.request(MB / 10, IoPriority::Low);
    for _ in 0..10 {
        limiter.request(MB, IoPriority::Low);
    }
    assert!(limiter.request(1000, IoPriority::Low) > Duration::from_secs(9));
    assert!(limiter.request(1000, IoPriority::High) < Duration::from_secs(2));
}

#[test]
fn users_never_wait_but_count() {
    let (_, limiter) = limiter(MB);
    assert_eq!(limiter.request(2 * MB, IoPriority::User), Duration::ZERO);
    assert_eq!(limiter.request(2 * MB, IoPriority::User), Duration::ZERO);
    let wait = limiter.request(1, IoPriority::High);
    assert_eq!(wait, Duration::from_millis(3900), "four seconds less the burst");
    assert_eq!(limiter.granted_bytes(IoPriority::User), 4 * MB);
    assert_eq!(limiter.waited(), wait);
}

#[test]
fn a_changed_rate_changes_what_is_left_to_wait() {
    let (clock, limiter) = limiter(MB);
    limiter.request(4 * MB + MB / 10, IoPriority::High);
    limiter.set_bytes_per_second(2 * MB);
    assert_eq!(limiter.request(0, IoPriority::High), Duration::from_secs(2));
    clock.advance(Duration::from_secs(1));
    assert_eq!(limiter.request(0, IoPriority::High), Duration::from_secs(1));
    limiter.set_bytes_per_second(0);
    assert_eq!(limiter.request(u64::MAX, IoPriority::Low), Duration::ZERO);
    assert_eq!(limiter.preferred_request(), u64::MAX);
    limiter.set_bytes_per_second(MB);
    assert_eq!((limiter.preferred_request(), limiter.bytes_per_second()), (10_000, MB));
    assert_eq!(limiter.request(MB, IoPriority::High), Duration::ZERO);
    // The backlog that the unlimited time wiped out ended then, so no burst has gathered since.
    assert_eq!(limiter.request(u64::MAX, IoPriority::High), Duration::from_secs(1));
}
