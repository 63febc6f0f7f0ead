//! Past entries that range tombstones cover.

use super::{Direction, Iter};
use crate::iterator::{InternalIterator, RangeView};
use crate::key::{MAX_SEQNO, ParsedKey, SEEK_TYPE, pack_trailer};
use siltstone_base::Result;

/// So many covered entries in a row are passed one by one, which is cheaper than seeking past a few.
const COVERED_STEPS: u32 = 8;

impl Iter {
    /// Passes the entry that `merged` stands on, which a range tombstone covers; after some of them, seeks past all that is covered.
    #[cold]
    pub(super) fn pass_covered(&mut self) {
        self.counts.covered += 1;
        self.covered_steps += 1;
        let is_forward = self.direction == Direction::Forward;
        let run = match &self.ranges {
            Some(ranges) if self.covered_steps > COVERED_STEPS => {
                // An error was met before, when the entry was found to be covered.
                ranges.covered_run(crate::key::user_key(self.merged.key())).ok().flatten()
            }
            _ => None,
        };
        let skip = run.and_then(|run| Some((run.older_children, if is_forward { run.end } else { run.start }?)));
        let older_children = skip.map(|(older_children, bound)| {
            self.target.clear();
            self.target.extend_from_slice(bound);
            self.target.extend_from_slice(&pack_trailer(MAX_SEQNO, SEEK_TYPE).to_le_bytes());
            older_children
        });
        if is_forward {
            self.merged.next();
        } else {
            self.merged.prev();
        }
        if let Some(older_children) = older_children {
            self.covered_steps = 0;
            self.merged.skip_children(older_children, &self.target);
        }
    }
}

/// Whether a range tombstone that the reader sees hides an entry.
#[inline]
pub(super) fn is_covered(ranges: &mut Option<Box<RangeView>>, entry: &ParsedKey<'_>) -> Result<bool> {
    match ranges {
        None => Ok(false),
        Some(ranges) => Ok(ranges.covering(entry.user_key)? > entry.seqno),
    }
}
