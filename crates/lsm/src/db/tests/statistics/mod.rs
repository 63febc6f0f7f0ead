//! Every counter and every distribution is moved by something, and has the name that RocksDB gives it.

mod scenarios;

use crate::metrics::{Counter, HistogramKind, Statistics};
use scenarios::*;
use std::collections::BTreeSet;

const TICKERS: &str = include_str!("../../../../testdata/rocksdb_tickers.txt");
const HISTOGRAMS: &str = include_str!("../../../../testdata/rocksdb_histograms.txt");

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
    "siltstone.stall.unsynced.wal.micros",
    "siltstone.write.stalled",
    // db/tests/subcompactions.rs
    "rocksdb.num.subcompactions.scheduled",
    "siltstone.compaction.subcompactions",
    // db/expiry
    "siltstone.expiry.blocks.skipped",
    "siltstone.expiry.bytes.in",
    "siltstone.expiry.bytes.out",
    "siltstone.expiry.files.dropped",
    "siltstone.expiry.rows.hidden",
    "siltstone.expiry.rows.removed",
    // blob/tests.rs
    "rocksdb.blobdb.blob.file.bytes.read",
    // db/tests/compressed_blocks.rs and the tests of the cache
    "rocksdb.block.cache.add.failures",
    "rocksdb.compressed.secondary.cache.hits",
    "rocksdb.secondary.cache.data.hits",
    "rocksdb.secondary.cache.hits",
    "siltstone.block.cache.evictions",
    // Times of jobs: the clock of these tests stands still.
    "siltstone.compaction.micros",
    "siltstone.flush.micros",
    // db/tests/io_errors and tests/io_errors.rs
    "siltstone.background.errors",
    // db/tests/next_wal.rs
    "rocksdb.wal.precreate.failed",
    // db/tests/styles.rs
    "rocksdb.compaction.key.drop.user",
];

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
            "rocksdb.files.deleted.immediately",
            "rocksdb.flush.memtable.memory.bytes",
            "rocksdb.flush.memtable.total.data.size.bytes",
            "rocksdb.flush.write.bytes",
            "rocksdb.getupdatessince.calls",
            "rocksdb.manifest.file.sync.micros",
            "rocksdb.memtable.payload.bytes.at.flush",
            "rocksdb.no.file.opens",
            "rocksdb.number.block_compression_bypassed",
            "rocksdb.number.keys.written",
            "rocksdb.sst.read.micros",
            "rocksdb.sst.write.micros",
            "rocksdb.table.open.io.micros",
            "rocksdb.table.sync.micros",
            "rocksdb.wal.bytes",
            "rocksdb.wal.file.sync.micros",
            "rocksdb.wal.precreate.miss",
            "rocksdb.wal.synced",
            "rocksdb.write.other",
            "rocksdb.write.self",
            "rocksdb.write.wal",
            "siltstone.flush.count",
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
    (
        "full_memtables",
        full_memtables,
        &[
            "rocksdb.flush.reason.write_buffer_full",
            "rocksdb.flush.write_buffer_full.memtable.memory.bytes",
            "rocksdb.memtable.garbage.bytes.at.flush",
            "rocksdb.wal.precreate.hit",
        ],
    ),
    (
        "memtables_of_all_families",
        memtables_of_all_families,
        &["rocksdb.flush.reason.write_buffer_manager", "rocksdb.flush.write_buffer_manager.memtable.memory.bytes"],
    ),
    (
        "copies",
        copies,
        &[
            "rocksdb.backup.read.bytes",
            "rocksdb.backup.write.bytes",
            "rocksdb.checkpoint.read.bytes",
            "rocksdb.checkpoint.write.bytes",
            "rocksdb.ingest.external.file.prepare.micros",
            "rocksdb.ingest.external.file.run.micros",
            "rocksdb.verify_checksum.read.bytes",
        ],
    ),
    (
        "limited_writes",
        limited_writes,
        &[
            "rocksdb.rate.limiter.bytes.write",
            "rocksdb.rate.limiter.delayed.requests.write",
            "rocksdb.rate.limiter.requests.write",
            "rocksdb.rate.limiter.total.wait.micros.write",
            "rocksdb.rate.limiter.wait.micros.write",
        ],
    ),
    (
        "limited_reads",
        limited_reads,
        &[
            "rocksdb.rate.limiter.bytes.read",
            "rocksdb.rate.limiter.delayed.requests.read",
            "rocksdb.rate.limiter.requests.read",
            "rocksdb.rate.limiter.total.wait.micros.read",
            "rocksdb.rate.limiter.wait.micros.read",
        ],
    ),
    ("another_file", another_file, &["rocksdb.footer.corruption.count"]),
    ("dropped", dropped, &["rocksdb.compaction.cancelled"]),
    (
        "full_device",
        full_device,
        &[
            "rocksdb.error.handler.bg.error.count",
            "rocksdb.error.handler.bg.io.error.count",
            "rocksdb.error.handler.bg.retryable.io.error.count",
        ],
    ),
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

/// What RocksDB counts and this engine does not: the beginning of names, and why. The book says the same.
const ABSENT: &str = include_str!("../../../../testdata/rocksdb_absent.txt");

#[test]
fn whoever_misses_a_name_of_rocksdb_finds_out_why_it_is_not_there() {
    let statistics = writes();
    let present = statistics.tickers.iter().map(|(name, _)| *name);
    let present: BTreeSet<_> = present.chain(statistics.histograms.iter().map(|(name, _)| *name)).collect();
    let absent: Vec<_> = ABSENT.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut used = BTreeSet::new();
    for name in TICKERS.lines().chain(HISTOGRAMS.lines()).filter(|name| !present.contains(name)) {
        // The longest beginning counts.
        let because = absent.iter().filter(|(begin, _)| name.starts_with(begin)).max_by_key(|(begin, _)| begin.len());
        let Some((begin, _)) = because else { panic!("{name} is absent, and nothing says why") };
        used.insert(*begin);
    }
    for (begin, why) in absent {
        assert!(used.contains(begin), "{begin} is said to be absent, and is not");
        assert!(why.len() > 10, "{begin}: {why}");
    }
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
