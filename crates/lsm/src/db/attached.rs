//! Background work of the layer above: within the database's pauses, before it closes, and without waiting.
//!
//! A step of such work takes a [`Turn`]. Whoever pauses or closes the database waits for the turns that are taken, and none is given after that.
//!
//! A job must not wait for a writer who may wait for a job. So what it writes stands in the [queue](super::write_queue) like the batch of a task: whoever leads
//! takes it along, and the job looks again later; if nobody leads, it does, unless that would mean to wait.

use super::Db;
use super::checked::Watched;
use super::column_family::ColumnFamily;
use super::io_rate::{Metered, Moved};
use super::state::{DbInner, State};
use super::write_group::Group;
use super::write_queue::Request;
use crate::batch::WriteBatch;
use crate::compaction::HiddenRows;
use crate::event::StallCondition;
use crate::options::WriteOptions;
use crate::snapshot::Snapshot;
use siltstone_base::Result;
use siltstone_base::executor::Executor;
use siltstone_base::rate_limiter::RatePriority;
use siltstone_base::sync::{Arc, Weak};
use std::time::Duration;

/// So often is a request left to writers where the leader has more to do than to write.
const MOST_LEFT_TO_WRITERS: u32 = 16;

/// Work of the layer above.
pub(crate) trait AttachedWork: Send + Sync {
    /// Background work goes on after a pause: jobs that are due may be submitted. The caller holds no lock.
    fn resume(&self);
}

/// The right to do a step of background work, until it is dropped.
pub(crate) struct Turn(Arc<DbInner>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.state.lock().attached_turns -= 1;
        self.0.changed.notify_all();
    }
}

/// A batch that was handed to whoever leads next.
pub(crate) struct PendingWrite {
    db: Weak<DbInner>,
    request: Arc<Request>,
    /// How often it was left to writers to make room.
    left_to_writers: u32,
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        if !self.request.is_done()
            && let Some(db) = self.db.upgrade()
        {
            db.write_queue.withdraw(&self.request);
        }
    }
}

impl PendingWrite {
    /// How it ended; `None` if it has not yet. Writes it if nobody else does. `Incomplete` if that would mean to wait for room, or the tables changed since the rows were looked at. What is not
    /// written when this is dropped never is.
    pub(crate) fn poll(&mut self) -> Option<Result<()>> {
        if !self.request.is_done()
            && let Some(db) = self.db.upgrade()
        {
            db.lead_detached(&self.request, &mut self.left_to_writers);
        }
        self.request.is_done().then(|| self.request.outcome())
    }
}

impl DbInner {
    /// Leads a group that begins with this request if it is the first in the queue and nobody else leads. While writers are held back it is left to them, and for a while
    /// also where the leader has to begin a memtable or a WAL: a thread of low priority would do that while everybody waits for it.
    fn lead_detached(self: &Arc<Self>, request: &Arc<Request>, left_to_writers: &mut u32) {
        if self.held_back(self.now_nanos()).is_some() {
            return;
        }
        let Some(mut leader) = self.try_lock_write_side() else { return };
        if (leader.side.wal_broken || !leader.side.full.is_empty()) && *left_to_writers < MOST_LEFT_TO_WRITERS {
            *left_to_writers += 1;
            return;
        }
        let is_own = |first: &Request| std::ptr::eq(first, &**request);
        let Some(first) = self.write_queue.pop_if(is_own) else { return };
        let batch = first.take_batch();
        let mut group = Group { own: None, followers: vec![(Arc::clone(&first), Some(batch))] };
        if let Some(Err(error)) = first.check.as_ref().map(|check| self.check_again(check)) {
            group.send_last_away(error);
            return;
        }
        // The outcome reaches the request.
        let _ = self.lead_group(&mut leader, group, &first.options, None);
    }

    /// The same as [`write_if_unchanged`](Self::write_if_unchanged), without waiting for the end. The batch may stand in the queue longer than whoever asks for it lives, so it keeps the
    /// snapshot since which nothing may have changed.
    fn submit_if_unchanged(
        self: &Arc<Self>,
        snapshot: Snapshot,
        watched: Vec<Watched>,
        batch: WriteBatch,
        options: &WriteOptions,
    ) -> Result<PendingWrite> {
        self.check_write(&batch, options)?;
        let mut check = self.first_look(watched)?;
        check.held = Some(snapshot);
        // Whoever begins a group with it must not wait for its sake.
        let request = Request::detached(batch, options.clone().no_slowdown(true), Arc::new(check));
        self.write_queue.push(Arc::clone(&request));
        Ok(PendingWrite { db: Arc::downgrade(self), request, left_to_writers: 0 })
    }

    /// Whether a compaction waits until who sees what it drops has room for more: not where writers are held back, who wait for compactions, nor where nobody makes room.
    pub(super) fn waits_for(&self, rows: &dyn HiddenRows) -> bool {
        rows.is_full()
            && self.controller.condition() == StallCondition::Normal
            && self.held_back(self.now_nanos()).is_none()
            && self.gives_turns(&self.state.lock())
    }

    fn turn(self: &Arc<Self>) -> Option<Turn> {
        let mut state = self.state.lock();
        if !self.gives_turns(&state) {
            return None;
        }
        state.attached_turns += 1;
        Some(Turn(Arc::clone(self)))
    }

    fn gives_turns(&self, state: &State) -> bool {
        !self.read_only && !self.is_closing() && !self.errors.is_failed() && state.background_paused == 0
    }
}

impl Db {
    /// Says who sees the values that flushes and compactions of a family drop for newer ones, and who is told when background work goes on after a pause. Once.
    pub(crate) fn attach(&self, family: &ColumnFamily, rows: Arc<dyn HiddenRows>, work: Weak<dyn AttachedWork>) {
        let _ = family.0.hidden_rows.set(rows);
        let _ = self.handle.inner.attached.set(work);
    }

    /// The right to do a step of background work; `None` while it is paused, when the database closes, and after a fatal error.
    pub(crate) fn turn(&self) -> Option<Turn> {
        self.handle.inner.turn()
    }

    /// Whether background work may be begun now.
    pub(crate) fn gives_turns(&self) -> bool {
        let inner = &self.handle.inner;
        inner.gives_turns(&inner.state.lock())
    }

    /// Whether compactions run, which writers may come to wait for.
    pub(crate) fn is_compacting(&self) -> bool {
        self.handle.inner.state.lock().running_compactions > 0
    }

    /// Who runs background work.
    pub(crate) fn weak_executor(&self) -> Weak<dyn Executor> {
        Arc::downgrade(&self.handle.inner.executor)
    }

    /// Hands `batch` to whoever writes next, who leaves it if a watched key has changed since `snapshot`. Does not wait.
    pub(crate) fn submit_if_unchanged(
        &self,
        snapshot: Snapshot,
        watched: Vec<Watched>,
        batch: WriteBatch,
        options: &WriteOptions,
    ) -> Result<PendingWrite> {
        self.handle.inner.submit_if_unchanged(snapshot, watched, batch, options)
    }

    /// The most bytes that one write may have.
    pub(crate) fn max_write_bytes(&self) -> usize {
        self.handle.inner.options.max_wal_record_bytes
    }

    /// Asks the rate limiter for what can wait for all else; see [`meter`](DbInner::meter).
    pub(crate) fn meter_upkeep(&self, metered: &mut UpkeepMeter, moved: Moved) -> Option<Duration> {
        let inner = &self.handle.inner;
        let total = Moved { read: metered.total.read + moved.read, written: metered.total.written + moved.written };
        metered.total = total;
        inner.meter(&mut metered.metered, total)
    }

    /// How long a step has to wait for the rate limiter yet.
    pub(crate) fn upkeep_wait(&self, metered: &mut UpkeepMeter) -> Option<Duration> {
        self.handle.inner.io_rate.wait(&mut metered.metered)
    }

    /// Keys that cut what tables have of `begin..end` into stretches of about one size, ascending: at most `most` of each table. What indexes in memory say.
    pub(crate) fn places(&self, family: &ColumnFamily, begin: &[u8], end: &[u8], most: usize) -> Result<Vec<Vec<u8>>> {
        let family = &family.0;
        let version = Arc::clone(&family.super_version.load().version);
        let mut places = Vec::new();
        for level in 0..version.num_levels() {
            for file in version.overlapping_files(level, Some(begin), Some(end)) {
                let anchors = family.table_cache.reader(&file)?.anchors(most).into_iter();
                places.extend(anchors.map(|(key, _)| key).filter(|key| &key[..] >= begin && &key[..] < end));
            }
        }
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }
}

/// What background work of the layer above has asked of the rate limiter.
#[derive(Debug)]
pub(crate) struct UpkeepMeter {
    metered: Metered,
    total: Moved,
}

impl Default for UpkeepMeter {
    fn default() -> Self {
        Self { metered: Metered::new(RatePriority::Upkeep), total: Moved::default() }
    }
}
