//! Every crash of the B-tree engine leaves an exact prefix of the commits, with every promised one in it, and whole trees.
//!
//! Scripts with small pages, a small pool and a small redo log run on a simulated disk that records every change: rows in several trees, transactions, tables with their indexes,
//! entries that wait in the change buffer. The disks that a crash may leave are enumerated (torn and lost pages, cut tails, reordered names), each distinct one is recovered, read
//! and checked, and some of those recoveries crash again. They are counted by class, and no class may be missing.

mod cases;

use crate::support::classes::{Last, Tally, When};
use crate::support::explore::{Extent, Outcome};
use crate::support::{explore_steps, options, script};
use cases::{changes, extent, tables, transactions};
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::{CrashConfig, CrashModel};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_btree::ChangeBuffering;

/// Distinct disks that must be looked at.
const DISTINCT: usize = 10_000;

/// One script and its crash states.
type Work = Box<dyn FnOnce() -> Outcome<Tally> + Send>;

fn rows(seed: u64) -> Outcome<Tally> {
    let durability = if seed.is_multiple_of(2) { Durability::Os } else { Durability::Commit };
    let first =
        CrashConfig { seed, states_per_cut: 6, random_subsets: 4, tail_cuts: 3, tears: 4, ..CrashConfig::default() };
    let second = CrashConfig { states_per_cut: 4, random_subsets: 2, tail_cuts: 2, tears: 3, ..CrashConfig::default() };
    let extent = Extent { first, second_every: 60, second };
    explore_steps(&script(seed, 160, 300, true), &options(durability), &extent)
}

fn work() -> Vec<(String, Work)> {
    let mut work: Vec<(String, Work)> = Vec::new();
    for seed in 1..=8 {
        work.push((format!("rows {seed}"), Box::new(move || rows(seed))));
    }
    for seed in 1..=5 {
        let look = move || transactions::look(seed, &extent(seed, 4, 250));
        work.push((format!("transactions {seed}"), Box::new(look)));
    }
    for seed in 1..=6 {
        work.push((format!("tables {seed}"), Box::new(move || tables::look(seed, &extent(seed, 3, 300)))));
    }
    let modes = [ChangeBuffering::Changes, ChangeBuffering::Purges, ChangeBuffering::All, ChangeBuffering::All];
    for (seed, mode) in (1..).zip(modes) {
        let look = move || changes::look(seed, mode, &extent(seed, 4, 100));
        work.push((format!("changes {seed}, {mode:?}"), Box::new(look)));
    }
    work
}

#[test]
fn every_crash_leaves_a_prefix_of_the_commits_and_whole_trees() {
    let work = Mutex::new(Rank(1), work());
    let total = Mutex::new(Rank(2), Tally::default());
    let look_at_all = || {
        loop {
            let Some((name, look)) = work.lock().pop() else { return };
            let found = look().unwrap_or_else(|message| panic!("script {name}: {message}"));
            total.lock().add(found);
        }
    };
    std::thread::scope(|scope| {
        let threads = [(), ()].map(|()| scope.spawn(look_at_all));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let tally = total.lock();
    println!("{}", *tally);
    assert!(tally.images.len() >= DISTINCT, "{}", tally.images.len());
    // What ran, and when it stopped.
    for (script, running, opening, settling) in [
        ("rows", 8_000, 1_000, 4_000),
        ("transactions", 3_500, 100, 600),
        ("tables", 2_000, 10, 300),
        ("changes", 900, 10, 100),
    ] {
        let count = |when| tally.count(|class| (class.script, class.when) == (script, when));
        let counts = [When::Running, When::Opening, When::Settling].map(count);
        assert!(
            counts.iter().zip([running, opening, settling]).all(|(count, floor)| *count >= floor),
            "{script}: {counts:?}"
        );
    }
    // What the disk did with what was not synced.
    for (model, floor) in [
        (CrashModel::SyncedOnly, 250),
        (CrashModel::ProcessDeath, 5_000),
        (CrashModel::TornTail, 1_500),
        (CrashModel::Pages, 3_000),
        (CrashModel::TornWrite, 5_000),
        (CrashModel::Metadata, 5_000),
        (CrashModel::StaleBytes, 1_000),
    ] {
        let count = tally.count(|class| class.model == model);
        assert!(count >= floor, "{model:?}: {count}");
    }
    // What it did last.
    for (last, floor) in [
        (Last::Redo, 7_000),
        (Last::RedoSync, 400),
        (Last::Doublewrite, 1_500),
        (Last::DoublewriteSync, 80),
        (Last::Pages, 9_000),
        (Last::PagesSync, 1_400),
        (Last::Names, 400),
    ] {
        let count = tally.count(|class| class.last == last);
        assert!(count >= floor, "{last:?}: {count}");
    }
    // Each kind of file was torn in its last write, and lost some of its pages and not others.
    for (model, last, floor) in [
        (CrashModel::TornWrite, Last::Redo, 2_000),
        (CrashModel::TornWrite, Last::Doublewrite, 700),
        (CrashModel::TornWrite, Last::Pages, 2_000),
        (CrashModel::Pages, Last::Redo, 300),
        (CrashModel::Pages, Last::Doublewrite, 200),
        (CrashModel::Pages, Last::Pages, 1_800),
    ] {
        let count = tally.count(|class| (class.model, class.last) == (model, last));
        assert!(count >= floor, "{model:?}, {last:?}: {count}");
    }
    // Recoveries that found prepared transactions, and changes that wait.
    for (script, floor) in [("transactions", 5_000), ("tables", 2_500), ("changes", 300)] {
        let count = tally.remarkable.get(script).copied().unwrap_or(0);
        assert!(count >= floor, "{script}: {count}");
    }
}
