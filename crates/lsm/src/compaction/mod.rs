//! Compaction: from what a picker proposes to the tables that replace its inputs.
//!
//! A pick is pure: [`picker`] maps a version, options and the running compactions to a [`Compaction`]. [`job`] runs one attempt of it,
//! with [`rules`] that decide what becomes of every entry and [`outputs`] that decide where a table ends.

mod beneath;
mod blob_garbage;
pub(crate) mod job;
pub(crate) mod outputs;
pub(crate) mod picker;
mod rules;
mod running;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod simulator;
mod targets;

pub(crate) use picker::{
    ManualRange, ManualStep, droppable, level0_count, level0_load, levels_with_data, may_still_go, next_upkeep,
    pending_compaction_bytes, pick, pick_covered, pick_drain, pick_expired_drop, pick_expired_rewrite, pick_level0,
    scores, urgency,
};
pub(crate) use rules::{DroppedEntries, HiddenRow, HiddenRows, HiddenWatch, JobFiles, RulesOptions, Sieve};
pub(crate) use running::{Moving, Running, RunningId, RunningMark};
pub(crate) use targets::{LevelScore, LevelTargets};

use crate::event::CompactionReason;
use crate::file_meta::FileMeta;
use crate::key::ColumnFamilyId;
use crate::options::{ColumnFamilyOptions, CompactionStyle, CompressionType};
use crate::sst::DictionaryOptions;
use crate::version::{Version, VersionEdit};
use std::sync::Arc;

/// Tables of one level that a compaction reads.
#[derive(Debug, Clone)]
pub(crate) struct LevelInputs {
    /// The level.
    pub(crate) level: usize,
    /// Level 0: newest first. Others: ascending.
    pub(crate) files: Vec<Arc<FileMeta>>,
}

/// A compaction that was picked.
#[derive(Debug, Clone)]
pub(crate) struct Compaction {
    /// The column family.
    pub(crate) family: ColumnFamilyId,
    /// Why.
    pub(crate) reason: CompactionReason,
    /// What is read, upper levels first. The output level is among them if it takes part.
    pub(crate) inputs: Vec<LevelInputs>,
    /// Where the outputs go.
    pub(crate) output_level: usize,
    /// The version that the inputs are of.
    pub(crate) input_version: Arc<Version>,
    /// Tables of the next level below the output level that has any in the range, ascending.
    pub(crate) grandparents: Vec<Arc<FileMeta>>,
    /// Size that outputs aim at, in bytes.
    pub(crate) target_file_size: u64,
    /// Size at which an output ends, in bytes.
    pub(crate) max_output_file_size: u64,
    /// Most bytes of an output and the grandparents beneath it, and of the inputs of an automatic compaction.
    pub(crate) max_compaction_bytes: u64,
    /// Codec of the outputs.
    pub(crate) compression: CompressionType,
    /// Whether files only change their level.
    pub(crate) trivial_move: bool,
    /// Whether files only go.
    pub(crate) deletes: bool,
    /// Whether nothing that is older has anything in the range.
    pub(crate) bottommost: bool,
    /// User keys before which an output ends, whatever its size. Ascending.
    pub(crate) fences: Vec<Vec<u8>>,
    /// The merge of whole levels that is under way in the family once this runs.
    pub(crate) merge: Option<Merge>,
}

/// A merge of several levels into one that is done range by range, by many compactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    /// The first level that it empties.
    pub(crate) first_level: usize,
    /// The level where everything goes.
    pub(crate) output_level: usize,
}

impl Compaction {
    /// Every input with its level.
    pub(crate) fn input_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.inputs.iter().flat_map(|inputs| inputs.files.iter().map(move |file| (inputs.level, file)))
    }

    /// What is read side by side: the tables of level 0, and each further level.
    pub(crate) fn sources(&self) -> usize {
        self.inputs.iter().map(|inputs| if inputs.level == 0 { inputs.files.len() } else { 1 }).sum()
    }

    /// Bytes of all inputs.
    pub(crate) fn input_bytes(&self) -> u64 {
        self.input_files().map(|(_, file)| file.file_size).fold(0, u64::saturating_add)
    }

    /// Whether writes made this work. What a caller asks for below level 0, or age, comes on top, and writers are not slowed down for it.
    pub(crate) fn is_owed(&self) -> bool {
        let is_upkeep = matches!(
            self.reason,
            CompactionReason::Manual
                | CompactionReason::TombstoneDensity
                | CompactionReason::Suggested
                | CompactionReason::Covered
                | CompactionReason::Ttl
                | CompactionReason::Periodic
                | CompactionReason::Expired
                | CompactionReason::ReadTriggered
        );
        !is_upkeep || self.start_level() == 0
    }

    /// Whether it writes tables for the sake of expired rows alone.
    pub(crate) fn rewrites_for_expiry(&self) -> bool {
        self.reason == CompactionReason::Expired && !self.is_edit()
    }

    /// The level that the compaction takes data away from.
    pub(crate) fn start_level(&self) -> usize {
        self.inputs.first().map_or(self.output_level, |inputs| inputs.level)
    }

    /// The smallest and the largest user key of any input.
    pub(crate) fn user_key_range(&self) -> (&[u8], &[u8]) {
        let files = self.input_files().map(|(_, file)| &**file);
        picker::user_key_range(self.input_version.comparator(), files).unwrap_or((&[], &[]))
    }

    /// The edit that lets all inputs leave their levels.
    pub(crate) fn deletions(&self) -> VersionEdit {
        let mut edit = VersionEdit::new(self.family);
        for (level, file) in self.input_files() {
            edit.delete_file(level, file.number);
        }
        edit
    }

    /// Whether its keys may be shared out to subcompactions, by RocksDB's rule: what goes down from level 0, what a caller asked for, and merges of sorted runs. Others run
    /// beside each other as they are.
    pub(crate) fn may_share_out(&self, style: CompactionStyle) -> bool {
        let has_runs = matches!(style, CompactionStyle::Universal | CompactionStyle::Lazy);
        let is_long = has_runs || self.start_level() == 0 || self.reason == CompactionReason::Manual;
        // Each table of level 0 is a sorted run.
        !self.is_edit() && self.output_level > 0 && is_long
    }

    /// Whether nothing is read or written but the MANIFEST.
    pub(crate) fn is_edit(&self) -> bool {
        self.trivial_move || self.deletes
    }

    /// The edit of a compaction that is nothing else.
    pub(crate) fn edit(&self) -> VersionEdit {
        debug_assert!(self.is_edit());
        let mut edit = self.deletions();
        if self.deletes {
            return edit;
        }
        for (_, file) in self.input_files() {
            edit.add_file(self.output_level, file.data());
        }
        edit
    }
}

/// The codec of tables at `level`, when level 0 is compacted into `base_level`; `bottommost` if no level below has data.
pub(crate) fn compression_of_level(
    options: &ColumnFamilyOptions,
    level: usize,
    base_level: usize,
    bottommost: bool,
) -> CompressionType {
    if bottommost && let Some(compression) = options.bottommost_compression {
        return compression;
    }
    let index = if level == 0 { 0 } else { (level + 1).saturating_sub(base_level).max(1) };
    let per_level = &options.compression_per_level;
    per_level.get(index).or(per_level.last()).copied().unwrap_or(options.compression)
}

/// The codec of tables that a flush writes.
pub(crate) fn compression_of_flush(options: &ColumnFamilyOptions) -> CompressionType {
    options.compression_per_level.first().copied().unwrap_or(options.compression)
}

/// How a family's tables make dictionaries.
pub(crate) fn dictionary_options(options: &ColumnFamilyOptions) -> DictionaryOptions {
    DictionaryOptions {
        max_bytes: options.max_dict_bytes,
        train_bytes: options.zstd_max_train_bytes,
        buffer_bytes: options.max_dict_buffer_bytes,
    }
}

/// The size that tables at `level` aim at, in bytes.
fn target_file_size(options: &ColumnFamilyOptions, level: usize, base_level: usize) -> u64 {
    let steps = level.saturating_sub(base_level.max(1));
    let growth = options.target_file_size_multiplier.max(1).saturating_pow(u32::try_from(steps).unwrap_or(u32::MAX));
    options.target_file_size_base.saturating_mul(growth)
}

/// `max_compaction_bytes`, or what 0 stands for.
fn max_compaction_bytes(options: &ColumnFamilyOptions) -> u64 {
    match options.max_compaction_bytes {
        0 => options.target_file_size_base.saturating_mul(25),
        bytes => bytes,
    }
}
