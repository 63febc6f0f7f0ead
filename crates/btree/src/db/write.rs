//! The write path: room in the log, the lock of writers, rows, the end of the group, its sync, its visibility.
//!
//! Writers apply their groups one after the other; they wait for the sync of the log together, and the first of them syncs for all.
//!
//! A put or delete of one row that nobody must be kept from seeing is one record: logged, handed to the operating system, applied. Everything else keeps
//! older versions of its rows until it is safe, and brings the rows back if it fails.
//!
//! Path: put 2/5. Before: db/mod.rs. After: tree/insert.rs.

use super::state::{OpenTree, State};
use crate::metrics::Counter;
use crate::mtr::{Close, close_group};
use crate::page::{self, FLAG_OVERFLOW, Lsn, OverflowRef};
use crate::tree::{Tree, Value};
use siltstone_base::engine::{Durability, KvOp};
use siltstone_base::sync::{Arc, MutexGuard};
use siltstone_base::{Error, ErrorKind, Result};

/// An operation and its tree.
pub(super) type Op<'a> = (&'a Arc<OpenTree>, KvOp<'a>);

/// What must be brought back if a group fails.
#[derive(Debug)]
struct Undo<'a> {
    tree: &'a Tree,
    key: &'a [u8],
    /// Flags and bytes of the row's cell as it was.
    before: Option<(u8, Vec<u8>)>,
}

/// What a group did so far.
#[derive(Debug, Default)]
struct Group<'a> {
    undo: Vec<Undo<'a>>,
    /// Long values that it wrote.
    written: Vec<(&'a Tree, OverflowRef)>,
    /// Keys whose leaves it left too empty.
    underfull: Vec<(&'a Tree, &'a [u8])>,
}

impl State {
    /// Applies operations as one group.
    pub(super) fn write(self: &Arc<Self>, ops: &[Op<'_>]) -> Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        let needed = self.check_ops(ops)?;
        let writer = self.lock_with_room(needed)?;
        for (tree, _) in ops {
            tree.live()?;
        }
        let is_plain = match ops {
            [(tree, op)] => {
                self.durability != Durability::Commit && !is_long(&tree.tree, op) && !self.versions.has_snapshots()
            }
            _ => false,
        };
        let outcome = if is_plain { self.write_one(&ops[0]) } else { self.write_group(ops, writer) };
        self.wake_jobs();
        outcome
    }

    /// Refuses what can't be written; returns the bytes that the log may need.
    fn check_ops(&self, ops: &[Op<'_>]) -> Result<u64> {
        let page_len = self.pool.page_len();
        if ops.len() > 1 && ops.len() > self.pool.frames().max(64) / 8 {
            let message = "a batch has no more operations than an eighth of the buffer pool has pages";
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let mut needed = (ops.len() as u64 + 4) * page_len as u64;
        for (_, op) in ops {
            let (key, value) = match op {
                KvOp::Put { key, value } => (*key, value.len()),
                KvOp::Delete { key } => (*key, 0),
            };
            if key.len() > page::max_key_len(page_len) {
                return Err(Error::new(ErrorKind::LimitExceeded, "a key takes no more than an eighth of a page"));
            }
            needed += (key.len() + value) as u64 * 5 / 4 + 128;
        }
        if needed > self.redo.capacity() / 2 {
            let message = "a batch that may need more than half of redo_capacity_bytes";
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(needed)
    }

    /// Takes the lock of writers when the log has room for so many bytes.
    pub(super) fn lock_with_room(self: &Arc<Self>, needed: u64) -> Result<MutexGuard<'_, ()>> {
        loop {
            let writer = self.writer.lock();
            self.check_open()?;
            self.health.check()?;
            if self.redo.has_room(needed) {
                return Ok(writer);
            }
            drop(writer);
            self.wait_for_room(needed)?;
        }
    }

    #[cold]
    fn wait_for_room(self: &Arc<Self>, needed: u64) -> Result<()> {
        let failures = || self.cleaner_failures.load(siltstone_base::sync::atomic::Ordering::Acquire);
        let before = failures();
        let start = self.executor.clock().now_micros();
        self.wake_cleaner();
        let mut is_over = || {
            self.redo.has_room(needed)
                || failures() != before
                || self.health.error().is_some()
                || self.check_open().is_err()
        };
        self.executor.wait_until(&self.room, None, &mut is_over);
        let waited = self.executor.clock().now_micros().saturating_sub(start);
        self.metrics.add(Counter::RedoFullMicros, waited);
        if self.redo.has_room(needed) {
            return Ok(());
        }
        self.health.check()?;
        match self.cleaner.lock().last_error.clone() {
            Some(error) => Err(error),
            None => Err(Error::new(ErrorKind::Busy, "the redo log is full, and the page cleaner does not run")),
        }
    }

    /// One row, logged and handed to the operating system before its page changes.
    #[inline]
    fn write_one(&self, op: &Op<'_>) -> Result<()> {
        let tree = &op.0.tree;
        match op.1 {
            KvOp::Put { key, value } => {
                tree.put(key, Value::inline(value), false, Close::Written, Close::Group, &mut |_| Ok(()))
            }
            KvOp::Delete { key } => {
                if tree.delete(key, false, Close::Written, &mut |_| Ok(()))? {
                    self.merge(tree, key);
                }
                Ok(())
            }
        }
    }

    /// Rows that become visible together, when they are safe.
    fn write_group<'a>(&'a self, ops: &[Op<'a>], writer: MutexGuard<'_, ()>) -> Result<()> {
        let number = self.versions.begin();
        let mut group = Group::default();
        let mut outcome = Ok(());
        for (tree, op) in ops {
            outcome = self.apply(&tree.tree, op, number, &mut group);
            if outcome.is_err() {
                break;
            }
        }
        if let Err(error) = outcome {
            // Where this fails too, what was changed stays hidden, and the engine takes no more writes.
            self.roll_back(&group).map_err(|error| self.health.fail(error))?;
            self.versions.abandon(number);
            return Err(error);
        }
        self.free_replaced(&group);
        let end = close_group(&self.pool)?;
        if self.durability != Durability::Commit {
            self.redo.write_to(end)?;
            self.versions.publish(number);
        }
        for (tree, key) in &group.underfull {
            self.merge(tree, key);
        }
        drop(writer);
        if self.durability == Durability::Commit {
            self.redo.sync_to(end)?;
            self.versions.publish(number);
        }
        Ok(())
    }

    fn apply<'a>(&self, tree: &'a Tree, op: &KvOp<'a>, number: u64, group: &mut Group<'a>) -> Result<()> {
        let (undo, key) = (&mut group.undo, key_of(op));
        let mut before = |row: Option<Value<'_>>| {
            let whole = match row {
                Some(value) if value.flags & FLAG_OVERFLOW != 0 => Some(tree.read_long(value)?),
                _ => None,
            };
            let seen = whole.as_deref().or(row.map(|value| value.bytes));
            self.versions.keep(number, tree.space(), key, seen);
            undo.push(Undo { tree, key, before: row.map(|value| (value.flags, value.bytes.to_vec())) });
            Ok(())
        };
        match op {
            KvOp::Put { key, value } if tree.is_long(key, value) => {
                let reference = tree.write_long(value)?;
                group.written.push((tree, reference));
                let value = Value { flags: FLAG_OVERFLOW, bytes: &reference.encode() };
                tree.put(key, value, true, Close::Open, Close::Open, &mut before)
            }
            KvOp::Put { key, value } => {
                tree.put(key, Value::inline(value), true, Close::Open, Close::Open, &mut before)
            }
            KvOp::Delete { key } => {
                if tree.delete(key, true, Close::Open, &mut before)? {
                    group.underfull.push((tree, *key));
                }
                Ok(())
            }
        }
    }

    /// Brings rows back, newest change first, and closes the group: it then says nothing.
    #[cold]
    fn roll_back(&self, group: &Group<'_>) -> Result<Lsn> {
        self.health.check()?;
        for Undo { tree, key, before } in group.undo.iter().rev() {
            match before {
                Some((flags, bytes)) => {
                    let value = Value { flags: *flags, bytes };
                    tree.put(key, value, true, Close::Open, Close::Open, &mut |_| Ok(()))?;
                }
                None => drop(tree.delete(key, true, Close::Open, &mut |_| Ok(()))?),
            }
        }
        for (tree, chain) in &group.written {
            tree.give_back(chain, Close::Open)?;
        }
        close_group(&self.pool)
    }

    /// Gives the pages of long values back that the group replaced. One that can't be is lost until its tree is dropped.
    fn free_replaced(&self, group: &Group<'_>) {
        for Undo { tree, before, .. } in &group.undo {
            let Some((flags, bytes)) = before else { continue };
            if let (true, Some(chain)) = (flags & FLAG_OVERFLOW != 0, OverflowRef::decode(bytes)) {
                let _ = tree.give_back(&chain, Close::Open);
            }
        }
    }

    /// Merges the leaf of a key. That it can't be done now is no error: the tree is as good as before.
    #[cold]
    fn merge(&self, tree: &Tree, key: &[u8]) {
        let _ = tree.merge_at(key, Close::Group);
    }
}

fn key_of<'a>(op: &KvOp<'a>) -> &'a [u8] {
    match op {
        KvOp::Put { key, .. } | KvOp::Delete { key } => key,
    }
}

#[inline]
fn is_long(tree: &Tree, op: &KvOp<'_>) -> bool {
    match op {
        KvOp::Put { key, value } => tree.is_long(key, value),
        KvOp::Delete { .. } => false,
    }
}
