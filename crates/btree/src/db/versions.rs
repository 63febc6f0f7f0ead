//! Older versions of rows: what readers see while a newer state is not theirs to see.
//!
//! A group of writes that is not one row, that cursors must not see, or that is not safe yet, keeps for each row that it changes what the row was
//! before. It does so before it changes the page. A reader looks at the page first and here second: if the page was changed by such a group the version is
//! here, until the group is visible and no cursor is older. What would take more memory than it may goes to the undo log instead, with stamps in the rows.
//!
//! A group that fails is never made visible: what it changed stays hidden for the rest of the engine's life.

use siltstone_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use siltstone_base::sync::{Mutex, Rank};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Taken under the latch of a leaf.
const RANK: Rank = Rank(500);

/// What a row's cell was before a group changed it, flags and bytes with no reference to a long value; `None`: it was not there.
pub(super) type Before = Option<(u8, Vec<u8>)>;

/// The older versions of all rows. Any thread may use it.
#[derive(Debug)]
pub(super) struct Versions {
    inner: Mutex<Inner>,
    /// Versions that are kept.
    kept: AtomicUsize,
    /// Live snapshots.
    live: AtomicUsize,
    /// Groups with stamps that are not visible yet.
    stamped: AtomicUsize,
    /// Groups that were forgotten because they failed.
    abandoned: AtomicU64,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Inner {
    /// The number of the last group.
    last: u64,
    /// The last group that readers see.
    visible: u64,
    /// Live snapshots: the group that each sees last, and how many see it. Oldest first.
    snapshots: VecDeque<(u64, usize)>,
    /// Groups that are not visible, and the numbers that stand in the stamps of their rows. In the order of groups.
    stamps: VecDeque<(u64, u64)>,
    /// By tablespace and key: the groups that changed the row, oldest first, each with what the row was before.
    rows: BTreeMap<Vec<u8>, Vec<(u64, Before)>>,
    /// What was kept, in the order of groups.
    order: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
}

fn full_key(space: u32, key: &[u8]) -> Vec<u8> {
    [&space.to_be_bytes(), key].concat()
}

impl Versions {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            inner: Mutex::new(RANK, Inner::default()),
            kept: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            stamped: AtomicUsize::new(0),
            abandoned: AtomicU64::new(0),
            max_bytes,
        }
    }

    /// Whether nothing is kept: every page shows what everyone may see.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.kept.load(Ordering::Acquire) == 0
    }

    /// Whether a cursor is alive. For who holds the lock of writers: nobody takes a snapshot meanwhile.
    #[inline]
    pub(super) fn has_snapshots(&self) -> bool {
        self.live.load(Ordering::Acquire) > 0
    }

    /// The number of the group that begins.
    pub(super) fn begin(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.last += 1;
        inner.last
    }

    /// Keeps what a row was before `group` changes it for the first time.
    pub(super) fn keep(&self, group: u64, space: u32, key: &[u8], before: Option<(u8, &[u8])>) {
        let full = full_key(space, key);
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let versions = inner.rows.entry(full.clone()).or_default();
        if versions.last().is_some_and(|(last, _)| *last == group) {
            return;
        }
        inner.bytes += 2 * full.len() + before.map_or(0, |(_, bytes)| bytes.len()) + 128;
        versions.push((group, before.map(|(flags, bytes)| (flags, bytes.to_vec()))));
        inner.order.push_back((group, full));
        self.kept.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes note that rows of a group that was made have stamps of a number. For who holds the lock of writers: nobody publishes the group, or a later one, before.
    pub(super) fn note_stamps(&self, group: u64, id: u64) {
        self.inner.lock().stamps.push_back((group, id));
        self.stamped.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether groups with stamps wait for being visible. For who is to publish a group: those before it are counted.
    #[inline]
    pub(super) fn has_stamped(&self) -> bool {
        self.stamped.load(Ordering::Acquire) > 0
    }

    /// Makes a group, and those before it, visible. Returns the numbers of their stamps, which must end at the same moment.
    pub(super) fn publish(&self, group: u64) -> Vec<u64> {
        let mut inner = self.inner.lock();
        inner.visible = inner.visible.max(group);
        let mut ended = Vec::new();
        while let Some((_, id)) = inner.stamps.front().copied().filter(|(stamped, _)| *stamped <= inner.visible) {
            inner.stamps.pop_front();
            ended.push(id);
        }
        if !ended.is_empty() {
            self.stamped.fetch_sub(ended.len(), Ordering::AcqRel);
        }
        self.prune(&mut inner);
        ended
    }

    /// Counts groups that were forgotten. A reader for whom it changed between looking at a page and looking here may have missed that what the page showed is undone.
    #[inline]
    pub(super) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Forgets a group whose changes were all undone. No later one has begun.
    pub(super) fn abandon(&self, group: u64) {
        let mut inner = self.inner.lock();
        // Before anything goes: who misses a version sees that the count changed.
        self.abandoned.fetch_add(1, Ordering::AcqRel);
        while inner.order.back().is_some_and(|(last, _)| *last == group) {
            let Some((_, full)) = inner.order.pop_back() else { break };
            if let Some(versions) = inner.rows.get_mut(&full)
                && versions.last().is_some_and(|(last, _)| *last == group)
            {
                let before = versions.pop().and_then(|(_, before)| before);
                let is_gone = versions.is_empty();
                inner.forget(&full, before.as_ref(), is_gone);
                self.kept.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// A snapshot of what is visible now. Nobody writes meanwhile, but for groups that are numbered and not visible.
    pub(super) fn snapshot(&self) -> u64 {
        let mut inner = self.inner.lock();
        let visible = inner.visible;
        // What is visible only ever grows.
        match inner.snapshots.back_mut() {
            Some((newest, count)) if *newest == visible => *count += 1,
            _ => inner.snapshots.push_back((visible, 1)),
        }
        self.live.fetch_add(1, Ordering::AcqRel);
        visible
    }

    /// Takes a snapshot once more that somebody has.
    pub(super) fn share(&self, snapshot: u64) {
        let mut inner = self.inner.lock();
        if let Ok(index) = inner.snapshots.binary_search_by_key(&snapshot, |(seen, _)| *seen) {
            inner.snapshots[index].1 += 1;
            self.live.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether what is kept takes as much memory as it may: more for old snapshots goes to the undo log.
    pub(super) fn is_full(&self) -> bool {
        self.inner.lock().bytes >= self.max_bytes
    }

    /// Gives a snapshot back.
    pub(super) fn release(&self, snapshot: u64) {
        let mut inner = self.inner.lock();
        if let Ok(index) = inner.snapshots.binary_search_by_key(&snapshot, |(seen, _)| *seen) {
            inner.snapshots[index].1 -= 1;
            self.live.fetch_sub(1, Ordering::AcqRel);
            if inner.snapshots[index].1 == 0 {
                inner.snapshots.remove(index);
            }
        }
        self.prune(&mut inner);
    }

    /// Drops what nobody needs.
    fn prune(&self, inner: &mut Inner) {
        let oldest = inner.snapshots.front().map_or(u64::MAX, |(oldest, _)| *oldest);
        self.drop_up_to(inner, inner.visible.min(oldest));
    }

    fn drop_up_to(&self, inner: &mut Inner, horizon: u64) {
        while inner.order.front().is_some_and(|(group, _)| *group <= horizon) {
            let Some((group, full)) = inner.order.pop_front() else { break };
            if let Some(versions) = inner.rows.get_mut(&full)
                && versions.first().is_some_and(|(first, _)| *first == group)
            {
                let (_, before) = versions.remove(0);
                let is_gone = versions.is_empty();
                inner.forget(&full, before.as_ref(), is_gone);
                self.kept.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// What a row was for a snapshot, or for who sees what is visible now; `None`: what its page says.
    pub(super) fn find(&self, snapshot: Option<u64>, space: u32, key: &[u8]) -> Option<Before> {
        let inner = self.inner.lock();
        let seen = snapshot.unwrap_or(inner.visible);
        let versions = inner.rows.get(&full_key(space, key))?;
        versions.iter().find(|(group, _)| *group > seen).map(|(_, before)| before.clone())
    }

    /// Rows between two keys that were different for a snapshot, in the order of their keys.
    pub(super) fn range(
        &self,
        snapshot: u64,
        space: u32,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Vec<(Vec<u8>, Before)> {
        let low = match low {
            Bound::Unbounded => Bound::Included(full_key(space, b"")),
            bound => bound.map(|key| full_key(space, key)),
        };
        let high = match high {
            Bound::Unbounded => match space.checked_add(1) {
                Some(next) => Bound::Excluded(full_key(next, b"")),
                None => Bound::Unbounded,
            },
            bound => bound.map(|key| full_key(space, key)),
        };
        let inner = self.inner.lock();
        let rows = inner.rows.range((low, high));
        let found = rows.filter_map(|(full, versions)| {
            let (_, before) = versions.iter().find(|(group, _)| *group > snapshot)?;
            Some((full[4..].to_vec(), before.clone()))
        });
        found.collect()
    }
}

impl Inner {
    fn forget(&mut self, full: &[u8], before: Option<&(u8, Vec<u8>)>, is_gone: bool) {
        self.bytes = self.bytes.saturating_sub(2 * full.len() + before.map_or(0, |(_, bytes)| bytes.len()) + 128);
        if is_gone {
            self.rows.remove(full);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(before: Option<&str>) -> Option<Before> {
        Some(before.map(|text| (0, text.as_bytes().to_vec())))
    }

    #[test]
    fn readers_see_what_was_visible_to_them() {
        let versions = Versions::new(1 << 20);
        let first = versions.begin();
        versions.keep(first, 1, b"a", None);
        versions.keep(first, 1, b"a", Some((0, b"its own change is not kept")));
        assert_eq!(versions.find(None, 1, b"a"), text(None));
        let before = versions.snapshot();
        versions.publish(first);
        assert_eq!(versions.find(None, 1, b"a"), None);
        assert_eq!(versions.find(Some(before), 1, b"a"), text(None));
        let second = versions.begin();
        versions.keep(second, 1, b"a", Some((0, b"1")));
        versions.keep(second, 1, b"c", Some((0, b"3")));
        versions.keep(second, 2, b"b", Some((0, b"elsewhere")));
        let between = versions.snapshot();
        versions.publish(second);
        assert_eq!(versions.find(Some(between), 1, b"a"), text(Some("1")));
        let all = versions.range(before, 1, Bound::Unbounded, Bound::Unbounded);
        assert_eq!(all, [(b"a".to_vec(), None), (b"c".to_vec(), Some((0, b"3".to_vec())))]);
        assert_eq!(versions.range(before, 1, Bound::Excluded(b"a"), Bound::Included(b"b")), []);
        versions.release(before);
        assert!(!versions.is_empty());
        versions.release(between);
        assert!(versions.is_empty());
        assert_eq!(versions.inner.lock().bytes, 0);
    }

    #[test]
    fn a_group_that_was_undone_leaves_nothing_and_memory_is_counted() {
        let versions = Versions::new(1000);
        let group = versions.begin();
        versions.keep(group, 1, b"a", None);
        let before = versions.abandoned();
        versions.abandon(group);
        assert!(versions.is_empty());
        assert_ne!(versions.abandoned(), before, "who read the page before knows");
        let snapshot = versions.snapshot();
        let group = versions.begin();
        assert!(!versions.is_full());
        versions.keep(group, 1, b"a", Some((0, &[0; 2000])));
        versions.publish(group);
        assert!(versions.is_full());
        versions.share(snapshot);
        versions.release(snapshot);
        assert_eq!(versions.find(Some(snapshot), 1, b"a").flatten().map(|(_, bytes)| bytes.len()), Some(2000));
        versions.release(snapshot);
        assert!(versions.is_empty() && !versions.is_full() && !versions.has_snapshots());
    }
}
