//! Transactions: which are active, what readers see of them, what waits for purge.
//!
//! A transaction's number says who wrote a row: it stands in the row's stamp. While the number is among the active ones, the stamp is also the lock of the row. It is
//! taken out when the transaction is committed and safe, or when all its changes are undone; locks that others waited for are given back behind that.
//!
//! A batch of writes without a transaction has a number only if it must leave older versions in the undo log.
//!
//! Order: the batches that a transaction built on are published to the versions first, then its number is taken out here. A batch with stamps is published, and its number
//! taken out, at one moment, whoever publishes it; a view is made at one moment too, by who holds the lock of writers. So a view sees all of a batch or nothing, and who sees a
//! writer sees all whom that one saw.

mod change;
mod engine;
mod handle;
mod locking;
mod purge;
mod recover;
#[cfg(test)]
mod tests;
mod view;

pub use handle::Transaction;
pub(super) use purge::wake_purge;
pub(super) use recover::{recover, wake_roll_back};
pub(super) use view::{Seen, View};

use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use siltstone_base::sync::{Mutex, Rank};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Taken under the lock of writers, and under the latch of a leaf.
const RANK: Rank = Rank(490);

/// Numbers that are reserved at a time in the undo log.
const RESERVED: u64 = 1024;

/// The transactions of an open database. Any thread may use it.
#[derive(Debug)]
pub(super) struct Transactions {
    inner: Mutex<Inner>,
    /// The lowest number that is active, or a lower one; `u64::MAX` if none is.
    lowest: AtomicU64,
    /// Those that may hold locks of rows: all but single batches.
    owners: AtomicUsize,
    pub(super) is_purging: AtomicBool,
    pub(super) is_rolling_back: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    /// The next number, and the one from which on none is reserved.
    next: u64,
    reserved: u64,
    active: BTreeSet<u64>,
    prepared: BTreeMap<Vec<u8>, u64>,
    /// Commits so far.
    commits: u64,
    /// Committed transactions whose records wait for purge, oldest first, each with the number of its commit.
    history: VecDeque<(u64, u64)>,
    /// Live views: the commits that each sees, and how many see them. Oldest first.
    views: VecDeque<(u64, usize)>,
    /// Transactions that nobody owns any more.
    abandoned: Vec<u64>,
}

impl Inner {
    /// Takes note of a view that sees what is committed now.
    fn add_view(&mut self) -> u64 {
        let commits = self.commits;
        match self.views.back_mut() {
            Some((newest, count)) if *newest == commits => *count += 1,
            _ => self.views.push_back((commits, 1)),
        }
        commits
    }

    /// Takes note of another view that sees the same as one that is alive.
    fn share_view(&mut self, commits: u64) {
        if let Ok(index) = self.views.binary_search_by_key(&commits, |(seen, _)| *seen) {
            self.views[index].1 += 1;
        }
    }

    fn remove_view(&mut self, commits: u64) {
        if let Ok(index) = self.views.binary_search_by_key(&commits, |(seen, _)| *seen) {
            self.views[index].1 -= 1;
            if self.views[index].1 == 0 {
                self.views.remove(index);
            }
        }
    }
}

impl Transactions {
    /// None, of which the next has the number `next`.
    pub(super) fn new(next: u64) -> Self {
        let inner = Inner {
            next,
            reserved: next,
            active: BTreeSet::new(),
            prepared: BTreeMap::new(),
            commits: 0,
            history: VecDeque::new(),
            views: VecDeque::new(),
            abandoned: Vec::new(),
        };
        Self {
            inner: Mutex::new(RANK, inner),
            lowest: AtomicU64::new(u64::MAX),
            owners: AtomicUsize::new(0),
            is_purging: AtomicBool::new(false),
            is_rolling_back: AtomicBool::new(false),
        }
    }

    /// Whether somebody but single batches may hold locks of rows.
    #[inline]
    pub(super) fn has_owners(&self) -> bool {
        self.owners.load(Ordering::Acquire) > 0
    }

    /// Whether the writer of a row has not ended. Under the latch of the row's leaf: whoever undoes a change ends later.
    #[inline]
    pub(super) fn is_active(&self, id: u64) -> bool {
        id >= self.lowest.load(Ordering::Acquire) && self.inner.lock().active.contains(&id)
    }

    /// A number, if one is left of those that are reserved. For who holds the lock of writers.
    fn take_id(&self) -> Option<u64> {
        let mut inner = self.inner.lock();
        let id = inner.next;
        (id < inner.reserved).then(|| {
            inner.next += 1;
            id
        })
    }

    fn next_reservation(&self) -> u64 {
        self.inner.lock().next.saturating_add(RESERVED)
    }

    fn reserve(&self, end: u64) {
        self.inner.lock().reserved = end;
    }

    /// Makes a number active.
    pub(super) fn activate(&self, id: u64, is_owner: bool) {
        let mut inner = self.inner.lock();
        inner.active.insert(id);
        self.lowest.fetch_min(id, Ordering::AcqRel);
        if is_owner {
            self.owners.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Takes a number out that is active. `has_history`: its records wait for purge.
    pub(super) fn end(&self, id: u64, is_owner: bool, has_history: bool) {
        self.end_within(&mut self.inner.lock(), id, is_owner, has_history);
    }

    fn end_within(&self, inner: &mut Inner, id: u64, is_owner: bool, has_history: bool) {
        let was_active = inner.active.remove(&id);
        inner.prepared.retain(|_, other| *other != id);
        if has_history {
            inner.commits += 1;
            let commit = inner.commits;
            inner.history.push_back((commit, id));
        }
        self.lowest.store(inner.active.first().copied().unwrap_or(u64::MAX), Ordering::Release);
        if is_owner && was_active {
            self.owners.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Committed transactions whose records are still there.
    pub(super) fn history_len(&self) -> usize {
        self.inner.lock().history.len()
    }

    /// The oldest committed transaction, if every live view sees it, and so will every later one.
    fn purgeable(&self) -> Option<u64> {
        let inner = self.inner.lock();
        let (commit, id) = *inner.history.front()?;
        let is_seen = inner.views.front().is_none_or(|(oldest, _)| commit <= *oldest);
        let is_planted = siltstone_base::plant::is_planted(siltstone_base::plant::PlantedBug::PurgeIgnoresViews);
        (is_seen || is_planted).then_some(id)
    }

    fn purged(&self, id: u64) {
        let mut inner = self.inner.lock();
        if inner.history.front().is_some_and(|(_, front)| *front == id) {
            inner.history.pop_front();
        }
    }

    /// Leaves a transaction to the background.
    fn abandon(&self, id: u64) {
        self.inner.lock().abandoned.push(id);
    }

    fn abandoned(&self) -> Option<u64> {
        self.inner.lock().abandoned.last().copied()
    }

    fn forget_abandoned(&self, id: u64) {
        self.inner.lock().abandoned.retain(|other| *other != id);
    }

    /// Transactions that the background has to roll back.
    pub(super) fn abandoned_len(&self) -> usize {
        self.inner.lock().abandoned.len()
    }

    /// Gives a transaction a name, unless another one has it.
    fn reserve_name(&self, name: &[u8], id: u64) -> bool {
        let mut inner = self.inner.lock();
        let is_free = !inner.prepared.contains_key(name);
        if is_free {
            inner.prepared.insert(name.to_vec(), id);
        }
        is_free
    }

    fn set_prepared(&self, name: Vec<u8>, id: u64) {
        self.inner.lock().prepared.insert(name, id);
    }

    /// Takes a prepared transaction, so that one caller decides about it.
    fn take_prepared(&self, name: &[u8]) -> Option<u64> {
        self.inner.lock().prepared.remove(name)
    }

    /// The names of prepared transactions, sorted.
    fn prepared(&self) -> Vec<Vec<u8>> {
        self.inner.lock().prepared.keys().cloned().collect()
    }
}
