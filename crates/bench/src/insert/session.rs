//! One engine with its tables, and the steps on it.

use super::binlog::Binlog;
use super::client_table::{ClientTable, IndexMode, OldRows};
use super::commit::{Commit, Oldest};
use super::queries::{Pace, Queries};
use super::rows::Schema;
use super::step::Step;
use super::{InsertConfig, binlog_dir};
use crate::config_json;
use crate::engines::{EngineKind, OpenEngine};
use crate::load::{self, Load, Measured, Worker};
use crate::stopwatch::Stopwatch;
use crate::{IntervalLine, ResultLine, Rng};
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::engine::EngineStats;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_base::{Error, Result};
use std::collections::BTreeSet;
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
    mode: IndexMode,
    tables: Vec<ClientTable>,
    binlog: Option<Binlog>,
    name: String,
    pair: u32,
    ids: Vec<Ids>,
    /// Steps so far, so that each draws other rows.
    turns: AtomicU64,
    /// Whether the tables have their secondary indexes.
    has_indexes: AtomicBool,
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
    pub(super) fn new(
        config: &'a InsertConfig,
        kind: EngineKind,
        mode: IndexMode,
        dir: &Path,
        pair: u32,
    ) -> Result<Self> {
        if (config.rows + config.more_rows) / config.clients as u64 >= config.schema.most_rows() {
            return Err(Error::invalid_argument("--rows is beyond what the schema's primary key can number"));
        }
        let engine = kind.open_tables(dir, &config.settings)?;
        let has_indexes = config.steps.first() != Some(&Step::LoadPlain);
        let create = |client| ClientTable::create(&engine, mode, config.schema, client, has_indexes);
        let tables = (1..=config.clients).map(create).collect::<Result<Vec<_>>>()?;
        let binlog = Binlog::create(engine.env(), &binlog_dir(dir), config.binlog)?;
        let name = match mode {
            IndexMode::Eager => engine.name(),
            IndexMode::Lazy => format!("{} lazy indexes", engine.name()),
        };
        let ids = || Ids { oldest: AtomicU64::new(1), next: AtomicU64::new(1) };
        let ids = (0..config.clients).map(|_| ids()).collect();
        Ok(Self {
            config,
            engine,
            mode,
            tables,
            binlog,
            name,
            pair,
            ids,
            turns: AtomicU64::new(0),
            has_indexes: AtomicBool::new(has_indexes),
        })
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
            Step::AddIndexes => (0, None, config.rows),
            Step::Load | Step::LoadPlain => (0, config.insert_seconds, config.rows),
            Step::Updates => (0, config.insert_seconds, config.updates),
            _ => (0, config.insert_seconds, step.rows(config.more_rows)),
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
            space: Some(&|| self.engine.stats().ok()?.data_bytes()),
        };
        self.turns.fetch_add(1, Ordering::Relaxed);
        let before = self.engine.stats()?;
        let binlog_before = self.binlog_bytes();
        let (measured, done) = match step {
            _ if step.is_rest() => (load::flush_and_settle(&*self.engine.admin, bar)?, Vec::new()),
            _ => load::run(&load, |worker| self.client(step, worker))?,
        };
        if step == Step::AddIndexes {
            self.has_indexes.store(true, Ordering::Relaxed);
        }
        let stats = self.engine.stats()?.since(&before);
        let binlog_bytes = self.binlog_bytes().zip(binlog_before).map(|(after, before)| after - before);
        let mut line = self.line(step, measured, stats, &done, binlog_bytes);
        if most_seconds.is_some() {
            line.0.rows_left_out = expected_ops.checked_sub(line.0.ops).filter(|left| *left > 0);
        }
        if self.mode == IndexMode::Lazy && !matches!(step, Step::Ranges(_) | Step::Points(_)) {
            line.0.stale_share = self.stale_share()?;
        }
        Ok(line)
    }

    /// The largest stale share of a client's table.
    fn stale_share(&self) -> Result<Option<f64>> {
        let shares = self.tables.iter().map(|table| table.stale_share(&self.engine)).collect::<Result<Vec<_>>>()?;
        Ok(shares.into_iter().flatten().max_by(f64::total_cmp))
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
            Step::Settle | Step::Pause => Ok(Done::default()),
            Step::Load | Step::LoadPlain => self.insert(client, share(self.config.rows), at_once, false, worker),
            Step::AddIndexes => self.add_indexes(client, worker),
            Step::Updates => self.update(client, share(self.config.updates), at_once, worker),
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

    /// Adds the indexes to the client's table.
    fn add_indexes(&self, client: usize, worker: &mut Worker<'_>) -> Result<Done> {
        let (Some(&table), Some(ids)) = (self.tables.get(client), self.ids.get(client)) else {
            return Ok(Done::default());
        };
        let schema = self.config.schema;
        let rows = ids.next.load(Ordering::Relaxed) - ids.oldest.load(Ordering::Relaxed);
        for position in 0..Schema::INDEXES {
            let watch = Stopwatch::start();
            // An engine that adds one index at a time is asked again when the other client's may be there.
            worker.again_while_busy(|| table.add_index(&self.engine, schema, position))?;
            // A row counts when it has all its entries.
            worker.record(watch.nanos(), if position + 1 == Schema::INDEXES { rows } else { 0 });
        }
        Ok(Done { bytes: rows * schema.entry_bytes() as u64, split: None })
    }

    /// Gives `rows` rows, drawn from those that are there, other values.
    fn update(&self, client: usize, rows: u64, at_once: usize, worker: &mut Worker<'_>) -> Result<Done> {
        let mut inserter = self.inserter(client)?;
        let mut left = rows;
        while left > 0 && !worker.is_stopped() {
            let count = left.min(at_once as u64);
            let watch = Stopwatch::start();
            let updated = inserter.update(count)?;
            worker.record(watch.nanos(), updated);
            left = left.saturating_sub(updated);
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
            // The step ended while nothing was due.
            if watch.seconds() < due {
                break;
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
        let turn = self.turns.load(Ordering::Relaxed);
        let mut queries = Queries::new(&self.engine, table, config.schema, config.seed, client, turn);
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
        let next = ids.next.load(Ordering::Relaxed);
        let commit = Commit::new(self.config, client, next);
        let turn = self.turns.load(Ordering::Relaxed);
        let rng = Rng::new(self.config.seed, 0x7570_6461 ^ ((client as u64) << 32) ^ turn);
        Ok(Inserter {
            session: self,
            table,
            ids,
            commit,
            oldest: Oldest::default(),
            old: OldRows::default(),
            numbers: BTreeSet::new(),
            rng,
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
        let inserts = !step.is_rest();
        let is_load = matches!(step, Step::Load | Step::LoadPlain | Step::AddIndexes);
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
            config: config_json::whole(config),
            pair: self.pair,
            threads: config.clients as u32,
            bytes_user,
            data_bytes: Some(self.data_bytes()),
            write_amp: of_user(stats.bytes_written, bytes_user).filter(|_| inserts),
            space_amp: of_user(stats.data_bytes(), self.data_bytes()),
            kb_written_per_row: measured.usage.written.filter(|_| inserts).map(|bytes| bytes as f64 / 1e3 / rows),
            lookups: lookups(&stats).filter(|_| inserts && !queries),
            reads_per_row: stats.reads.filter(|_| is_load || step == Step::Updates).map(|reads| reads as f64 / rows),
            rows_per_commit_split: done.iter().filter_map(|done| done.split).min(),
            binlog_bytes: binlog_bytes.filter(|_| inserts && step != Step::AddIndexes),
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
        let schema = self.config.schema;
        let has_indexes = self.has_indexes.load(Ordering::Relaxed);
        self.ids.iter().map(rows).sum::<u64>() * if has_indexes { schema.row_bytes() } else { schema.plain_row_bytes() }
    }
}

/// Keys that were looked up, and iterators' seeks, but for those of sweeps, as the LSM engine counts them; whatever rows and indexes they were in.
fn lookups(stats: &EngineStats) -> Option<u64> {
    let of = |name: &str| stats.counters.get(name).copied().unwrap_or(0);
    let is_counted = stats.counters.contains_key("rocksdb.number.keys.written");
    let all = of("rocksdb.number.keys.read") + of("rocksdb.number.db.seek");
    is_counted.then(|| all.saturating_sub(of("sweep.rows.read") + of("sweep.seeks")))
}

/// One client that inserts, and deletes what is oldest.
struct Inserter<'a> {
    session: &'a Session<'a>,
    table: ClientTable,
    ids: &'a Ids,
    commit: Commit,
    oldest: Oldest,
    old: OldRows,
    /// The rows of an update.
    numbers: BTreeSet<u64>,
    rng: Rng,
    done: Done,
}

impl Inserter<'_> {
    /// Inserts the next rows in one commit, after the binlog.
    fn insert(&mut self, count: u64) -> Result<()> {
        self.commit.fill(count as usize);
        if let Some(binlog) = &self.session.binlog {
            binlog.commit(&self.commit.bytes)?;
        }
        self.table.insert(&self.session.engine, &self.commit.rows(), &mut self.done.split)?;
        self.count_bytes(count);
        self.ids.next.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    fn count_bytes(&mut self, rows: u64) {
        let has_indexes = self.session.has_indexes.load(Ordering::Relaxed);
        let entries = if has_indexes { self.session.config.schema.entry_bytes() as u64 } else { 0 };
        self.done.bytes += self.commit.bytes.len() as u64 + rows * entries;
    }

    /// Gives about so many different rows other values in one commit, after the binlog. Returns how many.
    fn update(&mut self, count: u64) -> Result<u64> {
        let (first, end) = (self.ids.oldest.load(Ordering::Relaxed), self.ids.next.load(Ordering::Relaxed));
        if first == end {
            return Err(Error::invalid_argument("there are no rows to update"));
        }
        self.numbers.clear();
        for _ in 0..count {
            self.numbers.insert(first + self.rng.below(end - first));
        }
        let updated = self.numbers.len() as u64;
        self.commit.fill_numbers(self.numbers.iter().copied());
        if let Some(binlog) = &self.session.binlog {
            binlog.commit(&self.commit.bytes)?;
        }
        self.table.update(&self.session.engine, &self.commit.rows(), &mut self.old)?;
        self.count_bytes(updated);
        Ok(updated)
    }

    /// Deletes the oldest rows.
    fn delete(&mut self, count: u64) -> Result<()> {
        let first = self.ids.oldest.load(Ordering::Relaxed);
        let (engine, schema) = (&self.session.engine, self.session.config.schema);
        self.table.delete_oldest(engine, schema, first..first + count, &mut self.oldest)?;
        self.ids.oldest.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }
}
