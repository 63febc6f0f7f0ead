//! Ranges of a direct file that are read before somebody asks for them.
//!
//! Whoever says which range he will read next, and then reads just that one, finds it there, or waits for the rest of its way. Who reads anything else reads by himself: a read of a block
//! within does not wait for all of it.

use super::aligned::AlignedBuffer;
use super::background::{self, Begun};
use super::beside::Beside;
use super::handle::Handle;
use super::transfer;
use crate::env::{DIRECT_ALIGNMENT, FileKind, IoContext, IoPriority};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, Rank};
use crossbeam::atomic::AtomicCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 3);

/// Ranges of one file that are on their way at the same time: one for each part of it that a job reads. The oldest goes for the sake of a new one.
pub(in super::super) const MOST: usize = 32;

/// Ranges of all files of an environment that are read ahead at the same time. A flush waits behind each of them, on a device that takes requests in turn, and long if that has to seek.
pub(in super::super) const MOST_AT_ONCE: usize = 1;

/// A longer range is not read ahead, in bytes.
const LONGEST: u64 = 16 << 20;

/// The longest buffer that waits for the next range, in bytes. One is enough: the next range is begun when the one before was copied out of it.
const LONGEST_SPARE: usize = 4 << 20;

/// Nobody waits for it yet.
const CONTEXT: IoContext = IoContext::new(FileKind::Table, IoPriority::Low);

/// Whether a range is one that is read ahead.
pub(in super::super) fn is_read_ahead(offset: u64, len: u64) -> bool {
    (1..=LONGEST).contains(&len) && offset.is_multiple_of(DIRECT_ALIGNMENT as u64)
}

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
    asked_micros: u64,
    begun: Begun<(AlignedBuffer, io::Result<usize>)>,
}

/// The ranges that are being read ahead.
#[derive(Debug, Default)]
pub(super) struct AtOnce {
    count: AtomicUsize,
    beside: Beside,
    spare: Spare,
}

/// A buffer whose bytes were copied out. Who maps memory for each range makes all threads of the process wait that need some, too.
#[derive(Default)]
struct Spare(AtomicCell<Option<AlignedBuffer>>);

impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spare")
    }
}

impl Spare {
    /// A buffer of at least `len` bytes.
    fn take(&self, len: usize) -> AlignedBuffer {
        self.0.take().filter(|buffer| buffer.len() >= len).unwrap_or_else(|| AlignedBuffer::new(len))
    }

    /// Keeps the longer one of this and what is there.
    fn keep(&self, buffer: AlignedBuffer) {
        if buffer.len() <= LONGEST_SPARE {
            let before = self.0.take().filter(|before| before.len() > buffer.len());
            self.0.store(Some(before.unwrap_or(buffer)));
        }
    }
}

/// One of them, until this is dropped.
struct Turn(Arc<AtOnce>);

impl AtOnce {
    /// `None` where there are as many as may be, or it is of no use.
    fn turn(self: &Arc<Self>) -> Option<Turn> {
        let more = |count: usize| (count < MOST_AT_ONCE).then_some(count + 1);
        if !self.beside.is_of_use() {
            return None;
        }
        self.count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).ok()?;
        Some(Turn(Arc::clone(self)))
    }

    /// Waits until what was asked for has been read.
    #[cfg(test)]
    pub(super) fn wait(&self) {
        while self.count.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl OnItsWay {
    /// What was read in vain is counted, unless it is being read yet.
    fn let_go(self, handle: &Handle) {
        if let Some((_, Ok(read))) = self.begun.end_if_done() {
            handle.stats().record_read(CONTEXT, read as u64);
        }
    }
}

impl Ahead {
    /// Begins to read a range of the file, which is not written any more. What was begun at `offset` before is forgotten.
    pub(super) fn begin(&self, handle: &Arc<Handle>, offset: u64, len: u64) {
        self.forget(handle, offset);
        let end = handle.len().unwrap_or(0).min(offset.saturating_add(len));
        let len = end.saturating_sub(offset);
        if !is_read_ahead(offset, len) {
            return;
        }
        let asked_micros = handle.clock().now_micros();
        let Some(turn) = handle.read_ahead().turn() else { return };
        let len = len as usize;
        let file = Arc::clone(handle);
        let begun = background::begin(move || {
            let _turn = turn;
            let aligned = len.next_multiple_of(DIRECT_ALIGNMENT);
            let mut buffer = file.read_ahead().spare.take(aligned);
            let most = file.most_at_once(CONTEXT);
            let read = transfer::read_at_direct(file.fd(), offset, &mut buffer[..aligned], most, DIRECT_ALIGNMENT);
            (buffer, read)
        });
        let oldest = {
            let mut ranges = self.ranges.0.lock();
            let oldest = if ranges.len() >= MOST { ranges.pop_front() } else { None };
            ranges.push_back(OnItsWay { offset, len, asked_micros, begun });
            self.count.store(ranges.len(), Ordering::Release);
            oldest
        };
        if let Some(oldest) = oldest {
            oldest.let_go(handle);
        }
    }

    /// Nobody will read what was begun at `offset`.
    pub(super) fn forget(&self, handle: &Handle, offset: u64) {
        if let Some(range) = self.take(|range| range.offset == offset) {
            range.let_go(handle);
        }
    }

    /// The bytes of just this range, if they were read ahead, or are being; `None` if not, or if that failed. Returns how many there are: fewer only at the end of the file.
    #[inline]
    pub(super) fn read(&self, handle: &Handle, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        if !offset.is_multiple_of(DIRECT_ALIGNMENT as u64) {
            return None;
        }
        let range = self.take(|range| range.offset == offset && range.len == buffer.len())?;
        let needed = handle.clock().now_micros();
        let (bytes, read) = range.begun.end_if_begun()?;
        handle.read_ahead().beside.came(range.asked_micros, needed, handle.clock().now_micros());
        let count = read.map(|count| count.min(buffer.len()));
        if let Ok(count) = count {
            buffer[..count].copy_from_slice(&bytes[..count]);
        }
        handle.read_ahead().spare.keep(bytes);
        count.ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_waits_for_the_next_range_that_fits() {
        let spare = Spare::default();
        let buffer = spare.take(8 << 10);
        let memory = buffer.as_ptr();
        spare.keep(buffer);
        let again = spare.take(4 << 10);
        assert_eq!((again.as_ptr(), again.len()), (memory, 8 << 10));
        assert_eq!(spare.take(4 << 10).len(), 4 << 10, "there was one");
        spare.keep(again);
        spare.keep(AlignedBuffer::new(4 << 10));
        assert_eq!(spare.take(8 << 10).as_ptr(), memory, "a shorter one does not take its place");
        assert_eq!(spare.take(64 << 10).len(), 64 << 10);
        spare.keep(AlignedBuffer::new(LONGEST_SPARE + 4096));
        assert!(spare.0.take().is_none(), "one that is so long does not wait");
    }
}
