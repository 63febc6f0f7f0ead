//! What compactions still have to read.

use crate::compaction::{Compaction, LevelTargets, Moving, levels_with_data};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;

/// Bytes that compactions must still read until no level is above its target, those that run included.
///
/// As RocksDB's [estimate](crate::compaction::estimated_pending_compaction_bytes), but without its jumps. What running compactions move counts
/// as moved already, and their inputs as work. The base level, which every batch of level 0 is merged with, counts by as much
/// of the next batch as there is; a batch is what the trigger says, or what the last one took.
pub(crate) fn owed_bytes(
    version: &Version,
    options: &ColumnFamilyOptions,
    targets: &LevelTargets,
    running: &[Moving],
) -> u64 {
    if options.disable_auto_compactions {
        return 0;
    }
    let mut bytes: Vec<f64> = (0..version.num_levels()).map(|level| version.level_bytes(level) as f64).collect();
    let mut l0_files = version.files(0).len();
    let mut batch = options.level0_file_num_compaction_trigger.max(1);
    let mut owed = 0.0;
    for moving in running {
        owed += moving.input_bytes as f64;
        if moving.start_level == 0 {
            l0_files = l0_files.saturating_sub(moving.start_files);
            batch = batch.max(moving.start_files);
        }
        bytes[moving.start_level] = (bytes[moving.start_level] - moving.start_bytes as f64).max(0.0);
        bytes[moving.output_level] += moving.start_bytes as f64;
    }
    owed += bytes[0] + bytes[targets.base_level] * (l0_files as f64 / batch as f64).min(1.0);
    let mut moving = bytes[0];
    for level in targets.base_level..bytes.len() - 1 {
        let size = bytes[level] + moving;
        moving = (size - targets.lasting_bytes(level) as f64).max(0.0);
        if moving > 0.0 && bytes[level + 1] > 0.0 {
            owed += moving * (bytes[level + 1] / size + 1.0);
        }
    }
    owed as u64
}

/// The same for the universal style: the bytes of level 0 alone, since deeper merges have time. What is idle counts once a merge is due.
pub(crate) fn owed_bytes_universal(version: &Version, options: &ColumnFamilyOptions, running: &[Moving]) -> u64 {
    if options.disable_auto_compactions {
        return 0;
    }
    let of_level0 = || running.iter().filter(|moving| moving.start_level == 0);
    let owed = of_level0().map(|moving| moving.start_bytes.min(moving.input_bytes)).fold(0, u64::saturating_add);
    let levels = match options.compaction_style {
        // Level 0 is a tier by itself.
        CompactionStyle::Lazy => 0,
        _ => levels_with_data(version),
    };
    if version.files(0).len() + levels < options.level0_file_num_compaction_trigger {
        return owed;
    }
    let taken = of_level0().map(|moving| moving.start_bytes).fold(0, u64::saturating_add);
    version.level_bytes(0).saturating_sub(taken).saturating_add(owed)
}

/// How much of what is owed a compaction does: the part of its inputs that counts in [`owed_bytes`] or [`owed_bytes_universal`].
pub(crate) fn owed_bytes_of(compaction: &Compaction, style: CompactionStyle) -> u64 {
    match style {
        CompactionStyle::Leveled => compaction.input_bytes(),
        CompactionStyle::Universal | CompactionStyle::Lazy | CompactionStyle::Fifo => {
            let level0 = compaction.input_files().filter(|(level, _)| *level == 0);
            level0.map(|(_, file)| file.file_size).fold(0, u64::saturating_add)
        }
    }
}
