//! Fences: keys at which every sorted run has a border, so that large runs can be merged range by range.
//!
//! A merge of whole tables can be cut into pieces only where no table of any run reaches across. So a new run ends its tables at borders of the
//! run that is oldest, and thus largest, evenly spaced, and at the same ones as the runs in between where that is possible. Runs
//! that were written before the oldest one had its present borders lack some; they are merged away in time.

use crate::file_meta::FileMeta;
use crate::key::InternalKeyComparator;
use crate::version::Version;
use std::sync::Arc;

/// Bytes of the oldest run between two fences that are too few, as a part of what is aimed at: a border that all runs have is taken already then.
const EARLY_PARTS: u64 = 2;

/// Where tables of a run at `output_level` should end: every `step` bytes of the oldest run beneath. Ascending; none if nothing is beneath.
pub(super) fn fences(version: &Version, output_level: usize, step: u64) -> Vec<Vec<u8>> {
    let Some(oldest) = version.last_level_with_data().filter(|last| *last > output_level) else { return Vec::new() };
    let order = version.comparator();
    let mut between: Vec<Walk<'_>> =
        (output_level.max(1)..oldest).map(|level| Walk::new(version.files(level))).collect();
    let mut fences = Vec::new();
    let mut bytes = 0;
    let mut before: Option<&FileMeta> = None;
    for file in version.files(oldest) {
        let key = file.smallest.user_key();
        // All versions of a key are in one table; the exclusive end of a range tombstone is no key of its table.
        let is_border = before.is_none_or(|before| before.ends_before(order, key));
        if is_border && bytes >= step / EARLY_PARTS {
            let is_common = !between.iter_mut().any(|walk| walk.reaches_across(order, key));
            if is_common || bytes >= step {
                fences.push(key.to_vec());
                bytes = 0;
            }
        }
        bytes += file.file_size;
        before = Some(&**file);
    }
    fences
}

/// The tables of a level, for ascending keys.
struct Walk<'a> {
    files: &'a [Arc<FileMeta>],
}

impl<'a> Walk<'a> {
    fn new(files: &'a [Arc<FileMeta>]) -> Self {
        Self { files }
    }

    /// Whether a table has keys before `key`, and others at or behind it.
    fn reaches_across(&mut self, order: &InternalKeyComparator, key: &[u8]) -> bool {
        while let Some((first, rest)) = self.files.split_first() {
            if !first.ends_before(order, key) {
                return order.compare_user(first.smallest.user_key(), key).is_lt();
            }
            self.files = rest;
        }
        false
    }
}
