//! Tablespaces: one file of pages for each tree, so that dropping a tree gives its space back at once.

mod bitmap;
mod header;

pub(crate) use bitmap::{LeafState, LeafStates, bitmap_of, is_bitmap, place_of, state_in, with_state};
pub(crate) use header::SpaceHeader;

use crate::health::Health;
use crate::metrics::{Counter, Metrics};
use crate::options::PageCompression;
use crate::page::PageId;
use crate::sync_needed::SyncNeeded;
use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority, RandomWriteFile};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank, RwLock};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The open files are looked up under any latch.
const RANK: Rank = Rank(600);

/// Syncs come one after the other.
const SYNC_RANK: Rank = Rank(350);

/// The tablespace of the catalog.
pub(crate) const CATALOG_SPACE: u32 = 0;

/// The tablespace of the undo log.
pub(crate) const UNDO_SPACE: u32 = 2;

/// The tablespace of the change buffer.
pub(crate) const CHANGES_SPACE: u32 = 3;

/// One tablespace that is open.
#[derive(Debug)]
pub(crate) struct Space {
    path: PathBuf,
    file: Arc<dyn RandomWriteFile>,
    sync_needed: SyncNeeded,
    /// Whether a sync failed: the file may show what was there before it was written.
    is_doubtful: AtomicBool,
    /// Whether it is being filled, and nothing leads to it: who fills it syncs it. An error of the device is told to one sync of a file alone, which must be that one's.
    is_being_filled: AtomicBool,
    /// The number of its [`PageCompression`].
    compression: AtomicU8,
    /// Whether the file system refused to take blocks back.
    keeps_blocks: AtomicBool,
    states: Arc<LeafStates>,
}

/// The file of a tablespace of a database that is being created.
#[derive(Debug)]
pub(crate) struct NewSpace {
    path: PathBuf,
    file: Arc<dyn RandomWriteFile>,
    page_len: usize,
}

impl NewSpace {
    /// Writes a sealed page.
    pub(crate) fn write(&self, id: PageId, page: &[u8]) -> Result<()> {
        let offset = u64::from(id.number) * self.page_len as u64;
        let written = self.file.write_at(offset, page, context(IoPriority::User));
        written.map_err(|error| Error::io("write", &self.path, error).with_offset(offset))
    }

    /// Makes the pages durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.file.sync_data(context(IoPriority::User));
        synced.map_err(|error| Error::io("sync", &self.path, error))
    }
}

/// The tablespaces of a database. Any thread may use it.
#[derive(Debug)]
pub(crate) struct Spaces {
    env: Arc<dyn Env>,
    dir: PathBuf,
    page_len: usize,
    direct: bool,
    open: RwLock<HashMap<u32, Arc<Space>>>,
    syncing: Mutex<()>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

/// The name of a tablespace's file.
pub(crate) fn file_name(space: u32) -> String {
    format!("{space:06}.pages")
}

/// The tablespace whose file has this name.
pub(crate) fn space_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".pages")?;
    digits.parse().ok().filter(|space| file_name(*space) == name)
}

fn context(priority: IoPriority) -> IoContext {
    IoContext::new(FileKind::Page, priority)
}

impl Spaces {
    pub(crate) fn new(
        env: Arc<dyn Env>,
        dir: &Path,
        page_len: usize,
        direct: bool,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let open = RwLock::new(RANK, HashMap::new());
        let syncing = Mutex::new(SYNC_RANK, ());
        Self { env, dir: dir.to_path_buf(), page_len, direct, open, syncing, health, metrics }
    }

    pub(crate) fn page_len(&self) -> usize {
        self.page_len
    }

    pub(crate) fn path(&self, space: u32) -> PathBuf {
        self.dir.join(file_name(space))
    }

    /// Creates the file of a tablespace, and opens it. It is durable in its directory when this returns. An earlier attempt may have left a file.
    pub(crate) fn create(&self, space: u32) -> Result<()> {
        self.open(space)?;
        self.env.sync_dir(&self.dir).map_err(|error| {
            let _ = self.delete(space);
            Error::io("sync", &self.dir, error)
        })
    }

    /// Opens the file of a tablespace.
    pub(crate) fn open(&self, space: u32) -> Result<()> {
        let path = self.path(space);
        let options = FileOptions::new(FileKind::Page).direct(self.direct);
        let file = self.env.open_random_write(&path, &options).map_err(|error| Error::io("open", &path, error))?;
        let opened = Space {
            path,
            file,
            sync_needed: SyncNeeded::new(),
            is_doubtful: AtomicBool::new(false),
            is_being_filled: AtomicBool::new(false),
            compression: AtomicU8::new(PageCompression::None.code()),
            keeps_blocks: AtomicBool::new(false),
            states: Arc::new(LeafStates::new()),
        };
        self.open.write().insert(space, Arc::new(opened));
        Ok(())
    }

    /// Says how the pages of a tablespace are stored that are written from now on.
    pub(crate) fn set_compression(&self, space: u32, compression: PageCompression) {
        if let Some(space) = self.open.read().get(&space) {
            space.compression.store(compression.code(), Ordering::Release);
        }
    }

    /// How the pages of a tablespace are stored.
    pub(crate) fn compression(&self, space: u32) -> PageCompression {
        let code = self.open.read().get(&space).map(|space| space.compression.load(Ordering::Acquire));
        code.and_then(PageCompression::from_code).unwrap_or_default()
    }

    /// Forgets a tablespace and deletes its file.
    pub(crate) fn delete(&self, space: u32) -> Result<()> {
        self.open.write().remove(&space);
        let path = self.path(space);
        match self.env.remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("delete", &path, error)),
            _ => Ok(()),
        }
    }

    /// Creates the empty file of a tablespace that is not opened yet.
    pub(crate) fn create_file(env: &dyn Env, dir: &Path, space: u32, page_len: usize) -> Result<NewSpace> {
        let path = dir.join(file_name(space));
        let file = env.open_random_write(&path, &FileOptions::new(FileKind::Page));
        let file = file.map_err(|error| Error::io("create", &path, error))?;
        Ok(NewSpace { path, file, page_len })
    }

    /// The tablespaces that are open.
    pub(crate) fn all(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.open.read().keys().copied().collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn is_open(&self, space: u32) -> bool {
        self.open.read().contains_key(&space)
    }

    /// What is known of the leaves of a tablespace.
    pub(crate) fn states(&self, space: u32) -> Option<Arc<LeafStates>> {
        self.open.read().get(&space).map(|space| Arc::clone(&space.states))
    }

    fn get(&self, id: PageId) -> Result<Arc<Space>> {
        let found = self.open.read().get(&id.space).cloned();
        let missing = || Error::new(ErrorKind::MissingFile, format!("{id}: no such tablespace"));
        found.ok_or_else(|| missing().with_file(&self.path(id.space)))
    }

    /// Up to which page the file of a tablespace goes. None behind was ever written.
    pub(crate) fn stored_pages(&self, space: u32) -> u32 {
        let len = self.get(PageId::new(space, 0)).ok().and_then(|space| space.file.len().ok());
        len.map_or(0, |len| u32::try_from(len.div_ceil(self.page_len as u64)).unwrap_or(u32::MAX))
    }

    /// The error that `what` is wrong with a page.
    pub(crate) fn corruption(&self, id: PageId, what: &str) -> Error {
        let offset = u64::from(id.number) * self.page_len as u64;
        Error::corruption(&self.path(id.space), offset, format!("{id}: {what}"))
    }

    /// Reads a page, and with a longer buffer those behind it. What lies behind the end of the file reads as zeros, and counts as nothing. Where a sync failed nothing is read any
    /// more: the file may show what was there before.
    pub(crate) fn read(&self, id: PageId, pages: &mut [u8], priority: IoPriority) -> Result<()> {
        let space = self.get(id)?;
        if space.is_doubtful.load(Ordering::Acquire) {
            self.health.check()?;
            let message = "a sync of the tablespace failed; what it shows may be older than what was written";
            return Err(Error::new(ErrorKind::ReadOnly, message).with_file(&space.path));
        }
        let offset = u64::from(id.number) * self.page_len as u64;
        let read = space.file.read_at(offset, pages, context(priority));
        let read = read.map_err(|error| Error::io("read", &space.path, error).with_offset(offset))?;
        pages[read..].fill(0);
        self.metrics.add(Counter::PagesRead, read.div_ceil(self.page_len).max(1) as u64);
        Ok(())
    }

    /// Writes sealed pages, `id` and those behind it. A tablespace that was deleted meanwhile takes them silently.
    pub(crate) fn write(&self, id: PageId, pages: &[u8], priority: IoPriority) -> Result<()> {
        let Ok(space) = self.get(id) else { return Ok(()) };
        let offset = u64::from(id.number) * self.page_len as u64;
        let written = space.sync_needed.write(|| space.file.write_at(offset, pages, context(priority)));
        written.map_err(|error| Error::io("write", &space.path, error).with_offset(offset))?;
        self.metrics.add(Counter::PagesWritten, (pages.len() / self.page_len) as u64);
        self.metrics.add(Counter::PageBytesWritten, pages.len() as u64);
        Ok(())
    }

    /// Writes a page that is stored in fewer blocks, and gives the others of its place back if the file system takes them.
    pub(crate) fn write_compressed(&self, id: PageId, stored: &[u8], priority: IoPriority) -> Result<()> {
        let Ok(space) = self.get(id) else { return Ok(()) };
        let offset = u64::from(id.number) * self.page_len as u64;
        let written = space.sync_needed.write(|| space.file.write_at(offset, stored, context(priority)));
        written.map_err(|error| Error::io("write", &space.path, error).with_offset(offset))?;
        self.metrics.add(Counter::PagesWritten, 1);
        self.metrics.add(Counter::PagesCompressed, 1);
        self.metrics.add(Counter::PageBytesWritten, stored.len() as u64);
        if space.keeps_blocks.load(Ordering::Relaxed) {
            return Ok(());
        }
        let end = offset + stored.len() as u64;
        match space.file.punch_hole(end, self.page_len.saturating_sub(stored.len()) as u64) {
            Ok(()) => {}
            // The page is in its place: what was not given back costs space, which what is allocated says, and nothing else.
            Err(error) => {
                self.metrics.add(Counter::BlocksKept, 1);
                if error.kind() == std::io::ErrorKind::Unsupported {
                    space.keeps_blocks.store(true, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// A tablespace that nothing leads to is going to be filled. Checkpoints leave it alone until it is [synced](Self::sync_filled).
    pub(crate) fn begin_filling(&self, space: u32) -> Result<()> {
        self.get(PageId::new(space, 0))?.is_being_filled.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes the pages of a tablespace durable that was filled and that nothing leads to. A failure is final for its file alone.
    pub(crate) fn sync_filled(&self, space: u32) -> Result<()> {
        let space = self.get(PageId::new(space, 0))?;
        let synced = space.file.sync_data(context(IoPriority::User));
        synced.map_err(|error| Error::io("sync", &space.path, error))?;
        space.is_being_filled.store(false, Ordering::Release);
        Ok(())
    }

    /// Makes everything durable that was written before the call. A failure is final.
    pub(crate) fn sync(&self, priority: IoPriority) -> Result<()> {
        let _alone = self.syncing.lock();
        let spaces: Vec<Arc<Space>> = self.open.read().values().cloned().collect();
        for space in spaces.iter().filter(|space| !space.is_being_filled.load(Ordering::Acquire)) {
            let synced = space.sync_needed.sync(|| space.file.sync_data(context(priority)));
            synced.map_err(|error| {
                space.is_doubtful.store(true, Ordering::Release);
                self.health.fail(Error::io("sync", &space.path, error))
            })?;
        }
        self.health.check()
    }
}
