//! How large a part of a walk's entries each table is likely to have: as large a part as it has of all bytes in its range of keys.
//!
//! Not the part that its level has of all bytes: where keys came in order, a level may have all of one range and nothing of another.

use super::Version;
use super::level::Level;
use crate::file_meta::FileMeta;
use crate::iterator::Shares;
use crate::key::InternalKeyComparator;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicU32, Ordering};

/// The tables of a version, and what was found out of them.
#[derive(Debug)]
pub(super) struct VersionShares {
    order: InternalKeyComparator,
    levels: Vec<Arc<Level>>,
    /// Of each table of each level the bits of its part as an `f32`; 0: nobody asked yet.
    known: Vec<Box<[AtomicU32]>>,
}

impl Version {
    /// The parts of its tables.
    pub(super) fn shares(&self) -> Arc<dyn Shares> {
        let shares = self.shares.get_or_init(|| {
            let known = self.levels.iter().map(|level| level.files().iter().map(|_| AtomicU32::new(0)).collect());
            let (order, levels) = (self.comparator.clone(), self.levels.clone());
            Arc::new(VersionShares { order, levels, known: known.collect() })
        });
        Arc::<VersionShares>::clone(shares)
    }
}

impl Shares for VersionShares {
    fn share_of(&self, level: usize, file: &FileMeta) -> f64 {
        let index = self.levels.get(level).and_then(|tables| match level {
            0 => tables.files().iter().position(|other| other.number == file.number),
            _ => Some(tables.overlapping_range(&self.order, Some(file.smallest.user_key()), None).start),
        });
        let known = self.known.get(level).zip(index).and_then(|(known, index)| known.get(index));
        match known.map_or(0, |known| known.load(Ordering::Relaxed)) {
            0 => {
                let own = file.file_size.max(1) as f64;
                let share = own / (own + self.bytes_beside(level, file));
                if let Some(known) = known {
                    known.store((share as f32).to_bits(), Ordering::Relaxed);
                }
                share
            }
            bits => f64::from(f32::from_bits(bits)),
        }
    }
}

impl VersionShares {
    /// Bytes that other sorted runs have in the range of `file`, a table of `level`: whole tables, and of those that reach beyond it as large a part as `file` has of
    /// what its own level has in their range.
    fn bytes_beside(&self, level: usize, file: &FileMeta) -> f64 {
        let (smallest, largest) = (file.smallest.user_key(), file.largest.user_key());
        let mut beside = 0.0;
        for (number, other) in self.levels.iter().enumerate() {
            if number == 0 {
                let meets = |other: &&Arc<FileMeta>| {
                    other.number != file.number
                        && !other.ends_before(&self.order, smallest)
                        && !self.order.compare_user(other.smallest.user_key(), largest).is_gt()
                };
                let others = other.files().iter().filter(meets);
                beside += others.map(|other| self.bytes_within(level, file, other)).sum::<f64>();
            } else if number != level {
                let range = other.overlapping_range(&self.order, Some(smallest), Some(largest));
                let mut tables = other.files().get(range.clone()).unwrap_or_default().iter();
                let (first, last) = (tables.next(), tables.next_back());
                let edges = first.into_iter().chain(last);
                beside += edges.map(|other| self.bytes_within(level, file, other)).sum::<f64>();
                if range.len() > 2 {
                    beside += other.bytes_of(range.start + 1..range.end - 1) as f64;
                }
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
                let range = tables.overlapping_range(&self.order, Some(smallest), Some(largest));
                bytes * file.file_size as f64 / tables.bytes_of(range).max(file.file_size).max(1) as f64
            }
            // Each table of level 0 is a run by itself.
            _ => bytes,
        }
    }
}
