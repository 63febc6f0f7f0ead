//! Files on the modelled device.

use super::device::{Device, Range};
use super::page_cache::{PAGE, PageCache};
use crate::env::posix::{Beside, MOST_AHEAD, MOST_AT_ONCE, is_read_ahead};
use crate::env::{Access, AppendFile, FileOptions, IoContext, RandomFile, RandomWriteFile, ReadRequest, SyncHandle};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Rank};
use std::collections::VecDeque;
use std::fmt;
use std::io;

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 12);

/// The same, of the whole machine.
const ASKED_RANK: Rank = Rank(u16::MAX - 14);

/// The device and its page cache.
pub(super) struct Machine {
    pub(super) device: Device,
    pub(super) cache: PageCache,
    /// What is read ahead of direct files.
    pub(super) asked: Asked,
}

/// When the ranges of direct files will be there that are read in advance: as many at a time as the file beneath reads. Whoever needs one of the others reads it himself.
pub(super) struct Asked {
    done: Mutex<Vec<u64>>,
    read_ahead: Beside,
    written_behind: Beside,
}

impl Asked {
    pub(super) fn new() -> Self {
        let done = Mutex::new(ASKED_RANK, Vec::new());
        Self { done, read_ahead: Beside::default(), written_behind: Beside::default() }
    }

    /// Whether one more may be at `now`.
    fn has_room(&self, now: u64) -> bool {
        if !self.read_ahead.is_of_use() {
            return false;
        }
        let mut asked = self.done.lock();
        asked.retain(|done| *done > now);
        asked.len() < MOST_AT_ONCE
    }

    fn add(&self, done: u64) {
        self.done.lock().push(done);
    }
}

/// A file as the device knows it, whatever it is called and however often it is open.
#[derive(Debug)]
pub(super) struct FileState {
    pub(super) id: u64,
    /// Device time of what was written to the page cache since the last sync.
    dirty: AtomicU64,
    /// Where the last write ended.
    write_end: AtomicU64,
}

impl FileState {
    pub(super) fn new(id: u64) -> Self {
        Self { id, dirty: AtomicU64::new(0), write_end: AtomicU64::new(u64::MAX) }
    }

    /// What the device will not write any more.
    pub(super) fn take_dirty(&self) -> u64 {
        self.dirty.swap(0, Ordering::Relaxed)
    }
}

/// What every kind of open file needs.
pub(super) struct Throttle {
    machine: Arc<Machine>,
    state: Arc<FileState>,
    direct: bool,
    /// Where the last buffered read ended, if the file is read front to back.
    read_ahead_from: Option<AtomicU64>,
    prefetch: Mutex<Prefetch>,
    /// Of a direct file: what was asked for in advance, by its range of bytes.
    ahead: Mutex<VecDeque<Ahead>>,
    behind: Mutex<Behind>,
}

/// Bytes that a direct file that is appended to writes at a time, while as many more are taken in.
const UNIT: u64 = 1 << 20;

/// A range of a direct file on its way, and when it will be there.
struct Ahead {
    offset: u64,
    len: u64,
    asked: u64,
    done: u64,
}

/// What was appended to a direct file and nobody has waited for.
#[derive(Default)]
struct Behind {
    bytes: u64,
    /// When the unit before was whole, and will be there.
    unit_begun: u64,
    unit_done: u64,
    /// When all of it will be.
    done: u64,
}

/// A range that the device was asked for in advance, and when it will be there.
#[derive(Default)]
struct Prefetch {
    pages: std::ops::Range<u64>,
    done: u64,
}

impl Throttle {
    pub(super) fn new(machine: Arc<Machine>, state: Arc<FileState>, options: &FileOptions) -> Self {
        let read_ahead_from = (options.access == Access::Sequential).then(|| AtomicU64::new(0));
        let prefetch = Mutex::new(RANK, Prefetch::default());
        let (ahead, behind) = (Mutex::new(RANK, VecDeque::new()), Mutex::new(RANK, Behind::default()));
        Self { machine, state, direct: options.direct, read_ahead_from, prefetch, ahead, behind }
    }

    /// Gives the device a read that was made since `begin`; returns when it would have ended.
    fn read(&self, begin: u64, offset: u64, len: u64) -> u64 {
        let Machine { device, cache, .. } = &*self.machine;
        let file = self.state.id;
        if len == 0 {
            return 0;
        }
        if self.direct {
            let ahead = self.take_ahead(offset, len);
            if let Some(ahead) = &ahead {
                self.machine.asked.read_ahead.came(ahead.asked, begin, ahead.done);
            }
            return ahead
                .map(|ahead| ahead.done)
                .unwrap_or_else(|| device.read(begin, Range { file, offset, len }, false));
        }
        let mut goes_on = self.read_ahead_from.as_ref().is_some_and(|end| {
            let last = end.swap(offset.saturating_add(len), Ordering::Relaxed);
            // The first read may begin anywhere within the page where the last one ended.
            last != 0 && last / PAGE == offset / PAGE
        });
        let mut done = self.prefetched(offset, len);
        cache.read(file, offset, len, |pages| {
            let range = Range { file, offset: pages.start * PAGE, len: (pages.end - pages.start) * PAGE };
            done = done.max(device.read(begin, range, goes_on));
            goes_on = self.read_ahead_from.is_some();
        });
        done
    }

    /// When the part of a range that was asked for in advance will be there.
    fn prefetched(&self, offset: u64, len: u64) -> u64 {
        let prefetch = self.prefetch.lock();
        let overlaps = prefetch.pages.start * PAGE < offset.saturating_add(len) && offset < prefetch.pages.end * PAGE;
        if overlaps { prefetch.done } else { 0 }
    }

    fn will_need(&self, offset: u64, len: u64, file_len: u64) {
        let len = len.min(file_len.saturating_sub(offset));
        if self.direct {
            self.forget(offset);
        }
        if len == 0 {
            return;
        }
        let begin = self.begin();
        if self.direct {
            if !is_read_ahead(offset, len) || !self.machine.asked.has_room(begin) {
                return;
            }
            let done = self.machine.device.read(begin, Range { file: self.state.id, offset, len }, false);
            self.machine.asked.add(done);
            let mut ahead = self.ahead.lock();
            if ahead.len() >= MOST_AHEAD {
                ahead.pop_front();
            }
            ahead.push_back(Ahead { offset, len, asked: begin, done });
            return;
        }
        let mut prefetch = Prefetch { pages: offset / PAGE..(offset + len).div_ceil(PAGE), done: 0 };
        self.machine.cache.read(self.state.id, offset, len, |pages| {
            let range =
                Range { file: self.state.id, offset: pages.start * PAGE, len: (pages.end - pages.start) * PAGE };
            prefetch.done = prefetch.done.max(self.machine.device.read(begin, range, false));
        });
        if prefetch.done > 0 {
            *self.prefetch.lock() = prefetch;
        }
    }

    /// What was asked for in advance, if it is just this range.
    fn take_ahead(&self, offset: u64, len: u64) -> Option<Ahead> {
        let mut ahead = self.ahead.lock();
        let at = ahead.iter().position(|ahead| ahead.offset == offset && ahead.len == len)?;
        ahead.remove(at)
    }

    /// What was asked for in advance at `offset` was read in vain.
    fn forget(&self, offset: u64) {
        self.ahead.lock().retain(|ahead| ahead.offset != offset);
    }

    /// Appends to a direct file: a unit is written while the next one is taken in, so the end of the one before is waited for.
    fn append(&self, begin: u64, offset: u64, len: u64) {
        if !self.direct {
            return self.write(begin, offset, len);
        }
        if len == 0 {
            return;
        }
        let device = &self.machine.device;
        let mut goes_on = self.state.write_end.swap(offset.saturating_add(len), Ordering::Relaxed) == offset;
        let (mut offset, mut left) = (offset, len);
        while left > 0 {
            let (piece, before) = {
                let mut behind = self.behind.lock();
                let piece = left.min(UNIT - behind.bytes);
                behind.bytes += piece;
                behind.done = device.write(begin, Range { file: self.state.id, offset, len: piece }, goes_on);
                let is_whole = behind.bytes == UNIT;
                let done = behind.done;
                let before = is_whole.then(|| {
                    let begun = std::mem::replace(&mut behind.unit_begun, begin);
                    (begun, std::mem::replace(&mut behind.unit_done, done))
                });
                behind.bytes %= UNIT;
                (piece, before)
            };
            if let Some(before) = before {
                self.wait_for_unit(begin, before);
            }
            (offset, left, goes_on) = (offset + piece, left - piece, true);
        }
    }

    /// A unit of a direct file is whole: waits for the one before, which will be there at `before`, or, where it is of no use to write behind, for this one.
    fn wait_for_unit(&self, now: u64, (begun, before): (u64, u64)) {
        let beside = &self.machine.asked.written_behind;
        if before > 0 {
            beside.came(begun, now, before);
        }
        let is_behind = beside.is_of_use();
        let wait = if is_behind { before } else { std::mem::take(&mut self.behind.lock().unit_done) };
        self.machine.device.wait(wait);
    }

    /// Waits for what was appended to a direct file.
    fn finish(&self) {
        let done = self.behind.lock().done;
        self.machine.device.wait(done);
    }

    fn write(&self, begin: u64, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let Machine { device, cache, .. } = &*self.machine;
        let goes_on = self.state.write_end.swap(offset.saturating_add(len), Ordering::Relaxed) == offset;
        let done = if self.direct {
            device.write(begin, Range { file: self.state.id, offset, len }, goes_on)
        } else {
            cache.write(self.state.id, offset, len);
            let (nanos, done) = device.write_back(begin, len, goes_on);
            self.state.dirty.fetch_add(nanos, Ordering::Relaxed);
            done
        };
        device.wait(done);
    }

    fn sync(&self, begin: u64) {
        let device = &self.machine.device;
        device.wait(device.sync(begin, self.state.take_dirty()));
    }

    /// The moment before a real operation.
    fn begin(&self) -> u64 {
        self.machine.device.now_nanos()
    }
}

/// A throttled file over the real one.
pub(super) struct Throttled<F> {
    pub(super) inner: F,
    pub(super) throttle: Arc<Throttle>,
}

impl<F: fmt::Debug> fmt::Debug for Throttled<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Throttled").field(&self.inner).finish()
    }
}

impl<F: RandomFile + ?Sized> RandomFile for Throttled<Arc<F>> {
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> io::Result<usize> {
        let begin = self.throttle.begin();
        let read = self.inner.read_at(offset, buffer, context)?;
        let done = self.throttle.read(begin, offset, read as u64);
        self.throttle.machine.device.wait(done);
        Ok(read)
    }

    fn read_many(&self, requests: &mut [ReadRequest<'_>], context: IoContext) {
        let begin = self.throttle.begin();
        self.inner.read_many(requests, context);
        let done = requests.iter().filter_map(|request| {
            let read = *request.result.as_ref().ok()?;
            Some(self.throttle.read(begin, request.offset, read as u64))
        });
        let done = done.max().unwrap_or(0);
        self.throttle.machine.device.wait(done);
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn is_direct(&self) -> bool {
        self.throttle.direct
    }

    fn forget(&self, offset: u64) {
        self.throttle.forget(offset);
        self.inner.forget(offset);
    }

    fn will_need(&self, offset: u64, len: u64) {
        if let Ok(file_len) = self.inner.len() {
            self.throttle.will_need(offset, len, file_len);
        }
        self.inner.will_need(offset, len);
    }
}

impl RandomWriteFile for Throttled<Arc<dyn RandomWriteFile>> {
    fn write_at(&self, offset: u64, data: &[u8], context: IoContext) -> io::Result<()> {
        let begin = self.throttle.begin();
        self.inner.write_at(offset, data, context)?;
        self.throttle.write(begin, offset, data.len() as u64);
        Ok(())
    }

    fn sync_data(&self, context: IoContext) -> io::Result<()> {
        let begin = self.throttle.begin();
        self.inner.sync_data(context)?;
        self.throttle.sync(begin);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.punch_hole(offset, len)
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.preallocate(offset, len)
    }
}

impl AppendFile for Throttled<Box<dyn AppendFile>> {
    fn append(&mut self, data: &[u8], context: IoContext) -> io::Result<()> {
        let begin = self.throttle.begin();
        let offset = self.inner.len();
        self.inner.append(data, context)?;
        self.throttle.append(begin, offset, data.len() as u64);
        Ok(())
    }

    fn sync_data(&mut self, context: IoContext) -> io::Result<()> {
        let begin = self.throttle.begin();
        self.inner.sync_data(context)?;
        self.throttle.sync(begin);
        Ok(())
    }

    fn sync_range(&mut self, offset: u64, len: u64) -> io::Result<()> {
        // What waits to be written is written in the device's idle time anyway.
        self.inner.sync_range(offset, len)
    }

    fn wait_range(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.wait_range(offset, len)
    }

    fn preallocate(&mut self, len: u64) -> io::Result<()> {
        self.inner.preallocate(len)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.inner.finish()?;
        self.throttle.finish();
        Ok(())
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Ok(Arc::new(Throttled { inner: self.inner.sync_handle()?, throttle: Arc::clone(&self.throttle) }))
    }
}

impl SyncHandle for Throttled<Arc<dyn SyncHandle>> {
    fn sync_data(&self, context: IoContext) -> io::Result<()> {
        let begin = self.throttle.begin();
        self.inner.sync_data(context)?;
        self.throttle.sync(begin);
        Ok(())
    }
}
