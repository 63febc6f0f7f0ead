//! Tables of rows that expire on a simulated disk, and trials that compare them with a model.

#![expect(clippy::unwrap_used, reason = "a test")]

mod model;
mod trial;

pub use trial::Trial;

use siltstone::lsm::{ColumnFamilyOptions, CompactionStyle, DbOptions, Result, SweepOptions, TableDb, WriteOptions};
use siltstone::ttl::{TableTtl, TtlDuration};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;

pub const DIR: &str = "/db";
pub const START: u64 = 1_700_000_000;

/// A small generator; the seed alone decides.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

pub fn seconds(seconds: u64) -> TtlDuration {
    TtlDuration::from_seconds(seconds).unwrap()
}

pub fn options(disk: &SimDisk, executor: &Arc<StepExecutor>) -> DbOptions {
    let executor = Arc::clone(executor);
    DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(executor))
}

pub fn open(disk: &SimDisk, style: CompactionStyle, clock: &Arc<ManualClock>) -> Result<(TableDb, Arc<StepExecutor>)> {
    let executor = Arc::new(StepExecutor::new(Arc::clone(clock)));
    let rows = ColumnFamilyOptions::default()
        .write_buffer_size(4 << 10)
        .target_file_size_base(1 << 10)
        .max_bytes_for_level_base(4 << 10)
        .level0_file_num_compaction_trigger(2)
        .compaction_style(style)
        .expiry(Some(Arc::new(TableTtl::default())));
    let sweeps = SweepOptions::default().in_background(true).least_stale(2).step_entries(4);
    let writes = WriteOptions::default().sync(true);
    let db = TableDb::open_swept(DIR, &options(disk, &executor), &rows, &writes, &sweeps)?;
    Ok((db, executor))
}
