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
use siltstone_base::engine::conformance_all::{Openers, check_all};
use siltstone_base::env::Env;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::path::Path;
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
fn both_kinds_keep_what_every_engine_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    for sync in [false, true] {
        let transactions = TransactionDbOptions::default().write_options(crate::WriteOptions::default().sync(sync));
        let locking = |path: &Path| TransactionDb::open(path, &options, &[], &transactions);
        let openers = Openers {
            kv: Some(&|path| Ok(Box::new(locking(path)?))),
            transactional: Some(&|path| Ok(Box::new(locking(path)?))),
            ..Openers::default()
        };
        let left_out = ["tables", "unique indexes", "added indexes", "lazy tables"];
        assert_eq!(check_all(&openers, &dir.path().join(format!("locking {sync}"))).left_out, left_out);
        let optimistic = |path: &Path| OptimisticTransactionDb::open(path, &options, &[], &transactions);
        let openers = Openers {
            kv: Some(&|path| Ok(Box::new(optimistic(path)?))),
            transactional: Some(&|path| Ok(Box::new(optimistic(path)?))),
            ..Openers::default()
        };
        assert_eq!(check_all(&openers, &dir.path().join(format!("optimistic {sync}"))).left_out, left_out);
    }
}
