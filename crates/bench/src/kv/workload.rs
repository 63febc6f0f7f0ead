//! The workloads and what distinguishes them.

use std::fmt;
use std::str::FromStr;

/// A workload of `kv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Puts keys in order into an empty database.
    FillSeq,
    /// Puts random keys into an empty database.
    FillRandom,
    /// Puts random keys.
    Overwrite,
    /// Puts random keys into an empty database, each safe on the device before the next.
    FillSync,
    /// Gets random keys.
    ReadRandom,
    /// Gets keys that lie among those there are and do not exist.
    ReadMissing,
    /// Seeks to a random key and steps 10 times.
    SeekRandom,
    /// Reads keys and values in order.
    ReadSeq,
    /// Gets random keys while one more thread puts random keys.
    ReadWhileWriting,
    /// Waits until no compaction is due.
    Settle,
    /// Gets random keys, several in one call.
    MultiReadRandom,
}

/// Keys of one call of `multireadrandom`.
pub(super) const KEYS_A_CALL: usize = 32;

impl Workload {
    /// All of them, in an order in which each finds what it needs.
    pub const ALL: &'static [Self] = &[
        Self::FillSeq,
        Self::FillRandom,
        Self::Overwrite,
        Self::ReadRandom,
        Self::MultiReadRandom,
        Self::ReadMissing,
        Self::SeekRandom,
        Self::ReadSeq,
        Self::ReadWhileWriting,
        Self::FillSync,
        Self::Settle,
    ];

    /// What is run unless something else is asked for.
    pub const DEFAULT: &'static str = "fillseq,fillrandom,overwrite,readrandom,multireadrandom,readmissing,seekrandom,readseq,readwhilewriting,fillsync";

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::FillSeq => "fillseq",
            Self::FillRandom => "fillrandom",
            Self::Overwrite => "overwrite",
            Self::FillSync => "fillsync",
            Self::ReadRandom => "readrandom",
            Self::ReadMissing => "readmissing",
            Self::SeekRandom => "seekrandom",
            Self::ReadSeq => "readseq",
            Self::ReadWhileWriting => "readwhilewriting",
            Self::Settle => "settle",
            Self::MultiReadRandom => "multireadrandom",
        }
    }

    /// Whether it starts with an empty database.
    pub(crate) fn starts_empty(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom | Self::FillSync)
    }

    /// Whether its own operations are writes.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom | Self::Overwrite | Self::FillSync)
    }

    /// Whether operations arrive one by one, so that it can run open loop.
    pub(crate) fn is_of_points(self) -> bool {
        !matches!(self, Self::ReadSeq | Self::Settle | Self::MultiReadRandom)
    }

    /// Operations of all threads together for `num` keys.
    pub(crate) fn ops(self, num: u64, threads: usize) -> u64 {
        match self {
            Self::FillSeq | Self::FillRandom | Self::Overwrite | Self::ReadSeq => num,
            Self::FillSync => num.min(2_000 * threads as u64),
            Self::ReadRandom
            | Self::MultiReadRandom
            | Self::ReadMissing
            | Self::SeekRandom
            | Self::ReadWhileWriting => num.div_ceil(2),
            Self::Settle => 0,
        }
    }

    /// Operations between two looks at the clock.
    pub(crate) fn group(self, batch: usize) -> u64 {
        match self {
            Self::ReadMissing => 16,
            Self::ReadSeq => 64,
            Self::MultiReadRandom => KEYS_A_CALL as u64,
            _ if self.writes() => batch as u64,
            _ => 1,
        }
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
