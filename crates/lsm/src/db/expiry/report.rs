//! What there is to tell about rows that expire.

use crate::compaction;
use crate::db::column_family::Family;
use crate::db::state::DbInner;
use crate::db::super_version::SuperVersion;
use crate::expiry::Expiring;
use crate::file_meta::Stamps;
use crate::metrics::Counter;
use siltstone_base::Result;
use siltstone_base::expiry::{ClockJump, TrustedClock};
use siltstone_base::sync::Arc;

/// The time may be so far behind the wall clock before that is told.
const MOST_BEHIND_SECONDS: u64 = 5;

/// What keeps expired rows from being removed, or their space from coming back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpiryBlocker {
    /// A snapshot was taken before rows expired.
    Snapshot {
        /// When it was taken, in Unix seconds.
        unix_seconds: u64,
    },
    /// A transaction is prepared and waits for its decision.
    PreparedTransaction,
    /// Tables all of whose rows are expired lie over older rows that are not.
    Overlap {
        /// How many.
        tables: usize,
    },
    /// Iterators keep files that are in no version any more.
    OpenIterator {
        /// Bytes of those.
        table_bytes: u64,
    },
    /// The clock went forward further than is trusted: see [`Db::confirm_clock`](crate::Db::confirm_clock).
    DistrustedClock(ClockJump),
    /// The time by which rows expire is behind the wall clock, which went forward faster than the monotonic clock while the database was open: a clock that was set, or
    /// a machine that was suspended. See [`Db::confirm_clock`](crate::Db::confirm_clock).
    ClockBehind {
        /// By so much.
        seconds: u64,
    },
    /// Tables refer to blob files: values there are hidden when they are expired, and not removed.
    BlobValues {
        /// How many.
        tables: usize,
    },
    /// Tables were not opened yet, so that nothing is known of their rows.
    UnreadTables {
        /// How many.
        tables: usize,
    },
}

/// What there is to tell about a family whose rows expire. Bytes are estimates from the stamps that tables tell, rather too small.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiryReport {
    /// The time by which rows are expired, in Unix seconds.
    pub unix_seconds: u64,
    /// Bytes of all tables.
    pub table_bytes: u64,
    /// Bytes of tables that expired rows take.
    pub expired_bytes: u64,
    /// When the oldest of the rows expired that are expired and still in a table, in Unix seconds; 0 if it is not known any more. `None` if there is none.
    pub oldest_expired: Option<u64>,
    /// When the next table goes as a whole, if nothing keeps it, in Unix seconds. `None` if no table is known to go.
    pub next_file_drop: Option<u64>,
    /// Rows that reads of any family met and did not see.
    pub rows_hidden: u64,
    /// Data blocks of tables of any family that reads passed by because all of their rows are expired: those rows are not in the figure above.
    pub blocks_skipped: u64,
    /// Rows of any family that were removed.
    pub rows_removed: u64,
    /// Tables of any family that went as a whole.
    pub files_dropped: u64,
    /// What keeps rows or space.
    pub blockers: Vec<ExpiryBlocker>,
}

impl DbInner {
    /// What there is to tell about a family; `None` if its rows do not expire.
    pub(crate) fn expiry_report(&self, family: &Family) -> Result<Option<ExpiryReport>> {
        self.check_readable(family)?;
        let Some(expiry) = &family.expiry else { return Ok(None) };
        let now = self.surroundings.expiry.now();
        let expired = Expiring { policy: Arc::clone(&expiry.policy), time: now };
        let pinned = family.super_version.load_full();
        let version = &pinned.version;
        let bytes_at = |expiring: &Expiring| {
            version.all_files().map(|(_, file)| expiring.bytes_of_table(file)).fold(0, u64::saturating_add)
        };
        let expired_bytes = bytes_at(&expired);
        let (mut oldest_expired, mut next_file_drop, mut unread) = (None::<u64>, None::<u64>, 0);
        for (_, file) in version.all_files() {
            let stamps = match file.stamps(expiry.policy.name()) {
                Stamps::Known(stamps) => stamps,
                Stamps::Unknown | Stamps::Foreign => continue,
                Stamps::Unread => {
                    unread += 1;
                    continue;
                }
            };
            let first = stamps.earliest().filter_map(|stamp| expiry.policy.expires_at(stamp)).min();
            oldest_expired = [oldest_expired, first.filter(|at| *at <= now)].into_iter().flatten().min();
            let all =
                stamps.latest().and_then(|latest| latest.map(|stamp| expiry.policy.expires_at(stamp)).max().flatten());
            next_file_drop = [next_file_drop, all].into_iter().flatten().min();
        }
        Ok(Some(ExpiryReport {
            unix_seconds: now,
            table_bytes: version.total_bytes(),
            expired_bytes,
            oldest_expired,
            next_file_drop,
            rows_hidden: self.metrics.get(Counter::ExpiredRowsHidden),
            blocks_skipped: self.metrics.get(Counter::ExpiredBlocksSkipped),
            rows_removed: self.metrics.get(Counter::ExpiredRowsRemoved),
            files_dropped: self.metrics.get(Counter::ExpiredFilesDropped),
            blockers: self.expiry_blockers(family, &pinned, unread, |expiring| bytes_at(expiring) < expired_bytes),
        }))
    }

    /// What keeps rows and space. `keeps_rows` tells whether there are rows that are expired now and not yet for everybody.
    fn expiry_blockers(
        &self,
        family: &Family,
        pinned: &SuperVersion,
        unread: usize,
        keeps_rows: impl Fn(&Expiring) -> bool,
    ) -> Vec<ExpiryBlocker> {
        let mut blockers = Vec::new();
        blockers.extend(self.surroundings.expiry.distrusted().map(ExpiryBlocker::DistrustedClock));
        let seconds = self.surroundings.expiry.clock().map_or(0, TrustedClock::behind);
        blockers.extend((seconds > MOST_BEHIND_SECONDS).then_some(ExpiryBlocker::ClockBehind { seconds }));
        if let Some(expiring) = self.expiring(family) {
            if keeps_rows(&expiring) {
                let oldest = self.snapshots.oldest_unix_seconds();
                blockers.extend(oldest.map(|unix_seconds| ExpiryBlocker::Snapshot { unix_seconds }));
                blockers.extend(self.prepared_logs.oldest().map(|_| ExpiryBlocker::PreparedTransaction));
            }
            let version = &pinned.version;
            let whole =
                version.all_files().filter(|(_, file)| !file.is_being_compacted() && expiring.is_whole_table(file));
            let tables = whole.count().saturating_sub(compaction::droppable(version, &expiring).len());
            blockers.extend((tables > 0).then_some(ExpiryBlocker::Overlap { tables }));
        }
        let blobs = pinned.version.all_files().filter(|(_, file)| file.oldest_blob_file().is_some()).count();
        blockers.extend((blobs > 0).then_some(ExpiryBlocker::BlobValues { tables: blobs }));
        let (_, table_bytes) = family.replaced.bytes_beside(pinned);
        blockers.extend((table_bytes > 0).then_some(ExpiryBlocker::OpenIterator { table_bytes }));
        blockers.extend((unread > 0).then_some(ExpiryBlocker::UnreadTables { tables: unread }));
        blockers
    }
}
