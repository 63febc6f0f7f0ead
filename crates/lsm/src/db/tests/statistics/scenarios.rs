//! Small databases, each of which moves some counters.

use super::super::basics::options;
use crate::db::io_rate::{Metered, Moved};
use crate::metrics::{HistogramKind, Statistics};
use crate::{
    BackupEngine, BackupEngineOptions, Checkpoint, CheckpointOptions, ColumnFamilyOptions, CompactOnDeletions,
    CompactRangeOptions, CompactionStyle, CompressionType, Db, FifoCompactionOptions, FlushOptions, IndexType,
    IngestExternalFileOptions, MergeFailure, MergeOperator, OptimisticTransactionDb, RateLimiterMode, ReadOptions,
    SstFileWriter, TableOptions, TransactionDb, TransactionDbOptions, WriteBatch, WriteOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::{Isolation, TransactionOptions};
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::env::{Env, FileKind, read_file, write_file_atomically};
use siltstone_base::executor::StepExecutor;
use siltstone_base::rate_limiter::RatePriority;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn plain() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().compression(CompressionType::None)
}

fn idle() -> ColumnFamilyOptions {
    plain().disable_auto_compactions(true)
}

fn open(disk: &SimDisk, family: ColumnFamilyOptions) -> Db {
    let db = Db::open_families("/db", &options(disk), &[("default", family)]).unwrap();
    db.metrics().set_times_operations(true);
    db
}

fn flush(db: &Db) {
    db.flush(&FlushOptions::default()).unwrap();
}

fn compact(db: &Db) {
    let options = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &options).unwrap();
}

fn key(number: u64) -> String {
    format!("{number:08}")
}

pub(super) fn writes() -> Statistics {
    let disk = SimDisk::new();
    let db = open(&disk, idle());
    let mut batch = WriteBatch::new();
    batch.put("a", "1");
    db.write(&mut batch, &WriteOptions::default().sync(true)).unwrap();
    std::thread::scope(|scope| {
        let leader = db.handle.inner.lock_write_side();
        for key in ["b", "c"] {
            let db = &db;
            scope.spawn(move || db.put(key, "2").unwrap());
        }
        while db.handle.inner.write_queue.len_for_test() < 2 {
            std::thread::yield_now();
        }
        drop(leader);
    });
    drop(db.updates_since(1).unwrap());
    flush(&db);
    db.statistics()
}

/// Tables of the last level and of level 0, with filters, and a memtable.
pub(super) fn gets() -> Statistics {
    let disk = SimDisk::new();
    let db = open(&disk, idle().table(TableOptions::default().bloom_bits_per_key(10.0)));
    for round in 0..3 {
        for number in 0..20 {
            db.put(key(number + 20 * round), "value").unwrap();
        }
        flush(&db);
        if round < 2 {
            let target = CompactRangeOptions::default().force_bottommost(round == 0);
            db.compact_range(&db.default_family(), None, None, &target).unwrap();
        }
    }
    db.put("memory", "value").unwrap();
    db.get("memory").unwrap();
    for number in 0..60 {
        assert!(db.get(key(number)).unwrap().is_some());
        db.get(format!("{number:08}x")).unwrap();
    }
    let keys: Vec<String> = (0..20).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    db.multi_get_cf(&db.default_family(), &keys, &ReadOptions::default());
    db.statistics()
}

/// A table in level 1, by a leveled compaction.
pub(super) fn level_one() -> Statistics {
    let disk = SimDisk::new();
    let db = open(&disk, plain().level0_file_num_compaction_trigger(2).level_compaction_dynamic_level_bytes(false));
    for _ in 0..3 {
        db.put("a", "1").unwrap();
        db.put("b", "1").unwrap();
        flush(&db);
        db.wait_for_background_work().unwrap();
    }
    db.get("a").unwrap();
    db.statistics()
}

pub(super) fn walks() -> Statistics {
    let disk = SimDisk::new();
    let db = open(&disk, idle());
    for number in 0..100 {
        db.put(key(number), "value").unwrap();
    }
    db.delete(key(3)).unwrap();
    flush(&db);
    db.delete_range(key(10), key(40)).unwrap();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    iter.seek_to_last();
    while iter.valid() {
        iter.prev();
    }
    drop(iter);
    flush(&db);
    compact(&db);
    db.statistics()
}

pub(super) fn partitions() -> Statistics {
    let disk = SimDisk::new();
    let table =
        TableOptions::default().index_type(IndexType::TwoLevel).partition_filters(true).bloom_bits_per_key(10.0);
    let db = open(&disk, plain().table(table.block_size(256).metadata_block_size(256)));
    for number in 0..2_000 {
        db.put(key(number), "value").unwrap();
    }
    flush(&db);
    db.get(key(7)).unwrap();
    db.get(key(7)).unwrap();
    let keys: Vec<String> = (0..50).map(|number| key(number * 40)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    db.multi_get_cf(&db.default_family(), &keys, &ReadOptions::default());
    db.statistics()
}

pub(super) fn codecs() -> Statistics {
    let disk = SimDisk::new();
    let table = TableOptions::default().block_size(1 << 10);
    let db = open(&disk, idle().compression(CompressionType::Lz4).table(table));
    let mut state = 1_u64;
    for number in 0..100 {
        db.put(key(number), [7; 500]).unwrap();
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .take(2_000)
        .collect();
        db.put(key(number + 1_000), noise).unwrap();
    }
    flush(&db);
    db.get(key(5)).unwrap();
    db.statistics()
}

/// An operator by whose work time passes.
#[derive(Debug)]
struct Slow(Arc<ManualClock>);

impl MergeOperator for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure> {
        self.0.advance(Duration::from_micros(5));
        Ok(operands.concat())
    }
}

pub(super) fn merges() -> Statistics {
    let disk = SimDisk::new();
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    let options = options(&disk).executor(Some(Arc::new(StepExecutor::new(Arc::clone(&clock)))));
    let family = idle().merge_operator(Some(Arc::new(Slow(clock))));
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    db.metrics().set_times_operations(true);
    db.merge("a", "1").unwrap();
    db.merge("a", "2").unwrap();
    db.get("a").unwrap();
    flush(&db);
    compact(&db);
    db.statistics()
}

fn fifo(options_fifo: FifoCompactionOptions, ttl: u64) -> Statistics {
    let disk = SimDisk::new();
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    let options = options(&disk).executor(Some(Arc::new(StepExecutor::new(Arc::clone(&clock)))));
    let family = plain().compaction_style(CompactionStyle::Fifo).compaction_options_fifo(options_fifo).ttl(ttl);
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    for number in 0..20 {
        db.put(key(number), [7; 8 << 10]).unwrap();
        flush(&db);
        clock.advance(Duration::from_secs(10));
    }
    db.wait_for_background_work().unwrap();
    db.statistics()
}

pub(super) fn fifo_by_size() -> Statistics {
    fifo(FifoCompactionOptions::default().max_table_files_size(64 << 10), 0)
}

pub(super) fn fifo_by_age() -> Statistics {
    fifo(FifoCompactionOptions::default().max_table_files_size(1 << 30), 50)
}

pub(super) fn marked() -> Statistics {
    let disk = SimDisk::new();
    let dense = Arc::new(CompactOnDeletions::new(100, 50).unwrap());
    let db = open(&disk, plain().table_properties_collectors(vec![dense]));
    for number in 0..1_000 {
        db.put(key(number), [7; 100]).unwrap();
    }
    compact(&db);
    for number in 100..900 {
        db.delete(key(number)).unwrap();
    }
    flush(&db);
    db.wait_for_background_work().unwrap();
    db.statistics()
}

/// What is rewritten because it is old, by an option that says how old it may be.
fn aged(family: ColumnFamilyOptions) -> Statistics {
    let disk = SimDisk::new();
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    let options = options(&disk).executor(Some(Arc::new(StepExecutor::new(Arc::clone(&clock)))));
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    for round in 0..3 {
        for number in 0..100 {
            db.put(key(number), format!("{round}")).unwrap();
        }
        flush(&db);
        compact(&db);
    }
    db.put(key(1), "newer").unwrap();
    flush(&db);
    clock.advance(Duration::from_secs(1_000_000));
    db.put("later", "1").unwrap();
    flush(&db);
    db.wait_for_background_work().unwrap();
    db.statistics()
}

pub(super) fn by_ttl() -> Statistics {
    aged(plain().ttl(100_000))
}

pub(super) fn by_period() -> Statistics {
    aged(plain().periodic_compaction_seconds(100_000))
}

pub(super) fn transactions() -> Statistics {
    let disk = SimDisk::new();
    let of = TransactionDbOptions::default();
    let db = TransactionDb::open("/db", &options(&disk), &[], &of).unwrap();
    let mut work = db.begin(&TransactionOptions::new(Isolation::Snapshot));
    work.put("a", "1").unwrap();
    work.put("b", "1").unwrap();
    work.commit().unwrap();
    let operations = db.db().metrics().histogram(HistogramKind::NumOpsPerTransaction);
    assert_eq!((operations.count(), operations.sum()), (1, 2));
    let other = SimDisk::new();
    let optimistic = OptimisticTransactionDb::open("/db", &options(&other), &[], &of).unwrap();
    let mut work = optimistic.begin(&TransactionOptions::new(Isolation::Snapshot));
    work.put("a", "1").unwrap();
    work.commit().unwrap();
    optimistic.db().statistics()
}

pub(super) fn damage() -> Statistics {
    let disk = SimDisk::new();
    let db = open(&disk, plain());
    for number in 0..10 {
        db.put(key(number), "value").unwrap();
    }
    flush(&db);
    let inner = &db.handle.inner;
    let version = Arc::clone(&inner.default_family.super_version.load().version);
    let (_, file) = version.all_files().next().unwrap();
    let env: Arc<dyn Env> = disk.env();
    let path = crate::file_names::FileName::Table(file.number).path(Path::new("/db"));
    let mut bytes = read_file(&*env, &path, FileKind::Table, 1 << 20).unwrap();
    bytes[10] ^= 1;
    write_file_atomically(&*env, &path, Path::new("/db/1.dbtmp"), &bytes, FileKind::Table).unwrap();
    let table_cache = &inner.default_family.table_cache;
    let reader = table_cache.open_anew(file).unwrap();
    let lookup = crate::key::LookupKey::new(key(3).as_bytes(), crate::key::MAX_SEQNO);
    reader.get(&crate::sst::TableReadOptions::default(), &lookup, None).unwrap_err();
    env.remove_file(&path).unwrap();
    table_cache.open_anew(file).unwrap_err();
    db.statistics()
}

/// Memtables that fill, their own buffer or all together, and WALs whose file was made ahead.
pub(super) fn full_memtables() -> Statistics {
    let disk = SimDisk::new();
    let db = open(&disk, plain().write_buffer_size(64 << 10));
    for number in 0..400 {
        db.put(key(number % 50), [7; 500]).unwrap();
        db.wait_for_background_work().unwrap();
    }
    db.statistics()
}

pub(super) fn memtables_of_all_families() -> Statistics {
    let disk = SimDisk::new();
    let options = options(&disk).db_write_buffer_size(1 << 20);
    let db = Db::open_families("/db", &options, &[("default", plain())]).unwrap();
    for number in 0..2_000 {
        db.put(key(number), [7; 500]).unwrap();
        db.wait_for_background_work().unwrap();
    }
    db.statistics()
}

/// Everything that is copied, taken in or verified.
pub(super) fn copies() -> Statistics {
    let disk = SimDisk::new();
    let db = open(&disk, idle());
    for number in 0..100 {
        db.put(key(number), "value").unwrap();
    }
    flush(&db);
    db.put("in memory", "value").unwrap();
    db.verify_checksums().unwrap();
    Checkpoint::new(&db).create("/checkpoint", &CheckpointOptions::default().links(false)).unwrap();
    let mut backups = BackupEngine::open("/backups", &BackupEngineOptions::default().env(Some(disk.env()))).unwrap();
    backups.create(&db, &Default::default()).unwrap();
    let mut writer = SstFileWriter::create("/in.sst", &options(&disk), &plain()).unwrap();
    writer.put("taken in", "value").unwrap();
    writer.finish().unwrap();
    db.ingest_external_files(&db.default_family(), &[Path::new("/in.sst")], &IngestExternalFileOptions::default())
        .unwrap();
    db.statistics()
}

/// A job that moves more than the rate allows.
fn limited(mode: RateLimiterMode) -> Statistics {
    let disk = SimDisk::new();
    let options = options(&disk).rate_limiter_bytes_per_sec(1 << 20).rate_limiter_mode(mode);
    let db = Db::open_families("/db", &options, &[("default", idle())]).unwrap();
    let mut metered = Metered::new(RatePriority::Deep);
    for megabytes in [1, 2, 3, 4, 5, 6] {
        db.handle.inner.meter(&mut metered, Moved { read: megabytes << 20, written: megabytes << 20 });
    }
    db.statistics()
}

pub(super) fn limited_writes() -> Statistics {
    limited(RateLimiterMode::WritesOnly)
}

pub(super) fn limited_reads() -> Statistics {
    limited(RateLimiterMode::ReadsOnly)
}

/// A table that is none.
pub(super) fn another_file() -> Statistics {
    let disk = SimDisk::new();
    let db = open(&disk, plain());
    db.put("a", "value").unwrap();
    flush(&db);
    let inner = &db.handle.inner;
    let version = Arc::clone(&inner.default_family.super_version.load().version);
    let (_, file) = version.all_files().next().unwrap();
    let path = crate::file_names::FileName::Table(file.number).path(Path::new("/db"));
    let bytes = vec![7; file.file_size as usize];
    write_file_atomically(&*disk.env(), &path, Path::new("/db/1.dbtmp"), &bytes, FileKind::Table).unwrap();
    inner.default_family.table_cache.open_anew(file).unwrap_err();
    db.statistics()
}

/// A family that goes while one of its compactions runs.
pub(super) fn dropped() -> Statistics {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let db = Db::open("/db", &options(&disk).executor(Some(executor.clone()))).unwrap();
    let other = db.create_family("other", &plain().level0_file_num_compaction_trigger(2)).unwrap();
    for _ in 0..2 {
        for number in 0..5_000 {
            db.put_cf(&other, key(number), [7; 100], &WriteOptions::default()).unwrap();
        }
        db.flush_families(&[&other], &FlushOptions::default()).unwrap();
    }
    while db.property("rocksdb.num-running-compactions").unwrap() == "0" {
        assert!(executor.step());
    }
    db.drop_family(&other).unwrap();
    executor.run_until_idle();
    db.statistics()
}

/// A flush that finds the device full, and tries again.
pub(super) fn full_device() -> Statistics {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let db = Db::open("/db", &options(&disk).executor(Some(executor.clone()))).unwrap();
    db.put("a", "value").unwrap();
    let tables = OpFilter { class: Some(OpClass::Create), file: Some(FileKind::Table), ..OpFilter::default() };
    disk.set_fault(FaultPlan::sticky(FaultKind::NoSpace, 0).filter(tables));
    db.flush(&FlushOptions::default().wait(false)).unwrap();
    while disk.fault_hits().is_empty() {
        assert!(executor.step());
    }
    disk.clear_fault();
    db.wait_for_background_work().unwrap();
    db.statistics()
}
