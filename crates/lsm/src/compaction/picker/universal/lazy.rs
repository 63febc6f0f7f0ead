//! Lazy leveling: one leveled run at the bottom, tiers of runs above it.
//!
//! 1. What is above the bottom run goes into it when it is the bottom's bytes divided by `max_bytes_for_level_multiplier`, but no less than a tier of flushes. So space is bounded as
//!    in the leveled style, and the bottom, which has nearly all bytes, is written as often.
//! 2. Above, runs are tiers by size: each tier's runs are `level0_file_num_compaction_trigger` times as large as those of the tier before, and as many of them become one of the next. So what
//!    is above is written once a tier.
//!
//! Source: Dayan and Idreos, "Dostoevsky" (2018).

use super::runs::{Choice, SortedRun};
use crate::event::CompactionReason;
use crate::options::ColumnFamilyOptions;
use std::ops::Range;

/// Which runs to merge next, the most urgent first. `runs` are newest first; if `has_oldest` is false, there are older ones that are not to be touched.
pub(super) fn choices(runs: &[SortedRun], has_oldest: bool, options: &ColumnFamilyOptions) -> Vec<Choice> {
    let mut choices = Vec::new();
    if has_oldest && let Some(runs) = into_bottom(runs, options) {
        choices.push(Choice { runs, reason: CompactionReason::SpaceAmplification });
    }
    let above = if has_oldest { runs.len().saturating_sub(1) } else { runs.len() };
    let full = full_tiers(&runs[..above], options);
    choices.extend(full.into_iter().map(|runs| Choice { runs, reason: CompactionReason::SizeRatio }));
    choices
}

/// How many runs make one of the next tier.
fn width(options: &ColumnFamilyOptions) -> usize {
    options.level0_file_num_compaction_trigger.max(2)
}

/// The bottom run and those above it, if they are too large for it. What is newer than a busy run stays out, and waits for it.
fn into_bottom(runs: &[SortedRun], options: &ColumnFamilyOptions) -> Option<Range<usize>> {
    let first = runs.iter().rposition(|run| run.is_busy).map_or(0, |busy| busy + 1);
    let (bottom, above) = runs[first..].split_last()?;
    let bytes = above.iter().map(|run| run.bytes).fold(0, u64::saturating_add);
    let few = (options.write_buffer_size as u64).saturating_mul(width(options) as u64) / 2;
    let is_full = bytes.saturating_mul(options.max_bytes_for_level_multiplier) >= bottom.bytes;
    // Flushes are smaller than their memtables, but their number counts as well.
    let is_enough = bytes >= few || above.len() >= width(options);
    (!above.is_empty() && is_full && is_enough).then_some(first..runs.len())
}

/// Neighbours that are a full tier, the newest first.
fn full_tiers(runs: &[SortedRun], options: &ColumnFamilyOptions) -> Vec<Range<usize>> {
    let width = width(options);
    let mut full = Vec::new();
    let mut first = 0;
    let mut tier = 0;
    while first < runs.len() {
        // A small run between large ones counts as one of them: it must not keep them apart.
        tier = tier.max(tier_of(runs[first].bytes, options));
        let is_same = |run: &&SortedRun| tier_of(run.bytes, options) <= tier;
        let count = runs[first..].iter().take_while(is_same).count();
        let idle = runs[first..first + count].iter().rev().take_while(|run| !run.is_busy).count();
        let end = first + count;
        if idle >= width {
            full.push(end - idle..end);
        }
        first = end;
    }
    full
}

/// The tier of a run of `bytes`: 0 for a flush.
fn tier_of(bytes: u64, options: &ColumnFamilyOptions) -> u32 {
    let flush = (options.write_buffer_size as u64).max(2);
    // A flush may have less than its memtable, and merged runs less than their inputs: half of it counts in full.
    let flushes = (bytes / (flush / 2)).max(1);
    flushes.ilog(width(options).max(2) as u64)
}
