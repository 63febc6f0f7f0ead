//! Arguments of `redmine`.

use super::CommonArguments;
use clap::Args;
use siltstone_base::Result;
use siltstone_bench::engines::Device;
use siltstone_bench::redmine::{DataSet, Operation, RedmineConfig};

/// Creating and processing tasks in Redmine, on a disk with other work to do.
#[derive(Debug, Args)]
pub struct RedmineArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// Data sets: small, large, giant.
    #[arg(long, value_delimiter = ',', default_value = "small")]
    data: Vec<DataSet>,
    /// Operations: create_task, process_10_tasks, search.
    #[arg(long, value_delimiter = ',', default_value = "create_task,process_10_tasks,search")]
    operations: Vec<Operation>,
    /// Application processes, one number after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    clients: Vec<usize>,
    /// Transactions of process_10_tasks: 20, or 30 where a task is resolved by one save and given back by another.
    #[arg(long, default_value_t = 20)]
    transactions: u32,
    /// What another stream asks of the modelled device, in parts of its capacity [default: 0,0.25,1,2,4; 0 where no device is modelled]. On the machine's own device 0.25 are 14 random reads and writes a second, and 1, 2
    /// and 4 so many streams as fast as they can.
    #[arg(long, value_delimiter = ',')]
    load: Option<Vec<f64>>,
    /// The file beside the databases that those streams read and write.
    #[arg(long, value_name = "MIB", default_value_t = 1_024)]
    load_file_mb: u64,
    /// Length of the measurement of one operation.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Times that every engine runs.
    #[arg(long, default_value_t = 1)]
    pairs: u32,
    /// Milliseconds that the application takes for a request, of which process_10_tasks is ten and every other operation one: clients wait so long after each, and it is added to the mean.
    #[arg(long, default_value_t = 0.0)]
    app_ms: f64,
    /// LSM trees leave their logs to the operating system, as MyRocks did at the time.
    #[arg(long)]
    as_published: bool,
}

impl RedmineArguments {
    /// What is to be run.
    pub fn config(&self) -> Result<RedmineConfig> {
        let loads = if self.common.device == Device::None { vec![0.0] } else { vec![0.0, 0.25, 1.0, 2.0, 4.0] };
        Ok(RedmineConfig {
            engines: self.common.engine.clone(),
            data_sets: self.data.clone(),
            operations: self.operations.clone(),
            clients: self.clients.clone(),
            transactions: self.transactions,
            loads: self.load.clone().unwrap_or(loads),
            load_file_bytes: self.load_file_mb.saturating_mul(1 << 20),
            seconds: self.seconds,
            pairs: self.pairs,
            interval_s: self.common.interval,
            app_ms: self.app_ms,
            as_published: self.as_published,
            seed: self.common.seed,
            dir: self.common.dir.clone(),
            settings: self.common.settings()?,
            memory_is_given: self.common.memory_mb.is_some(),
        })
    }
}
