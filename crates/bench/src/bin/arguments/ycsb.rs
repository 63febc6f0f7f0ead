//! Arguments of `ycsb`.

use super::CommonArguments;
use super::open_loops::OpenLoopArguments;
use clap::Args;
use siltstone_base::Result;
use siltstone_bench::ycsb::{Workload, YcsbConfig};

/// The core workloads of YCSB.
#[derive(Debug, Args)]
pub struct YcsbArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// Records that are loaded.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Operations of a workload.
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// Fields of 100 bytes in a record.
    #[arg(long, default_value_t = 10)]
    fields: usize,
    /// Threads that divide the operations among them.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Workloads, in this order: load, a, b, c, d, e, f, settle.
    #[arg(long, value_delimiter = ',', default_value = Workload::DEFAULT)]
    workloads: Vec<Workload>,
    #[command(flatten)]
    open_loops: OpenLoopArguments,
    /// Times that every engine runs; ratios need at least 5.
    #[arg(long, default_value_t = 1)]
    pairs: u32,
}

impl YcsbArguments {
    /// What is to be run.
    pub fn config(&self) -> Result<YcsbConfig> {
        Ok(YcsbConfig {
            engines: self.common.engine.clone(),
            workloads: self.workloads.clone(),
            records: self.records,
            operations: self.operations,
            fields: self.fields,
            threads: self.threads,
            offered: self.open_loops.offered(),
            pairs: self.pairs,
            interval_s: self.common.interval,
            seed: self.common.seed,
            dir: self.common.dir.clone(),
            settings: self.common.settings()?,
        })
    }
}
