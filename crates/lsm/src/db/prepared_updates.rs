//! Two-phase commit as who follows the WALs sees it: what was prepared comes when it is committed, in the place of the commit.
//!
//! A record has the batches of a group. Entries between markers are only prepared: they are kept under the name of their transaction, and take no sequence numbers. A marker of a commit
//! stands for them, and for as many numbers; one of a rollback drops them. What was prepared before the first record that was read is looked for in the WALs before.

use super::prepared::check_markers;
use crate::batch::notes::is_note;
use crate::batch::{BatchReader, HEADER_LEN, Malformed, Marker, Record, Records};
use siltstone_base::Result;
use std::collections::BTreeMap;

/// Records of a batch, and how many of them are entries.
#[derive(Debug, Clone, Default)]
pub(super) struct Body {
    pub(super) records: Vec<u8>,
    pub(super) count: u32,
}

impl Body {
    fn push(&mut self, record: &[u8], is_entry: bool) {
        self.records.extend_from_slice(record);
        self.count = self.count.saturating_add(u32::from(is_entry));
    }

    fn append(&mut self, other: &Self) {
        self.records.extend_from_slice(&other.records);
        self.count = self.count.saturating_add(other.count);
    }
}

/// What one record of a WAL makes visible.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Without the engine's notes and without markers.
    pub(super) body: Body,
    /// Whether it commits a transaction that nobody saw being prepared: the body lacks its entries.
    pub(super) lacks_prepared: bool,
}

/// The transactions that are prepared and not decided at some place in the WALs.
#[derive(Debug, Default)]
pub(super) struct PreparedUpdates {
    by_name: BTreeMap<Vec<u8>, Body>,
}

impl PreparedUpdates {
    /// Takes what other WALs, which come before all that was read here, have prepared.
    pub(super) fn take_earlier(&mut self, earlier: Self) {
        for (name, body) in earlier.by_name {
            self.by_name.entry(name).or_insert(body);
        }
    }

    /// Whether the record commits a transaction that is not known to be prepared.
    pub(super) fn lacks_any_of(&self, record: &[u8]) -> bool {
        let mut records = Records::new(record.get(HEADER_LEN..).unwrap_or_default());
        while let Ok(Some(found)) = records.next_record() {
            if matches!(found, Record::Marker(Marker::Commit(name)) if !self.by_name.contains_key(name)) {
                return true;
            }
        }
        false
    }

    /// Goes past a record. `None`: it has no step of a two-phase commit, and all of its entries count.
    ///
    /// # Errors
    ///
    /// `Corruption` for markers out of order, `NotSupported` for a policy that is not this one.
    pub(super) fn pass(&mut self, record: &[u8]) -> Result<Option<Applied>> {
        if !has_steps(record)? {
            return Ok(None);
        }
        check_markers(BatchReader::new(record)?)?;
        let mut applied = Applied::default();
        let mut preparing: Option<Body> = None;
        let mut records = Records::new(record.get(HEADER_LEN..).unwrap_or_default());
        loop {
            let before = records.rest();
            let Some(found) = records.next_record().map_err(Malformed::into_error)? else { break };
            let bytes = before.get(..before.len() - records.rest().len()).unwrap_or_default();
            match found {
                Record::LogData(blob) if is_note(blob) => {}
                Record::Entry(_) | Record::LogData(_) => {
                    let body = preparing.as_mut().unwrap_or(&mut applied.body);
                    body.push(bytes, matches!(found, Record::Entry(_)));
                }
                Record::Marker(Marker::BeginPrepare) => preparing = Some(Body::default()),
                Record::Marker(Marker::EndPrepare(name)) => {
                    self.by_name.insert(name.to_vec(), preparing.take().unwrap_or_default());
                }
                Record::Marker(Marker::Commit(name)) => match self.by_name.remove(name) {
                    Some(body) => applied.body.append(&body),
                    None => applied.lacks_prepared = true,
                },
                Record::Marker(Marker::Rollback(name)) => drop(self.by_name.remove(name)),
                Record::Marker(_) => {}
            }
        }
        Ok(Some(applied))
    }
}

/// Whether a record has a step of a two-phase commit.
fn has_steps(record: &[u8]) -> Result<bool> {
    let mut records = Records::new(record.get(HEADER_LEN..).unwrap_or_default());
    while let Some(found) = records.next_record().map_err(Malformed::into_error)? {
        if matches!(found, Record::Marker(marker) if marker != Marker::Noop) {
            return Ok(true);
        }
    }
    Ok(false)
}
