//! The workloads of one engine, one after the other.

use super::client::{Client, KEY_BYTES};
use super::live_keys::LiveKeys;
use super::{KvConfig, Workload, open_loop};
use crate::config_json;
use crate::engines::{EngineKind, OpenEngine};
use crate::load::{self, Load, Measured};
use crate::place::remove_database;
use crate::{IntervalLine, ResultLine};
use siltstone_base::engine::{Durability, EngineStats};
use siltstone_base::{Error, Result};
use std::path::PathBuf;

pub(super) struct Session<'a> {
    config: &'a KvConfig,
    kind: EngineKind,
    dir: PathBuf,
    pair: u32,
    engine: Option<(OpenEngine, Durability)>,
    live: Option<LiveKeys>,
}

impl<'a> Session<'a> {
    pub(super) fn new(config: &'a KvConfig, kind: EngineKind, dir: PathBuf, pair: u32) -> Self {
        let live = config.existing.then(|| LiveKeys::all(config.num));
        Self { config, kind, dir, pair, engine: None, live }
    }

    /// Gives the engine its files back.
    pub(super) fn close(&mut self) -> Result<()> {
        match self.engine.take() {
            Some((engine, _)) => engine.admin.close(),
            None => Ok(()),
        }
    }

    fn open(&mut self, workload: Workload) -> Result<OpenEngine> {
        let durability =
            if workload == Workload::FillSync { Durability::Commit } else { self.config.settings.durability };
        if workload.starts_empty() {
            self.close()?;
            remove_database(&self.dir)?;
            self.live = Some(LiveKeys::none(self.config.num));
        } else if self.live.is_none() {
            return Err(Error::invalid_argument(format!(
                "{workload} needs a database: let a fill go before it, or say --existing"
            )));
        }
        match &self.engine {
            Some((engine, opened_with)) if *opened_with == durability => Ok(engine.clone()),
            _ => {
                self.close()?;
                let settings = crate::engines::EngineSettings { durability, ..self.config.settings.clone() };
                let engine = self.kind.open_kv(&self.dir, &settings)?;
                self.engine = Some((engine.clone(), durability));
                Ok(engine)
            }
        }
    }

    /// Runs one workload.
    pub(super) fn run(&mut self, workload: Workload, bar: bool) -> Result<(ResultLine, Vec<IntervalLine>)> {
        let config = self.config;
        let engine = self.open(workload)?;
        let name = engine.name();
        let label = format!("{name} {workload}");
        let before = engine.stats()?;
        let run = measure(config, &engine, workload, self.pair, &label, bar)?;
        let after = engine.stats()?;
        if let Some(live) = &mut self.live {
            for &(thread, ops) in &run.puts {
                match workload {
                    Workload::FillSeq => *live = LiveKeys::all(config.num),
                    _ => live.replay(config, workload, self.pair, thread, ops),
                }
            }
        }
        Ok(self.line(workload, name, run, &before, &after))
    }

    fn line(
        &self,
        workload: Workload,
        engine: String,
        run: Run,
        before: &EngineStats,
        after: &EngineStats,
    ) -> (ResultLine, Vec<IntervalLine>) {
        let Run { measured, bytes, lateness, .. } = run;
        let stats = after.since(before);
        let live_bytes = self.live.as_ref().map(|live| live.count() * (KEY_BYTES + self.config.value_size) as u64);
        let ratio = |part: Option<u64>, whole: u64| part.filter(|_| whole > 0).map(|part| part as f64 / whole as f64);
        let name = ResultLine {
            experiment: "kv".to_owned(),
            workload: workload.name().to_owned(),
            engine,
            config_hash: self.config.config_hash(),
            setup: self.config.setup(),
            config: config_json::whole(self.config),
            pair: self.pair,
            threads: self.config.threads as u32,
            generator_late_p99_us: lateness.map(|lateness| lateness.p99_us),
            generator_late_max_us: lateness.map(|lateness| lateness.max_us),
            bytes_user: bytes,
            write_amp: ratio(stats.bytes_written, if workload.writes() { bytes } else { 0 }),
            space_amp: live_bytes.and_then(|live| ratio(stats.data_bytes(), live)),
            writer_ops_per_s: (workload == Workload::ReadWhileWriting)
                .then(|| measured.companion_ops as f64 / measured.seconds.max(1e-9)),
            ..self.config.settings.line()
        };
        let line = measured.line(stats, name);
        let intervals = measured.interval_lines(&line);
        (line, intervals)
    }
}

/// A run as it was measured.
pub(super) struct Run {
    pub measured: Measured,
    /// Bytes of keys and values that the counting threads wrote or read.
    pub bytes: u64,
    /// Which threads put how many keys.
    pub puts: Vec<(usize, u64)>,
    /// Open loop: how late arrivals were handed over.
    pub lateness: Option<crate::LatencySummary>,
}

/// Runs `workload` on an open engine.
pub(super) fn measure(
    config: &KvConfig,
    engine: &OpenEngine,
    workload: Workload,
    pair: u32,
    label: &str,
    bar: bool,
) -> Result<Run> {
    if workload == Workload::Settle {
        let measured = load::settle(&*engine.admin, bar)?;
        return Ok(Run { measured, bytes: 0, puts: Vec::new(), lateness: None });
    }
    let threads = if workload == Workload::ReadSeq { 1 } else { config.threads };
    let ops = workload.ops(config.num, config.threads);
    let companions = usize::from(workload == Workload::ReadWhileWriting);
    let load = Load {
        label,
        threads,
        companions,
        expected_ops: ops,
        interval_s: config.interval_s,
        bar,
        most_seconds: None,
        gauge: None,
        space: None,
    };
    if let Some(rate) = config.rate.filter(|_| workload.is_of_points()) {
        return open_loop::measure(config, engine, workload, pair, &load, rate);
    }
    let group = workload.group(config.batch);
    let share = |thread: usize| share_of(ops, threads, thread);
    let (measured, clients) = load::run(&load, |worker| {
        let thread = worker.index;
        let (first, ops) = share(thread);
        let mut client = Client::new(engine.as_kv()?, config, workload, pair, thread, first);
        let done = if thread >= threads {
            worker.drive(0, 1, |_| client.put_random())?
        } else {
            let done = worker.drive(ops, group, |number| client.step(number))?;
            client.finish()?;
            done
        };
        Ok((thread, done, client.bytes()))
    })?;
    Ok(Run::new(measured, workload, threads, &clients, None))
}

impl Run {
    /// `clients`: number, operations and bytes of each thread.
    pub(super) fn new(
        measured: Measured,
        workload: Workload,
        threads: usize,
        clients: &[(usize, u64, u64)],
        lateness: Option<crate::LatencySummary>,
    ) -> Self {
        let bytes = clients.iter().filter(|(thread, ..)| *thread < threads).map(|(_, _, bytes)| bytes).sum();
        let is_putting = |thread: usize| thread >= threads || workload.writes();
        let puts = clients.iter().filter(|(thread, ..)| is_putting(*thread)).map(|&(thread, ops, _)| (thread, ops));
        Self { measured, bytes, puts: puts.collect(), lateness }
    }
}

/// The first operation and the number of operations of one thread of several.
fn share_of(ops: u64, threads: usize, thread: usize) -> (u64, u64) {
    let (threads, thread) = (threads as u64, thread as u64);
    let first = |thread: u64| (u128::from(ops) * u128::from(thread) / u128::from(threads)) as u64;
    if thread >= threads { (0, 0) } else { (first(thread), first(thread + 1) - first(thread)) }
}
