//! What is in the pool, and how often it was asked for.

use super::pool::Pool;
use crate::metrics::Counter;
use crate::page::{Header, PageKind};
use crate::space::{CHANGES_SPACE, UNDO_SPACE};
use std::cell::Cell;

/// What is in the buffer pool at a moment, in frames or pages. Those that change meanwhile may be counted as they were before or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolReport {
    /// Frames.
    pub frames: u64,
    /// Frames that hold no page.
    pub free: u64,
    /// Pages in the young part of the order of use.
    pub young: u64,
    /// Pages in the old part.
    pub old: u64,
    /// Pages that were changed and not written.
    pub dirty: u64,
    /// Pages of rows and index entries.
    pub leaves: u64,
    /// Pages of separators.
    pub inner: u64,
    /// Pages of long values.
    pub overflow: u64,
    /// Pages of bitmaps, first pages of tablespaces, and pages that were given back.
    pub other: u64,
    /// Those of all kinds that belong to the undo log.
    pub undo: u64,
    /// Those of all kinds that belong to the change buffer.
    pub change_buffer: u64,
    /// Pages of the change buffer, in memory or not.
    pub change_buffer_pages: u64,
    /// Pages that the change buffer may have.
    pub change_buffer_pages_max: u64,
}

/// Requests of a thread that are counted together.
const TOGETHER: u32 = 64;

thread_local! {
    /// Whose pages this thread asked for last, and how many of them are not counted yet.
    static ASKED: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

impl Pool {
    /// Takes note that a descent or a scan asked for so many pages. Each thread counts for itself, and tells now and then.
    #[inline]
    pub(crate) fn note_asked(&self, pages: u32) {
        let me = std::ptr::from_ref(self).addr();
        let (pool, before) = ASKED.get();
        let count = if pool == me { before + pages } else { pages };
        ASKED.set((me, if count < TOGETHER { count } else { 0 }));
        if count >= TOGETHER {
            self.metrics.add(Counter::PagesRequested, u64::from(count));
        }
    }

    /// Counts what is in the pool. What of the change buffer is not in memory is not known here.
    pub(crate) fn census(&self) -> PoolReport {
        let (free, len, old) = self.lens();
        let mut report = PoolReport {
            frames: self.frames.len() as u64,
            free: free as u64,
            young: len.saturating_sub(old) as u64,
            old: old as u64,
            dirty: self.state().dirty as u64,
            ..PoolReport::default()
        };
        for (index, frame) in (0_u32..).zip(&self.frames) {
            let Some(id) = frame.page() else { continue };
            // Somebody changes it, or reads it in.
            let Some(page) = self.try_shared(index) else { continue };
            let kind = Header::read(page.bytes()).kind();
            drop(page);
            let count = match kind {
                Some(PageKind::Leaf) => &mut report.leaves,
                Some(PageKind::Inner) => &mut report.inner,
                Some(PageKind::Overflow) => &mut report.overflow,
                _ => &mut report.other,
            };
            *count += 1;
            report.undo += u64::from(id.space == UNDO_SPACE);
            report.change_buffer += u64::from(id.space == CHANGES_SPACE);
        }
        report
    }
}
