//! What the main thread looks at while workers are at work.

use super::bar::Bar;
use super::interval_latencies::Gathered;
use super::intervals::{Interval, Intervals};
use super::{Gauge, Load, Shared};
use crate::stopwatch::Stopwatch;
use siltstone_base::Result;
use siltstone_base::clock::{Clock, SystemClock};
use std::time::Duration;

/// How often it looks at the counters.
const LOOK: Duration = Duration::from_millis(20);

/// What it saw.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Rates of the whole seconds.
    pub(super) second_rates: Vec<f64>,
    /// What the gauge said at the end of each.
    pub(super) second_gauges: Vec<u64>,
    /// Without latencies: those are complete when all workers are done.
    pub(super) intervals: Vec<Interval>,
}

/// Looks, and shows what it sees.
pub(super) struct Sampler<'a> {
    bar: Bar,
    gauge: Option<Gauge<'a>>,
    intervals: Intervals<'a>,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(load: &Load<'a>) -> Self {
        let intervals = Intervals::new(load.interval_s, load.space);
        Self { bar: Bar::new(load), gauge: load.gauge, intervals }
    }

    /// Looks until the run is over, and counts its intervals for the workers. Time is that of `watch`, which started with the run.
    pub(super) fn watch(
        mut self,
        watch: Stopwatch,
        shared: &Shared,
        gathered: &mut Gathered<'_>,
        is_over: impl Fn() -> bool,
    ) -> Result<Samples> {
        let clock = SystemClock::new();
        let mut samples = Samples::default();
        let mut second = Mark::default();
        while !is_over() {
            clock.sleep(LOOK);
            let (now, ops) = (watch.seconds(), shared.ops());
            if let Some(rate) = second.rate_after(1.0, now, ops) {
                samples.second_rates.push(rate);
                samples.second_gauges.extend(self.gauge.and_then(|gauge| gauge()));
                self.bar.show(now, ops, rate);
            }
            if self.intervals.is_over_at(now) {
                shared.phase.begin_interval();
                self.intervals.end(now, ops);
                gathered.gather()?;
            }
        }
        self.intervals.finish(watch.seconds(), shared.ops());
        self.bar.clear();
        samples.intervals = self.intervals.ended;
        Ok(samples)
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
