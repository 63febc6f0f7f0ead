//! Version edits: the records of a MANIFEST, in RocksDB's encoding.
//!
//! A record is a sequence of `varint32 tag, payload` in any order. See `docs/src/formats/manifest.md`.

mod decode;
mod encode;
mod tags;
#[cfg(test)]
mod tests;

use crate::file_meta::FileMetaData;
use crate::key::{ColumnFamilyId, SeqNo};

/// The most bytes of one record of a MANIFEST. RocksDB has no such limit, and names all tables of a family in one record where it begins a MANIFEST.
pub(crate) const MAX_EDIT_BYTES: usize = 1 << 30;

/// The most levels that a file may be said to be on.
pub(crate) const MAX_LEVELS: usize = 64;

/// A change of one column family and of the database's counters. What is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VersionEdit {
    /// The family that the edit is about.
    pub(crate) column_family: ColumnFamilyId,
    /// Name of the family's comparator.
    pub(crate) comparator: Option<String>,
    /// The smallest WAL that still holds entries of the family that no table has. Never goes back.
    pub(crate) log_number: Option<u64>,
    /// LevelDB's number of the WAL before that one; 0 today.
    pub(crate) prev_log_number: Option<u64>,
    /// No file has this number or a larger one yet.
    pub(crate) next_file_number: Option<u64>,
    /// No entry has a larger sequence number yet, but for those in WALs.
    pub(crate) last_sequence: Option<SeqNo>,
    /// WALs below are not needed by any family.
    pub(crate) min_log_number_to_keep: Option<u64>,
    /// Creates the family under this name.
    pub(crate) add_family: Option<String>,
    /// Drops the family.
    pub(crate) drop_family: bool,
    /// The largest family number that was ever given.
    pub(crate) max_column_family: Option<u32>,
    /// The id of the database.
    pub(crate) db_id: Option<String>,
    /// WALs, each with the bytes of it that were synced if that is said. Read only.
    pub(crate) wals: Vec<(u64, Option<u64>)>,
    /// WALs below count no more. Read only.
    pub(crate) forget_wals_below: Option<u64>,
    /// What was true at earlier timestamps may be gone.
    pub(crate) timestamp_low: Option<u64>,
    /// The edit is one of a group that counts as a whole or not at all; so many of it are still to come.
    pub(crate) atomic_group_remaining: Option<u32>,
    /// Tables that leave a level: level and number. They leave before [`new_files`](Self::new_files) enter.
    pub(crate) deleted_files: Vec<(usize, u64)>,
    /// Tables that enter a level.
    pub(crate) new_files: Vec<(usize, FileMetaData)>,
    /// Blob files that came or collected garbage.
    pub(crate) blob_files: Vec<BlobChange>,
}

/// What happens to a blob file. `rest` is what follows in the record: checksums and custom fields, which are carried along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlobChange {
    /// There is one more.
    Added { number: u64, count: u64, bytes: u64, rest: Vec<u8> },
    /// So many more of its values, in records of so many bytes, are not referred to any more.
    Garbage { number: u64, count: u64, bytes: u64, rest: Vec<u8> },
}

impl VersionEdit {
    /// An edit of `column_family` that changes nothing yet.
    pub(crate) fn new(column_family: ColumnFamilyId) -> Self {
        Self { column_family, ..Self::default() }
    }

    /// Lets a table leave `level`.
    pub(crate) fn delete_file(&mut self, level: usize, number: u64) {
        self.deleted_files.push((level, number));
    }

    /// Lets a table enter `level`.
    pub(crate) fn add_file(&mut self, level: usize, file: FileMetaData) {
        self.new_files.push((level, file));
    }

    /// Whether the edit changes which files there are.
    pub(crate) fn changes_files(&self) -> bool {
        !(self.deleted_files.is_empty() && self.new_files.is_empty() && self.blob_files.is_empty())
    }
}
