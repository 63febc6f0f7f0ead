//! The command `redmine`: what creating and processing tasks in Redmine 3.3.1 asks of its database, on a disk that has other work to do.
//!
//! | operation | what it does |
//! | --- | --- |
//! | `create_task` | reads project and author; inserts the task; then ten comments by ten members, each a journal and an update of the task, one commit each: 11 commits |
//! | `process_10_tasks` | finds ten tasks of a user by the index; for each reads the task and its project; sets it to In Progress, then to Resolved and gives it back to its author: an update of the task, a journal and its details each, 20 commits. The user is drawn from those who have ten, before the time is taken |
//! | `search` | finds the tasks whose parent is a given one. `parent_id` has no index: the whole table is read |
//!
//! The published runs took a machine of 1, 2 and 8 GB for the three data sets; the engine gets an eighth of that unless `--memory-mb` says otherwise. The competing load of the disk is
//! modelled beneath the engine: 0.25, 1, 2 and 4 are parts of the disk's capacity that another stream asks for. The machine's own device gets no such stream, and a load of it is refused.
//! Every run begins with the data set as it was loaded, all of it read once before the measurement: the published machines had several times as much memory as data. What an earlier run made, and work that an engine
//! still owes for it, would be the next one's burden, and the faster engine's the most.
//! The first and the last tenth of the operations of a run are left out of the means, as in the publication.
//!
//! `--as-published` leaves the LSM engine's log to the operating system, as MyRocks did by default at the time, while the B-tree syncs every commit; and both read and write through the (modelled) page cache,
//! as both did by default, so that a table that was just flushed is in memory. Without it both sync, and `--direct` counts. What Rails itself takes
//! is `--app-ms`: a client takes that long between its operations, and it is added to their mean; the percentiles are without.

use crate::engines::{Device, EngineKind, EngineSettings};
use crate::place::Place;
use crate::{Output, ResultLine};
use serde::Serialize;
use siltstone_base::engine::Durability;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

mod client;
mod data;
mod load;
mod operation;
mod schema;
mod session;
mod tables;
#[cfg(test)]
mod tests;

pub use data::DataSet;
pub use operation::Operation;

/// What `redmine` runs.
#[derive(Debug, Clone)]
pub struct RedmineConfig {
    /// The engines, one after the other.
    pub engines: Vec<EngineKind>,
    /// The data sets.
    pub data_sets: Vec<DataSet>,
    /// The operations, each measured by itself.
    pub operations: Vec<Operation>,
    /// Application processes.
    pub clients: Vec<usize>,
    /// What another stream asks of the disk, in parts of its capacity.
    pub loads: Vec<f64>,
    /// Length of the measurement of one operation.
    pub seconds: f64,
    /// Milliseconds that the application takes for every operation, beside the database: clients wait so long between two, and it is added to the mean.
    pub app_ms: f64,
    /// The LSM engine leaves its log to the operating system.
    pub as_published: bool,
    /// Draws what operations are about.
    pub seed: u64,
    /// Where the databases are and stay. `None`: a temporary directory.
    pub dir: Option<PathBuf>,
    /// What the engines are opened with. Memory is the data set's unless `memory_is_given`.
    pub settings: EngineSettings,
    /// Whether the memory of the settings counts.
    pub memory_is_given: bool,
}

/// What distinguishes one configuration from another in results.
#[derive(Serialize)]
struct Identity {
    data_set: String,
    seconds: f64,
    app_ms: f64,
    as_published: bool,
    seed: u64,
}

impl RedmineConfig {
    fn check(&self) -> Result<()> {
        let bounds = [
            ("engine is missing", !self.engines.is_empty()),
            ("data is missing", !self.data_sets.is_empty()),
            ("operations is missing", !self.operations.is_empty()),
            ("clients is missing", !self.clients.is_empty()),
            ("clients is out of bounds", self.clients.iter().all(|clients| (1..=256).contains(clients))),
            ("load is missing", !self.loads.is_empty()),
            ("load is out of bounds", self.loads.iter().all(|load| (0.0..=64.0).contains(load))),
            (
                "load above 0 needs a modelled device, --device hdd for one: the machine's own gets no other stream",
                self.settings.device != Device::None || self.loads.iter().all(|load| *load == 0.0),
            ),
            ("seconds is out of bounds", (0.1..=86_400.0).contains(&self.seconds)),
            ("app-ms is out of bounds", (0.0..=60_000.0).contains(&self.app_ms)),
        ];
        match bounds.iter().find(|(_, is_right)| !is_right) {
            Some((what, _)) => Err(Error::invalid_argument(format!("--{what}"))),
            None => Ok(()),
        }
    }

    /// What an engine is opened with for a data set under a load.
    fn settings(&self, kind: EngineKind, data_set: DataSet, load: f64) -> EngineSettings {
        let mut settings = EngineSettings { background_load: load, ..self.settings.clone() };
        if !self.memory_is_given {
            settings = settings.with_memory(data_set.memory_bytes());
        }
        if self.as_published {
            settings.direct = false;
            if kind.is_lsm() {
                settings.durability = Durability::Os;
            }
        }
        settings
    }

    fn setup(&self, kind: EngineKind, data_set: DataSet, load: f64) -> String {
        let settings = self.settings(kind, data_set, load);
        let durability = match self.as_published {
            true => "as published: the LSM tree's log is left to the operating system".to_owned(),
            false => settings.durability.to_string(),
        };
        format!("{data_set} data set, load {load}, durability {durability}") + &settings.in_words()
    }

    /// The most memory that an engine is given.
    pub(crate) fn most_memory(&self) -> u64 {
        let memory = |&data_set: &DataSet| self.settings(EngineKind::Btree, data_set, 0.0).memory_bytes();
        self.data_sets.iter().map(memory).max().unwrap_or_default()
    }

    /// The same for all engines.
    fn config_hash(&self, data_set: DataSet, load: f64) -> String {
        let Self { seconds, app_ms, as_published, seed, .. } = *self;
        let identity = Identity { data_set: data_set.to_string(), seconds, app_ms, as_published, seed };
        crate::engines::config_hash(&identity, &self.settings(EngineKind::Btree, data_set, load))
    }
}

/// Runs the operations and returns one line a run.
pub fn run(config: &RedmineConfig, output: &mut Output<'_>) -> Result<Vec<ResultLine>> {
    config.check()?;
    let place = Place::new(config.dir.as_deref(), config.engines.len() > 1)?;
    let mut lines: Vec<ResultLine> = Vec::new();
    for &data_set in &config.data_sets {
        for &kind in &config.engines {
            let mut session = session::Session::load(config, kind, data_set, place.of(kind))?;
            for &load in &config.loads {
                for &clients in &config.clients {
                    for &operation in &config.operations {
                        let mut line = session.run(operation, clients, load, output.bars)?;
                        place.mark(&mut line);
                        output.json(&line)?;
                        output.say(tables::progress(&line))?;
                        lines.push(line);
                    }
                }
            }
            session.end()?;
        }
    }
    output.say(tables::results(&lines))?;
    Ok(lines)
}
