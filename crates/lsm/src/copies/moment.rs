//! A directory that somebody writes, as it was at one moment: CURRENT, the MANIFEST and the WALs end where they ended then, and are there even if they were deleted since.
//!
//! The moment is one at which the MANIFEST was the same before and after the WALs were listed. All of them but the newest are finished, and of the newest the length
//! was read in between: so what this shows is everything that was written up to then, and nothing else. Tables never change; they are opened by name, as long as they are there. EXPIRY is replaced as a whole:
//! it is read once, for the view as for the moment's marks, so that a view whose marks are those of now has the durations of now.

use crate::file_names::FileName;
use siltstone_base::env::{
    Access, AppendFile, DirEntry, Env, FileKind, FileLock, FileOptions, IoContext, IoPriority, IoStats, RandomFile,
    RandomWriteFile, ThrottledEnv, read_file,
};
use siltstone_base::expiry::{MAX_RECORD_BYTES, Record, Saved};
use siltstone_base::sync::{Arc, Mutex, Rank, Signal};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Taken by whoever opens a file, a table under the right to open it included.
const RANK: Rank = Rank(930);

/// Looks at the directory until two that follow each other see the same MANIFEST. One takes microseconds.
const LOOKS: u32 = 1000;

/// Between two looks.
const PAUSE: Duration = Duration::from_micros(100);

/// The longest CURRENT.
const MAX_CURRENT_BYTES: u64 = 64;

/// What tells one moment from another: the MANIFEST that is alive, the logs with their lengths, and what policies of rows that expire have saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marks {
    current: Vec<u8>,
    manifest_len: u64,
    /// Ascending.
    wals: Vec<(u64, u64)>,
    /// `None` where that cannot be read: whoever opens the database is told so.
    policies: Option<BTreeMap<u32, Saved>>,
}

/// The directory at a moment.
#[derive(Debug)]
pub(super) struct MomentEnv {
    inner: Arc<dyn Env>,
    dir: PathBuf,
    /// CURRENT, the MANIFEST, the WALs and EXPIRY, until they are let go; `None` for a file that was not there.
    pinned: Mutex<Option<BTreeMap<PathBuf, Option<Arc<Pinned>>>>>,
}

/// A file as long as it was.
#[derive(Debug)]
struct Pinned {
    file: Arc<dyn RandomFile>,
    len: u64,
}

/// The moment of now, as its marks and as what is to be opened.
///
/// # Errors
///
/// `MissingFile` if there is no database, `Busy` if the MANIFEST was another one at every look.
pub(super) fn now(dir: &Path, inner: &Arc<dyn Env>) -> Result<(Marks, Arc<MomentEnv>)> {
    for look in 0..LOOKS {
        if look > 0 {
            Signal::new().wait_while(Some(PAUSE), &mut || true);
        }
        let (current, manifest, manifest_len) = manifest(dir, &**inner)?;
        let Some(wals) = wals(dir, &**inner)? else { continue };
        let current_path = FileName::Current.path(dir);
        let Some(pinned_current) = open(&current_path, FileKind::Manifest, &**inner)? else { continue };
        let Some(pinned_manifest) = open(&manifest, FileKind::Manifest, &**inner)? else { continue };
        if self::manifest(dir, &**inner)? != (current.clone(), manifest.clone(), manifest_len) {
            continue;
        }
        let current_len = current.len() as u64;
        let lengths = wals.iter().map(|(number, pinned)| (*number, pinned.len)).collect();
        let expiry_path = FileName::Expiry.path(dir);
        let pinned_expiry = match open(&expiry_path, FileKind::Other, &**inner)? {
            Some(file) => {
                let len = file.len().map_err(|error| Error::io("measure", &expiry_path, error))?;
                Some(Pinned { file, len })
            }
            None => None,
        };
        let policies = policies(pinned_expiry.as_ref());
        let marks = Marks { current, manifest_len, wals: lengths, policies };
        let mut pinned = BTreeMap::from([
            (current_path, Some(Pinned { file: pinned_current, len: current_len })),
            (manifest, Some(Pinned { file: pinned_manifest, len: manifest_len })),
            (expiry_path, pinned_expiry),
        ]);
        pinned.extend(wals.into_iter().map(|(number, pinned)| (FileName::Wal(number).path(dir), Some(pinned))));
        let pinned = pinned.into_iter().map(|(path, pinned)| (path, pinned.map(Arc::new)));
        let pinned = Mutex::new(RANK, Some(pinned.collect()));
        return Ok((marks, Arc::new(MomentEnv { inner: Arc::clone(inner), dir: dir.to_path_buf(), pinned })));
    }
    Err(Error::new(ErrorKind::Busy, "the MANIFEST changed again and again while the directory was listed")
        .with_file(dir))
}

/// What CURRENT says, the path of the MANIFEST, and how long it is.
fn manifest(dir: &Path, env: &dyn Env) -> Result<(Vec<u8>, PathBuf, u64)> {
    let path = FileName::Current.path(dir);
    let read = || {
        let current = read_file(env, &path, FileKind::Manifest, MAX_CURRENT_BYTES);
        current.map_err(|error| Error::io("read", &path, error))
    };
    let mut current = read()?;
    loop {
        let manifest = dir.join(String::from_utf8_lossy(&current).trim_end());
        let error = match env.file_len(&manifest) {
            Ok(len) => return Ok((current, manifest, len)),
            Err(error) => error,
        };
        // Another one may have taken its place since.
        let now = read()?;
        if now == current {
            return Err(Error::io("measure", &manifest, error));
        }
        current = now;
    }
}

/// The WALs, by number; `None` if one was deleted meanwhile.
fn wals(dir: &Path, env: &dyn Env) -> Result<Option<Vec<(u64, Pinned)>>> {
    let entries = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    let mut wals = Vec::new();
    for entry in entries {
        if let Some(name @ FileName::Wal(number)) = FileName::parse(&entry.name) {
            let path = name.path(dir);
            let Some(file) = open(&path, FileKind::Wal, env)? else { return Ok(None) };
            let len = file.len().map_err(|error| Error::io("measure", &path, error))?;
            wals.push((number, Pinned { file, len }));
        }
    }
    wals.sort_unstable_by_key(|(number, _)| *number);
    Ok(Some(wals))
}

/// What EXPIRY has of policies. The time that it tells as well is that of whoever writes.
fn policies(expiry: Option<&Pinned>) -> Option<BTreeMap<u32, Saved>> {
    let Some(Pinned { file, len }) = expiry else { return Some(BTreeMap::new()) };
    if *len > MAX_RECORD_BYTES {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(*len).ok()?];
    let read = file.read_at(0, &mut bytes, IoContext::new(FileKind::Other, IoPriority::User)).ok()?;
    Record::decode(bytes.get(..read)?).ok().map(|record| record.states)
}

/// Opens a file; `None` if it is not there any more.
fn open(path: &Path, kind: FileKind, env: &dyn Env) -> Result<Option<Arc<dyn RandomFile>>> {
    match env.open_random(path, &FileOptions::new(kind).access(Access::Sequential)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("open", path, error)),
    }
}

impl MomentEnv {
    /// Lets them go: what was to be read of them was.
    pub(super) fn release(&self) {
        let pinned = self.pinned.lock().take();
        drop(pinned);
    }

    /// A file as it was; `None` for one that is as it is, and within for one that was not there.
    fn pinned(&self, path: &Path) -> Option<Option<Arc<Pinned>>> {
        self.pinned.lock().as_ref()?.get(path).cloned()
    }
}

/// A file that ends where it ended.
#[derive(Debug)]
struct Ended(Arc<Pinned>);

impl RandomFile for Ended {
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> io::Result<usize> {
        let left = usize::try_from(self.0.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        match buffer.get_mut(..wanted) {
            Some(buffer) if wanted > 0 => self.0.file.read_at(offset, buffer, context),
            _ => Ok(0),
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len)
    }
}

impl Env for MomentEnv {
    fn open_random(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomFile>> {
        match self.pinned(path) {
            Some(Some(pinned)) => Ok(Arc::new(Ended(pinned))),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => self.inner.open_random(path, options),
        }
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

    /// Of the directory: its WALs are those of the moment.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = self.inner.list_dir(path)?;
        let pinned = self.pinned.lock();
        if let Some(pinned) = pinned.as_ref().filter(|_| path == self.dir) {
            let is_wal = |name: &str| matches!(FileName::parse(name), Some(FileName::Wal(_)));
            entries.retain(|entry| !is_wal(&entry.name));
            let names = pinned.keys().filter_map(|path| path.file_name()?.to_str()).filter(|name| is_wal(name));
            entries.extend(names.map(|name| DirEntry { name: name.to_owned(), is_dir: false }));
            entries.sort();
        }
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
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
        match self.pinned(path) {
            Some(Some(pinned)) => Ok(pinned.len),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => self.inner.file_len(path),
        }
    }

    fn modified_unix_seconds(&self, path: &Path) -> io::Result<Option<u64>> {
        self.inner.modified_unix_seconds(path)
    }

    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.allocated_bytes(path)
    }

    fn prepare_direct(&self) {
        self.inner.prepare_direct();
    }

    fn as_throttled(&self) -> Option<&ThrottledEnv> {
        self.inner.as_throttled()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        if let Some(pinned) = self.pinned(path) {
            return Ok(pinned.is_some());
        }
        self.inner.exists(path)
    }

    fn lock_file(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock_file(path)
    }

    fn io_stats(&self) -> &IoStats {
        self.inner.io_stats()
    }
}
