//! The environment of a Linux file system.
//!
//! Buffered files make exactly one system call for an operation (more only after a short transfer or `EINTR`).
//! Direct files (`O_DIRECT`) need memory, offsets and lengths aligned to
//! [`DIRECT_ALIGNMENT`](super::DIRECT_ALIGNMENT); what is not aligned passes a bounce buffer (reads in as small blocks as the file system is willing to read), and a file system that
//! refuses the flag gets buffered files. A direct append file writes units of 1 MiB, in pieces while callers read, and one of them while the next is filled; a sync writes the rest, and the next
//! unit begins with its last block again. Of a direct file that is only read, ranges are read ahead of whoever says that he needs them. A file opened for mapping is not direct.
//!
//! **Outside the promise**: a mapped file ([`FileOptions::mmap`]). If another process truncates it, or its device fails
//! while it is read, this process receives `SIGBUS`. Reads through a mapping are not counted.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{AppendFile, DirEntry, Env, FileLock, FileOptions, IoStats, RandomFile, RandomWriteFile};
use crate::clock::{Clock, SystemClock};

mod ahead;
mod aligned;
mod append;
mod background;
mod beside;
mod callers;
mod direct_append;
mod handle;
mod lock;
mod mmap;
mod open;
mod random;
mod range;
mod read_many;
mod remove;
#[cfg(test)]
mod tests;
mod transfer;

pub use aligned::buffer_bytes;

pub(super) use ahead::{MOST as MOST_AHEAD, MOST_AT_ONCE, is_read_ahead};
pub(super) use beside::Beside;

use callers::CallersReads;
use handle::Handle;

/// The file system of the operating system.
pub struct PosixEnv {
    stats: Arc<IoStats>,
    callers: Arc<CallersReads>,
    read_ahead: Arc<ahead::AtOnce>,
    written_behind: Arc<Beside>,
    clock: Arc<dyn Clock>,
}

impl PosixEnv {
    /// The file system of the operating system, its counters at zero.
    pub fn new() -> Self {
        let clock = Arc::new(SystemClock::new());
        Self {
            stats: Arc::default(),
            callers: Arc::default(),
            read_ahead: Arc::default(),
            written_behind: Arc::default(),
            clock,
        }
    }

    fn handle(&self, file: open::Opened) -> Handle {
        Handle::new(file, self)
    }
}

impl Default for PosixEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PosixEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PosixEnv")
    }
}

/// The directory itself where the path of a file has no directory part.
fn directory(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that does I/O")]
impl Env for PosixEnv {
    fn open_random(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomFile>> {
        lock::refuse_held(path)?;
        let handle = self.handle(open::to_read(path, options)?);
        handle.advise(options.access);
        if options.mmap { mmap::open(handle, options.access) } else { Ok(Arc::new(random::PosixFile::to_read(handle))) }
    }

    fn open_random_write(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomWriteFile>> {
        lock::refuse_held(path)?;
        let handle = self.handle(open::to_read_write(path, options)?);
        handle.advise(options.access);
        let unaligned =
            if handle.is_direct() { Some(open::to_read_write(path, &options.direct(false))?.descriptor) } else { None };
        Ok(Arc::new(random::PosixFile::to_write(handle, unaligned)))
    }

    fn create_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>> {
        lock::refuse_held(path)?;
        self.append_file(open::to_create(path, options)?, options)
    }

    fn open_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>> {
        lock::refuse_held(path)?;
        self.append_file(open::to_append(path, options)?, options)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory(path))? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(DirEntry { name, is_dir: entry.file_type()?.is_dir() });
            }
        }
        entries.sort_unstable();
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let directory = open::directory(directory(path))?;
        Ok(rustix::io::retry_on_intr(|| rustix::fs::fsync(&directory))?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        remove::remove(path).map(|_| ())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn modified_unix_seconds(&self, path: &Path) -> io::Result<Option<u64>> {
        // A time before 1970 is none that means anything.
        Ok(u64::try_from(fs::metadata(path)?.mtime()).ok())
    }

    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        // The unit is 512 bytes whatever the block size of the file system is.
        Ok(fs::metadata(path)?.blocks() * 512)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn lock_file(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::PosixLock::take(path)?))
    }

    fn io_stats(&self) -> &IoStats {
        &self.stats
    }

    fn prepare_direct(&self) {
        background::start();
    }
}

impl PosixEnv {
    fn append_file(&self, file: open::Opened, options: &FileOptions) -> io::Result<Box<dyn AppendFile>> {
        let handle = Arc::new(self.handle(file));
        Ok(if handle.is_direct() {
            Box::new(direct_append::DirectAppendFile::new(handle, options.kind)?)
        } else {
            Box::new(append::BufferedAppendFile::new(handle)?)
        })
    }
}
