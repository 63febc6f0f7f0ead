//! Version + edits -> version, with every check that the format asks for.

use super::blob_files::BlobFileMeta;
use super::{BlobChange, Level, Version};
use crate::file_meta::{FileMeta, FileMetaData, ObsoleteTables};
use crate::key::{ColumnFamilyId, InternalKeyComparator};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};

/// The epoch of files below level 0 of which no epoch is known: older than any flush.
pub(super) const OLDEST_EPOCH: u64 = 1;

/// Collects edits of one family on top of a version, or on top of nothing.
#[derive(Debug, Default)]
pub(crate) struct VersionBuilder {
    base: Option<Arc<Version>>,
    levels: Vec<LevelDelta>,
    /// What happens to blob files, in order.
    blob_changes: Vec<BlobChange>,
    /// The level of each file in some `added`.
    placed: HashMap<u64, usize>,
}

/// What becomes of one level.
#[derive(Debug, Default)]
struct LevelDelta {
    /// Files of the base that leave.
    deleted: HashSet<u64>,
    added: HashMap<u64, FileMetaData>,
}

impl LevelDelta {
    fn is_empty(&self) -> bool {
        self.deleted.is_empty() && self.added.is_empty()
    }
}

/// A new version, and what it lacks of its base.
#[derive(Debug)]
pub(crate) struct BuiltVersion {
    /// The new version.
    pub(crate) version: Version,
    /// Files of the base that are on no level any more.
    pub(crate) left: Vec<Arc<FileMeta>>,
    /// Blob files that nobody needs any more.
    pub(crate) left_blob_files: Vec<Arc<BlobFileMeta>>,
}

impl VersionBuilder {
    /// A builder on top of nothing, for replaying a MANIFEST.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A builder on top of `base`.
    pub(crate) fn on(base: Arc<Version>) -> Self {
        Self { base: Some(base), ..Self::default() }
    }

    /// Applies the files of one edit: deletions first.
    pub(crate) fn apply(
        &mut self,
        deleted_files: &[(usize, u64)],
        new_files: impl IntoIterator<Item = (usize, FileMetaData)>,
    ) -> Result<()> {
        for (level, number) in deleted_files {
            self.delete(*level, *number)?;
        }
        for (level, file) in new_files {
            self.add(level, file)?;
        }
        Ok(())
    }

    /// Applies the blob files of one edit.
    pub(crate) fn apply_blob_files(&mut self, changes: impl IntoIterator<Item = BlobChange>) {
        self.blob_changes.extend(changes);
    }

    /// The largest number of a file added.
    pub(crate) fn max_file_number(&self) -> u64 {
        let blob_files = self.blob_changes.iter().map(|change| match change {
            BlobChange::Added { number, .. } | BlobChange::Garbage { number, .. } => *number,
        });
        self.placed.keys().copied().chain(blob_files).max().unwrap_or(0)
    }

    /// One more than the last level to which a file was added; 0 without files.
    pub(crate) fn levels_in_use(&self) -> usize {
        self.levels.iter().rposition(|delta| !delta.is_empty()).map_or(0, |last| last + 1)
    }

    fn delta(&mut self, level: usize) -> &mut LevelDelta {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, LevelDelta::default);
        }
        &mut self.levels[level]
    }

    fn delete(&mut self, level: usize, number: u64) -> Result<()> {
        let has_base = self.base.is_some();
        let delta = self.delta(level);
        if delta.added.remove(&number).is_some() {
            self.placed.remove(&number);
            return Ok(());
        }
        // Whether the base has the file is seen when its level is built.
        if has_base && delta.deleted.insert(number) { Ok(()) } else { Err(not_live(level, number)) }
    }

    fn add(&mut self, level: usize, file: FileMetaData) -> Result<()> {
        let number = file.number;
        if let Some(other) = self.placed.insert(number, level) {
            return Err(Error::corrupt(format!("file {number} is added to level {level} and is on level {other}")));
        }
        self.delta(level).added.insert(number, file);
        Ok(())
    }

    /// Builds the version.
    ///
    /// # Errors
    ///
    /// `Corruption` if a deleted file was not there, if a level's order or the ranges of its files are impossible; `InvalidArgument` if
    /// there are files below the last of `num_levels` levels.
    pub(crate) fn finish(
        mut self,
        family: ColumnFamilyId,
        comparator: &InternalKeyComparator,
        num_levels: usize,
        obsolete_tables: &Arc<ObsoleteTables>,
    ) -> Result<BuiltVersion> {
        if self.levels.iter().skip(num_levels).any(|delta| !delta.is_empty()) {
            let last = self.levels.iter().rposition(|delta| !delta.is_empty()).unwrap_or(0);
            return Err(Error::invalid_argument(format!(
                "num_levels: {num_levels}, but the database has files on level {last}"
            )));
        }
        self.levels.resize_with(num_levels, LevelDelta::default);
        let base = self.base.take();
        let is_replay = base.is_none();
        let derived_epochs = base.is_none() && self.complete_epochs();
        let (kept, mut left) = self.split_base(base.as_deref())?;
        let mut levels = Vec::with_capacity(num_levels);
        for (level, (delta, mut files)) in std::mem::take(&mut self.levels).into_iter().zip(kept).enumerate() {
            if delta.is_empty()
                && let Some(base) = &base
                && let Some(untouched) = base.levels.get(level)
            {
                levels.push(Arc::clone(untouched));
                continue;
            }
            for (number, data) in delta.added {
                files.push(match left.remove(&number) {
                    Some(moved) => moved,
                    None => FileMeta::new(data, Some(Arc::clone(obsolete_tables))),
                });
            }
            levels.push(Arc::new(build_level(level, files, comparator, derived_epochs)?));
        }
        let mut blob_files = base.map(|base| base.blob_files.clone()).unwrap_or_default();
        for change in &self.blob_changes {
            blob_files.apply(change, obsolete_tables)?;
        }
        let tables = levels.iter().flat_map(|level| level.files());
        // Most databases have none. What a MANIFEST says is looked at as a whole once.
        let left_blob_files = match is_replay || !blob_files.is_empty() {
            true => blob_files.retain_needed(tables)?,
            false => Vec::new(),
        };
        let version =
            Version { family, comparator: comparator.clone(), levels, blob_files, shares: Default::default() };
        Ok(BuiltVersion { version, left: left.into_values().collect(), left_blob_files })
    }

    /// Of each changed level of `base`: the files that stay, and all that leave.
    #[expect(clippy::type_complexity, reason = "two collections of files, told apart by the names at the one caller")]
    fn split_base(&mut self, base: Option<&Version>) -> Result<(Vec<Vec<Arc<FileMeta>>>, HashMap<u64, Arc<FileMeta>>)> {
        let mut left = HashMap::new();
        let mut kept = Vec::with_capacity(self.levels.len());
        for (level, delta) in self.levels.iter_mut().enumerate() {
            let mut stay = Vec::new();
            let files = base.and_then(|base| base.levels.get(level)).map_or(&[][..], |level| level.files());
            for file in files.iter().filter(|_| !delta.is_empty()) {
                if delta.deleted.contains(&file.number) {
                    left.insert(file.number, Arc::clone(file));
                } else if delta.added.contains_key(&file.number) {
                    return Err(Error::corrupt(format!("file {} is added to level {level} twice", file.number)));
                } else {
                    stay.push(Arc::clone(file));
                }
            }
            if let Some(number) = delta.deleted.iter().find(|number| !left.contains_key(number)) {
                return Err(not_live(level, *number));
            }
            kept.push(stay);
        }
        Ok((kept, left))
    }

    /// Where a file has no epoch, all epochs are derived from the order of older versions: files below level 0 are the
    /// oldest. Returns whether that was so.
    fn complete_epochs(&mut self) -> bool {
        let mut all = self.levels.iter().flat_map(|delta| delta.added.values());
        if all.all(|file| file.epoch_number != 0) {
            return false;
        }
        let mut epoch_number = OLDEST_EPOCH;
        for delta in self.levels.iter_mut().skip(1) {
            delta.added.values_mut().for_each(|file| file.epoch_number = epoch_number);
        }
        let Some(level0) = self.levels.first_mut() else { return true };
        let mut files: Vec<&mut FileMetaData> = level0.added.values_mut().collect();
        files.sort_by_key(|file| (file.largest_seqno, file.smallest_seqno, file.number));
        for file in files {
            epoch_number += 1;
            file.epoch_number = epoch_number;
        }
        true
    }
}

fn not_live(level: usize, number: u64) -> Error {
    Error::corrupt(format!("file {number} is deleted from level {level}, where it is not"))
}

/// Puts the files of a level in order and checks them.
fn build_level(
    level: usize,
    mut files: Vec<Arc<FileMeta>>,
    comparator: &InternalKeyComparator,
    derived_epochs: bool,
) -> Result<Level> {
    let order = |a: &FileMeta, b: &FileMeta| comparator.compare(a.smallest.as_bytes(), b.smallest.as_bytes());
    for file in &files {
        if comparator.compare(file.smallest.as_bytes(), file.largest.as_bytes()).is_gt() {
            return Err(Error::corrupt(format!("file {} on level {level} ends before it begins", file.number)));
        }
    }
    if level == 0 {
        files.sort_by_key(|file| Reverse((file.epoch_number, file.largest_seqno, file.smallest_seqno, file.number)));
        check_level0(&files, comparator, derived_epochs)?;
    } else {
        files.sort_by(|a, b| order(a, b));
        for pair in files.windows(2) {
            if comparator.compare(pair[0].largest.as_bytes(), pair[1].smallest.as_bytes()) != Ordering::Less {
                let (first, second) = (pair[0].number, pair[1].number);
                return Err(Error::corrupt(format!("files {first} and {second} on level {level} overlap")));
            }
        }
    }
    Ok(Level::new(files, comparator))
}

/// Neighbours of level 0, newest first: which one is newer must be certain wherever they overlap. Where only sequence
/// numbers tell the age, those of neighbours must not nest.
fn check_level0(files: &[Arc<FileMeta>], comparator: &InternalKeyComparator, derived_epochs: bool) -> Result<()> {
    for pair in files.windows(2) {
        let (newer, older) = (&*pair[0], &*pair[1]);
        if newer.number == older.number {
            return Err(Error::corrupt(format!("file {} is twice on level 0", newer.number)));
        }
        if newer.epoch_number == older.epoch_number
            && !older.ends_before(comparator, newer.smallest.user_key())
            && !newer.ends_before(comparator, older.smallest.user_key())
        {
            return Err(Error::corrupt(format!(
                "files {} and {} on level 0 overlap and are of one age",
                newer.number, older.number
            )));
        }
        if derived_epochs && !is_newer_by_seqno(newer, older) {
            return Err(Error::corrupt(format!(
                "sequence numbers of files {} and {} on level 0 nest",
                newer.number, older.number
            )));
        }
    }
    Ok(())
}

fn is_newer_by_seqno(newer: &FileMeta, older: &FileMeta) -> bool {
    if older.smallest_seqno == older.largest_seqno {
        // Ingested as a whole, perhaps at a number that flushes went around.
        return older.largest_seqno == 0 || older.largest_seqno < newer.largest_seqno;
    }
    newer.smallest_seqno > older.smallest_seqno
}
