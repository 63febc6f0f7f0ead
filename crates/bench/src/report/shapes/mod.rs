//! Whether what was measured has the shape of what was published: who wins, and by what factor.
//!
//! Absolute figures belong to a machine; how two engines compare carries over. A [`Shape`] states such a comparison with the bounds within which it
//! holds, and [`judge`] computes from the results whether it does. [`Judged::is_sensitive`] is the control: with the labels of two engines swapped, a
//! row that can tell them apart must not hold any more. Where the bounds hold a ratio and its inverse, as they do where engines are said to be as far apart as their counterparts, swapping the two changes nothing
//! if they are about equal; such a row is controlled with an engine and its counterpart swapped, too.

use super::RunRecord;
use super::conditions::{has_own_level0, is_whole};
use crate::ResultLine;
use crate::load::median;

mod beside_mariadb;
mod catalogue;
mod figures;
mod reasons;
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

impl Side {
    /// Whether a run is one of this side's. Those in which somebody chose the limits of level 0 are of experiments with these.
    fn is_of(&self, run: &ResultLine) -> bool {
        run.engine == self.engine && has_own_level0(run) && (self.holds)(run)
    }
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
    /// What is looked at on both sides, with its name, where a run is too short for the figure of the sides.
    pub finer: Option<(Figure, &'static str)>,
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
#[derive(Debug, Clone)]
pub(super) struct Judged {
    /// The shape.
    pub shape: &'static Shape,
    /// The ratio.
    pub measured: Option<f64>,
    /// The name of the finer figure, where the ratio is of that.
    pub finer: Option<&'static str>,
    /// Why there is none.
    pub reason: Option<String>,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Whether it ceases to hold once labels are swapped, in one of the ways in which they can be. `None` where nothing can be said: it does not hold, or has no bound.
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
        let (measured, finer) = self.ratio(records).unzip();
        let verdict = self.verdict(measured);
        let is_sensitive = (verdict == Verdict::Holds).then(|| {
            self.controls().into_iter().any(|labels| {
                let (swapped, _) = self.ratio(&swapped(records, labels)).unzip();
                self.verdict(swapped) == Verdict::Differs
            })
        });
        let reason = measured.is_none().then(|| self.reason(records));
        Judged { shape: self, measured, finer: finer.flatten(), reason, verdict, is_sensitive }
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

    /// The labels that are swapped, in turn: those of the two engines; where one is compared with itself, those of LSM tree and B-tree; and where their ratio is compared with
    /// another, those of the first and its counterpart.
    fn controls(&self) -> Vec<(&'static str, &'static str)> {
        let sides = match self.of.engine == self.by.engine {
            true => (LSM, BTREE),
            false => (self.of.engine, self.by.engine),
        };
        let counterparts = self.relative_to.map(|(counterpart, _)| (self.of.engine, counterpart.engine));
        std::iter::once(sides).chain(counterparts).collect()
    }

    /// The ratio that is judged, with the name of the finer figure if it is of that.
    fn ratio(&self, records: &[RunRecord]) -> Option<(f64, Option<&'static str>)> {
        if let Some(ratio) = self.ratio_in(records, |side| side) {
            return Some((ratio, None));
        }
        let (figure, name) = self.finer?;
        self.ratio_in(records, |side| Side { figure, ..side }).map(|ratio| (ratio, Some(name)))
    }

    fn ratio_in(&self, records: &[RunRecord], side: impl Fn(Side) -> Side) -> Option<f64> {
        let ratio = self.ratio_of(side(self.of), side(self.by), records)?;
        match self.relative_to {
            Some((of, by)) => self.ratio_of(side(of), side(by), records).map(|theirs| ratio / theirs),
            None => Some(ratio),
        }
    }

    /// The ratio under the conditions for which both sides were measured, all of it; of several such, those of the most data.
    fn ratio_of(&self, of: Side, by: Side, records: &[RunRecord]) -> Option<f64> {
        let runs = |side: Side| {
            let is_of_side = move |record: &&RunRecord| side.is_of(&record.result) && is_whole(&record.result);
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
        self.differences(a, b).is_empty()
    }
}

/// The results with the labels of two engines exchanged.
fn swapped(records: &[RunRecord], (one, other): (&str, &str)) -> Vec<RunRecord> {
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
