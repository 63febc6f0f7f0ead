//! What recovery does with doublewrite files: it puts torn pages back.

use super::doublewrite::{decode_names, paths};
use crate::page::{self, Damage, Lsn, PageId, u32_at};
use crate::space::Spaces;
use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority, RandomFile};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The most pages that are read of a file.
const MAX_SLOTS: u64 = 4096;

/// A file of an earlier life.
struct Left {
    path: PathBuf,
    file: Arc<dyn RandomFile>,
}

impl Left {
    fn open(env: &dyn Env, path: PathBuf) -> Result<Self> {
        let file = env.open_random(&path, &FileOptions::new(FileKind::Doublewrite));
        let file = file.map_err(|error| Error::io("open", &path, error))?;
        Ok(Self { path, file })
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let context = IoContext::new(FileKind::Doublewrite, IoPriority::User);
        let read = self.file.read_at(offset, bytes, context);
        read.map_err(|error| Error::io("read", &self.path, error).with_offset(offset))
    }
}

/// The newest copy of a page.
struct NewestCopy {
    lsn: Lsn,
    /// In which of the files.
    file: usize,
    offset: u64,
    stored: usize,
}

/// What the files of an earlier life hold.
#[derive(Default)]
struct Found {
    newest: BTreeMap<PageId, NewestCopy>,
    named: BTreeSet<PageId>,
}

impl Found {
    /// Adds what one file holds: copies one behind the other, each as long as it says, or slots of names. What was written last may be torn, and is not needed then: no page
    /// went to its place after it. What lies behind is of an earlier round, whose pages are durable in their places.
    fn add(&mut self, number: usize, left: &Left, page_len: usize) -> Result<()> {
        let len = left.file.len().map_err(|error| Error::io("measure", &left.path, error))?;
        let end = len.min(MAX_SLOTS * page_len as u64);
        let mut page = vec![0; page_len];
        let mut offset = 0;
        while offset < end {
            let read = left.read(offset, &mut page)?;
            page[read..].fill(0);
            if let Some(names) = decode_names(&page) {
                self.named.extend(names);
                offset += page_len as u64;
                continue;
            }
            let id = PageId::new(u32_at(&page, 16), u32_at(&page, 20));
            let Ok(lsn) = page::verify(&page, id) else { break };
            let stored = page::stored_len(&page);
            if self.newest.get(&id).is_none_or(|best| best.lsn < lsn) {
                self.newest.insert(id, NewestCopy { lsn, file: number, offset, stored });
            }
            offset += stored as u64;
        }
        Ok(())
    }
}

/// What [`restore`] did.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    /// Pages that were put back.
    pub(crate) pages: usize,
    /// Pages that are damaged in their places and of which there is only the name. A crash tore those that the log changes behind the checkpoint; the others are whoever's who reads them.
    pub(crate) named: BTreeSet<PageId>,
}

/// Puts pages back that are torn in their places and whole in a doublewrite file. The first thing that recovery does, of a database that was not closed. The files are
/// not needed any more once the tablespaces are synced.
///
/// A crash tears pages that were being written after the last `checkpoint`: those before were durable in their places when it was noted. They were changed after it too, and their copies say so. Copies
/// below the checkpoint are of earlier rounds, which the files still hold. Where several files have copies of a page the newest counts: a page is written by way of one of them at a time. Pages whose copies are as new as what is in their places are written once more. A page that is damaged and has no other copy was not torn: to put that one back would lose what was changed since, silently.
/// Names say nothing of when they were noted: they may be of an earlier round, or of a life that kept names where this one keeps copies.
pub(crate) fn restore(
    env: &dyn Env,
    dir: &Path,
    spaces: &Spaces,
    page_len: usize,
    checkpoint: Lsn,
) -> Result<Restored> {
    if is_planted(PlantedBug::DoublewriteIsIgnored) {
        return Ok(Restored::default());
    }
    let read = if is_planted(PlantedBug::OneDoublewriteIsRead) { 1 } else { usize::MAX };
    let paths = paths(env, dir)?.into_values().take(read);
    let files = paths.map(|path| Left::open(env, path)).collect::<Result<Vec<_>>>()?;
    let mut found = Found::default();
    for (number, left) in files.iter().enumerate() {
        found.add(number, left, page_len)?;
    }
    let Found { mut newest, named } = found;
    let mut page = vec![0; page_len];
    if !is_planted(PlantedBug::OldCopyIsPutBack) {
        newest.retain(|_, copy| copy.lsn >= checkpoint);
    }
    let mut pages = 0;
    for (id, NewestCopy { lsn, file, offset, stored }) in newest {
        let Some(left) = files.get(file).filter(|_| spaces.is_open(id.space)) else { continue };
        spaces.read(id, &mut page, IoPriority::User)?;
        let is_torn = match page::verify(&page, id) {
            Err(Damage::Checksum) => true,
            // Whole for who reads it now; but what a sync failed for may be torn on the device, where nobody can look. It is written again, so that the sync which follows is one of this
            // very page, before its copy gives way to others.
            Ok(in_place) if in_place == lsn => false,
            _ => continue,
        };
        let copy = &mut page[..stored];
        left.read(offset, copy)?;
        if stored < page_len {
            spaces.write_compressed(id, copy, IoPriority::User)?;
        } else {
            spaces.write(id, copy, IoPriority::User)?;
        }
        pages += usize::from(is_torn);
    }
    let mut torn = BTreeSet::new();
    for id in named.into_iter().filter(|id| spaces.is_open(id.space)) {
        spaces.read(id, &mut page, IoPriority::User)?;
        if matches!(page::verify(&page, id), Err(Damage::Checksum)) {
            torn.insert(id);
        }
    }
    Ok(Restored { pages, named: torn })
}
