//! Writing pages: copy, redo log, doublewrite file, place.
//!
//! 1. Under its latch, shared, a page that may be written is copied and sealed; it counts as clean from then on, and as being written.
//! 2. The redo log is made durable up to the end of the last group that changed one of them.
//! 3. Copies of tablespaces that want it are compressed. The copies go to the doublewrite file, which is synced.
//! 4. The copies go to their places. They are synced when the doublewrite file is full, or before a checkpoint.
//!
//! Where something fails the pages are as dirty as before. Several batches may be on their way, each with a doublewrite file of its own; a page is in one of them at most.

use super::doublewrite::DoublewriteFile;
use super::flush_buffer::{BATCH, FlushBuffer, Taken};
use super::pool::Pool;
use crate::options::FlushNeighbors;
use crate::page::{self, Lsn, PageId};
use crate::redo::GroupEnd;
use siltstone_base::env::IoPriority;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, Result};
use std::ops::Range;

/// Pages that belong together on the disk.
const EXTENT: usize = 64;

/// What [`Pool::free_tail`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Freed {
    /// Frames that are free now.
    pub(crate) frames: usize,
    /// Pages that were written.
    pub(crate) written: usize,
}

impl Pool {
    /// Writes those of the pages in `frames` that may be written, at most `count`, in batches. Returns how many were.
    pub(crate) fn flush_frames(&self, frames: &[u32], count: usize, priority: IoPriority) -> Result<usize> {
        let mut frames = frames.iter();
        let mut done = 0;
        while done < count {
            let written = self.flush_batch(&mut frames, count - done, priority)?;
            if written == 0 {
                break;
            }
            done += written;
        }
        Ok(done)
    }

    /// Writes one batch of the pages in `frames`, at most `count` of them. Returns how many were.
    fn flush_batch<'a>(
        &self,
        frames: &mut impl Iterator<Item = &'a u32>,
        count: usize,
        priority: IoPriority,
    ) -> Result<usize> {
        let mut buffer = self.flushing.take();
        let buffer = &mut *buffer;
        self.health.check()?;
        let most = BATCH.min(count).min(buffer.doublewrite.as_ref().map_or(BATCH, DoublewriteFile::batch_pages));
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
            return Ok(0);
        }
        let outcome = self.write_batch(buffer, priority);
        self.finish_batch(&buffer.taken, outcome.is_err());
        outcome.map(|()| buffer.taken.len())
    }

    /// Waits until nobody writes pages, or a checkpoint, who began before.
    pub(crate) fn wait_for_flush(&self) {
        drop(self.checkpointing.lock());
        self.flushing.wait_for_all();
    }

    /// Copies a page that is dirty, if nobody changes it now and the group that changed it last is closed.
    fn take_copy(&self, index: u32, copy: &mut [u8]) -> Option<Taken> {
        let frame = &self.frames[index as usize];
        if !frame.is_dirty() {
            return None;
        }
        let guard = self.try_shared(index)?;
        let id = frame.page()?;
        if frame.is_flushing.swap(true, Ordering::AcqRel) {
            return None;
        }
        // Another batch may have written the page since it was seen to be dirty: who has the right to write it looks again.
        let (oldest_lsn, page_lsn) = (frame.oldest_lsn.load(Ordering::Acquire), frame.page_lsn());
        let group = self.redo.closed();
        let may_be_written = group.covers(page_lsn) || is_planted(PlantedBug::OpenGroupIsWritten);
        if oldest_lsn == 0 || !may_be_written {
            frame.is_flushing.store(false, Ordering::Release);
            return None;
        }
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
        let groups = buffer.taken.iter().map(|taken| match taken.page_lsn {
            record if is_planted(PlantedBug::RecordTakenForGroup) => GroupEnd::mistaken(record),
            _ => taken.group,
        });
        if let Some(last) = groups.max().filter(|_| !is_planted(PlantedBug::PageBeforeRedo)) {
            self.redo.sync_to(last)?;
        }
        let is_packed = buffer.pack(&self.spaces, self.page_len())?;
        self.write_copies(buffer, is_packed, priority)?;
        let buffer = &*buffer;
        self.flushing.to_places(buffer, || match is_packed {
            true => self.write_packed(buffer, priority),
            false => self.write_runs(buffer, priority),
        })
    }

    /// Writes a batch to its doublewrite file, whose pages are durable in their places before it is used from its front again.
    fn write_copies(&self, buffer: &mut FlushBuffer, is_packed: bool, priority: IoPriority) -> Result<()> {
        let page_len = self.page_len();
        let stored = match &buffer.packed {
            Some(packed) if is_packed => &packed[..buffer.ends.last().copied().unwrap_or(0)],
            _ => &buffer.copies[..buffer.taken.len() * page_len],
        };
        let Some(doublewrite) = &mut buffer.doublewrite else { return Ok(()) };
        if doublewrite.is_full_for(stored.len()) {
            self.flushing.mend(buffer.number, |torn| doublewrite.mend(torn, &self.spaces, priority))?;
            if !is_planted(PlantedBug::DoublewriteReusedTooEarly) {
                self.spaces.sync(priority)?;
            }
            doublewrite.rewind();
        }
        let names = buffer.taken.iter().map(|taken| taken.id);
        doublewrite.write(buffer.taken.len(), names, stored, &self.health, &self.metrics, priority)
    }

    /// Writes pages of which some are compressed to their places.
    fn write_packed(&self, buffer: &FlushBuffer, priority: IoPriority) -> Result<()> {
        let Some(packed) = &buffer.packed else { return Ok(()) };
        let mut at = 0;
        for (taken, end) in buffer.taken.iter().zip(&buffer.ends) {
            let page = &packed[at..*end];
            if page.len() < self.page_len() {
                self.spaces.write_compressed(taken.id, page, priority)?;
            } else {
                self.spaces.write(taken.id, page, priority)?;
            }
            at = *end;
        }
        Ok(())
    }

    /// Writes pages to their places, those that lie next to each other in one write.
    fn write_runs(&self, buffer: &FlushBuffer, priority: IoPriority) -> Result<()> {
        let mut at = 0;
        for run in
            buffer.taken.chunk_by(|one, next| PageId::new(one.id.space, one.id.number.wrapping_add(1)) == next.id)
        {
            let end = at + run.len() * self.page_len();
            if let Some(first) = run.first() {
                self.spaces.write(first.id, &buffer.copies[at..end], priority)?;
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
    /// before. Pages that only became clean would soon be changed again, and written for nothing. `skip`: so many of them are left to others who free some at the same time.
    pub(crate) fn free_tail(&self, target: usize, skip: usize, count: usize, priority: IoPriority) -> Result<Freed> {
        let tail = self.tail_to_free(self.most_free(target), skip, count);
        let mut dirty: Vec<u32> =
            tail.iter().copied().filter(|frame| self.frames[*frame as usize].is_dirty()).collect();
        let mut written = 0;
        if !dirty.is_empty() {
            let count = dirty.len();
            self.sort_by_place(&mut dirty, count);
            let (frames, count) = self.with_neighbors(dirty, count);
            written = self.flush_frames(&frames, count, priority)?;
        }
        Ok(Freed { frames: tail.into_iter().filter(|frame| self.free(*frame)).count(), written })
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
        let _alone = self.checkpointing.lock();
        if is_clean {
            // A page that is on its way is not in its place.
            self.flushing.wait_for_all();
        }
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
        if lsn <= self.redo.checkpoint().lsn && !is_clean {
            return Ok(lsn);
        }
        if !is_planted(PlantedBug::CheckpointBeforeSync) {
            self.spaces.sync(priority)?;
        }
        // Recovery may begin within a group: the end of it must be there.
        let is_mistaken = is_planted(PlantedBug::RecordTakenForGroup);
        self.redo.sync_to(if is_mistaken { GroupEnd::mistaken(lsn) } else { end })?;
        self.redo.write_checkpoint(lsn, is_clean)?;
        Ok(lsn)
    }
}
