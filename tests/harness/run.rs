//! Doing what a script says, and keeping the history of it.

use super::Outcome;
use super::model::{Barrier, Change, Commit, FamilyLife, History, State};
use super::rig::{FAMILIES, Profile, Rig};
use super::script::{Script, Step};
use super::verify::{read_all, read_family};
use siltstone_base::env::sim::{Recording, SimDisk};
use siltstone_lsm::{
    ColumnFamily, CompactRangeOptions, Db, Error, FlushOptions, ReadOptions, Snapshot, WriteBatch, WriteOptions,
};
use std::ops::Range;

/// An engine that does what it is told, and the history of it.
#[derive(Debug)]
pub struct Runner {
    /// Where the engine lives.
    pub rig: Rig,
    /// What was asked of it.
    pub history: History,
    /// The engine, while it is open.
    pub db: Option<Db>,
    families: Vec<Option<ColumnFamily>>,
    snapshots: Vec<(Snapshot, State)>,
    /// Batches asked for, whether they are part of the history still or not.
    issued: usize,
}

/// Why a step ended early.
#[derive(Debug)]
pub enum Stopped {
    /// The engine refused or failed it.
    Failed(Error),
    /// The engine did it wrong.
    Wrong(String),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<String> for Stopped {
    fn from(message: String) -> Self {
        Self::Wrong(message)
    }
}

impl Stopped {
    /// The message of either.
    pub fn message(self) -> String {
        match self {
            Self::Failed(error) => format!("a call failed: {error}"),
            Self::Wrong(message) => message,
        }
    }
}

/// The key of this number.
pub fn key(number: u32) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

impl Runner {
    /// A runner on `disk` whose engine is not open yet.
    pub fn new(disk: SimDisk, profile: &Profile) -> Self {
        let families = FAMILIES.iter().map(|_| None).collect();
        let rig = Rig::new(disk, profile);
        Self { rig, history: History::default(), db: None, families, snapshots: Vec::new(), issued: 0 }
    }

    fn now(&self) -> usize {
        self.rig.disk.recorded()
    }

    /// Opens the engine.
    pub fn open(&mut self) -> Result<(), Error> {
        let issued = self.now();
        let db = self.rig.open()?;
        let acked = self.now();
        for (slot, name) in FAMILIES.iter().enumerate() {
            self.families[slot] = db.family(name);
            if let Some(family) = &self.families[slot] {
                // A creation that was reported as failed may have happened.
                let life = FamilyLife { name: (*name).to_owned(), create: (issued, acked), drop: None };
                self.history.families.entry(family.id().0).or_insert(life);
            }
        }
        self.db = Some(db);
        Ok(())
    }

    fn db(&self) -> Result<Db, Stopped> {
        self.db.clone().ok_or_else(|| Stopped::Wrong("the engine is not open".into()))
    }

    /// Does one step.
    pub fn step(&mut self, step: &Step) -> Result<(), Stopped> {
        let db = self.db()?;
        match step {
            Step::Write { changes, sync } => self.write(&db, changes, *sync)?,
            Step::DeleteRange { slot, from, to, sync } => self.delete_range(&db, *slot, *from..*to, *sync)?,
            Step::Flush(slots) => {
                let families: Vec<ColumnFamily> =
                    slots.iter().filter_map(|slot| self.families[*slot].clone()).collect();
                let commits = self.commits_of(&families);
                db.flush_families(&families.iter().collect::<Vec<_>>(), &FlushOptions::default())?;
                self.history.barriers.push(Barrier { commits, acked: self.now() });
            }
            Step::SyncWal => {
                db.sync_wal()?;
                self.history.barriers.push(Barrier { commits: self.history.commits.len(), acked: self.now() });
            }
            Step::Compact(slot) => {
                if let Some(family) = &self.families[*slot] {
                    db.compact_range(family, None, None, &CompactRangeOptions::default())?;
                }
            }
            Step::Idle => db.wait_for_background_work()?,
            Step::Work(steps) => {
                for _ in 0..*steps {
                    self.rig.executor.step();
                }
            }
            Step::Create(slot) => self.create(&db, *slot)?,
            Step::Drop(slot) => self.drop_family(&db, *slot)?,
            Step::Reopen => {
                drop(db);
                self.close()?;
                self.open()?;
            }
            Step::TakeSnapshot => {
                let mut state = self.history.state_after(0);
                for commit in self.history.commits.iter().filter(|commit| commit.acked.is_some()) {
                    super::model::apply(&mut state, &commit.changes);
                }
                self.snapshots.push((db.snapshot(), state));
            }
            Step::CheckSnapshots => self.check_snapshots(&db)?,
            Step::Check => self.check(&db)?,
        }
        Ok(())
    }

    fn write(&mut self, db: &Db, plan: &[(usize, u32, Option<usize>)], sync: bool) -> Result<(), Stopped> {
        let number = self.issued;
        self.issued += 1;
        let mut batch = WriteBatch::new();
        let mut changes: Vec<Change> = Vec::new();
        for (slot, key_number, len) in plan {
            // Changes of a family that does not exist go to the default one.
            let family = self.families[*slot].as_ref().or(self.families[0].as_ref());
            let Some(family) = family else { continue };
            let key = key(*key_number);
            let value = len.map(|len| {
                let mut value = format!("c{number:05}-").into_bytes();
                value.resize(len.max(value.len()), b'a' + (number % 26) as u8);
                value
            });
            match &value {
                Some(value) => batch.put_cf(family, &key, value),
                None => batch.delete_cf(family, &key),
            }
            changes.push((family.id().0, key, value));
        }
        self.commit(db, &mut batch, changes, sync)
    }

    /// One entry for the engine, a delete of every key for the history.
    fn delete_range(&mut self, db: &Db, slot: usize, keys: Range<u32>, sync: bool) -> Result<(), Stopped> {
        let family = self.families[slot].as_ref().or(self.families[0].as_ref());
        let Some(family) = family else { return Ok(()) };
        self.issued += 1;
        let mut batch = WriteBatch::new();
        batch.delete_range_cf(family, key(keys.start), key(keys.end));
        let id = family.id().0;
        let changes = keys.map(|number| (id, key(number), None)).collect();
        self.commit(db, &mut batch, changes, sync)
    }

    fn commit(&mut self, db: &Db, batch: &mut WriteBatch, changes: Vec<Change>, sync: bool) -> Result<(), Stopped> {
        let issued = self.now();
        self.history.commits.push(Commit { changes, issued, acked: None, synced: sync });
        db.write(batch, &WriteOptions::default().sync(sync))?;
        let acked = self.now();
        if let Some(commit) = self.history.commits.last_mut() {
            commit.acked = Some(acked);
        }
        Ok(())
    }

    /// How many commits a flush of `families` makes durable: up to the last that concerns one of them.
    fn commits_of(&self, families: &[ColumnFamily]) -> usize {
        let is_of = |id: u32| families.iter().any(|family| family.id().0 == id);
        let concerns = |commit: &Commit| commit.acked.is_some() && commit.changes.iter().any(|(id, ..)| is_of(*id));
        self.history.commits.iter().rposition(concerns).map_or(0, |index| index + 1)
    }

    fn create(&mut self, db: &Db, slot: usize) -> Result<(), Stopped> {
        if self.families[slot].is_some() {
            return Ok(());
        }
        let issued = self.now();
        let family = db.create_family(FAMILIES[slot], &self.rig.family_options())?;
        let life = FamilyLife { name: FAMILIES[slot].to_owned(), create: (issued, self.now()), drop: None };
        let previous = self.history.families.insert(family.id().0, life);
        if previous.is_some() {
            return Err(Stopped::Wrong(format!("family number {} was given twice", family.id().0)));
        }
        self.families[slot] = Some(family);
        Ok(())
    }

    fn drop_family(&mut self, db: &Db, slot: usize) -> Result<(), Stopped> {
        let Some(family) = self.families[slot].clone() else { return Ok(()) };
        let issued = self.now();
        db.drop_family(&family)?;
        self.families[slot] = None;
        let acked = self.now();
        if let Some(life) = self.history.families.get_mut(&family.id().0) {
            life.drop = Some((issued, acked));
        }
        Ok(())
    }

    /// Closes the engine: all commits are durable then.
    pub fn close(&mut self) -> Result<(), Stopped> {
        self.snapshots.clear();
        self.families.iter_mut().for_each(|family| *family = None);
        if let Some(db) = self.db.take() {
            db.close()?;
            self.history.barriers.push(Barrier { commits: self.history.commits.len(), acked: self.now() });
        }
        Ok(())
    }

    fn check_snapshots(&mut self, db: &Db) -> Result<(), Stopped> {
        for (snapshot, state) in std::mem::take(&mut self.snapshots) {
            for family in db.families() {
                let Some(expected) = state.get(&family.id().0) else { continue };
                let options = ReadOptions::default().snapshot(Some(snapshot.clone()));
                let found = read_family(db, &family, &options)?;
                if found != *expected {
                    return Err(Stopped::Wrong(format!("a snapshot of {} changed", family.name())));
                }
            }
        }
        Ok(())
    }

    /// Reads everything and compares it with all commits that were acknowledged.
    pub fn check(&self, db: &Db) -> Result<(), Stopped> {
        self.check_contents(db, |_| true)
    }

    /// The same for the keys that `look_at` picks.
    pub fn check_contents(&self, db: &Db, look_at: impl Fn(&[u8]) -> bool) -> Result<(), Stopped> {
        let mut expected = self.history.state_after(0);
        for commit in self.history.commits.iter().filter(|commit| commit.acked.is_some()) {
            super::model::apply(&mut expected, &commit.changes);
        }
        for (id, mut found) in read_all(db)? {
            found.retain(|key, _| look_at(key));
            if Some(&found) != expected.get(&id) {
                return Err(Stopped::Wrong(format!("family {id} does not hold what was written")));
            }
        }
        Ok(())
    }
}

/// A script that was run to its end without faults.
#[derive(Debug)]
pub struct Finished {
    /// What was asked.
    pub history: History,
    /// What happened on the disk.
    pub recording: Recording,
}

/// Runs a script on an empty disk, from the creation of the database to its closing.
pub fn run(script: &Script) -> Outcome<Finished> {
    run_on(&super::rig::empty_disk(), script)
}

/// Runs a script on a disk without a database.
pub fn run_on(disk: &SimDisk, script: &Script) -> Outcome<Finished> {
    disk.start_recording();
    let mut runner = Runner::new(disk.clone(), &script.profile);
    let mut all = || -> Result<(), Stopped> {
        runner.open()?;
        for step in &script.steps {
            runner.step(step)?;
        }
        runner.close()
    };
    match all() {
        Ok(()) => Ok(Finished { recording: disk.take_recording(), history: runner.history }),
        Err(stopped) => {
            let message = stopped.message();
            let Runner { rig, db, .. } = runner;
            rig.kill(db);
            Err(format!("{}: {message}", script.name))
        }
    }
}
