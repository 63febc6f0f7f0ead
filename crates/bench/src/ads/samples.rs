//! What is looked at while sources write: bytes by the second, and what is expired by the day.

use super::generator::DAY;
use super::shares::Shares;

/// Days before the busiest ten seconds are looked for.
const WARM_DAYS: u64 = 10;

/// Seconds of a window.
const WINDOW: f64 = 10.0;

/// Days over which reading is averaged.
const READ_DAYS: u64 = 5;

/// What was counted by a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sample {
    /// Seconds of the machine's from the beginning.
    pub seconds: f64,
    /// Simulated seconds from the beginning.
    pub simulated: u64,
    pub written: u64,
    pub read: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub samples: Vec<Sample>,
    pub shares: Vec<Shares>,
}

impl Samples {
    /// The largest share of `part`; `None` if nothing was looked at.
    pub(super) fn worst(&self, part: impl Fn(&Shares) -> f64) -> Option<f64> {
        self.shares.iter().map(part).max_by(f64::total_cmp)
    }

    /// Bytes written in the busiest window over the mean of all. `None` if there are less than two windows.
    pub(super) fn write_peak_over_mean(&self) -> Option<f64> {
        let mut rates: Vec<f64> = Vec::new();
        let mut begin: Option<Sample> = None;
        for sample in self.samples.iter().filter(|sample| sample.simulated >= WARM_DAYS * DAY) {
            let first = *begin.get_or_insert(*sample);
            let seconds = sample.seconds - first.seconds;
            if seconds >= WINDOW {
                rates.push((sample.written - first.written) as f64 / seconds);
                begin = Some(*sample);
            }
        }
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let peak = rates.iter().copied().max_by(f64::total_cmp)?;
        (rates.len() >= 2 && mean > 0.0).then_some(peak / mean)
    }

    /// Bytes read per second in the last days before `end` over those before `begin`, both in days.
    pub(super) fn read_rise(&self, begin: u64, end: u64) -> Option<f64> {
        let rate = |day: u64| {
            let from = day.checked_sub(READ_DAYS)? * DAY;
            let mut within = self.samples.iter().filter(|sample| (from..=day * DAY).contains(&sample.simulated));
            let (first, last) = (within.next()?, within.next_back()?);
            Some((last.read - first.read) as f64 / (last.seconds - first.seconds))
        };
        rate(begin).zip(rate(end)).filter(|(before, _)| *before > 0.0).map(|(before, after)| after / before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(bytes: impl Fn(u64) -> u64) -> Samples {
        let sample = |second: u64| Sample {
            seconds: second as f64,
            simulated: second * DAY,
            written: bytes(second),
            read: bytes(second) / 2,
        };
        Samples { samples: (0..=60).map(sample).collect(), ..Samples::default() }
    }

    #[test]
    fn peaks_are_those_of_ten_seconds_after_ten_days() {
        assert_eq!(samples(|second| second * 100).write_peak_over_mean(), Some(1.0));
        // All of the first ten days, and then four times as much in one of five windows.
        let uneven = samples(|second| match second {
            0..30 => 5000 + second * 100,
            30..40 => 8000 + (second - 30) * 400,
            _ => 12_000 + (second - 40) * 100,
        });
        assert_eq!(uneven.write_peak_over_mean(), Some(4.0 / (8.0 / 5.0)));
        assert_eq!(Samples::default().write_peak_over_mean(), None);
    }

    #[test]
    fn a_rise_is_that_of_the_last_days() {
        let rising = samples(|second| if second < 55 { second * 100 } else { 5500 + (second - 55) * 300 });
        assert_eq!((rising.read_rise(50, 55), rising.read_rise(50, 60)), (Some(1.0), Some(3.0)));
        assert_eq!(rising.read_rise(3, 60), None);
    }
}
