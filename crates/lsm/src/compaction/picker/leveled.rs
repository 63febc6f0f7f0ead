//! The leveled style: each level below 0 is one sorted run with a target size, and what is too much moves down.

use super::inputs::{Draft, Scene, total_bytes};
use crate::compaction::targets::level_scores;
use crate::compaction::{Compaction, max_compaction_bytes};
use crate::event::CompactionReason;
use crate::file_meta::FileMeta;
use std::sync::Arc;

/// Most neighbours that one trivial move below level 0 takes along.
const MAX_MOVED_FILES: usize = 4;

/// The most urgent compaction that does not collide with those that run; `None` if none is due.
pub(super) fn pick(scene: &Scene<'_>) -> Option<Compaction> {
    let mut level0_waits = false;
    for candidate in level_scores(scene.version, scene.options, scene.targets) {
        if candidate.score < 1.0 {
            return None;
        }
        if candidate.level == 0 {
            match pick_level0(scene) {
                None => level0_waits = true,
                picked => return picked,
            }
        } else if !(level0_waits && candidate.level == scene.targets.base_level) {
            // While level 0 waits for the base level, the base level starts nothing of its own: level 0 would starve.
            let picked = pick_below(scene, candidate.level);
            if picked.is_some() {
                return picked;
            }
        }
    }
    None
}

/// Level 0 into the base level, or into a sublevel. One at a time, so that older data never overtakes newer.
pub(super) fn pick_level0(scene: &Scene<'_>) -> Option<Compaction> {
    if scene.running.has_level0() {
        return None;
    }
    match into_base_level(scene) {
        Some(picked) if picked.trivial_move || picked.input_bytes() <= picked.max_compaction_bytes => Some(picked),
        picked => into_sublevel(scene).or(picked),
    }
}

fn into_base_level(scene: &Scene<'_>) -> Option<Compaction> {
    let output_level = scene.targets.base_level;
    let moved = level0_move(scene, output_level);
    if let Some(draft) = scene.with_output_level(moved)
        && let Some(compaction) = scene.compaction(draft, CompactionReason::L0FileCount)
        && compaction.trivial_move
    {
        return Some(compaction);
    }
    let oldest = scene.version.files(0).last()?;
    let mut start = vec![Arc::clone(oldest)];
    if !scene.expand_to_clean_cut(0, &mut start) {
        return None;
    }
    keep_oldest(scene, &mut start);
    let draft = Draft { start_level: 0, output_level, start, output: Vec::new() };
    let draft = scene.with_output_level(draft)?;
    scene.compaction(draft, CompactionReason::L0FileCount)
}

/// Leaves those of `start`, newest first, that are newer than as many as one compaction should take: a level 0 that grew while nothing was compacted goes down in parts. What
/// stays is newer than what goes, so it may stay above it. As many as the trigger says go in any case.
fn keep_oldest(scene: &Scene<'_>, start: &mut Vec<Arc<FileMeta>>) {
    let limit = max_compaction_bytes(scene.options);
    let least = scene.options.level0_file_num_compaction_trigger.max(1);
    let mut bytes = 0_u64;
    let fits = start.iter().rev().take_while(|file| {
        bytes = bytes.saturating_add(file.file_size);
        bytes <= limit
    });
    let count = fits.count().max(least);
    start.drain(..start.len().saturating_sub(count));
}

/// The oldest tables of level 0 into the empty level above the base level, where the merge into the base level has to wait or has large inputs. All data is
/// there or beneath, and none moves up: so what is newer stays above what is older, whatever else runs. The level becomes the base level of the next version, and is
/// drained because the tree does not need it.
fn into_sublevel(scene: &Scene<'_>) -> Option<Compaction> {
    let output_level = scene.targets.base_level - 1;
    let is_empty = |level: usize| scene.version.files(level).is_empty();
    if !scene.options.level0_sublevels
        || !scene.options.level_compaction_dynamic_level_bytes
        || output_level == 0
        || !(1..=output_level).all(is_empty)
    {
        return None;
    }
    let limit = max_compaction_bytes(scene.options);
    let level0 = scene.version.files(0);
    let mut bytes = 0_u64;
    let oldest = level0.iter().rev().take_while(|file| {
        bytes = bytes.saturating_add(file.file_size);
        bytes <= limit
    });
    let count = oldest.count().max(2);
    let start = level0.get(level0.len().checked_sub(count)?..)?.to_vec();
    let draft = Draft { start_level: 0, output_level, start, output: Vec::new() };
    scene.compaction(scene.with_output_level(draft)?, CompactionReason::L0FileCount)
}

/// From the oldest table of level 0 on, those that overlap neither each other nor the output level.
fn level0_move(scene: &Scene<'_>, output_level: usize) -> Draft {
    let mut draft = Draft { start_level: 0, output_level, start: Vec::new(), output: Vec::new() };
    for file in scene.version.files(0).iter().rev() {
        let bounds = (Some(file.smallest.user_key()), Some(file.largest.user_key()));
        draft.start.push(Arc::clone(file));
        let is_free = scene.version.overlapping_files(output_level, bounds.0, bounds.1).is_empty();
        if !is_free || !scene.are_disjoint(&draft.start) {
            draft.start.pop();
            break;
        }
    }
    draft
}

/// The table of `level` that costs least to move down for its size, with all that goes with it.
fn pick_below(scene: &Scene<'_>, level: usize) -> Option<Compaction> {
    let output_level = level + 1;
    for index in by_overlapping_ratio(scene, level) {
        let file = &scene.version.files(level)[index];
        if file.is_being_compacted() {
            continue;
        }
        let mut start = vec![Arc::clone(file)];
        if !scene.expand_to_clean_cut(level, &mut start) {
            continue;
        }
        let draft = Draft { start_level: level, output_level, start, output: Vec::new() };
        let Some(draft) = scene.with_output_level(draft) else { continue };
        let draft = match draft.output.is_empty() {
            true => extend_move(scene, draft, index),
            false => scene.grow_start(draft),
        };
        return scene.compaction(draft, CompactionReason::MaxLevelSize);
    }
    None
}

/// Takes the right neighbours of a table along that can also just move.
fn extend_move(scene: &Scene<'_>, draft: Draft, index: usize) -> Draft {
    let files = scene.version.files(draft.start_level);
    let mut draft = draft;
    let mut next = index + draft.start.len();
    while draft.start.len() < MAX_MOVED_FILES
        && let Some(file) = files.get(next)
    {
        let mut start = draft.start.clone();
        start.push(Arc::clone(file));
        let is_clean = scene.expand_to_clean_cut(draft.start_level, &mut start) && start.len() == draft.start.len() + 1;
        let grown = Draft { start, output: Vec::new(), ..draft };
        match scene.with_output_level(grown) {
            Some(grown) if is_clean && grown.output.is_empty() && !beneath_is_large(scene, &grown) => draft = grown,
            _ => break,
        }
        next += 1;
    }
    draft
}

fn beneath_is_large(scene: &Scene<'_>, draft: &Draft) -> bool {
    let limit = max_compaction_bytes(scene.options);
    draft.start.iter().any(|file| {
        let bounds = (Some(file.smallest.user_key()), Some(file.largest.user_key()));
        let beneath = scene.version.overlapping_files(draft.output_level + 1, bounds.0, bounds.1);
        total_bytes(&beneath).saturating_add(file.file_size) > limit
    })
}

/// Indices of the tables of `level`, by the bytes of the next level that they overlap, relative to their own size; the smallest first.
fn by_overlapping_ratio(scene: &Scene<'_>, level: usize) -> Vec<usize> {
    let (files, below) = (scene.version.files(level), scene.version.files(level + 1));
    let order = scene.order();
    let mut first_below = 0;
    let mut ratios: Vec<(u64, usize)> = Vec::with_capacity(files.len());
    for (index, file) in files.iter().enumerate() {
        let ends_before =
            |other: &&Arc<FileMeta>| order.compare_user(other.largest.user_key(), file.smallest.user_key()).is_lt();
        first_below += below[first_below..].iter().take_while(ends_before).count();
        let begins_within =
            |other: &&Arc<FileMeta>| order.compare_user(other.smallest.user_key(), file.largest.user_key()).is_le();
        let overlap = below[first_below..].iter().take_while(begins_within).map(|other| other.file_size);
        let overlap = overlap.fold(0, u64::saturating_add);
        ratios.push((overlap.saturating_mul(1024) / file.file_size.max(1), index));
    }
    ratios.sort_unstable();
    ratios.into_iter().map(|(_, index)| index).collect()
}
