//! What every test of rows that expire needs.

#![expect(clippy::unwrap_used, reason = "a test")]

use siltstone::lsm::DbOptions;
use siltstone::ttl::TtlDuration;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;

/// The directory of the database.
pub const DIR: &str = "/db";

/// The second in which the clock begins.
pub const START: u64 = 1_700_000_000;

/// A small generator; the seed alone decides.
#[derive(Clone)]
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
