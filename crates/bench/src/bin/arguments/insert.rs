//! Arguments of `insert`.

use super::CommonArguments;
use clap::Args;
use siltstone_base::Result;
use siltstone_bench::insert::{BinlogMode, IndexMode, InsertConfig, Schema, Step};

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
    /// How secondary indexes are kept: eager, lazy or both, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "eager")]
    index_mode: Vec<IndexMode>,
    /// Rows that the step u updates. Default: as many as there are.
    #[arg(long)]
    updates: Option<u64>,
    /// Steps: l, or l.i0 and l.x, then settle, l.i1, l.i2, pause, u, and qrN or qpN beside N inserts a second.
    #[arg(long, value_delimiter = ',', default_value = Step::DEFAULT)]
    steps: Vec<Step>,
    /// Rows that l.i1 and l.i2 insert together. Default: a fifth of the rows.
    #[arg(long)]
    more_rows: Option<u64>,
    /// Length of a step of queries.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    query_seconds: f64,
    /// Longest time of a step that inserts or updates: the rows that are left then are left out. Default: as long as it takes.
    #[arg(long, value_name = "SECONDS")]
    insert_seconds: Option<f64>,
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
            index_modes: self.index_mode.clone(),
            updates: self.updates.unwrap_or(self.rows),
            steps: self.steps.clone(),
            more_rows: self.more_rows.unwrap_or(self.rows / 5),
            query_seconds: self.query_seconds,
            insert_seconds: self.insert_seconds,
            interval_s: self.common.interval,
            seed: self.common.seed,
            dir: self.common.dir.clone(),
            settings: self.common.settings()?,
        })
    }
}
