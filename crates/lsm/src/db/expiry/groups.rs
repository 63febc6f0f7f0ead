//! What there is to tell about some groups of a family's rows.

use crate::db::column_family::Family;
use crate::db::state::DbInner;
use crate::expiry::Expiring;
use crate::file_meta::{FileMeta, Stamps};
use siltstone_base::Result;
use siltstone_base::expiry::Stamp;
use siltstone_base::sync::Arc;

/// What there is to tell about one table of a [`TableDb`](crate::TableDb) whose rows expire, its index entries included. It comes from the stamps that table files tell: what is still in memory is not
/// in it, and older versions of rows that no compaction has removed are. Expired entries and bytes are estimates, rather too small.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableExpiryReport {
    /// The time by which rows are expired, in Unix seconds.
    pub unix_seconds: u64,
    /// Stored rows and index entries.
    pub entries: u64,
    /// Bytes that they take in table files.
    pub table_bytes: u64,
    /// Those of them that are expired.
    pub expired_entries: u64,
    /// Bytes that those take.
    pub expired_bytes: u64,
    /// About when the oldest of them expired, rather too late, in Unix seconds; 0 if it is not known any more. `None` if there is none.
    pub oldest_expired: Option<u64>,
    /// Table files that were not opened yet, or do not tell the stamps of their rows: what they have is not in the figures.
    pub unknown_tables: usize,
}

impl TableExpiryReport {
    /// The expired share of the bytes, from 0 to 1.
    pub fn expired_share(&self) -> f64 {
        if self.table_bytes == 0 { 0.0 } else { self.expired_bytes as f64 / self.table_bytes as f64 }
    }

    fn add(&mut self, expired: &Expiring, file: &FileMeta, groups: &[u32]) {
        let Stamps::Known(stamps) = file.stamps(expired.policy.name()) else {
            self.unknown_tables += 1;
            return;
        };
        let all_bytes = stamps.all().bytes;
        let in_file = |bytes: u64| {
            let part = u128::from(file.data_bytes()) * u128::from(bytes) / u128::from(all_bytes.max(1));
            u64::try_from(part).unwrap_or(u64::MAX).min(file.file_size)
        };
        for group in groups {
            let Some(tally) = stamps.of_group(*group, expired.bound(*group)) else { continue };
            self.entries = self.entries.saturating_add(tally.all.rows);
            self.table_bytes = self.table_bytes.saturating_add(in_file(tally.all.bytes));
            self.expired_entries = self.expired_entries.saturating_add(tally.expired.rows);
            self.expired_bytes = self.expired_bytes.saturating_add(in_file(tally.expired.bytes));
            let first = expired.policy.expires_at(Stamp { group: *group, seconds: tally.earliest });
            let first = first.filter(|at| *at <= self.unix_seconds);
            self.oldest_expired = [self.oldest_expired, first].into_iter().flatten().min();
        }
    }
}

impl DbInner {
    /// What there is to tell about `groups` of a family's rows; `None` if its rows do not expire.
    pub(crate) fn expiry_of_groups(&self, family: &Family, groups: &[u32]) -> Result<Option<TableExpiryReport>> {
        self.check_readable(family)?;
        let Some(expiry) = &family.expiry else { return Ok(None) };
        let unix_seconds = self.surroundings.expiry.now();
        let expired = Expiring { policy: Arc::clone(&expiry.policy), time: unix_seconds };
        let mut report = TableExpiryReport { unix_seconds, ..TableExpiryReport::default() };
        let pinned = family.super_version.load_full();
        pinned.version.all_files().for_each(|(_, file)| report.add(&expired, file, groups));
        Ok(Some(report))
    }
}
