//! What an open database shares among its handles and jobs.

use super::TreeHandle;
use super::changes::{ChangesGate, Merging};
pub(super) use super::open_tree::OpenTree;
use super::tables::Tables;
use super::transactions::{HistoryLimit, Transactions};
use super::versions::Versions;
use super::writers::Writers;
use crate::buffer::Pool;
use crate::change_buffer::ChangeBuffer;
use crate::event::Events;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::options::{PageCompression, Shutdown};
use crate::redo::Redo;
use crate::space::Spaces;
use crate::tree::Tree;
use crate::undo::UndoLog;
use siltstone_base::engine::Durability;
use siltstone_base::env::{Env, FileLock};
use siltstone_base::executor::Executor;
use siltstone_base::row_locks::RowLocks;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank, RwLock, Signal};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The trees by name.
pub(super) const TREES_RANK: Rank = Rank(150);
/// The directory lock, given back at closing.
pub(super) const DIRECTORY_RANK: Rank = Rank(5);
/// What the page cleaner remembers.
pub(super) const CLEANER_RANK: Rank = Rank(50);

/// An open database.
#[derive(Debug)]
pub(super) struct State {
    pub(super) pool: Arc<Pool>,
    pub(super) redo: Arc<Redo>,
    pub(super) spaces: Arc<Spaces>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) events: Arc<Events>,
    pub(super) versions: Versions,
    pub(super) transactions: Transactions,
    pub(super) undo: UndoLog,
    pub(super) changes: Arc<ChangeBuffer>,
    /// The change buffer as trees see it.
    pub(super) gate: Arc<ChangesGate>,
    pub(super) merging: Merging,
    pub(super) locks: RowLocks,
    pub(super) lock_timeout: Duration,
    pub(super) history_limit: HistoryLimit,
    /// Held by who writes.
    pub(super) writer: Writers,
    pub(super) trees: RwLock<BTreeMap<String, Arc<OpenTree>>>,
    pub(super) default_tree: Arc<OpenTree>,
    pub(super) tables: Tables,
    pub(super) catalog: Tree,
    pub(super) durability: Durability,
    /// Of trees that are created.
    pub(super) page_compression: PageCompression,
    pub(super) bulk_fill_percent: usize,
    pub(super) options: super::background::CleanerOptions,
    pub(super) env: Arc<dyn Env>,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) dir: PathBuf,
    pub(super) lock: Mutex<Option<Box<dyn FileLock>>>,
    pub(super) steps: Arc<super::steps::Steps>,
    pub(super) is_closed: AtomicBool,
    /// Whether the page cleaner runs, and what stopped it last.
    pub(super) cleaner: Mutex<super::background::CleanerState>,
    pub(super) is_cleaning: AtomicBool,
    /// Jobs that free frames beside the page cleaner.
    pub(super) freeing: AtomicUsize,
    pub(super) is_syncing: AtomicBool,
    /// Whether the resident set is being read.
    pub(super) is_restoring: AtomicBool,
    pub(super) dump_percent: usize,
    pub(super) dumps_at_shutdown: bool,
    pub(super) shutdown: Shutdown,
    /// The number that no other database has.
    pub(super) database: u64,
    pub(super) startup: super::startup::Startup,
    /// Counts rounds of the page cleaner that failed.
    pub(super) cleaner_failures: AtomicU64,
    /// Notified when the redo log has more room, or the page cleaner failed.
    pub(super) room: Signal,
}

impl Drop for State {
    /// Whoever drops a database without closing it has it recovered; what was written is durable after the interval that was promised all the same.
    fn drop(&mut self) {
        if let Some(expiry) = self.default_tree.expiry() {
            // Its file may be another opening's from now on.
            expiry.close(false);
        }
        let is_promised = matches!(self.durability, Durability::EveryMillis(_));
        if is_promised && !self.is_closed.load(Ordering::Acquire) && self.redo.has_unsynced() {
            // A failure has nobody to be told to.
            let _ = self.redo.sync_all();
        }
    }
}

impl State {
    /// The tree of a handle that is this opening's.
    #[inline]
    pub(super) fn own<'a>(&self, tree: &'a TreeHandle) -> Result<&'a Arc<OpenTree>> {
        match tree.0.is_of(&self.pool) {
            true => Ok(&tree.0),
            false => Err(not_own(&tree.0)),
        }
    }

    /// The tree of a tablespace, unless it was dropped.
    pub(super) fn tree_of(&self, space: u32) -> Option<Arc<OpenTree>> {
        if self.default_tree.tree().space() == space {
            return Some(Arc::clone(&self.default_tree));
        }
        let found = self.tables.tree_of(space);
        found.or_else(|| self.trees.read().values().find(|tree| tree.tree().space() == space).cloned())
    }

    /// Refuses after closing.
    #[inline]
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Aborted, "the database is closed"));
        }
        Ok(())
    }
}

#[cold]
fn not_own(tree: &OpenTree) -> Error {
    Error::invalid_argument(format!(
        "tree {}: a handle of another database, or of an earlier opening of this one",
        tree.name
    ))
}
