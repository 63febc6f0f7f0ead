//! Whether a key is certainly as it was at an earlier moment, without reading a block.
//!
//! Compactions forget the numbers of entries, and tombstones with them, so numbers alone cannot tell. Files can: one whose number was handed out before the moment
//! has nothing that was written after it, unless it was taken in: then its numbers tell, if it has any. A key is as it was if no memtable has a newer entry of it, no file from after the moment may have it or has range tombstones, and some
//! older file may. Without the last, it may have been deleted, and its tombstone dropped.

use super::column_family::ColumnFamily;
use super::newest::Lookup;
use super::{Db, Snapshot};
use crate::compaction::JobFiles;
use crate::file_meta::FileMeta;
use crate::key::{LookupKey, MAX_SEQNO, SeqNo};
use crate::options::ReadOptions;
use crate::sst::TableReadOptions;
use siltstone_base::Result;
use siltstone_base::checksum::xxph3;
use siltstone_base::sync::Arc;

/// A moment in the life of a database. It holds nothing, and means nothing after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    seqno: SeqNo,
    /// Files from this number on may have what was written later.
    next_file: u64,
}

impl Db {
    /// A snapshot, and the moment at which it was taken.
    pub(crate) fn moment(&self) -> (Moment, Snapshot) {
        // In this order: what a file has whose number was handed out before is in the snapshot.
        let next_file = self.handle.inner.file_numbers.next();
        let snapshot = self.snapshot();
        (Moment { seqno: snapshot.seqno(), next_file }, snapshot)
    }

    /// Whether memory and filters say that `key` is as it was at `moment`. `true` can be wrong where a filter errs: for a key that was
    /// deleted since and whose tombstone is gone.
    pub(crate) fn is_known_unchanged(&self, family: &ColumnFamily, key: &[u8], moment: Moment) -> Result<bool> {
        let (inner, family) = (&self.handle.inner, &family.0);
        let pinned = family.super_version.load();
        if inner.is_changed_since(family, &pinned, key, moment.seqno, Lookup::Memtables)? {
            return Ok(false);
        }
        let lookup = LookupKey::new(key, MAX_SEQNO);
        let (hash, options) = (Some(xxph3(key)), TableReadOptions::from(&ReadOptions::default()));
        // A table that is taken in has its number long before it is part of the database: what it has may be newer than the moment all the same. Where its entries have no
        // numbers either, nothing tells when they came.
        let is_older = |file: &FileMeta| -> Result<bool> {
            if file.number >= moment.next_file || file.largest_seqno > moment.seqno {
                return Ok(false);
            }
            Ok(file.largest_seqno > 0 || family.table_cache.reader(file)?.properties().external_version.is_none())
        };
        for (_, file) in pinned.version.files_with_ranges() {
            if !is_older(file)? {
                // Filters say nothing of the keys that it covers.
                return Ok(false);
            }
        }
        let mut is_in_older = false;
        for level in 0..pinned.version.num_levels() {
            for file in pinned.version.overlapping_files(level, Some(key), Some(key)) {
                let is_older = is_older(&file)?;
                if is_older && is_in_older {
                    continue;
                }
                if family.table_cache.reader(&file)?.may_have(&options, &lookup, hash) {
                    if !is_older {
                        return Ok(false);
                    }
                    is_in_older = true;
                }
            }
        }
        Ok(is_in_older)
    }

    /// Whether memory and filters say that what a flush or a compaction with these files met as the newest entry of `key`, of number `seqno`, is still
    /// the newest one, or what became of it. Everything that is read before the last of those files is then known not to have the key.
    pub(crate) fn is_still_newest(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        seqno: SeqNo,
        files: &JobFiles,
    ) -> Result<bool> {
        let (inner, family) = (&self.handle.inner, &family.0);
        let pinned = family.super_version.load();
        if inner.is_changed_since(family, &pinned, key, seqno, Lookup::Memtables)?
            || pinned.version.files_with_ranges().next().is_some()
        {
            return Ok(false);
        }
        let lookup = LookupKey::new(key, MAX_SEQNO);
        let (hash, options) = (Some(xxph3(key)), TableReadOptions::from(&ReadOptions::default()));
        // Those read before the next file of the job.
        let mut others: Vec<Arc<FileMeta>> = Vec::new();
        let mut is_found = false;
        for level in 0..pinned.version.num_levels() {
            for file in pinned.version.overlapping_files(level, Some(key), Some(key)) {
                if !files.has(file.number) {
                    others.push(file);
                    continue;
                }
                is_found = true;
                for other in others.drain(..) {
                    if family.table_cache.reader(&other)?.may_have(&options, &lookup, hash) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(is_found)
    }
}
