//! The command `redmine`: what creating and processing tasks in Redmine 3.3.1 asks of its database, on a disk that has other work to do.
//!
//! | operation | what it does |
//! | --- | --- |
//! | `create_task` | reads what the form of a new task needs; inserts the task, and then gives it its place in the tree of tasks; then ten comments by ten members, each a journal and an update of the task in one commit. The task and its place are two commits, under one lock: one commit says but once what a row will be. 12 commits, for Redmine's 11 transactions |
//! | `process_10_tasks` | finds ten tasks of a user by the index; sets all of them to In Progress; then sets each to Resolved and gives it back to its author: an update of the task, a journal and its details each, 20 commits. With `--transactions 30` status and assignee are set one after the other, with a journal each. The user is drawn from those who have ten, before the time is taken |
//! | `search` | finds the tasks whose parent is a given one. `parent_id` has no index: the whole table is read |
//!
//! Rows are read by their keys or by an index, as Redmine does, each time from the engine:
//!
//! | before | what is read |
//! | --- | --- |
//! | a task is created | the project and its enabled modules; its trackers, all statuses and priorities, values of custom fields; the author (user, address, member, roles); what its role may change; watchers |
//! | each comment | its author, alike, and watchers |
//! | each task is processed | the project and its enabled modules; the user, alike; what its role may change; up to 20 journals of the task |
//! | each save | the row of the task, as it is |
//!
//! The published runs took a machine of 1, 2 and 8 GB for the three data sets; the engine gets an eighth of that unless `--memory-mb` says otherwise.
//! The competing load of a modelled disk (`--device`) is modelled, too, beneath the engine: 0.25, 1, 2 and 4 are parts of the disk's capacity that another stream asks for. On the machine's own device it is made, as it
//! was published: half reads, half writes of 4 KiB past the page cache, anywhere in a file beside the databases. Below a load of 1 it is one stream of 56 times the load a second (0.25: 14); 1, 2 and 4 are so many streams, each as fast as
//! it can. What they move is not counted in results; the time that they take of the processor is.
//! Every run begins with the data set as it was loaded, flushed and compacted as far as is due (level 0 of LSM trees is empty), all of it read once before the measurement: the published machines had several times as much memory as data. What an earlier run made, and work that an engine
//! still owes for it, would be the next one's burden, and the faster engine's the most.
//! The first and the last tenth of the operations of a run are left out of the means, as in the publication.
//!
//! `--as-published` leaves the logs of LSM trees to the operating system, as MyRocks did by default at the time, while B-trees sync every commit; and all read and write through the (modelled) page cache,
//! as both did by default, so that a table that was just flushed is in memory. Without it all sync, and `--direct` counts. Foreign engines run on the machine's own device alone. What Rails itself takes
//! for a request is `--app-ms`: `create_task` is 11, `process_10_tasks` ten, `search` one. A client takes that long for all requests of an operation before the next one, and it is added to the mean; the percentiles are without.

use crate::config_json;
use crate::engines::{Device, EngineKind, EngineSettings};
use crate::place::{Found, Place};
use crate::{Output, ResultLine};
use serde::Serialize;
use siltstone_base::engine::Durability;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

mod client;
mod data;
mod load;
mod operation;
mod reads;
mod rows;
mod schema;
mod session;
mod streams;
mod tables;
#[cfg(test)]
mod tests;

pub use data::DataSet;
pub use operation::Operation;

/// What `redmine` runs.
#[derive(Debug, Clone, Serialize)]
pub struct RedmineConfig {
    /// The engines, to be run alternately.
    #[serde(serialize_with = "config_json::names")]
    pub engines: Vec<EngineKind>,
    /// The data sets.
    #[serde(serialize_with = "config_json::names")]
    pub data_sets: Vec<DataSet>,
    /// The operations, each measured by itself.
    #[serde(serialize_with = "config_json::names")]
    pub operations: Vec<Operation>,
    /// Application processes.
    pub clients: Vec<usize>,
    /// Transactions of `process_10_tasks`, 20 or 30: whether a task is resolved and given back by one save or by two.
    pub transactions: u32,
    /// What another stream asks of the disk, in parts of its capacity; of the machine's own, a part of one throttled stream, or a number of streams.
    pub loads: Vec<f64>,
    /// Bytes of the file that those streams read and write on the machine's own device.
    pub load_file_bytes: u64,
    /// Length of the measurement of one operation.
    pub seconds: f64,
    /// How many times every engine runs.
    pub pairs: u32,
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Milliseconds that the application takes for a request, beside the database: after an operation a client waits that long for each request that it was, and as much is added to the mean.
    pub app_ms: f64,
    /// LSM trees leave their logs to the operating system.
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
    transactions: u32,
    /// Of the machine's own device under a load.
    load_file_bytes: Option<u64>,
    seconds: f64,
    app_ms: f64,
    /// Of all operations, where the application takes time for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Vec<u32>>,
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
                "load of the machine's own device must be below 1, or a whole number",
                !self.has_streams() || self.loads.iter().all(|load| *load < 1.0 || load.fract() == 0.0),
            ),
            (
                "load-file-mb is out of bounds",
                !self.has_streams() || (1 << 20..=1 << 40).contains(&self.load_file_bytes),
            ),
            ("transactions must be 20 or 30", [20, 30].contains(&self.transactions)),
            ("pairs is out of bounds", self.pairs >= 1),
            ("interval is out of bounds", self.interval_s >= 0.1),
            ("seconds is out of bounds", (0.1..=86_400.0).contains(&self.seconds)),
            ("app-ms is out of bounds", (0.0..=60_000.0).contains(&self.app_ms)),
        ];
        match bounds.iter().find(|(_, is_right)| !is_right) {
            Some((what, _)) => Err(Error::invalid_argument(format!("--{what}"))),
            None => Ok(()),
        }
    }

    /// Whether a load is one of streams that really read and write: that of a device that is not modelled.
    fn is_made(&self, load: f64) -> bool {
        self.settings.device == Device::None && load > 0.0
    }

    fn has_streams(&self) -> bool {
        self.loads.iter().any(|load| self.is_made(*load))
    }

    fn is_resolved_at_once(&self) -> bool {
        self.transactions == 20
    }

    /// Seconds that the application takes for an operation.
    fn app_seconds(&self, operation: Operation) -> f64 {
        f64::from(operation.requests()) * self.app_ms / 1e3
    }

    /// What an engine is opened with for a data set under a load.
    fn settings(&self, kind: EngineKind, data_set: DataSet, load: f64) -> EngineSettings {
        let mut settings = EngineSettings { background_load: load, ..self.settings.clone() };
        if !self.memory_is_given {
            settings = settings.with_memory(data_set.memory_bytes());
        }
        if self.as_published {
            settings.direct = false;
            if kind.is_lsm_tree() {
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
        let on = if self.is_made(load) { " on the machine's own device" } else { "" };
        let transactions = if self.is_resolved_at_once() { "" } else { ", 30 transactions for ten tasks" };
        let application = match self.app_ms > 0.0 {
            true => format!(", {} ms of application a request", self.app_ms),
            false => String::new(),
        };
        format!("{data_set} data set{transactions}{application}, load {load}{on}, durability {durability}")
            + &settings.in_words()
    }

    /// The most memory that an engine is given.
    pub(crate) fn most_memory(&self) -> u64 {
        let memory = |&data_set: &DataSet| self.settings(EngineKind::Btree, data_set, 0.0).memory_bytes();
        self.data_sets.iter().map(memory).max().unwrap_or_default()
    }

    /// The same for all engines.
    fn config_hash(&self, data_set: DataSet, load: f64) -> String {
        let Self { transactions, seconds, app_ms, as_published, seed, .. } = *self;
        let requests = || Operation::ALL.iter().map(|operation| operation.requests()).collect();
        let identity = Identity {
            data_set: data_set.to_string(),
            transactions,
            load_file_bytes: self.is_made(load).then_some(self.load_file_bytes),
            seconds,
            app_ms,
            requests: (app_ms > 0.0).then(requests),
            as_published,
            seed,
        };
        crate::engines::config_hash(&identity, &self.settings(EngineKind::Btree, data_set, load))
    }
}

/// Runs the operations and returns one line a run.
pub fn run(config: &RedmineConfig, output: &mut Output<'_>) -> Result<Vec<ResultLine>> {
    config.check()?;
    let place = Place::new(config.dir.as_deref(), config.engines.len() > 1, Found::Removed)?;
    let streams = match config.has_streams() {
        true => {
            let mut path = place.root().into_os_string();
            path.push(".streams");
            Some(streams::Streams::new(path.into(), config.load_file_bytes, config.seed)?)
        }
        false => None,
    };
    let mut lines: Vec<ResultLine> = Vec::new();
    for (&data_set, pair) in config.data_sets.iter().flat_map(|set| (1..=config.pairs).map(move |pair| (set, pair))) {
        let mut engines = config.engines.clone();
        if pair % 2 == 0 {
            engines.reverse();
        }
        for kind in engines {
            let mut session = session::Session::load(config, kind, data_set, pair, place.of(kind), streams.as_ref())?;
            for &load in &config.loads {
                for &clients in &config.clients {
                    for &operation in &config.operations {
                        let (mut line, intervals) = session.run(operation, clients, load, output.bars)?;
                        place.mark(&mut line);
                        output.json(&line)?;
                        for interval in &intervals {
                            output.json(interval)?;
                        }
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
