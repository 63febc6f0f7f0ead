//! Short transfers in the background while callers read.
//!
//! A device takes some requests in turn, and the host beneath a virtual one may take all of them so: a read of 4 KiB stands behind the megabyte that a compaction
//! moves at once. While callers read past the page cache, background work moves what it has in pieces, between which they come in. When nobody reads, it moves all at once.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a piece.
const PIECE_LEN: usize = 128 << 10;

/// How long after a caller's read others are expected, in microseconds.
const EXPECTED_MICROS: u64 = 100_000;

/// Reads are noted at most so often, in microseconds: many readers would take the cache line from each other.
const NOTE_MICROS: u64 = 1_000;

/// When a caller last read. Thread safety: any thread may call anything; a note that is lost to another is as old as that one.
#[derive(Debug, Default)]
pub(super) struct CallersReads {
    /// Zero: nobody has.
    last_micros: AtomicU64,
}

impl CallersReads {
    /// A caller reads.
    #[inline]
    pub(super) fn note(&self, now_micros: u64) {
        if now_micros.saturating_sub(self.last_micros.load(Ordering::Relaxed)) >= NOTE_MICROS {
            self.last_micros.store(now_micros, Ordering::Relaxed);
        }
    }

    /// Bytes that background work moves with one system call.
    pub(super) fn most_at_once(&self, now_micros: u64) -> usize {
        let last = self.last_micros.load(Ordering::Relaxed);
        if last > 0 && now_micros.saturating_sub(last) < EXPECTED_MICROS { PIECE_LEN } else { usize::MAX }
    }
}
