//! Whether what was measured has the shape of what was published: who wins, and by what factor.
//!
//! Absolute figures belong to a machine; how two engines compare carries over. A [`Shape`] states such a comparison with the bounds within which it
//! holds, and [`judge`] computes from the results whether it does; where nobody set bounds it says who has to [lead](lead). A row that holds is judged once more with labels exchanged (see [`control`]): one that holds all the
//! same has a verdict of its own. Where the lines of two engines cross is told of by [`crossings`](crossings::crossings).

use super::RunRecord;
use crate::ResultLine;
use std::collections::BTreeSet;

mod beside_mariadb;
mod catalogue;
mod control;
mod crossings;
mod figures;
mod lead;
mod reasons;
mod side;
#[cfg(test)]
mod tests;
mod why;

pub(super) use catalogue::{BTREE, LSM, MYSQL84};
pub(super) use control::{Control, Label};
pub(super) use crossings::{Course, Sameness, crossings};
pub(super) use figures::settled_written_per_row;
pub(super) use lead::{Lead, SPREAD};
pub(super) use side::{Binlog, Side};

/// A ratio so many times a published one, or one part in so many of it, is far from it.
const FAR: f64 = 2.0;

/// What is looked at of a run.
type Figure = fn(&RunRecord) -> Option<f64>;

/// What two sides must have in common to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alike {
    /// All conditions.
    All,
    /// All but the competing load of the device and the number of clients.
    ButLoadAndClients,
    /// All but how long a write has to be safe.
    ButDurability,
    /// All but memory: what is in it beside what is not.
    ButMemory,
    /// All settings, in steps that differ, and in memory and durability as far as these belong to the step.
    ButStep,
}

/// What a comparison is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// How fast something is.
    Speed,
    /// How fast something is once it does not fit in memory any more, beside before.
    Crossing,
    /// How even it is.
    Evenness,
    /// How much there is of something, by its unit; and by how many of the figure one of these is.
    Amount(&'static str, u32),
}

/// A comparison, and when it has the published shape: the figure of the first side over that of the second is within the bounds; or that ratio over the ratio of two
/// other sides.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// The experiment's title on the page.
    pub experiment: &'static str,
    /// What is compared, in words.
    pub claim: String,
    /// The same in the published figures: the least and the most of them. Where there are two other sides, their ratio.
    pub published: Option<(f64, f64)>,
    /// What was published of the first side and of the second, in the unit of [`About::Amount`]; where there are two other sides, of these.
    pub published_amounts: Option<(f64, f64)>,
    /// What it is about.
    pub about: About,
    /// Whose figure is divided.
    pub of: Side,
    /// By whose.
    pub by: Side,
    /// Whose ratio, measured in the same way, that ratio is divided by.
    pub relative_to: Option<(Side, Side)>,
    /// With whom the control exchanges the label of the first side. `None`: with the second.
    pub rival: Option<Label>,
    /// What is looked at on both sides, with its name, where a run is too short for the figure of the sides.
    pub finer: Option<(Figure, &'static str)>,
    /// What must be equal.
    pub alike: Alike,
    /// The least ratio that has the shape.
    pub at_least: Option<f64>,
    /// The largest.
    pub at_most: Option<f64>,
    /// The bounds count on a machine of so many cores and more.
    pub least_cores: Option<u32>,
}

/// Whether a shape holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Measured, and within its bounds; with labels exchanged it is not.
    Holds,
    /// Measured, and within them with labels exchanged as well: it says nothing.
    Insensitive,
    /// Measured, and within them, but there is no run to exchange labels with.
    Uncontrolled,
    /// Measured, and not within them.
    Differs,
    /// Measured; nothing is asked, or nothing that counts on this machine.
    Shown,
    /// There is no pair of runs for it.
    NotMeasured,
}

/// A shape with what was measured.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    /// The shape.
    pub shape: Shape,
    /// The ratio.
    pub measured: Option<f64>,
    /// Where it is one of two ratios, these: the first sides', and the others'.
    pub ratios: Option<(f64, f64)>,
    /// The figures of which these are, those of the first sides and of the others.
    pub figures: Option<[(f64, f64); 2]>,
    /// Of how many pairs of runs its sides are the medians. `None` where there is no ratio.
    pub pairs: Option<usize>,
    /// The commits of the builds that were measured.
    pub builds: Vec<String>,
    /// The name of the finer figure, where the ratio is of that.
    pub finer: Option<&'static str>,
    /// Why there is none.
    pub reason: Option<String>,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Whether it is far from what was published, by [`FAR`].
    pub is_far: bool,
    /// Why it does not, or why it is far from what was published, as far as the results tell.
    pub why: Option<String>,
    /// What became of it under exchanged labels. `None` where it does not hold, or nothing is asked.
    pub control: Option<Control>,
}

/// The ratio of two sides, and of which runs it is.
#[derive(Debug, Clone)]
struct Found<'a> {
    ratio: f64,
    /// The two ratios whose quotient it is, if it is one.
    ratios: Option<(f64, f64)>,
    /// The figures of both sides.
    figures: (f64, f64),
    /// Those of the other ratio.
    other_figures: Option<(f64, f64)>,
    /// Pairs of runs: as many as the side has that has fewer.
    pairs: usize,
    /// The commits of all of them.
    builds: BTreeSet<&'a str>,
    finer: Option<&'static str>,
    of: &'a RunRecord,
    by: &'a RunRecord,
    /// The runs of the second of these two ratios.
    relative_to: Option<[&'a RunRecord; 2]>,
}

/// Judges every shape by the results.
pub(super) fn judge(records: &[RunRecord]) -> Vec<Judged> {
    all_shapes().into_iter().map(|shape| shape.judge(records)).collect()
}

/// All shapes, in the order of the page.
fn all_shapes() -> Vec<Shape> {
    let mut shapes = catalogue::shapes();
    shapes.extend(beside_mariadb::shapes());
    shapes
}

impl Found<'_> {
    /// Whether, of two ratios, the first has the same side ahead as the other, where that is not about 1.
    fn has_their_lead(&self) -> bool {
        self.ratios.is_none_or(|(ours, theirs)| Lead::clear(theirs).is_none_or(|lead| Lead::of(ours) == Some(lead)))
    }
}

impl Shape {
    /// One side over another, everything else equal, without bounds: how fast they are.
    fn between(experiment: &'static str, claim: impl Into<String>, of: Side, by: Side) -> Self {
        Self {
            experiment,
            claim: claim.into(),
            published: None,
            published_amounts: None,
            about: About::Speed,
            of,
            by,
            relative_to: None,
            rival: None,
            finer: None,
            alike: Alike::All,
            at_least: None,
            at_most: None,
            least_cores: None,
        }
    }

    /// Judges the shape by the results, and by the same results under exchanged labels.
    fn judge(self, records: &[RunRecord]) -> Judged {
        let found = self.measure(records);
        let is_within = found.as_ref().and_then(|found| self.is_within(found));
        let control = (is_within == Some(true)).then(|| self.control(records));
        let verdict = match (&found, is_within, control) {
            (None, _, _) => Verdict::NotMeasured,
            (_, None, _) => Verdict::Shown,
            (_, Some(false), _) => Verdict::Differs,
            (_, Some(true), Some(Control::Holds | Control::FailsBesideTheirs(..))) => Verdict::Insensitive,
            (_, Some(true), Some(Control::NotMeasured)) => Verdict::Uncontrolled,
            (_, Some(true), _) => Verdict::Holds,
        };
        let is_told_of = |found: &Found<'_>| {
            verdict == Verdict::Differs || (verdict != Verdict::NotMeasured && self.is_far_from_published(found.ratio))
        };
        let told_of = found.as_ref().filter(|found| is_told_of(found));
        let why =
            told_of.map(|found| why::why(found.of, found.by, found.relative_to.zip(found.ratios), found.ratio, &self));
        let is_far = found.as_ref().is_some_and(|found| self.is_far_from_published(found.ratio));
        let reason = found.is_none().then(|| self.reason(records));
        Judged {
            shape: self,
            measured: found.as_ref().map(|found| found.ratio),
            ratios: found.as_ref().and_then(|found| found.ratios),
            figures: found.as_ref().and_then(|found| Some([found.figures, found.other_figures?])),
            pairs: found.as_ref().map(|found| found.pairs),
            finer: found.as_ref().and_then(|found| found.finer),
            builds: found.into_iter().flat_map(|found| found.builds).map(str::to_owned).collect(),
            reason,
            verdict,
            is_far,
            why,
            control,
        }
    }

    /// Whether a ratio is what is asked: within the bounds, or on the side of who has to lead. `None` where nothing is, or nothing that counts for runs on such machines.
    fn is_within(&self, found: &Found<'_>) -> Option<bool> {
        if !self.has_cores(found.of) || !self.has_cores(found.by) {
            return None;
        }
        let ratio = found.ratio;
        match self.has_bounds() {
            true => Some(self.is_between(ratio) && found.has_their_lead()),
            false => self.lead().map(|lead| Lead::of(ratio) == Some(lead)),
        }
    }

    /// Whether a ratio is within the bounds that there are.
    fn is_between(&self, ratio: f64) -> bool {
        self.at_least.is_none_or(|least| ratio >= least) && self.at_most.is_none_or(|most| ratio <= most)
    }

    /// Whether a ratio is so far from the published ones that the page says why, also where it holds.
    fn is_far_from_published(&self, ratio: f64) -> bool {
        // With two other sides, what is published is their ratio.
        let published = self.published.filter(|_| self.relative_to.is_none());
        published.is_some_and(|(least, most)| ratio > most * FAR || ratio * FAR < least)
    }

    /// Whether the machine of a run has the cores for which the shape is asked.
    fn has_cores(&self, run: &RunRecord) -> bool {
        let cores = run.result.provenance.as_ref().and_then(|provenance| provenance.cores);
        self.least_cores.is_none_or(|least| cores.is_some_and(|cores| cores >= least))
    }

    /// Whether it has one of our engines beside one in a server.
    pub(super) fn is_beside_server(&self) -> bool {
        ["innodb", "myrocks"].contains(&self.by.engine) && self.of.engine != self.by.engine
    }

    fn has_bounds(&self) -> bool {
        self.at_least.is_some() || self.at_most.is_some()
    }

    /// The ratio that is judged, of the finer figure if it has to be.
    fn measure<'a>(&self, records: &'a [RunRecord]) -> Option<Found<'a>> {
        if let Some(found) = self.measure_as(records, |side| side) {
            return Some(found);
        }
        let (figure, name) = self.finer?;
        self.measure_as(records, |side| Side { figure, ..side }).map(|found| Found { finer: Some(name), ..found })
    }

    fn measure_as<'a>(&self, records: &'a [RunRecord], side: impl Fn(Side) -> Side) -> Option<Found<'a>> {
        let mut found = self.ratio_of(side(self.of), side(self.by), records)?;
        match self.relative_to {
            Some((of, by)) => {
                let theirs = self.ratio_of(side(of), side(by), records)?;
                let (ratio, pairs) = (found.ratio / theirs.ratio, found.pairs.min(theirs.pairs));
                let ratios = Some((found.ratio, theirs.ratio));
                let is_alike = self.are_alike(&found.of.result, &theirs.of.result);
                let relative_to = Some([theirs.of, theirs.by]);
                found.builds.extend(theirs.builds);
                let other_figures = Some(theirs.figures);
                Some(Found { ratio, ratios, other_figures, pairs, relative_to, ..found })
                    .filter(|_| theirs.ratio > 0.0 && is_alike)
            }
            None => Some(found),
        }
    }

    /// The ratio under the conditions for which both sides were measured, all of it; of several such, those of the most data.
    fn ratio_of<'a>(&self, of: Side, by: Side, records: &'a [RunRecord]) -> Option<Found<'a>> {
        let runs = |side: Side| {
            let is_of_side = move |record: &&RunRecord| side.is_of(&record.result) && side.counts(&record.result);
            records.iter().filter(is_of_side)
        };
        let largest = runs(of)
            .filter(|record| runs(by).any(|other| self.are_alike(&record.result, &other.result)))
            .max_by_key(|record| record.result.data_bytes)?;
        let typical = |side: Side| {
            let alike = runs(side).filter(|record| self.are_alike(&largest.result, &record.result));
            figures::middle(alike, side.figure)
        };
        let (of, by) = (typical(of)?, typical(by)?);
        let pairs = of.runs.min(by.runs);
        let ratio = of.median / by.median;
        let builds = of.builds.union(&by.builds).copied().collect();
        let found = Found {
            ratio,
            ratios: None,
            figures: (of.median, by.median),
            other_figures: None,
            pairs,
            builds,
            finer: None,
            of: of.run,
            by: by.run,
            relative_to: None,
        };
        (by.median > 0.0).then_some(found)
    }

    fn are_alike(&self, a: &ResultLine, b: &ResultLine) -> bool {
        self.differences(a, b).is_empty()
    }
}
