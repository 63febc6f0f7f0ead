//! Published figures beside measured ones.

use super::RunRecord;
use super::conditions::{has_own_level0, is_whole};
use super::published::tables;
use crate::{ResultLine, load};

mod insert;
mod redmine;

/// A published figure and the measured one for the same thing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    /// What is compared.
    pub what: String,
    /// The engine that was measured.
    pub engine: String,
    /// The engine of the published figure.
    pub published_engine: String,
    /// The published figure.
    pub published: f64,
    /// The measured one.
    pub measured: f64,
    /// Of how many runs it is the median.
    pub runs: usize,
    /// The unit of both.
    pub unit: &'static str,
}

impl Comparison {
    /// Measured over published.
    pub(super) fn ratio(&self) -> f64 {
        self.measured / self.published
    }
}

/// Every published figure beside the median of those that were measured under conditions like its own. The published machine is not this one: ratios between engines
/// carry over, absolute figures do not.
pub(super) fn of(records: &[RunRecord]) -> Vec<Comparison> {
    let tables = tables();
    let runs = || records.iter().filter(|record| has_own_level0(&record.result) && is_whole(&record.result));
    let mut found = insert::of(runs(), &tables);
    found.extend(redmine::of(runs().map(|record| &record.result), &tables));
    medians(found)
}

/// One for all of the same thing, where the first of them is.
fn medians(all: Vec<Comparison>) -> Vec<Comparison> {
    let is_same = |one: &Comparison, other: &Comparison| one.what == other.what && one.engine == other.engine;
    let mut found: Vec<(Comparison, Vec<f64>)> = Vec::new();
    for one in all {
        match found.iter_mut().find(|(first, _)| is_same(first, &one)) {
            Some((_, measured)) => measured.push(one.measured),
            None => {
                let measured = vec![one.measured];
                found.push((one, measured));
            }
        }
    }
    let median = |(one, measured): (Comparison, Vec<f64>)| {
        Some(Comparison { measured: load::median(&measured)?, runs: measured.len(), ..one })
    };
    found.into_iter().filter_map(median).collect()
}

fn compare(
    what: String,
    run: &ResultLine,
    published_engine: &str,
    published: Option<f64>,
    measured: Option<f64>,
    unit: &'static str,
) -> Option<Comparison> {
    let (published, measured) = published.zip(measured)?;
    let (engine, published_engine) = (run.engine.clone(), published_engine.to_owned());
    Some(Comparison { what, engine, published_engine, published, measured, runs: 1, unit })
}
