//! Isolation on real threads: lists that transactions of both engines append to, in which nothing is found that their level forbids.

use crate::isolation_support::checker::Anomaly;
use crate::isolation_support::sessions::{AnyEngine, Locking, Optimistic, families};
use crate::isolation_support::threads::{Begin, Done, Lists, Op, Stamp, run};
use siltstone_base::engine::{Isolation, TransactionOptions, Transactional};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::plant::{PlantedBug, with_planted};
use siltstone_lsm::{
    AppendOperator, ColumnFamilyOptions, DbOptions, OptimisticTransactionDb, TransactionDb, TransactionDbOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/db";

/// Histories of each engine.
fn histories() -> u64 {
    std::env::var("SILTSTONE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// Long: who waits gets the lock, or is in a circle.
fn begin_options(level: Isolation) -> TransactionOptions {
    TransactionOptions::new(level).lock_timeout(Duration::from_secs(600))
}

/// What is wrong with some histories, and how many transactions committed in all.
#[expect(clippy::print_stdout, reason = "what threads did does not come again")]
fn look(begin: Begin<'_>, count: u64, seed: u64) -> (BTreeMap<u64, BTreeSet<Anomaly>>, usize) {
    let (mut found, mut committed) = (BTreeMap::new(), 0);
    for number in 0..count {
        let level = if number.is_multiple_of(2) { Isolation::Snapshot } else { Isolation::ReadCommitted };
        let lists = run(begin, number, level, seed ^ (number << 20)).unwrap();
        committed += lists.transactions.iter().filter(|done| done.committed.is_some()).count();
        let anomalies = lists.anomalies(level);
        if !anomalies.is_empty() {
            println!("history {number}: {lists:?}");
            found.insert(number, anomalies);
        }
    }
    (found, committed)
}

fn options(disk: &SimDisk) -> DbOptions {
    DbOptions::default().create_if_missing(true).create_missing_column_families(true).env(Some(disk.env()))
}

/// With an operator that appends words, and small memtables.
fn lsm_families() -> [(&'static str, ColumnFamilyOptions); 2] {
    let family = ColumnFamilyOptions::default()
        .merge_operator(Some(Arc::new(AppendOperator::new(" "))))
        .write_buffer_size(64 << 10)
        .level0_file_num_compaction_trigger(2);
    [("default", family.clone()), ("other", family)]
}

/// With it some transactions spill: lists have some hundred bytes.
fn small() -> TransactionDbOptions {
    TransactionDbOptions::default().max_transaction_bytes(1024)
}

fn with_locks<T>(transactions: &TransactionDbOptions, work: impl FnOnce(Begin<'_>) -> T) -> T {
    let db = TransactionDb::open(DIR, &options(&SimDisk::new()), &lsm_families(), transactions).unwrap();
    let families = families(db.db());
    work(&|level| {
        let (transaction, db, families) = (db.begin(&begin_options(level)), db.clone(), families.clone());
        Ok(Box::new(Locking { transaction, db, families }))
    })
}

fn without_locks<T>(transactions: &TransactionDbOptions, work: impl FnOnce(Begin<'_>) -> T) -> T {
    let db = OptimisticTransactionDb::open(DIR, &options(&SimDisk::new()), &lsm_families(), transactions).unwrap();
    let families = families(db.db());
    work(&|level| Ok(Box::new(Optimistic { transaction: db.begin(&begin_options(level)), families: families.clone() })))
}

fn with_btree<T>(work: impl FnOnce(Begin<'_>) -> T) -> T {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    let options = siltstone_btree::DbOptions::default().create_if_missing(true).env(Some(disk.env()));
    let db = siltstone_btree::Db::open(DIR, &options).unwrap();
    let decide = |name: &[u8], commits: bool| match commits {
        true => db.commit_prepared(name),
        false => db.rollback_prepared(name),
    };
    work(&|level| {
        let transaction = Transactional::begin(&db, &begin_options(level))?;
        Ok(Box::new(AnyEngine { transaction, decide: Some(&decide) }))
    })
}

fn check(begin: Begin<'_>) {
    check_some(begin, histories());
}

fn check_some(begin: Begin<'_>, count: u64) {
    let seed = std::env::var("SILTSTONE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(11);
    let (found, committed) = look(begin, count, seed);
    assert!(found.is_empty(), "seed {seed}: {found:?}");
    assert!(committed as u64 > 8 * count, "{committed} transactions committed in {count} histories");
}

#[test]
fn lists_of_the_lsm_engine_with_locks() {
    with_locks(&TransactionDbOptions::default(), check);
}

#[test]
fn lists_of_the_lsm_engine_without_locks() {
    without_locks(&TransactionDbOptions::default(), check);
}

#[test]
fn lists_of_the_lsm_engine_with_transactions_that_spill() {
    with_locks(&small(), |begin| check_some(begin, histories() / 4));
    without_locks(&small(), |begin| check_some(begin, histories() / 4));
}

#[test]
fn lists_of_the_btree_engine() {
    with_btree(check);
}

/// An engine that lets transactions change rows that changed since they began.
#[test]
fn lists_show_what_an_engine_forgets_to_check() {
    let found = with_planted(PlantedBug::ConflictIsNotChecked, || {
        without_locks(&TransactionDbOptions::default(), |begin| look(begin, 40, 5).0)
    });
    let all: BTreeSet<Anomaly> = found.into_values().flatten().collect();
    assert!(all.contains(&Anomaly::LostUpdate), "{all:?}");
}

/// A history by hand: transactions by what they saw, `key:stamp,stamp` or `key:?` where they did not look, with `+` behind it where they append, all at the same time; those that begin with `!` are rolled back.
fn lists(transactions: &[&str], left: &[(u64, &[Stamp])]) -> Lists {
    let stamps = |text: &str| -> Vec<Stamp> {
        let words = text.split(',').filter_map(|word| word.split_once('.'));
        words.map(|(id, number)| (id.parse().unwrap(), number.parse().unwrap())).collect()
    };
    let op = |id: usize, number: usize, word: &str| {
        let (key, seen) = word.trim_end_matches('+').split_once(':').unwrap();
        let appended = word.ends_with('+').then_some((id, number));
        Op { key: key.parse().unwrap(), seen: (seen != "?").then(|| stamps(seen)), appended, since: 10 }
    };
    let done = |(id, text): (usize, &&str)| {
        let words = text.trim_start_matches('!').split_whitespace().enumerate();
        let committed = (!text.starts_with('!')).then_some((20, 30));
        Done { begun: (0, 25), committed, ops: words.map(|(number, word)| op(id, number, word)).collect() }
    };
    Lists {
        transactions: transactions.iter().enumerate().map(done).collect(),
        lists: left.iter().map(|(key, stamps)| (*key, stamps.to_vec())).collect(),
    }
}

#[test]
fn lists_say_what_is_wrong_with_them() {
    use Anomaly::*;
    let check = |lists: Lists, committed: &[Anomaly], snapshot: &[Anomaly]| {
        let found = [Isolation::ReadCommitted, Isolation::Snapshot].map(|level| lists.anomalies(level));
        assert_eq!(found[0], committed.iter().copied().collect(), "{lists:?}");
        assert_eq!(found[1], snapshot.iter().copied().collect(), "{lists:?}");
    };
    // Who does not look appends all the same, and sees it then; who is not seen where it should be is lost.
    check(lists(&["0:?+", "0:?+ 0:0.0,1.0"], &[(0, &[(0, 0), (1, 0)])]), &[], &[]);
    check(lists(&["0:?+ 0:"], &[(0, &[(0, 0)])]), &[WrongRead], &[WrongRead]);
    check(lists(&["0:?+", "0:?+"], &[(0, &[(0, 0)])]), &[LostUpdate], &[LostUpdate]);
    // One after the other, its own append, write skew.
    check(lists(&["0:+", "0:0.0+"], &[(0, &[(0, 0), (1, 0)])]), &[], &[]);
    check(lists(&["0:+ 0:0.0+"], &[(0, &[(0, 0), (0, 1)])]), &[], &[]);
    check(lists(&["0: 1:+", "1: 0:+"], &[(0, &[(1, 1)]), (1, &[(0, 1)])]), &[], &[]);
    // An append that is gone; one that was rolled back; one that is there twice.
    check(lists(&["0:+", "0:+"], &[(0, &[(1, 0)])]), &[LostUpdate], &[LostUpdate]);
    check(lists(&["!0:+", "0:0.0"], &[(0, &[])]), &[AbortedRead], &[AbortedRead]);
    check(lists(&["!0:+"], &[(0, &[(0, 0)])]), &[WrongVersion], &[WrongVersion]);
    check(lists(&["0:+"], &[(0, &[(0, 0), (0, 0)])]), &[WrongVersion], &[WrongVersion]);
    // Half of a transaction is seen; half of its keys are; its own append is not.
    check(
        lists(&["0:+ 0:0.0+", "0:0.0"], &[(0, &[(0, 0), (0, 1)])]),
        &[IntermediateRead],
        &[IntermediateRead, SingleAntiDependency],
    );
    check(lists(&["0:+ 1:+", "0: 1:0.1"], &[(0, &[(0, 0)]), (1, &[(0, 1)])]), &[], &[SingleAntiDependency]);
    check(lists(&["0:+ 0:"], &[(0, &[(0, 0)])]), &[WrongRead], &[WrongRead]);
    // Each sees what the other wrote, or replaces it.
    let flow = lists(&["0:+ 1:1.0", "1:+ 0:0.0"], &[(0, &[(0, 0)]), (1, &[(1, 0)])]);
    check(flow, &[InformationCycle], &[InformationCycle]);
    // Too old, too new.
    let mut stale = lists(&["0:+", "0:"], &[(0, &[(0, 0)])]);
    (stale.transactions[0].committed, stale.transactions[1].begun) = (Some((1, 2)), (5, 25));
    check(stale, &[StaleRead], &[NotOfTheSnapshot]);
    let mut early = lists(&["0:+", "0:0.0"], &[(0, &[(0, 0)])]);
    early.transactions[0].committed = Some((27, 30));
    check(early, &[], &[NotOfTheSnapshot]);
}
