//! Where an output of a compaction ends: a pure decision before each new user key.
//!
//! An output that ends where a table of the next level begins or ends makes the compactions after it smaller. So an output ends at such a
//! border once it is large enough, and without one when it reaches its largest size. The thresholds are RocksDB's. It also ends at
//! every fence, where the picker has set some.

use crate::compaction::Compaction;
use crate::file_meta::FileMeta;
use crate::key::InternalKeyComparator;
use siltstone_base::sync::Arc;

/// Of the target size: the least that an output has when a border ends it, in percent.
const MIN_FILL_PERCENT: u64 = 50;
/// What each border that the output went past adds to that.
const FILL_PERCENT_PER_BORDER: u64 = 5;
/// The most that they add.
const MAX_ADDED_PERCENT: u64 = 40;
/// A grandparent that an output skips as a whole ends it, if it has at least the target size divided by this.
const SKIPPED_SIZE_DIVISOR: u64 = 8;

/// Decides where outputs end.
#[derive(Debug)]
pub(in crate::compaction) struct OutputCutter {
    order: InternalKeyComparator,
    grandparents: Vec<Arc<FileMeta>>,
    target_file_size: u64,
    max_output_file_size: u64,
    max_compaction_bytes: u64,
    /// The grandparent that the last key lies in or before.
    position: usize,
    /// Whether the last key lies within that grandparent.
    within: bool,
    /// Bytes of the grandparents that the current output touches.
    overlapped_bytes: u64,
    /// Borders of grandparents that the current output went past.
    borders: u64,
    /// Keys before which an output ends in any case, ascending, and how many of them are passed.
    fences: Vec<Vec<u8>>,
    passed_fences: usize,
}

impl OutputCutter {
    pub(in crate::compaction) fn new(compaction: &Compaction) -> Self {
        Self {
            order: compaction.input_version.comparator().clone(),
            grandparents: compaction.grandparents.clone(),
            target_file_size: compaction.target_file_size,
            max_output_file_size: compaction.max_output_file_size,
            max_compaction_bytes: compaction.max_compaction_bytes,
            position: 0,
            within: false,
            overlapped_bytes: 0,
            borders: 0,
            fences: compaction.fences.clone(),
            passed_fences: 0,
        }
    }

    /// Whether the output that has `file_size` bytes ends before `user_key`, which is greater than all keys before it. With `file_size` 0
    /// there is no output to end.
    #[inline]
    pub(in crate::compaction) fn ends_before(&mut self, user_key: &[u8], file_size: u64) -> bool {
        let before = self.overlapped_bytes;
        let borders = if self.stays(user_key) { 0 } else { self.advance(user_key) };
        let is_at_fence = self.passed_fences < self.fences.len() && self.passes_fence(user_key);
        let ends = file_size > 0
            && (is_at_fence
                || file_size >= self.max_output_file_size
                || (borders > 0 && self.ends_at_border(borders, before, file_size)));
        if ends || file_size == 0 {
            self.begin_output();
        }
        ends
    }

    /// An output begins with the key that was asked about last.
    pub(in crate::compaction) fn begin_output(&mut self) {
        self.overlapped_bytes = self.current_bytes();
        self.borders = 0;
    }

    /// Whether a fence lies between the last key and `user_key`, or at it.
    fn passes_fence(&mut self, user_key: &[u8]) -> bool {
        let before = self.passed_fences;
        let rest = &self.fences[before..];
        self.passed_fences += rest.iter().take_while(|fence| self.order.compare_user(fence, user_key).is_le()).count();
        self.passed_fences > before
    }

    /// Whether no border lies between the last key and `user_key`.
    #[inline]
    fn stays(&self, user_key: &[u8]) -> bool {
        let Some(file) = self.grandparents.get(self.position) else { return true };
        match self.within {
            true => self.order.compare_user(user_key, file.largest.user_key()).is_le(),
            false => self.order.compare_user(user_key, file.smallest.user_key()).is_lt(),
        }
    }

    /// Goes past the borders before `user_key` and returns how many there are.
    #[cold]
    fn advance(&mut self, user_key: &[u8]) -> u64 {
        let mut crossed = 0;
        while let Some(file) = self.grandparents.get(self.position) {
            if !self.within {
                if self.order.compare_user(user_key, file.smallest.user_key()).is_lt() {
                    break;
                }
                self.within = true;
                self.overlapped_bytes = self.overlapped_bytes.saturating_add(file.file_size);
                crossed += 1;
            }
            if self.order.compare_user(user_key, file.largest.user_key()).is_le() {
                break;
            }
            self.within = false;
            self.position += 1;
            crossed += 1;
        }
        self.borders += crossed;
        crossed
    }

    fn ends_at_border(&self, crossed: u64, overlapped_before: u64, file_size: u64) -> bool {
        if self.overlapped_bytes.saturating_add(file_size) > self.max_compaction_bytes {
            return true;
        }
        // From within a table past a whole other one, or from a gap to another gap.
        let skips = if self.within { 3 } else { 2 };
        let skipped_bytes = self.overlapped_bytes.saturating_sub(overlapped_before);
        if crossed >= skips && skipped_bytes > self.target_file_size / SKIPPED_SIZE_DIVISOR {
            return true;
        }
        let added = (self.borders * FILL_PERCENT_PER_BORDER).min(MAX_ADDED_PERCENT);
        file_size >= self.target_file_size.div_ceil(100).saturating_mul(MIN_FILL_PERCENT + added)
    }

    /// Bytes of the grandparent that the last key lies in.
    fn current_bytes(&self) -> u64 {
        match self.grandparents.get(self.position) {
            Some(file) if self.within => file.file_size,
            _ => 0,
        }
    }
}
