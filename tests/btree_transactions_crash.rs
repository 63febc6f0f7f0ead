//! Crashes beside transactions: unfinished ones leave nothing, prepared ones wait for their decision behind their locks, and a crash during the
//! rollback of one leads to the same end. The mistakes that would break this are made on purpose, and must be seen.

#![expect(clippy::unwrap_used, reason = "a test")]

mod btree_support;

use btree_support::planted::hunt;
use btree_support::{Commit, Draw, History, Life, State, key, new_disk, options, verify};
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::{CrashConfig, CrashModel, CrashStates, Recording, SimDisk};
use siltstone_base::executor::Executor;
use siltstone_base::plant::PlantedBug;
use siltstone_btree::{
    Db, DbOptions, ErrorKind, Isolation, KvCursor, Result as DbResult, Transaction, TransactionOptions, WriteBatch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
type Outcome<T = ()> = Result<T, String>;

/// Names of prepared transactions stand in the states as a tree of this name.
const PREPARED: &str = "prepared";

/// Transactions at once.
const SLOTS: u64 = 3;

fn transaction_options(durability: Durability) -> DbOptions {
    options(durability).lock_timeout_millis(1).max_version_bytes(1000)
}

fn apply(rows: &mut Rows, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => rows.insert(key.clone(), value.clone()),
            None => rows.remove(key),
        };
    }
}

fn read(db: &Db) -> DbResult<Rows> {
    let mut cursor = db.cursor()?;
    let mut rows = Rows::new();
    let mut found = cursor.seek_to_first()?;
    while found {
        rows.insert(cursor.key().to_vec(), cursor.value().to_vec());
        found = cursor.next()?;
    }
    Ok(rows)
}

/// What a script did.
struct Script {
    history: History,
    /// What prepared transactions would change, by their names, of which none is used twice.
    plans: BTreeMap<Vec<u8>, Changes>,
    recording: Recording,
}

struct Runner {
    life: Life,
    db: Db,
    open: Vec<Option<(Transaction, Changes)>>,
    history: History,
    plans: BTreeMap<Vec<u8>, Changes>,
}

impl Runner {
    fn commit(&mut self, change: impl FnOnce(&mut State), call: impl FnOnce(&Db) -> DbResult<()>) {
        let mut next = self.history.last().clone();
        change(&mut next);
        self.history.commits.push(Commit { issued: self.life.disk.recorded(), acked: None });
        self.history.states.push(next);
        match call(&self.db) {
            Ok(()) => self.history.commits.last_mut().unwrap().acked = Some(self.life.disk.recorded()),
            // Of all that may fail here, only the wait for a lock does; it comes before anything is written.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
                self.history.commits.pop();
                self.history.states.pop();
            }
        }
    }

    fn commit_rows(&mut self, changes: &Changes, call: impl FnOnce(&Db) -> DbResult<()>) {
        self.commit(|state| apply(state.get_mut("default").unwrap(), changes), call);
    }

    /// The next change of a transaction. Each slot has keys of its own, which lie between those of the others.
    fn change(&mut self, slot: u64, draw: &mut Draw) {
        let key = key(draw.below(60) * 4 + slot);
        let value = (draw.below(4) > 0).then(|| vec![draw.next() as u8; value_len(draw)]);
        let Some((transaction, changes)) = &mut self.open[slot as usize] else { return };
        let outcome = match &value {
            Some(value) => transaction.put(&key, value),
            None => transaction.delete(&key),
        };
        match outcome {
            Ok(()) => drop(changes.insert(key, value)),
            // A prepared one has it; or it changed since.
            Err(error) => assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Busy), "{error}"),
        }
    }

    fn step(&mut self, draw: &mut Draw) {
        let slot = draw.below(SLOTS);
        let place = slot as usize;
        match draw.below(100) {
            0..45 => {
                if self.open[place].is_none() {
                    let level = if draw.below(2) == 0 { Isolation::Snapshot } else { Isolation::ReadCommitted };
                    let options = TransactionOptions::new(level).lock_timeout(Duration::from_millis(1));
                    self.open[place] = Some((self.db.begin(&options).unwrap(), Changes::new()));
                }
                for _ in 0..=draw.below(6) {
                    self.change(slot, draw);
                }
            }
            45..55 => {
                let Some((transaction, changes)) = self.open[place].take() else { return };
                self.commit_rows(&changes, |_| transaction.commit());
            }
            55..59 => drop(self.open[place].take().map(|(transaction, _)| transaction.rollback().unwrap())),
            59..61 => drop(self.open[place].take()),
            61..66 => {
                let Some((transaction, changes)) = self.open[place].take() else { return };
                let name = format!("name{}", self.plans.len()).into_bytes();
                self.plans.insert(name.clone(), changes);
                let add = |state: &mut State| drop(state.get_mut(PREPARED).unwrap().insert(name.clone(), Vec::new()));
                self.commit(add, |_| transaction.prepare(&name));
            }
            66..71 => {
                let Some(name) = self.db.prepared_transactions().first().cloned() else { return };
                let (is_commit, changes) = (draw.below(2) == 0, self.plans[&name].clone());
                let decide = |state: &mut State| {
                    state.get_mut(PREPARED).unwrap().remove(&name);
                    if is_commit {
                        apply(state.get_mut("default").unwrap(), &changes);
                    }
                };
                let call = |db: &Db| if is_commit { db.commit_prepared(&name) } else { db.rollback_prepared(&name) };
                self.commit(decide, call);
            }
            71..86 => {
                let mut batch = WriteBatch::new();
                let mut changes = Changes::new();
                for _ in 0..=draw.below(4) {
                    let key = key(draw.below(60) * 4 + draw.below(4));
                    let value = (draw.below(3) > 0).then(|| vec![draw.next() as u8; value_len(draw)]);
                    match &value {
                        Some(value) => batch.put(&key, value),
                        None => batch.delete(&key),
                    }
                    changes.insert(key, value);
                }
                self.commit_rows(&changes, |db| db.write(&batch));
            }
            86..89 => self.db.flush().unwrap(),
            _ => self.life.executor.sleep(Duration::from_millis(1 + draw.below(30))),
        }
    }
}

fn value_len(draw: &mut Draw) -> usize {
    let len = if draw.below(20) == 0 { 400 + draw.below(500) } else { draw.below(70) };
    len as usize
}

/// Runs a script with recording.
fn run(seed: u64, len: usize, options: &DbOptions) -> Script {
    let disk = new_disk();
    let life = Life::new(&disk, options);
    disk.start_recording();
    let mut history = History::new();
    history.states[0].insert(PREPARED.to_owned(), BTreeMap::new());
    let db = life.open().unwrap();
    let open = (0..SLOTS).map(|_| None).collect();
    let mut runner = Runner { life, db, open, history, plans: BTreeMap::new() };
    let mut draw = Draw(seed);
    for _ in 0..len {
        runner.step(&mut draw);
    }
    let recording = disk.take_recording();
    disk.power_off();
    let Runner { history, plans, life, .. } = runner;
    life.executor.abandon_all();
    Script { history, plans, recording }
}

/// What is there when the database is open, before anything is undone in the background.
fn open_and_read(life: &Life) -> Outcome<(Db, State)> {
    let db = life.open().map_err(|error| format!("opening failed: {error}"))?;
    let rows = read(&db).map_err(|error| format!("reading failed: {error}"))?;
    let names = db.prepared_transactions().into_iter().map(|name| (name, Vec::new())).collect();
    Ok((db, State::from([("default".to_owned(), rows), (PREPARED.to_owned(), names)])))
}

/// Lets rollbacks and purge end; they may have to wait for room in the redo log.
fn settle(life: &Life, db: &Db) {
    for _ in 0..200 {
        life.executor.run_until_idle();
        if db.rolling_back_len() == 0 && db.history_len() == 0 {
            return;
        }
        life.executor.sleep(Duration::from_millis(20));
    }
}

/// Recovers, lets the rollbacks end, decides about the prepared transactions and checks everything. Returns what was there at first.
fn recover(disk: &SimDisk, options: &DbOptions, plans: &BTreeMap<Vec<u8>, Changes>) -> Outcome<State> {
    let life = Life::new(disk, options);
    let (db, state) = open_and_read(&life)?;
    let mut rows = state["default"].clone();
    settle(&life, &db);
    let expect = |rows: &Rows, when: &str| match read(&db) {
        Ok(found) if found == *rows => Ok(()),
        Ok(_) => Err(format!("other rows {when}")),
        Err(error) => Err(format!("{when}: {error}")),
    };
    expect(&rows, "after the rollback")?;
    if db.rolling_back_len() > 0 {
        return Err("the rollback does not end".to_owned());
    }
    for (index, name) in state[PREPARED].keys().enumerate() {
        let changes = plans.get(name).ok_or("a prepared transaction that never was")?;
        let there: BTreeSet<_> =
            changes.iter().filter(|(key, value)| value.is_some() || rows.contains_key(*key)).collect();
        for (key, _) in there {
            match db.put(key, "taken").map_err(|error| error.kind()) {
                Err(ErrorKind::TimedOut) => {}
                outcome => return Err(format!("a row of a prepared transaction is not locked: {outcome:?}")),
            }
        }
        let decided = if index % 2 == 0 {
            apply(&mut rows, changes);
            db.commit_prepared(name)
        } else {
            db.rollback_prepared(name)
        };
        decided.map_err(|error| format!("the decision failed: {error}"))?;
        expect(&rows, "after the decision")?;
    }
    settle(&life, &db);
    let report = db.check().map_err(|error| format!("the trees are damaged: {error}"))?;
    let counts = (report.rows, report.deleted_rows, report.lost_pages, db.history_len());
    if counts != (rows.len() as u64, 0, 0, 0) || report.undo_records > 1 {
        return Err(format!("something is left: {report:?}, and {} rows", rows.len()));
    }
    Ok(state)
}

/// Crashes again while the unfinished transactions are rolled back.
fn crash_again(disk: &SimDisk, options: &DbOptions, script: &Script, seed: u64) -> Outcome<usize> {
    disk.start_recording();
    let life = Life::new(disk, options);
    let (db, shown) = open_and_read(&life)?;
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
        let found = recover(&disk, options, &script.plans).map_err(|message| format!("second crash: {message}"))?;
        if found != shown {
            return Err("second crash: what the opened database showed is gone".to_owned());
        }
        count += 1;
    }
    Ok(count)
}

#[derive(Debug, Default)]
struct Tally {
    images: BTreeSet<u64>,
    prepared: usize,
    second: usize,
    models: BTreeMap<CrashModel, usize>,
}

fn explore(
    seed: u64,
    len: usize,
    durability: Durability,
    states_per_cut: usize,
    second_every: usize,
) -> Outcome<Tally> {
    let options = transaction_options(durability);
    let script = run(seed, len, &options);
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
            tally.second += crash_again(&disk, &options, &script, seed).map_err(at)?;
        }
        let found = recover(&disk, &options, &script.plans).map_err(at)?;
        tally.prepared += found[PREPARED].len();
        verify(&script.history, &found, state.cut, state.model, durability).map_err(at)?;
    }
    Ok(tally)
}

fn durability_of(seed: u64) -> Durability {
    if seed.is_multiple_of(2) { Durability::Os } else { Durability::Commit }
}

#[test]
fn crashes_leave_what_was_committed_and_what_was_prepared() {
    let mut total = Tally::default();
    for seed in 1..=5 {
        let found = explore(seed, 140, durability_of(seed), 4, 250).unwrap_or_else(|message| panic!("{message}"));
        total.images.extend(found.images);
        total.prepared += found.prepared;
        total.second += found.second;
        for (model, count) in found.models {
            *total.models.entry(model).or_default() += count;
        }
    }
    println!("{} distinct crash states, {} second ones, {:?}", total.images.len(), total.second, total.models);
    println!("{} prepared transactions were found", total.prepared);
    assert!(total.images.len() >= 4000 && total.second >= 500 && total.prepared >= 1000, "{total:?}");
}

fn find(bug: PlantedBug) -> Option<String> {
    hunt(bug, 11..=18, |seed| explore(seed, 140, durability_of(seed), 2, 1000))
}

planted! {
    find:
    a_rollback_that_stops_halfway: RollbackStopsHalfway;
    recovered_locks_that_are_lost: RecoveredLocksAreLost;
    a_prepared_transaction_that_is_lost: PreparedIsLost;
}
