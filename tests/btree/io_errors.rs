//! Every operation of a run of the B-tree engine fails once, and from then on: the engine says what failed, shows nothing that was not
//! acknowledged, keeps what it promised, goes on when the fault is gone, and is not marked as clean before it is.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use crate::support::faults::{Verdict, run_on_full_disk, run_with_fault, run_with_fault_on};
use crate::support::table::{self, TABLE, Verb};
use crate::support::{Draw, History, Life, Op, Runner, new_disk, options, script};
use siltstone_base::engine::Durability;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, SimDisk};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_btree::{ChangeBuffering, Counter, DbOptions, PageCompression, Shutdown};
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
        note(&verdict, &format!("{kind:?}, {times} times"), tally);
        after += every;
    }
}

fn note(verdict: &Verdict, fault: &str, tally: &mut Tally) {
    let ending = match verdict {
        Verdict { has_open_failed: true, .. } => "open failed",
        Verdict { is_read_only: true, .. } => "read-only",
        Verdict { failed_calls: 0, .. } => "nothing shown",
        _ => "calls failed",
    };
    *tally.entry((fault.to_owned(), ending)).or_default() += 1;
}

/// Runs `sweep` in two threads, prints what both found, and returns that.
fn in_two_threads(sweep: impl Fn() -> Tally + Sync) -> Tally {
    let mut tally = Tally::new();
    std::thread::scope(|scope| {
        for thread in [(), ()].map(|()| scope.spawn(&sweep)) {
            for (key, count) in thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                *tally.entry(key).or_default() += count;
            }
        }
    });
    for ((fault, ending), count) in &tally {
        println!("{fault}, {ending}: {count}");
    }
    tally
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
    let tally = in_two_threads(sweep_all);
    let total: usize = tally.values().sum();
    println!("runs in which an operation failed: {total}");
    assert!(total >= 4_000, "{total}");
}

/// Options under which most leaves of indexes are not in the pool.
fn options_of_table(durability: Durability) -> DbOptions {
    options(durability).redo_capacity_bytes(96 << 10).change_buffering(ChangeBuffering::All)
}

/// Rows that are drawn from.
const ROWS: u64 = 700;

/// A disk with a table of many rows, in a database that was closed.
fn disk_with_table(options: &DbOptions) -> (SimDisk, History) {
    let disk = new_disk();
    let life = Life::new(&disk, options);
    let mut runner = Runner::new(life).unwrap();
    let db = runner.db.as_ref().unwrap();
    db.create_table(&table::spec()).unwrap();
    runner.history.states[0].insert(TABLE.to_owned(), BTreeMap::new());
    let draw = &mut Draw(5);
    for first in (0..ROWS).step_by(4) {
        let rows = [0, 2].map(|more| (first + more, table::value(draw)));
        runner.step(&Op::Rows(Verb::Insert, rows.to_vec())).unwrap();
    }
    runner.db.take().unwrap().close().unwrap();
    runner.life.executor.abandon_all();
    let last = runner.history.last().clone();
    (disk, History { states: vec![last], commits: Vec::new(), barriers: Vec::new() })
}

/// Faults while changes of indexes wait and are merged, and which operations are tried.
const FAULTS_OF_TABLE: [(FaultKind, u64, u64); 6] = [
    (FaultKind::Io, 1, 29),
    (FaultKind::Io, STICKY, 97),
    (FaultKind::NoSpace, STICKY, 41),
    (FaultKind::ShortWrite, 1, 13),
    (FaultKind::SyncFailsReverted, 1, 5),
    (FaultKind::WriteBackFails, 1, 17),
];

fn script_of_table(seed: u64) -> Vec<Op> {
    let draw = &mut Draw(seed);
    (0..80).map(|_| table::step(draw, ROWS)).collect()
}

#[test]
fn operations_may_fail_while_changes_of_indexes_wait_and_are_merged() {
    let seeds = [(51, Durability::Os), (52, Durability::Commit)];
    let mut work = Vec::new();
    for (seed, durability) in seeds {
        let options = options_of_table(durability);
        let (disk, history) = disk_with_table(&options);
        // What the script does when nothing fails.
        let life = Life::new(&disk.after_process_death(), &options);
        let mut runner = Runner::new(life).unwrap();
        runner.history = history.clone();
        let mut counts = [0; 2];
        for op in script_of_table(seed) {
            let count = |runner: &Runner| {
                let metrics = runner.db.as_ref().unwrap().metrics();
                [Counter::ChangeBufferOps, Counter::ChangeBufferMerges].map(|counter| metrics.get(counter))
            };
            let before = count(&runner);
            runner.step(&op).unwrap();
            if !matches!(op, Op::Reopen) {
                (0..2).for_each(|at| counts[at] += count(&runner)[at] - before[at]);
            }
        }
        println!("script {seed}: {} changes kept back, {} merges", counts[0], counts[1]);
        assert!(counts[0] >= 20 && counts[1] >= 20, "{counts:?}");
        work.extend(FAULTS_OF_TABLE.map(|fault| (seed, options.clone(), disk.clone(), history.clone(), fault)));
    }
    let work = Mutex::new(Rank(1), work);
    let sweep_all = || {
        let mut tally = Tally::new();
        loop {
            let Some((seed, options, disk, history, (kind, times, every))) = work.lock().pop() else { return tally };
            for after in (0..).step_by(every as usize) {
                let plan = FaultPlan::once(kind, after).times(times);
                let run = run_with_fault_on(
                    &disk.after_process_death(),
                    history.clone(),
                    &script_of_table(seed),
                    &options,
                    plan,
                );
                let verdict = run.unwrap_or_else(|message| panic!("script {seed} of a table: {message}"));
                let Some(verdict) = verdict else { break };
                note(&verdict, &format!("{kind:?}, {times} times, table"), &mut tally);
            }
        }
    };
    let tally = in_two_threads(sweep_all);
    let total: usize = tally.values().sum();
    println!("runs with a table in which an operation failed: {total}");
    assert!(total >= 100, "{total}");
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
