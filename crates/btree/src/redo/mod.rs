//! The redo log: records of page changes, appended to a ring of files. `docs/src/formats/redo.md` has the bytes.
//!
//! A record is one mini-transaction: changes of pages that happen together. Records with the flag [`END`] close a group; recovery applies whole
//! groups only. No page that an open group changed is written before the group is closed, so that a group of which the end is missing left no
//! trace.
//!
//! The order of locks: a sync, then a write, then the buffer. Appending takes the buffer alone; the flush list is filled
//! under it, so that the list is in the order of LSNs.

mod files;
mod position;
mod reader;
mod record;
mod sequence;
#[cfg(test)]
mod tests;

pub(crate) use files::{Checkpoint, FIRST_LSN, RedoFiles, is_redo_file};
pub(crate) use position::GroupEnd;
pub(crate) use reader::{Group, RedoReader};
pub(crate) use record::{END, Entries, Entry, encode_change, encode_drop};

use crate::health::Health;
use crate::meanwhile::{Moment, meanwhile};
use crate::metrics::{Counter, Metrics};
use crate::page::Lsn;
use files::Life;
use position::LastGroup;
use record::{MAX_RECORD_LEN, RECORD_HEADER_LEN, begin_record, end_record};
use sequence::Sequence;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};

/// Held while a checkpoint is written.
const CHECKPOINT_RANK: Rank = Rank(360);
/// Held by whoever syncs; who waits for it mostly finds that the sync covered him.
const SYNC_RANK: Rank = Rank(370);
/// Held by whoever writes.
const WRITE_RANK: Rank = Rank(380);
/// Held while a record is appended.
const BUFFER_RANK: Rank = Rank(400);

/// Bytes of the log that are written again at once.
const REWRITE_BYTES: u64 = 1 << 20;

/// The log of one open database. Any thread may append.
#[derive(Debug)]
pub(crate) struct Redo {
    files: RedoFiles,
    buffer: Mutex<Buffer>,
    writing: Mutex<Writing>,
    syncing: Mutex<()>,
    checkpointing: Mutex<Checkpoint>,
    /// The last groups that are written, durable, and closed.
    written: LastGroup,
    synced: LastGroup,
    closed: LastGroup,
    /// Everything below is needed no more.
    checkpoint: AtomicU64,
    /// The most bytes of room that somebody waits for; 0: nobody.
    wanted: AtomicU64,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Buffer {
    /// What was appended and is not being written yet; it ends at `end`.
    bytes: Vec<u8>,
    end: Lsn,
    /// The newest durable checkpoint: a record says after which one it was written.
    sequence: Sequence,
}

/// The right to write.
#[derive(Debug)]
struct Writing {
    /// A buffer that is kept for its memory.
    bytes: Vec<u8>,
    /// Where the next bytes go. There may be a part of an open group before: nobody else may know.
    at: Lsn,
}

impl Redo {
    /// A log that goes on at `end`, behind the newest checkpoint, in a new life of the database. The first checkpoint of this life is written before anything is appended.
    pub(crate) fn new(
        files: RedoFiles,
        checkpoint: Checkpoint,
        end: GroupEnd,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let sequence = checkpoint.sequence.next();
        Self {
            files,
            buffer: Mutex::new(BUFFER_RANK, Buffer { bytes: Vec::new(), end: end.lsn(), sequence }),
            writing: Mutex::new(WRITE_RANK, Writing { bytes: Vec::new(), at: end.lsn() }),
            syncing: Mutex::new(SYNC_RANK, ()),
            written: LastGroup::new(end),
            synced: LastGroup::new(checkpoint.synced.min(end)),
            closed: LastGroup::new(end),
            checkpoint: AtomicU64::new(checkpoint.lsn),
            checkpointing: Mutex::new(
                CHECKPOINT_RANK,
                Checkpoint { life: Life { start: end, sequence }, ..checkpoint },
            ),
            wanted: AtomicU64::new(0),
            health,
            metrics,
        }
    }

    /// Where the next record begins.
    pub(crate) fn end(&self) -> Lsn {
        self.buffer.lock().end
    }

    /// Where the last closed group ends: no page with a later LSN may be written.
    #[inline]
    pub(crate) fn closed(&self) -> GroupEnd {
        self.closed.get()
    }

    /// Whether the last group is not closed yet. For who holds the lock of writers.
    pub(crate) fn has_open_group(&self) -> bool {
        self.closed().lsn() < self.end()
    }

    /// Lets nobody append anything any more, if a group is open: who made it will not close it.
    #[cold]
    pub(crate) fn fail_within_group(&self) {
        if self.has_open_group() {
            self.health.fail(Error::new(ErrorKind::Poisoned, "a thread panicked within a group of changes"));
        }
    }

    /// Bytes of the log between the checkpoint and its end.
    pub(crate) fn age(&self) -> u64 {
        self.end().saturating_sub(self.checkpoint.load(Ordering::Acquire))
    }

    /// Whether a group of so many bytes may be appended, and some more for what keeps the tree in shape.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.age().saturating_add(bytes) <= self.capacity() / 8 * 7
    }

    /// Takes note that somebody waits for so many bytes of room.
    pub(crate) fn want(&self, bytes: u64) {
        self.wanted.fetch_max(bytes, Ordering::AcqRel);
    }

    /// Takes note that nobody waits for so many bytes any more. Others who wait say so again.
    pub(crate) fn stop_wanting(&self, bytes: u64) {
        let _ = self.wanted.compare_exchange(bytes, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The most bytes of room that somebody waits for.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Acquire)
    }

    /// The files, to be read at recovery.
    pub(crate) fn files(&self) -> &RedoFiles {
        &self.files
    }

    /// Bytes that the files hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.files.capacity()
    }

    /// Appends one record. `stamp` is told where it begins and ends, in the order of the records. Returns where it ends, which is where its group does if `flags` say so: [`closed`](Self::closed).
    ///
    /// # Errors
    ///
    /// `ReadOnly` after an earlier failure; nothing is appended then.
    #[inline]
    pub(crate) fn append(&self, entries: &[u8], flags: u8, stamp: impl FnOnce(Lsn, Lsn)) -> Result<Lsn> {
        meanwhile(Moment::Record);
        self.health.check()?;
        if entries.len() as u64 > MAX_RECORD_LEN - RECORD_HEADER_LEN as u64 {
            return Err(Error::new(ErrorKind::LimitExceeded, "a record of the redo log takes no more than 64 MiB"));
        }
        let mut buffer = self.buffer.lock();
        let start = buffer.end;
        let end = start + (RECORD_HEADER_LEN + entries.len()) as u64;
        if end - self.checkpoint.load(Ordering::Acquire) > self.capacity() {
            drop(buffer);
            return Err(self.health.fail(Error::new(ErrorKind::LimitExceeded, "the redo log overtook its checkpoint")));
        }
        let sequence = buffer.sequence;
        let at = begin_record(&mut buffer.bytes, start, sequence);
        buffer.bytes.extend_from_slice(entries);
        end_record(&mut buffer.bytes, at, flags);
        buffer.end = end;
        stamp(start, end);
        if flags & END != 0 {
            self.closed.set(GroupEnd(end));
        }
        drop(buffer);
        self.metrics.add(Counter::RedoBytes, end - start);
        Ok(end)
    }

    /// Hands everything up to the end of a group to the operating system. A failure is final.
    #[inline]
    pub(crate) fn write_to(&self, end: GroupEnd) -> Result<()> {
        if self.written.get() >= end {
            return Ok(());
        }
        let mut writing = self.writing.lock();
        if self.written.get() >= end {
            return Ok(());
        }
        self.write_buffer(&mut writing)
    }

    /// Hands everything to the operating system that was appended.
    #[inline]
    fn write_buffer(&self, Writing { bytes, at }: &mut Writing) -> Result<()> {
        self.health.check()?;
        bytes.clear();
        let closed = {
            let mut buffer = self.buffer.lock();
            std::mem::swap(&mut buffer.bytes, bytes);
            // What is written may end within a group: that part is not worth anything yet.
            if is_planted(PlantedBug::RecordTakenForGroup) { GroupEnd::mistaken(buffer.end) } else { self.closed() }
        };
        self.files.write(*at, bytes).map_err(|error| self.health.fail(error))?;
        *at += bytes.len() as u64;
        self.metrics.add(Counter::RedoWrites, 1);
        self.written.set(closed);
        Ok(())
    }

    /// Makes everything durable up to the end of a group. A failure is final.
    pub(crate) fn sync_to(&self, end: GroupEnd) -> Result<()> {
        if self.synced.get() >= end {
            return Ok(());
        }
        let _syncing = self.syncing.lock();
        if self.synced.get() >= end {
            return Ok(());
        }
        self.health.check()?;
        self.write_to(end)?;
        self.sync_files()
    }

    /// Makes everything durable that is written. For who holds the right to sync.
    fn sync_files(&self) -> Result<()> {
        let target = self.written.get();
        if !is_planted(PlantedBug::RedoIsNotSynced) {
            self.files.sync().map_err(|error| self.health.fail(error))?;
            self.metrics.add(Counter::RedoSyncs, 1);
        }
        self.synced.set(target);
        Ok(())
    }

    /// Makes every group durable that is closed.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.sync_to(self.closed())
    }

    /// What a thread may do beside one that writes, for which that one waits: makes durable what is written, unless that one has the right to sync.
    #[cfg(feature = "testing")]
    pub(crate) fn sync_written(&self) -> Result<()> {
        if self.syncing.is_locked() { Ok(()) } else { self.sync_to(self.written.get()) }
    }

    /// What a thread does whose group was closed before another one was opened, if it comes late: writes and syncs all there is, a part of the open group included.
    #[cfg(feature = "testing")]
    pub(crate) fn sync_late(&self) -> Result<()> {
        let _syncing = self.syncing.lock();
        self.write_buffer(&mut self.writing.lock())?;
        self.sync_files()
    }

    /// Makes everything durable that recovery found: it was written, perhaps no more. If a sync of it failed in an earlier life the system takes it for
    /// clean, and would sync nothing: so it is written again.
    pub(crate) fn sync_again(&self) -> Result<()> {
        let _syncing = self.syncing.lock();
        let (mut lsn, found) = (self.checkpoint.load(Ordering::Acquire), self.written.get());
        let end = found.lsn();
        let mut bytes = vec![0; REWRITE_BYTES.min(end.saturating_sub(lsn)) as usize];
        while lsn < end {
            let part = &mut bytes[..REWRITE_BYTES.min(end - lsn) as usize];
            self.files.read(lsn, part)?;
            self.files.write(lsn, part).map_err(|error| self.health.fail(error))?;
            lsn += part.len() as u64;
        }
        self.files.sync().map_err(|error| self.health.fail(error))?;
        self.synced.set(found);
        Ok(())
    }

    /// Whether a closed group is not durable.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.synced.get() < self.closed()
    }

    /// States that recovery may begin at `lsn`: every page that was changed before is durable in its place. Everything below may be overwritten
    /// once this returns. `is_clean`: nothing follows.
    pub(crate) fn write_checkpoint(&self, lsn: Lsn, is_clean: bool) -> Result<()> {
        let mut newest = self.checkpointing.lock();
        self.health.check()?;
        let sequence = newest.sequence.next();
        let lsn = lsn.max(newest.lsn);
        // An error of the device is told to one sync of a file alone: no other one may run beside it, nor begin before the error is noted.
        let syncing = self.syncing.lock();
        self.health.check()?;
        let synced = self.synced.get();
        let checkpoint = Checkpoint { sequence, lsn, synced, is_clean, life: newest.life.as_of(sequence, synced) };
        self.files.write_checkpoint(&checkpoint)?;
        self.files.sync_checkpoint().map_err(|error| self.health.fail(error))?;
        drop(syncing);
        *newest = checkpoint;
        drop(newest);
        self.buffer.lock().sequence = sequence;
        self.checkpoint.store(checkpoint.lsn, Ordering::Release);
        self.metrics.add(Counter::Checkpoints, 1);
        Ok(())
    }

    /// The newest checkpoint.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        *self.checkpointing.lock()
    }
}
