//! What syncs achieve, when one begins early, and what writers may have: as data.

use super::{LEAST_BYTES, TAKEN_AT_ONCE, WalLag};
use crate::event::StallCause;

const MIB: u64 = 1 << 20;
const MILLI: u64 = 1_000_000;

/// A promise of a second, on a device that syncs 100 MB of the WAL in one.
fn known() -> WalLag {
    let lag = WalLag::new(1000);
    lag.grew(TAKEN_AT_ONCE);
    lag.synced(lag.begin(0), MILLI);
    for at in 1..=20 {
        lag.grew(50_000_000);
        lag.synced(lag.begin((at * 500 - 499) * MILLI), (at * 500 + 1) * MILLI);
    }
    lag
}

/// After everything in [`known`].
const AFTER: u64 = 20_000 * MILLI;

/// In millions.
fn rounded(rate: f64) -> u64 {
    (rate / 1e6).round() as u64
}

#[test]
fn without_a_promise_nothing_is_early_and_nobody_waits() {
    let lag = WalLag::new(0);
    lag.grew(1 << 40);
    assert!(!lag.begins_early());
    assert_eq!((lag.rate(), lag.pace().rate), (None, f64::INFINITY));
}

#[test]
fn the_first_sync_is_early_and_one_at_a_time() {
    let lag = WalLag::new(1000);
    lag.grew(LEAST_BYTES - 1);
    assert!(!lag.begins_early());
    lag.grew(1);
    assert!(lag.begins_early() && !lag.begins_early());
    assert_eq!((lag.rate(), lag.pace().rate), (None, 130e6), "a slow device is expected while nothing is known of it");
    let begun = lag.begin(0);
    lag.grew(8 * MIB);
    lag.synced(begun, 40 * MILLI);
    assert!(lag.goes_on_syncing(), "what came meanwhile");
    let begun = lag.begin(40 * MILLI);
    lag.grew(20 * MIB);
    lag.synced(begun, 120 * MILLI);
    assert!(lag.goes_on_syncing());
    let begun = lag.begin(120 * MILLI);
    lag.grew(MIB);
    lag.synced(begun, 330 * MILLI);
    assert!(!lag.goes_on_syncing());
    lag.grew(22 * MIB);
    assert!(!lag.begins_early(), "in a second the device does four times as much");
    lag.grew(2 * MIB);
    assert!(lag.begins_early());
}

#[test]
fn a_sync_of_little_tells_nothing_of_the_device() {
    let lag = WalLag::new(1000);
    for at in 0..100 {
        lag.grew(MIB);
        let begun = lag.begin(at * 1000 * MILLI);
        lag.synced(begun, (at * 1000 + 50) * MILLI);
    }
    assert_eq!(lag.rate(), None);
}

#[test]
fn what_a_flush_has_synced_is_no_merit_of_the_sync_behind_it() {
    let rate_with = |unsynced: u64| {
        let lag = WalLag::new(1000);
        lag.grew(TAKEN_AT_ONCE);
        lag.synced(lag.begin(0), MILLI);
        for at in 1..=100 {
            lag.grew(50_000_000);
            let begun = lag.begin(at * 1000 * MILLI);
            lag.finds(begun, unsynced);
            assert_eq!(lag.unsynced_bytes(), unsynced.min(50_000_000));
            lag.synced(begun, (at * 1000 + 40) * MILLI);
        }
        lag.rate().map(rounded)
    };
    assert_eq!([rate_with(4_000_000), rate_with(50_000_000), rate_with(u64::MAX)], [Some(100), Some(1242), Some(1242)]);
}

#[test]
fn writers_are_paced_where_a_sync_would_break_the_promise() {
    let lag = known();
    assert_eq!(lag.rate().map(rounded), Some(100));
    assert_eq!(lag.pace().rate, f64::INFINITY, "nothing is unsynced");
    lag.grew(50_000_000);
    assert_eq!((rounded(lag.pace().rate), lag.pace().cause), (100, StallCause::UnsyncedWal));
    lag.grew(200 * MIB);
    assert_eq!(rounded(lag.pace().rate), 2);
    lag.all_is_synced();
    assert_eq!(lag.pace().rate, f64::INFINITY);
}

#[test]
fn an_interval_that_no_device_keeps_stops_nobody() {
    let lag = WalLag::new(1);
    lag.grew(10_000_000);
    let begun = lag.begin(0);
    lag.synced(begun, 100 * MILLI);
    lag.grew(4 * MIB);
    assert_eq!(lag.pace().rate, 130e6);
}

#[test]
fn a_device_that_takes_a_little_at_once_is_not_taken_for_a_fast_one() {
    let lag = WalLag::new(1000);
    lag.grew(4 * MIB);
    let begun = lag.begin(0);
    lag.synced(begun, 2 * MILLI);
    assert!(lag.rate().is_some_and(|rate| rate <= 130e6));
    lag.grew(8 * MIB);
    assert!(lag.begins_early());
    lag.grew(7 * MIB);
    assert!(lag.pace().rate < 80e6);
}

#[test]
fn what_a_device_takes_at_first_does_not_say_what_it_achieves() {
    let lag = WalLag::new(1000);
    lag.grew(TAKEN_AT_ONCE);
    let begun = lag.begin(0);
    lag.synced(begun, MILLI);
    assert_eq!(lag.rate(), Some(130e6));
    lag.grew(100_000_000);
    let begun = lag.begin(MILLI);
    lag.synced(begun, 101 * MILLI);
    assert!(lag.rate().is_some_and(|rate| rate > 700e6), "{:?}", lag.rate());
    lag.grew(100_000_000);
    let begun = lag.begin(101 * MILLI);
    lag.synced(begun, 2101 * MILLI);
    assert!(lag.rate().is_some_and(|rate| rate < 250e6), "{:?}", lag.rate());
}

#[test]
fn a_sync_that_waits_for_another_is_not_slow() {
    let lag = known();
    lag.grew(10_000_000);
    let first = lag.begin(AFTER);
    lag.grew(10_000_000);
    let second = lag.begin(AFTER + 10 * MILLI);
    lag.synced(first, AFTER + 100 * MILLI);
    lag.synced(second, AFTER + 200 * MILLI);
    assert_eq!(lag.rate().map(rounded), Some(100));
}

#[test]
fn after_a_failure_the_next_sync_is_started_again() {
    let lag = known();
    lag.grew(100_000_000);
    assert!(lag.begins_early() && !lag.begins_early());
    lag.end_early();
    assert!(lag.begins_early());
}

#[test]
fn a_device_that_hung_once_is_not_slow_for_minutes() {
    let lag = known();
    lag.grew(4_000_000);
    let begun = lag.begin(AFTER);
    lag.synced(begun, AFTER + 600_000 * MILLI);
    assert!(lag.rate().is_some_and(|rate| rate > 90e6), "{:?}", lag.rate());
    let hopeless = WalLag::new(1000);
    for at in 0..100 {
        hopeless.grew(4_000_000);
        let begun = hopeless.begin(at * 600_000 * MILLI);
        hopeless.synced(begun, (at + 1) * 600_000 * MILLI);
    }
    assert_eq!(hopeless.rate(), Some(1e6));
}
