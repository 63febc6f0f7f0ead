//! Who leads: what a comparison asks that has no bounds of its own.

use super::{Alike, Shape};
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

impl Lead {
    /// Who leads by a ratio; nobody, where it is 1.
    pub(super) fn of(ratio: f64) -> Option<Self> {
        if ratio > 1.0 {
            return Some(Self::First);
        }
        (ratio < 1.0).then_some(Self::Second)
    }

    /// Who leads by more than next to nothing.
    pub(super) fn clear(ratio: f64) -> Option<Self> {
        if ratio >= ABOUT_EQUAL {
            return Some(Self::First);
        }
        (ratio <= 1.0 / ABOUT_EQUAL).then_some(Self::Second)
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
        let compares_engines = self.of.engine != self.by.engine && self.alike != Alike::ButStep;
        let (least, most) = self.published.filter(|_| compares_engines && !self.has_bounds())?;
        Lead::clear(least).filter(|lead| Lead::clear(most) == Some(*lead))
    }
}
