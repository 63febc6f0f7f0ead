//! The file that a table is written to: blocks go in, large appends come out.

use super::format::{BLOCK_TRAILER_LEN, BlockChecksum, BlockHandle};
use super::tail::TableTail;
use crate::metrics::{Counter, HistogramKind, Metrics};
use siltstone_base::checksum::crc32c_append;
use siltstone_base::compression::{CompressionType, Compressor, MAX_BLOCK_LEN, MAX_LARGE_BLOCK_LEN};
use siltstone_base::env::{AppendFile, IoContext, IoPriority};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are gathered before they are appended.
const GATHER_LEN: usize = 1 << 20;

/// When what was appended is written back, so that the sync at the end has little to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WriteBack {
    /// It starts after so many bytes. 0: never.
    pub(crate) bytes: u64,
    /// The next bytes wait until those before are written.
    pub(crate) strict: bool,
}

/// Writes blocks with their trailers one behind the other.
#[derive(Debug)]
pub(crate) struct TableOutput {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    context: IoContext,
    checksum: BlockChecksum,
    compressor: Compressor,
    /// The same with the dictionary of data blocks, if there is one.
    data_compressor: Option<Compressor>,
    /// CRC32c of what was appended, if it is wanted.
    file_crc: Option<u32>,
    /// A bit for the number of each codec that a block was compressed with.
    codecs_used: u128,
    /// Data blocks that compression did not make small enough.
    rejected: u64,
    /// Data blocks that were not compressed.
    bypassed: u64,
    /// Bytes that were not appended yet.
    pending: Vec<u8>,
    /// Bytes that were appended.
    appended: u64,
    write_back: WriteBack,
    /// Bytes for which writeback was started.
    writeback: u64,
    /// What was appended behind the data blocks, if somebody wants it.
    tail: Option<TableTail>,
    /// Who counts, and what its sync is counted as.
    metrics: Option<(Arc<Metrics>, HistogramKind)>,
    blocks: BlockCounts,
    /// The most bytes that a block has which is no data block.
    most_meta_block: usize,
}

/// How many blocks of one treatment there are, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    blocks: u64,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: usize) {
        self.blocks += 1;
        self.bytes += bytes as u64;
    }
}

/// What became of all blocks, for the counters.
#[derive(Debug, Default)]
struct BlockCounts {
    compressed: Tally,
    compressed_to: u64,
    rejected: Tally,
    bypassed: Tally,
}

impl TableOutput {
    pub(crate) fn new(
        file: Box<dyn AppendFile>,
        path: PathBuf,
        context: IoContext,
        checksum: BlockChecksum,
        compressor: Compressor,
        write_back: WriteBack,
    ) -> Self {
        Self {
            file,
            path,
            context,
            checksum,
            compressor,
            data_compressor: None,
            file_crc: None,
            codecs_used: 0,
            rejected: 0,
            bypassed: 0,
            pending: Vec::with_capacity(GATHER_LEN + (GATHER_LEN >> 4)),
            appended: 0,
            write_back,
            writeback: 0,
            tail: None,
            metrics: None,
            blocks: BlockCounts::default(),
            most_meta_block: MAX_LARGE_BLOCK_LEN,
        }
    }

    /// Counts in `metrics` from now on, the sync at the end as `sync`.
    pub(crate) fn count_in(&mut self, metrics: Arc<Metrics>, sync: HistogramKind) {
        self.metrics = Some((metrics, sync));
    }

    /// Where the next block begins.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.appended + self.pending.len() as u64
    }

    /// Bytes of memory that it holds: of what was set aside, as much as was ever used.
    pub(crate) fn memory_usage(&self) -> usize {
        if self.appended > 0 { self.pending.capacity() } else { self.pending.len() }
    }

    /// The codec of blocks that are worth it.
    pub(crate) fn codec(&self) -> CompressionType {
        self.compressor.compression_type()
    }

    /// A bit for the number of each codec that a block has so far; bit 0 for blocks that are not compressed.
    pub(crate) fn codecs_used(&self) -> u128 {
        self.codecs_used
    }

    /// The most bytes that a block has which is no data block.
    pub(crate) fn most_meta_block(&self) -> usize {
        self.most_meta_block
    }

    /// Lets no other block than a data block have more than so many bytes.
    #[cfg(test)]
    pub(crate) fn limit_meta_blocks(&mut self, bytes: usize) {
        self.most_meta_block = bytes;
    }

    /// Data blocks that compression did not make small enough, and those that were not compressed at all.
    pub(crate) fn data_blocks_kept(&self) -> (u64, u64) {
        (self.rejected, self.bypassed)
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Compresses data blocks with `compressor` from now on.
    pub(crate) fn set_data_compressor(&mut self, compressor: Compressor) {
        self.data_compressor = Some(compressor);
    }

    /// Computes the checksum of the whole file. Comes before the first block.
    pub(crate) fn compute_file_crc(&mut self) {
        self.file_crc = Some(0);
    }

    /// Writes a data block, compressed if that saves at least an eighth.
    pub(crate) fn write_data_block(&mut self, raw: &[u8]) -> Result<BlockHandle> {
        self.write(raw, true, true)
    }

    /// Writes a block of another kind, compressed if that saves at least an eighth and `compress`.
    pub(crate) fn write_block(&mut self, raw: &[u8], compress: bool) -> Result<BlockHandle> {
        self.write(raw, compress, false)
    }

    fn write(&mut self, raw: &[u8], compress: bool, is_data: bool) -> Result<BlockHandle> {
        // An index or a filter of more than that is read as a whole, too, and is stored as it is.
        let is_large = raw.len() > MAX_BLOCK_LEN;
        let most = if is_data { MAX_BLOCK_LEN } else { self.most_meta_block };
        if raw.len() > most {
            let message = format!("block of {} bytes", raw.len());
            return Err(Error::new(ErrorKind::LimitExceeded, message).with_file(&self.path));
        }
        let (offset, start) = (self.offset(), self.pending.len());
        let mut kind = CompressionType::None;
        if compress && !is_large && self.compressor.compression_type() != CompressionType::None {
            let compressor = match &mut self.data_compressor {
                Some(compressor) if is_data => compressor,
                _ => &mut self.compressor,
            };
            let began = self.metrics.as_ref().and_then(|(metrics, _)| metrics.begin());
            compressor.compress(raw, &mut self.pending)?;
            if let Some((metrics, _)) = &self.metrics {
                metrics.end_nanos(HistogramKind::CompressionTime, began);
            }
            if self.pending.len() - start < raw.len() - raw.len() / 8 {
                kind = self.compressor.compression_type();
                self.blocks.compressed.add(raw.len());
                self.blocks.compressed_to += (self.pending.len() - start) as u64;
            } else {
                self.blocks.rejected.add(raw.len());
                self.pending.truncate(start);
                self.rejected += u64::from(is_data);
            }
        } else {
            self.bypassed += u64::from(is_data);
            self.blocks.bypassed.add(raw.len());
        }
        if kind == CompressionType::None {
            self.pending.extend_from_slice(raw);
        }
        self.codecs_used |= 1 << (kind as u8);
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

    /// Keeps a copy of what comes from now on, for [`finish`](Self::finish).
    pub(crate) fn keep_tail(&mut self) {
        self.tail = Some(TableTail { start: self.offset(), ..TableTail::default() });
    }

    /// Makes everything durable and closes the file; returns its length, its CRC32c, if it is computed, and its tail, if that was kept.
    pub(crate) fn finish(mut self) -> Result<(u64, Option<u32>, Option<TableTail>)> {
        self.append_pending()?;
        if !(self.context.priority == IoPriority::High && is_planted(PlantedBug::FlushedTableIsNotSynced)) {
            let mut sync = || self.file.sync_data(self.context);
            let synced = match &self.metrics {
                Some((metrics, kind)) => metrics.measured(*kind, sync),
                None => sync(),
            };
            synced.map_err(|error| Error::io("sync", &self.path, error))?;
        }
        self.count_blocks();
        self.file.finish().map_err(|error| Error::io("close", &self.path, error))?;
        Ok((self.appended, self.file_crc, self.tail))
    }

    /// Counts what became of the blocks, when the table is whole.
    fn count_blocks(&self) {
        let Some((metrics, _)) = &self.metrics else { return };
        let BlockCounts { compressed, compressed_to, rejected, bypassed } = &self.blocks;
        metrics.add_all([
            (Counter::BlocksCompressed, compressed.blocks),
            (Counter::BytesCompressedFrom, compressed.bytes),
            (Counter::BytesCompressedTo, *compressed_to),
            (Counter::BlocksCompressionRejected, rejected.blocks),
            (Counter::BytesCompressionRejected, rejected.bytes),
            (Counter::BlocksCompressionBypassed, bypassed.blocks),
            (Counter::BytesCompressionBypassed, bypassed.bytes),
        ]);
    }

    fn append_pending(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let began = self.metrics.as_ref().and_then(|(metrics, _)| metrics.begin());
        self.file.append(&self.pending, self.context).map_err(|error| Error::io("append", &self.path, error))?;
        if let Some((metrics, _)) = &self.metrics {
            metrics.end_micros(HistogramKind::SstWrite, began);
        }
        if let Some(tail) = &mut self.tail {
            tail.extend(self.appended, &self.pending);
        }
        self.appended += self.pending.len() as u64;
        if let Some(crc) = &mut self.file_crc {
            *crc = crc32c_append(*crc, &self.pending);
        }
        self.pending.clear();
        let every = self.write_back.bytes;
        if every > 0 && self.appended - self.writeback >= every {
            let len = self.appended - self.writeback;
            if self.write_back.strict {
                self.file
                    .wait_range(0, self.writeback)
                    .map_err(|error| Error::io("wait for writeback", &self.path, error))?;
            }
            self.file
                .sync_range(self.writeback, len)
                .map_err(|error| Error::io("start writeback", &self.path, error))?;
            self.writeback = self.appended;
        }
        Ok(())
    }
}
