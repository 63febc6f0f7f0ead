//! Locks on files: a table of this process beside `fcntl`.
//!
//! A lock of `fcntl` belongs to the process: it neither keeps a second taker of the same process out, nor survives the closing
//! of *any* descriptor of the file. So the table is asked first, and a file whose lock is held is never opened again.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::env::FileLock;
use crate::sync::{Mutex, Rank};

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX);

/// Times that a lock file is opened anew because it was removed meanwhile.
const TRIES: u32 = 100;

/// The locks that this process holds. Opening, locking and closing a lock file happen under its lock.
static HELD: Mutex<Vec<Entry>> = Mutex::new(RANK, Vec::new());

#[derive(Debug)]
struct Entry {
    file: FileId,
    path: PathBuf,
}

/// A file by device and inode, whatever its name. Stays its own for as long as it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn new(stat: &rustix::fs::Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }

    fn of_path(path: &Path) -> io::Result<Option<Self>> {
        match rustix::fs::stat(path) {
            Ok(stat) => Ok(Some(Self::new(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A held lock.
#[derive(Debug)]
pub(super) struct PosixLock {
    descriptor: Option<OwnedFd>,
    file: FileId,
}

impl PosixLock {
    /// Takes the lock on a file, creating it if need be, or fails with [`io::ErrorKind::WouldBlock`].
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        Self::take_with(path, || ())
    }

    /// The same. `between` is called when the file is open and not locked yet: others may remove it or put another in its place then.
    fn take_with(path: &Path, mut between: impl FnMut()) -> io::Result<Self> {
        for _ in 0..TRIES {
            if let Some(lock) = Self::try_take(path, &mut between)? {
                return Ok(lock);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Locks the file that has the name now; `None` if it has lost it meanwhile: whoever comes next would lock another one.
    fn try_take(path: &Path, between: &mut dyn FnMut()) -> io::Result<Option<Self>> {
        let mut held = HELD.lock();
        if let Some(file) = FileId::of_path(path)?
            && held.iter().any(|entry| entry.file == file)
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let descriptor = retry_on_intr(|| rustix::fs::open(path, flags, mode))?;
        let file = FileId::new(&rustix::fs::fstat(&descriptor)?);
        if held.iter().any(|entry| entry.file == file) {
            // The name was given to a held file since it was looked up. Closing the descriptor would give that lock away.
            std::mem::forget(descriptor);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        between();
        match rustix::fs::fcntl_lock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => return Err(error.into()),
        }
        if FileId::of_path(path)? != Some(file) {
            return Ok(None);
        }
        held.push(Entry { file, path: path.to_path_buf() });
        Ok(Some(Self { descriptor: Some(descriptor), file }))
    }
}

impl Drop for PosixLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        // Closed before the table forgets it: a taker that comes between would see its lock closed away.
        drop(self.descriptor.take());
        held.retain(|entry| entry.file != self.file);
    }
}

impl FileLock for PosixLock {}

/// Fails with [`io::ErrorKind::WouldBlock`] if `path` names a file whose lock this process holds: closing it again would
/// give the lock away. Only a file of the same name is looked at, so that an opening costs no system call more.
pub(super) fn refuse_held(path: &Path) -> io::Result<()> {
    let held = HELD.lock();
    let is_candidate = held.iter().any(|entry| entry.path.file_name() == path.file_name());
    if is_candidate
        && let Some(file) = FileId::of_path(path)?
        && held.iter().any(|entry| entry.file == file)
    {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock on a file without a name would keep nobody out.
    #[test]
    fn a_lock_file_that_is_removed_before_it_is_locked_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let mut removals = 0;
        let lock = PosixLock::take_with(&path, || {
            if removals < 2 {
                rustix::fs::unlink(&path).unwrap();
                removals += 1;
            }
        });
        let lock = lock.unwrap();
        assert_eq!((removals, FileId::of_path(&path).unwrap()), (2, Some(lock.file)));
        assert_eq!(PosixLock::take(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        drop(PosixLock::take(&path).unwrap());
        let always = PosixLock::take_with(&path, || rustix::fs::unlink(&path).unwrap());
        assert_eq!(always.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
