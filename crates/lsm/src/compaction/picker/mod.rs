//! Pickers: which compaction should run next. Pure: they see a version, options and what runs, and touch nothing.

mod covered;
mod expired;
mod fifo;
mod inputs;
mod leveled;
mod manual;
#[cfg(test)]
mod tests;
mod universal;
mod upkeep;

pub(crate) use expired::{droppable, may_still_go};
pub(crate) use inputs::user_key_range;
pub(crate) use manual::{ManualRange, ManualStep};
pub(crate) use upkeep::next_upkeep;

use super::targets::{LevelScore, LevelTargets, estimated_pending_compaction_bytes, is_level0_first, level_scores};
use super::{Compaction, Running};
use crate::event::CompactionReason;
use crate::expiry::Expiring;
use crate::key::SeqNo;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;
use inputs::Scene;
use std::sync::Arc;

/// The most urgent compaction that does not collide with those that run; `None` if none is due.
///
/// `now` is the wall time in Unix seconds.
pub(crate) fn pick(
    version: &Arc<Version>,
    options: &ColumnFamilyOptions,
    now: u64,
    running: &Running,
) -> Option<Compaction> {
    let targets = LevelTargets::new(version, options);
    let scene = Scene { version, options, targets: &targets, running, now };
    match options.compaction_style {
        CompactionStyle::Leveled => leveled::pick(&scene).or_else(|| upkeep::pick(&scene)),
        CompactionStyle::Universal | CompactionStyle::Lazy => universal::pick(&scene).or_else(|| upkeep::pick(&scene)),
        CompactionStyle::Fifo => fifo::pick(&scene),
    }
}

/// The compaction of level 0 that goes before those that run; `None` if there is none, or it collides with them.
///
/// In the leveled style level 0 must be the most urgent of all: if it merely were due, it would be merged again and again while what should make room beneath stands still.
pub(crate) fn pick_level0(
    version: &Arc<Version>,
    options: &ColumnFamilyOptions,
    now: u64,
    running: &Running,
) -> Option<Compaction> {
    if running.has_level0() {
        return None;
    }
    if options.compaction_style != CompactionStyle::Leveled {
        return pick(version, options, now, running).filter(|compaction| compaction.start_level() == 0);
    }
    let targets = LevelTargets::new(version, options);
    let scene = Scene { version, options, targets: &targets, running, now };
    if is_level0_first(version, options, &targets) { leveled::pick_level0(&scene) } else { None }
}

/// The compaction that takes tables out of level 0 whatever its trigger says, for the sake of reads: into the base level in the leveled style, into one run in the universal and the lazy
/// one, whose older runs stay as they are. `None` if there is nothing to gain, or it collides with those that run.
pub(crate) fn pick_drain(
    version: &Arc<Version>,
    options: &ColumnFamilyOptions,
    now: u64,
    running: &Running,
) -> Option<Compaction> {
    if version.files(0).is_empty() {
        return None;
    }
    let targets = LevelTargets::new(version, options);
    let scene = Scene { version, options, targets: &targets, running, now };
    let picked = match options.compaction_style {
        CompactionStyle::Leveled => leveled::pick_level0(&scene),
        CompactionStyle::Universal | CompactionStyle::Lazy => universal::pick_level0(&scene),
        CompactionStyle::Fifo => None,
    };
    picked.map(|compaction| Compaction { reason: CompactionReason::ReadOnly, ..compaction })
}

/// The deletion of tables that range tombstones of others cover as a whole, as far as those are in memory; `None` if there are none. No snapshot among
/// `snapshots`, which ascend, sees anything of them.
pub(crate) fn pick_covered(version: &Arc<Version>, snapshots: impl FnOnce() -> Vec<SeqNo>) -> Option<Compaction> {
    // Of most trees this is all that is asked.
    version.files_with_ranges().next()?;
    covered::pick(version, &snapshots(), &|file| file.reader.get()?.range_fragments())
}

/// The deletion of tables whose rows are all expired for every reader; `None` if there are none that may go.
pub(crate) fn pick_expired_drop(version: &Arc<Version>, expiring: &Expiring) -> Option<Compaction> {
    expired::pick_drop(version, expiring)
}

/// The compaction that removes most expired rows for its work; `None` if none is worth it.
pub(crate) fn pick_expired_rewrite(
    version: &Arc<Version>,
    options: &ColumnFamilyOptions,
    expiring: &Expiring,
    running: &Running,
) -> Option<Compaction> {
    if options.compaction_style == CompactionStyle::Fifo {
        return None;
    }
    let targets = LevelTargets::new(version, options);
    // Ages play no part.
    let scene = Scene { version, options, targets: &targets, running, now: 0 };
    expired::pick_rewrite(&scene, expiring)
}

/// How urgent the family's next compaction is: at or above 1 one may be due. The larger goes first.
pub(crate) fn urgency(version: &Version, options: &ColumnFamilyOptions, now: u64, running: &Running) -> f64 {
    scores(version, options, now, running).first().map_or(0.0, |level| level.score)
}

/// The scores of the levels that have one, the most urgent first.
pub(crate) fn scores(version: &Version, options: &ColumnFamilyOptions, now: u64, running: &Running) -> Vec<LevelScore> {
    let mut scores = match options.compaction_style {
        CompactionStyle::Leveled => level_scores(version, options, &LevelTargets::new(version, options)),
        CompactionStyle::Universal | CompactionStyle::Lazy => {
            vec![LevelScore { level: 0, score: universal::score(version, options, running) }]
        }
        CompactionStyle::Fifo => {
            let score = if fifo::is_due(version, options, now) { 1.0 } else { 0.0 };
            return vec![LevelScore { level: 0, score }];
        }
    };
    if scores.first().is_none_or(|level| level.score < 1.0)
        && let Some(level) = upkeep::due_level(version, options, now)
    {
        scores.insert(0, LevelScore { level, score: 1.0 });
    }
    scores
}

/// What counts against the limits of level 0: its tables; in the universal style the sorted runs, as far as there are too many; in FIFO nothing.
pub(crate) fn level0_load(version: &Version, options: &ColumnFamilyOptions) -> usize {
    match options.compaction_style {
        CompactionStyle::Leveled | CompactionStyle::Lazy => version.files(0).len(),
        CompactionStyle::Universal => {
            let runs = level0_count(version, options);
            let narrowest = options.compaction_options_universal.min_merge_width as usize;
            // As many as never become fewer must not stop anybody.
            let allowed = options.level0_file_num_compaction_trigger.max(narrowest - 1);
            if runs > allowed { runs } else { 0 }
        }
        CompactionStyle::Fifo => 0,
    }
}

/// What will count against the limits of level 0 once there is too much of it: its tables; in the universal style all sorted runs; in FIFO nothing.
pub(crate) fn level0_count(version: &Version, options: &ColumnFamilyOptions) -> usize {
    match options.compaction_style {
        CompactionStyle::Universal => version.files(0).len() + levels_with_data(version),
        _ => level0_load(version, options),
    }
}

/// How many levels below 0 have tables.
pub(crate) fn levels_with_data(version: &Version) -> usize {
    (1..version.num_levels()).filter(|level| !version.files(*level).is_empty()).count()
}

/// Bytes that compactions must rewrite until nothing is due any more, estimated.
pub(crate) fn pending_compaction_bytes(version: &Version, options: &ColumnFamilyOptions) -> u64 {
    match options.compaction_style {
        CompactionStyle::Leveled => {
            estimated_pending_compaction_bytes(version, options, &LevelTargets::new(version, options))
        }
        CompactionStyle::Universal | CompactionStyle::Lazy => universal::pending_bytes(version, options),
        CompactionStyle::Fifo => 0,
    }
}
