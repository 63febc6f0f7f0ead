//! The command `insert`: the insert benchmark.
//!
//! | step | what it does |
//! | --- | --- |
//! | `l` | inserts all rows in primary-key order with three secondary indexes in place, `--rows-per-commit` in one commit |
//! | `l.i0` | the same into tables without secondary indexes |
//! | `l.x` | adds the three secondary indexes to what `l.i0` loaded, one after the other; the clients beside each other, as far as the engine can |
//! | `settle` | has what is in memory written to its place, and waits until no compaction is due |
//! | `l.i1`, `l.i2` | insert four fifths and a fifth of `--more-rows` in commits of 50 and of 5 rows; after each commit the client deletes as many of its oldest rows, which it reads first |
//! | `pause` | the same before queries, where the benchmark's own script also compacts level 0 and sleeps |
//! | `u` | gives `--updates` rows, drawn from those that are there, other values in all indexed columns: eagerly each is read first, lazily none is |
//! | `qrN` | for `--query-seconds` each client reads ten entries of an index from a random place on, again and again, beside a thread that inserts and deletes N rows a second |
//! | `qpN` | the same with ten rows by their primary keys |
//!
//! Each client has a table of its own; a commit goes to the binlog first if there is one. Two schemas: that of 2017 (the published figures) and the current one; see [`Schema`].
//!
//! `bytes_user` counts rows and index entries (keys and values) that were inserted, for all engines alike; write and space amplification are
//! held against it; of `l.x` it counts the entries of the rows that are there. A latency is that of one commit that inserts, of one index that is added, or of one query. The operations of `l.x` are rows, each
//! of which gets all its entries. `writer/s` of the query steps tells whether the inserters kept their rate.

use crate::config_json;
use crate::engines::{EngineKind, EngineSettings};
use crate::place::{Found, Place, begin_anew, remove_database};
use crate::{IntervalLine, Output, ResultLine};
use serde::Serialize;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

mod binlog;
mod client_table;
mod commit;
mod queries;
mod rows;
mod session;
pub mod sql;
mod step;
mod tables;
#[cfg(test)]
mod tests;

pub use binlog::BinlogMode;
pub use client_table::IndexMode;
pub use rows::Schema;
pub use step::Step;

/// What `insert` runs.
#[derive(Debug, Clone, Serialize)]
pub struct InsertConfig {
    /// The engines, to be run alternately.
    #[serde(serialize_with = "config_json::names")]
    pub engines: Vec<EngineKind>,
    /// Rows of all clients together.
    pub rows: u64,
    /// Clients, each with a table.
    pub clients: usize,
    /// Rows in one commit.
    pub rows_per_commit: usize,
    /// The form of the table.
    #[serde(serialize_with = "config_json::name")]
    pub schema: Schema,
    /// The binlog.
    #[serde(serialize_with = "config_json::name")]
    pub binlog: BinlogMode,
    /// How many times every engine runs.
    pub pairs: u32,
    /// The steps, in order.
    #[serde(serialize_with = "config_json::names")]
    pub steps: Vec<Step>,
    /// How their indexes are kept, to be run alternately too.
    #[serde(serialize_with = "config_json::names")]
    pub index_modes: Vec<IndexMode>,
    /// Rows that `u` updates.
    pub updates: u64,
    /// Rows that `l.i1` and `l.i2` insert together.
    pub more_rows: u64,
    /// Length of a step of queries.
    pub query_seconds: f64,
    /// Longest time of a step that inserts or updates: the rows that are left then are left out. `None`: as long as it takes.
    pub insert_seconds: Option<f64>,
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
    more_rows: u64,
    updates: u64,
    clients: usize,
    rows_per_commit: usize,
    schema: &'static str,
    binlog: String,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    insert_seconds: Option<f64>,
    /// Whether the indexes are added to the rows: they are another size then than indexes that grew with them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    indexes_later: bool,
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
            ("index-mode", !self.index_modes.is_empty()),
            ("insert-seconds", self.insert_seconds.is_none_or(|seconds| seconds >= 0.1)),
            ("updates", self.updates <= 1 << 40),
            ("more-rows", self.more_rows <= self.rows),
            ("query-seconds", (0.1..=86_400.0).contains(&self.query_seconds)),
        ];
        match bounds.iter().find(|(_, is_within)| !is_within) {
            Some((name, _)) => Err(Error::invalid_argument(format!("--{name} is out of bounds"))),
            None => step::check_order(&self.steps),
        }
    }

    /// The settings in words.
    fn setup(&self) -> String {
        let Self { rows_per_commit, schema, binlog, .. } = self;
        let durability = self.settings.durability;
        let limit =
            self.insert_seconds.map_or_else(String::new, |most| format!(", {most} s of inserting a step at most"));
        let words = self.settings.in_words();
        format!(
            "schema {schema}, {rows_per_commit} rows a commit, binlog {binlog}, durability {durability}{limit}{words}"
        )
    }

    pub(crate) fn config_hash(&self) -> String {
        let Self { rows, more_rows, updates, clients, rows_per_commit, seed, insert_seconds, .. } = *self;
        let (schema, binlog) = (self.schema.name(), self.binlog.to_string());
        let indexes_later = self.steps.contains(&Step::AddIndexes);
        let identity = Identity {
            rows,
            more_rows,
            updates,
            clients,
            rows_per_commit,
            schema,
            binlog,
            seed,
            insert_seconds,
            indexes_later,
        };
        crate::engines::config_hash(&identity, &self.settings)
    }
}

/// Runs the benchmark and returns one line a run.
pub fn run(config: &InsertConfig, output: &mut Output<'_>) -> Result<Vec<ResultLine>> {
    config.check()?;
    let place = Place::new(config.dir.as_deref(), config.engines.len() > 1, Found::Removed)?;
    let harness = session::harness_nanos_per_row(config)?;
    output.say(config.setup())?;
    let mut lines = Vec::new();
    for pair in 1..=config.pairs {
        let both = |kind: &EngineKind| config.index_modes.iter().map(|mode| (*kind, *mode)).collect::<Vec<_>>();
        let mut runs: Vec<(EngineKind, IndexMode)> = config.engines.iter().flat_map(both).collect();
        if pair % 2 == 0 {
            runs.reverse();
        }
        for (kind, mode) in runs {
            let dir = place.of(kind);
            remove_database(&dir)?;
            if config.binlog != BinlogMode::Off {
                begin_anew(&binlog_dir(&dir))?;
            }
            let session = session::Session::new(config, kind, mode, &dir, pair)?;
            for &step in &config.steps {
                let (mut line, intervals) = session.run(step, output.bars)?;
                if matches!(step, Step::Load | Step::LoadPlain) {
                    line.harness_ns_per_op = Some(harness);
                }
                place.mark(&mut line);
                report(output, &line, &intervals)?;
                lines.push(line);
            }
            session.close()?;
        }
    }
    output.say(tables::results(&lines))?;
    if config.engines.len() > 1 {
        output.say(crate::ratios::table(&lines, &config.engines, &["l", "l.i0", "l.x"], config.pairs))?;
    }
    if config.index_modes.len() > 1 {
        output.say(crate::ratios::of_all(&lines, &["l", "l.i0", "l.x", "u"], config.pairs))?;
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
