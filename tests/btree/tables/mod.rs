//! Tables of the B-tree engine against a naive model: rows in a map, and entries that are made of them anew for every comparison. Transactions, batches and readers of
//! older moments at once, indexes that are added and dropped, over options, with tiny pages and a tiny pool; the database is closed, or crashes, in the midst of it, and leaves of indexes leave the pool, so that changes of
//! them wait.
//!
//! Runs a fixed seed and a fresh one. `SILTSTONE_SEED=N` replays a printed seed, `SILTSTONE_CASES=N` sets how many cases each runs.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod indexes;

use crate::support::{Life, new_disk, options, seeds};
use indexes::{Column, Indexes};
use proptest::prelude::*;
use siltstone_base::engine::{Durability, Row, TableId};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::plant::{PlantedBug, with_planted};
use siltstone_btree::{
    ChangeBuffering, Counter, Db, DbOptions, Doublewrite, ErrorKind, Isolation, PageCompression, Result, Savepoint,
    Transaction, TransactionOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

type Map = BTreeMap<u8, Vec<u8>>;
type Changes = BTreeMap<u8, Option<Vec<u8>>>;

/// Transactions at once.
const SLOTS: usize = 3;

/// What a row's value is made of: its kind, its number, and how much follows. One of kind 3 is too short for entries.
type Draft = (u8, u8, u16);

#[derive(Debug, Clone, Copy)]
enum Verb {
    Insert,
    Update,
    Delete,
}

#[derive(Debug, Clone)]
enum Step {
    Begin(usize, bool),
    Change(usize, Verb, u8, Draft),
    Read(usize, u8),
    Scan(usize),
    Save(usize),
    Back(usize),
    Commit(usize),
    RollBack(usize),
    Drop(usize),
    Prepare(usize),
    Decide(bool),
    Batch(Verb, Vec<(u8, Draft)>),
    Pause,
    Flush,
    Check,
    Reopen,
    Crash,
    /// Other pages take the place of the table's in the pool.
    PushOut,
    Merge,
    /// Adds an index, or drops it if it is there.
    Index(Column),
}

fn draft() -> impl Strategy<Value = Draft> {
    (0..4_u8, 0..12_u8, prop_oneof![10 => 0..50_u16, 1 => 300..900_u16])
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![3 => Just(Verb::Insert), 3 => Just(Verb::Update), 2 => Just(Verb::Delete)]
}

fn step() -> impl Strategy<Value = Step> {
    let (slot, key) = (|| 0..SLOTS, || 0..14_u8);
    prop_oneof![
        6 => (slot(), any::<bool>()).prop_map(|(slot, is_snapshot)| Step::Begin(slot, is_snapshot)),
        22 => (slot(), verb(), key(), draft()).prop_map(|(slot, verb, key, draft)| Step::Change(slot, verb, key, draft)),
        3 => (slot(), key()).prop_map(|(slot, key)| Step::Read(slot, key)),
        6 => slot().prop_map(Step::Scan),
        2 => slot().prop_map(Step::Save),
        2 => slot().prop_map(Step::Back),
        4 => slot().prop_map(Step::Commit),
        2 => slot().prop_map(Step::RollBack),
        1 => slot().prop_map(Step::Drop),
        1 => slot().prop_map(Step::Prepare),
        1 => any::<bool>().prop_map(Step::Decide),
        16 => (verb(), prop::collection::vec((key(), draft()), 1..4)).prop_map(|(verb, rows)| Step::Batch(verb, rows)),
        3 => Just(Step::Pause),
        1 => Just(Step::Flush),
        1 => Just(Step::Check),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
        8 => Just(Step::PushOut),
        1 => Just(Step::Merge),
        3 => prop::sample::select(&Column::LOOSE[..]).prop_map(Step::Index),
    ]
}

/// Options of a case.
#[derive(Debug, Clone, Copy)]
struct Setup {
    durability: Durability,
    version_bytes: usize,
    page_size: usize,
    frames: usize,
    compression: PageCompression,
    doublewrite: Doublewrite,
    buffering: ChangeBuffering,
    buffer_percent: usize,
}

impl Setup {
    const PLAIN: Self = Self {
        durability: Durability::Os,
        version_bytes: 0,
        page_size: 512,
        frames: 128,
        compression: PageCompression::None,
        doublewrite: Doublewrite::On,
        buffering: ChangeBuffering::None,
        buffer_percent: 25,
    };

    fn options(&self) -> DbOptions {
        options(self.durability)
            .page_size(self.page_size)
            .buffer_pool_bytes(self.frames * self.page_size)
            .max_version_bytes(self.version_bytes)
            .lock_timeout_millis(5)
            .redo_capacity_bytes(512 * self.page_size as u64)
            .page_compression(self.compression)
            .doublewrite(self.doublewrite)
            .change_buffering(self.buffering)
            .change_buffer_max_percent(self.buffer_percent)
    }
}

/// An eighth of the pool's pages is the most for a batch: with two indexes, three rows that change each of their entries need 128.
fn setup() -> impl Strategy<Value = Setup> {
    let durability = prop_oneof![Just(Durability::Commit), Just(Durability::Os), Just(Durability::EveryMillis(3))];
    let of = |values: &'static [usize]| prop::sample::select(values);
    let compression = prop::sample::select(&[
        PageCompression::None,
        PageCompression::None,
        PageCompression::Zlib,
        PageCompression::Lz4,
        PageCompression::Zstd,
    ]);
    let doublewrite = prop::sample::select(&[Doublewrite::On, Doublewrite::DetectOnly, Doublewrite::Off]);
    let buffering = prop::sample::select(&[
        ChangeBuffering::None,
        ChangeBuffering::Inserts,
        ChangeBuffering::Deletes,
        ChangeBuffering::Changes,
        ChangeBuffering::Purges,
        ChangeBuffering::All,
        ChangeBuffering::All,
    ]);
    let memory = (of(&[0, 2000, 1 << 20]), of(&[512, 512, 512, 1024, 4096]), of(&[128, 200]));
    (durability, memory, compression, doublewrite, buffering, of(&[0, 5, 25, 50])).prop_map(
        |(durability, (version_bytes, page_size, frames), compression, doublewrite, buffering, buffer_percent)| Setup {
            durability,
            version_bytes,
            page_size,
            frames,
            compression,
            doublewrite,
            buffering,
            buffer_percent,
        },
    )
}

/// Rows that no step changes: with them the index of kinds has several leaves.
fn filler() -> Map {
    let row = |key: u8| (key, vec![b'k', b'0' + key % 4, 0xf0 + key / 16, key]);
    (100..190).map(row).collect()
}

/// A disk with the table and its filler, beside a tree that is larger than the pool, in a database that was closed.
fn filled_disk(options: &DbOptions) -> SimDisk {
    type Disks = BTreeMap<(usize, u8), SimDisk>;
    thread_local! {
        static FILLED: std::cell::RefCell<Disks> = const { std::cell::RefCell::new(Disks::new()) };
    }
    let fill = || {
        let disk = new_disk();
        let life = Life::new(&disk, options);
        let db = life.open().unwrap();
        let value = vec![3; options.page_size / 5];
        db.bulk_load(&db.default_tree(), (0..900_u32).map(|number| (number.to_be_bytes(), &value))).unwrap();
        let table = db.create_table(&Indexes::default().spec()).unwrap();
        for (key, value) in filler() {
            db.insert(table, &[Row { primary_key: &name(key), value: &value }]).unwrap();
        }
        db.close().unwrap();
        disk
    };
    let key = (options.page_size, options.page_compression as u8);
    FILLED.with_borrow_mut(|filled| filled.entry(key).or_insert_with(fill).after_process_death())
}

fn name(key: u8) -> Vec<u8> {
    format!("key{key:03}").into_bytes()
}

/// The number in a row, which is unique.
fn number(value: Option<&Vec<u8>>) -> Option<[u8; 2]> {
    value?.get(2..4)?.try_into().ok()
}

/// A savepoint, and what the transaction had done by then.
type Saved = (Savepoint, Changes, BTreeSet<u8>, BTreeSet<[u8; 2]>);

/// What one transaction did, plainly.
#[derive(Debug, Clone, Default)]
struct Plan {
    is_snapshot: bool,
    /// The indexes that there were when it began.
    known: BTreeSet<u32>,
    /// What was committed when it began, and how many commits that was.
    base: Map,
    begun: usize,
    changes: Changes,
    locked: BTreeSet<u8>,
    numbers: BTreeSet<[u8; 2]>,
    /// What was locked by changes that were undone: whether it still is is not said.
    perhaps: BTreeSet<u8>,
    perhaps_numbers: BTreeSet<[u8; 2]>,
    save: Option<Saved>,
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
    disk: SimDisk,
    options: DbOptions,
    life: Life,
    db: Option<Db>,
    table: TableId,
    indexes: Indexes,
    /// The most changes of a batch.
    most_ops: usize,
    open: Vec<Option<(Transaction, Plan)>>,
    prepared: Option<Plan>,
    now: Map,
    /// When each row was last changed, in commits.
    changed: BTreeMap<u8, usize>,
    commits: usize,
    fill: u8,
}

/// Rows and entries, as a database or a transaction shows them: those of the indexes that it can know.
fn compare(
    expected: &Map,
    indexes: &Indexes,
    can_know: impl Fn(u32) -> bool,
    mut rows: impl FnMut(&mut dyn FnMut(Row<'_>)) -> Result<usize>,
    mut index: impl FnMut(usize, &[u8], usize, &mut dyn FnMut(&[u8])) -> Result<usize>,
) {
    let mut found = Map::new();
    let key_of = |key: &[u8]| std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
    rows(&mut |row| drop(found.insert(key_of(row.primary_key), row.value.to_vec()))).unwrap();
    assert_eq!(found, *expected, "rows");
    for (position, (column, number)) in indexes.all.iter().enumerate() {
        if !can_know(*number) {
            let refused = index(position, b"", 1, &mut |_| {}).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Busy, "an index that came later: {refused}");
            continue;
        }
        let expected = column.entries(expected);
        let mut found = Vec::new();
        let count = index(position, b"", usize::MAX, &mut |entry| found.push(entry.to_vec())).unwrap();
        assert_eq!((count, &found), (found.len(), &expected.into_iter().collect::<Vec<_>>()), "index {column:?}");
        let from = found.get(found.len() / 2).cloned().unwrap_or_default();
        let mut tail = Vec::new();
        index(position, &from, 3, &mut |entry| tail.push(entry.to_vec())).unwrap();
        assert!(tail.iter().eq(found.iter().filter(|entry| **entry >= from).take(3)), "from the middle");
    }
}

impl World {
    fn new(setup: &Setup) -> Self {
        let options = setup.options();
        let disk = filled_disk(&options);
        let life = Life::new(&disk, &options);
        let db = life.open().unwrap();
        let indexes = Indexes::default();
        let table = db.open_table(&indexes.spec()).unwrap();
        Self {
            disk,
            options,
            life,
            db: Some(db),
            table,
            indexes,
            most_ops: setup.frames / 8,
            open: (0..SLOTS).map(|_| None).collect(),
            prepared: None,
            now: filler(),
            changed: BTreeMap::new(),
            commits: 0,
            fill: 0,
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn value(&mut self, (kind, number, len): Draft) -> Vec<u8> {
        self.fill = self.fill.wrapping_add(1);
        let mut value = if kind == 3 { b"s".to_vec() } else { format!("k{kind}{number:02}").into_bytes() };
        if kind != 3 {
            value.resize(4 + usize::from(len), self.fill);
        }
        value
    }

    fn others(&self, slot: usize) -> Vec<&Plan> {
        let others = self.open.iter().enumerate().filter(|(other, _)| *other != slot);
        others.filter_map(|(_, open)| open.as_ref().map(|(_, plan)| plan)).chain(&self.prepared).collect()
    }

    /// Whether someone but `slot` has the lock of a row, or the right to a number; `None`: nobody says.
    fn is_locked(&self, slot: usize, key: u8) -> Option<bool> {
        let others = self.others(slot);
        if others.iter().any(|plan| plan.locked.contains(&key)) {
            return Some(true);
        }
        if others.iter().any(|plan| plan.perhaps.contains(&key)) { None } else { Some(false) }
    }

    fn is_taken(&self, slot: usize, number: [u8; 2]) -> Option<bool> {
        let others = self.others(slot);
        if others.iter().any(|plan| plan.numbers.contains(&number)) {
            return Some(true);
        }
        if others.iter().any(|plan| plan.perhaps_numbers.contains(&number)) { None } else { Some(false) }
    }

    fn commit(&mut self, changes: &Changes) {
        self.commits += 1;
        apply(&mut self.now, changes);
        for key in changes.keys() {
            self.changed.insert(*key, self.commits);
        }
    }

    /// What a change of a row comes to among `rows`, other than by locks. Returns the value that it leaves.
    fn judge(rows: &Map, verb: Verb, key: u8, value: &[u8]) -> std::result::Result<Option<Vec<u8>>, ErrorKind> {
        let new = match (verb, rows.contains_key(&key)) {
            (Verb::Insert, true) => return Err(ErrorKind::AlreadyExists),
            (Verb::Update, false) => return Err(ErrorKind::NotFound),
            (Verb::Delete, _) => return Ok(None),
            _ => value.to_vec(),
        };
        let wanted = number(Some(&new));
        let has = |(other, value): (&u8, &Vec<u8>)| *other != key && wanted.is_some() && number(Some(value)) == wanted;
        if rows.iter().any(has) { Err(ErrorKind::AlreadyExists) } else { Ok(Some(new)) }
    }

    fn change(&mut self, slot: usize, verb: Verb, key: u8, value: &[u8]) {
        let Some((mut transaction, mut plan)) = self.open[slot].take() else { return };
        let primary_key = name(key);
        let row = Row { primary_key: &primary_key, value };
        let outcome = match verb {
            Verb::Insert => transaction.insert_row(self.table, row).map(|()| true),
            Verb::Update => transaction.update_row(self.table, row).map(|()| true),
            Verb::Delete => transaction.delete_row(self.table, &primary_key),
        };
        let mut newest = self.now.clone();
        apply(&mut newest, &plan.changes);
        let conflicts = plan.is_snapshot && self.changed.get(&key).is_some_and(|changed| *changed > plan.begun);
        let old = number(newest.get(&key));
        let new = if matches!(verb, Verb::Delete) { None } else { number(Some(&value.to_vec())) };
        let judged = Self::judge(&newest, verb, key, value);
        let is_refused = match verb {
            Verb::Insert => newest.contains_key(&key),
            Verb::Update => !newest.contains_key(&key),
            Verb::Delete => false,
        };
        self.open[slot] = Some((transaction, plan.clone()));
        let wanted = new.filter(|number| Some(*number) != old);
        let (locked, taken) =
            (self.is_locked(slot, key), wanted.map_or(Some(false), |number| self.is_taken(slot, number)));
        let kind = outcome.as_ref().err().map(siltstone_btree::Error::kind);
        match (locked, taken) {
            (Some(true), _) => assert_eq!(kind, Some(ErrorKind::TimedOut), "a row that another one has locked"),
            (None, _) if kind == Some(ErrorKind::TimedOut) => {}
            _ if conflicts => assert_eq!(kind, Some(ErrorKind::Busy), "a row that changed since"),
            _ if is_refused => assert_eq!(kind, judged.clone().err()),
            (_, Some(true)) => assert_eq!(kind, Some(ErrorKind::TimedOut), "a number that another one has"),
            (_, None) if kind == Some(ErrorKind::TimedOut) => {}
            _ => assert_eq!(kind, judged.clone().err(), "{outcome:?}"),
        }
        if let (Ok(is_there), Ok(value)) = (outcome, judged) {
            assert_eq!(is_there, value.is_some() || newest.contains_key(&key));
            plan.locked.insert(key);
            if old != new {
                plan.numbers.extend(old.into_iter().chain(new));
            }
            if is_there {
                plan.changes.insert(key, value);
            }
            self.open[slot].as_mut().unwrap().1 = plan;
        }
    }

    fn scan(&mut self, slot: usize) {
        let (db, table) = (self.db.as_ref().unwrap(), self.table);
        compare(
            &self.now,
            &self.indexes,
            |_| true,
            |found| db.scan_rows(table, b"", usize::MAX, found),
            |index, from, limit, found| db.scan_index(table, index, from, limit, found),
        );
        let Some((transaction, plan)) = &mut self.open[slot] else { return };
        let transaction = std::cell::RefCell::new(transaction);
        compare(
            &plan.seen(&self.now),
            &self.indexes,
            |number| !plan.is_snapshot || plan.known.contains(&number),
            |found| transaction.borrow_mut().scan_rows(table, b"", usize::MAX, found),
            |index, from, limit, found| transaction.borrow_mut().scan_index(table, index, from, limit, found),
        );
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Begin(slot, is_snapshot) if self.open[*slot].is_none() => {
                let level = if *is_snapshot { Isolation::Snapshot } else { Isolation::ReadCommitted };
                let options = TransactionOptions::new(level).lock_timeout(Duration::from_millis(1));
                let plan = Plan {
                    is_snapshot: *is_snapshot,
                    known: self.indexes.numbers(),
                    base: self.now.clone(),
                    begun: self.commits,
                    ..Plan::default()
                };
                self.open[*slot] = Some((self.db().begin(&options).unwrap(), plan));
            }
            Step::Begin(..) => {}
            Step::Change(slot, verb, key, draft) => {
                let value = self.value(*draft);
                self.change(*slot, *verb, *key, &value);
            }
            Step::Read(slot, key) => {
                let mut found = None;
                self.db().get_row(self.table, &name(*key), &mut |value| found = Some(value.to_vec())).unwrap();
                assert_eq!(found.as_ref(), self.now.get(key));
                let Some((transaction, plan)) = &mut self.open[*slot] else { return };
                let found = transaction.get_row(self.table, &name(*key)).unwrap();
                assert_eq!(found.as_ref(), plan.seen(&self.now).get(key));
            }
            Step::Scan(slot) => self.scan(*slot),
            Step::Save(slot) => {
                let Some((transaction, plan)) = &mut self.open[*slot] else { return };
                let (locked, numbers) = (plan.locked.clone(), plan.numbers.clone());
                plan.save = Some((transaction.savepoint(), plan.changes.clone(), locked, numbers));
            }
            Step::Back(slot) => {
                let Some((transaction, plan)) = &mut self.open[*slot] else { return };
                let Some((savepoint, changes, locked, numbers)) = plan.save.clone() else { return };
                transaction.rollback_to(savepoint).unwrap();
                plan.perhaps.extend(plan.locked.difference(&locked));
                plan.perhaps_numbers.extend(plan.numbers.difference(&numbers));
                (plan.changes, plan.locked, plan.numbers) = (changes, locked, numbers);
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
                let Some(plan) = self.prepared.take() else { return };
                if *is_commit {
                    self.db().commit_prepared("name").unwrap();
                    self.commit(&plan.changes);
                } else {
                    self.db().rollback_prepared("name").unwrap();
                }
            }
            Step::Batch(verb, rows) => self.batch(*verb, rows),
            Step::Pause => drop(self.life.executor.run_until_idle()),
            Step::Flush => self.db().flush().unwrap(),
            Step::Check => drop(self.db().check().unwrap()),
            Step::PushOut => self.push_out(),
            Step::Merge => self.db().merge_changes().unwrap(),
            Step::Index(column) if self.indexes.has(*column) => {
                self.db().drop_index(self.table, column.name()).unwrap();
                self.indexes.drop(*column);
            }
            Step::Index(column) => self.add_index(*column),
            Step::Reopen => self.reopen(false),
            Step::Crash => self.reopen(true),
        }
    }

    /// Transactions that changed the table keep an index from being added; those that only locked rows, or that nobody owns any more, do not.
    fn add_index(&mut self, column: Column) {
        self.life.executor.run_until_idle();
        let has_changers = self.others(SLOTS).iter().any(|plan| !plan.changes.is_empty());
        let outcome = self.db().add_index(self.table, &column.spec());
        if has_changers {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TimedOut);
        } else {
            let position = self.indexes.add(column);
            assert_eq!(outcome.unwrap(), position);
        }
    }

    fn batch(&mut self, verb: Verb, rows: &[(u8, Draft)]) {
        // A row, and an old entry and a new one in each index.
        let rows = &rows[..rows.len().min(self.most_ops / (1 + 2 * self.indexes.all.len()))];
        let mut drafts: Map = rows.iter().map(|(key, draft)| (*key, self.value(*draft))).collect();
        if !matches!(verb, Verb::Insert) {
            drafts.retain(|key, _| self.now.contains_key(key));
        }
        let keys: Vec<_> = drafts.keys().map(|key| name(*key)).collect();
        let new: Vec<_> =
            keys.iter().zip(drafts.values()).map(|(primary_key, value)| Row { primary_key, value }).collect();
        let empty = Vec::new();
        let old: Vec<_> = keys
            .iter()
            .zip(drafts.keys())
            .map(|(primary_key, key)| Row { primary_key, value: self.now.get(key).unwrap_or(&empty) })
            .collect();
        let outcome = match verb {
            Verb::Insert => self.db().insert(self.table, &new),
            Verb::Update => {
                let pairs: Vec<_> = old.iter().copied().zip(new.iter().copied()).collect();
                self.db().update_rows(self.table, &pairs)
            }
            Verb::Delete => self.db().delete_rows(self.table, &old),
        };
        let (mut after, mut changes, mut judged) = (self.now.clone(), Changes::new(), Ok(()));
        let mut locks = Vec::new();
        if matches!(verb, Verb::Update) {
            // Whatever goes goes before anything comes: only what is there in the end can collide.
            after.extend(drafts.clone());
        }
        for (key, value) in &drafts {
            locks.push(self.is_locked(SLOTS, *key));
            let old = if matches!(verb, Verb::Insert) { None } else { number(self.now.get(key)) };
            let wanted = number(Some(value)).filter(|_| !matches!(verb, Verb::Delete)).filter(|new| Some(*new) != old);
            locks.extend(wanted.map(|number| self.is_taken(SLOTS, number)));
            if judged.is_ok() {
                match Self::judge(&after, verb, *key, value) {
                    Ok(value) => {
                        changes.insert(*key, value);
                        apply(&mut after, &changes);
                    }
                    Err(kind) => judged = Err(kind),
                }
            }
        }
        let kind = outcome.as_ref().err().map(siltstone_btree::Error::kind);
        if locks.contains(&Some(true)) {
            assert_eq!(kind, Some(ErrorKind::TimedOut));
        } else if !(locks.contains(&None) && kind == Some(ErrorKind::TimedOut)) {
            assert_eq!(kind, judged.err(), "{outcome:?}");
            if judged.is_ok() && !changes.is_empty() {
                self.commit(&changes);
            }
        }
    }

    fn push_out(&self) {
        for number in (0..900_u32).step_by(3) {
            self.db().get(number.to_be_bytes()).unwrap();
        }
    }

    /// Changes that were kept back since the database was opened.
    fn kept(&self) -> u64 {
        self.db().metrics().get(Counter::ChangeBufferOps)
    }

    fn reopen(&mut self, is_crash: bool) {
        KEPT.set(KEPT.get() + self.kept());
        self.open.iter_mut().for_each(|open| *open = None);
        let db = self.db.take().unwrap();
        if is_crash {
            // What was written stays, and nothing else happens: the process ends.
            self.life.executor.abandon_all();
            drop(db);
            self.life = Life::new(&self.disk, &self.options);
        } else {
            db.close().unwrap();
            drop(db);
        }
        let db = self.life.open().unwrap();
        assert_eq!(db.open_table(&self.indexes.spec()).unwrap(), self.table);
        self.db = Some(db);
        let expected: Vec<Vec<u8>> = self.prepared.iter().map(|_| b"name".to_vec()).collect();
        assert_eq!(self.db().prepared_transactions(), expected);
    }

    /// Ends everything; what is left is what was committed, and nothing waits for purge.
    fn finish(mut self) {
        self.open.iter_mut().for_each(|open| *open = None);
        if self.prepared.take().is_some() {
            self.db().rollback_prepared("name").unwrap();
        }
        self.life.executor.run_until_idle();
        self.scan(0);
        self.life.executor.run_until_idle();
        KEPT.set(KEPT.get() + self.kept());
        self.db().merge_changes().unwrap();
        let report = self.db().check().unwrap();
        assert_eq!((self.db().history_len(), self.db().rolling_back_len()), (0, 0));
        let entries: usize = self.indexes.all.iter().map(|(column, _)| column.entries(&self.now).len()).sum();
        let counts = (report.rows, report.index_entries, report.deleted_rows);
        assert_eq!(counts, (900 + self.now.len() as u64, entries as u64, 0), "{report:?}");
        assert!(report.undo_records <= 1 && report.lost_pages == 0, "{report:?}");
        self.db().close().unwrap();
    }
}

thread_local! {
    /// Changes that the cases of this thread kept back.
    static KEPT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn run(seed: u64) {
    let cases = (setup(), prop::collection::vec(step(), 1..150));
    let outcome = seeds::runner(seed, 500).run(&cases, |(setup, steps)| {
        let mut world = World::new(&setup);
        for step in &steps {
            world.step(step);
        }
        world.finish();
        Ok(())
    });
    outcome.unwrap_or_else(|failed| panic!("seed {seed}: {failed}"));
    println!("changes that were kept back: {}", KEPT.get());
    assert!(std::env::var_os("SILTSTONE_CASES").is_some() || KEPT.get() > 150, "{}", KEPT.get());
}

#[test]
fn a_naive_model_agrees_with_a_fixed_seed() {
    run(seeds::FIXED);
}

#[test]
fn a_naive_model_agrees_with_a_fresh_seed() {
    run(seeds::fresh());
}

fn sees(bug: PlantedBug, steps: &[Step]) {
    let run = || {
        let mut world = World::new(&Setup::PLAIN);
        steps.iter().for_each(|step| world.step(step));
        world.finish();
    };
    run();
    assert!(with_planted(bug, || catch_unwind(AssertUnwindSafe(run))).is_err(), "it was not seen");
}

#[test]
fn entries_that_are_not_rolled_back_are_seen() {
    let change = |verb, key| Step::Change(0, verb, key, (1, key, 3));
    let steps = [
        Step::Batch(Verb::Insert, vec![(1, (0, 1, 0))]),
        Step::Begin(0, false),
        change(Verb::Insert, 2),
        change(Verb::Update, 1),
        Step::RollBack(0),
        Step::Check,
    ];
    sees(PlantedBug::EntryIsNotRolledBack, &steps);
}

#[test]
fn unique_keys_that_are_not_checked_are_seen() {
    let steps = [
        Step::Batch(Verb::Insert, vec![(1, (0, 7, 0))]),
        Step::Batch(Verb::Insert, vec![(2, (1, 7, 0))]),
        Step::Scan(0),
    ];
    sees(PlantedBug::UniqueIsNotChecked, &steps);
}

#[test]
fn an_added_index_with_a_key_twice_is_seen() {
    // The number is unique as long as somebody looks.
    let steps = [
        Step::Batch(Verb::Insert, vec![(1, (0, 7, 0)), (2, (1, 8, 0))]),
        Step::Index(Column::Again),
        Step::Begin(0, true),
        Step::Index(Column::Again),
        Step::Index(Column::Both),
        Step::Index(Column::Again),
        Step::Scan(0),
        Step::Change(0, Verb::Update, 1, (2, 9, 0)),
        Step::Index(Column::Kind),
        Step::Index(Column::Kind),
        Step::Commit(0),
        Step::Index(Column::Kind),
        Step::Reopen,
        Step::Batch(Verb::Insert, vec![(3, (0, 9, 0))]),
        Step::Scan(0),
    ];
    sees(PlantedBug::UniqueIsNotChecked, &steps);
}
