//! The compactions of one family that run at the same time: what a pick must keep away from.

use super::{Compaction, Merge};
use crate::key::InternalKeyComparator;
use crate::version::Version;
use siltstone_base::sync::atomic::Ordering;

/// The running compactions of one family. Guarded by the database's state lock.
///
/// Invariant: an input's flag `being_compacted` is set exactly while a registered compaction has it.
#[derive(Debug, Default)]
pub(crate) struct Running {
    next_id: u64,
    compactions: Vec<RunningCompaction>,
    /// The merge of whole levels that was begun last; it may be done.
    merge: Option<Merge>,
    /// Somebody who is not urgent had a turn since level 0 had its last one.
    is_level0_owed: bool,
}

/// Names a registered compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunningId(u64);

/// A moment between two registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RunningMark(u64);

#[derive(Debug)]
struct RunningCompaction {
    id: RunningId,
    start_level: usize,
    output_level: usize,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// `largest` is the exclusive end of a range tombstone.
    is_end_exclusive: bool,
    moving: Moving,
}

/// What a running compaction moves down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moving {
    /// The level that it empties in part.
    pub(crate) start_level: usize,
    /// The level that it writes to.
    pub(crate) output_level: usize,
    /// Files of the start level.
    pub(crate) start_files: usize,
    /// Their bytes.
    pub(crate) start_bytes: u64,
    /// Bytes of all inputs. 0 if they just change their level.
    pub(crate) input_bytes: u64,
}

impl Moving {
    fn of(compaction: &Compaction) -> Self {
        if !compaction.is_owed() {
            let (start_level, output_level) = (compaction.start_level(), compaction.output_level);
            return Self { start_level, output_level, start_files: 0, start_bytes: 0, input_bytes: 0 };
        }
        let start = compaction.inputs.first().map_or(&[][..], |inputs| &inputs.files);
        Self {
            start_level: compaction.start_level(),
            output_level: compaction.output_level,
            start_files: start.len(),
            start_bytes: start.iter().map(|file| file.file_size).fold(0, u64::saturating_add),
            input_bytes: if compaction.is_edit() { 0 } else { compaction.input_bytes() },
        }
    }
}

impl Running {
    /// Marks the inputs of `compaction` and keeps its range away from others.
    pub(crate) fn register(&mut self, compaction: &Compaction) -> RunningId {
        for (_, file) in compaction.input_files() {
            file.being_compacted.store(true, Ordering::Relaxed);
            // Where it only moves, reads pay anew.
            file.read_bytes.store(0, Ordering::Relaxed);
        }
        let id = RunningId(self.next_id);
        self.next_id += 1;
        // Tables that just go are no part of one.
        if !compaction.deletes {
            self.merge.clone_from(&compaction.merge);
        }
        if compaction.start_level() == 0 {
            self.is_level0_owed = false;
        } else if !compaction.reason.is_urgent() && !compaction.is_edit() {
            self.is_level0_owed = true;
        }
        let (smallest, largest) = compaction.user_key_range();
        let order = compaction.input_version.comparator();
        let is_end_exclusive = compaction.input_files().all(|(_, file)| file.ends_before(order, largest));
        self.compactions.push(RunningCompaction {
            id,
            start_level: compaction.start_level(),
            output_level: compaction.output_level,
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
            is_end_exclusive,
            moving: Moving::of(compaction),
        });
        id
    }

    /// The reverse of [`register`](Self::register), when the compaction is installed or has failed.
    pub(crate) fn unregister(&mut self, id: RunningId, compaction: &Compaction) {
        for (_, file) in compaction.input_files() {
            file.being_compacted.store(false, Ordering::Relaxed);
        }
        self.compactions.retain(|running| running.id != id);
    }

    /// Keeps `smallest..=largest` of `level` away from compactions for somebody who adds a table there. REQUIRES: no merge [is under way](Self::is_merging).
    pub(crate) fn reserve(&mut self, level: usize, smallest: &[u8], largest: &[u8]) -> RunningId {
        // The last one is done; what comes to its levels now is none of its business.
        self.merge = None;
        let id = RunningId(self.next_id);
        self.next_id += 1;
        self.compactions.push(RunningCompaction {
            id,
            // Nothing is taken away from a level; level 0 is never reserved.
            start_level: level,
            output_level: level,
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
            is_end_exclusive: false,
            moving: Moving { start_level: level, output_level: level, start_files: 0, start_bytes: 0, input_bytes: 0 },
        });
        id
    }

    /// The reverse of [`reserve`](Self::reserve).
    pub(crate) fn release(&mut self, id: RunningId) {
        self.compactions.retain(|running| running.id != id);
    }

    /// Tells those that are registered now from later ones.
    pub(crate) fn mark(&self) -> RunningMark {
        RunningMark(self.next_id)
    }

    /// Whether one of before `mark` still runs that has user keys from `begin` to `end`, both inclusive; `None` is no bound.
    pub(crate) fn has_before(
        &self,
        mark: RunningMark,
        order: &InternalKeyComparator,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> bool {
        self.compactions.iter().any(|running| {
            running.id.0 < mark.0
                && end.is_none_or(|end| order.compare_user(&running.smallest, end).is_le())
                && begin.is_none_or(|begin| order.compare_user(begin, &running.largest).is_le())
        })
    }

    /// What each of them moves.
    pub(crate) fn moving(&self) -> Vec<Moving> {
        self.compactions.iter().map(|running| running.moving).collect()
    }

    /// The merge of whole levels that is under way, unless it is done.
    pub(super) fn merge(&self) -> Option<&Merge> {
        self.merge.as_ref()
    }

    /// Whether a merge of whole levels is under way.
    pub(crate) fn is_merging(&self, version: &Version) -> bool {
        self.merge.as_ref().is_some_and(|merge| !merge.is_done(version))
    }

    /// As if a piece of `merge` had been begun.
    #[cfg(test)]
    pub(super) fn set_merge_for_test(&mut self, merge: Merge) {
        self.merge = Some(merge);
    }

    /// Whether a compaction that is not urgent began since one of level 0 did: it is the turn of level 0 where that is due.
    pub(super) fn is_level0_owed(&self) -> bool {
        self.is_level0_owed
    }

    /// Whether level 0 is being compacted.
    pub(crate) fn has_level0(&self) -> bool {
        self.compactions.iter().any(|running| running.start_level == 0)
    }

    /// Whether one of them writes to `level` within the range of user keys.
    pub(crate) fn writes_to(
        &self,
        order: &InternalKeyComparator,
        level: usize,
        smallest: &[u8],
        largest: &[u8],
    ) -> bool {
        self.compactions.iter().any(|running| {
            let beyond = order.compare_user(smallest, &running.largest);
            running.output_level == level
                && order.compare_user(&running.smallest, largest).is_le()
                && (beyond.is_lt() || beyond.is_eq() && !running.is_end_exclusive)
        })
    }
}
