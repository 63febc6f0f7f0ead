//! The universal style: sorted runs of similar sizes are merged with each other.
//!
//! [`runs`] says which runs should become one. How that is done depends on their size:
//!
//! 1. A merge of few bytes is one compaction of all its runs.
//! 2. A merge of many bytes goes through the key range piece by piece ([`pieces`]), and each piece counts when it is done. Tables of level 0 reach over all keys, so they
//!    are left out: they become a run on a level of their own first, of tables that end at [`fences`].
//! 3. While such a merge is under way, its levels count as one old run. What is newer goes on above, and first.
//!
//! Runs are kept at the bottom: a new one goes right above the next older one. Where there is no room above, a run moves down to an empty level.
//!
//! The style of lazy leveling is the same but for which runs are merged ([`lazy`]).
//!
//! Ideas: pieces between common borders as in Spooky (Dayan, Weiss, Dashevsky, Pan, Bortnikov and Twitto, 2022).

mod fences;
mod lazy;
mod pieces;
mod runs;
#[cfg(test)]
mod tests;

use super::inputs::{Scene, user_key_range};
use crate::compaction::{
    Compaction, LevelInputs, Merge, Running, compression_of_level, max_compaction_bytes, target_file_size,
};
use crate::event::CompactionReason;
use crate::options::{ColumnFamilyOptions, CompactionStyle, CompressionType};
use crate::version::Version;
use runs::{Choice, SortedRun, sorted_runs};
use std::ops::Range;
use std::sync::Arc;

/// A merge of more than this part of the oldest run is done in pieces.
const WHOLE_PARTS: u64 = 12;
/// Tables of level 0 that become a run together are at most this part of the oldest run, or few.
const LEVEL0_PARTS: u64 = 10;
/// Few are so many write buffers, or as many as there may be runs.
const FEW_BUFFERS: usize = 8;
/// The part of the oldest run that a piece reads.
const PIECE_PARTS: u64 = 16;
/// The parts of the oldest run that lie between two fences.
const FENCE_PARTS: u64 = 40;
/// The oldest run has so many fences at least where a piece of the most bytes that a compaction may have lies.
const PIECE_FENCES: u64 = 4;
/// Tables have at most this part of the oldest run, so that it has borders for fences.
const FILE_PARTS: u64 = 64;

/// The most urgent compaction; `None` if none is due, or it collides with those that run.
pub(super) fn pick(scene: &Scene<'_>) -> Option<Compaction> {
    let tree = Tree::new(scene);
    let above = tree
        .merge
        .as_ref()
        .map_or(tree.runs.len(), |merge| tree.runs.iter().take_while(|run| run.level < merge.first_level).count());
    let newer = tree.merge_of_runs(above);
    if newer.is_some() {
        return newer;
    }
    let merge = tree.merge.as_ref()?;
    tree.piece(merge, CompactionReason::SizeRatio)
}

/// Level 0 into one run, however few tables it has.
pub(super) fn pick_level0(scene: &Scene<'_>) -> Option<Compaction> {
    let tree = Tree::new(scene);
    let level0 = tree.runs.iter().take_while(|run| run.level == 0).count();
    if level0 < 2 {
        return None;
    }
    tree.merge_of(tree.runs.len(), Choice { runs: 0..level0, reason: CompactionReason::ReadOnly })
}

/// How many of the first `runs` are no more than `limit` bytes together.
fn fitting<'a>(runs: impl Iterator<Item = &'a SortedRun>, limit: u64) -> usize {
    let mut bytes = 0_u64;
    let fits = |run: &&SortedRun| {
        bytes = bytes.saturating_add(run.bytes);
        bytes <= limit
    };
    runs.take_while(fits).count()
}

/// Bytes that are due to be merged, as far as the version tells.
pub(crate) fn pending_bytes(version: &Version, options: &ColumnFamilyOptions) -> u64 {
    let runs = sorted_runs(version);
    let choice = choices(&runs, true, options).into_iter().next();
    choice.map_or(0, |choice| runs[choice.runs].iter().map(|run| run.bytes).fold(0, u64::saturating_add))
}

/// Which runs to merge next, the most urgent first.
fn choices(runs: &[SortedRun], has_oldest: bool, options: &ColumnFamilyOptions) -> Vec<Choice> {
    match options.compaction_style {
        CompactionStyle::Lazy => lazy::choices(runs, has_oldest, options),
        _ => runs::choices(runs, has_oldest, options),
    }
}

/// How urgent the family is: at or above 1 a merge may be due.
pub(crate) fn score(version: &Version, options: &ColumnFamilyOptions, running: &Running) -> f64 {
    let is_merging = running.is_merging(version);
    if options.compaction_style == CompactionStyle::Lazy {
        let is_due = is_merging || !choices(&sorted_runs(version), true, options).is_empty();
        return if is_due { 1.0 } else { 0.0 };
    }
    let runs = sorted_runs(version).len() as f64 / options.level0_file_num_compaction_trigger.max(1) as f64;
    if is_merging { runs.max(1.0) } else { runs }
}

/// A tree as this style sees it.
struct Tree<'a> {
    scene: &'a Scene<'a>,
    /// Newest first.
    runs: Vec<SortedRun>,
    /// The merge that is under way.
    merge: Option<Merge>,
    /// Bytes of the oldest run.
    oldest_bytes: u64,
    total_bytes: u64,
}

impl<'a> Tree<'a> {
    fn new(scene: &'a Scene<'a>) -> Self {
        let runs = sorted_runs(scene.version);
        let merge = scene.running.merge().and_then(|merge| merge.rest(scene.version));
        let oldest_bytes = runs.last().map_or(0, |run| run.bytes);
        Self { scene, runs, merge, oldest_bytes, total_bytes: scene.version.total_bytes() }
    }

    fn options(&self) -> &ColumnFamilyOptions {
        self.scene.options
    }

    /// Up to this a merge is not worth being cut.
    fn few_bytes(&self) -> u64 {
        let options = self.options();
        let buffers = options.level0_file_num_compaction_trigger.min(FEW_BUFFERS);
        (options.write_buffer_size as u64).saturating_mul(buffers as u64)
    }

    /// The most urgent merge of some of the newest `count` runs that can run now.
    fn merge_of_runs(&self, count: usize) -> Option<Compaction> {
        let choices = choices(&self.runs[..count], count == self.runs.len(), self.options());
        choices.into_iter().find_map(|choice| self.merge_of(count, choice))
    }

    /// What the merge of a choice among the newest `count` runs begins with.
    fn merge_of(&self, count: usize, choice: Choice) -> Option<Compaction> {
        let runs = &self.runs[..count];
        let (first, end) = (choice.runs.start, choice.runs.end);
        let chosen = &runs[choice.runs.clone()];
        let bytes = chosen.iter().map(|run| run.bytes).fold(0, u64::saturating_add);
        let level0 = chosen.iter().take_while(|run| run.level == 0).count();
        let lowest = chosen.last()?.level;
        let is_whole = !self.options().compaction_options_universal.incremental
            || level0 == chosen.len()
            || bytes <= self.few_bytes().max(self.oldest_bytes / WHOLE_PARTS);
        if is_whole {
            let output_level = self.level_above(end, lowest);
            let is_cramped = output_level == 0 && self.runs.get(end).is_some_and(|next| next.level > 0);
            let moved = if is_cramped { self.make_room() } else { None };
            return moved.or_else(|| {
                self.whole(self.bounded(first..end, output_level, choice.reason), output_level, choice.reason)
            });
        }
        let levels = chosen.len() - level0;
        if level0 > 1 || levels < 2 {
            // Their own run first.
            let output_level = self.level_above(first + level0, 0);
            if output_level > 0 {
                let runs = self.bounded(first..first + level0, output_level, choice.reason);
                let own_run = self.whole(runs, output_level, choice.reason)?;
                let output_level = self.level_above(end, lowest);
                return Some(self.with_merge_behind(own_run, output_level));
            }
            let moved = self.make_room();
            if moved.is_some() {
                return moved;
            }
            if self.merge.is_some() {
                // A merge that is under way makes room, too. Until then level 0 must not grow to where writers are stopped.
                return self.whole(first..first + level0, 0, choice.reason);
            }
            if levels < 2 {
                return self
                    .merge_of_cheapest(&runs[first + level0..], choice.reason)
                    .or_else(|| self.whole(first..end, self.level_above(end, lowest), choice.reason));
            }
        }
        if self.merge.is_some() {
            // One after the other.
            return None;
        }
        let first_level = chosen[level0].level;
        let merge = Merge { first_level, output_level: self.level_above(end, lowest) };
        self.piece(&merge, choice.reason)
    }

    /// Of runs that become one on `output_level`, all in level 0, the oldest that are no more bytes than a compaction may have, nor than a part of the oldest run where they are not few; two at least. Level 0 may have
    /// grown under another style, or while nothing was compacted, and what is more urgent would wait for all of it. Where callers only read, nothing waits.
    fn bounded(&self, runs: Range<usize>, output_level: usize, reason: CompactionReason) -> Range<usize> {
        let chosen = &self.runs[runs.clone()];
        if chosen.iter().any(|run| run.level > 0) {
            return runs;
        }
        let mut limit = max_compaction_bytes(self.options()).max(self.few_bytes());
        if output_level == 0 {
            // What goes back into level 0 leaves the fewest there if it is all of it. Where that would be done again for each few writes between many reads, the newest that fit.
            return match reason {
                CompactionReason::ReadOnly => runs.start..runs.start + fitting(chosen.iter(), limit),
                _ => runs,
            };
        }
        let is_cut = self.options().compaction_options_universal.incremental && reason != CompactionReason::ReadOnly;
        if is_cut && chosen.len() < self.options().level0_slowdown_writes_trigger {
            limit = limit.min((self.oldest_bytes / LEVEL0_PARTS).max(self.few_bytes()));
        }
        runs.end - fitting(chosen.iter().rev(), limit).max(2).min(chosen.len())..runs.end
    }

    /// The compaction of level 0 into a run of its own, and what it is for where that is to bound space: the merge with what is older begins when it ends. With fewer runs than before
    /// nothing would be due until there are as many again; the lazy style does not ask how many there are.
    fn with_merge_behind(&self, mut own_run: Compaction, output_level: usize) -> Compaction {
        let is_forgotten = self.options().compaction_style == CompactionStyle::Universal;
        if is_forgotten && own_run.reason == CompactionReason::SpaceAmplification && self.merge.is_none() {
            own_run.merge = Some(Merge { first_level: own_run.output_level, output_level });
        }
        own_run
    }

    /// A piece of the merge of the two neighbours with the fewest bytes among `levels`, which are runs below level 0.
    fn merge_of_cheapest(&self, levels: &[SortedRun], reason: CompactionReason) -> Option<Compaction> {
        let pair = levels.windows(2).min_by_key(|pair| pair[0].bytes.saturating_add(pair[1].bytes))?;
        self.piece(&Merge { first_level: pair[0].level, output_level: pair[1].level }, reason)
    }

    /// The level right above the run `next`, for what is newer; the last one if there is none. Not above `lowest`.
    fn level_above(&self, next: usize, lowest: usize) -> usize {
        let last = self.scene.version.num_levels() - 1;
        let level = match (self.runs.get(next), &self.merge) {
            (None, _) => last,
            (Some(run), Some(merge)) => run.level.min(merge.first_level).saturating_sub(1),
            (Some(run), None) => run.level.saturating_sub(1),
        };
        level.max(lowest)
    }

    /// One compaction of all tables of neighbouring runs.
    fn whole(&self, runs: Range<usize>, output_level: usize, reason: CompactionReason) -> Option<Compaction> {
        let scene = self.scene;
        let chosen = &self.runs[runs.clone()];
        let has_level0 = chosen.first()?.level == 0;
        if chosen.iter().any(|run| run.is_busy) || has_level0 && scene.running.has_level0() {
            return None;
        }
        if chosen.len() == 1 && output_level == chosen[0].level {
            return None;
        }
        let mut inputs: Vec<LevelInputs> = Vec::new();
        for (place, run) in runs.zip(chosen) {
            match (run.level, inputs.last_mut()) {
                (0, Some(level0)) => level0.files.push(Arc::clone(scene.version.files(0).get(place)?)),
                (0, None) => {
                    inputs.push(LevelInputs { level: 0, files: vec![Arc::clone(scene.version.files(0).get(place)?)] });
                }
                (level, _) => inputs.push(LevelInputs { level, files: scene.version.files(level).to_vec() }),
            }
        }
        // Tables of the output level that are older than what is chosen cannot be there; of a run that is being written there may be some soon.
        let files = inputs.iter().flat_map(|inputs| &inputs.files);
        let (smallest, largest) = user_key_range(scene.order(), files.map(|file| &**file))?;
        let mut levels = chosen[0].level..=output_level;
        if levels.any(|level| scene.running.writes_to(scene.order(), level, smallest, largest)) {
            return None;
        }
        self.compaction(inputs, output_level, reason, self.merge.clone())
    }

    /// The next piece of a merge.
    fn piece(&self, merge: &Merge, reason: CompactionReason) -> Option<Compaction> {
        let options = self.options();
        let max_bytes = match options.compaction_options_universal.incremental {
            true => (self.oldest_bytes / PIECE_PARTS).max(self.few_bytes() / 2).min(max_compaction_bytes(options)),
            false => u64::MAX,
        };
        let piece = pieces::next_piece(self.scene, merge, max_bytes)?;
        self.compaction(piece.inputs, merge.output_level, reason, Some(merge.clone()))
    }

    /// Moves the lowest run down that has an empty level beneath it, if there is one.
    fn make_room(&self) -> Option<Compaction> {
        let version = self.scene.version;
        let is_empty = |level: usize| version.files(level).is_empty();
        let end = self.merge.as_ref().map_or(version.num_levels(), |merge| merge.first_level);
        let empty = (1..end).rev().find(|level| is_empty(*level))?;
        let level = (1..empty).rev().find(|level| !is_empty(*level))?;
        let files = version.files(level).to_vec();
        let (smallest, largest) = user_key_range(self.scene.order(), files.iter().map(|file| &**file))?;
        let is_free = !files.iter().any(|file| file.is_being_compacted())
            && !(level..=empty).any(|level| self.scene.running.writes_to(self.scene.order(), level, smallest, largest));
        if !is_free {
            return None;
        }
        let inputs = vec![LevelInputs { level, files }];
        let mut compaction = self.compaction(inputs, empty, CompactionReason::SortedRunCount, self.merge.clone())?;
        compaction.trivial_move = true;
        Some(compaction)
    }

    fn compaction(
        &self,
        inputs: Vec<LevelInputs>,
        output_level: usize,
        reason: CompactionReason,
        merge: Option<Merge>,
    ) -> Option<Compaction> {
        let (scene, options, version) = (self.scene, self.options(), self.scene.version);
        let files = || inputs.iter().flat_map(|inputs| &inputs.files).map(|file| &**file);
        let (smallest, largest) = user_key_range(scene.order(), files())?;
        let mut below = output_level + 1..version.num_levels();
        let bottommost = !below.any(|level| version.overlaps(level, smallest, largest))
            && (output_level > 0 || !self.is_over_level0(&inputs));
        let is_last = version.last_level_with_data().is_none_or(|last| output_level >= last);
        let cap = (self.oldest_bytes / FILE_PARTS).max(options.write_buffer_size as u64 / 4);
        let target_file_size = target_file_size(options, 1, 1).min(cap);
        let trivial_move = self.is_trivial_move(&inputs, output_level, reason, is_last);
        let step = (self.oldest_bytes / FENCE_PARTS).min(max_compaction_bytes(options) / PIECE_FENCES);
        let step = step.max(options.write_buffer_size as u64 / 4);
        let fences = match output_level {
            0 => Vec::new(),
            _ if trivial_move => Vec::new(),
            level => fences::fences(version, level, step),
        };
        Some(Compaction {
            family: version.family(),
            reason,
            output_level,
            input_version: Arc::clone(version),
            grandparents: Vec::new(),
            fences,
            target_file_size,
            max_output_file_size: if output_level == 0 { u64::MAX } else { target_file_size },
            max_compaction_bytes: max_compaction_bytes(options),
            compression: self.compression(&inputs, output_level, is_last),
            trivial_move,
            deletes: false,
            bottommost,
            merge,
            inputs,
        })
    }

    /// Whether a table of level 0 that is older than the inputs may have keys of theirs.
    fn is_over_level0(&self, inputs: &[LevelInputs]) -> bool {
        let level0 = self.scene.version.files(0);
        let oldest = inputs.first().filter(|inputs| inputs.level == 0).and_then(|inputs| inputs.files.last());
        let Some(oldest) = oldest else { return false };
        level0.last().is_some_and(|file| file.number != oldest.number)
    }

    fn compression(&self, inputs: &[LevelInputs], output_level: usize, is_last: bool) -> CompressionType {
        let options = self.options();
        let percent = options.compaction_options_universal.compression_size_percent;
        if let Ok(percent) = u64::try_from(percent) {
            // Everything older than the inputs.
            let lowest = inputs.last().map_or(0, |inputs| inputs.level);
            let older = self.runs.iter().filter(|run| run.level > lowest).map(|run| run.bytes);
            let older = older.fold(0, u64::saturating_add);
            if older.saturating_mul(100) >= self.total_bytes.saturating_mul(percent) {
                return CompressionType::None;
            }
        }
        compression_of_level(options, output_level, 1, is_last)
    }

    /// Whether the tables can just change their level.
    fn is_trivial_move(
        &self,
        inputs: &[LevelInputs],
        output_level: usize,
        reason: CompactionReason,
        is_last: bool,
    ) -> bool {
        let options = self.options();
        let is_last_now = |level| self.scene.version.last_level_with_data().is_none_or(|last| level >= last);
        let level = inputs.first().map_or(output_level, |inputs| inputs.level);
        if self.compression(inputs, level, is_last_now(level)) != self.compression(inputs, output_level, is_last) {
            // Moved, they would keep a codec that is none of their new level.
            return false;
        }
        let is_alone = |inputs: &LevelInputs| inputs.level != output_level;
        let can_move = match inputs {
            [inputs] if inputs.level > 0 => is_alone(inputs),
            [inputs] => {
                let allowed = options.compaction_options_universal.allow_trivial_move;
                is_alone(inputs) && allowed && self.scene.are_disjoint(&inputs.files)
            }
            _ => false,
        };
        can_move && !(reason == CompactionReason::Manual && options.removes_rows())
    }
}

impl Merge {
    /// What is left of it: levels that are empty already are room for what is newer. `None` if it is done.
    fn rest(&self, version: &Version) -> Option<Self> {
        let first_level = (self.first_level..self.output_level).find(|level| !version.files(*level).is_empty())?;
        Some(Self { first_level, output_level: self.output_level })
    }

    /// Whether its levels are one run.
    pub(crate) fn is_done(&self, version: &Version) -> bool {
        (self.first_level..self.output_level).all(|level| version.files(level).is_empty())
    }
}
