//! Upkeep: tables that should be rewritten whatever the sizes of levels and runs say.
//!
//! Five reasons, in this order: many tombstones ([`CompactOnDeletions`](crate::CompactOnDeletions)), a suggestion, data that is older than `ttl`, tables that are older
//! than `periodic_compaction_seconds`, tables for which reads have paid more than merging them takes (`read_triggered_bytes`). A table goes one level down, or in the universal and the lazy style
//! into the next older run; in the last level that has data it is rewritten where it is, which only suggestions and age ask for. A tombstone or an old value thus goes down step by step, and ends at the last.

use super::inputs::{Draft, Scene, total_bytes};
use crate::compaction::Compaction;
use crate::event::CompactionReason;
use crate::file_meta::FileMeta;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;
use std::sync::Arc;

const REASONS: [CompactionReason; 5] = [
    CompactionReason::TombstoneDensity,
    CompactionReason::Suggested,
    CompactionReason::Ttl,
    CompactionReason::Periodic,
    CompactionReason::ReadTriggered,
];

/// The first compaction that does not collide with those that run.
pub(super) fn pick(scene: &Scene<'_>) -> Option<Compaction> {
    if scene.options.compaction_style != CompactionStyle::Leveled && scene.running.is_merging(scene.version) {
        // Its levels are half done, and each of its pieces rewrites what is in it.
        return None;
    }
    REASONS.into_iter().find_map(|reason| {
        due(scene.version, scene.options, scene.now, reason)
            .find_map(|(level, file)| compaction(scene, level, file, reason))
    })
}

/// The level of a table that is due and idle.
pub(super) fn due_level(version: &Version, options: &ColumnFamilyOptions, now: u64) -> Option<usize> {
    let level = |reason| due(version, options, now, reason).map(|(level, _)| level).next();
    REASONS.into_iter().find_map(level)
}

/// When the next table is due by its age, in Unix seconds. Of the FIFO style: when the next is old enough to go.
pub(crate) fn next_upkeep(version: &Version, options: &ColumnFamilyOptions) -> Option<u64> {
    let last = version.last_level_with_data()?;
    let after = |time: u64, age: u64| (time > 0 && age > 0).then(|| time.saturating_add(age));
    let times = version.all_files().filter_map(|(level, file)| match options.compaction_style {
        CompactionStyle::Leveled | CompactionStyle::Universal | CompactionStyle::Lazy => {
            let old = after(file.oldest_ancestor_time, options.ttl).filter(|_| level < last);
            let periodic = after(written(file), options.periodic_compaction_seconds);
            old.into_iter().chain(periodic).min()
        }
        CompactionStyle::Fifo => after(file.file_creation_time, options.ttl),
    });
    times.min()
}

/// Idle tables that one reason is about.
fn due<'a>(
    version: &'a Version,
    options: &'a ColumnFamilyOptions,
    now: u64,
    reason: CompactionReason,
) -> impl Iterator<Item = (usize, &'a Arc<FileMeta>)> {
    let last = version.last_level_with_data().unwrap_or(0);
    let is_older = move |time: u64, age: u64| time > 0 && age > 0 && time.saturating_add(age) <= now;
    version.all_files().filter(move |(level, file)| {
        let is_due = match reason {
            CompactionReason::TombstoneDensity => *level < last && file.needs_compaction(),
            CompactionReason::Suggested => file.is_compaction_suggested(),
            CompactionReason::Ttl => *level < last && is_older(file.oldest_ancestor_time, options.ttl),
            CompactionReason::ReadTriggered => *level < last && have_reads_paid(version, options, *level, file),
            _ => is_older(written(file), options.periodic_compaction_seconds),
        };
        is_due && !file.is_being_compacted()
    })
}

/// Whether reads have paid more for a table than merging it into the next level that has any takes.
fn have_reads_paid(version: &Version, options: &ColumnFamilyOptions, level: usize, file: &FileMeta) -> bool {
    let paid = file.paid_by_reads();
    if options.read_triggered_bytes == 0 || paid < file.file_size {
        return false;
    }
    let (smallest, largest) = (file.smallest.user_key(), file.largest.user_key());
    let next = (level + 1..version.num_levels()).find(|next| !version.files(*next).is_empty());
    let beneath = next.map_or(0, |next| total_bytes(&version.overlapping_files(next, Some(smallest), Some(largest))));
    paid >= file.file_size.saturating_add(beneath)
}

/// When a table was written, as far as that is known.
pub(super) fn written(file: &FileMeta) -> u64 {
    if file.file_creation_time > 0 { file.file_creation_time } else { file.oldest_ancestor_time }
}

/// Where a table of `level` ends that is rewritten; `last` is the last level with data.
pub(super) fn output_level(scene: &Scene<'_>, level: usize, last: usize) -> usize {
    if scene.options.compaction_style != CompactionStyle::Leveled {
        let version = scene.version;
        let next = (level + 1..version.num_levels()).find(|below| !version.files(*below).is_empty());
        // What is in level 0 alone becomes the oldest run.
        return next.unwrap_or(if level == 0 { version.num_levels() - 1 } else { level });
    }
    match level {
        0 => scene.targets.base_level,
        level if level >= last => level,
        level => level + 1,
    }
}

/// What rewrites a table with all that goes with it.
pub(super) fn compaction(
    scene: &Scene<'_>,
    level: usize,
    file: &Arc<FileMeta>,
    reason: CompactionReason,
) -> Option<Compaction> {
    let last = scene.version.last_level_with_data().unwrap_or(0);
    let output_level = output_level(scene, level, last);
    if level == 0 && scene.running.has_level0() || scene.is_level0s_turn(level, output_level) {
        return None;
    }
    let mut start = match level {
        // Nothing that is older may stay above it.
        0 => scene.version.files(0).iter().skip_while(|other| other.number != file.number).cloned().collect(),
        _ => vec![Arc::clone(file)],
    };
    if !scene.expand_to_clean_cut(level, &mut start) {
        return None;
    }
    let draft = Draft { start_level: level, output_level, start, output: Vec::new() };
    let mut compaction = scene.compaction(scene.with_output_level(draft)?, reason)?;
    // A table that just moved would be as it was.
    compaction.trivial_move &= matches!(reason, CompactionReason::Ttl | CompactionReason::ReadTriggered);
    Some(compaction)
}
