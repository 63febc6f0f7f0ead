//! When operations arrive.

use crate::Rng;

/// How arrivals are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Process {
    /// At random: the gaps of a Poisson process.
    Poisson,
    /// One after the other, with equal gaps.
    Constant,
}

/// A time again and again during which more arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bursts {
    /// Seconds from the beginning of one to that of the next.
    pub every_s: f64,
    /// How long each lasts. They stand in the middle of their period, so that what comes after one is seen, too.
    pub length_s: f64,
    /// Arrivals per second within.
    pub rate: f64,
}

impl Bursts {
    /// Seconds from the beginning of a period to that of its burst.
    fn begin_s(&self) -> f64 {
        (self.every_s - self.length_s) / 2.0
    }

    fn hold_at(&self, seconds: f64) -> bool {
        (self.begin_s()..self.begin_s() + self.length_s).contains(&(seconds % self.every_s))
    }
}

/// A schedule of arrivals.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    pub process: Process,
    /// Arrivals per second.
    pub rate: f64,
    pub bursts: Option<Bursts>,
}

impl Arrivals {
    /// Poisson arrivals at `rate` a second.
    pub(crate) fn poisson(rate: f64) -> Self {
        Self { process: Process::Poisson, rate, bursts: None }
    }

    /// Arrivals per second, on the average over the first `seconds`.
    pub(crate) fn mean_rate(&self, seconds: f64) -> f64 {
        let Some(bursts) = self.bursts else { return self.rate };
        let whole = (seconds / bursts.every_s).floor();
        let rest = (seconds % bursts.every_s - bursts.begin_s()).clamp(0.0, bursts.length_s);
        let in_bursts = whole * bursts.length_s + rest;
        (in_bursts * bursts.rate + (seconds - in_bursts) * self.rate) / seconds
    }

    fn rate_at(&self, nanos: f64) -> f64 {
        match self.bursts {
            Some(bursts) if bursts.hold_at(nanos / 1e9) => bursts.rate,
            _ => self.rate,
        }
    }

    /// Nanoseconds from an arrival at `nanos` to the next.
    pub(super) fn gap_after(&self, nanos: f64, rng: &mut Rng) -> f64 {
        let mean = 1e9 / self.rate_at(nanos);
        match self.process {
            Process::Constant => mean,
            Process::Poisson => {
                // 53 random bits make a fraction above 0.
                let fraction = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                -fraction.ln() * mean
            }
        }
    }
}
