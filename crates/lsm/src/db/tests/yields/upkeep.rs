//! Trees in which tables are to be rewritten for what they are: full of tombstones, old, suggested by a caller, or costly for readers.

use super::assert_explored;
use super::other_reasons::idle;
use super::scenarios::{Scenario, flush, key, leveled, settle_below, universal_family, write_rounds};
use crate::event::CompactionReason;
use crate::{ColumnFamily, ColumnFamilyOptions, CompactOnDeletions, Db, WriteOptions};
use std::sync::Arc;

/// Two tables of level 0, below its trigger, above levels that have tables.
fn write_above(db: &Db, family: &ColumnFamily) {
    write_rounds(db, family, 1, 500);
    settle_below(db, family);
    write_rounds(db, family, 2, 400);
}

/// Tables of level 0 that mostly delete.
fn full_of_tombstones() -> Scenario {
    Scenario {
        name: "full of tombstones",
        family: idle().table_properties_collectors(vec![Arc::new(CompactOnDeletions::new(64, 32).unwrap())]),
        reason: CompactionReason::TombstoneDensity,
        fill: |db, family| {
            write_rounds(db, family, 1, 500);
            settle_below(db, family);
            for number in 100..400 {
                db.delete_cf(family, key(number), &WriteOptions::default()).unwrap();
            }
            flush(db, family);
        },
        ..leveled()
    }
}

/// Data that has been above the last level for too long.
fn old(family: ColumnFamilyOptions) -> Scenario {
    Scenario {
        name: "old",
        family: family.ttl(3_600),
        reason: CompactionReason::Ttl,
        later_seconds: 7_200,
        fill: write_above,
        ..leveled()
    }
}

/// Tables that a caller would have rewritten when there is time.
fn suggested() -> Scenario {
    Scenario { name: "suggested", family: idle(), reason: CompactionReason::Suggested, fill: write_above, ..leveled() }
}

/// Tables that readers ask in vain.
fn read_in_vain() -> Scenario {
    Scenario {
        name: "read in vain",
        family: idle().read_triggered_bytes(1_000),
        reason: CompactionReason::ReadTriggered,
        fill: |db, family| {
            write_rounds(db, family, 1, 500);
            settle_below(db, family);
            for number in (0..400).step_by(20) {
                db.put_cf(family, key(number), "again", &WriteOptions::default()).unwrap();
            }
            flush(db, family);
        },
        ..leveled()
    }
}

#[test]
fn rewrites_of_tombstones_may_end_at_every_yield_point() {
    assert_explored(&full_of_tombstones(), 20);
}

#[test]
fn compactions_of_old_data_may_end_at_every_yield_point() {
    assert_explored(&old(idle()), 20);
}

#[test]
fn compactions_of_old_runs_may_end_at_every_yield_point() {
    assert_explored(&old(universal_family().level0_file_num_compaction_trigger(8)), 20);
}

#[test]
fn suggested_compactions_may_end_at_every_yield_point() {
    assert_explored(&suggested(), 20);
}

#[test]
fn compactions_that_readers_have_paid_for_may_end_at_every_yield_point() {
    assert_explored(&read_in_vain(), 20);
}
