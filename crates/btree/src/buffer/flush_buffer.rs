//! What batches of pages are written through, of which several may be on their way at the same time.

use super::doublewrite::DoublewriteFile;
use crate::options::PageCompression;
use crate::page::{self, Lsn, PageCompressor, PageId};
use crate::redo::GroupEnd;
use crate::space::Spaces;
use siltstone_base::Result;
use siltstone_base::block_pool::{BlockPool, PooledBuf};
use siltstone_base::env::DIRECT_ALIGNMENT;
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use siltstone_base::sync::{Mutex, MutexGuard, Rank, RwLock};
use std::collections::{BTreeMap, BTreeSet};

/// Held while pages are written.
const BUFFER_RANK: Rank = Rank(340);
/// Taken under it.
const PLACES_RANK: Rank = Rank(345);
/// Taken under that.
const TORN_RANK: Rank = Rank(346);

/// Pages of one batch.
pub(super) const BATCH: usize = 64;

/// The buffers of batches. Each has a doublewrite file of its own, so that batches wait for each other only where all buffers are in use.
#[derive(Debug)]
pub(super) struct FlushBuffers {
    buffers: Box<[Mutex<FlushBuffer>]>,
    /// Where the next one begins to look for a free buffer: they fill in turn.
    next: AtomicUsize,
    places: RwLock<()>,
    /// Pages whose last write to their places failed: they may be torn there. The doublewrite file of this buffer has the copy that is to be put back; those of others may
    /// have older ones, which must not.
    torn: Mutex<BTreeMap<PageId, usize>>,
}

impl FlushBuffers {
    /// As many as there are doublewrite files, or `count` without.
    pub(super) fn new(page_len: usize, count: usize, doublewrite: Option<Vec<DoublewriteFile>>) -> Self {
        let files: Vec<_> = match doublewrite {
            Some(files) => files.into_iter().map(Some).collect(),
            None => (0..count).map(|_| None).collect(),
        };
        let numbered = files.into_iter().enumerate();
        let buffer = |(number, file)| Mutex::new(BUFFER_RANK, FlushBuffer::new(number, page_len, file));
        Self {
            buffers: numbered.map(buffer).collect(),
            next: AtomicUsize::new(0),
            places: RwLock::new(PLACES_RANK, ()),
            torn: Mutex::new(TORN_RANK, BTreeMap::new()),
        }
    }

    /// A buffer that nobody uses; waits for one of them, for as long as one batch takes, if there is none.
    pub(super) fn take(&self) -> MutexGuard<'_, FlushBuffer> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.buffers.len();
        let (before, behind) = self.buffers.split_at(first);
        let free = behind.iter().chain(before).find_map(Mutex::try_lock);
        free.unwrap_or_else(|| self.buffers[first].lock())
    }

    /// Where all buffers are in use, waits until a batch of one is written. Returns whether it had to.
    pub(super) fn wait_for_any(&self) -> bool {
        if self.buffers.iter().any(|buffer| !buffer.is_locked()) {
            return false;
        }
        drop(self.take());
        true
    }

    /// Waits until nobody writes pages who began before.
    pub(super) fn wait_for_all(&self) {
        for buffer in &self.buffers {
            drop(buffer.lock());
        }
    }

    #[cfg(test)]
    pub(super) fn nth_for_test(&self, number: usize) -> MutexGuard<'_, FlushBuffer> {
        self.buffers[number].lock()
    }

    /// Writes the pages of a buffer to their places by `write`, and takes note of those that may be torn now.
    pub(super) fn to_places(&self, buffer: &FlushBuffer, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let _shared = self.places.read();
        let outcome = write();
        let mut torn = self.torn.lock();
        for page in &buffer.taken {
            match outcome {
                Ok(()) => torn.remove(&page.id),
                Err(_) => torn.insert(page.id, buffer.number),
            };
        }
        outcome
    }

    /// Puts those pages back by `mend` whose copies are in the file of a buffer, if there are any. Nobody writes to a place meanwhile: what is to be done there depends on what it
    /// holds.
    pub(super) fn mend(&self, number: usize, mend: impl FnOnce(&BTreeSet<PageId>) -> Result<()>) -> Result<()> {
        if self.torn.lock().values().all(|other| *other != number) {
            return Ok(());
        }
        let _alone = self.places.write();
        let mut torn = self.torn.lock();
        let mine = torn.iter().filter(|(_, other)| **other == number).map(|(id, _)| *id).collect();
        mend(&mine)?;
        torn.retain(|_, other| *other != number);
        Ok(())
    }
}

/// The buffer of one batch.
#[derive(Debug)]
pub(super) struct FlushBuffer {
    /// Among the others.
    pub(super) number: usize,
    pub(super) copies: PooledBuf,
    pub(super) taken: Vec<Taken>,
    /// What is to be stored, and where each page of it ends, if some of them are compressed.
    pub(super) packed: Option<PooledBuf>,
    pub(super) ends: Vec<usize>,
    /// By the numbers of the codecs.
    compressors: Vec<PageCompressor>,
    pub(super) doublewrite: Option<DoublewriteFile>,
}

/// A page that was copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) frame: u32,
    pub(super) id: PageId,
    pub(super) oldest_lsn: Lsn,
    pub(super) page_lsn: Lsn,
    /// A group that ends no earlier than the one that changed the page last.
    pub(super) group: GroupEnd,
}

impl FlushBuffer {
    fn new(number: usize, page_len: usize, doublewrite: Option<DoublewriteFile>) -> Self {
        let copies = BlockPool::new(0).alloc_aligned(BATCH * page_len, DIRECT_ALIGNMENT);
        Self { number, copies, taken: Vec::new(), packed: None, ends: Vec::new(), compressors: Vec::new(), doublewrite }
    }

    /// Compresses those of the copies whose tablespaces want it. Returns whether there are any: then what is to be stored lies in `packed`, one page behind the other.
    pub(super) fn pack(&mut self, spaces: &Spaces, page_len: usize) -> Result<bool> {
        let wanted = |taken: &Taken| spaces.compression(taken.id.space);
        if self.taken.iter().all(|taken| wanted(taken) == PageCompression::None) {
            return Ok(false);
        }
        let packed =
            self.packed.get_or_insert_with(|| BlockPool::new(0).alloc_aligned(BATCH * page_len, DIRECT_ALIGNMENT));
        self.ends.clear();
        let mut at = 0;
        for (taken, copy) in self.taken.iter().zip(self.copies.chunks_exact_mut(page_len)) {
            let out = &mut packed[at..at + page_len];
            let stored = match compressor(&mut self.compressors, wanted(taken))? {
                Some(compressor) => compressor.compress(copy, taken.id, taken.page_lsn, out)?,
                None => None,
            };
            if stored.is_none() {
                // What lies between slots and cells may have been cleared.
                page::seal(copy, taken.id, taken.page_lsn);
                out.copy_from_slice(copy);
            }
            at += stored.unwrap_or(page_len);
            self.ends.push(at);
        }
        Ok(true)
    }
}

/// The compressor for a codec, which is made when it is first needed.
fn compressor(known: &mut Vec<PageCompressor>, wanted: PageCompression) -> Result<Option<&mut PageCompressor>> {
    if let Some(place) = known.iter().position(|compressor| compressor.compression() == wanted) {
        return Ok(known.get_mut(place));
    }
    known.extend(PageCompressor::new(wanted)?);
    Ok(known.last_mut().filter(|compressor| compressor.compression() == wanted))
}
