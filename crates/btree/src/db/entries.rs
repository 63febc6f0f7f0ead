//! Changing entries of secondary indexes, and undoing that.
//!
//! Whoever changes an entry has its row in hand, and so knows whether the entry is there. What else a page could say, who put it there or marked it, matters only as long as
//! the undo log has records of it. So an entry without records is changed blindly: its page is not read for knowing what it was. With records it is read, as rows are.

use super::state::State;
use super::write::{Group, Undo};
use crate::page::{FLAG_DELETED, Stamp};
use crate::tree::{EntryOp, Tree};
use crate::undo::{Changed, UndoRecord};
use siltstone_base::engine::Durability;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::{Error, Result};

/// What an entry's cell is: flags and stamp; `None`: it is not there.
type EntryBefore = Option<(u8, Option<Stamp>)>;

/// What leads from a changed entry back to what its cell was.
fn restore(before: EntryBefore) -> EntryOp {
    match before {
        None => EntryOp::Remove { only_if: None },
        Some((flags, Some(stamp))) if flags & FLAG_DELETED != 0 => EntryOp::Mark { stamp },
        Some((_, stamp)) => EntryOp::Insert { stamp },
    }
}

/// What is done to an entry by who needs no stamp.
fn change(is_insertion: bool) -> EntryOp {
    if is_insertion { EntryOp::Insert { stamp: None } } else { EntryOp::Remove { only_if: None } }
}

/// The same with a stamp.
fn stamped_change(is_insertion: bool, stamp: Stamp) -> EntryOp {
    if is_insertion { EntryOp::Insert { stamp: Some(stamp) } } else { EntryOp::Mark { stamp } }
}

/// Takes the newest change of the open group back, if it still waits. Returns whether it did; what fails leaves no trace, and the change is to be undone by its inverse.
///
/// Only for what the open group did, newest first: nobody but the group came to the leaf since. Where the change was merged meanwhile its leaf stays in the pool until the group is closed, so that an inverse never waits
/// there. In a later group it may, and the inverse of a second change of an entry is the first one once more: taken for it, it would go, and leave what the second one did.
fn take_back(tree: &Tree, key: &[u8], op: EntryOp) -> bool {
    matches!(tree.take_back(key, op), Ok(true))
}

/// Flags and bytes of a cell.
fn cell_of(before: EntryBefore) -> Option<(u8, Vec<u8>)> {
    before.map(|(flags, stamp)| (flags, stamp.map_or_else(Vec::new, |stamp| stamp.encode().to_vec())))
}

impl State {
    /// What an entry is to be taken for before it changes. `is_there`: whether its row says that it is there.
    fn entry_before(&self, tree: &Tree, key: &[u8], is_there: bool) -> Result<EntryBefore> {
        if !self.undo.may_have_records(tree.space(), key) {
            return Ok(is_there.then_some((0, None)));
        }
        let found = tree.raw(key)?.map(|(flags, bytes)| (flags, Stamp::of(flags, &bytes)));
        if found.is_some_and(|(flags, _)| flags & FLAG_DELETED == 0) != is_there {
            let message = "an index does not fit its rows: an entry is missing, or left over";
            return Err(Error::corrupt(message).with_file(&self.spaces.path(tree.space())));
        }
        Ok(found)
    }

    /// Adds or removes an entry as part of a group of writes.
    pub(super) fn apply_entry<'a>(
        &self,
        tree: &'a Tree,
        key: &'a [u8],
        is_insertion: bool,
        number: u64,
        group: &mut Group<'a>,
    ) -> Result<()> {
        if self.must_stamp(group) {
            let Some(stamp) = self.next_stamp(group) else { return Ok(()) };
            // First: a change that fails may leave its record.
            group.undo.push(Undo { tree, key, before: None, stamp: Some(stamp), is_entry: true });
            return self.change_entry(tree, stamp, key, is_insertion);
        }
        let before = self.entry_before(tree, key, !is_insertion)?;
        // Entries are only seen through views, and none is made while a group is. So nobody needs what they were, but views that are older than the group,
        // and those that are made before it is safe.
        if group.id.is_some() || self.durability == Durability::Commit {
            let cell = cell_of(before);
            let cell = cell.as_ref().map(|(flags, bytes)| (*flags, bytes.as_slice()));
            self.versions.keep(number, tree.space(), key, cell);
        }
        group.undo.push(Undo { tree, key, before: cell_of(before), stamp: None, is_entry: true });
        match tree.apply_entry(key, change(is_insertion)) {
            Ok(is_underfull) => group.underfull.extend(is_underfull.then_some((tree, key))),
            Err(error) => {
                // It was not made: there is nothing to bring back, perhaps in a leaf that can't be read.
                group.undo.pop();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Adds an entry, or marks it as deleted, with a stamp, as part of an open group, and leaves what it was in the undo log. What fails leaves no trace.
    pub(super) fn change_entry(&self, tree: &Tree, stamp: Stamp, key: &[u8], is_insertion: bool) -> Result<()> {
        let before = cell_of(self.entry_before(tree, key, !is_insertion)?);
        let changed = Changed { space: tree.space(), key, is_deletion: !is_insertion, is_entry: true };
        self.undo.add(stamp, &changed, before.as_ref().map(|(flags, bytes)| (*flags, bytes.as_slice())))?;
        let outcome = tree.apply_entry(key, stamped_change(is_insertion, stamp));
        if outcome.is_err() {
            // If this fails too the record stays. Undoing it leaves the entry as it is.
            let _ = self.undo.remove_change(stamp, &changed);
        }
        outcome.map(drop)
    }

    /// Brings an entry back that the open group changed without a stamp, as its newest change.
    pub(super) fn restore_entry(&self, tree: &Tree, key: &[u8], before: Option<&(u8, Vec<u8>)>) -> Result<()> {
        let before = before.map(|(flags, bytes)| (*flags, Stamp::of(*flags, bytes)));
        let was_there = before.is_some_and(|(flags, _)| flags & FLAG_DELETED == 0);
        if take_back(tree, key, change(!was_there)) {
            return Ok(());
        }
        tree.apply_entry(key, restore(before)).map(drop)
    }

    /// Undoes the newest change with a stamp that the open group made, of a row or an entry.
    pub(super) fn undo_in_group(&self, stamp: Stamp, record: &UndoRecord) -> Result<()> {
        if record.is_entry
            && let Some(open) = self.tree_of(record.space)
            && take_back(open.tree(), &record.key, stamped_change(!record.is_deletion, stamp))
        {
            return self.undo.remove_change(stamp, &record.changed()).map(drop);
        }
        self.undo_change(stamp, record).map(drop)
    }

    /// Undoes a change of an entry as part of an open group, without looking at it: a change that was never made is undone without harm. Returns whether its leaf should be
    /// merged, and the undo log's.
    pub(super) fn undo_entry(&self, tree: Option<&Tree>, stamp: Stamp, record: &UndoRecord) -> Result<(bool, bool)> {
        let mut is_underfull = false;
        if let Some(tree) = tree.filter(|_| !is_planted(PlantedBug::EntryIsNotRolledBack)) {
            let op = match &record.before {
                Some((flags, bytes)) if !self.is_purged(*flags, bytes)? => {
                    restore(Some((*flags, Stamp::of(*flags, bytes))))
                }
                _ => EntryOp::Remove { only_if: Some(stamp) },
            };
            is_underfull = tree.apply_entry(&record.key, op)?;
        }
        Ok((is_underfull, self.undo.remove_change(stamp, &record.changed())?))
    }
}
