//! The command `ads`: sources of an ad-serving system that replicate into one store, whose rows are valid for 60 days.
//!
//! Time runs fast: a day takes seconds. Each source has its events at even distances, and commits several at a time when they are due; the *lag* is how late that is.
//! What events are is said in the module `generator`. From day 30 on a third of the key range is not written any more, so that no compaction visits it for its size: rows that
//! expire there from day 60 on stay for ever, unless somebody looks after them.
//!
//! The rows of the table are those of a published tuning ladder ([`Row`]), each on a database of its own, beside our B-tree with compressed pages, whose rows a
//! job deletes once a day, and then the engine by itself.

use crate::all::Scale;
use crate::config_json;
use crate::engines::EngineSettings;
use crate::place::{Found, Place, remove_database};
use crate::{Output, ResultLine};
use serde::Serialize;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

mod generator;
mod ladder;
mod payload;
mod samples;
mod session;
mod shares;
mod tables;
#[cfg(test)]
mod tests;

pub use ladder::Row;

/// What `ads` runs.
#[derive(Debug, Clone, Serialize)]
pub struct AdsConfig {
    /// Rows of the ladder, in this order.
    #[serde(serialize_with = "config_json::names")]
    pub rows: Vec<Row>,
    /// Simulated days.
    pub days: u64,
    /// Seconds that a day takes.
    pub day_seconds: f64,
    /// Upserts of a day, of all sources together; of a third of them nothing is left after day 30.
    pub upserts_per_day: u64,
    /// Sources, each of which replicates by itself.
    pub sources: usize,
    /// Upserts of a commit.
    pub rows_per_commit: usize,
    /// Every row goes through the page cache: for file systems that have no direct I/O.
    pub is_buffered: bool,
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Draws rows and payloads.
    pub seed: u64,
    /// Where the database is. `None`: a temporary directory.
    pub dir: Option<PathBuf>,
    /// What the engines are opened with, but for what the ladder says.
    pub settings: EngineSettings,
}

/// What distinguishes one configuration from another in results.
#[derive(Serialize)]
struct Identity {
    days: u64,
    day_seconds: f64,
    upserts_per_day: u64,
    sources: usize,
    rows_per_commit: usize,
    is_buffered: bool,
    seed: u64,
}

impl AdsConfig {
    /// The whole ladder at a scale: data several times as large as memory.
    pub fn of_scale(scale: Scale, seed: u64) -> Self {
        let upserts_per_day: u64 = scale.of(4_000, 8_000, 16_000);
        let scaled = Self {
            rows: Row::ALL.to_vec(),
            days: 78,
            day_seconds: scale.of(1.0, 2.0, 4.0),
            upserts_per_day,
            sources: 3,
            rows_per_commit: 10,
            is_buffered: false,
            interval_s: 5.0,
            seed,
            dir: None,
            settings: EngineSettings::default(),
        };
        let memory = (scaled.data_bytes() / 5) as usize;
        Self { settings: EngineSettings::default().with_memory(memory), ..scaled }
    }

    /// Bytes of the rows that are valid at once: about half of the upserts are of different ones.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.upserts_per_day * ladder::VALID_DAYS / 2 * generator::ROW_BYTES as u64
    }

    fn check(&self) -> Result<()> {
        let bounds = [
            ("rows is missing", !self.rows.is_empty()),
            ("days is out of bounds", (1..=10_000).contains(&self.days)),
            ("day-seconds is out of bounds", (0.001..=86_400.0).contains(&self.day_seconds)),
            ("upserts-per-day is out of bounds", (1..=1 << 40).contains(&self.upserts_per_day)),
            ("sources is out of bounds", (1..=256).contains(&self.sources)),
            ("rows-per-commit is out of bounds", (1..=10_000).contains(&self.rows_per_commit)),
            ("interval is out of bounds", self.interval_s >= 0.1),
        ];
        match bounds.iter().find(|(_, is_right)| !is_right) {
            Some((what, _)) => Err(Error::invalid_argument(format!("--{what}"))),
            None => Ok(()),
        }
    }

    fn setup(&self) -> String {
        let count = |number: u64| crate::figures::thousands(number as f64);
        let text = format!(
            "{} days of {} s, {} upserts a day from {} sources, {} a commit, rows of {} bytes that are valid for {} days",
            self.days,
            self.day_seconds,
            count(self.upserts_per_day),
            self.sources,
            self.rows_per_commit,
            generator::ROW_BYTES,
            ladder::VALID_DAYS,
        );
        text + &self.settings.in_words()
    }

    /// How many times as fast as the machine's the simulated time is.
    fn factor(&self) -> u64 {
        ((generator::DAY as f64 / self.day_seconds) as u64).max(1)
    }

    pub(crate) fn config_hash(&self) -> String {
        let Self { days, day_seconds, upserts_per_day, sources, rows_per_commit, is_buffered, seed, .. } = *self;
        let identity = Identity { days, day_seconds, upserts_per_day, sources, rows_per_commit, is_buffered, seed };
        crate::engines::config_hash(&identity, &self.settings)
    }
}

/// Runs the rows of the ladder and returns one line for each.
pub fn run(config: &AdsConfig, output: &mut Output<'_>) -> Result<Vec<ResultLine>> {
    config.check()?;
    let place = Place::new(config.dir.as_deref(), false, Found::Removed)?;
    output.say(config.setup())?;
    let mut lines: Vec<ResultLine> = Vec::new();
    for &row in &config.rows {
        let dir = place.of(row.engine());
        remove_database(&dir)?;
        let (mut line, intervals) = session::run(config, row, &dir, output.bars)?;
        place.mark(&mut line);
        output.json(&line)?;
        for interval in &intervals {
            output.json(interval)?;
        }
        output.say(tables::progress(&line))?;
        lines.push(line);
    }
    output.say(tables::results(&lines))?;
    Ok(lines)
}
