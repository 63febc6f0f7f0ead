//! Which tables have so many tombstones in a row that reads suffer: they are compacted before their level is too large.

use super::collector::{CollectedEntry, TablePropertiesCollector, TablePropertiesCollectorFactory};
use crate::key::{ColumnFamilyId, ValueType};
use siltstone_base::{Error, Result};

/// Buckets of a window. As RocksDB's, a window moves on by one bucket at a time.
const BUCKETS: usize = 128;

/// Lets tables be compacted that have `trigger` tombstones within `window` neighbouring entries, or a share of tombstones of at least `ratio`. With RocksDB's
/// name, meaning and mark in the MANIFEST.
///
/// Source: RocksDB's `CompactOnDeletionCollector`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompactOnDeletions {
    window: usize,
    trigger: usize,
    ratio: f64,
}

impl CompactOnDeletions {
    /// Tables with `trigger` tombstones within `window` entries.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a window or a trigger of 0, or a trigger larger than the window.
    pub fn new(window: usize, trigger: usize) -> Result<Self> {
        if window == 0 || trigger == 0 || trigger > window {
            return Err(Error::invalid_argument("the trigger is 1 to the entries of the window"));
        }
        Ok(Self { window, trigger, ratio: 0.0 })
    }

    /// Also tables of whose entries this part are tombstones; above 0, and up to 1. Otherwise the share is not looked at.
    #[must_use]
    pub fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = if (0.0..=1.0).contains(&ratio) { ratio } else { 0.0 };
        self
    }
}

impl TablePropertiesCollectorFactory for CompactOnDeletions {
    fn name(&self) -> &str {
        "CompactOnDeletionCollector"
    }

    fn collector(&self, _: ColumnFamilyId) -> Box<dyn TablePropertiesCollector> {
        Box::new(Counts {
            options: *self,
            bucket_entries: self.window.div_ceil(BUCKETS),
            buckets: [0; BUCKETS],
            current: 0,
            in_current: 0,
            in_window: 0,
            entries: 0,
            deletions: 0,
            is_dense: false,
        })
    }
}

/// Tombstones of the last entries.
#[derive(Debug)]
struct Counts {
    options: CompactOnDeletions,
    bucket_entries: usize,
    /// Tombstones by bucket, in a circle.
    buckets: [usize; BUCKETS],
    current: usize,
    /// Entries of the current bucket.
    in_current: usize,
    /// The sum of all buckets.
    in_window: usize,
    entries: u64,
    deletions: u64,
    is_dense: bool,
}

impl TablePropertiesCollector for Counts {
    fn add(&mut self, entry: &CollectedEntry<'_>) {
        use ValueType::{Delete, DeleteWithTimestamp, SingleDelete};
        let is_deletion = matches!(entry.value_type, Delete | SingleDelete | DeleteWithTimestamp);
        self.entries += 1;
        self.deletions += u64::from(is_deletion);
        if self.is_dense {
            return;
        }
        if self.in_current == self.bucket_entries {
            self.current = (self.current + 1) % BUCKETS;
            self.in_window -= std::mem::take(&mut self.buckets[self.current]);
            self.in_current = 0;
        }
        self.in_current += 1;
        if is_deletion {
            self.buckets[self.current] += 1;
            self.in_window += 1;
            self.is_dense = self.in_window >= self.options.trigger;
        }
    }

    fn needs_compaction(&self) -> bool {
        let has_share = self.options.ratio > 0.0 && self.deletions as f64 >= self.options.ratio * self.entries as f64;
        self.is_dense || (has_share && self.entries > 0)
    }

    fn finish(self: Box<Self>) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_dense(options: CompactOnDeletions, entries: &str) -> bool {
        let mut collector = options.collector(ColumnFamilyId(0));
        for letter in entries.chars() {
            let value_type = match letter {
                'd' => ValueType::Delete,
                's' => ValueType::SingleDelete,
                _ => ValueType::Put,
            };
            collector.add(&CollectedEntry { user_key: b"k", seqno: 1, value_type, value: b"" });
        }
        collector.needs_compaction()
    }

    #[test]
    fn tombstones_are_counted_within_the_window() {
        // A bucket has one entry, so a window has 128.
        let options = CompactOnDeletions::new(128, 4).unwrap();
        assert!(!is_dense(options, "ddd"));
        assert!(is_dense(options, "dpsppdpd"));
        let far = format!("dd{}dd", "p".repeat(127));
        assert!(!is_dense(options, &far), "the first has left the window");
        assert!(is_dense(options, &format!("ddd{}d", "p".repeat(124))));
    }

    #[test]
    fn a_share_counts_over_the_whole_table() {
        let options = CompactOnDeletions::new(1000, 1000).unwrap().ratio(0.5);
        assert!(is_dense(options, "dp"));
        assert!(!is_dense(options, "dpp"));
        assert!(!is_dense(options, ""));
        assert!(!is_dense(options.ratio(2.0), "dd"), "no share");
    }

    #[test]
    fn windows_that_make_no_sense_are_refused() {
        for (window, trigger) in [(0, 0), (0, 1), (10, 0), (10, 11)] {
            assert!(CompactOnDeletions::new(window, trigger).is_err());
        }
    }
}
