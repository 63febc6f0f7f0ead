//! The control: the same comparison of results whose labels are exchanged.
//!
//! A row that holds must fail once two labels are exchanged, or it says nothing about those whose labels they are. They are the two engines that are compared; where an engine is compared
//! with itself, that engine and its rival, whose own figure must then not hold. Where the ratio of our engines is compared with that of their counterparts, the bounds hold a ratio and its
//! inverse: exchanging LSM tree and B-tree turns ours over, and the row fails if theirs is far enough from 1. Where both pairs are about equal it cannot, and there the row has to fail with
//! one of ours and its counterpart exchanged: it must tell to which pair an engine belongs.

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
    /// With none of them it failed: it cannot tell them apart.
    Holds,
    /// There is nothing to exchange labels with.
    NotMeasured,
}

impl Shape {
    /// The labels that are exchanged, in turn.
    pub(super) fn controls(&self) -> Vec<(Label, Label)> {
        let label = |side: &Side| self.label(side);
        let rival = self.rival.unwrap_or_else(|| label(&self.by));
        let counterparts = self.relative_to.as_ref().map(|(counterpart, _)| (label(&self.of), label(counterpart)));
        std::iter::once((label(&self.of), rival)).chain(counterparts).collect()
    }

    fn label(&self, side: &Side) -> Label {
        let step = (self.alike == super::Alike::ButStep).then_some(side.runs.workload);
        Label { engine: side.engine, step }
    }

    /// What becomes of the row.
    pub(super) fn control(&self, records: &[RunRecord]) -> Control {
        let mut outcome = Control::NotMeasured;
        for labels in self.controls() {
            let records = swapped(records, labels);
            let Some(found) = self.measure(&records) else { continue };
            match self.is_within(&found) {
                Some(false) => return Control::Fails(labels, found.ratio),
                Some(true) => outcome = Control::Holds,
                None => {}
            }
        }
        outcome
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
