//! Crashes: every state that a disk may show of a script is recovered, read and checked, and some crash again while they are recovered and settle.

use super::classes::{Class, Tally, When};
use super::{Commit, History, Life, State, verify};
use siltstone_base::env::sim::{CrashConfig, CrashModel, CrashStates, Recording, SimDisk};
use siltstone_base::executor::Executor;
use siltstone_btree::{Db, DbOptions, ErrorKind};
use std::collections::{BTreeMap, HashMap};
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

/// What recovery brought back.
pub struct Recovered {
    /// What was there at first.
    pub state: State,
    /// How much of what this kind of script is about was there: prepared transactions, changes that wait.
    pub remarkable: usize,
}

/// A sort of script, and how its databases are opened and held against what they should be.
pub struct Kind {
    pub script: &'static str,
    /// What is there when the database is open, before anything is undone in the background.
    pub open_and_read: fn(&Life) -> Outcome<(Db, State)>,
    /// Lets background work end.
    pub settle: fn(&Life, &Db),
    /// Recovers, lets background work end, decides about what waits for a decision, and checks everything.
    pub recover: fn(&SimDisk, &DbOptions, &Plans) -> Outcome<Recovered>,
}

/// How many states are looked at.
#[derive(Debug, Clone)]
pub struct Extent {
    pub first: CrashConfig,
    /// One of so many distinct states crashes again.
    pub second_every: usize,
    pub second: CrashConfig,
}

/// One script, and what is asked of it.
struct Exploration<'a> {
    kind: &'a Kind,
    script: &'a Script,
    options: &'a DbOptions,
    tally: Tally,
    /// What each disk held.
    seen: HashMap<u64, State>,
}

/// Verifies the crash states of a script: each leaves a prefix of the commits with every promised one in it.
pub fn explore(kind: &Kind, script: &Script, options: &DbOptions, extent: &Extent) -> Outcome<Tally> {
    let (tally, seen) = (Tally::default(), HashMap::new());
    let mut exploration = Exploration { kind, script, options, tally, seen };
    let mut found = 0;
    for state in CrashStates::new(&script.recording, extent.first.clone()) {
        let at = |message: String| {
            format!("crash after change {} ({:?}), {:?}: {message}", state.cut, state.op, state.model)
        };
        exploration.tally.checked += 1;
        if let Some(disk) = state.disk() {
            found += 1;
            let class = Class::new(kind.script, When::Running, state.model, state.op);
            exploration.tally.images.entry(state.hash).or_insert(class);
            if found % extent.second_every == 0
                && let Some(disk) = state.disk()
            {
                exploration.crash_again(&disk, state.cut, &extent.second).map_err(at)?;
            }
            let state_of = exploration.recover(&disk).map_err(at)?;
            exploration.seen.insert(state.hash, state_of);
        }
        // A disk that was met before must hold what was promised since.
        let seen = exploration.seen.get(&state.hash).ok_or("a repeated disk that was never met")?;
        verify(&script.history, seen, state.cut, state.model, options.durability).map_err(at)?;
    }
    Ok(exploration.tally)
}

impl Exploration<'_> {
    fn recover(&mut self, disk: &SimDisk) -> Outcome<State> {
        let Recovered { state, remarkable } = (self.kind.recover)(disk, self.options, &self.script.plans)?;
        *self.tally.remarkable.entry(self.kind.script).or_default() += remarkable;
        Ok(state)
    }

    /// Recovers with recording, and verifies the crash states of that: nothing of what was promised before the first crash goes, nor anything that the opened database showed.
    fn crash_again(&mut self, disk: &SimDisk, first_cut: usize, config: &CrashConfig) -> Outcome {
        disk.start_recording();
        let life = Life::new(disk, self.options);
        let (db, shown) = (self.kind.open_and_read)(&life)?;
        let opened = disk.recorded();
        (self.kind.settle)(&life, &db);
        db.flush().map_err(|error| error.to_string())?;
        let recording = disk.take_recording();
        disk.power_off();
        drop(db);
        for state in CrashStates::new(&recording, config.clone()) {
            let Some(disk) = state.disk() else { continue };
            let at = |message: String| {
                format!("second crash after change {} ({:?}), {:?}: {message}", state.cut, state.op, state.model)
            };
            let when = if state.cut < opened { When::Opening } else { When::Settling };
            let class = Class::new(self.kind.script, when, state.model, state.op);
            self.tally.images.entry(state.hash).or_insert(class);
            self.tally.checked += 1;
            let found = self.recover(&disk).map_err(at)?;
            if when == When::Settling && found != shown {
                return Err(at("what the opened database showed is gone".to_owned()));
            }
            verify(&self.script.history, &found, first_cut, CrashModel::SyncedOnly, self.options.durability)
                .map_err(at)?;
        }
        Ok(())
    }
}
