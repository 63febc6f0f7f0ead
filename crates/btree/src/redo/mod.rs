//! The redo log: records of page changes, appended to a ring of files. `docs/src/formats/redo.md` has the bytes.
//!
//! A record is one mini-transaction: changes of pages that happen together. Records with the flag [`END`] close a group; recovery applies whole
//! groups only. No page that an open group changed is written before the group is closed, so that a group of which the end is missing left no
//! trace.
//!
//! The order of locks: a sync, then a write, then the buffer. Appending takes the buffer alone; the flush list is filled
//! under it, so that the list is in the order of LSNs.

mod files;
mod reader;
mod record;
#[cfg(test)]
mod tests;

pub(crate) use files::{Checkpoint, FIRST_LSN, RedoFiles};
pub(crate) use reader::{Group, RedoReader};
pub(crate) use record::{END, Entries, Entry, encode_change, encode_drop};

use crate::health::Health;
use crate::metrics::{Counter, Metrics};
use crate::page::Lsn;
use record::{RECORD_HEADER_LEN, begin_record, end_record};
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
    /// A buffer that is kept for its memory, and the right to write.
    writing: Mutex<Vec<u8>>,
    syncing: Mutex<()>,
    checkpointing: Mutex<Checkpoint>,
    /// Everything below is written, durable, part of a closed group, and needed no more.
    written: AtomicU64,
    synced: AtomicU64,
    closed: AtomicU64,
    checkpoint: AtomicU64,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Buffer {
    /// What was appended and is not being written yet; it ends at `end`.
    bytes: Vec<u8>,
    end: Lsn,
    /// The newest durable checkpoint: a record says after which one it was written.
    sequence: u32,
}

impl Redo {
    /// A log that goes on at `end`, behind the newest checkpoint.
    pub(crate) fn new(
        files: RedoFiles,
        checkpoint: Checkpoint,
        end: Lsn,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            files,
            buffer: Mutex::new(BUFFER_RANK, Buffer { bytes: Vec::new(), end, sequence: checkpoint.sequence }),
            writing: Mutex::new(WRITE_RANK, Vec::new()),
            syncing: Mutex::new(SYNC_RANK, ()),
            written: AtomicU64::new(end),
            synced: AtomicU64::new(checkpoint.lsn.min(end)),
            closed: AtomicU64::new(end),
            checkpoint: AtomicU64::new(checkpoint.lsn),
            checkpointing: Mutex::new(CHECKPOINT_RANK, checkpoint),
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
    pub(crate) fn closed(&self) -> Lsn {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether the last group is not closed yet. For who holds the lock of writers.
    pub(crate) fn has_open_group(&self) -> bool {
        self.closed() < self.end()
    }

    /// Bytes of the log between the checkpoint and its end.
    pub(crate) fn age(&self) -> u64 {
        self.end().saturating_sub(self.checkpoint.load(Ordering::Acquire))
    }

    /// Whether a group of so many bytes may be appended, and some more for what keeps the tree in shape.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.age().saturating_add(bytes) <= self.capacity() / 8 * 7
    }

    /// The files, to be read at recovery.
    pub(crate) fn files(&self) -> &RedoFiles {
        &self.files
    }

    /// Bytes that the files hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.files.capacity()
    }

    /// Appends one record. `stamp` is told where it begins and ends, in the order of the records.
    ///
    /// # Errors
    ///
    /// `ReadOnly` after an earlier failure; nothing is appended then.
    #[inline]
    pub(crate) fn append(&self, entries: &[u8], flags: u8, stamp: impl FnOnce(Lsn, Lsn)) -> Result<Lsn> {
        self.health.check()?;
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
            self.closed.store(end, Ordering::Release);
        }
        drop(buffer);
        self.metrics.add(Counter::RedoBytes, end - start);
        Ok(end)
    }

    /// Hands everything up to `lsn` to the operating system. A failure is final.
    #[inline]
    pub(crate) fn write_to(&self, lsn: Lsn) -> Result<()> {
        if self.written.load(Ordering::Acquire) >= lsn {
            return Ok(());
        }
        let mut writing = self.writing.lock();
        let start = self.written.load(Ordering::Acquire);
        if start >= lsn {
            return Ok(());
        }
        self.health.check()?;
        writing.clear();
        let end = {
            let mut buffer = self.buffer.lock();
            std::mem::swap(&mut buffer.bytes, &mut *writing);
            buffer.end
        };
        self.files.write(start, &writing).map_err(|error| self.health.fail(error))?;
        self.metrics.add(Counter::RedoWrites, 1);
        self.written.store(end, Ordering::Release);
        Ok(())
    }

    /// Makes everything up to `lsn` durable. A failure is final.
    pub(crate) fn sync_to(&self, lsn: Lsn) -> Result<()> {
        if self.synced.load(Ordering::Acquire) >= lsn {
            return Ok(());
        }
        let _syncing = self.syncing.lock();
        if self.synced.load(Ordering::Acquire) >= lsn {
            return Ok(());
        }
        self.health.check()?;
        self.write_to(lsn)?;
        let target = self.written.load(Ordering::Acquire);
        if !is_planted(PlantedBug::RedoIsNotSynced) {
            self.files.sync().map_err(|error| self.health.fail(error))?;
            self.metrics.add(Counter::RedoSyncs, 1);
        }
        self.synced.store(target, Ordering::Release);
        Ok(())
    }

    /// Makes everything durable that was appended.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.sync_to(self.end())
    }

    /// Makes everything durable that recovery found: it was written, perhaps no more. If a sync of it failed in an earlier life the system takes it for
    /// clean, and would sync nothing: so it is written again.
    pub(crate) fn sync_again(&self) -> Result<()> {
        let _syncing = self.syncing.lock();
        let (mut lsn, end) = (self.checkpoint.load(Ordering::Acquire), self.written.load(Ordering::Acquire));
        let mut bytes = vec![0; REWRITE_BYTES.min(end.saturating_sub(lsn)) as usize];
        while lsn < end {
            let part = &mut bytes[..REWRITE_BYTES.min(end - lsn) as usize];
            self.files.read(lsn, part)?;
            self.files.write(lsn, part).map_err(|error| self.health.fail(error))?;
            lsn += part.len() as u64;
        }
        self.files.sync().map_err(|error| self.health.fail(error))?;
        self.synced.store(self.written.load(Ordering::Acquire), Ordering::Release);
        Ok(())
    }

    /// Whether something was appended that is not durable.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.synced.load(Ordering::Acquire) < self.end()
    }

    /// States that recovery may begin at `lsn`: every page that was changed before is durable in its place. Everything below may be overwritten
    /// once this returns. `is_clean`: nothing follows.
    pub(crate) fn write_checkpoint(&self, lsn: Lsn, is_clean: bool) -> Result<()> {
        let mut newest = self.checkpointing.lock();
        self.health.check()?;
        let sequence = newest.sequence.checked_add(1).ok_or_else(|| {
            Error::new(ErrorKind::LimitExceeded, "the redo log has had all checkpoints that its format can count")
        })?;
        let checkpoint = Checkpoint {
            sequence,
            lsn: lsn.max(newest.lsn),
            synced: self.synced.load(Ordering::Acquire).max(newest.synced),
            is_clean,
        };
        self.files.write_checkpoint(&checkpoint)?;
        self.files.sync_checkpoint().map_err(|error| self.health.fail(error))?;
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
