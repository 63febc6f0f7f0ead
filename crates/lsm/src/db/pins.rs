//! What readers keep that the newest state of a family does not have any more: memtables that were flushed, tables that were compacted away.
//!
//! Each state that a newer one replaces is remembered weakly, so that readers need not register: whether somebody holds it, its own count says.

use super::iter::Iter;
use super::super_version::SuperVersion;
use crate::memtable::Memtable;
use siltstone_base::sync::{Arc, Mutex, Rank, Weak};
use std::collections::HashSet;

/// Rank of the list: taken under the state lock.
const RANK: Rank = Rank(360);

/// A state of a column family that a newer one replaced, and that somebody still reads.
///
/// Each state is counted by itself: what two of them hold is in both.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedState {
    /// How many iterators hold it.
    pub holders: usize,
    /// Microseconds since it was replaced.
    pub age_micros: u64,
    /// Memtables in it that the newest state does not have.
    pub memtables: usize,
    /// Bytes of those.
    pub memtable_bytes: u64,
    /// Tables in it that the newest state does not have; their files stay until nobody holds them.
    pub tables: usize,
    /// Bytes of those.
    pub table_bytes: u64,
}

/// What one iterator holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IterPins {
    /// Memtables, the one that was written when it was made included.
    pub memtables: usize,
    /// Bytes of those.
    pub memtable_bytes: u64,
    /// Tables; their files stay.
    pub tables: usize,
    /// Bytes of those.
    pub table_bytes: u64,
    /// Bytes of blocks in memory: at most two a source. The block cache counts them as used.
    pub block_bytes: u64,
}

/// The states of one family that were replaced.
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug)]
pub(super) struct Replaced {
    /// Oldest first; those that nobody holds go with the next one that comes.
    states: Mutex<Vec<(Weak<SuperVersion>, u64)>>,
}

impl Replaced {
    pub(super) fn new() -> Self {
        Self { states: Mutex::new(RANK, Vec::new()) }
    }

    /// Remembers a state that was replaced at `now_micros`.
    pub(super) fn add(&self, state: &Arc<SuperVersion>, now_micros: u64) {
        let mut states = self.states.lock();
        states.retain(|(state, _)| state.strong_count() > 0);
        states.push((Arc::downgrade(state), now_micros));
    }

    /// The states that somebody holds, oldest first, each with when it was replaced and by how many it is held.
    fn held(&self) -> Vec<(Arc<SuperVersion>, u64, usize)> {
        let upgraded = |(state, since): &(Weak<SuperVersion>, u64)| Some((state.upgrade()?, *since));
        let states: Vec<_> = self.states.lock().iter().filter_map(upgraded).collect();
        // A state whose last other holder has let go meanwhile is freed here, and not under the lock.
        let held = states.into_iter().filter_map(|(state, since)| {
            let holders = Arc::strong_count(&state).saturating_sub(1);
            (holders > 0).then_some((state, since, holders))
        });
        held.collect()
    }

    /// What is held beside `newest`, oldest first.
    pub(super) fn pinned_states(&self, newest: &SuperVersion, now_micros: u64) -> Vec<PinnedState> {
        let has: HashSet<*const Memtable> = newest.memtables().map(Arc::as_ptr).collect();
        let tables: HashSet<u64> = newest.version.all_files().map(|(_, file)| file.number).collect();
        let pinned = self.held().into_iter().map(|(state, since, holders)| {
            let memtables = || state.memtables().filter(|memtable| !has.contains(&Arc::as_ptr(memtable)));
            let gone = || state.version.all_files().filter(|(_, file)| !tables.contains(&file.number));
            PinnedState {
                holders,
                age_micros: now_micros.saturating_sub(since),
                memtables: memtables().count(),
                memtable_bytes: memtables().map(|memtable| memtable.approximate_memory_usage() as u64).sum(),
                tables: gone().count(),
                table_bytes: gone().map(|(_, file)| file.file_size).sum(),
            }
        });
        pinned.collect()
    }

    /// Bytes of memtables and of tables that are held beside `newest`, each once.
    pub(super) fn bytes_beside(&self, newest: &SuperVersion) -> (u64, u64) {
        let mut memtables: HashSet<*const Memtable> = newest.memtables().map(Arc::as_ptr).collect();
        let mut tables: HashSet<u64> = newest.version.all_files().map(|(_, file)| file.number).collect();
        let (mut memtable_bytes, mut table_bytes) = (0, 0);
        for (state, ..) in self.held() {
            for memtable in state.memtables().filter(|memtable| memtables.insert(Arc::as_ptr(memtable))) {
                memtable_bytes += memtable.reserved_memory() as u64;
            }
            for (_, file) in state.version.all_files().filter(|(_, file)| tables.insert(file.number)) {
                table_bytes += file.file_size;
            }
        }
        (memtable_bytes, table_bytes)
    }
}

impl Iter {
    /// What the iterator keeps from being freed and deleted. [`refresh`](Self::refresh) lets go of what is old.
    pub fn pins(&self) -> IterPins {
        let pinned = &self.pinned;
        IterPins {
            memtables: pinned.memtables().count(),
            memtable_bytes: pinned.memtables().map(|memtable| memtable.approximate_memory_usage() as u64).sum(),
            tables: pinned.version.all_files().count(),
            table_bytes: pinned.version.total_bytes(),
            block_bytes: self.merged.children().iter().map(|child| child.block_bytes() as u64).sum(),
        }
    }
}
