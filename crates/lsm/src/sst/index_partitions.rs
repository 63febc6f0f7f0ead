//! Partitions of a two-level index: each is read when it is needed and kept by the cache of blocks.
//!
//! The reader holds the index above them, whose entries lead to partitions as those of a partition lead to data blocks.

use super::block::Block;
use super::block_cache::BlockCache;
use super::fetch::BlockFetcher;
use super::format::BlockHandle;
use super::index_block::{Index, IndexEncoding};
use super::reader::TableReadOptions;
use crate::key::InternalKeyComparator;
use crate::options::ReadTier;
use siltstone_base::{Error, ErrorKind, Result};
use std::sync::Arc;

/// How the partitions of one table are read.
#[derive(Debug)]
pub(crate) struct IndexPartitions {
    encoding: IndexEncoding,
    /// What the cache knows the partitions by: not the number of the data blocks, so that damage can't mix them up.
    cache_file: u64,
}

impl IndexPartitions {
    pub(crate) fn new(encoding: IndexEncoding, cache: &BlockCache) -> Self {
        Self { encoding, cache_file: cache.new_file_id() }
    }

    /// The partition at `handle`, from the cache or from disk; [`Block::index`] of the result is never `None`.
    ///
    /// # Errors
    ///
    /// `Incomplete` where the read tier forbids to read, `Corruption`, `Io`.
    pub(crate) fn partition(
        &self,
        handle: BlockHandle,
        fetcher: &BlockFetcher,
        cache: &BlockCache,
        comparator: &InternalKeyComparator,
        options: &TableReadOptions,
    ) -> Result<Arc<Block>> {
        if let Some(partition) = cache.get(self.cache_file, handle.offset) {
            return Ok(partition);
        }
        if options.read_tier == ReadTier::BlockCache {
            return Err(Error::new(ErrorKind::Incomplete, "partition of an index is not cached"));
        }
        let bytes = fetcher.meta_block(handle, options.context)?;
        let index = Index::decode(&bytes, self.encoding, comparator, fetcher.file_size)
            .map_err(|error| fetcher.blame(error, handle))?;
        if index.len() == 0 {
            return Err(fetcher.blame(Error::corrupt("empty partition of an index"), handle));
        }
        let partition = Arc::new(Block::of_index(index));
        Ok(if options.fill_cache { cache.insert(self.cache_file, handle.offset, partition) } else { partition })
    }
}
