//! The flush list: dirty pages in the order in which they became dirty.

use super::frame::Frame;
use crate::page::Lsn;
use siltstone_base::sync::atomic::Ordering;
use std::collections::VecDeque;

/// Entries are added at the end, in the order of the redo log. One counts while its frame still says the same LSN; the others are passed over.
#[derive(Debug, Default)]
pub(super) struct FlushList {
    /// Oldest first.
    queue: VecDeque<(Lsn, u32)>,
    /// The oldest LSNs of pages that are being written.
    in_flight: Vec<Lsn>,
    /// Dirty pages, those being written not counted.
    len: usize,
}

impl FlushList {
    /// Adds a page that became dirty.
    #[inline]
    pub(super) fn push(&mut self, lsn: Lsn, frame: u32) {
        debug_assert!(self.queue.back().is_none_or(|(last, _)| *last <= lsn), "in the order of the log");
        self.queue.push_back((lsn, frame));
        self.len += 1;
    }

    /// Takes note that a page is being written, or was given up.
    pub(super) fn begin_write(&mut self, lsn: Lsn) {
        self.in_flight.push(lsn);
        self.len = self.len.saturating_sub(1);
    }

    /// A page that was being written is in its place.
    pub(super) fn end_write(&mut self, lsn: Lsn) {
        if let Some(position) = self.in_flight.iter().position(|other| *other == lsn) {
            self.in_flight.swap_remove(position);
        }
    }

    /// A page that was being written is not in its place: it is as dirty as before. `is_dirty`: it became dirty again meanwhile.
    pub(super) fn fail_write(&mut self, lsn: Lsn, frame: u32, is_dirty: bool) {
        self.end_write(lsn);
        let position = self.queue.partition_point(|(other, _)| *other <= lsn);
        self.queue.insert(position, (lsn, frame));
        self.len += usize::from(!is_dirty);
    }

    /// A page is clean without having been written.
    pub(super) fn forget(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    /// The LSN of the oldest change that is not in its place.
    pub(super) fn oldest(&mut self, frames: &[Frame]) -> Option<Lsn> {
        let counts = |(lsn, frame): &(Lsn, u32)| {
            frames.get(*frame as usize).is_some_and(|frame| frame.oldest_lsn.load(Ordering::Acquire) == *lsn)
        };
        while self.queue.front().is_some_and(|entry| !counts(entry)) {
            self.queue.pop_front();
        }
        let queued = self.queue.front().map(|(lsn, _)| *lsn);
        self.in_flight.iter().copied().chain(queued).min()
    }

    /// The oldest pages, at most `count`, that became dirty before `limit`.
    pub(super) fn candidates(&mut self, frames: &[Frame], count: usize, limit: Lsn) -> Vec<u32> {
        self.oldest(frames);
        let counts = |(lsn, frame): &&(Lsn, u32)| {
            frames.get(*frame as usize).is_some_and(|frame| frame.oldest_lsn.load(Ordering::Acquire) == *lsn)
        };
        let before = self.queue.iter().take_while(|(lsn, _)| *lsn < limit);
        before.filter(counts).take(count).map(|(_, frame)| *frame).collect()
    }

    /// Dirty pages.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
