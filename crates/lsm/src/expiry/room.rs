//! What a database knows of time, and of the policies of its families.

use super::record::{MAX_RECORD_BYTES, Record};
use crate::file_names::FileName;
use siltstone_base::clock::Clock;
use siltstone_base::env::{Env, FileKind, read_file, write_file_atomically};
use siltstone_base::expiry::{ClockJump, ExpiryHome, ExpiryPolicy, TrustedClock};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_base::sync::{Arc, ArcSwapOption, Mutex, OnceLock, Rank};
use siltstone_base::{Error, Result};
use std::path::{Path, PathBuf};

/// Rank of the record: held while the file is written. Whoever holds the write side may step a job that writes it.
const RANK: Rank = Rank(75);

/// The time is written down at most so often, in seconds.
const SEEN_SECONDS: u64 = 10;

/// What a room is made of.
#[derive(Debug, Clone)]
pub(crate) struct RoomSettings {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    /// A longer jump of the clock is not trusted; 0: any is.
    pub(crate) jump_limit: u64,
}

/// The time of a database as far as rows expire by it, and the file EXPIRY. Nothing is read or written before the first policy comes.
///
/// Thread safety: every method may be called from any thread; the time is told without a lock.
#[derive(Debug)]
pub(crate) struct ExpiryRoom {
    settings: RoomSettings,
    clock: Arc<OnceLock<TrustedClock>>,
    /// What the file says, once it was read.
    record: Mutex<Option<Record>>,
    /// The time up to which rows were removed while no transaction was prepared.
    removed_until: AtomicU64,
}

impl ExpiryRoom {
    pub(crate) fn new(settings: RoomSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            clock: Arc::default(),
            record: Mutex::new(RANK, None),
            removed_until: AtomicU64::new(0),
        })
    }

    /// The time, once the first policy came.
    pub(crate) fn clock(&self) -> Option<&TrustedClock> {
        self.clock.get()
    }

    /// The same, for who asks later.
    pub(crate) fn shared_clock(&self) -> Arc<OnceLock<TrustedClock>> {
        Arc::clone(&self.clock)
    }

    /// The time of a reader that reads now, in Unix seconds.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.get().map_or(0, TrustedClock::now)
    }

    /// The time as of which rows may be removed; `None` while the time is not trusted. It is no later than the oldest read of a snapshot, if there is one, nor than
    /// when the oldest transaction was prepared, if one is. Both are asked after the time: what comes later reads later.
    pub(crate) fn removal_time(
        &self,
        oldest_read: impl FnOnce() -> Option<u64>,
        is_prepared: impl FnOnce() -> bool,
    ) -> Option<u64> {
        let now = self.clock()?.trusted_now()?;
        if is_prepared() {
            return Some(self.removed_until.load(Ordering::Acquire));
        }
        let time = oldest_read().map_or(now, |oldest| oldest.min(now));
        self.removed_until.fetch_max(time, Ordering::AcqRel);
        Some(time)
    }

    /// The jump because of which nothing is removed.
    pub(crate) fn distrusted(&self) -> Option<ClockJump> {
        self.clock()?.distrusted()
    }

    /// Trusts the time.
    pub(crate) fn confirm(&self) -> Result<()> {
        if let Some(clock) = self.clock() {
            clock.confirm();
            self.change(|_| {})?;
        }
        Ok(())
    }

    /// Writes the time down, now and then. What cannot be written is written the next time.
    pub(crate) fn note_time(&self) {
        let Some(now) = self.clock().and_then(TrustedClock::trusted_now) else { return };
        let is_late = self.record.lock().as_ref().is_some_and(|record| now >= record.seen.saturating_add(SEEN_SECONDS));
        if is_late {
            let _ = self.change(|_| {});
        }
    }

    /// Writes the time down because nobody will tell it any more.
    pub(crate) fn note_last_time(&self) {
        let Some(now) = self.clock().and_then(TrustedClock::trusted_now) else { return };
        if self.record.lock().as_ref().is_some_and(|record| now > record.seen) {
            let _ = self.change(|_| {});
        }
    }

    /// Reads the file if that was not done, and says what it has of `family`.
    fn state(&self, family: u32) -> Result<Vec<u8>> {
        let mut record = self.record.lock();
        if record.is_none() {
            let found = self.read()?;
            let (clock, known) = (&self.settings.clock, found.as_ref().map(|found| found.seen));
            let trusted = || TrustedClock::new(Arc::clone(clock), known, self.settings.jump_limit);
            self.clock.get_or_init(trusted);
            *record = Some(found.unwrap_or_default());
        }
        let record = record.as_ref();
        Ok(record.and_then(|record| record.states.get(&family)).cloned().unwrap_or_default())
    }

    fn read(&self) -> Result<Option<Record>> {
        let path = FileName::Expiry.path(&self.settings.dir);
        match read_file(&*self.settings.env, &path, FileKind::Other, MAX_RECORD_BYTES) {
            Ok(bytes) => Record::decode(&bytes).map(Some).map_err(|error| error.with_file(&path)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path, error)),
        }
    }

    /// Writes the file anew, with a change and with the time.
    fn change(&self, change: impl FnOnce(&mut Record)) -> Result<()> {
        let mut record = self.record.lock();
        let mut changed = record.clone().unwrap_or_default();
        change(&mut changed);
        if let Some(now) = self.clock().and_then(TrustedClock::trusted_now) {
            changed.seen = changed.seen.max(now);
        }
        let dir: &Path = &self.settings.dir;
        // Only opening a database uses the name too, for a file that it needs before.
        let (path, temporary) = (FileName::Expiry.path(dir), FileName::Temporary(0).path(dir));
        write_file_atomically(&*self.settings.env, &path, &temporary, &changed.encode(), FileKind::Other)
            .map_err(|error| Error::io("write", &path, error))?;
        *record = Some(changed);
        Ok(())
    }
}

/// Where the policy of a family is, until the database is closed.
#[derive(Debug)]
pub(crate) struct PolicyHome {
    home: ArcSwapOption<Home>,
}

impl PolicyHome {
    /// That of the family of number `id`.
    pub(crate) fn new(room: &Arc<ExpiryRoom>, id: u32) -> Self {
        let home = Arc::new(Home { room: Arc::clone(room), id, is_written: AtomicBool::new(false) });
        Self { home: ArcSwapOption::from(Some(home)) }
    }

    /// Tells the policy where it is. Before the first read.
    pub(crate) fn attach(&self, policy: &dyn ExpiryPolicy, is_read_only: bool) -> Result<()> {
        let Some(home) = self.home.load_full() else { return Ok(()) };
        let saved = home.room.state(home.id)?;
        home.is_written.store(!is_read_only, Ordering::Release);
        let home: Arc<dyn ExpiryHome> = home;
        policy.attach(Arc::downgrade(&home), &saved)
    }

    /// Lets the policy go, for another database or opening.
    pub(crate) fn detach(&self) {
        self.home.store(None);
    }
}

#[derive(Debug)]
struct Home {
    room: Arc<ExpiryRoom>,
    id: u32,
    /// Whether the database may be written.
    is_written: AtomicBool,
}

impl ExpiryHome for Home {
    fn trusted_now(&self) -> u64 {
        self.room.clock().map_or(0, TrustedClock::trusted_or_known)
    }

    fn is_read_only(&self) -> bool {
        !self.is_written.load(Ordering::Acquire)
    }

    fn save(&self, state: &[u8]) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        self.room.change(|record| {
            record.states.insert(self.id, state.to_vec());
        })
    }
}
