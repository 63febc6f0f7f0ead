//! Compaction of a range that a user asked for, level by level.

use super::inputs::{Draft, Scene, total_bytes};
use crate::compaction::targets::LevelTargets;
use crate::compaction::{Compaction, Running, RunningMark, max_compaction_bytes};
use crate::event::CompactionReason;
use crate::file_meta::FileMeta;
use crate::key::InternalKey;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;
use std::sync::Arc;

/// A range of user keys on its way to the last level that has any of it.
#[derive(Debug, Clone)]
pub(crate) struct ManualRange {
    begin: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    /// Rewrites the last level too.
    force_bottommost: bool,
    /// Compactions that ran when it was asked for: they keep what snapshots saw when they began.
    asked_at: RunningMark,
    /// Tables with this number or a larger one were written later: they are neither taken from level 0 nor rewritten on the last level for its sake. `None`
    /// until it begins.
    first_new_number: Option<u64>,
    /// The level that is being emptied.
    level: usize,
    /// The largest internal key of that level that is done: the rest of the range begins behind its user key, or at it if it is an exclusive end.
    done_to: Option<InternalKey>,
    /// The last level that had any of the range when that was first asked.
    last_level: Option<usize>,
}

/// What to do next for a [`ManualRange`].
#[derive(Debug)]
pub(crate) enum ManualStep {
    /// Run this compaction, then ask again.
    Compact(Box<Compaction>),
    /// Wait until a running compaction is over, then ask again.
    Wait,
    /// The range is compacted.
    Done,
}

impl ManualRange {
    /// A request for the user keys from `begin` to `end`, both inclusive; `None` is no bound. What it is about was flushed before `asked_at`.
    pub(crate) fn new(
        begin: Option<Vec<u8>>,
        end: Option<Vec<u8>>,
        force_bottommost: bool,
        asked_at: RunningMark,
    ) -> Self {
        Self {
            begin,
            end,
            force_bottommost,
            asked_at,
            first_new_number: None,
            level: 0,
            done_to: None,
            last_level: None,
        }
    }

    /// The next compaction of the request, with the present version and the next file number. The caller runs it and asks again with the version that came of it.
    pub(crate) fn next(
        &mut self,
        version: &Arc<Version>,
        options: &ColumnFamilyOptions,
        running: &Running,
        next_number: u64,
    ) -> ManualStep {
        if options.compaction_style == CompactionStyle::Fifo {
            // There is no last level to go to.
            return ManualStep::Done;
        }
        let rewrites_last = self.force_bottommost || options.removes_rows();
        if self.first_new_number.is_none() && rewrites_last && self.waits_for_those_before(version, running) {
            return ManualStep::Wait;
        }
        let first_new_number = *self.first_new_number.get_or_insert(next_number);
        let targets = LevelTargets::new(version, options);
        let scene = Scene { version, options, targets: &targets, running, now: 0 };
        let deepest = (0..version.num_levels()).rev().find(|level| !self.files(version, *level).is_empty());
        let Some(deepest) = deepest else { return ManualStep::Done };
        let last_level = *self.last_level.get_or_insert(deepest.max(targets.base_level));
        while self.level <= last_level {
            let output_level = match self.level {
                0 => targets.base_level,
                level if level == last_level => level,
                level => level + 1,
            };
            let rewrites = self.level == last_level;
            if rewrites && !rewrites_last {
                break;
            }
            let files = self.files(version, self.level);
            let ignores_new = rewrites || self.level == 0;
            if files.is_empty() || (ignores_new && files.iter().all(|file| file.number >= first_new_number)) {
                self.level += 1;
                self.done_to = None;
                continue;
            }
            return self.compact(&scene, files, output_level);
        }
        ManualStep::Done
    }

    /// Whether a compaction that ran when it was asked for still has some of the range: what that writes must be rewritten, too.
    fn waits_for_those_before(&self, version: &Version, running: &Running) -> bool {
        running.has_before(self.asked_at, version.comparator(), self.begin.as_deref(), self.end.as_deref())
    }

    /// The tables of `level` that the rest of the range meets.
    fn files(&self, version: &Version, level: usize) -> Vec<Arc<FileMeta>> {
        let mut files = version.overlapping_files(level, self.begin.as_deref(), self.end.as_deref());
        if level == self.level
            && let Some(done_to) = &self.done_to
        {
            let order = version.comparator();
            files.retain(|file| done_to.ends_before(order, file.smallest.user_key()));
        }
        files
    }

    fn compact(&mut self, scene: &Scene<'_>, mut start: Vec<Arc<FileMeta>>, output_level: usize) -> ManualStep {
        if self.level == 0 && scene.running.has_level0() || scene.is_level0s_turn(self.level, output_level) {
            return ManualStep::Wait;
        }
        if self.level > 0 {
            let limit = max_compaction_bytes(scene.options);
            while start.len() > 1 && total_bytes(&start) > limit {
                start.truncate(start.len() / 2);
            }
        }
        if !scene.expand_to_clean_cut(self.level, &mut start) {
            return ManualStep::Wait;
        }
        let draft = Draft { start_level: self.level, output_level, start, output: Vec::new() };
        let Some(draft) = scene.with_output_level(draft) else { return ManualStep::Wait };
        if self.level > 0 {
            self.done_to = draft.start.last().map(|file| file.largest.clone());
        }
        match scene.compaction(draft, CompactionReason::Manual) {
            Some(compaction) => ManualStep::Compact(Box::new(compaction)),
            None => ManualStep::Done,
        }
    }
}
