//! Scripts, each of another sort, and how far their crash states are looked at.
#![expect(clippy::unwrap_used, reason = "a test")]

pub mod changes;
pub mod tables;
pub mod transactions;

use crate::support::explore::Extent;
use siltstone_base::env::sim::CrashConfig;

/// So many states for each change of the disk; one of `second_every` crashes again.
pub fn extent(seed: u64, states_per_cut: usize, second_every: usize) -> Extent {
    let first =
        CrashConfig { seed, states_per_cut, random_subsets: 2, tail_cuts: 2, tears: 2, ..CrashConfig::default() };
    let second = CrashConfig { states_per_cut: 3, random_subsets: 1, ..first.clone() };
    Extent { first, second_every, second }
}
