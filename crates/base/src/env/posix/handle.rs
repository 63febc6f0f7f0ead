//! An open file with its accounting: what every kind of file stands on.

use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags};
use rustix::io::{Errno, retry_on_intr};

use super::PosixEnv;
use super::ahead::AtOnce;
use super::beside::Beside;
use super::callers::CallersReads;
use super::open::Opened;
use crate::clock::Clock;
use crate::env::{Access, IoContext, IoPriority, IoStats, SyncHandle};
use crate::sync::atomic::{AtomicBool, Ordering};

/// An open file. Thread safety: every method may run on any thread at any time.
///
/// Invariant: once a sync failed, every later one fails. The kernel reports a failed write-back once for an open file
/// and then forgets it together with the data, so a second sync that succeeds would prove nothing.
pub(super) struct Handle {
    descriptor: OwnedFd,
    direct: bool,
    sync_failed: AtomicBool,
    stats: Arc<IoStats>,
    callers: Arc<CallersReads>,
    read_ahead: Arc<AtOnce>,
    written_behind: Arc<Beside>,
    clock: Arc<dyn Clock>,
}

impl Handle {
    pub(super) fn new(file: Opened, env: &PosixEnv) -> Self {
        let Opened { descriptor, direct } = file;
        Self {
            descriptor,
            direct,
            sync_failed: AtomicBool::new(false),
            stats: Arc::clone(&env.stats),
            callers: Arc::clone(&env.callers),
            read_ahead: Arc::clone(&env.read_ahead),
            written_behind: Arc::clone(&env.written_behind),
            clock: Arc::clone(&env.clock),
        }
    }

    /// What is read ahead of all files of the environment.
    pub(super) fn read_ahead(&self) -> &Arc<AtOnce> {
        &self.read_ahead
    }

    /// Whether units of files are written behind.
    pub(super) fn written_behind(&self) -> &Beside {
        &self.written_behind
    }

    #[inline]
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Whether transfers bypass the page cache and must be aligned.
    #[inline]
    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    #[inline]
    pub(super) fn stats(&self) -> &IoStats {
        &self.stats
    }

    #[inline]
    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Bytes to be moved with one system call for whom `context` says: fewer in the background while callers read. A direct transfer for a caller is noted.
    #[inline]
    pub(super) fn most_at_once(&self, context: IoContext) -> usize {
        if !self.direct {
            return usize::MAX;
        }
        let now_micros = self.clock.now_micros();
        if context.priority == IoPriority::User {
            self.callers.note(now_micros);
            return usize::MAX;
        }
        self.callers.most_at_once(now_micros)
    }

    /// The length in bytes.
    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(self.fd())?.st_size as u64)
    }

    pub(super) fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::ftruncate(self.fd(), len))?)
    }

    /// Tells the page cache what to expect. A hint: errors are ignored.
    pub(super) fn advise(&self, access: Access) {
        if !self.direct {
            let advice = match access {
                Access::Random => Advice::Random,
                Access::Sequential => Advice::Sequential,
            };
            let _ = rustix::fs::fadvise(self.fd(), 0, None, advice);
        }
    }

    /// Starts reading the range into the page cache. A hint: errors are ignored.
    pub(super) fn will_need(&self, offset: u64, len: u64) {
        if !self.direct
            && let Some(len) = NonZeroU64::new(len)
        {
            let _ = rustix::fs::fadvise(self.fd(), offset, Some(len), Advice::WillNeed);
        }
    }

    /// Reserves blocks for the range beyond or within the length, which stays. A file system without the operation
    /// reserves nothing.
    pub(super) fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fallocate(FallocateFlags::KEEP_SIZE, offset, len).or_else(|error| match error {
            Errno::OPNOTSUPP | Errno::NOSYS => Ok(()),
            error => Err(error.into()),
        })
    }

    /// Gives the blocks of the range back. A file system without the operation is an error of the kind `Unsupported`.
    pub(super) fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let punched = self.fallocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len);
        punched.map_err(|error| match error {
            Errno::OPNOTSUPP | Errno::NOSYS => io::Error::new(io::ErrorKind::Unsupported, error),
            error => error.into(),
        })
    }

    fn fallocate(&self, flags: FallocateFlags, offset: u64, len: u64) -> Result<(), Errno> {
        if len == 0 {
            return Ok(());
        }
        retry_on_intr(|| rustix::fs::fallocate(self.fd(), flags, offset, len))
    }

    /// Makes the data and the length durable.
    pub(super) fn sync(&self, context: IoContext) -> io::Result<()> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier sync of this file failed"));
        }
        let begin = self.clock.now_micros();
        if let Err(error) = retry_on_intr(|| rustix::fs::fdatasync(self.fd())) {
            self.sync_failed.store(true, Ordering::Release);
            return Err(error.into());
        }
        self.stats.record_sync(context, self.clock.now_micros().saturating_sub(begin));
        Ok(())
    }
}

impl SyncHandle for Handle {
    fn sync_data(&self, context: IoContext) -> io::Result<()> {
        self.sync(context)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("descriptor", &self.descriptor).field("direct", &self.direct).finish()
    }
}
