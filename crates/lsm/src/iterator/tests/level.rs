//! A sorted run of tables is one sequence; a table that cannot be opened is an error, not the end.

use crate::file_meta::{FileMeta, FileMetaData};
use crate::iterator::{ChildIter, InternalIterator, IterPurpose, LevelIter, MergingIter};
use crate::key::{InternalKey, ValueType};
use crate::options::{CompressionType, TableOptions};
use crate::sst::test_util::{builder_options, comparator};
use crate::sst::{BlockCache, TableBuilder, TableReadOptions};
use crate::table_cache::{TableCache, TableCacheOptions};
use siltstone_base::ErrorKind;
use siltstone_base::block_pool::BlockPool;
use siltstone_base::env::{Env, FileKind, FileOptions, PosixEnv};
use siltstone_base::sync::Arc;
use std::path::Path;

const FILES: u64 = 5;
const KEYS_PER_FILE: u64 = 100;

fn key(number: u64) -> InternalKey {
    InternalKey::new(format!("key{number:06}").as_bytes(), number, ValueType::Put)
}

fn write_table(env: &PosixEnv, dir: &Path, number: u64, keys: impl Iterator<Item = u64>) -> Arc<FileMeta> {
    let path = dir.join(format!("{number:06}.sst"));
    let file = env.create_append(&path, &FileOptions::new(FileKind::Table)).unwrap();
    let options = builder_options(TableOptions::default().block_size(512), CompressionType::Lz4);
    let mut builder = TableBuilder::new(file, path, options).unwrap();
    for number in keys {
        builder.add(key(number).as_bytes(), format!("value{number}").as_bytes()).unwrap();
    }
    let summary = builder.finish().unwrap();
    let data = FileMetaData {
        number,
        file_size: summary.file_size,
        smallest: summary.smallest,
        largest: summary.largest,
        smallest_seqno: summary.smallest_seqno,
        largest_seqno: summary.largest_seqno,
        unique_id: summary.unique_id,
        ..FileMetaData::default()
    };
    FileMeta::new(data, None)
}

struct Run {
    _dir: tempfile::TempDir,
    env: Arc<PosixEnv>,
    files: Arc<[Arc<FileMeta>]>,
    cache: Arc<TableCache>,
}

/// Tables with the even numbers below `2 * FILES * KEYS_PER_FILE`.
fn run() -> Run {
    run_read(false, false)
}

fn run_read(use_direct_reads: bool, allow_mmap_reads: bool) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let env = Arc::new(PosixEnv::new());
    let files = (0..FILES)
        .map(|file| {
            let first = file * KEYS_PER_FILE;
            write_table(&env, dir.path(), 10 + file, (first..first + KEYS_PER_FILE).map(|number| 2 * number))
        })
        .collect();
    let options = TableCacheOptions {
        comparator: comparator(),
        pin_filter_partitions: false,
        expiry: None,
        prefix_extractor: None,
        block_cache: Arc::new(BlockCache::new(1 << 20)),
        block_pool: BlockPool::new(1 << 20),
        use_direct_reads,
        use_direct_io_for_compaction: false,
        allow_mmap_reads,
        merge_operator: None,
        allow_other_merge_operator: false,
        metrics: Default::default(),
    };
    let cache = Arc::new(TableCache::new(env.clone(), dir.path(), options));
    Run { _dir: dir, env, files, cache }
}

fn iter(run: &Run, purpose: IterPurpose) -> LevelIter {
    LevelIter::new(Arc::clone(&run.files), Arc::clone(&run.cache), TableReadOptions::default(), purpose)
}

const PURPOSES: [IterPurpose; 2] =
    [IterPurpose::User { read_ahead_size: 0 }, IterPurpose::Compaction { read_ahead_size: 1 << 20 }];

#[test]
fn a_run_is_one_sequence() {
    let ways = [(false, false), (true, false), (false, true)];
    for (purpose, (direct, mmap)) in PURPOSES.into_iter().flat_map(|purpose| ways.map(|way| (purpose, way))) {
        let run = run_read(direct, mmap);
        let mut iter = iter(&run, purpose);
        iter.seek_to_first();
        for number in 0..FILES * KEYS_PER_FILE {
            assert_eq!(iter.key(), key(2 * number).as_bytes());
            iter.next();
        }
        assert!(!iter.valid());
        iter.status().unwrap();
        iter.seek_to_last();
        for number in (0..FILES * KEYS_PER_FILE).rev() {
            assert_eq!(iter.key(), key(2 * number).as_bytes());
            iter.prev();
        }
        assert!(!iter.valid());
        for number in 0..2 * FILES * KEYS_PER_FILE {
            // The odd numbers lie between two keys, some of them between two tables.
            iter.seek(key(number).as_bytes());
            let next = number.next_multiple_of(2);
            let expected = (next < 2 * FILES * KEYS_PER_FILE).then(|| key(next));
            assert_eq!(iter.valid().then(|| iter.key()), expected.as_ref().map(InternalKey::as_bytes));
            iter.seek_for_prev(key(number).as_bytes());
            assert_eq!(iter.key(), key(number & !1).as_bytes());
        }
    }
}

#[test]
fn an_empty_run_ends_at_once() {
    let run = Run { files: Arc::new([]), ..run() };
    let mut iter = iter(&run, PURPOSES[0]);
    iter.seek_to_first();
    assert!(!iter.valid());
    iter.seek_to_last();
    assert!(!iter.valid());
    iter.seek_for_prev(key(1).as_bytes());
    assert!(!iter.valid());
    iter.status().unwrap();
}

#[test]
fn a_missing_table_stops_the_walk_with_an_error() {
    let run = run();
    run.env.remove_file(&run._dir.path().join("000012.sst")).unwrap();
    let level = iter(&run, PURPOSES[0]);
    let mut iter = MergingIter::new(comparator(), vec![ChildIter::Level(level)]);
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next();
    }
    assert_eq!(count, 2 * KEYS_PER_FILE);
    assert_eq!(iter.status().unwrap_err().kind(), ErrorKind::MissingFile);
    iter.seek_to_last();
    assert!(iter.valid());
    iter.status().unwrap();
}

#[test]
fn a_table_of_another_length_is_refused() {
    let run = run();
    let mut data = run.files[0].data();
    data.file_size += 1;
    let error = run.cache.reader(&FileMeta::new(data, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let mut data = run.files[0].data();
    data.unique_id = Some([1; 16]);
    let error = run.cache.reader(&FileMeta::new(data, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}
