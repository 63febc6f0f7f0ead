//! Fetching several blocks of one table at the same time.
//!
//! The blocks are sorted by where they lie; those that touch each other, as far as the units of the device go, are one request. Requests go to the file in rounds, each
//! bounded in bytes and in number. What was read is shown to the caller round by round, so that no more than one round is ever in memory beside what the caller keeps.

use super::block::Block;
use super::block_cache::BlockCache;
use super::cache_kinds::CachedKind;
use super::fetch::BlockFetcher;
use super::format::BlockHandle;
use super::reader::TableReadOptions;
use siltstone_base::block_pool::PooledBuf;
use siltstone_base::env::{DIRECT_ALIGNMENT, IoContext, ReadRequest};
use siltstone_base::{Error, Result};
use std::io;
use std::sync::Arc;

/// Requests of one round.
const MAX_ROUND_REQUESTS: usize = 64;

/// Bytes that a round asks for, but for its last request.
const MAX_ROUND_BYTES: usize = 1 << 20;

/// Bytes of a request that blocks are joined to. A longer block is read alone.
const MAX_REQUEST_BYTES: usize = 256 << 10;

const ALIGNMENT: u64 = DIRECT_ALIGNMENT as u64;

/// Where a block with its trailer lies, and its place in the caller's list.
#[derive(Debug, Clone, Copy)]
struct Stored {
    start: u64,
    end: u64,
    place: usize,
}

/// A range of the file with some of the blocks.
struct Request {
    /// Of whole units of the device, as far as the file goes.
    start: u64,
    end: u64,
    /// How many of the sorted blocks.
    blocks: usize,
}

impl Request {
    fn of(stored: &Stored, file_size: u64) -> Self {
        let start = stored.start / ALIGNMENT * ALIGNMENT;
        let end = stored.end.checked_next_multiple_of(ALIGNMENT).unwrap_or(stored.end).min(file_size);
        Self { start, end: end.max(stored.end), blocks: 1 }
    }

    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Takes in the request that follows, if the two touch and are not too long together.
    fn join(&mut self, next: &Self) -> bool {
        let end = self.end.max(next.end);
        let is_joined = next.start <= self.end && end - self.start <= MAX_REQUEST_BYTES as u64;
        if is_joined {
            self.end = end;
            self.blocks += next.blocks;
        }
        is_joined
    }
}

/// How much was fetched together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Together {
    /// Rounds that brought more than one block.
    pub(crate) rounds: u64,
    /// Blocks that those brought.
    pub(crate) blocks: u64,
}

impl BlockFetcher {
    /// Shows `each` the stored bytes of the blocks at `handles`, each with its trailer and its place in `handles`, or why it could not be read. In the order of the file.
    pub(crate) fn fetch_together(
        &self,
        handles: &[BlockHandle],
        context: IoContext,
        mut each: impl FnMut(usize, Result<&[u8]>),
    ) -> Together {
        let mut blocks = Vec::with_capacity(handles.len());
        for (place, handle) in handles.iter().enumerate() {
            match self.end_of(*handle) {
                Err(error) => each(place, Err(error)),
                Ok(end) => match self.file.mapped(handle.offset, (end - handle.offset) as usize) {
                    Some(stored) => each(place, Ok(stored)),
                    None => blocks.push(Stored { start: handle.offset, end, place }),
                },
            }
        }
        blocks.sort_unstable_by_key(|stored| stored.start);
        let mut together = Together::default();
        let mut rest = blocks.as_slice();
        while !rest.is_empty() {
            let requests = next_round(rest, self.file_size);
            let taken = requests.iter().map(|request| request.blocks).sum::<usize>().min(rest.len());
            let (round, behind) = rest.split_at(taken);
            rest = behind;
            together.rounds += u64::from(taken > 1);
            together.blocks += if taken > 1 { taken as u64 } else { 0 };
            self.read_round(&requests, round, context, &mut each);
        }
        together
    }

    /// The blocks at `handles`, which are no data blocks: from the cache, which knows them by `cache_file`, or by `keep` of what was read. Those that must be read are read
    /// together.
    pub(crate) fn meta_blocks(
        &self,
        handles: &[BlockHandle],
        (cache, cache_file, kind): (&BlockCache, u64, CachedKind),
        options: &TableReadOptions,
        together: &mut Together,
        keep: impl Fn(PooledBuf, BlockHandle) -> Result<Arc<Block>>,
    ) -> Vec<Result<Arc<Block>>> {
        let mut found: Vec<Option<Result<Arc<Block>>>> =
            handles.iter().map(|handle| cache.get_partition(kind, cache_file, handle.offset).map(Ok)).collect();
        let places: Vec<usize> = (0..found.len()).filter(|place| found[*place].is_none()).collect();
        let missing: Vec<BlockHandle> = places.iter().map(|place| handles[*place]).collect();
        let read = self.fetch_together(&missing, options.context, |place, stored| {
            let handle = missing[place];
            let block = stored.and_then(|stored| self.meta_block_from(stored, handle));
            found[places[place]] = Some(block.and_then(|bytes| keep(bytes, handle)));
        });
        together.rounds += read.rounds;
        let unread = || Err(Error::corruption(&self.path, 0, "a block was not read"));
        found.into_iter().map(|block| block.unwrap_or_else(unread)).collect()
    }

    /// Reads one round, whose `blocks` lie in `requests` one behind the other.
    fn read_round(
        &self,
        requests: &[Request],
        mut blocks: &[Stored],
        context: IoContext,
        each: &mut impl FnMut(usize, Result<&[u8]>),
    ) {
        let buffer = |request: &Request| match request.len() {
            // The length is one that the file names.
            len if len > MAX_REQUEST_BYTES => self.pool.try_alloc(len),
            len => Ok(self.pool.alloc_aligned(len, DIRECT_ALIGNMENT)),
        };
        let mut buffers: Vec<Result<PooledBuf>> = requests.iter().map(buffer).collect();
        let mut asked: Vec<ReadRequest<'_>> = Vec::with_capacity(requests.len());
        for (request, buffer) in requests.iter().zip(&mut buffers) {
            if let Ok(buffer) = buffer {
                asked.push(ReadRequest { offset: request.start, buffer, result: Ok(0) });
            }
        }
        self.timed_read(|| match asked.as_mut_slice() {
            [one] => one.result = self.file.read_at(one.offset, one.buffer, context),
            many => self.file.read_many(many, context),
        });
        let mut results: Vec<io::Result<usize>> = asked.into_iter().map(|request| request.result).collect();
        results.reverse();
        for (request, buffer) in requests.iter().zip(&buffers) {
            let (its, behind) = blocks.split_at(request.blocks.min(blocks.len()));
            blocks = behind;
            let read = match buffer {
                Err(error) => Err(error.clone()),
                Ok(buffer) => match results.pop() {
                    Some(Ok(len)) => Ok(buffer.get(..len).unwrap_or(buffer)),
                    Some(Err(error)) => Err(Error::io("read", &self.path, error)),
                    None => Ok(&[][..]),
                },
            };
            for stored in its {
                let range = (stored.start - request.start) as usize..(stored.end - request.start) as usize;
                let bytes = match &read {
                    Err(error) => Err(error.clone().with_file(&self.path).with_offset(stored.start)),
                    Ok(read) => {
                        read.get(range).ok_or_else(|| Error::corruption(&self.path, stored.start, "file ends early"))
                    }
                };
                each(stored.place, bytes);
            }
        }
    }
}

/// The requests of the next round for the sorted `blocks`: at least one.
fn next_round(blocks: &[Stored], file_size: u64) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    let mut bytes = 0;
    for stored in blocks {
        let next = Request::of(stored, file_size);
        if let Some(last) = requests.last_mut() {
            let before = last.len();
            if last.join(&next) {
                bytes += last.len() - before;
                continue;
            }
            if requests.len() == MAX_ROUND_REQUESTS || bytes >= MAX_ROUND_BYTES {
                break;
            }
        }
        bytes += next.len();
        requests.push(next);
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(ranges: &[(u64, u64)]) -> Vec<Stored> {
        ranges.iter().enumerate().map(|(place, (start, end))| Stored { start: *start, end: *end, place }).collect()
    }

    fn shape(ranges: &[(u64, u64)], file_size: u64) -> Vec<(u64, u64, usize)> {
        next_round(&stored(ranges), file_size)
            .iter()
            .map(|request| (request.start, request.end, request.blocks))
            .collect()
    }

    #[test]
    fn blocks_that_touch_are_one_request() {
        assert_eq!(shape(&[(10, 100), (100, 5_000), (9_000, 9_100)], 1 << 20), [(0, 12_288, 3)]);
        assert_eq!(shape(&[(10, 100), (20_000, 20_100)], 1 << 20), [(0, 4_096, 1), (16_384, 20_480, 1)]);
        assert_eq!(shape(&[(10, 100)], 120), [(0, 120, 1)]);
        // Handles of a damaged index may name the same bytes twice, or overlap.
        assert_eq!(shape(&[(10, 9_000), (20, 30), (20, 30)], 10_000), [(0, 10_000, 3)]);
    }

    #[test]
    fn rounds_are_bounded_in_number_and_bytes() {
        let apart: Vec<_> = (0..200).map(|number| (number * 40_000, number * 40_000 + 100)).collect();
        assert_eq!(shape(&apart, 1 << 30).len(), MAX_ROUND_REQUESTS);
        let long: Vec<_> = (0..20).map(|number| (number << 20, (number << 20) + 200_000)).collect();
        let bytes: usize = next_round(&stored(&long), 1 << 30).iter().map(Request::len).sum();
        assert!((MAX_ROUND_BYTES..MAX_ROUND_BYTES + MAX_REQUEST_BYTES).contains(&bytes), "{bytes}");
        let in_a_row: Vec<_> = (0..100).map(|number| (number * 5_000, (number + 1) * 5_000)).collect();
        let longest = next_round(&stored(&in_a_row), 1 << 30).iter().map(Request::len).max();
        assert!(longest.is_some_and(|len| len <= MAX_REQUEST_BYTES), "{longest:?}");
    }
}
