//! The gear of level 0: how fast writers may be while it is compacted.

use super::law::{Gauges, Pace};
use crate::event::StallCause;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;

/// The gear of level 0 believes so much of the rate of compactions: where one turns out slower, writers would find the end of the room before its end, and be cut down to next to nothing there.
const LEVEL0_TRUST: f64 = 0.9;

/// A compaction of level 0 that has read everything is expected to take so many seconds more at most: its last table is synced, and it is entered in the manifest.
const LEVEL0_END_SECONDS: f64 = 0.1;

/// So much of the files that may come during a compaction of level 0, in parts of half of the stop, is kept back beyond what its course leaves.
const LEVEL0_UNUSED: f64 = 0.25;

/// A compaction of level 0 that runs or is due; all zero: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Level0Job {
    /// Files of level 0 that it takes.
    pub(crate) files: f64,
    /// Bytes that it must still read.
    pub(crate) left_bytes: f64,
    /// Bytes that it reads in all.
    pub(crate) total_bytes: f64,
}

/// The gear of level 0: the files that a compaction takes are there until it ends, however far it is. Until then no more may come than leave one short of
/// where writers are stopped, and no more than half of that: otherwise the next compaction, which takes them all, would leave less room than it needs.
///
/// While the level below grows, each compaction reads more than the one before, and admits less. So that writers do not meet that as a step, the rate goes over to that of the next one as this one
/// gets on. Only what is far more than that course leaves unused is given back: a family that hardly grows holds nobody.
pub(super) fn level0_gear(gauges: &Gauges, compaction_rate: Option<f64>, least: f64) -> Pace {
    let Some(measured) = compaction_rate.filter(|_| gauges.l0_taken_files > 0.0) else {
        return Pace::FREE;
    };
    let in_memory = gauges.unfiled_bytes / gauges.buffer_bytes.max(1.0);
    let room = gauges.l0_stop - 1.0 - gauges.l0_all_files;
    let half = gauges.l0_stop / 2.0;
    // Where a compaction takes a part of the files only, more than half may have been left behind before any came.
    let even = (half - (gauges.l0_all_files - gauges.l0_taken_files)).max(room / 2.0);
    let may_come = (room.min(even) - in_memory).max(0.0) * gauges.buffer_bytes;
    let compaction_rate = measured * LEVEL0_TRUST;
    // One that has read everything is not over yet.
    let left = gauges.l0_left_bytes.max(measured * LEVEL0_END_SECONDS);
    let now = compaction_rate * may_come / left;
    let may_come_next = (gauges.l0_stop - 1.0 - next_files(half, gauges.l0_trigger)).min(half) * gauges.buffer_bytes;
    let rate = match gauges.l0_next_bytes > 0.0 && may_come_next > 0.0 {
        true => {
            let share_left = (left / gauges.l0_total_bytes.max(1.0)).min(1.0);
            let next = compaction_rate * may_come_next / gauges.l0_next_bytes;
            let unused = (may_come - half * gauges.buffer_bytes * (share_left + LEVEL0_UNUSED)).max(0.0);
            now.min(now * share_left + next * (1.0 - share_left) + compaction_rate * unused / left)
        }
        false => now,
    };
    Pace { rate: rate.max(least), cause: StallCause::L0FileCount }
}

/// Files that a compaction of level 0 will find, if those that may come while another one runs have come.
fn next_files(half: f64, trigger: f64) -> f64 {
    half.max(trigger)
}

/// Bytes that the compaction of level 0 behind one of `total_bytes` reads, if the latter leaves all that it reads, and as many files come meanwhile as may. Only leveled ones read the level below
/// anew each time; zero with other styles, and where no compaction runs or is due.
pub(crate) fn level0_next(version: &Version, options: &ColumnFamilyOptions, total_bytes: f64) -> f64 {
    let files = version.files(0).len();
    if total_bytes == 0.0 || files == 0 || options.compaction_style != CompactionStyle::Leveled {
        return 0.0;
    }
    // A file that was brought may be of any size; those that come are memtables.
    let file_bytes = (version.level_bytes(0) as f64 / files as f64).min(options.write_buffer_size as f64);
    let trigger = options.level0_file_num_compaction_trigger as f64;
    total_bytes + next_files(options.level0_stop_writes_trigger as f64 / 2.0, trigger) * file_bytes
}

/// A compaction of level 0: the `running` one, if there is one. One that is due but could not start yet, since what it merges with is being compacted, counts as if it began now, so that the pace
/// does not change when it does: writers would go ahead for seconds, and wait for what they did all through it.
pub(crate) fn level0_job(version: &Version, options: &ColumnFamilyOptions, running: Level0Job) -> Level0Job {
    let files = version.files(0).len();
    let is_due = files >= options.level0_file_num_compaction_trigger.max(1);
    let is_leveled = options.compaction_style == CompactionStyle::Leveled && !options.disable_auto_compactions;
    if running.files > 0.0 || !is_due || !is_leveled {
        return running;
    }
    let below = (1..version.num_levels()).map(|level| version.level_bytes(level)).find(|bytes| *bytes > 0);
    let bytes = (version.level_bytes(0) + below.unwrap_or(0)) as f64;
    Level0Job { files: files as f64, left_bytes: bytes, total_bytes: bytes }
}
