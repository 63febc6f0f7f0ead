//! Positional reads and writes, buffered and direct.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::ahead::Ahead;
use super::aligned::{BOUNCE_LEN, is_aligned, with_bounce};
use super::handle::Handle;
use super::{read_many, transfer};
use crate::env::{DIRECT_ALIGNMENT, IoContext, RandomFile, RandomWriteFile, ReadRequest};

/// A file read, and perhaps written, at any position.
#[derive(Debug)]
pub(super) struct PosixFile {
    handle: Arc<Handle>,
    /// What is read ahead of a direct file; `None` for one that may be written.
    ahead: Option<Ahead>,
    /// A buffered descriptor of a direct file that is written: for ranges that are not whole blocks. The kernel keeps
    /// the two coherent.
    unaligned: Option<OwnedFd>,
    /// What direct reads of parts begin and end at multiples of.
    blocks: usize,
}

impl PosixFile {
    /// A file that nobody writes any more.
    pub(super) fn to_read(handle: Handle) -> Self {
        let ahead = handle.is_direct().then(Ahead::default);
        let blocks = if handle.is_direct() { direct_blocks(&handle.fd()) } else { DIRECT_ALIGNMENT };
        Self { handle: Arc::new(handle), ahead, unaligned: None, blocks }
    }

    /// A file that is written, too.
    pub(super) fn to_write(handle: Handle, unaligned: Option<OwnedFd>) -> Self {
        Self { handle: Arc::new(handle), ahead: None, unaligned, blocks: DIRECT_ALIGNMENT }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Reads the blocks around the range into the bounce buffer, piece by piece. Returns the bytes of the range.
    fn read_bounced(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> io::Result<usize> {
        let most = self.handle.most_at_once(context);
        with_bounce(|bounce| {
            let mut done = 0;
            while done < buffer.len() {
                let position = offset + done as u64;
                let skip = (position % self.blocks as u64) as usize;
                let wanted = (skip + buffer.len() - done).next_multiple_of(self.blocks).min(BOUNCE_LEN);
                let (from, bounce) = (position - skip as u64, &mut bounce[..wanted]);
                let read = transfer::read_at_direct(self.handle.fd(), from, bounce, most, self.blocks)?;
                self.handle.stats().record_read(context, read as u64);
                let count = read.saturating_sub(skip).min(buffer.len() - done);
                buffer[done..done + count].copy_from_slice(&bounce[skip..skip + count]);
                done += count;
                if read < wanted {
                    break;
                }
            }
            Ok(done)
        })
    }

    /// Copies data in unaligned memory to the bounce buffer, piece by piece. Offset and length are aligned.
    fn write_bounced(&self, offset: u64, data: &[u8], most: usize) -> io::Result<()> {
        with_bounce(|bounce| {
            let mut position = offset;
            for piece in data.chunks(BOUNCE_LEN) {
                bounce[..piece.len()].copy_from_slice(piece);
                transfer::write_at(self.handle.fd(), position, &bounce[..piece.len()], most)?;
                position += piece.len() as u64;
            }
            Ok(())
        })
    }
}

/// The least that the file system reads past its page cache, where it says so: it is less than [`DIRECT_ALIGNMENT`] on most devices, and a block of a table that was compressed
/// has few of them.
fn direct_blocks(file: &impl AsFd) -> usize {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        let told = statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        let told = told.ok().filter(|told| told.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
        let blocks = told.map(|told| told.stx_dio_offset_align as usize);
        blocks
            .filter(|blocks| blocks.is_power_of_two() && (512..DIRECT_ALIGNMENT).contains(blocks))
            .unwrap_or(DIRECT_ALIGNMENT)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        DIRECT_ALIGNMENT
    }
}

impl RandomFile for PosixFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> io::Result<usize> {
        let read = if !self.handle.is_direct() {
            transfer::read_at(self.handle.fd(), offset, buffer)?
        } else if let Some(read) = self.ahead.as_ref().and_then(|ahead| ahead.read(&self.handle, offset, buffer)) {
            // A caller's read is noted.
            let _ = self.handle.most_at_once(context);
            read
        } else if is_aligned(offset, buffer) {
            let most = self.handle.most_at_once(context);
            transfer::read_at_direct(self.handle.fd(), offset, buffer, most, DIRECT_ALIGNMENT)?
        } else {
            return self.read_bounced(offset, buffer, context);
        };
        self.handle.stats().record_read(context, read as u64);
        Ok(read)
    }

    fn read_many(&self, requests: &mut [ReadRequest<'_>], context: IoContext) {
        read_many::read_many(self, requests, context);
    }

    fn len(&self) -> io::Result<u64> {
        self.handle.len()
    }

    fn is_direct(&self) -> bool {
        self.handle.is_direct()
    }

    fn will_need(&self, offset: u64, len: u64) {
        match &self.ahead {
            Some(ahead) => ahead.begin(&self.handle, offset, len),
            None => self.handle.will_need(offset, len),
        }
    }

    fn forget(&self, offset: u64) {
        if let Some(ahead) = &self.ahead {
            ahead.forget(&self.handle, offset);
        }
    }
}

impl RandomWriteFile for PosixFile {
    fn write_at(&self, offset: u64, data: &[u8], context: IoContext) -> io::Result<()> {
        let blocks = offset.is_multiple_of(DIRECT_ALIGNMENT as u64) && data.len().is_multiple_of(DIRECT_ALIGNMENT);
        let most = self.handle.most_at_once(context);
        match &self.unaligned {
            Some(unaligned) if !blocks => transfer::write_at(unaligned.as_fd(), offset, data, usize::MAX)?,
            Some(_) if !is_aligned(offset, data) => self.write_bounced(offset, data, most)?,
            _ => transfer::write_at(self.handle.fd(), offset, data, most)?,
        }
        self.handle.stats().record_write(context, data.len() as u64);
        Ok(())
    }

    fn sync_data(&self, context: IoContext) -> io::Result<()> {
        self.handle.sync(context)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.handle.set_len(len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.handle.punch_hole(offset, len)
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.handle.preallocate(offset, len)
    }
}
