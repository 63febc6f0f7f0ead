//! The database: the doors.
//!
//! Path: put 1/5. After: db/write.rs.
//! Path: get 1/5. After: db/read.rs.

mod background;
mod batch;
mod catalog;
mod changes;
mod check;
#[cfg(feature = "testing")]
pub(crate) mod doors;
mod engine;
mod entries;
mod expiry;
mod freeing;
mod identity;
mod open;
mod open_tree;
mod read;
mod recovery;
mod remains;
mod replace;
mod resident;
mod scan;
mod startup;
mod state;
mod steps;
mod tables;
#[cfg(test)]
mod tests;
mod transactions;
mod versions;
mod write;
mod writers;

pub use batch::WriteBatch;
pub use expiry::ExpiryReport;
pub use replace::LoadReport;
pub use scan::Cursor;
pub use startup::{CloseReport, StartupReport};
pub use transactions::Transaction;

use crate::buffer::PoolReport;
use crate::event::CheckpointCause;
use crate::metrics::{self, Metrics};
use crate::options::{DbOptions, PageCompression, Shutdown};
use crate::tree::TreeShape;
use siltstone_base::Result;
use siltstone_base::engine::KvOp;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;
use state::{OpenTree, State};
use std::fmt;
use std::path::Path;
use steps::Handle;

/// An open database. Clones share it; any thread may use it. When the last one, and what was made from it, is dropped, the directory may be opened again; [`close`](Self::close) leaves less to
/// recover.
///
/// Its trees are ordered by the bytes of their keys. One, the default tree, always exists: methods that name none mean that one.
#[derive(Clone)]
pub struct Db(Arc<State>, #[expect(dead_code, reason = "what it does, it does when it is dropped")] Handle);

/// A tree of an open database. Clones share it; any thread may use it. Other databases, and other openings of the same one, refuse it with `InvalidArgument`.
#[derive(Clone)]
pub struct TreeHandle(Arc<OpenTree>);

/// What [`Db::check`] counted, over all trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Trees, the catalog not counted.
    pub trees: u64,
    /// Rows, those included that transactions have not committed.
    pub rows: u64,
    /// Tables.
    pub tables: u64,
    /// Entries of secondary indexes, those included that transactions have not committed.
    pub index_entries: u64,
    /// Rows and entries that are marked as deleted and wait for purge.
    pub deleted_rows: u64,
    /// Rows of the undo log.
    pub undo_records: u64,
    /// Levels of the highest tree.
    pub levels: u8,
    /// Pages of rows.
    pub leaf_pages: u64,
    /// Pages of separators.
    pub inner_pages: u64,
    /// Pages of long values.
    pub overflow_pages: u64,
    /// Pages that are free within their tablespaces.
    pub free_pages: u64,
    /// Pages of long values that were replaced, which the undo log keeps until purge.
    pub kept_pages: u64,
    /// Pages that nothing leads to: of long values whose replacement could not give them back. They go with their tree.
    pub lost_pages: u64,
    /// Changes of index entries that wait in the change buffer. Rows are counted without them.
    pub buffered_entries: u64,
    /// Bytes of leaves that rows take.
    pub leaf_bytes_used: u64,
}

impl Db {
    /// Opens the database in `dir`. One that was not closed is recovered first.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none; `Locked` if it is open elsewhere; `InvalidArgument` for options out of their bounds; `NotSupported` for a format or a feature that
    /// this version does not know, by name; `Corruption`, `MissingFile` and those of I/O.
    pub fn open(dir: impl AsRef<Path>, options: &DbOptions) -> Result<Self> {
        let state = open::open(dir.as_ref(), options)?;
        let handle = state.handle();
        Ok(Self(state, handle))
    }

    /// Sets a key. What it takes for the write to be safe when this returns is
    /// [`durability`](crate::DbOptions::durability).
    ///
    /// # Errors
    ///
    /// `LimitExceeded` for a key longer than an eighth of a page, or a value longer than an eighth of the buffer pool; `ReadOnly` after an error of the redo log;
    /// `TimedOut` or `Deadlock` where transactions hold the lock of the row; `NoSpace`, and others of I/O. The key is then as it was.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_in(&self.default_tree(), key, value)
    }

    /// Sets a key of a tree.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put); `NotFound` if the tree was dropped.
    #[inline]
    pub fn put_in(&self, tree: &TreeHandle, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.0.write(&[(self.0.own(tree)?, KvOp::Put { key: key.as_ref(), value: value.as_ref() })])
    }

    /// Removes a key. That it does not exist is no error.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_in(&self.default_tree(), key)
    }

    /// Removes a key of a tree.
    ///
    /// # Errors
    ///
    /// Those of [`put_in`](Self::put_in).
    #[inline]
    pub fn delete_in(&self, tree: &TreeHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.0.write(&[(self.0.own(tree)?, KvOp::Delete { key: key.as_ref() })])
    }

    /// Applies a batch: all of it becomes visible and safe together.
    ///
    /// # Errors
    ///
    /// Those of [`put_in`](Self::put_in), and `LimitExceeded` for a batch of more operations than an eighth of the buffer pool has pages, whose long values take
    /// more than half of its pages, or that may need more than half of the redo log. Nothing of the batch was then done.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        let default = &self.0.default_tree;
        let ops = batch.iter().map(|(tree, op)| Ok((tree.map_or(Ok(default), |tree| self.0.own(tree))?, op)));
        self.0.write(&ops.collect::<Result<Vec<_>>>()?)
    }

    /// The value of a key, if it exists.
    ///
    /// # Errors
    ///
    /// `Corruption`, and those of I/O.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.0.get(&self.0.default_tree, key.as_ref(), None, <[u8]>::to_vec)
    }

    /// The value of a key of a tree, if it exists.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Self::get); `NotFound` if the tree was dropped.
    pub fn get_in(&self, tree: &TreeHandle, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.0.get(self.0.own(tree)?, key.as_ref(), None, <[u8]>::to_vec)
    }

    /// A cursor over the default tree as it is now.
    ///
    /// # Errors
    ///
    /// `Aborted` after closing.
    pub fn cursor(&self) -> Result<Cursor> {
        Cursor::new(&self.0, &self.0.default_tree)
    }

    /// A cursor over a tree as it is now.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tree was dropped; `Aborted` after closing.
    pub fn cursor_in(&self, tree: &TreeHandle) -> Result<Cursor> {
        Cursor::new(&self.0, self.0.own(tree)?)
    }

    /// A cursor over the default tree that also shows rows that are expired and not removed yet: for who wants to know how many there are.
    ///
    /// # Errors
    ///
    /// `Aborted` after closing.
    pub fn cursor_with_expired(&self) -> Result<Cursor> {
        Cursor::new(&self.0, &self.0.default_tree).map(Cursor::with_expired)
    }

    /// The default tree.
    pub fn default_tree(&self) -> TreeHandle {
        TreeHandle(Arc::clone(&self.0.default_tree))
    }

    /// The tree of a name, if there is one.
    pub fn tree(&self, name: &str) -> Option<TreeHandle> {
        self.0.trees.read().get(name).cloned().map(TreeHandle)
    }

    /// The names of all trees, sorted.
    pub fn tree_names(&self) -> Vec<String> {
        self.0.trees.read().keys().cloned().collect()
    }

    /// Creates an empty tree. It is durable when this returns, whatever [`durability`](crate::DbOptions::durability) says.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `InvalidArgument` for a name that is empty or longer than 64 bytes; those of [`put`](Self::put).
    pub fn create_tree(&self, name: &str) -> Result<TreeHandle> {
        self.0.create_tree(name, self.0.page_compression).map(TreeHandle)
    }

    /// Creates an empty tree whose pages are stored as `compression` says, whatever [`page_compression`](crate::DbOptions::page_compression) does.
    ///
    /// # Errors
    ///
    /// Those of [`create_tree`](Self::create_tree); `InvalidArgument` for pages that are too short to be compressed.
    pub fn create_tree_with(&self, name: &str, compression: PageCompression) -> Result<TreeHandle> {
        self.0.create_tree(name, compression).map(TreeHandle)
    }

    /// Drops a tree with all its rows and gives its space back to the file system. Handles on it, and cursors over it, end with
    /// `NotFound`. The default tree can't be dropped. It waits for no transaction: what open ones changed in the tree goes with it, whether they are committed or
    /// rolled back.
    ///
    /// # Errors
    ///
    /// `NotFound`; `InvalidArgument` for the default tree; those of [`put`](Self::put). A file that can't be deleted goes when the database is opened again, and is no error.
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        self.0.drop_tree(name)
    }

    /// Removes all rows of a tree at once and gives its space back to the file system. Durable when this returns, whatever
    /// [`durability`](crate::DbOptions::durability) says. Handles on the tree stay what they are.
    ///
    /// It waits for no transaction. What open ones changed in the tree goes with the rest, whether they are committed or rolled back; locks of its rows count no more. Cursors over the
    /// tree end with `NotFound`; transactions on the level [`Snapshot`](crate::Isolation::Snapshot) that began before get `Busy` when they read or change it.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tree was dropped; those of [`put`](Self::put). A file that can't be deleted goes when the database is opened again, and is no error.
    pub fn truncate(&self, tree: &TreeHandle) -> Result<()> {
        self.0.truncate(self.0.own(tree)?)
    }

    /// Fills an empty tree with rows in the order of their keys: pages are written once, from left to right, without the buffer pool and, but for a few bytes, without the redo log. Durable when this
    /// returns, whatever [`durability`](crate::DbOptions::durability) says. Others see no row of it before, and may use all trees meanwhile; if somebody writes to this one the load fails.
    ///
    /// Cursors over the tree end with `NotFound`; transactions on the level [`Snapshot`](crate::Isolation::Snapshot) that began before get `Busy` when they read or change it.
    ///
    /// ```
    /// # use siltstone_btree::{Db, DbOptions, ErrorKind};
    /// # fn main() -> siltstone_btree::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true))?;
    /// let strata = db.create_tree("strata")?;
    /// let report = db.bulk_load(&strata, (0..10_000_u32).map(|depth| (depth.to_be_bytes(), b"slate")))?;
    /// assert_eq!(report.rows, 10_000);
    /// assert_eq!(db.get_in(&strata, 77_u32.to_be_bytes())?.as_deref(), Some(&b"slate"[..]));
    /// let again = db.bulk_load(&strata, [(b"key", b"value")]);
    /// assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the tree has rows, those included that are deleted and wait for purge; `InvalidArgument` for a row whose key is not greater than the one before; `LimitExceeded` as for
    /// [`put`](Self::put); `Busy` if somebody wrote to the tree meanwhile; `NotFound` if the tree was dropped or truncated; those of I/O. The tree is then as it was.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &TreeHandle,
        rows: impl IntoIterator<Item = (K, V)>,
    ) -> Result<LoadReport> {
        self.0.bulk_load(self.0.own(tree)?, rows)
    }

    /// Brings everything into the trees that waits in the change buffer.
    ///
    /// # Errors
    ///
    /// `Corruption`, and those of I/O. What was not brought in still waits.
    pub fn merge_changes(&self) -> Result<()> {
        self.0.merge_all()
    }

    /// Makes every write durable that returned before, whatever [`durability`](crate::DbOptions::durability) says.
    ///
    /// # Errors
    ///
    /// Those of I/O. A failed sync is final: the engine takes no more writes.
    pub fn sync(&self) -> Result<()> {
        self.0.check_open()?;
        self.0.redo.sync_all()
    }

    /// Writes every dirty page to its place, so that recovery would have nothing to do.
    ///
    /// # Errors
    ///
    /// Those of I/O.
    pub fn flush(&self) -> Result<()> {
        self.0.check_open()?;
        self.0.flush_all(CheckpointCause::Manual)
    }

    /// Walks all trees: order, separators, levels, links, long values, free pages, and that every page is accounted for. Compares the indexes of tables that are open
    /// with their rows, as they are at one moment. Writers wait while trees are walked.
    ///
    /// # Errors
    ///
    /// `Corruption` with the first thing that is wrong, and those of I/O.
    pub fn check(&self) -> Result<CheckReport> {
        let (report, mut view, mut tables) = {
            let _writer = self.0.writer.lock();
            (self.0.check_trees()?, self.0.view_as_writer(0, 0), self.0.tables.open())
        };
        while let Some(table) = tables.pop() {
            match self.0.check_indexes(&table, &view) {
                // One that is dropped meanwhile has nothing to compare.
                Err(_) if table.table.rows.live().is_err() => {}
                // One that gets or loses an index meanwhile is looked at anew, at another moment.
                Err(_) if table.table.standing.is_replaced() => {
                    view = self.0.view(0, 0);
                    tables.extend(self.0.tables.get(table.id()));
                }
                outcome => drop(outcome?),
            }
        }
        Ok(report)
    }

    /// How many pages each level of a tree has, and how full they are. Reads all of them; writers wait meanwhile.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tree was dropped; `Corruption`, and those of I/O.
    pub fn shape(&self, tree: &TreeHandle) -> Result<TreeShape> {
        let _writer = self.0.writer.lock();
        self.0.check_open()?;
        self.0.own(tree)?.live()?.shape()
    }

    /// What the engine counts.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// What is in the buffer pool now.
    pub fn pool_report(&self) -> PoolReport {
        let (change_buffer_pages, change_buffer_pages_max) = self.0.changes.lens();
        PoolReport { change_buffer_pages, change_buffer_pages_max, ..self.0.pool.census() }
    }

    /// How long opening took, and what goes on in the background since.
    pub fn startup_report(&self) -> StartupReport {
        self.0.startup.report()
    }

    /// Writes the names of pages that are in memory to a file, from which [`load_pool`](Self::load_pool) reads them. Returns how many.
    ///
    /// # Errors
    ///
    /// Those of I/O; what an earlier call wrote stays then.
    pub fn dump_pool(&self) -> Result<u64> {
        self.0.check_open()?;
        self.0.dump_pool()
    }

    /// Begins to read the pages that were in memory when [`dump_pool`](Self::dump_pool) was called, in the background, as far as there is room. Returns how many are
    /// wanted: none if there is no file that can be used.
    ///
    /// # Errors
    ///
    /// `Aborted` after closing.
    pub fn load_pool(&self) -> Result<u64> {
        self.0.check_open()?;
        Ok(self.0.load_pool())
    }

    /// Ends background work, writes every dirty page to its place and marks the directory as cleanly closed, as
    /// [`shutdown`](crate::DbOptions::shutdown) says. No other call may follow. Closing twice is harmless; a database that is dropped without is recovered when it is
    /// opened again.
    ///
    /// # Errors
    ///
    /// Those of I/O; the directory is then recovered when it is opened again.
    pub fn close(&self) -> Result<()> {
        self.shut_down(self.0.shutdown).map(drop)
    }

    /// Closes the database in the way that is asked for, whatever the option says. The report of a second call is empty.
    ///
    /// # Errors
    ///
    /// Those of [`close`](Self::close).
    pub fn shut_down(&self, shutdown: Shutdown) -> Result<CloseReport> {
        let clock = self.0.executor.clock();
        let (start, mut report) = (clock.now_micros(), CloseReport::default());
        if shutdown == Shutdown::Slow && self.0.check_open().is_ok() {
            self.0.settle();
            // What can't be merged waits on.
            let _ = self.0.merge_all();
            report.purge = startup::since(&**clock, start);
        }
        let before = self.0.metrics.get(metrics::Counter::PagesWritten);
        let outcome = {
            let _writer = self.0.writer.lock();
            if self.0.is_closed.swap(true, Ordering::AcqRel) {
                return Ok(CloseReport::default());
            }
            if self.0.dumps_at_shutdown {
                // What it would have saved is read again.
                report.dumped_pages = self.0.dump_pool().ok();
            }
            self.0.flush_all(CheckpointCause::Close).map_err(|error| {
                // Nothing of this life may reach the directory behind the next one: neither now nor from readers that need a frame.
                let error = self.0.health.fail(error);
                self.0.pool.wait_for_flush();
                error
            })
        };
        if let Some(expiry) = self.0.default_tree.expiry() {
            expiry.close(outcome.is_ok());
        }
        self.0.room.notify_all();
        self.0.transactions.ended.notify_all();
        self.0.events.tell();
        *self.0.lock.lock() = None;
        report.pages_written = self.0.metrics.get(metrics::Counter::PagesWritten).saturating_sub(before);
        report.close = startup::since(&**clock, start);
        outcome.map(|()| report)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Db {
    /// The tree itself, for tests of what is beneath.
    pub(crate) fn tree_for_test<'a>(&self, handle: &'a TreeHandle) -> &'a crate::tree::Tree {
        handle.0.tree()
    }

    /// The change buffer.
    #[cfg(test)]
    pub(crate) fn changes_for_test(&self) -> &crate::change_buffer::ChangeBuffer {
        &self.0.changes
    }

    /// Makes one group of changes of entries, as a writer does.
    pub(crate) fn apply_entries_for_test(
        &self,
        handle: &TreeHandle,
        ops: &[(Vec<u8>, crate::tree::EntryOp)],
    ) -> Result<()> {
        let _writer = self.0.lock_with_room(16 * self.0.pool.page_len() as u64)?;
        for (key, op) in ops {
            handle.0.tree().apply_entry(key, *op)?;
        }
        let end = crate::mtr::close_group(&self.0.pool)?;
        self.0.redo.write_to(end)?;
        self.0.wake_jobs();
        Ok(())
    }
}

impl TreeHandle {
    /// The name of the tree.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("dir", &self.0.dir).finish_non_exhaustive()
    }
}

impl fmt::Debug for TreeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeHandle").field("name", &self.name()).finish_non_exhaustive()
    }
}
