//! Writing pages: copy, redo log, doublewrite file, place.
//!
//! 1. Under its latch, shared, a page that may be written is copied and sealed; it counts as clean from then on, and as being written.
//! 2. The redo log is made durable up to the end of the last group that changed one of them.
//! 3. Copies of tablespaces that want it are compressed. The copies go to the doublewrite file, which is synced.
//! 4. The copies go to their places. They are synced when the doublewrite file is full, or before a checkpoint.
//!
//! Where something fails the pages are as dirty as before.

use super::doublewrite::DoublewriteFile;
use super::pool::Pool;
use crate::options::{FlushNeighbors, PageCompression};
use crate::page::{self, Lsn, PageCompressor, PageId};
use crate::redo::GroupEnd;
use crate::space::Spaces;
use siltstone_base::block_pool::{BlockPool, PooledBuf};
use siltstone_base::env::{DIRECT_ALIGNMENT, IoPriority};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, Result};
use std::collections::BTreeSet;
use std::ops::Range;

/// Pages that belong together on the disk.
const EXTENT: usize = 64;

/// Pages of one batch.
const BATCH: usize = 64;

/// What only who holds the flush lock uses.
#[derive(Debug)]
pub(super) struct FlushBuffer {
    copies: PooledBuf,
    taken: Vec<Taken>,
    /// What is to be stored, and where each page of it ends, if some of them are compressed.
    packed: Option<PooledBuf>,
    ends: Vec<usize>,
    /// By the numbers of the codecs.
    compressors: Vec<PageCompressor>,
    doublewrite: Option<DoublewriteFile>,
    /// Pages whose last write to their places failed: they may be torn there, and whole in the doublewrite file alone.
    torn: BTreeSet<PageId>,
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    frame: u32,
    id: PageId,
    oldest_lsn: Lsn,
    page_lsn: Lsn,
    /// A group that ends no earlier than the one that changed the page last.
    group: GroupEnd,
}

impl FlushBuffer {
    pub(super) fn new(page_len: usize, doublewrite: Option<DoublewriteFile>) -> Self {
        let copies = BlockPool::new(0).alloc_aligned(BATCH * page_len, DIRECT_ALIGNMENT);
        Self {
            copies,
            taken: Vec::new(),
            packed: None,
            ends: Vec::new(),
            compressors: Vec::new(),
            doublewrite,
            torn: BTreeSet::new(),
        }
    }

    /// Compresses those of the copies whose tablespaces want it. Returns whether there are any: then what is to be stored lies in `packed`, one page behind the other.
    fn pack(&mut self, spaces: &Spaces, page_len: usize) -> Result<bool> {
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

impl Pool {
    /// Writes those of the pages in `frames` that may be written, at most `count`, in batches. Returns how many were.
    pub(crate) fn flush_frames(&self, frames: &[u32], count: usize, priority: IoPriority) -> Result<usize> {
        let mut flushing = self.flushing.lock();
        let buffer = &mut *flushing;
        let mut frames = frames.iter();
        let mut done = 0;
        while done < count {
            self.health.check()?;
            let most =
                BATCH.min(count - done).min(buffer.doublewrite.as_ref().map_or(BATCH, DoublewriteFile::batch_pages));
            buffer.taken.clear();
            let page_len = self.page_len();
            for frame in frames.by_ref() {
                let at = buffer.taken.len() * page_len;
                if let Some(taken) = self.take_copy(*frame, &mut buffer.copies[at..at + page_len]) {
                    buffer.taken.push(taken);
                    if buffer.taken.len() == most {
                        break;
                    }
                }
            }
            if buffer.taken.is_empty() {
                break;
            }
            let outcome = self.write_batch(buffer, priority);
            self.finish_batch(&buffer.taken, outcome.is_err());
            if outcome.is_err() {
                buffer.torn.extend(buffer.taken.iter().map(|taken| taken.id));
            }
            outcome?;
            done += buffer.taken.len();
        }
        Ok(done)
    }

    /// Waits until nobody writes pages who began before.
    pub(crate) fn wait_for_flush(&self) {
        drop(self.flushing.lock());
    }

    /// Copies a page that is dirty, if nobody changes it now and the group that changed it last is closed.
    fn take_copy(&self, index: u32, copy: &mut [u8]) -> Option<Taken> {
        let frame = &self.frames[index as usize];
        if !frame.is_dirty() {
            return None;
        }
        let guard = self.try_shared(index)?;
        let (oldest_lsn, page_lsn) = (frame.oldest_lsn.load(Ordering::Acquire), frame.page_lsn());
        let group = self.redo.closed();
        let may_be_written = group.covers(page_lsn) || is_planted(PlantedBug::OpenGroupIsWritten);
        if oldest_lsn == 0 || !may_be_written || frame.is_flushing.swap(true, Ordering::AcqRel) {
            return None;
        }
        let id = frame.page()?;
        copy.copy_from_slice(guard.bytes());
        let mut list = self.flush_list.lock();
        frame.oldest_lsn.store(0, Ordering::Release);
        list.begin_write(oldest_lsn);
        drop(list);
        drop(guard);
        page::seal(copy, id, page_lsn);
        Some(Taken { frame: index, id, oldest_lsn, page_lsn, group })
    }

    fn write_batch(&self, buffer: &mut FlushBuffer, priority: IoPriority) -> Result<()> {
        let page_len = self.page_len();
        let groups = buffer.taken.iter().map(|taken| match taken.page_lsn {
            record if is_planted(PlantedBug::RecordTakenForGroup) => GroupEnd::mistaken(record),
            _ => taken.group,
        });
        if let Some(last) = groups.max().filter(|_| !is_planted(PlantedBug::PageBeforeRedo)) {
            self.redo.sync_to(last)?;
        }
        let is_packed = buffer.pack(&self.spaces, page_len)?;
        let stored = match &buffer.packed {
            Some(packed) if is_packed => &packed[..buffer.ends.last().copied().unwrap_or(0)],
            _ => &buffer.copies[..buffer.taken.len() * page_len],
        };
        if let Some(doublewrite) = &mut buffer.doublewrite {
            if doublewrite.is_full_for(stored.len()) {
                if !buffer.torn.is_empty() {
                    doublewrite.mend(&buffer.torn, &self.spaces, priority)?;
                    buffer.torn.clear();
                }
                if !is_planted(PlantedBug::DoublewriteReusedTooEarly) {
                    self.spaces.sync(priority)?;
                }
                doublewrite.rewind();
            }
            let names = buffer.taken.iter().map(|taken| taken.id);
            doublewrite.write(buffer.taken.len(), names, stored, &self.health, &self.metrics, priority)?;
        }
        if is_packed {
            let mut at = 0;
            for (taken, end) in buffer.taken.iter().zip(&buffer.ends) {
                let page = &stored[at..*end];
                if page.len() < page_len {
                    self.spaces.write_compressed(taken.id, page, priority)?;
                } else {
                    self.spaces.write(taken.id, page, priority)?;
                }
                at = *end;
            }
            return Ok(());
        }
        // Pages that lie next to each other go in one write.
        let mut at = 0;
        for run in
            buffer.taken.chunk_by(|one, next| PageId::new(one.id.space, one.id.number.wrapping_add(1)) == next.id)
        {
            let end = at + run.len() * page_len;
            if let Some(first) = run.first() {
                self.spaces.write(first.id, &stored[at..end], priority)?;
            }
            at = end;
        }
        Ok(())
    }

    fn finish_batch(&self, taken: &[Taken], has_failed: bool) {
        let mut list = self.flush_list.lock();
        for page in taken {
            let frame = &self.frames[page.frame as usize];
            // The frame still holds the page: one that is being written is not given up.
            if has_failed && self.spaces.is_open(page.id.space) {
                let before = frame.oldest_lsn.swap(page.oldest_lsn, Ordering::AcqRel);
                list.fail_write(page.oldest_lsn, page.frame, before != 0);
            } else {
                list.end_write(page.oldest_lsn);
            }
            frame.is_flushing.store(false, Ordering::Release);
        }
    }

    /// Writes the oldest dirty pages that became dirty before `limit`, at most `count`.
    pub(crate) fn flush_oldest(&self, count: usize, limit: Lsn, priority: IoPriority) -> Result<usize> {
        // Some of them may be held, or belong to an open group: more are asked for than wanted.
        let mut frames = self.flush_list.lock().candidates(&self.frames, count.saturating_mul(2), limit);
        self.sort_by_place(&mut frames, count);
        let (frames, count) = self.with_neighbors(frames, count);
        self.flush_frames(&frames, count, priority)
    }

    /// Lets the oldest pages in the order of use go until `target` frames are free, or a sixteenth of all, at most `count` at a time: those that are dirty are written
    /// before. Pages that only became clean would soon be changed again, and written for nothing. Returns how many pages went.
    pub(crate) fn free_tail(&self, target: usize, count: usize, priority: IoPriority) -> Result<usize> {
        let tail = self.tail_to_free(target.min(self.frames.len() / 16), count);
        let mut dirty: Vec<u32> =
            tail.iter().copied().filter(|frame| self.frames[*frame as usize].is_dirty()).collect();
        if !dirty.is_empty() {
            let count = dirty.len();
            self.sort_by_place(&mut dirty, count);
            let (frames, count) = self.with_neighbors(dirty, count);
            self.flush_frames(&frames, count, priority)?;
        }
        Ok(tail.into_iter().filter(|frame| self.free(*frame)).count())
    }

    /// Sorts candidates by where their pages lie, those that come first among themselves.
    fn sort_by_place(&self, frames: &mut [u32], count: usize) {
        for part in frames.chunks_mut(count.max(1)) {
            part.sort_by_cached_key(|frame| self.frames[*frame as usize].page());
        }
    }

    /// Puts the dirty pages around each page beside it, in the order of their places, until there are `count`. Returns how many to write, which is more where
    /// the last one brought many along.
    fn with_neighbors(&self, frames: Vec<u32>, count: usize) -> (Vec<u32>, usize) {
        if self.flush_neighbors == FlushNeighbors::None {
            return (frames, count);
        }
        let extent = self.frames.len().div_ceil(16).min(EXTENT) as u32;
        let mut all = Vec::with_capacity(frames.len());
        let mut done: Option<(u32, Range<u32>)> = None;
        let mut wanted = None;
        for frame in frames {
            let Some(id) = self.frames[frame as usize].page() else { continue };
            if done.as_ref().is_some_and(|(space, range)| *space == id.space && range.contains(&id.number)) {
                continue;
            }
            if all.len() >= count {
                // One more, which may take the place of one that can't be written now.
                wanted.get_or_insert(all.len());
                all.push(frame);
                continue;
            }
            let first = id.number - id.number % extent;
            let dirty_at = |number: &u32| {
                let found = self.frame_of(PageId::new(id.space, *number));
                found.filter(|found| self.frames[*found as usize].is_dirty())
            };
            let last = first.saturating_add(extent);
            let range = if self.flush_neighbors == FlushNeighbors::Extent {
                first..last
            } else {
                let below = (first..id.number).rev().take_while(|number| dirty_at(number).is_some()).count() as u32;
                let above =
                    (id.number.saturating_add(1)..last).take_while(|number| dirty_at(number).is_some()).count() as u32;
                id.number - below..id.number.saturating_add(1 + above)
            };
            all.extend(range.clone().filter_map(|number| dirty_at(&number)));
            done = Some((id.space, range));
        }
        let wanted = wanted.unwrap_or(all.len());
        (all, wanted)
    }

    /// States how far the pages are in their places. Returns the LSN of the checkpoint.
    pub(crate) fn checkpoint(&self, is_clean: bool, priority: IoPriority) -> Result<Lsn> {
        let _flushing = self.flushing.lock();
        self.health.check()?;
        // First the end of the log, then the list: what is appended between them is at the end of the list.
        let end = self.redo.closed();
        let oldest = self.flush_list.lock().oldest(&self.frames);
        let lsn = match oldest {
            Some(_) if is_planted(PlantedBug::FlushListHole) => end.lsn(),
            Some(oldest) => oldest.min(end.lsn()),
            None => end.lsn(),
        };
        if is_clean && (oldest.is_some() || self.redo.has_open_group()) {
            return Err(Error::new(
                siltstone_base::ErrorKind::Busy,
                "pages are dirty; the database can't be closed cleanly",
            ));
        }
        if !is_planted(PlantedBug::CheckpointBeforeSync) {
            self.spaces.sync(priority)?;
        }
        // Recovery may begin within a group: the end of it must be there.
        let is_mistaken = is_planted(PlantedBug::RecordTakenForGroup);
        self.redo.sync_to(if is_mistaken { GroupEnd::mistaken(lsn) } else { end })?;
        if lsn > self.redo.checkpoint().lsn || is_clean {
            self.redo.write_checkpoint(lsn, is_clean)?;
        }
        Ok(lsn)
    }
}
