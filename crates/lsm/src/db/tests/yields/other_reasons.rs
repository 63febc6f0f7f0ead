//! Trees with compactions due that neither sizes nor callers ask for: rows are expired, tombstones cover tables, or there are only reads.

use super::scenarios::{Scenario, flush, key, leveled, settle_below, small, universal_family, write_rounds};
use super::{Life, assert_explored};
use crate::event::CompactionReason;
use crate::expiry::test_policy::AtItsStamp;
use crate::{ColumnFamily, ColumnFamilyOptions, Counter, Db, WriteOptions};
use std::sync::Arc;

/// A family in which nothing is due for its sizes.
pub(super) fn idle() -> ColumnFamilyOptions {
    small().level0_file_num_compaction_trigger(6).max_bytes_for_level_base(1 << 20)
}

/// Rows at the bottom, of which some expire between the writing of the tree and its next opening.
fn write_rows(db: &Db, family: &ColumnFamily, expires: fn(u64) -> bool) {
    // One table alone would go down as it is.
    for parity in 0..2 {
        for number in (0..800).filter(|number| number % 2 == parity) {
            let value =
                if expires(number) { "it stays for an hour@1700003600" } else { "it stays, whatever time it is" };
            db.put_cf(family, key(number), value, &WriteOptions::default()).unwrap();
        }
        flush(db, family);
    }
    settle_below(db, family);
}

/// Tables of which three rows in five are expired.
fn expired_rows() -> Scenario {
    Scenario {
        name: "expired rows",
        family: idle().merge_operator(None).expiry(Some(Arc::new(AtItsStamp))),
        units: 15,
        reason: CompactionReason::Expired,
        later_seconds: 7_200,
        fill: |db, family| write_rows(db, family, |number| number % 5 < 3),
        may_go: |value| value.contains(&b'@'),
        ..leveled()
    }
}

/// Tables whose rows are all expired, and others.
fn expired_tables() -> Scenario {
    Scenario {
        name: "expired tables",
        fill: |db, family| write_rows(db, family, |number| number < 600),
        ..expired_rows()
    }
}

/// Tables that one deletion covers, but for one row that was written again.
fn covered_tables() -> Scenario {
    Scenario {
        name: "covered tables",
        family: idle(),
        units: 1,
        reason: CompactionReason::Covered,
        fill: |db, family| {
            write_rows(db, family, |_| false);
            db.delete_range_cf(family, key(100), key(700), &WriteOptions::default()).unwrap();
            db.put_cf(family, key(300), "again", &WriteOptions::default()).unwrap();
            flush(db, family);
        },
        ..leveled()
    }
}

/// A level 0 below its trigger, above a base level that has tables.
fn only_read() -> Scenario {
    Scenario {
        name: "only read",
        family: idle(),
        reason: CompactionReason::ReadOnly,
        fill: |db, family| {
            write_rounds(db, family, 1, 500);
            settle_below(db, family);
            write_rounds(db, family, 3, 300);
        },
        ..leveled()
    }
}

/// Sorted runs, fewer than are merged for the sake of sizes.
fn runs_only_read() -> Scenario {
    Scenario {
        name: "runs that are only read",
        family: universal_family().level0_file_num_compaction_trigger(8),
        ..only_read()
    }
}

#[test]
fn rewrites_for_expired_rows_may_end_at_every_yield_point() {
    assert_explored(&expired_rows(), 40);
}

#[test]
fn drops_of_expired_tables_may_end_at_every_yield_point() {
    let scenario = expired_tables();
    let tree = scenario.build();
    let life = Life::begin_work(tree.disk.after_process_death(), &scenario);
    life.settle(&tree, scenario.name);
    assert!(life.db.metrics().get(Counter::ExpiredFilesDropped) >= 2, "they are not only rewritten");
    life.db.close().unwrap();
    assert_explored(&scenario, 1);
}

#[test]
fn deletions_of_covered_tables_may_end_at_every_yield_point() {
    assert_explored(&covered_tables(), 1);
}

#[test]
fn drains_of_what_is_only_read_may_end_at_every_yield_point() {
    assert_explored(&only_read(), 40);
}

#[test]
fn drains_of_runs_that_are_only_read_may_end_at_every_yield_point() {
    assert_explored(&runs_only_read(), 30);
}
