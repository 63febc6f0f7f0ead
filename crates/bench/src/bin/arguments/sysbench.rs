//! Arguments of `sysbench`.

use super::CommonArguments;
use super::open_loops::OpenLoopArguments;
use clap::Args;
use siltstone_base::Result;
use siltstone_bench::sysbench::{MemorySetup, StatementCost, SysbenchConfig, Workload};

/// The transactions of sysbench's oltp scripts.
#[derive(Debug, Args)]
pub struct SysbenchArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// Tables.
    #[arg(long, default_value_t = 4)]
    tables: u32,
    /// Rows of each table.
    #[arg(long, default_value_t = 250_000)]
    rows: u32,
    /// Clients, one number after the other.
    #[arg(long, value_delimiter = ',', default_value = "8")]
    clients: Vec<usize>,
    /// Workloads, in this order: load, point_select, read_only, read_write, write_only, update_index, update_non_index, settle.
    #[arg(long, value_delimiter = ',', default_value = Workload::DEFAULT)]
    workloads: Vec<Workload>,
    /// Length of a workload other than load, for each number of clients and each rate.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    #[command(flatten)]
    open_loops: OpenLoopArguments,
    /// Times that every engine runs; ratios need at least 5.
    #[arg(long, default_value_t = 1)]
    pairs: u32,
    /// Limits the whole process and its page cache to --memory-mb, as a machine of so much memory would; LSM trees then read through the page cache. Needs root.
    #[arg(long)]
    page_cache: bool,
    /// Microseconds of the processor that a client takes for each statement, in place of a server's SQL: read_only=81,write_only=75.5
    #[arg(long, value_delimiter = ',', value_name = "WORKLOAD=US")]
    statement_us: Vec<StatementCost>,
}

impl SysbenchArguments {
    /// What is to be run.
    pub fn config(&self) -> Result<SysbenchConfig> {
        Ok(SysbenchConfig {
            engines: self.common.engine.clone(),
            workloads: self.workloads.clone(),
            tables: self.tables,
            rows: self.rows,
            clients: self.clients.clone(),
            seconds: self.seconds,
            offered: self.open_loops.offered(),
            statement_costs: self.statement_us.clone(),
            pairs: self.pairs,
            interval_s: self.common.interval,
            seed: self.common.seed,
            dir: self.common.dir.clone(),
            memory: if self.page_cache { MemorySetup::PageCache } else { MemorySetup::Budget },
            settings: self.common.settings()?,
        })
    }
}
