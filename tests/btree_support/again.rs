//! Crashes beside transactions: every state that a disk may show of a script is recovered, and some crash again while the unfinished transactions are rolled back.

use super::{Commit, History, Life, State, verify};
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::{CrashConfig, CrashModel, CrashStates, Recording, SimDisk};
use siltstone_base::executor::Executor;
use siltstone_btree::{Db, DbOptions, ErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
pub type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
/// What prepared transactions would change, by their names, of which none is used twice.
pub type Plans = BTreeMap<Vec<u8>, Changes>;
pub type Outcome<T = ()> = Result<T, String>;

/// Names of prepared transactions stand in the states as a tree of this name.
pub const PREPARED: &str = "prepared";

/// What a script did.
pub struct Script {
    pub history: History,
    pub plans: Plans,
    pub recording: Recording,
}

pub fn apply(rows: &mut Rows, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => rows.insert(key.clone(), value.clone()),
            None => rows.remove(key),
        };
    }
}

/// Makes a call that commits, or finds a lock taken, and notes what may be seen of it from when on.
pub fn commit(
    history: &mut History,
    disk: &SimDisk,
    change: impl FnOnce(&mut State),
    call: impl FnOnce() -> siltstone_btree::Result<()>,
) {
    let mut next = history.last().clone();
    change(&mut next);
    history.commits.push(Commit { issued: disk.recorded(), acked: None });
    history.states.push(next);
    match call() {
        Ok(()) => history.commits.last_mut().unwrap().acked = Some(disk.recorded()),
        // Of all that may fail here, only the wait for a lock does; it comes before anything is written.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            history.commits.pop();
            history.states.pop();
        }
    }
}

/// Lets rollbacks and purge end; they may have to wait for room in the redo log.
pub fn settle(life: &Life, db: &Db) {
    for _ in 0..200 {
        life.executor.run_until_idle();
        if db.rolling_back_len() == 0 && db.history_len() == 0 {
            return;
        }
        life.executor.sleep(Duration::from_millis(20));
    }
}

/// How a kind of database is opened and held against what it should be.
pub struct Kind {
    /// What is there when the database is open, before anything is undone in the background.
    pub open_and_read: fn(&Life) -> Outcome<(Db, State)>,
    /// Recovers, lets the rollbacks end, decides about the prepared transactions and checks everything. Returns what was there at first.
    pub recover: fn(&SimDisk, &DbOptions, &Plans) -> Outcome<State>,
}

/// Crashes again while the unfinished transactions are rolled back.
fn crash_again(kind: &Kind, disk: &SimDisk, options: &DbOptions, script: &Script, seed: u64) -> Outcome<usize> {
    disk.start_recording();
    let life = Life::new(disk, options);
    let (db, shown) = (kind.open_and_read)(&life)?;
    let opened = disk.recorded();
    settle(&life, &db);
    db.flush().map_err(|error| error.to_string())?;
    let recording = disk.take_recording();
    disk.power_off();
    drop(db);
    let config =
        CrashConfig { seed, states_per_cut: 3, random_subsets: 1, tail_cuts: 2, tears: 2, ..CrashConfig::default() };
    let mut count = 0;
    for state in CrashStates::new(&recording, config) {
        if state.cut < opened {
            continue;
        }
        let Some(disk) = state.disk() else { continue };
        let found =
            (kind.recover)(&disk, options, &script.plans).map_err(|message| format!("second crash: {message}"))?;
        if found != shown {
            return Err("second crash: what the opened database showed is gone".to_owned());
        }
        count += 1;
    }
    Ok(count)
}

/// What was found.
#[derive(Debug, Default)]
pub struct Tally {
    pub images: BTreeSet<u64>,
    pub prepared: usize,
    pub second: usize,
    pub models: BTreeMap<CrashModel, usize>,
}

impl Tally {
    /// The sum over scripts; the first that is not as it should be fails the test.
    pub fn of(found: impl Iterator<Item = Outcome<Tally>>) -> Self {
        let mut total = Self::default();
        for found in found {
            let found = found.unwrap_or_else(|message| panic!("{message}"));
            total.images.extend(found.images);
            total.prepared += found.prepared;
            total.second += found.second;
            for (model, count) in found.models {
                *total.models.entry(model).or_default() += count;
            }
        }
        total
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { images, prepared, second, models } = self;
        write!(f, "{} distinct crash states, {second} second ones, {models:?}, {prepared} prepared ones", images.len())
    }
}

/// How many states are looked at.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub states_per_cut: usize,
    /// One of so many distinct states crashes again.
    pub second_every: usize,
}

/// Looks at states of a script.
pub fn explore(
    kind: &Kind,
    script: &Script,
    seed: u64,
    (options, durability): (&DbOptions, Durability),
    extent: Extent,
) -> Outcome<Tally> {
    let Extent { states_per_cut, second_every } = extent;
    let config =
        CrashConfig { seed, states_per_cut, random_subsets: 2, tail_cuts: 2, tears: 2, ..CrashConfig::default() };
    let mut tally = Tally::default();
    for state in CrashStates::new(&script.recording, config) {
        // A repeated image says nothing new that a later cut would not.
        let Some(disk) = state.disk() else { continue };
        tally.images.insert(state.hash);
        *tally.models.entry(state.model).or_default() += 1;
        let at = |message: String| {
            format!("script {seed}, cut {} ({:?}), {:?}: {message}", state.cut, state.op, state.model)
        };
        if tally.images.len() % second_every == 0
            && let Some(disk) = state.disk()
        {
            tally.second += crash_again(kind, &disk, options, script, seed).map_err(at)?;
        }
        let found = (kind.recover)(&disk, options, &script.plans).map_err(at)?;
        tally.prepared += found[PREPARED].len();
        verify(&script.history, &found, state.cut, state.model, durability).map_err(at)?;
    }
    Ok(tally)
}
