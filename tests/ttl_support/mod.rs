//! An engine whose rows expire, on a simulated disk, and what every read of it must show.

#![expect(clippy::unwrap_used, reason = "a test")]

mod model;
mod trial;

pub use trial::Trial;

use crate::expiry_support::{DIR, options};
use siltstone::lsm::{ColumnFamilyOptions, CompactionStyle, Counter, Db, TableOptions};
use siltstone::ttl::{Result, Ttl};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;
use std::time::Duration;

pub fn small_family(style: CompactionStyle) -> ColumnFamilyOptions {
    ColumnFamilyOptions::default()
        .write_buffer_size(8 << 10)
        .level0_file_num_compaction_trigger(2)
        .target_file_size_base(4 << 10)
        .max_bytes_for_level_base(8 << 10)
        .max_bytes_for_level_multiplier(2)
        .num_levels(5)
        .compaction_style(style)
        .table(TableOptions::default().block_size(512))
}

/// An open engine.
#[derive(Debug)]
pub struct Life {
    pub db: Db,
    pub clock: Arc<ManualClock>,
    pub executor: Arc<StepExecutor>,
}

impl Life {
    pub fn open(disk: &SimDisk, family: ColumnFamilyOptions, ttl: &Arc<Ttl>, now: u64) -> Result<Self> {
        Self::open_in(DIR, disk, family, ttl, now)
    }

    pub fn open_in(dir: &str, disk: &SimDisk, family: ColumnFamilyOptions, ttl: &Arc<Ttl>, now: u64) -> Result<Self> {
        let clock = Arc::new(ManualClock::new(now));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        let db = Db::open_families(dir, &options(disk, &executor), &[("default", family.expiry(Some(ttl.clone())))])?;
        Ok(Self { db, clock, executor })
    }

    /// Lets time pass.
    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.executor.run_until_idle();
    }

    /// Bytes of tables that were written.
    pub fn written(&self) -> u64 {
        let metrics = self.db.metrics();
        metrics.get(Counter::FlushWriteBytes) + metrics.get(Counter::CompactWriteBytes)
    }

    pub fn close(self) {
        self.db.close().unwrap();
    }

    /// What a power loss leaves.
    pub fn lose_power(self, disk: &SimDisk) -> SimDisk {
        let left = disk.after_power_loss();
        disk.power_off();
        self.executor.abandon_all();
        // An error is what a lost disk answers.
        let _ = self.db.close();
        left
    }
}
