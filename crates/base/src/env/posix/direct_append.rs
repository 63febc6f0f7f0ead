//! Appending past the page cache: an aligned buffer, written in whole units.
//!
//! Invariants: the buffer holds the bytes of the file from `written` (a multiple of the alignment) to the end. A sync
//! writes the rest padded with zeros and cuts the file to its true length; the bytes stay in the buffer, so that the next
//! write covers the last block again.
//!
//! A whole unit is written by another thread while the next one is filled. Its end is waited for before another is begun, and its error is that of the next call.

use std::io;
use std::sync::Arc;

use super::aligned::AlignedBuffer;
use super::append::failed_before;
use super::background::{self, Begun};
use super::handle::Handle;
use super::transfer;
use crate::env::{AppendFile, DIRECT_ALIGNMENT, FileKind, IoContext, IoPriority, SyncHandle};
use crate::sync::{Mutex, Rank};

/// The unit of writing in bytes.
const BUFFER_LEN: usize = 1 << 20;

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 1);

/// A direct file that grows at its end.
#[derive(Debug)]
pub(super) struct DirectAppendFile {
    shared: Arc<Shared>,
    len: u64,
    preallocated: u64,
}

#[derive(Debug)]
struct Shared {
    handle: Arc<Handle>,
    tail: Mutex<Tail>,
}

struct Tail {
    buffer: AlignedBuffer,
    /// The unit before, while it is written.
    behind: Option<Begun<Unit>>,
    /// When that was begun.
    behind_micros: u64,
    /// To be filled while that is so; none before the first whole unit.
    spare: Option<AlignedBuffer>,
    /// Bytes of the buffer in use.
    filled: usize,
    /// Where in the file the buffer begins.
    written: u64,
    /// Whether all of `filled` is in the file.
    clean: bool,
    failed: bool,
    /// Of the last append.
    context: IoContext,
}

/// A unit that was written, or not.
type Unit = (AlignedBuffer, io::Result<()>);

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tail").field("filled", &self.filled).field("written", &self.written).finish_non_exhaustive()
    }
}

impl DirectAppendFile {
    pub(super) fn new(handle: Arc<Handle>, kind: FileKind) -> io::Result<Self> {
        let len = handle.len()?;
        let mut buffer = AlignedBuffer::new(BUFFER_LEN);
        let filled = (len % DIRECT_ALIGNMENT as u64) as usize;
        let written = len - filled as u64;
        if filled > 0 {
            let read = transfer::read_at_direct(
                handle.fd(),
                written,
                &mut buffer[..DIRECT_ALIGNMENT],
                usize::MAX,
                DIRECT_ALIGNMENT,
            )?;
            if read != filled {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let context = IoContext::new(kind, IoPriority::User);
        let (behind, spare) = (None, None);
        let tail =
            Tail { buffer, behind, behind_micros: 0, spare, filled, written, clean: true, failed: false, context };
        Ok(Self { shared: Arc::new(Shared { handle, tail: Mutex::new(RANK, tail) }), len, preallocated: 0 })
    }
}

impl Tail {
    fn append(&mut self, handle: &Arc<Handle>, mut data: &[u8], context: IoContext) -> io::Result<()> {
        if self.failed {
            return Err(failed_before());
        }
        self.context = context;
        while !data.is_empty() {
            let count = data.len().min(BUFFER_LEN - self.filled);
            let (now, later) = data.split_at(count);
            self.buffer[self.filled..self.filled + count].copy_from_slice(now);
            self.filled += count;
            self.clean = false;
            data = later;
            if self.filled == BUFFER_LEN {
                self.begin_unit(handle)?;
                self.written += BUFFER_LEN as u64;
                self.filled = 0;
                self.clean = true;
            }
        }
        Ok(())
    }

    /// Begins to write the buffer, which is full, and takes another one; or writes it, where that is as good.
    fn begin_unit(&mut self, handle: &Arc<Handle>) -> io::Result<()> {
        let (needed, was_behind) = (handle.clock().now_micros(), self.behind.is_some());
        self.end_unit()?;
        if was_behind {
            handle.written_behind().came(self.behind_micros, needed, handle.clock().now_micros());
        }
        if !handle.written_behind().is_of_use() {
            return self.write(handle, BUFFER_LEN);
        }
        let next = self.spare.take().unwrap_or_else(|| AlignedBuffer::new(BUFFER_LEN));
        let full = std::mem::replace(&mut self.buffer, next);
        let (to, offset, context) = (Arc::clone(handle), self.written, self.context);
        self.behind_micros = handle.clock().now_micros();
        self.behind = Some(background::begin(move || {
            let written = transfer::write_at(to.fd(), offset, &full, to.most_at_once(context));
            if written.is_ok() {
                to.stats().record_write(context, BUFFER_LEN as u64);
            }
            (full, written)
        }));
        Ok(())
    }

    /// Waits until the unit before is written.
    fn end_unit(&mut self) -> io::Result<()> {
        let Some(behind) = self.behind.take() else { return Ok(()) };
        let gone = || io::Error::other("the thread that wrote to the file panicked");
        let (buffer, written) = behind.end().ok_or_else(gone).inspect_err(|_| self.failed = true)?;
        self.spare = Some(buffer);
        written.inspect_err(|_| self.failed = true)
    }

    /// Writes everything: afterwards the file has its true length and at most a part of a block stays in the buffer.
    fn write_rest(&mut self, handle: &Handle) -> io::Result<()> {
        if self.failed {
            return Err(failed_before());
        }
        self.end_unit()?;
        if self.clean {
            return Ok(());
        }
        let padded = self.filled.next_multiple_of(DIRECT_ALIGNMENT);
        self.buffer[self.filled..padded].fill(0);
        self.write(handle, padded)?;
        if padded != self.filled {
            handle.set_len(self.written + self.filled as u64).inspect_err(|_| self.failed = true)?;
        }
        let whole = self.filled - self.filled % DIRECT_ALIGNMENT;
        self.buffer.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        self.written += whole as u64;
        self.clean = true;
        Ok(())
    }

    fn write(&mut self, handle: &Handle, len: usize) -> io::Result<()> {
        let most = handle.most_at_once(self.context);
        transfer::write_at(handle.fd(), self.written, &self.buffer[..len], most).inspect_err(|_| self.failed = true)?;
        handle.stats().record_write(self.context, len as u64);
        Ok(())
    }
}

impl AppendFile for DirectAppendFile {
    fn append(&mut self, data: &[u8], context: IoContext) -> io::Result<()> {
        self.shared.tail.lock().append(&self.shared.handle, data, context)?;
        self.len += data.len() as u64;
        Ok(())
    }

    fn sync_data(&mut self, context: IoContext) -> io::Result<()> {
        self.shared.sync_data(context)
    }

    fn sync_range(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        // Whole units are on their way to the device already.
        Ok(())
    }

    fn preallocate(&mut self, len: u64) -> io::Result<()> {
        self.shared.handle.preallocate(0, len)?;
        self.preallocated = self.preallocated.max(len);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.shared.tail.lock().write_rest(&self.shared.handle)?;
        if self.preallocated > self.len { self.shared.handle.set_len(self.len) } else { Ok(()) }
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Ok(Arc::clone(&self.shared) as Arc<dyn SyncHandle>)
    }
}

impl SyncHandle for Shared {
    fn sync_data(&self, context: IoContext) -> io::Result<()> {
        self.tail.lock().write_rest(&self.handle)?;
        self.handle.sync(context)
    }
}
