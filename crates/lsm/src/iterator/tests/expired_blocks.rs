//! A walk over a sorted run passes by blocks of expired rows, but for those of a table whose last key goes on in the next one.

use crate::expiry::test_policy::AtItsStamp;
use crate::file_meta::{FileMeta, FileMetaData};
use crate::iterator::{InternalIterator, IterPurpose, LevelIter};
use crate::key::{InternalKey, ParsedKey, SeqNo, ValueType};
use crate::options::{CompressionType, TableOptions};
use crate::sst::test_util::{builder_options, comparator};
use crate::sst::{BlockCache, TableBuilder, TableBuilderOptions, TableReadOptions};
use crate::table_cache::{TableCache, TableCacheOptions};
use siltstone_base::block_pool::BlockPool;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{Env, FileKind, FileOptions};
use siltstone_base::sync::Arc;
use std::path::Path;

/// A version: its key, its number, and when it expires.
type Version = (&'static str, SeqNo, u64);

/// The time of the reads.
const TIME: u64 = 1_000;

fn write_table(env: &dyn Env, number: u64, versions: &[Version]) -> Arc<FileMeta> {
    let path = Path::new("/db").join(format!("{number:06}.sst"));
    let file = env.create_append(&path, &FileOptions::new(FileKind::Table)).unwrap();
    let options = TableBuilderOptions {
        expiry: Some(Arc::new(AtItsStamp)),
        ..builder_options(TableOptions::default().block_size(1), CompressionType::None)
    };
    let mut builder = TableBuilder::new(file, path, options).unwrap();
    for (key, seqno, stamp) in versions {
        let key = InternalKey::new(key.as_bytes(), *seqno, ValueType::Put);
        builder.add(key.as_bytes(), format!("v@{stamp}").as_bytes()).unwrap();
    }
    let summary = builder.finish().unwrap();
    let data = FileMetaData {
        number,
        file_size: summary.file_size,
        smallest: summary.smallest,
        largest: summary.largest,
        smallest_seqno: summary.smallest_seqno,
        largest_seqno: summary.largest_seqno,
        ..FileMetaData::default()
    };
    FileMeta::new(data, None)
}

/// What a walk shows of tables, which are a sorted run with nothing beneath.
fn shown(tables: &[&[Version]]) -> Vec<(String, SeqNo)> {
    let disk = SimDisk::new();
    let env = disk.env();
    env.create_dir_all(Path::new("/db")).unwrap();
    let files = tables.iter().zip(10..).map(|(versions, number)| write_table(&*env, number, versions)).collect();
    let options = TableCacheOptions {
        comparator: comparator(),
        pin_filter_partitions: false,
        expiry: Some(Arc::new(AtItsStamp)),
        prefix_extractor: None,
        block_cache: Arc::new(BlockCache::new(1 << 20)),
        block_pool: BlockPool::new(1 << 20),
        use_direct_reads: false,
        use_direct_io_for_compaction: false,
        allow_mmap_reads: false,
        merge_operator: None,
        allow_other_merge_operator: false,
        metrics: Default::default(),
    };
    let cache = Arc::new(TableCache::new(env, Path::new("/db"), options));
    let read = TableReadOptions { expired_at: Some(TIME), ..TableReadOptions::default() };
    let mut iter = LevelIter::new(files, cache, read, IterPurpose::User { read_ahead_size: 0 });
    let of_entry = |iter: &LevelIter| {
        let parsed = ParsedKey::parse(iter.key()).unwrap();
        (String::from_utf8(parsed.user_key.to_vec()).unwrap(), parsed.seqno)
    };
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        forward.push(of_entry(&iter));
        iter.next();
    }
    iter.seek_to_last();
    while iter.valid() {
        backward.insert(0, of_entry(&iter));
        iter.prev();
    }
    iter.status().unwrap();
    assert_eq!(forward, backward);
    forward
}

#[test]
fn an_older_version_in_the_next_table_stays_hidden() {
    let first: &[Version] = &[("a", 3, TIME), ("b", 9, TIME)];
    let second: &[Version] = &[("b", 5, TIME + 1), ("c", 4, TIME)];
    let all = [("a", 3), ("b", 9), ("b", 5)].map(|(key, seqno)| (key.to_owned(), seqno));
    assert_eq!(shown(&[first, second]), all, "the newest version of b hides the other one");
}

#[test]
fn tables_all_of_whose_blocks_are_expired_are_passed_by() {
    let old: &[Version] = &[("d", 3, TIME), ("e", 9, TIME - 1)];
    let mixed: &[Version] = &[("f", 5, TIME), ("g", 4, TIME + 1), ("h", 4, TIME)];
    let last: &[Version] = &[("i", 5, 1)];
    let one = [("g".to_owned(), 4)];
    assert_eq!(shown(&[old, mixed, last]), one);
    assert_eq!(shown(&[mixed]), one);
    assert!(shown(&[old, last]).is_empty());
}
