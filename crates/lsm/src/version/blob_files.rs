//! The blob files of a version: which there are, how much of each is garbage, and which are still needed.
//!
//! No edit deletes a blob file. One is needed while a table refers to it; and one that no table names is kept too while not all of it is
//! garbage and no table names only younger ones. (RocksDB's rule: a table names the oldest file that it refers to.)

use super::edit::BlobChange;
use crate::file_meta::{FileMeta, ObsoleteTables};
use crate::file_names::FileName;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::{Error, Result};
use std::collections::{BTreeMap, HashSet};

/// What is fixed about a blob file. Shared by all versions that list it.
#[derive(Debug)]
pub(crate) struct BlobFileMeta {
    /// File number: `NNNNNN.blob`.
    pub(crate) number: u64,
    /// Values in it.
    pub(crate) count: u64,
    /// Bytes of their records.
    pub(crate) bytes: u64,
    /// What follows in its record of the MANIFEST: checksum and custom fields, kept for the next MANIFEST.
    rest: Vec<u8>,
    obsolete: AtomicBool,
    obsolete_files: Arc<ObsoleteTables>,
}

impl BlobFileMeta {
    /// Says that the current version does not list the file any more and that this is durable.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for BlobFileMeta {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            self.obsolete_files.push(FileName::Blob(self.number));
        }
    }
}

/// A blob file in one version.
#[derive(Debug, Clone)]
struct Listed {
    meta: Arc<BlobFileMeta>,
    garbage_count: u64,
    garbage_bytes: u64,
}

/// The blob files of one version, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlobFileList {
    files: BTreeMap<u64, Listed>,
}

impl BlobFileList {
    /// Bytes of the records of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().map(|listed| listed.meta.bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of records that no table refers to any more.
    pub(crate) fn garbage_bytes(&self) -> u64 {
        self.files.values().map(|listed| listed.garbage_bytes).fold(0, u64::saturating_add)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The numbers, ascending.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.files.keys().copied()
    }

    /// The files.
    pub(crate) fn metas(&self) -> impl Iterator<Item = &Arc<BlobFileMeta>> {
        self.files.values().map(|listed| &listed.meta)
    }

    /// The changes that lead from nothing to this list.
    pub(super) fn snapshot(&self) -> impl Iterator<Item = BlobChange> {
        self.files.iter().flat_map(|(number, listed)| {
            let meta = &listed.meta;
            let addition =
                BlobChange::Added { number: *number, count: meta.count, bytes: meta.bytes, rest: meta.rest.clone() };
            let garbage = BlobChange::Garbage {
                number: *number,
                count: listed.garbage_count,
                bytes: listed.garbage_bytes,
                rest: vec![0],
            };
            [Some(addition), (listed.garbage_count > 0).then_some(garbage)].into_iter().flatten()
        })
    }

    /// Applies one change.
    ///
    /// # Errors
    ///
    /// `Corruption` if a file is added twice, or if there is more garbage than there are values.
    pub(super) fn apply(&mut self, change: &BlobChange, obsolete_files: &Arc<ObsoleteTables>) -> Result<()> {
        match change {
            BlobChange::Added { number, count, bytes, rest } => {
                let meta = Arc::new(BlobFileMeta {
                    number: *number,
                    count: *count,
                    bytes: *bytes,
                    rest: rest.clone(),
                    obsolete: AtomicBool::new(false),
                    obsolete_files: Arc::clone(obsolete_files),
                });
                let listed = Listed { meta, garbage_count: 0, garbage_bytes: 0 };
                match self.files.insert(*number, listed) {
                    None => Ok(()),
                    Some(_) => Err(Error::corrupt(format!("blob file {number} is added twice"))),
                }
            }
            BlobChange::Garbage { number, count, bytes, .. } => {
                let Some(listed) = self.files.get_mut(number) else {
                    return Err(Error::corrupt(format!("garbage in blob file {number}, which is not there")));
                };
                let sum = |sum: u64, more: u64, limit: u64| sum.checked_add(more).filter(|sum| *sum <= limit);
                let new_count = sum(listed.garbage_count, *count, listed.meta.count);
                let new_bytes = sum(listed.garbage_bytes, *bytes, listed.meta.bytes);
                let (Some(new_count), Some(new_bytes)) = (new_count, new_bytes) else {
                    return Err(Error::corrupt(format!("blob file {number} has more garbage than values")));
                };
                (listed.garbage_count, listed.garbage_bytes) = (new_count, new_bytes);
                Ok(())
            }
        }
    }

    /// Drops the files that nobody needs when there are these tables, and returns them.
    ///
    /// # Errors
    ///
    /// `Corruption` if a table refers to a file that is not there.
    pub(super) fn retain_needed<'a>(
        &mut self,
        tables: impl Iterator<Item = &'a Arc<FileMeta>>,
    ) -> Result<Vec<Arc<BlobFileMeta>>> {
        let mut named = HashSet::new();
        for table in tables {
            let Some(number) = table.oldest_blob_file() else { continue };
            if !self.files.contains_key(&number) {
                return Err(Error::corrupt(format!(
                    "table {} refers to blob file {number}, which is not there",
                    table.number
                )));
            }
            named.insert(number);
        }
        let oldest = named.iter().copied().min().unwrap_or(0);
        let mut left = Vec::new();
        self.files.retain(|number, listed| {
            let is_needed = *number >= oldest && (named.contains(number) || listed.garbage_count < listed.meta.count);
            if !is_needed {
                left.push(Arc::clone(&listed.meta));
            }
            is_needed
        });
        Ok(left)
    }
}
