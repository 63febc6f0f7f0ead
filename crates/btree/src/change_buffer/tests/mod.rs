//! Entries that wait, against a map.

mod model;
mod planted;

use crate::mtr::{Close, Mtr};
use crate::page::Stamp;
use crate::tree::{Chunk, EntryOp, Position, Start, Tree};
use crate::{ChangeBuffering, Counter, Db, DbOptions, Durability, TreeHandle};
use siltstone_base::Result;
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::Admin;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use siltstone_base::sync::Arc;
use std::collections::BTreeMap;
use std::path::Path;

/// Flags and stamp of every entry.
pub(super) type Entries = BTreeMap<Vec<u8>, (u8, Option<Stamp>)>;

/// A group of operations.
pub(super) type Ops = Vec<(Vec<u8>, EntryOp)>;

pub(super) fn options(mode: ChangeBuffering) -> DbOptions {
    DbOptions::default()
        .create_if_missing(true)
        .page_size(512)
        .buffer_pool_bytes(64 * 512)
        .redo_capacity_bytes(64 << 10)
        .page_cleaners(2)
        .doublewrite_pages(16)
        .durability(Durability::Os)
        .change_buffering(mode)
}

pub(super) fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/db")).unwrap();
    disk
}

/// An open database, and what runs its jobs.
pub(super) struct Life {
    pub(super) db: Db,
    pub(super) executor: Arc<StepExecutor>,
}

pub(super) fn open(disk: &SimDisk, options: &DbOptions) -> Result<Life> {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = options.clone().env(Some(disk.env())).executor(Some(Arc::<StepExecutor>::clone(&executor)));
    Ok(Life { db: Db::open("/db", &options)?, executor })
}

impl Life {
    /// The tree of entries, which exists.
    pub(super) fn entries(&self) -> TreeHandle {
        self.db.tree("entries").unwrap()
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.db.metrics().get(counter)
    }

    /// Fills other pages into the pool, so that few leaves stay.
    pub(super) fn push_out(&self) {
        let mut cursor = self.db.cursor().unwrap();
        let mut found = crate::KvCursor::seek_to_first(&mut cursor).unwrap();
        while found {
            found = crate::KvCursor::next(&mut cursor).unwrap();
        }
    }
}

pub(super) fn apply(model: &mut Entries, ops: &Ops) {
    for (key, op) in ops {
        match op.after(model.get(key).copied()) {
            Some(cell) => drop(model.insert(key.clone(), cell)),
            None => drop(model.remove(key)),
        }
    }
}

/// All entries, in a direction.
pub(super) fn scan(tree: &Tree, is_forward: bool) -> Result<Entries> {
    let (mut entries, mut position, mut chunk, mut last) =
        (Entries::new(), Position::default(), Chunk::default(), None::<Vec<u8>>);
    loop {
        let start = last.as_deref().map_or(Start::End, Start::Beyond);
        tree.read_chunk(start, is_forward, &mut position, 7, &mut chunk)?;
        let Some((key, _)) = chunk.len().checked_sub(1).and_then(|last| chunk.get(last)) else { return Ok(entries) };
        last = Some(key.to_vec());
        for index in 0..chunk.len() {
            let Some((key, value)) = chunk.get(index) else { break };
            let flags = chunk.flags(index);
            entries.insert(key.to_vec(), (flags, Stamp::of(flags, value)));
        }
    }
}

/// Fails with the first entry that differs.
pub(super) fn assert_same(found: &Entries, expected: &Entries, what: &str) {
    let keys = found.keys().chain(expected.keys());
    let differs = keys.filter(|key| found.get(*key) != expected.get(*key)).min();
    if let Some(key) = differs {
        let name = String::from_utf8_lossy(key);
        panic!("{what}: {name} is {:?}, not {:?}", found.get(key), expected.get(key));
    }
}

/// A small generator; the seed alone decides.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    pub(super) fn key(&mut self, keys: u64) -> Vec<u8> {
        let number = self.below(keys);
        format!("{:05}", number * 7919 % 100_000).into_bytes()
    }

    pub(super) fn op(&mut self, number: u32) -> EntryOp {
        let stamp = Stamp { id: 1 + self.below(3), number };
        match self.below(12) {
            0..5 => EntryOp::Insert { stamp: None },
            5..7 => EntryOp::Insert { stamp: Some(stamp) },
            7..9 => EntryOp::Mark { stamp },
            9..11 => EntryOp::Remove { only_if: None },
            _ => EntryOp::Remove { only_if: Some(stamp) },
        }
    }

    pub(super) fn group(&mut self, keys: u64, number: u32) -> Ops {
        (0..1 + self.below(5)).map(|_| (self.key(keys), self.op(number))).collect()
    }
}

/// A database with entries in many leaves, and rows that push them out of the pool.
pub(super) fn filled(disk: &SimDisk, options: &DbOptions, keys: u64) -> (Life, Entries) {
    let life = open(disk, options).unwrap();
    let handle = life.db.create_tree("entries").unwrap();
    let (mut draw, mut model) = (Draw(7), Entries::new());
    for _ in 0..keys / 4 {
        let ops: Ops = (0..2).map(|_| (draw.key(keys), EntryOp::Insert { stamp: None })).collect();
        life.db.apply_entries_for_test(&handle, &ops).unwrap();
        apply(&mut model, &ops);
    }
    for number in 0..400_u32 {
        life.db.put(number.to_be_bytes(), [1; 40]).unwrap();
    }
    life.db.merge_changes().unwrap();
    life.db.flush().unwrap();
    life.push_out();
    (life, model)
}

#[test]
fn changes_wait_and_are_merged_when_their_leaf_is_read() {
    let disk = new_disk();
    let (life, mut model) = filled(&disk, &options(ChangeBuffering::All), 4_000);
    let (db, handle) = (&life.db, life.entries());
    let tree = db.tree_for_test(&handle);
    let (reads, kept) = (life.count(Counter::PagesRead), life.count(Counter::ChangeBufferOps));
    let mut draw = Draw(1);
    let key = loop {
        let ops = vec![(draw.key(4_000), EntryOp::Insert { stamp: Some(Stamp { id: 9, number: 1 }) })];
        db.apply_entries_for_test(&handle, &ops).unwrap();
        apply(&mut model, &ops);
        if life.count(Counter::ChangeBufferOps) > kept {
            break ops[0].0.clone();
        }
    };
    assert!(life.count(Counter::PagesRead) - reads < 20, "few tries");
    let report = db.check().unwrap();
    assert_eq!(report.buffered_entries, 1);
    let merges = life.count(Counter::ChangeBufferMerges);
    let found = tree.raw(&key).unwrap().map(|(flags, value)| (flags, Stamp::of(flags, &value)));
    assert_eq!(found, model.get(&key).copied());
    assert_eq!(life.count(Counter::ChangeBufferMerges), merges + 1);
    assert_eq!(db.check().unwrap().buffered_entries, 0);
    assert_same(&scan(tree, true).unwrap(), &model, "at the end");
}

/// Who measures what comes after must not pay for what came before.
#[test]
fn nothing_waits_once_everything_has_settled() {
    let disk = new_disk();
    let (life, mut model) = filled(&disk, &options(ChangeBuffering::All), 4_000);
    let (db, handle, mut draw) = (&life.db, life.entries(), Draw(7));
    for number in 0..40 {
        let ops = draw.group(4_000, number);
        db.apply_entries_for_test(&handle, &ops).unwrap();
        apply(&mut model, &ops);
    }
    assert!(db.check().unwrap().buffered_entries > 0);
    Admin::settle(db).unwrap();
    assert_eq!(db.check().unwrap().buffered_entries, 0);
    assert_same(&scan(db.tree_for_test(&handle), true).unwrap(), &model, "settled");
}

#[test]
fn each_mode_keeps_what_it_says() {
    let stamp = Stamp { id: 3, number: 1 };
    let ops = [EntryOp::Insert { stamp: None }, EntryOp::Mark { stamp }, EntryOp::Remove { only_if: None }];
    for (mode, kept) in [
        (ChangeBuffering::None, [false, false, false]),
        (ChangeBuffering::Inserts, [true, false, false]),
        (ChangeBuffering::Deletes, [false, true, false]),
        (ChangeBuffering::Changes, [true, true, false]),
        (ChangeBuffering::Purges, [false, true, true]),
        (ChangeBuffering::All, [true, true, true]),
    ] {
        assert_eq!(ops.map(|op| super::covers(mode, op)), kept, "{mode:?}");
    }
}

#[test]
fn a_dropped_tree_takes_what_waits_for_it_along() {
    let disk = new_disk();
    let (life, _) = filled(&disk, &options(ChangeBuffering::All), 4_000);
    let (db, handle) = (&life.db, life.entries());
    let mut draw = Draw(5);
    for number in 0..60 {
        db.apply_entries_for_test(&handle, &draw.group(4_000, number)).unwrap();
    }
    let waiting = db.check().unwrap().buffered_entries;
    assert!(waiting > 10, "{waiting}");
    db.drop_tree("entries").unwrap();
    let report = db.check().unwrap();
    assert_eq!(report.buffered_entries, 0);
    // Its successor is another tree.
    let handle = db.create_tree("entries").unwrap();
    db.merge_changes().unwrap();
    assert_eq!(life.count(Counter::ChangeBufferDiscarded), waiting);
    assert!(scan(db.tree_for_test(&handle), true).unwrap().is_empty());
    assert_eq!(db.check().unwrap().lost_pages, 0);
}

#[test]
fn what_waits_is_merged_when_nobody_writes_and_when_there_is_too_much() {
    let disk = new_disk();
    let (life, mut model) = filled(&disk, &options(ChangeBuffering::All), 6_000);
    let (db, handle) = (&life.db, life.entries());
    let mut draw = Draw(6);
    let mut most = 0;
    for number in 0..1_500 {
        let ops = draw.group(6_000, number);
        db.apply_entries_for_test(&handle, &ops).unwrap();
        apply(&mut model, &ops);
        most = most.max(db.changes_for_test().pages.load(std::sync::atomic::Ordering::Relaxed));
    }
    assert!((15..=24).contains(&most), "{most} pages of 16");
    assert!(life.count(Counter::ChangeBufferMerges) > 100);
    // Idle for long.
    for _ in 0..3_000 {
        siltstone_base::executor::Executor::sleep(&*life.executor, std::time::Duration::from_millis(20));
    }
    assert!(db.changes_for_test().is_empty().unwrap());
    assert_same(&scan(db.tree_for_test(&handle), false).unwrap(), &model, "at the end");
    let report = db.check().unwrap();
    assert_eq!((report.buffered_entries, report.lost_pages), (0, 0));
}

#[test]
fn entries_that_wait_for_a_leaf_without_its_bit_are_told_and_not_looked_for_for_ever() {
    let disk = new_disk();
    let (life, _) = filled(&disk, &options(ChangeBuffering::All), 4_000);
    let (db, handle) = (&life.db, life.entries());
    let mut draw = Draw(5);
    for number in 0..60 {
        db.apply_entries_for_test(&handle, &draw.group(4_000, number)).unwrap();
    }
    let (changes, tree) = (db.changes_for_test(), db.tree_for_test(&handle));
    let page = changes.next_area().unwrap()[0];
    let mut mtr = Mtr::new(changes.pool());
    mtr.set_state(page, |state| state.with_pending(false)).unwrap();
    mtr.commit(Close::Group).unwrap();
    assert!(!tree.states().unwrap().is_pending(page.number) && changes.has(page).unwrap());
    let outcomes: Vec<_> = (0..100).map(|_| db.merge_changes().map_err(|error| error.kind())).collect();
    assert!(outcomes.contains(&Err(crate::ErrorKind::Corruption)));
    assert_eq!(db.check().unwrap_err().kind(), crate::ErrorKind::Corruption);
    // Nothing else waits, and closing slowly ends.
    db.shut_down(crate::Shutdown::Slow).unwrap();
}

/// The leaf that is the first page of a bitmap's pages could not be made: every insert into a full leaf failed from then on.
#[test]
fn an_index_grows_past_the_pages_of_its_first_bitmap() {
    for (mode, is_ascending) in
        [(ChangeBuffering::All, true), (ChangeBuffering::All, false), (ChangeBuffering::None, false)]
    {
        let disk = new_disk();
        let life = open(&disk, &options(mode)).unwrap();
        let handle = life.db.create_tree("entries").unwrap();
        let (mut draw, mut model) = (Draw(3), Entries::new());
        let pages = || life.db.tree_for_test(&handle).page_count().unwrap();
        while pages() < 4 * 512 {
            let first = model.len() as u64;
            let mut key = |number| match is_ascending {
                true => format!("{number:060}").into_bytes(),
                false => format!("{:060}", draw.below(1 << 60)).into_bytes(),
            };
            let ops: Ops = (first..first + 5).map(|number| (key(number), EntryOp::Insert { stamp: None })).collect();
            life.db.apply_entries_for_test(&handle, &ops).unwrap();
            apply(&mut model, &ops);
        }
        let disk = disk.after_process_death();
        drop(life);
        let life = open(&disk, &options(mode)).unwrap();
        life.db.merge_changes().unwrap();
        life.db.check().unwrap();
        for is_forward in [true, false] {
            let found = scan(life.db.tree_for_test(&life.entries()), is_forward).unwrap();
            assert_same(&found, &model, &format!("{mode:?}, {is_ascending}"));
        }
    }
}
