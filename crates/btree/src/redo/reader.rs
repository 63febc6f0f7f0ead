//! Reading the redo log after a crash.

use super::files::{Checkpoint, RedoFiles};
use super::position::GroupEnd;
use super::record::{END, RECORD_HEADER_LEN, RecordHeader};
use super::sequence::Sequence;
use crate::page::Lsn;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::{Error, Result};

/// A closed group: its records one after the other.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Where each record begins and ends in the log, and its entries.
    pub(crate) records: Vec<(Lsn, Lsn, Vec<u8>)>,
}

/// Reads groups from a checkpoint on. The log ends at the first record that is not what was written there, after the last
/// one: torn, of an earlier turn of the ring, or left by a life of the database that ended before this record's successor.
#[derive(Debug)]
pub(crate) struct RedoReader<'a> {
    files: &'a RedoFiles,
    checkpoint: Checkpoint,
    at: Lsn,
    /// Where the last closed group ended.
    end: GroupEnd,
    /// The newest checkpoint that a record stated: that of the last one.
    sequence: Option<Sequence>,
    /// Bytes of the log that were read ahead.
    window: Vec<u8>,
    window_at: Lsn,
}

/// Bytes that are read at a time.
const WINDOW: usize = 256 << 10;

impl<'a> RedoReader<'a> {
    pub(crate) fn new(files: &'a RedoFiles, checkpoint: Checkpoint) -> Self {
        let lsn = checkpoint.lsn;
        // Recovery may begin within a group: the one that ends before it has no other end to show.
        let end = GroupEnd(lsn);
        Self { files, checkpoint, at: lsn, end, sequence: None, window: Vec::new(), window_at: lsn }
    }

    /// Where the last group ended that was read.
    pub(crate) fn end(&self) -> GroupEnd {
        self.end
    }

    /// The next closed group.
    pub(crate) fn next_group(&mut self) -> Result<Option<Group>> {
        if self.checkpoint.is_clean {
            return self.next_after_close();
        }
        let mut group = Group::default();
        while let Some((header, entries)) = self.next_record()? {
            let end = self.at;
            group.records.push((header.lsn, end, entries));
            if header.flags & END != 0 {
                self.end = GroupEnd(end);
                return Ok(Some(group));
            }
        }
        if is_planted(PlantedBug::OpenGroupIsApplied) && !group.records.is_empty() {
            self.end = GroupEnd(self.at);
            return Ok(Some(group));
        }
        self.finish()
    }

    /// The log of a database that was closed ends at its last checkpoint. What lies behind was left by lives before, unless a later checkpoint is gone.
    fn next_after_close(&mut self) -> Result<Option<Group>> {
        let at = self.at;
        if self.next_record()?.is_some_and(|found| self.checkpoint.sequence.is_before(found.0.sequence)) {
            let message = "the redo log goes on behind its end: its newest checkpoint is damaged";
            return Err(Error::corruption(self.files.path(), at, message));
        }
        self.at = at;
        self.finish()
    }

    fn finish(&self) -> Result<Option<Group>> {
        if self.end < self.checkpoint.synced {
            let message = "the redo log ends before what is known to have been durable";
            return Err(Error::corruption(self.files.path(), self.end.lsn(), message));
        }
        Ok(None)
    }

    fn next_record(&mut self) -> Result<Option<(RecordHeader, Vec<u8>)>> {
        let Some(head) = self.peek(RECORD_HEADER_LEN)?.and_then(|bytes| bytes.first_chunk().copied()) else {
            return Ok(None);
        };
        let header = RecordHeader::decode(&head);
        let is_older = self.sequence.is_some_and(|last| header.sequence.is_before(last))
            || (self.checkpoint.life.is_before(header.lsn, header.sequence)
                && !is_planted(PlantedBug::OlderLifeIsRead));
        if header.lsn != self.at || is_older {
            return Ok(None);
        }
        let Some(record) = self.peek(RECORD_HEADER_LEN + header.len as usize)? else { return Ok(None) };
        if !header.fits(record) {
            return Ok(None);
        }
        let entries = record[RECORD_HEADER_LEN..].to_vec();
        self.at += (RECORD_HEADER_LEN + entries.len()) as u64;
        self.sequence = Some(header.sequence);
        Ok(Some((header, entries)))
    }

    /// The next `len` bytes; `None` if the ring can't hold so many, or never held.
    fn peek(&mut self, len: usize) -> Result<Option<&[u8]>> {
        let end = self.at + len as u64;
        if end - self.checkpoint.lsn > self.files.capacity() || len as u64 > self.files.longest_record() {
            return Ok(None);
        }
        if self.at < self.window_at || end > self.window_at + self.window.len() as u64 {
            let rest = self.files.capacity() - (self.at - self.checkpoint.lsn);
            let wanted = len.max(WINDOW).min(usize::try_from(rest).unwrap_or(usize::MAX));
            self.window.clear();
            self.window.resize(wanted, 0);
            self.window_at = self.at;
            self.files.read(self.at, &mut self.window)?;
        }
        let from = (self.at - self.window_at) as usize;
        Ok(self.window.get(from..from + len))
    }

    /// Bytes that are reserved for reading ahead.
    #[cfg(test)]
    pub(crate) fn window_len(&self) -> usize {
        self.window.capacity()
    }
}
