//! Rows that expire: which reads hide, and what is known of time.
//!
//! 1. Whoever reads does so as of a second: a view of the one in which it was made, everyone else of now. Rows that are expired by then are not there for him.
//! 2. A [walk](walk) through the tree removes rows that are expired by now, a few at a time. It is a writer like others: a view that is older goes on seeing the rows as
//!    they were, by their older versions, and purge removes those when no view needs them.
//!
//! Nothing remembers which rows expire when: the walk reads the tree, once in a 64th of the time for which rows live.

mod report;
#[cfg(test)]
mod tests;
mod walk;
mod witness;

pub use report::ExpiryReport;
pub(super) use walk::start_walk;

use crate::options::DbOptions;
use siltstone_base::Result;
use siltstone_base::clock::Clock;
use siltstone_base::env::Env;
use siltstone_base::expiry::{ExpiryPolicy, ExpiryRoom, Known, PolicyHome, RoomSettings, TrustedClock};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use std::path::Path;

/// What is remembered of expired rows, and the name under which it is written first.
pub(super) const NAME: &str = "EXPIRY";
const TEMPORARY: &str = "EXPIRY.tmp";

/// The number of the default tree's policy in the file.
const DEFAULT_TREE: u32 = 0;

/// The expiry of one tree's rows. Any thread may use it; reads take no lock.
#[derive(Debug)]
pub(super) struct RowExpiry {
    policy: Arc<dyn ExpiryPolicy>,
    room: Arc<ExpiryRoom>,
    home: PolicyHome,
    counts: Counts,
}

/// What was done so far.
#[derive(Debug, Default)]
struct Counts {
    hidden: AtomicU64,
    removed: AtomicU64,
    walks: AtomicU64,
    /// Expired rows that the last whole walk left, because transactions had their locks.
    left: AtomicU64,
    /// Leaves that it could not read.
    damaged: AtomicU64,
}

impl RowExpiry {
    /// That of the default tree, if the options name a policy. Before this opening changes a file that was there: where there is no EXPIRY those tell of time, and where the clock is not trusted what they tell
    /// is written down before they tell of that clock.
    pub(super) fn open(
        options: &DbOptions,
        env: &Arc<dyn Env>,
        dir: &Path,
        database: u64,
        is_new: bool,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Arc<Self>>> {
        let Some(policy) = &options.expiry else { return Ok(None) };
        let room = ExpiryRoom::new(RoomSettings {
            env: Arc::clone(env),
            path: dir.join(NAME),
            temporary: dir.join(TEMPORARY),
            clock: options.expiry_clock.clone().unwrap_or_else(|| Arc::clone(clock)),
            pace: Arc::clone(clock),
            jump_limit: options.max_clock_jump_seconds,
        });
        let db_id = format!("{database:016x}");
        // There may be many files: they are asked only where nothing else tells of time.
        let is_told = is_new || room.tells_time(&db_id)?;
        let newest_table = if is_told { None } else { witness::last_change(&**env, dir)? };
        room.set_known(Known { db_id, newest_table });
        room.begin()?;
        let home = PolicyHome::new(&room, DEFAULT_TREE);
        Ok(Some(Arc::new(Self { policy: Arc::clone(policy), room, home, counts: Counts::default() })))
    }

    /// Tells the policy where it is. Before the first read, and once nothing else can keep the database from opening: what the policy says then counts.
    pub(super) fn attach(&self) -> Result<()> {
        self.home.attach(&*self.policy)?;
        self.room.open([&self.home])
    }

    /// The second as of which somebody reads who begins now.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.room.now()
    }

    /// The time as of which rows may be removed; `None` while it is not trusted.
    fn removal_time(&self) -> Option<u64> {
        self.room.clock().and_then(TrustedClock::trusted_now)
    }

    /// Whether a row is not there for who reads as of `time`.
    #[inline]
    pub(super) fn hides(&self, key: &[u8], value: &[u8], time: u64) -> bool {
        let hides = self.policy.is_row_expired(key, value, time);
        if hides {
            self.counts.hidden.fetch_add(1, Ordering::Relaxed);
        }
        hides
    }

    /// Trusts the clock.
    pub(super) fn confirm_clock(&self) -> Result<()> {
        self.room.confirm()
    }

    /// Lets the policy go: the database is closed. The time is written down if that went well.
    pub(super) fn close(&self, is_clean: bool) {
        self.room.close(is_clean);
        self.home.detach();
    }
}
