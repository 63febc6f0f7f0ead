//! Runs a load on several threads, closed loop, and measures it.

use crate::stopwatch::Stopwatch;
use crate::{Latencies, PauseMeter, ProcessUsage};
use siltstone_base::engine::Admin;
use siltstone_base::{Error, ErrorKind, Result};

mod arrivals;
mod bar;
mod dismissal;
mod gaps;
mod interval_latencies;
mod intervals;
mod lines;
pub(crate) mod offered;
mod open_loop;
mod sampler;
mod shared;
mod worker;

pub(crate) use arrivals::{Arrivals, Bursts, Process};
use bar::Bar;
pub(crate) use gaps::GapMeter;
use interval_latencies::Gathered;
pub(crate) use intervals::Interval;
pub(crate) use open_loop::{End, OpenLoop};
use sampler::{Sampler, Samples};
use shared::{Conclusion, Shared};
pub(crate) use worker::Worker;

/// A size that is looked at once a second. `None` if it is unknown.
pub(crate) type Gauge<'a> = &'a (dyn Fn() -> Option<u64> + Sync);

/// What is run.
#[derive(Clone)]
pub(crate) struct Load<'a> {
    /// What the progress bar says.
    pub label: &'a str,
    /// Threads whose operations count and whose end ends the run.
    pub threads: usize,
    /// Threads beside them that run until those have ended.
    pub companions: usize,
    /// Operations expected of all counting threads together.
    pub expected_ops: u64,
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Whether to draw a progress bar.
    pub bar: bool,
    /// The clients are told to stop after so many seconds. `None`: when they have done what they had to.
    pub most_seconds: Option<f64>,
    /// Something to look at once a second.
    pub gauge: Option<Gauge<'a>>,
    /// What files occupy: looked at when an interval ends.
    pub space: Option<Gauge<'a>>,
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Measured {
    /// From the start until the last counting thread ended.
    pub seconds: f64,
    /// Operations of the counting threads.
    pub ops: u64,
    /// Operations of the companions.
    pub companion_ops: u64,
    /// Latencies of the counting threads.
    pub latencies: Latencies,
    /// What the process used.
    pub usage: ProcessUsage,
    /// The machine's longest pause.
    pub pause_us: f64,
    /// Rates of the whole seconds of the run.
    pub second_rates: Vec<f64>,
    /// What the gauge said at the end of each.
    pub second_gauges: Vec<u64>,
    /// What happened in each interval.
    pub intervals: Vec<Interval>,
}

/// Runs `work` on every thread of `load` and returns what was measured and what each thread returned.
pub(crate) fn run<T: Send>(
    load: &Load<'_>,
    work: impl Fn(&mut Worker<'_>) -> Result<T> + Sync,
) -> Result<(Measured, Vec<T>)> {
    let shared = Shared::new(load);
    let all = load.threads + load.companions;
    let latencies = (0..all).map(|_| Latencies::new()).collect::<Result<Vec<_>>>()?;
    let mut gathered = Gathered::new(&shared.trays)?;
    let pauses = PauseMeter::new();
    let sampler = Sampler::new(load);

    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(all);
        for (index, (latencies, done)) in latencies.into_iter().zip(&shared.counters).enumerate() {
            let (shared, work) = (&shared, &work);
            threads.push(scope.spawn(move || shared.work(index, done, latencies, work)));
        }
        scope.spawn(|| pauses.watch());
        let conclusion = Conclusion { shared: &shared, pauses: &pauses };
        let before = ProcessUsage::now();
        shared.begin.wait();
        let watch = Stopwatch::start();
        let samples = sampler.watch(watch, &shared, &mut gathered, || {
            let is_failed = shared.is_failed();
            if is_failed || load.most_seconds.is_some_and(|most| watch.seconds() >= most) {
                shared.phase.end_run();
            }
            is_failed || shared.is_done()
        });
        shared.phase.end_run();
        let usage = ProcessUsage::now().since(&before);
        drop(conclusion);
        let Samples { second_rates, second_gauges, mut intervals } = samples?;

        let mut seconds: f64 = 0.0;
        let mut returned = Vec::with_capacity(all);
        let mut failure = None;
        for (index, thread) in threads.into_iter().enumerate() {
            let (outcome, took) =
                thread.join().map_err(|_| Error::new(ErrorKind::Poisoned, "a client of the load panicked"))?;
            if index < load.threads {
                seconds = seconds.max(took);
            }
            match outcome {
                Ok(value) => returned.push(value),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        let (latencies, by_interval) = gathered.finish()?;
        for (interval, latencies) in intervals.iter_mut().zip(by_interval) {
            interval.latencies = latencies;
        }
        let measured = Measured {
            seconds,
            ops: shared.ops(),
            companion_ops: shared.companion_ops(),
            latencies,
            usage,
            pause_us: pauses.longest_us(),
            second_rates,
            second_gauges,
            intervals,
        };
        Ok((measured, returned))
    })
}

/// Waits until the engine has nothing due, and measures that. `bar` shows that it goes on.
pub(crate) fn settle(engine: &dyn Admin, bar: bool) -> Result<Measured> {
    at_rest(bar, || engine.settle())
}

/// The same once the engine has written what it holds in memory to its place: what its tables take is then what its rows take, whatever engine it is.
pub(crate) fn flush_and_settle(engine: &dyn Admin, bar: bool) -> Result<Measured> {
    at_rest(bar, || engine.flush().and_then(|()| engine.settle()))
}

/// The same for a workload that may only read: it finds what an engine would have made of its tables by itself after a while, and no such work begins beneath it.
pub(crate) fn flush_and_drain(engine: &dyn Admin, bar: bool) -> Result<Measured> {
    at_rest(bar, || engine.flush().and_then(|()| engine.drain()))
}

/// Measures something that no client takes part in.
fn at_rest(bar: bool, wait: impl FnOnce() -> Result<()>) -> Result<Measured> {
    let shown = Bar::of_rest(bar);
    let pauses = PauseMeter::new();
    let before = ProcessUsage::now();
    let watch = Stopwatch::start();
    let rested = std::thread::scope(|scope| {
        let _stops = pauses.stops();
        scope.spawn(|| pauses.watch());
        wait()
    });
    shown.clear();
    rested?;
    Ok(Measured {
        seconds: watch.seconds(),
        ops: 0,
        companion_ops: 0,
        latencies: Latencies::new()?,
        usage: ProcessUsage::now().since(&before),
        pause_us: pauses.longest_us(),
        second_rates: Vec::new(),
        second_gauges: Vec::new(),
        intervals: Vec::new(),
    })
}

/// The coefficient of variation of rates: plain, and against a centred moving median of 15. `None` below 5 rates.
pub(crate) fn variation(rates: &[f64]) -> Option<(f64, f64)> {
    if rates.len() < 5 {
        return None;
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    if mean <= 0.0 {
        return None;
    }
    let deviation = |centre: &dyn Fn(usize) -> f64| {
        let squares = rates.iter().enumerate().map(|(at, rate)| (rate - centre(at)).powi(2)).sum::<f64>();
        (squares / rates.len() as f64).sqrt() / mean
    };
    Some((deviation(&|_| mean), deviation(&|at| moving_median(rates, at))))
}

/// The median of the 15 rates around one of them.
fn moving_median(rates: &[f64], at: usize) -> f64 {
    const HALF_WINDOW: usize = 7;
    let window = &rates[at.saturating_sub(HALF_WINDOW)..rates.len().min(at + HALF_WINDOW + 1)];
    median(window).unwrap_or(0.0)
}

/// The smallest of `rates` as a part of the moving median around it. `None` below 5 rates.
pub(crate) fn worst(rates: &[f64]) -> Option<f64> {
    if rates.len() < 5 {
        return None;
    }
    let parts = (0..rates.len()).map(|at| rates[at] / moving_median(rates, at).max(1e-9));
    parts.min_by(f64::total_cmp)
}

/// The rates of five equal parts of a run of over two minutes, so that one pair of such runs makes five quotients.
pub(crate) fn segments(rates: &[f64]) -> Option<Vec<f64>> {
    const SEGMENTS: usize = 5;
    const SHORTEST: usize = 120;
    if rates.len() < SHORTEST {
        return None;
    }
    let border = |segment: usize| rates.len() * segment / SEGMENTS;
    let rate = |segment: usize| {
        let part = &rates[border(segment)..border(segment + 1)];
        part.iter().sum::<f64>() / part.len() as f64
    };
    Some((0..SEGMENTS).map(rate).collect())
}

/// The median; between two, their mean. `None` of nothing.
pub(crate) fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests;
