//! How large experiments are.

use std::fmt;
use std::str::FromStr;

/// How large the experiments of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Minutes: shows that everything runs, and the order of things.
    Quick,
    /// Some hours: data several times as large as memory.
    Hour,
    /// A night: twice the data and more, all clients, data sets and loads that were published.
    Night,
}

impl Scale {
    /// The one of three values that is meant.
    pub(crate) fn of<T>(self, quick: T, hour: T, night: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Hour => hour,
            Self::Night => night,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of("quick", "hour", "night"))
    }
}

impl FromStr for Scale {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "quick" => Ok(Self::Quick),
            "hour" => Ok(Self::Hour),
            "night" => Ok(Self::Night),
            _ => Err("expected quick, hour or night"),
        }
    }
}
