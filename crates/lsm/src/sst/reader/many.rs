//! Asking one table for several keys: what must be read for them is read together.
//!
//! Steps: the filter is asked for all keys; the index leads those that are left to data blocks; blocks that are nowhere in memory are read together, checked and cached;
//! then each key is sought in its block. The filter and a two-level index have partitions, which are come by in the same way. A key that its block does not decide
//! goes the way of [`TableReader::get_counted`].

use super::{GetCounts, Search, TableEntry, TableFilter, TableReadOptions, TableReader};
use super::{give_cursor_back, take_cursor};
use crate::key::{LookupKey, SeqNo, ValueType};
use crate::metrics::{Counter, HistogramKind};
use crate::options::ReadTier;
use crate::sst::block::Block;
use crate::sst::block_cursor::BlockCursor;
use crate::sst::fetch_together::Together;
use crate::sst::format::BlockHandle;
use crate::sst::index_block::Index;
use crate::sst::pinned::PinnedBytes;
use siltstone_base::{Error, ErrorKind, Result};
use std::cmp::Ordering;
use std::sync::Arc;

/// The filter is asked for so many keys after its lines for all of them were asked for: the waits for memory overlap.
const PREFETCHED: usize = 32;

/// One of several keys that tables are asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The key, and as of when.
    pub(crate) lookup: LookupKey,
    /// XXPH3 hash of the user key.
    pub(crate) hash: u64,
    /// What was met so far.
    pub(crate) counts: GetCounts,
    /// The level where the search ended, if it did, and how.
    pub(crate) answer: Option<(usize, Result<TableEntry>)>,
}

/// A key that the filter let pass.
struct Sought {
    /// Its place in the list of keys.
    asked: usize,
    /// Which of the partitions has its block; any number without partitions.
    partition: usize,
    /// Its block in the index, or some number behind the last one.
    position: usize,
}

/// A data block that some keys are sought in.
struct Wanted {
    partition: usize,
    position: usize,
    block: Option<Result<Arc<Block>>>,
}

impl TableReader {
    /// Asks for the keys at the places `which` of `asked`, which ascend, as [`get_counted`](Self::get_counted) does for each. Sets the answer of those that end here, at `level`.
    pub(crate) fn get_many(&self, options: &TableReadOptions, level: usize, asked: &mut [Asked], which: &[usize]) {
        if let [one] = which {
            if let Some(asked) = asked.get_mut(*one) {
                let found = self.get_counted(options, &asked.lookup, Some(asked.hash), &mut asked.counts);
                asked.answer = found.transpose().map(|found| (level, found));
            }
            return;
        }
        self.metrics.record(HistogramKind::SstBatchSize, which.len() as u64);
        let mut together = Together::default();
        let allowed = self.may_have_many(options, asked, which, &mut together);
        let mut sought = Vec::with_capacity(which.len());
        for (place, allowed) in which.iter().zip(allowed) {
            let Some(key) = asked.get_mut(*place) else { continue };
            key.counts.tables += 1;
            if allowed {
                sought.push(Sought { asked: *place, partition: 0, position: 0 });
            } else {
                self.count_answer(false, false, &mut key.counts);
                self.end(key, level, Ok(None));
            }
        }
        let partitions = self.place_many(options, asked, &mut sought, &mut together);
        let mut wanted: Vec<Wanted> = Vec::with_capacity(sought.len());
        for &Sought { partition, position, .. } in &sought {
            let is_same = |last: &Wanted| (last.partition, last.position) == (partition, position);
            // One that is passed by is not fetched: it is passed by again when its keys are sought.
            let is_wanted = |index: &Index| position < index.len() && !self.passes_by(index.handle(position), options);
            let has_block = self.index_of(&partitions, partition).is_ok_and(is_wanted);
            if has_block && !wanted.last().is_some_and(is_same) {
                wanted.push(Wanted { partition, position, block: None });
            }
        }
        self.fetch_wanted(options, &partitions, &mut wanted, &mut together);
        let mut cursor = take_cursor();
        for Sought { asked: place, partition, position } in sought {
            let Some(key) = asked.get_mut(place) else { continue };
            let at = wanted.binary_search_by_key(&(partition, position), |wanted| (wanted.partition, wanted.position));
            let block = at.ok().and_then(|at| wanted.get(at)?.block.as_ref());
            let found = match (self.index_of(&partitions, partition), block) {
                (Err(error), _) => Err(error),
                (_, Some(Err(error))) => Err(error.clone()),
                (Ok(index), Some(Ok(block))) => match self.look_in(index, position, block, &mut cursor, &key.lookup) {
                    Ok(Search::Ended(found)) => Ok(found),
                    Ok(Search::GoesOn) => self.find_point(options, &key.lookup),
                    Err(error) => Err(error),
                },
                // Behind the last block, or in one that is passed by.
                (Ok(_), None) => self.find_point(options, &key.lookup),
            };
            if let Ok(found) = &found {
                self.count_answer(true, found.is_some(), &mut key.counts);
            }
            self.end(key, level, found);
        }
        give_cursor_back(cursor);
        if together.rounds > 0 {
            self.metrics.add(Counter::ReadsTogether, together.rounds);
        }
    }

    /// Takes what the point entries say of a key; range tombstones may hide it.
    fn end(&self, key: &mut Asked, level: usize, found: Result<Option<TableEntry>>) {
        let found = match (found, &self.ranges) {
            (Ok(found), Some(ranges)) => {
                let covered: SeqNo = ranges.0.covering(key.lookup.user_key(), key.lookup.seqno());
                if covered == 0 || found.as_ref().is_some_and(|entry| entry.seqno >= covered) {
                    Ok(found)
                } else {
                    let value = PinnedBytes::from(Vec::new());
                    Ok(Some(TableEntry { seqno: covered, value_type: ValueType::Delete, value }))
                }
            }
            (found, _) => found,
        };
        key.answer = found.transpose().map(|found| (level, found));
    }

    /// What the filter says of each key.
    fn may_have_many(
        &self,
        options: &TableReadOptions,
        asked: &[Asked],
        which: &[usize],
        together: &mut Together,
    ) -> Vec<bool> {
        if let TableFilter::Partitioned(partitions) = &self.filter {
            let keys = which.iter().filter_map(|place| asked.get(*place));
            let keys = keys.map(|key| (key.lookup.internal_key(), Some(key.hash)));
            return partitions.may_match_many(keys, self.partition_source(options), together);
        }
        let mut may_have = Vec::with_capacity(which.len());
        for which in which.chunks(PREFETCHED) {
            let keys = which.iter().filter_map(|place| asked.get(*place));
            keys.clone().for_each(|key| self.prefetch_filter(key.hash));
            may_have.extend(keys.map(|key| self.may_have(options, &key.lookup, Some(key.hash))));
        }
        may_have
    }

    /// Says for each key which block it may be in. Returns the partitions that lead there, by their place in the second list; none without a two-level index.
    fn place_many(
        &self,
        options: &TableReadOptions,
        asked: &[Asked],
        sought: &mut [Sought],
        together: &mut Together,
    ) -> Vec<Result<Arc<Block>>> {
        let lookup = |sought: &Sought| asked.get(sought.asked).map(|key| &key.lookup);
        let Some(partitions) = &self.partitions else {
            for key in sought {
                let Some(lookup) = lookup(key) else { continue };
                key.position = match &self.prefixes {
                    None => self.index.seek(lookup.internal_key(), &self.comparator),
                    Some(prefixes) => self.seek_by_prefix(prefixes, lookup),
                };
            }
            return Vec::new();
        };
        let mut numbers: Vec<usize> = Vec::new();
        for key in sought.iter_mut() {
            let Some(lookup) = lookup(key) else { continue };
            let number = self.index.seek(lookup.internal_key(), &self.comparator);
            if number < self.index.len() && numbers.last() != Some(&number) {
                numbers.push(number);
            }
            // Behind the last partition there is none.
            key.partition = if number < self.index.len() { numbers.len() - 1 } else { usize::MAX };
        }
        let handles: Vec<BlockHandle> = numbers.iter().map(|number| self.index.handle(*number)).collect();
        let near = (&self.fetcher, &*self.block_cache, &self.comparator);
        let found = partitions.partitions(&handles, near, options, together);
        for key in sought {
            key.position = usize::MAX;
            if let (Some(lookup), Some(Ok(_)), Ok(index)) =
                (lookup(key), found.get(key.partition), self.index_of(&found, key.partition))
            {
                key.position = index.seek(lookup.internal_key(), &self.comparator);
            }
        }
        found
    }

    /// The index that leads to data blocks: the table's, or partition `number` of it.
    fn index_of<'a>(&'a self, partitions: &'a [Result<Arc<Block>>], number: usize) -> Result<&'a Index> {
        match partitions.get(number) {
            None => Ok(&self.index),
            Some(Ok(partition)) => Ok(partition.index().unwrap_or(&self.index)),
            Some(Err(error)) => Err(error.clone()),
        }
    }

    /// Comes by all blocks, from memory or from disk.
    fn fetch_wanted(
        &self,
        options: &TableReadOptions,
        partitions: &[Result<Arc<Block>>],
        wanted: &mut [Wanted],
        together: &mut Together,
    ) {
        let mut hits = 0;
        let mut missing: Vec<(usize, BlockHandle)> = Vec::new();
        for (place, wanted) in wanted.iter_mut().enumerate() {
            let Ok(index) = self.index_of(partitions, wanted.partition) else { continue };
            if let Some(block) = index.slots().get(wanted.position) {
                hits += 1;
                wanted.block = Some(Ok(block));
            } else if let Some(block) = self.looked_up_block(index, wanted.position, options.fill_cache) {
                wanted.block = Some(Ok(block));
            } else if options.read_tier == ReadTier::BlockCache {
                wanted.block = Some(Err(Error::new(ErrorKind::Incomplete, "block is not cached")));
            } else {
                missing.push((place, index.handle(wanted.position)));
            }
        }
        if hits > 0 {
            self.add_cache_hits(hits);
        }
        if let [(place, _)] = missing.as_slice() {
            if let Some(wanted) = wanted.get_mut(*place)
                && let Ok(index) = self.index_of(partitions, wanted.partition)
            {
                wanted.block = Some(self.read_block(index, wanted.position, options));
            }
            return;
        }
        if missing.is_empty() {
            return;
        }
        let handles: Vec<BlockHandle> = missing.iter().map(|(_, handle)| *handle).collect();
        let (mut blocks, mut bytes) = (0, 0);
        let read = self.fetcher.fetch_together(&handles, options.context, |place, stored| {
            let Some((wanted, handle)) =
                missing.get(place).and_then(|(place, handle)| Some((wanted.get_mut(*place)?, *handle)))
            else {
                return;
            };
            let block =
                stored.and_then(|stored| self.fetcher.data_block_from(stored, handle, options.verify_checksums));
            wanted.block = Some(block.and_then(|block| {
                blocks += 1;
                bytes += block.bytes().len() as u64;
                match self.index_of(partitions, wanted.partition) {
                    Ok(index) if options.fill_cache => self.keep_block(index, wanted.position, block),
                    _ => Ok(Arc::new(block)),
                }
            }));
        });
        together.rounds += read.rounds;
        self.metrics.add_all([
            (Counter::BlocksRead, blocks),
            (Counter::BlockReadBytes, bytes),
            (Counter::BlocksReadTogether, read.blocks),
        ]);
    }

    /// Looks for a key in `block`, number `position` of `index`, alone.
    fn look_in(
        &self,
        index: &Index,
        position: usize,
        block: &Arc<Block>,
        cursor: &mut BlockCursor,
        key: &LookupKey,
    ) -> Result<Search> {
        cursor.reset();
        let target = key.internal_key();
        let found = match self.hashes && block.has_hash_index() {
            true => cursor.seek_by_hash(block, target, &self.comparator),
            false => cursor.seek(block, target, &self.comparator),
        };
        if found {
            return self.entry_at(cursor, Arc::clone(block), key).map(Search::Ended);
        }
        if cursor.is_corrupt() {
            return Err(self.corrupt_block(index.handle(position)));
        }
        let ends_here = index.has_user_keys()
            || self.comparator.compare_user(index.separator_user_key(position), key.user_key()) != Ordering::Equal;
        Ok(if ends_here { Search::Ended(None) } else { Search::GoesOn })
    }
}
