//! Which WALs must stay: those with entries that are in no table, and those that prepared what is undecided, or what is committed and in no table.
//!
//! The MANIFEST states the oldest of them, and says so only in an edit for which it was computed, under the lock of the versions: a WAL that has a
//! prepared transaction is not told by the log numbers of families.

use super::column_family::Family;
use super::state::DbInner;
use siltstone_base::sync::Arc;
use std::collections::BTreeMap;

impl DbInner {
    /// The oldest WAL that any family needs, but for memtables that `is_gone` says are none: the family, and the memtable's number. `next` if none needs an older one.
    pub(crate) fn oldest_needed_log(&self, next: u64, is_gone: impl Fn(&Family, u64) -> bool) -> u64 {
        let needed = |family: &Arc<Family>| family.oldest_needed_log(|id| is_gone(family, id));
        self.families.load().values().filter_map(needed).fold(next, u64::min)
    }

    /// The oldest WAL that has what was prepared and is undecided, or in a memtable that `is_gone` does not name.
    pub(crate) fn oldest_prepared_log(&self, is_gone: impl Fn(&Family, u64) -> bool) -> Option<u64> {
        // First: one that is committed meanwhile is in memtables by then.
        let undecided = self.prepared_logs.oldest();
        let families = self.families.load();
        let committed = families.values().filter_map(|family| family.oldest_prepared_log(|id| is_gone(family, id)));
        committed.chain(undecided).min()
    }

    /// Bytes of the WALs that stay for what was prepared, and for nothing else.
    pub(crate) fn prepared_log_bytes(&self) -> u64 {
        let Some(oldest) = self.oldest_prepared_log(|_, _| false) else { return 0 };
        let state = self.state.lock();
        // The last one is being written.
        let newest = state.wals.back().map_or(0, |wal| wal.number);
        let needed = self.oldest_needed_log(newest, |_, _| false);
        state.wals.iter().filter(|wal| (oldest..needed).contains(&wal.number)).map(|wal| wal.size).sum()
    }

    /// Families whose active memtables keep the oldest WALs although these could go: to flush them is what makes the WALs together smaller. And the oldest WAL
    /// of those that flushes can free at all; what lies below is held by transactions that nobody has decided about.
    pub(crate) fn who_pins_logs(&self) -> Option<(u64, Vec<Arc<Family>>)> {
        let undecided = self.prepared_logs.oldest();
        let families = self.families.load();
        // A WAL that an undecided transaction holds anyway is not freed by what was committed of others in it.
        let is_free = |log: &u64| undecided.is_none_or(|undecided| *log < undecided);
        let mut oldest_by_family = BTreeMap::new();
        for family in families.values() {
            let needed = family.oldest_needed_log(|_| false);
            let prepared = family.oldest_prepared_log(|_| false).filter(is_free);
            oldest_by_family.extend(needed.into_iter().chain(prepared).min().map(|oldest| (family.id, oldest)));
        }
        let oldest = oldest_by_family.values().copied().min()?;
        let active_log = |family: &Family| {
            let pinned = family.super_version.load();
            let prepared = pinned.memtable.prepared_log().filter(is_free);
            (!pinned.memtable.is_empty())
                .then(|| prepared.map_or(pinned.memtable.id(), |log| log.min(pinned.memtable.id())))
        };
        let pinning = |family: &&Arc<Family>| active_log(family) == Some(oldest);
        Some((oldest, families.values().filter(pinning).cloned().collect()))
    }
}
