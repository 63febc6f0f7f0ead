//! What a family knows whose rows expire.

use crate::expiry::Expiring;
use crate::version::Version;
use siltstone_base::Result;
use siltstone_base::expiry::{ExpiryPolicy, ExpiryRoom, PolicyHome, Stamp};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank, Weak};

/// Tables are looked at so many times while a row lives.
const LOOKS: u64 = 256;

/// They are looked at no less often than every so many seconds.
const MAX_LOOK_SECONDS: u64 = 3600;

/// Rank of what was looked at: the state lock may be held.
const RANK: Rank = Rank(355);

/// The expiry of one family's rows.
///
/// Thread safety: every method may be called from any thread; reads take no lock.
#[derive(Debug)]
pub(crate) struct FamilyExpiry {
    pub(crate) policy: Arc<dyn ExpiryPolicy>,
    home: PolicyHome,
    /// Whether all rows of some table were expired when a walk looked last.
    has_expired_tables: AtomicBool,
    /// When a walk looks again, in Unix seconds.
    next_walk_look: AtomicU64,
    looks: Mutex<Looks>,
}

/// What was looked at. A version is remembered weakly, which also keeps its address from being another one's.
#[derive(Debug, Default)]
struct Looks {
    /// Where nothing is to be done, and at which time.
    idle: Weak<Version>,
    idle_time: u64,
    /// Whose tables were opened, or are being.
    read: Weak<Version>,
    is_reading: bool,
}

impl FamilyExpiry {
    /// The family of number `id`.
    pub(crate) fn new(policy: &Arc<dyn ExpiryPolicy>, room: &Arc<ExpiryRoom>, id: u32) -> Self {
        let home = PolicyHome::new(room, id);
        Self {
            policy: Arc::clone(policy),
            home,
            has_expired_tables: AtomicBool::new(false),
            next_walk_look: AtomicU64::new(0),
            looks: Mutex::new(RANK, Looks::default()),
        }
    }

    /// Tells the policy where it is. Before the first read. What it saves is kept back until the room is [told](ExpiryRoom::open) that the opening has succeeded.
    pub(crate) fn attach(&self) -> Result<()> {
        self.home.attach(&*self.policy)
    }

    /// Where the policy is.
    pub(crate) fn home(&self) -> &PolicyHome {
        &self.home
    }

    /// Lets the policy go.
    pub(crate) fn detach(&self) {
        self.home.detach();
    }

    /// Whether walks that begin at `now` should look for tables to pass by, all of whose rows are expired. One walk looks now and then, for all, so that it does not
    /// matter what keeps the tables, nor whether anything works in the background.
    #[inline]
    pub(crate) fn has_expired_tables(&self, version: &Version, now: u64) -> bool {
        let due = self.next_walk_look.load(Ordering::Relaxed);
        if now >= due {
            self.look_for_walks(version, now, due);
        }
        self.has_expired_tables.load(Ordering::Relaxed)
    }

    #[cold]
    fn look_for_walks(&self, version: &Version, now: u64, due: u64) {
        let next = now.saturating_add(self.look_seconds(now));
        if self.next_walk_look.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let expiring = Expiring { policy: Arc::clone(&self.policy), time: now };
        let has = version.all_files().any(|(_, file)| expiring.is_whole_table(file));
        self.has_expired_tables.store(has, Ordering::Relaxed);
    }

    /// Tables are looked at every so many seconds.
    pub(super) fn look_seconds(&self, now: u64) -> u64 {
        let expires = self.policy.expires_at(Stamp { group: 0, seconds: now }).unwrap_or(u64::MAX);
        (expires.saturating_sub(now) / LOOKS).clamp(1, MAX_LOOK_SECONDS)
    }

    /// Whether it is known that nothing is to be done in `version` at `time`.
    pub(super) fn is_idle(&self, version: &Arc<Version>, time: u64) -> bool {
        let looks = self.looks.lock();
        looks.idle_time == time && is_same(&looks.idle, version)
    }

    /// Remembers that nothing is to be done in `version` at `time`.
    pub(super) fn set_idle(&self, version: &Arc<Version>, time: u64) {
        let mut looks = self.looks.lock();
        (looks.idle, looks.idle_time) = (Arc::downgrade(version), time);
    }

    /// Whether the caller is to open the tables of `version`; then it says when it [has](Self::end_reading).
    pub(super) fn begin_reading(&self, version: &Arc<Version>) -> bool {
        let mut looks = self.looks.lock();
        let begins = !looks.is_reading && !is_same(&looks.read, version);
        if begins {
            looks.is_reading = true;
            looks.read = Arc::downgrade(version);
        }
        begins
    }

    /// Tables are open, or cannot be opened: what was known of them may be more by now.
    pub(super) fn end_reading(&self) {
        let mut looks = self.looks.lock();
        looks.is_reading = false;
        looks.idle = Weak::new();
    }
}

fn is_same(remembered: &Weak<Version>, version: &Arc<Version>) -> bool {
    std::ptr::eq(remembered.as_ptr(), Arc::as_ptr(version))
}
