//! Files on the modelled device.

use super::device::{Device, Range};
use super::direct::{AllDirect, Direct};
use super::page_cache::{PAGE, PageCache};
use crate::env::{Access, AppendFile, FileOptions, IoContext, RandomFile, RandomWriteFile, ReadRequest, SyncHandle};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Rank};
use std::fmt;
use std::io;

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 12);

/// The device and its page cache.
pub(super) struct Machine {
    pub(super) device: Device,
    pub(super) cache: PageCache,
    pub(super) all_direct: AllDirect,
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
    /// Only of a file past the page cache.
    direct: Option<Direct>,
    /// Where the last buffered read ended, if the file is read front to back.
    read_ahead_from: Option<AtomicU64>,
    prefetch: Mutex<Prefetch>,
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
        Self { machine, state, direct: options.direct.then(Direct::new), read_ahead_from, prefetch }
    }

    /// Gives the device a read that was made since `begin`; returns when it would have ended.
    fn read(&self, begin: u64, offset: u64, len: u64) -> u64 {
        let Machine { device, cache, .. } = &*self.machine;
        let file = self.state.id;
        if len == 0 {
            return 0;
        }
        if let Some(direct) = &self.direct {
            return direct.read(device, &self.machine.all_direct, begin, Range { file, offset, len });
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
        self.forget(offset);
        if len == 0 {
            return;
        }
        let begin = self.begin();
        if let Some(direct) = &self.direct {
            let range = Range { file: self.state.id, offset, len };
            return direct.ask(&self.machine.device, &self.machine.all_direct, begin, range);
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

    /// What was asked for in advance at `offset` of a direct file was read in vain.
    fn forget(&self, offset: u64) {
        if let Some(direct) = &self.direct {
            direct.forget(offset);
        }
    }

    fn append(&self, begin: u64, offset: u64, len: u64) {
        let Some(direct) = &self.direct else { return self.write(begin, offset, len) };
        if len == 0 {
            return;
        }
        let range = Range { file: self.state.id, offset, len };
        let goes_on = self.goes_on(offset, len);
        direct.append(&self.machine.device, &self.machine.all_direct, begin, range, goes_on);
    }

    /// Waits for what was appended to a direct file.
    fn finish(&self) {
        if let Some(direct) = &self.direct {
            direct.finish(&self.machine.device);
        }
    }

    /// Whether a write begins where the last one ended.
    fn goes_on(&self, offset: u64, len: u64) -> bool {
        self.state.write_end.swap(offset.saturating_add(len), Ordering::Relaxed) == offset
    }

    fn write(&self, begin: u64, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let Machine { device, cache, .. } = &*self.machine;
        let goes_on = self.goes_on(offset, len);
        let done = if self.direct.is_some() {
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
        self.throttle.direct.is_some()
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
