//! The command `ycsb`: the core workloads A to F of the Yahoo! Cloud Serving Benchmark (Cooper et al., 2010).
//!
//! A record has a key of `user` and 19 digits, the hashed number of the record, and a value of ten fields of 100 bytes. `load` puts all
//! records into an empty database. Then A reads and updates in equal parts, B updates one time in twenty, C reads only, D inserts
//! one time in twenty and reads what is newest, E scans 1 to 100 records from a key on and inserts one time in twenty, F reads records and
//! writes them back changed every second time. Keys are asked for by Zipf's law with an exponent of 0.99, the popular ones scattered over the whole
//! range; in D the newest are the most popular.
//!
//! An update writes the whole record without reading it (`writeallfields=true`); what must be read first is workload F's. A record that
//! must exist and is not found fails the run.
//!
//! In a closed loop each thread begins an operation when it has ended the one before. Where rates are offered, workloads A to F then run again at each of them in an open loop, with as many operations: these
//! arrive at random, whether or not the engine keeps up, and go to the threads in turn; latencies count from the moment at which an operation was due. The run is called `a poisson-80` at 80 % of the engine's
//! own rate in the closed loop, `a poisson-500/s` at 500 operations a second. Nothing is restored: every run finds the engine open, and the records as the one before left them, with what D and E inserted. What the engine still owes
//! from the run before, as compactions do, it pays during the next.

use crate::config_json;
use crate::engines::{EngineKind, EngineSettings};
use crate::load::offered::{self, OfferedRates};
use crate::place::{Found, Place};
use crate::{Output, ResultLine, kv};
use serde::Serialize;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

mod client;
mod keys;
mod session;
#[cfg(test)]
mod tests;
mod workload;

use session::{Run, Session};
pub use workload::Workload;

/// What `ycsb` runs.
#[derive(Debug, Clone, Serialize)]
pub struct YcsbConfig {
    /// The engines, to be run alternately.
    #[serde(serialize_with = "config_json::names")]
    pub engines: Vec<EngineKind>,
    /// The workloads, in this order.
    #[serde(serialize_with = "config_json::names")]
    pub workloads: Vec<Workload>,
    /// Records that are loaded.
    pub records: u64,
    /// Operations of a workload other than `load`.
    pub operations: u64,
    /// Fields of 100 bytes in a record.
    pub fields: usize,
    /// Threads; the operations are divided among them.
    pub threads: usize,
    /// At which rates the workloads A to F run again in open loops.
    pub offered: OfferedRates,
    /// How many times every engine runs.
    pub pairs: u32,
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Draws operations, keys and values.
    pub seed: u64,
    /// Where the databases are and stay. `None`: a temporary directory.
    pub dir: Option<PathBuf>,
    /// What the engines are opened with.
    pub settings: EngineSettings,
}

/// What distinguishes one configuration from another in results.
#[derive(Serialize)]
struct Identity {
    records: u64,
    operations: u64,
    fields: usize,
    threads: usize,
    seed: u64,
}

impl YcsbConfig {
    fn check(&self) -> Result<()> {
        let bounds = [
            ("records is out of bounds", (1..=u64::from(u32::MAX)).contains(&self.records)),
            ("operations is out of bounds", self.operations >= 1),
            ("fields is out of bounds", (1..=10_000).contains(&self.fields)),
            ("threads is out of bounds", (1..=1024).contains(&self.threads)),
            ("pairs is out of bounds", self.pairs >= 1),
            ("interval is out of bounds", self.interval_s >= 0.1),
            ("engine is missing", !self.engines.is_empty()),
            ("workloads must begin with load", self.workloads.first() == Some(&Workload::Load)),
        ];
        match bounds.iter().find(|(_, is_right)| !is_right) {
            Some((what, _)) => Err(Error::invalid_argument(format!("--{what}"))),
            None => self.offered.check(),
        }
    }

    fn setup(&self) -> String {
        let count = |number: u64| crate::figures::thousands(number as f64);
        let text = format!(
            "{} records of {} fields, {} operations a workload, durability {}",
            count(self.records),
            self.fields,
            count(self.operations),
            self.settings.durability
        );
        text + &self.settings.in_words()
    }

    pub(crate) fn config_hash(&self) -> String {
        let Self { records, operations, fields, threads, seed, .. } = *self;
        crate::engines::config_hash(&Identity { records, operations, fields, threads, seed }, &self.settings)
    }
}

/// Runs the workloads and returns one line a run.
pub fn run(config: &YcsbConfig, output: &mut Output<'_>) -> Result<Vec<ResultLine>> {
    config.check()?;
    let place = Place::new(config.dir.as_deref(), config.engines.len() > 1, Found::Removed)?;
    output.say(config.setup())?;
    let mut lines: Vec<ResultLine> = Vec::new();
    for pair in 1..=config.pairs {
        let mut engines = config.engines.clone();
        if pair % 2 == 0 {
            engines.reverse();
        }
        for kind in engines {
            let mut session = Session::new(config, kind, place.of(kind), pair);
            for (number, &workload) in config.workloads.iter().enumerate() {
                let closed = Run::closed(workload, number as u64);
                lines.extend(config.offered.phases(workload.is_a_mix(), |open| {
                    let run = open.map_or(closed, |(rate, order)| closed.at(rate, order));
                    run_once(&mut session, run, &place, output)
                })?);
            }
            session.close()?;
        }
    }
    output.say(kv::tables::results(&lines))?;
    if let Some(table) = offered::table(&lines) {
        output.say(table)?;
    }
    if config.engines.len() > 1 {
        let mut names: Vec<_> = config.workloads.iter().map(|workload| workload.name()).collect();
        names.sort_unstable();
        names.dedup();
        output.say(crate::ratios::table(&lines, &config.engines, &names, config.pairs))?;
    }
    Ok(lines)
}

/// Runs a workload once, and says what it gave.
fn run_once(session: &mut Session<'_>, run: Run<'_>, place: &Place, output: &mut Output<'_>) -> Result<ResultLine> {
    let (mut line, intervals) = session.run(run, output.bars)?;
    place.mark(&mut line);
    output.json(&line)?;
    for interval in &intervals {
        output.json(interval)?;
    }
    output.say(kv::tables::progress(&line))?;
    Ok(line)
}
