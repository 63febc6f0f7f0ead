//! Batches of tasks on their way into the engine.
//!
//! Steps of a write: room for its bytes is waited for; then its batch stands in a lane. A thread attends to the lane for as long as there is something in it: it takes what is there and hands it to the
//! engine together, which makes groups of it and of what threads write; each task is told how its own batch ended. So a task that waits is a waker and a batch, whatever number there is of them,
//! and what waits for the engine (for room, for a sync) is that one thread.
//!
//! A task that goes away while its batch waits takes it along: the thread that would take the batch sees that nobody waits for it. From then on
//! the batch is written as a whole.

use super::pool::Pool;
use crate::batch::WriteBatch;
use crate::db::Db;
use crate::holders::Held;
use crate::options::WriteOptions;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::fmt;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Held alone.
const RANK: Rank = Rank(335);

/// Bytes that are handed to the engine together, about.
const ROUND_BYTES: usize = 4 << 20;

/// Batches that are handed to the engine together, at most.
const ROUND_BATCHES: usize = 4096;

/// The batch of a task.
pub(super) struct Waiting {
    pub(super) batch: WriteBatch,
    pub(super) options: WriteOptions,
    /// Tells the task.
    pub(super) done: oneshot::Sender<Result<()>>,
    /// Room that it takes.
    pub(super) room: OwnedSemaphorePermit,
    /// The same, for the report of holders.
    pub(super) held: Held,
}

/// Batches in the order in which they came.
///
/// Thread safety: every method may be called from any thread. At most one job attends to a lane, and one does while anything waits.
pub(super) struct Lane {
    db: Db,
    pool: Pool,
    priority: Priority,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    is_attended: bool,
    is_closed: bool,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("waiting", &self.state.lock().waiting.len()).finish_non_exhaustive()
    }
}

impl Lane {
    pub(super) fn new(db: &Db, pool: &Pool, priority: Priority) -> Arc<Self> {
        let state = Mutex::new(RANK, State::default());
        Arc::new(Self { db: db.clone(), pool: pool.clone(), priority, state })
    }

    /// Puts a batch at the end.
    pub(super) fn push(self: &Arc<Self>, waiting: Waiting) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(closing());
        }
        state.waiting.push_back(waiting);
        let is_attended = std::mem::replace(&mut state.is_attended, true);
        drop(state);
        if !is_attended {
            self.attend();
        }
        Ok(())
    }

    /// Batches that no attendant has taken yet.
    #[cfg(test)]
    pub(super) fn len_for_test(&self) -> usize {
        self.state.lock().waiting.len()
    }

    fn attend(self: &Arc<Self>) {
        self.pool.submit(self.priority, Box::new(Attendant(Arc::clone(self))));
    }

    /// Takes no more, and tells those that wait.
    pub(super) fn close(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        // Wakers are woken without the lock.
        for waiting in waiting {
            let _ = waiting.done.send(Err(closing()));
        }
    }

    /// Takes what is handed to the engine next, and leaves out what nobody waits for. Nothing is left if there is none: the lane is then unattended.
    fn next_round(&self) -> Vec<Waiting> {
        let mut round = Vec::new();
        let mut left_alone = Vec::new();
        let mut bytes = 0;
        let mut state = self.state.lock();
        while round.len() < ROUND_BATCHES && bytes < ROUND_BYTES {
            let Some(next) = state.waiting.pop_front() else { break };
            if next.done.is_closed() {
                left_alone.push(next);
            } else {
                bytes += next.batch.size_bytes();
                round.push(next);
            }
        }
        state.is_attended = !round.is_empty();
        drop(state);
        // Their room wakes tasks.
        drop(left_alone);
        round
    }

    fn write(&self, round: Vec<Waiting>) {
        let mut places = Vec::with_capacity(round.len());
        let writes = round.into_iter().map(|waiting| {
            places.push(Some((waiting.done, (waiting.room, waiting.held))));
            (waiting.batch, waiting.options)
        });
        let writes: Vec<_> = writes.collect();
        let mut tell = |place: usize, outcome: Result<()>| {
            if let Some((done, room)) = places.get_mut(place).and_then(Option::take) {
                // Who is told finds the room free.
                drop(room);
                let _ = done.send(outcome);
            }
        };
        if self.priority == Priority::High {
            self.db.write_each(writes, tell);
            return;
        }
        // What goes behind others does so before it stands in the queue of writers, one by one.
        for (place, (mut batch, options)) in writes.into_iter().enumerate() {
            tell(place, self.db.write(&mut batch, &options));
        }
    }
}

/// Attends to a lane until nothing waits there.
struct Attendant(Arc<Lane>);

impl Job for Attendant {
    fn name(&self) -> &'static str {
        "writes of tasks"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let round = self.0.next_round();
        if round.is_empty() {
            return Progress::Done;
        }
        self.0.write(round);
        Progress::More
    }

    /// The tasks of the round are told by the ends of their channels; the others get another attendant.
    fn poisoned(&mut self, _: &str) {
        self.0.attend();
    }
}

#[cold]
pub(super) fn closing() -> Error {
    Error::new(ErrorKind::Aborted, "the database is closing")
}
