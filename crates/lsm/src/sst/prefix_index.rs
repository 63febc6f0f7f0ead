//! The prefixes beside a hash index: for each prefix of keys, the data blocks that have it. A get then searches the index among these
//! blocks alone, and ends at once if there are none.
//!
//! ```text
//! rocksdb.hashindex.prefixes = the prefixes, one behind the other
//! rocksdb.hashindex.metadata = (varint32 length of a prefix, varint32 number of its first block, varint32 blocks)*
//! ```
//!
//! Both blocks are optional: without them, or with another extractor than the table was written with, the index is bisected.

use siltstone_base::checksum::xxph3;
use siltstone_base::coding::{decode_varint32, put_varint32};
use siltstone_base::prefix_extractor::PrefixExtractor;
use siltstone_base::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Key of the metaindex for the prefixes.
pub(crate) const PREFIXES_BLOCK: &str = "rocksdb.hashindex.prefixes";
/// Key of the metaindex for where they are.
pub(crate) const METADATA_BLOCK: &str = "rocksdb.hashindex.metadata";

/// Bytes of a block above which it is neither written nor read: they stay in memory while the table is open.
pub(crate) const MAX_LEN: usize = 16 << 20;

/// Buckets that a search looks at: no more are in a row unless someone chose the prefixes so.
const MAX_STEPS: usize = 256;

/// Gathers the prefixes of a table while its keys are written.
#[derive(Debug)]
pub(crate) struct PrefixIndexBuilder {
    extractor: Arc<dyn PrefixExtractor>,
    prefixes: Vec<u8>,
    metadata: Vec<u8>,
    /// The last prefix: where it begins in `prefixes`, and its blocks.
    last: Option<(usize, Range<u32>)>,
    /// Whether some key has no prefix: a RocksDB that reads the table would not find it.
    is_useless: bool,
}

impl PrefixIndexBuilder {
    pub(crate) fn new(extractor: Arc<dyn PrefixExtractor>) -> Self {
        Self { extractor, prefixes: Vec::new(), metadata: Vec::new(), last: None, is_useless: false }
    }

    /// Adds a key of data block `block`. Keys ascend.
    pub(crate) fn add(&mut self, user_key: &[u8], block: usize) {
        if self.is_useless {
            return;
        }
        let next = (block as u32).saturating_add(1);
        match (self.extractor.prefix(user_key), &mut self.last) {
            (None, _) => self.is_useless = true,
            (Some(prefix), Some((start, blocks))) if self.prefixes.get(*start..) == Some(prefix) => blocks.end = next,
            (Some(prefix), _) => {
                self.end_prefix();
                self.is_useless = self.prefixes.len().max(self.metadata.len()) > MAX_LEN;
                self.last = Some((self.prefixes.len(), block as u32..next));
                self.prefixes.extend_from_slice(prefix);
            }
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_usage(&self) -> usize {
        self.prefixes.capacity() + self.metadata.capacity()
    }

    fn end_prefix(&mut self) {
        if let Some((start, blocks)) = self.last.take() {
            put_varint32(&mut self.metadata, (self.prefixes.len() - start) as u32);
            put_varint32(&mut self.metadata, blocks.start);
            put_varint32(&mut self.metadata, blocks.end - blocks.start);
        }
    }

    /// The two blocks, prefixes and metadata; `None` if a key has no prefix, or if they would be too large.
    pub(crate) fn finish(mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.end_prefix();
        let is_short = self.prefixes.len().max(self.metadata.len()) <= MAX_LEN;
        (is_short && !self.is_useless).then_some((self.prefixes, self.metadata))
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Where the prefix ends.
    end: u32,
    first_block: u32,
    /// The block behind its last one.
    end_block: u32,
}

/// The prefixes of an open table.
#[derive(Debug)]
pub(crate) struct PrefixIndex {
    extractor: Arc<dyn PrefixExtractor>,
    prefixes: Vec<u8>,
    entries: Vec<Entry>,
    /// One more than the number of an entry, or 0, by the hash of its prefix; a power of two of them, at least two for each entry.
    buckets: Vec<u32>,
}

impl PrefixIndex {
    /// Decodes the two blocks of a table with `blocks` data blocks that was written with `extractor`. `None` if some prefix is there twice: then its keys are
    /// not neighbours, and only bisecting is safe; and if the hashes of the prefixes were chosen to be alike.
    pub(crate) fn decode(
        prefixes: &[u8],
        mut metadata: &[u8],
        blocks: usize,
        extractor: Arc<dyn PrefixExtractor>,
    ) -> Result<Option<Self>> {
        let malformed = || Error::corrupt("malformed prefixes of a hash index");
        let mut entries = Vec::new();
        let mut end = 0_u32;
        while !metadata.is_empty() {
            let mut next = || {
                let (number, len) = decode_varint32(metadata)?;
                metadata = metadata.get(len..)?;
                Some(number)
            };
            let (len, first_block, count) =
                next().zip(next()).zip(next()).map(|((a, b), c)| (a, b, c)).ok_or_else(malformed)?;
            end = end.checked_add(len).filter(|end| *end as usize <= prefixes.len()).ok_or_else(malformed)?;
            let end_block = first_block.checked_add(count).ok_or_else(malformed)?;
            if count == 0 || end_block as usize > blocks {
                return Err(malformed());
            }
            entries.push(Entry { end, first_block, end_block });
        }
        if end as usize != prefixes.len() {
            return Err(malformed());
        }
        let buckets = vec![0; (entries.len() * 2).next_power_of_two()];
        let mut index = Self { extractor, prefixes: prefixes.to_vec(), entries, buckets };
        for number in 0..index.entries.len() {
            let place = index.place(index.prefix(number));
            match place.and_then(|place| index.buckets.get_mut(place)) {
                Some(bucket) if *bucket == 0 => *bucket = number as u32 + 1,
                _ => return Ok(None),
            }
        }
        Ok(Some(index))
    }

    /// The data blocks that may have `user_key`; `None` if that is not known.
    pub(crate) fn blocks(&self, user_key: &[u8]) -> Option<Range<usize>> {
        let prefix = self.extractor.prefix(user_key)?;
        let bucket = self.buckets.get(self.place(prefix)?).copied()?;
        let found = (bucket as usize).checked_sub(1).and_then(|number| self.entries.get(number));
        Some(found.map_or(0..0, |entry| entry.first_block as usize..entry.end_block as usize))
    }

    /// The bytes of memory that it takes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.prefixes.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.buckets.capacity() * size_of::<u32>()
    }

    /// The bucket that has the prefix, or the empty one where it would be; `None` if that takes too long.
    fn place(&self, prefix: &[u8]) -> Option<usize> {
        let mask = self.buckets.len() - 1;
        let first = xxph3(prefix) as usize;
        (0..MAX_STEPS).map(|step| first.wrapping_add(step) & mask).find(|place| {
            let number = self.buckets.get(*place).and_then(|bucket| bucket.checked_sub(1));
            number.is_none_or(|number| self.prefix(number as usize) == prefix)
        })
    }

    fn prefix(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).and_then(|before| self.entries.get(before)).map_or(0, |entry| entry.end);
        let end = self.entries.get(number).map_or(start, |entry| entry.end);
        self.prefixes.get(start as usize..end as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siltstone_base::ErrorKind;
    use siltstone_base::prefix_extractor::{CappedPrefix, FixedPrefix};

    fn fixed() -> Arc<dyn PrefixExtractor> {
        Arc::new(FixedPrefix::new(2))
    }

    fn blocks_of(keys: &[(&str, usize)], extractor: Arc<dyn PrefixExtractor>) -> (Vec<u8>, Vec<u8>) {
        let mut builder = PrefixIndexBuilder::new(extractor);
        keys.iter().for_each(|(key, block)| builder.add(key.as_bytes(), *block));
        builder.finish().unwrap()
    }

    #[test]
    fn prefixes_know_their_blocks() {
        let keys = [("aa1", 0), ("aa2", 0), ("ab1", 0), ("ab2", 1), ("ab3", 3), ("bc1", 4)];
        let (prefixes, metadata) = blocks_of(&keys, fixed());
        assert_eq!((&prefixes[..], &metadata[..]), (&b"aaabbc"[..], &[2, 0, 1, 2, 0, 4, 2, 4, 1][..]));
        let index = PrefixIndex::decode(&prefixes, &metadata, 5, fixed()).unwrap().unwrap();
        assert_eq!(index.blocks(b"aa9"), Some(0..1));
        assert_eq!(index.blocks(b"ab"), Some(0..4));
        assert_eq!(index.blocks(b"bc1"), Some(4..5));
        assert_eq!(index.blocks(b"ac1"), Some(0..0));
        assert_eq!(index.blocks(b"a"), None, "no prefix");
        let (prefixes, metadata) = blocks_of(&[], fixed());
        let index = PrefixIndex::decode(&prefixes, &metadata, 0, fixed()).unwrap().unwrap();
        assert_eq!(index.blocks(b"aa"), Some(0..0));
    }

    #[test]
    fn a_key_without_a_prefix_makes_it_useless() {
        let mut builder = PrefixIndexBuilder::new(fixed());
        [("a", 0), ("aa1", 0), ("ab1", 1)].iter().for_each(|(key, block)| builder.add(key.as_bytes(), *block));
        assert_eq!(builder.finish(), None);
    }

    #[test]
    fn prefixes_of_several_lengths_and_none() {
        let capped: Arc<dyn PrefixExtractor> = Arc::new(CappedPrefix::new(3));
        let (prefixes, metadata) = blocks_of(&[("", 0), ("a", 1), ("abc", 1), ("abcd", 2)], Arc::clone(&capped));
        let index = PrefixIndex::decode(&prefixes, &metadata, 3, capped).unwrap().unwrap();
        assert_eq!(index.blocks(b""), Some(0..1));
        assert_eq!(index.blocks(b"a"), Some(1..2));
        assert_eq!(index.blocks(b"abcx"), Some(1..3));
        assert_eq!(index.blocks(b"ab"), Some(0..0));
    }

    /// Such an extractor breaks its contract; what it says of the table is not believed.
    #[test]
    fn a_prefix_that_comes_twice_ends_all_trust() {
        let (prefixes, metadata) = blocks_of(&[("aa", 0), ("ab", 1), ("aa", 2)], fixed());
        assert!(PrefixIndex::decode(&prefixes, &metadata, 3, fixed()).unwrap().is_none());
    }

    #[test]
    fn damage_is_an_error() {
        for (prefixes, metadata) in [
            (&b"aabb"[..], &[2, 0, 1][..]),
            (b"aabb", &[2, 0, 1, 3, 0, 1]),
            (b"aa", &[2, 0]),
            (b"aa", &[2, 0, 0]),
            (b"aa", &[2, 3, 1]),
            (b"aa", &[2, 0, 4]),
            (b"aa", &[2, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]),
            (b"aa", &[0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let error = PrefixIndex::decode(prefixes, metadata, 3, fixed()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{metadata:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(prefixes: Vec<u8>, metadata: Vec<u8>, blocks in 0_usize..300, key: Vec<u8>) {
            if let Ok(Some(index)) = PrefixIndex::decode(&prefixes, &metadata, blocks, fixed()) {
                prop_assert!(index.blocks(&key).is_none_or(|found| found.end <= blocks));
            }
        }
    }
}
