//! One engine with its tables, and the steps on it.

use super::binlog::Binlog;
use super::commit::{Commit, Oldest, insert};
use super::queries::{Pace, Queries};
use super::step::Step;
use super::{InsertConfig, binlog_dir};
use crate::engines::{EngineKind, OpenEngine};
use crate::load::{self, Load, Measured, Worker};
use crate::stopwatch::Stopwatch;
use crate::{IntervalLine, ResultLine};
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::engine::{EngineStats, TableId};
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::{Error, Result};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

/// Rows that are made to learn what making one costs.
const CALIBRATION_ROWS: u64 = 200_000;

/// The longest that an inserter with a rate sleeps before it looks whether the step is over.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

type Line = (ResultLine, Vec<IntervalLine>);

/// What the harness costs for each row by itself: making the rows of a commit and handing them to nobody.
pub(super) fn harness_nanos_per_row(config: &InsertConfig) -> Result<f64> {
    let commits = CALIBRATION_ROWS.div_ceil(config.rows_per_commit as u64);
    let mut commit = Commit::new(config, 0, 1);
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

/// The rows that a client's table has: numbers from the first to before the second.
#[derive(Debug)]
struct Ids {
    oldest: AtomicU64,
    next: AtomicU64,
}

/// One engine with its tables.
pub(super) struct Session<'a> {
    config: &'a InsertConfig,
    engine: OpenEngine,
    tables: Vec<TableId>,
    binlog: Option<Binlog>,
    name: String,
    pair: u32,
    ids: Vec<Ids>,
}

/// What a client did in a step.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    /// Bytes of the rows and index entries that it inserted.
    bytes: u64,
    /// The most rows that the engine took at once, where it refused more.
    split: Option<u64>,
}

impl<'a> Session<'a> {
    /// Opens the engine in `dir` and creates the tables.
    pub(super) fn new(config: &'a InsertConfig, kind: EngineKind, dir: &Path, pair: u32) -> Result<Self> {
        if (config.rows + config.more_rows) / config.clients as u64 >= config.schema.most_rows() {
            return Err(Error::invalid_argument("--rows is beyond what the schema's primary key can number"));
        }
        let engine = kind.open_tables(dir, &config.settings)?;
        let create = |client| engine.as_tables()?.create_table(&config.schema.table(client));
        let tables = (1..=config.clients).map(create).collect::<Result<Vec<_>>>()?;
        let binlog = Binlog::create(engine.env(), &binlog_dir(dir), config.binlog)?;
        let name = engine.name();
        let ids = || Ids { oldest: AtomicU64::new(1), next: AtomicU64::new(1) };
        let ids = (0..config.clients).map(|_| ids()).collect();
        Ok(Self { config, engine, tables, binlog, name, pair, ids })
    }

    /// Closes the engine.
    pub(super) fn close(&self) -> Result<()> {
        self.engine.admin.close()
    }

    /// Runs a step.
    pub(super) fn run(&self, step: Step, bar: bool) -> Result<Line> {
        let config = self.config;
        let label = format!("{} {step}", self.name);
        let (companions, most_seconds, expected_ops) = match step {
            Step::Ranges(_) | Step::Points(_) => (config.clients, Some(config.query_seconds), 0),
            Step::Load => (0, None, config.rows),
            _ => (0, None, step.rows(config.more_rows)),
        };
        let load = Load {
            label: &label,
            threads: config.clients,
            companions,
            expected_ops,
            interval_s: config.interval_s,
            bar,
            most_seconds,
            gauge: None,
        };
        let before = self.engine.stats()?;
        let binlog_before = self.binlog_bytes();
        let (measured, done) = match step {
            Step::Settle => (load::settle(&*self.engine.admin)?, Vec::new()),
            _ => load::run(&load, |worker| self.client(step, worker))?,
        };
        let stats = self.engine.stats()?.since(&before);
        let binlog_bytes = self.binlog_bytes().zip(binlog_before).map(|(after, before)| after - before);
        Ok(self.line(step, measured, stats, &done, binlog_bytes))
    }

    fn binlog_bytes(&self) -> Option<u64> {
        self.binlog.as_ref().map(|binlog| binlog.written().0)
    }

    /// What one thread does in a step.
    fn client(&self, step: Step, worker: &mut Worker<'_>) -> Result<Done> {
        let clients = self.config.clients;
        let client = worker.index % clients;
        let share = |rows: u64| rows / clients as u64 + u64::from((client as u64) < rows % clients as u64);
        let at_once = step.rows_per_commit().unwrap_or(self.config.rows_per_commit);
        match step {
            Step::Settle => Ok(Done::default()),
            Step::Load => self.insert(client, share(self.config.rows), at_once, false, worker),
            Step::ManyAtOnce | Step::FewAtOnce => {
                self.insert(client, share(step.rows(self.config.more_rows)), at_once, true, worker)
            }
            Step::Ranges(rate) | Step::Points(rate) if worker.index >= clients => {
                self.insert_at(client, rate, at_once, worker)
            }
            Step::Ranges(_) | Step::Points(_) => self.query(step, client, worker),
        }
    }

    /// Inserts `rows` rows, and deletes as many of the oldest after each commit if `deletes`.
    fn insert(&self, client: usize, rows: u64, at_once: usize, deletes: bool, worker: &mut Worker<'_>) -> Result<Done> {
        let mut inserter = self.inserter(client)?;
        let mut left = rows;
        while left > 0 && !worker.is_stopped() {
            let count = left.min(at_once as u64);
            let watch = Stopwatch::start();
            inserter.insert(count)?;
            worker.record(watch.nanos(), count);
            if deletes {
                inserter.delete(count)?;
            }
            left -= count;
        }
        Ok(inserter.done)
    }

    /// Inserts and deletes `rate` rows a second until it is told to stop.
    fn insert_at(&self, client: usize, rate: u32, at_once: usize, worker: &mut Worker<'_>) -> Result<Done> {
        let mut inserter = self.inserter(client)?;
        let mut pace = Pace::new(rate, at_once)?;
        let clock = SystemClock::new();
        let watch = Stopwatch::start();
        while !worker.is_stopped() {
            let due = pace.next();
            while !worker.is_stopped() && watch.seconds() < due {
                clock.sleep(LONGEST_SLEEP.min(Duration::from_secs_f64((due - watch.seconds()).max(0.0))));
            }
            let one = Stopwatch::start();
            inserter.insert(at_once as u64)?;
            worker.record(one.nanos(), at_once as u64);
            inserter.delete(at_once as u64)?;
        }
        Ok(inserter.done)
    }

    /// Queries the client's table until it is told to stop.
    fn query(&self, step: Step, client: usize, worker: &mut Worker<'_>) -> Result<Done> {
        let (Some(&table), Some(ids)) = (self.tables.get(client), self.ids.get(client)) else {
            return Ok(Done::default());
        };
        let config = self.config;
        let mut queries = Queries::new(self.engine.as_tables()?, table, config.schema, config.seed, client);
        worker.drive(u64::MAX, 1, |_| {
            match step {
                Step::Points(_) => {
                    queries.points(ids.oldest.load(Ordering::Relaxed)..ids.next.load(Ordering::Relaxed))?
                }
                _ => queries.range()?,
            }
            Ok(true)
        })?;
        Ok(Done::default())
    }

    fn inserter(&self, client: usize) -> Result<Inserter<'_>> {
        let (Some(&table), Some(ids)) = (self.tables.get(client), self.ids.get(client)) else {
            return Err(Error::invalid_argument("a client without a table"));
        };
        let commit = Commit::new(self.config, client, ids.next.load(Ordering::Relaxed));
        Ok(Inserter {
            session: self,
            table,
            ids,
            commit,
            oldest: Oldest::default(),
            key: Vec::new(),
            done: Done::default(),
        })
    }

    fn line(
        &self,
        step: Step,
        measured: Measured,
        stats: EngineStats,
        done: &[Done],
        binlog_bytes: Option<u64>,
    ) -> Line {
        let config = self.config;
        let bytes_user = done.iter().map(|done| done.bytes).sum::<u64>();
        let inserts = !matches!(step, Step::Settle);
        let is_load = step == Step::Load;
        let queries = matches!(step, Step::Ranges(_) | Step::Points(_));
        let rows = if queries { measured.companion_ops } else { measured.ops }.max(1) as f64;
        let offered = match step {
            Step::Ranges(rate) | Step::Points(rate) => Some(f64::from(rate) * config.clients as f64),
            _ => None,
        };
        let of_user = |bytes: Option<u64>, user: u64| bytes.map(|bytes| bytes as f64 / user.max(1) as f64);
        let name = ResultLine {
            experiment: "insert".to_owned(),
            workload: step.to_string(),
            engine: self.name.clone(),
            config_hash: config.config_hash(),
            setup: config.setup(),
            pair: self.pair,
            threads: config.clients as u32,
            bytes_user,
            data_bytes: Some(self.data_bytes()),
            write_amp: of_user(stats.bytes_written, bytes_user).filter(|_| inserts),
            space_amp: of_user(stats.data_bytes(), self.data_bytes()),
            kb_written_per_row: measured.usage.written.filter(|_| inserts).map(|bytes| bytes as f64 / 1e3 / rows),
            reads_per_row: stats.reads.filter(|_| is_load).map(|reads| reads as f64 / rows),
            rows_per_commit_split: done.iter().filter_map(|done| done.split).min(),
            binlog_bytes: binlog_bytes.filter(|_| inserts),
            writer_ops_per_s: queries.then(|| measured.companion_ops as f64 / measured.seconds.max(1e-9)),
            offered_ops_per_s: offered,
            ..config.settings.line()
        };
        let line = measured.line(stats, name);
        let intervals = measured.interval_lines(&line);
        (line, intervals)
    }

    /// Bytes of the rows that the tables have, with their entries.
    fn data_bytes(&self) -> u64 {
        let rows = |ids: &Ids| ids.next.load(Ordering::Relaxed) - ids.oldest.load(Ordering::Relaxed);
        self.ids.iter().map(rows).sum::<u64>() * self.config.schema.row_bytes()
    }
}

/// One client that inserts, and deletes what is oldest.
struct Inserter<'a> {
    session: &'a Session<'a>,
    table: TableId,
    ids: &'a Ids,
    commit: Commit,
    oldest: Oldest,
    key: Vec<u8>,
    done: Done,
}

impl Inserter<'_> {
    /// Inserts the next rows in one commit, after the binlog.
    fn insert(&mut self, count: u64) -> Result<()> {
        self.commit.fill(count as usize);
        if let Some(binlog) = &self.session.binlog {
            binlog.commit(&self.commit.bytes)?;
        }
        let tables = self.session.engine.as_tables()?;
        insert(tables, self.table, &self.commit.rows(), &mut self.done.split)?;
        let entries = count * self.session.config.schema.entry_bytes() as u64;
        self.done.bytes += self.commit.bytes.len() as u64 + entries;
        self.ids.next.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// Deletes the oldest rows.
    fn delete(&mut self, count: u64) -> Result<()> {
        self.key.clear();
        self.session.config.schema.put_id(self.ids.oldest.load(Ordering::Relaxed), &mut self.key);
        self.oldest.delete(self.session.engine.as_tables()?, self.table, &self.key, count as usize)?;
        self.ids.oldest.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }
}
