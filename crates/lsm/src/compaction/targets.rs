//! How large levels should be, how far each is above that, and how much work that means: pure functions.
//!
//! The rules are those of RocksDB's leveled style, so that options mean the same and debt can be compared.

use crate::options::ColumnFamilyOptions;
use crate::version::Version;

/// What scores at or above 1 are multiplied by, so that a level that is being filled from above can be told from one that is not.
const SCORE_SCALE: f64 = 10.0;

/// What the score of level 0 counts beside those of other levels while it has few files. While it waits its batch grows, and every batch is merged with all of the base
/// level: to bring that to its size first costs level 0 little and saves rewriting.
const LEVEL0_PATIENCE: f64 = 0.35;

/// The same where writers are about to be stopped.
const LEVEL0_HASTE: f64 = 10.0;

/// The target sizes of a version's levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LevelTargets {
    /// The level that level 0 is compacted into.
    pub(crate) base_level: usize,
    /// Bytes that each level may have; level 0 and levels above the base level: no limit.
    pub(crate) max_bytes: Vec<u64>,
    /// The last level that has data although the tree needs fewer levels; it is drained. 0: none.
    pub(crate) lowest_unnecessary_level: usize,
    /// The same where level 0 makes sublevels: then the targets beneath are those of the tree without these levels. 0: none.
    pub(crate) lowest_sublevel: usize,
}

/// How urgently a level needs a compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LevelScore {
    /// The level.
    pub(crate) level: usize,
    /// At or above 1: it is eligible. The larger goes first.
    pub(crate) score: f64,
}

impl LevelTargets {
    /// The targets of `version` under `options`.
    pub(crate) fn new(version: &Version, options: &ColumnFamilyOptions) -> Self {
        if options.level_compaction_dynamic_level_bytes {
            return Self::dynamic(version, options);
        }
        let mut max_bytes = vec![u64::MAX; version.num_levels()];
        let mut target = options.max_bytes_for_level_base;
        for bytes in max_bytes.iter_mut().skip(1) {
            *bytes = target;
            target = target.saturating_mul(options.max_bytes_for_level_multiplier);
        }
        Self { base_level: 1, max_bytes, lowest_unnecessary_level: 0, lowest_sublevel: 0 }
    }

    /// Bytes that may stay in a level: none in sublevels.
    pub(crate) fn lasting_bytes(&self, level: usize) -> u64 {
        if level <= self.lowest_sublevel { 0 } else { self.max_bytes[level] }
    }

    /// Targets derived from the largest level, which is taken to be full: each level above is smaller by the multiplier, and the one
    /// that comes out between `base / multiplier` and `base` is the base level.
    fn dynamic(version: &Version, options: &ColumnFamilyOptions) -> Self {
        let last = version.num_levels() - 1;
        let multiplier = options.max_bytes_for_level_multiplier.max(2);
        let base_max = options.max_bytes_for_level_base;
        let base_min = base_max / multiplier;
        let mut max_bytes = vec![u64::MAX; version.num_levels()];
        let largest = (1..=last).map(|level| version.level_bytes(level)).max().unwrap_or(0);
        let first_with_data = (1..=last).find(|level| version.level_bytes(*level) > 0);
        let Some(first_with_data) = first_with_data else {
            // Nothing below level 0: it is compacted straight into the last level.
            return Self { base_level: last, max_bytes, lowest_unnecessary_level: 0, lowest_sublevel: 0 };
        };
        let mut size = largest;
        let (mut lowest_unnecessary_level, mut needed_size) = (0, largest);
        for level in (first_with_data..last).rev() {
            size /= multiplier;
            if lowest_unnecessary_level == 0 && size <= base_min {
                lowest_unnecessary_level = level;
            }
            if lowest_unnecessary_level == 0 {
                needed_size = size;
            }
        }
        let lowest_sublevel = if options.level0_sublevels { lowest_unnecessary_level } else { 0 };
        let mut base_level = first_with_data;
        let base_size = if size <= base_min {
            base_min + 1
        } else {
            while base_level > 1 && size > base_max {
                base_level -= 1;
                size /= multiplier;
            }
            size.clamp(1, base_max.max(1))
        };
        let (first, mut target) = match lowest_sublevel {
            0 => (base_level, base_size),
            sublevel => (sublevel + 1, needed_size.clamp(1, base_max.max(1))),
        };
        max_bytes[base_level..first].fill(base_max);
        for bytes in max_bytes.iter_mut().skip(first) {
            // No level has less room than `base_max`: else level 0 would seem larger than what is beneath it.
            *bytes = target.max(base_max);
            target = target.saturating_mul(multiplier);
        }
        Self { base_level, max_bytes, lowest_unnecessary_level, lowest_sublevel }
    }
}

/// Scores of the levels that may need a compaction, the most urgent first.
pub(crate) fn level_scores(
    version: &Version,
    options: &ColumnFamilyOptions,
    targets: &LevelTargets,
) -> Vec<LevelScore> {
    scores_by(version, options, targets, idle_bytes)
}

/// Whether level 0 is due and more urgent than any other level, what compactions read there included.
pub(crate) fn is_level0_first(version: &Version, options: &ColumnFamilyOptions, targets: &LevelTargets) -> bool {
    let scores = scores_by(version, options, targets, Version::level_bytes);
    scores.first().is_some_and(|first| first.level == 0 && first.score >= 1.0)
}

/// The scores, below level 0 by `bytes`.
fn scores_by(
    version: &Version,
    options: &ColumnFamilyOptions,
    targets: &LevelTargets,
    bytes: impl Fn(&Version, usize) -> u64,
) -> Vec<LevelScore> {
    let mut scores = vec![LevelScore { level: 0, score: level0_score(version, options, targets) }];
    // Bytes that levels above will soon push down to the level at hand.
    let mut incoming = version.level_bytes(0);
    for level in 1..version.num_levels() - 1 {
        let total = version.level_bytes(level);
        let idle = bytes(version, level);
        let target = targets.max_bytes[level];
        let is_unnecessary = level <= targets.lowest_unnecessary_level;
        let mut score = idle as f64 / target.max(1) as f64;
        if options.level_compaction_dynamic_level_bytes {
            if idle >= target {
                score = idle as f64 / target.saturating_add(incoming).max(1) as f64 * SCORE_SCALE;
            }
            if is_unnecessary && idle > 0 {
                // Drained from above, behind level 0 where that is eligible.
                let rank = (targets.lowest_unnecessary_level - level) as f64;
                score = score.max(SCORE_SCALE * LEVEL0_PATIENCE * (1.001 + 0.001 * rank));
            }
        }
        scores.push(LevelScore { level, score });
        incoming = incoming.saturating_add(if is_unnecessary { total } else { total.saturating_sub(target) });
    }
    scores.sort_by(|a, b| b.score.total_cmp(&a.score));
    scores
}

/// Whether level 0 has so much that no compaction reads that it is to be compacted.
pub(crate) fn is_level0_due(version: &Version, options: &ColumnFamilyOptions, targets: &LevelTargets) -> bool {
    level0_score(version, options, targets) >= 1.0
}

/// Level 0 by its number of files and by its size, of what no compaction reads already.
fn level0_score(version: &Version, options: &ColumnFamilyOptions, targets: &LevelTargets) -> f64 {
    let idle = version.files(0).iter().filter(|file| !file.is_being_compacted());
    let (count, bytes) = idle.fold((0u64, 0u64), |(count, bytes), file| (count + 1, bytes + file.file_size));
    let mut score = count as f64 / options.level0_file_num_compaction_trigger.max(1) as f64;
    let level_base = options.max_bytes_for_level_base;
    if !options.level_compaction_dynamic_level_bytes {
        return score.max(bytes as f64 / level_base.max(1) as f64);
    }
    if bytes >= level_base {
        score = score.max(1.01);
    }
    let base_target = targets.max_bytes[targets.base_level];
    if bytes > base_target {
        // Larger than the base level: goes before the base level's own compaction.
        score = score.max(bytes as f64 / version.level_bytes(targets.base_level).max(base_target) as f64);
    }
    if score > 1.0 { (score * SCORE_SCALE * level0_weight(count, options)).max(1.0) } else { score }
}

/// Patience up to the slowdown limit, where RocksDB's weight of 1 is reached; haste from there on.
fn level0_weight(count: u64, options: &ColumnFamilyOptions) -> f64 {
    let [trigger, slowdown, stop] = [
        options.level0_file_num_compaction_trigger,
        options.level0_slowdown_writes_trigger,
        options.level0_stop_writes_trigger,
    ]
    .map(|limit| limit as f64);
    let part = |from: f64, to: f64| ((count as f64 - from) / (to - from).max(1.0)).clamp(0.0, 1.0);
    let (near, over) = (part(trigger, slowdown), part(slowdown, stop));
    LEVEL0_PATIENCE + (1.0 - LEVEL0_PATIENCE) * near.powi(6) + (LEVEL0_HASTE - 1.0) * over
}

/// Bytes of a level that no compaction reads.
fn idle_bytes(version: &Version, level: usize) -> u64 {
    let idle = version.files(level).iter().filter(|file| !file.is_being_compacted());
    idle.map(|file| file.file_size).fold(0, u64::saturating_add)
}

/// Bytes that compactions must still read and write until no level is above its target.
///
/// RocksDB's estimate: what each level is too large by moves down and meets as much of the next level as their sizes say.
pub(crate) fn estimated_pending_compaction_bytes(
    version: &Version,
    options: &ColumnFamilyOptions,
    targets: &LevelTargets,
) -> u64 {
    let level0 = version.level_bytes(0);
    let trigger = options.level0_file_num_compaction_trigger;
    let level0_is_due = version.files(0).len() >= trigger || level0 >= options.max_bytes_for_level_base;
    let (mut estimate, mut moving) = if level0_is_due { (level0, level0) } else { (0, 0) };
    for level in targets.base_level..version.num_levels() - 1 {
        let mut size = version.level_bytes(level);
        if level == targets.base_level && level0_is_due {
            estimate = estimate.saturating_add(size);
        }
        size = size.saturating_add(moving);
        moving = size.saturating_sub(targets.max_bytes[level]);
        let below = version.level_bytes(level + 1);
        if moving > 0 && below > 0 {
            let fan_out = below as f64 / size as f64 + 1.0;
            estimate = estimate.saturating_add((moving as f64 * fan_out) as u64);
        }
    }
    estimate
}
