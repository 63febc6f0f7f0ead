//! Fetching one block of a table: read, check, decompress.

use super::block::Block;
use super::external;
use super::format::{BLOCK_TRAILER_LEN, BlockChecksum, BlockHandle};
use super::separated;
use crate::key::SeqNo;
use crate::metrics::{Counter, HistogramKind, Metrics, PerfTime, times};
use siltstone_base::block_pool::{BlockPool, PooledBuf};
use siltstone_base::compression::{
    CompressionType, DecompressionDictionary, MAX_LARGE_BLOCK_LEN, decompress_into, decompress_into_with_dictionary,
    decompressed_len,
};
use siltstone_base::env::{IoContext, RandomFile};
use siltstone_base::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// A table file and how its blocks are stored.
#[derive(Debug)]
pub(crate) struct BlockFetcher {
    pub(crate) file: Arc<dyn RandomFile>,
    pub(crate) path: PathBuf,
    pub(crate) file_size: u64,
    /// Where the data blocks end, as the table says; nothing behind that is read ahead.
    pub(crate) data_end: u64,
    pub(crate) checksum: BlockChecksum,
    /// The sequence number of all entries, if data blocks are stored without.
    pub(crate) global_seqno: Option<SeqNo>,
    /// Dictionary of data blocks.
    pub(crate) dictionary: Option<DecompressionDictionary>,
    pub(crate) pool: BlockPool,
    /// Who counts what is read, if somebody does.
    pub(crate) metrics: Option<Arc<Metrics>>,
}

impl BlockFetcher {
    /// Reads the data block at `handle`.
    pub(crate) fn data_block(&self, handle: BlockHandle, verify: bool, context: IoContext) -> Result<Block> {
        let (bytes, len) = self.read(handle, verify, context, self.dictionary.as_ref())?;
        self.finish_data_block(bytes, len).map_err(|error| self.blame(error, handle))
    }

    /// Makes a block of the first `len` bytes of `bytes`.
    #[inline]
    fn finish_data_block(&self, bytes: PooledBuf, len: usize) -> Result<Block> {
        let block = match bytes.get(..len) {
            Some(data) if separated::is_separated(data) => {
                let joined = separated::joined(data)?;
                let mut bytes = self.pool.try_alloc(joined.len())?;
                bytes.copy_from_slice(&joined);
                Block::new(bytes, joined.len())?
            }
            _ => Block::new(bytes, len)?,
        };
        match self.global_seqno {
            None => Ok(block),
            Some(seqno) => external::with_seqno(&block, seqno, &self.pool),
        }
    }

    /// Reads the properties block, which may have been changed in place after its checksum was made.
    pub(crate) fn properties_block(&self, handle: BlockHandle, context: IoContext) -> Result<PooledBuf> {
        let failed = match self.meta_block(handle, context) {
            Ok(block) => return Ok(block),
            Err(error) => error,
        };
        let len = (self.end_of(handle)? - handle.offset) as usize;
        let mut stored = self.pool.try_alloc(len)?;
        self.read_exact(handle.offset, &mut stored, context)?;
        if !external::verify_before_seqno_was_set(&stored, handle.offset, self.checksum) {
            return Err(failed);
        }
        stored.truncate(len - BLOCK_TRAILER_LEN);
        Ok(stored)
    }

    /// Reads a block of another kind; its checksum is verified.
    pub(crate) fn meta_block(&self, handle: BlockHandle, context: IoContext) -> Result<PooledBuf> {
        let (mut bytes, len) = self.read(handle, true, context, None)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Makes a block of another kind of `stored`, the bytes on disk at `handle` with their trailer; its checksum is verified.
    pub(crate) fn meta_block_from(&self, stored: &[u8], handle: BlockHandle) -> Result<PooledBuf> {
        let unpacked = self.unpack(stored, handle, true, None).and_then(|unpacked| match unpacked {
            Some(bytes) => Ok(bytes),
            None => self.copy_of(&stored[..stored.len() - BLOCK_TRAILER_LEN]),
        });
        unpacked.map_err(|error| self.blame(error, handle))
    }

    /// A buffer of the pool with `bytes`.
    fn copy_of(&self, bytes: &[u8]) -> Result<PooledBuf> {
        let mut copy = self.pool.try_alloc(bytes.len())?;
        copy.copy_from_slice(bytes);
        Ok(copy)
    }

    /// Makes a data block of `stored`, the bytes on disk at `handle` with their trailer.
    pub(crate) fn data_block_from(&self, stored: &[u8], handle: BlockHandle, verify: bool) -> Result<Block> {
        let block = self.unpack(stored, handle, verify, self.dictionary.as_ref()).and_then(|unpacked| match unpacked {
            Some(bytes) => {
                let len = bytes.len();
                self.finish_data_block(bytes, len)
            }
            None => {
                let bytes = self.copy_of(&stored[..stored.len() - BLOCK_TRAILER_LEN])?;
                let len = bytes.len();
                self.finish_data_block(bytes, len)
            }
        });
        block.map_err(|error| self.blame(error, handle))
    }

    /// Where a block and its trailer end.
    #[inline]
    pub(crate) fn end_of(&self, handle: BlockHandle) -> Result<u64> {
        let outside = || Error::corruption(&self.path, handle.offset, "block outside the file");
        handle.end_within(self.file_size).ok_or_else(outside)
    }

    /// Adds the file and the place to an error about the block at `handle`.
    #[cold]
    pub(crate) fn blame(&self, error: Error, handle: BlockHandle) -> Error {
        error.with_file(&self.path).with_offset(handle.offset)
    }

    /// Reads the bytes from `offset` to the end of `buffer`.
    pub(crate) fn read_exact(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> Result<()> {
        self.read_exact_from(&*self.file, offset, buffer, context)
    }

    /// The same from another file of the same bytes.
    pub(crate) fn read_exact_from(
        &self,
        file: &dyn RandomFile,
        offset: u64,
        buffer: &mut [u8],
        context: IoContext,
    ) -> Result<()> {
        match self.timed_read(|| file.read_at(offset, buffer, context)) {
            Ok(read) if read == buffer.len() => Ok(()),
            Ok(_) => Err(Error::corruption(&self.path, offset, "file ends early")),
            Err(error) => Err(Error::io("read", &self.path, error).with_offset(offset)),
        }
    }

    /// Reads from the file by `read`, and counts how long that took where somebody wants to know.
    pub(super) fn timed_read<T>(&self, read: impl FnOnce() -> T) -> T {
        let began = self.metrics.as_ref().and_then(|metrics| metrics.begin());
        let outcome = times::timed(PerfTime::BlockRead, read);
        if let Some(metrics) = &self.metrics {
            metrics.end_micros(HistogramKind::SstRead, began);
        }
        outcome
    }

    /// Compares the checksum behind a block with its bytes, and counts that. Returns the block's compression type.
    fn verified(&self, stored: &[u8], handle: BlockHandle) -> Result<u8> {
        let verified = times::timed(PerfTime::BlockChecksum, || self.checksum.verify(stored, handle.offset));
        if let Some(metrics) = &self.metrics {
            let mismatches = u64::from(verified.is_err());
            metrics.add_all([(Counter::BlockChecksums, 1), (Counter::BlockChecksumMismatches, mismatches)]);
        }
        verified
    }

    /// The uncompressed bytes at the front of a buffer, and how many they are.
    fn read(
        &self,
        handle: BlockHandle,
        verify: bool,
        context: IoContext,
        dictionary: Option<&DecompressionDictionary>,
    ) -> Result<(PooledBuf, usize)> {
        let stored_len = (self.end_of(handle)? - handle.offset) as usize;
        if let Some(stored) = self.file.mapped(handle.offset, stored_len) {
            let unpacked = match self.unpack(stored, handle, verify, dictionary) {
                Ok(Some(bytes)) => Ok(bytes),
                Ok(None) => self.pool.try_alloc(stored_len - BLOCK_TRAILER_LEN).map(|mut bytes| {
                    bytes.copy_from_slice(&stored[..stored_len - BLOCK_TRAILER_LEN]);
                    bytes
                }),
                Err(error) => Err(error),
            };
            return unpacked.map(with_len).map_err(|error| self.blame(error, handle));
        }
        let mut stored = self.pool.try_alloc(stored_len)?;
        self.read_exact(handle.offset, &mut stored, context)?;
        match self.unpack(&stored, handle, verify, dictionary) {
            Ok(Some(bytes)) => Ok(with_len(bytes)),
            Ok(None) => Ok((stored, stored_len - BLOCK_TRAILER_LEN)),
            Err(error) => Err(self.blame(error, handle)),
        }
    }

    /// Checks the trailer of `stored` and decompresses it; `None` if it is not compressed.
    fn unpack(
        &self,
        stored: &[u8],
        handle: BlockHandle,
        verify: bool,
        dictionary: Option<&DecompressionDictionary>,
    ) -> Result<Option<PooledBuf>> {
        let Some(data_len) = stored.len().checked_sub(BLOCK_TRAILER_LEN) else {
            return Err(Error::corrupt("block shorter than its trailer"));
        };
        let kind = if verify { self.verified(stored, handle)? } else { stored[data_len] };
        let kind = CompressionType::from_u8(kind)
            .ok_or_else(|| Error::corrupt(format!("unknown compression type {kind:#04x}")))?;
        if kind == CompressionType::None {
            return Ok(None);
        }
        let packed = &stored[..data_len];
        let len = decompressed_len(kind, packed, MAX_LARGE_BLOCK_LEN)?;
        let mut bytes = self.pool.try_alloc(len)?;
        let began = self.metrics.as_ref().and_then(|metrics| metrics.begin());
        times::timed(PerfTime::BlockDecompress, || match dictionary {
            None => decompress_into(kind, packed, &mut bytes),
            Some(dictionary) => decompress_into_with_dictionary(kind, packed, dictionary, &mut bytes),
        })?;
        if let Some(metrics) = &self.metrics {
            metrics.end_nanos(HistogramKind::DecompressionTime, began);
            metrics.add_all([
                (Counter::BlocksDecompressed, 1),
                (Counter::BytesDecompressedFrom, packed.len() as u64),
                (Counter::BytesDecompressedTo, len as u64),
            ]);
        }
        Ok(Some(bytes))
    }
}

fn with_len(bytes: PooledBuf) -> (PooledBuf, usize) {
    let len = bytes.len();
    (bytes, len)
}
