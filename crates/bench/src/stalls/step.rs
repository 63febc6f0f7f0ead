//! The steps of the experiment.

use crate::load::Process;
use std::fmt;
use std::str::FromStr;

/// The longest warm-up of an open loop, in seconds.
pub(crate) const WARM_UP_S: f64 = 10.0;

/// A shorter step has one of this part of its time.
const WARM_UP_PART: f64 = 0.25;

/// One step on one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Puts as many random keys as there are numbers, as fast as the engine takes them.
    Fill,
    /// Waits until no compaction is due.
    Settle,
    /// Overwrites random keys as fast as the engine takes them, until its debt has stopped growing.
    Maximum,
    /// Overwrites arrive at random, at this percentage of the maximum.
    Poisson(u32),
    /// Overwrites arrive with equal gaps, at this percentage of the maximum.
    Constant(u32),
    /// Arrivals as of [`Poisson`](Self::Poisson), each of which keeps its thread busy for the median time of a put and touches no
    /// engine: what the machine and the harness make of such a load by themselves.
    Floor(u32),
    /// Overwrites arrive at random at half the maximum; for 10 s in the middle of every minute, or a sixth of a shorter step, at twice the maximum.
    Bursts,
    /// Overwrites random keys as fast as the engine takes them, for the time of a step.
    Overwrite,
    /// Gets random keys while nobody writes.
    Reads,
    /// Gets random keys beside a thread that overwrites as fast as the engine takes it.
    ReadsWhileFilling,
}

impl Step {
    /// The steps that are run unless others are asked for.
    pub const DEFAULT: &'static str = "fill,settle,reads,reads-while-filling,overwrite,maximum,poisson-70,poisson-80,poisson-95,constant-70,constant-80,constant-95,bursts,floor-80";

    /// Those that take little time together.
    pub(crate) const FEW: &'static str =
        "fill,settle,reads,reads-while-filling,maximum,poisson-70,poisson-80,poisson-95,constant-80,bursts,floor-80";

    /// Whether its rate is a part of the maximum.
    pub fn is_open_loop(self) -> bool {
        matches!(self, Self::Poisson(_) | Self::Constant(_) | Self::Bursts | Self::Floor(_))
    }

    /// Seconds for which arrivals at its rate come before it that do not count, where it takes `seconds`; 0 where none do. The step before may have left more to do than this rate makes.
    pub(crate) fn warm_up_seconds(self, seconds: f64) -> f64 {
        match self {
            Self::Poisson(_) | Self::Constant(_) => WARM_UP_S.min(seconds * WARM_UP_PART),
            _ => 0.0,
        }
    }

    /// Whether what it does is to put.
    pub(super) fn writes(self) -> bool {
        !matches!(self, Self::Settle | Self::Floor(_) | Self::Reads | Self::ReadsWhileFilling)
    }

    /// Whether it goes as fast as the engine does, so that rates can be compared.
    pub(super) fn is_a_race(&self) -> bool {
        !self.is_open_loop() && *self != Self::Settle
    }

    pub(super) fn process(self) -> Process {
        if matches!(self, Self::Constant(_)) { Process::Constant } else { Process::Poisson }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fill => f.write_str("fill"),
            Self::Settle => f.write_str("settle"),
            Self::Maximum => f.write_str("maximum"),
            Self::Poisson(percent) => write!(f, "poisson-{percent}"),
            Self::Constant(percent) => write!(f, "constant-{percent}"),
            Self::Floor(percent) => write!(f, "floor-{percent}"),
            Self::Bursts => f.write_str("bursts"),
            Self::Overwrite => f.write_str("overwrite"),
            Self::Reads => f.write_str("reads"),
            Self::ReadsWhileFilling => f.write_str("reads-while-filling"),
        }
    }
}

impl FromStr for Step {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected fill, settle, maximum, poisson-N, constant-N or floor-N with a percentage of 1 to 1000, bursts, overwrite, reads or \
             reads-while-filling";
        if let Some((process, percent)) = text.split_once('-') {
            let percent = percent.parse().ok().filter(|percent| (1..=1000).contains(percent));
            match (process, percent) {
                ("poisson", Some(percent)) => return Ok(Self::Poisson(percent)),
                ("constant", Some(percent)) => return Ok(Self::Constant(percent)),
                ("floor", Some(percent)) => return Ok(Self::Floor(percent)),
                _ => {}
            }
        }
        let steps = [
            Self::Fill,
            Self::Settle,
            Self::Maximum,
            Self::Bursts,
            Self::Overwrite,
            Self::Reads,
            Self::ReadsWhileFilling,
        ];
        steps.into_iter().find(|step| step.to_string() == text).ok_or(EXPECTED)
    }
}
