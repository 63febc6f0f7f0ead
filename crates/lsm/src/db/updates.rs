//! The batches that are written, as the WALs have them: for whoever brings another store up to date.
//!
//! A record of a WAL is what one group of writers wrote; it is handed on as one batch, without the engine's own notes. A record counts when its entries
//! are visible. WALs follow each other in the order of their numbers, and the next one begins when all of the one before was seen.

use super::Db;
use super::state::DbInner;
use super::wal_note::is_note;
use crate::batch::{BatchReader, HEADER_LEN, Marker, Record, Records, WriteBatch, encode_header};
use crate::file_names::FileName;
use crate::key::SeqNo;
use crate::wal::{ReadOutcome, WalReader};
use siltstone_base::env::{Access, FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, ErrorKind, Result};

const CONTEXT: IoContext = IoContext::new(FileKind::Wal, IoPriority::Low);

/// What a record may have beside the batches of its group.
const MAX_NOTES_BYTES: usize = 1 << 20;

/// What one group of writers wrote.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UpdateBatch {
    /// The sequence number of the first entry; the others follow without gaps.
    pub seqno: SeqNo,
    /// The entries, and what writers put into the log beside them.
    pub batch: WriteBatch,
}

/// Walks what is written to a database, from [`Db::updates_since`].
///
/// Keeps every file of the database while it exists.
#[derive(Debug)]
pub struct Updates {
    db: Db,
    reader: Option<WalReader>,
    /// The WAL that is read, or that was read last.
    wal: u64,
    /// The number of the entry that comes next.
    next: SeqNo,
    /// Scratch: a record.
    record: Vec<u8>,
    /// The record was read and is not visible yet.
    is_pending: bool,
    /// Something was handed on: what follows begins where it ended.
    has_begun: bool,
}

impl Drop for Updates {
    fn drop(&mut self) {
        self.db.enable_file_deletions();
    }
}

impl Updates {
    pub(super) fn since(db: &Db, seqno: SeqNo) -> Result<Self> {
        let inner = &db.handle.inner;
        inner.check_writable()?;
        // From here on WALs stay; the result takes it back.
        db.disable_file_deletions();
        let mut updates = Self {
            db: db.clone(),
            reader: None,
            wal: 0,
            next: seqno.max(1),
            record: Vec::new(),
            is_pending: false,
            has_begun: false,
        };
        updates.find_start()?;
        Ok(updates)
    }

    /// The next batch; `None` if nothing more was written so far: a later call may find some. The first batch may begin before the number that was asked
    /// for.
    ///
    /// # Errors
    ///
    /// `NotFound` for entries that are in no WAL: they were written without it, or taken in with a table. `NotSupported` for a transaction that was
    /// prepared. `Corruption`, errors of I/O. After an error no call goes on.
    pub fn next_batch(&mut self) -> Result<Option<UpdateBatch>> {
        // What is visible now was in a WAL before, if it ever is.
        let visible = self.db.latest_seqno();
        while self.is_pending || self.read_record()? {
            self.is_pending = true;
            let (seqno, count) = head(&self.record)?;
            let end = seqno + u64::from(count);
            if end > self.db.latest_seqno() + 1 {
                return Ok(None);
            }
            self.is_pending = false;
            // A record of notes alone, or one that ends before what was asked for.
            if end <= self.next {
                continue;
            }
            if seqno > self.next {
                return Err(gone(self.next));
            }
            if seqno < self.next && self.has_begun {
                let path = FileName::Wal(self.wal).path(self.db.dir());
                return Err(Error::corrupt("a batch of a WAL begins within the one before").with_file(&path));
            }
            self.next = end;
            self.has_begun = true;
            return Ok(Some(UpdateBatch { seqno, batch: without_notes(&self.record, seqno, count)? }));
        }
        if self.next <= visible { Err(gone(self.next)) } else { Ok(None) }
    }

    /// Finds the WAL that has the entry of number `next`, if it was written.
    fn find_start(&mut self) -> Result<()> {
        let inner = &self.db.handle.inner;
        let mut found = None;
        for number in inner.wal_files(0)? {
            let Some(mut reader) = inner.wal_reader(number)? else { continue };
            let first = match reader.next_record(&mut self.record)? {
                ReadOutcome::Record { .. } => head(&self.record)?.0,
                ReadOutcome::End(_) => continue,
            };
            if found.is_some() && first > self.next {
                break;
            }
            found = Some((number, first));
        }
        match found {
            Some((number, first)) if first <= self.next => {
                self.wal = number;
                self.reader = inner.wal_reader(number)?;
                Ok(())
            }
            // Nothing of it was written yet.
            _ if self.next > self.db.latest_seqno() => Ok(()),
            _ => Err(gone(self.next)),
        }
    }

    /// Reads the next record into the scratch; false if there is none yet.
    fn read_record(&mut self) -> Result<bool> {
        let inner = &self.db.handle.inner;
        loop {
            if next_of(&mut self.reader, &mut self.record, inner, self.wal)? {
                return Ok(true);
            }
            let Some(successor) = inner.wal_files(self.wal + 1)?.first().copied() else { return Ok(false) };
            // A WAL that has a successor gets nothing more, but may have got some since its end was seen.
            if next_of(&mut self.reader, &mut self.record, inner, self.wal)? {
                return Ok(true);
            }
            self.reader = inner.wal_reader(successor)?;
            self.wal = successor;
        }
    }
}

/// Reads the next record of the WAL `number`; false if there is none yet.
fn next_of(reader: &mut Option<WalReader>, record: &mut Vec<u8>, db: &DbInner, number: u64) -> Result<bool> {
    let Some(reader) = reader else { return Ok(false) };
    if !reader.has_stopped() && matches!(reader.next_record(record)?, ReadOutcome::Record { .. }) {
        return Ok(true);
    }
    // It may have come to the end of what was written when it looked last.
    reader.refresh(db.written_bytes(number))?;
    Ok(matches!(reader.next_record(record)?, ReadOutcome::Record { .. }))
}

impl DbInner {
    /// The numbers of the WALs in the directory from `from` on, ascending: those that are live, and those before them that are archived or not deleted yet. Another one behind them is what
    /// a switch left that failed.
    fn wal_files(&self, from: u64) -> Result<Vec<u64>> {
        let live: Vec<u64> = self.state.lock().wals.iter().map(|wal| wal.number).collect();
        let is_ours = |number: &u64| live.first().is_none_or(|oldest| number < oldest) || live.contains(number);
        let entries = self.env.list_dir(&self.dir).map_err(|error| Error::io("list", &self.dir, error))?;
        let mut numbers: Vec<u64> = entries
            .iter()
            .filter_map(|entry| match FileName::parse(&entry.name) {
                Some(FileName::Wal(number)) if number >= from && is_ours(&number) => Some(number),
                _ => None,
            })
            .collect();
        numbers.extend(self.archived_wals(from)?.into_iter().filter(is_ours));
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Opens the WAL `number`; `None` if it is obsolete and was deleted: somebody may have begun with that before deletions were disabled.
    fn wal_reader(&self, number: u64) -> Result<Option<WalReader>> {
        let mut path = FileName::Wal(number).path(&self.dir);
        let options = FileOptions::new(FileKind::Wal).access(Access::Sequential);
        let mut opened = self.env.open_random(&path, &options);
        if opened.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            && self.wal_archive.has(number)
        {
            path = self.archived_path(number);
            opened = self.env.open_random(&path, &options);
        }
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.is_obsolete_wal(number) => {
                return Ok(None);
            }
            Err(error) => return Err(Error::io("open", &path, error)),
        };
        let limit = self.options.max_wal_record_bytes.saturating_add(MAX_NOTES_BYTES);
        let mut reader = WalReader::new(file, path, number, CONTEXT, limit)?;
        reader.refresh(self.written_bytes(number))?;
        Ok(Some(reader))
    }

    /// Whether no family needs the WAL any more.
    fn is_obsolete_wal(&self, number: u64) -> bool {
        self.state.lock().wals.front().is_some_and(|oldest| number < oldest.number)
    }

    /// How much of the WAL `number` is whole: behind that may be what an append left that failed.
    pub(super) fn written_bytes(&self, number: u64) -> u64 {
        let state = self.state.lock();
        let is_newest = state.wals.back().is_some_and(|wal| wal.number == number);
        let found = state.wals.iter().find(|wal| wal.number == number);
        let live = found.map(|wal| if is_newest { wal.written.load(Ordering::Acquire) } else { wal.size });
        let obsolete = || state.obsolete_wals.iter().find(|(obsolete, _)| *obsolete == number).map(|(_, size)| *size);
        let known = live.or_else(obsolete);
        drop(state);
        // An archived one is whole; that of an earlier opening was read by recovery.
        known.unwrap_or(u64::MAX)
    }
}

/// The number of the first entry of a record, and how many entries it has.
fn head(record: &[u8]) -> Result<(SeqNo, u32)> {
    let batch = BatchReader::new(record)?;
    let count = record.get(8..HEADER_LEN).and_then(<[u8]>::first_chunk).map_or(0, |count| u32::from_le_bytes(*count));
    Ok((batch.seqno(), count))
}

/// The batch of a record, without what the engine noted in front of it.
fn without_notes(record: &[u8], seqno: SeqNo, count: u32) -> Result<WriteBatch> {
    let mut records = Records::new(record.get(HEADER_LEN..).unwrap_or_default());
    let mut body = records.rest();
    while let Ok(Some(Record::LogData(blob))) = records.next_record()
        && is_note(blob)
    {
        body = records.rest();
    }
    let mut rest = Records::new(body);
    while let Some(found) = rest.next_record().map_err(crate::batch::Malformed::into_error)? {
        if let Record::Marker(marker) = found
            && marker != Marker::Noop
        {
            return Err(Error::not_supported("updates of a transaction that was prepared"));
        }
    }
    let mut bytes = Vec::with_capacity(HEADER_LEN + body.len());
    bytes.extend_from_slice(&encode_header(seqno, count));
    bytes.extend_from_slice(body);
    WriteBatch::from_bytes(bytes)
}

#[cold]
fn gone(seqno: SeqNo) -> Error {
    Error::new(ErrorKind::NotFound, format!("the entry of sequence number {seqno} is in no log"))
}
