//! The workloads and what a transaction of each has.

use std::fmt;
use std::str::FromStr;

/// A workload of `sysbench`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Inserts every row, a hundred a commit, and adds the index to each table then.
    Load,
    /// One row by its key.
    PointSelect,
    /// Ten rows by key and four ranges.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
    /// Two updates, a delete and an insert.
    WriteOnly,
    /// An update of the indexed column.
    UpdateIndex,
    /// An update of another column.
    UpdateNonIndex,
    /// Waits until no compaction is due.
    Settle,
}

/// Rows that a transaction asks for by their keys one by one.
pub(super) const POINTS: u32 = 10;

/// Ranges that it reads.
pub(super) const RANGES: u32 = 4;

impl Workload {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Load,
        Self::PointSelect,
        Self::ReadOnly,
        Self::ReadWrite,
        Self::WriteOnly,
        Self::UpdateIndex,
        Self::UpdateNonIndex,
        Self::Settle,
    ];

    /// What is run unless something else is asked for.
    pub const DEFAULT: &'static str = "load,settle,read_only,read_write,write_only,point_select,update_index";

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::PointSelect => "point_select",
            Self::ReadOnly => "read_only",
            Self::ReadWrite => "read_write",
            Self::WriteOnly => "write_only",
            Self::UpdateIndex => "update_index",
            Self::UpdateNonIndex => "update_non_index",
            Self::Settle => "settle",
        }
    }

    /// Statements of a transaction, as sysbench counts queries: those that begin and end it count where there are several.
    pub fn queries(self) -> u32 {
        match self {
            Self::Load | Self::PointSelect | Self::UpdateIndex | Self::UpdateNonIndex => 1,
            Self::ReadOnly => POINTS + RANGES + 2,
            Self::ReadWrite => POINTS + RANGES + 4 + 2,
            Self::WriteOnly => 4 + 2,
            Self::Settle => 0,
        }
    }

    /// Whether it runs with each number of clients.
    pub(crate) fn has_clients(self) -> bool {
        !matches!(self, Self::Load | Self::Settle)
    }

    pub(super) fn reads(self) -> bool {
        matches!(self, Self::ReadOnly | Self::ReadWrite)
    }

    pub(super) fn writes(self) -> bool {
        !matches!(self, Self::PointSelect | Self::ReadOnly | Self::Settle)
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
