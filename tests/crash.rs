//! Every crash leaves an exact prefix of the commits, with every synced one in it, the same for all families.
//!
//! Small scripts run on a simulated disk that records every change. After each change the disks that a crash may leave are enumerated (lost and
//! torn pages, cut tails, reordered names, stale bytes), each distinct one is recovered and read in full, and some of those recoveries crash again.

mod harness;

use harness::crash::{Class, Effort, Tally, explore, explore_run};
use harness::run::run_on;
use harness::workloads;
use siltstone_base::env::sim::{CrashConfig, CrashModel, SimDisk};
use siltstone_base::sync::{Mutex, Rank};
use std::collections::BTreeSet;

/// Distinct states that must be looked at in all, and in each class.
const DISTINCT: usize = 100_000;
const DISTINCT_PER_CLASS: usize = 1_000;

#[test]
fn every_crash_leaves_a_prefix_with_every_synced_commit() {
    let scripts = Mutex::new(Rank(1), workloads::scripts(4));
    let explore_all = || {
        let mut tally = Tally::default();
        loop {
            let Some(script) = scripts.lock().pop() else { return tally };
            match explore(&script, &Effort::default()) {
                Ok(found) => tally.merge(found),
                Err(message) => panic!("{message}"),
            }
        }
    };
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let threads = [(), ()].map(|()| scope.spawn(explore_all));
        for thread in threads {
            tally.merge(thread.join().unwrap());
        }
    });
    let distinct = tally.images.len();
    println!("distinct crash states {distinct}, outcomes checked {}", tally.checked);
    for (class, images) in &tally.classes {
        println!("  {class:?}: {}", images.len());
    }
    for (model, count) in &tally.models {
        println!("  {} {model:?}: {count}", model.code());
    }
    assert!(distinct >= DISTINCT, "{distinct}");
    for class in [Class::WalSwitch, Class::FlushInstall, Class::CompactionInstall, Class::ManifestRoll, Class::Recovery]
    {
        let count = tally.classes.get(&class).map_or(0, |images| images.len());
        assert!(count >= DISTINCT_PER_CLASS, "{class:?}: {count}");
    }
    let models: BTreeSet<CrashModel> = tally.models.keys().copied().collect();
    assert_eq!(models, BTreeSet::from(CrashModel::ALL));
}

#[test]
fn a_directory_that_the_database_creates_is_durable_with_it() {
    let script = workloads::script("wal", 1);
    let finished = run_on(&SimDisk::new(), &script).unwrap();
    let effort = Effort { first: CrashConfig { cuts: 0..60, ..Effort::default().first }, ..Effort::default() };
    let tally = explore_run(&script, finished, &effort).unwrap();
    assert!(tally.images.len() >= 300, "{}", tally.images.len());
}
