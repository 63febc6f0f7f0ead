//! Known mistakes of the B-tree engine, made on purpose: the crash states must show each of them.
//!
//! Those of transactions and of tables are in `crash`, those of the change buffer beside its code.

use crate::support::explore::{Extent, Outcome};
use crate::support::planted::hunt;
use crate::support::{Draw, Op, explore_steps, key, options, script};
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::CrashConfig;
use siltstone_base::plant::PlantedBug;

/// Scripts that are tried.
const SEEDS: std::ops::RangeInclusive<u64> = 21..=32;

fn extent(seed: u64) -> Extent {
    let first =
        CrashConfig { seed, states_per_cut: 10, random_subsets: 6, tail_cuts: 4, tears: 6, ..CrashConfig::default() };
    let second = CrashConfig { states_per_cut: 4, random_subsets: 2, tail_cuts: 2, tears: 3, ..CrashConfig::default() };
    Extent { first, second_every: 200, second }
}

fn durability_of(seed: u64) -> Durability {
    if seed.is_multiple_of(2) { Durability::Os } else { Durability::Commit }
}

fn find(bug: PlantedBug) -> Option<String> {
    hunt(bug, SEEDS, |seed| explore_steps(&script(seed, 300, 200, true), &options(durability_of(seed)), &extent(seed)))
}

crate::planted! {
    find:
    a_redo_log_that_is_not_synced: RedoIsNotSynced;
    an_open_group_that_is_applied: OpenGroupIsApplied;
    a_page_before_its_redo: PageBeforeRedo;
    a_hole_in_the_flush_list: FlushListHole;
    a_checkpoint_before_its_sync: CheckpointBeforeSync;
    a_doublewrite_that_is_not_synced: DoublewriteIsNotSynced;
    a_doublewrite_that_is_ignored: DoublewriteIsIgnored;
    a_doublewrite_file_of_several_that_is_ignored: OneDoublewriteIsRead;
    a_split_that_forgets_a_link: SplitForgetsLeftLink;
    a_merge_that_forgets_a_link: MergeForgetsRightLink;
    a_tablespace_that_is_deleted_too_early: SpaceDeletedTooEarly;
    a_load_that_is_not_synced: LoadIsNotSynced;
}

/// Pages of two blocks, which a crash may tear long after they were written, and more of them than the pool holds.
fn look_at_wide_pages(seed: u64, cuts: std::ops::Range<usize>, every: usize) -> Outcome {
    let mut draw = Draw(seed);
    let put = |draw: &mut Draw| {
        let number = draw.below(1_500);
        Op::Put(0, key(number), vec![draw.next() as u8; 500 + draw.below(300) as usize])
    };
    let ops: Vec<Op> = (0..1_200).map(|_| put(&mut draw)).collect();
    let options =
        options(Durability::Os).page_size(8 << 10).buffer_pool_bytes(64 * (8 << 10)).redo_capacity_bytes(4 << 20);
    let first = CrashConfig { seed, cuts, every, states_per_cut: 3, random_subsets: 2, ..CrashConfig::default() };
    let extent = Extent { second: first.clone(), first, second_every: usize::MAX };
    explore_steps(&ops, &options, &extent).map(drop)
}

/// Groups that need so many pages that others must be written while they are open.
fn look_at_long_groups(seed: u64, every: usize) -> Outcome {
    let mut draw = Draw(seed);
    let change = |draw: &mut Draw| {
        let key = key(draw.below(60));
        (0, key, (draw.below(5) > 0).then(|| vec![draw.next() as u8; 400 + draw.below(2_000) as usize]))
    };
    let ops: Vec<Op> = (0..60).map(|_| Op::Batch((0..8).map(|_| change(&mut draw)).collect())).collect();
    let options = options(Durability::Os).redo_capacity_bytes(512 << 10);
    let first = CrashConfig { seed, every, states_per_cut: 3, random_subsets: 2, ..CrashConfig::default() };
    let extent = Extent { second: first.clone(), first, second_every: usize::MAX };
    explore_steps(&ops, &options, &extent).map(drop)
}

fn find_in_wide_pages(bug: PlantedBug) -> Option<String> {
    hunt(bug, 42..=45, |seed| look_at_wide_pages(seed, 800..1_600, 3))
}

crate::planted! {
    find_in_wide_pages:
    a_doublewrite_file_that_is_used_again_too_early: DoublewriteReusedTooEarly;
}

fn find_in_long_groups(bug: PlantedBug) -> Option<String> {
    hunt(bug, 41..=43, |seed| look_at_long_groups(seed, 1))
}

crate::planted! {
    find_in_long_groups:
    a_page_of_an_open_group_that_is_written: OpenGroupIsWritten;
}

#[test]
fn without_a_mistake_wide_pages_and_long_groups_survive() {
    look_at_wide_pages(41, 0..usize::MAX, 23).unwrap();
    look_at_long_groups(41, 5).unwrap();
}
