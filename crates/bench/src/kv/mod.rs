//! The command `kv`: db_bench's workloads.
//!
//! Keys are 16 bytes: a number, 8 bytes big-endian, followed by the character `0`. Values compress to half. `fillseq`,
//! `fillrandom` and `fillsync` start with an empty database, all others act on what is there. Fills and overwrites do N
//! operations with keys drawn uniformly below N (`fillseq`: in order), `readrandom`, `multireadrandom` (32 keys a call),
//! `readmissing` and `seekrandom` (a seek and 10 nexts) N/2, `fillsync` 2,000 a thread, at most N; `readwhilewriting` reads N/2 beside one writer without limit; `settle` waits until
//! no compaction is due.
//!
//! Several engines run alternately: the whole list of workloads on the first, then on the second, each alone in the
//! process and on the disk; the next pair begins with the other. Figures of one engine against another's are the ratios
//! of runs of the same pair.
//!
//! Latencies are taken around every operation, except where one takes less than a few hundred nanoseconds (`readmissing`,
//! `readseq`) or the operations form batches: there the clock is read once a group, and percentiles are those of the
//! groups' means.

use crate::config_json;
use crate::engines::{EngineKind, EngineSettings, NullEngine, OpenEngine};
use crate::place::{Found, Place};
use crate::{Output, ResultLine};
use serde::Serialize;
use siltstone_base::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

mod client;
mod live_keys;
mod open_loop;
mod session;
pub(crate) mod tables;
#[cfg(test)]
mod tests;
mod workload;

pub(crate) use client::Client;
pub use workload::Workload;

/// What `kv` runs.
#[derive(Debug, Clone, Serialize)]
pub struct KvConfig {
    /// The engines, to be run alternately.
    #[serde(serialize_with = "config_json::names")]
    pub engines: Vec<EngineKind>,
    /// The workloads, in this order.
    #[serde(serialize_with = "config_json::names")]
    pub workloads: Vec<Workload>,
    /// N: the number of keys.
    pub num: u64,
    /// Bytes of a value.
    pub value_size: usize,
    /// Threads; the operations are divided among them.
    pub threads: usize,
    /// Puts in one batch, in fills and overwrites.
    pub batch: usize,
    /// Open loop: arrivals per second. `None`: closed loop.
    pub rate: Option<u64>,
    /// How many times every engine runs.
    pub pairs: u32,
    /// Uses the database that is in the directory.
    pub existing: bool,
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Draws keys and values.
    pub seed: u64,
    /// Where the databases are and stay. `None`: a temporary directory.
    pub dir: Option<PathBuf>,
    /// What the engines are opened with.
    pub settings: EngineSettings,
}

/// What distinguishes one configuration from another in results.
#[derive(Serialize)]
struct Identity {
    num: u64,
    value_size: usize,
    threads: usize,
    batch: usize,
    rate: Option<u64>,
    seed: u64,
}

/// Operations of a calibration run.
const CALIBRATION_OPS: u64 = 400_000;

impl KvConfig {
    fn check(&self) -> Result<()> {
        if self.rate.is_some() && self.batch > 1 {
            return Err(Error::invalid_argument(
                "--rate is of arrivals that are done one by one: --batch must be 1 beside it",
            ));
        }
        let bounds = [
            ("num", self.num >= 1),
            ("value-size", self.value_size <= 64 << 20),
            ("threads", (1..=1024).contains(&self.threads)),
            ("batch", (1..=1_000_000).contains(&self.batch)),
            ("pairs", self.pairs >= 1),
            ("interval", self.interval_s >= 0.1),
            ("rate", self.rate != Some(0)),
            ("engine", !self.engines.is_empty()),
            ("workloads", !self.workloads.is_empty()),
        ];
        match bounds.iter().find(|(_, is_within)| !is_within) {
            Some((name, _)) => Err(Error::invalid_argument(format!("--{name} is out of bounds"))),
            None => Ok(()),
        }
    }

    /// The settings in words.
    fn setup(&self) -> String {
        let mut text = format!(
            "{} keys, values of {} bytes, {} at a time, durability {}",
            crate::figures::thousands(self.num as f64),
            self.value_size,
            self.batch,
            self.settings.durability
        );
        if let Some(rate) = self.rate {
            text += &format!(", {} arrivals a second", crate::figures::thousands(rate as f64));
        }
        text + &self.settings.in_words()
    }

    pub(crate) fn config_hash(&self) -> String {
        let Self { num, value_size, threads, batch, rate, seed, .. } = *self;
        crate::engines::config_hash(&Identity { num, value_size, threads, batch, rate, seed }, &self.settings)
    }
}

/// Runs the workloads and returns one line a run.
pub fn run(config: &KvConfig, output: &mut Output<'_>) -> Result<Vec<ResultLine>> {
    config.check()?;
    let keeps = config.existing && !config.workloads.iter().any(|workload| workload.starts_empty());
    let found = if keeps { Found::Kept } else { Found::Removed };
    let place = Place::new(config.dir.as_deref(), config.engines.len() > 1, found)?;
    let harness = calibrate(config)?;
    output.say(config.setup())?;
    let mut lines: Vec<ResultLine> = Vec::new();
    for pair in 1..=config.pairs {
        let mut engines = config.engines.clone();
        if pair % 2 == 0 {
            engines.reverse();
        }
        for kind in engines {
            let mut session = session::Session::new(config, kind, place.of(kind), pair);
            for &workload in &config.workloads {
                let (mut line, intervals) = session.run(workload, output.bars)?;
                line.harness_ns_per_op = harness.iter().find(|(of, _)| *of == workload).map(|(_, nanos)| *nanos);
                place.mark(&mut line);
                output.json(&line)?;
                for interval in &intervals {
                    output.json(interval)?;
                }
                output.say(tables::progress(&line))?;
                lines.push(line);
            }
            session.close()?;
        }
    }
    output.say(tables::results(&lines))?;
    if config.engines.len() > 1 {
        let names: Vec<_> = config.workloads.iter().map(|workload| workload.name()).collect();
        output.say(crate::ratios::table(&lines, &config.engines, &names, config.pairs))?;
    }
    Ok(lines)
}

/// What an operation of each workload costs on an engine that does nothing, in nanoseconds: generating keys and values,
/// reading the clock, recording the latency, calling through the trait.
fn calibrate(config: &KvConfig) -> Result<Vec<(Workload, f64)>> {
    let num = config.num.min(CALIBRATION_OPS);
    let alone = KvConfig { num, threads: 1, rate: None, ..config.clone() };
    let mut costs = Vec::new();
    for &workload in &config.workloads {
        if workload == Workload::Settle || costs.iter().any(|(of, _)| *of == workload) {
            continue;
        }
        let engine = OpenEngine::kv(Arc::new(NullEngine::new()));
        let measured = session::measure(&alone, &engine, workload, 1, "harness", false)?;
        costs.push((workload, measured.measured.seconds * 1e9 / measured.measured.ops.max(1) as f64));
    }
    Ok(costs)
}
