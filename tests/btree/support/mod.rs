//! The B-tree engine on a simulated disk: a history of commits, and what a disk may show of it.
#![allow(dead_code, reason = "each test binary uses a part")]
#![expect(clippy::unwrap_used, reason = "a test")]

pub mod classes;
pub mod explore;
pub mod faults;
pub mod meanwhile;
pub mod planted;
pub mod seeds;
pub mod table;

use classes::Tally;
use explore::{Extent, Kind, Outcome, Plans, Recovered, Script, explore};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::{CrashModel, Recording, SimDisk};
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_btree::{Db, DbOptions, KvCursor, Result, TreeHandle, WriteBatch};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use table::{TABLE, Verb};

pub const DIR: &str = "/db";

/// The contents of all trees.
pub type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// One step of a script.
#[derive(Debug, Clone)]
pub enum Op {
    Put(u8, Vec<u8>, Vec<u8>),
    Delete(u8, Vec<u8>),
    Batch(Vec<(u8, Vec<u8>, Option<Vec<u8>>)>),
    Sync,
    Flush,
    CreateTree,
    DropTree,
    Truncate(u8),
    /// Empties a tree and loads so many rows from a key on, with these values.
    Load(u8, u64, Vec<Vec<u8>>),
    Pause(u64),
    Reopen,
    /// Changes rows of the table, those for which that has a meaning.
    Rows(Verb, Vec<(u64, Vec<u8>)>),
    /// Reads so many entries of an index of the table from somewhere on.
    Scan(usize, u64, usize),
    MergeChanges,
}

/// A small generator; the seed alone decides.
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// The key of a number: neighbours share long prefixes.
pub fn key(number: u64) -> Vec<u8> {
    format!("row{:05}", number).into_bytes()
}

fn value(draw: &mut Draw) -> Vec<u8> {
    let len = match draw.below(30) {
        0 => 700 + draw.below(900),
        1..4 => 150,
        _ => draw.below(120),
    };
    let byte = draw.next() as u8;
    vec![byte; len as usize]
}

/// A script of `len` steps over `keys` keys.
pub fn script(seed: u64, len: usize, keys: u64, with_reopen: bool) -> Vec<Op> {
    let mut draw = Draw(seed);
    let draw = &mut draw;
    (0..len)
        .map(|_| {
            let tree = u8::from(draw.below(4) == 0);
            match draw.below(100) {
                0..50 => Op::Put(tree, key(draw.below(keys)), value(draw)),
                50..72 => Op::Delete(tree, key(draw.below(keys))),
                72..86 => {
                    let count = 1 + draw.below(7);
                    let change = |draw: &mut Draw| {
                        let tree = u8::from(draw.below(4) == 0);
                        let key = key(draw.below(keys));
                        (tree, key, if draw.below(3) == 0 { None } else { Some(value(draw)) })
                    };
                    Op::Batch((0..count).map(|_| change(draw)).collect())
                }
                86..89 => Op::Sync,
                89..91 => Op::Flush,
                91..93 => Op::CreateTree,
                93..94 => Op::DropTree,
                94..95 => Op::Truncate(tree),
                95..96 => {
                    let count = draw.below(60);
                    Op::Load(tree, draw.below(keys), (0..count).map(|_| value(draw)).collect())
                }
                96..99 => Op::Pause(1 + draw.below(60)),
                _ if with_reopen => Op::Reopen,
                _ => Op::Pause(2_000),
            }
        })
        .collect()
}

/// Options of a small database.
pub fn options(durability: Durability) -> DbOptions {
    DbOptions::default()
        .create_if_missing(true)
        .page_size(512)
        .buffer_pool_bytes(64 * 512)
        .redo_capacity_bytes(48 << 10)
        .page_cleaners(2)
        .doublewrite_pages(16)
        .durability(durability)
}

/// One life of an engine on a disk.
pub struct Life {
    pub disk: SimDisk,
    pub executor: Arc<StepExecutor>,
    options: DbOptions,
}

impl Life {
    pub fn new(disk: &SimDisk, options: &DbOptions) -> Self {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
        Self { disk: disk.clone(), executor, options: options.clone() }
    }

    pub fn open(&self) -> Result<Db> {
        let executor: Arc<dyn Executor> = self.executor.clone();
        Db::open(DIR, &self.options.clone().env(Some(self.disk.env())).executor(Some(executor)))
    }
}

/// A disk with an empty directory.
pub fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    disk
}

/// Reads everything, forwards, backwards and by key.
pub fn read_all(db: &Db) -> Result<State> {
    let mut state = State::new();
    for name in db.tree_names() {
        let Some(tree) = db.tree(&name) else { continue };
        state.insert(name, read_tree(db, &tree)?);
    }
    table::read(db, &mut state)?;
    Ok(state)
}

fn read_tree(db: &Db, tree: &TreeHandle) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut cursor = db.cursor_in(tree)?;
    let (mut rows, mut backward) = (Vec::new(), Vec::new());
    let mut found = cursor.seek_to_first()?;
    while found {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        found = cursor.next()?;
    }
    let mut found = cursor.seek_to_last()?;
    while found {
        backward.push((cursor.key().to_vec(), cursor.value().to_vec()));
        found = cursor.prev()?;
    }
    backward.reverse();
    if rows != backward {
        return Err(siltstone_btree::Error::corrupt("the two directions disagree"));
    }
    for (key, value) in &rows {
        if db.get_in(tree, key)?.as_ref() != Some(value) {
            return Err(siltstone_btree::Error::corrupt("scans and gets disagree"));
        }
    }
    Ok(rows.into_iter().collect())
}

/// One commit: positions count the changes that the disk had recorded.
#[derive(Debug, Clone)]
pub struct Commit {
    pub issued: usize,
    pub acked: Option<usize>,
}

/// What was asked of an engine, and what it means.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The state after every prefix of the commits.
    pub states: Vec<State>,
    pub commits: Vec<Commit>,
    /// Promises: so many commits are durable, made when so many changes were recorded.
    pub barriers: Vec<(usize, usize)>,
}

impl History {
    pub fn new() -> Self {
        let state = State::from([("default".to_owned(), BTreeMap::new())]);
        Self { states: vec![state], commits: Vec::new(), barriers: Vec::new() }
    }

    pub fn last(&self) -> &State {
        &self.states[self.states.len() - 1]
    }

    /// How many commits must be there after a crash.
    pub fn promised(&self, cut: usize, model: CrashModel, durability: Durability) -> usize {
        let everything = model == CrashModel::ProcessDeath || durability == Durability::Commit;
        let acked = |commit: &Commit| commit.acked.is_some_and(|acked| acked <= cut);
        let commits = self.commits.iter().rposition(acked).map_or(0, |last| last + 1);
        let barrier = self.barriers.iter().filter(|(_, made)| *made <= cut).map(|(commits, _)| *commits).max();
        if everything { commits } else { barrier.unwrap_or(0) }
    }

    /// How many commits may be there.
    pub fn possible(&self, cut: usize) -> usize {
        // One that changed nothing on the disk is there at once.
        let may = |commit: &&Commit| commit.issued < cut || commit.acked.is_some_and(|acked| acked <= cut);
        self.commits.iter().take_while(may).count()
    }
}

/// A script at work.
pub struct Runner {
    pub life: Life,
    pub db: Option<Db>,
    pub history: History,
    /// What the last call that failed would have led to.
    pub failed: Option<State>,
}

impl Runner {
    pub fn new(life: Life) -> Result<Self> {
        let db = Some(life.open()?);
        Ok(Self { life, db, history: History::new(), failed: None })
    }

    fn tree(&self, number: u8) -> TreeHandle {
        let db = self.db.as_ref().unwrap();
        let other = if number == 0 { None } else { db.tree("other") };
        other.unwrap_or_else(|| db.default_tree())
    }

    fn commit(&mut self, next: State, call: impl FnOnce(&Db) -> Result<()>, is_synced: bool) -> Result<()> {
        let issued = self.life.disk.recorded();
        self.history.commits.push(Commit { issued, acked: None });
        self.history.states.push(next);
        let outcome = call(self.db.as_ref().unwrap());
        match &outcome {
            Ok(()) => {
                let acked = self.life.disk.recorded();
                if let Some(commit) = self.history.commits.last_mut() {
                    commit.acked = Some(acked);
                }
                if is_synced {
                    self.history.barriers.push((self.history.commits.len(), acked));
                }
            }
            Err(_) => {
                // What failed did not happen; whether it reached the disk is open only if the log failed.
                self.history.commits.pop();
                self.failed = self.history.states.pop();
            }
        }
        outcome
    }

    /// Does one step.
    pub fn step(&mut self, op: &Op) -> Result<()> {
        let mut next = self.history.last().clone();
        let set = |next: &mut State, name: &str, key: &[u8], value: Option<&Vec<u8>>| {
            let rows = next.get_mut(name).unwrap();
            match value {
                Some(value) => rows.insert(key.to_vec(), value.clone()),
                None => rows.remove(key),
            };
        };
        match op {
            Op::Put(tree, key, value) => {
                let tree = self.tree(*tree);
                set(&mut next, tree.name(), key, Some(value));
                self.commit(next, |db| db.put_in(&tree, key, value), false)
            }
            Op::Delete(tree, key) => {
                let tree = self.tree(*tree);
                set(&mut next, tree.name(), key, None);
                self.commit(next, |db| db.delete_in(&tree, key), false)
            }
            Op::Batch(changes) => {
                let mut batch = WriteBatch::new();
                for (tree, key, value) in changes {
                    let tree = self.tree(*tree);
                    set(&mut next, tree.name(), key, value.as_ref());
                    match value {
                        Some(value) => batch.put_in(&tree, key, value),
                        None => batch.delete_in(&tree, key),
                    }
                }
                self.commit(next, |db| db.write(&batch), false)
            }
            Op::CreateTree if next.contains_key("other") => Ok(()),
            Op::CreateTree => {
                next.insert("other".to_owned(), BTreeMap::new());
                self.commit(next, |db| db.create_tree("other").map(drop), true)
            }
            Op::DropTree if !next.contains_key("other") => Ok(()),
            Op::DropTree => {
                next.remove("other");
                self.commit(next, |db| db.drop_tree("other"), true)
            }
            Op::Truncate(tree) => {
                let tree = self.tree(*tree);
                next.insert(tree.name().to_owned(), BTreeMap::new());
                self.commit(next, |db| db.truncate(&tree), true)
            }
            Op::Load(tree, first, values) => {
                self.step(&Op::Truncate(*tree))?;
                let tree = self.tree(*tree);
                let mut next = self.history.last().clone();
                let rows: BTreeMap<_, _> =
                    (*first..).zip(values).map(|(number, value)| (key(number), value.clone())).collect();
                next.insert(tree.name().to_owned(), rows.clone());
                self.commit(next, |db| db.bulk_load(&tree, &rows).map(drop), true)
            }
            Op::Rows(verb, rows) => {
                let Some(now) = next.get(TABLE).cloned() else { return Ok(()) };
                let drafts = table::drafts(*verb, rows, &now);
                if drafts.is_empty() {
                    return Ok(());
                }
                for (key, value) in &drafts {
                    set(&mut next, TABLE, key, (*verb != Verb::Delete).then_some(value));
                }
                self.commit(next, |db| table::apply(db, *verb, &drafts, &now), false)
            }
            Op::Scan(index, from, most) => match next.get(TABLE) {
                Some(rows) => table::scan(self.db.as_ref().unwrap(), *index, *from, *most, rows),
                None => Ok(()),
            },
            Op::MergeChanges => self.db.as_ref().unwrap().merge_changes(),
            Op::Sync | Op::Flush => {
                let db = self.db.as_ref().unwrap();
                if matches!(op, Op::Sync) {
                    db.sync()?
                } else {
                    db.flush()?
                }
                self.history.barriers.push((self.history.commits.len(), self.life.disk.recorded()));
                Ok(())
            }
            Op::Pause(millis) => {
                self.life.executor.sleep(Duration::from_millis(*millis));
                Ok(())
            }
            Op::Reopen => {
                if let Some(db) = self.db.take() {
                    db.close()?;
                }
                self.history.barriers.push((self.history.commits.len(), self.life.disk.recorded()));
                self.db = Some(self.life.open()?);
                Ok(())
            }
        }
    }
}

/// Opens what is left, reads and checks all of it. Returns the state, and how many changes had been recorded when it was open.
pub fn recover(disk: &SimDisk, options: &DbOptions) -> std::result::Result<State, String> {
    let life = Life::new(disk, options);
    let db = life.open().map_err(|error| format!("opening failed: {error}"))?;
    let state = read_all(&db).map_err(|error| format!("reading failed: {error}"))?;
    let report = db.check().map_err(|error| format!("the trees are damaged: {error}"))?;
    let rows: usize = state.values().map(BTreeMap::len).sum();
    if report.rows != rows as u64 {
        return Err(format!("the check counts {} rows of {rows}", report.rows));
    }
    Ok(state)
}

/// Runs a script with recording.
pub fn run(ops: &[Op], options: &DbOptions) -> std::result::Result<(History, Recording), String> {
    let disk = new_disk();
    let life = Life::new(&disk, options);
    disk.start_recording();
    let mut runner = Runner::new(life).map_err(|error| error.to_string())?;
    for op in ops {
        let name = || format!("{op:?}").chars().take(60).collect::<String>();
        runner.step(op).map_err(|error| format!("{} failed: {error}", name()))?;
    }
    let recording = disk.take_recording();
    disk.power_off();
    runner.db = None;
    runner.life.executor.abandon_all();
    Ok((runner.history, recording))
}

/// Scripts of steps.
const ROWS: Kind = Kind {
    script: "rows",
    open_and_read: |life| {
        let db = life.open().map_err(|error| format!("opening failed: {error}"))?;
        let state = read_all(&db).map_err(|error| format!("reading failed: {error}"))?;
        Ok((db, state))
    },
    settle: |life, _| {
        life.executor.run_until_idle();
    },
    recover: |disk, options, _| Ok(Recovered { state: recover(disk, options)?, remarkable: 0 }),
};

/// Runs a script of steps, and verifies its crash states.
pub fn explore_steps(ops: &[Op], options: &DbOptions, extent: &Extent) -> Outcome<Tally> {
    let (history, recording) = run(ops, options)?;
    explore(&ROWS, &Script { history, plans: Plans::new(), recording }, options, extent)
}

pub fn verify(
    history: &History,
    found: &State,
    cut: usize,
    model: CrashModel,
    durability: Durability,
) -> std::result::Result<usize, String> {
    let (promised, possible) = (history.promised(cut, model, durability), history.possible(cut));
    let matching = |range: std::ops::RangeInclusive<usize>| range.rev().find(|n| history.states[*n] == *found);
    matching(promised..=possible).ok_or_else(|| match matching(0..=history.commits.len()) {
        Some(commits) => format!("{commits} commits are there; {promised} were promised, {possible} possible"),
        None => format!("no prefix of the commits; {promised} were promised, {possible} possible"),
    })
}
