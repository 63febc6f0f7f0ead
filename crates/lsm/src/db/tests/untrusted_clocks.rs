//! Clocks that are years ahead remove no row, however often the database is opened by them.

use super::basics::options;
use crate::expiry::test_policy::AtItsStamp;
use crate::{ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, ExpiryBlocker, FlushOptions, WriteOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::path::Path;
use std::sync::Arc;

const START: u64 = 1_700_000_000;
const YEAR: u64 = 365 * 86_400;

fn family() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().expiry(Some(Arc::new(AtItsStamp)))
}

fn open(disk: &SimDisk, now: u64, has_policy: bool) -> (Db, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(now));
    let options = options(disk).executor(Some(Arc::new(StepExecutor::new(clock.clone()))));
    let family = if has_policy { family() } else { ColumnFamilyOptions::default() };
    (Db::open_families("/db", &options, &[("default", family)]).unwrap(), clock)
}

fn rewrite(db: &Db) {
    db.flush(&FlushOptions::default()).unwrap();
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
}

/// The time that was known before, where the clock is not trusted.
fn known(db: &Db, family: &ColumnFamily) -> Option<u64> {
    let report = db.expiry_report(family).unwrap().unwrap();
    report.blockers.iter().find_map(|blocker| match blocker {
        ExpiryBlocker::DistrustedClock(jump) => Some(jump.known),
        _ => None,
    })
}

/// The policy saves nothing, and what it opens with writes tables that tell of the wrong clock.
#[test]
fn a_clock_a_year_ahead_removes_no_row_at_the_second_opening_either() {
    // What recovery writes tells of that clock, too.
    for is_flushed in [false, true] {
        let disk = SimDisk::new();
        let (db, _) = open(&disk, START, false);
        db.put("row", format!("row@{}", START + 60)).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        db.close().unwrap();
        for number in 0..3 {
            let (ahead, _) = open(&disk, START + YEAR, true);
            assert_eq!(known(&ahead, &ahead.default_family()), Some(START), "opening {number}");
            ahead.put(format!("later{number}"), "never").unwrap();
            if is_flushed {
                rewrite(&ahead);
            }
            ahead.close().unwrap();
        }
        let (right, _) = open(&disk, START + 30, true);
        assert_eq!(known(&right, &right.default_family()), None);
        assert!(right.get("row").unwrap().is_some());
        right.close().unwrap();
    }
}

/// Where nothing may be written, nothing is.
#[test]
fn who_reads_only_writes_no_record_of_a_clock_a_year_ahead() {
    let disk = SimDisk::new();
    let (db, _) = open(&disk, START, false);
    db.put("row", "row").unwrap();
    rewrite(&db);
    db.close().unwrap();
    let clock = Arc::new(ManualClock::new(START + YEAR));
    let options = options(&disk).executor(Some(Arc::new(StepExecutor::new(clock))));
    let reader = Db::open_read_only("/db", &options, &[("default", family())]).unwrap();
    assert_eq!(known(&reader, &reader.default_family()), Some(START));
    assert!(!disk.env().exists(Path::new("/db/EXPIRY")).unwrap());
}

/// The first family whose rows expire comes after the clock jumped.
#[test]
fn a_clock_that_jumped_before_the_first_policy_came_is_not_believed_later() {
    let disk = SimDisk::new();
    let (db, clock) = open(&disk, START, false);
    clock.move_wall(YEAR as i64);
    let expiring = db.create_family("expiring", &family()).unwrap();
    assert_eq!(known(&db, &expiring), Some(START));
    db.put_cf(&expiring, "row", format!("row@{}", START + 60), &WriteOptions::default()).unwrap();
    db.flush_families(&[&expiring], &FlushOptions::default()).unwrap();
    db.close().unwrap();
    let (again, _) = open(&disk, START + YEAR, true);
    assert_eq!(known(&again, &again.default_family()), Some(START), "the families have one clock");
}
