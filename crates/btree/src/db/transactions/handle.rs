//! A transaction in the hands of its user.

use super::super::scan::Cursor;
use super::super::state::{OpenTree, State};
use super::super::{Db, TreeHandle};
use super::View;
use crate::metrics::Counter;
use crate::mtr::close_group;
use crate::page::{FLAG_DELETED, Stamp};
use crate::redo::GroupEnd;
use crate::undo::Fate;
use siltstone_base::engine::{Durability, Isolation, KvOp, Savepoint, TransactionOptions};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;

/// Bytes of the longest name of a prepared transaction.
const MAX_NAME_LEN: usize = 64;

/// Changes of rows that become visible and safe together, or not at all. It may be larger than memory. One that is dropped is rolled back in the background.
///
/// Every method that reads or writes names its tree, or means the default one. A call that fails leaves the transaction as it was before.
pub struct Transaction {
    pub(super) state: Arc<State>,
    pub(super) id: u64,
    pub(super) timeout: Option<Duration>,
    /// What it sees, on the level `Snapshot`.
    view: Option<View>,
    /// The number of its last change.
    pub(super) number: u32,
    /// Whether a change failed and left its record behind: it can only be rolled back.
    pub(super) is_doomed: bool,
    /// The number down to which changes were to be undone when that failed.
    half_undone: Option<u32>,
    /// Whether somebody else is responsible for it from now on.
    is_over: bool,
    /// Where the group ends that it has seen, safe or not.
    pub(super) seen_end: Option<GroupEnd>,
}

impl Db {
    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// `Aborted` after closing, `ReadOnly` after an error of the redo log, those of I/O.
    pub fn begin(&self, options: &TransactionOptions) -> Result<Transaction> {
        let state = &self.0;
        let _writer = state.lock_with_room(state.room_for(&[], 0))?;
        let id = state.new_id()?;
        state.transactions.activate(id, true);
        let view = (options.isolation == Isolation::Snapshot).then(|| state.view_as_writer(id, u32::MAX));
        state.metrics.add(Counter::TransactionsBegun, 1);
        Ok(Transaction {
            state: Arc::clone(state),
            id,
            timeout: options.lock_timeout,
            view,
            number: 0,
            is_doomed: false,
            half_undone: None,
            is_over: false,
            seen_end: None,
        })
    }

    /// The names of prepared transactions, sorted: those of this life of the database and of earlier ones.
    pub fn prepared_transactions(&self) -> Vec<Vec<u8>> {
        self.0.transactions.prepared()
    }

    /// Commits a prepared transaction.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none of that name; those of [`Transaction::commit`], after which it is still prepared.
    pub fn commit_prepared(&self, name: impl AsRef<[u8]>) -> Result<()> {
        let name = name.as_ref();
        let id = self.take_prepared(name)?;
        self.0.commit(id).inspect_err(|_| self.0.transactions.set_prepared(name))
    }

    /// Rolls a prepared transaction back.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none of that name, and those of I/O, after which it is still prepared. An error after the decision was written leaves the rest to the background.
    pub fn rollback_prepared(&self, name: impl AsRef<[u8]>) -> Result<()> {
        let name = name.as_ref();
        let id = self.take_prepared(name)?;
        // Without a fate it is an unfinished one: a crash from here on leads to the same end.
        let decided = self.0.decide(id, None);
        if let Err(error) = decided {
            self.0.transactions.set_prepared(name);
            return Err(error);
        }
        self.0.transactions.free_name(name);
        self.0.roll_back_now(id)
    }

    fn take_prepared(&self, name: &[u8]) -> Result<u64> {
        let missing = || Error::new(ErrorKind::NotFound, "no transaction is prepared under this name");
        self.0.transactions.take_prepared(name).ok_or_else(missing)
    }

    /// Committed transactions, and batches that left older versions, whose records wait for purge.
    pub fn history_len(&self) -> usize {
        self.0.transactions.history_len()
    }

    /// The last error of purge, or of a rollback in the background, since the database was opened. What failed is tried again, behind what others wait for.
    pub fn last_transaction_error(&self) -> Option<Error> {
        self.0.transactions.last_error()
    }

    /// Transactions that recovery found unfinished, or that were dropped, and that are not rolled back yet.
    pub fn rolling_back_len(&self) -> usize {
        self.0.transactions.abandoned_len()
    }
}

impl State {
    /// Writes what becomes of a transaction, and waits until that is safe.
    fn decide(self: &Arc<Self>, id: u64, fate: Option<&Fate>) -> Result<()> {
        let (end, batch) = {
            let _writer = self.lock_with_room(self.room_for(&[], MAX_NAME_LEN))?;
            let outcome = match fate {
                Some(fate) => self.undo.set_fate(id, fate),
                None => self.undo.remove(Stamp { id, number: 0 }).map(drop),
            };
            let end = close_group(&self.pool)?;
            outcome?;
            if self.durability != Durability::Commit {
                self.redo.write_to(end)?;
            }
            (end, self.versions.begin())
        };
        if self.durability == Durability::Commit {
            self.redo.sync_to(end)?;
        }
        // Batches that came before are as safe, and the transaction may have built on them.
        self.publish(batch);
        self.wake_jobs();
        Ok(())
    }

    fn commit(self: &Arc<Self>, id: u64) -> Result<()> {
        self.decide(id, Some(&Fate::Committed))?;
        self.finish(id, true);
        self.metrics.add(Counter::TransactionsCommitted, 1);
        Ok(())
    }

    /// Lets go of a transaction of which nothing is left to do but purge.
    pub(super) fn finish(self: &Arc<Self>, id: u64, has_history: bool) {
        self.transactions.end(id, true, has_history);
        if !has_history {
            self.undo.note_gone(id);
        }
        self.locks.release_all(id);
        self.transactions.ended.notify_all();
        if has_history {
            super::wake_purge(self);
        }
    }

    /// Undoes all changes of a transaction; what can't be undone now is left to the background.
    fn roll_back_now(self: &Arc<Self>, id: u64) -> Result<()> {
        let outcome = self.undo_all(id, 0);
        if outcome.is_ok() {
            self.finish(id, false);
            self.metrics.add(Counter::TransactionsRolledBack, 1);
        } else {
            self.leave_to_background(id);
        }
        outcome
    }

    fn leave_to_background(self: &Arc<Self>, id: u64) {
        self.transactions.abandon(id);
        super::recover::wake_roll_back(self);
    }
}

impl Transaction {
    /// The number of the transaction: the one that a [`Deadlock`](crate::Deadlock) names. No other one has it while the database is open, nor does one of an earlier life of
    /// which anything is left; a crash may take the memory of one that left nothing.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The value of a key, if the transaction sees it.
    ///
    /// # Errors
    ///
    /// `Corruption`, and those of I/O.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_of(&Arc::clone(&self.state.default_tree), key.as_ref())
    }

    /// The value of a key of a tree, if the transaction sees it.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Self::get); `NotFound` if the tree was dropped.
    pub fn get_in(&mut self, tree: &TreeHandle, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_of(self.state.own(tree)?, key.as_ref())
    }

    pub(super) fn get_of(&mut self, tree: &OpenTree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let time = self.read_time(tree);
        let row = match &self.view {
            Some(view) => self.state.read_row_of(view, tree, key)?,
            None => self.state.read_row_now(tree, self.id, u32::MAX, key)?,
        };
        Ok(tree.unexpired(key, row, time))
    }

    /// The second as of which it reads rows that expire: that of its beginning, on the level `Snapshot`.
    fn read_time(&self, tree: &OpenTree) -> u64 {
        self.view.as_ref().map_or_else(|| tree.read_time(), |view| view.time)
    }

    /// Locks a key, which need not exist, and reads its newest value, which nobody changes before the transaction ends.
    ///
    /// # Errors
    ///
    /// `TimedOut` if someone else holds the lock for too long; `Deadlock`, with a [`Deadlock`](crate::Deadlock) as its source; `Busy` on the level `Snapshot` if the row
    /// changed since the transaction began; those of [`get`](Self::get).
    pub fn get_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_for_update_of(&Arc::clone(&self.state.default_tree), key.as_ref())
    }

    /// Locks a key of a tree and reads its newest value.
    ///
    /// # Errors
    ///
    /// Those of [`get_for_update`](Self::get_for_update); `NotFound` if the tree was dropped.
    pub fn get_for_update_in(&mut self, tree: &TreeHandle, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_for_update_of(self.state.own(tree)?, key.as_ref())
    }

    pub(super) fn get_for_update_of(&mut self, tree: &OpenTree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let had_lock = self.has_lock(tree, key);
        let outcome = self.try_get_for_update(tree, key);
        if outcome.is_err() && !self.may_have_changed(tree, key) {
            self.give_back(had_lock, tree, key);
        }
        outcome
    }

    fn try_get_for_update(&mut self, tree: &OpenTree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (_writer, live) = loop {
            let incarnation = tree.incarnation()?;
            self.state.lock_row(self.id, tree, key, self.timeout)?;
            let writer = self.state.writer.lock();
            // Truncating the tree leaves its locks behind.
            if tree.incarnation()? == incarnation {
                break (writer, tree.live()?);
            }
        };
        let stamp = live.stamp(key)?;
        self.check_unchanged(tree, key, stamp)?;
        // A batch that is not safe yet is safe before this transaction is.
        self.seen_end = Some(self.state.redo.closed());
        let row = live
            .get(key, |flags, bytes| (flags & FLAG_DELETED == 0).then(|| crate::page::body(flags, bytes).to_vec()))?;
        Ok(tree.unexpired(key, row.flatten(), self.read_time(tree)))
    }

    /// Whether the row may have this transaction's stamp, whose lock nobody else may get.
    fn may_have_changed(&self, tree: &OpenTree, key: &[u8]) -> bool {
        if self.number == 0 {
            return false;
        }
        let _writer = self.state.writer.lock();
        let stamp = tree.live().and_then(|live| live.stamp(key));
        stamp.map_or(true, |stamp| stamp.is_some_and(|stamp| stamp.id == self.id))
    }

    pub(super) fn has_lock(&self, tree: &OpenTree, key: &[u8]) -> bool {
        self.state.locks.mode(self.id, tree.tree().space(), key).is_some()
    }

    /// A call that fails keeps no lock that it took.
    pub(super) fn give_back(&self, had_lock: bool, tree: &OpenTree, key: &[u8]) {
        if !had_lock {
            self.state.locks.unlock(self.id, tree.tree().space(), key);
        }
    }

    /// The first to change a row wins: refuses one that changed since the transaction began.
    pub(super) fn check_unchanged(&self, tree: &OpenTree, key: &[u8], stamp: Option<Stamp>) -> Result<()> {
        let Some(view) = &self.view else { return Ok(()) };
        tree.live_at(view.snapshot)?;
        let is_seen = stamp.is_none_or(|stamp| view.sees(stamp));
        let is_planted = is_planted(PlantedBug::ConflictIsNotChecked);
        if is_planted || is_seen && self.state.versions.find(Some(view.snapshot), tree.tree().space(), key).is_none() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Busy, "a row changed since the transaction began"))
    }

    /// Sets a key.
    ///
    /// # Errors
    ///
    /// Those of [`get_for_update`](Self::get_for_update) and of [`Db::put`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.change(&Arc::clone(&self.state.default_tree), key.as_ref(), Some(value.as_ref()))
    }

    /// Sets a key of a tree.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put); `NotFound` if the tree was dropped.
    pub fn put_in(&mut self, tree: &TreeHandle, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.change(self.state.own(tree)?, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a key, and locks it also if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(&Arc::clone(&self.state.default_tree), key.as_ref(), None)
    }

    /// Removes a key of a tree, and locks it also if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`put_in`](Self::put_in).
    pub fn delete_in(&mut self, tree: &TreeHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(self.state.own(tree)?, key.as_ref(), None)
    }

    fn change(&mut self, tree: &Arc<OpenTree>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.check_doom()?;
        let state = &self.state;
        let op = match value {
            Some(value) => KvOp::Put { key, value },
            None => KvOp::Delete { key },
        };
        let needed = state.check_ops(&[(tree, op)])? + state.room_for(key, value.map_or(0, <[u8]>::len));
        state.hold_back();
        state.bring_in(tree, key);
        let state = Arc::clone(state);
        let mut took_lock = false;
        let outcome = self.try_change(&state, tree, key, value, needed, &mut took_lock);
        if outcome.is_err() && !self.is_doomed {
            // A call that fails keeps no lock that it took, unless its change is there still.
            self.give_back(!took_lock, tree, key);
        }
        outcome
    }

    fn try_change(
        &mut self,
        state: &Arc<State>,
        tree: &Arc<OpenTree>,
        key: &[u8],
        value: Option<&[u8]>,
        needed: u64,
        took_lock: &mut bool,
    ) -> Result<()> {
        loop {
            let writer = state.lock_with_room(needed)?;
            let live = tree.live()?;
            let before = live.raw(key)?;
            let stamp = before.as_ref().and_then(|(flags, bytes)| Stamp::of(*flags, bytes));
            if state.is_row_locked(self.id, tree, key, stamp) {
                let had_lock = self.has_lock(tree, key);
                state.lock_row_from(writer, self.id, tree, key, self.timeout)?;
                *took_lock |= !had_lock;
                continue;
            }
            self.check_unchanged(tree, key, stamp)?;
            // A batch that is not safe yet is safe before this transaction is, also where there is nothing to change any more.
            self.seen_end = Some(state.redo.closed());
            let is_there = before.as_ref().is_some_and(|(flags, _)| flags & FLAG_DELETED == 0);
            if value.is_none() && !is_there {
                // There is no row whose stamp could be the lock.
                state.locks.try_lock(self.id, live.space(), key, siltstone_base::row_locks::LockMode::Exclusive)?;
                return Ok(());
            }
            let too_many = || Error::new(ErrorKind::LimitExceeded, "a transaction makes less than 2^32 changes");
            let number = self.number.checked_add(1).ok_or_else(too_many)?;
            let before = before.as_ref().map(|(flags, bytes)| (*flags, bytes.as_slice()));
            // Before anything changes, and also for a change that fails: its record may be there still.
            self.number = number;
            let stamp = Stamp { id: self.id, number };
            let outcome = state.change_row(live, stamp, key, value, before);
            // Purge would give pages away that the row still has.
            self.is_doomed = outcome.is_err() && !matches!(state.undo.get(stamp), Ok(None));
            close_group(&state.pool)?;
            drop(writer);
            state.wake_jobs();
            return outcome;
        }
    }

    pub(super) fn check_doom(&self) -> Result<()> {
        if self.is_doomed || self.half_undone.is_some() {
            let message = "a change failed and could not be taken back; the transaction can only be rolled back";
            return Err(Error::new(ErrorKind::Aborted, message));
        }
        Ok(())
    }

    /// A cursor over the default tree as the transaction sees it now, its own changes up to now included.
    ///
    /// # Errors
    ///
    /// `Aborted` after closing.
    pub fn cursor(&mut self) -> Result<Cursor> {
        self.cursor_of(&Arc::clone(&self.state.default_tree))
    }

    /// A cursor over a tree as the transaction sees it now.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tree was dropped; `Aborted` after closing.
    pub fn cursor_in(&mut self, tree: &TreeHandle) -> Result<Cursor> {
        self.cursor_of(self.state.own(tree)?)
    }

    pub(super) fn cursor_of(&mut self, tree: &Arc<OpenTree>) -> Result<Cursor> {
        match &self.view {
            Some(view) => Cursor::with_view(&self.state, tree, view.up_to(self.number)),
            None => Cursor::new_for(&self.state, tree, self.id, self.number),
        }
    }

    /// A place to which the transaction can be rolled back.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(u64::from(self.number))
    }

    /// Undoes the changes since a savepoint of this transaction, newest first. Locks that stand in the table of locks stay; rows that are what they were before are free.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a savepoint of the future; those of I/O, after which it may be called again. Until that succeeds, the transaction changes nothing and does not commit (`Aborted`).
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let number = u32::try_from(savepoint.0).ok().filter(|number| *number <= self.number);
        let number = number.ok_or_else(|| Error::invalid_argument("the savepoint is none of this transaction"))?;
        let undone = self.state.undo_all(self.id, number);
        match (&undone, self.half_undone) {
            // A record that is left of a change that was taken back has what the row is now: purge would give its pages away.
            (Err(_), half_undone) => self.half_undone = Some(half_undone.map_or(number, |before| before.min(number))),
            (Ok(()), Some(before)) if number <= before => self.half_undone = None,
            (Ok(()), _) => {}
        }
        undone
    }

    /// Makes the changes visible, when they are as safe as [`durability`](crate::DbOptions::durability) says.
    ///
    /// # Errors
    ///
    /// Those of [`Db::put`]; `Aborted` after a change that failed and could not be taken back. The transaction is then rolled back, unless the redo log failed: then opening the database again decides.
    pub fn commit(mut self) -> Result<()> {
        self.is_over = true;
        if self.number == 0 {
            // What it was shown to be changed it vouches for.
            let is_safe = match (self.state.durability, self.seen_end) {
                (Durability::Commit, Some(end)) => self.state.redo.sync_to(end),
                _ => Ok(()),
            };
            self.state.finish(self.id, false);
            return is_safe;
        }
        let outcome = self.check_doom().and_then(|()| self.state.commit(self.id));
        if outcome.is_err() && self.state.health.error().is_none() {
            self.state.leave_to_background(self.id);
        }
        outcome
    }

    /// Undoes all changes.
    ///
    /// # Errors
    ///
    /// Those of I/O; the rest is then left to the background.
    pub fn rollback(mut self) -> Result<()> {
        self.is_over = true;
        self.view = None;
        self.state.roll_back_now(self.id)
    }

    /// Makes the changes safe under a name, without deciding about them: they and their locks survive a crash. Locks of rows that were only read do not.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `InvalidArgument` for a name that is empty or longer than 64 bytes; those of [`commit`](Self::commit). The transaction is then rolled back in the
    /// background.
    pub fn prepare(mut self, name: impl AsRef<[u8]>) -> Result<()> {
        let name = name.as_ref();
        if name.is_empty() || name.len() > MAX_NAME_LEN {
            return Err(Error::invalid_argument("the name of a prepared transaction has 1 to 64 bytes"));
        }
        self.check_doom()?;
        if !self.state.transactions.reserve_name(name, self.id) {
            return Err(Error::new(ErrorKind::AlreadyExists, "a transaction is prepared under this name"));
        }
        self.view = None;
        let outcome = self.state.decide(self.id, Some(&Fate::Prepared(name.to_vec())));
        // One that failed has its name until it is rolled back: its fate may be in the log.
        if outcome.is_ok() {
            self.is_over = true;
            self.state.transactions.set_prepared(name);
        }
        outcome
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.view = None;
        if self.number == 0 {
            self.state.finish(self.id, false);
        } else {
            self.state.leave_to_background(self.id);
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("id", &self.id).field("changes", &self.number).finish_non_exhaustive()
    }
}
