//! Whether what was measured has the shape of what was published: who wins, and by what factor.
//!
//! Absolute figures belong to a machine; how two engines compare carries over. A [`Shape`] states such a comparison with the bounds within which it
//! holds, and [`judge`] computes from the results whether it does. [`Judged::is_sensitive`] is the control: with the labels of the two engines swapped, a
//! row that can tell them apart must not hold any more.

use super::RunRecord;
use crate::ResultLine;
use crate::load::median;

mod beside_mariadb;
mod catalogue;
mod figures;
#[cfg(test)]
mod tests;

use beside_mariadb::BESIDE_MARIADB;
use catalogue::SHAPES;
pub(super) use catalogue::{BTREE, LSM};

/// What is looked at of a run.
type Figure = fn(&RunRecord) -> Option<f64>;

/// Runs of one engine under some conditions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    /// The engine.
    pub engine: &'static str,
    /// Which of its runs count.
    pub holds: fn(&ResultLine) -> bool,
    /// What is looked at of them.
    pub figure: Figure,
}

/// What two sides must have in common to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alike {
    /// All conditions.
    All,
    /// All but the competing load of the device.
    ButLoad,
    /// All but how long a write has to be safe.
    ButDurability,
}

/// A comparison, and when it has the published shape: the figure of the first side over that of the second is within the bounds; or that ratio over the ratio of two
/// other sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The experiment's title on the page.
    pub experiment: &'static str,
    /// What is compared, in words.
    pub claim: &'static str,
    /// The same in the published figures: the least and the most of them.
    pub published: fn() -> Option<(f64, f64)>,
    /// Whose figure is divided.
    pub of: Side,
    /// By whose.
    pub by: Side,
    /// Whose ratio, measured in the same way, that ratio is divided by.
    pub relative_to: Option<(Side, Side)>,
    /// What must be equal.
    pub alike: Alike,
    /// The least ratio that has the shape.
    pub at_least: Option<f64>,
    /// The largest.
    pub at_most: Option<f64>,
    /// Why ours may differ.
    pub otherwise: &'static str,
}

/// Whether a shape holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Measured, and within its bounds.
    Holds,
    /// Measured, and not.
    Differs,
    /// Measured; there is no bound.
    Shown,
    /// There is no pair of runs for it.
    NotMeasured,
}

/// A shape with what was measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    /// The shape.
    pub shape: &'static Shape,
    /// The ratio.
    pub measured: Option<f64>,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Whether it ceases to hold once the labels of the two sides are swapped. `None` where nothing can be said: it does not hold, or has no bound.
    pub is_sensitive: Option<bool>,
}

/// Judges every shape by the results.
pub(super) fn judge(records: &[RunRecord]) -> Vec<Judged> {
    all_shapes().map(|shape| shape.judge(records)).collect()
}

/// All shapes, in the order of the page.
fn all_shapes() -> impl Iterator<Item = &'static Shape> {
    SHAPES.iter().chain(BESIDE_MARIADB)
}

impl Shape {
    /// Judges the shape by the results, and by the same results under swapped labels.
    fn judge(&'static self, records: &[RunRecord]) -> Judged {
        let measured = self.ratio(records);
        let verdict = self.verdict(measured);
        let is_sensitive =
            (verdict == Verdict::Holds).then(|| self.verdict(self.ratio(&self.swapped(records))) == Verdict::Differs);
        Judged { shape: self, measured, verdict, is_sensitive }
    }

    fn verdict(&self, measured: Option<f64>) -> Verdict {
        match (measured, self.at_least, self.at_most) {
            (None, _, _) => Verdict::NotMeasured,
            (Some(_), None, None) => Verdict::Shown,
            (Some(ratio), least, most) => {
                let is_within = least.is_none_or(|least| ratio >= least) && most.is_none_or(|most| ratio <= most);
                if is_within { Verdict::Holds } else { Verdict::Differs }
            }
        }
    }

    /// The results with the labels of the two engines exchanged; where one engine is compared with itself, those of LSM tree and B-tree.
    fn swapped(&self, records: &[RunRecord]) -> Vec<RunRecord> {
        let (one, other) = match self.of.engine == self.by.engine {
            true => (LSM, BTREE),
            false => (self.of.engine, self.by.engine),
        };
        let mut records = records.to_vec();
        for RunRecord { result, .. } in &mut records {
            if result.engine == one {
                other.clone_into(&mut result.engine);
            } else if result.engine == other {
                one.clone_into(&mut result.engine);
            }
        }
        records
    }

    /// The ratio that is judged.
    fn ratio(&self, records: &[RunRecord]) -> Option<f64> {
        let ratio = self.ratio_of(self.of, self.by, records)?;
        match self.relative_to {
            Some((of, by)) => self.ratio_of(of, by, records).map(|theirs| ratio / theirs),
            None => Some(ratio),
        }
    }

    /// The ratio under the conditions for which both sides were measured; of several such, those of the most data.
    fn ratio_of(&self, of: Side, by: Side, records: &[RunRecord]) -> Option<f64> {
        let runs = |side: Side| {
            let is_of_side =
                move |record: &&RunRecord| record.result.engine == side.engine && (side.holds)(&record.result);
            records.iter().filter(is_of_side)
        };
        let largest = runs(of)
            .filter(|record| runs(by).any(|other| self.are_alike(&record.result, &other.result)))
            .max_by_key(|record| record.result.data_bytes)?;
        let figure = |side: Side| {
            let alike = runs(side).filter(|record| self.are_alike(&largest.result, &record.result));
            median(&alike.filter_map(side.figure).collect::<Vec<_>>())
        };
        let (of, by) = (figure(of)?, figure(by)?);
        (by > 0.0).then_some(of / by)
    }

    fn are_alike(&self, a: &ResultLine, b: &ResultLine) -> bool {
        (self.alike == Alike::ButLoad || a.device_load == b.device_load)
            && (self.alike == Alike::ButDurability || a.durability == b.durability)
            && a.experiment == b.experiment
            && a.workload == b.workload
            && a.threads == b.threads
            && a.device == b.device
            && a.memory_bytes == b.memory_bytes
            && a.data_bytes == b.data_bytes
            && a.data_set == b.data_set
            && a.compressed == b.compressed
            && a.page_cache == b.page_cache
            && a.binlog_bytes.is_some() == b.binlog_bytes.is_some()
    }
}
