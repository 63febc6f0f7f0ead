//! Doublewrite files: copies of the pages that are being written, so that one of the two is whole after a crash; or only their names, so that recovery
//! knows where to look for torn ones. Batches that are written at the same time have a file each.

use crate::health::Health;
use crate::metrics::{Counter, Metrics};
use crate::page::{self, Damage, Lsn, PageId, PageMut, PageRead, u32_at};
use crate::space::Spaces;
use siltstone_base::block_pool::{BlockPool, PooledBuf};
use siltstone_base::checksum::xxh3_64;
use siltstone_base::env::{DIRECT_ALIGNMENT, Env, FileKind, FileOptions, IoContext, IoPriority, RandomWriteFile};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const NAME: &str = "doublewrite";

/// The name of one of the files: the first is called as the only one of older databases.
fn file_name(number: usize) -> String {
    if number == 0 { NAME.to_owned() } else { format!("{NAME}.{number}") }
}

/// Which of the files has this name.
fn number_of(name: &str) -> Option<usize> {
    let number = match name.strip_prefix(NAME)?.strip_prefix('.') {
        Some(digits) => digits.parse().ok()?,
        None => 0,
    };
    (file_name(number) == name).then_some(number)
}

/// The files that a directory has, by their numbers.
pub(super) fn paths(env: &dyn Env, dir: &Path) -> Result<BTreeMap<usize, PathBuf>> {
    let entries = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    let numbered = entries.into_iter().filter_map(|entry| Some((number_of(&entry.name)?, dir.join(&entry.name))));
    Ok(numbered.collect())
}

/// Whether a file has the name of one of these.
pub(crate) fn is_doublewrite(name: &str) -> bool {
    number_of(name).is_some()
}

/// One of the files, and up to where it is in use.
#[derive(Debug)]
pub(crate) struct DoublewriteFile {
    path: PathBuf,
    file: Arc<dyn RandomWriteFile>,
    page_len: usize,
    slots: usize,
    /// Bytes in use.
    next: usize,
    /// Whether the file holds copies; else each slot holds the names of one batch.
    has_copies: bool,
}

/// What the files are opened with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoublewriteOptions {
    pub(crate) page_len: usize,
    /// Pages, or batches of names, that one file holds.
    pub(crate) slots: usize,
    pub(crate) direct: bool,
    /// Whether the files hold copies; else they hold names.
    pub(crate) has_copies: bool,
}

/// The first bytes of a slot of names.
const NAMES_MAGIC: u64 = u64::from_le_bytes(*b"SiltName");
/// Where its number of names stands, and where they begin; a checksum ends the slot.
const NAMES_COUNT_AT: usize = 8;
const NAMES_AT: usize = 16;

/// A slot of names.
fn encode_names(page_len: usize, names: impl Iterator<Item = PageId>) -> Vec<u8> {
    let mut slot = vec![0; page_len];
    let bytes = slot.as_mut_slice();
    let mut count = 0;
    for name in names {
        bytes.set_word(NAMES_AT + 8 * count, u64::from(name.space) << 32 | u64::from(name.number));
        count += 1;
    }
    bytes.set_word(0, NAMES_MAGIC);
    bytes.set_word(NAMES_COUNT_AT, count as u64);
    let sum = xxh3_64(&bytes[..page_len - 8]);
    bytes.set_word(page_len - 8, sum);
    slot
}

/// The names of a slot, if it is one of names and whole.
pub(crate) fn decode_names(slot: &[u8]) -> Option<impl Iterator<Item = PageId> + '_> {
    let end = slot.len().checked_sub(8)?;
    if slot.word(0) != NAMES_MAGIC || slot.word(end) != xxh3_64(&slot[..end]) {
        return None;
    }
    let count = usize::try_from(slot.word(NAMES_COUNT_AT)).ok().filter(|count| *count <= (end - NAMES_AT) / 8)?;
    Some((0..count).map(|index| {
        let word = slot.word(NAMES_AT + 8 * index);
        PageId::new((word >> 32) as u32, word as u32)
    }))
}

impl DoublewriteFile {
    /// Opens `count` files, creating those that are not there, durably. What an earlier life left is not needed any more.
    pub(crate) fn open_all(env: &dyn Env, dir: &Path, count: usize, options: &DoublewriteOptions) -> Result<Vec<Self>> {
        // Copies that are not replaced would be taken for newer than they are, where only names follow.
        Self::remove_from(env, dir, if options.has_copies { count } else { 0 })?;
        let files = (0..count).map(|number| Self::open(env, dir, number, options)).collect::<Result<Vec<_>>>()?;
        // Also where all are there: who created them may not have come so far.
        env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
        Ok(files)
    }

    fn open(env: &dyn Env, dir: &Path, number: usize, options: &DoublewriteOptions) -> Result<Self> {
        let &DoublewriteOptions { page_len, slots, direct, has_copies } = options;
        let path = dir.join(file_name(number));
        let exists = env.exists(&path).map_err(|error| Error::io("look for", &path, error))?;
        let options = FileOptions::new(FileKind::Doublewrite).direct(direct);
        let file = env.open_random_write(&path, &options).map_err(|error| Error::io("open", &path, error))?;
        if !exists {
            let bytes = (slots * page_len) as u64;
            file.preallocate(0, bytes).map_err(|error| Error::io("reserve space for", &path, error))?;
        }
        Ok(Self { path, file, page_len, slots, next: 0, has_copies })
    }

    /// Deletes the files from a number on, durably: an old copy must not take the place of a page that is torn later.
    pub(crate) fn remove_from(env: &dyn Env, dir: &Path, first: usize) -> Result<()> {
        let mut paths = paths(env, dir)?;
        paths.retain(|number, _| *number >= first);
        for path in paths.values() {
            env.remove_file(path).map_err(|error| Error::io("delete", path, error))?;
        }
        if !paths.is_empty() {
            env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
        }
        Ok(())
    }

    /// Pages that one batch may have.
    pub(super) fn batch_pages(&self) -> usize {
        if self.has_copies { self.slots } else { (self.page_len - NAMES_AT - 8) / 8 }
    }

    /// Whether so many bytes of copies, or one slot of names, have no room behind the others.
    pub(super) fn is_full_for(&self, bytes: usize) -> bool {
        self.next + if self.has_copies { bytes } else { self.page_len } > self.slots * self.page_len
    }

    /// Puts those of some pages back that are torn in their places, from the newest copies that the file has of them.
    #[cold]
    pub(super) fn mend(&self, torn: &BTreeSet<PageId>, spaces: &Spaces, priority: IoPriority) -> Result<()> {
        if !self.has_copies {
            return Ok(());
        }
        let context = IoContext::new(FileKind::Doublewrite, priority);
        let mut page = BlockPool::new(0).alloc_aligned(self.page_len, DIRECT_ALIGNMENT);
        let read = |offset: u64, page: &mut [u8]| {
            let read = self.file.read_at(offset, page, context);
            let read = read.map_err(|error| Error::io("read", &self.path, error).with_offset(offset))?;
            page[read..].fill(0);
            Ok::<_, Error>(())
        };
        let mut newest: BTreeMap<PageId, (Lsn, u64, usize)> = BTreeMap::new();
        let mut offset = 0;
        while offset < self.next as u64 {
            read(offset, &mut page)?;
            let id = PageId::new(u32_at(&page, 16), u32_at(&page, 20));
            let Ok(lsn) = page::verify(&page, id) else { break };
            let stored = page::stored_len(&page);
            if torn.contains(&id) && newest.get(&id).is_none_or(|(best, ..)| *best < lsn) {
                newest.insert(id, (lsn, offset, stored));
            }
            offset += stored as u64;
        }
        for (id, (_, offset, stored)) in newest {
            if !spaces.is_open(id.space) {
                continue;
            }
            spaces.read(id, &mut page, priority)?;
            if !matches!(page::verify(&page, id), Err(Damage::Checksum)) {
                continue;
            }
            read(offset, &mut page)?;
            if stored < self.page_len {
                spaces.write_compressed(id, &page[..stored], priority)?;
            } else {
                spaces.write(id, &page, priority)?;
            }
        }
        Ok(())
    }

    /// Begins at the front again: every page in the file is durable in its place.
    pub(super) fn rewind(&mut self) {
        self.next = 0;
    }

    /// Writes `count` sealed pages as they will be stored, one behind the other, or their names, and makes that durable. A failed sync is final.
    pub(super) fn write(
        &mut self,
        count: usize,
        names: impl Iterator<Item = PageId>,
        pages: &[u8],
        health: &Health,
        metrics: &Metrics,
        priority: IoPriority,
    ) -> Result<()> {
        let context = IoContext::new(FileKind::Doublewrite, priority);
        let offset = self.next as u64;
        let slot;
        let pages = if self.has_copies {
            pages
        } else {
            slot = self.names_slot(names);
            &*slot
        };
        let written = self.file.write_at(offset, pages, context);
        written.map_err(|error| Error::io("write", &self.path, error).with_offset(offset))?;
        if !is_planted(PlantedBug::DoublewriteIsNotSynced) {
            let synced = self.file.sync_data(context);
            synced.map_err(|error| health.fail(Error::io("sync", &self.path, error)))?;
        }
        self.next += pages.len();
        metrics.add(Counter::DoublewritePages, if self.has_copies { count as u64 } else { 1 });
        metrics.add(Counter::DoublewriteBytes, pages.len() as u64);
        Ok(())
    }

    /// A slot of names in memory that direct I/O accepts.
    fn names_slot(&self, names: impl Iterator<Item = PageId>) -> PooledBuf {
        let mut slot = BlockPool::new(0).alloc_aligned(self.page_len, DIRECT_ALIGNMENT);
        slot.copy_from_slice(&encode_names(self.page_len, names));
        slot
    }
}
