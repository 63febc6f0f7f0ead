//! A database on a simulated disk, on one thread, with tiny memtables.

use siltstone::lsm::{ColumnFamilyOptions, Db, DbOptions, Error, ErrorKind, WriteBatch, WriteOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use std::sync::Arc;
use std::time::Duration;

/// Where the database is.
pub const DIR: &str = "/db";

/// A disk, the executor of the database on it, and what was acknowledged.
pub struct World {
    pub disk: SimDisk,
    pub executor: Arc<StepExecutor>,
    pub acknowledged: Vec<u32>,
}

pub fn small_family() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().write_buffer_size(8 << 10).level0_file_num_compaction_trigger(3)
}

/// The key of row `number`.
pub fn key(number: u32) -> String {
    format!("key{number:06}")
}

/// The value of row `number`.
pub fn value(number: u32) -> Vec<u8> {
    format!("{number:0200}").into_bytes()
}

impl World {
    pub fn new() -> Self {
        Self::on(SimDisk::new())
    }

    pub fn on(disk: SimDisk) -> Self {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
        Self { disk, executor, acknowledged: Vec::new() }
    }

    pub fn options(&self) -> DbOptions {
        let executor: Arc<dyn Executor> = Arc::<StepExecutor>::clone(&self.executor);
        DbOptions::default()
            .create_if_missing(true)
            .create_missing_column_families(true)
            .env(Some(self.disk.env()))
            .executor(Some(executor))
    }

    pub fn try_open(&self) -> Result<Db, Error> {
        Db::open_families(DIR, &self.options(), &[("default", small_family()), ("other", small_family())])
    }

    pub fn open(&self) -> Db {
        self.try_open().unwrap()
    }

    /// Writes row `number` to both families.
    pub fn write(&mut self, db: &Db, number: u32, sync: bool) -> Result<(), Error> {
        let mut batch = WriteBatch::new();
        batch.put(key(number), value(number));
        batch.put_cf(&db.family("other").unwrap(), key(number), value(number));
        db.write(&mut batch, &WriteOptions::default().sync(sync))?;
        self.acknowledged.push(number);
        Ok(())
    }

    /// Every acknowledged row is there, and no other.
    pub fn check_rows(&self, db: &Db, below: u32) {
        let other = db.family("other").unwrap();
        for number in 0..below {
            let expected = self.acknowledged.contains(&number).then(|| value(number));
            let found = db.get(key(number)).unwrap().map(|found| found.to_vec());
            assert!(found == expected, "row {number} of the default family: {} bytes", found.map_or(0, |v| v.len()));
            let found = db.get_cf(&other, key(number), &Default::default()).unwrap().map(|found| found.to_vec());
            assert!(found == expected, "row {number} of the other family: {} bytes", found.map_or(0, |v| v.len()));
        }
    }

    /// Lets a second pass: longer than any delay before a failed job is tried again.
    pub fn let_a_second_pass(&self) {
        self.executor.sleep(Duration::from_secs(1));
    }
}

/// The cause of a `ReadOnly` error.
pub fn cause(error: &Error) -> Error {
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    std::error::Error::source(error).and_then(|source| source.downcast_ref::<Error>()).unwrap().clone()
}
