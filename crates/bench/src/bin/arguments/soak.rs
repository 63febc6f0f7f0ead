//! Arguments of `soak`.

use clap::Args;
use siltstone_bench::soak::SoakConfig;
use std::path::PathBuf;

/// Everything beside one another within one budget of memory.
#[derive(Debug, Args)]
pub struct SoakArguments {
    /// How long.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Memory that the process may use in all, in MiB.
    #[arg(long, default_value_t = 256, value_name = "MIB")]
    budget: usize,
    /// Cores that the database may use.
    #[arg(long, default_value_t = 2)]
    cores: usize,
    /// Keys of each family.
    #[arg(long, default_value_t = 500_000)]
    keys: u64,
    /// Draws keys, values and operations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the database is, and stays. Without: a temporary directory.
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl SoakArguments {
    /// What is to be run.
    pub fn config(&self) -> SoakConfig {
        SoakConfig {
            seconds: self.minutes * 60.0,
            budget: self.budget.saturating_mul(1 << 20),
            cores: self.cores,
            keys: self.keys,
            seed: self.seed,
            dir: self.dir.clone(),
        }
    }
}
