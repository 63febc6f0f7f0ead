//! Who leads: what a comparison asks that has no bounds of its own.

use super::Shape;
use std::fmt;

/// Which of two sides has more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Lead {
    /// The first: ratios are above 1.
    First,
    /// The second: they are below.
    Second,
}

/// Published ratios that are as near to 1 as this factor say of nobody that he leads.
const ABOUT_EQUAL: f64 = 1.05;

/// By so much ratios of MyRocks and InnoDB differed between runs of the same script.
pub(in crate::report) const SPREAD: f64 = 1.2;

impl Lead {
    /// Who leads by a ratio; nobody, where it is 1.
    pub(super) fn of(ratio: f64) -> Option<Self> {
        if ratio > 1.0 {
            return Some(Self::First);
        }
        (ratio < 1.0).then_some(Self::Second)
    }

    /// Who leads by a published ratio, by more than next to nothing.
    fn published(ratio: f64) -> Option<Self> {
        Self::beyond(ratio, ABOUT_EQUAL)
    }

    /// Who leads by a measured ratio, by more than such ratios differ from one run to the next.
    pub(super) fn clear(ratio: f64) -> Option<Self> {
        Self::beyond(ratio, SPREAD)
    }

    fn beyond(ratio: f64, factor: f64) -> Option<Self> {
        if ratio >= factor {
            return Some(Self::First);
        }
        (ratio <= 1.0 / factor).then_some(Self::Second)
    }
}

impl fmt::Display for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "above 1",
            Self::Second => "below 1",
        })
    }
}

impl Shape {
    /// Who has to lead: the side that does in all that was published, where that is all that is asked. An engine does not lead beside itself.
    pub(in crate::report) fn lead(&self) -> Option<Lead> {
        let compares_engines = self.of.engine != self.by.engine;
        let (least, most) = self.published.filter(|_| compares_engines && !self.has_bounds())?;
        Lead::published(least).filter(|lead| Lead::published(most) == Some(*lead))
    }
}
