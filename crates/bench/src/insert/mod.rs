//! The command `insert`: the insert benchmark, step `l`: load with three secondary indexes in place.
//!
//! Each client has a table of its own and inserts rows in primary-key order, so many in one commit, after the binlog if
//! there is one. Two schemas: that of 2017 (the published figures) and the current one; see [`Schema`].
//!
//! `bytes_user` counts rows and index entries (keys and values), for all engines alike; write and space amplification are
//! held against it. A latency is that of one commit.

use crate::engines::{EngineKind, EngineSettings};
use crate::place::{Place, remove_database};
use crate::{IntervalLine, Output, ResultLine};
use serde::Serialize;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

mod binlog;
mod load_step;
mod rows;
pub mod sql;
mod tables;
#[cfg(test)]
mod tests;

pub use binlog::BinlogMode;
pub use rows::Schema;

/// What `insert` runs.
#[derive(Debug, Clone)]
pub struct InsertConfig {
    /// The engines, to be run alternately.
    pub engines: Vec<EngineKind>,
    /// Rows of all clients together.
    pub rows: u64,
    /// Clients, each with a table.
    pub clients: usize,
    /// Rows in one commit.
    pub rows_per_commit: usize,
    /// The form of the table.
    pub schema: Schema,
    /// The binlog.
    pub binlog: BinlogMode,
    /// How many times every engine runs.
    pub pairs: u32,
    /// Waits after the load until no compaction is due, as a step of its own.
    pub settle: bool,
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Draws the rows.
    pub seed: u64,
    /// Where the database is and stays; the binlog stands beside it. `None`: a temporary directory.
    pub dir: Option<PathBuf>,
    /// What the engines are opened with.
    pub settings: EngineSettings,
}

/// What distinguishes one configuration from another in results.
#[derive(Serialize)]
struct Identity {
    rows: u64,
    clients: usize,
    rows_per_commit: usize,
    schema: &'static str,
    binlog: String,
    seed: u64,
}

impl InsertConfig {
    fn check(&self) -> Result<()> {
        let bounds = [
            ("rows", (1..=1 << 40).contains(&self.rows)),
            ("clients", (1..=1024).contains(&self.clients)),
            ("rows-per-commit", (1..=100_000).contains(&self.rows_per_commit)),
            ("pairs", self.pairs >= 1),
            ("interval", self.interval_s >= 0.1),
            ("engine", !self.engines.is_empty()),
        ];
        match bounds.iter().find(|(_, is_within)| !is_within) {
            Some((name, _)) => Err(Error::invalid_argument(format!("--{name} is out of bounds"))),
            None => Ok(()),
        }
    }

    /// The settings in words.
    fn setup(&self) -> String {
        let Self { rows_per_commit, schema, binlog, .. } = self;
        let durability = self.settings.durability;
        let words = self.settings.in_words();
        format!("schema {schema}, {rows_per_commit} rows a commit, binlog {binlog}, durability {durability}{words}")
    }

    pub(crate) fn config_hash(&self) -> String {
        let Self { rows, clients, rows_per_commit, seed, .. } = *self;
        let (schema, binlog) = (self.schema.name(), self.binlog.to_string());
        let identity = Identity { rows, clients, rows_per_commit, schema, binlog, seed };
        crate::engines::config_hash(&identity, &self.settings)
    }
}

/// Runs the benchmark and returns one line a run.
pub fn run(config: &InsertConfig, output: &mut Output<'_>) -> Result<Vec<ResultLine>> {
    config.check()?;
    let place = Place::new(config.dir.as_deref(), config.engines.len() > 1)?;
    let harness = load_step::harness_nanos_per_row(config)?;
    output.say(config.setup())?;
    let mut lines = Vec::new();
    for pair in 1..=config.pairs {
        let mut engines = config.engines.clone();
        if pair % 2 == 0 {
            engines.reverse();
        }
        for kind in engines {
            let dir = place.of(kind);
            remove_database(&dir)?;
            remove_database(&binlog_dir(&dir))?;
            for (mut line, intervals) in load_step::run(config, kind, &dir, pair, output.bars)? {
                if line.workload == load_step::LOAD {
                    line.harness_ns_per_op = Some(harness);
                }
                report(output, &line, &intervals)?;
                lines.push(line);
            }
        }
    }
    output.say(tables::results(&lines))?;
    if config.engines.len() > 1 {
        output.say(crate::ratios::table(&lines, &config.engines, &[load_step::LOAD], config.pairs))?;
    }
    Ok(lines)
}

/// The directory of the binlog of the database in `dir`: beside it, since the database's own holds nothing foreign.
fn binlog_dir(dir: &std::path::Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_os_string();
    name.push("-binlog");
    dir.with_file_name(name)
}

fn report(output: &mut Output<'_>, line: &ResultLine, intervals: &[IntervalLine]) -> Result<()> {
    output.json(line)?;
    for interval in intervals {
        output.json(interval)?;
    }
    output.say(tables::intervals(line, intervals))
}
