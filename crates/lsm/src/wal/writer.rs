//! Appending records to a log.
//!
//! Path: put 3/5. Before: db/write.rs. After: memtable/writer.rs.

use super::physical::Fragment;
use super::{BLOCK_LEN, HEADER_LEN, TYPE_AT};
use siltstone_base::checksum::{crc32c, mask_crc};
use siltstone_base::env::{AppendFile, IoContext};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::{Error, Result};
use std::fmt;
use std::path::PathBuf;

/// A buffer larger than this is given back after the record that needed it.
const KEPT_BUFFER_LEN: usize = 1 << 20;

/// Writes logical records to the end of a log, each with one append.
///
/// After an error the end of the file is unknown. The writer then refuses everything with that error: what was written
/// before it stays readable, and nothing is ever written after a hole.
pub(crate) struct WalWriter {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    log_number: u64,
    context: IoContext,
    /// Where in its block the next header goes.
    block_offset: usize,
    /// The physical form of one logical record.
    buffer: Vec<u8>,
    /// Bytes of all records that were appended, for others to read.
    written: Arc<AtomicU64>,
    error: Option<Error>,
}

impl WalWriter {
    /// A writer at the end of `file`, which is empty or ends after a whole record.
    pub(crate) fn new(file: Box<dyn AppendFile>, path: PathBuf, log_number: u64, context: IoContext) -> Self {
        let block_offset = (file.len() % BLOCK_LEN as u64) as usize;
        let written = Arc::new(AtomicU64::new(file.len()));
        Self { file, path, log_number, context, block_offset, buffer: Vec::new(), written, error: None }
    }

    /// Appends one logical record: the concatenation of `parts`.
    pub(crate) fn add_record(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.check()?;
        self.encode(parts);
        let appended = self.file.append(&self.buffer, self.context);
        if self.buffer.capacity() > KEPT_BUFFER_LEN {
            self.buffer = Vec::new();
        }
        appended.map_err(|source| self.fail("append", source))?;
        self.written.store(self.file.len(), Ordering::Release);
        Ok(())
    }

    /// Bytes of the records that were appended, at any moment from now on: what a sync that begins after reading it makes durable.
    pub(crate) fn written(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written)
    }

    /// Makes everything that was added durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.file.sync_data(self.context).map_err(|source| self.fail("sync", source))
    }

    /// Starts writing `len` bytes from `offset` back, without waiting and without a promise. It is a hint: what a device has lost the next sync tells, and a system that will not take it has harmed nothing.
    pub(crate) fn sync_range(&mut self, offset: u64, len: u64) {
        if self.error.is_none() {
            let _ = self.file.sync_range(offset, len);
        }
    }

    /// Refuses everything from now on with `error`, or with an earlier one.
    pub(crate) fn poison(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// The error that made this writer refuse everything, if one did.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Bytes of the log so far.
    pub(crate) fn len(&self) -> u64 {
        self.file.len()
    }

    /// Writes what is buffered and closes the file, without a sync. An earlier error is returned again.
    pub(crate) fn finish(self) -> Result<()> {
        let Self { file, path, error, .. } = self;
        let finished = file.finish().map_err(|source| Error::io("close", &path, source));
        error.map_or(finished, Err)
    }

    #[cold]
    fn fail(&mut self, operation: &'static str, source: std::io::Error) -> Error {
        let error = Error::io(operation, &self.path, source);
        self.poison(error.clone());
        error
    }

    /// Fills the buffer with the fragments of one record, as they follow what the log has.
    fn encode(&mut self, parts: &[&[u8]]) {
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        self.buffer.clear();
        self.buffer.reserve(left + (left / (BLOCK_LEN - HEADER_LEN) + 2) * 2 * HEADER_LEN);
        let mut parts = parts.iter();
        let mut part: &[u8] = &[];
        let mut is_first = true;
        loop {
            let in_block = BLOCK_LEN - self.block_offset;
            if in_block < HEADER_LEN {
                self.buffer.resize(self.buffer.len() + in_block, 0);
                self.block_offset = 0;
                continue;
            }
            let length = left.min(in_block - HEADER_LEN);
            left -= length;
            let fragment = match (is_first, left == 0) {
                (true, true) => Fragment::Full,
                (true, false) => Fragment::First,
                (false, false) => Fragment::Middle,
                (false, true) => Fragment::Last,
            };
            let start = self.buffer.len();
            let [l0, l1] = (length as u16).to_le_bytes();
            self.buffer.extend_from_slice(&[0, 0, 0, 0, l0, l1, fragment.legacy()]);
            let end = start + HEADER_LEN + length;
            while self.buffer.len() < end {
                let taken = part.len().min(end - self.buffer.len());
                let (head, rest) = part.split_at(taken);
                self.buffer.extend_from_slice(head);
                part = rest;
                if part.is_empty()
                    && let Some(next) = parts.next()
                {
                    part = next;
                }
            }
            let crc = mask_crc(crc32c(&self.buffer[start + TYPE_AT..]));
            self.buffer[start..start + 4].copy_from_slice(&crc.to_le_bytes());
            self.block_offset += HEADER_LEN + length;
            is_first = false;
            if left == 0 {
                return;
            }
        }
    }
}

impl fmt::Debug for WalWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalWriter")
            .field("log_number", &self.log_number)
            .field("path", &self.path)
            .field("len", &self.len())
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
