//! Opening: lock, identity, recovery, catalog.

use super::background::{CleanerOptions, CleanerState};
use super::catalog::{self, DEFAULT_NAME, DEFAULT_SPACE};
use super::changes::{ChangesGate, Merging};
use super::expiry::{self, RowExpiry};
use super::identity::Identity;
use super::recovery;
use super::remains;
use super::startup::{Startup, StartupReport, since};
use super::state::{CLEANER_RANK, DIRECTORY_RANK, OpenTree, State, TREES_RANK};
use super::tables::{TableDefinition, Tables};
use super::transactions::HistoryLimit;
use super::versions::Versions;
use super::writers::Writers;
use crate::buffer::{DoublewriteFile, DoublewriteOptions, Pool, PoolOptions, Restored, is_doublewrite, restore};
use crate::change_buffer::ChangeBuffer;
use crate::event::{CheckpointCause, Event, Events, RecoveryPhase};
use crate::health::Health;
use crate::metrics::Metrics;
use crate::options::{DbOptions, Doublewrite, PageCompression};
use crate::page::{self, PageId};
use crate::redo::{Checkpoint, FIRST_LSN, Redo, RedoFiles};
use crate::space::{CATALOG_SPACE, CHANGES_SPACE, SpaceHeader, Spaces, UNDO_SPACE, bitmap_of, space_of};
use crate::tree::Tree;
use crate::undo::UndoLog;
use siltstone_base::clock::SystemClock;
use siltstone_base::env::{Env, FileLock, IoPriority, PosixEnv, create_dir_durably};
use siltstone_base::executor::{Executor, ThreadExecutor};
use siltstone_base::row_locks::RowLocks;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use siltstone_base::sync::{Arc, Mutex, RwLock, Signal};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Threads of a database that brings its own, beside those of the page cleaners: one for the sync of the log.
const THREADS: usize = 1;

pub(super) fn open(dir: &Path, options: &DbOptions) -> Result<Arc<State>> {
    options.validate()?;
    let env: Arc<dyn Env> = options.env.clone().unwrap_or_else(|| Arc::new(PosixEnv::new()));
    let executor: Arc<dyn Executor> = match &options.executor {
        Some(executor) => Arc::clone(executor),
        None => {
            let threads = ThreadExecutor::new(THREADS + options.page_cleaners, Arc::new(SystemClock::new()));
            Arc::new(threads.map_err(|error| Error::io("start a thread", dir, error))?)
        }
    };
    let begun = executor.clock().now_micros();
    let lock = lock_dir(&*env, dir, options)?;
    let found = Identity::read(&*env, dir)?;
    let identity = match found {
        Some(_) if options.error_if_exists => {
            return Err(Error::new(ErrorKind::AlreadyExists, "error_if_exists: the database exists").with_file(dir));
        }
        Some(identity) => identity,
        None if !options.create_if_missing => {
            let message = "there is no database; create_if_missing would create one";
            return Err(Error::new(ErrorKind::NotFound, message).with_file(dir));
        }
        None => create(&*env, dir, options, executor.clock().unix_seconds())?,
    };
    let expiry = RowExpiry::open(options, &env, dir, identity.id, found.is_none(), executor.clock())?;
    open_existing(dir, options, Beginning { identity, expiry, lock, begun }, env, executor)
}

/// What there is before the files are opened.
struct Beginning {
    identity: Identity,
    expiry: Option<Arc<RowExpiry>>,
    lock: Box<dyn FileLock>,
    /// When the call came, in microseconds.
    begun: u64,
}

fn lock_dir(env: &dyn Env, dir: &Path, options: &DbOptions) -> Result<Box<dyn FileLock>> {
    if options.create_if_missing {
        create_dir_durably(env, dir).map_err(|error| Error::io("create", dir, error))?;
        if let Some(parent) = dir.parent() {
            // Who made it may have died before its name was durable.
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            env.sync_dir(parent).map_err(|error| Error::io("sync", parent, error))?;
        }
    }
    let path = dir.join("LOCK");
    env.lock_file(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            Error::new(ErrorKind::Locked, "the database is open elsewhere").with_file(&path)
        }
        _ => Error::io("lock", &path, error),
    })
}

/// Writes an empty database. What an earlier attempt left behind is replaced: without an identity there was never a database.
fn create(env: &dyn Env, dir: &Path, options: &DbOptions, now: u64) -> Result<Identity> {
    let page_len = options.page_size;
    let names = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    if names.iter().any(|entry| entry.name == "CURRENT") {
        return Err(Error::invalid_argument("the directory holds a database of another engine").with_file(dir));
    }
    if RedoFiles::was_opened(env, dir)? {
        let message = "the directory holds a database that lacks its IDENTITY";
        return Err(Error::new(ErrorKind::MissingFile, message).with_file(&dir.join("IDENTITY")));
    }
    remains::refuse_data(env, dir, &names, page_len)?;
    let left = names
        .iter()
        .filter(|entry| space_of(&entry.name).is_some() || is_doublewrite(&entry.name) || entry.name == expiry::NAME);
    for entry in left {
        let path = dir.join(&entry.name);
        env.remove_file(&path).map_err(|error| Error::io("delete", &path, error))?;
    }
    let id = now.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ std::process::id() as u64;
    let identity = Identity { page_size: page_len, id };
    let of_default = SpaceHeader { compression: options.page_compression, ..SpaceHeader::new(0) };
    for (space, header, rows) in [
        (CATALOG_SPACE, SpaceHeader::new(CHANGES_SPACE + 1), &[(DEFAULT_NAME, DEFAULT_SPACE)][..]),
        (DEFAULT_SPACE, of_default, &[][..]),
        (UNDO_SPACE, SpaceHeader::new(0), &[][..]),
        (CHANGES_SPACE, SpaceHeader::new(0), &[][..]),
    ] {
        let pages = catalog::first_pages(page_len, header, rows);
        let pages = pages.ok_or_else(|| Error::invalid_argument("page_size is too small for a catalog"))?;
        let file = Spaces::create_file(env, dir, space, page_len)?;
        for (number, mut page) in [0, bitmap_of(0, page_len), SpaceHeader::ROOT].into_iter().zip(pages) {
            let id = PageId::new(space, number);
            page::seal(&mut page, id, FIRST_LSN);
            file.write(id, &page)?;
        }
        file.sync()?;
    }
    RedoFiles::create(env, dir, options.redo_capacity_bytes, id)?;
    env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
    identity.write(env, dir)?;
    Ok(identity)
}

fn open_existing(
    dir: &Path,
    options: &DbOptions,
    beginning: Beginning,
    env: Arc<dyn Env>,
    executor: Arc<dyn Executor>,
) -> Result<Arc<State>> {
    let Beginning { identity, expiry, lock, begun } = beginning;
    let page_len = identity.page_size;
    let frames = options.buffer_pool_bytes / page_len;
    if frames < 64 {
        return Err(Error::invalid_argument("buffer_pool_bytes holds at least 64 pages of the database"));
    }
    let events = Events::new(options.listeners.clone(), Arc::clone(&executor));
    let (health, metrics) = (Arc::new(Health::new(Arc::clone(&events))), Arc::new(Metrics::new()));
    events.attach(&health);
    let direct = options.use_direct_io;
    let spaces =
        Arc::new(Spaces::new(Arc::clone(&env), dir, page_len, direct, Arc::clone(&health), Arc::clone(&metrics)));
    for entry in env.list_dir(dir).map_err(|error| Error::io("list", dir, error))? {
        if let Some(space) = space_of(&entry.name) {
            spaces.open(space)?;
        }
    }
    let (files, checkpoint) = open_redo(&*env, dir, options, &identity)?;
    let mut report = StartupReport::default();
    let start = executor.clock().now_micros();
    begin_phase(&events, RecoveryPhase::Doublewrite);
    let mut restored = Restored::default();
    if !checkpoint.is_clean {
        restored = restore(&*env, dir, &spaces, page_len, checkpoint.lsn)?;
        report.doublewrite_pages = restored.pages as u64;
    }
    report.doublewrite = since(&**executor.clock(), start);
    end_phase(&events, RecoveryPhase::Doublewrite, report.doublewrite, report.doublewrite_pages);
    if !checkpoint.is_clean {
        // The doublewrite files are used anew from their beginnings: what they may have been needed for must be durable.
        spaces.sync(IoPriority::User)?;
        // Pages that recovery has to write are stored as their tablespaces say.
        for space in spaces.all() {
            let front = recovery::stored_front(&spaces, space)?;
            spaces.set_compression(space, front.map_or(PageCompression::None, |front| front.compression));
        }
    }
    let start = executor.clock().now_micros();
    begin_phase(&events, RecoveryPhase::Redo);
    let survey = recovery::survey(&files, checkpoint, &restored.named)?;
    if let Some(id) = survey.torn {
        return Err(spaces.corruption(id, "a crash tore the page, and doublewrite kept its name only"));
    }
    report.redo_bytes = survey.end.lsn().saturating_sub(checkpoint.lsn);
    let redo = Arc::new(Redo::new(files, checkpoint, survey.end, Arc::clone(&health), Arc::clone(&metrics)));
    redo.sync_again()?;
    let doublewrite = match options.doublewrite {
        Doublewrite::Off => {
            DoublewriteFile::remove_from(&*env, dir, 0)?;
            None
        }
        mode => {
            let (slots, has_copies) = (options.doublewrite_pages, mode == Doublewrite::On);
            let file_options = DoublewriteOptions { page_len, slots, direct, has_copies };
            Some(DoublewriteFile::open_all(&*env, dir, options.page_cleaners, &file_options)?)
        }
    };
    let pool_options = PoolOptions {
        frames,
        old_percent: options.old_blocks_percent,
        old_time_micros: options.old_blocks_time_millis.saturating_mul(1000),
        flush_neighbors: options.flush_neighbors,
        flush_buffers: options.page_cleaners,
        read_ahead_threshold: options.read_ahead_threshold,
        random_read_ahead: options.random_read_ahead,
    };
    let pool = Arc::new(Pool::new(
        &pool_options,
        Arc::clone(&redo),
        Arc::clone(&spaces),
        doublewrite,
        Arc::clone(&health),
        Arc::clone(&metrics),
        Arc::clone(&executor),
    ));
    pool.start_read_ahead();
    report.redo_changes = recovery::apply(&pool, &spaces, checkpoint, &survey)?;
    report.redo = since(&**executor.clock(), start);
    end_phase(&events, RecoveryPhase::Redo, report.redo, report.redo_changes);
    redo.write_checkpoint(checkpoint.lsn, false)?;
    let undo = UndoLog::new(Arc::clone(&pool));
    let transactions = super::transactions::recover(&undo)?;
    report.unfinished_transactions = transactions.abandoned_count() as u64;
    report.rollback = (report.unfinished_transactions == 0).then_some(Duration::ZERO);
    let changes = ChangeBuffer::new(Arc::clone(&pool), options.change_buffering, options.change_buffer_max_percent)?;
    let changes = Arc::new(changes);
    let gate = Arc::new(ChangesGate::new(Arc::clone(&changes)));
    let (catalog, trees, tables) = open_trees(&pool, &spaces, &gate, expiry.clone())?;
    let default_tree = trees.get(DEFAULT_NAME).cloned();
    let default_tree = default_tree
        .ok_or_else(|| Error::corruption(&spaces.path(CATALOG_SPACE), 0, "the catalog lacks the default tree"))?;
    if let Some(expiry) = &expiry {
        expiry.attach()?;
    }
    let writer = Writers::new(Arc::clone(&redo));
    let state = Arc::new(State {
        pool,
        redo,
        spaces,
        health,
        metrics,
        events,
        versions: Versions::new(options.max_version_bytes),
        transactions,
        undo,
        changes,
        gate,
        merging: Merging::default(),
        locks: RowLocks::new(options.max_lock_bytes),
        history_limit: HistoryLimit {
            most: options.max_history_len,
            longest: Duration::from_millis(options.max_history_delay_millis),
        },
        lock_timeout: Duration::from_millis(options.lock_timeout_millis),
        writer,
        trees: RwLock::new(TREES_RANK, trees),
        default_tree,
        tables,
        catalog,
        durability: options.durability,
        page_compression: options.page_compression,
        bulk_fill_percent: options.bulk_fill_percent,
        options: CleanerOptions {
            io_capacity: options.io_capacity,
            io_capacity_max: options.io_capacity_max,
            max_dirty_percent: options.max_dirty_pages_percent,
            low_dirty_percent: options.max_dirty_pages_low_percent,
            idle_percent: options.idle_flush_percent,
            lru_scan_depth: options.lru_scan_depth,
            page_cleaners: options.page_cleaners,
        },
        env,
        executor,
        dir: dir.to_path_buf(),
        lock: Mutex::new(DIRECTORY_RANK, Some(lock)),
        steps: Arc::default(),
        is_closed: AtomicBool::new(false),
        cleaner: Mutex::new(CLEANER_RANK, CleanerState::default()),
        is_cleaning: AtomicBool::new(false),
        freeing: AtomicUsize::new(0),
        is_syncing: AtomicBool::new(false),
        is_restoring: AtomicBool::new(false),
        dump_percent: options.buffer_pool_dump_percent,
        dumps_at_shutdown: options.buffer_pool_dump_at_shutdown,
        shutdown: options.shutdown,
        database: identity.id,
        startup: Startup::new(begun, report),
        cleaner_failures: AtomicU64::new(0),
        room: Signal::new(),
    });
    state.gate.attach(&state);
    if state.transactions.abandoned_count() > 0 {
        begin_phase(&state.events, RecoveryPhase::Rollback);
    }
    #[cfg(feature = "testing")]
    super::background::let_happen(&state);
    super::transactions::wake_roll_back(&state);
    super::transactions::wake_purge(&state);
    expiry::start_walk(&state, &state.default_tree);
    let wanted = if options.buffer_pool_load_at_startup { state.load_pool() } else { 0 };
    state.startup.note_open(&**state.executor.clock(), wanted);
    Ok(state)
}

/// Tells that a part of recovery begins: nobody else could tell while the caller waits.
fn begin_phase(events: &Events, phase: RecoveryPhase) {
    events.note(|| Event::RecoveryBegun { phase });
    events.tell();
}

fn end_phase(events: &Events, phase: RecoveryPhase, duration: Duration, count: u64) {
    events.note(|| Event::RecoveryEnded { phase, duration, count });
    events.tell();
}

/// Opens the redo log. That of a database that was closed holds nothing, and gets the capacity that the options say.
fn open_redo(env: &dyn Env, dir: &Path, options: &DbOptions, identity: &Identity) -> Result<(RedoFiles, Checkpoint)> {
    RedoFiles::finish_resize(env, dir, identity.id)?;
    let (files, checkpoint) = RedoFiles::open(env, dir, identity.id)?;
    let wanted = options.redo_capacity_bytes.max(64 * identity.page_size as u64);
    if checkpoint.is_clean
        && files.capacity() != RedoFiles::capacity_of(wanted)
        && RedoFiles::resize(env, dir, identity.id, &checkpoint, wanted)?
    {
        return RedoFiles::open(env, dir, identity.id);
    }
    Ok((files, checkpoint))
}

/// How the pages of a tablespace are stored. One whose first page can't be read now says so to whoever needs it.
fn compression_of(pool: &Pool, space: u32) -> PageCompression {
    let front = pool.shared(PageId::new(space, 0));
    let header = front.ok().and_then(|page| SpaceHeader::read(page.bytes()).ok());
    header.map_or(PageCompression::None, |header| header.compression)
}

type Trees = BTreeMap<String, Arc<OpenTree>>;

/// Opens the trees that the catalog names, and deletes the files of those that it does not: a crash left them while they were created or dropped.
fn open_trees(
    pool: &Arc<Pool>,
    spaces: &Spaces,
    gate: &Arc<ChangesGate>,
    expiry: Option<Arc<RowExpiry>>,
) -> Result<(Tree, Trees, Tables)> {
    let missing = |space: u32| {
        Error::new(ErrorKind::MissingFile, "the catalog names a tablespace that is missing")
            .with_file(&spaces.path(space))
    };
    if !spaces.is_open(CATALOG_SPACE) {
        return Err(missing(CATALOG_SPACE));
    }
    for space in [UNDO_SPACE, CHANGES_SPACE] {
        if !spaces.is_open(space) {
            return Err(missing(space));
        }
    }
    let catalog = Tree::new(CATALOG_SPACE, Arc::clone(pool));
    let mut trees = Trees::new();
    let mut known = vec![CATALOG_SPACE, UNDO_SPACE, CHANGES_SPACE];
    let contents = catalog::read(&catalog)?;
    for (name, space) in contents.trees {
        if !spaces.is_open(space) {
            return Err(missing(space));
        }
        known.push(space);
        spaces.set_compression(space, compression_of(pool, space));
        let tree = catalog::open_tree(pool, gate, &name, space)?;
        let open = OpenTree::new(name.clone(), tree);
        let open = if name == DEFAULT_NAME { open.expiring(expiry.clone()) } else { open };
        trees.insert(name, Arc::new(open));
    }
    for space in contents.tables.iter().flat_map(TableDefinition::spaces) {
        if !spaces.is_open(space) {
            return Err(missing(space));
        }
        known.push(space);
        spaces.set_compression(space, compression_of(pool, space));
    }
    for space in spaces.all().into_iter().filter(|space| !known.contains(space)) {
        // The log may still change its pages: it must say that they are gone before they are.
        catalog::log_drop(&pool.redo, space)?;
        pool.discard(space);
        spaces.delete(space)?;
    }
    Ok((catalog, trees, Tables::new(contents.tables, pool, gate)?))
}

impl State {
    /// Writes every dirty page to its place, and says so in the log. Other writers may go on.
    pub(super) fn flush_all(&self, cause: CheckpointCause) -> Result<()> {
        let end = self.redo.closed();
        self.redo.sync_to(end)?;
        loop {
            let state = self.pool.state();
            if state.oldest_lsn.is_none_or(|oldest| oldest >= end.lsn()) {
                break;
            }
            if self.pool.flush_oldest(1024, end.lsn(), IoPriority::User)? == 0 {
                self.health.check()?;
                // A page that somebody holds, or writes, is free again soon.
                self.executor.sleep(Duration::from_micros(50));
            }
        }
        self.write_checkpoint(cause, IoPriority::User)?;
        self.room.notify_all();
        Ok(())
    }

    /// Writes a checkpoint, and tells that.
    pub(super) fn write_checkpoint(&self, cause: CheckpointCause, priority: IoPriority) -> Result<()> {
        self.events.note(|| Event::CheckpointBegun { cause });
        let start = self.events.now_micros();
        let outcome = self.pool.checkpoint(cause == CheckpointCause::Close, priority);
        self.events.note(|| Event::CheckpointEnded {
            cause,
            lsn: outcome.as_ref().copied().unwrap_or_else(|_| self.redo.checkpoint().lsn),
            duration: since(&**self.executor.clock(), start),
            error: outcome.as_ref().err().cloned(),
        });
        outcome.map(drop)
    }
}
