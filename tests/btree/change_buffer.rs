//! Tables whose indexes do not fit into the pool: what waits in the change buffer is seen by every scan, view and transaction as if it did not.
//!
//! Runs fixed seeds and a fresh one. `SILTSTONE_SEED=N` replays a printed seed.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::support::{Draw, Life, new_disk, options, seeds};
use siltstone_base::engine::{Durability, Row, TableId, TableSpec};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::Executor;
use siltstone_base::index_spec::IndexSpec;
use siltstone_btree::{ChangeBuffering, Counter, Db, DbOptions, Isolation, Transaction, TransactionOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Values by number.
type Rows = BTreeMap<u32, Vec<u8>>;

const INDEXES: usize = 2;

fn spec() -> TableSpec {
    let index = |at: usize| IndexSpec::over_columns(format!("at{at}"), Some(4 * at..4 * at + 4));
    TableSpec { name: "rows".to_owned(), indexes: (0..INDEXES).map(index).collect() }
}

fn value(draw: &mut Draw) -> Vec<u8> {
    // Few values of the first column, many of the second.
    let columns = [draw.below(40) as u32 * 100_000_000, draw.next() as u32];
    let mut value: Vec<u8> = columns.iter().flat_map(|column| column.to_be_bytes()).collect();
    value.resize(8 + draw.below(30) as usize, 7);
    value
}

fn entries(rows: &Rows, index: usize) -> BTreeSet<Vec<u8>> {
    rows.iter().map(|(key, value)| [&value[4 * index..4 * index + 4], &key.to_be_bytes()].concat()).collect()
}

/// What one step changes: each row once.
fn changes(draw: &mut Draw, rows: &Rows, keys: u64) -> BTreeMap<u32, Option<Vec<u8>>> {
    let mut changes = BTreeMap::new();
    for _ in 0..1 + draw.below(2) {
        let key = draw.below(keys) as u32;
        let is_deletion = rows.contains_key(&key) && draw.below(3) == 0;
        changes.insert(key, if is_deletion { None } else { Some(value(draw)) });
    }
    changes
}

fn apply(rows: &mut Rows, changes: &BTreeMap<u32, Option<Vec<u8>>>) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(rows.insert(*key, value.clone())),
            None => drop(rows.remove(key)),
        }
    }
}

struct World {
    disk: SimDisk,
    options: DbOptions,
    life: Life,
    db: Option<Db>,
    table: TableId,
    rows: Rows,
    view: Option<(Transaction, Rows)>,
    kept: u64,
}

impl World {
    fn new(options: DbOptions) -> Self {
        let disk = new_disk();
        let life = Life::new(&disk, &options);
        let db = life.open().unwrap();
        let table = db.create_table(&spec()).unwrap();
        Self { disk, options, life, db: Some(db), table, rows: Rows::new(), view: None, kept: 0 }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Without a transaction: one call for each kind of change.
    fn write(&mut self, changes: &BTreeMap<u32, Option<Vec<u8>>>) {
        for (key, new) in changes {
            let (name, old) = (key.to_be_bytes(), self.rows.get(key).cloned());
            let row = |value| Row { primary_key: &name[..], value };
            match (&old, new) {
                (None, Some(new)) => self.db().insert(self.table, &[row(new)]).unwrap(),
                (Some(old), Some(new)) => self.db().update_rows(self.table, &[(row(old), row(new))]).unwrap(),
                (Some(old), None) => self.db().delete_rows(self.table, &[row(old)]).unwrap(),
                (None, None) => {}
            }
        }
        apply(&mut self.rows, changes);
    }

    /// In a transaction that is then committed, rolled back, or left to a crash.
    fn transact(&mut self, draw: &mut Draw, keys: u64) {
        let mut transaction = self.db().begin(&TransactionOptions::default()).unwrap();
        let mut rows = self.rows.clone();
        for _ in 0..1 + draw.below(4) {
            let changes = changes(draw, &rows, keys);
            for (key, new) in &changes {
                let name = key.to_be_bytes();
                match new {
                    Some(new) if rows.contains_key(key) => {
                        transaction.update_row(self.table, Row { primary_key: &name, value: new }).unwrap();
                    }
                    Some(new) => transaction.insert_row(self.table, Row { primary_key: &name, value: new }).unwrap(),
                    None => drop(transaction.delete_row(self.table, &name).unwrap()),
                }
            }
            apply(&mut rows, &changes);
        }
        match draw.below(5) {
            0 => transaction.rollback().unwrap(),
            1 => {
                std::mem::forget(transaction);
                self.reopen(false);
            }
            _ => {
                transaction.commit().unwrap();
                self.rows = rows;
            }
        }
    }

    /// The entries of an index from a place on, of what is there now and of the view that is held.
    fn look(&mut self, draw: &mut Draw) {
        let (index, most) = (draw.below(INDEXES as u64) as usize, [3, 40, usize::MAX][draw.below(3) as usize]);
        let from = draw.next().to_be_bytes();
        let expected = |rows: &Rows| -> Vec<_> {
            entries(rows, index).into_iter().filter(|entry| entry.as_slice() >= &from[..]).take(most).collect()
        };
        let mut found = Vec::new();
        self.db().scan_index(self.table, index, &from, most, &mut |entry: &[u8]| found.push(entry.to_vec())).unwrap();
        assert!(found == expected(&self.rows), "index {index} from {from:?}: {} entries", found.len());
        if let Some((view, rows)) = &mut self.view {
            found.clear();
            view.scan_index(self.table, index, &from, most, &mut |entry: &[u8]| found.push(entry.to_vec())).unwrap();
            assert!(found == expected(rows), "the view: index {index} from {from:?}: {} entries", found.len());
        }
    }

    fn reopen(&mut self, is_closed: bool) {
        self.view = None;
        self.kept += self.db().metrics().get(Counter::ChangeBufferOps);
        if is_closed {
            self.db().close().unwrap();
        } else {
            self.disk = self.disk.after_process_death();
        }
        self.life.executor.abandon_all();
        self.db = None;
        self.life = Life::new(&self.disk, &self.options);
        self.db = Some(self.life.open().unwrap());
        self.table = self.db().open_table(&spec()).unwrap();
    }

    fn step(&mut self, draw: &mut Draw, keys: u64) {
        match draw.below(100) {
            0..55 => {
                let changes = changes(draw, &self.rows, keys);
                self.write(&changes);
            }
            55..75 => self.transact(draw, keys),
            75..85 => self.look(draw),
            85..88 => {
                let options = TransactionOptions::new(Isolation::Snapshot);
                let mut view = self.db().begin(&options).unwrap();
                let _ = view.get_row(self.table, b"none").unwrap();
                self.view = Some((view, self.rows.clone()));
            }
            88..90 => self.view = None,
            90..94 => self.life.executor.sleep(Duration::from_millis(draw.below(3_000))),
            94 => drop(self.db().check().unwrap()),
            95 => self.db().flush().unwrap(),
            96 => self.db().merge_changes().unwrap(),
            end => self.reopen(end == 97),
        }
    }
}

/// One case: the seed alone decides. Returns how many changes of entries were kept back.
fn run(seed: u64) -> u64 {
    let mut draw = Draw(seed);
    let draw = &mut draw;
    let mode = [ChangeBuffering::Changes, ChangeBuffering::Purges, ChangeBuffering::All][draw.below(3) as usize];
    let options = options([Durability::Commit, Durability::Os][draw.below(2) as usize])
        .buffer_pool_bytes(96 * 512)
        .redo_capacity_bytes(128 << 10)
        .max_version_bytes([0, 2_000, 1 << 20][draw.below(3) as usize])
        .change_buffering(mode);
    let mut world = World::new(options);
    let keys = 1_500;
    for _ in 0..900 {
        let key = draw.below(keys) as u32;
        if !world.rows.contains_key(&key) {
            world.write(&BTreeMap::from([(key, Some(value(draw)))]));
        }
    }
    for _ in 0..250 {
        world.step(draw, keys);
    }
    world.view = None;
    world.look(draw);
    // What is to be rolled back or purged is, and then merged.
    (0..20).for_each(|_| world.life.executor.sleep(Duration::from_millis(500)));
    world.db().merge_changes().unwrap();
    let report = world.db().check().unwrap();
    let count = world.rows.len() as u64;
    let counts = (report.rows, report.index_entries, report.deleted_rows, report.buffered_entries, report.lost_pages);
    assert_eq!(counts, (count, INDEXES as u64 * count, 0, 0, 0), "{report:?}");
    let kept = world.kept + world.db().metrics().get(Counter::ChangeBufferOps);
    world.db().close().unwrap();
    kept
}

#[test]
fn scans_views_and_transactions_see_what_waits() {
    let kept: u64 = (1..=8)
        .map(|seed| {
            println!("seed {seed}");
            run(seed)
        })
        .sum();
    assert!(kept > 2_000, "{kept} changes were kept back");
}

#[test]
fn scans_views_and_transactions_see_what_waits_with_a_fresh_seed() {
    let seed = seeds::fresh();
    println!("SILTSTONE_SEED={seed}");
    run(seed);
    run(seed.wrapping_add(1));
}

/// Pages read and changes kept while rows come in whose indexes need five times the pool.
fn reads_of_inserts(mode: ChangeBuffering) -> (u64, u64) {
    let options = options(Durability::Os)
        .page_size(4096)
        .buffer_pool_bytes(128 * 4096)
        .redo_capacity_bytes(8 << 20)
        .change_buffering(mode);
    let mut world = World::new(options);
    let draw = &mut Draw(9);
    for first in (0..24_000_u32).step_by(4) {
        let rows: Vec<_> = (first..first + 4).map(|key| (key.to_be_bytes(), value(draw))).collect();
        let rows: Vec<_> = rows.iter().map(|(key, value)| Row { primary_key: key, value }).collect();
        world.db().insert(world.table, &rows).unwrap();
        world.life.executor.run_until_idle();
    }
    let report = world.db().check().unwrap();
    assert!(report.leaf_pages > 4 * 128, "{report:?}");
    world.view = None;
    let count = |counter| world.db().metrics().get(counter);
    (count(Counter::PagesRead), count(Counter::ChangeBufferOps))
}

#[test]
fn inserts_read_fewer_pages_while_changes_are_kept_back() {
    let (plain, none) = reads_of_inserts(ChangeBuffering::None);
    let (buffered, kept) = reads_of_inserts(ChangeBuffering::All);
    println!("pages read: {plain} without, {buffered} with {kept} changes kept back");
    assert!(none == 0 && kept > 10_000, "{kept}");
    assert!(plain > buffered, "{plain} without, {buffered} with");
}
