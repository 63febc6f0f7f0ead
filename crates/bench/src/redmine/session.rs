//! One engine with one data set.

use super::client::{Client, Numbers, Shared};
use super::data::DataSet;
use super::load::{Ids, load};
use super::{Operation, RedmineConfig};
use crate::ResultLine;
use crate::engines::{EngineKind, OpenEngine};
use crate::load as clients;
use crate::load::Load;
use crate::place::remove_database;
use crate::row_guards::RowGuards;
use crate::stopwatch::Stopwatch;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

/// What is left out at either end of a run.
const TRIMMED: f64 = 0.1;

pub(super) struct Session<'a> {
    config: &'a RedmineConfig,
    kind: EngineKind,
    data_set: DataSet,
    dir: PathBuf,
    load: f64,
    engine: Option<(OpenEngine, Ids)>,
    numbers: Numbers,
    runs: u64,
}

impl<'a> Session<'a> {
    /// Puts the data set in place, on a disk that has nothing else to do and is as fast as the machine's.
    pub(super) fn load(config: &'a RedmineConfig, kind: EngineKind, data_set: DataSet, dir: PathBuf) -> Result<Self> {
        remove_database(&dir)?;
        let mut settings = config.settings(kind, data_set, 0.0);
        settings.device = crate::engines::Device::None;
        settings.durability = siltstone_base::engine::Durability::Os;
        let engine = kind.open_tables(&dir, &settings)?;
        let tables = engine.as_tables()?;
        let ids = Ids::new(|spec| tables.create_table(spec))?;
        let (issues, journals) = load(tables, &ids, data_set, config.seed)?;
        engine.admin.settle()?;
        engine.admin.close()?;
        let numbers = Numbers::default();
        numbers.issues.store(issues, Ordering::Relaxed);
        numbers.journals.store(journals, Ordering::Relaxed);
        Ok(Self { config, kind, data_set, dir, load: 0.0, engine: None, numbers, runs: 0 })
    }

    /// Opens the database on a disk of which another stream asks for `load`.
    pub(super) fn open(&mut self, load: f64) -> Result<()> {
        self.close()?;
        self.load = load;
        let settings = self.config.settings(self.kind, self.data_set, load);
        let engine = self.kind.open_tables(&self.dir, &settings)?;
        let tables = engine.as_tables()?;
        let ids = Ids::new(|spec| tables.open_table(spec))?;
        self.engine = Some((engine, ids));
        Ok(())
    }

    /// Gives the engine its files back.
    pub(super) fn close(&mut self) -> Result<()> {
        self.engine.take().map_or(Ok(()), |(engine, _)| engine.admin.close())
    }

    /// Measures one operation.
    pub(super) fn run(&mut self, operation: Operation, threads: usize, bar: bool) -> Result<ResultLine> {
        let config = self.config;
        let Some((engine, ids)) = self.engine.clone() else {
            return Err(Error::invalid_argument("no database is open"));
        };
        self.runs += 1;
        let before = engine.stats()?;
        let label = format!("{} {operation}", engine.name());
        let load = Load {
            label: &label,
            threads,
            companions: 0,
            expected_ops: 0,
            interval_s: 5.0,
            bar,
            most_seconds: Some(config.seconds),
            gauge: None,
        };
        let shared = Shared {
            engine: engine.as_tables()?,
            ids,
            data_set: self.data_set,
            guards: RowGuards::new()?,
            next: &self.numbers,
        };
        let seed = config.seed ^ (self.runs << 32);
        let (measured, samples) = clients::run(&load, |worker| {
            let mut client = Client::new(&shared, worker.index as u64 + 1, seed);
            let watch = Stopwatch::start();
            let mut samples = Vec::new();
            let mut start = 0.0;
            while !worker.is_stopped() {
                client.operation(operation)?;
                let end = watch.seconds();
                worker.record(((end - start) * 1e9) as u64, 1);
                samples.push((start, end - start));
                start = end;
            }
            Ok((client.bytes(), samples))
        })?;
        let bytes = samples.iter().map(|(bytes, _)| bytes).sum::<u64>();
        let samples: Vec<_> = samples.into_iter().flat_map(|(_, samples)| samples).collect();
        let mean = trimmed_mean(&samples, measured.seconds) + config.app_ms / 1e3;
        let stats = engine.stats()?.since(&before);
        let name = ResultLine {
            experiment: "redmine".to_owned(),
            workload: operation.name().to_owned(),
            engine: engine.name(),
            config_hash: config.config_hash(self.data_set, self.load),
            setup: config.setup(self.kind, self.data_set, self.load),
            pair: 1,
            threads: threads as u32,
            bytes_user: bytes,
            mean_trimmed_us: Some(mean * 1e6),
            device_load: Some(self.load),
            data_set: Some(self.data_set.to_string()),
            kb_written_per_row: measured.usage.written.map(|written| written as f64 / 1e3 / measured.ops.max(1) as f64),
            as_published: Some(config.as_published),
            data_bytes: Some(self.data_set.bytes()),
            ..config.settings(self.kind, self.data_set, self.load).line()
        };
        Ok(measured.line(stats, name))
    }
}

/// The mean of what took place in the middle of a run of `seconds`, in seconds; of all, where nothing did. Samples are when one began and how long it took.
pub(super) fn trimmed_mean(samples: &[(f64, f64)], seconds: f64) -> f64 {
    let (from, to) = (seconds * TRIMMED, seconds * (1.0 - TRIMMED));
    let mean = |lengths: &[f64]| lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
    let middle: Vec<f64> = samples
        .iter()
        .filter(|(start, length)| *start >= from && start + length <= to)
        .map(|(_, length)| *length)
        .collect();
    match middle.is_empty() {
        false => mean(&middle),
        true => mean(&samples.iter().map(|(_, length)| *length).collect::<Vec<_>>()),
    }
}
