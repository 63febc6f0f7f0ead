//! Ranges of a direct file that are read before somebody asks for them.
//!
//! Whoever says which range he will read next, and then reads just that one, finds it there, or waits for the rest of its way. Who reads anything else reads by himself: a read of a block
//! within does not wait for all of it.

use super::aligned::AlignedBuffer;
use super::background::{self, Begun};
use super::handle::Handle;
use super::transfer;
use crate::env::{DIRECT_ALIGNMENT, FileKind, IoContext, IoPriority};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, Rank};
use std::collections::VecDeque;
use std::fmt;
use std::io;

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 3);

/// Ranges of one file that are on their way at the same time: one for each part of it that a job reads. The oldest goes for the sake of a new one.
const MOST: usize = 4;

/// A longer range is not read ahead, in bytes.
const LONGEST: u64 = 4 << 20;

/// Nobody waits for it yet.
const CONTEXT: IoContext = IoContext::new(FileKind::Table, IoPriority::Low);

/// What is on its way of one file.
///
/// Thread safety: any thread may call anything.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// How many ranges there are: reads of single blocks look no further.
    count: AtomicUsize,
    ranges: Ranges,
}

struct Ranges(Mutex<VecDeque<OnItsWay>>);

impl fmt::Debug for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ranges")
    }
}

impl Default for Ranges {
    fn default() -> Self {
        Self(Mutex::new(RANK, VecDeque::new()))
    }
}

struct OnItsWay {
    offset: u64,
    len: usize,
    begun: Begun<(AlignedBuffer, io::Result<usize>)>,
}

impl Ahead {
    /// Begins to read a range of the file, which is not written any more. What was begun at `offset` before is forgotten.
    pub(super) fn begin(&self, handle: &Arc<Handle>, offset: u64, len: u64) {
        self.forget(offset);
        let end = handle.len().unwrap_or(0).min(offset.saturating_add(len));
        let len = end.saturating_sub(offset);
        if len == 0 || len > LONGEST || !offset.is_multiple_of(DIRECT_ALIGNMENT as u64) {
            return;
        }
        let len = len as usize;
        let handle = Arc::clone(handle);
        let read = move || {
            let mut buffer = AlignedBuffer::new(len.next_multiple_of(DIRECT_ALIGNMENT));
            let most = handle.most_at_once(CONTEXT);
            let read = transfer::read_at_direct(handle.fd(), offset, &mut buffer, most);
            (buffer, read)
        };
        // It is a hint.
        let Ok(begun) = background::begin(read) else { return };
        let mut ranges = self.ranges.0.lock();
        if ranges.len() >= MOST {
            ranges.pop_front();
        }
        ranges.push_back(OnItsWay { offset, len, begun });
        self.count.store(ranges.len(), Ordering::Release);
    }

    /// Nobody will read what was begun at `offset`.
    pub(super) fn forget(&self, offset: u64) {
        drop(self.take(|range| range.offset == offset));
    }

    /// The bytes of just this range, if they were read ahead; `None` if not, or if that failed. Returns how many there are: fewer only at the end of the file.
    #[inline]
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        let range = self.take(|range| range.offset == offset && range.len == buffer.len())?;
        let (bytes, read) = range.begun.end()?;
        let count = read.ok()?.min(buffer.len());
        buffer[..count].copy_from_slice(bytes.get(..count)?);
        Some(count)
    }

    #[inline]
    fn take(&self, is_wanted: impl Fn(&OnItsWay) -> bool) -> Option<OnItsWay> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut ranges = self.ranges.0.lock();
        let at = ranges.iter().position(is_wanted)?;
        let range = ranges.remove(at);
        self.count.store(ranges.len(), Ordering::Release);
        range
    }
}
