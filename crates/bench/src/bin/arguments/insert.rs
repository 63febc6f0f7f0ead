//! Arguments of `insert`.

use super::CommonArguments;
use clap::Args;
use siltstone_base::Result;
use siltstone_bench::insert::{BinlogMode, InsertConfig, Schema};

/// The insert benchmark: primary-key order, three secondary indexes.
#[derive(Debug, Args)]
pub struct InsertArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// Rows of all clients together.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Clients, each with a table of its own.
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// Rows in one commit.
    #[arg(long, default_value_t = 100)]
    rows_per_commit: usize,
    /// The form of the table: 2017 or current.
    #[arg(long, default_value_t = Schema::Of2017)]
    schema: Schema,
    /// A log of all commits beside the engine: off, os, sync, or synced after every so many groups of commits.
    #[arg(long, default_value_t = BinlogMode::Off)]
    binlog: BinlogMode,
    /// Times that every engine runs; ratios need at least 5.
    #[arg(long, default_value_t = 1)]
    pairs: u32,
    /// Wait after the load until no compaction is due.
    #[arg(long)]
    settle: bool,
}

impl InsertArguments {
    /// What is to be run.
    pub fn config(&self) -> Result<InsertConfig> {
        Ok(InsertConfig {
            engines: self.common.engine.clone(),
            rows: self.rows,
            clients: self.clients,
            rows_per_commit: self.rows_per_commit,
            schema: self.schema,
            binlog: self.binlog,
            pairs: self.pairs,
            settle: self.settle,
            interval_s: self.common.interval,
            seed: self.common.seed,
            dir: self.common.dir.clone(),
            settings: self.common.settings()?,
        })
    }
}
