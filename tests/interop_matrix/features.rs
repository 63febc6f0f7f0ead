//! The rows of the matrix: a feature of the format, and how each engine is told to write it.

use crate::interop_tools::Script;
use siltstone::lsm::{
    CappedPrefix, ChecksumType, ColumnFamilyOptions, CompactionStyle, CompressionType, DataBlockIndexType,
    FifoCompactionOptions, FilterPolicy, FixedPrefix, IndexType, TableOptions, UInt64AddOperator,
    UniversalCompactionOptions,
};
use std::sync::Arc;

/// Changes the options of this engine.
pub type Tell = fn(ColumnFamilyOptions) -> ColumnFamilyOptions;

/// A feature.
#[derive(Debug)]
pub struct Feature {
    /// What it is a choice of.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// RocksDB's options by name and value, as they stand in OPTIONS.
    pub rocksdb: &'static [(&'static str, &'static str)],
    /// How this engine writes it, or why it does not.
    pub ours: Result<Tell, &'static str>,
    /// Why this engine does not read it, if so.
    pub unread: Option<&'static str>,
    /// Why 7.8.3 has no part in it, if so.
    pub not_in_7: Option<&'static str>,
    /// Why 9.8.4 has no part in it, if so.
    pub not_in_9: Option<&'static str>,
    /// The version of the tables that this engine writes beside RocksDB 7.8.3; beside 9.8.4 it is 6 where the feature does not say.
    pub format_version: Option<u32>,
    /// Bytes that stand in a table that has the feature.
    pub evidence: &'static [u8],
    /// What the independent reader says of a table that has it.
    pub said: &'static str,
    /// The script of a turn, from its seed.
    pub script: fn(u64) -> Script,
    /// What `db_bench` of 7.8.3 is told, beside the options.
    pub bench: &'static [&'static str],
    /// Why 9.8.4 cannot write it, though it can read it, if so.
    pub unwritten_by_9: Option<&'static str>,
}

/// Writes of a turn.
const WRITES: usize = 240;

const PLAIN: Feature = Feature {
    group: "",
    name: "",
    rocksdb: &[],
    ours: Ok(|options| options),
    unread: None,
    not_in_7: None,
    not_in_9: None,
    format_version: None,
    evidence: b"",
    said: "",
    script: |seed| Script::new(seed, &["default"], WRITES),
    bench: &[],
    unwritten_by_9: None,
};

const fn codec(name: &'static str, rocksdb: &'static [(&'static str, &'static str)], ours: Tell) -> Feature {
    Feature { group: "codec", name, rocksdb, ours: Ok(ours), ..PLAIN }
}

const fn checksum(name: &'static str, rocksdb: &'static [(&'static str, &'static str)], ours: Tell) -> Feature {
    Feature { group: "checksum", name, rocksdb, ours: Ok(ours), ..PLAIN }
}

fn with_table(options: ColumnFamilyOptions, change: fn(TableOptions) -> TableOptions) -> ColumnFamilyOptions {
    let table = change(options.table.clone());
    options.table(table)
}

const RIBBON: FilterPolicy = FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 10.0, bloom_before_level: -1 };

const ONLY_11: &str = "only RocksDB 11 has it";

const OLD_VERSION: &str = "new tables have format_version 5 to 7";

/// All rows.
pub const FEATURES: &[Feature] = &[
    codec("none", &[("compression", "kNoCompression")], |options| options.compression(CompressionType::None)),
    Feature {
        evidence: b"LZ4",
        ..codec("LZ4", &[("compression", "kLZ4Compression")], |options| options.compression(CompressionType::Lz4))
    },
    Feature {
        evidence: b"ZSTD",
        ..codec("Zstd", &[("compression", "kZSTD")], |options| options.compression(CompressionType::Zstd))
    },
    Feature {
        evidence: b"rocksdb.compression_dict",
        ..codec(
            "Zstd with dictionaries",
            &[("compression", "kZSTD"), ("max_dict_bytes", "4096"), ("zstd_max_train_bytes", "65536")],
            |options| options.compression(CompressionType::Zstd).max_dict_bytes(4096).zstd_max_train_bytes(65536),
        )
    },
    Feature {
        evidence: b"rocksdb.compression_dict",
        ..codec("LZ4 with dictionaries", &[("compression", "kLZ4Compression"), ("max_dict_bytes", "4096")], |options| {
            options.compression(CompressionType::Lz4).max_dict_bytes(4096)
        })
    },
    Feature {
        evidence: b"LZ4HC",
        ..codec("LZ4HC", &[("compression", "kLZ4HCCompression")], |options| options.compression(CompressionType::Lz4hc))
    },
    Feature {
        evidence: b"Snappy",
        ..codec("Snappy", &[("compression", "kSnappyCompression")], |options| {
            options.compression(CompressionType::Snappy)
        })
    },
    Feature {
        group: "codec",
        name: "zlib",
        rocksdb: &[("compression", "kZlibCompression")],
        ours: Ok(|options| options.compression(CompressionType::Zlib)),
        not_in_9: Some("9.8.4 as packaged has no zlib"),
        evidence: b"Zlib",
        ..PLAIN
    },
    Feature {
        group: "codec",
        name: "bzip2",
        rocksdb: &[("compression", "kBZip2Compression")],
        ours: Err("bzip2 is not written"),
        evidence: b"BZip2",
        ..PLAIN
    },
    checksum("none", &[("checksum", "kNoChecksum")], |options| {
        with_table(options, |table| table.checksum(ChecksumType::None))
    }),
    checksum("CRC32c", &[("checksum", "kCRC32c")], |options| {
        with_table(options, |table| table.checksum(ChecksumType::Crc32c))
    }),
    checksum("XXH32", &[("checksum", "kxxHash")], |options| {
        with_table(options, |table| table.checksum(ChecksumType::XxHash))
    }),
    checksum("XXH64", &[("checksum", "kxxHash64")], |options| {
        with_table(options, |table| table.checksum(ChecksumType::XxHash64))
    }),
    checksum("XXH3", &[("checksum", "kXXH3")], |options| {
        with_table(options, |table| table.checksum(ChecksumType::Xxh3))
    }),
    Feature { group: "index", name: "binary search", rocksdb: &[("index_type", "kBinarySearch")], ..PLAIN },
    Feature {
        group: "index",
        name: "full keys apart",
        rocksdb: &[("index_block_restart_interval", "8")],
        ours: Ok(|options| with_table(options, |table| table.index_block_restart_interval(8))),
        ..PLAIN
    },
    Feature {
        group: "index",
        name: "two levels",
        rocksdb: &[("index_type", "kTwoLevelIndexSearch"), ("metadata_block_size", "512")],
        ours: Ok(|options| with_table(options, |table| table.index_type(IndexType::TwoLevel).metadata_block_size(512))),
        ..PLAIN
    },
    Feature {
        group: "index",
        name: "hash",
        // RocksDB's gets find no key without a prefix there.
        rocksdb: &[("index_type", "kHashSearch"), ("prefix_extractor", "rocksdb.CappedPrefix.8")],
        ours: Ok(|options| {
            let options = options.prefix_extractor(Some(Arc::new(CappedPrefix::new(8))));
            with_table(options, |table| table.index_type(IndexType::HashSearch))
        }),
        evidence: b"rocksdb.hashindex.prefixes",
        ..PLAIN
    },
    Feature {
        group: "index",
        name: "first keys",
        rocksdb: &[("index_type", "kBinarySearchWithFirstKey")],
        ours: Ok(|options| with_table(options, |table| table.index_type(IndexType::BinarySearchWithFirstKey))),
        ..PLAIN
    },
    Feature {
        group: "data blocks",
        name: "hash index",
        rocksdb: &[("data_block_index_type", "kDataBlockBinaryAndHash")],
        ours: Ok(|options| {
            with_table(options, |table| table.data_block_index_type(DataBlockIndexType::BinarySearchAndHash))
        }),
        ..PLAIN
    },
    Feature {
        group: "data blocks",
        name: "values apart",
        rocksdb: &[("separate_key_value_in_data_block", "true"), ("format_version", "7")],
        ours: Err("values are not written apart"),
        not_in_7: Some(ONLY_11),
        not_in_9: Some(ONLY_11),
        evidence: b"separate.key.value.in.data.block",
        said: "apart=True",
        ..PLAIN
    },
    Feature {
        group: "data blocks",
        name: "values apart, hash index",
        rocksdb: &[
            ("separate_key_value_in_data_block", "true"),
            ("format_version", "7"),
            ("data_block_index_type", "kDataBlockBinaryAndHash"),
            ("index_block_restart_interval", "4"),
            ("block_restart_interval", "3"),
        ],
        ours: Err("values are not written apart"),
        not_in_7: Some(ONLY_11),
        not_in_9: Some(ONLY_11),
        evidence: b"separate.key.value.in.data.block",
        said: "apart=True",
        ..PLAIN
    },
    Feature { group: "filter", name: "none", rocksdb: &[("filter_policy", "nullptr")], ..PLAIN },
    Feature {
        group: "filter",
        name: "bloom",
        rocksdb: &[("filter_policy", "bloomfilter:10:false")],
        ours: Ok(|options| with_table(options, |table| table.bloom_bits_per_key(10.0))),
        evidence: b"fullfilter.rocksdb.BuiltinBloomFilter",
        ..PLAIN
    },
    Feature {
        group: "filter",
        name: "ribbon",
        rocksdb: &[("filter_policy", "ribbonfilter:10:-1")],
        ours: Ok(|options| with_table(options, |table| table.filter_policy(RIBBON))),
        said: "'ribbon'",
        // For fewer keys bloom filters are smaller.
        script: |seed| Script::new(seed, &["default"], 3_000),
        bench: &["--num=3000"],
        ..PLAIN
    },
    Feature {
        group: "filter",
        name: "partitioned",
        rocksdb: &[
            ("filter_policy", "bloomfilter:10:false"),
            ("partition_filters", "true"),
            ("index_type", "kTwoLevelIndexSearch"),
            ("metadata_block_size", "512"),
        ],
        ours: Ok(|options| {
            with_table(options, |table| {
                table
                    .bloom_bits_per_key(10.0)
                    .partition_filters(true)
                    .index_type(IndexType::TwoLevel)
                    .metadata_block_size(512)
            })
        }),
        evidence: b"partitionedfilter.rocksdb.BuiltinBloomFilter",
        ..PLAIN
    },
    Feature {
        group: "filter",
        name: "prefixes only",
        rocksdb: &[
            ("filter_policy", "bloomfilter:10:false"),
            ("prefix_extractor", "rocksdb.FixedPrefix.8"),
            ("whole_key_filtering", "false"),
        ],
        ours: Ok(|options| {
            let options = options.prefix_extractor(Some(Arc::new(FixedPrefix::new(8))));
            with_table(options, |table| table.bloom_bits_per_key(10.0).whole_key_filtering(false))
        }),
        evidence: b"rocksdb.FixedPrefix.8",
        said: "'prefixes'",
        ..PLAIN
    },
    Feature {
        group: "filter",
        name: "keys and prefixes, partitioned",
        rocksdb: &[
            ("filter_policy", "bloomfilter:10:false"),
            ("prefix_extractor", "rocksdb.CappedPrefix.6"),
            ("partition_filters", "true"),
            ("index_type", "kTwoLevelIndexSearch"),
            ("metadata_block_size", "512"),
        ],
        ours: Ok(|options| {
            let options = options.prefix_extractor(Some(Arc::new(CappedPrefix::new(6))));
            with_table(options, |table| {
                table
                    .bloom_bits_per_key(10.0)
                    .partition_filters(true)
                    .index_type(IndexType::TwoLevel)
                    .metadata_block_size(512)
            })
        }),
        evidence: b"rocksdb.CappedPrefix.6",
        said: "'prefixes'",
        ..PLAIN
    },
    Feature {
        group: "entries",
        name: "range tombstones",
        // A compaction to the last level would end the tombstones.
        ours: Ok(|options| options.disable_auto_compactions(true)),
        evidence: b"rocksdb.range_del",
        script: |seed| Script::with_ranges(seed, &["default"], 2 * WRITES).ending_with_a_range(),
        bench: &["--writes_per_range_tombstone=50", "--range_tombstone_width=20", "--max_num_range_tombstones=20"],
        ..PLAIN
    },
    Feature {
        group: "entries",
        name: "merges",
        rocksdb: &[("merge_operator", "uint64add")],
        ours: Ok(|options| options.merge_operator(Some(Arc::new(UInt64AddOperator)))),
        evidence: b"UInt64AddOperator",
        script: |seed| Script::with_merges(seed, WRITES),
        bench: &["--benchmarks=mergerandom,flush,mergerandom", "--value_size=8", "--merge_operator=uint64add"],
        unwritten_by_9: Some("rocksdict has no call for merges"),
        ..PLAIN
    },
    Feature {
        group: "format_version",
        name: "2",
        rocksdb: &[("format_version", "2")],
        ours: Err(OLD_VERSION),
        ..PLAIN
    },
    Feature {
        group: "format_version",
        name: "3",
        rocksdb: &[("format_version", "3")],
        ours: Err(OLD_VERSION),
        ..PLAIN
    },
    Feature {
        group: "format_version",
        name: "4",
        rocksdb: &[("format_version", "4")],
        ours: Err(OLD_VERSION),
        ..PLAIN
    },
    Feature {
        group: "format_version",
        name: "5",
        rocksdb: &[("format_version", "5")],
        format_version: Some(5),
        ..PLAIN
    },
    Feature {
        group: "format_version",
        name: "6",
        rocksdb: &[("format_version", "6")],
        format_version: Some(6),
        not_in_7: Some("7.8.3 knows versions up to 5"),
        ..PLAIN
    },
    Feature {
        group: "format_version",
        name: "7",
        rocksdb: &[("format_version", "7")],
        format_version: Some(7),
        not_in_7: Some("7.8.3 knows versions up to 5"),
        not_in_9: Some("9.8.4 knows versions up to 6"),
        ..PLAIN
    },
    Feature {
        group: "tree",
        name: "codecs by level",
        rocksdb: &[("compression_per_level", "kNoCompression:kLZ4Compression"), ("bottommost_compression", "kZSTD")],
        ours: Ok(|options| {
            options
                .compression_per_level(vec![CompressionType::None, CompressionType::Lz4])
                .bottommost_compression(Some(CompressionType::Zstd))
        }),
        ..PLAIN
    },
    Feature {
        group: "tree",
        name: "small tables in several levels",
        rocksdb: &[
            ("target_file_size_base", "8192"),
            ("max_bytes_for_level_base", "16384"),
            ("block_size", "512"),
            ("block_restart_interval", "3"),
        ],
        ours: Ok(|options| {
            let options = options.target_file_size_base(8 << 10).max_bytes_for_level_base(16 << 10);
            with_table(options, |table| table.block_size(512).block_restart_interval(3))
        }),
        ..PLAIN
    },
    Feature {
        group: "tree",
        name: "sublevels",
        rocksdb: &[
            ("level0_file_num_compaction_trigger", "2"),
            ("target_file_size_base", "8192"),
            ("max_bytes_for_level_base", "16384"),
        ],
        ours: Ok(|options| {
            let options = options.level0_sublevels(true).level0_file_num_compaction_trigger(2);
            options.target_file_size_base(8 << 10).max_bytes_for_level_base(16 << 10)
        }),
        ..PLAIN
    },
    Feature {
        group: "tree",
        name: "universal",
        rocksdb: &[
            ("compaction_style", "kCompactionStyleUniversal"),
            ("compaction_options_universal", "{max_size_amplification_percent=100;incremental=true;}"),
            ("target_file_size_base", "8192"),
        ],
        ours: Ok(|options| {
            let universal = UniversalCompactionOptions::default().max_size_amplification_percent(100);
            options
                .compaction_style(CompactionStyle::Universal)
                .compaction_options_universal(universal)
                .target_file_size_base(8 << 10)
        }),
        ..PLAIN
    },
    Feature {
        group: "tree",
        name: "lazy leveling",
        // To RocksDB it is the universal style.
        rocksdb: &[("compaction_style", "kCompactionStyleUniversal"), ("target_file_size_base", "8192")],
        ours: Ok(|options| options.compaction_style(CompactionStyle::Lazy).target_file_size_base(8 << 10)),
        ..PLAIN
    },
    Feature {
        group: "tree",
        name: "FIFO",
        rocksdb: &[
            ("compaction_style", "kCompactionStyleFIFO"),
            ("compaction_options_fifo", "{max_table_files_size=1073741824;allow_compaction=true;}"),
        ],
        ours: Ok(|options| {
            let fifo = FifoCompactionOptions::default().allow_compaction(true);
            options.compaction_style(CompactionStyle::Fifo).compaction_options_fifo(fifo)
        }),
        ..PLAIN
    },
];
