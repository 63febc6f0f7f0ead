//! Changes of options by name while a database is open: text as an OPTIONS file has it, checked as at open.

use super::fields::{self, Field};
use super::parts;
use super::values::Taken;
use crate::event::ChangedOption;
use crate::options::{ColumnFamilyOptions, DbOptions, TableOptions};
use siltstone_base::{Error, Result};

/// Options of a family that may change. All others are part of what is on disk, or of what readers hold.
const FAMILY: &[&str] = &[
    "write_buffer_size",
    "max_write_buffer_number",
    "memtable_bloom_bits_per_key",
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "soft_pending_compaction_bytes_limit",
    "hard_pending_compaction_bytes_limit",
    "target_file_size_base",
    "target_file_size_multiplier",
    "max_bytes_for_level_base",
    "max_bytes_for_level_multiplier",
    "level_compaction_dynamic_level_bytes",
    "level0_sublevels",
    "max_compaction_bytes",
    "compaction_style",
    "lazy_leveling",
    "compaction_options_universal",
    "compaction_options_fifo",
    "ttl",
    "periodic_compaction_seconds",
    "read_triggered_bytes",
    "disable_auto_compactions",
    "compression",
    "compression_per_level",
    "bottommost_compression",
    "compression_opts",
    "zstd_level",
];

/// Options of tables that may change: how those are written that come next. What is there says of itself how it was written.
const TABLE: &[&str] = &[
    "format_version",
    "block_size",
    "block_restart_interval",
    "index_block_restart_interval",
    "data_block_index_type",
    "data_block_hash_table_util_ratio",
    "index_type",
    "metadata_block_size",
    "checksum",
    "filter_policy",
    "upper_level_filter_bits",
    "whole_key_filtering",
    "partition_filters",
];

/// The name under which RocksDB takes options of tables: together as `{block_size=8192;}`, or one by one, as `block_based_table_factory.block_size`.
const TABLE_FACTORY: &str = "block_based_table_factory";

/// Options of a database that may change.
const DATABASE: &[&str] = &[
    "max_background_jobs",
    "max_subcompactions",
    "max_total_wal_size",
    "bytes_per_sync",
    "wal_bytes_per_sync",
    "compaction_readahead_size",
    "delayed_write_rate",
    "write_admission",
    "rate_limiter_bytes_per_sec",
];

/// `options` with `changes` of names and values; and what is different then. Options of tables go by their own names too.
///
/// # Errors
///
/// `InvalidArgument` names an option that may not change, a value that is none of it, or a bound; `NotSupported` names an option or a value that
/// this engine does not have.
pub(crate) fn change_family(
    options: &ColumnFamilyOptions,
    changes: &[(&str, &str)],
) -> Result<(ColumnFamilyOptions, Vec<ChangedOption>)> {
    let (of_table, of_family) = separate(changes)?;
    let known = |name: &str| ColumnFamilyOptions::NAMES.contains(&name);
    let (mut changed, mut differences) = change(options, &of_family, fields::FAMILY, FAMILY, &known)?;
    let known = |name: &str| TableOptions::NAMES.contains(&name);
    let (table, of_table) = change(&options.table, &of_table, fields::TABLE, TABLE, &known)?;
    changed.table = table;
    changed.validate()?;
    differences.extend(of_table);
    Ok((changed, differences))
}

/// Names and values.
type Changes<'a> = Vec<(&'a str, &'a str)>;

/// The changes that are about tables, each under its own name, and the others.
fn separate<'a>(changes: &[(&'a str, &'a str)]) -> Result<(Changes<'a>, Changes<'a>)> {
    let (mut of_table, mut of_family) = (Vec::new(), Vec::new());
    for (name, text) in changes {
        match name.split_once('.') {
            Some((TABLE_FACTORY, name)) => of_table.push((name, *text)),
            None if *name == TABLE_FACTORY => match parts::parts_of(text) {
                Some(parts) => of_table.extend(parts),
                None => return Err(Error::invalid_argument(format!("{name}: {text} is no value of it"))),
            },
            None if TableOptions::NAMES.contains(name) => of_table.push((name, *text)),
            _ => of_family.push((*name, *text)),
        }
    }
    Ok((of_table, of_family))
}

/// The same for a database.
pub(crate) fn change_database(
    options: &DbOptions,
    changes: &[(&str, &str)],
) -> Result<(DbOptions, Vec<ChangedOption>)> {
    let known = |name: &str| DbOptions::NAMES.contains(&name);
    let changed = change(options, changes, fields::DATABASE, DATABASE, &known)?;
    changed.0.validate()?;
    Ok(changed)
}

fn change<T: Clone>(
    options: &T,
    changes: &[(&str, &str)],
    fields: &[Field<T>],
    may_change: &[&str],
    known: &dyn Fn(&str) -> bool,
) -> Result<(T, Vec<ChangedOption>)> {
    let mut changed = options.clone();
    for (name, text) in changes {
        // `compaction_options_universal.size_ratio` is a part of a value.
        let (name, part) = name.split_once('.').map_or((*name, None), |(name, part)| (name, Some(part)));
        let field = fields.iter().find(|field| field.name == name);
        let Some(field) = field.filter(|_| may_change.contains(&name)) else {
            return Err(match known(name) || field.is_some() {
                true => Error::invalid_argument(format!("{name}: cannot be changed while the database is open")),
                false => Error::not_supported(format!("{name}: an option that this engine does not have")),
            });
        };
        let text = match part {
            Some(part) => format!("{{{part}={text};}}"),
            None => (*text).to_owned(),
        };
        if let Some(part) = fields::unknown_part(name, &text) {
            return Err(Error::not_supported(format!("{name}.{part}: an option that this engine does not have")));
        }
        let mut taken = (field.take)(&mut changed, &text);
        if taken == Taken::Malformed
            && let Some(number) = number(&text)
        {
            taken = (field.take)(&mut changed, &number);
        }
        match taken {
            Taken::Yes => {}
            Taken::Unknown => return Err(Error::not_supported(format!("{name}: {text}"))),
            Taken::Malformed => return Err(Error::invalid_argument(format!("{name}: {text} is no value of it"))),
        }
    }
    let differences = fields.iter().filter_map(|field| {
        let (before, now) = ((field.text)(options, None)?, (field.text)(&changed, None)?);
        (before != now).then(|| ChangedOption { name: field.name.to_owned(), before, now })
    });
    let differences = differences.collect();
    Ok((changed, differences))
}

/// `64M` in full: RocksDB takes numbers with K, M, G and T behind them.
fn number(text: &str) -> Option<String> {
    let shift = match text.chars().next_back()?.to_ascii_lowercase() {
        'k' => 10,
        'm' => 20,
        'g' => 30,
        't' => 40,
        _ => return None,
    };
    let digits = text.get(..text.len() - 1)?.parse::<u64>().ok()?;
    Some(digits.checked_mul(1 << shift)?.to_string())
}
