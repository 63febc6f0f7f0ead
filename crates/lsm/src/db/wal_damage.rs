//! What recovery does with a torn or damaged WAL, by its mode and by what is known to have been durable.

use super::recovery::{Recovery, check_origin, notes_of};
use super::wal_note::{LogPoint, parse_promise};
use crate::batch::BatchReader;
use crate::options::WalRecoveryMode;
use crate::wal::{ReadOutcome, WalReader};
use siltstone_base::{Error, ErrorKind, Result};

/// Something of a WAL that is not there, or not what was written.
#[derive(Debug)]
pub(crate) struct Damage {
    /// Where it begins.
    pub(crate) point: LogPoint,
    /// What it is.
    pub(crate) error: Error,
    /// Whether the WAL merely ends too early.
    pub(crate) is_torn: bool,
}

/// What comes of it, if the database is opened at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing behind it may be used.
    Stop,
    /// The next WAL goes on.
    NextLog,
    /// What is whole behind it is used.
    Skip,
}

impl Recovery<'_> {
    /// Decides about damage. `reader` stands at it, if the WAL is there; `later` are the WALs behind.
    pub(super) fn judge(&self, damage: Damage, reader: Option<&mut WalReader>, later: &[u64]) -> Result<Verdict> {
        match self.surroundings.options.wal_recovery_mode {
            WalRecoveryMode::SkipAnyCorruptedRecords => return Ok(Verdict::Skip),
            // It was durable, and what is undecided may be in it.
            _ if damage.point.number < self.oldest_needed => return Err(damage.error),
            WalRecoveryMode::AbsoluteConsistency => return Err(damage.error),
            WalRecoveryMode::TolerateCorruptedTailRecords if !damage.is_torn => return Err(damage.error),
            WalRecoveryMode::TolerateCorruptedTailRecords | WalRecoveryMode::PointInTime => {}
        }
        if self.promised(reader, later)? > damage.point {
            return Err(damage.error);
        }
        if self.tables_cover(damage.point.number) {
            // RocksDB may leave WALs in the directory that it has replayed, torn as a crash left them, and go on in another one.
            let is_given_up =
                damage.is_torn && !self.is_own(damage.point.number) && self.continued_by(later)?.is_some();
            return if is_given_up { Ok(Verdict::Stop) } else { Err(damage.error) };
        }
        match self.surroundings.options.wal_recovery_mode {
            WalRecoveryMode::TolerateCorruptedTailRecords => Ok(Verdict::NextLog),
            _ => Ok(Verdict::Stop),
        }
    }

    /// Whether a family with tables needs nothing of WAL `number` and of those below: its flush made them durable first.
    fn tables_cover(&self, number: u64) -> bool {
        self.families.values().any(|recovering| {
            let has_tables = recovering.family.super_version.load().version.all_files().next().is_some();
            has_tables && recovering.log_number > number
        })
    }

    /// The furthest point that the MANIFEST or any record behind the damage promises: up to there the WALs were durable when it was written.
    fn promised(&self, reader: Option<&mut WalReader>, later: &[u64]) -> Result<LogPoint> {
        let synced = self.synced_wals.iter().rfind(|(_, bytes)| **bytes > 0);
        let mut furthest =
            synced.map_or_else(LogPoint::default, |(number, offset)| LogPoint { number: *number, offset: *offset });
        if let Some(reader) = reader {
            self.collect_promises(reader, &mut furthest)?;
        }
        for number in later {
            self.collect_promises(&mut self.reader(*number)?, &mut furthest)?;
        }
        Ok(furthest)
    }

    fn collect_promises(&self, reader: &mut WalReader, furthest: &mut LogPoint) -> Result<()> {
        let mut record = Vec::new();
        loop {
            match reader.next_record(&mut record) {
                Ok(ReadOutcome::Record { .. }) => {
                    for blob in notes_of(&record) {
                        *furthest = (*furthest).max(parse_promise(blob, &self.surroundings.db_id).unwrap_or_default());
                    }
                }
                Ok(ReadOutcome::End(_)) if reader.skip_damage()? => {}
                Ok(ReadOutcome::End(_)) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    if !reader.skip_damage()? {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The place in `later` of the WAL whose first record goes on exactly behind the last entry that was replayed, so that nothing between is missing. Before it there may be WALs that
    /// RocksDB did not use either when it met the damage; one of this engine is not passed by.
    pub(super) fn continued_by(&self, later: &[u64]) -> Result<Option<usize>> {
        // A decision about what is prepared may be missing, which takes no number. And where the last number is not known, nothing shows that the next one follows.
        if self.prepared.pending().is_some() || self.numbers_unknown || self.replayed_seqno == 0 {
            return Ok(None);
        }
        let mut record = Vec::new();
        for (place, number) in later.iter().enumerate() {
            // Damage here is met again, and judged, when this WAL is replayed.
            let Ok(ReadOutcome::Record { .. }) = self.reader(*number)?.next_record(&mut record) else { continue };
            let Ok(batch) = BatchReader::new(&record) else { return Ok(None) };
            // What is of another log is no beginning of this one.
            let Ok(is_own) = check_origin(*number, batch.clone()) else { return Ok(None) };
            if batch.seqno() == self.replayed_seqno + 1 {
                return Ok(Some(place));
            }
            if is_own {
                return Ok(None);
            }
        }
        Ok(None)
    }
}
