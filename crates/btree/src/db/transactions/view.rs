//! Read views: what somebody sees, and rows as they were for it.

use super::super::state::{OpenTree, State};
use crate::page::{FLAG_DELETED, FLAG_OVERFLOW, Stamp};
use crate::tree::{Tree, Value};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// A moment of the database. While it lives nothing is purged that it needs.
#[derive(Debug)]
pub(in super::super) struct View {
    state: Arc<State>,
    /// The last batch that it sees of those that leave no stamps.
    pub(in super::super) snapshot: u64,
    /// The second as of which it sees rows that expire.
    pub(in super::super) time: u64,
    /// Transactions from this number on began later.
    high: u64,
    /// Those that had not ended, in order.
    active: Vec<u64>,
    /// The transaction whose view it is, or 0, and up to which of its changes it goes.
    own: u64,
    own_number: u32,
    /// The commits that it sees.
    commits: u64,
}

/// A cell: flags and bytes.
pub(in super::super) type CellBytes = (u8, Vec<u8>);

/// What a cell is for a view.
pub(in super::super) enum Seen {
    /// The row, if there is one.
    Row(Option<Vec<u8>>),
    /// The change of this stamp was undone meanwhile: the row must be read again.
    Undone(Stamp),
}

impl State {
    /// What is to be seen now, by a transaction or, with 0, by anyone else.
    pub(in super::super) fn view(self: &Arc<Self>, own: u64, own_number: u32) -> View {
        // While nobody writes what is visible is whole. Groups of entries rely on it: what they change they keep only for views that are there.
        let _writer = self.writer.lock();
        self.view_as_writer(own, own_number)
    }

    /// The same, for who holds the lock of writers.
    pub(in super::super) fn view_as_writer(self: &Arc<Self>, own: u64, own_number: u32) -> View {
        let mut inner = self.transactions.inner.lock();
        let commits = inner.add_view();
        let high = inner.next;
        let active = inner.active.iter().copied().filter(|id| *id != own).collect();
        // Under the same lock: who publishes a batch ends its number within it.
        let snapshot = self.versions.snapshot();
        drop(inner);
        let time = self.default_tree.read_time();
        View { state: Arc::clone(self), snapshot, time, high, active, own, own_number, commits }
    }

    /// Makes a batch, and those before it, visible: their versions and their stamps at one moment.
    #[inline]
    pub(in super::super) fn publish(self: &Arc<Self>, batch: u64) {
        if self.versions.has_stamped() {
            self.publish_stamped(batch);
        } else {
            self.versions.publish(batch);
        }
    }

    #[cold]
    fn publish_stamped(self: &Arc<Self>, batch: u64) {
        let ended = {
            let mut inner = self.transactions.inner.lock();
            let ended = self.versions.publish(batch);
            ended.iter().for_each(|id| self.transactions.end_within(&mut inner, *id, false, true));
            ended
        };
        ended.iter().for_each(|id| self.locks.release_all(*id));
        super::wake_purge(self);
    }

    /// A row for a view. `Busy` if its tree was truncated or loaded since.
    pub(in super::super) fn read_row_of(&self, view: &View, open: &OpenTree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let row = self.read_row(view, open.live_at(view.snapshot)?, key);
        // If it was while the row was read, pages were gone that the row was read from.
        open.live_at(view.snapshot)?;
        row
    }

    /// A row as it is now, for a transaction or, with 0, for anyone else.
    pub(in super::super) fn read_row_now(
        self: &Arc<Self>,
        open: &OpenTree,
        own: u64,
        own_number: u32,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        loop {
            let view = self.view(own, own_number);
            let row = self.read_row_of(&view, open, key);
            let is_older = |error: Error| error.kind() == ErrorKind::Busy;
            if row.is_ok() || !open.live_at(view.snapshot).is_err_and(is_older) {
                return row;
            }
        }
    }

    /// A row for a view.
    pub(in super::super) fn read_row(&self, view: &View, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut last = None;
        loop {
            let abandoned = self.versions.abandoned();
            let page = tree.get(key, |flags, bytes| (flags, bytes.to_vec()))?;
            // Pages first, versions second: what a page may show too early is kept before.
            let cell = match self.versions.find(Some(view.snapshot), tree.space(), key) {
                Some(_) if self.shows_own(view, page.as_ref())? => page,
                Some(version) => version,
                None => page,
            };
            if abandoned != self.versions.abandoned() {
                continue;
            }
            match self.resolve(view, tree, key, cell)? {
                Seen::Row(row) => return Ok(row),
                Seen::Undone(stamp) if last == Some(stamp) => {
                    return Err(
                        Error::corrupt("a row's older version is missing").with_file(&self.spaces.path(tree.space()))
                    );
                }
                Seen::Undone(stamp) => last = Some(stamp),
            }
        }
    }

    /// Whether a view sees a change of its own transaction in a row. It is newer than any batch that the row's versions in memory are of: the transaction holds the lock of the row
    /// since, and may have built on a batch that is not safe yet.
    pub(in super::super) fn shows_own(&self, view: &View, cell: Option<&CellBytes>) -> Result<bool> {
        let mut stamp = cell.and_then(|(flags, bytes)| Stamp::of(*flags, bytes));
        while let Some(own) = stamp.filter(|stamp| view.own != 0 && stamp.id == view.own) {
            if view.sees(own) {
                return Ok(true);
            }
            let before = self.undo.get(own)?.and_then(|record| record.before);
            // Numbers only fall: damage can't lead in a circle.
            stamp =
                before.and_then(|(flags, bytes)| Stamp::of(flags, &bytes)).filter(|older| older.number < own.number);
        }
        Ok(false)
    }

    /// Follows a row's older versions to the one that a view sees.
    pub(in super::super) fn resolve(
        &self,
        view: &View,
        tree: &Tree,
        key: &[u8],
        cell: Option<CellBytes>,
    ) -> Result<Seen> {
        let mut cell = cell;
        // Versions that lead in a circle are damage: one of them is met again.
        let (mut steps, mut known) = (0_u64, None);
        loop {
            let Some((flags, bytes)) = cell else { return Ok(Seen::Row(None)) };
            let value = Value::new(flags, &bytes);
            let Some(stamp) = Stamp::of(flags, &bytes) else { return Ok(Seen::Row(Some(tree.read_long(value)?))) };
            if view.sees(stamp) {
                if flags & FLAG_DELETED != 0 {
                    return Ok(Seen::Row(None));
                }
                let row = tree.read_long(value);
                // A rollback of the view's own transaction takes the record away before the pages of its value: as long as it is there, they were whole.
                if view.own == stamp.id && flags & FLAG_OVERFLOW != 0 && self.undo.get(stamp)?.is_none() {
                    return Ok(Seen::Undone(stamp));
                }
                return Ok(Seen::Row(Some(row?)));
            }
            if known == Some(stamp) {
                return Err(
                    Error::corrupt("a row's versions lead in a circle").with_file(&self.spaces.path(tree.space()))
                );
            }
            steps += 1;
            if steps.is_power_of_two() {
                known = Some(stamp);
            }
            let Some(record) = self.undo.get(stamp)? else { return Ok(Seen::Undone(stamp)) };
            if record.space != tree.space() || record.key != key {
                return Err(
                    Error::corrupt("a row's older version is another row's").with_file(&self.spaces.path(tree.space()))
                );
            }
            cell = record.before;
        }
    }
}

impl View {
    /// The same moment, for another reader.
    pub(in super::super) fn again(&self) -> Self {
        self.up_to(self.own_number)
    }

    /// The same moment, with the transaction's own changes up to one.
    pub(super) fn up_to(&self, own_number: u32) -> Self {
        self.state.versions.share(self.snapshot);
        self.state.transactions.inner.lock().share_view(self.commits);
        Self { state: Arc::clone(&self.state), active: self.active.clone(), own_number, ..*self }
    }

    /// Whether a change is part of the moment.
    pub(in super::super) fn sees(&self, stamp: Stamp) -> bool {
        if stamp.id == self.own {
            return stamp.number <= self.own_number;
        }
        stamp.id < self.high && self.active.binary_search(&stamp.id).is_err()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.state.versions.release(self.snapshot);
        let is_due = {
            let mut inner = self.state.transactions.inner.lock();
            inner.remove_view(self.commits);
            !inner.history.is_empty()
        };
        if is_due {
            super::wake_purge(&self.state);
        }
    }
}
