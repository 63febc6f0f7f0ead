//! Why a comparison could not be measured.

use super::{Alike, Figure, Shape, Side};
use crate::ResultLine;
use crate::figures::thousands;
use crate::report::RunRecord;
use crate::report::conditions::kept_up;

impl Shape {
    /// The first thing that is missing, for the page.
    pub(super) fn reason(&self, records: &[RunRecord]) -> String {
        let theirs = self.relative_to.map(|(of, _)| (self.of, of));
        let pairs = [Some((self.of, self.by)), self.relative_to, theirs];
        let reason = pairs.into_iter().flatten().find_map(|(of, by)| self.reason_of(of, by, records));
        reason.unwrap_or_else(|| "one of the figures is 0".to_owned())
    }

    fn reason_of(&self, of: Side, by: Side, records: &[RunRecord]) -> Option<String> {
        let runs = |side: Side| {
            let is_of_side = move |record: &&RunRecord| side.is_of(&record.result);
            records.iter().filter(is_of_side)
        };
        let (ours, theirs) = (of.engine, by.engine);
        for side in [of, by] {
            let engine = side.engine;
            let Some(first) = runs(side).next() else {
                return Some(format!("there is no run of {engine} under these conditions"));
            };
            if !runs(side).any(|record| side.counts(&record.result)) {
                if !kept_up(&first.result) {
                    let lag = first.result.replication_lag_s.unwrap_or_default();
                    return Some(format!("{engine} did not keep up: rows came in {lag:.0} s late"));
                }
                let left = thousands(first.result.rows_left_out.unwrap_or_default() as f64);
                let seconds = first.result.seconds;
                return Some(format!("{engine} was ended after {seconds:.0} s without {left} rows"));
            }
        }
        let whole = |side: Side| runs(side).filter(move |record| side.counts(&record.result));
        let differences = whole(of)
            .flat_map(|one| whole(by).map(|other| self.differences(&one.result, &other.result)))
            .min_by_key(Vec::len)?;
        if !differences.is_empty() {
            return Some(format!("the runs of {ours} and {theirs} differ in {}", differences.join(" and ")));
        }
        let figures = |side: Side| [Some(side.figure), self.finer.map(|(figure, _)| figure)].into_iter().flatten();
        let is_known = |side: Side| figures(side).any(|figure: Figure| whole(side).any(|run| figure(run).is_some()));
        let short = [of, by].into_iter().find(|side| !is_known(*side)).unwrap_or(of);
        Some(format!("{} was done too soon for it, or the system does not count it", short.engine))
    }

    /// In what two runs differ that must be alike.
    pub(super) fn differences(&self, a: &ResultLine, b: &ResultLine) -> Vec<&'static str> {
        // Runs that end when their time is over have as many rows as they got to, and a row of the ladder differs from others in what memory and durability it has: of such the hash of all
        // settings tells.
        let is_of_time = self.of.runs.may_end_early;
        let is_of_steps = self.alike == Alike::ButStep;
        let says_all = is_of_time || is_of_steps || matches!(self.alike, Alike::All | Alike::ButDurability);
        let is_of_memory = self.alike == Alike::ButMemory;
        let conditions = [
            ("machine", is_same_machine(a, b)),
            ("experiment", a.experiment == b.experiment),
            ("step", is_of_steps || a.workload == b.workload),
            ("clients", self.alike == Alike::ButLoadAndClients || a.threads == b.threads),
            ("device", a.device == b.device),
            ("its other load", self.alike == Alike::ButLoadAndClients || a.device_load == b.device_load),
            ("memory", is_of_steps || is_of_memory || a.memory_bytes == b.memory_bytes),
            ("data", is_of_time || a.data_bytes == b.data_bytes),
            ("data set", a.data_set == b.data_set),
            ("durability", is_of_steps || self.alike == Alike::ButDurability || a.durability == b.durability),
            ("compression", a.compressed == b.compressed),
            ("page cache", a.page_cache == b.page_cache),
            ("limits of level 0", a.level0 == b.level0),
            ("settings", !says_all || a.config_hash == b.config_hash),
            ("what the application does", APPLICATION.iter().all(|name| setting(a, name) == setting(b, name))),
            ("binlog", a.binlog_bytes.is_some() == b.binlog_bytes.is_some()),
        ];
        conditions.into_iter().filter(|(_, is_alike)| !is_alike).map(|(name, _)| name).collect()
    }
}

/// What settings say of an application above the engine.
const APPLICATION: [&str; 2] = ["app_ms", "transactions"];

/// A setting of an experiment, as its results have it.
fn setting<'a>(run: &'a ResultLine, name: &str) -> Option<&'a serde_json::Value> {
    run.config.as_ref()?.get(name)
}

/// Whether two runs are of the same machine, as far as they tell.
fn is_same_machine(a: &ResultLine, b: &ResultLine) -> bool {
    let machine =
        |line: &ResultLine| line.provenance.as_ref().map(|one| (one.cpu.clone(), one.cores, one.memory_bytes));
    machine(a).zip(machine(b)).is_none_or(|(one, other)| one == other)
}
