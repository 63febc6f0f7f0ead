//! Unique indexes: no two rows have the same index key. The right to an index key is a lock of its own, in the space of the index; a stamp of an active transaction on one of
//! its entries stands for it, as stamps of rows do for theirs. So who removes an entry needs the right to its key as much as who adds one: no stamp ever stands beside another one's lock.

use super::super::state::{OpenTree, State};
use super::super::writers::Writer;
use crate::page::{FLAG_DELETED, Stamp};
use crate::tree::{Chunk, Position, Start, Tree};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::row_locks::LockMode;
use siltstone_base::sync::Arc;
use siltstone_base::text_table::Shown;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

impl State {
    /// Hands flags and stamp of each entry of an index key to `found`, with the entry.
    pub(super) fn each_entry(
        &self,
        tree: &Tree,
        key: &[u8],
        mut found: impl FnMut(&[u8], u8, Option<Stamp>),
    ) -> Result<()> {
        let (mut position, mut chunk, mut last) = (Position::default(), Chunk::default(), Vec::new());
        loop {
            let start = if last.is_empty() { Start::At(key) } else { Start::Beyond(&last) };
            tree.read_chunk(start, true, &mut position, 16, &mut chunk)?;
            for index in 0..chunk.len() {
                let Some((entry, value)) = chunk.get(index) else { break };
                if !entry.starts_with(key) {
                    return Ok(());
                }
                let flags = chunk.flags(index);
                found(entry, flags, Stamp::of(flags, value));
            }
            let Some((entry, _)) = chunk.len().checked_sub(1).and_then(|last| chunk.get(last)) else { return Ok(()) };
            last.clear();
            last.extend_from_slice(entry);
        }
    }

    /// Whether someone else may have the right to an index key, which an entry gets or, unless `is_insertion`, had. For who holds the lock of writers.
    pub(in super::super) fn is_key_locked(
        &self,
        owner: u64,
        tree: &OpenTree,
        key: &[u8],
        is_insertion: bool,
    ) -> Result<bool> {
        let space = tree.tree().space();
        let mut is_stamped = false;
        // While an entry is there, nobody else's stamp is on one of its key: he would have had the right to it, and so would who added the entry.
        if is_insertion {
            self.each_entry(tree.live()?, key, |_, _, stamp| {
                is_stamped |= stamp.is_some_and(|stamp| stamp.id != owner && self.transactions.is_active(stamp.id));
            })?;
        }
        Ok(is_stamped
            || (self.locks.is_locked_by_other(owner, space, key)
                && self.locks.mode(owner, space, key) != Some(LockMode::Exclusive)))
    }

    /// Locks an index key; `owner` holds the lock in the table afterwards. For who holds the lock of writers, which is given back before anything is waited for.
    pub(in super::super) fn lock_key_from(
        self: &Arc<Self>,
        writer: Writer<'_>,
        owner: u64,
        tree: &OpenTree,
        key: &[u8],
        timeout: Option<Duration>,
    ) -> Result<()> {
        let space = tree.tree().space();
        let mut holders = Vec::new();
        self.each_entry(tree.live()?, key, |_, _, stamp| holders.extend(stamp.map(|stamp| stamp.id)))?;
        holders.retain(|holder| *holder != owner);
        self.grant_to_active(&holders, space, key);
        self.lock_from(writer, owner, space, key, timeout)
    }

    /// Refuses an index key that another row has. For who holds the lock of writers, and the right to the key.
    pub(in super::super) fn check_unique(&self, tree: &OpenTree, key: &[u8]) -> Result<()> {
        let mut is_taken = false;
        self.each_entry(tree.live()?, key, |_, flags, _| is_taken |= flags & FLAG_DELETED == 0)?;
        if is_taken && !is_planted(PlantedBug::UniqueIsNotChecked) {
            let message = format!("another row has the key {} in the unique index {}", Shown(key), tree.name);
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        Ok(())
    }
}
