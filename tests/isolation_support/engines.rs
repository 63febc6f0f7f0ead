//! The engines whose histories are checked, each on a simulated disk and on one thread.

use siltstone_base::Result;
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::{Isolation, Kv, Transaction, TransactionOptions, Transactional};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_lsm::{ColumnFamilyOptions, DbOptions, FlushOptions, TransactionDbOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

type Begin = dyn Fn(Isolation) -> Result<Box<dyn Transaction>>;
type Read = dyn Fn(&[u8]) -> Result<Option<Vec<u8>>>;

/// An engine as sessions see it.
pub struct Engine {
    pub name: &'static str,
    pub begin: Box<Begin>,
    /// The value of a key, outside of every transaction.
    pub read: Box<Read>,
    /// Lets background work go on; what of it, the number says.
    pub pause: Box<dyn Fn(u64)>,
    /// Bytes by which values are longer than they need be.
    pub padding: usize,
}

const DIR: &str = "/db";

fn begin_options(level: Isolation) -> TransactionOptions {
    TransactionOptions::new(level).lock_timeout(Duration::from_micros(1))
}

fn read_of(kv: &impl Kv, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut value = Vec::new();
    let found = kv.get(key, &mut value)?;
    Ok(found.then_some(value))
}

fn executor() -> Arc<StepExecutor> {
    Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))))
}

fn lsm_options(disk: &SimDisk, executor: &Arc<StepExecutor>) -> (DbOptions, ColumnFamilyOptions) {
    let shared: Arc<dyn Executor> = Arc::<StepExecutor>::clone(executor);
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(shared));
    let family = ColumnFamilyOptions::default()
        .write_buffer_size(16 << 10)
        .level0_file_num_compaction_trigger(2)
        .max_bytes_for_level_base(32 << 10)
        .target_file_size_base(8 << 10);
    (options, family)
}

/// With these, and values that are [padded](Engine::padding), a transaction spills with its second write.
const SMALL: usize = 1024;

/// The LSM engine with locks.
pub fn lsm() -> Engine {
    lsm_with(&TransactionDbOptions::default())
}

/// The same, whose transactions are larger than memory.
pub fn lsm_spilling() -> Engine {
    let transactions = TransactionDbOptions::default().max_transaction_bytes(SMALL);
    Engine { name: "lsm, spilling", padding: SMALL / 2, ..lsm_with(&transactions) }
}

fn lsm_with(transactions: &TransactionDbOptions) -> Engine {
    let (disk, executor) = (SimDisk::new(), executor());
    let (options, family) = lsm_options(&disk, &executor);
    let families = [("default", family)];
    let db = siltstone_lsm::TransactionDb::open(DIR, &options, &families, transactions).unwrap();
    let (reader, flusher) = (db.clone(), db.clone());
    Engine {
        name: "lsm",
        begin: Box::new(move |level| Transactional::begin(&db, &begin_options(level))),
        read: Box::new(move |key| read_of(&reader, key)),
        pause: Box::new(move |draw| match draw % 3 {
            0 => flusher.db().flush(&FlushOptions::default()).unwrap(),
            1 => flusher.db().wait_for_background_work().unwrap(),
            _ => drop(executor.step()),
        }),
        padding: 0,
    }
}

/// The LSM engine without locks.
pub fn optimistic() -> Engine {
    optimistic_with(&TransactionDbOptions::default())
}

/// The same, whose transactions are larger than memory.
pub fn optimistic_spilling() -> Engine {
    let transactions = TransactionDbOptions::default().max_transaction_bytes(SMALL);
    Engine { name: "lsm, optimistic, spilling", padding: SMALL / 2, ..optimistic_with(&transactions) }
}

fn optimistic_with(transactions: &TransactionDbOptions) -> Engine {
    let (disk, executor) = (SimDisk::new(), executor());
    let (options, family) = lsm_options(&disk, &executor);
    let db = siltstone_lsm::OptimisticTransactionDb::open(DIR, &options, &[("default", family)], transactions).unwrap();
    let (reader, flusher) = (db.clone(), db.clone());
    Engine {
        name: "lsm, optimistic",
        begin: Box::new(move |level| Ok(Box::new(db.begin(&begin_options(level))))),
        read: Box::new(move |key| Ok(reader.db().get(key)?.map(|value| value.to_vec()))),
        pause: Box::new(move |draw| match draw % 3 {
            0 => flusher.db().flush(&FlushOptions::default()).unwrap(),
            1 => flusher.db().wait_for_background_work().unwrap(),
            _ => drop(executor.step()),
        }),
        padding: 0,
    }
}

/// The B-tree engine.
pub fn btree() -> Engine {
    let (disk, executor) = (SimDisk::new(), executor());
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    let shared: Arc<dyn Executor> = Arc::<StepExecutor>::clone(&executor);
    let options =
        siltstone_btree::DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(shared));
    let db = siltstone_btree::Db::open(DIR, &options).unwrap();
    let (reader, flusher) = (db.clone(), db.clone());
    Engine {
        name: "btree",
        begin: Box::new(move |level| Transactional::begin(&db, &begin_options(level))),
        read: Box::new(move |key| read_of(&reader, key)),
        pause: Box::new(move |draw| match draw % 3 {
            0 => flusher.flush().unwrap(),
            1 => drop(executor.run_until_idle()),
            _ => drop(executor.step()),
        }),
        padding: 0,
    }
}
