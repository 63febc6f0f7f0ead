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
mod lag;
mod locking;
mod purge;
mod recover;
mod rows;
#[cfg(test)]
mod tests;
mod view;

pub use handle::Transaction;
pub(super) use lag::HistoryLimit;
pub(super) use purge::wake_purge;
pub(super) use recover::{recover, wake_roll_back};
pub(super) use view::{Seen, View};

use siltstone_base::Error;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use siltstone_base::sync::{Mutex, Rank, Signal};
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
    /// Committed transactions whose records are still there.
    history: AtomicUsize,
    /// Whether writers were told that there are too many.
    is_lagging: AtomicBool,
    pub(super) is_purging: AtomicBool,
    pub(super) is_rolling_back: AtomicBool,
    /// Notified when a transaction has ended.
    pub(super) ended: Signal,
}

#[derive(Debug)]
struct Inner {
    /// The next number, and the one from which on none is reserved.
    next: u64,
    reserved: u64,
    active: BTreeSet<u64>,
    /// Transactions with a name, and how far that is.
    prepared: BTreeMap<Vec<u8>, (u64, NameState)>,
    /// Commits so far.
    commits: u64,
    /// Committed transactions whose records wait for purge, oldest first, each with the number of its commit.
    history: VecDeque<(u64, u64)>,
    /// Live views: the commits that each sees, and how many see them. Oldest first.
    views: VecDeque<(u64, usize)>,
    /// Transactions that nobody owns any more. The last is rolled back first.
    abandoned: Vec<u64>,
    /// Committed transactions whose purge failed, until nothing else is left to purge.
    postponed: Vec<(u64, u64)>,
    /// Failures of purge, and of rollbacks in the background, since either got on.
    purge_failures: usize,
    rollback_failures: usize,
    /// The last error of either.
    last_error: Option<Error>,
}

/// How far a transaction with a name is. The name is its own all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameState {
    /// It is being prepared: its fate is not safe yet.
    Reserved,
    /// It waits for a decision.
    Prepared,
    /// Somebody decides about it.
    Deciding,
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
            postponed: Vec::new(),
            purge_failures: 0,
            rollback_failures: 0,
            last_error: None,
        };
        Self {
            inner: Mutex::new(RANK, inner),
            lowest: AtomicU64::new(u64::MAX),
            owners: AtomicUsize::new(0),
            history: AtomicUsize::new(0),
            is_lagging: AtomicBool::new(false),
            is_purging: AtomicBool::new(false),
            is_rolling_back: AtomicBool::new(false),
            ended: Signal::new(),
        }
    }

    /// Transactions that nobody owns and that are not rolled back yet.
    pub(super) fn abandoned_count(&self) -> usize {
        self.inner.lock().abandoned.len()
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

    /// The numbers that are active, ascending.
    pub(super) fn active(&self) -> Vec<u64> {
        self.inner.lock().active.iter().copied().collect()
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
        inner.prepared.retain(|_, (other, _)| *other != id);
        if has_history {
            inner.commits += 1;
            let commit = inner.commits;
            inner.history.push_back((commit, id));
            self.history.fetch_add(1, Ordering::Relaxed);
        }
        self.lowest.store(inner.active.first().copied().unwrap_or(u64::MAX), Ordering::Release);
        if is_owner && was_active {
            self.owners.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Committed transactions whose records are still there.
    pub(super) fn history_len(&self) -> usize {
        let inner = self.inner.lock();
        inner.history.len() + inner.postponed.len()
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
            self.history.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Lets a transaction whose purge failed wait until nothing else is left to purge.
    fn postpone_purge(&self, id: u64, error: Error) {
        let mut inner = self.inner.lock();
        inner.purge_failures += 1;
        if inner.history.front().is_some_and(|(_, front)| *front == id) {
            let front = inner.history.pop_front();
            inner.postponed.extend(front);
        }
        inner.last_error = Some(error);
    }

    /// Lets purge try again what it failed at. Returns whether there is something.
    fn resume_purge(&self) -> bool {
        let mut inner = self.inner.lock();
        let postponed = std::mem::take(&mut inner.postponed);
        // They are older than the rest, and in order.
        postponed.iter().rev().for_each(|commit| inner.history.push_front(*commit));
        !postponed.is_empty()
    }

    /// Lets a transaction whose rollback failed wait until the others are rolled back.
    fn postpone_rollback(&self, id: u64, error: Error) {
        let mut inner = self.inner.lock();
        inner.rollback_failures += 1;
        if let Some(place) = inner.abandoned.iter().position(|other| *other == id) {
            inner.abandoned[..=place].rotate_right(1);
        }
        inner.last_error = Some(error);
    }

    /// Takes note that purge, or a rollback, got on.
    fn note_progress(&self, is_purge: bool) {
        let mut inner = self.inner.lock();
        *(if is_purge { &mut inner.purge_failures } else { &mut inner.rollback_failures }) = 0;
    }

    /// Whether purge has failed at everything that is left for it, and rollbacks likewise, since either got on.
    fn is_stuck(&self) -> (bool, bool) {
        let inner = self.inner.lock();
        let for_purge = inner.history.len() + inner.postponed.len();
        (inner.purge_failures >= for_purge, inner.rollback_failures >= inner.abandoned.len())
    }

    /// The last error of purge, or of a rollback in the background.
    pub(super) fn last_error(&self) -> Option<Error> {
        self.inner.lock().last_error.clone()
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
            inner.prepared.insert(name.to_vec(), (id, NameState::Reserved));
        }
        is_free
    }

    /// Lets anyone decide about a transaction that has its name.
    fn set_prepared(&self, name: &[u8]) {
        if let Some((_, state)) = self.inner.lock().prepared.get_mut(name) {
            *state = NameState::Prepared;
        }
    }

    /// Takes a prepared transaction, so that one caller decides about it. Its name stays taken.
    fn take_prepared(&self, name: &[u8]) -> Option<u64> {
        let mut inner = self.inner.lock();
        let (id, state) = inner.prepared.get_mut(name).filter(|(_, state)| *state == NameState::Prepared)?;
        *state = NameState::Deciding;
        Some(*id)
    }

    /// Frees the name of a transaction that is decided.
    fn free_name(&self, name: &[u8]) {
        self.inner.lock().prepared.remove(name);
    }

    /// The names of prepared transactions, sorted.
    fn prepared(&self) -> Vec<Vec<u8>> {
        let inner = self.inner.lock();
        let prepared = inner.prepared.iter().filter(|(_, (_, state))| *state == NameState::Prepared);
        prepared.map(|(name, _)| name.clone()).collect()
    }
}
