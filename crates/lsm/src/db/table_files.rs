//! What is known of each live table: what the MANIFEST and its properties say, and its checksum.

use super::column_family::Family;
use super::state::DbInner;
use crate::file_meta::FileMeta;
use crate::file_names::FileName;
use crate::iterator::InternalIterator;
use crate::metrics::Counter;
use crate::sst::{TableIter, TableReadOptions};
use siltstone_base::checksum::crc32c_append;
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;

/// Bytes that are read at a time.
const CHUNK_LEN: usize = 1 << 20;

/// A live table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableFile {
    /// File number.
    pub number: u64,
    /// Level.
    pub level: usize,
    /// Length in bytes.
    pub file_size: u64,
    /// Smallest user key.
    pub smallest: Vec<u8>,
    /// Largest user key.
    pub largest: Vec<u8>,
    /// Entries.
    pub num_entries: u64,
    /// Tombstones among them.
    pub num_deletions: u64,
    /// Operands of merges among the entries.
    pub num_merge_operands: u64,
    /// Range tombstones.
    pub num_range_deletions: u64,
    /// Data blocks.
    pub num_data_blocks: u64,
    /// Bytes of all keys, with 8 for each: uncompressed.
    pub raw_key_size: u64,
    /// Bytes of all values, uncompressed.
    pub raw_value_size: u64,
    /// Bytes of the data blocks as they are stored.
    pub data_size: u64,
    /// Bytes of the index, uncompressed.
    pub index_size: u64,
    /// Bytes of the filter; 0 without one.
    pub filter_size: u64,
    /// Name of the codec, as RocksDB has it.
    pub compression: String,
    /// Name of the filter's policy; empty without one.
    pub filter_policy: String,
    /// Unix seconds at which the file was written. 0: unknown.
    pub file_creation_time: u64,
    /// CRC32c of the whole file, if the MANIFEST has it.
    pub file_crc: Option<u32>,
    /// Properties that are not the engine's own: what collectors stored. A table that RocksDB rewrote has none.
    pub collected: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl DbInner {
    /// The live tables of `family`, by level.
    pub(crate) fn table_files(&self, family: &Family) -> Result<Vec<TableFile>> {
        let version = Arc::clone(&family.super_version.load().version);
        let mut tables = Vec::new();
        for level in 0..version.num_levels() {
            for file in version.files(level) {
                let properties = family.table_cache.reader(file)?.properties();
                tables.push(TableFile {
                    number: file.number,
                    level,
                    file_size: file.file_size,
                    smallest: file.smallest.user_key().to_vec(),
                    largest: file.largest.user_key().to_vec(),
                    num_entries: properties.num_entries,
                    num_deletions: properties.num_deletions,
                    num_merge_operands: properties.num_merge_operands,
                    num_range_deletions: properties.num_range_deletions,
                    num_data_blocks: properties.num_data_blocks,
                    raw_key_size: properties.raw_key_size,
                    raw_value_size: properties.raw_value_size,
                    data_size: properties.data_size,
                    index_size: properties.index_size,
                    filter_size: properties.filter_size,
                    compression: properties.compression.clone(),
                    filter_policy: properties.filter_policy.clone(),
                    file_creation_time: properties.file_creation_time,
                    file_crc: file.file_crc(),
                    collected: properties.collected(),
                });
            }
        }
        Ok(tables)
    }

    /// Reads every live table that has a checksum in the MANIFEST and compares; returns the number of tables read.
    pub(crate) fn verify_file_checksums(&self) -> Result<u64> {
        let mut verified = 0;
        for family in self.families.load().values() {
            let version = Arc::clone(&family.super_version.load().version);
            for level in 0..version.num_levels() {
                for file in version.files(level) {
                    verified += u64::from(self.verify_file_checksum(file)?);
                }
            }
        }
        Ok(verified)
    }

    /// Reads every block of every live table and every record of every blob file, and verifies its checksum; returns the number of files read.
    pub(crate) fn verify_checksums(&self) -> Result<u64> {
        let options = TableReadOptions {
            fill_cache: false,
            context: IoContext::new(FileKind::Table, IoPriority::Low),
            ..TableReadOptions::default()
        };
        let mut verified = 0;
        for family in self.families.load().values() {
            let version = Arc::clone(&family.super_version.load().version);
            for (_, file) in version.all_files() {
                // Index, filter and properties were verified when the table was opened; here the table is opened anew.
                let reader = Arc::new(family.table_cache.open_anew(file)?);
                reader.read_range_tombstones(options.context)?;
                let mut blocks = TableIter::for_compaction(reader, options, CHUNK_LEN);
                blocks.seek_to_first();
                while blocks.valid() {
                    blocks.next();
                }
                blocks.status()?;
                self.metrics.add(Counter::VerifyChecksumReadBytes, file.file_size);
                verified += 1;
            }
            let context = IoContext::new(FileKind::Blob, IoPriority::Low);
            for blobs in version.blob_files().metas() {
                self.blob_files.verify(blobs.number, blobs.count, blobs.bytes, context)?;
                self.metrics.add(Counter::VerifyChecksumReadBytes, blobs.bytes);
                verified += 1;
            }
        }
        Ok(verified)
    }

    /// Compares the checksum of a table with that in the MANIFEST; false if there is none.
    pub(crate) fn verify_file_checksum(&self, file: &FileMeta) -> Result<bool> {
        let Some(expected) = file.file_crc() else {
            return Ok(false);
        };
        let path = FileName::Table(file.number).path(&self.dir);
        let context = IoContext::new(FileKind::Table, IoPriority::Low);
        let opened = self
            .env
            .open_random(&path, &FileOptions::new(FileKind::Table))
            .map_err(|error| Error::io("open", &path, error))?;
        let mut chunk = vec![0; CHUNK_LEN];
        let (mut crc, mut offset) = (0, 0);
        loop {
            let read = opened
                .read_at(offset, &mut chunk, context)
                .map_err(|error| Error::io("read", &path, error).with_offset(offset))?;
            crc = crc32c_append(crc, chunk.get(..read).unwrap_or_default());
            offset += read as u64;
            if read < CHUNK_LEN {
                break;
            }
        }
        self.metrics.add(Counter::VerifyChecksumReadBytes, offset);
        if crc != expected {
            return Err(Error::corruption(&path, 0, "checksum of the file is not the one in the MANIFEST"));
        }
        Ok(true)
    }
}
