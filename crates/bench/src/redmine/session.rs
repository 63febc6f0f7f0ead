//! One engine with one data set.

use super::client::{Client, Numbers, Shared};
use super::data::DataSet;
use super::load::{Ids, load};
use super::streams::Streams;
use super::{Operation, RedmineConfig};
use crate::config_json;
use crate::engines::{EngineKind, OpenEngine};
use crate::load as clients;
use crate::load::{Load, Worker};
use crate::place::{begin_anew, copy_database, remove_database, remove_place};
use crate::row_guards::RowGuards;
use crate::stopwatch::Stopwatch;
use crate::{IntervalLine, ResultLine, Rng};
use siltstone_base::Result;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::sync::atomic::Ordering;
use std::path::PathBuf;
use std::time::Duration;

/// Longest single sleep for the application: clients see after it that they are stopped.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// One operation in so many is left out at either end of a run.
const TRIMMED: usize = 10;

pub(super) struct Session<'a> {
    config: &'a RedmineConfig,
    kind: EngineKind,
    data_set: DataSet,
    pair: u32,
    dir: PathBuf,
    /// The other streams of a device that is not modelled.
    streams: Option<&'a Streams>,
    /// What was loaded, to begin every run with.
    loaded: PathBuf,
    /// The last task and journal of it.
    last: (u32, u32),
    runs: u64,
}

/// An engine with the data set as it was loaded.
struct Begun {
    engine: OpenEngine,
    ids: Ids,
    numbers: Numbers,
}

impl<'a> Session<'a> {
    /// Puts the data set in place, on a disk that has nothing else to do and is as fast as the machine's.
    pub(super) fn load(
        config: &'a RedmineConfig,
        kind: EngineKind,
        data_set: DataSet,
        pair: u32,
        dir: PathBuf,
        streams: Option<&'a Streams>,
    ) -> Result<Self> {
        let mut loaded = dir.clone().into_os_string();
        loaded.push(".loaded");
        let loaded = PathBuf::from(loaded);
        remove_database(&dir)?;
        begin_anew(&loaded)?;
        let mut settings = config.settings(kind, data_set, 0.0);
        settings.device = crate::engines::Device::None;
        settings.durability = siltstone_base::engine::Durability::Os;
        let engine = kind.open_tables(&loaded, &settings)?;
        let tables = engine.as_tables()?;
        let ids = Ids::new(|spec| tables.create_table(spec))?;
        let last = load(tables, &ids, data_set, config.seed)?;
        // Closing flushes, too: what that makes due would be compacted again in each run.
        engine.admin.flush()?;
        engine.admin.drain()?;
        engine.admin.close()?;
        Ok(Self { config, kind, data_set, pair, dir, streams, loaded, last, runs: 0 })
    }

    /// Opens the data set as it was loaded and reads all of it into the engine's memory, as far as it has any; only then is the disk as slow as it is, with another stream that asks for `load` of it.
    /// What an earlier run made, and what an engine owes for it, is gone.
    fn begin(&self, load: f64) -> Result<Begun> {
        copy_database(&self.loaded, &self.dir)?;
        let settings = self.config.settings(self.kind, self.data_set, load);
        let engine = self.kind.open_tables(&self.dir, &settings)?;
        let tables = engine.as_tables()?;
        let ids = Ids::new(|spec| tables.open_table(spec))?;
        let env = engine.env();
        env.as_throttled().inspect(|device| device.let_pass());
        ids.read_all(tables)?;
        env.as_throttled().inspect(|device| device.charge());
        let numbers = Numbers::default();
        numbers.issues.store(self.last.0, Ordering::Relaxed);
        numbers.journals.store(self.last.1, Ordering::Relaxed);
        Ok(Begun { engine, ids, numbers })
    }

    /// Removes what was loaded. What the last run made stays.
    pub(super) fn end(self) -> Result<()> {
        remove_place(&self.loaded)
    }

    /// Operations of one client until its time is over. Returns the bytes that it wrote, and when each operation began and how long it took, in seconds.
    fn operations(
        &self,
        mut client: Client<'_>,
        operation: Operation,
        worker: &mut Worker<'_>,
    ) -> Result<(u64, Vec<(f64, f64)>)> {
        let (clock, watch) = (SystemClock::new(), Stopwatch::start());
        let mut samples = Vec::new();
        while !worker.is_stopped() {
            // What the operation is about is drawn before it begins: that is the harness's work.
            client.prepare(operation)?;
            let start = watch.seconds();
            if !client.operation(operation)? {
                continue;
            }
            let end = watch.seconds();
            worker.record(((end - start) * 1e9) as u64, 1);
            samples.push((start, end - start));
            let next = end + self.config.app_seconds(operation);
            while watch.seconds() < next && !worker.is_stopped() {
                let left = Duration::from_secs_f64((next - watch.seconds()).max(0.0));
                clock.sleep(left.min(LONGEST_SLEEP));
            }
        }
        Ok((client.bytes(), samples))
    }

    /// Measures one operation on a disk of which another stream asks for `disk_load`.
    pub(super) fn run(
        &mut self,
        operation: Operation,
        threads: usize,
        disk_load: f64,
        bar: bool,
    ) -> Result<(ResultLine, Vec<IntervalLine>)> {
        let config = self.config;
        let Begun { engine, ids, numbers } = &self.begin(disk_load)?;
        self.runs += 1;
        let streams = self.streams.filter(|_| disk_load > 0.0);
        let before = (engine.stats()?, streams.map(Streams::moved));
        let label = format!("{} {operation}", engine.name());
        let load = Load {
            label: &label,
            threads,
            companions: streams.map_or(0, |_| Streams::count(disk_load)),
            expected_ops: 0,
            interval_s: config.interval_s,
            bar,
            most_seconds: Some(config.seconds),
            gauge: None,
            space: None,
        };
        let shared = Shared {
            engine: engine.as_tables()?,
            ids: *ids,
            data_set: self.data_set,
            is_resolved_at_once: config.is_resolved_at_once(),
            guards: RowGuards::new()?,
            next: numbers,
        };
        let seed = config.seed ^ (self.runs << 32) ^ (u64::from(self.pair) << 48);
        let (mut measured, samples) = clients::run(&load, |worker| {
            let number = worker.index as u64;
            match streams.filter(|_| worker.index >= threads) {
                Some(streams) => {
                    streams.run(disk_load, Rng::new(seed, 0x7374_7265 ^ number), worker)?;
                    Ok((0, Vec::new()))
                }
                None => self.operations(Client::new(&shared, number + 1, seed), operation, worker),
            }
        })?;
        let (stats_before, moved_before) = before;
        if let (Some(streams), Some(moved)) = (streams, &moved_before) {
            streams.take_out(moved, &mut measured);
        }
        let bytes = samples.iter().map(|(bytes, _)| bytes).sum::<u64>();
        let samples = samples.into_iter().flat_map(|(_, samples)| samples).collect();
        let mean = trimmed_mean(samples) + config.app_seconds(operation);
        let stats = engine.stats()?.since(&stats_before);
        // What an engine has to tell at its end is heard; how long that takes is nothing to measure.
        engine.env().as_throttled().inspect(|device| device.let_pass());
        engine.admin.close()?;
        let name = ResultLine {
            experiment: "redmine".to_owned(),
            workload: operation.name().to_owned(),
            engine: engine.name(),
            config_hash: config.config_hash(self.data_set, disk_load),
            setup: config.setup(self.kind, self.data_set, disk_load),
            config: config_json::whole(config),
            pair: self.pair,
            threads: threads as u32,
            bytes_user: bytes,
            mean_trimmed_us: Some(mean * 1e6),
            device_load: Some(disk_load),
            data_set: Some(self.data_set.to_string()),
            kb_written_per_row: measured.usage.written.map(|written| written as f64 / 1e3 / measured.ops.max(1) as f64),
            as_published: Some(config.as_published),
            data_bytes: Some(self.data_set.bytes()),
            ..config.settings(self.kind, self.data_set, disk_load).line()
        };
        let line = measured.line(stats, name);
        let intervals = measured.interval_lines(&line);
        Ok((line, intervals))
    }
}

/// The mean length of the operations of a run without the first and the last tenth of them, in seconds. Samples are when one began and how long it took, in any order.
///
/// Operations are counted, not time: to leave out those that reach across a border of time would leave out long ones more often than short ones.
pub(super) fn trimmed_mean(mut samples: Vec<(f64, f64)>) -> f64 {
    samples.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let cut = samples.len() / TRIMMED;
    let middle = samples.get(cut..samples.len() - cut).unwrap_or_default();
    middle.iter().map(|(_, length)| length).sum::<f64>() / middle.len().max(1) as f64
}
