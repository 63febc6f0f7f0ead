//! Arguments of `stalls`.

use super::CommonArguments;
use clap::Args;
use siltstone_base::Result;
use siltstone_bench::stalls::{Offered, StallsConfig, Step};

/// How evenly engines take writes.
#[derive(Debug, Args)]
pub struct StallsArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// Number of keys.
    #[arg(long, default_value_t = 4_000_000)]
    num: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 400)]
    value_size: usize,
    /// Threads that submit operations.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Steps, in this order: fill, settle, maximum, poisson-N, constant-N, floor-N (N: percent of the maximum), bursts, overwrite,
    /// reads, reads-while-filling.
    #[arg(long, value_delimiter = ',', default_value = Step::DEFAULT)]
    steps: Vec<Step>,
    /// How often the engines run all steps, in alternating order.
    #[arg(long, default_value_t = 1)]
    pairs: u32,
    /// Length of a step other than fill and settle.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Operations per second that take the place of a measured maximum.
    #[arg(long, value_name = "OPS_PER_SECOND")]
    rate: Option<u64>,
    /// Whose maximum the rates of an engine are parts of: its own, or that of the first engine.
    #[arg(long, default_value_t = Offered::Own)]
    offered: Offered,
    /// Use the database that is in the directory.
    #[arg(long, requires = "dir")]
    existing: bool,
}

impl StallsArguments {
    /// What is to be run.
    pub fn config(&self) -> Result<StallsConfig> {
        Ok(StallsConfig {
            engines: self.common.engine.clone(),
            steps: self.steps.clone(),
            num: self.num,
            value_size: self.value_size,
            threads: self.threads,
            pairs: self.pairs,
            seconds: self.seconds,
            rate: self.rate,
            offered: self.offered,
            existing: self.existing,
            interval_s: self.common.interval,
            seed: self.common.seed,
            dir: self.common.dir.clone(),
            settings: self.common.settings()?,
        })
    }
}
