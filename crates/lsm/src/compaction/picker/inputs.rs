//! From one table to all that must be compacted with it.

use crate::compaction::targets::{LevelTargets, is_level0_due};
use crate::compaction::{
    Compaction, LevelInputs, Running, compression_of_level, max_compaction_bytes, target_file_size,
};
use crate::event::CompactionReason;
use crate::file_meta::FileMeta;
use crate::key::InternalKeyComparator;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;
use std::sync::Arc;

/// The smallest and the largest user key of `files`; `None` if there are none.
pub(crate) fn user_key_range<'a>(
    order: &InternalKeyComparator,
    files: impl IntoIterator<Item = &'a FileMeta>,
) -> Option<(&'a [u8], &'a [u8])> {
    let ranges = files.into_iter().map(|file| (file.smallest.user_key(), file.largest.user_key()));
    ranges.reduce(|(smallest, largest), (low, high)| {
        let smallest = if order.compare_user(low, smallest).is_lt() { low } else { smallest };
        let largest = if order.compare_user(high, largest).is_gt() { high } else { largest };
        (smallest, largest)
    })
}

/// The tables of `level` that share a user key with one of `files`, or lie between them.
pub(super) fn meeting(version: &Version, level: usize, files: &[Arc<FileMeta>]) -> Vec<Arc<FileMeta>> {
    let order = version.comparator();
    let Some((smallest, largest)) = user_key_range(order, files.iter().map(|file| &**file)) else { return Vec::new() };
    let mut meeting = version.overlapping_files(level, Some(smallest), Some(largest));
    // The exclusive end of a range tombstone is no key of its table: the next table may begin there.
    if files.iter().all(|file| file.ends_before(order, largest)) {
        meeting.retain(|file| order.compare_user(file.smallest.user_key(), largest).is_lt());
    }
    meeting
}

/// Bytes of `files`.
pub(super) fn total_bytes(files: &[Arc<FileMeta>]) -> u64 {
    files.iter().map(|file| file.file_size).fold(0, u64::saturating_add)
}

/// What every pick looks at.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) version: &'a Arc<Version>,
    pub(super) options: &'a ColumnFamilyOptions,
    pub(super) targets: &'a LevelTargets,
    pub(super) running: &'a Running,
    /// Unix seconds.
    pub(super) now: u64,
}

/// A compaction being put together.
pub(super) struct Draft {
    pub(super) start_level: usize,
    pub(super) output_level: usize,
    pub(super) start: Vec<Arc<FileMeta>>,
    /// Tables of the output level; none if it is the start level.
    pub(super) output: Vec<Arc<FileMeta>>,
}

impl Scene<'_> {
    pub(super) fn order(&self) -> &InternalKeyComparator {
        self.version.comparator()
    }

    /// Whether a compaction that is not urgent has to wait: level 0 is due, it needs the base level as this one does, and another that is not urgent had a turn since
    /// level 0 had its last one. Else such compactions would take the base level in turns, and level 0 would starve.
    pub(super) fn is_level0s_turn(&self, start_level: usize, output_level: usize) -> bool {
        let base_level = self.targets.base_level;
        self.options.compaction_style == CompactionStyle::Leveled
            && start_level > 0
            && (start_level == base_level || output_level == base_level)
            && self.running.is_level0_owed()
            && !self.options.disable_auto_compactions
            && is_level0_due(self.version, self.options, self.targets)
    }

    /// Grows `files` of `level` until no table outside has a user key that one inside has: all versions of a key move together. In
    /// level 0 that is the closure over overlapping ranges. False if one of them is being compacted.
    pub(super) fn expand_to_clean_cut(&self, level: usize, files: &mut Vec<Arc<FileMeta>>) -> bool {
        while !files.is_empty() {
            let grown = meeting(self.version, level, files);
            let is_stable = grown.len() == files.len();
            *files = grown;
            if is_stable {
                break;
            }
        }
        !files.iter().any(|file| file.is_being_compacted())
    }

    /// The draft with the tables of the output level that it overlaps; `None` if it collides with a running compaction.
    pub(super) fn with_output_level(&self, mut draft: Draft) -> Option<Draft> {
        if draft.start.is_empty() || draft.start.iter().any(|file| file.is_being_compacted()) {
            return None;
        }
        if draft.output_level != draft.start_level {
            draft.output = meeting(self.version, draft.output_level, &draft.start);
            if !self.expand_to_clean_cut(draft.output_level, &mut draft.output) {
                return None;
            }
        }
        let (smallest, largest) = self.range(&draft)?;
        (!self.running.writes_to(self.order(), draft.output_level, smallest, largest)).then_some(draft)
    }

    fn range<'a>(&self, draft: &'a Draft) -> Option<(&'a [u8], &'a [u8])> {
        user_key_range(self.order(), draft.start.iter().chain(&draft.output).map(|file| &**file))
    }

    /// Takes more tables of the start level, if that costs no more of the output level.
    pub(super) fn grow_start(&self, draft: Draft) -> Draft {
        if draft.start_level == 0 || draft.output.is_empty() || draft.start_level == draft.output_level {
            return draft;
        }
        let Some((smallest, largest)) = self.range(&draft) else { return draft };
        let mut start = self.version.overlapping_files(draft.start_level, Some(smallest), Some(largest));
        let is_clean = self.expand_to_clean_cut(draft.start_level, &mut start);
        let bytes = total_bytes(&start).saturating_add(total_bytes(&draft.output));
        if !is_clean || start.len() <= draft.start.len() || bytes >= max_compaction_bytes(self.options) {
            return draft;
        }
        let grown = Draft { start, output: Vec::new(), ..draft };
        match self.with_output_level(grown) {
            Some(grown) if grown.output.len() == draft.output.len() => grown,
            _ => draft,
        }
    }

    /// The compaction that a draft amounts to.
    pub(super) fn compaction(&self, draft: Draft, reason: CompactionReason) -> Option<Compaction> {
        let (options, base_level, output_level) = (self.options, self.first_level(), draft.output_level);
        let (smallest, largest) = self.range(&draft)?;
        let mut grandparents = Vec::new();
        for level in output_level + 1..self.version.num_levels() {
            grandparents = self.version.overlapping_files(level, Some(smallest), Some(largest));
            if !grandparents.is_empty() {
                break;
            }
        }
        let bottommost = grandparents.is_empty();
        let is_last = self.is_last_with_data(output_level);
        let compression = compression_of_level(options, output_level, base_level, is_last);
        let target_file_size = target_file_size(options, output_level, base_level);
        let trivial_move = self.is_trivial_move(&draft, reason, &grandparents);
        let mut inputs = vec![LevelInputs { level: draft.start_level, files: draft.start }];
        if !draft.output.is_empty() {
            inputs.push(LevelInputs { level: output_level, files: draft.output });
        }
        Some(Compaction {
            family: self.version.family(),
            reason,
            inputs,
            output_level,
            input_version: Arc::clone(self.version),
            grandparents,
            target_file_size,
            // Above the last level an output may grow to where a grandparent ends.
            max_output_file_size: if bottommost { target_file_size } else { target_file_size.saturating_mul(2) },
            max_compaction_bytes: max_compaction_bytes(options),
            compression,
            trivial_move,
            deletes: false,
            bottommost,
            fences: Vec::new(),
            merge: self.running.merge().filter(|merge| !merge.is_done(self.version)).cloned(),
        })
    }

    /// The level whose codec and sizes are the first that the options name for levels below 0.
    fn first_level(&self) -> usize {
        if self.options.compaction_style == CompactionStyle::Leveled { self.targets.base_level } else { 1 }
    }

    /// Whether no level below `level` has data.
    fn is_last_with_data(&self, level: usize) -> bool {
        self.version.last_level_with_data().is_none_or(|last| level >= last)
    }

    /// Whether the tables can just change their level: nothing to merge with, nothing to rewrite, and no output level that would
    /// overlap too much of what is beneath.
    fn is_trivial_move(&self, draft: &Draft, reason: CompactionReason, grandparents: &[Arc<FileMeta>]) -> bool {
        let (start_level, output_level) = (draft.start_level, draft.output_level);
        if start_level == output_level || !draft.output.is_empty() {
            return false;
        }
        if reason == CompactionReason::Manual && self.options.removes_rows() {
            return false;
        }
        let base_level = self.first_level();
        let compression = |level| compression_of_level(self.options, level, base_level, self.is_last_with_data(level));
        if compression(start_level) != compression(output_level) || !self.are_disjoint(&draft.start) {
            return false;
        }
        let limit = max_compaction_bytes(self.options);
        draft.start.iter().all(|file| {
            let beneath = grandparents.iter().filter(|other| {
                !file.ends_before(self.order(), other.smallest.user_key())
                    && !other.ends_before(self.order(), file.smallest.user_key())
            });
            let bytes = beneath.map(|other| other.file_size).fold(file.file_size, u64::saturating_add);
            bytes <= limit
        })
    }

    /// Whether no two of `files` share a range of user keys.
    pub(super) fn are_disjoint(&self, files: &[Arc<FileMeta>]) -> bool {
        let mut sorted: Vec<_> = files.iter().collect();
        sorted.sort_by(|a, b| self.order().compare(a.smallest.as_bytes(), b.smallest.as_bytes()));
        sorted.windows(2).all(|pair| pair[0].ends_before(self.order(), pair[1].smallest.user_key()))
    }
}
