//! Known mistakes of the B-tree engine, made on purpose: the crash states must show each of them.

mod btree_support;

use btree_support::planted::hunt;
use btree_support::{explore, options, script};
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::CrashConfig;
use siltstone_base::plant::PlantedBug;

/// Scripts that are tried.
const SEEDS: std::ops::RangeInclusive<u64> = 21..=32;

fn config(seed: u64) -> CrashConfig {
    CrashConfig { seed, states_per_cut: 10, random_subsets: 6, tail_cuts: 4, tears: 6, ..CrashConfig::default() }
}

fn find(bug: PlantedBug) -> Option<String> {
    hunt(bug, SEEDS, |seed| {
        let durability = if seed % 2 == 0 { Durability::Os } else { Durability::Commit };
        explore(&script(seed, 300, 200, true), &options(durability), &config(seed), 200)
    })
}

planted! {
    find:
    a_redo_log_that_is_not_synced: RedoIsNotSynced;
    an_open_group_that_is_applied: OpenGroupIsApplied;
    a_page_before_its_redo: PageBeforeRedo;
    a_hole_in_the_flush_list: FlushListHole;
    a_checkpoint_before_its_sync: CheckpointBeforeSync;
    a_doublewrite_that_is_not_synced: DoublewriteIsNotSynced;
    a_doublewrite_that_is_ignored: DoublewriteIsIgnored;
    a_split_that_forgets_a_link: SplitForgetsLeftLink;
    a_merge_that_forgets_a_link: MergeForgetsRightLink;
    a_tablespace_that_is_deleted_too_early: SpaceDeletedTooEarly;
    a_load_that_is_not_synced: LoadIsNotSynced;
}
