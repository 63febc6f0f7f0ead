//! Every operation of a run of the B-tree engine fails once, and from then on: the engine says what failed, shows nothing that was not
//! acknowledged, keeps what it promised, goes on when the fault is gone, and is not marked as clean before it is.

mod btree_support;

use btree_support::faults::{Verdict, run_on_full_disk, run_with_fault};
use btree_support::{Op, options, script};
use siltstone_base::engine::Durability;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_btree::{DbOptions, PageCompression, Shutdown};
use std::collections::BTreeMap;

/// The options of a script: one of them compresses its pages, one keeps its resident set and closes slowly.
fn options_of(seed: u64, durability: Durability) -> DbOptions {
    let codec = if seed == 42 { PageCompression::Lz4 } else { PageCompression::None };
    let options = options(durability).page_compression(codec);
    if seed != 43 {
        return options;
    }
    let options = options.buffer_pool_dump_at_shutdown(true).buffer_pool_load_at_startup(true);
    options.shutdown(Shutdown::Slow).read_ahead_threshold(1).random_read_ahead(true)
}

/// How many operations fail before a sticky fault ends by itself: an engine may wait for that.
const STICKY: u64 = 40;

/// Scripts, each with another durability.
const SEEDS: [(u64, Durability); 3] =
    [(41, Durability::Commit), (42, Durability::Os), (43, Durability::EveryMillis(20))];

/// A way in which operations fail, how often it does, and which operations are tried: every so many.
const FAULTS: [(FaultKind, u64, u64); 10] = [
    (FaultKind::Io, 1, 1),
    (FaultKind::Io, STICKY, 3),
    (FaultKind::NoSpace, 1, 2),
    (FaultKind::NoSpace, STICKY, 3),
    (FaultKind::ShortWrite, 1, 1),
    (FaultKind::ShortWrite, STICKY, 3),
    (FaultKind::ShortWriteNoSpace, 1, 2),
    (FaultKind::SyncFailsVisible, 1, 1),
    (FaultKind::SyncFailsReverted, 1, 1),
    (FaultKind::WriteBackFails, 1, 1),
];

type Tally = BTreeMap<(String, &'static str), usize>;

fn sweep(seed: u64, durability: Durability, fault: (FaultKind, u64, u64), tally: &mut Tally) {
    let (kind, times, every) = fault;
    let ops: Vec<Op> = script(seed, 140, 120, true);
    let mut after = 0;
    loop {
        let plan = FaultPlan::once(kind, after).times(times);
        let verdict = run_with_fault(&ops, &options_of(seed, durability), plan);
        let verdict = verdict.unwrap_or_else(|message| panic!("script {seed}, {durability}: {message}"));
        let Some(verdict) = verdict else { return };
        if times == 1 && verdict.is_read_only {
            assert!(may_become_read_only(&verdict, kind), "script {seed}: {plan:?}: read-only after {verdict:?}");
        }
        let ending = match verdict {
            Verdict { has_open_failed: true, .. } => "open failed",
            Verdict { is_read_only: true, .. } => "read-only",
            Verdict { failed_calls: 0, .. } => "nothing shown",
            _ => "calls failed",
        };
        *tally.entry((format!("{kind:?}, {times} times"), ending)).or_default() += 1;
        after += every;
    }
}

/// Whether an engine may take no more writes because one operation failed: a write or sync of the redo log, or any sync.
fn may_become_read_only(verdict: &Verdict, kind: FaultKind) -> bool {
    match (verdict.hit.class, verdict.hit.file) {
        (OpClass::Sync | OpClass::SyncDir, _) | (OpClass::Write, FileKind::Redo) => true,
        (OpClass::Write, _) => kind == FaultKind::WriteBackFails,
        _ => false,
    }
}

#[test]
fn every_operation_may_fail() {
    let work: Vec<_> = SEEDS.iter().flat_map(|seed| FAULTS.iter().map(move |fault| (*seed, *fault))).collect();
    let work = Mutex::new(Rank(1), work);
    let sweep_all = || {
        let mut tally = Tally::new();
        loop {
            let Some(((seed, durability), fault)) = work.lock().pop() else { return tally };
            sweep(seed, durability, fault, &mut tally);
        }
    };
    let mut tally = Tally::new();
    std::thread::scope(|scope| {
        for thread in [(), ()].map(|()| scope.spawn(sweep_all)) {
            for (key, count) in thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                *tally.entry(key).or_default() += count;
            }
        }
    });
    for ((fault, ending), count) in &tally {
        println!("{fault}, {ending}: {count}");
    }
    let total: usize = tally.values().sum();
    println!("runs in which an operation failed: {total}");
    assert!(total >= 4_000, "{total}");
}

#[test]
fn a_full_disk_is_said_and_survived() {
    let mut failed = 0;
    for (seed, durability) in SEEDS {
        let ops = script(seed, 300, 400, true);
        for pages in (1..).step_by(2) {
            let verdict = run_on_full_disk(&ops, &options_of(seed, durability), pages * 4096);
            let verdict = verdict.unwrap_or_else(|message| panic!("script {seed}, {durability}: {message}"));
            let Some(calls) = verdict else { break };
            failed += calls;
        }
    }
    println!("calls that found the disk full: {failed}");
    assert!(failed >= 50, "{failed}");
}
