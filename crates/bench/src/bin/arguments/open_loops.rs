//! Arguments of experiments whose closed loops are followed by open ones.

use clap::Args;
use siltstone_bench::OfferedRates;

/// At which rates a workload runs again in an open loop.
#[derive(Debug, Args)]
pub struct OpenLoopArguments {
    /// After its closed loop a workload runs again while operations arrive at random at these parts of the engine's own rate, such as 0.5,0.8,0.95; each above 0 and at most 1.5.
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    fractions: Vec<f64>,
    /// The same at these rates, which are equal for all engines; of sysbench, in transactions.
    #[arg(long, value_name = "OPS_PER_SECOND", value_delimiter = ',')]
    rate: Vec<u64>,
}

impl OpenLoopArguments {
    /// The rates, within bounds or not.
    pub fn offered(&self) -> OfferedRates {
        OfferedRates { fractions: self.fractions.clone(), rates: self.rate.clone() }
    }
}
