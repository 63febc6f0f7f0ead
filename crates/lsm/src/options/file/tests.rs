//! Tests of OPTIONS files: round trips, what is kept, and files that are no options.

use super::*;
use crate::options::{
    ChecksumType, CompactionStyle, CompressionType, FileChecksum, IndexType, UniversalCompactionOptions,
    UniversalStopStyle, WalRecoveryMode,
};
use siltstone_base::ErrorKind;
use siltstone_base::comparator::ReverseBytewise;
use std::sync::Arc;

fn parse(text: &str) -> Result<OptionsFile> {
    OptionsFile::parse(Path::new("/db/OPTIONS-000007"), text.as_bytes())
}

fn load(text: &str) -> Result<LoadedOptions> {
    parse(text)?.load()
}

#[test]
fn what_is_written_is_read_again() {
    let database = DbOptions::default()
        .max_background_jobs(3)
        .use_direct_reads(true)
        .wal_recovery_mode(WalRecoveryMode::AbsoluteConsistency)
        .wal_sync_interval_millis(20)
        .max_wal_record_bytes(1 << 20);
    let table = TableOptions::default()
        .format_version(5)
        .block_size(1000)
        .checksum(ChecksumType::Crc32c)
        .bloom_bits_per_key(9.5);
    let family = ColumnFamilyOptions::default()
        .comparator(Arc::new(ReverseBytewise))
        .num_levels(5)
        .max_bytes_for_level_multiplier(7)
        .compression(CompressionType::Zstd)
        .compression_per_level(vec![CompressionType::None, CompressionType::Lz4])
        .bottommost_compression(Some(CompressionType::Snappy))
        .zstd_level(-3)
        .memtable_bloom_bits_per_key(0)
        .compaction_style(CompactionStyle::Universal)
        .compaction_options_universal(
            UniversalCompactionOptions::default()
                .size_ratio(7)
                .stop_style(UniversalStopStyle::SimilarSize)
                .compression_size_percent(80)
                .incremental(false),
        )
        .table(table);
    let default = ColumnFamilyOptions::default();
    let name = "odd # \\ \n: name\"";
    let text = render(&database, &[(name, &family), ("default", &default)], None);
    let loaded = load(&text).unwrap();
    assert!(loaded.ignored.is_empty(), "{:?}", loaded.ignored);
    assert_eq!(loaded.rocksdb_version.as_deref(), Some("8.6.0"), "the default family writes format 6");
    let names: Vec<&str> = loaded.families.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["default", name]);
    assert_eq!(loaded.named_families()[1].1.table.block_size, 1000);
    let again =
        render(&loaded.database, &loaded.named_families().iter().map(|(n, o)| (*n, o)).collect::<Vec<_>>(), None);
    assert_eq!(again, text);
    assert_eq!(loaded.families[1].1.comparator.name(), "rocksdb.ReverseBytewiseComparator");
}

#[test]
fn fields_are_options_and_have_one_name() {
    fn check<T>(fields: &[Field<T>], names: &[&str], others: &[&str]) {
        for (index, field) in fields.iter().enumerate() {
            assert!(names.contains(&field.name) || others.contains(&field.name), "{}", field.name);
            assert!(fields[..index].iter().all(|other| other.name != field.name), "{}", field.name);
        }
    }
    check(fields::DATABASE, DbOptions::NAMES, &["WAL_size_limit_MB", "WAL_ttl_seconds", "file_checksum_gen_factory"]);
    check(fields::FAMILY, ColumnFamilyOptions::NAMES, &["compression_opts", "lazy_leveling", "merge_operator_name"]);
    check(fields::TABLE, TableOptions::NAMES, &["filter_policy"]);
}

#[test]
fn lazy_leveling_is_the_universal_style_to_rocksdb() {
    let family = |style| ColumnFamilyOptions::default().compaction_style(style);
    let text = |style| render(&DbOptions::default(), &[("default", &family(style))], None);
    let lazy = text(CompactionStyle::Lazy);
    assert!(lazy.contains("\n  compaction_style=kCompactionStyleUniversal\n"), "{lazy}");
    for style in [CompactionStyle::Lazy, CompactionStyle::Universal, CompactionStyle::Leveled, CompactionStyle::Fifo] {
        assert_eq!(load(&text(style)).unwrap().families[0].1.compaction_style, style);
    }
    // Whoever rewrites the file without comments is left with the universal style.
    let comments = lazy.lines().filter(|line| !line.contains("lazy_leveling")).collect::<Vec<_>>().join("\n");
    assert_eq!(load(&comments).unwrap().families[0].1.compaction_style, CompactionStyle::Universal);
    let stray = text(CompactionStyle::Leveled).replace("lazy_leveling=false", "lazy_leveling=true");
    let loaded = load(&stray).unwrap();
    assert_eq!(loaded.families[0].1.compaction_style, CompactionStyle::Leveled);
    assert_eq!(loaded.ignored[0].name, "lazy_leveling");
}

const OF_ROCKSDB: &str = r#"# This is a RocksDB option file.
[Version]
  rocksdb_version=9.8.4
  options_file_version=1.1

[DBOptions]
  max_background_jobs=4  # a comment
  info_log_level=INFO_LEVEL
  db_host_id=a\#b

[CFOptions "default"]
  merge_operator=uint64addoperator
  level0_stop_writes_trigger=-1
  compression=kBZip2Compression
  comparator=my.own
  write_buffer_size=1048576
[TableOptions/BlockBasedTable "default"]
  format_version=4
  checksum=kCRC32c
  filter_policy=my.filter:10
  cache_index_and_filter_blocks=true

[CFOptions "gone"]
[TableOptions/PlainTable "gone"]
  bloom_bits_per_key=10
"#;

#[test]
fn names_that_only_rocksdb_knows_are_reported_and_kept() {
    let file = parse(OF_ROCKSDB).unwrap();
    let loaded = file.load().unwrap();
    assert_eq!(loaded.database.max_background_jobs, 4);
    assert_eq!(loaded.families[0].1.write_buffer_size, 1 << 20);
    assert_eq!(loaded.families[0].1.table.format_version, 4);
    assert_eq!(loaded.families[0].1.table.checksum, ChecksumType::Crc32c);
    let ignored: Vec<(&str, usize)> = loaded.ignored.iter().map(|option| (option.name.as_str(), option.line)).collect();
    let wanted = [
        ("rocksdb_version", 0),
        ("info_log_level", 8),
        ("db_host_id", 9),
        ("merge_operator", 12),
        ("level0_stop_writes_trigger", 13),
        ("compression", 14),
        ("comparator", 15),
        ("filter_policy", 20),
        ("cache_index_and_filter_blocks", 21),
    ];
    assert_eq!(ignored, wanted[1..]);
    assert_eq!(loaded.ignored[1].value, "a\\#b");
    assert_eq!(loaded.ignored[8 - 1].section, "TableOptions/BlockBasedTable \"default\"");

    let default = ColumnFamilyOptions::default();
    let text = render(&DbOptions::default(), &[("default", &default)], Some(&file));
    for line in [
        "rocksdb_version=9.8.4",
        "info_log_level=INFO_LEVEL",
        "db_host_id=a\\#b",
        "merge_operator=uint64addoperator",
        "cache_index_and_filter_blocks=true",
        "max_background_jobs=2",
        "compression=kLZ4Compression",
        "level0_stop_writes_trigger=36",
        "filter_policy=nullptr",
    ] {
        assert!(text.lines().any(|other| other.trim() == line), "{line} in\n{text}");
    }
    assert!(!text.contains("gone"), "{text}");
    let kept = render(&DbOptions::default(), &[("default", &default), ("gone", &default)], Some(&file));
    assert!(kept.contains("[TableOptions/PlainTable \"gone\"]\n  bloom_bits_per_key=10\n"), "{kept}");
    // Nothing is lost or doubled by going through the file again and again.
    let again = render(&DbOptions::default(), &[("default", &default)], Some(&parse(&text).unwrap()));
    assert_eq!(again, text);
}

#[test]
fn filter_policies_are_those_of_rocksdb() {
    use crate::options::FilterPolicy;
    let ribbon = |bits, level| FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: bits, bloom_before_level: level };
    for (text, policy) in [
        ("bloomfilter:9.5:false", FilterPolicy::Bloom { bits_per_key: 9.5 }),
        ("ribbonfilter:10", ribbon(10.0, 0)),
        ("ribbonfilter:10:-1", ribbon(10.0, -1)),
        ("{id=ribbonfilter:12:2;bloom_before_level=2;}", ribbon(12.0, 2)),
        ("nullptr", FilterPolicy::None),
    ] {
        let table = format!("[TableOptions/BlockBasedTable \"default\"]\nfilter_policy={text}\n");
        let loaded = load(&format!("[DBOptions]\n[CFOptions \"default\"]\n{table}")).unwrap();
        assert_eq!(loaded.families[0].1.table.filter_policy, policy, "{text}");
        let written = render(&DbOptions::default(), &[("default", &loaded.families[0].1)], None);
        assert_eq!(load(&written).unwrap().families[0].1.table.filter_policy, policy, "{text}");
    }
}

/// A file with these lines about the default family, and what becomes of them: in the options, and in the next file.
fn of_family(lines: &str, table: &str) -> (ColumnFamilyOptions, Vec<String>, String) {
    let text =
        format!("[DBOptions]\n[CFOptions \"default\"]\n{lines}\n[TableOptions/BlockBasedTable \"default\"]\n{table}\n");
    let file = parse(&text).unwrap();
    let loaded = file.load().unwrap();
    let ignored = loaded.ignored.iter().map(|option| option.name.clone()).collect();
    let next = render(&DbOptions::default(), &[("default", &loaded.families[0].1)], Some(&file));
    (loaded.families[0].1.clone(), ignored, next)
}

#[test]
fn prefix_extractors_are_those_of_rocksdb() {
    for (text, name) in [
        ("rocksdb.FixedPrefix.8", "rocksdb.FixedPrefix.8"),
        ("{id=rocksdb.CappedPrefix.4;length=4;}", "rocksdb.CappedPrefix.4"),
        ("{id=rocksdb.Noop}", "rocksdb.Noop"),
        ("fixed:3", "rocksdb.FixedPrefix.3"),
    ] {
        let (family, ignored, next) = of_family(&format!("prefix_extractor={text}"), "index_type=kHashSearch");
        assert_eq!(family.prefix_extractor.unwrap().name(), name);
        assert_eq!(family.table.index_type, IndexType::HashSearch);
        assert!(ignored.is_empty());
        assert!(next.contains(&format!("  prefix_extractor={name}\n")), "{next}");
        assert!(next.contains("  index_type=kHashSearch\n"), "{next}");
    }
    let (family, ignored, next) = of_family("prefix_extractor=nullptr", "");
    assert!(family.prefix_extractor.is_none() && ignored.is_empty());
    assert!(next.contains("  prefix_extractor=nullptr\n"), "{next}");
    // An extractor that only its program has; without it the index is another one.
    let (family, ignored, next) = of_family("prefix_extractor=my.own", "index_type=kHashSearch");
    assert!(family.prefix_extractor.is_none());
    assert_eq!(family.table.index_type, IndexType::BinarySearch);
    assert_eq!(ignored, ["prefix_extractor"]);
    assert!(next.contains("  prefix_extractor=nullptr\n"), "{next}");
}

#[test]
fn merge_operators_are_those_of_rocksdb() {
    use crate::AppendOperator;
    for (text, written) in [
        ("uint64add", "UInt64AddOperator"),
        ("{id=UInt64AddOperator}", "UInt64AddOperator"),
        ("MaxOperator", "MaxOperator"),
        ("stringappend", "{id=StringAppendOperator;delimiter=,;}"),
        ("{id=StringAppendOperator;delimiter=|;}", "{id=StringAppendOperator;delimiter=|;}"),
        ("{id=StringAppendOperator;delimiter=;}", "{id=StringAppendOperator;delimiter=;}"),
    ] {
        let (family, ignored, next) = of_family(&format!("merge_operator={text}"), "");
        assert_eq!(family.merge_operator.unwrap().options_text(), written);
        assert!(ignored.is_empty());
        assert!(next.contains(&format!("  merge_operator={written}\n")), "{next}");
    }
    let with = |operator: AppendOperator| {
        let family = ColumnFamilyOptions::default().merge_operator(Some(Arc::new(operator)));
        render(&DbOptions::default(), &[("default", &family)], None)
    };
    assert!(with(AppendOperator::new(",").named("my.own")).contains("  merge_operator=my.own\n"));
    assert!(!with(AppendOperator::new(";")).contains(" merge_operator="), "a delimiter that the file cannot say");
    let (family, ignored, next) = of_family("merge_operator=my.own", "");
    assert!(family.merge_operator.is_none());
    assert_eq!(ignored, ["merge_operator"]);
    assert!(next.contains("  merge_operator=my.own\n"), "the program that made it has it still: {next}");
}

#[test]
fn numbers_within_compression_options_are_replaced() {
    let before = "compression_opts={level=32767;max_dict_bytes=4096;parallel_threads=2;enabled=false;}";
    let (family, ignored, next) = of_family(before, "");
    assert_eq!((family.max_dict_bytes, family.zstd_max_train_bytes), (4096, 0));
    assert!(ignored.is_empty());
    let others = "level=32767;parallel_threads=2;enabled=false;";
    let own = "max_dict_bytes=4096;zstd_max_train_bytes=0;max_dict_buffer_bytes=0;";
    assert!(next.contains(&format!("  compression_opts={{{others}{own}}}\n")), "{next}");
    let (family, ignored, _) = of_family("compression_opts=-14:32767:0:16384:0:0", "");
    assert_eq!((family.max_dict_bytes, ignored), (0, vec!["compression_opts".to_owned()]));
}

#[test]
fn the_checksum_of_files_is_that_of_rocksdb() {
    let database = DbOptions::default().file_checksum(FileChecksum::Crc32c);
    let text = render(&database, &[("default", &ColumnFamilyOptions::default())], None);
    assert!(text.contains("  file_checksum_gen_factory=FileChecksumGenCrc32cFactory\n"), "{text}");
    assert_eq!(load(&text).unwrap().database.file_checksum, FileChecksum::Crc32c);
}

#[test]
fn what_rocksdb_derived_goes_with_what_it_came_from() {
    let file =
        parse("[DBOptions]\n[CFOptions \"default\"]\narena_block_size=131072\nwrite_buffer_size=1048576\n").unwrap();
    let text = |bytes: usize| {
        let family = ColumnFamilyOptions::default().write_buffer_size(bytes);
        render(&DbOptions::default(), &[("default", &family)], Some(&file))
    };
    assert!(text(1 << 20).contains("arena_block_size=131072"));
    assert!(!text(1 << 16).contains("arena_block_size"));
}

#[test]
fn damage_is_told_by_line() {
    let refused = |text: &str| {
        let error = load(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{text}");
        assert_eq!(error.file(), Some(Path::new("/db/OPTIONS-000007")));
        assert!(error.offset().is_some());
        error.message().to_owned()
    };
    let of_default = |line: &str| refused(&format!("[DBOptions]\n{line}\n[CFOptions \"default\"]\n"));
    assert_eq!(refused(""), "the OPTIONS file has no section DBOptions");
    assert_eq!(refused("[DBOptions]"), "the OPTIONS file has no section CFOptions \"default\"");
    assert_eq!(refused("[CFOptions \"default\"]\n[DBOptions]"), "a family comes before DBOptions in the OPTIONS file");
    assert_eq!(
        refused("[DBOptions]\n[CFOptions \"x\"]\n[CFOptions \"default\"]"),
        "the first family of the OPTIONS file is not default"
    );
    assert_eq!(
        refused("[DBOptions]\n[CFOptions \"default\"]\n[CFOptions]"),
        "a section CFOptions without a name in the OPTIONS file"
    );
    assert_eq!(of_default("nothing"), "line 2: neither a section nor an option");
    assert_eq!(of_default("=1"), "line 2: an option without a name");
    assert_eq!(of_default("[half"), "line 2: a section without its closing bracket");
    assert_eq!(of_default("[CFOptions \"half]"), "line 2: a section whose name has no closing quote");
    assert_eq!(of_default("[DBOptions]"), "line 2: a section that is there twice");
    assert_eq!(of_default("max_background_jobs=many"), "line 2: malformed value of max_background_jobs");
    assert_eq!(of_default("# siltstone.max_wal_record_bytes=x"), "line 2: malformed value of max_wal_record_bytes");
    assert_eq!(of_default("use_direct_reads=maybe"), "line 2: malformed value of use_direct_reads");
    assert_eq!(refused("a=b"), "line 1: an option before the first section");
    let error = OptionsFile::parse(Path::new("o"), b"[DBOptions]\n\xff").unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(12)));
}

#[test]
fn no_bytes_make_reading_panic() {
    let text =
        render(&DbOptions::default(), &[("default", &ColumnFamilyOptions::default())], parse(OF_ROCKSDB).ok().as_ref());
    for source in [OF_ROCKSDB.as_bytes(), text.as_bytes()] {
        for cut in 0..source.len() {
            let _ = OptionsFile::parse(Path::new("o"), &source[..cut]).and_then(|file| file.load());
        }
        for at in 0..source.len() {
            for byte in [0, b'\n', b'=', b'[', b']', b'"', b'#', b'\\', 0xff] {
                let mut bytes = source.to_vec();
                bytes[at] = byte;
                let _ = OptionsFile::parse(Path::new("o"), &bytes).and_then(|file| file.load());
            }
        }
    }
}

#[test]
fn parts_that_only_rocksdb_knows_stay() {
    let text = |universal: &str| {
        format!(
            "[DBOptions]\n[CFOptions \"default\"]\n  compaction_style=kCompactionStyleUniversal\n  compaction_options_universal={universal}\n"
        )
    };
    let file = parse(&text("{size_ratio=3;max_read_amp=-1;stop_style=kCompactionStopStyleSimilarSize;}")).unwrap();
    let family = &file.load().unwrap().families[0].1;
    assert_eq!(family.compaction_style, CompactionStyle::Universal);
    assert_eq!(family.compaction_options_universal.size_ratio, 3);
    assert_eq!(family.compaction_options_universal.stop_style, UniversalStopStyle::SimilarSize);
    let written = render(&DbOptions::default(), &[("default", family)], Some(&file));
    assert!(written.contains("  compaction_options_universal={max_read_amp=-1;size_ratio=3;"), "{written}");
    let error = parse(&text("{size_ratio=many;}")).unwrap().load().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}
