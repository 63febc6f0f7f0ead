//! The workloads on one engine, one after the other.

use super::client::{Client, FIELD_BYTES, Records};
use super::keys::KEY_BYTES;
use super::{Workload, YcsbConfig};
use crate::engines::{EngineKind, OpenEngine};
use crate::load::{self, Load};
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

    /// Runs one workload, the one of this `number` in the list.
    pub(super) fn run(
        &mut self,
        workload: Workload,
        number: u64,
        bar: bool,
    ) -> Result<(ResultLine, Vec<IntervalLine>)> {
        let config = self.config;
        let engine = self.open(workload)?;
        let before = engine.stats()?;
        let label = format!("{} {workload}", engine.name());
        let ops = if workload == Workload::Load { config.records } else { config.operations };
        let load = Load {
            label: &label,
            threads: config.threads,
            companions: 0,
            expected_ops: ops,
            interval_s: config.interval_s,
            bar,
            most_seconds: None,
            gauge: None,
            space: None,
        };
        let (measured, bytes) = match workload {
            Workload::Settle => (load::settle(&*engine.admin)?, Vec::new()),
            _ => load::run(&load, |worker| {
                let (threads, thread) = (config.threads as u64, worker.index as u64);
                let share = ops / threads + u64::from(thread < ops % threads);
                let seed = config.seed ^ (number << 40) ^ (u64::from(self.pair) << 20) ^ (thread + 1);
                let kv = engine.as_kv()?;
                let mut client = Client::new(kv, workload, &self.records, worker.index, config.fields, seed)?;
                worker.drive(share, 1, |_| client.step())?;
                Ok(client.bytes())
            })?,
        };
        let stats = engine.stats()?.since(&before);
        let bytes = bytes.iter().sum::<u64>();
        let live = self.records.count() * (KEY_BYTES + config.fields * FIELD_BYTES) as u64;
        // What threads inserted beyond the others is left to the next workload to insert again.
        let first = if workload == Workload::Load { config.records } else { self.records.end() };
        self.records = Records::new(first, config.threads);
        let ratio = |part: Option<u64>, whole: u64| part.filter(|_| whole > 0).map(|part| part as f64 / whole as f64);
        let name = ResultLine {
            experiment: "ycsb".to_owned(),
            workload: workload.name().to_owned(),
            engine: engine.name(),
            config_hash: config.config_hash(),
            setup: config.setup(),
            pair: self.pair,
            threads: config.threads as u32,
            bytes_user: bytes,
            write_amp: ratio(stats.bytes_written, if workload.writes() { bytes } else { 0 }),
            space_amp: ratio(stats.data_bytes(), live),
            ..config.settings.line()
        };
        let line = measured.line(stats, name);
        let intervals = measured.interval_lines(&line);
        Ok((line, intervals))
    }
}
