//! The two engines and a BTreeMap behind the engine traits: drawn operations, and whatever one of them answers the others must answer too.
//!
//! Both engines run on one thread: files on simulated disks, jobs on step executors. Keys and values, tables with secondary indexes, and transactions beside plain writes, some of
//! them prepared and decided after the next opening. Each case is a seed; a failure names it, and `SILTSTONE_SEED=N` replays it.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[path = "btree/support/mod.rs"]
mod btree_support;

use btree_support::Draw;
use siltstone::{btree, lsm};
use siltstone_base::ErrorKind;
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::{
    Durability, Isolation, Kv, KvBatch, KvCursor, Row, TableId, TableSpec, Tables, TransactionOptions, Transactional,
};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::index_spec::IndexSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

/// Cases of each kind, half of them with fixed seeds.
const CASES: u64 = 150;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    disk
}

fn executor() -> Option<Arc<dyn Executor>> {
    Some(Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000)))))
}

fn open_btree(disk: &SimDisk) -> btree::Db {
    let options = btree_support::options(Durability::Os).buffer_pool_bytes(300 * 512).redo_capacity_bytes(256 << 10);
    btree::Db::open(DIR, &options.env(Some(disk.env())).executor(executor())).unwrap()
}

fn lsm_options(disk: &SimDisk) -> (lsm::DbOptions, lsm::ColumnFamilyOptions) {
    let family = lsm::ColumnFamilyOptions::default()
        .write_buffer_size(16 << 10)
        .max_bytes_for_level_base(32 << 10)
        .target_file_size_base(8 << 10);
    let options = lsm::DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(executor());
    (options, family)
}

/// Runs a case for each seed.
fn each_seed(run: impl Fn(u64)) {
    let fresh = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let wanted = std::env::var("SILTSTONE_SEED").ok().and_then(|text| text.parse().ok());
    let seeds: Vec<u64> = match wanted {
        Some(seed) => vec![seed],
        None => (0..CASES / 2).chain((0..CASES / 2).map(|case| fresh.wrapping_add(case))).collect(),
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        if let Err(panic) = outcome {
            println!("seed {seed} (replay with SILTSTONE_SEED={seed})");
            std::panic::resume_unwind(panic);
        }
    }
}

fn key(draw: &mut Draw) -> Vec<u8> {
    match draw.below(12) {
        0 => Vec::new(),
        1 => vec![0xff; draw.below(5) as usize],
        2 => draw.next().to_be_bytes()[..draw.below(9) as usize].to_vec(),
        _ => format!("row{:03}", draw.below(250)).into_bytes(),
    }
}

fn value(draw: &mut Draw) -> Vec<u8> {
    let len = if draw.below(25) == 0 { 400 + draw.below(2_000) } else { draw.below(70) };
    let byte = draw.next() as u8;
    (0..len).map(|at| byte.wrapping_add(at as u8)).collect()
}

fn get(engine: &dyn Kv, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    engine.get(key, &mut found).unwrap().then_some(found)
}

/// Seeks and steps with a cursor; the rows that it stood on.
fn walk(cursor: &mut dyn KvCursor, from: Option<&[u8]>, steps: &[bool]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut found = match (from, steps.first()) {
        (Some(key), _) => cursor.seek(key).unwrap(),
        (None, Some(false)) => cursor.seek_to_last().unwrap(),
        (None, _) => cursor.seek_to_first().unwrap(),
    };
    for is_forward in steps {
        if !found {
            break;
        }
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        found = if *is_forward { cursor.next().unwrap() } else { cursor.prev().unwrap() };
    }
    rows
}

/// What the same walk over a map stands on.
fn walk_map(map: &Map, from: Option<&[u8]>, steps: &[bool]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut at = match (from, steps.first()) {
        (Some(key), _) => map.range(key.to_vec()..).next(),
        (None, Some(false)) => map.last_key_value(),
        (None, _) => map.first_key_value(),
    };
    for is_forward in steps {
        let Some((key, value)) = at else { break };
        rows.push((key.clone(), value.clone()));
        let beyond = (std::ops::Bound::Excluded(key.clone()), std::ops::Bound::Unbounded);
        at = if *is_forward { map.range(beyond).next() } else { map.range(..key.clone()).next_back() };
    }
    rows
}

struct Pair {
    disks: [SimDisk; 2],
    btree: Option<btree::Db>,
    lsm: Option<lsm::TransactionDb>,
    map: Map,
}

/// What is left of `before` behind changes.
fn changed(before: &Map, changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Map {
    let mut map = before.clone();
    for (key, value) in changes {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
    map
}

impl Pair {
    fn new() -> Self {
        let mut pair = Self { disks: [new_disk(), new_disk()], btree: None, lsm: None, map: Map::new() };
        pair.open();
        pair
    }

    fn open(&mut self) {
        self.btree = Some(open_btree(&self.disks[0]));
        let (options, family) = lsm_options(&self.disks[1]);
        // Two of the longest values are more than memory may have.
        let transactions = lsm::TransactionDbOptions::default().max_transaction_bytes(3_000);
        self.lsm = Some(lsm::TransactionDb::open(DIR, &options, &[("default", family)], &transactions).unwrap());
    }

    fn close(&mut self) {
        self.engines().into_iter().for_each(|engine| engine.close().unwrap());
        (self.btree, self.lsm) = (None, None);
    }

    fn transactional(&self) -> [&dyn Transactional; 2] {
        [self.btree.as_ref().unwrap(), self.lsm.as_ref().unwrap()]
    }

    fn engines(&self) -> [&dyn Kv; 2] {
        [self.btree.as_ref().unwrap(), self.lsm.as_ref().unwrap()]
    }

    fn write(&mut self, batch: &KvBatch) {
        self.engines().into_iter().for_each(|engine| engine.write(batch).unwrap());
        self.apply(batch);
    }

    fn apply(&mut self, batch: &KvBatch) {
        for op in batch.iter() {
            match op {
                siltstone_base::engine::KvOp::Put { key, value } => self.map.insert(key.to_vec(), value.to_vec()),
                siltstone_base::engine::KvOp::Delete { key } | siltstone_base::engine::KvOp::DeleteOnce { key } => {
                    self.map.remove(key)
                }
            };
        }
    }

    /// The same transaction in both engines, beside plain writes to rows that it has not locked.
    fn transaction(&mut self, draw: &mut Draw) {
        let isolation = if draw.below(2) == 0 { Isolation::Snapshot } else { Isolation::ReadCommitted };
        assert!(self.engines().iter().all(|engine| engine.capabilities().transactions));
        let mut both = self.transactional().map(|db| db.begin(&TransactionOptions::new(isolation)).unwrap());
        let snapshot = self.map.clone();
        let mut changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        let (mut place, mut locked, mut outside) = (None, BTreeSet::new(), BTreeSet::new());
        for _ in 0..draw.below(20) {
            let key = key(draw);
            match draw.below(12) {
                number @ 0..7 => {
                    let value = (number < 5).then(|| value(draw));
                    let is_late = isolation == Isolation::Snapshot && outside.contains(&key);
                    for transaction in &mut both {
                        let outcome = match &value {
                            Some(value) => transaction.put(&key, value),
                            None => transaction.delete(&key),
                        };
                        let kind = outcome.map_err(|error| error.kind());
                        assert_eq!(kind, if is_late { Err(ErrorKind::Busy) } else { Ok(()) });
                    }
                    if is_late {
                        both.into_iter().for_each(|transaction| transaction.rollback().unwrap());
                        return;
                    }
                    locked.insert(key.clone());
                    changes.push((key, value));
                }
                7 => {
                    let savepoints = both.each_mut().map(|transaction| transaction.savepoint().unwrap());
                    place = Some((savepoints, changes.len()));
                }
                8 => {
                    if let Some((savepoints, len)) = place.take() {
                        for (transaction, savepoint) in both.iter_mut().zip(savepoints) {
                            transaction.rollback_to(savepoint).unwrap();
                        }
                        changes.truncate(len);
                    }
                }
                9 if !locked.contains(&key) => {
                    let value = value(draw);
                    self.engines().into_iter().for_each(|engine| engine.put(&key, &value).unwrap());
                    self.map.insert(key.clone(), value);
                    outside.insert(key);
                }
                _ => {
                    let seen = if isolation == Isolation::Snapshot { &snapshot } else { &self.map };
                    let wanted = changed(seen, &changes).get(&key).cloned();
                    for (transaction, engine) in both.iter_mut().zip(self.engines()) {
                        let mut found = Vec::new();
                        let is_there = transaction.get(&key, &mut found).unwrap();
                        assert_eq!(is_there.then_some(found), wanted);
                        assert_eq!(get(engine, &key), self.map.get(&key).cloned(), "others see nothing of it");
                    }
                }
            }
        }
        let seen = changed(if isolation == Isolation::Snapshot { &snapshot } else { &self.map }, &changes);
        for transaction in &mut both {
            let steps = vec![true; seen.len() + 1];
            let rows = walk(&mut *transaction.cursor().unwrap(), None, &steps);
            assert_eq!(rows, seen.clone().into_iter().collect::<Vec<_>>());
        }
        if draw.below(4) == 0 {
            both.into_iter().for_each(|transaction| transaction.rollback().unwrap());
            return;
        }
        if draw.below(3) > 0 {
            both.into_iter().for_each(|transaction| transaction.commit().unwrap());
            self.map = changed(&self.map, &changes);
            return;
        }
        let [in_btree, in_lsm] = both;
        if let Err(error) = in_lsm.prepare(b"prepared") {
            assert_eq!(error.kind(), ErrorKind::NotSupported, "it has spilled");
            return in_btree.rollback().unwrap();
        }
        in_btree.prepare(b"prepared").unwrap();
        if draw.below(2) == 0 {
            self.close();
            self.open();
        }
        let commits = draw.below(3) > 0;
        for db in self.transactional() {
            assert_eq!(db.prepared().unwrap(), [b"prepared"]);
            match commits {
                true => db.commit_prepared(b"prepared").unwrap(),
                false => db.rollback_prepared(b"prepared").unwrap(),
            }
        }
        if commits {
            self.map = changed(&self.map, &changes);
        }
    }

    fn step(&mut self, draw: &mut Draw) {
        match draw.below(100) {
            0..35 => {
                let (key, value) = (key(draw), value(draw));
                self.engines().into_iter().for_each(|engine| engine.put(&key, &value).unwrap());
                self.map.insert(key, value);
            }
            35..47 => {
                let key = key(draw);
                self.engines().into_iter().for_each(|engine| engine.delete(&key).unwrap());
                self.map.remove(&key);
            }
            47..57 => {
                let mut batch = KvBatch::new();
                for _ in 0..1 + draw.below(12) {
                    if draw.below(3) == 0 { batch.delete(&key(draw)) } else { batch.put(&key(draw), &value(draw)) }
                }
                self.write(&batch);
            }
            57..67 => {
                let key = key(draw);
                self.engines()
                    .into_iter()
                    .for_each(|engine| assert_eq!(get(engine, &key), self.map.get(&key).cloned()));
            }
            67..72 => {
                let keys: Vec<_> = (0..draw.below(6)).map(|_| key(draw)).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                for engine in self.engines() {
                    let mut found = vec![None; keys.len()];
                    let mut note = |place: usize, value: Option<&[u8]>| found[place] = Some(value.map(<[u8]>::to_vec));
                    engine.multi_get(&keys, &mut note).unwrap();
                    let wanted: Vec<_> = keys.iter().map(|key| Some(self.map.get(*key).cloned())).collect();
                    assert_eq!(found, wanted);
                }
            }
            72..82 => {
                let from = (draw.below(4) > 0).then(|| key(draw));
                let steps: Vec<bool> = (0..draw.below(40)).map(|_| draw.below(3) > 0).collect();
                let wanted = walk_map(&self.map, from.as_deref(), &steps);
                for engine in self.engines() {
                    assert_eq!(walk(&mut *engine.cursor().unwrap(), from.as_deref(), &steps), wanted);
                }
            }
            82..86 => {
                // Cursors show what was there when they were made.
                let then: Vec<_> = self.map.clone().into_iter().collect();
                let cursors = self.engines().map(|engine| engine.cursor().unwrap());
                for _ in 0..draw.below(20) {
                    let (key, value) = (key(draw), value(draw));
                    self.engines().into_iter().for_each(|engine| engine.put(&key, &value).unwrap());
                    self.map.insert(key, value);
                }
                for mut cursor in cursors {
                    assert_eq!(walk(&mut *cursor, None, &vec![true; then.len() + 1]), then);
                }
            }
            86..94 => self.transaction(draw),
            94..96 => self.engines().into_iter().for_each(|engine| engine.flush().unwrap()),
            96..98 => self.engines().into_iter().for_each(|engine| engine.settle().unwrap()),
            _ => {
                self.close();
                self.open();
            }
        }
    }
}

#[test]
fn keys_and_values_of_both_engines_are_those_of_a_map() {
    each_seed(|seed| {
        let mut draw = Draw(seed);
        let mut pair = Pair::new();
        for _ in 0..20 + draw.below(150) {
            pair.step(&mut draw);
        }
        let all: Vec<_> = pair.map.clone().into_iter().collect();
        for engine in pair.engines() {
            for is_forward in [true, false] {
                let mut rows = walk(&mut *engine.cursor().unwrap(), None, &vec![is_forward; all.len() + 1]);
                if !is_forward {
                    rows.reverse();
                }
                assert_eq!(rows, all);
            }
            engine.close().unwrap();
        }
    });
}

/// Tables of both engines.
struct TablePair {
    disks: [SimDisk; 2],
    btree: Option<btree::Db>,
    lsm: Option<lsm::TableDb>,
    tables: [TableId; 2],
    rows: Map,
}

/// Two columns that indexes sort by stand in front of a row's value; a short one has no entry.
fn spec() -> TableSpec {
    let indexes = vec![
        IndexSpec::over_columns("one", Some(0..2)),
        IndexSpec::over_columns("both", [2..3, 0..2]),
        IndexSpec::over_columns("rare", Some(30..32)),
    ];
    TableSpec { name: "rows".to_owned(), indexes }
}

impl TablePair {
    fn open(&mut self, is_new: bool) {
        let (options, family) = lsm_options(&self.disks[1]);
        let db = lsm::TableDb::open(DIR, &options, &family, &lsm::WriteOptions::default()).unwrap();
        (self.btree, self.lsm) = (Some(open_btree(&self.disks[0])), Some(db));
        let tables = self.engines().map(|engine| {
            let opened = if is_new { engine.create_table(&spec()) } else { engine.open_table(&spec()) };
            opened.unwrap()
        });
        self.tables = tables;
    }

    fn engines(&self) -> [&dyn Tables; 2] {
        [self.btree.as_ref().unwrap(), self.lsm.as_ref().unwrap()]
    }

    fn each(&self, check: impl Fn(&dyn Tables, TableId)) {
        self.engines().into_iter().zip(self.tables).for_each(|(engine, table)| check(engine, table));
    }

    fn insert(&mut self, draw: &mut Draw) {
        let mut new = Map::new();
        for _ in 0..1 + draw.below(8) {
            let primary_key = format!("{:05}", draw.below(20_000)).into_bytes();
            if !self.rows.contains_key(&primary_key) {
                let mut value = value(draw);
                value.iter_mut().take(3).for_each(|byte| *byte = b'a' + *byte % 7);
                new.insert(primary_key, value);
            }
        }
        let rows: Vec<_> = new.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        self.each(|engine, table| engine.insert(table, &rows).unwrap());
        self.rows.extend(new);
    }

    /// The entries of an index, from one on, at most so many.
    fn entries(&self, index: usize, from: &[u8], limit: usize) -> Vec<Vec<u8>> {
        let spec = spec();
        let mut entries = Vec::new();
        for (primary_key, value) in &self.rows {
            let mut entry = Vec::new();
            if spec.indexes[index].entry(primary_key, value, &mut entry) && entry.as_slice() >= from {
                entries.push(entry);
            }
        }
        entries.sort();
        entries.truncate(limit);
        entries
    }

    fn step(&mut self, draw: &mut Draw) {
        match draw.below(20) {
            0..10 => self.insert(draw),
            10..14 => {
                let wanted = format!("{:05}", draw.below(20_000)).into_bytes();
                let known = self.rows.keys().nth(draw.below(self.rows.len() as u64 + 1) as usize).cloned();
                for key in [Some(wanted), known].into_iter().flatten() {
                    self.each(|engine, table| {
                        let mut found = None;
                        let is_there = engine.get_row(table, &key, &mut |value| found = Some(value.to_vec())).unwrap();
                        assert_eq!((is_there, found.as_ref()), (self.rows.contains_key(&key), self.rows.get(&key)));
                    });
                }
            }
            14..18 => {
                let index = draw.below(3) as usize;
                let from: Vec<u8> = (0..draw.below(4)).map(|_| b'a' + draw.below(8) as u8).collect();
                let limit = if draw.below(3) == 0 { usize::MAX } else { draw.below(30) as usize };
                let wanted = self.entries(index, &from, limit);
                self.each(|engine, table| {
                    let mut entries = Vec::new();
                    let mut note = |entry: &[u8]| entries.push(entry.to_vec());
                    let count = engine.scan_index(table, index, &from, limit, &mut note).unwrap();
                    assert_eq!((count, entries), (wanted.len(), wanted.clone()));
                });
            }
            18 => self.each(|engine, _| engine.settle().unwrap()),
            _ => {
                self.each(|engine, _| siltstone_base::engine::Admin::close(engine).unwrap());
                (self.btree, self.lsm) = (None, None);
                self.open(false);
            }
        }
    }
}

#[test]
fn rows_and_entries_of_both_engines_are_those_of_a_map() {
    each_seed(|seed| {
        let mut draw = Draw(seed);
        let disks = [new_disk(), new_disk()];
        let mut pair = TablePair { disks, btree: None, lsm: None, tables: [TableId(0), TableId(0)], rows: Map::new() };
        pair.open(true);
        for _ in 0..10 + draw.below(60) {
            pair.step(&mut draw);
        }
        for index in 0..3 {
            let wanted = pair.entries(index, b"", usize::MAX);
            pair.each(|engine, table| {
                let mut entries = Vec::new();
                engine.scan_index(table, index, b"", usize::MAX, &mut |entry| entries.push(entry.to_vec())).unwrap();
                assert_eq!(entries, wanted);
            });
        }
        pair.btree.as_ref().unwrap().check().unwrap();
    });
}
