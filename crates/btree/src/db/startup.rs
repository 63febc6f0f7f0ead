//! How long opening and closing took, and what they did.

use siltstone_base::clock::Clock;
use siltstone_base::sync::{Mutex, Rank};
use std::time::Duration;

/// What is known of the beginning.
const STARTUP_RANK: Rank = Rank(60);

/// What [`Db::open`](crate::Db::open) did, and what goes on in the background since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StartupReport {
    /// Until the call returned.
    pub open: Duration,
    /// The part of it in which torn pages were looked for and restored.
    pub doublewrite: Duration,
    /// Pages that were restored from the doublewrite file.
    pub doublewrite_pages: u64,
    /// The part of it in which the redo log was read and applied.
    pub redo: Duration,
    /// Bytes of the redo log since its last checkpoint.
    pub redo_bytes: u64,
    /// Changes of pages that the pages lacked.
    pub redo_changes: u64,
    /// Transactions that had not ended.
    pub unfinished_transactions: u64,
    /// How long it took from the call to their end; `None` while they are being rolled back.
    pub rollback: Option<Duration>,
    /// Pages of the resident set that were asked for.
    pub pool_pages: u64,
    /// How long it took from the call until they were read; `None` while they are.
    pub pool: Option<Duration>,
}

/// What [`Db::shut_down`](crate::Db::shut_down) did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Until the directory was given back.
    pub close: Duration,
    /// The part of it in which purge was waited for.
    pub purge: Duration,
    /// Pages that were written.
    pub pages_written: u64,
    /// Pages that the file of the resident set names; `None` if it was not written.
    pub dumped_pages: Option<u64>,
}

/// The report in the making.
#[derive(Debug)]
pub(super) struct Startup {
    begun_micros: u64,
    report: Mutex<StartupReport>,
}

/// Time since `micros`.
pub(super) fn since(clock: &dyn Clock, micros: u64) -> Duration {
    Duration::from_micros(clock.now_micros().saturating_sub(micros))
}

impl Startup {
    pub(super) fn new(begun_micros: u64, report: StartupReport) -> Self {
        Self { begun_micros, report: Mutex::new(STARTUP_RANK, report) }
    }

    pub(super) fn report(&self) -> StartupReport {
        *self.report.lock()
    }

    /// The call returns: so many pages of the resident set are being read from now on.
    pub(super) fn note_open(&self, clock: &dyn Clock, pool_pages: u64) {
        let elapsed = since(clock, self.begun_micros);
        let mut report = self.report.lock();
        report.open = elapsed;
        report.pool_pages = pool_pages;
        if pool_pages == 0 {
            report.pool = Some(Duration::ZERO);
        }
    }

    /// The last unfinished transaction is rolled back. Returns, the first time, how long that took and how many there were.
    pub(super) fn note_rolled_back(&self, clock: &dyn Clock) -> Option<(Duration, u64)> {
        let elapsed = since(clock, self.begun_micros);
        let mut report = self.report.lock();
        let is_first = report.rollback.is_none();
        report.rollback.get_or_insert(elapsed);
        is_first.then_some((elapsed, report.unfinished_transactions))
    }

    /// The resident set is read.
    pub(super) fn note_restored(&self, clock: &dyn Clock) {
        let elapsed = since(clock, self.begun_micros);
        self.report.lock().pool.get_or_insert(elapsed);
    }
}
