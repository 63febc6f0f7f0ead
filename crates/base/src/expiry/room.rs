//! What a database knows of time, and of the policies of its families.

use super::record::{MAX_RECORD_BYTES, Record, Saved};
use super::{ClockJump, ExpiryHome, ExpiryPolicy, TrustedClock};
use crate::clock::Clock;
use crate::env::{Env, FileKind, read_file, write_file_atomically};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, ArcSwapOption, Mutex, OnceLock, Rank};
use crate::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Rank of the record: held while the file is written. Whoever holds the write side may step a job that writes it.
const RANK: Rank = Rank(75);

/// The time is written down at most so often, in seconds of either clock.
const SEEN_SECONDS: u64 = 10;

/// Tables are looked at for expired rows at most so often, whatever the clock says by which rows expire.
const LEAST_DELAY: Duration = Duration::from_millis(10);

/// What a room is made of.
#[derive(Debug, Clone)]
pub struct RoomSettings {
    /// Where the file is.
    pub env: Arc<dyn Env>,
    /// The file EXPIRY.
    pub path: PathBuf,
    /// The name under which it is written first, in the same directory.
    pub temporary: PathBuf,
    /// By which rows expire.
    pub clock: Arc<dyn Clock>,
    /// By which everything else goes.
    pub pace: Arc<dyn Clock>,
    /// A longer jump of the clock is not trusted; 0: any is.
    pub jump_limit: u64,
}

/// What a database knows of itself before its first policy comes.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Its id; empty if it has none.
    pub db_id: String,
    /// When the newest of its tables was written, as they say, in Unix seconds.
    pub newest_table: Option<u64>,
}

/// What the file says, as far as that is known.
#[derive(Debug, Default)]
struct Kept {
    record: Record,
    /// Whether the file is there, and is that of this database.
    is_there: bool,
    /// The last write failed, and so did taking it back: the file says the one or the other.
    is_unsure: bool,
    /// When it was written last in this opening, by the clock of everything else, in microseconds.
    written_micros: Option<u64>,
}

/// The time of a database as far as rows expire by it, and the file EXPIRY. Nothing is read or written before the first policy comes.
///
/// Thread safety: every method may be called from any thread; the time is told without a lock.
#[derive(Debug)]
pub struct ExpiryRoom {
    settings: RoomSettings,
    known: OnceLock<Known>,
    clock: Arc<OnceLock<TrustedClock>>,
    /// What the file says, once it was read.
    kept: Mutex<Option<Kept>>,
    /// The time up to which rows were removed while no transaction was prepared.
    removed_until: AtomicU64,
    /// Nothing is written any more: the file may be another opening's. Changed under the lock of `kept`.
    is_closed: AtomicBool,
}

impl ExpiryRoom {
    /// A room without policies.
    pub fn new(settings: RoomSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            known: OnceLock::new(),
            clock: Arc::default(),
            kept: Mutex::new(RANK, None),
            removed_until: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Tells what is known of the database. Before the first policy comes, and before anything is written in this opening.
    pub fn set_known(&self, known: Known) {
        let _ = self.known.set(known);
    }

    /// Whether the file tells of time: it is there, and is that of the database `db_id`.
    ///
    /// # Errors
    ///
    /// `Corruption` for a damaged file, and those of reading it.
    pub fn tells_time(&self, db_id: &str) -> Result<bool> {
        Ok(self.read_own(db_id)?.is_some())
    }

    /// Reads the file. Where there is none and the clock is not trusted, what was known of time is written down: what is written from now on may tell of that clock. Before anything of the
    /// database is written by it; not for a database that is open for reading only.
    ///
    /// # Errors
    ///
    /// `Corruption` for a damaged file, and those of I/O.
    pub fn begin(&self) -> Result<()> {
        let is_there = {
            let mut kept = self.kept.lock();
            self.load(&mut kept)?.is_there
        };
        match is_there || self.distrusted().is_none() {
            true => Ok(()),
            false => self.change(|_| {}),
        }
    }

    /// The time, once the first policy came.
    pub fn clock(&self) -> Option<&TrustedClock> {
        self.clock.get()
    }

    /// The same, for who asks later.
    pub fn shared_clock(&self) -> Arc<OnceLock<TrustedClock>> {
        Arc::clone(&self.clock)
    }

    /// How long to wait, by the clock of everything else, until so many seconds have passed by which rows expire.
    pub fn delay(&self, seconds: u64) -> Duration {
        self.settings.clock.lasts(Duration::from_secs(seconds)).max(LEAST_DELAY)
    }

    /// The time of a reader that reads now, in Unix seconds.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.get().map_or(0, TrustedClock::now)
    }

    /// The time as of which rows may be removed; `None` while the time is not trusted. It is no later than the oldest read of a snapshot, if there is one, nor than
    /// when the oldest transaction was prepared, if one is. Both are asked after the time: what comes later reads later.
    pub fn removal_time(
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
    pub fn distrusted(&self) -> Option<ClockJump> {
        self.clock()?.distrusted()
    }

    /// Trusts the time, which is that of the wall clock from now on.
    ///
    /// # Errors
    ///
    /// Those of writing the file.
    pub fn confirm(&self) -> Result<()> {
        if let Some(clock) = self.clock() {
            clock.confirm();
            self.change(|_| {})?;
        }
        Ok(())
    }

    /// Writes the time down, now and then. What cannot be written is written the next time.
    pub fn note_time(&self) {
        self.note(SEEN_SECONDS);
    }

    /// Writes nothing any more, and waits for who does. The time is written down before if closing went well: nobody will tell it any more.
    pub fn close(&self, is_clean: bool) {
        if is_clean {
            self.note(1);
        }
        let _kept = self.kept.lock();
        self.is_closed.store(true, Ordering::Release);
    }

    fn note(&self, after: u64) {
        let Some(now) = self.clock().and_then(TrustedClock::trusted_now) else { return };
        // Seconds are whole ones.
        let pause = after.saturating_sub(1) * 1_000_000;
        let rested = |written: u64| self.settings.pace.now_micros().saturating_sub(written) >= pause;
        let is_late = |kept: &Kept| {
            let is_old = now >= kept.record.seen.saturating_add(after) && kept.written_micros.is_none_or(rested);
            kept.is_unsure || is_old
        };
        if self.kept.lock().as_ref().is_some_and(is_late) {
            let _ = self.change(|_| {});
        }
    }

    /// Forgets what the policy of a family that is dropped kept. What is kept in vain does no harm: numbers of families do not come again.
    pub fn forget(&self, family: u32) {
        if self.kept.lock().as_ref().is_some_and(|kept| kept.record.states.contains_key(&family)) {
            let _ = self.change(|record| {
                record.states.remove(&family);
            });
        }
    }

    /// What the policy of a family has saved under its `name`; empty if nothing. Time begins.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a policy of another name than the rows have, `Corruption` for a damaged file, and those of reading it.
    pub fn saved(&self, family: u32, name: &str) -> Result<Vec<u8>> {
        self.saved_under(family, name).map(|saved| saved.state)
    }

    fn saved_under(&self, family: u32, name: &str) -> Result<Saved> {
        let mut kept = self.kept.lock();
        let saved = self.load(&mut kept)?.record.states.get(&family).cloned().unwrap_or_default();
        if saved.policy.is_empty() || saved.policy == name {
            return Ok(saved);
        }
        let message =
            format!("expiry: the rows of the family have the stamps of {}, not those of {name}", saved.policy);
        Err(Error::invalid_argument(message))
    }

    /// Saves, all or nothing, what the policies at `homes` have said since they were attached: by that rows expire from now on, and what is saved later is written at once. When the opening has succeeded.
    ///
    /// # Errors
    ///
    /// Those of writing the file.
    pub fn open<'a>(&self, homes: impl IntoIterator<Item = &'a PolicyHome>) -> Result<()> {
        let homes: Vec<_> = homes.into_iter().filter_map(|home| home.home.load_full()).collect();
        let kept_back =
            homes.iter().filter_map(|home| Some((home.id, home.saved(home.kept_back.load_full()?.to_vec()))));
        let kept_back: Vec<_> = kept_back.collect();
        if !kept_back.is_empty() {
            self.change(|record| record.states.extend(kept_back))?;
        }
        for home in homes {
            home.kept_back.store(None);
            home.is_open.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// What the file says. It is read if that was not done, and time begins.
    fn load<'a>(&self, kept: &'a mut Option<Kept>) -> Result<&'a Kept> {
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let known = self.known.get().cloned().unwrap_or_default();
        let found = self.read_own(&known.db_id)?;
        let is_there = found.is_some();
        let (clock, seen) = (&self.settings.clock, found.as_ref().map(|found| found.seen));
        let limit = self.settings.jump_limit;
        let witness = known.newest_table;
        let trusted = self.clock.get_or_init(|| TrustedClock::with_witness(Arc::clone(clock), seen, witness, limit));
        // What is written by a clock that is not trusted tells of nothing the next time: what it was before does.
        let first = || Record { seen: trusted.distrusted().map_or(0, |jump| jump.known), ..Record::default() };
        let mut record = found.unwrap_or_else(first);
        record.db_id = known.db_id;
        Ok(kept.insert(Kept { record, is_there, is_unsure: false, written_micros: None }))
    }

    /// What the file says, unless it is that of another database, which was here before.
    fn read_own(&self, db_id: &str) -> Result<Option<Record>> {
        let is_own = |id: &str| id.is_empty() || db_id.is_empty() || id == db_id;
        Ok(self.read()?.filter(|found| is_own(&found.db_id)))
    }

    fn read(&self) -> Result<Option<Record>> {
        let path = &self.settings.path;
        match read_file(&*self.settings.env, path, FileKind::Other, MAX_RECORD_BYTES) {
            Ok(bytes) => Record::decode(&bytes).map(Some).map_err(|error| error.with_file(path)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", path, error)),
        }
    }

    /// Writes the file anew, with a change and with the time.
    fn change(&self, change: impl FnOnce(&mut Record)) -> Result<()> {
        let mut guard = self.kept.lock();
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Aborted, "expiry: the database is closed"));
        }
        let kept = guard.get_or_insert_with(Kept::default);
        let mut changed = kept.record.clone();
        change(&mut changed);
        if let Some(now) = self.clock().and_then(TrustedClock::trusted_now) {
            changed.seen = changed.seen.max(now);
        }
        match self.write(&changed) {
            Ok(()) => {
                let written_micros = Some(self.settings.pace.now_micros());
                *kept = Kept { record: changed, is_there: true, is_unsure: false, written_micros };
            }
            Err(error) => {
                // The file may have taken its place before the error: what was refused must not count at the next opening.
                kept.is_unsure = self.write(&kept.record).is_err();
                return Err(error);
            }
        }
        Ok(())
    }

    fn write(&self, record: &Record) -> Result<()> {
        let RoomSettings { env, path, temporary, .. } = &self.settings;
        let bytes = record.encode();
        if bytes.len() as u64 > MAX_RECORD_BYTES {
            let message = "expiry: more policies and durations than the file EXPIRY takes";
            return Err(Error::new(ErrorKind::LimitExceeded, message).with_file(path));
        }
        write_file_atomically(&**env, path, temporary, &bytes, FileKind::Other)
            .map_err(|error| Error::io("write", path, error))
    }
}

/// Where the policy of a family is, until the database is closed.
#[derive(Debug)]
pub struct PolicyHome {
    home: ArcSwapOption<Home>,
}

impl PolicyHome {
    /// That of the family of number `id`.
    pub fn new(room: &Arc<ExpiryRoom>, id: u32) -> Self {
        let home = Home {
            room: Arc::clone(room),
            id,
            policy: OnceLock::new(),
            is_open: AtomicBool::new(false),
            kept_back: ArcSwapOption::empty(),
        };
        Self { home: ArcSwapOption::from(Some(Arc::new(home))) }
    }

    /// Tells the policy where it is. Before the first read. What it saves is kept back until the room is told that the opening [has succeeded](ExpiryRoom::open).
    ///
    /// # Errors
    ///
    /// Those of [`ExpiryRoom::saved`] and of [`ExpiryPolicy::attach`].
    pub fn attach(&self, policy: &dyn ExpiryPolicy) -> Result<()> {
        let Some(home) = self.home.load_full() else { return Ok(()) };
        let saved = home.room.saved_under(home.id, policy.name())?;
        let _ = home.policy.set(policy.name().to_owned());
        if saved.policy.is_empty() && !saved.state.is_empty() {
            // Of a version that did not name policies.
            home.save(&saved.state)?;
        }
        let weak: Arc<dyn ExpiryHome> = Arc::clone(&home) as Arc<dyn ExpiryHome>;
        policy.attach(Arc::downgrade(&weak), &saved.state)
    }

    /// Lets the policy go, for another database or opening.
    pub fn detach(&self) {
        self.home.store(None);
    }
}

#[derive(Debug)]
struct Home {
    room: Arc<ExpiryRoom>,
    id: u32,
    /// The name of the policy.
    policy: OnceLock<String>,
    /// Whether the opening has succeeded. One that fails must leave nothing behind: what was saved would count at the next one, and rows would be expired by a duration by which nobody ever read.
    is_open: AtomicBool,
    /// What was to be saved before that.
    kept_back: ArcSwapOption<Vec<u8>>,
}

impl Home {
    fn saved(&self, state: Vec<u8>) -> Saved {
        Saved { policy: self.policy.get().cloned().unwrap_or_default(), state }
    }
}

impl ExpiryHome for Home {
    fn trusted_now(&self) -> u64 {
        self.room.clock().map_or(0, TrustedClock::trusted_or_known)
    }

    fn while_time_stands(&self, change: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        if !self.is_open.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Busy, "expiry: the database is being opened"));
        }
        let Some(clock) = self.room.clock().filter(|clock| clock.distrusted().is_none()) else {
            // Rows are hidden by a time that may prove wrong, and a change would count from one that is long past.
            return Err(Error::new(ErrorKind::Busy, "expiry: the clock is not trusted: see confirm_clock"));
        };
        change(clock.hold().seconds())
    }

    fn save(&self, state: &[u8]) -> Result<()> {
        if !self.is_open.load(Ordering::Acquire) {
            self.kept_back.store(Some(Arc::new(state.to_vec())));
            return Ok(());
        }
        let saved = self.saved(state.to_vec());
        self.room.change(|record| _ = record.states.insert(self.id, saved))
    }
}
