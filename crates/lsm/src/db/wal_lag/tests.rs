use super::{LEAST_BYTES, WalLag};
use crate::event::StallCause;

const MIB: u64 = 1 << 20;
const MILLI: u64 = 1_000_000;

/// A promise of a second, on a device that syncs 80 MiB of the WAL in one.
fn known() -> WalLag {
    let lag = WalLag::new(1000);
    lag.grew(80 * MIB);
    let begun = lag.begin(0);
    lag.synced(begun, 1000 * MILLI);
    lag
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
    assert_eq!(lag.pace().rate, f64::INFINITY, "nothing is known of the device");
    let begun = lag.begin(0);
    lag.grew(8 * MIB);
    lag.synced(begun, 50 * MILLI);
    assert!(lag.goes_on_syncing(), "what came meanwhile");
    let begun = lag.begin(50 * MILLI);
    lag.grew(20 * MIB);
    lag.synced(begun, 150 * MILLI);
    assert!(lag.goes_on_syncing());
    let begun = lag.begin(150 * MILLI);
    lag.grew(MIB);
    lag.synced(begun, 400 * MILLI);
    assert!(!lag.goes_on_syncing());
    lag.grew(18 * MIB);
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
fn writers_are_paced_where_a_sync_would_break_the_promise() {
    let lag = known();
    assert_eq!(lag.rate(), Some(80.0 * MIB as f64));
    assert!(lag.pace().rate > 1e12, "nothing is unsynced");
    lag.grew(40 * MIB);
    assert_eq!((lag.pace().rate, lag.pace().cause), (80.0 * MIB as f64, StallCause::UnsyncedWal));
    lag.grew(200 * MIB);
    assert_eq!(lag.pace().rate, 1.6 * MIB as f64);
    lag.all_is_synced();
    assert!(lag.pace().rate > 1e12);
}

#[test]
fn an_interval_that_no_device_keeps_stops_nobody() {
    let lag = WalLag::new(1);
    lag.grew(8 * MIB);
    let begun = lag.begin(0);
    lag.synced(begun, 100 * MILLI);
    lag.grew(4 * MIB);
    assert_eq!(lag.pace().rate, 80.0 * MIB as f64);
}

#[test]
fn a_device_that_takes_a_little_at_once_is_not_taken_for_a_fast_one() {
    let lag = WalLag::new(1000);
    lag.grew(4 * MIB);
    let begun = lag.begin(0);
    lag.synced(begun, 2 * MILLI);
    lag.grew(8 * MIB);
    assert!(lag.begins_early(), "2,000 MiB/s, but of 4 MiB");
    lag.grew(23 * MIB);
    assert!(lag.pace().rate < 80.0 * MIB as f64);
}
