//! Writing a filter in partitions: each has the keys of some data blocks.

use super::filter_builder::FilterBuilder;
use super::format::BlockHandle;
use super::index_builder::IndexBlockEncoder;
use super::output::TableOutput;
use crate::options::{IndexType, TableOptions};
use siltstone_base::Result;

/// A partition whose place in the file is not known yet.
#[derive(Debug)]
struct Partition {
    /// Where its separator ends.
    separator_end: usize,
    filter: Vec<u8>,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenPartitions {
    /// The index of the partitions.
    pub(crate) handle: BlockHandle,
    /// Bytes of partitions and index, without trailers.
    pub(crate) size: u64,
    /// Keys and prefixes in all of them.
    pub(crate) entries: u64,
}

/// Cuts a filter into partitions while the table is written.
#[derive(Debug)]
pub(crate) struct FilterPartitionsBuilder {
    /// Bytes at which a partition ends.
    partition_size: usize,
    /// Separators as internal keys, one behind the other.
    separators: Vec<u8>,
    partitions: Vec<Partition>,
    /// Bytes of their filters.
    filter_bytes: usize,
    entries: u64,
}

impl FilterPartitionsBuilder {
    /// `None` if filters are not cut.
    pub(crate) fn new(options: &TableOptions) -> Option<Self> {
        let cuts = options.partition_filters && options.index_type == IndexType::TwoLevel;
        cuts.then(|| Self {
            partition_size: options.metadata_block_size,
            separators: Vec::new(),
            partitions: Vec::new(),
            filter_bytes: 0,
            entries: 0,
        })
    }

    /// A data block ended: `filter` has all keys of it, `separator` is the internal key between it and `next_key`, the user key that follows,
    /// if there is one.
    #[inline]
    pub(crate) fn block_ended(&mut self, filter: &mut FilterBuilder, separator: &[u8], next_key: Option<&[u8]>) {
        if next_key.is_none() || filter.finished_len() >= self.partition_size {
            self.cut(filter, separator, next_key);
        }
    }

    fn cut(&mut self, filter: &mut FilterBuilder, separator: &[u8], next_key: Option<&[u8]>) {
        if let Some(next_key) = next_key {
            filter.add_prefix(next_key);
        }
        if filter.is_empty() {
            return;
        }
        self.entries += filter.len() as u64;
        self.separators.extend_from_slice(separator);
        let partition = Partition { separator_end: self.separators.len(), filter: filter.finish_and_reset() };
        self.filter_bytes += partition.filter.capacity();
        self.partitions.push(partition);
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_usage(&self) -> usize {
        self.filter_bytes + self.separators.capacity() + self.partitions.capacity() * size_of::<Partition>()
    }

    /// Writes all partitions and their index, in the form of the table's index; nothing if there are none.
    pub(crate) fn write(
        self,
        output: &mut TableOutput,
        user_keys: bool,
        restart_interval: usize,
    ) -> Result<Option<WrittenPartitions>> {
        if self.partitions.is_empty() {
            return Ok(None);
        }
        let mut index = IndexBlockEncoder::new(restart_interval, user_keys);
        let (mut size, mut start) = (0, 0);
        for partition in &self.partitions {
            let handle = output.write_block(&partition.filter, false)?;
            index.add(&self.separators[start..partition.separator_end], handle, None);
            start = partition.separator_end;
            size += handle.size;
        }
        let handle = output.write_block(index.finish(), false)?;
        Ok(Some(WrittenPartitions { handle, size: size + handle.size, entries: self.entries }))
    }
}
