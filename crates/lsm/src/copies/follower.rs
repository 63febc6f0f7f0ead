//! Following a database that another process writes: a view that is brought up to date when it is asked to.
//!
//! A view is the directory opened for reading only. The one who writes may replace the MANIFEST and delete files meanwhile, always after an edit of the
//! MANIFEST: so a view counts only if the MANIFEST is the same before and after, with every table opened in between. It then needs no name any more. An edit that came
//! meanwhile may have brought a family or a table that no WAL tells of, and WALs what was written after it: that would be the state of no moment.
//!
//! Tables that are open already, in the view before or in an attempt that failed, are not opened again: an attempt takes as long as what is new, and the WALs.

use crate::db::Db;
use crate::file_names::FileName;
use crate::key::SeqNo;
use crate::options::{ColumnFamilyOptions, DbOptions, WalRecoveryMode};
use crate::sst::BlockCache;
use siltstone_base::clock::SystemClock;
use siltstone_base::env::{Env, FileKind, PosixEnv, read_file};
use siltstone_base::executor::{Executor, ThreadExecutor};
use siltstone_base::sync::{Arc, ArcSwap, Signal};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Times that a view is begun anew because the MANIFEST changed meanwhile.
const ATTEMPTS: u32 = 100;

/// Times that the same damage is met before it is taken for damage: what is being written may look like it for a moment.
const SAME_DAMAGE: u32 = 10;

/// The longest pause between two of them; the first is a thousandth of it, and each twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The longest CURRENT.
const MAX_CURRENT_BYTES: u64 = 64;

/// Capacity of the block cache, where the caller gives none.
const BLOCK_CACHE_BYTES: usize = 32 << 20;

/// Reads a database that somebody else writes, in this process or in another, without changing a file of it.
///
/// ```
/// use siltstone_lsm::{Db, DbOptions, Follower};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true))?;
/// let follower = Follower::open(dir.path(), &DbOptions::default(), &[])?;
/// db.put("pumice", "light")?;
/// assert_eq!(follower.db().get("pumice")?, None);
/// follower.catch_up()?;
/// assert_eq!(follower.db().get("pumice")?.as_deref(), Some(&b"light"[..]));
/// # Ok(())
/// # }
/// ```
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug)]
pub struct Follower {
    dir: PathBuf,
    env: Arc<dyn Env>,
    options: DbOptions,
    families: Vec<(String, ColumnFamilyOptions)>,
    view: ArcSwap<View>,
}

/// What was seen, and of which files.
#[derive(Debug)]
struct View {
    db: Db,
    marks: Marks,
}

/// What tells whether anything was written: the MANIFEST that is alive, and the logs with their lengths.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marks {
    current: Vec<u8>,
    manifest_len: u64,
    /// Ascending.
    wals: Vec<(u64, u64)>,
}

impl Marks {
    /// Whether the MANIFEST was the same.
    fn are_of_one_state(&self, other: &Self) -> bool {
        self.current == other.current && self.manifest_len == other.manifest_len
    }
}

impl Follower {
    /// Opens the database in `dir` as it is now. `families` gives the options of families by name, as in [`Db::open_read_only`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::open_read_only`]; `Busy` if the directory changed again and again meanwhile.
    pub fn open(dir: impl AsRef<Path>, options: &DbOptions, families: &[(&str, ColumnFamilyOptions)]) -> Result<Self> {
        let dir = dir.as_ref().to_path_buf();
        let env: Arc<dyn Env> = match &options.env {
            Some(env) => Arc::clone(env),
            None => Arc::new(PosixEnv::new()),
        };
        let mut options = options.clone().env(Some(Arc::clone(&env)));
        // What is being written ends within a record.
        options.wal_recovery_mode = WalRecoveryMode::PointInTime;
        // All views share them.
        options.block_cache.get_or_insert_with(|| Arc::new(BlockCache::new(BLOCK_CACHE_BYTES)));
        if options.executor.is_none() {
            let threads = ThreadExecutor::new(1, Arc::new(SystemClock::new()));
            let threads = threads.map_err(|error| Error::io("start threads for", &dir, error))?;
            options.executor = Some(Arc::new(threads) as Arc<dyn Executor>);
        }
        let families: Vec<_> = families.iter().map(|(name, options)| ((*name).to_owned(), options.clone())).collect();
        let view = open_view(&dir, &*env, &options, &families, None)?;
        Ok(Self { dir, env, options, families, view: ArcSwap::from_pointee(view) })
    }

    /// The database as it was when it was last [caught up](Self::catch_up) with. It stays readable as it is when the follower goes on; values in blob files
    /// only until those are deleted.
    pub fn db(&self) -> Db {
        self.view.load().db.clone()
    }

    /// Brings the view up to date. Returns the largest sequence number in it.
    ///
    /// Writes that were not durable when the power went are seen before and not after: the number may then go back.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). The view stays as it was.
    pub fn catch_up(&self) -> Result<SeqNo> {
        let seen = self.view.load_full();
        if marks(&self.dir, &*self.env).is_ok_and(|marks| marks == seen.marks) {
            return Ok(seen.db.latest_seqno());
        }
        let view = open_view(&self.dir, &*self.env, &self.options, &self.families, Some(&seen.db))?;
        let seqno = view.db.latest_seqno();
        self.view.store(Arc::new(view));
        Ok(seqno)
    }
}

fn open_view(
    dir: &Path,
    env: &dyn Env,
    options: &DbOptions,
    families: &[(String, ColumnFamilyOptions)],
    seen: Option<&Db>,
) -> Result<View> {
    let named: Vec<_> = families.iter().map(|(name, options)| (name.as_str(), options.clone())).collect();
    let mut earlier = seen.cloned();
    let mut damage: Option<(Error, u32)> = None;
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        // The logs first: what comes into them while they are read is no reason to begin anew, and is looked for next time.
        let before = marks(dir, env);
        let opened = Db::open_view(dir, options, &named);
        let opened = opened.and_then(|db| {
            let outcome = db.open_tables(earlier.as_ref());
            // The next attempt finds open what this one could open.
            earlier = Some(db.clone());
            outcome.map(|()| db)
        });
        let after = marks(dir, env);
        match (before, after, opened) {
            (Ok(before), Ok(after), Ok(db)) if before.are_of_one_state(&after) => {
                return Ok(View { db, marks: before });
            }
            // Nothing happened that could have caused it.
            (Ok(before), Ok(after), Err(error)) if before == after => return Err(error),
            // There is no database, before or after.
            (Err(before), Err(_), opened) => return Err(opened.err().unwrap_or(before)),
            (_, _, Err(error)) => {
                let is_same = |(other, _): &(Error, u32)| {
                    (other.kind(), other.file(), other.offset()) == (error.kind(), error.file(), error.offset())
                };
                let times = damage.take().filter(is_same).map_or(0, |(_, times)| times) + 1;
                if error.kind() != ErrorKind::MissingFile && times >= SAME_DAMAGE {
                    return Err(error);
                }
                damage = Some((error, times));
            }
            _ => {}
        }
    }
    let busy = Error::new(ErrorKind::Busy, "the directory changed again and again while it was opened");
    let busy = busy.with_file(dir);
    Err(match damage {
        Some((error, _)) => busy.with_source(error),
        None => busy,
    })
}

/// Waits before an attempt that is not the first.
fn pause(attempt: u32) {
    if let Some(retry) = attempt.checked_sub(1) {
        let pause = (LONGEST_PAUSE / 1000).saturating_mul(1_u32.checked_shl(retry).unwrap_or(u32::MAX));
        Signal::new().wait_while(Some(pause.min(LONGEST_PAUSE)), &mut || true);
    }
}

fn marks(dir: &Path, env: &dyn Env) -> Result<Marks> {
    let path = FileName::Current.path(dir);
    let current = read_file(env, &path, FileKind::Manifest, MAX_CURRENT_BYTES);
    let current = current.map_err(|error| Error::io("read", &path, error))?;
    let manifest = dir.join(String::from_utf8_lossy(&current).trim_end());
    let manifest_len = env.file_len(&manifest).map_err(|error| Error::io("measure", &manifest, error))?;
    let entries = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    let mut wals = Vec::new();
    for entry in entries {
        if let Some(name @ FileName::Wal(number)) = FileName::parse(&entry.name)
            && let Ok(len) = env.file_len(&name.path(dir))
        {
            wals.push((number, len));
        }
    }
    wals.sort_unstable();
    Ok(Marks { current, manifest_len, wals })
}
