//! An Env that panics ends no more than the engine's writing.

use super::basics::options;
use crate::{Db, FlushOptions};
use siltstone_base::ErrorKind;
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{AppendFile, DirEntry, Env, FileLock, FileOptions, IoStats, RandomFile, RandomWriteFile};
use siltstone_base::executor::StepExecutor;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use std::io;
use std::path::{Path, PathBuf};

/// Panics when a file is deleted, once it is told to.
#[derive(Debug)]
struct PanicsOfDeletion {
    inner: Arc<dyn Env>,
    is_armed: AtomicBool,
}

impl Env for PanicsOfDeletion {
    fn open_random(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomFile>> {
        self.inner.open_random(path, options)
    }

    fn open_random_write(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomWriteFile>> {
        self.inner.open_random_write(path, options)
    }

    fn create_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>> {
        self.inner.create_append(path, options)
    }

    fn open_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>> {
        self.inner.open_append(path, options)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
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

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        assert!(!self.is_armed.load(Ordering::SeqCst), "the Env's own mistake");
        self.inner.remove_file(path)
    }

    fn io_stats(&self) -> &IoStats {
        self.inner.io_stats()
    }
}

/// A flush that was counted out twice would keep whoever closes waiting.
#[test]
fn a_panic_while_a_flush_cleans_up_keeps_nobody_from_closing() {
    let disk = SimDisk::new();
    let env = Arc::new(PanicsOfDeletion { inner: disk.env(), is_armed: AtomicBool::new(false) });
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let own = options(&disk).executor(Some(executor.clone()));
    let db = Db::open("/db", &own.clone().env(Some(Arc::<PanicsOfDeletion>::clone(&env)))).unwrap();
    db.put("before", "1").unwrap();
    env.is_armed.store(true, Ordering::SeqCst);
    // The table is there; its WAL is what is deleted.
    let _ = db.flush(&FlushOptions::default());
    executor.run_until_idle();
    env.is_armed.store(false, Ordering::SeqCst);
    assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Poisoned);
    let counts = || {
        let state = db.handle.inner.state.lock();
        (state.running_flushes, state.ending_jobs)
    };
    assert_eq!(counts(), (0, 0));
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Poisoned);
    let db = Db::open("/db", &own).unwrap();
    db.check().unwrap();
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
}
