//! Reading a log block-wise through a buffer of several blocks.

use super::BLOCK_LEN;
use siltstone_base::env::{IoContext, RandomFile};
use siltstone_base::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at once: a whole number of blocks.
const CHUNK_LEN: usize = 8 * BLOCK_LEN;

/// The blocks of a file, of the length that it had when reading began.
#[derive(Debug)]
pub(super) struct Chunks {
    file: Arc<dyn RandomFile>,
    path: PathBuf,
    context: IoContext,
    len: u64,
    /// Whole blocks (the last one of the file may be short) from `start`.
    buffer: Vec<u8>,
    start: u64,
}

impl Chunks {
    pub(super) fn new(file: Arc<dyn RandomFile>, path: PathBuf, context: IoContext) -> Result<Self> {
        let len = file.len().map_err(|source| Error::io("ask for the length", &path, source))?;
        Ok(Self { file, path, context, len, buffer: Vec::new(), start: 0 })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The end of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Asks for the length anew, and forgets what was read. Nothing is read from `end` on.
    pub(super) fn refresh(&mut self, end: u64) -> Result<()> {
        let len = self.file.len().map_err(|source| Error::io("ask for the length", &self.path, source))?;
        self.len = len.min(end);
        self.buffer.clear();
        Ok(())
    }

    /// The bytes from `offset` to the end of its block or of the file, whichever comes first.
    #[inline]
    pub(super) fn rest_of_block(&mut self, offset: u64) -> Result<&[u8]> {
        if offset < self.start || offset - self.start >= self.buffer.len() as u64 {
            if offset >= self.len {
                return Ok(&[]);
            }
            self.load(offset - offset % BLOCK_LEN as u64)?;
        }
        let from = offset.saturating_sub(self.start) as usize;
        let to = (from / BLOCK_LEN + 1) * BLOCK_LEN;
        Ok(self.buffer.get(from..to.min(self.buffer.len())).unwrap_or(&[]))
    }

    #[cold]
    fn load(&mut self, start: u64) -> Result<()> {
        let wanted = (self.len - start).min(CHUNK_LEN as u64) as usize;
        self.start = start;
        self.buffer.resize(wanted, 0);
        let read = self.file.read_at(start, &mut self.buffer, self.context);
        match read {
            Ok(read) => {
                self.buffer.truncate(read);
                if read < wanted {
                    // The file shrank; its end is where it is now.
                    self.len = start + read as u64;
                }
                Ok(())
            }
            Err(source) => {
                self.buffer.clear();
                Err(Error::io("read", &self.path, source).with_offset(start))
            }
        }
    }
}
