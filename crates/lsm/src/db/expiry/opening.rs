//! Where a policy is while its family is being opened. An opening that fails must leave nothing behind: what it would have saved would be in force at the next one, and rows
//! would be expired by a duration by which nobody ever read. So what a policy saves is kept back until the opening has succeeded.

use siltstone_base::expiry::{ExpiryHome, ExpiryPolicy, Stamp};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, ArcSwapOption, Weak};
use siltstone_base::{Error, ErrorKind, Result};

/// The home that a policy is told of.
#[derive(Debug)]
pub(super) struct OpeningHome {
    home: Weak<dyn ExpiryHome>,
    /// Whether the opening has succeeded.
    is_open: AtomicBool,
    /// What was to be saved before that.
    kept_back: ArcSwapOption<Vec<u8>>,
}

impl OpeningHome {
    fn new(home: Weak<dyn ExpiryHome>) -> Arc<Self> {
        Arc::new(Self { home, is_open: AtomicBool::new(false), kept_back: ArcSwapOption::empty() })
    }

    fn home(&self) -> Result<Arc<dyn ExpiryHome>> {
        let gone = || Error::new(ErrorKind::Aborted, "expiry: the family of the policy is gone");
        self.home.upgrade().ok_or_else(gone)
    }

    /// Saves what was kept back. From now on everything is saved at once.
    pub(super) fn open(&self) -> Result<()> {
        if let Some(state) = self.kept_back.load_full() {
            self.home()?.save(&state)?;
            self.kept_back.store(None);
        }
        self.is_open.store(true, Ordering::Release);
        Ok(())
    }
}

impl ExpiryHome for OpeningHome {
    fn trusted_now(&self) -> u64 {
        self.home.upgrade().map_or(0, |home| home.trusted_now())
    }

    fn is_read_only(&self) -> bool {
        self.home.upgrade().is_none_or(|home| home.is_read_only())
    }

    fn while_time_stands(&self, change: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        if !self.is_read_only() && !self.is_open.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Busy, "expiry: the database is being opened"));
        }
        self.home()?.while_time_stands(change)
    }

    fn save(&self, state: &[u8]) -> Result<()> {
        if self.is_open.load(Ordering::Acquire) {
            return self.home()?.save(state);
        }
        self.kept_back.store(Some(Arc::new(state.to_vec())));
        Ok(())
    }
}

/// A policy as the room attaches it: it gets a home that keeps back what it saves.
#[derive(Debug)]
pub(super) struct Attaching<'a> {
    policy: &'a dyn ExpiryPolicy,
    home: &'a ArcSwapOption<OpeningHome>,
}

impl<'a> Attaching<'a> {
    /// The home comes to `home`.
    pub(super) fn new(policy: &'a dyn ExpiryPolicy, home: &'a ArcSwapOption<OpeningHome>) -> Self {
        Self { policy, home }
    }
}

impl ExpiryPolicy for Attaching<'_> {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn stamp(&self, key: &[u8], value: &[u8]) -> Option<Stamp> {
        self.policy.stamp(key, value)
    }

    fn bound(&self, group: u32, now: u64) -> Option<u64> {
        self.policy.bound(group, now)
    }

    fn expires_at(&self, stamp: Stamp) -> Option<u64> {
        self.policy.expires_at(stamp)
    }

    fn attach(&self, home: Weak<dyn ExpiryHome>, saved: &[u8]) -> Result<()> {
        let opening = OpeningHome::new(home);
        let told: Arc<dyn ExpiryHome> = Arc::clone(&opening) as Arc<dyn ExpiryHome>;
        self.home.store(Some(opening));
        self.policy.attach(Arc::downgrade(&told), saved)
    }
}
