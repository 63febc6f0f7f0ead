//! Isolation: histories of random transactions beside one another on both engines, in which an independent checker finds nothing that their level forbids.
//!
//! Sessions take turns on one thread, as a seed draws them, and background work runs between their steps; or each has a thread of its own, and locks are waited for.
//! `scripts/isolation-many` runs more of them.

#![expect(clippy::unwrap_used, reason = "a test")]

mod isolation_cases;
mod isolation_support;

use isolation_support::checker::{Anomaly, History, Op, Stamp, Transaction};
use isolation_support::engines::{Engine, btree, lsm, lsm_spilling, optimistic, optimistic_spilling};
use isolation_support::run::{Draw, run};
use siltstone_base::engine::Isolation;
use siltstone_base::plant::{PlantedBug, with_planted};
use std::collections::{BTreeMap, BTreeSet};

/// Histories that one database sees.
const PER_DATABASE: u64 = 250;

/// Histories of each engine.
fn histories() -> u64 {
    std::env::var("SILTSTONE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

fn level_of(number: u64) -> Isolation {
    if number.is_multiple_of(2) { Isolation::Snapshot } else { Isolation::ReadCommitted }
}

/// What is wrong with `count` histories, each with its number; and how many transactions committed in all of them.
fn look_for_anomalies(open: fn() -> Engine, seed: u64, count: u64) -> (Vec<(u64, BTreeSet<Anomaly>)>, usize) {
    let (mut found, mut committed) = (Vec::new(), 0);
    let mut engine = open();
    for number in 0..count {
        if number > 0 && number.is_multiple_of(PER_DATABASE) {
            engine = open();
        }
        let level = level_of(number);
        let history = match run(&engine, number, level, Draw(seed ^ (number << 20)).next()) {
            Ok(history) => history,
            Err(error) => panic!("{}, seed {seed}, history {number}: {error}", engine.name),
        };
        committed += history.transactions.iter().filter(|transaction| transaction.is_committed).count();
        let anomalies = history.anomalies(level);
        if !anomalies.is_empty() {
            found.push((number, anomalies));
        }
    }
    (found, committed)
}

fn check(open: fn() -> Engine) {
    check_some(open, histories());
}

fn check_some(open: fn() -> Engine, count: u64) {
    let seed = std::env::var("SILTSTONE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let (found, committed) = look_for_anomalies(open, seed, count);
    assert!(found.is_empty(), "seed {seed}: {found:?}");
    assert!(committed as u64 > 4 * count, "{committed} transactions committed in {count} histories");
}

#[test]
fn the_lsm_engine_with_locks() {
    check(lsm);
}

#[test]
fn the_lsm_engine_without_locks() {
    check(optimistic);
}

/// Transactions that are larger than memory, among those that are not.
#[test]
fn the_lsm_engine_with_transactions_that_spill() {
    check_some(lsm_spilling, histories() / 4);
    check_some(optimistic_spilling, histories() / 4);
}

#[test]
fn the_btree_engine() {
    check(btree);
}

/// An engine that lets transactions change rows that changed since they began.
#[test]
fn the_checker_finds_what_an_engine_forgets_to_check() {
    for open in [lsm, lsm_spilling, optimistic, optimistic_spilling, btree] {
        with_planted(PlantedBug::ConflictIsNotChecked, || {
            let (found, _) = look_for_anomalies(open, 3, 100);
            let all: BTreeSet<Anomaly> = found.iter().flat_map(|(_, anomalies)| anomalies.iter().copied()).collect();
            let expected = [Anomaly::SingleAntiDependency, Anomaly::BothChanged];
            assert!(expected.iter().all(|anomaly| all.contains(anomaly)), "{}: {all:?}", open().name);
        });
    }
}

/// A history by hand: transactions by their operations, and the versions that were there. Operations are `r` or `u` (for update) or `w` or `d` (delete), a key, and what was read: `-`
/// for nothing, or `transaction.operation`. All run at the same time unless `serial`; those that begin with `!` are rolled back.
fn history(transactions: &[&str], versions: &[(u8, &[(usize, usize)])], serial: bool) -> History {
    let op = |at: usize, word: &str| {
        let key = word.as_bytes()[1] - b'0';
        let seen: Stamp = word.get(3..).filter(|seen| *seen != "-").map(|seen| {
            let (index, number) = seen.split_once('.').unwrap();
            (index.parse().unwrap(), number.parse().unwrap())
        });
        match &word[..1] {
            kind @ ("w" | "d") => Op::Write { key, deletes: kind == "d" },
            kind => Op::Read { key, seen, for_update: kind == "u", at, newest: seen },
        }
    };
    let transaction = |(index, text): (usize, &&str)| {
        let begun = if serial { 2 * index } else { index };
        let words = text.trim_start_matches('!').split_whitespace();
        Transaction {
            begun,
            ended: if serial { 2 * index + 1 } else { 100 + index },
            is_committed: !text.starts_with('!'),
            ops: words.map(|word| op(begun, word)).collect(),
        }
    };
    let mut all: BTreeMap<u8, Vec<Stamp>> = BTreeMap::from([(0, vec![None]), (1, vec![None])]);
    for (key, stamps) in versions {
        all.get_mut(key).unwrap().extend(stamps.iter().map(|stamp| Some(*stamp)));
    }
    History { transactions: transactions.iter().enumerate().map(transaction).collect(), versions: all }
}

#[test]
fn the_checker_knows_the_anomalies() {
    let check = |history: History, committed: &[Anomaly], snapshot: &[Anomaly]| {
        let found = [Isolation::ReadCommitted, Isolation::Snapshot].map(|level| history.anomalies(level));
        assert_eq!(found[0], committed.iter().copied().collect(), "{history:?}");
        assert_eq!(found[1], snapshot.iter().copied().collect(), "{history:?}");
    };
    use Anomaly::*;
    // One after the other; and write skew, which both levels allow.
    check(history(&["r0:- w0", "r0:0.1 w0"], &[(0, &[(0, 1), (1, 1)])], true), &[], &[]);
    check(history(&["r0:- r1:- w0", "r0:- r1:- w1"], &[(0, &[(0, 2)]), (1, &[(1, 2)])], false), &[], &[]);
    // A lost update, by a read that locks and by one that does not.
    let lost = &[(0, &[(0, 1), (1, 1)][..])];
    check(history(&["r0:- w0", "r0:- w0"], lost, false), &[], &[SingleAntiDependency, BothChanged]);
    let locked = [LostUpdate, SingleAntiDependency, BothChanged];
    check(history(&["u0:- w0", "u0:- w0"], lost, false), &[LostUpdate], &locked);
    // A row that was read for update and not changed, and was changed by another; one that came and went since.
    check(history(&["w0", "u0:- w1"], &[(0, &[(0, 0)]), (1, &[(1, 1)])], false), &[LostUpdate], &[LostUpdate]);
    let gone = history(&["r0:- r1:- w0", "w0 w1", "d0"], &[(0, &[(1, 0), (2, 0), (0, 2)]), (1, &[(1, 1)])], false);
    check(gone, &[], &[SingleAntiDependency, BothChanged]);
    // An old version where each read sees the newest one.
    let mut stale = history(&["w0", "r0:-"], &[(0, &[(0, 0)])], true);
    if let Some(Op::Read { newest, .. }) = stale.transactions[1].ops.first_mut() {
        *newest = Some((0, 0));
    }
    check(stale, &[StaleRead], &[NotOfTheSnapshot]);
    // Half of a transaction is read.
    let skew = history(&["w0 w1", "r0:- r1:0.1"], &[(0, &[(0, 0)]), (1, &[(0, 1)])], false);
    check(skew, &[], &[SingleAntiDependency, NotOfTheSnapshot]);
    // Each replaces what the other wrote.
    let dirty = history(&["w0 w1", "w0 w1"], &[(0, &[(0, 0), (1, 0)]), (1, &[(1, 1), (0, 1)])], false);
    check(dirty, &[WriteCycle, InformationCycle], &[WriteCycle, InformationCycle, BothChanged]);
    // Each sees what the other wrote.
    let flow = history(&["w0 r1:1.0", "w1 r0:0.0"], &[(0, &[(0, 0)]), (1, &[(1, 0)])], false);
    check(flow, &[InformationCycle], &[InformationCycle, NotOfTheSnapshot]);
    // What was rolled back, what was replaced before the commit, what nobody wrote.
    check(history(&["!w0", "r0:0.0"], &[], true), &[AbortedRead], &[AbortedRead, NotOfTheSnapshot]);
    let half = history(&["w0 w0", "r0:0.0"], &[(0, &[(0, 1)])], true);
    check(half, &[IntermediateRead], &[IntermediateRead, NotOfTheSnapshot]);
    check(history(&["r0:7.7"], &[], true), &[WrongRead], &[WrongRead]);
    check(history(&["w0 r0:-"], &[(0, &[(0, 0)])], true), &[WrongRead], &[WrongRead]);
    // A commit that left nothing, and a version that nobody committed.
    check(history(&["w0"], &[], true), &[WrongVersion], &[WrongVersion]);
    check(history(&["!w0"], &[(0, &[(0, 0)])], true), &[WrongVersion], &[WrongVersion]);
}
