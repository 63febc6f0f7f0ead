//! Approximate sizes and numbers of entries of ranges of keys.

use super::column_family::Family;
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::key::{LookupKey, MAX_SEQNO};
use crate::memtable::Memtable;
use siltstone_base::Result;

/// About how much there is in a range of keys. Old versions and tombstones count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApproximateSize {
    /// Bytes of tables, as stored, with their share of filters and indexes.
    pub table_bytes: u64,
    /// Entries of tables.
    pub table_entries: u64,
    /// Bytes of memtables.
    pub memtable_bytes: u64,
    /// Entries of memtables.
    pub memtable_entries: u64,
}

impl DbInner {
    /// What is in each of `ranges`, which exclude their ends.
    pub(crate) fn approximate_sizes(&self, family: &Family, ranges: &[(&[u8], &[u8])]) -> Result<Vec<ApproximateSize>> {
        let pinned = family.super_version.load();
        self.check_readable(family)?;
        ranges.iter().map(|(begin, end)| range_size(family, &pinned, begin, end)).collect()
    }
}

/// What comes before every entry of `key`.
fn before(family: &Family, key: &[u8]) -> LookupKey {
    match &family.timestamps {
        None => LookupKey::new(key, MAX_SEQNO),
        Some(_) => LookupKey::new(&[key, &u64::MAX.to_le_bytes()].concat(), MAX_SEQNO),
    }
}

fn range_size(family: &Family, pinned: &SuperVersion, begin: &[u8], end: &[u8]) -> Result<ApproximateSize> {
    let (begin, end) = (before(family, begin), before(family, end));
    let mut size = ApproximateSize::default();
    for memtable in pinned.memtables() {
        let entries = memtable.approximate_entries(begin.internal_key(), end.internal_key());
        size.memtable_entries += entries;
        size.memtable_bytes += share(memtable.approximate_memory_usage() as u64, entries, points(memtable));
    }
    let order = &family.comparator;
    for (_, file) in pinned.version.all_files() {
        let (smallest, largest) = (file.smallest.as_bytes(), file.largest.as_bytes());
        // Bytes before a key of the table; none of the index is read where the key is outside.
        let offset = |key: &LookupKey| {
            if order.compare(key.internal_key(), smallest).is_le() {
                return Ok(0);
            }
            if order.compare(key.internal_key(), largest).is_gt() {
                return Ok(file.file_size);
            }
            Ok(family.table_cache.reader(file)?.bytes_before(key.internal_key()).min(file.file_size))
        };
        let bytes = offset(&end)?.saturating_sub(offset(&begin)?);
        if bytes > 0 {
            let entries = family.table_cache.reader(file)?.properties().num_entries;
            size.table_bytes += bytes;
            size.table_entries += share(entries, bytes, file.file_size);
        }
    }
    Ok(size)
}

/// Point entries of a memtable.
fn points(memtable: &Memtable) -> u64 {
    memtable.num_entries().saturating_sub(memtable.num_ranges())
}

/// `part` of `whole` applied to `of`, rounded up: a part that is not nothing is not nothing of it.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    let share = (u128::from(of) * u128::from(part)).div_ceil(u128::from(whole.max(1)));
    u64::try_from(share).unwrap_or(u64::MAX).min(of)
}
