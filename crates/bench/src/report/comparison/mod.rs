//! Published figures beside measured ones.

use super::RunRecord;
use super::conditions::{has_own_level0, is_whole};
use super::published::tables;
use crate::ResultLine;

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
    /// The unit of both.
    pub unit: &'static str,
}

impl Comparison {
    /// Measured over published.
    pub(super) fn ratio(&self) -> f64 {
        self.measured / self.published
    }
}

/// Every measured figure that has a published counterpart under conditions like its own. The published machine is not this one: ratios between engines
/// carry over, absolute figures do not.
pub(super) fn of(records: &[RunRecord]) -> Vec<Comparison> {
    let tables = tables();
    let runs = || records.iter().map(|record| &record.result).filter(|run| has_own_level0(run) && is_whole(run));
    let mut found = insert::of(runs(), &tables);
    found.extend(redmine::of(runs(), &tables));
    found
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
    Some(Comparison { what, engine, published_engine, published, measured, unit })
}
