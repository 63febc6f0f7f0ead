//! Where the lines of two engines cross: from which number of clients on, or with how much memory, the other one is ahead. Exchanging their labels turns over who leads first, so that no line needs a control.

use super::catalogue::lines;
use super::{Lead, Shape};
use crate::report::RunRecord;

/// Comparisons of the same two engines along one axis.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// The experiment's title on the page.
    pub(super) experiment: &'static str,
    /// What is compared, along what.
    pub(super) claim: String,
    /// The places on the axis, and what is compared there.
    pub(super) points: Vec<(String, Shape)>,
}

/// Who leads along a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::report) struct Course {
    /// Who leads at the first place.
    pub(in crate::report) first: Lead,
    /// Between which places the lead goes over to the other one.
    pub(in crate::report) turns: Vec<(String, String)>,
    /// The first and the last place.
    pub(in crate::report) ends: (String, String),
}

/// Whether the measured lines run as the published ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Sameness {
    /// The same engine leads first, and they cross between the same places, or nowhere.
    Same,
    /// The same engine leads first; they cross elsewhere.
    Elsewhere,
    /// The other engine leads first.
    OtherLead,
    /// It does not count on this machine: it has not the cores.
    Shown,
}

/// What was published of a line beside what was measured, at the places at which both are known.
#[derive(Debug, Clone)]
pub(in crate::report) struct Crossings {
    /// The experiment's title on the page.
    pub(in crate::report) experiment: &'static str,
    /// What is compared, along what.
    pub(in crate::report) claim: String,
    /// What was published.
    pub(in crate::report) published: Course,
    /// What was measured.
    pub(in crate::report) measured: Course,
    /// How they compare.
    pub(in crate::report) sameness: Sameness,
}

/// All lines of which there are two places or more.
pub(in crate::report) fn crossings(records: &[RunRecord]) -> Vec<Crossings> {
    lines().iter().filter_map(|line| line.judge(records)).collect()
}

impl Line {
    fn judge(&self, records: &[RunRecord]) -> Option<Crossings> {
        let (mut published, mut measured, mut has_cores) = (Vec::new(), Vec::new(), true);
        for (place, shape) in &self.points {
            let Some(((least, most), found)) = shape.published.zip(shape.measure(records)) else { continue };
            if Lead::of(least) != Lead::of(most) {
                continue;
            }
            published.push((place.clone(), least));
            measured.push((place.clone(), found.ratio));
            has_cores &= shape.has_cores(found.of) && shape.has_cores(found.by);
        }
        let (published, measured) = (course(&published)?, course(&measured)?);
        let sameness = match (published.first == measured.first, published.turns == measured.turns) {
            _ if !has_cores => Sameness::Shown,
            (true, true) => Sameness::Same,
            (true, false) => Sameness::Elsewhere,
            (false, _) => Sameness::OtherLead,
        };
        let (experiment, claim) = (self.experiment, self.claim.clone());
        Some(Crossings { experiment, claim, published, measured, sameness })
    }
}

/// Who leads at each place, and where that changes. `None` where there are fewer than two places at which somebody does.
pub(super) fn course(ratios: &[(String, f64)]) -> Option<Course> {
    let leads: Vec<_> = ratios.iter().filter_map(|(place, ratio)| Some((place, Lead::of(*ratio)?))).collect();
    let [(start, first), .., (end, _)] = leads.as_slice() else { return None };
    let turns = leads.windows(2).filter_map(|pair| match pair {
        [(before, one), (after, other)] if one != other => Some(((*before).clone(), (*after).clone())),
        _ => None,
    });
    Some(Course { first: *first, turns: turns.collect(), ends: ((*start).clone(), (*end).clone()) })
}
