//! Partitions of a two-level index: each is read when it is needed and kept by the cache of blocks.
//!
//! The reader holds the index above them, whose entries lead to partitions as those of a partition lead to data blocks.

use super::block::Block;
use super::block_cache::BlockCache;
use super::cache_kinds::CachedKind;
use super::fetch::BlockFetcher;
use super::fetch_together::Together;
use super::format::BlockHandle;
use super::index_block::{Index, IndexEncoding};
use super::reader::TableReadOptions;
use crate::key::InternalKeyComparator;
use crate::metrics::{PerfTime, times};
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

    /// Takes the partitions that `index` leads to out of the cache, for a table that is closed; `each` is called with them first.
    pub(crate) fn leave(&self, index: &Index, cache: &BlockCache, each: impl Fn(&Index)) {
        let mut offsets = Vec::new();
        for offset in (0..index.len()).map(|number| index.handle(number).offset) {
            if let Some(partition) = cache.peek(self.cache_file, offset) {
                partition.index().into_iter().for_each(&each);
                offsets.push(offset);
            }
        }
        cache.leave(self.cache_file, offsets);
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
        if let Some(partition) = cache.get_partition(CachedKind::Index, self.cache_file, handle.offset) {
            return Ok(partition);
        }
        if options.read_tier == ReadTier::BlockCache {
            return Err(Error::new(ErrorKind::Incomplete, "partition of an index is not cached"));
        }
        times::timed(PerfTime::ReadIndexBlock, || {
            let bytes = fetcher.meta_block(handle, options.context)?;
            self.keep(&bytes, handle, fetcher, cache, comparator, options)
        })
    }

    /// The partitions at `handles`, each as by [`partition`](Self::partition); those that must be read are read together.
    pub(crate) fn partitions(
        &self,
        handles: &[BlockHandle],
        (fetcher, cache, comparator): (&BlockFetcher, &BlockCache, &InternalKeyComparator),
        options: &TableReadOptions,
        together: &mut Together,
    ) -> Vec<Result<Arc<Block>>> {
        if handles.len() < 2 || options.read_tier == ReadTier::BlockCache {
            let partition = |handle: &BlockHandle| self.partition(*handle, fetcher, cache, comparator, options);
            return handles.iter().map(partition).collect();
        }
        fetcher.meta_blocks(handles, (cache, self.cache_file, CachedKind::Index), options, together, |bytes, handle| {
            self.keep(&bytes, handle, fetcher, cache, comparator, options)
        })
    }

    /// Decodes the partition at `handle`, and puts it into the cache if that is to be filled.
    fn keep(
        &self,
        bytes: &[u8],
        handle: BlockHandle,
        fetcher: &BlockFetcher,
        cache: &BlockCache,
        comparator: &InternalKeyComparator,
        options: &TableReadOptions,
    ) -> Result<Arc<Block>> {
        let index = Index::decode(bytes, self.encoding, comparator, fetcher.file_size)
            .map_err(|error| fetcher.blame(error, handle))?;
        if index.len() == 0 {
            return Err(fetcher.blame(Error::corrupt("empty partition of an index"), handle));
        }
        let partition = Arc::new(Block::of_index(index));
        if options.fill_cache { cache.insert(self.cache_file, handle.offset, partition) } else { Ok(partition) }
    }
}
