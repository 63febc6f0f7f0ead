//! Recovery: what the WALs hold and no table does goes into memtables, and from there into tables.
//!
//! Everything replayed is written to new tables before the database is open: what was read may never have been durable
//! (a failed sync leaves pages in memory that no disk has), so it is not relied on again.
//!
//! Where replay ends, unless the mode says otherwise: at the first record that is torn or damaged. Entries are applied in the order of commits and nothing behind that record is used, so that what is recovered
//! is a prefix of the commits, the same for all families. A WAL's successor states how many
//! of its bytes are valid; what lies behind them is the remains of an append that failed and was reported as failed.
//!
//! What is damage and not a torn tail: a flush syncs every WAL below the family's new log number before the MANIFEST states that number. So a
//! WAL below the log number of a family that has tables was durable as a whole. One that is damaged or missing nevertheless is an error:
//! the families' states would not be one moment's. So is damage before a point that a later record says was durable
//! (see [wal_damage](super::wal_damage)).
//!
//! WALs that no family needs are read for what they prepared, as far as the MANIFEST keeps them, by the same code: their other entries are all in tables. They
//! were durable as a whole before the MANIFEST said so, so whatever is wrong with one of them is an error: nobody may take for decided what is only unreadable.

use super::column_family::Family;
use super::flush::{BuildContext, TableBuild};
use super::merge_operators::no_operator_for_log;
use super::prepared::{PreparedEntry, PreparedTransactions, check_markers};
use super::state::Surroundings;
use super::wal_damage::{Damage, Verdict};
use super::wal_note::{LogPoint, Predecessor, is_repetition, parse_own_number, parse_predecessor};
use crate::batch::{BatchEntry, BatchReader, Marker, Record};
use crate::file_names::FileName;
use crate::key::{ColumnFamilyId, SeqNo, ValueType};
use crate::memtable::Memtable;
use crate::options::WalRecoveryMode;
use crate::trace::{self, Work};
use crate::version::{FileNumbers, VersionEdit};
use crate::wal::{LogEnd, ReadOutcome, WalReader};
use siltstone_base::env::{Access, FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

const CONTEXT: IoContext = IoContext::new(FileKind::Wal, IoPriority::User);

/// What a record may have beside the batches of its group.
const MAX_NOTES_BYTES: usize = 1 << 20;

/// A family while it is recovered.
pub(crate) struct RecoveringFamily {
    pub(crate) family: Arc<Family>,
    /// The smallest WAL whose entries of the family may be missing from its tables.
    pub(crate) log_number: u64,
    /// Entries that are replayed and in no table yet.
    pub(crate) memtable: Arc<Memtable>,
    /// The tables made of replayed entries.
    pub(crate) edit: VersionEdit,
    /// The largest sequence number in its tables.
    pub(crate) flushed_seqno: SeqNo,
    /// The same but for tables with one number only: RocksDB takes tables in while older entries are in WALs alone.
    pub(crate) flushed_range_end: SeqNo,
}

/// Replays WALs into the memtables of families.
pub(crate) struct Recovery<'a> {
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) file_numbers: &'a FileNumbers,
    pub(crate) families: BTreeMap<u32, RecoveringFamily>,
    /// The largest sequence number known.
    pub(crate) last_seqno: SeqNo,
    /// No WAL below this may have entries that are in no table.
    pub(crate) oldest_needed: u64,
    /// No WAL below this is there for certain. Those from here on are read for what they prepared.
    pub(crate) oldest_kept: u64,
    /// The largest sequence number that was replayed.
    pub(crate) replayed_seqno: SeqNo,
    /// Whether the last record committed what no WAL prepared that is left: it may have taken numbers that nobody counted.
    pub(crate) numbers_unknown: bool,
    /// Whether all WALs were replayed to their ends: none was torn, damaged or left out.
    pub(crate) is_whole: bool,
    /// The WAL that was last found to be this engine's.
    pub(crate) own_log: Option<u64>,
    /// Whether something was replayed of a WAL that this engine did not write.
    pub(super) has_foreign: bool,
    /// Bytes of WALs that the MANIFEST says were synced, by number.
    pub(crate) synced_wals: BTreeMap<u64, u64>,
    /// The largest id that a family is known to have had, and the damage of the MANIFEST behind which others may have been created: a family is not written before its creation is durable, so an
    /// entry of a later one shows that the edit was whole once, and is lost.
    pub(crate) dropped_edits: Option<(u32, Error)>,
    /// That damage, once such an entry was met.
    pub(crate) lost_family: Option<Error>,
    /// Transactions that are prepared and not yet committed.
    pub(crate) prepared: PreparedTransactions,
    /// Keeps everything in memory, however much it is: for opening without writing.
    pub(crate) in_memory: bool,
}

/// How the replay of one WAL ended.
enum ReplayEnd {
    /// Everything up to its end, or up to where its successor says that it ends.
    Complete,
    /// A record is torn or damaged: nothing behind it may be used.
    Damaged,
}

impl Recovery<'_> {
    /// Replays the WALs of numbers `logs`, ascending.
    pub(crate) fn replay(&mut self, logs: &[u64]) -> Result<()> {
        let _span = trace::enter(Work::Recovery(logs.len()));
        let mut counting = Vec::with_capacity(logs.len());
        for number in logs {
            if !self.is_premature(*number)? {
                counting.push(*number);
            }
        }
        self.is_whole = counting.len() == logs.len();
        let logs = &counting[..];
        self.check_synced_wals_exist(logs)?;
        let mut index = 0;
        while let Some(number) = logs.get(index) {
            let later = &logs[index + 1..];
            index += 1;
            let predecessor = self.successors_note(*number, later)?;
            let missing = match self.missing_predecessor(*number, logs)? {
                None => None,
                Some((missing, error)) => {
                    let point = LogPoint { number: missing, offset: 0 };
                    Some(self.judge(Damage { point, error, is_torn: false }, None, &logs[index - 1..])?)
                }
            };
            let end = match missing {
                Some(Verdict::Stop) => ReplayEnd::Damaged,
                _ => self.replay_log(*number, predecessor, later)?,
            };
            self.is_whole &= missing.is_none();
            match end {
                ReplayEnd::Complete => {}
                ReplayEnd::Damaged if is_planted(PlantedBug::ReplayBeyondTornRecord) => {}
                ReplayEnd::Damaged => match self.continued_by(later)? {
                    // Those between were given up by whoever wrote the one that goes on.
                    Some(place) if missing.is_none() => index += place,
                    _ => return self.check_tables_are_not_ahead(*number),
                },
            }
        }
        Ok(())
    }

    /// Refuses a database that lacks a WAL of which the MANIFEST says that it was synced.
    fn check_synced_wals_exist(&self, logs: &[u64]) -> Result<()> {
        let mode = self.surroundings.options.wal_recovery_mode;
        let mut needed = self.synced_wals.range(self.oldest_kept..).filter(|(_, synced)| **synced > 0);
        match needed.find(|(number, _)| !logs.contains(number)) {
            Some((number, _)) if mode != WalRecoveryMode::SkipAnyCorruptedRecords => {
                let path = FileName::Wal(*number).path(&self.surroundings.dir);
                let message = "the MANIFEST says that this log was synced";
                Err(Error::new(ErrorKind::MissingFile, message).with_file(&path))
            }
            _ => Ok(()),
        }
    }

    /// Whether an opening that did not end wrote the WAL `number`: it repeats what older ones prepared, and counts once the MANIFEST says that those are not needed.
    fn is_premature(&self, number: u64) -> Result<bool> {
        let mut record = Vec::new();
        // Damage here is met again, and judged, when this WAL is replayed.
        let Ok(ReadOutcome::Record { .. }) = self.reader(number)?.next_record(&mut record) else { return Ok(false) };
        let is_ours = notes_of(&record).into_iter().any(|blob| is_repetition(blob, &self.surroundings.db_id));
        Ok(is_ours && number > self.oldest_kept)
    }

    /// Refuses a database with transactions that are prepared and neither committed nor rolled back: a replayed WAL is deleted, and
    /// with it they would be lost.
    pub(crate) fn check_nothing_is_prepared(&self) -> Result<()> {
        let Some((count, oldest)) = self.prepared.pending() else { return Ok(()) };
        let message = format!(
            "{count} transactions that are prepared and neither committed nor rolled back; a TransactionDb decides about them"
        );
        Err(Error::not_supported(message).with_file(&FileName::Wal(oldest).path(&self.surroundings.dir)))
    }

    /// After the replay ended within the WAL `number`: refuses a family whose tables hold later entries. A flush syncs the WALs below it
    /// before its table counts, so what ended the replay is not the torn tail of a crash, and other families would lack what they had when those
    /// entries were made.
    fn check_tables_are_not_ahead(&self, number: u64) -> Result<()> {
        let is_ahead = |recovering: &RecoveringFamily| {
            recovering.log_number > number && recovering.flushed_seqno > self.replayed_seqno
        };
        let tolerated = self.surroundings.options.wal_recovery_mode == WalRecoveryMode::SkipAnyCorruptedRecords;
        if tolerated || !self.families.values().any(is_ahead) {
            return Ok(());
        }
        let path = FileName::Wal(number).path(&self.surroundings.dir);
        Err(Error::corruption(&path, 0, "the log is damaged before entries that tables hold"))
    }

    /// What the first WAL after `number` that has a record says of `number`. Empty WALs say nothing.
    fn successors_note(&self, number: u64, later: &[u64]) -> Result<Option<Predecessor>> {
        let mut record = Vec::new();
        for next in later {
            let mut reader = self.reader(*next)?;
            // Damage here is met again, and judged, when this WAL is replayed itself.
            if let Ok(ReadOutcome::Record { .. }) = reader.next_record(&mut record) {
                let notes = notes(&record, &self.surroundings.db_id);
                return Ok(notes.into_iter().find(|note| note.number == number));
            }
        }
        Ok(None)
    }

    /// What is wrong if the WAL `number` names one before it that is needed and has no name any more: the directory was
    /// not synced before the power went.
    fn missing_predecessor(&self, number: u64, logs: &[u64]) -> Result<Option<(u64, Error)>> {
        let mut record = Vec::new();
        // Damage here is met again, and judged, when this WAL is replayed.
        let Ok(ReadOutcome::Record { .. }) = self.reader(number)?.next_record(&mut record) else { return Ok(None) };
        let is_missing = |note: &Predecessor| note.number >= self.oldest_kept && !logs.contains(&note.number);
        let Some(missing) = notes(&record, &self.surroundings.db_id).into_iter().find(is_missing) else {
            return Ok(None);
        };
        let path = FileName::Wal(missing.number).path(&self.surroundings.dir);
        let error = Error::new(ErrorKind::MissingFile, "the next log says that it continues this one");
        Ok(Some((missing.number, error.with_file(&path))))
    }

    pub(super) fn reader(&self, number: u64) -> Result<WalReader> {
        let path = FileName::Wal(number).path(&self.surroundings.dir);
        let options = FileOptions::new(FileKind::Wal).access(Access::Sequential);
        let file = self.surroundings.env.open_random(&path, &options);
        let file = file.map_err(|error| Error::io("open", &path, error))?;
        let limit = self.surroundings.options.max_wal_record_bytes.saturating_add(MAX_NOTES_BYTES);
        WalReader::new(file, path, number, CONTEXT, limit)
    }

    fn replay_log(&mut self, number: u64, note: Option<Predecessor>, later: &[u64]) -> Result<ReplayEnd> {
        let path = FileName::Wal(number).path(&self.surroundings.dir);
        let mut reader = self.reader(number)?;
        let mut record = Vec::new();
        loop {
            if note.is_some_and(|note| reader.end_offset() >= note.size) {
                return Ok(ReplayEnd::Complete);
            }
            let (offset, error, is_torn) = match reader.next_record(&mut record) {
                Ok(ReadOutcome::Record { offset }) => {
                    self.check_timestamps(&reader).map_err(|error| error.with_file(&path))?;
                    match self.apply(number, &record).map_err(|error| error.with_file(&path).with_offset(offset)) {
                        Ok(()) => {
                            self.write_full_memtables()?;
                            continue;
                        }
                        // Whole, but no record of this log: pages that never were written show a deleted file.
                        Err(error) if error.kind() == ErrorKind::Corruption => (offset, error, false),
                        Err(error) => return Err(error),
                    }
                }
                // A clean end before the stated size: the tail never reached the disk.
                Ok(ReadOutcome::End(LogEnd::Clean)) => {
                    let is_cut = self.synced_wals.get(&number).is_some_and(|synced| *synced > reader.file_len());
                    let message = match note {
                        Some(_) => "the WAL is shorter than its successor says",
                        None if is_cut => "the WAL is shorter than the MANIFEST says",
                        None => return Ok(ReplayEnd::Complete),
                    };
                    (reader.end_offset(), Error::corruption(&path, reader.end_offset(), message), false)
                }
                Ok(ReadOutcome::End(LogEnd::TornTail { offset, what })) => {
                    (offset, Error::corruption(&path, offset, what), note.is_none())
                }
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    (error.offset().unwrap_or_default(), error, false)
                }
                Err(error) => return Err(error),
            };
            self.is_whole = false;
            let damage = Damage { point: LogPoint { number, offset }, error, is_torn };
            match self.judge(damage, Some(&mut reader), later)? {
                Verdict::Stop => return Ok(ReplayEnd::Damaged),
                Verdict::NextLog => return Ok(ReplayEnd::Complete),
                // A record that was whole was read past; anything else is looked past.
                Verdict::Skip if reader.has_stopped() && !reader.skip_damage()? => return Ok(ReplayEnd::Complete),
                Verdict::Skip => {}
            }
        }
    }

    /// Refuses a WAL that says that the keys of a family end with timestamps of another size than its comparator has.
    fn check_timestamps(&self, reader: &WalReader) -> Result<()> {
        for (id, size) in reader.timestamp_sizes() {
            let Some(target) = self.families.get(id) else { continue };
            let ours = target.family.options().comparator.timestamp_len();
            if ours != usize::from(*size) {
                let what = format!(
                    "keys of column family {id} with timestamps of {size} bytes, where its comparator has {ours}"
                );
                return Err(Error::not_supported(what));
            }
        }
        Ok(())
    }

    /// Applies one record: a batch.
    fn apply(&mut self, log_number: u64, record: &[u8]) -> Result<()> {
        let mut batch = BatchReader::new(record)?;
        let mut seqno = batch.seqno();
        // The whole record is checked before any of it is applied.
        batch.clone().validate()?;
        check_markers(batch.clone())?;
        if check_origin(log_number, batch.clone())? {
            self.own_log = Some(log_number);
        }
        if std::mem::take(&mut self.numbers_unknown) {
            // Up to here.
            self.replayed_seqno = self.replayed_seqno.max(seqno.saturating_sub(1));
        }
        self.check_age(log_number, batch.clone())?;
        let mut prepared: Option<Vec<PreparedEntry>> = None;
        while let Some(record) = batch.next_record()? {
            match record {
                Record::Entry(entry) => {
                    self.note_lost_family(entry.column_family);
                    match &mut prepared {
                        Some(entries) => entries.push(PreparedEntry::new(&entry)),
                        None => {
                            self.add(log_number, seqno, entry)?;
                            seqno += 1;
                        }
                    }
                }
                Record::LogData(_) | Record::Marker(Marker::Noop) => {}
                Record::Marker(Marker::BeginPrepare) => prepared = Some(Vec::new()),
                Record::Marker(Marker::EndPrepare(name)) => {
                    self.prepared.prepare(name, log_number, prepared.take().unwrap_or_default());
                }
                Record::Marker(Marker::Commit(name)) => {
                    for entry in self.prepared.take(name).into_iter().flat_map(|prepared| prepared.entries) {
                        self.add(log_number, seqno, entry.as_entry())?;
                        seqno += 1;
                    }
                }
                Record::Marker(Marker::Rollback(name)) => drop(self.prepared.take(name)),
                Record::Marker(_) => return Err(Error::not_supported("two-phase commit in a WAL")),
            }
        }
        Ok(())
    }

    /// Takes note of an entry whose family was created by what the MANIFEST has lost.
    fn note_lost_family(&mut self, id: ColumnFamilyId) {
        if let Some((known, damage)) = &self.dropped_edits
            && id.0 > *known
        {
            self.lost_family.get_or_insert_with(|| damage.clone());
        }
    }

    /// Adds one entry to the memtable of its family, unless a table has it.
    fn add(&mut self, log_number: u64, seqno: SeqNo, entry: BatchEntry<'_>) -> Result<()> {
        if let Some(target) = self.families.get(&entry.column_family.0)
            && log_number >= target.log_number
        {
            if !is_supported(entry.kind) {
                return Err(super::read::unsupported_entry(entry.kind));
            }
            if entry.kind == ValueType::Merge {
                let options = target.family.options();
                if options.merge_operator.is_none() && !options.allow_other_merge_operator {
                    return Err(no_operator_for_log(&target.family.name));
                }
            }
            let writer = target.memtable.writer();
            let Some(mut writer) = writer else {
                return Err(Error::new(ErrorKind::Poisoned, "two writers met in one memtable"));
            };
            writer.add(seqno, entry.kind, entry.key, entry.value);
        }
        self.last_seqno = self.last_seqno.max(seqno);
        Ok(())
    }

    /// Refuses a batch that is older than what was replayed before it, or than what a table of its family holds already: the bytes of
    /// a log that was deleted.
    fn check_age(&mut self, log_number: u64, mut batch: BatchReader<'_>) -> Result<()> {
        let mut seqno = batch.seqno();
        let mut replayed = self.replayed_seqno;
        // RocksDB takes tables in without a flush: a table that was merged with them is newer than what its WAL alone holds.
        let (is_own, is_foreign) = (self.is_own(log_number), self.has_foreign);
        let mut check = |id: ColumnFamilyId| {
            let family = self.families.get(&id.0).filter(|family| log_number >= family.log_number);
            let flushed = family.filter(|_| is_own).map_or(0, |family| family.flushed_range_end);
            if seqno <= replayed && !is_own && is_foreign {
                // Each of its batches uses up one number, whatever it has.
                return Err(Error::not_supported(
                    "sequence numbers that go back, as a database of write-prepared transactions has them, in a WAL",
                ));
            }
            if seqno <= replayed || seqno <= flushed {
                return Err(Error::corrupt("a write batch is older than the log that it is in"));
            }
            replayed = seqno;
            seqno += 1;
            Ok(())
        };
        let (mut is_preparing, mut numbers_unknown) = (false, false);
        while let Some(record) = batch.next_record()? {
            match record {
                Record::Entry(entry) if !is_preparing => check(entry.column_family)?,
                Record::Marker(Marker::BeginPrepare) => is_preparing = true,
                Record::Marker(Marker::EndPrepare(_)) => is_preparing = false,
                Record::Marker(Marker::Commit(name)) => match self.prepared.get(name) {
                    Some(prepared) => {
                        prepared.entries.iter().try_for_each(|entry| check(entry.as_entry().column_family))?;
                    }
                    // What was prepared in a WAL that is gone is in tables.
                    None => numbers_unknown = true,
                },
                _ => {}
            }
        }
        (self.replayed_seqno, self.numbers_unknown) = (replayed, numbers_unknown);
        self.has_foreign |= !is_own;
        Ok(())
    }

    /// Whether the WAL that is being replayed says that this engine wrote it.
    pub(super) fn is_own(&self, log_number: u64) -> bool {
        self.own_log == Some(log_number)
    }

    fn write_full_memtables(&mut self) -> Result<()> {
        if self.in_memory {
            return Ok(());
        }
        let full = |recovering: &RecoveringFamily| {
            recovering.memtable.approximate_memory_usage() >= recovering.family.options().write_buffer_size
        };
        let ids: Vec<u32> =
            self.families.iter().filter(|(_, recovering)| full(recovering)).map(|(id, _)| *id).collect();
        ids.into_iter().try_for_each(|id| self.write_memtable(id))?;
        let limit = self.surroundings.options.db_write_buffer_size;
        let bytes = |recovering: &RecoveringFamily| recovering.memtable.approximate_memory_usage();
        while limit > 0 && self.families.values().map(bytes).sum::<usize>() >= limit {
            let filled = self.families.iter().filter(|(_, recovering)| !recovering.memtable.is_empty());
            let Some((largest, _)) = filled.max_by_key(|(_, recovering)| bytes(recovering)) else { break };
            self.write_memtable(*largest)?;
        }
        Ok(())
    }

    /// Writes every entry that is in no table to tables; `log_number` is the first WAL of what comes next.
    pub(crate) fn write_all(&mut self, log_number: u64) -> Result<()> {
        let ids: Vec<u32> = self.families.keys().copied().collect();
        for id in ids {
            self.write_memtable(id)?;
            if let Some(recovering) = self.families.get_mut(&id) {
                recovering.edit.log_number = Some(log_number);
            }
        }
        Ok(())
    }

    fn write_memtable(&mut self, id: u32) -> Result<()> {
        let Some(recovering) = self.families.get_mut(&id) else { return Ok(()) };
        if recovering.memtable.is_empty() {
            return Ok(());
        }
        let file_number = self.file_numbers.allocate();
        let context =
            BuildContext { surroundings: self.surroundings, file_number, snapshots: Vec::new(), keeps_cached: false };
        let memtables = [Arc::clone(&recovering.memtable)];
        let mut build = TableBuild::start(context, &recovering.family, &memtables)?;
        build.step(None)?;
        // A table without an entry is a leftover, which opening deletes.
        recovering.edit.new_files.extend(build.finish()?.map(|file| (0, file)));
        recovering.memtable = Family::new_memtable(&self.surroundings.memtable_memory, &recovering.family.options(), 0);
        Ok(())
    }
}

/// Whether the engine can apply an entry of this type.
fn is_supported(kind: ValueType) -> bool {
    kind != ValueType::BlobIndex
}

/// Refuses a batch that was written to another WAL; whether it says that it was written to this one, as the first one of every WAL of this engine does.
pub(super) fn check_origin(log_number: u64, mut batch: BatchReader<'_>) -> Result<bool> {
    let mut is_own = false;
    while let Some(record) = batch.next_record()? {
        // A WAL says its number at the front of its first batch.
        let Record::LogData(blob) = record else { break };
        match parse_own_number(blob) {
            Some(number) if number != log_number => return Err(Error::corrupt("a write batch of another log")),
            noted => is_own |= noted.is_some(),
        }
    }
    Ok(is_own)
}

/// The notes in a record.
fn notes(record: &[u8], db_id: &str) -> Vec<Predecessor> {
    notes_of(record).into_iter().filter_map(|blob| parse_predecessor(blob, db_id)).collect()
}

/// The LogData at the front of a record, where notes are.
pub(super) fn notes_of(record: &[u8]) -> Vec<&[u8]> {
    let mut blobs = Vec::new();
    let Ok(mut batch) = BatchReader::new(record) else { return blobs };
    while let Ok(Some(Record::LogData(blob))) = batch.next_record() {
        blobs.push(blob);
    }
    blobs
}

/// The WALs in a directory, ascending, from `from` on.
pub(crate) fn list_logs(names: &[String], from: u64) -> Vec<u64> {
    let mut logs: Vec<u64> = names
        .iter()
        .filter_map(|name| match FileName::parse(name) {
            Some(FileName::Wal(number)) if number >= from => Some(number),
            _ => None,
        })
        .collect();
    logs.sort_unstable();
    logs
}
