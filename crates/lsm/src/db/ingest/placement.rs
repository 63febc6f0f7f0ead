//! Where a table from outside goes: a pure function.

use crate::compaction::{LevelTargets, Running};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;

/// Where a table goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its level.
    pub(super) level: usize,
    /// Whether a table that is there overlaps it, so that its entries must be told from older ones.
    pub(super) overlaps: bool,
}

/// The lowest level for a table with these user keys, from the first to the last, such that nothing above, and nothing of the level itself, overlaps it: older
/// data lies beneath. Level 0 takes everything. `above` is the level of a table that comes with this one, overlaps it and is older.
pub(super) fn place(
    version: &Version,
    running: &Running,
    options: &ColumnFamilyOptions,
    (smallest, largest): (&[u8], &[u8]),
    above: Option<usize>,
) -> Place {
    let meets = |level: usize| !version.overlapping_files(level, Some(smallest), Some(largest)).is_empty();
    let first_overlap = (0..version.num_levels()).find(|level| meets(*level));
    let overlaps = first_overlap.is_some();
    let first_level = match options.compaction_style {
        CompactionStyle::Leveled => LevelTargets::new(version, options).base_level.max(1),
        // Part of the run that is there, or a run of its own. The levels of a merge that is under way are left to it.
        CompactionStyle::Universal | CompactionStyle::Lazy if !running.is_merging(version) => 1,
        _ => return Place { level: 0, overlaps },
    };
    // A compaction that writes to a level may bring what overlaps.
    let is_free = |level: &usize| !running.writes_to(version.comparator(), *level, smallest, largest);
    let end = first_overlap.unwrap_or(version.num_levels()).min(above.unwrap_or(usize::MAX));
    let level = (first_level..end).rev().find(is_free).unwrap_or(0);
    Place { level, overlaps }
}
