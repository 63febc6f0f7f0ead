//! The steps of the experiment.

use siltstone_base::Error;
use std::fmt;
use std::str::FromStr;

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// `l`: loads all rows with the indexes in place.
    Load,
    /// `l.i0`: loads all rows into tables without secondary indexes.
    LoadPlain,
    /// `l.x`: adds the secondary indexes.
    AddIndexes,
    /// `settle`: has what is in memory written to its place, and waits until no compaction is due.
    Settle,
    /// `pause`: the same before queries, which shall not pay for what earlier steps left to be done. Results tell it from the one after the load by its name.
    Pause,
    /// `l.i1`: inserts in commits of 50 rows, and deletes as many of the oldest after each.
    ManyAtOnce,
    /// `l.i2`: the same in commits of 5 rows.
    FewAtOnce,
    /// `u`: gives rows that are there other values in all indexed columns.
    Updates,
    /// `qrN`: reads ranges of the indexes beside N inserts and deletes a second for each client.
    Ranges(u32),
    /// `qpN`: reads rows by their primary keys beside N inserts and deletes a second for each client.
    Points(u32),
}

impl Step {
    /// The steps that are run unless others are asked for.
    pub const DEFAULT: &'static str = "l";

    /// Whether clients have nothing to do in it.
    pub(super) fn is_rest(self) -> bool {
        matches!(self, Self::Settle | Self::Pause)
    }

    /// Rows of one commit, where the step says how many.
    pub(super) fn rows_per_commit(self) -> Option<usize> {
        match self {
            Self::Load | Self::LoadPlain | Self::AddIndexes | Self::Settle | Self::Pause | Self::Updates => None,
            Self::FewAtOnce => Some(5),
            Self::ManyAtOnce | Self::Ranges(_) | Self::Points(_) => Some(50),
        }
    }

    /// Rows of all clients together that the step inserts, of so many that both steps of that kind insert.
    pub(super) fn rows(self, more_rows: u64) -> u64 {
        match self {
            Self::ManyAtOnce => more_rows / 5 * 4,
            Self::FewAtOnce => more_rows - more_rows / 5 * 4,
            Self::Load | Self::LoadPlain | Self::AddIndexes | Self::Settle | Self::Pause | Self::Updates => 0,
            Self::Ranges(_) | Self::Points(_) => 0,
        }
    }
}

/// Refuses steps in an order that makes no sense.
pub(super) fn check_order(steps: &[Step]) -> siltstone_base::Result<()> {
    let refuse = |step: &Step, why: &str| Err(Error::invalid_argument(format!("--steps: {step} {why}")));
    let mut has_indexes = match steps.first() {
        Some(Step::Load) => true,
        Some(Step::LoadPlain) => false,
        Some(step) => return refuse(step, "comes first, and there are no rows; l or l.i0 loads them"),
        None => return Err(Error::invalid_argument("--steps is empty")),
    };
    for step in steps.iter().skip(1) {
        match step {
            Step::LoadPlain => return refuse(step, "is not the first step, and the tables are there"),
            Step::AddIndexes if has_indexes => return refuse(step, "adds indexes that the tables have"),
            Step::AddIndexes => has_indexes = true,
            Step::Settle | Step::Pause => {}
            _ if !has_indexes => return refuse(step, "needs the indexes that l.x adds to what l.i0 loaded"),
            _ => {}
        }
    }
    Ok(())
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load => f.write_str("l"),
            Self::LoadPlain => f.write_str("l.i0"),
            Self::AddIndexes => f.write_str("l.x"),
            Self::Settle => f.write_str("settle"),
            Self::Pause => f.write_str("pause"),
            Self::ManyAtOnce => f.write_str("l.i1"),
            Self::FewAtOnce => f.write_str("l.i2"),
            Self::Updates => f.write_str("u"),
            Self::Ranges(rate) => write!(f, "qr{rate}"),
            Self::Points(rate) => write!(f, "qp{rate}"),
        }
    }
}

impl FromStr for Step {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "expected l, l.i0, l.x, settle, l.i1, l.i2, pause, u, or qrN or qpN with 1 to 1000000 inserts a second";
        let rate = |digits: &str| digits.parse().ok().filter(|rate| (1..=1_000_000).contains(rate)).ok_or(EXPECTED);
        match text {
            "l" => Ok(Self::Load),
            "l.i0" => Ok(Self::LoadPlain),
            "l.x" => Ok(Self::AddIndexes),
            "settle" => Ok(Self::Settle),
            "pause" => Ok(Self::Pause),
            "l.i1" => Ok(Self::ManyAtOnce),
            "l.i2" => Ok(Self::FewAtOnce),
            "u" => Ok(Self::Updates),
            _ => match (text.strip_prefix("qr"), text.strip_prefix("qp")) {
                (Some(digits), _) => Ok(Self::Ranges(rate(digits)?)),
                (_, Some(digits)) => Ok(Self::Points(rate(digits)?)),
                _ => Err(EXPECTED),
            },
        }
    }
}
