//! Removes expired rows: a walk through the tree, a leaf at a time, spread over the time until the next one is due.
//!
//! 1. A leaf's rows are read as any reader does, without the lock of writers, and the keys of those that are expired are gathered.
//! 2. Under the lock of writers each is looked at again: somebody may have written it anew. Those that are still expired are deleted as one group, as a batch of a user
//!    is, but for rows that transactions have locks of. The next walk meets those again.
//!
//! A leaf that cannot be read keeps nobody behind it: the walk tells of it and goes on where the next one begins, as the pages above say.
//!
//! It is paced: so many leaves a second that a walk takes as long as lies between two of them.

use super::super::state::{OpenTree, State};
use super::super::steps::WeakState;
use super::RowExpiry;
use crate::page::{self, FLAG_DELETED, Stamp};
use crate::tree::{Chunk, Position, Start, Tree, is_unreadable};
use siltstone_base::engine::KvOp;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::expiry::Stamp as RowStamp;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::sync::{Arc, Weak};
use siltstone_base::{Error, Result};
use std::ops::Bound;
use std::time::Duration;

/// Walks while a row lives.
const WALKS: u64 = 64;

/// There is one no less often than every so many seconds.
const MAX_WALK_SECONDS: u64 = 86_400;

/// Rows of one leaf that are looked at together.
const ROWS: usize = 256;

/// Rows that are removed as one group: its pages stay in memory until it is closed.
const REMOVED: usize = 32;

/// Steps are no closer to each other; where they would be, each has more leaves.
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// Leaves of one step at most.
const MAX_LEAVES: u32 = 16;

/// After a step that failed, or found no room in the redo log.
const RETRY: Duration = Duration::from_millis(10);

/// Walks through the tree, again and again.
struct Walk {
    state: WeakState,
    tree: Weak<OpenTree>,
    /// The incarnation that is walked through.
    incarnation: u32,
    /// Where it goes on: at a key, behind one, or at the first row.
    from: Bound<Vec<u8>>,
    position: Position,
    chunk: Chunk,
    /// Keys of rows that were expired when they were met.
    expired: Vec<Vec<u8>>,
    /// Expired rows that this walk left.
    left: u64,
    /// Leaves that it could not read.
    damaged: u64,
    /// The error about the last of them.
    told: Option<String>,
    /// Leaves of each step, and what lies between two of them. `None`: the walk has not begun.
    pace: Option<(u32, Duration)>,
}

/// Starts the job for a tree whose rows expire, once for each opening.
pub(in super::super) fn start_walk(state: &Arc<State>, tree: &Arc<OpenTree>) {
    if tree.expiry().is_none() {
        return;
    }
    let walk = Walk {
        state: state.weak(),
        tree: Arc::downgrade(tree),
        incarnation: 0,
        from: Bound::Unbounded,
        position: Position::default(),
        chunk: Chunk::default(),
        expired: Vec::new(),
        left: 0,
        damaged: 0,
        told: None,
        pace: None,
    };
    state.executor.submit(Priority::Low, Box::new(walk));
}

impl RowExpiry {
    /// The time between two walks, by the clock of everything else.
    fn interval(&self) -> Duration {
        let now = self.now();
        let expires = self.policy.expires_at(RowStamp { group: 0, seconds: now }).unwrap_or(u64::MAX);
        self.room.delay((expires.saturating_sub(now) / WALKS).clamp(1, MAX_WALK_SECONDS))
    }
}

/// Leaves of each step, and what lies between two steps, of a walk through so many pages that takes `interval`.
fn pace(pages: u32, interval: Duration) -> (u32, Duration) {
    let pages = pages.max(1);
    let pause = interval / pages;
    let leaves = LEAST_PAUSE.as_nanos().div_ceil(pause.as_nanos().max(1));
    let leaves = u32::try_from(leaves).unwrap_or(u32::MAX).clamp(1, MAX_LEAVES);
    (leaves, (pause * leaves).max(LEAST_PAUSE))
}

/// What a walk met.
enum Met {
    Leaf,
    /// A leaf that cannot be read.
    Damage,
    /// Nothing more.
    End,
}

impl Walk {
    fn step_of(&mut self, state: &Arc<State>, tree: &Arc<OpenTree>, expiry: &RowExpiry) -> Result<Progress> {
        let Some(time) = expiry.removal_time() else { return Ok(Progress::After(expiry.interval())) };
        if !tree.is_at(self.incarnation) {
            // It was truncated, or loaded.
            self.begin_anew();
            self.incarnation = tree.incarnation()?;
        }
        let (leaves, mut pause) = match self.pace {
            Some(pace) => pace,
            None => *self.pace.insert(pace(tree.live()?.page_count()?, expiry.interval())),
        };
        let most = state.most_ops().clamp(1, REMOVED);
        for _ in 0..leaves {
            if self.expired.len() >= most {
                break;
            }
            let met = match self.read_leaf(state, tree, expiry, time) {
                Ok(met) => met,
                Err(error) => {
                    // What was gathered before is removed now: whoever is told that rows are left comes back to this leaf.
                    let removed = self.remove(state, tree, expiry, time, most);
                    self.left += self.expired.len() as u64;
                    self.expired.clear();
                    return Err(removed.err().unwrap_or(error));
                }
            };
            match met {
                Met::Leaf => {}
                Met::Damage => {
                    // Whoever is told of many such leaves has time to listen.
                    pause = pause.max(10 * RETRY);
                    break;
                }
                Met::End => {
                    self.remove(state, tree, expiry, time, most)?;
                    return Ok(if self.expired.is_empty() {
                        self.end(state, expiry, pause)
                    } else {
                        Progress::After(RETRY)
                    });
                }
            }
        }
        self.remove(state, tree, expiry, time, most)?;
        Ok(Progress::After(if self.expired.is_empty() { pause } else { pause.min(RETRY) }))
    }

    /// Gathers the expired rows of the next leaf, as far as it can be read.
    fn read_leaf(&mut self, state: &State, tree: &OpenTree, expiry: &RowExpiry, time: u64) -> Result<Met> {
        let live = tree.at(self.incarnation)?;
        let read = live.read_chunk(start_at(&self.from), true, &mut self.position, ROWS, &mut self.chunk);
        // Pages that were given back since are not those of the tree.
        tree.at(self.incarnation)?;
        for index in 0..self.chunk.len() {
            let Some((key, value)) = self.chunk.get(index) else { break };
            if expiry.is_expired(key, self.chunk.flags(index), value, time) {
                self.expired.push(key.to_vec());
            }
        }
        match read {
            Ok(()) => {}
            Err(error) if is_unreadable(&error) => return self.pass_by(state, live, error),
            Err(error) => return Err(error),
        }
        let last = self.chunk.len().checked_sub(1).and_then(|last| self.chunk.get(last));
        let Some((last, _)) = last else { return Ok(Met::End) };
        self.from = Bound::Excluded(last.to_vec());
        Ok(Met::Leaf)
    }

    /// Goes on where the next leaf begins, because of an error that stands.
    #[cold]
    fn pass_by(&mut self, state: &State, tree: &Tree, error: Error) -> Result<Met> {
        self.position = Position::default();
        let Ok(next) = tree.next_leaf(start_at(&self.from)) else { return Err(error) };
        // A leaf is met by way of its neighbour, and once more by way of its parent.
        let told = error.to_string();
        if self.told.as_ref() != Some(&told) {
            state.note_failure(Job::name(self), &error);
            self.damaged += 1;
            self.told = Some(told);
        }
        Ok(match next {
            Some(next) => {
                self.from = Bound::Included(next);
                Met::Damage
            }
            None => Met::End,
        })
    }

    /// Removes the rows that were gathered, up to `most` at a time, as long as there is room in the redo log.
    fn remove(
        &mut self,
        state: &Arc<State>,
        tree: &Arc<OpenTree>,
        expiry: &RowExpiry,
        time: u64,
        most: usize,
    ) -> Result<()> {
        while !self.expired.is_empty() {
            let rows = self.expired.len().min(most);
            let keys = self.expired.get(..rows).unwrap_or_default();
            let Some((removed, left)) = state.remove_expired(tree, expiry, keys, time)? else { return Ok(()) };
            self.expired.drain(..rows);
            self.left += left;
            expiry.counts.removed.fetch_add(removed, Ordering::Relaxed);
            // Its leaves are not what they were.
            self.position = Position::default();
        }
        Ok(())
    }

    /// Ends a walk, and says when the next one begins.
    fn end(&mut self, state: &State, expiry: &RowExpiry, pause: Duration) -> Progress {
        expiry.counts.walks.fetch_add(1, Ordering::Relaxed);
        expiry.counts.left.store(self.left, Ordering::Relaxed);
        expiry.counts.damaged.store(self.damaged, Ordering::Relaxed);
        self.begin_anew();
        if state.health.error().is_none() {
            expiry.room.note_time();
        }
        Progress::After(pause)
    }

    /// Goes back to the first row.
    fn begin_anew(&mut self) {
        (self.from, self.pace, self.position) = (Bound::Unbounded, None, Position::default());
        (self.left, self.damaged, self.told) = (0, 0, None);
        self.expired.clear();
    }
}

fn start_at(from: &Bound<Vec<u8>>) -> Start<'_> {
    match from {
        Bound::Unbounded => Start::End,
        Bound::Included(key) => Start::At(key),
        Bound::Excluded(key) => Start::Beyond(key),
    }
}

impl RowExpiry {
    /// Whether a cell is a row that is expired at `time`.
    fn is_expired(&self, key: &[u8], flags: u8, value: &[u8], time: u64) -> bool {
        flags & FLAG_DELETED == 0 && self.policy.is_row_expired(key, page::body(flags, value), time)
    }
}

impl State {
    /// Deletes those of the rows that are expired at `time`, as one group. Returns how many, and how many it left because of their locks; `None` if there is no room in the
    /// redo log now.
    fn remove_expired(
        self: &Arc<Self>,
        open: &Arc<OpenTree>,
        expiry: &RowExpiry,
        keys: &[Vec<u8>],
        time: u64,
    ) -> Result<Option<(u64, u64)>> {
        let needed = self.check_sizes(keys.len(), keys.iter().map(|key| (open.tree(), key.as_slice(), 0)))?;
        let writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        if !self.redo.has_room(needed) {
            drop(writer);
            self.wake_cleaner();
            return Ok(None);
        }
        let (live, mut left) = (open.live()?, 0);
        let mut ops = Vec::with_capacity(keys.len());
        for key in keys {
            let look = |flags, value: &[u8]| (expiry.is_expired(key, flags, value, time), Stamp::of(flags, value));
            match live.get(key, look)? {
                Some((true, stamp)) if self.is_row_locked(0, open, key, stamp) => left += 1,
                Some((true, _)) => ops.push((open, KvOp::Delete { key: key.as_slice() })),
                _ => {}
            }
        }
        if !ops.is_empty() {
            let (number, end) = self.make_group(&ops)?;
            self.end_group(number, end, writer)?;
            self.wake_jobs();
        }
        Ok(Some((ops.len() as u64, left)))
    }
}

impl Job for Walk {
    fn name(&self) -> &'static str {
        "expiry"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let (Some(state), Some(tree)) = (self.state.begin_step(), self.tree.upgrade()) else { return Progress::Done };
        let Some(expiry) = tree.expiry() else { return Progress::Done };
        if state.check_open().is_err() || state.health.error().is_some() {
            return Progress::Done;
        }
        match self.step_of(&state, &tree, expiry) {
            Ok(progress) => progress,
            // It was truncated meanwhile.
            Err(_) if !tree.is_at(self.incarnation) => Progress::After(LEAST_PAUSE),
            Err(error) => {
                state.note_failure(self.name(), &error);
                if self.expired.is_empty() {
                    // Nobody knows where the next leaf begins.
                    self.begin_anew();
                    return Progress::After(expiry.interval().max(10 * RETRY));
                }
                // Rows that cannot be removed keep nobody behind them.
                self.left += self.expired.len() as u64;
                self.expired.clear();
                Progress::After(10 * RETRY)
            }
        }
    }

    fn poisoned(&mut self, message: &str) {
        super::super::background::poisoned(&self.state, "expiry", message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_takes_as_long_as_lies_between_two() {
        let day = Duration::from_secs(86_400);
        assert_eq!(pace(1, day), (1, day));
        assert_eq!(pace(0, day), (1, day));
        assert_eq!(pace(86_400, day), (1, Duration::from_secs(1)));
        // Closer steps have more leaves, up to a bound.
        assert_eq!(pace(1_000_000, Duration::from_secs(250)), (4, LEAST_PAUSE));
        assert_eq!(pace(u32::MAX, Duration::from_millis(10)), (MAX_LEAVES, LEAST_PAUSE));
    }
}
