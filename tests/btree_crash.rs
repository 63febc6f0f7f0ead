//! Every crash of the B-tree engine leaves an exact prefix of the commits, with every promised one in it, and whole trees.
//!
//! Scripts with small pages, a small pool and a small redo log run on a simulated disk that records every change. The disks that a crash
//! may leave are enumerated (torn and lost pages, cut tails, reordered names), each distinct one is recovered, read and
//! checked, and some of those recoveries crash again.

mod btree_support;

use btree_support::{Tally, explore, options, script};
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::{CrashConfig, CrashModel};
use siltstone_base::sync::{Mutex, Rank};

/// Distinct states that must be looked at.
const DISTINCT: usize = 10_000;

fn config(seed: u64) -> CrashConfig {
    CrashConfig { seed, states_per_cut: 6, random_subsets: 4, tail_cuts: 3, tears: 4, ..CrashConfig::default() }
}

#[test]
fn every_crash_leaves_a_prefix_of_the_commits_and_whole_trees() {
    let work: Vec<(u64, Durability)> =
        (1..=8).map(|seed| (seed, if seed % 2 == 0 { Durability::Os } else { Durability::Commit })).collect();
    let work = Mutex::new(Rank(1), work);
    let total = Mutex::new(Rank(2), Tally::default());
    let explore_all = || {
        loop {
            let Some((seed, durability)) = work.lock().pop() else { return };
            let ops = script(seed, 160, 300, true);
            let found = explore(&ops, &options(durability), &config(seed), 60);
            let found = found.unwrap_or_else(|message| panic!("script {seed}, {durability}: {message}"));
            let mut total = total.lock();
            total.images.extend(found.images);
            total.checked += found.checked;
            total.second += found.second;
            for (model, count) in found.models {
                *total.models.entry(model).or_default() += count;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = [(), ()].map(|()| scope.spawn(explore_all));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let tally = total.lock();
    println!("distinct crash states {}, checked {}, second {}", tally.images.len(), tally.checked, tally.second);
    for (model, count) in &tally.models {
        println!("  {} {model:?}: {count}", model.code());
    }
    assert!(tally.images.len() >= DISTINCT, "{}", tally.images.len());
    assert!(tally.second >= 500, "{}", tally.second);
    for model in CrashModel::ALL.into_iter().filter(|model| *model != CrashModel::StaleBytes) {
        assert!(tally.models.contains_key(&model), "{model:?}");
    }
}
