//! Arguments of `kv`.

use super::CommonArguments;
use clap::Args;
use siltstone_base::Result;
use siltstone_bench::kv::{KvConfig, Workload};

/// db_bench's workloads.
#[derive(Debug, Args)]
pub struct KvArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// Number of keys.
    #[arg(long, default_value_t = 1_000_000)]
    num: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Threads that divide the operations among them.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Workloads, in this order: fillseq, fillrandom, overwrite, readrandom, multireadrandom, readmissing, seekrandom, readseq,
    /// readwhilewriting, fillsync, settle.
    #[arg(long, value_delimiter = ',', default_value = Workload::DEFAULT)]
    workloads: Vec<Workload>,
    /// Puts in one batch.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Open loop: operations per second that arrive, however long the engine takes. Default: closed loop.
    #[arg(long, value_name = "OPS_PER_SECOND")]
    rate: Option<u64>,
    /// Times that every engine runs; ratios need at least 5.
    #[arg(long, default_value_t = 1)]
    pairs: u32,
    /// Use the database that is in the directory.
    #[arg(long, requires = "dir")]
    existing: bool,
}

impl KvArguments {
    /// What is to be run.
    pub fn config(&self) -> Result<KvConfig> {
        Ok(KvConfig {
            engines: self.common.engine.clone(),
            workloads: self.workloads.clone(),
            num: self.num,
            value_size: self.value_size,
            threads: self.threads,
            batch: self.batch,
            rate: self.rate,
            pairs: self.pairs,
            existing: self.existing,
            interval_s: self.common.interval,
            seed: self.common.seed,
            dir: self.common.dir.clone(),
            settings: self.common.settings()?,
        })
    }
}
