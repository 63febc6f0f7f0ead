//! The doublewrite file: copies of the pages that are being written, so that one of the two is whole after a crash.

use crate::health::Health;
use crate::metrics::{Counter, Metrics};
use crate::page::{self, Damage, Lsn, PageId, u32_at};
use crate::space::Spaces;
use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority, RandomWriteFile};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const NAME: &str = "doublewrite";

/// The most pages that a file may hold that is read after a crash.
const MAX_SLOTS: u64 = 4096;

/// The file, and up to where it is in use.
#[derive(Debug)]
pub(crate) struct DoublewriteFile {
    path: PathBuf,
    file: Arc<dyn RandomWriteFile>,
    page_len: usize,
    slots: usize,
    next: usize,
}

impl DoublewriteFile {
    /// Opens the file, creating it if there is none. Copies of an earlier life are not needed any more.
    pub(crate) fn open(env: &dyn Env, dir: &Path, page_len: usize, slots: usize, direct: bool) -> Result<Self> {
        let path = dir.join(NAME);
        let exists = env.exists(&path).map_err(|error| Error::io("look for", &path, error))?;
        let options = FileOptions::new(FileKind::Doublewrite).direct(direct);
        let file = env.open_random_write(&path, &options).map_err(|error| Error::io("open", &path, error))?;
        if !exists {
            let bytes = (slots * page_len) as u64;
            file.preallocate(0, bytes).map_err(|error| Error::io("reserve space for", &path, error))?;
            env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
        }
        Ok(Self { path, file, page_len, slots, next: 0 })
    }

    /// Pages that the file holds.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn is_full_for(&self, pages: usize) -> bool {
        self.next + pages > self.slots
    }

    /// Begins at the front again: every page in the file is durable in its place.
    pub(super) fn rewind(&mut self) {
        self.next = 0;
    }

    /// Writes sealed pages, and makes them durable. A failed sync is final.
    pub(super) fn write(
        &mut self,
        pages: &[u8],
        health: &Health,
        metrics: &Metrics,
        priority: IoPriority,
    ) -> Result<()> {
        let context = IoContext::new(FileKind::Doublewrite, priority);
        let offset = (self.next * self.page_len) as u64;
        let written = self.file.write_at(offset, pages, context);
        written.map_err(|error| Error::io("write", &self.path, error).with_offset(offset))?;
        if !is_planted(PlantedBug::DoublewriteIsNotSynced) {
            let synced = self.file.sync_data(context);
            synced.map_err(|error| health.fail(Error::io("sync", &self.path, error)))?;
        }
        let count = pages.len() / self.page_len;
        self.next += count;
        metrics.add(Counter::DoublewritePages, count as u64);
        Ok(())
    }
}

/// Puts pages back that are torn in their places and whole in the doublewrite file. Returns how many. The first thing that recovery does.
pub(crate) fn restore(env: &dyn Env, dir: &Path, spaces: &Spaces, page_len: usize) -> Result<usize> {
    let path = dir.join(NAME);
    let exists = env.exists(&path).map_err(|error| Error::io("look for", &path, error))?;
    if !exists || is_planted(PlantedBug::DoublewriteIsIgnored) {
        return Ok(0);
    }
    let context = IoContext::new(FileKind::Doublewrite, IoPriority::User);
    let file = env.open_random(&path, &FileOptions::new(FileKind::Doublewrite));
    let file = file.map_err(|error| Error::io("open", &path, error))?;
    let len = file.len().map_err(|error| Error::io("measure", &path, error))?;
    let mut newest: BTreeMap<PageId, (Lsn, u64)> = BTreeMap::new();
    let mut page = vec![0; page_len];
    let slots = (len / page_len as u64).min(MAX_SLOTS);
    for slot in 0..slots {
        let offset = slot * page_len as u64;
        let read = file.read_at(offset, &mut page, context);
        let read = read.map_err(|error| Error::io("read", &path, error).with_offset(offset))?;
        let id = PageId::new(u32_at(&page, 16), u32_at(&page, 20));
        if let (true, Ok(lsn)) = (read == page_len, page::verify(&page, id)) {
            let best = newest.entry(id).or_insert((lsn, offset));
            if best.0 < lsn {
                *best = (lsn, offset);
            }
        }
    }
    let mut restored = 0;
    for (id, (_, offset)) in newest {
        if !spaces.is_open(id.space) {
            continue;
        }
        spaces.read(id, &mut page, IoPriority::User)?;
        if !matches!(page::verify(&page, id), Err(Damage::Checksum)) {
            continue;
        }
        let read = file.read_at(offset, &mut page, context);
        read.map_err(|error| Error::io("read", &path, error).with_offset(offset))?;
        spaces.write(id, &page, IoPriority::User)?;
        restored += 1;
    }
    if restored > 0 {
        spaces.sync(IoPriority::User)?;
    }
    Ok(restored)
}
