//! The workloads on one engine, one after the other.

use super::client::{Client, FIELD_BYTES, Records};
use super::keys::KEY_BYTES;
use super::{Workload, YcsbConfig};
use crate::config_json;
use crate::engines::{EngineKind, OpenEngine};
use crate::load::offered::{Offered, OfferedRate, Offering};
use crate::load::{self, End, Load, Measured};
use crate::place::remove_database;
use crate::{IntervalLine, ResultLine};
use siltstone_base::{Error, Result};
use std::path::PathBuf;

pub(super) struct Session<'a> {
    config: &'a YcsbConfig,
    kind: EngineKind,
    dir: PathBuf,
    pair: u32,
    engine: Option<OpenEngine>,
    records: Records,
}

/// One run of a workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) workload: Workload,
    /// Draws differ where this does.
    number: u64,
    /// At which rate operations arrive. `None`: a closed loop.
    rate: Option<&'a OfferedRate>,
}

impl Run<'_> {
    /// A closed loop of the workload of this `number` in the list.
    pub(super) fn closed(workload: Workload, number: u64) -> Self {
        Self { workload, number, rate: None }
    }

    /// The open loop of this `order`, counted from 1, among those after the closed one. It draws other operations.
    pub(super) fn at(self, rate: &OfferedRate, order: u64) -> Run<'_> {
        Run { workload: self.workload, number: self.number | (order << 12), rate: Some(rate) }
    }

    fn name(&self) -> String {
        self.rate.map_or_else(|| self.workload.name().to_owned(), |rate| rate.name_of(self.workload.name()))
    }
}

/// What a run gave.
struct Outcome {
    measured: Measured,
    /// Bytes of keys and values written, or read where nothing is written.
    bytes: u64,
    /// What was offered in an open loop.
    offered: Option<Offered>,
}

impl<'a> Session<'a> {
    pub(super) fn new(config: &'a YcsbConfig, kind: EngineKind, dir: PathBuf, pair: u32) -> Self {
        Self { config, kind, dir, pair, engine: None, records: Records::new(0, config.threads) }
    }

    /// Gives the engine its files back.
    pub(super) fn close(&mut self) -> Result<()> {
        self.engine.take().map_or(Ok(()), |engine| engine.admin.close())
    }

    fn open(&mut self, workload: Workload) -> Result<OpenEngine> {
        if workload == Workload::Load {
            self.close()?;
            remove_database(&self.dir)?;
            self.records = Records::new(0, self.config.threads);
            self.engine = Some(self.kind.open_kv(&self.dir, &self.config.settings)?);
        }
        self.engine.clone().ok_or_else(|| Error::invalid_argument("--workloads must begin with load"))
    }

    /// Threads that do each its share of the operations, or those that arrive.
    fn operations(&self, load: &Load<'_>, run: Run<'_>, engine: &OpenEngine) -> Result<Outcome> {
        let (config, ops, threads) = (self.config, load.expected_ops, load.threads as u64);
        let seed = config.seed ^ (run.number << 40) ^ (u64::from(self.pair) << 20);
        let start = |rate| Offering::start(rate, End::Operations(ops), load.threads, seed);
        let offering = run.rate.map(start).transpose()?;
        let (measured, bytes) = load::run(load, |worker| {
            let thread = worker.index as u64;
            let (kv, seed) = (engine.as_kv()?, seed ^ (thread + 1));
            let mut client = Client::new(kv, run.workload, &self.records, worker.index, config.fields, seed)?;
            let share = ops / threads + u64::from(thread < ops % threads);
            match &offering {
                Some(offering) => offering.serve(worker, || client.step().map(drop))?,
                None => worker.drive(share, 1, |_| client.step()).map(drop)?,
            }
            Ok(client.bytes())
        })?;
        let offered = offering.map(Offering::finish).transpose()?;
        Ok(Outcome { measured, bytes: bytes.iter().sum(), offered })
    }

    /// Runs one workload.
    pub(super) fn run(&mut self, run: Run<'_>, bar: bool) -> Result<(ResultLine, Vec<IntervalLine>)> {
        let (config, workload) = (self.config, run.workload);
        let engine = self.open(workload)?;
        let before = engine.stats()?;
        let label = format!("{} {}", engine.name(), run.name());
        let load = Load {
            label: &label,
            threads: config.threads,
            companions: 0,
            expected_ops: if workload == Workload::Load { config.records } else { config.operations },
            interval_s: config.interval_s,
            bar,
            most_seconds: None,
            gauge: None,
            space: None,
        };
        let Outcome { measured, bytes, offered } = match workload {
            Workload::Settle => Outcome { measured: load::settle(&*engine.admin, bar)?, bytes: 0, offered: None },
            _ => self.operations(&load, run, &engine)?,
        };
        let stats = engine.stats()?.since(&before);
        let live = self.records.count() * (KEY_BYTES + config.fields * FIELD_BYTES) as u64;
        // What threads inserted beyond the others is left to the next workload to insert again.
        let first = if workload == Workload::Load { config.records } else { self.records.end() };
        self.records = Records::new(first, config.threads);
        let ratio = |part: Option<u64>, whole: u64| part.filter(|_| whole > 0).map(|part| part as f64 / whole as f64);
        let mut name = ResultLine {
            experiment: "ycsb".to_owned(),
            workload: run.name(),
            engine: engine.name(),
            config_hash: config.config_hash(),
            setup: config.setup(),
            config: config_json::whole(config),
            pair: self.pair,
            threads: config.threads as u32,
            bytes_user: bytes,
            write_amp: ratio(stats.bytes_written, if workload.writes() { bytes } else { 0 }),
            space_amp: ratio(stats.data_bytes(), live),
            ..config.settings.line()
        };
        if let Some(offered) = offered {
            offered.mark(&mut name);
        }
        let line = measured.line(stats, name);
        let intervals = measured.interval_lines(&line);
        Ok((line, intervals))
    }
}
