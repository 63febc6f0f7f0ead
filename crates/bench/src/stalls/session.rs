//! The steps on one engine, one after the other.

use super::steady::is_growing;
use super::{StallsConfig, Step};
use crate::config_json;
use crate::engines::{EngineKind, OpenEngine};
use crate::kv::{Client, KvConfig, Workload};
use crate::load::{self, Arrivals, Bursts, End, GapMeter, Load, Measured, OpenLoop};
use crate::place::remove_database;
use crate::stopwatch::Stopwatch;
use crate::{IntervalLine, LatencySummary, Output, ResultLine};
use siltstone_base::Result;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use std::path::Path;

/// The most rounds of a maximum whose debt goes on growing.
const MOST_ROUNDS: u32 = 6;

/// What bursts are, beside the maximum.
const BETWEEN_BURSTS: f64 = 0.5;
const IN_BURSTS: f64 = 2.0;
const BURSTS_EVERY_S: f64 = 60.0;
/// A burst takes so much of its period.
const BURST_PART: f64 = 1.0 / 6.0;

/// Set in the number of the draws of a warm-up.
const WARM_UP_DRAWS: u32 = 1 << 31;

pub(super) struct Session<'a> {
    config: &'a StallsConfig,
    clients: KvConfig,
    engine: OpenEngine,
    maximum: Option<f64>,
    /// The median of the last closed loop of puts, in nanoseconds.
    put_nanos: u64,
}

/// The bursts of a step of so many seconds: one a minute, or one in a step that is shorter.
pub(super) fn bursts_of(seconds: f64, maximum: f64) -> Bursts {
    let every_s = seconds.min(BURSTS_EVERY_S);
    Bursts { every_s, length_s: every_s * BURST_PART, rate: maximum * IN_BURSTS }
}

/// What one step gave.
struct Outcome {
    measured: Measured,
    bytes: u64,
    longest_gap_us: Option<f64>,
    offered: Option<f64>,
    lateness: Option<LatencySummary>,
    /// The least that could still be written until a limit.
    next_limit: Option<u64>,
}

impl<'a> Session<'a> {
    pub(super) fn open(config: &'a StallsConfig, kind: EngineKind, dir: &Path, maximum: Option<f64>) -> Result<Self> {
        if !config.existing {
            remove_database(dir)?;
        }
        let engine = kind.open_kv(dir, &config.settings)?;
        Ok(Self { config, clients: config.for_clients(), engine, maximum, put_nanos: 0 })
    }

    /// Gives the engine its files back, and returns its maximum.
    pub(super) fn close(self) -> Result<Option<f64>> {
        self.engine.admin.close()?;
        Ok(self.maximum)
    }

    /// Runs one step.
    pub(super) fn run(
        &mut self,
        step: Step,
        number: u32,
        output: &mut Output<'_>,
    ) -> Result<(ResultLine, Vec<IntervalLine>)> {
        let warm_up_max_us = self.warm_up(step, number, output)?;
        let before = self.engine.stats()?;
        let outcome = match step {
            Step::Settle => Outcome {
                measured: load::settle(&*self.engine.admin, output.bars)?,
                bytes: 0,
                longest_gap_us: None,
                offered: None,
                lateness: None,
                next_limit: None,
            },
            Step::Maximum => self.maximum(number, output)?,
            Step::Poisson(_) | Step::Constant(_) | Step::Bursts | Step::Floor(_) => {
                self.open_loop(step, number, self.config.seconds, output.bars)?
            }
            Step::Fill | Step::Overwrite | Step::Reads | Step::ReadsWhileFilling => {
                self.closed_loop(step, number, output.bars)?
            }
        };
        let stats = self.engine.stats()?.since(&before);
        if step.writes() && !step.is_open_loop() {
            self.put_nanos = outcome.measured.latencies.summary().map_or(0, |put| (put.p50_us * 1e3) as u64);
        }
        let Outcome { measured, bytes, longest_gap_us, offered, lateness, next_limit } = outcome;
        let write_amp = stats.bytes_written.filter(|_| step.writes() && bytes > 0);
        let name = ResultLine {
            experiment: "stalls".to_owned(),
            workload: step.to_string(),
            engine: self.engine.name(),
            config_hash: self.config.config_hash(),
            setup: self.config.setup(),
            config: config_json::whole(self.config),
            pair: 1,
            threads: self.config.threads as u32,
            bytes_user: bytes,
            write_amp: write_amp.map(|written| written as f64 / bytes as f64),
            generator_late_p99_us: lateness.map(|lateness| lateness.p99_us),
            generator_late_max_us: lateness.map(|lateness| lateness.max_us),
            longest_gap_us,
            next_limit_bytes: next_limit,
            warm_up_max_us,
            offered_ops_per_s: offered,
            writer_ops_per_s: (step == Step::ReadsWhileFilling)
                .then(|| measured.companion_ops as f64 / measured.seconds.max(1e-9)),
            ..self.config.settings.line()
        };
        let line = measured.line(stats, name);
        let intervals = measured.interval_lines(&line);
        Ok((line, intervals))
    }

    /// Offers the rate of an open loop before it counts. Returns the longest latency of that, which is not hidden.
    fn warm_up(&self, step: Step, number: u32, output: &mut Output<'_>) -> Result<Option<f64>> {
        let seconds = step.warm_up_seconds(self.config.seconds);
        if seconds == 0.0 {
            return Ok(None);
        }
        let outcome = self.open_loop(step, number | WARM_UP_DRAWS, seconds, output.bars)?;
        Ok(outcome.measured.latencies.summary().map(|latency| latency.max_us))
    }

    /// Overwrites until debt has stopped growing; the last round is what counts.
    fn maximum(&mut self, number: u32, output: &mut Output<'_>) -> Result<Outcome> {
        let mut round = 1;
        let mut outcome = self.closed_loop(Step::Maximum, number, output.bars)?;
        while is_growing(&outcome.measured.second_gauges) && round < MOST_ROUNDS {
            outcome = self.closed_loop(Step::Maximum, number + (round << 16), output.bars)?;
            round += 1;
        }
        if is_growing(&outcome.measured.second_gauges) {
            output.say(format!("{}: debt was still growing at its maximum", self.engine.name()))?;
        }
        self.maximum = self.maximum.or(Some(rate_of(&outcome.measured)));
        Ok(outcome)
    }

    fn load<'b>(&self, step: Step, label: &'b str, seconds: f64, bar: bool, gauge: load::Gauge<'b>) -> Load<'b> {
        let expected = match (step, self.maximum) {
            (Step::Fill, _) => self.config.num as f64,
            (_, Some(rate)) => rate * seconds,
            (_, None) => 0.0,
        };
        Load {
            label,
            threads: self.config.threads,
            companions: usize::from(step == Step::ReadsWhileFilling),
            expected_ops: expected as u64,
            interval_s: self.config.interval_s.min(1.0),
            bar,
            most_seconds: (step != Step::Fill && !step.is_open_loop()).then_some(seconds),
            gauge: Some(gauge),
            space: None,
        }
    }

    fn closed_loop(&self, step: Step, number: u32, bar: bool) -> Result<Outcome> {
        let workload = match step {
            Step::Reads => Workload::ReadRandom,
            Step::ReadsWhileFilling => Workload::ReadWhileWriting,
            _ => Workload::Overwrite,
        };
        let label = format!("{} {step}", self.engine.name());
        let nearest = Nearest::default();
        let debt = || self.debt(&nearest);
        let load = self.load(step, &label, self.config.seconds, bar, &debt);
        let gaps = GapMeter::new();
        let ops = if step == Step::Fill { self.config.num } else { u64::MAX };
        let (measured, bytes) = load::run(&load, |worker| {
            let threads = load.threads as u64;
            let mut client = Client::new(self.engine.as_kv()?, &self.clients, workload, number, worker.index, 0);
            if worker.index >= load.threads {
                worker.drive(0, 1, |_| client.put_random())?;
                return Ok(0);
            }
            let share = ops / threads + u64::from((worker.index as u64) < ops % threads);
            gaps.begin();
            worker.drive(share, 1, |number| {
                let goes_on = client.step(number)?;
                gaps.complete();
                Ok(goes_on)
            })?;
            gaps.end();
            Ok(client.bytes())
        })?;
        let bytes = bytes.iter().sum();
        Ok(Outcome {
            measured,
            bytes,
            longest_gap_us: Some(gaps.longest_us()),
            offered: None,
            lateness: None,
            next_limit: nearest.bytes(),
        })
    }

    /// An open loop of so many seconds.
    fn open_loop(&self, step: Step, number: u32, seconds: f64, bar: bool) -> Result<Outcome> {
        let maximum = self.maximum.unwrap_or(1.0);
        let arrivals = match step {
            Step::Poisson(percent) | Step::Constant(percent) | Step::Floor(percent) => {
                Arrivals { process: step.process(), rate: maximum * f64::from(percent) / 100.0, bursts: None }
            }
            _ => Arrivals {
                process: step.process(),
                rate: maximum * BETWEEN_BURSTS,
                bursts: Some(bursts_of(seconds, maximum)),
            },
        };
        let offered = arrivals.mean_rate(seconds);
        let label = format!("{} {step}", self.engine.name());
        let nearest = Nearest::default();
        let debt = || self.debt(&nearest);
        let load = self.load(step, &label, seconds, bar, &debt);
        let seed = self.config.seed ^ u64::from(number);
        let open_loop = OpenLoop::start(arrivals, End::Seconds(seconds), load.threads, seed)?;
        let gaps = GapMeter::new();
        let (measured, bytes) = load::run(&load, |worker| {
            let thread = worker.index;
            let mut client = Client::new(self.engine.as_kv()?, &self.clients, Workload::Overwrite, number, thread, 0);
            let mut queue = open_loop.queue(thread)?;
            let mut goes_on = true;
            while goes_on && !worker.is_stopped() {
                goes_on = queue.serve(|number, waited| {
                    gaps.begin();
                    match step {
                        Step::Floor(_) => spin(self.put_nanos),
                        _ => client.step(number).map(drop)?,
                    }
                    worker.record(waited(), 1);
                    gaps.complete();
                    Ok(())
                })?;
            }
            gaps.end();
            Ok(client.bytes())
        })?;
        let lateness = open_loop.lateness()?;
        let bytes = bytes.iter().sum();
        let longest_gap_us = Some(gaps.longest_us());
        let next_limit = nearest.bytes();
        Ok(Outcome { measured, bytes, longest_gap_us, offered: Some(offered), lateness, next_limit })
    }

    /// What is owed now; and how near the next limit is.
    fn debt(&self, nearest: &Nearest) -> Option<u64> {
        let stats = self.engine.admin.stats().ok()?;
        nearest.note(stats.next_limit_bytes);
        stats.debt_bytes
    }
}

/// The smallest of the figures that were noted.
#[derive(Debug)]
struct Nearest(AtomicU64);

impl Default for Nearest {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Nearest {
    fn note(&self, bytes: Option<u64>) {
        self.0.fetch_min(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|bytes| *bytes != u64::MAX)
    }
}

/// Keeps the processor busy.
fn spin(nanos: u64) {
    let watch = Stopwatch::start();
    while watch.nanos() < nanos {}
}

fn rate_of(measured: &Measured) -> f64 {
    measured.ops as f64 / measured.seconds.max(1e-9)
}
