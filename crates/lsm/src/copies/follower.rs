//! Following a database that another process writes: a view that is brought up to date when it is asked to.
//!
//! A view is the directory at one [moment](super::moment), opened for reading only. What was to be read by name is opened first: the MANIFEST and the WALs when the moment is taken, the tables as soon as
//! the MANIFEST is read. Whoever writes may go on meanwhile, and delete what it does not need any more: only a table that goes before it could be opened makes the view begin anew, at a later moment.
//!
//! Tables that are open already, in the view before or in an attempt that failed, are not opened again: an attempt takes as long as what is new, and the WALs.

use super::attempts::open_at;
use super::moment::{self, Marks};
use crate::db::{Db, OpenTables};
use crate::key::SeqNo;
use crate::options::{ColumnFamilyOptions, DbOptions, WalRecoveryMode};
use crate::sst::BlockCache;
use siltstone_base::clock::SystemClock;
use siltstone_base::env::Env;
use siltstone_base::executor::{Executor, ThreadExecutor};
use siltstone_base::sync::{Arc, ArcSwap, Mutex, Rank};
use siltstone_base::{Error, Result};
use std::path::{Path, PathBuf};

/// Held while a view is made, over everything that takes locks on the way.
const RANK: Rank = Rank(2);

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
    /// The tables that the view has open. Held by whoever makes the next one: a view is never replaced by one of before.
    tables: Mutex<OpenTables>,
}

/// What was seen, and of which files.
#[derive(Debug)]
struct View {
    db: Db,
    marks: Marks,
}

impl Follower {
    /// Opens the database in `dir` as it is now. `families` gives the options of families by name, as in [`Db::open_read_only`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::open_read_only`]; `Busy` if the directory changed again and again meanwhile.
    pub fn open(dir: impl AsRef<Path>, options: &DbOptions, families: &[(&str, ColumnFamilyOptions)]) -> Result<Self> {
        let dir = dir.as_ref().to_path_buf();
        let env = options.environment();
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
        let mut tables = OpenTables::default();
        let view = ArcSwap::from_pointee(open_view(&dir, &env, &options, &families, &mut tables)?);
        Ok(Self { dir, env, options, families, view, tables: Mutex::new(RANK, tables) })
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
        let mut tables = self.tables.lock();
        let seen = self.view.load_full();
        if moment::now(&self.dir, &self.env).is_ok_and(|(marks, _)| marks == seen.marks) {
            return Ok(seen.db.latest_seqno());
        }
        let view = open_view(&self.dir, &self.env, &self.options, &self.families, &mut tables)?;
        let seqno = view.db.latest_seqno();
        self.view.store(Arc::new(view));
        Ok(seqno)
    }
}

/// Opens a view of now. `known` has the tables that are open already.
fn open_view(
    dir: &Path,
    env: &Arc<dyn Env>,
    options: &DbOptions,
    families: &[(String, ColumnFamilyOptions)],
    known: &mut OpenTables,
) -> Result<View> {
    let named: Vec<_> = families.iter().map(|(name, options)| (name.as_str(), options.clone())).collect();
    let (db, marks) = open_at(dir, env, moment::now(dir, env)?, |moment, _| {
        Db::open_read_only_with_tables(dir, &options.clone().env(Some(moment)), &named, known)
    })?;
    Ok(View { db, marks })
}
