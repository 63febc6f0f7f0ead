//! The walk of the rate that delayed writers share, under RocksDB's write admission.

use crate::db::write_controller::WriteController;
use crate::db::write_stall::Pressure;
use crate::options::{ColumnFamilyOptions, WriteAdmission};

const MOST: u64 = 10_000_000;

/// The rates that follow on what families meet: each its number, its files in level 0, and the bytes that compactions owe.
fn rates(steps: &[(u32, usize, u64)]) -> Vec<u64> {
    let options = ColumnFamilyOptions::default()
        .level0_slowdown_writes_trigger(20)
        .level0_stop_writes_trigger(36)
        .soft_pending_compaction_bytes_limit(1_000)
        .hard_pending_compaction_bytes_limit(2_000);
    let controller = WriteController::new(MOST, WriteAdmission::Rocksdb);
    let pressure =
        |l0_files, pending_compaction_bytes| Pressure { l0_files, pending_compaction_bytes, ..Pressure::default() };
    let after = |&(family, l0_files, bytes): &(u32, usize, u64)| {
        controller.update(family, pressure(l0_files, bytes), &options);
        controller.delayed_rate()
    };
    steps.iter().map(after).collect()
}

#[test]
fn the_rate_follows_the_sign_of_a_change_of_the_debt_alone() {
    // More files, but less debt: faster. The same debt: slower, too.
    assert_eq!(
        rates(&[(0, 20, 500), (0, 21, 600), (0, 21, 600), (0, 22, 550), (0, 20, 560)]),
        [10_000_000, 8_000_000, 6_400_000, 8_000_000, 6_400_000]
    );
    assert_eq!(rates(&[(0, 20, 0), (0, 25, 0), (0, 30, 0)]), [MOST; 3], "no debt is known");
    assert_eq!(rates(&[(0, 20, 500), (0, 21, 400)]), [MOST; 2], "never faster than the user says");
}

#[test]
fn a_stop_that_is_near_cuts_the_rate_harder() {
    assert_eq!(rates(&[(0, 20, 500), (0, 33, 500), (0, 34, 400)]), [10_000_000, 8_000_000, 4_800_000]);
    assert_eq!(rates(&[(0, 4, 1_100), (0, 4, 1_750), (0, 4, 1_760)]), [10_000_000, 8_000_000, 4_800_000]);
    assert_eq!(rates(&[(0, 30, 1_000), (0, 34, 1_760), (1, 36, 0), (0, 20, 500)])[3], 3_600_000, "just over, too");
}

#[test]
fn a_stop_that_is_over_leaves_the_rate_and_a_recovery_raises_it() {
    let rates = rates(&[(0, 20, 500), (0, 21, 600), (0, 36, 700), (0, 30, 800), (0, 3, 400), (0, 2, 400)]);
    assert_eq!(rates, [10_000_000, 8_000_000, 8_000_000, 8_000_000, MOST, MOST]);
}
