//! The workloads and their mixes.

use std::fmt;
use std::str::FromStr;

/// A workload of `ycsb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Puts every record into an empty database.
    Load,
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// 95 % reads of what is newest, 5 % inserts.
    D,
    /// 95 % scans of 1 to 100 records, 5 % inserts.
    E,
    /// Half reads, half reads of a record that is written back changed.
    F,
    /// Waits until no compaction is due.
    Settle,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Workload {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Load, Self::A, Self::B, Self::C, Self::D, Self::E, Self::F, Self::Settle];

    /// The order that the benchmark's authors recommend: D and E insert, and E is given a database without D's records.
    pub const DEFAULT: &'static str = "load,a,b,c,f,d,load,e";

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
            Self::Settle => "settle",
        }
    }

    /// What is done where `percent`, below 100, was drawn.
    pub(super) fn operation(self, percent: u64) -> Operation {
        use Operation::{Insert, Read, ReadModifyWrite, Scan, Update};
        let (often, share, other) = match self {
            Self::Load => (Insert, 100, Insert),
            Self::A => (Read, 50, Update),
            Self::B => (Read, 95, Update),
            Self::C | Self::Settle => (Read, 100, Read),
            Self::D => (Read, 95, Insert),
            Self::E => (Scan, 95, Insert),
            Self::F => (Read, 50, ReadModifyWrite),
        };
        if percent < share { often } else { other }
    }

    /// Whether it is one of A to F, whose operations are drawn.
    pub(super) fn is_a_mix(self) -> bool {
        !matches!(self, Self::Load | Self::Settle)
    }

    /// Whether what it does is mostly or in good part to write.
    pub(super) fn writes(self) -> bool {
        !matches!(self, Self::C | Self::Settle)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|workload| workload.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|workload| workload.name()).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}
