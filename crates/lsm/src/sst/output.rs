//! The file that a table is written to: blocks go in, large appends come out.

use super::format::{BLOCK_TRAILER_LEN, BlockChecksum, BlockHandle};
use siltstone_base::compression::{CompressionType, Compressor, MAX_BLOCK_LEN};
use siltstone_base::env::{AppendFile, IoContext, IoPriority};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Bytes that are gathered before they are appended.
const GATHER_LEN: usize = 1 << 20;

/// Writes blocks with their trailers one behind the other.
#[derive(Debug)]
pub(crate) struct TableOutput {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    context: IoContext,
    checksum: BlockChecksum,
    compressor: Compressor,
    /// Bytes that were not appended yet.
    pending: Vec<u8>,
    /// Bytes that were appended.
    appended: u64,
    /// Starts writeback after so many appended bytes; 0: never.
    bytes_per_sync: u64,
    /// Bytes for which writeback was started.
    writeback: u64,
}

impl TableOutput {
    pub(crate) fn new(
        file: Box<dyn AppendFile>,
        path: PathBuf,
        context: IoContext,
        checksum: BlockChecksum,
        compressor: Compressor,
        bytes_per_sync: u64,
    ) -> Self {
        Self {
            file,
            path,
            context,
            checksum,
            compressor,
            pending: Vec::with_capacity(GATHER_LEN + (GATHER_LEN >> 4)),
            appended: 0,
            bytes_per_sync,
            writeback: 0,
        }
    }

    /// Where the next block begins.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.appended + self.pending.len() as u64
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a block, compressed if that saves at least an eighth and `compress`.
    pub(crate) fn write_block(&mut self, raw: &[u8], compress: bool) -> Result<BlockHandle> {
        if raw.len() > MAX_BLOCK_LEN {
            let message = format!("block of {} bytes", raw.len());
            return Err(Error::new(ErrorKind::LimitExceeded, message).with_file(&self.path));
        }
        let (offset, start) = (self.offset(), self.pending.len());
        let mut kind = CompressionType::None;
        if compress && self.compressor.compression_type() != CompressionType::None {
            self.compressor.compress(raw, &mut self.pending)?;
            if self.pending.len() - start < raw.len() - raw.len() / 8 {
                kind = self.compressor.compression_type();
            } else {
                self.pending.truncate(start);
            }
        }
        if kind == CompressionType::None {
            self.pending.extend_from_slice(raw);
        }
        self.pending.push(kind as u8);
        let checksum = self.checksum.stored(&self.pending[start..], offset);
        self.pending.extend_from_slice(&checksum.to_le_bytes());
        let size = (self.pending.len() - start - BLOCK_TRAILER_LEN) as u64;
        if self.pending.len() >= GATHER_LEN {
            self.append_pending()?;
        }
        Ok(BlockHandle { offset, size })
    }

    /// Writes bytes that are no block.
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Makes everything durable and closes the file; returns its length.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.append_pending()?;
        if !(self.context.priority == IoPriority::High && is_planted(PlantedBug::FlushedTableIsNotSynced)) {
            self.file.sync_data(self.context).map_err(|error| Error::io("sync", &self.path, error))?;
        }
        self.file.finish().map_err(|error| Error::io("close", &self.path, error))?;
        Ok(self.appended)
    }

    fn append_pending(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.file.append(&self.pending, self.context).map_err(|error| Error::io("append", &self.path, error))?;
        self.appended += self.pending.len() as u64;
        self.pending.clear();
        if self.bytes_per_sync > 0 && self.appended - self.writeback >= self.bytes_per_sync {
            let len = self.appended - self.writeback;
            self.file
                .sync_range(self.writeback, len)
                .map_err(|error| Error::io("start writeback", &self.path, error))?;
            self.writeback = self.appended;
        }
        Ok(())
    }
}
