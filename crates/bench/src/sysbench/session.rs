//! The workloads on one engine, one after the other.

use super::client::{Client, Shared};
use super::rows::{RowBuffer, table};
use super::{MemorySetup, SysbenchConfig, Workload};
use crate::engines::{EngineKind, OpenEngine};
use crate::load::{self, Load, Measured, Worker};
use crate::place::{copy_database, remove_database};
use crate::stopwatch::Stopwatch;
use crate::{IntervalLine, ResultLine, Rng};
use siltstone_base::engine::{Row, TableId, Tables};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// Rows of a commit of the load, where the engine takes so many.
const LOADED_AT_ONCE: u32 = 100;

/// The part of a workload's time for which rows are read before it.
const WARMED: f64 = 0.25;

/// Draws of what is read then.
const WARMING: u64 = 0xffff;

pub(super) struct Session<'a> {
    config: &'a SysbenchConfig,
    kind: EngineKind,
    dir: PathBuf,
    /// Where the database is kept as it was loaded, once a workload is about to change it.
    loaded: PathBuf,
    state: State,
    pair: u32,
    engine: Option<Opened>,
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

impl<'a> Session<'a> {
    pub(super) fn new(config: &'a SysbenchConfig, kind: EngineKind, dir: PathBuf, pair: u32) -> Self {
        let mut loaded = dir.as_os_str().to_os_string();
        loaded.push(".loaded");
        Self { config, kind, dir, loaded: loaded.into(), state: State::Loaded, pair, engine: None }
    }

    /// Gives the engine its files back.
    pub(super) fn close(&mut self) -> Result<()> {
        self.close_engine()?;
        remove_database(&self.loaded)
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
                self.open_engine(|tables, number| tables.create_table(&table(number)))?;
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

    /// Reads rows for a while: an engine that has nothing in memory says nothing about one at work.
    fn warm_up(&self) -> Result<()> {
        let Some((engine, ids)) = &self.engine else { return Ok(()) };
        let clients = self.config.clients.iter().copied().max().unwrap_or(1);
        let load = Load {
            label: "warming up",
            threads: clients,
            companions: 0,
            expected_ops: 0,
            interval_s: self.config.interval_s,
            bar: false,
            most_seconds: Some(self.config.seconds * WARMED),
            gauge: None,
            space: None,
        };
        self.transactions(&load, Workload::ReadOnly, WARMING, engine, ids).map(drop)
    }

    /// Clients that do transactions until their time is over. Returns the bytes of each.
    fn transactions(
        &self,
        load: &Load<'_>,
        workload: Workload,
        number: u64,
        engine: &OpenEngine,
        ids: &[TableId],
    ) -> Result<(Measured, Vec<u64>)> {
        let shared = Shared::new(engine.as_tables()?, ids, self.config.rows)?;
        load::run(load, |worker| {
            let client = worker.index as u64 + 1;
            let stream = (number << 32) | (u64::from(self.pair) << 16) | client;
            let mut client = Client::new(&shared, workload, client, Rng::new(self.config.seed, stream));
            worker.drive(u64::MAX, 1, |_| client.transaction())?;
            Ok(client.bytes())
        })
    }

    /// Runs one workload, the one of this `number` in the list.
    pub(super) fn run(
        &mut self,
        workload: Workload,
        number: u64,
        clients: usize,
        bar: bool,
    ) -> Result<(ResultLine, Vec<IntervalLine>)> {
        let config = self.config;
        let (engine, ids) = self.open(workload)?;
        let before = engine.stats()?;
        let label = format!("{} {workload}", engine.name());
        let rows = u64::from(config.tables) * u64::from(config.rows);
        let load = Load {
            label: &label,
            threads: clients,
            companions: 0,
            expected_ops: if workload == Workload::Load { rows } else { 0 },
            interval_s: config.interval_s,
            bar,
            most_seconds: workload.has_clients().then_some(config.seconds),
            gauge: None,
            space: None,
        };
        let (measured, bytes): (Measured, Vec<u64>) = match workload {
            Workload::Settle => (load::settle(&*engine.admin)?, Vec::new()),
            Workload::Load => load::run(&load, |worker| self.load(&engine, &ids, clients, worker))?,
            _ => self.transactions(&load, workload, number, &engine, &ids)?,
        };
        let stats = engine.stats()?.since(&before);
        let bytes = bytes.iter().sum::<u64>();
        let ops = measured.ops.max(1) as f64;
        let writes = |figure: Option<f64>| figure.filter(|_| workload.writes() && bytes > 0);
        let name = ResultLine {
            experiment: "sysbench".to_owned(),
            workload: workload.name().to_owned(),
            engine: engine.name(),
            config_hash: config.config_hash(),
            setup: config.setup(),
            pair: self.pair,
            threads: clients as u32,
            bytes_user: bytes,
            write_amp: writes(stats.bytes_written.map(|written| written as f64 / bytes as f64)),
            kb_written_per_row: writes(measured.usage.written.map(|written| written as f64 / 1e3 / ops)),
            reads_per_row: stats.reads.map(|reads| reads as f64 / ops).filter(|_| workload != Workload::Settle),
            data_bytes: Some(config.data_bytes()),
            page_cache: Some(config.memory == MemorySetup::PageCache),
            ..config.settings.line()
        };
        let line = measured.line(stats, name);
        let intervals = measured.interval_lines(&line);
        Ok((line, intervals))
    }

    /// Inserts every `clients`-th table.
    fn load(&self, engine: &OpenEngine, ids: &[TableId], clients: usize, worker: &mut Worker<'_>) -> Result<u64> {
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
        }
        Ok(bytes)
    }
}
