//! Tests of the bounds of options.

use super::*;
use siltstone_base::ErrorKind;

fn refused(result: siltstone_base::Result<()>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    error.message().to_owned()
}

#[test]
fn defaults_are_valid() {
    DbOptions::default().validate().unwrap();
    ColumnFamilyOptions::default().validate().unwrap();
    TableOptions::default().validate().unwrap();
}

#[test]
fn bounds_of_the_database_are_checked() {
    let refused = |options: DbOptions| refused(options.validate());
    let options = DbOptions::default;
    assert_eq!(refused(options().max_background_jobs(0)), "max_background_jobs: 0 is less than 1");
    assert_eq!(refused(options().background_niceness(20)), "background_niceness: 20 is not within 0 and 19");
    assert_eq!(refused(options().delayed_write_rate(1023)), "delayed_write_rate: 1023 is less than 1024");
    assert_eq!(
        refused(options().max_write_batch_group_size_bytes(0)),
        "max_write_batch_group_size_bytes: 0 is less than 1"
    );
    assert_eq!(
        refused(options().max_wal_record_bytes((4 << 30) + 1)),
        "max_wal_record_bytes: 4294967297 is not within 1024 and 4294967296"
    );
    assert_eq!(refused(options().max_manifest_file_size(0)), "max_manifest_file_size: 0 is less than 1");
    assert_eq!(refused(options().rate_limiter_fairness(3)), "rate_limiter_fairness: 3 is less than 4");
    assert_eq!(refused(options().rate_limiter_refill_period_us(0)), "rate_limiter_refill_period_us: 0 is less than 1");
    assert_eq!(
        refused(options().allow_mmap_reads(true).use_direct_reads(true)),
        "allow_mmap_reads: not together with use_direct_reads"
    );
    options().delayed_write_rate(1024).max_wal_record_bytes(4 << 30).validate().unwrap();
}

#[test]
fn bounds_of_families_are_checked() {
    let refused = |options: ColumnFamilyOptions| refused(options.validate());
    let options = ColumnFamilyOptions::default;
    assert_eq!(refused(options().write_buffer_size(1023)), "write_buffer_size: 1023 is less than 1024");
    assert_eq!(refused(options().max_write_buffer_number(1)), "max_write_buffer_number: 1 is less than 2");
    assert_eq!(refused(options().num_levels(1)), "num_levels: 1 is not within 2 and 64");
    assert_eq!(refused(options().num_levels(65)), "num_levels: 65 is not within 2 and 64");
    assert_eq!(
        refused(options().level0_file_num_compaction_trigger(0)),
        "level0_file_num_compaction_trigger: 0 is less than 1"
    );
    assert_eq!(
        refused(options().level0_slowdown_writes_trigger(3)),
        "level0_slowdown_writes_trigger: 3 is less than 4"
    );
    assert_eq!(refused(options().level0_stop_writes_trigger(19)), "level0_stop_writes_trigger: 19 is less than 20");
    assert_eq!(
        refused(options().hard_pending_compaction_bytes_limit(7).soft_pending_compaction_bytes_limit(8)),
        "hard_pending_compaction_bytes_limit: 7 is less than 8"
    );
    assert_eq!(refused(options().target_file_size_base(0)), "target_file_size_base: 0 is less than 1");
    assert_eq!(refused(options().target_file_size_multiplier(0)), "target_file_size_multiplier: 0 is less than 1");
    assert_eq!(refused(options().max_bytes_for_level_base(0)), "max_bytes_for_level_base: 0 is less than 1");
    assert_eq!(
        refused(options().max_bytes_for_level_multiplier(1)),
        "max_bytes_for_level_multiplier: 1 is less than 2"
    );
    assert_eq!(refused(options().zstd_level(23)), "zstd_level: 23 is not within -7 and 22");
    assert_eq!(
        refused(options().max_dict_bytes((16 << 20) + 1)),
        "max_dict_bytes: 16777217 is not within 0 and 16777216"
    );
    assert_eq!(
        refused(options().zstd_max_train_bytes((256 << 20) + 1)),
        "zstd_max_train_bytes: 268435457 is not within 0 and 268435456"
    );
    let universal = |change: fn(UniversalCompactionOptions) -> UniversalCompactionOptions| {
        refused(options().compaction_options_universal(change(UniversalCompactionOptions::default())))
    };
    assert_eq!(universal(|options| options.min_merge_width(1)), "min_merge_width: 1 is less than 2");
    assert_eq!(universal(|options| options.min_merge_width(4).max_merge_width(3)), "max_merge_width: 3 is less than 4");
    assert_eq!(
        universal(|options| options.compression_size_percent(101)),
        "compression_size_percent: 101 is not within -2147483648 and 100"
    );
    assert_eq!(refused(options().zstd_level(-8)), "zstd_level: -8 is not within -7 and 22");
    let table = TableOptions::default().block_size(255);
    assert_eq!(refused(options().table(table)), "block_size: 255 is not within 256 and 16777216");
    options().hard_pending_compaction_bytes_limit(0).num_levels(64).zstd_level(-7).validate().unwrap();
}

#[test]
fn bounds_of_tables_are_checked() {
    let refused = |options: TableOptions| refused(options.validate());
    let options = TableOptions::default;
    assert_eq!(refused(options().format_version(4)), "format_version: 4 is not within 5 and 7");
    assert_eq!(refused(options().format_version(8)), "format_version: 8 is not within 5 and 7");
    assert_eq!(refused(options().block_size((16 << 20) + 1)), "block_size: 16777217 is not within 256 and 16777216");
    assert_eq!(refused(options().block_restart_interval(0)), "block_restart_interval: 0 is not within 1 and 256");
    assert_eq!(
        refused(options().index_block_restart_interval(257)),
        "index_block_restart_interval: 257 is not within 1 and 256"
    );
    assert_eq!(
        refused(options().data_block_hash_table_util_ratio(0.0)),
        "data_block_hash_table_util_ratio: 0 is not within 0.1 and 1"
    );
    assert_eq!(refused(options().metadata_block_size(63)), "metadata_block_size: 63 is not within 64 and 16777216");
    let hash = ColumnFamilyOptions::default().table(options().index_type(IndexType::HashSearch));
    assert_eq!(self::refused(hash.validate()), "index_type: a hash index needs a prefix_extractor");
    hash.prefix_extractor(Some(std::sync::Arc::new(crate::FixedPrefix::new(4)))).validate().unwrap();
    assert_eq!(refused(options().bloom_bits_per_key(-1.0)), "bits_per_key: -1 is not within 0 and 100");
    assert_eq!(refused(options().bloom_bits_per_key(f64::NAN)), "bits_per_key: NaN is not within 0 and 100");
    let ribbon = FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 100.5, bloom_before_level: 0 };
    assert_eq!(
        refused(options().filter_policy(ribbon)),
        "bloom_equivalent_bits_per_key: 100.5 is not within 0 and 100"
    );
    options().block_size(256).bloom_bits_per_key(100.0).validate().unwrap();
}

#[test]
fn codecs_that_are_not_written_are_refused() {
    for options in [
        ColumnFamilyOptions::default().compression(CompressionType::Bzip2),
        ColumnFamilyOptions::default().compression_per_level(vec![CompressionType::Lz4, CompressionType::Bzip2]),
        ColumnFamilyOptions::default().bottommost_compression(Some(CompressionType::Bzip2)),
    ] {
        assert_eq!(options.validate().unwrap_err().kind(), ErrorKind::NotSupported);
    }
}

#[test]
fn every_option_is_named() {
    assert!(DbOptions::NAMES.contains(&"max_manifest_file_size"));
    assert_eq!(TableOptions::NAMES.len(), 14);
}

#[test]
fn a_budget_is_kept_by_what_has_a_size_and_every_budget_makes_valid_options() {
    for bytes in [0, 1, 8 << 20, 64 << 20, 1 << 30, 64 << 30] {
        for cores in [0, 1, 2, 7, 1000] {
            let options = DbOptions::for_budget(bytes, cores);
            options.validate().unwrap();
            assert_eq!(options.max_subcompactions, cores.clamp(1, 4));
            let sorted = crate::BulkLoadOptions::for_budget(bytes).sort_buffer_bytes;
            assert!((512 << 10..=bytes.max(8 << 20) / 16).contains(&sorted), "{sorted} of {bytes}");
            #[cfg(feature = "tokio")]
            {
                let queues = crate::AsyncDbOptions::for_budget(bytes);
                queues.validate().unwrap();
                assert!(queues.max_queued_bytes <= bytes.max(8 << 20) / 64, "{queues:?}");
            }
            let family = &options.unnamed_families;
            family.validate().unwrap();
            let cache = options.block_cache.as_ref().unwrap();
            let buffers = family.write_buffer_size * family.max_write_buffer_number;
            // Memtables are charged to the tier of compressed blocks.
            assert!(options.charge_memtables_to_block_cache && buffers <= cache.compressed_capacity() / 2);
            let sized = cache.capacity() + cache.compressed_capacity();
            let budget = bytes.max(8 << 20);
            assert!(sized <= budget / 8 * 7 + 8, "{sized} of {budget}");
            assert!(sized >= budget / 5 * 4, "{sized} of {budget}");
        }
    }
}
