//! Crashes beside transactions: unfinished ones leave nothing, prepared ones wait for their decision behind their locks, and a crash during the
//! rollback of one leads to the same end. The mistakes that would break this are made on purpose, and must be seen.

use super::extent;
use crate::support::classes::Tally;
use crate::support::explore::{
    Changes, Extent, Kind, Outcome, PREPARED, Plans, Recovered, Rows, Script, apply, commit, explore, settle,
};
use crate::support::planted::hunt;
use crate::support::{Draw, History, Life, State, key, new_disk, options};
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::Executor;
use siltstone_base::plant::PlantedBug;
use siltstone_btree::{
    Db, DbOptions, ErrorKind, Isolation, KvCursor, Result as DbResult, Transaction, TransactionOptions, WriteBatch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Transactions at once.
const SLOTS: u64 = 3;

fn transaction_options(durability: Durability) -> DbOptions {
    options(durability).lock_timeout_millis(1).max_version_bytes(1000)
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

struct Runner {
    life: Life,
    db: Db,
    open: Vec<Option<(Transaction, Changes)>>,
    history: History,
    plans: Plans,
}

impl Runner {
    fn commit(&mut self, change: impl FnOnce(&mut State), call: impl FnOnce(&Db) -> DbResult<()>) {
        commit(&mut self.history, &self.life.disk, change, || call(&self.db));
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

/// Recovers, lets the rollbacks end, decides about the prepared transactions and checks everything. Returns what was there at first.
fn recover(disk: &SimDisk, options: &DbOptions, plans: &Plans) -> Outcome<Recovered> {
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
    let remarkable = state[PREPARED].len();
    Ok(Recovered { state, remarkable })
}

const KIND: Kind = Kind { script: "transactions", open_and_read, settle, recover };

pub fn look(seed: u64, extent: &Extent) -> Outcome<Tally> {
    let durability = if seed.is_multiple_of(2) { Durability::Os } else { Durability::Commit };
    let options = transaction_options(durability);
    explore(&KIND, &run(seed, 140, &options), &options, extent)
}

fn find(bug: PlantedBug) -> Option<String> {
    hunt(bug, 11..=18, |seed| look(seed, &extent(seed, 2, 1000)))
}

crate::planted! {
    find:
    a_rollback_that_stops_halfway: RollbackStopsHalfway;
    recovered_locks_that_are_lost: RecoveredLocksAreLost;
    a_prepared_transaction_that_is_lost: PreparedIsLost;
}
