//! Versions: which table files exist.
//!
//! A [`Version`] is an immutable list of the tables of one column family, level by level. A
//! [`VersionEdit`](edit::VersionEdit) turns one version into the next; the [`VersionSet`](set::VersionSet) holds the current
//! version of every family and logs edits to the MANIFEST before they count.

mod blob_files;
mod builder;
mod candidates;
pub(crate) mod edit;
mod file_numbers;
mod level;
mod read;
pub(crate) mod set;
mod shares;
#[cfg(test)]
mod tests;

pub(crate) use blob_files::BlobFileList;
pub(crate) use edit::{BlobChange, VersionEdit};
pub(crate) use file_numbers::FileNumbers;
pub(crate) use level::Level;
pub(crate) use read::LeftOut;
pub(crate) use set::{FamilyConfig, VersionSet, VersionSetConfig};

use crate::file_meta::FileMeta;
use crate::key::{ColumnFamilyId, InternalKeyComparator};
use crate::sst::TableReader;
use siltstone_base::sync::Arc;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The tables of one column family at one moment. Immutable.
#[derive(Debug)]
pub(crate) struct Version {
    family: ColumnFamilyId,
    comparator: InternalKeyComparator,
    /// Level 0 first. Levels that an edit does not touch are shared with the version before.
    levels: Vec<Arc<Level>>,
    blob_files: BlobFileList,
    /// Made when a walk asks for it.
    shares: OnceLock<Arc<shares::VersionShares>>,
}

impl Version {
    /// A version without tables.
    pub(crate) fn empty(family: ColumnFamilyId, comparator: InternalKeyComparator, num_levels: usize) -> Self {
        let levels = (0..num_levels).map(|_| Arc::new(Level::default())).collect();
        Self { family, comparator, levels, blob_files: BlobFileList::default(), shares: OnceLock::new() }
    }

    /// The column family.
    pub(crate) fn family(&self) -> ColumnFamilyId {
        self.family
    }

    /// The order of internal keys.
    pub(crate) fn comparator(&self) -> &InternalKeyComparator {
        &self.comparator
    }

    /// The blob files that the tables need.
    pub(crate) fn blob_files(&self) -> &BlobFileList {
        &self.blob_files
    }

    /// How many levels there are, with tables or without.
    pub(crate) fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// The tables of `level`: level 0 newest first, others ascending. Empty for a level that there is not.
    pub(crate) fn files(&self, level: usize) -> &[Arc<FileMeta>] {
        self.levels.get(level).map_or(&[], |level| level.files())
    }

    /// Lets tables of `level` that were just written have the readers with which their writer opened them, by their numbers.
    pub(crate) fn set_readers(&self, level: usize, readers: Vec<(u64, Arc<TableReader>)>) {
        let mut readers: HashMap<u64, Arc<TableReader>> = readers.into_iter().collect();
        for file in self.files(level) {
            if readers.is_empty() {
                break;
            }
            if let Some(reader) = readers.remove(&file.number) {
                file.reader.get_or_init(|| reader);
            }
        }
    }

    /// Bytes of the tables of `level`.
    pub(crate) fn level_bytes(&self, level: usize) -> u64 {
        self.levels.get(level).map_or(0, |level| level.total_bytes())
    }

    /// Bytes of all tables.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.total_bytes()).fold(0, u64::saturating_add)
    }

    /// Every table with its level, level 0 first.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.levels.iter().enumerate().flat_map(|(level, files)| files.files().iter().map(move |file| (level, file)))
    }

    /// Every table that may have range tombstones, with its level, level 0 first.
    pub(crate) fn files_with_ranges(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let levels = self.levels.iter().enumerate().filter(|(_, level)| level.may_have_ranges());
        let files = levels.flat_map(|(level, files)| files.files().iter().map(move |file| (level, file)));
        files.filter(|(_, file)| file.may_have_ranges())
    }

    /// The last level that has tables.
    pub(crate) fn last_level_with_data(&self) -> Option<usize> {
        self.levels.iter().rposition(|level| !level.is_empty())
    }

    /// Whether a table of `level`, which is below 0, has user keys in `smallest..=largest`.
    pub(crate) fn overlaps(&self, level: usize, smallest: &[u8], largest: &[u8]) -> bool {
        let Some(files) = self.levels.get(level) else { return false };
        !files.overlapping_range(&self.comparator, Some(smallest), Some(largest)).is_empty()
    }

    /// The tables of `level` whose range of user keys meets `smallest..=largest`, in the order of the level; `None` is no bound.
    pub(crate) fn overlapping_files(
        &self,
        level: usize,
        smallest: Option<&[u8]>,
        largest: Option<&[u8]>,
    ) -> Vec<Arc<FileMeta>> {
        let Some(files) = self.levels.get(level) else { return Vec::new() };
        if level > 0 {
            let range = files.overlapping_range(&self.comparator, smallest, largest);
            return files.files()[range].to_vec();
        }
        let order = &self.comparator;
        let meets = |file: &&Arc<FileMeta>| {
            smallest.is_none_or(|smallest| !file.ends_before(order, smallest))
                && largest.is_none_or(|largest| order.compare_user(file.smallest.user_key(), largest).is_le())
        };
        files.files().iter().filter(meets).cloned().collect()
    }
}

/// A version of `files`, each with its level.
#[cfg(test)]
pub(crate) fn version_for_test(
    family: ColumnFamilyId,
    comparator: &InternalKeyComparator,
    num_levels: usize,
    files: impl IntoIterator<Item = (usize, crate::file_meta::FileMetaData)>,
    obsolete_tables: &Arc<crate::file_meta::ObsoleteTables>,
) -> Arc<Version> {
    let mut builder = builder::VersionBuilder::new();
    builder.apply(&[], files).expect("files that can be added");
    Arc::new(builder.finish(family, comparator, num_levels, obsolete_tables).expect("a possible version").version)
}

/// The version that `edit` leads to.
#[cfg(test)]
pub(crate) fn apply_for_test(version: &Arc<Version>, edit: &VersionEdit) -> Arc<Version> {
    applied(version, edit, &Arc::new(crate::file_meta::ObsoleteTables::new()))
}

/// The same for make-believe tables: panics if it is no possible version.
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::expect_used, reason = "a version that cannot be is a finding of the simulator")]
pub(crate) fn applied(
    version: &Arc<Version>,
    edit: &VersionEdit,
    obsolete_tables: &Arc<crate::file_meta::ObsoleteTables>,
) -> Arc<Version> {
    let mut builder = builder::VersionBuilder::on(Arc::clone(version));
    builder.apply(&edit.deleted_files, edit.new_files.clone()).expect("an edit that fits");
    let built = builder.finish(version.family, &version.comparator, version.num_levels(), obsolete_tables);
    Arc::new(built.expect("a possible version").version)
}
