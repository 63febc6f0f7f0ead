//! The command `stalls`: how evenly an engine takes writes.
//!
//! An engine is filled and read, then overwritten as fast as it goes until its debt has stopped growing: that rate is its maximum. Then
//! operations arrive by a schedule, whether or not the engine keeps up, at parts of the maximum, and latencies count from the moment at which
//! an operation was due. The generator's own lateness is measured beside them; and the step `floor-N` takes the place of the engine by as
//! much work of the processor, so that its percentiles are what the machine alone does to such a load.
//!
//! Of every step are printed the coefficient of variation of the 1-s rates (plain, and against a 15-s moving median), the worst second and
//! the worst five as parts of the moving median, the longest time in which nothing was completed, percentiles, delays by cause, and the debt
//! at the end. Keys and values are those of [`kv`](crate::kv).

use crate::config_json;
use crate::engines::{EngineKind, EngineSettings};
use crate::kv::{KvConfig, Workload};
use crate::place::{Found, Place};
use crate::{Output, ResultLine};
use serde::Serialize;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

mod session;
mod steady;
mod step;
mod tables;
#[cfg(test)]
mod tests;

pub use step::Step;
pub(crate) use step::WARM_UP_S;

/// Whose maximum the rates of the open-loop steps are parts of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offered {
    /// Each engine's own.
    #[default]
    Own,
    /// That of the first engine: the same rates for all.
    First,
}

impl std::fmt::Display for Offered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::First => "first",
        })
    }
}

impl std::str::FromStr for Offered {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "own" => Ok(Self::Own),
            "first" => Ok(Self::First),
            _ => Err("expected own or first"),
        }
    }
}

/// What `stalls` runs.
#[derive(Debug, Clone, Serialize)]
pub struct StallsConfig {
    /// The engines, one after the other, each with all steps.
    #[serde(serialize_with = "config_json::names")]
    pub engines: Vec<EngineKind>,
    /// The steps, in this order.
    #[serde(serialize_with = "config_json::names")]
    pub steps: Vec<Step>,
    /// The number of keys.
    pub num: u64,
    /// Bytes of a value.
    pub value_size: usize,
    /// Submitting threads.
    pub threads: usize,
    /// How often the engines run all steps, in alternating order.
    pub pairs: u32,
    /// Length of a step other than fill and settle.
    pub seconds: f64,
    /// Takes the place of a measured maximum: operations per second.
    pub rate: Option<u64>,
    /// Whose maximum counts.
    #[serde(serialize_with = "config_json::name")]
    pub offered: Offered,
    /// Uses the database that is in the directory: there is no need of a fill.
    pub existing: bool,
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Draws keys, values and arrivals.
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
    rate: Option<u64>,
    seed: u64,
    warm_up_s: f64,
}

impl StallsConfig {
    fn check(&self) -> Result<()> {
        let has_maximum = |step: &Step| {
            let before = self.steps.iter().take_while(|other| *other != step);
            self.rate.is_some() || !step.is_open_loop() || before.clone().any(|step| *step == Step::Maximum)
        };
        let has_puts_before = |step: &Step| {
            let mut before = self.steps.iter().take_while(|other| *other != step);
            before.any(|step| matches!(step, Step::Fill | Step::Maximum | Step::Overwrite))
        };
        let bounds = [
            ("num is out of bounds", self.num >= 1),
            ("value-size is out of bounds", self.value_size <= 64 << 20),
            ("threads is out of bounds", (1..=1024).contains(&self.threads)),
            ("pairs is out of bounds", self.pairs >= 1),
            (
                "existing is for one pair: a second one would find what the first one left",
                !self.existing || self.pairs == 1,
            ),
            ("seconds is out of bounds", (0.1..=86_400.0).contains(&self.seconds)),
            ("interval is out of bounds", self.interval_s >= 0.1),
            ("rate is out of bounds", self.rate != Some(0)),
            ("engine is missing", !self.engines.is_empty()),
            (
                "steps must begin with fill, unless --existing is said",
                self.existing || self.steps.first() == Some(&Step::Fill),
            ),
            (
                "steps has a floor before a step that overwrites or fills",
                self.steps.iter().all(|step| !matches!(step, Step::Floor(_)) || has_puts_before(step)),
            ),
            (
                "steps has a rate that is a part of the maximum before maximum; or say --rate",
                self.steps.iter().all(has_maximum),
            ),
        ];
        match bounds.iter().find(|(_, is_right)| !is_right) {
            Some((what, _)) => Err(Error::invalid_argument(format!("--{what}"))),
            None => Ok(()),
        }
    }

    fn setup(&self) -> String {
        let keys = crate::figures::thousands(self.num as f64);
        let clients = if self.threads > 1 { format!(", {} threads", self.threads) } else { String::new() };
        let text = format!(
            "{keys} keys, values of {} bytes{clients}, durability {}",
            self.value_size, self.settings.durability
        );
        text + &self.settings.in_words()
    }

    pub(crate) fn config_hash(&self) -> String {
        let Self { num, value_size, threads, rate, seed, .. } = *self;
        crate::engines::config_hash(
            &Identity { num, value_size, threads, rate, seed, warm_up_s: WARM_UP_S },
            &self.settings,
        )
    }

    /// The same keys and values for the clients of `kv`.
    fn for_clients(&self) -> KvConfig {
        KvConfig {
            engines: self.engines.clone(),
            workloads: vec![Workload::Overwrite],
            num: self.num,
            value_size: self.value_size,
            threads: self.threads,
            batch: 1,
            rate: None,
            pairs: self.pairs,
            existing: self.existing,
            interval_s: self.interval_s,
            seed: self.seed,
            dir: self.dir.clone(),
            settings: self.settings.clone(),
        }
    }
}

/// Runs the steps on every engine and returns one line a step.
pub fn run(config: &StallsConfig, output: &mut Output<'_>) -> Result<Vec<ResultLine>> {
    config.check()?;
    let found = if config.existing { Found::Kept } else { Found::Removed };
    let place = Place::new(config.dir.as_deref(), config.engines.len() > 1, found)?;
    output.say(config.setup())?;
    let mut lines = Vec::new();
    let mut maximum = config.rate.map(|rate| rate as f64);
    for pair in 1..=config.pairs {
        // The first engine stays the first where its maximum is that of all.
        let mut engines = config.engines.clone();
        if pair % 2 == 0 && config.offered == Offered::Own {
            engines.reverse();
        }
        for (index, &kind) in engines.iter().enumerate() {
            if config.rate.is_none() && (index == 0 || config.offered == Offered::Own) {
                maximum = None;
            }
            let mut session = session::Session::open(config, kind, &place.of(kind), maximum)?;
            for (number, &step) in config.steps.iter().enumerate() {
                let (mut line, intervals) = session.run(step, number as u32, output)?;
                line.pair = pair;
                place.mark(&mut line);
                output.json(&line)?;
                for interval in &intervals {
                    output.json(interval)?;
                }
                output.say(tables::progress(&line))?;
                lines.push(line);
            }
            maximum = session.close()?;
        }
    }
    output.say(tables::results(&lines))?;
    if config.engines.len() > 1 {
        let steps: Vec<_> = config.steps.iter().filter(|step| step.is_a_race()).map(Step::to_string).collect();
        let steps: Vec<_> = steps.iter().map(String::as_str).collect();
        output.say(crate::ratios::table(&lines, &config.engines, &steps, config.pairs))?;
    }
    Ok(lines)
}
