//! The control: the same comparison of results whose labels are exchanged.
//!
//! A row that holds must fail once two labels are exchanged, or it says nothing about those whose labels they are. They are the two engines that are compared; where an engine is compared
//! with itself, that engine and its rival, whose own figure must then not hold. Where the ratio of our engines is compared with that of their counterparts, the bounds hold a ratio and its
//! inverse, and the same engine has to lead where one of theirs leads by more than such ratios differ from run to run: exchanging LSM tree and B-tree turns ours over, and the row fails. Where neither
//! of theirs does, it may hold all the same, and says nothing of who is ahead. Then the page has beside it that the row fails with one of ours and its counterpart exchanged: it tells at least to which pair an engine belongs.

use super::{Shape, Side};
use crate::report::RunRecord;
use std::fmt;

/// What distinguishes the runs of one side from those of another: the engine, and its step where these are what is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) struct Label {
    /// The engine.
    pub engine: &'static str,
    /// The step.
    pub step: Option<&'static str>,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.engine)?;
        self.step.map_or(Ok(()), |step| write!(f, " {step}"))
    }
}

impl Label {
    /// A label of all of an engine's runs.
    pub(super) const fn of(engine: &'static str) -> Self {
        Self { engine, step: None }
    }

    fn is_of(&self, record: &RunRecord) -> bool {
        record.result.engine == self.engine && self.step.is_none_or(|step| record.result.workload == step)
    }

    fn put_on(&self, record: &mut RunRecord) {
        self.engine.clone_into(&mut record.result.engine);
        if let Some(step) = self.step {
            step.clone_into(&mut record.result.workload);
        }
    }
}

/// What became of a row that holds once labels were exchanged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::report) enum Control {
    /// With these it does not hold, for that is then the ratio.
    Fails((Label, Label), f64),
    /// Of two ratios: with our two engines exchanged it holds as well; with these, one of ours and one of theirs, it does not, for that is then the ratio.
    FailsBesideTheirs((Label, Label), f64),
    /// With none of them it failed: it cannot tell them apart.
    Holds,
    /// There is nothing to exchange labels with.
    NotMeasured,
}

impl Shape {
    /// The labels that are exchanged.
    pub(super) fn exchanged(&self) -> (Label, Label) {
        (self.label(&self.of), self.rival.unwrap_or_else(|| self.label(&self.by)))
    }

    /// Of two ratios, one of the first sides with its counterpart.
    pub(super) fn counterparts(&self) -> Option<(Label, Label)> {
        self.relative_to.as_ref().map(|(counterpart, _)| (self.label(&self.of), self.label(counterpart)))
    }

    fn label(&self, side: &Side) -> Label {
        let step = (self.alike == super::Alike::ButStep).then_some(side.runs.workload);
        Label { engine: side.engine, step }
    }

    /// What becomes of the row.
    pub(super) fn control(&self, records: &[RunRecord]) -> Control {
        let under = |labels| {
            let records = swapped(records, labels);
            let found = self.measure(&records)?;
            Some((self.is_within(&found)?, found.ratio))
        };
        let labels = self.exchanged();
        match under(labels) {
            Some((false, ratio)) => Control::Fails(labels, ratio),
            Some((true, _)) => {
                let beside_theirs = self.counterparts().and_then(|labels| Some((labels, under(labels)?)));
                match beside_theirs {
                    Some((labels, (false, ratio))) => Control::FailsBesideTheirs(labels, ratio),
                    _ => Control::Holds,
                }
            }
            None => Control::NotMeasured,
        }
    }
}

/// The results with two labels exchanged.
pub(super) fn swapped(records: &[RunRecord], (one, other): (Label, Label)) -> Vec<RunRecord> {
    let mut records = records.to_vec();
    for record in &mut records {
        if one.is_of(record) {
            other.put_on(record);
        } else if other.is_of(record) {
            one.put_on(record);
        }
    }
    records
}
