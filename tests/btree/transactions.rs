//! Transactions of the B-tree engine against a naive model of the two isolation levels: several at once, with batches and cursors between them,
//! over options, with tiny pages and a tiny pool; the database is closed and opened in the midst of it.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::support::{Life, new_disk, options};
use proptest::prelude::*;
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::plant::{PlantedBug, with_planted};
use siltstone_btree::{
    Cursor, Db, ErrorKind, Isolation, KvCursor, Result, Savepoint, Transaction, TransactionOptions, WriteBatch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

type Map = BTreeMap<u8, Vec<u8>>;
type Changes = BTreeMap<u8, Option<Vec<u8>>>;

/// Transactions at once.
const SLOTS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Begin(usize, bool),
    Put(usize, u8, u16),
    Delete(usize, u8),
    Lock(usize, u8),
    Read(usize, u8),
    Scan(usize),
    Save(usize),
    Back(usize),
    Commit(usize),
    RollBack(usize),
    Drop(usize),
    Prepare(usize),
    Decide(bool),
    Batch(Vec<(u8, Option<u16>)>),
    KeepCursor,
    LookAtCursor,
    Pause,
    Flush,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let (slot, key) = (|| 0..SLOTS, || 0..14_u8);
    let len = || prop_oneof![10 => 0..60_u16, 1 => 300..900_u16];
    prop_oneof![
        6 => (slot(), any::<bool>()).prop_map(|(slot, is_snapshot)| Step::Begin(slot, is_snapshot)),
        16 => (slot(), key(), len()).prop_map(|(slot, key, len)| Step::Put(slot, key, len)),
        8 => (slot(), key()).prop_map(|(slot, key)| Step::Delete(slot, key)),
        4 => (slot(), key()).prop_map(|(slot, key)| Step::Lock(slot, key)),
        6 => (slot(), key()).prop_map(|(slot, key)| Step::Read(slot, key)),
        4 => slot().prop_map(Step::Scan),
        2 => slot().prop_map(Step::Save),
        2 => slot().prop_map(Step::Back),
        4 => slot().prop_map(Step::Commit),
        2 => slot().prop_map(Step::RollBack),
        1 => slot().prop_map(Step::Drop),
        1 => slot().prop_map(Step::Prepare),
        1 => any::<bool>().prop_map(Step::Decide),
        8 => prop::collection::vec((key(), prop::option::weighted(0.7, len())), 1..4).prop_map(Step::Batch),
        2 => Just(Step::KeepCursor),
        2 => Just(Step::LookAtCursor),
        3 => Just(Step::Pause),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

/// What one transaction did, plainly.
#[derive(Debug, Clone, Default)]
struct Plan {
    is_snapshot: bool,
    /// What was committed when it began, and how many commits that was.
    base: Map,
    begun: usize,
    changes: Changes,
    locked: BTreeSet<u8>,
    /// Rows that were locked by changes that were undone: whether they still are is not said.
    perhaps: BTreeSet<u8>,
    save: Option<(Savepoint, Changes)>,
}

impl Plan {
    fn seen(&self, now: &Map) -> Map {
        let mut map = if self.is_snapshot { self.base.clone() } else { now.clone() };
        apply(&mut map, &self.changes);
        map
    }
}

fn apply(map: &mut Map, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => map.insert(*key, value.clone()),
            None => map.remove(key),
        };
    }
}

struct World {
    life: Life,
    db: Option<Db>,
    open: Vec<Option<(Transaction, Plan)>>,
    prepared: Option<Plan>,
    cursor: Option<(Cursor, Map)>,
    now: Map,
    /// When each row was last changed, in commits.
    changed: BTreeMap<u8, usize>,
    commits: usize,
    values: u8,
}

fn name(key: u8) -> Vec<u8> {
    format!("key{key:03}").into_bytes()
}

fn scan(cursor: &mut Cursor) -> Result<Map> {
    let number = |key: &[u8]| std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
    let mut map = Map::new();
    let mut found = cursor.seek_to_first()?;
    while found {
        assert!(map.insert(number(cursor.key()), cursor.value().to_vec()).is_none());
        found = cursor.next()?;
    }
    let mut back = Map::new();
    let mut found = cursor.seek_to_last()?;
    while found {
        back.insert(number(cursor.key()), cursor.value().to_vec());
        found = cursor.prev()?;
    }
    assert_eq!(map, back, "both directions agree");
    Ok(map)
}

impl World {
    fn new(disk: &SimDisk, durability: Durability, version_bytes: usize) -> Self {
        let options =
            options(durability).max_version_bytes(version_bytes).lock_timeout_millis(5).redo_capacity_bytes(128 << 10);
        let life = Life::new(disk, &options);
        let db = Some(life.open().unwrap());
        Self {
            life,
            db,
            open: (0..SLOTS).map(|_| None).collect(),
            prepared: None,
            cursor: None,
            now: Map::new(),
            changed: BTreeMap::new(),
            commits: 0,
            values: 0,
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn value(&mut self, len: u16) -> Vec<u8> {
        self.values = self.values.wrapping_add(1);
        vec![self.values; usize::from(len)]
    }

    /// Whether someone but `slot` has the lock of a row; `None`: nobody says.
    fn is_locked(&self, slot: usize, key: u8) -> Option<bool> {
        let others = self.open.iter().enumerate().filter(|(other, _)| *other != slot);
        let plans = others.filter_map(|(_, open)| open.as_ref().map(|(_, plan)| plan)).chain(&self.prepared);
        let plans: Vec<_> = plans.collect();
        if plans.iter().any(|plan| plan.locked.contains(&key)) {
            return Some(true);
        }
        if plans.iter().any(|plan| plan.perhaps.contains(&key)) { None } else { Some(false) }
    }

    /// Checks how a call ended that wants to lock a row. Returns whether it succeeded.
    fn expect(&self, slot: usize, key: u8, outcome: &Result<()>) -> bool {
        let conflicts = slot < SLOTS && {
            let (_, plan) = self.open[slot].as_ref().unwrap();
            plan.is_snapshot && self.changed.get(&key).is_some_and(|changed| *changed > plan.begun)
        };
        let kind = outcome.as_ref().err().map(|error| error.kind());
        match self.is_locked(slot, key) {
            Some(true) => assert_eq!(kind, Some(ErrorKind::TimedOut), "a row that another one has locked"),
            None if kind == Some(ErrorKind::TimedOut) => {}
            _ if conflicts => assert_eq!(kind, Some(ErrorKind::Busy), "a row that changed since"),
            _ => assert_eq!(kind, None, "{outcome:?}"),
        }
        outcome.is_ok()
    }

    fn commit(&mut self, changes: &Changes) {
        self.commits += 1;
        apply(&mut self.now, changes);
        for key in changes.keys() {
            self.changed.insert(*key, self.commits);
        }
    }

    fn change(&mut self, slot: usize, key: u8, value: Option<Vec<u8>>) {
        let Some((mut transaction, mut plan)) = self.open[slot].take() else { return };
        let outcome = match &value {
            Some(value) => transaction.put(name(key), value),
            None => transaction.delete(name(key)),
        };
        let was_there = plan.seen(&self.now).contains_key(&key);
        self.open[slot] = Some((transaction, plan.clone()));
        if self.expect(slot, key, &outcome) {
            plan.locked.insert(key);
            if value.is_some() || was_there {
                plan.changes.insert(key, value);
            }
            self.open[slot].as_mut().unwrap().1 = plan;
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Begin(slot, is_snapshot) if self.open[*slot].is_none() => {
                let level = if *is_snapshot { Isolation::Snapshot } else { Isolation::ReadCommitted };
                let options = TransactionOptions::new(level).lock_timeout(Duration::from_millis(1));
                let plan =
                    Plan { is_snapshot: *is_snapshot, base: self.now.clone(), begun: self.commits, ..Plan::default() };
                self.open[*slot] = Some((self.db().begin(&options).unwrap(), plan));
            }
            Step::Put(slot, key, len) => {
                let value = self.value(*len);
                self.change(*slot, *key, Some(value));
            }
            Step::Delete(slot, key) => self.change(*slot, *key, None),
            Step::Lock(slot, key) => {
                let Some((mut transaction, mut plan)) = self.open[*slot].take() else { return };
                let found = transaction.get_for_update(name(*key));
                let outcome = found.as_ref().map(drop).map_err(Clone::clone);
                self.open[*slot] = Some((transaction, plan.clone()));
                if self.expect(*slot, *key, &outcome) {
                    let mut newest = self.now.clone();
                    apply(&mut newest, &plan.changes);
                    assert_eq!(found.unwrap().as_ref(), newest.get(key));
                    plan.locked.insert(*key);
                }
                self.open[*slot].as_mut().unwrap().1 = plan;
            }
            Step::Read(slot, key) => {
                assert_eq!(self.db().get(name(*key)).unwrap().as_ref(), self.now.get(key));
                let Some((transaction, plan)) = &mut self.open[*slot] else { return };
                let found = transaction.get(name(*key)).unwrap();
                assert_eq!(found.as_ref(), plan.seen(&self.now).get(key));
            }
            Step::Scan(slot) => {
                assert_eq!(scan(&mut self.db().cursor().unwrap()).unwrap(), self.now);
                let Some((transaction, plan)) = &mut self.open[*slot] else { return };
                let found = scan(&mut transaction.cursor().unwrap()).unwrap();
                assert_eq!(found, plan.seen(&self.now));
            }
            Step::Save(slot) => {
                let Some((transaction, plan)) = &mut self.open[*slot] else { return };
                plan.save = Some((transaction.savepoint(), plan.changes.clone()));
            }
            Step::Back(slot) => {
                let Some((transaction, plan)) = &mut self.open[*slot] else { return };
                let Some((savepoint, changes)) = plan.save.clone() else { return };
                transaction.rollback_to(savepoint).unwrap();
                let undone: Vec<u8> = plan.locked.iter().copied().filter(|key| !changes.contains_key(key)).collect();
                for key in undone {
                    plan.locked.remove(&key);
                    plan.perhaps.insert(key);
                }
                plan.changes = changes;
            }
            Step::Commit(slot) => {
                let Some((transaction, plan)) = self.open[*slot].take() else { return };
                transaction.commit().unwrap();
                self.commit(&plan.changes);
            }
            Step::RollBack(slot) => {
                let Some((transaction, _)) = self.open[*slot].take() else { return };
                transaction.rollback().unwrap();
            }
            Step::Drop(slot) => drop(self.open[*slot].take()),
            Step::Prepare(slot) => {
                let Some((transaction, mut plan)) = self.open[*slot].take() else { return };
                let outcome = transaction.prepare("name");
                assert_eq!(outcome.is_ok(), self.prepared.is_none());
                if self.prepared.is_none() {
                    plan.perhaps.extend(plan.locked.iter().filter(|key| !plan.changes.contains_key(key)));
                    plan.locked.retain(|key| plan.changes.contains_key(key));
                    self.prepared = Some(plan);
                }
            }
            Step::Decide(is_commit) => {
                let Some(plan) = self.prepared.take() else {
                    assert_eq!(self.db().commit_prepared("name").unwrap_err().kind(), ErrorKind::NotFound);
                    return;
                };
                if *is_commit {
                    self.db().commit_prepared("name").unwrap();
                    self.commit(&plan.changes);
                } else {
                    self.db().rollback_prepared("name").unwrap();
                }
            }
            Step::Batch(changes) => self.batch(changes),
            Step::KeepCursor => self.cursor = Some((self.db().cursor().unwrap(), self.now.clone())),
            Step::LookAtCursor => {
                if let Some((cursor, expected)) = &mut self.cursor {
                    assert_eq!(scan(cursor).unwrap(), *expected);
                }
            }
            Step::Pause => drop(self.life.executor.run_until_idle()),
            Step::Flush => self.db().flush().unwrap(),
            Step::Reopen => self.reopen(),
            Step::Begin(..) => {}
        }
    }

    fn batch(&mut self, changes: &[(u8, Option<u16>)]) {
        let mut batch = WriteBatch::new();
        let mut plan = BTreeMap::new();
        for (key, len) in changes {
            let value = len.map(|len| self.value(len));
            match &value {
                Some(value) => batch.put(name(*key), value),
                None => batch.delete(name(*key)),
            }
            plan.insert(*key, value);
        }
        let outcome = self.db().write(&batch);
        let locks: Vec<_> = plan.keys().map(|key| self.is_locked(SLOTS, *key)).collect();
        let kind = outcome.as_ref().err().map(|error| error.kind());
        if locks.contains(&Some(true)) {
            assert_eq!(kind, Some(ErrorKind::TimedOut));
        } else if !(locks.contains(&None) && kind == Some(ErrorKind::TimedOut)) {
            outcome.unwrap();
            // Removing what is not there changes nothing.
            let is_change = |key: &u8| {
                changes.iter().any(|(other, value)| other == key && value.is_some()) || self.now.contains_key(key)
            };
            plan.retain(|key, _| is_change(key));
            self.commit(&plan);
        }
    }

    fn reopen(&mut self) {
        self.cursor = None;
        self.open.iter_mut().for_each(|open| *open = None);
        let db = self.db.take().unwrap();
        db.close().unwrap();
        drop(db);
        self.db = Some(self.life.open().unwrap());
        let expected: Vec<Vec<u8>> = self.prepared.iter().map(|_| b"name".to_vec()).collect();
        assert_eq!(self.db().prepared_transactions(), expected);
    }

    /// Ends everything; what is left is what was committed, and nothing waits for purge.
    fn finish(mut self) {
        self.cursor = None;
        self.open.clear();
        if self.prepared.take().is_some() {
            self.db().rollback_prepared("name").unwrap();
        }
        self.life.executor.run_until_idle();
        assert_eq!(scan(&mut self.db().cursor().unwrap()).unwrap(), self.now);
        self.life.executor.run_until_idle();
        let report = self.db().check().unwrap();
        assert_eq!((self.db().history_len(), self.db().rolling_back_len()), (0, 0));
        assert_eq!((report.rows, report.deleted_rows), (self.now.len() as u64, 0), "{report:?}");
        assert!(report.undo_records <= 1 && report.lost_pages == 0, "{report:?}");
        self.db().close().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_naive_model_agrees(
        steps in prop::collection::vec(step(), 1..150),
        durability in prop_oneof![Just(Durability::Commit), Just(Durability::Os), Just(Durability::EveryMillis(3))],
        version_bytes in prop_oneof![Just(0), Just(2000), Just(1_usize << 20)],
    ) {
        let disk = new_disk();
        let mut world = World::new(&disk, durability, version_bytes);
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }
}

/// Purge that does not ask whether a view is alive is seen by the model.
#[test]
fn purge_that_ignores_views_is_seen() {
    let steps: Vec<Step> = (0..6)
        .flat_map(|round: u16| {
            let change =
                |key: u8| Step::Batch(vec![(key, (!(u16::from(key) + round).is_multiple_of(3)).then_some(20 + round))]);
            let mut steps: Vec<Step> = (0..14).map(change).collect();
            steps.extend([
                Step::KeepCursor,
                Step::Batch(vec![(3, Some(9)), (4, None)]),
                Step::Pause,
                Step::LookAtCursor,
            ]);
            steps
        })
        .collect();
    let run = || {
        let disk = new_disk();
        let mut world = World::new(&disk, Durability::Os, 0);
        steps.iter().for_each(|step| world.step(step));
        world.finish();
    };
    run();
    let caught = with_planted(PlantedBug::PurgeIgnoresViews, || catch_unwind(AssertUnwindSafe(run)));
    assert!(caught.is_err(), "it was not seen");
}
