//! Step `l`: load with the indexes in place.

use super::binlog::Binlog;
use super::rows::RowSource;
use super::{InsertConfig, binlog_dir};
use crate::engines::{EngineKind, OpenEngine};
use crate::load::{self, Load, Measured, Worker};
use crate::stopwatch::Stopwatch;
use crate::{IntervalLine, ResultLine};
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::engine::{EngineStats, Row, TableId, Tables};
use siltstone_base::{Error, ErrorKind, Result};
use std::hint::black_box;
use std::path::Path;

/// The name of the step.
pub(super) const LOAD: &str = "l";

/// Rows that are made to learn what making one costs.
const CALIBRATION_ROWS: u64 = 200_000;

type Line = (ResultLine, Vec<IntervalLine>);

/// The rows of one commit, in memory that is used again.
struct Commit {
    source: RowSource,
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
    clock: SystemClock,
}

impl Commit {
    fn new(config: &InsertConfig, client: usize) -> Self {
        let source = RowSource::new(config.schema, config.seed, client);
        Self { source, bytes: Vec::new(), ends: Vec::new(), clock: SystemClock::new() }
    }

    fn fill(&mut self, rows: usize) {
        self.bytes.clear();
        self.ends.clear();
        let now = self.clock.unix_seconds();
        for _ in 0..rows {
            let key_end = self.source.next(now, &mut self.bytes);
            self.ends.push((key_end, self.bytes.len()));
        }
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let mut start = 0;
        let row = |&(key_end, end): &(usize, usize)| {
            let row = Row { primary_key: &self.bytes[start..key_end], value: &self.bytes[key_end..end] };
            start = end;
            row
        };
        self.ends.iter().map(row).collect()
    }
}

/// What the harness costs for each row by itself: making the rows of a commit and handing them to nobody.
pub(super) fn harness_nanos_per_row(config: &InsertConfig) -> Result<f64> {
    let commits = CALIBRATION_ROWS.div_ceil(config.rows_per_commit as u64);
    let mut commit = Commit::new(config, 0);
    let mut latencies = crate::Latencies::new()?;
    let watch = Stopwatch::start();
    for _ in 0..commits {
        let one = Stopwatch::start();
        commit.fill(config.rows_per_commit);
        black_box(commit.rows());
        latencies.record(one.nanos());
    }
    Ok(watch.nanos() as f64 / (commits * config.rows_per_commit as u64) as f64)
}

/// Loads one engine and returns the lines of its steps.
pub(super) fn run(config: &InsertConfig, kind: EngineKind, dir: &Path, pair: u32, bar: bool) -> Result<Vec<Line>> {
    if config.rows / config.clients as u64 >= config.schema.most_rows() {
        return Err(Error::invalid_argument("--rows is beyond what the schema's primary key can number"));
    }
    let engine = kind.open_tables(dir, &config.settings)?;
    let tables = engine.as_tables()?;
    let ids = (1..=config.clients)
        .map(|client| tables.create_table(&config.schema.table(client)))
        .collect::<Result<Vec<_>>>()?;
    let binlog = Binlog::create(engine.env(), &binlog_dir(dir), config.binlog)?;
    let name = engine.name();
    let label = format!("{name} insert");
    let load = Load {
        label: &label,
        threads: config.clients,
        companions: 0,
        expected_ops: config.rows,
        interval_s: config.interval_s,
        bar,
        most_seconds: None,
        gauge: None,
    };
    let before = engine.stats()?;
    let (measured, bytes) = load::run(&load, |worker| client(config, &engine, &ids, binlog.as_ref(), worker))?;
    let after = engine.stats()?;
    let bytes_user = bytes.iter().map(|loaded| loaded.bytes).sum();
    let split = bytes.iter().filter_map(|loaded| loaded.split).min();
    let binlog_bytes = binlog.as_ref().map(|binlog| binlog.written().0);
    let run = Run { pair, name, bytes_user, split, binlog_bytes };
    let mut lines = vec![run.line(config, LOAD, measured, after.since(&before))];
    if config.settle {
        let measured = load::settle(&*engine.admin)?;
        lines.push(run.line(config, "settle", measured, engine.stats()?.since(&after)));
    }
    engine.admin.close()?;
    Ok(lines)
}

/// What one client did.
#[derive(Debug, Clone, Copy, Default)]
struct Loaded {
    /// Bytes of rows and index entries.
    bytes: u64,
    /// The most rows that the engine took at once, where it refused more.
    split: Option<u64>,
}

/// Inserts rows as one batch; as several, if the engine allows no such long one. `most`: the most rows that it took since it refused some.
fn insert(tables: &dyn Tables, table: TableId, rows: &[Row<'_>], most: &mut Option<u64>) -> Result<()> {
    let mut left = rows;
    while !left.is_empty() {
        let count = most.map_or(left.len(), |most| left.len().min(most as usize));
        match tables.insert(table, &left[..count]) {
            Ok(()) => left = &left[count..],
            Err(error) if error.kind() == ErrorKind::LimitExceeded && count > 1 => *most = Some(count as u64 / 2),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Inserts the rows of one client.
fn client(
    config: &InsertConfig,
    engine: &OpenEngine,
    ids: &[TableId],
    binlog: Option<&Binlog>,
    worker: &mut Worker<'_>,
) -> Result<Loaded> {
    let tables = engine.as_tables()?;
    let (clients, index) = (config.clients as u64, worker.index as u64);
    let rows = config.rows / clients + u64::from(index < config.rows % clients);
    let Some(&table) = ids.get(worker.index) else { return Ok(Loaded::default()) };
    let mut commit = Commit::new(config, worker.index);
    let (mut done, mut loaded) = (0, Loaded::default());
    let watch = Stopwatch::start();
    while done < rows && !worker.is_stopped() {
        let count = (rows - done).min(config.rows_per_commit as u64);
        commit.fill(count as usize);
        let start = watch.nanos();
        if let Some(binlog) = binlog {
            binlog.commit(&commit.bytes)?;
        }
        insert(tables, table, &commit.rows(), &mut loaded.split)?;
        worker.record(watch.nanos() - start, count);
        done += count;
        loaded.bytes += commit.bytes.len() as u64 + count * config.schema.entry_bytes() as u64;
    }
    Ok(loaded)
}

struct Run {
    pair: u32,
    name: String,
    bytes_user: u64,
    split: Option<u64>,
    binlog_bytes: Option<u64>,
}

impl Run {
    fn line(&self, config: &InsertConfig, step: &str, measured: Measured, stats: EngineStats) -> Line {
        let is_load = step == LOAD;
        let of_user = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / self.bytes_user.max(1) as f64);
        let rows = measured.ops.max(1) as f64;
        let name = ResultLine {
            experiment: "insert".to_owned(),
            workload: step.to_owned(),
            engine: self.name.clone(),
            config_hash: config.config_hash(),
            setup: config.setup(),
            pair: self.pair,
            threads: config.clients as u32,
            bytes_user: if is_load { self.bytes_user } else { 0 },
            write_amp: of_user(stats.bytes_written).filter(|_| is_load),
            space_amp: of_user(stats.data_bytes()),
            kb_written_per_row: measured.usage.written.filter(|_| is_load).map(|bytes| bytes as f64 / 1e3 / rows),
            reads_per_row: stats.reads.filter(|_| is_load).map(|reads| reads as f64 / rows),
            rows_per_commit_split: self.split.filter(|_| is_load),
            binlog_bytes: self.binlog_bytes.filter(|_| is_load),
            ..ResultLine::default()
        };
        let line = measured.line(stats, name);
        let intervals = measured.interval_lines(&line);
        (line, intervals)
    }
}
