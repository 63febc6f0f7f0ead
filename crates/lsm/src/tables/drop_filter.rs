//! Drops the entries of dropped indexes while compactions rewrite them, and keeps indexes in tables of their own.

use super::layout::IndexId;
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, ArcSwap};

/// The dropped indexes of which entries may be left, in ascending order. Shared by the dictionary, which adds and removes,
/// and the filter, which asks.
///
/// An id is added only once its mark is durable: a filter never removes what a crash could bring back into use.
#[derive(Debug, Default)]
pub(crate) struct DroppedIndexes {
    ids: ArcSwap<Vec<IndexId>>,
    /// Whether there are any. This is asked for every entry that a compaction meets.
    is_any: AtomicBool,
}

impl DroppedIndexes {
    /// Adds ids. REQUIRES: the caller is the only one that adds or removes.
    pub(crate) fn add(&self, added: impl IntoIterator<Item = IndexId>) {
        let mut ids = Vec::clone(&self.ids.load());
        ids.extend(added);
        ids.sort_unstable();
        ids.dedup();
        self.store(ids);
    }

    /// Removes ids. REQUIRES: the caller is the only one that adds or removes.
    pub(crate) fn remove(&self, removed: &[IndexId]) {
        let mut ids = Vec::clone(&self.ids.load());
        ids.retain(|id| !removed.contains(id));
        self.store(ids);
    }

    fn store(&self, ids: Vec<IndexId>) {
        let is_any = !ids.is_empty();
        self.ids.store(Arc::new(ids));
        self.is_any.store(is_any, Ordering::Release);
    }

    /// All ids, ascending.
    pub(crate) fn all(&self) -> Vec<IndexId> {
        Vec::clone(&self.ids.load())
    }

    /// Whether an index is dropped. Its entries are only removed once this says so: what was read, or pinned, before is whole.
    #[inline]
    pub(crate) fn contains(&self, id: IndexId) -> bool {
        self.ids.load().binary_search(&id).is_ok()
    }

    #[inline]
    fn contains_key(&self, key: &[u8]) -> bool {
        self.is_any.load(Ordering::Acquire) && IndexId::of_key(key).is_some_and(|id| self.contains(id))
    }
}

/// The filter of the shared family: entries of dropped indexes go, the user's own filter decides about the others.
#[derive(Debug)]
pub(crate) struct DropFilter {
    pub(crate) dropped: Arc<DroppedIndexes>,
    pub(crate) user: Option<Arc<dyn EntryFilter>>,
}

impl EntryFilter for DropFilter {
    fn name(&self) -> &str {
        self.user.as_ref().map_or("siltstone.DroppedIndexes", |user| user.name())
    }

    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> Decision {
        if self.dropped.contains_key(key) {
            return Decision::Remove;
        }
        self.user.as_ref().map_or(Decision::Keep, |user| user.filter(level, key, value))
    }

    /// Indexes are dropped one by one.
    fn part(&self, key: &[u8]) -> u64 {
        IndexId::of_key(key).map_or(0, |id| u64::from(id.0))
    }
}
