//! Tables in memory, for tests.

use super::BlockCache;
use super::reader::{TableReader, TableReaderOptions};
use super::{TableBuilder, TableBuilderOptions, TableSummary};
use crate::key::InternalKeyComparator;
use crate::options::{CompressionType, TableOptions};
use crate::range_tombstones::RangeTombstone;
use siltstone_base::Result;
use siltstone_base::block_pool::BlockPool;
use siltstone_base::comparator::Bytewise;
use siltstone_base::env::{AppendFile, IoContext, IoPriority, RandomFile, SyncHandle};
use siltstone_base::sync::{Arc, Mutex, Rank};
use std::io;
use std::path::PathBuf;

/// A file in memory.
#[derive(Debug, Clone)]
pub(crate) struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl MemoryFile {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Rank(980), bytes)))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().clone()
    }
}

impl AppendFile for MemoryFile {
    fn append(&mut self, data: &[u8], _: IoContext) -> io::Result<()> {
        self.0.lock().extend_from_slice(data);
        Ok(())
    }

    fn sync_data(&mut self, _: IoContext) -> io::Result<()> {
        Ok(())
    }

    fn sync_range(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn preallocate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.lock().len() as u64
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl RandomFile for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8], _: IoContext) -> io::Result<usize> {
        let bytes = self.0.lock();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }
}

pub(crate) fn comparator() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(Bytewise))
}

pub(crate) fn builder_options(table: TableOptions, compression: CompressionType) -> TableBuilderOptions {
    TableBuilderOptions {
        merge_operator: String::new(),
        comparator: comparator(),
        table,
        compression,
        zstd_level: 3,
        dictionary: Default::default(),
        collectors: Vec::new(),
        expiry: None,
        file_checksum: false,
        level: -1,
        prefix_extractor: None,
        column_family_id: 0,
        column_family_name: "default".to_owned(),
        db_id: "0b1f3b2e-4b2c-4f0e-9b1c-6d8f6c1c1a2b".to_owned(),
        session_id: super::encode_session_id(0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321),
        file_number: 9,
        creation_time: 1_700_000_000,
        oldest_key_time: 1_700_000_000,
        newest_key_time: 1_700_000_002,
        host_id: "host".to_owned(),
        file_creation_time: 1_700_000_001,
        priority: IoPriority::High,
        write_back: super::WriteBack::default(),
        metrics: None,
        sync_kind: crate::metrics::HistogramKind::TableSync,
    }
}

pub(crate) fn reader_options() -> TableReaderOptions {
    TableReaderOptions {
        comparator: comparator(),
        block_cache: Arc::new(BlockCache::new(8 << 20)),
        block_pool: BlockPool::new(1 << 20),
        unique_id: None,
        largest_seqno: None,
        pin_filter_partitions: false,
        expiry: None,
        prefix_extractor: None,
        priority: IoPriority::User,
        metrics: Arc::default(),
    }
}

/// Builds a table of `entries`, which ascend.
pub(crate) fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    options: TableBuilderOptions,
    entries: impl IntoIterator<Item = (K, V)>,
) -> Result<(Vec<u8>, TableSummary)> {
    build_with_ranges(options, entries, &[])
}

/// Builds a table of `entries` and range tombstones, which ascend both.
pub(crate) fn build_with_ranges<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    options: TableBuilderOptions,
    entries: impl IntoIterator<Item = (K, V)>,
    ranges: &[RangeTombstone],
) -> Result<(Vec<u8>, TableSummary)> {
    let file = MemoryFile::new(Vec::new());
    let mut builder = TableBuilder::new(Box::new(file.clone()), PathBuf::from("000009.sst"), options)?;
    for (key, value) in entries {
        builder.add(key.as_ref(), value.as_ref())?;
    }
    for tombstone in ranges {
        builder.add_range_tombstone(tombstone)?;
    }
    let summary = builder.finish()?;
    Ok((file.bytes(), summary))
}

/// Opens a table.
pub(crate) fn open(bytes: Vec<u8>, options: &TableReaderOptions) -> Result<Arc<TableReader>> {
    let len = bytes.len() as u64;
    TableReader::open(Arc::new(MemoryFile::new(bytes)), PathBuf::from("000009.sst"), len, options).map(Arc::new)
}
