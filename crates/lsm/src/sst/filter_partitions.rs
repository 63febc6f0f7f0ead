//! Partitions of a filter: the reader holds an index of them, and the cache of blocks those that are in use.
//!
//! The index has the form of a table's: it maps a separator to the partition with the filter of all keys up to it. A key behind the last separator belongs to the last
//! partition. A partition has also the prefix of the first key of the next one, so that a walk that begins between the two finds it.

use super::block::Block;
use super::block_cache::BlockCache;
use super::cache_kinds::CachedKind;
use super::fetch::BlockFetcher;
use super::fetch_together::Together;
use super::filter_block::FilterContent;
use super::format::BlockHandle;
use super::index_block::{Index, IndexEncoding};
use super::reader::TableReadOptions;
use crate::key::{InternalKeyComparator, user_key};
use crate::metrics::{PerfTime, times};
use crate::options::ReadTier;
use siltstone_base::Result;
use siltstone_base::bloom::FilterKind;
use siltstone_base::env::IoContext;
use std::sync::Arc;

/// Key of the metaindex under which RocksDB stores the index of a filter's partitions.
pub(crate) const PARTITIONED_FILTER: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";

/// Where partitions come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionSource<'a> {
    pub(crate) fetcher: &'a BlockFetcher,
    pub(crate) cache: &'a BlockCache,
    pub(crate) comparator: &'a InternalKeyComparator,
    pub(crate) options: &'a TableReadOptions,
}

/// The filter of one table, in partitions.
#[derive(Debug)]
pub(crate) struct FilterPartitions {
    index: Index,
    content: FilterContent,
    /// What the cache knows the partitions by.
    cache_file: u64,
    /// All partitions, if they are held as long as the table is open; none otherwise.
    pinned: Vec<Arc<Block>>,
}

impl FilterPartitions {
    /// Takes the index of partitions at `handle`; reads all of them if they `stay` in memory.
    pub(crate) fn open(
        handle: BlockHandle,
        encoding: IndexEncoding,
        content: FilterContent,
        (fetcher, cache, comparator): (&BlockFetcher, &BlockCache, &InternalKeyComparator),
        stay: bool,
        context: IoContext,
    ) -> Result<Self> {
        let block = fetcher.meta_block(handle, context)?;
        // These entries have no first keys, whatever those of the table's index have.
        let encoding = IndexEncoding { first_keys: false, ..encoding };
        let index = Index::decode(&block, encoding, comparator, fetcher.file_size)
            .map_err(|error| fetcher.blame(error, handle))?;
        let read = |number| Ok(Arc::new(Block::of_filter(fetcher.meta_block(index.handle(number), context)?)?));
        let pinned = if stay { (0..index.len()).map(read).collect::<Result<_>>()? } else { Vec::new() };
        Ok(Self { index, content, cache_file: cache.new_file_id(), pinned })
    }

    /// Takes the partitions out of the cache, for a table that is closed.
    pub(crate) fn leave(&self, cache: &BlockCache) {
        if self.pinned.is_empty() {
            let offsets = (0..self.index.len()).map(|number| self.index.handle(number).offset);
            let is_there = |offset: &u64| cache.peek(self.cache_file, *offset).is_some();
            cache.leave(self.cache_file, offsets.filter(is_there).collect());
        }
    }

    /// Whether the table may have the user key of the internal key `target`. `hash` is its XXPH3 hash, if it is known.
    pub(crate) fn may_match(&self, target: &[u8], hash: Option<u64>, source: PartitionSource<'_>) -> bool {
        self.partition(target, source).is_none_or(|partition| self.matches(&partition, target, hash))
    }

    /// Whether `partition`, the one of the internal key `target`, may have its user key.
    fn matches(&self, partition: &Block, target: &[u8], hash: Option<u64>) -> bool {
        let kind = FilterKind::parse(partition.bytes());
        let hash = match hash {
            _ if !self.content.has_whole_keys() => match self.content.prefix(user_key(target)) {
                Some(prefix) => kind.hash_key(prefix),
                None => return true,
            },
            Some(hash) if !kind.needs_own_hash() => hash,
            _ => kind.hash_key(user_key(target)),
        };
        kind.may_match(partition.bytes(), hash)
    }

    /// [`may_match`](Self::may_match) for several internal keys with their hashes, which ascend: what must be read of the filter for them is read together.
    pub(crate) fn may_match_many<'k>(
        &self,
        keys: impl Iterator<Item = (&'k [u8], Option<u64>)> + Clone,
        source: PartitionSource<'_>,
        together: &mut Together,
    ) -> Vec<bool> {
        let one_by_one = || keys.clone().map(|(key, hash)| self.may_match(key, hash, source)).collect();
        if !self.pinned.is_empty() || source.options.read_tier == ReadTier::BlockCache {
            return one_by_one();
        }
        let Some(last) = self.index.len().checked_sub(1) else { return one_by_one() };
        let number = |key| self.index.seek(key, source.comparator).min(last);
        let mut numbers: Vec<usize> = keys.clone().map(|(key, _)| number(key)).collect();
        let its = numbers.clone();
        numbers.dedup();
        let handles: Vec<_> = numbers.iter().map(|number| self.index.handle(*number)).collect();
        let keep = |bytes, handle: BlockHandle| {
            let partition = Arc::new(Block::of_filter(bytes)?);
            let keeps = source.options.fill_cache;
            if keeps { source.cache.insert(self.cache_file, handle.offset, partition) } else { Ok(partition) }
        };
        let cache = (source.cache, self.cache_file, CachedKind::Filter);
        let partitions = source.fetcher.meta_blocks(&handles, cache, source.options, together, keep);
        let answer = |((key, hash), number): ((&[u8], Option<u64>), usize)| {
            let place = numbers.binary_search(&number).ok();
            let partition = place.and_then(|place| partitions.get(place)?.as_ref().ok());
            partition.is_none_or(|partition| self.matches(partition, key, hash))
        };
        keys.zip(its).map(answer).collect()
    }

    /// Whether the table may have keys at or after the internal key `target` of its prefix, whose XXPH3 hash is `hash`.
    pub(crate) fn may_match_prefix(&self, target: &[u8], hash: u64, source: PartitionSource<'_>) -> bool {
        if !self.content.has_prefixes() {
            return true;
        }
        let Some(partition) = self.partition(target, source) else { return true };
        let kind = FilterKind::parse(partition.bytes());
        kind.needs_own_hash() || kind.may_match(partition.bytes(), hash)
    }

    /// The partition of the internal key `target`; `None` if it cannot be had, which the data blocks may tell more of.
    fn partition(&self, target: &[u8], source: PartitionSource<'_>) -> Option<Arc<Block>> {
        let last = self.index.len().checked_sub(1)?;
        let number = self.index.seek(target, source.comparator).min(last);
        if let Some(partition) = self.pinned.get(number) {
            return Some(Arc::clone(partition));
        }
        let handle = self.index.handle(number);
        if let Some(partition) = source.cache.get_partition(CachedKind::Filter, self.cache_file, handle.offset) {
            return Some(partition);
        }
        if source.options.read_tier == ReadTier::BlockCache {
            return None;
        }
        let read = || source.fetcher.meta_block(handle, source.options.context).ok();
        let bytes = times::timed(PerfTime::ReadFilterBlock, read)?;
        let partition = Arc::new(Block::of_filter(bytes).ok()?);
        let keeps = source.options.fill_cache;
        if keeps { source.cache.insert(self.cache_file, handle.offset, partition).ok() } else { Some(partition) }
    }

    /// The bytes of memory that the index and the partitions that stay take.
    pub(crate) fn memory_usage(&self) -> usize {
        let pinned: usize = self.pinned.iter().map(|partition| partition.memory_usage()).sum();
        size_of::<Self>() + self.index.memory_usage() + pinned
    }
}
