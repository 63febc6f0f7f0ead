//! A device slower than the real one, so that a comparison can ask what a disk would have done.
//!
//! Bytes go to the environment beneath at its speed; time is charged by a [`DeviceModel`] that stands apart from the real page
//! cache:
//!
//! * A *direct* operation always goes to the modelled device.
//! * A *buffered read* goes there only for pages (4 KiB) that the modelled page cache of
//!   [`page_cache_bytes`](DeviceModel::page_cache_bytes) does not hold; what it holds costs nothing. Reading and writing bring
//!   pages in. A run of missing pages is one operation; on a file opened for [`Access::Sequential`](super::Access::Sequential)
//!   a read that goes on where the last one ended pays for bandwidth only, as if it had been read ahead.
//! * A *buffered write* costs nothing at first. The device writes it back when it is idle, a sync of the file waits for the
//!   rest, and past [`dirty_bytes`](DeviceModel::dirty_bytes) the writer waits.
//! * A *sync* of a file or a directory costs [`sync_micros`](DeviceModel::sync_micros) beside.
//! * Everything shares one queue. A competing stream gets its part of the device in proportion to what it offers: at
//!   a background load of *f* every operation takes 1 + *f* times as long.
//!
//! Callers sleep off what they owe in slices of at least a millisecond, so that rates far above a thousand a second are kept on
//! average; a latency below a millisecond is therefore not modelled for a single operation. Mapped files are opened
//! unmapped, since nobody sees their reads. The page cache holds no direct writes, and keeps pages of removed files until
//! they are evicted.

mod device;
mod direct;
mod file;
mod model;
mod page_cache;
mod report;
#[cfg(test)]
mod tests;

pub use model::DeviceModel;
pub use report::DeviceReport;

use super::{AppendFile, DirEntry, Env, FileLock, FileOptions, IoStats, RandomFile, RandomWriteFile};
use crate::clock::Clock;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Rank};
use device::Device;
use direct::AllDirect;
use file::{FileState, Machine, Throttle, Throttled};
use hashbrown::HashMap;
use page_cache::PageCache;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 13);

/// An environment on a modelled device.
pub struct ThrottledEnv {
    inner: Arc<dyn Env>,
    machine: Arc<Machine>,
    /// Files by the names that this environment saw.
    files: Mutex<HashMap<PathBuf, Arc<FileState>>>,
    next_id: AtomicU64,
}

impl ThrottledEnv {
    /// The files of `inner` on a device of `model`, idle and with an empty page cache; callers sleep on `clock`.
    pub fn new(inner: Arc<dyn Env>, model: DeviceModel, clock: Arc<dyn Clock>) -> Self {
        let cache = PageCache::new(model.page_cache_bytes);
        let machine = Arc::new(Machine { device: Device::new(model, clock), cache, all_direct: AllDirect::new() });
        Self { inner, machine, files: Mutex::new(RANK, HashMap::new()), next_id: AtomicU64::new(0) }
    }

    /// The device.
    pub fn model(&self) -> &DeviceModel {
        self.machine.device.model()
    }

    /// Lets operations take no time until [`charge`](Self::charge): for what an experiment does before it measures. The page cache fills all the same, and the
    /// report counts operations and bytes.
    pub fn let_pass(&self) {
        self.machine.device.set_free(true);
    }

    /// Lets operations take their time from now on, on a device that is idle and has written everything.
    pub fn charge(&self) {
        self.machine.device.set_free(false);
    }

    /// What the device did so far.
    pub fn report(&self) -> DeviceReport {
        let (page_hits, page_misses) = self.machine.cache.hits_and_misses();
        DeviceReport { page_hits, page_misses, ..self.machine.device.report() }
    }

    fn new_file(&self) -> Arc<FileState> {
        Arc::new(FileState::new(self.next_id.fetch_add(1, Ordering::Relaxed)))
    }

    fn existing(&self, path: &Path) -> Arc<FileState> {
        let mut files = self.files.lock();
        Arc::clone(files.entry_ref(path).or_insert_with(|| self.new_file()))
    }

    /// Gives a name to a file, or takes it away. What nobody can read any more need not be written.
    fn set_name(&self, path: &Path, file: Option<Arc<FileState>>) {
        let old = {
            let mut files = self.files.lock();
            match file {
                Some(file) => files.insert(path.to_path_buf(), file),
                None => files.remove(path),
            }
        };
        if let Some(old) = old.filter(|old| Arc::strong_count(old) == 1) {
            self.machine.device.forget(old.take_dirty());
        }
    }

    fn throttle(&self, state: Arc<FileState>, options: &FileOptions) -> Arc<Throttle> {
        Arc::new(Throttle::new(Arc::clone(&self.machine), state, options))
    }
}

impl fmt::Debug for ThrottledEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottledEnv").field("inner", &self.inner).field("model", self.model()).finish()
    }
}

impl Env for ThrottledEnv {
    fn as_throttled(&self) -> Option<&ThrottledEnv> {
        Some(self)
    }

    fn open_random(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomFile>> {
        let options = options.mmap(false);
        let inner = self.inner.open_random(path, &options)?;
        Ok(Arc::new(Throttled { inner, throttle: self.throttle(self.existing(path), &options) }))
    }

    fn open_random_write(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomWriteFile>> {
        let options = options.mmap(false);
        let inner = self.inner.open_random_write(path, &options)?;
        Ok(Arc::new(Throttled { inner, throttle: self.throttle(self.existing(path), &options) }))
    }

    fn create_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>> {
        let inner = self.inner.create_append(path, options)?;
        let state = self.new_file();
        self.set_name(path, Some(Arc::clone(&state)));
        Ok(Box::new(Throttled { inner, throttle: self.throttle(state, options) }))
    }

    fn open_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>> {
        let inner = self.inner.open_append(path, options)?;
        Ok(Box::new(Throttled { inner, throttle: self.throttle(self.existing(path), options) }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let device = &self.machine.device;
        let begin = device.now_nanos();
        self.inner.sync_dir(path)?;
        device.wait(device.sync(begin, 0));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)?;
        self.set_name(path, None);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)?;
        let file = self.files.lock().remove(from);
        self.set_name(to, file);
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)?;
        let file = self.existing(from);
        self.set_name(to, Some(file));
        Ok(())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.inner.file_len(path)
    }

    fn modified_unix_seconds(&self, path: &Path) -> io::Result<Option<u64>> {
        self.inner.modified_unix_seconds(path)
    }

    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.allocated_bytes(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn lock_file(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock_file(path)
    }

    fn io_stats(&self) -> &IoStats {
        self.inner.io_stats()
    }

    fn prepare_direct(&self) {
        self.inner.prepare_direct();
    }
}
