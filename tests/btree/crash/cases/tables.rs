//! Crashes beside tables: rows and entries come back together, unfinished and prepared transactions included, and a table, or an index that is added to one, is there as a whole or not at all. Entries that
//! a rollback forgets must be seen.

use super::extent;
use crate::support::classes::Tally;
use crate::support::explore::{
    Changes, Extent, Kind, Outcome, PREPARED, Plans, Recovered, Rows, Script, apply, commit, explore, settle,
};
use crate::support::planted::hunt;
use crate::support::{Draw, History, Life, State, key, new_disk, options};
use siltstone_base::engine::{Durability, Row, RowChange, TableId, TableSpec};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::Executor;
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::plant::PlantedBug;
use siltstone_btree::{Db, DbOptions, ErrorKind, Isolation, Result as DbResult, Transaction, TransactionOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What becomes of a row of a table.
type Draft<'a> = (&'a str, Vec<u8>, Option<Vec<u8>>);

const ROWS: &str = "rows";
const OTHER: &str = "other";
/// Under this name stands the index of the first table that comes and goes, while it is there.
const ADDED: &str = "the added index";

/// Columns of a value, each of an index; the last one of the index that comes and goes.
const COLUMNS: [std::ops::Range<usize>; 3] = [0..2, 2..6, 1..6];

/// The most changes of one batch: an eighth of the pool's pages.
const MOST: usize = 12;

/// Transactions at once.
const SLOTS: u64 = 2;

fn spec(name: &str) -> TableSpec {
    let by_kind = IndexSpec::over_columns("by_kind", Some(0..2));
    let by_number = IndexSpec::over_columns("by_number", Some(2..6)).unique(true);
    TableSpec { name: name.to_owned(), indexes: vec![by_kind, by_number] }
}

fn table_options(durability: Durability) -> DbOptions {
    options(durability)
        .buffer_pool_bytes(8 * MOST * 512)
        .redo_capacity_bytes(96 << 10)
        .lock_timeout_millis(1)
        .max_version_bytes(1000)
}

/// A value for a key. Its number is no other key's.
fn value(draw: &mut Draw, number: u64) -> Vec<u8> {
    let len = if draw.below(25) == 0 { 300 + draw.below(400) } else { draw.below(50) };
    let mut value = format!("k{}{number:03}{}", draw.below(4), draw.below(3)).into_bytes();
    value.resize(6 + len as usize, draw.next() as u8);
    if draw.below(8) == 0 {
        value.truncate(draw.below(6) as usize);
    }
    value
}

fn added() -> IndexSpec {
    IndexSpec::over_columns("added", Some(1..6)).unique(true)
}

/// Opens a table with two indexes or three. Returns whether it has three.
fn open_either(db: &Db, name: &str) -> DbResult<(TableId, bool)> {
    let plain = spec(name);
    match db.open_table(&plain) {
        Err(error) if error.kind() == ErrorKind::InvalidArgument => {
            let mut grown = plain;
            grown.indexes.push(added());
            Ok((db.open_table(&grown)?, true))
        }
        outcome => Ok((outcome?, false)),
    }
}

/// Rows of a table, whose entries must be theirs, and whether the added index is there; `None`: there is no such table.
fn read(db: &Db, name: &str) -> Outcome<Option<(Rows, bool)>> {
    let text = |error: siltstone_btree::Error| format!("reading {name}: {error}");
    let (table, has_added) = match open_either(db, name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        table => table.map_err(text)?,
    };
    let mut rows = Rows::new();
    let mut note = |row: Row<'_>| drop(rows.insert(row.primary_key.to_vec(), row.value.to_vec()));
    db.scan_rows(table, b"", usize::MAX, &mut note).map_err(text)?;
    for (index, column) in COLUMNS.into_iter().take(2 + usize::from(has_added)).enumerate() {
        let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| Some([value.get(column.clone())?, key].concat());
        let expected: BTreeSet<Vec<u8>> = rows.iter().filter_map(entry).collect();
        let mut found = Vec::new();
        db.scan_index(table, index, b"", usize::MAX, &mut |entry| found.push(entry.to_vec())).map_err(text)?;
        if !found.iter().eq(&expected) {
            return Err(format!("index {index} of {name} does not fit its rows"));
        }
    }
    Ok(Some((rows, has_added)))
}

fn read_all(db: &Db) -> Outcome<State> {
    let names = db.prepared_transactions().into_iter().map(|name| (name, Vec::new())).collect();
    let mut state = State::from([("default".to_owned(), BTreeMap::new()), (PREPARED.to_owned(), names)]);
    for name in [ROWS, OTHER] {
        if let Some((rows, has_added)) = read(db, name)? {
            state.insert(name.to_owned(), rows);
            state.extend(has_added.then(|| (ADDED.to_owned(), Rows::new())));
        }
    }
    Ok(state)
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

    /// Takes note that everything so far is durable.
    fn promise(&mut self) {
        self.history.barriers.push((self.history.commits.len(), self.life.disk.recorded()));
    }

    fn toggle(&mut self, name: &str) {
        let is_there = self.history.last().contains_key(name);
        let change = |state: &mut State| match is_there {
            true => drop(state.remove(name)),
            false => drop(state.insert(name.to_owned(), Rows::new())),
        };
        self.commit(change, |db| match is_there {
            true => db.drop_table(open_either(db, name)?.0),
            false => db.create_table(&spec(name)).map(drop),
        });
        self.promise();
    }

    fn table(&self, name: &str) -> TableId {
        open_either(&self.db, name).unwrap().0
    }

    /// Adds an index to the first table, or drops it. Nobody who changed the table may be there; prepared transactions are.
    fn toggle_index(&mut self) {
        if !self.history.last()[PREPARED].is_empty() {
            return;
        }
        for (transaction, _) in self.open.iter_mut().filter_map(Option::take) {
            transaction.rollback().unwrap();
        }
        let table = self.table(ROWS);
        let is_there = self.history.last().contains_key(ADDED);
        let change = |state: &mut State| match is_there {
            true => drop(state.remove(ADDED)),
            false => drop(state.insert(ADDED.to_owned(), Rows::new())),
        };
        self.commit(change, |db| match is_there {
            true => db.drop_index(table, "added"),
            false => db.add_index(table, &added()).map(drop),
        });
        self.promise();
    }

    /// The next change of a transaction. Each slot has keys of its own, which lie between those of the others.
    fn change(&mut self, slot: u64, draw: &mut Draw) {
        let number = draw.below(30) * 3 + slot;
        let (key, value) = (key(number), value(draw, number));
        let mut rows = self.history.last()[ROWS].clone();
        let table = self.table(ROWS);
        let Some((transaction, changes)) = &mut self.open[slot as usize] else { return };
        apply(&mut rows, changes);
        let row = Row { primary_key: &key, value: &value };
        let (outcome, new) = match (rows.contains_key(&key), draw.below(3)) {
            (false, _) => (transaction.insert_row(table, row), Some(value)),
            (true, 0) => (transaction.delete_row(table, &key).map(drop), None),
            (true, _) => (transaction.update_row(table, row), Some(value)),
        };
        match outcome {
            Ok(()) => drop(changes.insert(key, new)),
            // A prepared one has it; or it changed since.
            Err(error) => assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Busy), "{error}"),
        }
    }

    /// The changes of trees that a change of a row comes to.
    fn changes_of(&self, name: &str, old: Option<&Vec<u8>>, new: Option<&Vec<u8>>) -> usize {
        let has_added = name == ROWS && self.history.last().contains_key(ADDED);
        let of = |column: &std::ops::Range<usize>| {
            let [old, new] = [old, new].map(|value| value.and_then(|value| value.get(column.clone())));
            if old == new { 0 } else { usize::from(old.is_some()) + usize::from(new.is_some()) }
        };
        1 + COLUMNS.iter().take(2 + usize::from(has_added)).map(of).sum::<usize>()
    }

    fn batch(&mut self, draw: &mut Draw) {
        let committed = self.history.last()[ROWS].clone();
        let verb = draw.below(3);
        let mut drafts = Rows::new();
        for _ in 0..=draw.below(2) {
            let number = draw.below(30) * 3 + draw.below(3);
            let key = key(number);
            if committed.contains_key(&key) == (verb > 0) {
                drafts.insert(key, value(draw, number));
            }
        }
        let cost =
            |(key, value): (&Vec<u8>, &Vec<u8>)| self.changes_of(ROWS, committed.get(key), (verb < 2).then_some(value));
        while drafts.iter().map(cost).sum::<usize>() > MOST {
            drafts.pop_last();
        }
        if drafts.is_empty() {
            return;
        }
        let new: Vec<_> = drafts.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        let old = new.iter().filter_map(|row| {
            let (primary_key, value) = committed.get_key_value(row.primary_key)?;
            Some(Row { primary_key, value })
        });
        let old: Vec<_> = old.collect();
        let changes = drafts.iter().map(|(key, value)| (key.clone(), (verb < 2).then(|| value.clone()))).collect();
        self.commit(
            |state| apply(state.get_mut(ROWS).unwrap(), &changes),
            |db| {
                let table = open_either(db, ROWS)?.0;
                match verb {
                    0 => db.insert(table, &new),
                    1 => db.update_rows(table, &old.iter().copied().zip(new.iter().copied()).collect::<Vec<_>>()),
                    _ => db.delete_rows(table, &old),
                }
            },
        );
    }

    /// The same rows of both tables in one commit.
    fn commit_both(&mut self, draw: &mut Draw) {
        let committed = self.history.last().clone();
        let names: Vec<&str> = [ROWS, OTHER].into_iter().filter(|name| committed.contains_key(*name)).collect();
        let mut drafts: Vec<Draft<'_>> = Vec::new();
        for number in BTreeSet::from([draw.below(90), draw.below(90)]) {
            let (key, value) = (key(number), (draw.below(3) > 0).then(|| value(draw, number)));
            for name in &names {
                if value.is_some() || committed[*name].contains_key(&key) {
                    drafts.push((name, key.clone(), value.clone()));
                }
            }
        }
        let cost = |(name, key, value): &Draft<'_>| self.changes_of(name, committed[*name].get(key), value.as_ref());
        while drafts.iter().map(cost).sum::<usize>() > MOST {
            drafts.pop();
        }
        let call = |db: &Db| {
            let mut changes = Vec::new();
            for (name, primary_key, value) in &drafts {
                let new = value.as_ref().map(|value| Row { primary_key, value });
                let old = committed[*name].get(primary_key).map(|value| Row { primary_key, value });
                let change = match (old, new) {
                    (Some(old), Some(new)) => RowChange::Update(old, new),
                    (Some(old), None) => RowChange::Delete(old),
                    (None, Some(new)) => RowChange::Insert(new),
                    (None, None) => continue,
                };
                changes.push((open_either(db, name)?.0, change));
            }
            db.commit_rows(&changes)
        };
        let change = |state: &mut State| {
            for (name, key, value) in &drafts {
                apply(state.get_mut(*name).unwrap(), &Changes::from([(key.clone(), value.clone())]));
            }
        };
        if !drafts.is_empty() {
            self.commit(change, call);
        }
    }

    fn step(&mut self, draw: &mut Draw) {
        let slot = draw.below(SLOTS);
        let place = slot as usize;
        match draw.below(100) {
            0..40 => {
                if self.open[place].is_none() {
                    let level = if draw.below(2) == 0 { Isolation::Snapshot } else { Isolation::ReadCommitted };
                    let options = TransactionOptions::new(level).lock_timeout(Duration::from_millis(1));
                    self.open[place] = Some((self.db.begin(&options).unwrap(), Changes::new()));
                }
                for _ in 0..=draw.below(4) {
                    self.change(slot, draw);
                }
            }
            40..51 => {
                let Some((transaction, changes)) = self.open[place].take() else { return };
                self.commit(|state| apply(state.get_mut(ROWS).unwrap(), &changes), |_| transaction.commit());
            }
            51..56 => drop(self.open[place].take().map(|(transaction, _)| transaction.rollback().unwrap())),
            56..58 => drop(self.open[place].take()),
            58..63 => {
                let Some((transaction, changes)) = self.open[place].take() else { return };
                let name = format!("name{}", self.plans.len()).into_bytes();
                self.plans.insert(name.clone(), changes);
                let add = |state: &mut State| drop(state.get_mut(PREPARED).unwrap().insert(name.clone(), Vec::new()));
                self.commit(add, |_| transaction.prepare(&name));
            }
            63..68 => {
                let Some(name) = self.db.prepared_transactions().first().cloned() else { return };
                let (is_commit, changes) = (draw.below(2) == 0, self.plans[&name].clone());
                let decide = |state: &mut State| {
                    state.get_mut(PREPARED).unwrap().remove(&name);
                    if is_commit {
                        apply(state.get_mut(ROWS).unwrap(), &changes);
                    }
                };
                let call = |db: &Db| if is_commit { db.commit_prepared(&name) } else { db.rollback_prepared(&name) };
                self.commit(decide, call);
            }
            68..78 => self.batch(draw),
            78..86 => self.commit_both(draw),
            86..88 => self.toggle(OTHER),
            88..90 => self.db.flush().unwrap(),
            90..93 => self.toggle_index(),
            _ => self.life.executor.sleep(Duration::from_millis(1 + draw.below(30))),
        }
    }
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
    runner.toggle(ROWS);
    runner.toggle(OTHER);
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
    let state = read_all(&db)?;
    Ok((db, state))
}

/// Recovers, lets the rollbacks end, decides about the prepared transactions and checks everything. Returns what was there at first.
fn recover(disk: &SimDisk, options: &DbOptions, plans: &Plans) -> Outcome<Recovered> {
    let life = Life::new(disk, options);
    let (db, state) = open_and_read(&life)?;
    let check = |db: &Db| db.check().map_err(|error| format!("the trees are damaged: {error}"));
    check(&db)?;
    let mut expected = state.clone();
    settle(&life, &db);
    let expect = |expected: &State, when: &str| match read_all(&db)? {
        found if found == *expected => Ok(()),
        _ => Err(format!("other rows {when}")),
    };
    expect(&expected, "after the rollback")?;
    if db.rolling_back_len() > 0 {
        return Err("the rollback does not end".to_owned());
    }
    for (index, name) in state[PREPARED].keys().enumerate() {
        let changes = plans.get(name).ok_or("a prepared transaction that never was")?;
        expected.get_mut(PREPARED).unwrap().remove(name);
        let decided = if index % 2 == 0 {
            let rows = expected.get_mut(ROWS).ok_or("a prepared transaction of a table that is not there")?;
            apply(rows, changes);
            db.commit_prepared(name)
        } else {
            db.rollback_prepared(name)
        };
        decided.map_err(|error| format!("the decision failed: {error}"))?;
        expect(&expected, "after the decision")?;
    }
    settle(&life, &db);
    let report = check(&db)?;
    let rows: usize = [ROWS, OTHER].iter().filter_map(|name| expected.get(*name)).map(BTreeMap::len).sum();
    let counts = (report.rows, report.deleted_rows, report.lost_pages, db.history_len());
    if counts != (rows as u64, 0, 0, 0) || report.undo_records > 1 {
        return Err(format!("something is left: {report:?}, and {rows} rows"));
    }
    let remarkable = state[PREPARED].len();
    Ok(Recovered { state, remarkable })
}

const KIND: Kind = Kind { script: "tables", open_and_read, settle, recover };

pub fn look(seed: u64, extent: &Extent) -> Outcome<Tally> {
    let durability = if seed.is_multiple_of(2) { Durability::Os } else { Durability::Commit };
    let options = table_options(durability);
    explore(&KIND, &run(seed, 120, &options), &options, extent)
}

fn find(bug: PlantedBug) -> Option<String> {
    hunt(bug, 11..=18, |seed| look(seed, &extent(seed, 2, 1000)))
}

crate::planted! {
    find:
    entries_that_recovery_does_not_roll_back: EntryIsNotRolledBack;
    an_added_index_that_is_not_synced: LoadIsNotSynced;
}
