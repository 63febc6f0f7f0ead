//! The blob files of one column family: each is opened when it is first needed.

use super::BlobReference;
use super::file::{BlobFile, RECORD_HEADER_LEN};
use crate::file_names::FileName;
use crate::metrics::{Counter, Metrics, PerfTime, times};
use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Rank of the list of open files: nothing is locked under it, and no I/O done.
const RANK: Rank = Rank(650);

/// Most files that stay open.
const MAX_OPEN: usize = 256;

/// Reads values from blob files.
///
/// Thread safety: every method may be called from any thread. Two threads that need a file first at the same time both open it; one of them
/// stays.
#[derive(Debug)]
pub(crate) struct BlobFiles {
    env: Arc<dyn Env>,
    dir: PathBuf,
    use_direct_reads: bool,
    metrics: Arc<Metrics>,
    open: Mutex<BTreeMap<u64, Arc<BlobFile>>>,
}

impl BlobFiles {
    /// The blob files in `dir`.
    pub(crate) fn new(env: Arc<dyn Env>, dir: &Path, use_direct_reads: bool, metrics: Arc<Metrics>) -> Self {
        Self { env, dir: dir.to_path_buf(), use_direct_reads, metrics, open: Mutex::new(RANK, BTreeMap::new()) }
    }

    /// The value of `user_key` that the stored reference leads to.
    ///
    /// # Errors
    ///
    /// Those of [`BlobReference::decode`]; `MissingFile`, `Corruption` and errors of reading name the file.
    pub(crate) fn value(&self, user_key: &[u8], stored: &[u8]) -> Result<Vec<u8>> {
        let reference = BlobReference::decode(stored)?;
        let context = IoContext::new(FileKind::Blob, IoPriority::User);
        let read = || self.file(reference.file_number, context)?.read(user_key, &reference, context);
        let value = times::timed(PerfTime::BlobRead, read)?;
        let bytes = RECORD_HEADER_LEN + user_key.len() as u64 + reference.size;
        self.metrics.add(Counter::BlobFileBytesRead, bytes);
        Ok(value)
    }

    /// Reads the whole file `number`, and verifies that it has `count` records of `bytes` bytes, whose checksums are right.
    ///
    /// # Errors
    ///
    /// `MissingFile`, `Corruption` and errors of reading name the file.
    pub(crate) fn verify(&self, number: u64, count: u64, bytes: u64, context: IoContext) -> Result<()> {
        self.open_anew(number, context)?.verify(count, bytes, context)
    }

    /// The bytes of memory that the open files take.
    pub(crate) fn memory_usage(&self) -> usize {
        self.open.lock().values().map(|file| file.memory_usage()).sum()
    }

    /// Lets go of a file that is deleted.
    pub(crate) fn forget(&self, number: u64) {
        self.open.lock().remove(&number);
    }

    fn file(&self, number: u64, context: IoContext) -> Result<Arc<BlobFile>> {
        if let Some(file) = self.open.lock().get(&number) {
            return Ok(Arc::clone(file));
        }
        let opened = Arc::new(self.open_anew(number, context)?);
        let mut open = self.open.lock();
        if open.len() >= MAX_OPEN {
            // The oldest file: its values are rewritten first.
            open.pop_first();
        }
        Ok(Arc::clone(open.entry(number).or_insert(opened)))
    }

    fn open_anew(&self, number: u64, context: IoContext) -> Result<BlobFile> {
        let path = FileName::Blob(number).path(&self.dir);
        let options = FileOptions::new(FileKind::Blob).direct(self.use_direct_reads);
        let file = self.env.open_random(&path, &options).map_err(|error| Error::io("open", &path, error))?;
        let len = file.len().map_err(|error| Error::io("measure", &path, error))?;
        BlobFile::open(file, path, len, context)
    }
}
