//! The file of the next WAL, made ahead: a writer that finds a memtable full neither creates a file nor reserves space, which on a busy device can take as long as the device has
//! work before it.
//!
//! A job makes the file once a memtable is half full, under a temporary name. It becomes a WAL, with a name and a number, when a switch renames it. Until then it is nothing that
//! recovery, a follower or RocksDB looks at, whatever a crash leaves: numbers of WALs rise in the order in which they are begun, and no WAL is there before the one that it
//! continues is complete. What a crash leaves is deleted at the next open.

use super::memtable_switch::WAL_CONTEXT;
use super::state::{DbInner, LiveWal};
use super::write::WriteSide;
use crate::file_names::FileName;
use crate::metrics::Counter;
use crate::wal::WalWriter;
use siltstone_base::env::{AppendFile, Env, FileKind, FileOptions, SyncHandle};
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::path::Path;

/// An empty file with space for a WAL.
#[derive(Debug)]
pub(crate) struct NextWal {
    /// Number of its temporary name.
    temporary: u64,
    file: Box<dyn AppendFile>,
    sync: Arc<dyn SyncHandle>,
}

impl NextWal {
    /// As the WAL `number` at `path`, where the file is now.
    fn into_wal(self, number: u64, path: &Path) -> (WalWriter, LiveWal) {
        let wal = WalWriter::new(self.file, path.to_path_buf(), number, WAL_CONTEXT);
        let live = LiveWal { number, size: 0, written: wal.written(), sync: self.sync, synced: false };
        (wal, live)
    }
}

/// Makes the file. Counts as a job that ends, so that whoever closes the database waits for it.
struct PrepareJob {
    db: Arc<DbInner>,
}

impl PrepareJob {
    fn prepare(&self) {
        let db = &self.db;
        let is_wanted = || {
            let is_there = db.state.lock().next_wal.is_some();
            // Where the device may be full, flushes need the space more.
            !is_there && !db.is_closing() && !db.errors.is_failed() && !db.errors.has_passing()
        };
        if !is_wanted() {
            return;
        }
        let temporary = db.file_numbers.allocate();
        let path = FileName::Temporary(temporary).path(&db.dir);
        // A writer that finds none makes one itself, and is told what is wrong.
        let Ok((file, sync)) = db.create_wal_file(&path) else {
            let _ = db.env.remove_file(&path);
            db.metrics.add(Counter::WalPrecreateFailed, 1);
            return;
        };
        let next = NextWal { temporary, file, sync };
        // Of two jobs the later one was in vain.
        let late = db.state.lock().next_wal.replace(next);
        if let Some(late) = late {
            db.discard_next_wal(late);
        }
    }
}

impl Job for PrepareJob {
    fn name(&self) -> &'static str {
        "next WAL"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        self.prepare();
        Progress::Done
    }

    fn poisoned(&mut self, message: &str) {
        self.db.fail_poisoned(self.name(), message);
    }
}

impl Drop for PrepareJob {
    fn drop(&mut self) {
        self.db.job_ended();
    }
}

impl DbInner {
    /// Has the next WAL made, unless it is there. Asked once for each WAL.
    #[cold]
    pub(crate) fn ask_for_next_wal(self: &Arc<Self>, side: &mut WriteSide) {
        side.next_wal_asked = true;
        {
            let mut state = self.state.lock();
            if state.next_wal.is_some() || state.background_paused > 0 || self.is_closing() {
                return;
            }
            state.ending_jobs += 1;
        }
        self.executor.submit(Priority::High, Box::new(PrepareJob { db: Arc::clone(self) }));
    }

    /// Starts the WAL `number`: in the file that was made ahead, or else in a new one.
    pub(crate) fn begin_wal(&self, number: u64) -> Result<(WalWriter, LiveWal)> {
        let path = FileName::Wal(number).path(&self.dir);
        let ahead = self.state.lock().next_wal.take();
        if let Some(next) = ahead {
            match self.env.rename(&FileName::Temporary(next.temporary).path(&self.dir), &path) {
                Ok(()) => {
                    self.metrics.add(Counter::WalPrecreateHit, 1);
                    self.notify_of_wal(number);
                    return Ok(next.into_wal(number, &path));
                }
                Err(_) => self.discard_next_wal(next),
            }
        }
        self.metrics.add(Counter::WalPrecreateMiss, 1);
        let (file, sync) = self.create_wal_file(&path)?;
        self.notify_of_wal(number);
        Ok(NextWal { temporary: 0, file, sync }.into_wal(number, &path))
    }

    /// Tells every listener that a WAL has begun.
    pub(crate) fn notify_of_wal(&self, number: u64) {
        self.notify(|listener| listener.file_created(&FileName::Wal(number).path(&self.dir)));
    }

    /// Removes the file that was made ahead, if there is one: the database is closed, or a flush needs the space.
    pub(crate) fn drop_next_wal(&self) {
        let next = self.state.lock().next_wal.take();
        if let Some(next) = next {
            self.discard_next_wal(next);
        }
    }

    fn discard_next_wal(&self, next: NextWal) {
        let path = FileName::Temporary(next.temporary).path(&self.dir);
        drop(next);
        // The next open removes what stays.
        let _ = self.env.remove_file(&path);
    }

    /// Creates an empty file and reserves the space of a WAL.
    fn create_wal_file(&self, path: &Path) -> Result<(Box<dyn AppendFile>, Arc<dyn SyncHandle>)> {
        create_wal_file(&*self.env, path, self.default_family.super_version.load().options.write_buffer_size)
    }
}

/// Creates an empty file and reserves space for the WAL of a memtable of so many bytes.
pub(super) fn create_wal_file(
    env: &dyn Env,
    path: &Path,
    memtable_bytes: usize,
) -> Result<(Box<dyn AppendFile>, Arc<dyn SyncHandle>)> {
    let file = env.create_append(path, &FileOptions::new(FileKind::Wal));
    let mut file = file.map_err(|error| Error::io("create", path, error))?;
    let sync = file.sync_handle().map_err(|error| {
        // It would look like the next WAL.
        let _ = env.remove_file(path);
        Error::io("open", path, error)
    })?;
    // A sync of reserved space need not wait for the file system to find some. A hint: what the file system refuses now shows when it is written.
    let _ = file.preallocate(memtable_bytes as u64 / 8 * 9);
    Ok((file, sync))
}
