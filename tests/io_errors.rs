//! Every operation of a workload fails once, and from then on: the engine says what failed, shows nothing that was not
//! acknowledged, keeps what it promised, and goes on when the fault is gone.

mod harness;

use harness::faults::{AfterLie, Verdict, may_become_read_only, run_with_fault, run_with_lie};
use harness::script::Script;
use harness::workloads;
use siltstone_base::env::sim::{FaultKind, FaultPlan};
use siltstone_base::sync::{Mutex, Rank};
use std::collections::BTreeMap;

/// How many operations fail before a sticky fault ends by itself: an engine may wait for that.
const STICKY: u64 = 40;

/// One way in which operations fail.
#[derive(Debug, Clone, Copy)]
struct Fault {
    kind: FaultKind,
    sticky: bool,
    /// Looks at every so many operations.
    every: u64,
}

const FAULTS: [Fault; 10] = [
    Fault { kind: FaultKind::Io, sticky: false, every: 1 },
    Fault { kind: FaultKind::Io, sticky: true, every: 3 },
    Fault { kind: FaultKind::NoSpace, sticky: false, every: 1 },
    Fault { kind: FaultKind::NoSpace, sticky: true, every: 2 },
    Fault { kind: FaultKind::ShortWrite, sticky: false, every: 1 },
    Fault { kind: FaultKind::ShortWrite, sticky: true, every: 2 },
    Fault { kind: FaultKind::ShortWriteNoSpace, sticky: false, every: 1 },
    Fault { kind: FaultKind::SyncFailsVisible, sticky: false, every: 1 },
    Fault { kind: FaultKind::SyncFailsReverted, sticky: false, every: 1 },
    Fault { kind: FaultKind::WriteBackFails, sticky: false, every: 1 },
];

/// Runs that reached their fault, by fault and by how they ended.
type Tally = BTreeMap<(String, &'static str), usize>;

/// Lets one operation after the other fail until a run is over before its turn comes.
fn sweep(script: &Script, fault: Fault, tally: &mut Tally) {
    let mut after = 0;
    loop {
        let plan = FaultPlan::once(fault.kind, after).times(if fault.sticky { STICKY } else { 1 });
        let verdict = run_with_fault(script, plan).unwrap_or_else(|message| panic!("{message}"));
        let Some(verdict) = verdict else { return };
        judge(&verdict, fault, script, after);
        let name = format!("{:?}{}", fault.kind, if fault.sticky { ", sticky" } else { "" });
        *tally.entry((name, ending(&verdict))).or_default() += 1;
        after += fault.every;
    }
}

fn judge(verdict: &Verdict, fault: Fault, script: &Script, after: u64) {
    if !fault.sticky && verdict.read_only {
        let hit = verdict.hit;
        assert!(
            may_become_read_only(&hit, fault.kind),
            "{}: {fault:?} at {after}: read-only after {hit:?}",
            script.name
        );
    }
}

fn ending(verdict: &Verdict) -> &'static str {
    match (verdict.open_failed, verdict.read_only, verdict.failed_calls) {
        (true, ..) => "open failed",
        (_, true, _) => "read-only",
        (_, _, 0) => "nothing shown",
        _ => "calls failed",
    }
}

#[test]
fn every_operation_may_fail() {
    let scripts = ["wal", "compaction", "manifest", "reopen"].map(|kind| workloads::script(kind, 11));
    let work: Vec<(usize, Fault)> =
        (0..scripts.len()).flat_map(|script| FAULTS.iter().map(move |fault| (script, *fault))).collect();
    let work = Mutex::new(Rank(1), work);
    let sweep_all = || {
        let mut tally = Tally::new();
        loop {
            let Some((script, fault)) = work.lock().pop() else { return tally };
            sweep(&scripts[script], fault, &mut tally);
        }
    };
    let mut tally = Tally::new();
    std::thread::scope(|scope| {
        for thread in [(), ()].map(|()| scope.spawn(sweep_all)) {
            for (key, count) in thread.join().unwrap() {
                *tally.entry(key).or_default() += count;
            }
        }
    });
    for ((fault, ending), count) in &tally {
        println!("{fault}, {ending}: {count}");
    }
    let total: usize = tally.values().sum();
    println!("runs in which an operation failed: {total}");
    assert!(total >= 2_000, "{total}");
}

#[test]
fn a_device_that_lies_once_loses_commits_but_invents_none() {
    let mut tally: BTreeMap<AfterLie, usize> = BTreeMap::new();
    for script in ["wal", "compaction", "manifest", "families", "deep"].map(|kind| workloads::script(kind, 11)) {
        for after in 0.. {
            let outcomes = run_with_lie(&script, after).unwrap_or_else(|message| panic!("{message}"));
            let Some(outcomes) = outcomes else { break };
            for outcome in outcomes {
                *tally.entry(outcome).or_default() += 1;
            }
        }
    }
    println!("after a lie: {tally:?}");
    assert!(tally.values().sum::<usize>() >= 500, "{tally:?}");
    assert!(tally.len() > 1, "no lie had an effect: {tally:?}");
}
