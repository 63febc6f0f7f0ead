//! Which tables may have a key.

use super::Version;
use crate::file_meta::FileMeta;
use crate::key::LookupKey;
use siltstone_base::sync::Arc;

/// The tables whose ranges include a key, each with its level, newest first: those of level 0 from the newest to the oldest, then level by level, at most one each.
pub(super) struct Candidates<'a> {
    version: &'a Version,
    key: &'a LookupKey,
    level: usize,
    /// The next table of level 0.
    index: usize,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(version: &'a Version, key: &'a LookupKey) -> Self {
        Self { version, key, level: 0, index: 0 }
    }

    #[inline]
    fn next_of_level_0(&mut self) -> Option<&'a Arc<FileMeta>> {
        let (level, user_key) = (self.version.levels.first()?, self.key.user_key());
        while let Some(file) = level.files().get(self.index) {
            let index = self.index;
            self.index += 1;
            if level.covers(&self.version.comparator, index, user_key) {
                return Some(file);
            }
        }
        None
    }
}

impl<'a> Iterator for Candidates<'a> {
    type Item = (usize, &'a Arc<FileMeta>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.level == 0 {
            if let Some(file) = self.next_of_level_0() {
                return Some((0, file));
            }
            self.level = 1;
        }
        while let Some(level) = self.version.levels.get(self.level) {
            let number = self.level;
            self.level += 1;
            if !level.is_empty()
                && let Some(file) = level.find(&self.version.comparator, self.key.internal_key())
            {
                return Some((number, file));
            }
        }
        None
    }
}
