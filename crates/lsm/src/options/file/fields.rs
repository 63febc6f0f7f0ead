//! Which options a file holds, and under which names.

use super::operator;
use super::parts::{self, Part, part};
use super::values::{NOTHING, Taken, Value, id, is_nothing, take};
use crate::merge;
use crate::options::{
    ColumnFamilyOptions, CompactionStyle, DbOptions, FifoCompactionOptions, FilterPolicy, TableOptions,
    UniversalCompactionOptions,
};
use siltstone_base::prefix_extractor;
use std::sync::Arc;

/// One option of a struct `T`.
pub(super) struct Field<T> {
    /// Its name in the file.
    pub(super) name: &'static str,
    /// Whether RocksDB does not know it: then it goes into a comment.
    pub(super) is_own: bool,
    /// Its value as text, given what the file said before; `None` if the file cannot say it.
    pub(super) text: fn(&T, Option<&str>) -> Option<String>,
    /// Takes a value from text.
    pub(super) take: fn(&mut T, &str) -> Taken,
}

/// A field whose name and type are those of the struct.
macro_rules! field {
    ($type:ident . $name:ident) => {
        field!($type . $name, is_own: false)
    };
    (own $type:ident . $name:ident) => {
        field!($type . $name, is_own: true)
    };
    ($type:ident . $name:ident, is_own: $is_own:expr) => {
        Field::<$type> {
            name: stringify!($name),
            is_own: $is_own,
            text: |options, _| Some(options.$name.to_text()),
            take: |options, text| take(&mut options.$name, text),
        }
    };
}

/// Options of the section `DBOptions`.
pub(super) const DATABASE: &[Field<DbOptions>] = &[
    field!(DbOptions.max_background_jobs),
    field!(DbOptions.max_subcompactions),
    field!(DbOptions.max_total_wal_size),
    field!(DbOptions.db_write_buffer_size),
    Field {
        name: "WAL_ttl_seconds",
        is_own: false,
        text: |options, _| Some(options.wal_ttl_seconds.to_text()),
        take: |options, text| take(&mut options.wal_ttl_seconds, text),
    },
    Field {
        name: "WAL_size_limit_MB",
        is_own: false,
        text: |options, _| Some(options.wal_size_limit_mb.to_text()),
        take: |options, text| take(&mut options.wal_size_limit_mb, text),
    },
    field!(DbOptions.bytes_per_sync),
    field!(DbOptions.wal_bytes_per_sync),
    field!(DbOptions.strict_bytes_per_sync),
    field!(DbOptions.use_direct_reads),
    field!(DbOptions.use_direct_io_for_flush_and_compaction),
    field!(DbOptions.allow_mmap_reads),
    field!(DbOptions.compaction_readahead_size),
    field!(DbOptions.delayed_write_rate),
    field!(DbOptions.max_write_batch_group_size_bytes),
    field!(DbOptions.max_manifest_file_size),
    field!(DbOptions.wal_recovery_mode),
    field!(own DbOptions.write_admission),
    field!(own DbOptions.wal_sync_interval_millis),
    field!(own DbOptions.background_niceness),
    field!(own DbOptions.rate_limiter_bytes_per_sec),
    field!(own DbOptions.rate_limiter_refill_period_us),
    field!(own DbOptions.rate_limiter_fairness),
    field!(own DbOptions.rate_limiter_mode),
    field!(own DbOptions.rate_limiter_auto_tuned),
    field!(own DbOptions.drain_when_read_only_seconds),
    field!(own DbOptions.cache_rewritten_blocks),
    field!(own DbOptions.allocator_trim_threshold),
    field!(own DbOptions.charge_memtables_to_block_cache),
    field!(own DbOptions.max_clock_jump_seconds),
    field!(own DbOptions.concurrent_memtable_write_bytes),
    field!(own DbOptions.max_wal_record_bytes),
    Field {
        name: "file_checksum_gen_factory",
        is_own: false,
        text: |options, _| Some(options.file_checksum.to_text()),
        take: |options, text| take(&mut options.file_checksum, text),
    },
];

/// Options of the section `CFOptions`.
pub(super) const FAMILY: &[Field<ColumnFamilyOptions>] = &[
    Field {
        name: "comparator",
        is_own: false,
        text: |options, _| built_in(options.comparator.name()).map(|order| order.name().to_owned()),
        take: |options, text| match built_in(text) {
            Some(order) => {
                options.comparator = order;
                Taken::Yes
            }
            None => Taken::Unknown,
        },
    },
    Field {
        name: "prefix_extractor",
        is_own: false,
        text: |options, _| match &options.prefix_extractor {
            None => Some(NOTHING.to_owned()),
            Some(extractor) => sayable(extractor.name()),
        },
        take: |options, text| match (is_nothing(text), prefix_extractor::by_name(id(text))) {
            (false, None) => Taken::Unknown,
            (_, extractor) => {
                options.prefix_extractor = extractor;
                Taken::Yes
            }
        },
    },
    Field {
        name: "merge_operator",
        is_own: false,
        // Without one, RocksDB may have its own.
        text: |options, _| sayable(&options.merge_operator.as_ref()?.options_text()),
        take: |options, text| match (is_nothing(text), merge::built_in(text)) {
            (false, None) => Taken::Unknown,
            (_, operator) => {
                options.merge_operator = operator;
                Taken::Yes
            }
        },
    },
    Field {
        name: operator::OWN_NAME,
        is_own: true,
        text: |options, _| Some(operator::own_text(options)),
        // It is what opening compares with, and no option.
        take: |_, _| Taken::Yes,
    },
    field!(ColumnFamilyOptions.write_buffer_size),
    field!(ColumnFamilyOptions.max_write_buffer_number),
    field!(ColumnFamilyOptions.level0_file_num_compaction_trigger),
    field!(ColumnFamilyOptions.level0_slowdown_writes_trigger),
    field!(ColumnFamilyOptions.level0_stop_writes_trigger),
    field!(ColumnFamilyOptions.soft_pending_compaction_bytes_limit),
    field!(ColumnFamilyOptions.hard_pending_compaction_bytes_limit),
    field!(ColumnFamilyOptions.num_levels),
    field!(ColumnFamilyOptions.target_file_size_base),
    field!(ColumnFamilyOptions.target_file_size_multiplier),
    field!(ColumnFamilyOptions.max_bytes_for_level_base),
    Field {
        name: "max_bytes_for_level_multiplier",
        is_own: false,
        text: |options, _| Some(format!("{:.6}", options.max_bytes_for_level_multiplier as f64)),
        take: |options, text| match text.parse::<f64>() {
            Ok(number) if number.fract() == 0.0 && (0.0..1e15).contains(&number) => {
                options.max_bytes_for_level_multiplier = number as u64;
                Taken::Yes
            }
            Ok(_) => Taken::Unknown,
            Err(_) => Taken::Malformed,
        },
    },
    field!(ColumnFamilyOptions.level_compaction_dynamic_level_bytes),
    field!(ColumnFamilyOptions.max_compaction_bytes),
    field!(ColumnFamilyOptions.disable_auto_compactions),
    field!(ColumnFamilyOptions.compression),
    field!(ColumnFamilyOptions.compression_per_level),
    field!(ColumnFamilyOptions.bottommost_compression),
    field!(own ColumnFamilyOptions.memtable_bloom_bits_per_key),
    field!(own ColumnFamilyOptions.zstd_level),
    Field {
        name: "compression_opts",
        is_own: false,
        text: |options, before| Some(parts::render(COMPRESSION_PARTS, options, before)),
        take: |options, text| parts::read(COMPRESSION_PARTS, options, text),
    },
    field!(ColumnFamilyOptions.compaction_style),
    Field {
        name: "lazy_leveling",
        is_own: true,
        text: |options, _| Some((options.compaction_style == CompactionStyle::Lazy).to_text()),
        take: |options, text| {
            let mut is_lazy = false;
            let taken = take(&mut is_lazy, text);
            options.compaction_style = match (taken, is_lazy, options.compaction_style) {
                (Taken::Yes, true, CompactionStyle::Universal | CompactionStyle::Lazy) => CompactionStyle::Lazy,
                // Of another style there is nothing that could be lazy.
                (Taken::Yes, true, _) => return Taken::Unknown,
                (Taken::Yes, false, CompactionStyle::Lazy) => CompactionStyle::Universal,
                (_, _, style) => style,
            };
            taken
        },
    },
    field!(ColumnFamilyOptions.ttl),
    field!(ColumnFamilyOptions.periodic_compaction_seconds),
    field!(own ColumnFamilyOptions.read_triggered_bytes),
    field!(ColumnFamilyOptions.optimize_filters_for_hits),
    field!(own ColumnFamilyOptions.level0_sublevels),
    Field {
        name: "compaction_options_fifo",
        is_own: false,
        text: |options, before| Some(parts::render(FIFO_PARTS, &options.compaction_options_fifo, before)),
        take: |options, text| parts::read(FIFO_PARTS, &mut options.compaction_options_fifo, text),
    },
    Field {
        name: "compaction_options_universal",
        is_own: false,
        text: |options, before| Some(parts::render(UNIVERSAL_PARTS, &options.compaction_options_universal, before)),
        take: |options, text| parts::read(UNIVERSAL_PARTS, &mut options.compaction_options_universal, text),
    },
];

/// Options of the section `TableOptions/BlockBasedTable`.
pub(super) const TABLE: &[Field<TableOptions>] = &[
    field!(TableOptions.format_version),
    field!(TableOptions.block_size),
    field!(TableOptions.block_restart_interval),
    field!(TableOptions.index_block_restart_interval),
    field!(TableOptions.index_type),
    field!(TableOptions.metadata_block_size),
    field!(TableOptions.data_block_index_type),
    field!(TableOptions.data_block_hash_table_util_ratio),
    field!(TableOptions.checksum),
    Field {
        name: "filter_policy",
        is_own: false,
        text: |options, _| Some(filter_policy_text(options.filter_policy)),
        take: |options, text| match filter_policy(text) {
            Some(policy) => {
                options.filter_policy = policy;
                Taken::Yes
            }
            None => Taken::Unknown,
        },
    },
    field!(TableOptions.whole_key_filtering),
    field!(TableOptions.partition_filters),
    field!(own TableOptions.pin_filter_partitions),
    field!(own TableOptions.upper_level_filter_bits),
];

/// What this engine has of `compression_opts`.
const COMPRESSION_PARTS: &[Part<ColumnFamilyOptions>] = &[
    part!(ColumnFamilyOptions.max_dict_bytes),
    part!(ColumnFamilyOptions.zstd_max_train_bytes),
    part!(ColumnFamilyOptions.max_dict_buffer_bytes),
];

const FIFO_PARTS: &[Part<FifoCompactionOptions>] =
    &[part!(FifoCompactionOptions.max_table_files_size), part!(FifoCompactionOptions.allow_compaction)];

const UNIVERSAL_PARTS: &[Part<UniversalCompactionOptions>] = &[
    part!(UniversalCompactionOptions.size_ratio),
    part!(UniversalCompactionOptions.min_merge_width),
    part!(UniversalCompactionOptions.max_merge_width),
    part!(UniversalCompactionOptions.max_size_amplification_percent),
    part!(UniversalCompactionOptions.compression_size_percent),
    part!(UniversalCompactionOptions.stop_style),
    part!(UniversalCompactionOptions.allow_trivial_move),
    part!(UniversalCompactionOptions.incremental),
];

/// A part of a value that this engine does not have, of an option `name` whose value has parts.
pub(super) fn unknown_part<'a>(name: &str, text: &'a str) -> Option<&'a str> {
    match name {
        "compression_opts" => parts::unknown(COMPRESSION_PARTS, text),
        "compaction_options_fifo" => parts::unknown(FIFO_PARTS, text),
        "compaction_options_universal" => parts::unknown(UNIVERSAL_PARTS, text),
        _ => None,
    }
}

/// The text, if it says the same when it is read again.
fn sayable(text: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'\\');
    (!text.is_empty() && text.bytes().all(is_plain)).then(|| text.to_owned())
}

fn filter_policy_text(policy: FilterPolicy) -> String {
    match policy {
        FilterPolicy::Bloom { bits_per_key } if bits_per_key > 0.0 => format!("bloomfilter:{bits_per_key}:false"),
        FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: bits, bloom_before_level } => {
            format!("ribbonfilter:{bits}:{bloom_before_level}")
        }
        FilterPolicy::None | FilterPolicy::Bloom { .. } => NOTHING.to_owned(),
    }
}

/// The policy of this name, if it is one that this engine has.
fn filter_policy(text: &str) -> Option<FilterPolicy> {
    if is_nothing(text) {
        return Some(FilterPolicy::None);
    }
    let (name, rest) = id(text).split_once(':')?;
    let mut parts = rest.split(':');
    let bits = parts.next()?.parse::<f64>().ok().filter(|bits| (0.0..=100.0).contains(bits))?;
    match name {
        "bloomfilter" | "rocksdb.internal.FastLocalBloomFilter" | "rocksdb.BuiltinBloomFilter" => {
            Some(FilterPolicy::Bloom { bits_per_key: bits })
        }
        "ribbonfilter" | "rocksdb.internal.Standard128RibbonFilter" => {
            let bloom_before_level = parts.next().map_or(Some(0), |level| level.parse().ok())?;
            Some(FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: bits, bloom_before_level })
        }
        _ => None,
    }
}

/// The order of this name, if RocksDB and this engine both have it.
fn built_in(name: &str) -> Option<Arc<dyn siltstone_base::comparator::Comparator>> {
    siltstone_base::comparator::by_name(name)
}
