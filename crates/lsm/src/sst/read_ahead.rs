//! Reading a table's blocks from front to back with few large reads.

use super::block::Block;
use super::fetch::BlockFetcher;
use super::format::BlockHandle;
use siltstone_base::Result;
use siltstone_base::block_pool::PooledBuf;
use siltstone_base::env::{DIRECT_ALIGNMENT, IoContext, RandomFile};
use std::ops::Range;
use std::sync::Arc;

/// The first size that a buffer grows from, in bytes.
const MIN_READ_AHEAD: usize = 16 << 10;
/// The size that a buffer grows to by itself, in bytes.
pub(crate) const MAX_AUTO_READ_AHEAD: usize = 256 << 10;
/// Direct reads of whole aligned units into aligned memory are made without a copy.
const ALIGNMENT: u64 = DIRECT_ALIGNMENT as u64;
/// Blocks that must be read in order from disk before anything is read ahead of a walk of which nobody knows how far it goes.
const SEQUENTIAL_READS: u32 = 2;
/// So much is read at once of a walk that is known to go so far, in bytes: a device takes about as long for it as for a block.
pub(super) const AT_ONCE: usize = 64 << 10;

/// How far a walk goes from a block on, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nobody knows.
    Unknown,
    /// What it reads ends there in the file, no more than [`AT_ONCE`] behind the beginning of the block.
    Until(u64),
    /// Further than that.
    Far,
}

/// A window of the file that was read ahead.
///
/// With a growing size nothing is read ahead until some blocks in a row came from disk; then each read is twice as
/// long as the one before, up to a limit. Each seek elsewhere begins anew. Where it is known that the walk ends soon, all that it reads is read at once; and where it is known that it does
/// not, the first read is as long as that, and nothing is waited for.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    window: Option<PooledBuf>,
    window_offset: u64,
    /// Size of the next read.
    size: usize,
    max_size: usize,
    /// Whether the size grows; otherwise it is `max_size` from the first read on.
    grows: bool,
    /// Where the last block that came from disk ended.
    expected: u64,
    sequential: u32,
    /// What is read in place of the table's own file.
    file: Option<Arc<dyn RandomFile>>,
    /// Where a direct file is read while the window is decoded.
    asked: Option<(Arc<dyn RandomFile>, u64)>,
}

impl ReadAhead {
    /// Grows by itself up to `max_size` bytes.
    pub(crate) fn growing(max_size: usize) -> Self {
        Self::with(max_size, true)
    }

    /// Reads `size` bytes at a time.
    pub(crate) fn fixed(size: usize) -> Self {
        Self::with(size, false)
    }

    fn with(max_size: usize, grows: bool) -> Self {
        Self {
            window: None,
            window_offset: 0,
            size: if grows { MIN_READ_AHEAD.min(max_size) } else { max_size },
            max_size,
            grows,
            expected: 0,
            sequential: 0,
            file: None,
            asked: None,
        }
    }

    /// Reads through another file of the same bytes from now on.
    pub(crate) fn read_through(&mut self, file: Arc<dyn RandomFile>) {
        self.file = Some(file);
    }

    /// Reads the block at `handle`, from the window if it is there. Where sizes grow, `reach` says by how much more than that.
    pub(super) fn block(
        &mut self,
        fetcher: &BlockFetcher,
        handle: BlockHandle,
        reach: Reach,
        verify: bool,
        context: IoContext,
    ) -> Result<Block> {
        let end = fetcher.end_of(handle)?;
        let len = (end - handle.offset) as usize;
        if self.file.is_none()
            && let Some(stored) = fetcher.file.mapped(handle.offset, len)
        {
            return fetcher.data_block_from(stored, handle, verify);
        }
        if !self.holds(handle.offset, len) && !self.fill(fetcher, handle.offset..end, reach, context)? {
            return fetcher.data_block(handle, verify, context);
        }
        let start = (handle.offset - self.window_offset) as usize;
        let stored = self.window.as_deref().and_then(|window| window.get(start..start + len)).unwrap_or_default();
        self.expected = end;
        fetcher.data_block_from(stored, handle, verify)
    }

    /// Whether it matters how far the walk goes from the block at `handle` on.
    pub(super) fn asks_how_far(&self, fetcher: &BlockFetcher, handle: BlockHandle) -> bool {
        self.grows && (self.file.is_some() || fetcher.file.mapped(handle.offset, 1).is_none())
    }

    /// The walk passed by a block without reading it: the one behind it comes in order.
    pub(super) fn passed(&mut self, block: &Range<u64>) {
        if self.expected == block.start {
            self.expected = block.end;
        }
    }

    fn holds(&self, offset: u64, len: usize) -> bool {
        let window_len = self.window.as_deref().map_or(0, <[u8]>::len) as u64;
        offset >= self.window_offset && offset + len as u64 <= self.window_offset + window_len
    }

    /// Reads a window that begins with the block; false if nothing should be read ahead.
    fn fill(&mut self, fetcher: &BlockFetcher, block: Range<u64>, reach: Reach, context: IoContext) -> Result<bool> {
        let (in_order, len) = (block.start == self.expected, (block.end - block.start) as usize);
        self.expected = block.end;
        if !in_order {
            self.take_back();
        }
        let mut known_end = None;
        if self.grows {
            self.sequential = if in_order { self.sequential.saturating_add(1) } else { 1 };
            if !in_order {
                self.size = MIN_READ_AHEAD.min(self.max_size);
            }
            match reach {
                Reach::Until(end) if end > block.end => known_end = Some(end.min(fetcher.file_size)),
                Reach::Far => self.size = self.size.max(AT_ONCE.min(self.max_size)),
                Reach::Unknown | Reach::Until(_) if self.sequential <= SEQUENTIAL_READS => return Ok(false),
                Reach::Unknown | Reach::Until(_) => {}
            }
        }
        let start = block.start / ALIGNMENT * ALIGNMENT;
        let kept = self.kept_from(start);
        let read_from = start + kept.len() as u64;
        let grown = || read_from.saturating_add(self.next_len(read_from, fetcher));
        let wanted = known_end.unwrap_or_else(grown);
        let end = wanted.max(block.end).next_multiple_of(ALIGNMENT).min(fetcher.file_size);
        let mut window = self.next_window(fetcher, (end - start) as usize);
        let (front, rest) = window.split_at_mut(kept.len());
        front.copy_from_slice(&kept);
        let file = Arc::clone(self.file.as_ref().unwrap_or(&fetcher.file));
        fetcher.read_exact_from(&*file, read_from, rest, context)?;
        // That was what was asked for, if anything was.
        self.asked = self.asked.take().filter(|(_, from)| *from != read_from);
        self.window_offset = start;
        self.window = Some(window);
        if known_end.is_some() {
            return Ok(true);
        }
        let is_long = in_order && len <= self.max_size && self.size == self.max_size;
        if self.grows {
            self.size = (self.size * 2).min(self.max_size);
        }
        let next_len = self.next_len(end, fetcher);
        if next_len > 0 {
            self.ask_for(file, end, next_len, is_long);
        }
        Ok(true)
    }

    /// Memory for the next window: that of the one before, if it is as much as is needed and not much more, as after a block that is longer than any window. Else that goes back to the pool first.
    fn next_window(&mut self, fetcher: &BlockFetcher, len: usize) -> PooledBuf {
        let most = len.max(self.max_size).saturating_mul(2);
        let before = self.window.take().filter(|window| window.capacity_charged() <= most);
        let before = before.and_then(|mut window| window.resize_within(len).then_some(window));
        before.unwrap_or_else(|| fetcher.pool.alloc_aligned(len, DIRECT_ALIGNMENT))
    }

    /// Bytes of a read that begins at `from`, up to the end of the data.
    fn next_len(&self, from: u64, fetcher: &BlockFetcher) -> u64 {
        let data_end = fetcher.data_end.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
        let left = data_end.min(fetcher.file_size).saturating_sub(from);
        (self.size as u64).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX).min(left)
    }

    /// What the window has from `start` to its end, if the next one can begin with that.
    fn kept_from(&self, start: u64) -> Vec<u8> {
        let window = self.window.as_deref().unwrap_or_default();
        let kept = start.checked_sub(self.window_offset).and_then(|at| window.get(usize::try_from(at).ok()?..));
        let fits = |kept: &&[u8]| kept.len() <= self.max_size && kept.len().is_multiple_of(DIRECT_ALIGNMENT);
        kept.filter(fits).map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// The device works on the next window while this one is decoded. Of a direct file only where the walk is a long one: what is read in vain takes the device's time from others.
    fn ask_for(&mut self, file: Arc<dyn RandomFile>, from: u64, len: u64, is_long: bool) {
        if !file.is_direct() {
            return file.will_need(from, len);
        }
        self.take_back();
        if is_long {
            file.will_need(from, len);
            self.asked = Some((file, from));
        }
    }

    /// Nobody reads on.
    fn take_back(&mut self) {
        if let Some((file, from)) = self.asked.take() {
            file.forget(from);
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.take_back();
    }
}
