//! Trees whose sorted runs are merged for their sizes or their number, or dropped for their age.

use super::assert_explored;
use super::scenarios::{Scenario, fifo, fifo_deletions, universal, universal_family, write_rounds};
use crate::event::CompactionReason;
use crate::options::{FifoCompactionOptions, UniversalCompactionOptions};

/// Runs that are about as large as one another, of a family that may take any space.
fn alike() -> Scenario {
    let roomy = UniversalCompactionOptions::default().max_size_amplification_percent(100_000);
    Scenario {
        name: "runs that are alike",
        family: universal_family().level0_file_num_compaction_trigger(4).compaction_options_universal(roomy),
        reason: CompactionReason::SizeRatio,
        ..universal()
    }
}

/// More runs than there should be, each twice as large as the next newer one.
fn many() -> Scenario {
    Scenario {
        name: "many runs",
        family: universal_family().level0_file_num_compaction_trigger(3),
        units: 15,
        reason: CompactionReason::SortedRunCount,
        fill: |db, family| [1_600, 800, 400, 200, 100].iter().for_each(|keys| write_rounds(db, family, 1, *keys)),
        ..universal()
    }
}

/// Tables of a family that is a cache, too old to be kept.
fn too_old() -> Scenario {
    Scenario {
        name: "tables that are too old",
        family: fifo(FifoCompactionOptions::default()).ttl(3_600),
        reason: CompactionReason::FifoTtl,
        later_seconds: 7_200,
        ..fifo_deletions()
    }
}

#[test]
fn merges_of_runs_that_are_alike_may_end_at_every_yield_point() {
    assert_explored(&alike(), 40);
}

#[test]
fn merges_of_many_runs_may_end_at_every_yield_point() {
    assert_explored(&many(), 20);
}

#[test]
fn deletions_of_tables_that_are_too_old_may_end_at_every_yield_point() {
    assert_explored(&too_old(), 1);
}
