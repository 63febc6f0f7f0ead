//! The expiry policy of a plain family: one duration for all of its rows.

use crate::history::History;
use crate::{StampLayout, TtlDuration};
use siltstone_base::expiry::{ExpiryHome, ExpiryPolicy, Stamp};
use siltstone_base::sync::{Arc, ArcSwap, Mutex, Rank, Weak};
use siltstone_base::{Error, ErrorKind, Result};

/// Rank of the lock of changes: held while one is saved.
const RANK: Rank = Rank(4);

/// Lets the rows of one family expire a duration after their stamps.
///
/// The policy is given to the family by its option `expiry`, and serves that one family while its database is open. The duration may be another one at every opening,
/// and be [changed](Self::set_duration) in between: nothing is rewritten, a shorter one counts at once, and a longer one brings no row back that was expired. Where a database is opened for reading
/// only, rows expire by the durations that its writer had saved by then, and by the policy's own if there are none: what becomes of either later is not seen, so that what was read once is
/// read again. A policy may serve any number of such openings, beside its family.
///
/// Thread safety: every method may be called from any thread; reads take no lock.
#[derive(Debug)]
pub struct Ttl {
    layout: StampLayout,
    history: ArcSwap<History>,
    /// Where the family is, while its database is open.
    home: Mutex<Option<Weak<dyn ExpiryHome>>>,
}

impl Ttl {
    /// A policy for values with stamps in `layout`.
    pub fn new(layout: StampLayout, duration: TtlDuration) -> Self {
        Self { layout, history: ArcSwap::from_pointee(History::new(duration)), home: Mutex::new(RANK, None) }
    }

    /// Where stamps lie.
    pub fn layout(&self) -> StampLayout {
        self.layout
    }

    /// The duration that was given last.
    pub fn duration(&self) -> TtlDuration {
        self.history.load().current()
    }

    /// Gives rows another duration. It counts from the next second on, for readers that begin then, and is durable when the call returns. While it is being written the
    /// time by which rows expire stands still.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` for the 256th change since the database was opened, `Busy` while it is being opened or its clock is not trusted (see `Db::confirm_clock`), and those of
    /// writing a file; the duration then stays as it was.
    pub fn set_duration(&self, duration: TtlDuration) -> Result<()> {
        let home = self.home.lock();
        let Some(home) = home.as_ref().and_then(Weak::upgrade) else {
            // Nobody reads, and the next opening compares with what was saved.
            self.history.store(Arc::new(History::new(duration)));
            return Ok(());
        };
        if self.duration() == duration {
            return Ok(());
        }
        home.while_time_stands(&mut |now| {
            let changed = self.history.load().changed(duration, now)?;
            home.save(&changed.encode())?;
            self.history.store(Arc::new(changed));
            Ok(())
        })
    }
}

impl ExpiryPolicy for Ttl {
    fn name(&self) -> &str {
        self.layout.name()
    }

    #[inline]
    fn stamp(&self, _: &[u8], value: &[u8]) -> Option<Stamp> {
        let (_, seconds) = self.layout.try_split(value)?;
        Some(Stamp { group: 0, seconds })
    }

    #[inline]
    fn bound(&self, _: u32, now: u64) -> Option<u64> {
        self.history.load().bound(now)
    }

    fn expires_at(&self, stamp: Stamp) -> Option<u64> {
        Some(self.history.load().expires_at(stamp.seconds))
    }

    fn attach(&self, home: Weak<dyn ExpiryHome>, saved: &[u8]) -> Result<()> {
        let mut attached = self.home.lock();
        let Some(strong) = home.upgrade() else {
            return Err(Error::new(ErrorKind::Aborted, "expiry: the family of the policy is gone"));
        };
        if attached.as_ref().is_some_and(|other| other.strong_count() > 0) {
            return Err(Error::new(ErrorKind::Busy, "expiry: the policy is that of another open family"));
        }
        let duration = self.duration();
        let history = match saved {
            [] => History::new(duration),
            saved => History::decode(saved)?.resumed(duration, strong.trusted_now()),
        };
        let state = history.encode();
        if state != saved {
            strong.save(&state)?;
        }
        self.history.store(Arc::new(history));
        *attached = Some(home);
        Ok(())
    }

    fn view(self: Arc<Self>, saved: &[u8]) -> Result<Arc<dyn ExpiryPolicy>> {
        let history = match saved {
            [] => History::new(self.duration()),
            // Whoever writes says by which durations rows expire.
            saved => History::decode(saved)?,
        };
        Ok(Arc::new(Self {
            layout: self.layout,
            history: ArcSwap::from_pointee(history),
            home: Mutex::new(RANK, None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_base::clock::ManualClock;
    use siltstone_base::expiry::TrustedClock;
    use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[derive(Debug)]
    struct Home {
        time: Arc<ManualClock>,
        clock: TrustedClock,
        saved: Mutex<Vec<u8>>,
        fails: bool,
        /// So long saving takes.
        save_seconds: AtomicU64,
    }

    impl Home {
        fn at(now: u64, saved: &[u8], fails: bool) -> Arc<Self> {
            let time = Arc::new(ManualClock::new(now));
            Arc::new(Self {
                clock: TrustedClock::new(time.clone(), None, 0),
                time,
                saved: Mutex::new(Rank(6), saved.to_vec()),
                fails,
                save_seconds: AtomicU64::new(0),
            })
        }
    }

    impl ExpiryHome for Home {
        fn trusted_now(&self) -> u64 {
            self.clock.now()
        }

        fn while_time_stands(&self, change: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
            change(self.clock.hold().seconds())
        }

        fn save(&self, state: &[u8]) -> Result<()> {
            if self.fails {
                return Err(Error::new(ErrorKind::NoSpace, "full"));
            }
            self.time.advance(Duration::from_secs(self.save_seconds.load(Ordering::SeqCst)));
            *self.saved.lock() = state.to_vec();
            Ok(())
        }
    }

    fn seconds(seconds: u64) -> TtlDuration {
        TtlDuration::from_seconds(seconds).unwrap()
    }

    fn attach(ttl: &Ttl, home: &Arc<Home>) -> Result<()> {
        let saved = home.saved.lock().clone();
        ttl.attach(Arc::downgrade(&(Arc::clone(home) as Arc<dyn ExpiryHome>)), &saved)
    }

    #[test]
    fn rows_expire_after_the_duration() {
        let ttl = Ttl::new(StampLayout::Suffix, seconds(60));
        let row = StampLayout::Suffix.stamped(b"v", 1000).unwrap();
        assert!(!ttl.is_row_expired(b"k", &row, 1059) && ttl.is_row_expired(b"k", &row, 1060));
        assert!(!ttl.is_row_expired(b"k", b"abc", u64::MAX), "a row without a stamp never expires");
        assert!(!ttl.is_row_expired(b"k", &(-1_i32).to_le_bytes(), u64::MAX), "a time before 1970 is no stamp");
        assert_eq!(ttl.expires_at(Stamp { group: 0, seconds: 1000 }), Some(1060));
    }

    #[test]
    fn a_longer_duration_at_the_next_opening_revives_nothing() {
        let home = Home::at(1000, b"", false);
        let ttl = Ttl::new(StampLayout::Prefix, seconds(60));
        attach(&ttl, &home).unwrap();
        assert_eq!(ttl.bound(0, 1000), Some(940));
        let later = Home::at(2000, &home.saved.lock(), false);
        let ttl = Ttl::new(StampLayout::Prefix, seconds(500));
        attach(&ttl, &later).unwrap();
        assert_eq!((ttl.bound(0, 2000), ttl.bound(0, 2440), ttl.bound(0, 2441)), (Some(1940), Some(1940), Some(1941)));
    }

    #[test]
    fn a_change_that_cannot_be_saved_is_none() {
        let home = Home::at(1000, b"", false);
        let ttl = Ttl::new(StampLayout::Prefix, seconds(60));
        attach(&ttl, &home).unwrap();
        let saved = home.saved.lock().clone();
        drop(home);
        let full = Home::at(1000, &saved, true);
        attach(&ttl, &full).unwrap();
        assert_eq!(ttl.set_duration(seconds(10)).unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!((ttl.duration(), ttl.bound(0, 1001)), (seconds(60), Some(941)));
    }

    /// A disk that takes three seconds for a sync: whoever read meanwhile still sees what he saw.
    #[test]
    fn a_slow_disk_shows_no_row_again_that_was_hidden() {
        for (first, second) in [(10, 1000), (1000, 10)] {
            let home = Home::at(100, b"", false);
            let ttl = Ttl::new(StampLayout::Prefix, seconds(first));
            attach(&ttl, &home).unwrap();
            home.save_seconds.store(3, Ordering::SeqCst);
            let before: Vec<_> = (0..=100).map(|time| ttl.bound(0, time)).collect();
            let read = home.clock.now();
            ttl.set_duration(seconds(second)).unwrap();
            assert_eq!((read, home.clock.now()), (100, 103));
            let after: Vec<_> = (0..=100).map(|time| ttl.bound(0, time)).collect();
            assert_eq!(after, before, "{first} s, then {second} s");
            // What comes next is not less, and what nobody read as of was not promised.
            assert!(ttl.bound(0, 101) >= ttl.bound(0, 100));
            assert_eq!(ttl.bound(0, 3000), Some(3000 - second));
        }
    }

    /// Readers take the time and ask what is expired, again and again, while durations come and go on a disk that is slow: nobody sees two bounds of one moment.
    #[test]
    fn readers_beside_changes_see_one_bound_of_a_moment() {
        let home = Home::at(1_000_000, b"", false);
        let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(500)));
        attach(&ttl, &home).unwrap();
        home.save_seconds.store(1, Ordering::SeqCst);
        let is_over = AtomicBool::new(false);
        let seen: Vec<BTreeMap<u64, Option<u64>>> = std::thread::scope(|scope| {
            let read = || {
                let mut seen = BTreeMap::new();
                while !is_over.load(Ordering::SeqCst) {
                    let now = home.clock.now();
                    let bound = ttl.bound(0, now);
                    assert_eq!(*seen.entry(now).or_insert(bound), bound, "at {now}");
                }
                seen
            };
            let readers: Vec<_> = (0..2).map(|_| scope.spawn(read)).collect();
            for change in 0..200 {
                ttl.set_duration(seconds(100 + change * 37 % 900)).unwrap();
            }
            is_over.store(true, Ordering::SeqCst);
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        for (now, bound) in seen.iter().flatten() {
            assert_eq!(ttl.bound(0, *now), *bound, "at {now}");
        }
    }

    #[test]
    fn a_policy_serves_one_open_family() {
        let (home, other) = (Home::at(1000, b"", false), Home::at(1000, b"", false));
        let ttl = Ttl::new(StampLayout::Prefix, seconds(60));
        attach(&ttl, &home).unwrap();
        assert_eq!(attach(&ttl, &other).unwrap_err().kind(), ErrorKind::Busy);
        ttl.set_duration(seconds(10)).unwrap();
        assert_eq!((ttl.bound(0, 1000), ttl.bound(0, 1001)), (Some(940), Some(991)));
        drop(home);
        attach(&ttl, &other).unwrap();
        assert!(attach(&Ttl::new(StampLayout::Prefix, seconds(1)), &Home::at(1, b"\x01", false)).is_err());
    }
}
