//! The batches that are written, as the WALs have them: for whoever brings another store up to date.
//!
//! A record of a WAL is what one group of writers wrote; it is handed on as one batch, without the engine's own notes. A record counts when its entries
//! are visible. WALs follow each other in the order of their numbers, and the next one begins when all of the one before was seen. What transactions prepare comes when it is
//! committed (see [prepared_updates](super::prepared_updates)).

use super::Db;
use super::prepared_updates::{Applied, PreparedUpdates};
use super::state::DbInner;
use crate::batch::notes::is_note;
use crate::batch::{BatchReader, HEADER_LEN, Record, Records, WriteBatch, encode_header};
use crate::file_names::FileName;
use crate::key::SeqNo;
use crate::metrics::Counter;
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
    /// The entries, and what writers put into the log beside them. Those of a transaction that was prepared are there where it was committed; of one that was rolled back there is
    /// nothing.
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
    /// What the record is, if it was read and is not visible yet.
    pending: Option<Pending>,
    /// What is prepared where the reader stands.
    prepared: PreparedUpdates,
    /// The first WAL that was read. Those before it were read for what they prepared if nobody `has_looked_back`.
    first_wal: Option<u64>,
    has_looked_back: bool,
    /// Something was handed on: what follows begins where it ended.
    has_begun: bool,
}

/// A record that was read.
#[derive(Debug)]
struct Pending {
    seqno: SeqNo,
    /// How many entries it makes visible.
    count: u32,
    /// What they are, if they are not simply those of the record.
    applied: Option<Applied>,
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
        inner.metrics.add(Counter::GetUpdatesSinceCalls, 1);
        inner.wal_archive.set_followed();
        // From here on WALs stay; the result takes it back.
        db.disable_file_deletions();
        let mut updates = Self {
            db: db.clone(),
            reader: None,
            wal: 0,
            next: seqno.max(1),
            record: Vec::new(),
            pending: None,
            prepared: PreparedUpdates::default(),
            first_wal: None,
            has_looked_back: false,
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
    /// `NotFound` for entries that are in no WAL: they were written without it, taken in with a table, or prepared in a WAL that is gone. `NotSupported` for a transaction that RocksDB prepared
    /// with another policy than that of writing at the commit. `Corruption`, errors of I/O. After an error no call goes on.
    pub fn next_batch(&mut self) -> Result<Option<UpdateBatch>> {
        // What is visible now was in a WAL before, if it ever is.
        let visible = self.db.latest_seqno();
        while let Some(found) = self.next_found()? {
            let seqno = found.seqno;
            let end = seqno + u64::from(found.count);
            if end > self.db.latest_seqno() + 1 {
                self.pending = Some(found);
                return Ok(None);
            }
            if found.applied.as_ref().is_some_and(|applied| applied.lacks_prepared) {
                if seqno >= self.next {
                    return Err(gone(self.next));
                }
                // How far it reaches is what nobody knows; the record behind it tells whether that is far enough.
                continue;
            }
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
            let batch = match found.applied {
                Some(applied) => batch_of(seqno, applied.body.count, &applied.body.records)?,
                None => without_notes(&self.record, seqno, found.count)?,
            };
            return Ok(Some(UpdateBatch { seqno, batch }));
        }
        if self.next <= visible { Err(gone(self.next)) } else { Ok(None) }
    }

    /// What was read and is not handed on yet; `None` if there is nothing yet.
    fn next_found(&mut self) -> Result<Option<Pending>> {
        if let Some(pending) = self.pending.take() {
            return Ok(Some(pending));
        }
        if !self.read_record()? {
            return Ok(None);
        }
        if !self.has_looked_back && self.prepared.lacks_any_of(&self.record) {
            self.look_back()?;
        }
        let (seqno, logged) = head(&self.record)?;
        let applied = self.prepared.pass(&self.record)?;
        let count = applied.as_ref().map_or(logged, |applied| applied.body.count);
        Ok(Some(Pending { seqno, count, applied }))
    }

    /// Reads what is prepared in the WALs before the first one.
    fn look_back(&mut self) -> Result<()> {
        self.has_looked_back = true;
        let inner = &self.db.handle.inner;
        let (mut earlier, mut record) = (PreparedUpdates::default(), Vec::new());
        for number in inner.wal_files(0)?.into_iter().filter(|number| Some(*number) < self.first_wal) {
            let Some(mut reader) = inner.wal_reader(number)? else { continue };
            while let ReadOutcome::Record { .. } = reader.next_record(&mut record)? {
                earlier.pass(&record)?;
            }
        }
        self.prepared.take_earlier(earlier);
        Ok(())
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
                self.first_wal = Some(number);
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
            self.first_wal.get_or_insert(successor);
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
        let obsolete = || state.obsolete_wals.iter().find(|wal| wal.number == number).map(|wal| wal.size);
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
    batch_of(seqno, count, body)
}

fn batch_of(seqno: SeqNo, count: u32, body: &[u8]) -> Result<WriteBatch> {
    let mut bytes = Vec::with_capacity(HEADER_LEN + body.len());
    bytes.extend_from_slice(&encode_header(seqno, count));
    bytes.extend_from_slice(body);
    WriteBatch::from_bytes(bytes)
}

#[cold]
fn gone(seqno: SeqNo) -> Error {
    Error::new(ErrorKind::NotFound, format!("the entry of sequence number {seqno} is in no log"))
}
