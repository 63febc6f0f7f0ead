//! The second of two phases: a workload that ran in a closed loop runs again in open loops, at parts of the rate that it had there, or at rates that are the same for every engine.

use crate::ResultLine;
use serde::Serialize;
use siltstone_base::{Error, Result};

mod offering;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use offering::{Offered, Offering};
pub(crate) use table::table;

/// The largest part of a closed loop's rate. What an engine cannot keep up with shows itself soon.
const MOST_FRACTION: f64 = 1.5;

/// The highest rate, per second: what is still owed when a run is over is then passed over in a moment.
const MOST_RATE: u64 = 1_000_000;

/// Arrivals per second after a closed loop that did nothing: gaps are never without an end.
const LEAST_RATE: f64 = 1e-3;

/// The rates of the open loops that follow each closed one. By default there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OfferedRates {
    /// Parts of the engine's own rate in the closed loop, each above 0 and at most 1.5. They are run in this order.
    pub fractions: Vec<f64>,
    /// Operations per second, the same for every engine, each 1 to 1,000,000. They are run in this order, after the fractions.
    pub rates: Vec<u64>,
}

impl OfferedRates {
    /// Whether every rate is within its bounds.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` with the option that is not, and its bounds.
    pub(crate) fn check(&self) -> Result<()> {
        // What is no number is in no bounds.
        if !self.fractions.iter().all(|fraction| *fraction > 0.0 && *fraction <= MOST_FRACTION) {
            return Err(Error::invalid_argument(format!("--fractions must be above 0 and at most {MOST_FRACTION}")));
        }
        if !self.rates.iter().all(|rate| (1..=MOST_RATE).contains(rate)) {
            return Err(Error::invalid_argument(format!("--rate must be 1 to {MOST_RATE}")));
        }
        Ok(())
    }

    /// Both phases of a workload: `once` without a rate is the closed loop; then comes, if the workload has open ones, each rate that is offered, with its order among them from 1.
    pub(crate) fn phases(
        &self,
        has_open_loops: bool,
        mut once: impl FnMut(Option<(&OfferedRate, u64)>) -> Result<ResultLine>,
    ) -> Result<Vec<ResultLine>> {
        let closed = once(None)?;
        let rates = if has_open_loops { self.after(closed.ops_per_s) } else { Vec::new() };
        let mut lines = vec![closed];
        for (order, rate) in (1..).zip(&rates) {
            lines.push(once(Some((rate, order)))?);
        }
        Ok(lines)
    }

    /// The open loops after a closed one that did `maximum` operations per second.
    fn after(&self, maximum: f64) -> Vec<OfferedRate> {
        let fractions = self.fractions.iter().map(|fraction| OfferedRate::part(*fraction, maximum));
        fractions.chain(self.rates.iter().map(|rate| OfferedRate::given(*rate))).collect()
    }
}

/// The rate of one open loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OfferedRate {
    /// Arrivals per second.
    per_s: f64,
    /// `poisson-80` at 80 % of the maximum, as a step of `stalls` is called; `poisson-500/s` at a given rate.
    name: String,
}

impl OfferedRate {
    fn part(fraction: f64, maximum: f64) -> Self {
        // Four decimals of a percentage, of which those are shown that are there.
        let percent = (fraction * 1e6).round() / 1e4;
        Self { per_s: (fraction * maximum).max(LEAST_RATE), name: format!("poisson-{percent}") }
    }

    fn given(rate: u64) -> Self {
        Self { per_s: rate as f64, name: format!("poisson-{rate}/s") }
    }

    /// Arrivals in so many seconds, about.
    pub(crate) fn arrivals(&self, seconds: f64) -> u64 {
        (self.per_s * seconds) as u64
    }

    /// The name of a workload at this rate.
    pub(crate) fn name_of(&self, workload: &str) -> String {
        format!("{workload} {}", self.name)
    }
}

/// The workload of a name that may be one at an offered rate.
pub(crate) fn workload_of(name: &str) -> &str {
    name.split_once(" poisson-").map_or(name, |(workload, _)| workload)
}

/// After how many seconds clients stop who serve arrivals of so many: what did not keep up is not served to its end. Enough for what arrives at the largest part of the rate with which it is
/// served, and for threads that begin late.
pub(crate) fn most_seconds(seconds: f64) -> f64 {
    const LATE_S: f64 = 5.0;
    2.0 * seconds + LATE_S
}
