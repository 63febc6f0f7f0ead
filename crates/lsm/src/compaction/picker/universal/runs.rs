//! The sorted runs of a tree, and which of them should be merged: decided by their sizes alone.

use crate::event::CompactionReason;
use crate::options::{ColumnFamilyOptions, UniversalStopStyle};
use crate::version::Version;
use std::ops::Range;

/// A sorted run: a table of level 0, or a level with tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SortedRun {
    pub(super) level: usize,
    pub(super) bytes: u64,
    /// Whether a running compaction reads some of it.
    pub(super) is_busy: bool,
}

/// All runs, newest first.
pub(super) fn sorted_runs(version: &Version) -> Vec<SortedRun> {
    let level0 = version.files(0).iter();
    let mut runs: Vec<SortedRun> =
        level0.map(|file| SortedRun { level: 0, bytes: file.file_size, is_busy: file.is_being_compacted() }).collect();
    for level in 1..version.num_levels() {
        let files = version.files(level);
        if !files.is_empty() {
            let is_busy = files.iter().any(|file| file.is_being_compacted());
            runs.push(SortedRun { level, bytes: version.level_bytes(level), is_busy });
        }
    }
    runs
}

/// Neighbouring runs that should become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// Their places among all runs.
    pub(super) runs: Range<usize>,
    pub(super) reason: CompactionReason,
}

/// Which runs to merge next, the most urgent first: where one cannot run, because something that runs is in its way, the next may. `runs` are newest first; if
/// `has_oldest` is false, there are older ones that are not to be touched.
///
/// The rules and their order are RocksDB's: space amplification, then similar sizes, then the mere number of runs.
pub(super) fn choices(runs: &[SortedRun], has_oldest: bool, options: &ColumnFamilyOptions) -> Vec<Choice> {
    let trigger = options.level0_file_num_compaction_trigger;
    let mut choices = Vec::new();
    if runs.len() < trigger || runs.len() < 2 {
        return choices;
    }
    if has_oldest && let Some(runs) = above_space_limit(runs, options) {
        choices.push(Choice { runs, reason: CompactionReason::SpaceAmplification });
    }
    let universal = &options.compaction_options_universal;
    let widest = universal.max_merge_width as usize;
    let mut first = 0;
    while let Some(runs) = of_similar_size(runs, first, Some(universal.size_ratio), widest, options) {
        first = runs.start + 1;
        choices.push(Choice { runs, reason: CompactionReason::SizeRatio });
    }
    let idle = runs.iter().filter(|run| !run.is_busy).count();
    // More than are too many, where fewer may not be merged: else writers would be stopped by runs that nothing ever merges.
    let too_many = (idle + 1).saturating_sub(trigger).max(universal.min_merge_width as usize);
    if idle > trigger
        && let Some(runs) = of_similar_size(runs, 0, None, widest.min(too_many), options)
    {
        choices.push(Choice { runs, reason: CompactionReason::SortedRunCount });
    }
    choices
}

/// The oldest run and those above it, if they are too large for it. What is newer than a busy run stays out, and waits for it.
fn above_space_limit(runs: &[SortedRun], options: &ColumnFamilyOptions) -> Option<Range<usize>> {
    let first = runs.iter().rposition(|run| run.is_busy).map_or(0, |busy| busy + 1);
    let (oldest, newer) = runs[first..].split_last()?;
    let newer_bytes: u128 = newer.iter().map(|run| u128::from(run.bytes)).sum();
    let limit = u128::from(options.compaction_options_universal.max_size_amplification_percent);
    let exceeds = !newer.is_empty() && newer_bytes * 100 >= limit * u128::from(oldest.bytes);
    exceeds.then_some(first..runs.len())
}

/// The newest idle runs from `first` on that are similar enough, as `size_ratio` says; whatever their sizes without one.
fn of_similar_size(
    runs: &[SortedRun],
    first: usize,
    size_ratio: Option<u32>,
    widest: usize,
    options: &ColumnFamilyOptions,
) -> Option<Range<usize>> {
    let universal = &options.compaction_options_universal;
    let narrowest = universal.min_merge_width as usize;
    let grown = |bytes: u128| match size_ratio {
        Some(ratio) => bytes * (100 + u128::from(ratio)) / 100,
        None => u128::MAX,
    };
    let mut first = first;
    while first < runs.len() {
        if runs[first].is_busy {
            first += 1;
            continue;
        }
        let mut taken = u128::from(runs[first].bytes);
        let mut end = first + 1;
        while end < runs.len() && end - first < widest && !runs[end].is_busy {
            let next = u128::from(runs[end].bytes);
            if grown(taken) < next {
                break;
            }
            taken = match universal.stop_style {
                UniversalStopStyle::TotalSize => taken + next,
                UniversalStopStyle::SimilarSize if grown(next) < taken => break,
                UniversalStopStyle::SimilarSize => next,
            };
            end += 1;
        }
        if end - first >= narrowest {
            return Some(first..end);
        }
        first += 1;
    }
    None
}
