//! Appending through the page cache: one system call an append, no copy, no lock.

use std::io;
use std::sync::Arc;

use super::handle::Handle;
use super::{range, transfer};
use crate::env::{AppendFile, IoContext, SyncHandle};

/// A buffered file that grows at its end.
#[derive(Debug)]
pub(super) struct BufferedAppendFile {
    handle: Arc<Handle>,
    len: u64,
    /// The end of the space reserved.
    preallocated: u64,
    failed: bool,
}

impl BufferedAppendFile {
    pub(super) fn new(handle: Arc<Handle>) -> io::Result<Self> {
        let len = handle.len()?;
        Ok(Self { handle, len, preallocated: 0, failed: false })
    }
}

/// The refusal of an append after one that failed.
#[cold]
pub(super) fn failed_before() -> io::Error {
    io::Error::other("an earlier append to this file failed")
}

impl AppendFile for BufferedAppendFile {
    fn append(&mut self, data: &[u8], context: IoContext) -> io::Result<()> {
        if self.failed {
            return Err(failed_before());
        }
        // A positional write: unlike `write` it takes no lock on the position of the file.
        if let Err(error) = transfer::write_at(self.handle.fd(), self.len, data, usize::MAX) {
            self.failed = true;
            return Err(error);
        }
        self.len += data.len() as u64;
        self.handle.stats().record_write(context, data.len() as u64);
        Ok(())
    }

    fn sync_data(&mut self, context: IoContext) -> io::Result<()> {
        self.handle.sync(context)
    }

    fn sync_range(&mut self, offset: u64, len: u64) -> io::Result<()> {
        range::start_write_back(self.handle.fd(), offset, len)
    }

    fn wait_range(&mut self, offset: u64, len: u64) -> io::Result<()> {
        range::wait_for_write_back(self.handle.fd(), offset, len)
    }

    fn preallocate(&mut self, len: u64) -> io::Result<()> {
        self.handle.preallocate(0, len)?;
        self.preallocated = self.preallocated.max(len);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        if self.failed {
            return Err(failed_before());
        }
        if self.preallocated > self.len { self.handle.set_len(self.len) } else { Ok(()) }
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Ok(Arc::clone(&self.handle) as Arc<dyn SyncHandle>)
    }
}
