//! What a table knows of its cached blocks without asking the cache.

use crate::iterator::{InternalIterator, SeekStage};
use crate::key::{InternalKey, LookupKey, ValueType};
use crate::options::{CompressionType, TableOptions};
use crate::sst::test_util::{build, builder_options, open, reader_options};
use crate::sst::{BlockCache, TableIter, TableReadOptions, TableReader};
use siltstone_base::sync::Arc;

fn table(cache_bytes: usize) -> (Arc<TableReader>, Arc<BlockCache>) {
    let entries = (0..2_000_u64).map(|number| {
        let key = InternalKey::new(format!("key{number:05}").as_bytes(), number, ValueType::Put);
        (key.as_bytes().to_vec(), number.to_le_bytes().repeat(10))
    });
    let options = builder_options(TableOptions::default(), CompressionType::Lz4);
    let mut read = reader_options();
    read.block_cache = Arc::new(BlockCache::new(cache_bytes));
    let cache = Arc::clone(&read.block_cache);
    (open(build(options, entries).unwrap().0, &read).unwrap(), cache)
}

fn key(number: u64) -> LookupKey {
    LookupKey::new(format!("key{number:05}").as_bytes(), 1 << 40)
}

#[test]
fn a_block_that_was_read_is_found_without_a_lookup_until_it_goes() {
    let (reader, cache) = table(1 << 20);
    let block = reader.index().seek(key(700).internal_key(), reader.comparator());
    assert!(reader.index().slots().get(block).is_none());
    reader.get(&TableReadOptions::default(), &key(700), None).unwrap().unwrap();
    assert!(reader.index().slots().get(block).is_some());
    assert!(reader.index().slots().get(block + 1).is_none());
    assert!(reader.index().slots().get(usize::MAX).is_none());
    // What the cache lets go is gone for the table too, and is found again after the next read.
    assert_eq!(reader.index().slots().taken(), 1);
    cache.set_capacity(0);
    assert!(reader.index().slots().get(block).is_none());
    assert_eq!(reader.index().slots().taken(), 0, "nothing of it is left");
    cache.set_capacity(1 << 20);
    reader.get(&TableReadOptions::default(), &key(700), None).unwrap().unwrap();
    assert!(reader.index().slots().get(block).is_some());
}

#[test]
fn hits_without_a_lookup_are_counted() {
    let (reader, cache) = table(1 << 20);
    let walk = || {
        let mut iter = TableIter::new(Arc::clone(&reader), TableReadOptions::default(), 0);
        iter.seek_to_first();
        let mut entries = 0;
        while iter.valid() {
            entries += 1;
            iter.next();
        }
        entries
    };
    assert_eq!(walk(), 2_000);
    assert_eq!(cache.stats().hits, 0);
    assert_eq!(walk(), 2_000);
    assert_eq!(cache.stats().hits, reader.index().len() as u64);
    reader.get(&TableReadOptions::default(), &key(3), None).unwrap().unwrap();
    assert_eq!(cache.stats().hits, reader.index().len() as u64 + 1);
}

#[test]
fn a_prepared_seek_ends_where_any_seek_ends() {
    for warm in [false, true] {
        let (reader, _) = table(1 << 20);
        if warm {
            let mut iter = TableIter::new(Arc::clone(&reader), TableReadOptions::default(), 0);
            iter.seek_to_first();
            while iter.valid() {
                iter.next();
            }
        }
        let mut iter = TableIter::new(reader, TableReadOptions::default(), 0);
        for number in [0, 1_999, 2_500, 3, 700, 701, 0, 1_300] {
            for backward in [false, true] {
                let target = key(number);
                for stage in SeekStage::ALL {
                    iter.prepare_seek(target.internal_key(), stage);
                }
                if backward {
                    iter.seek_for_prev(target.internal_key());
                } else {
                    iter.seek(target.internal_key());
                }
                // The newest possible version of a key comes before its entry.
                let expected =
                    if backward { number.min(2_000).checked_sub(1) } else { Some(number).filter(|n| *n < 2_000) };
                assert_eq!(iter.valid(), expected.is_some(), "{number} {backward} {warm}");
                if let Some(expected) = expected {
                    assert_eq!(iter.key()[..8], *format!("key{expected:05}").as_bytes());
                }
            }
        }
    }
}
