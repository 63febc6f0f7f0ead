//! Rows that expire, in an open database: which may be removed, by what, and what there is to tell.
//!
//! 1. Tables of which every row is expired go by an edit of the MANIFEST. That comes before other work: it costs nothing.
//! 2. Other compactions remove the expired rows that they meet.
//! 3. One compaction at a time rewrites the tables that give most space back: where nothing else is due, and after every few others.
//!
//! Only rows are removed that are expired for every reader: at the time of the oldest snapshot, and of the oldest transaction that is prepared.

mod family;
mod groups;
mod report;
mod stamps;

pub(crate) use family::FamilyExpiry;
pub use groups::TableExpiryReport;
pub use report::{ExpiryBlocker, ExpiryReport};

use super::background::Picked;
use super::column_family::Family;
use super::state::{DbInner, State};
use super::super_version::SuperVersion;
use crate::compaction::{self, Compaction};
use crate::event::CompactionReason;
use crate::expiry::Expiring;
use crate::file_meta::Stamps;
use crate::metrics::Counter;
use crate::version::Version;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// After so many compactions that were due by size, one may rewrite tables for their expired rows, though more are due.
const TURNS: u32 = 4;

impl DbInner {
    /// The time as of which rows may be removed; `None` if none may.
    pub(super) fn removal_time(&self) -> Option<u64> {
        let (snapshots, prepared) = (&self.snapshots, &self.prepared_logs);
        self.surroundings.expiry.removal_time(|| snapshots.oldest_unix_seconds(), || prepared.oldest().is_some())
    }

    /// Which rows of a family may be removed; `None` if none may.
    pub(crate) fn expiring(&self, family: &Family) -> Option<Expiring> {
        let expiry = family.expiry.as_ref()?;
        Some(Expiring { policy: Arc::clone(&expiry.policy), time: self.removal_time()? })
    }

    /// Which tables of a family are to be looked at for expired rows; `None` if that was done.
    fn expiring_anew(&self, family: &Family, pinned: &SuperVersion) -> Option<Expiring> {
        let expiring = self.expiring(family)?;
        let is_idle = family.expiry.as_ref().is_none_or(|expiry| expiry.is_idle(&pinned.version, expiring.time));
        (!is_idle).then_some(expiring)
    }

    /// Tables of any family whose rows are all expired: they cost nothing but an edit.
    pub(super) fn pick_expired_tables(&self, state: &State) -> Option<Picked> {
        let families = self.families.load();
        families.values().filter(|family| family.expiry.is_some()).find_map(|family| {
            let background = state.families.get(&family.id)?;
            let pinned = family.super_version.load();
            let waits = background.compaction_not_before_micros > self.clock.now_micros();
            if waits || pinned.options.disable_auto_compactions {
                return None;
            }
            let expiring = self.expiring_anew(family, &pinned)?;
            let compaction = compaction::pick_expired_drop(&pinned.version, &expiring)?;
            Some((Arc::clone(family), compaction, None))
        })
    }

    /// A compaction that is worth its work for the expired rows that it removes, unless one runs.
    pub(super) fn pick_expired_rows(&self, state: &State) -> Option<Picked> {
        if state.expiry_rewrites > 0 {
            return None;
        }
        let families = self.families.load();
        families.values().filter(|family| family.expiry.is_some()).find_map(|family| {
            let background = state.families.get(&family.id)?;
            let pinned = family.super_version.load();
            let waits = background.compaction_not_before_micros > self.clock.now_micros();
            if waits || pinned.options.disable_auto_compactions {
                return None;
            }
            let expiring = self.expiring_anew(family, &pinned)?;
            let (version, options) = (&pinned.version, &pinned.options);
            match compaction::pick_expired_rewrite(version, options, &expiring, &background.running) {
                Some(compaction) => Some((Arc::clone(family), compaction, None)),
                None => {
                    // Tables that a compaction has are looked at again in the version that it makes.
                    if let Some(expiry) = &family.expiry {
                        expiry.set_idle(version, expiring.time);
                    }
                    None
                }
            }
        })
    }

    /// The same, if it is its turn though other compactions are due.
    pub(super) fn pick_expired_rows_in_turn(&self, state: &mut State) -> Option<Picked> {
        if state.since_expiry_turn < TURNS {
            return None;
        }
        state.since_expiry_turn = 0;
        self.pick_expired_rows(state)
    }

    /// Whether one of those would be picked.
    pub(super) fn expiry_is_due(&self, family: &Family, pinned: &SuperVersion, state: &State) -> bool {
        let Some(expiring) = self.expiring_anew(family, pinned) else { return false };
        let Some(background) = state.families.get(&family.id) else { return false };
        let (version, options) = (&pinned.version, &pinned.options);
        compaction::pick_expired_drop(version, &expiring).is_some()
            || compaction::pick_expired_rewrite(version, options, &expiring, &background.running).is_some()
    }

    /// After how long tables of a family are to be looked at again; `None` if it has none whose rows expire.
    pub(super) fn next_expiry_look(&self, family: &Family, version: &Version) -> Option<Duration> {
        let expiry = family.expiry.as_ref()?;
        version.all_files().next()?;
        let room = &self.surroundings.expiry;
        Some(room.delay(expiry.look_seconds(room.now())))
    }

    /// Writes down what time it is, if nothing else did for a while. No lock is held.
    pub(super) fn note_expiry_time(&self) {
        if self.surroundings.expiry.clock().is_none() {
            return;
        }
        {
            let mut state = self.state.lock();
            // Whoever closes the database waits for it.
            if self.read_only || self.is_closing() {
                return;
            }
            state.ending_jobs += 1;
        }
        self.surroundings.expiry.note_time();
        self.job_ended();
    }

    /// Fails if what lies beneath tables that are to go as a whole is not as it was when they were picked.
    pub(super) fn check_expired_tables(compaction: &Compaction, version: &Version) -> Result<()> {
        let is_drop = compaction.reason == CompactionReason::Expired && compaction.deletes;
        if !is_drop || compaction::may_still_go(compaction, version) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Aborted, "the tables beneath expired ones have changed"))
    }

    /// Counts tables that went as a whole.
    pub(super) fn count_expired_tables(&self, family: &Family, compaction: &Compaction) {
        let Some(expiry) = &family.expiry else { return };
        let rows = compaction.input_files().map(|(_, file)| match file.stamps(expiry.policy.name()) {
            Stamps::Known(stamps) => stamps.all().rows,
            Stamps::Unread | Stamps::Unknown | Stamps::Foreign => 0,
        });
        self.metrics.add_all([
            (Counter::ExpiredFilesDropped, compaction.input_files().count() as u64),
            (Counter::ExpiredRowsRemoved, rows.fold(0, u64::saturating_add)),
            (Counter::ExpiryBytesIn, compaction.input_bytes()),
        ]);
    }

    /// Whether rows that are expired at `unix_seconds`, the time of a reader, are so whatever becomes of the clock: that time was trusted, or is now.
    pub(crate) fn hides_for_good(&self, unix_seconds: u64) -> bool {
        self.surroundings.expiry.clock().is_none_or(|clock| unix_seconds <= clock.trusted_or_known())
    }

    /// Fails while the time by which rows expire is not trusted.
    pub(crate) fn check_clock(&self) -> Result<()> {
        match self.surroundings.expiry.distrusted() {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::Busy,
                "expiry: the clock is not trusted, and may hide rows that are to be seen: see confirm_clock",
            )),
        }
    }

    /// Trusts the clock.
    pub(crate) fn confirm_clock(self: &Arc<Self>) -> Result<()> {
        self.check_writable()?;
        let _making = self.make_files()?;
        self.surroundings.expiry.confirm()?;
        self.schedule();
        Ok(())
    }
}
