//! The workloads on one engine, one after the other.

use super::client::{Client, Shared};
use super::rows::{RowBuffer, index, plain_table, table};
use super::{MemorySetup, SysbenchConfig, Workload};
use crate::config_json;
use crate::engines::{EngineKind, OpenEngine};
use crate::load::offered::{self, Offered, OfferedRate, Offering};
use crate::load::{self, End, Load, Measured, Worker};
use crate::place::{copy_database, remove_database, remove_place};
use crate::stopwatch::Stopwatch;
use crate::{IntervalLine, ResultLine, Rng};
use siltstone_base::engine::{Row, TableId, Tables};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// Rows of a commit of the load, where the engine takes so many.
const LOADED_AT_ONCE: u32 = 100;

/// The part of a workload's time for which rows are read before it, again and again while that makes reading quicker.
pub(crate) const WARMED: f64 = 0.25;

/// So many times at most.
const MOST_WARMED: u64 = 8;

/// What is no more than so much quicker than the time before is not growing any more.
const STILL_GROWS: f64 = 1.05;

/// Draws of what is read then: those of no run that is measured, the closed loop and the open ones.
const WARMING: u64 = 0xffff_0000;

pub(super) struct Session<'a> {
    config: &'a SysbenchConfig,
    kind: EngineKind,
    dir: PathBuf,
    /// Where the database is kept as it was loaded, once a workload is about to change it.
    loaded: PathBuf,
    state: State,
    pair: u32,
    engine: Option<Opened>,
    /// Held while an index is added: each takes memory beside what the engine was given.
    adding: Mutex<()>,
}

/// How the database is, compared with what was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The same, and there is no copy.
    Loaded,
    /// The same, and there is a copy.
    Kept,
    /// Changed.
    Changed,
}

/// An engine and its tables.
type Opened = (OpenEngine, Vec<TableId>);

/// One run of a workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) workload: Workload,
    /// Draws differ where this does.
    number: u64,
    clients: usize,
    /// At which rate transactions arrive. `None`: a closed loop.
    rate: Option<&'a OfferedRate>,
}

impl Run<'_> {
    /// A closed loop of the workload of this `number` in the list.
    pub(super) fn closed(workload: Workload, number: u64, clients: usize) -> Self {
        Self { workload, number, clients, rate: None }
    }

    /// The open loop of this `order`, counted from 1, among those after the closed one. It draws other rows: those of the closed one may still be in a cache that outlives the engine.
    pub(super) fn at(self, rate: &OfferedRate, order: u64) -> Run<'_> {
        Run { workload: self.workload, number: self.number | (order << 16), clients: self.clients, rate: Some(rate) }
    }

    fn name(&self) -> String {
        self.rate.map_or_else(|| self.workload.name().to_owned(), |rate| rate.name_of(self.workload.name()))
    }
}

/// What a run gave.
struct Outcome {
    measured: Measured,
    /// Bytes of rows and entries written; read, where nothing is written.
    bytes: u64,
    /// What was offered in an open loop.
    offered: Option<Offered>,
}

impl<'a> Session<'a> {
    pub(super) fn new(config: &'a SysbenchConfig, kind: EngineKind, dir: PathBuf, pair: u32) -> Self {
        let mut loaded = dir.as_os_str().to_os_string();
        loaded.push(".loaded");
        let adding = Mutex::new(Rank(1), ());
        Self { config, kind, dir, loaded: loaded.into(), state: State::Loaded, pair, engine: None, adding }
    }

    /// Gives the engine its files back.
    pub(super) fn close(&mut self) -> Result<()> {
        self.close_engine()?;
        remove_place(&self.loaded)
    }

    fn close_engine(&mut self) -> Result<()> {
        self.engine.take().map_or(Ok(()), |(engine, _)| engine.admin.close())
    }

    /// The engine as the workload finds it: empty, or with what was loaded, or, where there are no clients, as the one before left it.
    pub(super) fn open(&mut self, workload: Workload) -> Result<Opened> {
        match workload {
            Workload::Load => {
                self.close()?;
                remove_database(&self.dir)?;
                self.open_engine(|tables, number| tables.create_table(&plain_table(number)))?;
                self.state = State::Loaded;
            }
            // The files are no longer those of the copy.
            Workload::Settle if self.state == State::Kept => self.state = State::Changed,
            Workload::Settle => {}
            _ => {
                self.open_loaded(workload)?;
                self.warm_up()?;
            }
        }
        self.engine.clone().ok_or_else(|| Error::invalid_argument("--workloads must begin with load"))
    }

    /// Opens what was loaded anew, for a workload with clients.
    fn open_loaded(&mut self, workload: Workload) -> Result<()> {
        let is_persistent = self.engine.as_ref().is_none_or(|(engine, _)| engine.admin.capabilities().persistent);
        if !is_persistent {
            // Its rows end with it.
            return match workload.writes() {
                true => Err(Error::not_supported(format!("{workload}: {} cannot be opened again", self.kind))),
                false => Ok(()),
            };
        }
        self.close_engine()?;
        if self.state == State::Changed {
            copy_database(&self.loaded, &self.dir)?;
            self.state = State::Kept;
        }
        if workload.writes() {
            if self.state == State::Loaded {
                copy_database(&self.dir, &self.loaded)?;
            }
            self.state = State::Changed;
        }
        self.open_engine(|tables, number| tables.open_table(&table(number)))
    }

    fn open_engine(&mut self, each: impl Fn(&dyn Tables, u32) -> Result<TableId>) -> Result<()> {
        let engine =
            self.kind.open_tables(&self.dir, &self.config.memory.settings(self.kind, &self.config.settings))?;
        let tables = engine.as_tables()?;
        let ids = (1..=self.config.tables).map(|number| each(tables, number)).collect::<Result<Vec<_>>>()?;
        self.engine = Some((engine, ids));
        Ok(())
    }

    /// Reads rows until that gets no quicker: an engine that has nothing in memory says nothing about one at work, and one whose blocks are small takes longer to fill it.
    fn warm_up(&self) -> Result<()> {
        let Some(opened) = &self.engine else { return Ok(()) };
        let clients = self.config.clients.iter().copied().max().unwrap_or(1);
        let most_seconds = Some(self.config.seconds * WARMED);
        let mut before = 0.0;
        for part in 0..MOST_WARMED {
            let run = Run::closed(Workload::ReadOnly, WARMING + part, clients);
            let load = Load { most_seconds, ..self.load_of(run, "warming up", false) };
            let Measured { ops, seconds, .. } = self.transactions(&load, run, opened)?.measured;
            let rate = ops as f64 / seconds;
            if part > 0 && rate <= before * STILL_GROWS {
                break;
            }
            before = rate;
        }
        Ok(())
    }

    /// Clients that do transactions until their time is over, or those that arrive.
    fn transactions(&self, load: &Load<'_>, run: Run<'_>, (engine, ids): &Opened) -> Result<Outcome> {
        let config = self.config;
        let shared = Shared::new(engine.as_tables()?, ids, config.rows)?;
        let shared = shared.with_statement_cost(config.statement_cost(run.workload));
        let stream = (run.number << 32) | (u64::from(self.pair) << 16);
        let start = |rate| Offering::start(rate, End::Seconds(config.seconds), run.clients, config.seed ^ stream);
        let offering = run.rate.map(start).transpose()?;
        let (measured, bytes) = load::run(load, |worker| {
            let client = worker.index as u64 + 1;
            let mut client = Client::new(&shared, run.workload, client, Rng::new(config.seed, stream | client));
            match &offering {
                Some(offering) => offering.serve(worker, || client.transaction().map(drop))?,
                None => worker.drive(u64::MAX, 1, |_| client.transaction()).map(drop)?,
            }
            Ok(client.bytes())
        })?;
        let offered = offering.map(Offering::finish).transpose()?;
        Ok(Outcome { measured, bytes: bytes.iter().sum(), offered })
    }

    /// How a run is driven.
    fn load_of<'b>(&self, run: Run<'_>, label: &'b str, bar: bool) -> Load<'b> {
        let seconds = self.config.seconds;
        let (expected_ops, most_seconds) = match (run.workload, run.rate) {
            (Workload::Load, _) => (u64::from(self.config.tables) * u64::from(self.config.rows), None),
            (_, Some(rate)) => (rate.arrivals(seconds), Some(offered::most_seconds(seconds))),
            (_, None) => (0, Some(seconds)),
        };
        Load {
            label,
            threads: run.clients,
            companions: 0,
            expected_ops,
            interval_s: self.config.interval_s,
            bar,
            most_seconds,
            gauge: None,
            space: None,
        }
    }

    /// Runs one workload.
    pub(super) fn run(&mut self, run: Run<'_>, bar: bool) -> Result<(ResultLine, Vec<IntervalLine>)> {
        let (config, workload) = (self.config, run.workload);
        let opened = self.open(workload)?;
        let engine = &opened.0;
        let before = engine.stats()?;
        let label = format!("{} {}", engine.name(), run.name());
        let load = self.load_of(run, &label, bar);
        let Outcome { measured, bytes, offered } = match workload {
            // What stayed in memory would be written beneath the first workload, after the engine was opened again.
            Workload::Settle => {
                Outcome { measured: load::flush_and_drain(&*engine.admin, bar)?, bytes: 0, offered: None }
            }
            Workload::Load => {
                let (measured, bytes) = load::run(&load, |worker| self.load(&opened, run.clients, worker))?;
                Outcome { measured, bytes: bytes.iter().sum(), offered: None }
            }
            _ => self.transactions(&load, run, &opened)?,
        };
        let stats = engine.stats()?.since(&before);
        let ops = measured.ops.max(1) as f64;
        let writes = |figure: Option<f64>| figure.filter(|_| workload.writes() && bytes > 0);
        let mut name = ResultLine {
            experiment: "sysbench".to_owned(),
            workload: run.name(),
            engine: engine.name(),
            config_hash: config.config_hash(),
            setup: config.setup(),
            config: config_json::whole(config),
            pair: self.pair,
            threads: run.clients as u32,
            bytes_user: bytes,
            write_amp: writes(stats.bytes_written.map(|written| written as f64 / bytes as f64)),
            kb_written_per_row: writes(measured.usage.written.map(|written| written as f64 / 1e3 / ops)),
            reads_per_row: stats.reads.map(|reads| reads as f64 / ops).filter(|_| workload != Workload::Settle),
            data_bytes: Some(config.data_bytes()),
            page_cache: Some(config.memory == MemorySetup::PageCache),
            ..config.settings.line()
        };
        if let Some(offered) = offered {
            offered.mark(&mut name);
        }
        let line = measured.line(stats, name);
        let intervals = measured.interval_lines(&line);
        Ok((line, intervals))
    }

    /// Fills every `clients`-th table, and then gives it its index, as sysbench's `prepare` does. The rate contains both, latencies are those of the rows.
    fn load(&self, (engine, ids): &Opened, clients: usize, worker: &mut Worker<'_>) -> Result<u64> {
        let tables = engine.as_tables()?;
        let (mut at_once, mut bytes) = (LOADED_AT_ONCE, 0);
        let mut buffers = vec![RowBuffer::default(); LOADED_AT_ONCE as usize];
        for (number, &table) in ids.iter().enumerate().skip(worker.index).step_by(clients) {
            let mut rng = Rng::new(self.config.seed, 0x7379_7362 ^ ((number as u64) << 32));
            let mut next = 1;
            while next <= self.config.rows && !worker.is_stopped() {
                let count = LOADED_AT_ONCE.min(self.config.rows - next + 1);
                for (buffer, id) in buffers.iter_mut().zip(next..next + count) {
                    buffer.set_id(id);
                    buffer.draw(self.config.rows, &mut rng);
                    bytes += buffer.bytes();
                }
                let rows: Vec<Row<'_>> = buffers.iter().take(count as usize).map(RowBuffer::as_row).collect();
                let mut left = &rows[..];
                while !left.is_empty() {
                    let part = left.len().min(at_once as usize);
                    let watch = Stopwatch::start();
                    match tables.insert(table, &left[..part]) {
                        Ok(()) => {}
                        // A small buffer pool takes fewer rows at once.
                        Err(error) if error.kind() == ErrorKind::LimitExceeded && part > 1 => {
                            at_once = part as u32 / 2;
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                    worker.record(watch.nanos(), part as u64);
                    left = &left[part..];
                }
                next += count;
            }
            if !worker.is_stopped() {
                let index = index(number as u32 + 1);
                let _turn = self.adding.lock();
                worker.again_while_busy(|| tables.add_index(table, &index))?;
            }
        }
        Ok(bytes)
    }
}
