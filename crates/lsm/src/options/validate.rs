//! Checks of options: every bound that their documentation states.
//!
//! An error names the option, its value and its bounds.

use super::table::MOST_FILTER_BITS;
use super::{
    ColumnFamilyOptions, CompactionStyle, CompressionType, DbOptions, FilterPolicy, IndexType, TableOptions,
    UniversalCompactionOptions,
};
use siltstone_base::comparator::TIMESTAMP_LEN;
use siltstone_base::rate_limiter::LEAST_FAIRNESS;
use siltstone_base::{Error, Result};
use std::fmt::Display;
use std::ops::RangeInclusive;

fn within<T: PartialOrd + Display>(name: &str, value: T, bounds: RangeInclusive<T>) -> Result<()> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let (low, high) = bounds.into_inner();
    Err(Error::invalid_argument(format!("{name}: {value} is not within {low} and {high}")))
}

fn at_least<T: PartialOrd + Display>(name: &str, value: T, bound: T) -> Result<()> {
    if value >= bound {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("{name}: {value} is less than {bound}")))
}

fn writable(name: &str, codec: CompressionType) -> Result<()> {
    if codec.is_written() {
        return Ok(());
    }
    Err(Error::not_supported(format!("{name}: {}", codec.property_name())))
}

impl DbOptions {
    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the option and its bounds.
    pub fn validate(&self) -> Result<()> {
        at_least("max_background_jobs", self.max_background_jobs, 1)?;
        at_least("max_subcompactions", self.max_subcompactions, 1)?;
        within("background_niceness", self.background_niceness, 0..=19)?;
        at_least("delayed_write_rate", self.delayed_write_rate, 1024)?;
        at_least("max_write_batch_group_size_bytes", self.max_write_batch_group_size_bytes, 1)?;
        within("max_wal_record_bytes", self.max_wal_record_bytes as u64, 1024..=4 << 30)?;
        at_least("max_manifest_file_size", self.max_manifest_file_size, 1)?;
        at_least("rate_limiter_refill_period_us", self.rate_limiter_refill_period_us, 1)?;
        at_least("rate_limiter_fairness", self.rate_limiter_fairness, LEAST_FAIRNESS)?;
        if self.allow_mmap_reads && self.use_direct_reads {
            return Err(Error::invalid_argument("allow_mmap_reads: not together with use_direct_reads"));
        }
        Ok(())
    }
}

impl ColumnFamilyOptions {
    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the option and its bounds; `NotSupported` names a codec that this build does not write.
    pub fn validate(&self) -> Result<()> {
        let timestamp_len = self.comparator.timestamp_len();
        if timestamp_len != 0 && (timestamp_len != TIMESTAMP_LEN || self.comparator.without_timestamp().is_none()) {
            return Err(Error::not_supported(format!("comparator: {}, with its timestamps", self.comparator.name())));
        }
        at_least("write_buffer_size", self.write_buffer_size, 1024)?;
        at_least("max_write_buffer_number", self.max_write_buffer_number, 2)?;
        self.validate_triggers()?;
        within("num_levels", self.num_levels, 2..=64)?;
        at_least("target_file_size_base", self.target_file_size_base, 1)?;
        at_least("target_file_size_multiplier", self.target_file_size_multiplier, 1)?;
        at_least("max_bytes_for_level_base", self.max_bytes_for_level_base, 1)?;
        at_least("max_bytes_for_level_multiplier", self.max_bytes_for_level_multiplier, 2)?;
        self.compaction_options_universal.validate()?;
        writable("compression", self.compression)?;
        self.compression_per_level.iter().try_for_each(|codec| writable("compression_per_level", *codec))?;
        self.bottommost_compression.iter().try_for_each(|codec| writable("bottommost_compression", *codec))?;
        within("zstd_level", self.zstd_level, -7..=22)?;
        within("max_dict_bytes", self.max_dict_bytes, 0..=16 << 20)?;
        within("zstd_max_train_bytes", self.zstd_max_train_bytes, 0..=256 << 20)?;
        if self.expiry.is_some() && self.merge_operator.is_some() {
            // Whether operands meet a value would depend on when a compaction came along.
            return Err(Error::not_supported("expiry: in a family with a merge_operator"));
        }
        if self.expiry.is_some() && timestamp_len > 0 {
            return Err(Error::not_supported("expiry: in a family whose keys have timestamps"));
        }
        if self.table.index_type == IndexType::HashSearch && self.prefix_extractor.is_none() {
            return Err(Error::invalid_argument("index_type: a hash index needs a prefix_extractor"));
        }
        self.table.validate()
    }

    /// Checks that compactions delete nothing of the family but what its users deleted or replaced: where entries belong to each other, one must not go without the others.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the option.
    pub(crate) fn check_keeps_all(&self) -> Result<()> {
        match self.compaction_style {
            CompactionStyle::Leveled | CompactionStyle::Universal | CompactionStyle::Lazy => Ok(()),
            CompactionStyle::Fifo => Err(Error::invalid_argument(
                "compaction_style: FIFO deletes the oldest files with all that they have, so that rows would lose their index entries, and entries their rows",
            )),
        }
    }

    /// The limits of level 0 and of pending bytes, each no lower than the one before it.
    fn validate_triggers(&self) -> Result<()> {
        let compaction = self.level0_file_num_compaction_trigger;
        let slowdown = self.level0_slowdown_writes_trigger;
        at_least("level0_file_num_compaction_trigger", compaction, 1)?;
        at_least("level0_slowdown_writes_trigger", slowdown, compaction)?;
        at_least("level0_stop_writes_trigger", self.level0_stop_writes_trigger, slowdown)?;
        let soft = self.soft_pending_compaction_bytes_limit;
        match self.hard_pending_compaction_bytes_limit {
            0 => Ok(()),
            hard => at_least("hard_pending_compaction_bytes_limit", hard, soft),
        }
    }
}

impl UniversalCompactionOptions {
    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the option and its bounds.
    pub fn validate(&self) -> Result<()> {
        at_least("min_merge_width", self.min_merge_width, 2)?;
        at_least("max_merge_width", self.max_merge_width, self.min_merge_width)?;
        within("compression_size_percent", self.compression_size_percent, i32::MIN..=100)
    }
}

impl TableOptions {
    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the option and its bounds.
    pub fn validate(&self) -> Result<()> {
        within("metadata_block_size", self.metadata_block_size, 64..=16 << 20)?;
        within("format_version", self.format_version, 5..=7)?;
        within("data_block_hash_table_util_ratio", self.data_block_hash_table_util_ratio, 0.1..=1.0)?;
        within("block_size", self.block_size, 256..=16 << 20)?;
        within("block_restart_interval", self.block_restart_interval, 1..=256)?;
        within("index_block_restart_interval", self.index_block_restart_interval, 1..=256)?;
        within("upper_level_filter_bits", self.upper_level_filter_bits, 0.0..=MOST_FILTER_BITS)?;
        match self.filter_policy {
            FilterPolicy::None => Ok(()),
            FilterPolicy::Bloom { bits_per_key } => within("bits_per_key", bits_per_key, 0.0..=MOST_FILTER_BITS),
            FilterPolicy::Ribbon { bloom_equivalent_bits_per_key, .. } => {
                within("bloom_equivalent_bits_per_key", bloom_equivalent_bits_per_key, 0.0..=MOST_FILTER_BITS)
            }
        }
    }
}
