//! Transactions through their doors.

mod batches;
mod conflicts;
mod kept_wals;
mod large;
mod memory;
mod prepared;
mod spill;
mod spill_crash;
mod threads;

use crate::{
    ColumnFamilyOptions, DbOptions, ErrorKind, FlushOptions, Isolation, Iter, OptimisticTransactionDb, Result,
    TransactionDb, TransactionDbOptions, TransactionOptions, UInt64AddOperator,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::Transactional;
use siltstone_base::engine::conformance_transactions::{check_optimistic, check_transactional};
use siltstone_base::env::Env;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;
use std::time::Duration;

const LEVELS: [Isolation; 2] = [Isolation::ReadCommitted, Isolation::Snapshot];

fn options(disk: &SimDisk) -> DbOptions {
    let env: Arc<dyn Env> = disk.env();
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    DbOptions::default()
        .create_if_missing(true)
        .create_missing_column_families(true)
        .env(Some(env))
        .executor(Some(Arc::new(StepExecutor::new(clock))))
}

fn family_options() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().merge_operator(Some(Arc::new(UInt64AddOperator)))
}

fn open_with(disk: &SimDisk, transactions: &TransactionDbOptions) -> Result<TransactionDb> {
    let families = [("default", family_options()), ("other", family_options())];
    TransactionDb::open("/db", &options(disk), &families, transactions)
}

fn open(disk: &SimDisk) -> TransactionDb {
    open_with(disk, &TransactionDbOptions::default()).unwrap()
}

fn open_optimistic(disk: &SimDisk) -> OptimisticTransactionDb {
    let families = [("default", family_options()), ("other", family_options())];
    OptimisticTransactionDb::open("/db", &options(disk), &families, &TransactionDbOptions::default()).unwrap()
}

/// Transactions that do not wait for long.
fn on(isolation: Isolation) -> TransactionOptions {
    TransactionOptions::new(isolation).lock_timeout(Duration::from_millis(1))
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// What an iterator shows, in both directions.
fn rows(mut iter: Iter) -> String {
    let row = |iter: &Iter| {
        format!("{}={}", String::from_utf8_lossy(iter.key()), String::from_utf8_lossy(iter.value()).escape_default())
    };
    let (mut there, mut back) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        there.push(row(&iter));
        iter.next();
    }
    iter.seek_to_last();
    while iter.valid() {
        back.push(row(&iter));
        iter.prev();
    }
    iter.status().unwrap();
    back.reverse();
    assert_eq!(there, back);
    there.join(" ")
}

fn all(db: &TransactionDb) -> String {
    rows(db.db().iter(&Default::default()).unwrap())
}

fn flush(db: &TransactionDb) {
    db.db().flush(&FlushOptions::default()).unwrap();
}

#[test]
fn an_engine_of_transactions() {
    let dir = tempfile::tempdir().unwrap();
    for sync in [false, true] {
        let transactions = TransactionDbOptions::default().write_options(crate::WriteOptions::default().sync(sync));
        let open = |dir: &std::path::Path| -> Result<Box<dyn Transactional>> {
            let options = DbOptions::default().create_if_missing(true);
            Ok(Box::new(TransactionDb::open(dir, &options, &[], &transactions)?))
        };
        check_transactional(&open, &dir.path().join(format!("{sync}")));
    }
}

#[test]
fn an_engine_of_optimistic_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let open = |dir: &std::path::Path| -> Result<Box<dyn Transactional>> {
        let options = DbOptions::default().create_if_missing(true);
        Ok(Box::new(OptimisticTransactionDb::open(dir, &options, &[], &TransactionDbOptions::default())?))
    };
    check_optimistic(&open, dir.path());
    let open = |dir: &std::path::Path| -> Result<Box<dyn siltstone_base::engine::Kv>> {
        let options = DbOptions::default().create_if_missing(true);
        Ok(Box::new(OptimisticTransactionDb::open(dir, &options, &[], &TransactionDbOptions::default())?))
    };
    siltstone_base::engine::conformance::check_kv(&open, &dir.path().join("kv"));
}

#[test]
fn an_engine_of_ordered_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let open = |dir: &std::path::Path| -> Result<Box<dyn siltstone_base::engine::Kv>> {
        let options = DbOptions::default().create_if_missing(true);
        Ok(Box::new(TransactionDb::open(dir, &options, &[], &TransactionDbOptions::default())?))
    };
    siltstone_base::engine::conformance::check_kv(&open, dir.path());
}
