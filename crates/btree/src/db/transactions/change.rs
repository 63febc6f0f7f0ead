//! Changing rows with a stamp, and undoing that.

use super::super::state::{OpenTree, State};
use crate::mtr::{Close, close_group};
use crate::page::{FLAG_DELETED, FLAG_OVERFLOW, FLAG_STAMP, Stamp};
use crate::tree::{Tree, Value};
use crate::undo::{Changed, UndoRecord};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// Nothing has to be told of a row: its record is in the undo log.
fn ignore(_: Option<Value<'_>>) -> Result<()> {
    Ok(())
}

impl State {
    /// A number for a transaction. For who holds the lock of writers, with no group open.
    pub(in super::super) fn new_id(&self) -> Result<u64> {
        if let Some(id) = self.transactions.take_id() {
            return Ok(id);
        }
        let end = self.transactions.next_reservation();
        // No number is used twice: the reservation is in the log before what uses it.
        if let Err(error) = self.undo.set_next_id(end) {
            close_group(&self.pool)?;
            return Err(error);
        }
        self.transactions.reserve(end);
        let none = || Error::new(ErrorKind::LimitExceeded, "a database has no more than 2^64 transactions in its life");
        self.transactions.take_id().ok_or_else(none)
    }

    /// Sets or removes a row as part of an open group, and leaves what it was in the undo log. `before` is the row's cell. What fails leaves no trace.
    pub(in super::super) fn change_row(
        &self,
        tree: &Tree,
        stamp: Stamp,
        key: &[u8],
        value: Option<&[u8]>,
        before: Option<(u8, &[u8])>,
    ) -> Result<()> {
        let changed = Changed { space: tree.space(), key, is_deletion: value.is_none(), is_entry: false };
        self.undo.add(stamp, &changed, before)?;
        let outcome = self.put_stamped(tree, stamp, key, value);
        if outcome.is_err() {
            // If this fails too the record stays. Who undoes it finds a row that has another stamp, and leaves it.
            let _ = self.undo.remove(stamp);
        }
        outcome
    }

    fn put_stamped(&self, tree: &Tree, stamp: Stamp, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let stamp = stamp.encode();
        let put = |flags: u8, bytes: &[u8]| {
            tree.put(key, Value::new(flags, bytes), true, Close::Open, Close::Open, &mut ignore)
        };
        match value {
            None => put(FLAG_STAMP | FLAG_DELETED, &stamp),
            Some(value) if tree.is_long(key, value) => {
                let reference = tree.write_long(value)?;
                let outcome = put(FLAG_STAMP | FLAG_OVERFLOW, &[&stamp[..], &reference.encode()].concat());
                if outcome.is_err() {
                    let _ = tree.give_back(&reference, Close::Open);
                }
                outcome
            }
            Some(value) => put(FLAG_STAMP, &[&stamp[..], value].concat()),
        }
    }

    /// Undoes a change as part of an open group: the row is what it was, and the record is gone. It may be done again if it fails. Returns whether the row's leaf
    /// should be merged, and the undo log's.
    pub(in super::super) fn undo_change(&self, stamp: Stamp, record: &UndoRecord) -> Result<(bool, bool)> {
        let (mut is_underfull, mut undone) = (false, None);
        let open = self.tree_of(record.space);
        if record.is_entry {
            return self.undo_entry(open.as_deref().map(OpenTree::tree), stamp, record);
        }
        if let Some(open) = &open {
            let (tree, key) = (open.tree(), &record.key);
            let now = tree.raw(key)?;
            undone = now.filter(|(flags, bytes)| Stamp::of(*flags, bytes) == Some(stamp));
            if undone.is_some() {
                match &record.before {
                    Some((flags, bytes)) if !self.is_purged(*flags, bytes)? => {
                        let value = Value::new(*flags, bytes);
                        tree.put(key, value, true, Close::Open, Close::Open, &mut ignore)?;
                    }
                    _ => is_underfull = tree.delete(key, true, Close::Open, &mut ignore)?,
                }
            }
        }
        // Before the pages: a cursor of the transaction that reads its long value looks for the record afterwards.
        let is_log_underfull = self.undo.remove(stamp)?;
        if let (Some(open), Some((flags, bytes))) = (&open, undone)
            && let Some(chain) = (Value::new(flags, &bytes)).chain()
        {
            // Pages that can't be given back are lost until the tree is dropped.
            let _ = open.tree().give_back(&chain, Close::Open);
        }
        Ok((is_underfull, is_log_underfull))
    }

    /// Whether a cell is of a row that is deleted for everyone: purge came by while the row was another one.
    pub(in super::super) fn is_purged(&self, flags: u8, bytes: &[u8]) -> Result<bool> {
        match Stamp::of(flags, bytes) {
            Some(stamp) if flags & FLAG_DELETED != 0 => Ok(self.undo.get(stamp)?.is_none()),
            _ => Ok(false),
        }
    }

    /// Undoes the last change of a transaction, unless its number is `down_to` or lower, as a group of its own. For who holds the lock of writers. Returns whether there
    /// was one.
    pub(super) fn undo_last(&self, id: u64, down_to: u32) -> Result<bool> {
        let Some((number, record)) = self.undo.last(id)?.filter(|(number, _)| *number > down_to) else {
            return Ok(false);
        };
        let stamp = Stamp { id, number };
        let outcome = self.undo_change(stamp, &record);
        close_group(&self.pool)?;
        let (is_underfull, is_log_underfull) = outcome?;
        if is_underfull && let Some(open) = self.tree_of(record.space) {
            let _ = open.tree().merge_at(&record.key, Close::Group);
        }
        if is_log_underfull {
            self.undo.merge(stamp);
        }
        Ok(true)
    }

    /// Bytes of the redo log that the change of a row, or undoing it, may need.
    pub(super) fn room_for(&self, key: &[u8], value: usize) -> u64 {
        // Two rows, each with a split, and what a batch needs beside its rows.
        10 * self.pool.page_len() as u64 + 2 * (key.len() + value) as u64
    }

    /// Undoes the changes of a transaction behind a number, newest first, each as a group of its own.
    pub(super) fn undo_all(self: &Arc<Self>, id: u64, down_to: u32) -> Result<()> {
        loop {
            let _writer = self.lock_with_room(self.room_for(&[], self.pool.page_len()))?;
            if !self.undo_last(id, down_to)? {
                return Ok(());
            }
        }
    }
}
