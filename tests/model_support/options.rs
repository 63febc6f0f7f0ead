//! Options drawn at random, each from few values that matter.

use siltstone::lsm::{
    AppendOperator, BlockCache, CappedPrefix, ChecksumType, CollectedEntry, ColumnFamilyId, ColumnFamilyOptions,
    CompactOnDeletions, CompactRangeOptions, CompactionStyle, CompressionType, DataBlockIndexType, DbOptions,
    EventListener, FifoCompactionOptions, FileChecksum, FilterPolicy, FixedPrefix, FlushOptions, IndexType,
    MergeFailure, MergeOperator, NoopPrefix, PrefixExtractor, RateLimiterMode, ReadOptions, ReadTier, Snapshot,
    TableOptions, TablePropertiesCollector, TablePropertiesCollectorFactory, UniversalCompactionOptions,
    UniversalStopStyle, WaitForCompactOptions, WalRecoveryMode, WriteAdmission, WriteOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::comparator::{Bytewise, Comparator, ReverseBytewise};
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::Executor;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Options that the harness sets itself.
pub const EXCUSED: &[(&str, &str)] = &[
    ("DbOptions.env", "always the simulated disk"),
    ("DbOptions.executor", "always the step executor, whose seed is drawn"),
    ("ColumnFamilyOptions.expiry", "rows there have no stamps; tests/ttl.rs is about those that have"),
    ("DbOptions.expiry_clock", "nothing expires there; tests/ttl.rs has a test of it"),
    ("DbOptions.error_if_exists", "the harness opens one database again and again; opening has a test of its own"),
];

/// A small generator; the seed alone decides.
pub struct Draw {
    state: u64,
    names: BTreeSet<String>,
}

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self { state: seed ^ 0x9E37_79B9_7F4A_7C15, names: BTreeSet::new() }
    }

    fn next(&mut self) -> u64 {
        // splitmix64
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[(self.next() % values.len() as u64) as usize].clone()
    }
}

/// Sets fields at random and notes their names.
macro_rules! draw {
    ($draw:ident, $type:ident, { $($field:ident = $value:expr,)* }) => {{
        let mut options = $type::default();
        $(
            $draw.names.insert(format!("{}.{}", stringify!($type), stringify!($field)));
            options = options.$field($value);
        )*
        options
    }};
}

/// Keeps every value: what it must not do is lose one.
#[derive(Debug)]
struct KeepAll;

impl EntryFilter for KeepAll {
    fn name(&self) -> &str {
        "keep all"
    }

    fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
        Decision::Keep
    }
}

/// Keeps every value, and lets time pass: so a step of a compaction ends in the midst of its entries, and other jobs run in between.
#[derive(Debug)]
struct KeepSlowly(Arc<ManualClock>);

impl EntryFilter for KeepSlowly {
    fn name(&self) -> &str {
        "keep slowly"
    }

    fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
        self.0.advance(Duration::from_micros(300));
        Decision::Keep
    }
}

/// Removes some values and operands, and cuts others.
#[derive(Debug)]
pub struct Tidy;

/// The name of the filter whose work the model must follow.
pub const TIDY: &str = "tidy";

impl EntryFilter for Tidy {
    fn name(&self) -> &str {
        TIDY
    }

    fn filter(&self, _: usize, _: &[u8], value: &[u8]) -> Decision {
        match value.len() {
            len if len % 6 == 0 => Decision::Remove,
            len if len > 100 => Decision::Change(value[..100].to_vec()),
            _ => Decision::Keep,
        }
    }

    fn filter_operand(&self, _: usize, _: &[u8], operand: &[u8]) -> Decision {
        match operand.len() {
            len if len % 8 == 0 => Decision::Remove,
            len if len > 35 => Decision::Change(operand[..35].to_vec()),
            _ => Decision::Keep,
        }
    }
}

/// Counts the entries of each table.
#[derive(Debug)]
struct Counts;

#[derive(Debug)]
struct Count(u64);

impl TablePropertiesCollectorFactory for Counts {
    fn name(&self) -> &str {
        "counts"
    }

    fn collector(&self, _: ColumnFamilyId) -> Box<dyn TablePropertiesCollector> {
        Box::new(Count(0))
    }
}

impl TablePropertiesCollector for Count {
    fn add(&mut self, _: &CollectedEntry<'_>) {
        self.0 += 1;
    }

    fn finish(self: Box<Self>) -> Vec<(String, Vec<u8>)> {
        vec![("entries".to_owned(), self.0.to_le_bytes().to_vec())]
    }
}

#[derive(Debug)]
struct Listener;

impl EventListener for Listener {}

pub fn database(draw: &mut Draw, disk: &SimDisk, executor: Arc<dyn Executor>) -> DbOptions {
    // Direct reads and mapped ones exclude each other.
    let (direct, mapped) = draw.of(&[(false, false), (true, false), (false, true)]);
    let options = draw!(draw, DbOptions, {
        create_if_missing = true,
        create_missing_column_families = true,
        // For nobody: the harness names every family.
        unnamed_families = draw.of(&[ColumnFamilyOptions::default(), ColumnFamilyOptions::default().num_levels(2)]),
        max_background_jobs = draw.of(&[1, 2, 4]),
        max_subcompactions = draw.of(&[1, 1, 2, 3, 8]),
        max_total_wal_size = draw.of(&[0, 4 << 10, 64 << 10]),
        db_write_buffer_size = draw.of(&[0, 0, 16 << 10, 1 << 20]),
        wal_ttl_seconds = draw.of(&[0, 0, 1, 1 << 40]),
        wal_size_limit_mb = draw.of(&[0, 0, 1]),
        // For nobody: the harness has an executor.
        background_niceness = draw.of(&[0, 10]),
        wal_sync_interval_millis = draw.of(&[0, 5]),
        bytes_per_sync = draw.of(&[0, 512, 1 << 20]),
        wal_bytes_per_sync = draw.of(&[0, 512]),
        use_direct_reads = direct,
        use_direct_io_for_flush_and_compaction = draw.of(&[false, true]),
        allow_mmap_reads = mapped,
        compaction_readahead_size = draw.of(&[0, 4096, 2 << 20]),
        write_admission = draw.of(&[WriteAdmission::Paced, WriteAdmission::Rocksdb]),
        delayed_write_rate = draw.of(&[1024, 1 << 20, 16 << 20]),
        strict_bytes_per_sync = draw.of(&[false, true]),
        rate_limiter_bytes_per_sec = draw.of(&[0, 64 << 10, 10 << 20]),
        rate_limiter_refill_period_us = draw.of(&[1, 100_000]),
        rate_limiter_fairness = draw.of(&[4, 10]),
        rate_limiter_mode =
            draw.of(&[RateLimiterMode::WritesOnly, RateLimiterMode::ReadsOnly, RateLimiterMode::AllIo]),
        rate_limiter_auto_tuned = draw.of(&[false, true]),
        drain_when_read_only_seconds = draw.of(&[0, 1, 10]),
        cache_rewritten_blocks = draw.of(&[true, false]),
        allocator_trim_threshold = draw.of(&[0, 128 << 10, 1 << 20]),
        charge_memtables_to_block_cache = draw.of(&[false, true]),
        // Nothing here expires.
        max_clock_jump_seconds = draw.of(&[0, 30 * 86_400]),
        concurrent_memtable_write_bytes = draw.of(&[0, 1, 64 << 10]),
        max_write_batch_group_size_bytes = draw.of(&[1 << 10, 1 << 20]),
        max_wal_record_bytes = draw.of(&[1 << 20, 64 << 20]),
        max_manifest_file_size = draw.of(&[1, 500, 4096, 1 << 30]),
        keep_table_format = draw.of(&[true, false]),
        file_checksum = draw.of(&[FileChecksum::None, FileChecksum::Crc32c]),
        db_host_id = draw.of(&["", "a host"]).to_owned(),
        wal_recovery_mode = draw.of(&[
            WalRecoveryMode::TolerateCorruptedTailRecords,
            WalRecoveryMode::AbsoluteConsistency,
            WalRecoveryMode::PointInTime,
            WalRecoveryMode::SkipAnyCorruptedRecords,
        ]),
        block_cache = draw.of(&[None, Some(0), Some(4 << 10), Some(1 << 20)]).map(|bytes| Arc::new(BlockCache::new(bytes))),
        listeners = if draw.of(&[false, true]) { vec![Arc::new(Listener) as Arc<dyn EventListener>] } else { Vec::new() },
    });
    options.env(Some(disk.env())).executor(Some(executor))
}

pub fn column_family(
    draw: &mut Draw,
    comparator: Arc<dyn Comparator>,
    clock: &Arc<ManualClock>,
) -> ColumnFamilyOptions {
    const CODECS: [CompressionType; 5] = [
        CompressionType::None,
        CompressionType::Lz4,
        CompressionType::Zstd,
        CompressionType::Snappy,
        CompressionType::Zlib,
    ];
    let trigger = draw.of(&[1, 2, 4]);
    let prefixes = prefix_extractor(draw);
    let mut table = table(draw);
    if prefixes.is_none() && table.index_type == IndexType::HashSearch {
        table.index_type = IndexType::BinarySearch;
    }
    draw!(draw, ColumnFamilyOptions, {
        comparator = comparator,
        write_buffer_size = draw.of(&[1 << 10, 4 << 10, 64 << 10]),
        max_write_buffer_number = draw.of(&[2, 3, 5]),
        memtable_bloom_bits_per_key = draw.of(&[0, 10]),
        prefix_extractor = prefixes,
        level0_file_num_compaction_trigger = trigger,
        level0_slowdown_writes_trigger = trigger + draw.of(&[2, 20]),
        level0_stop_writes_trigger = trigger + draw.of(&[22, 40]),
        soft_pending_compaction_bytes_limit = draw.of(&[0, 64 << 10, 64 << 30]),
        hard_pending_compaction_bytes_limit = draw.of(&[0, 256 << 30]),
        num_levels = draw.of(&[2, 3, 7]),
        target_file_size_base = draw.of(&[1 << 10, 4 << 10, 64 << 20]),
        target_file_size_multiplier = draw.of(&[1, 2]),
        max_bytes_for_level_base = draw.of(&[4 << 10, 16 << 10, 256 << 20]),
        max_bytes_for_level_multiplier = draw.of(&[2, 4, 10]),
        level_compaction_dynamic_level_bytes = draw.of(&[false, true]),
        level0_sublevels = draw.of(&[false, true]),
        max_compaction_bytes = draw.of(&[0, 8 << 10]),
        compaction_style = draw.of(&[
            CompactionStyle::Leveled,
            CompactionStyle::Leveled,
            CompactionStyle::Universal,
            CompactionStyle::Universal,
            CompactionStyle::Lazy,
            CompactionStyle::Fifo,
        ]),
        compaction_options_universal = universal(draw),
        compaction_options_fifo = fifo(draw),
        // Nothing here is as old.
        ttl = draw.of(&[0, 1 << 40]),
        periodic_compaction_seconds = draw.of(&[0, 0, 1, 1 << 40]),
        read_triggered_bytes = draw.of(&[0, 0, 100, 16 << 10]),
        optimize_filters_for_hits = draw.of(&[false, true]),
        disable_auto_compactions = draw.of(&[false, false, false, true]),
        compression = draw.of(&CODECS),
        compression_per_level = draw.of(&[
            Vec::new(),
            vec![CompressionType::None, CompressionType::None, CompressionType::Lz4],
            vec![CompressionType::Lz4, CompressionType::Zstd],
        ]),
        bottommost_compression = draw.of(&[None, Some(CompressionType::Zstd), Some(CompressionType::Lz4)]),
        zstd_level = draw.of(&[-3, 1, 3]),
        max_dict_bytes = draw.of(&[0, 0, 1 << 10]),
        zstd_max_train_bytes = draw.of(&[0, 16 << 10]),
        max_dict_buffer_bytes = draw.of(&[0, 2 << 10]),
        table_properties_collectors = if draw.of(&[false, true]) {
            let dense = CompactOnDeletions::new(8, 3).expect("a possible window");
            vec![Arc::new(Counts) as Arc<dyn TablePropertiesCollectorFactory>, Arc::new(dense)]
        } else {
            Vec::new()
        },
        compaction_filter = draw.of(&[
            None,
            Some(Arc::new(KeepAll) as Arc<dyn EntryFilter>),
            Some(Arc::new(KeepSlowly(Arc::clone(clock)))),
            Some(Arc::new(KeepSlowly(Arc::clone(clock)))),
            Some(Arc::new(Tidy) as Arc<dyn EntryFilter>),
        ]),
        merge_operator = operator(draw),
        // A family keeps its operator.
        allow_other_merge_operator = false,
        table = table,
    })
}

/// Deletes nothing: what is too much is lost.
fn fifo(draw: &mut Draw) -> FifoCompactionOptions {
    draw!(draw, FifoCompactionOptions, {
        max_table_files_size = draw.of(&[1 << 40, u64::MAX]),
        allow_compaction = draw.of(&[false, true]),
    })
}

fn universal(draw: &mut Draw) -> UniversalCompactionOptions {
    draw!(draw, UniversalCompactionOptions, {
        size_ratio = draw.of(&[0, 1, 50]),
        min_merge_width = draw.of(&[2, 2, 3]),
        max_merge_width = draw.of(&[3, 4, u32::MAX]),
        max_size_amplification_percent = draw.of(&[0, 25, 100, 200]),
        compression_size_percent = draw.of(&[-1, 0, 60]),
        stop_style = draw.of(&[UniversalStopStyle::TotalSize, UniversalStopStyle::SimilarSize]),
        allow_trivial_move = draw.of(&[false, true]),
        incremental = draw.of(&[true, true, false]),
    })
}

/// Joins with a comma, and never merges operands alone.
#[derive(Debug)]
struct OnlyFull(AppendOperator);

impl MergeOperator for OnlyFull {
    fn name(&self) -> &str {
        "only full"
    }

    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure> {
        self.0.full_merge(key, existing, operands)
    }
}

fn operator(draw: &mut Draw) -> Option<Arc<dyn MergeOperator>> {
    let joining = AppendOperator::new(",");
    draw.of(&[None, Some(true), Some(true), Some(false)]).map(|partial| match partial {
        true => Arc::new(joining) as Arc<dyn MergeOperator>,
        false => Arc::new(OnlyFull(joining)),
    })
}

fn table(draw: &mut Draw) -> TableOptions {
    draw!(draw, TableOptions, {
        format_version = draw.of(&[5, 6, 7]),
        block_size = draw.of(&[256, 1024, 4096]),
        block_restart_interval = draw.of(&[1, 2, 16]),
        index_block_restart_interval = draw.of(&[1, 4]),
        data_block_index_type = draw.of(&[DataBlockIndexType::BinarySearch, DataBlockIndexType::BinarySearchAndHash]),
        data_block_hash_table_util_ratio = draw.of(&[0.1, 0.75, 1.0]),
        index_type = draw.of(&[
            IndexType::BinarySearch,
            IndexType::HashSearch,
            IndexType::TwoLevel,
            IndexType::BinarySearchWithFirstKey,
        ]),
        metadata_block_size = draw.of(&[64, 300, 4096]),
        checksum = draw.of(&[
            ChecksumType::None,
            ChecksumType::Crc32c,
            ChecksumType::XxHash,
            ChecksumType::XxHash64,
            ChecksumType::Xxh3,
        ]),
        filter_policy = draw.of(&[
            FilterPolicy::None,
            FilterPolicy::Bloom { bits_per_key: 6.5 },
            FilterPolicy::Bloom { bits_per_key: 20.0 },
            FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 10.0, bloom_before_level: -1 },
            FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 3.0, bloom_before_level: 2 },
        ]),
        whole_key_filtering = draw.of(&[true, true, false]),
        partition_filters = draw.of(&[false, true]),
        pin_filter_partitions = draw.of(&[false, true]),
        upper_level_filter_bits = draw.of(&[0.0, 6.0]),
    })
}

/// Changes of a family's options while it is open: a few at a time, and often the style.
pub fn changes(draw: &mut Draw) -> Vec<(&'static str, String)> {
    const STYLES: [&str; 3] = ["kCompactionStyleLevel", "kCompactionStyleUniversal", "kCompactionStyleFIFO"];
    let mut changes = Vec::new();
    if draw.of(&[true, false]) {
        let style = draw.of(&STYLES);
        changes.push(("compaction_style", style.to_owned()));
        if style == STYLES[1] {
            changes.push(("lazy_leveling", draw.of(&["true", "false"]).to_owned()));
        }
    }
    for _ in 0..draw.of(&[0, 1, 3]) {
        let (name, values): (&str, &[&str]) = draw.of(&[
            ("write_buffer_size", &["1024", "4K", "64K"] as &[&str]),
            ("max_write_buffer_number", &["2", "3", "5"]),
            ("memtable_bloom_bits_per_key", &["0", "10"]),
            ("target_file_size_base", &["1024", "4096", "67108864"]),
            ("target_file_size_multiplier", &["1", "2"]),
            ("max_bytes_for_level_base", &["4096", "16384", "268435456"]),
            ("max_bytes_for_level_multiplier", &["2", "4", "10"]),
            ("level_compaction_dynamic_level_bytes", &["true", "false"]),
            ("level0_sublevels", &["true", "false"]),
            ("max_compaction_bytes", &["0", "8192"]),
            ("compaction_options_universal.size_ratio", &["0", "1", "50"]),
            ("compaction_options_universal.max_size_amplification_percent", &["0", "25", "200"]),
            ("compaction_options_universal", &["{incremental=true;stop_style=kCompactionStopStyleSimilarSize;}"]),
            ("compaction_options_universal.incremental", &["true", "false"]),
            ("compaction_options_fifo.allow_compaction", &["true", "false"]),
            ("ttl", &["0", "1099511627776"]),
            ("periodic_compaction_seconds", &["0", "1", "1099511627776"]),
            ("read_triggered_bytes", &["0", "500"]),
            ("disable_auto_compactions", &["true", "false"]),
            ("compression", &["kNoCompression", "kLZ4Compression", "kZSTD"]),
            ("compression_per_level", &["", "kNoCompression:kLZ4Compression"]),
            ("bottommost_compression", &["kDisableCompressionOption", "kZSTD"]),
            ("zstd_level", &["1", "3"]),
            ("block_size", &["256", "1K", "4096"]),
            ("block_based_table_factory", &["{block_size=512;block_restart_interval=2;}", "{checksum=kXXH3;}"]),
            ("block_based_table_factory.format_version", &["5", "6", "7"]),
            ("index_type", &["kBinarySearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey"]),
            ("data_block_index_type", &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"]),
            ("filter_policy", &["nullptr", "bloomfilter:10:false", "ribbonfilter:10:0"]),
            ("whole_key_filtering", &["true", "false"]),
            ("partition_filters", &["true", "false"]),
        ]);
        changes.push((name, draw.of(values).to_owned()));
    }
    if draw.of(&[true, false, false]) {
        let trigger = draw.of(&[1, 2, 4]);
        changes.push(("level0_file_num_compaction_trigger", trigger.to_string()));
        changes.push(("level0_slowdown_writes_trigger", (trigger + 2).to_string()));
        changes.push(("level0_stop_writes_trigger", (trigger + draw.of(&[8, 40])).to_string()));
    }
    changes
}

/// Changes of the database's options while it is open.
pub fn database_changes(draw: &mut Draw) -> Vec<(&'static str, String)> {
    let (name, values): (&str, &[&str]) = draw.of(&[
        ("max_background_jobs", &["1", "2", "4"] as &[&str]),
        ("max_subcompactions", &["1", "3"]),
        ("max_total_wal_size", &["0", "4K", "64K"]),
        ("bytes_per_sync", &["0", "512", "1M"]),
        ("wal_bytes_per_sync", &["0", "512"]),
        ("compaction_readahead_size", &["0", "4096"]),
        ("delayed_write_rate", &["1024", "16M"]),
        ("write_admission", &["paced", "rocksdb"]),
        ("rate_limiter_bytes_per_sec", &["0", "64K", "10M"]),
    ]);
    vec![(name, draw.of(values).to_owned())]
}

/// Prefixes of keys such as `k012x`: of ten keys and their neighbours, of one and its longer sister, or the key itself.
fn prefix_extractor(draw: &mut Draw) -> Option<Arc<dyn PrefixExtractor>> {
    draw.of(&[
        None,
        Some(Arc::new(FixedPrefix::new(3)) as Arc<dyn PrefixExtractor>),
        Some(Arc::new(FixedPrefix::new(5))),
        Some(Arc::new(CappedPrefix::new(4))),
        Some(Arc::new(NoopPrefix)),
    ])
}

pub fn comparator(draw: &mut Draw) -> Arc<dyn Comparator> {
    if draw.of(&[false, false, true]) { Arc::new(ReverseBytewise) } else { Arc::new(Bytewise) }
}

pub fn read(draw: &mut Draw, snapshot: Option<Snapshot>, bounds: (Option<Vec<u8>>, Option<Vec<u8>>)) -> ReadOptions {
    read_limited(draw, snapshot, bounds, false)
}

/// Options of a read whose walks end with the prefix that they begin in, if `limited`.
pub fn read_limited(
    draw: &mut Draw,
    snapshot: Option<Snapshot>,
    bounds: (Option<Vec<u8>>, Option<Vec<u8>>),
    limited: bool,
) -> ReadOptions {
    draw!(draw, ReadOptions, {
        snapshot = snapshot,
        // Keys here have none; those that have are read only, and tested apart.
        timestamp = None,
        fill_cache = draw.of(&[true, false]),
        verify_checksums = draw.of(&[true, false]),
        // Reading less far than asked is an error of its own, tested elsewhere; here answers are compared.
        read_tier = ReadTier::All,
        iterate_lower_bound = bounds.0,
        iterate_upper_bound = bounds.1,
        prefix_same_as_start = limited,
        total_order_seek = draw.of(&[false, false, true]),
        auto_prefix_mode = draw.of(&[false, true]),
        readahead_size = draw.of(&[0, 512, 64 << 10]),
        expected_entries = draw.of(&[0, 3, 1000]),
    })
}

/// Options of a write, which may go past the WAL if `may_skip_wal`.
pub fn write(draw: &mut Draw, sync: bool, may_skip_wal: bool) -> WriteOptions {
    draw!(draw, WriteOptions, {
        sync = sync,
        // Without a WAL a write may be lost at the next opening; the harness flushes before it reopens or crashes.
        disable_wal = draw.of(&[false, false, false, true]) && may_skip_wal,
        no_slowdown = draw.of(&[false, false, false, true]),
        low_pri = draw.of(&[false, false, true]),
    })
}

pub fn flush(draw: &mut Draw) -> FlushOptions {
    draw!(draw, FlushOptions, {
        wait = draw.of(&[true, true, false]),
    })
}

pub fn compact_range(draw: &mut Draw, force: bool) -> CompactRangeOptions {
    draw!(draw, CompactRangeOptions, {
        force_bottommost = force,
        max_subcompactions = draw.of(&[0, 0, 1, 4]),
    })
}

/// Without a bound that some runs would meet.
pub fn wait_for_compact(draw: &mut Draw) -> WaitForCompactOptions {
    draw!(draw, WaitForCompactOptions, {
        abort_on_pause = draw.of(&[false, true]),
        flush = draw.of(&[false, true]),
        timeout = draw.of(&[None, Some(Duration::from_secs(1 << 20))]),
    })
}

/// The names of all options that the functions above draw.
pub fn names_drawn() -> BTreeSet<String> {
    let mut draw = Draw::new(1);
    let disk = SimDisk::new();
    let clock = Arc::new(ManualClock::new(0));
    let executor = Arc::new(siltstone_base::executor::StepExecutor::new(Arc::clone(&clock)));
    let draw = &mut draw;
    let _ = database(draw, &disk, executor);
    let order = comparator(draw);
    let _ = column_family(draw, order, &clock);
    let _ = read(draw, None, (None, None));
    let _ = write(draw, false, true);
    let _ = flush(draw);
    let _ = compact_range(draw, false);
    let _ = wait_for_compact(draw);
    std::mem::take(&mut draw.names)
}

/// The names of all public options.
pub fn all_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    let mut add = |of: &str, list: &[&str]| {
        names.extend(list.iter().map(|name| &*Box::leak(format!("{of}.{name}").into_boxed_str())));
    };
    add("DbOptions", DbOptions::NAMES);
    add("ColumnFamilyOptions", ColumnFamilyOptions::NAMES);
    add("UniversalCompactionOptions", UniversalCompactionOptions::NAMES);
    add("FifoCompactionOptions", FifoCompactionOptions::NAMES);
    add("TableOptions", TableOptions::NAMES);
    add("ReadOptions", ReadOptions::NAMES);
    add("WriteOptions", WriteOptions::NAMES);
    add("FlushOptions", FlushOptions::NAMES);
    add("CompactRangeOptions", CompactRangeOptions::NAMES);
    add("WaitForCompactOptions", WaitForCompactOptions::NAMES);
    names
}
