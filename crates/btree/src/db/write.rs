//! The write path: room in the log, the lock of writers, rows, the end of the group, its sync, its visibility.
//!
//! Writers apply their groups one after the other; they wait for the sync of the log together, and the first of them syncs for all.
//!
//! Older versions for cursors stay in memory as long as they take no more than they may; then they go to the undo log, and the rows get stamps.
//!
//! A put or delete of one row that nobody must be kept from seeing is one record: logged, handed to the operating system, applied. Everything else keeps
//! older versions of its rows until it is safe, and brings the rows back if it fails.
//!
//! Path: put 2/5. Before: db/mod.rs. After: tree/insert.rs.

use super::state::{OpenTree, State};
use super::writers::Writer;
use crate::event::Event;
use crate::metrics::Counter;
use crate::mtr::{Close, close_group};
use crate::page::{self, FLAG_DELETED, FLAG_OVERFLOW, OverflowRef, Stamp};
use crate::redo::GroupEnd;
use crate::tree::{TOO_LONG, Tree, Value};
use crate::undo::Fate;
use siltstone_base::engine::{Durability, KvOp};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// An operation and its tree.
pub(super) type Op<'a> = (&'a Arc<OpenTree>, KvOp<'a>);

/// What must be so of a row before it changes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected<'a> {
    Anything,
    /// There is none.
    Absent,
    /// It has this value.
    Value(&'a [u8]),
}

impl Expected<'_> {
    /// Refuses a row that is not what is expected. `value`: what it is, if there is one.
    fn check(self, value: Option<&[u8]>) -> Result<()> {
        match (self, value) {
            (Self::Absent, Some(_)) => Err(Error::new(ErrorKind::AlreadyExists, "a row of this primary key exists")),
            (Self::Value(_), None) => Err(Error::new(ErrorKind::NotFound, "no row has this primary key")),
            (Self::Value(expected), Some(value)) if expected != value => {
                Err(Error::new(ErrorKind::Busy, "the row is not, or no longer, what the caller takes it for"))
            }
            _ => Ok(()),
        }
    }
}

/// What must be brought back if a group fails.
#[derive(Debug)]
pub(super) struct Undo<'a> {
    pub(super) tree: &'a Tree,
    pub(super) key: &'a [u8],
    /// Flags and bytes of the row's cell as it was; one with a stamp is in the undo log instead.
    pub(super) before: Option<(u8, Vec<u8>)>,
    pub(super) stamp: Option<Stamp>,
    /// Whether it is an entry of a secondary index.
    pub(super) is_entry: bool,
}

/// What a group did so far.
#[derive(Debug, Default)]
pub(super) struct Group<'a> {
    pub(super) undo: Vec<Undo<'a>>,
    /// Long values that it wrote.
    written: Vec<(&'a Tree, OverflowRef)>,
    /// Keys whose leaves it left too empty.
    pub(super) underfull: Vec<(&'a Tree, &'a [u8])>,
    /// The number under which it leaves versions in the undo log, if it may have to, and how many it left.
    pub(super) id: Option<u64>,
    stamped: u32,
}

/// The locks of rows that a batch took because others may hold some of them. Given back when it is dropped.
pub(super) struct Locked<'a>(pub(super) &'a State, pub(super) u64);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.locks.release_all(self.1);
    }
}

impl State {
    /// Applies operations as one group.
    pub(super) fn write(self: &Arc<Self>, ops: &[Op<'_>]) -> Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        let needed = self.check_ops(ops)?;
        self.hold_back();
        for (open, op) in ops {
            self.bring_in(open, key_of(op));
        }
        let mut locked = None;
        let writer = loop {
            let writer = self.lock_with_room(needed)?;
            let owner = locked.as_ref().map_or(0, |Locked(_, owner)| *owner);
            if !self.transactions.has_owners() || self.are_rows_free(owner, ops)? {
                break writer;
            }
            // Behind whoever was first, and in front of those who come now.
            let owner = self.new_id()?;
            drop(writer);
            let owner = locked.insert(Locked(self, owner)).1;
            // Batches ask in the same order, and don't wait for one another in a circle.
            let mut rows: Vec<_> = ops.iter().map(|(tree, op)| (*tree, key_of(op))).collect();
            rows.sort_unstable_by_key(|(tree, key)| (tree.tree().space(), *key));
            rows.dedup_by_key(|(tree, key)| (tree.tree().space(), *key));
            for (tree, key) in rows {
                self.lock_row(owner, tree, key, None)?;
            }
        };
        for (tree, _) in ops {
            tree.live()?;
        }
        let is_plain = match ops {
            [(tree, op)] => {
                self.durability != Durability::Commit && !is_long(tree.tree(), op) && !self.versions.has_snapshots()
            }
            _ => false,
        };
        let outcome = if is_plain { self.write_one(&ops[0]) } else { self.write_group(ops, writer) };
        self.wake_jobs();
        outcome
    }

    /// Before a writer takes the lock of writers: his leaf comes in, so that nobody waits for his I/O, and as many are read at once as there are writers.
    #[inline]
    pub(super) fn bring_in(&self, open: &OpenTree, key: &[u8]) {
        if self.pool.is_ahead()
            && let Ok(tree) = open.live()
        {
            tree.bring_in(key);
        }
    }

    /// Whether no transaction holds the lock of a row.
    #[cold]
    fn are_rows_free(&self, owner: u64, ops: &[Op<'_>]) -> Result<bool> {
        for (tree, op) in ops {
            let stamp = tree.live()?.stamp(key_of(op))?;
            if self.is_row_locked(owner, tree, key_of(op), stamp) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses what can't be written; returns the bytes that the log may need.
    pub(super) fn check_ops(&self, ops: &[Op<'_>]) -> Result<u64> {
        let sizes = ops.iter().map(|(tree, op)| match op {
            KvOp::Put { key, value } => (tree.tree(), *key, value.len()),
            KvOp::Delete { key } | KvOp::DeleteOnce { key } => (tree.tree(), *key, 0),
        });
        self.check_sizes(ops.len(), sizes)
    }

    /// Most operations of one group.
    pub(super) fn most_ops(&self) -> usize {
        self.pool.frames().max(64) / 8
    }

    /// Refuses `count` keys, with values of these lengths, that can't be written as one group; returns the bytes that the log may need.
    pub(super) fn check_sizes<'a>(
        &self,
        count: usize,
        sizes: impl Iterator<Item = (&'a Tree, &'a [u8], usize)>,
    ) -> Result<u64> {
        let page_len = self.pool.page_len();
        let most = self.most_ops();
        if count > 1 && count > most {
            let message =
                format!("a batch of {count} operations; an eighth of the buffer pool's pages, {most}, is the most");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let mut needed = (count as u64 + 4) * page_len as u64;
        let (mut long_pages, most_pages) = (0, self.pool.frames() / 2);
        for (tree, key, value) in sizes {
            if key.len() > page::max_key_len(page_len) {
                return Err(Error::new(ErrorKind::LimitExceeded, "a key takes no more than an eighth of a page"));
            }
            if value > page_len && value > tree.max_value_len() {
                return Err(Error::new(ErrorKind::LimitExceeded, TOO_LONG));
            }
            if value > page_len {
                long_pages += value / page_len + 1;
            }
            needed += (key.len() + value) as u64 * 5 / 4 + 128;
        }
        if count > 1 && long_pages > most_pages {
            // None of them can leave the pool before all are written.
            let message = format!(
                "a batch of long values that take {long_pages} pages; half of the buffer pool's, {most_pages}, is the most"
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        if needed > self.redo.capacity() / 2 {
            let half = self.redo.capacity() / 2;
            let message =
                format!("a batch that may need {needed} bytes of the redo log; half of it, {half} bytes, is the most");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(needed)
    }

    /// Takes the lock of writers when the log has room for so many bytes.
    pub(super) fn lock_with_room(self: &Arc<Self>, needed: u64) -> Result<Writer<'_>> {
        loop {
            let writer = self.lock_for(needed)?;
            self.contract_changes();
            if self.redo.has_room(needed) {
                return Ok(writer);
            }
        }
    }

    /// The same, for who does not make the change buffer longer.
    pub(super) fn lock_for(self: &Arc<Self>, needed: u64) -> Result<Writer<'_>> {
        let most = self.redo.capacity() / 8 * 7;
        if needed > most {
            let message = format!(
                "a change that may need {needed} bytes of the redo log; seven eighths, {most} bytes, is the most"
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let mut has_waited = false;
        loop {
            let writer = self.writer.lock();
            self.check_open()?;
            self.health.check()?;
            // Who needs little goes behind who waits for much, whom nobody would leave room otherwise.
            let room = if has_waited { needed } else { needed.max(self.redo.wanted()) };
            if self.redo.has_room(room) {
                return Ok(writer);
            }
            drop(writer);
            self.wait_for_room(room)?;
            has_waited = true;
        }
    }

    #[cold]
    fn wait_for_room(self: &Arc<Self>, needed: u64) -> Result<()> {
        let failures = || self.cleaner_failures.load(siltstone_base::sync::atomic::Ordering::Acquire);
        let before = failures();
        let start = self.executor.clock().now_micros();
        self.wake_cleaner();
        let mut is_over = || {
            self.redo.want(needed);
            self.redo.has_room(needed)
                || failures() != before
                || self.health.error().is_some()
                || self.check_open().is_err()
        };
        self.executor.wait_until(&self.room, None, &mut is_over);
        self.redo.stop_wanting(needed);
        self.room.notify_all();
        let waited = self.executor.clock().now_micros().saturating_sub(start);
        self.metrics.add(Counter::RedoFullMicros, waited);
        self.events.note(|| Event::WriterWaited { duration: Duration::from_micros(waited) });
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
        let tree = op.0.live()?;
        match op.1 {
            KvOp::Put { key, value } => {
                tree.put(key, Value::inline(value), false, Close::Written, Close::Group, &mut |_| Ok(()))
            }
            KvOp::Delete { key } | KvOp::DeleteOnce { key } => {
                if tree.delete(key, false, Close::Written, &mut |_| Ok(()))? {
                    self.merge(tree, key);
                }
                Ok(())
            }
        }
    }

    /// Rows that become visible together, when they are safe.
    fn write_group<'a>(self: &'a Arc<Self>, ops: &[Op<'a>], writer: Writer<'_>) -> Result<()> {
        let (number, end) = self.make_group(ops)?;
        self.end_group(number, end, writer)
    }

    /// Makes a group safe that was made, and visible.
    pub(super) fn end_group(self: &Arc<Self>, number: u64, end: GroupEnd, writer: Writer<'_>) -> Result<()> {
        drop(writer);
        if self.durability == Durability::Commit {
            self.redo.sync_to(end)?;
            self.publish(number);
        }
        Ok(())
    }

    /// Changes rows, and logs that. For who holds the lock of writers. Returns the number of the group, which is not visible yet if it has to be synced first, and where its log ends.
    pub(super) fn make_group<'a>(self: &'a Arc<Self>, ops: &[Op<'a>]) -> Result<(u64, GroupEnd)> {
        self.make_group_of(|number, group| {
            ops.iter().try_for_each(|(tree, op)| self.apply(tree.tree(), op, Expected::Anything, number, group))
        })
    }

    /// The same for changes that `apply` makes.
    pub(super) fn make_group_of<'a>(
        self: &'a Arc<Self>,
        apply: impl FnOnce(u64, &mut Group<'a>) -> Result<()>,
    ) -> Result<(u64, GroupEnd)> {
        let id = if self.versions.has_snapshots() { Some(self.new_id()?) } else { None };
        let number = self.versions.begin();
        let mut group = Group { id, ..Group::default() };
        let mut outcome = apply(number, &mut group);
        if let (Ok(()), Some(id), 1..) = (&outcome, id, group.stamped) {
            outcome = self.undo.set_fate(id, &Fate::Committed);
        }
        if let Err(error) = outcome {
            // Where this fails too, what was changed stays hidden, and the engine takes no more writes.
            self.roll_back(&group).map_err(|error| {
                self.hide_entries(number, &group);
                self.health.fail(error)
            })?;
            self.versions.abandon(number);
            if let (Some(id), 1..) = (group.id, group.stamped) {
                self.transactions.end(id, false, false);
                self.locks.release_all(id);
            }
            return Err(error);
        }
        self.free_replaced(&group);
        let end = close_group(&self.pool).inspect_err(|_| self.hide_entries(number, &group))?;
        if let (Some(id), 1..) = (group.id, group.stamped) {
            self.versions.note_stamps(number, id);
        }
        if self.durability != Durability::Commit {
            self.redo.write_to(end).inspect_err(|_| self.hide_entries(number, &group))?;
            self.publish(number);
        }
        for (tree, key) in &group.underfull {
            self.merge(tree, key);
        }
        Ok((number, end))
    }

    /// Hides the entries of a group that will never be visible: who reads from now on sees what they were. Nobody made a view since the group began.
    #[cold]
    fn hide_entries(&self, number: u64, group: &Group<'_>) {
        for Undo { tree, key, before, stamp, is_entry } in &group.undo {
            if *is_entry && stamp.is_none() {
                let before = before.as_ref().map(|(flags, bytes)| (*flags, bytes.as_slice()));
                self.versions.keep(number, tree.space(), key, before);
            }
        }
    }

    /// Once a row got a stamp all that follow do, so that no version in memory is one of this group.
    pub(super) fn must_stamp(&self, group: &Group<'_>) -> bool {
        group.stamped > 0 || (group.id.is_some() && self.versions.is_full())
    }

    /// Changes a row as part of a group.
    pub(super) fn apply<'a>(
        &self,
        tree: &'a Tree,
        op: &KvOp<'a>,
        expected: Expected<'_>,
        number: u64,
        group: &mut Group<'a>,
    ) -> Result<()> {
        if self.must_stamp(group) {
            return self.apply_stamped(tree, op, expected, group);
        }
        let (undo, key) = (&mut group.undo, key_of(op));
        let has_views = group.id.is_some();
        let is_deletion = matches!(op, KvOp::Delete { .. } | KvOp::DeleteOnce { .. });
        let (mut needs_stamp, mut is_nothing) = (false, false);
        let mut before = |row: Option<Value<'_>>| {
            if !matches!(expected, Expected::Anything) {
                check_expected(tree, expected, row)?;
            }
            if is_deletion && row.is_none_or(|value| value.flags & FLAG_DELETED != 0) {
                // Purge knows when a row that is marked may go.
                is_nothing = row.is_some();
                return if is_nothing { Err(Error::new(ErrorKind::NotFound, "the row is deleted")) } else { Ok(()) };
            }
            if has_views && row.is_some_and(|value| value.chain().is_some()) {
                // Its pages are not given back while somebody may read them: purge knows when.
                needs_stamp = true;
                return Err(Error::new(ErrorKind::Busy, "the older version of a long value goes to the undo log"));
            }
            let whole = match row {
                Some(value) if value.flags & FLAG_OVERFLOW != 0 => Some(tree.whole(value)?),
                _ => None,
            };
            let whole = whole.as_ref().map(|(flags, bytes)| (*flags, bytes.as_slice()));
            let seen = whole.or(row.map(|value| (value.flags, value.bytes)));
            self.versions.keep(number, tree.space(), key, seen);
            let before = row.map(|value| (value.flags, value.bytes.to_vec()));
            undo.push(Undo { tree, key, before, stamp: None, is_entry: false });
            Ok(())
        };
        let outcome = match op {
            KvOp::Put { key, value } if tree.is_long(key, value) => {
                let reference = tree.write_long(value)?;
                group.written.push((tree, reference));
                let reference = reference.encode();
                tree.put(key, Value::new(FLAG_OVERFLOW, &reference), true, Close::Open, Close::Open, &mut before)
            }
            KvOp::Put { key, value } => {
                tree.put(key, Value::inline(value), true, Close::Open, Close::Open, &mut before)
            }
            KvOp::Delete { key } | KvOp::DeleteOnce { key } => match tree.delete(key, true, Close::Open, &mut before) {
                Ok(true) => {
                    group.underfull.push((tree, *key));
                    Ok(())
                }
                outcome => outcome.map(drop),
            },
        };
        if is_nothing {
            return Ok(());
        }
        if !needs_stamp {
            return outcome;
        }
        if let KvOp::Put { key, value } = op
            && tree.is_long(key, value)
            && let Some((tree, chain)) = group.written.pop()
        {
            tree.give_back(&chain, Close::Open)?;
        }
        self.apply_stamped(tree, op, expected, group)
    }

    /// Changes a row and leaves the older version in the undo log.
    #[cold]
    fn apply_stamped<'a>(
        &self,
        tree: &'a Tree,
        op: &KvOp<'a>,
        expected: Expected<'_>,
        group: &mut Group<'a>,
    ) -> Result<()> {
        let (key, value) = match op {
            KvOp::Put { key, value } => (*key, Some(*value)),
            KvOp::Delete { key } | KvOp::DeleteOnce { key } => (*key, None),
        };
        let before = tree.raw(key)?;
        check_expected(tree, expected, before.as_ref().map(|(flags, bytes)| Value::new(*flags, bytes)))?;
        if value.is_none() && before.as_ref().is_none_or(|(flags, _)| flags & FLAG_DELETED != 0) {
            return Ok(());
        }
        let Some(stamp) = self.next_stamp(group) else { return Ok(()) };
        let seen = before.as_ref().map(|(flags, bytes)| (*flags, bytes.as_slice()));
        // First: a change that fails may leave its record.
        group.undo.push(Undo { tree, key, before: None, stamp: Some(stamp), is_entry: false });
        self.change_row(tree, stamp, key, value, seen)
    }

    /// The stamp of a group's next change; a group without a number has none.
    pub(super) fn next_stamp(&self, group: &mut Group<'_>) -> Option<Stamp> {
        let id = group.id?;
        if group.stamped == 0 {
            self.transactions.activate(id, false);
        }
        group.stamped += 1;
        Some(Stamp { id, number: group.stamped })
    }

    /// Brings rows back, newest change first, and closes the group: it then says nothing.
    #[cold]
    fn roll_back(&self, group: &Group<'_>) -> Result<GroupEnd> {
        self.health.check()?;
        for Undo { tree, key, before, stamp, is_entry } in group.undo.iter().rev() {
            if let Some(stamp) = stamp {
                if let Some(record) = self.undo.get(*stamp)? {
                    self.undo_in_group(*stamp, &record)?;
                }
                continue;
            }
            if *is_entry {
                self.restore_entry(tree, key, before.as_ref())?;
                continue;
            }
            match before {
                Some((flags, bytes)) => {
                    let value = Value::new(*flags, bytes);
                    tree.put(key, value, true, Close::Open, Close::Open, &mut |_| Ok(()))?;
                }
                None => drop(tree.delete(key, true, Close::Open, &mut |_| Ok(()))?),
            }
        }
        if let (Some(id), 1..) = (group.id, group.stamped) {
            self.undo.remove(Stamp { id, number: 0 })?;
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
            if let Some(chain) = page::chain(*flags, bytes) {
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

/// Refuses a row that is not what is expected.
#[cold]
fn check_expected(tree: &Tree, expected: Expected<'_>, row: Option<Value<'_>>) -> Result<()> {
    let live = row.filter(|row| row.flags & FLAG_DELETED == 0);
    match (expected, live) {
        (Expected::Value(_), Some(value)) if value.flags & FLAG_OVERFLOW != 0 => {
            let (flags, bytes) = tree.whole(value)?;
            expected.check(Some(page::body(flags, &bytes)))
        }
        _ => expected.check(live.map(|value| page::body(value.flags, value.bytes))),
    }
}

fn key_of<'a>(op: &KvOp<'a>) -> &'a [u8] {
    match op {
        KvOp::Put { key, .. } | KvOp::Delete { key } | KvOp::DeleteOnce { key } => key,
    }
}

#[inline]
fn is_long(tree: &Tree, op: &KvOp<'_>) -> bool {
    match op {
        KvOp::Put { key, value } => tree.is_long(key, value),
        KvOp::Delete { .. } | KvOp::DeleteOnce { .. } => false,
    }
}
