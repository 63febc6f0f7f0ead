//! The environment: every byte of I/O that an engine does passes these traits.
//!
//! Errors are [`std::io::Error`]s here; an engine adds the operation and the file with
//! [`Error::io`](crate::Error::io). A call either does all that it was asked or returns an error:
//! short reads and writes and `EINTR` are handled inside.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod accounting;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod posix;
#[cfg(any(test, feature = "testing"))]
pub mod sim;
pub mod throttled;

pub use accounting::{IoCounters, IoSnapshot, IoStats};
pub use posix::{PosixEnv, buffer_bytes};
pub use throttled::{DeviceModel, DeviceReport, ThrottledEnv};

/// What a file is, for accounting and for fault injection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FileKind {
    /// Write-ahead log of the LSM engine.
    Wal,
    /// MANIFEST and CURRENT.
    Manifest,
    /// Sorted table.
    Table,
    /// Blob file.
    Blob,
    /// Redo log of the B-tree engine.
    Redo,
    /// Pages of the B-tree engine.
    Page,
    /// Doublewrite area of the B-tree engine.
    Doublewrite,
    /// Binlog of the laboratory.
    Binlog,
    /// OPTIONS, IDENTITY, LOCK, info log and anything else.
    Other,
}

impl FileKind {
    /// Every kind, in the order of accounting.
    pub const ALL: [Self; 9] = [
        Self::Wal,
        Self::Manifest,
        Self::Table,
        Self::Blob,
        Self::Redo,
        Self::Page,
        Self::Doublewrite,
        Self::Binlog,
        Self::Other,
    ];
}

/// Who waits for an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoPriority {
    /// A caller of the engine waits.
    User,
    /// Flush, or a compaction out of level 0: writers may soon wait.
    High,
    /// All other background work.
    Low,
}

impl IoPriority {
    /// Every priority, in the order of accounting.
    pub const ALL: [Self; 3] = [Self::User, Self::High, Self::Low];
}

/// What an I/O is for. Travels with every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IoContext {
    /// The kind of the file.
    pub kind: FileKind,
    /// Who waits.
    pub priority: IoPriority,
}

impl IoContext {
    /// An I/O on a file of `kind` for whom `priority` says.
    pub const fn new(kind: FileKind, priority: IoPriority) -> Self {
        Self { kind, priority }
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    /// The kind of the file.
    pub kind: FileKind,
    /// Bypass the operating system's page cache (`O_DIRECT`). Appends are then buffered and
    /// written in aligned units; positional reads accept any range, but ranges and buffers aligned to
    /// [`DIRECT_ALIGNMENT`] are read without a copy. Falls back to buffered I/O where the file system refuses.
    pub direct: bool,
    /// Map the file for reading. Read-only; a file that another process truncates kills this one.
    pub mmap: bool,
    /// The access pattern expected.
    pub access: Access,
}

impl FileOptions {
    /// Buffered I/O on a file of `kind`.
    pub const fn new(kind: FileKind) -> Self {
        Self { kind, direct: false, mmap: false, access: Access::Random }
    }

    /// The same with direct I/O if `direct`.
    #[must_use]
    pub const fn direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }

    /// The same with a mapping if `mmap`.
    #[must_use]
    pub const fn mmap(mut self, mmap: bool) -> Self {
        self.mmap = mmap;
        self
    }

    /// The same with another expected access pattern.
    #[must_use]
    pub const fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }
}

/// The access pattern expected of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Single blocks anywhere: no read-ahead by the operating system.
    Random,
    /// From front to back.
    Sequential,
}

/// Alignment of offsets, lengths and memory for direct I/O, in bytes.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// One request of [`RandomFile::read_many`].
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// Where to read, in bytes from the front of the file.
    pub offset: u64,
    /// Where to put it; its length is what is asked for.
    pub buffer: &'a mut [u8],
    /// The bytes read (fewer than asked only at the end of the file), or why not. Set by the call.
    pub result: io::Result<usize>,
}

/// A file read at any position, by any number of threads.
pub trait RandomFile: Send + Sync + fmt::Debug {
    /// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> io::Result<usize>;

    /// Reads several ranges, possibly at the same time. Each request carries its own result.
    fn read_many(&self, requests: &mut [ReadRequest<'_>], context: IoContext) {
        for request in requests {
            request.result = self.read_at(request.offset, request.buffer, context);
        }
    }

    /// The bytes of the range, if the file is mapped and the range lies within it.
    fn mapped(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let _ = (offset, len);
        None
    }

    /// The length of the file in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Whether reads pass by the operating system's page cache.
    fn is_direct(&self) -> bool {
        false
    }

    /// Tells the operating system that the range will be read soon. A hint. Of a [direct](Self::is_direct) file it is read into memory of its own, for who then reads just this range.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Takes back that the range at `offset` [will be read](Self::will_need).
    fn forget(&self, offset: u64) {
        let _ = offset;
    }
}

/// A file read and written at any position.
pub trait RandomWriteFile: RandomFile {
    /// Writes all of `data` at `offset`, growing the file if need be.
    fn write_at(&self, offset: u64, data: &[u8], context: IoContext) -> io::Result<()>;

    /// Makes data, and the metadata needed to read it, durable.
    fn sync_data(&self, context: IoContext) -> io::Result<()>;

    /// Sets the length; new bytes read as zero.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Gives the blocks of the range back to the file system; the range then reads as zero. One that can't take any back says so by the kind `Unsupported`.
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Reserves space for the range without changing the length.
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()>;
}

/// A file that grows at its end, written by one thread.
///
/// Every `append` reaches the operating system before it returns (it survives the death of the process), unless the
/// file is direct: then whole aligned units are on their way, one at a time, and `sync_data` or `finish` waits for them and writes the rest.
pub trait AppendFile: Send + fmt::Debug {
    /// Appends all of `data` at the end. After an error the end of the file is unknown:
    /// nothing may be appended any more.
    fn append(&mut self, data: &[u8], context: IoContext) -> io::Result<()>;

    /// Makes all that was appended, and the length, durable. A failed sync is final:
    /// the file must be abandoned.
    fn sync_data(&mut self, context: IoContext) -> io::Result<()>;

    /// Starts writing the range back without waiting for it. No promise of durability.
    fn sync_range(&mut self, offset: u64, len: u64) -> io::Result<()>;

    /// Waits until what [`sync_range`](Self::sync_range) was asked for within the range is written. No promise of durability.
    fn wait_range(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }

    /// Reserves `len` bytes from the front without changing the length. A hint: errors are ignored by callers.
    fn preallocate(&mut self, len: u64) -> io::Result<()>;

    /// The bytes appended so far, counting what was there when it was opened.
    fn len(&self) -> u64;

    /// Whether nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes what is buffered, gives preallocated space back and closes. Does not sync.
    /// An error here is an error of a write.
    fn finish(self: Box<Self>) -> io::Result<()>;

    /// A second handle that can only sync, for syncing while the first goes on appending.
    /// It covers what was appended before its `sync_data` was called.
    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>>;
}

/// Syncs a file that another thread appends to.
pub trait SyncHandle: Send + Sync + fmt::Debug {
    /// Makes all that was appended before the call, and the length, durable. A failed sync is final.
    fn sync_data(&self, context: IoContext) -> io::Result<()>;
}

/// A held lock on a file; dropping it gives it back.
pub trait FileLock: Send + Sync + fmt::Debug {}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name within its directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A file system, a device and their accounting.
pub trait Env: Send + Sync + fmt::Debug {
    /// Opens an existing file for positional reads.
    fn open_random(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomFile>>;

    /// Opens a file for positional reads and writes, creating it if it does not exist.
    fn open_random_write(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomWriteFile>>;

    /// Creates a file for appending; one of the same name is replaced by an empty one.
    fn create_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>>;

    /// Opens an existing file to append at its end.
    fn open_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>>;

    /// Creates a directory and those above it.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The entries of a directory, sorted by name. Names that are not UTF-8 are left out.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Renames a file, replacing one of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name; a symbolic link itself, not what it leads to.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// The one path of what `path` leads to, through no symbolic link: equal for two paths of one file, unless it has several names.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;

    /// The length of a file in bytes.
    fn file_len(&self, path: &Path) -> io::Result<u64>;

    /// When a file was last changed, in seconds since 1970; `None` where that is not kept.
    fn modified_unix_seconds(&self, path: &Path) -> io::Result<Option<u64>>;

    /// The bytes that the file system has really allocated for a file.
    fn allocated_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Whether something of that name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Locks a file, creating it if need be: against other processes by `fcntl`, against this one by a table.
    /// Fails with [`io::ErrorKind::WouldBlock`] if it is held.
    fn lock_file(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;

    /// What was read, written and synced so far, by kind and priority.
    fn io_stats(&self) -> &IoStats;

    /// Files will be opened past the page cache. What that takes is as urgent as the caller, who comes before the first of them.
    fn prepare_direct(&self) {}

    /// This environment, if its device is modelled.
    fn as_throttled(&self) -> Option<&ThrottledEnv> {
        None
    }
}

/// Reads a whole file of at most `limit` bytes; a longer one is refused with
/// [`io::ErrorKind::FileTooLarge`] before anything is allocated.
pub fn read_file(env: &dyn Env, path: &Path, kind: FileKind, limit: u64) -> io::Result<Vec<u8>> {
    let file = env.open_random(path, &FileOptions::new(kind).access(Access::Sequential))?;
    let len = file.len()?;
    if len > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut data = vec![0; len as usize];
    let read = file.read_at(0, &mut data, IoContext::new(kind, IoPriority::User))?;
    data.truncate(read);
    Ok(data)
}

/// Writes a file as one durable unit: a temporary file beside it is written, synced and renamed, and the directory is
/// synced.
pub fn write_file_atomically(
    env: &dyn Env,
    path: &Path,
    temporary: &Path,
    data: &[u8],
    kind: FileKind,
) -> io::Result<()> {
    let context = IoContext::new(kind, IoPriority::User);
    let mut file = env.create_append(temporary, &FileOptions::new(kind))?;
    file.append(data, context)?;
    file.sync_data(context)?;
    file.finish()?;
    env.rename(temporary, path)?;
    env.sync_dir(&path.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf))
}

/// Creates a directory and those above it that are missing, and makes the names of the new ones durable: what they hold is no safer
/// than they are.
pub fn create_dir_durably(env: &dyn Env, dir: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    for ancestor in dir.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
        if env.exists(ancestor)? {
            break;
        }
        missing.push(ancestor);
    }
    env.create_dir_all(dir)?;
    for created in missing {
        let parent = created.parent().filter(|parent| !parent.as_os_str().is_empty());
        env.sync_dir(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}
