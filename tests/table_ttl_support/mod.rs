//! Tables of rows that expire on a simulated disk, and trials that compare them with a model.

#![expect(clippy::unwrap_used, reason = "a test")]

mod model;
mod trial;

pub use trial::Trial;

use crate::expiry_support::{DIR, options};
use siltstone::lsm::{ColumnFamilyOptions, CompactionStyle, Result, SweepOptions, TableDb, TableOptions, WriteOptions};
use siltstone::ttl::TableTtl;
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;

pub fn open(disk: &SimDisk, style: CompactionStyle, clock: &Arc<ManualClock>) -> Result<(TableDb, Arc<StepExecutor>)> {
    let executor = Arc::new(StepExecutor::new(Arc::clone(clock)));
    let rows = ColumnFamilyOptions::default()
        .write_buffer_size(4 << 10)
        .target_file_size_base(1 << 10)
        .max_bytes_for_level_base(4 << 10)
        .level0_file_num_compaction_trigger(2)
        .compaction_style(style)
        .table(TableOptions::default().block_size(256))
        .expiry(Some(Arc::new(TableTtl::default())));
    let sweeps = SweepOptions::default().in_background(true).least_stale(2).step_entries(4);
    let writes = WriteOptions::default().sync(true);
    let db = TableDb::open_swept(DIR, &options(disk, &executor), &rows, &writes, &sweeps)?;
    Ok((db, executor))
}
