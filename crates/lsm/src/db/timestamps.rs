//! Families whose keys end with a timestamp, in a database that is open for reading only.
//!
//! Of one key the newest timestamp comes first, and of one timestamp the newest sequence number. To a reader all of them are versions of one key,
//! the key without its timestamp; those with a later timestamp than the reader's are hidden from it, as those with a later sequence number are.

use super::column_family::Family;
use super::read::PinnedValue;
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::key::{InternalKeyComparator, ParsedKey, SeqNo};
use crate::options::{ColumnFamilyOptions, ReadOptions};
use siltstone_base::comparator::{TIMESTAMP_LEN, split_timestamp};
use siltstone_base::sync::{Arc, Weak};
use siltstone_base::{Error, Result};

/// What a family with timestamps knows of them.
#[derive(Debug, Clone)]
pub(crate) struct FamilyTimestamps {
    /// The order of keys without their timestamps.
    pub(super) order: InternalKeyComparator,
    /// What was true at earlier timestamps may be gone.
    pub(super) low: u64,
}

impl FamilyTimestamps {
    /// `None` for a family whose keys have none.
    pub(crate) fn of(options: &ColumnFamilyOptions, low: u64) -> Option<Self> {
        let order = options.comparator.without_timestamp()?;
        Some(Self { order: InternalKeyComparator::new(order), low })
    }

    /// The timestamp that a read sees: that of its options, or the newest.
    fn of_read(&self, options: &ReadOptions) -> Result<u64> {
        let timestamp = options.timestamp.unwrap_or(u64::MAX);
        if timestamp < self.low {
            return Err(Error::invalid_argument(format!(
                "timestamp: {timestamp} is less than {}, before which the column family keeps no history",
                self.low
            )));
        }
        Ok(timestamp)
    }
}

/// Fails if `family` is one whose keys have timestamps: such are read only.
pub(crate) fn refuse_writing(family: &str, options: &ColumnFamilyOptions) -> Result<()> {
    if options.comparator.timestamp_len() == 0 {
        return Ok(());
    }
    Err(Error::not_supported(format!(
        "writing to column family {family}, whose keys have timestamps ({}): such are opened for reading only",
        options.comparator.name()
    )))
}

/// What an iterator over a family with timestamps sees.
#[derive(Debug)]
pub(super) struct TimestampView {
    /// Entries of later timestamps are hidden.
    pub(super) newest: u64,
    /// The timestamp of what the iterator shows, if it keeps that.
    pub(super) of_kept: u64,
}

impl TimestampView {
    /// `None` for a family whose keys have none.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a timestamp that the family cannot be read at.
    pub(super) fn new(family: &Family, options: &ReadOptions) -> Result<Option<Box<Self>>> {
        let Some(timestamps) = &family.timestamps else {
            return match options.timestamp {
                None => Ok(None),
                Some(_) => {
                    Err(Error::invalid_argument(format!("timestamp: keys of column family {} have none", family.name)))
                }
            };
        };
        if options.prefix_same_as_start && family.options().prefix_extractor.is_some() {
            return Err(Error::not_supported("prefix_same_as_start in a column family whose keys have timestamps"));
        }
        Ok(Some(Box::new(Self { newest: timestamps.of_read(options)?, of_kept: 0 })))
    }

    /// Takes the timestamp off the key of an entry. Returns it, and whether it hides the entry.
    pub(super) fn split(&self, entry: &mut ParsedKey<'_>) -> Result<(u64, bool)> {
        let Some((bare, timestamp)) = split_timestamp(entry.user_key) else {
            return Err(Error::corrupt("key without its timestamp"));
        };
        entry.user_key = bare;
        Ok((timestamp, timestamp > self.newest))
    }
}

/// A key of a family with timestamps without its own.
#[cold]
pub(super) fn bare(user_key: &[u8]) -> &[u8] {
    user_key.get(..user_key.len().saturating_sub(TIMESTAMP_LEN)).unwrap_or_default()
}

impl DbInner {
    /// The value of `key`, where its family or the options have timestamps.
    #[cold]
    pub(super) fn get_timestamped(
        &self,
        family: &Family,
        pinned: &Arc<SuperVersion>,
        key: &[u8],
        seqno: SeqNo,
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        let order = family.timestamps.as_ref().map(|timestamps| &timestamps.order);
        let is_bytewise = order.is_some_and(InternalKeyComparator::is_bytewise);
        // A walk that finds nothing of the key need not go on behind it.
        let upper_bound = is_bytewise.then(|| [key, &[0]].concat());
        let options = ReadOptions { iterate_lower_bound: None, iterate_upper_bound: upper_bound, ..options.clone() };
        let mut iter = self.iter_pinned(family, Arc::clone(pinned), seqno, &options, Weak::new())?;
        iter.seek(key);
        iter.status()?;
        if iter.valid() && order.is_some_and(|order| order.compare_user(iter.key(), key).is_eq()) {
            return Ok(Some(PinnedValue::owned(iter.value().to_vec())));
        }
        Ok(None)
    }
}
