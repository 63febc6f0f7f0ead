//! Which values in blob files a compaction leaves without a reference.

use crate::blob::BlobReference;
use crate::version::BlobChange;
use siltstone_base::Result;
use std::collections::BTreeMap;

/// References to values in blob files, counted by file: how many, and bytes of their records.
#[derive(Debug, Default)]
pub(super) struct BlobTally {
    files: BTreeMap<u64, (u64, u64)>,
}

impl BlobTally {
    /// Counts the reference that an entry of `user_key` holds, and returns the number of its file.
    pub(super) fn count(&mut self, user_key: &[u8], stored: &[u8]) -> Result<u64> {
        let reference = BlobReference::decode(stored)?;
        let (count, bytes) = self.files.entry(reference.file_number).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(reference.record_len(user_key));
        Ok(reference.file_number)
    }

    /// Adds what another one has counted.
    pub(super) fn absorb(&mut self, other: &Self) {
        for (number, (count, bytes)) in &other.files {
            let (all, all_bytes) = self.files.entry(*number).or_default();
            *all = all.saturating_add(*count);
            *all_bytes = all_bytes.saturating_add(*bytes);
        }
    }

    /// What of this is missing in `kept`.
    pub(super) fn garbage(&self, kept: &Self) -> Vec<BlobChange> {
        let garbage = self.files.iter().map(|(number, (count, bytes))| {
            let (kept_count, kept_bytes) = kept.files.get(number).copied().unwrap_or_default();
            let (count, bytes) = (count.saturating_sub(kept_count), bytes.saturating_sub(kept_bytes));
            BlobChange::Garbage { number: *number, count, bytes, rest: vec![0] }
        });
        garbage.filter(|change| !matches!(change, BlobChange::Garbage { count: 0, .. })).collect()
    }
}
