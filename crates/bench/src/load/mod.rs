//! Runs a load on several threads, closed loop, and measures it.

use crate::stopwatch::Stopwatch;
use crate::{Latencies, PauseMeter, ProcessUsage};
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::engine::Admin;
use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use siltstone_base::{Error, ErrorKind, Result};
use std::sync::Barrier;
use std::time::Duration;

mod arrivals;
mod bar;
mod gaps;
mod intervals;
mod lines;
mod open_loop;

pub(crate) use arrivals::{Arrivals, Bursts, Process};
use bar::Bar;
pub(crate) use gaps::GapMeter;
pub(crate) use intervals::Interval;
use intervals::Intervals;
pub(crate) use open_loop::{End, OpenLoop};

/// How often the main thread looks at the counters.
const LOOK: Duration = Duration::from_millis(20);

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

/// One thread of a load.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    /// Its number: counting threads from 0, then companions.
    pub index: usize,
    done: &'a AtomicU64,
    stop: &'a AtomicBool,
    is_companion: bool,
    latencies: Latencies,
}

impl Worker<'_> {
    /// Calls `op` with the numbers from 0 below `ops` (a companion: until it is told to stop), or until it returns false.
    /// Time is taken once for every `group` operations. Returns the number of operations done.
    #[inline]
    pub(crate) fn drive(&mut self, ops: u64, group: u64, mut op: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
        let ops = if self.is_companion { u64::MAX } else { ops };
        let watch = Stopwatch::start();
        let (mut done, mut last) = (0, 0);
        let mut goes_on = true;
        while goes_on && done < ops && !self.stop.load(Ordering::Relaxed) {
            let first = done;
            let end = ops.min(done + group);
            while done < end {
                if !op(done)? {
                    goes_on = false;
                    break;
                }
                done += 1;
            }
            let now = watch.nanos();
            match done - first {
                0 => {}
                1 => self.latencies.record(now - last),
                count => self.latencies.record_group(now - last, count),
            }
            last = now;
            self.done.store(done, Ordering::Relaxed);
        }
        Ok(done)
    }

    /// Whether the run is over for this thread.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Takes note of one operation that took `nanos`, for loops that are not [`drive`](Self::drive)'s.
    pub(crate) fn record(&mut self, nanos: u64, ops: u64) {
        self.latencies.record(nanos);
        self.done.fetch_add(ops, Ordering::Relaxed);
    }
}

struct Ending<'a> {
    ended: &'a AtomicUsize,
    failed: &'a AtomicBool,
    is_companion: bool,
    is_ok: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.is_ok {
            self.failed.store(true, Ordering::Release);
        }
        if !self.is_companion {
            self.ended.fetch_add(1, Ordering::Release);
        }
    }
}

/// Runs `work` on every thread of `load` and returns what was measured and what each thread returned.
pub(crate) fn run<T: Send>(
    load: &Load<'_>,
    work: impl Fn(&mut Worker<'_>) -> Result<T> + Sync,
) -> Result<(Measured, Vec<T>)> {
    let all = load.threads + load.companions;
    let counters: Vec<_> = (0..all).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
    let mut latencies = (0..all).map(|_| Latencies::new()).collect::<Result<Vec<_>>>()?;
    let (ended, stop, failed) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let barrier = Barrier::new(all + 1);
    let pauses = PauseMeter::new();
    let sampler = Sampler::new(load);

    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..all)
            .map(|index| {
                let is_companion = index >= load.threads;
                let latencies = latencies.remove(0);
                let mut worker = Worker { index, done: &counters[index], stop: &stop, is_companion, latencies };
                let (barrier, work, ended, failed) = (&barrier, &work, &ended, &failed);
                scope.spawn(move || {
                    barrier.wait();
                    let watch = Stopwatch::start();
                    let mut ending = Ending { ended, failed, is_companion, is_ok: false };
                    let result = work(&mut worker);
                    ending.is_ok = result.is_ok();
                    (result, watch.seconds(), worker.latencies)
                })
            })
            .collect();
        scope.spawn(|| pauses.watch());
        barrier.wait();
        let run_watch = Stopwatch::start();
        let before = ProcessUsage::now();
        let counted = || counters[..load.threads].iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
        let samples = sampler.watch(&counted, || {
            let is_failed = failed.load(Ordering::Acquire);
            if is_failed || load.most_seconds.is_some_and(|most| run_watch.seconds() >= most) {
                stop.store(true, Ordering::Release);
            }
            is_failed || ended.load(Ordering::Acquire) == load.threads
        });
        stop.store(true, Ordering::Release);
        let usage = ProcessUsage::now().since(&before);
        pauses.stop();

        let mut measured = Measured {
            seconds: 0.0,
            ops: counted(),
            companion_ops: 0,
            latencies: Latencies::new()?,
            usage,
            pause_us: 0.0,
            second_rates: samples.second_rates,
            second_gauges: samples.second_gauges,
            intervals: samples.intervals,
        };
        let mut returned = Vec::with_capacity(all);
        let mut failure = None;
        for (index, worker) in workers.into_iter().enumerate() {
            let (result, seconds, latencies) =
                worker.join().map_err(|_| Error::new(ErrorKind::Poisoned, "a client of the load panicked"))?;
            if index < load.threads {
                measured.seconds = measured.seconds.max(seconds);
                measured.latencies.add(&latencies)?;
            }
            match result {
                Ok(value) => returned.push(value),
                Err(error) => failure = Some(error),
            }
        }
        measured.ops = counted();
        measured.companion_ops = counters[load.threads..].iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
        measured.pause_us = pauses.longest_us();
        failure.map_or(Ok((measured, returned)), Err)
    })
}

/// Waits until the engine has nothing due, and measures that.
pub(crate) fn settle(engine: &dyn Admin) -> Result<Measured> {
    let pauses = PauseMeter::new();
    let before = ProcessUsage::now();
    let watch = Stopwatch::start();
    std::thread::scope(|scope| {
        scope.spawn(|| pauses.watch());
        let result = engine.settle();
        pauses.stop();
        result
    })?;
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

#[derive(Debug, Default)]
struct Samples {
    second_rates: Vec<f64>,
    second_gauges: Vec<u64>,
    intervals: Vec<Interval>,
}

struct Sampler<'a> {
    bar: Bar,
    interval_s: f64,
    gauge: Option<Gauge<'a>>,
    space: Option<Gauge<'a>>,
}

impl<'a> Sampler<'a> {
    fn new(load: &Load<'a>) -> Self {
        Self { bar: Bar::new(load), interval_s: load.interval_s, gauge: load.gauge, space: load.space }
    }

    fn watch(&self, counted: &dyn Fn() -> u64, is_over: impl Fn() -> bool) -> Samples {
        let clock = SystemClock::new();
        let watch = Stopwatch::start();
        let mut samples = Samples::default();
        let mut second = Mark::default();
        let mut intervals = Intervals::new(self.interval_s, self.space);
        while !is_over() {
            clock.sleep(LOOK);
            let (now, ops) = (watch.seconds(), counted());
            if let Some(rate) = second.rate_after(1.0, now, ops) {
                samples.second_rates.push(rate);
                samples.second_gauges.extend(self.gauge.and_then(|gauge| gauge()));
                self.bar.show(now, ops, rate);
            }
            intervals.look(now, ops);
        }
        intervals.finish(watch.seconds(), counted());
        samples.intervals = intervals.ended;
        self.bar.clear();
        samples
    }
}

#[derive(Debug, Default)]
struct Mark {
    at: f64,
    ops: u64,
}

impl Mark {
    fn rate_after(&mut self, length: f64, now: f64, ops: u64) -> Option<f64> {
        let passed = now - self.at;
        if passed < length {
            return None;
        }
        let rate = (ops - self.ops) as f64 / passed;
        *self = Self { at: now, ops };
        Some(rate)
    }
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
