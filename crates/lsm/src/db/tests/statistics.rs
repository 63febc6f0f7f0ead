//! Every counter and every distribution is moved by something, and has the name that RocksDB gives it.

use super::basics::options;
use crate::metrics::{Counter, HistogramKind, Statistics};
use crate::{
    ColumnFamilyOptions, CompactOnDeletions, CompactRangeOptions, CompactionStyle, CompressionType, Db,
    FifoCompactionOptions, FlushOptions, IndexType, MergeFailure, MergeOperator, OptimisticTransactionDb, ReadOptions,
    TableOptions, TransactionDb, TransactionDbOptions, WriteBatch, WriteOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::{Isolation, TransactionOptions};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{Env, FileKind, read_file, write_file_atomically};
use siltstone_base::executor::StepExecutor;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const TICKERS: &str = include_str!("../../../testdata/rocksdb_tickers.txt");
const HISTOGRAMS: &str = include_str!("../../../testdata/rocksdb_histograms.txt");

/// What is asked for by other tests, which need more than a few calls to come about.
const ELSEWHERE: &[&str] = &[
    // db/tests/merges.rs
    "rocksdb.number.merge.failures",
    "siltstone.compaction.single.delete.mismatches",
    // db/tests/prefixes.rs
    "rocksdb.bloom.filter.prefix.checked",
    "rocksdb.bloom.filter.prefix.true.positive",
    "rocksdb.bloom.filter.prefix.useful",
    // db/tests/set_options.rs, db/tests/held_writers.rs and the tests of the pace
    "rocksdb.db.write.stall",
    "rocksdb.stall.micros",
    "siltstone.stall.l0.file.count.micros",
    "siltstone.stall.memtable.limit.micros",
    "siltstone.stall.pending.compaction.bytes.micros",
    "siltstone.write.stalled",
    // db/io_rate/tests.rs
    "siltstone.rate.limiter.wait.micros",
    "siltstone.rate.limiter.waits",
    // db/tests/subcompactions.rs
    "rocksdb.num.subcompactions.scheduled",
    "siltstone.compaction.subcompactions",
    // db/expiry
    "siltstone.expiry.bytes.in",
    "siltstone.expiry.bytes.out",
    "siltstone.expiry.files.dropped",
    "siltstone.expiry.rows.hidden",
    "siltstone.expiry.rows.removed",
    // blob/tests.rs
    "rocksdb.blobdb.blob.file.bytes.read",
    // db/tests/compressed_blocks.rs and the tests of the cache
    "rocksdb.block.cache.add.failures",
    "rocksdb.secondary.cache.hits",
    "siltstone.block.cache.evictions",
    // Times of jobs: the clock of these tests stands still.
    "siltstone.compaction.micros",
    "siltstone.flush.micros",
    // db/tests/io_errors and tests/io_errors.rs
    "siltstone.background.errors",
    // db/tests/styles.rs
    "rocksdb.compaction.key.drop.user",
];

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

fn writes() -> Statistics {
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
fn gets() -> Statistics {
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
fn level_one() -> Statistics {
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

fn walks() -> Statistics {
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

fn partitions() -> Statistics {
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

fn codecs() -> Statistics {
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

fn merges() -> Statistics {
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

fn fifo_by_size() -> Statistics {
    fifo(FifoCompactionOptions::default().max_table_files_size(64 << 10), 0)
}

fn fifo_by_age() -> Statistics {
    fifo(FifoCompactionOptions::default().max_table_files_size(1 << 30), 50)
}

fn marked() -> Statistics {
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

fn by_ttl() -> Statistics {
    aged(plain().ttl(100_000))
}

fn by_period() -> Statistics {
    aged(plain().periodic_compaction_seconds(100_000))
}

fn transactions() -> Statistics {
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

fn damage() -> Statistics {
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

/// What happens, how, and what it moves.
type Scenario = (&'static str, fn() -> Statistics, &'static [&'static str]);

/// Each name is where it is moved first.
const SCENARIOS: &[Scenario] = &[
    (
        "writes",
        writes,
        &[
            "rocksdb.block.checksum.compute.count",
            "rocksdb.bytes.compression_bypassed",
            "rocksdb.bytes.per.write",
            "rocksdb.bytes.written",
            "rocksdb.db.flush.micros",
            "rocksdb.db.write.micros",
            "rocksdb.flush.write.bytes",
            "rocksdb.getupdatessince.calls",
            "rocksdb.manifest.file.sync.micros",
            "rocksdb.no.file.opens",
            "rocksdb.number.block_compression_bypassed",
            "rocksdb.number.keys.written",
            "rocksdb.sst.read.micros",
            "rocksdb.sst.write.micros",
            "rocksdb.table.open.io.micros",
            "rocksdb.table.sync.micros",
            "rocksdb.wal.bytes",
            "rocksdb.wal.file.sync.micros",
            "rocksdb.wal.synced",
            "rocksdb.write.other",
            "rocksdb.write.self",
            "rocksdb.write.wal",
            "siltstone.flush.count",
            "siltstone.obsolete.files.deleted",
            "siltstone.write.batches",
            "siltstone.write.groups",
        ],
    ),
    (
        "gets",
        gets,
        &[
            "rocksdb.block.cache.add",
            "rocksdb.block.cache.bytes.write",
            "rocksdb.block.cache.data.add",
            "rocksdb.block.cache.data.bytes.insert",
            "rocksdb.block.cache.data.hit",
            "rocksdb.block.cache.data.miss",
            "rocksdb.block.cache.hit",
            "rocksdb.block.cache.miss",
            "rocksdb.bloom.filter.full.positive",
            "rocksdb.bloom.filter.full.true.positive",
            "rocksdb.bloom.filter.useful",
            "rocksdb.bytes.per.multiget",
            "rocksdb.bytes.per.read",
            "rocksdb.bytes.read",
            "rocksdb.compact.read.bytes",
            "rocksdb.compact.write.bytes",
            "rocksdb.compaction.outfile.sync.micros",
            "rocksdb.compaction.times.micros",
            "rocksdb.db.get.micros",
            "rocksdb.db.multiget.micros",
            "rocksdb.l0.hit",
            "rocksdb.l2andup.hit",
            "rocksdb.memtable.hit",
            "rocksdb.memtable.miss",
            "rocksdb.number.keys.read",
            "rocksdb.number.multiget.bytes.read",
            "rocksdb.number.multiget.get",
            "rocksdb.number.multiget.keys.found",
            "rocksdb.number.multiget.keys.read",
            "rocksdb.numfiles.in.singlecompaction",
            "rocksdb.read.block.get.micros",
            "rocksdb.sst.batch.size",
            "siltstone.block.read.bytes",
            "siltstone.block.reads",
            "siltstone.compaction.count",
            "siltstone.compaction.trivial.moves",
            "siltstone.get.miss",
            "siltstone.get.tables.probed",
        ],
    ),
    ("level_one", level_one, &["rocksdb.compaction.key.drop.new", "rocksdb.l1.hit"]),
    (
        "walks",
        walks,
        &[
            "rocksdb.compaction.key.drop.obsolete",
            "rocksdb.compaction.key.drop.range_del",
            "rocksdb.db.iter.bytes.read",
            "rocksdb.db.seek.micros",
            "rocksdb.num.iterator.created",
            "rocksdb.num.iterator.deleted",
            "rocksdb.number.db.next",
            "rocksdb.number.db.next.found",
            "rocksdb.number.db.prev",
            "rocksdb.number.db.prev.found",
            "rocksdb.number.db.seek",
            "rocksdb.number.db.seek.found",
            "rocksdb.number.iter.skip",
            "siltstone.iter.covered",
            "siltstone.iter.steps",
        ],
    ),
    (
        "partitions",
        partitions,
        &[
            "rocksdb.block.cache.filter.add",
            "rocksdb.block.cache.filter.bytes.insert",
            "rocksdb.block.cache.filter.hit",
            "rocksdb.block.cache.filter.miss",
            "rocksdb.block.cache.index.add",
            "rocksdb.block.cache.index.bytes.insert",
            "rocksdb.block.cache.index.hit",
            "rocksdb.block.cache.index.miss",
            "siltstone.block.reads.together",
            "siltstone.reads.together",
        ],
    ),
    (
        "codecs",
        codecs,
        &[
            "rocksdb.bytes.compressed.from",
            "rocksdb.bytes.compressed.to",
            "rocksdb.bytes.compression.rejected",
            "rocksdb.bytes.decompressed.from",
            "rocksdb.bytes.decompressed.to",
            "rocksdb.compression.times.nanos",
            "rocksdb.decompression.times.nanos",
            "rocksdb.number.block.compressed",
            "rocksdb.number.block.decompressed",
            "rocksdb.number.block_compression_rejected",
        ],
    ),
    (
        "merges",
        merges,
        &["rocksdb.merge.operation.time.nanos", "rocksdb.read.num.merge_operands", "siltstone.merge.operands.merged"],
    ),
    ("fifo_by_size", fifo_by_size, &["rocksdb.fifo.max.size.compactions"]),
    ("fifo_by_age", fifo_by_age, &["rocksdb.fifo.ttl.compactions"]),
    ("marked", marked, &["rocksdb.compact.read.marked.bytes", "rocksdb.compact.write.marked.bytes"]),
    ("by_ttl", by_ttl, &["rocksdb.compact.read.ttl.bytes", "rocksdb.compact.write.ttl.bytes"]),
    ("by_period", by_period, &["rocksdb.compact.read.periodic.bytes", "rocksdb.compact.write.periodic.bytes"]),
    ("transactions", transactions, &["rocksdb.num.op.per.transaction"]),
    ("damage", damage, &["rocksdb.block.checksum.mismatch.count", "rocksdb.no.file.errors"]),
];

fn moved(statistics: &Statistics) -> BTreeSet<&'static str> {
    let tickers = statistics.tickers.iter().filter(|(_, value)| *value > 0).map(|(name, _)| *name);
    let histograms = statistics.histograms.iter().filter(|(_, data)| data.count() > 0).map(|(name, _)| *name);
    tickers.chain(histograms).collect()
}

#[test]
fn a_dashboard_finds_every_name_as_rocksdb_spells_it() {
    let statistics = writes();
    let known = |list: &'static str| list.lines().collect::<BTreeSet<_>>();
    let (tickers, histograms) = (known(TICKERS), known(HISTOGRAMS));
    let mut names = BTreeSet::new();
    let found = statistics.tickers.iter().map(|(name, _)| (*name, &tickers));
    for (name, list) in found.chain(statistics.histograms.iter().map(|(name, _)| (*name, &histograms))) {
        assert!(list.contains(name) || name.starts_with("siltstone."), "{name} is no name of RocksDB's");
        assert!(names.insert(name), "{name} is there twice");
    }
    assert!(Counter::ALL.iter().all(|counter| names.contains(counter.name())));
    assert!(HistogramKind::ALL.iter().all(|kind| names.contains(kind.name())));
}

#[test]
fn no_counter_stays_at_zero_for_ever() {
    let mut missing: BTreeSet<&str> = BTreeSet::new();
    let mut unproved: Option<BTreeSet<&str>> = None;
    for (scenario, run, expected) in SCENARIOS {
        let statistics = run();
        let moved = moved(&statistics);
        for name in expected.iter().filter(|name| !moved.contains(*name)) {
            missing.insert(name);
            eprintln!("{scenario} does not move {name}");
        }
        let all =
            statistics.tickers.iter().map(|(name, _)| *name).chain(statistics.histograms.iter().map(|(name, _)| *name));
        let unproved = unproved.get_or_insert_with(|| all.filter(|name| !ELSEWHERE.contains(name)).collect());
        unproved.retain(|name| !expected.contains(name));
    }
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(unproved, Some(BTreeSet::new()), "nothing says what moves these");
}
