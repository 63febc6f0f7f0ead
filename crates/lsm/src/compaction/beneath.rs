//! Whether older data of a key lies beneath the outputs of a compaction.

use super::Compaction;
use crate::file_meta::FileMeta;
use crate::key::InternalKeyComparator;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;

/// Answers for ascending keys, so that each level is walked once.
#[derive(Debug)]
pub(super) struct Beneath {
    order: InternalKeyComparator,
    /// Of each sorted run below the outputs that has any: its tables in the range of the compaction.
    levels: Vec<Walk>,
}

/// Tables of level 0 that stay, and are older than outputs that go there.
fn older_in_level0(compaction: &Compaction) -> Vec<Arc<FileMeta>> {
    let oldest = compaction.inputs.first().filter(|inputs| inputs.level == 0).and_then(|inputs| inputs.files.last());
    let Some(oldest) = oldest.filter(|_| compaction.output_level == 0) else { return Vec::new() };
    let newest_first = compaction.input_version.files(0).iter();
    newest_first.skip_while(|file| file.number != oldest.number).skip(1).cloned().collect()
}

#[derive(Debug)]
struct Walk {
    files: Vec<Arc<FileMeta>>,
    /// Tables before this one end before every key still to come.
    position: usize,
}

impl Beneath {
    /// What lies beneath `compaction`.
    pub(super) fn new(compaction: &Compaction) -> Self {
        let version = &compaction.input_version;
        let order = version.comparator().clone();
        if is_planted(PlantedBug::TombstoneDroppedTooEarly) {
            return Self { order, levels: Vec::new() };
        }
        let (smallest, largest) = compaction.user_key_range();
        let below = compaction.output_level + 1..version.num_levels();
        let files = below.map(|level| version.overlapping_files(level, Some(smallest), Some(largest)));
        let level0 = older_in_level0(compaction).into_iter().map(|file| vec![file]);
        let runs = level0.chain(files).filter(|files| !files.is_empty());
        let levels = runs.map(|files| Walk { files, position: 0 }).collect();
        Self { order, levels }
    }

    /// Whether a table beneath may have `key`. Keys ascend from call to call.
    pub(super) fn may_have(&mut self, key: &[u8]) -> bool {
        self.levels.iter_mut().any(|walk| {
            let ends_before = |file: &&Arc<FileMeta>| file.ends_before(&self.order, key);
            walk.position += walk.files[walk.position..].iter().take_while(ends_before).count();
            let next = walk.files.get(walk.position);
            next.is_some_and(|file| self.order.compare_user(file.smallest.user_key(), key).is_le())
        })
    }

    /// Whether a table beneath may have a key from `start` to `end`, exclusive. In any order of calls.
    pub(super) fn may_have_any(&self, start: &[u8], end: &[u8]) -> bool {
        self.levels.iter().any(|walk| {
            let first = walk.files.partition_point(|file| file.ends_before(&self.order, start));
            let next = walk.files.get(first);
            next.is_some_and(|file| self.order.compare_user(file.smallest.user_key(), end).is_lt())
        })
    }
}
