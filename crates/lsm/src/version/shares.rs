//! How large a part of a walk's entries each table is likely to have: as large a part as it has of all bytes in its range of keys.
//!
//! Not the part that its level has of all bytes: where keys came in order, a level may have all of one range and nothing of another.

use super::Version;
use crate::file_meta::FileMeta;
use crate::sst::Shares;
use siltstone_base::sync::Arc;

/// Knows it of the tables of one level.
#[derive(Debug)]
pub(crate) struct LevelShares {
    version: Arc<Version>,
    level: usize,
}

impl LevelShares {
    /// Of the tables of `level`.
    pub(super) fn of(version: &Arc<Version>, level: usize) -> Arc<dyn Shares> {
        Arc::new(Self { version: Arc::clone(version), level })
    }
}

impl Shares for LevelShares {
    fn share_of(&self, file: &FileMeta) -> f64 {
        let own = file.file_size.max(1) as f64;
        own / (own + self.version.bytes_beside(self.level, file))
    }
}

impl Version {
    /// Bytes that other sorted runs have in the range of `file`, a table of `level`: whole tables, and of those that reach beyond it as large a part as `file` has of
    /// what its own level has in their range.
    fn bytes_beside(&self, level: usize, file: &FileMeta) -> f64 {
        let (smallest, largest) = (file.smallest.user_key(), file.largest.user_key());
        let mut beside = 0.0;
        for (number, other) in self.levels.iter().enumerate() {
            if number == 0 {
                let others = self.overlapping_files(0, Some(smallest), Some(largest));
                let others = others.iter().filter(|other| other.number != file.number);
                beside += others.map(|other| self.bytes_within(level, file, other)).sum::<f64>();
            } else if number != level {
                let range = other.overlapping_range(&self.comparator, Some(smallest), Some(largest));
                let edges = [range.start, range.end.max(1) - 1];
                let (first, last) = (other.files().get(edges[0]), other.files().get(edges[1]));
                let inner = edges[0].saturating_add(1)..edges[1];
                beside += match (range.len(), first, last) {
                    (0, ..) | (_, None, _) | (_, _, None) => 0.0,
                    (1, Some(only), _) => self.bytes_within(level, file, only),
                    (_, Some(first), Some(last)) => {
                        let inner = other.bytes_of(inner) as f64;
                        inner + self.bytes_within(level, file, first) + self.bytes_within(level, file, last)
                    }
                };
            }
        }
        beside
    }

    /// Bytes that `other` has in the range of `file`, a table of `level`.
    fn bytes_within(&self, level: usize, file: &FileMeta, other: &FileMeta) -> f64 {
        let bytes = other.file_size as f64;
        match self.levels.get(level) {
            Some(tables) if level > 0 => {
                let (smallest, largest) = (other.smallest.user_key(), other.largest.user_key());
                let range = tables.overlapping_range(&self.comparator, Some(smallest), Some(largest));
                bytes * file.file_size as f64 / tables.bytes_of(range).max(file.file_size).max(1) as f64
            }
            // Each table of level 0 is a run by itself.
            _ => bytes,
        }
    }
}
