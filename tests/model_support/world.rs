//! The engine and the model side by side.

use super::options::{self, Draw};
use siltstone::lsm::testing::Model;
use siltstone::lsm::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, ErrorKind, FlushOptions, Iter, ReadOptions, Snapshot, WriteBatch,
    WriteOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::comparator::Comparator;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/db";

const NAMES: [&str; 3] = ["default", "beta", "gamma"];

#[derive(Debug, Clone)]
pub enum Op {
    Put { family: u8, key: u16, len: u16, sync: bool },
    PutRun { family: u8, first: u16, count: u16 },
    Delete { family: u8, key: u16 },
    DeleteRange { family: u8, low: u16, high: u16 },
    DeleteFiles { family: u8, low: u16, high: u16 },
    Merge { family: u8, key: u16, len: u16 },
    Batch(Vec<(u8, u16, u16)>),
    Get { family: u8, key: u16 },
    Walk { family: u8, key: u16, back: bool },
    Bounded { family: u8, low: u16, high: u16 },
    Hold { family: u8, refresh: bool },
    Snapshot,
    Release(u8),
    Flush(u8),
    Compact { family: u8, begin: Option<u16>, end: Option<u16>, force: bool },
    Settle,
    DropAndCreate(u8),
    SetOptions(u8),
    Reopen,
    Crash { flush: Option<u8>, steps: u8, loses_power: bool },
    Step(u8),
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// In the order of a family.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A snapshot with the maps and models at its time. A dropped family's map is `None`.
struct Moment {
    snapshot: Snapshot,
    maps: Vec<Option<Map>>,
    models: Vec<Option<Model>>,
}

/// What happens to one key.
#[derive(Debug, Clone)]
enum Change {
    Put(Vec<u8>),
    Delete,
    SingleDelete,
    /// Joined to the old value with a comma.
    Merge(Vec<u8>),
    /// Deletes all from the key to this one, exclusive.
    DeleteRange(Vec<u8>),
}

/// Whether a key is only put once, single-deleted, put once again and so on.
fn is_put_once(key: u16) -> bool {
    key.is_multiple_of(5)
}

pub struct World {
    draw: Draw,
    disk: SimDisk,
    executor: Arc<StepExecutor>,
    db_options: DbOptions,
    family_options: Vec<ColumnFamilyOptions>,
    orders: Vec<Arc<dyn Comparator>>,
    db: Option<Db>,
    maps: Vec<Map>,
    /// What families may show whose compaction filter changes rows; their maps say what was seen last.
    models: Vec<Option<Model>>,
    snapshots: Vec<Moment>,
    /// Of each family, an iterator that was made a while ago, and the rows at that time.
    held: Vec<Option<(Iter, Rows)>>,
    writes: u64,
    /// Whether writes may go past the WAL. What did is in memtables only, so that crashes in such a world come after a flush.
    may_skip_wal: bool,
    /// Of each family, whether a write went past the WAL since the database was opened.
    unlogged: Vec<bool>,
    tally: Tally,
}

/// What was tried.
#[derive(Debug, Default)]
pub struct Tally {
    ops: u64,
    /// Those that came between two steps of a flush, or of a compaction.
    ops_amid_flush: u64,
    ops_amid_compaction: u64,
    crashes: u64,
    crashes_amid_flush: u64,
    crashes_amid_compaction: u64,
    power_losses: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.ops_amid_flush += other.ops_amid_flush;
        self.ops_amid_compaction += other.ops_amid_compaction;
        self.crashes += other.crashes;
        self.crashes_amid_flush += other.crashes_amid_flush;
        self.crashes_amid_compaction += other.crashes_amid_compaction;
        self.power_losses += other.power_losses;
    }

    /// Whether nothing of it is rare.
    pub fn is_complete(&self) -> bool {
        self.ops_amid_flush > 500
            && self.ops_amid_compaction > 500
            && self.crashes_amid_flush > 25
            && self.crashes_amid_compaction > 50
            && self.power_losses > 50
    }
}

fn key_bytes(key: u16) -> Vec<u8> {
    // Lengths differ, and some keys are prefixes of others.
    let mut bytes = format!("k{:03}", key / 2).into_bytes();
    bytes.extend(std::iter::repeat_n(b'x', (key % 2) as usize));
    bytes
}

/// The model of a family whose filter changes rows.
fn model(options: &ColumnFamilyOptions) -> Option<Model> {
    let filter = options.compaction_filter.clone().filter(|filter| filter.name() == options::TIDY)?;
    Some(Model::new(Arc::clone(&options.comparator), Some(filter)).merging(options.merge_operator.clone()))
}

impl World {
    /// What waits for compactions, and why it may.
    fn what_is_due(&self) -> String {
        let families = self.db().families();
        let of_family = |family: &ColumnFamily| {
            let property = |name: &str| self.db().property_cf(family, name).unwrap_or_default();
            let levels = property("rocksdb.levelstats");
            format!("{}: {levels}\n{:?}", family.name(), family.options())
        };
        let families: Vec<String> = families.iter().map(of_family).collect();
        format!("{:?}\n{}", self.db_options, families.join("\n"))
    }

    /// A world whose jobs do no more than `step_units` a step.
    pub fn new(seed: u64, step_units: Option<u32>) -> Self {
        let mut draw = Draw::new(seed);
        let disk = SimDisk::new();
        disk.make_durable_dir(Path::new(DIR)).unwrap();
        let clock = Arc::new(ManualClock::new(1_700_000_000));
        let executor = if draw.of(&[true, false]) {
            Arc::new(StepExecutor::new(clock))
        } else {
            Arc::new(StepExecutor::with_seed(clock, seed))
        };
        if let Some(units) = step_units {
            executor.limit_steps(units);
        }
        let db_options = options::database(&mut draw, &disk, Arc::<StepExecutor>::clone(&executor));
        let orders: Vec<_> = NAMES.iter().map(|_| options::comparator(&mut draw)).collect();
        let family_options: Vec<_> = orders
            .iter()
            .map(|order| options::column_family(&mut draw, Arc::clone(order), executor.manual_clock()))
            .collect();
        let models = family_options.iter().map(model).collect();
        let may_skip_wal = draw.of(&[false, true]);
        let mut world = Self {
            draw,
            disk,
            executor,
            db_options,
            family_options,
            orders,
            db: None,
            maps: vec![Map::new(); NAMES.len()],
            models,
            snapshots: Vec::new(),
            held: NAMES.iter().map(|_| None).collect(),
            writes: 0,
            may_skip_wal,
            unlogged: vec![false; NAMES.len()],
            tally: Tally::default(),
        };
        world.open();
        world
    }

    fn open(&mut self) {
        let named: Vec<(&str, ColumnFamilyOptions)> = NAMES.into_iter().zip(self.family_options.clone()).collect();
        self.db = Some(Db::open_families(DIR, &self.db_options, &named).expect("open"));
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    fn family(&self, index: u8) -> ColumnFamily {
        self.db().family(NAMES[index as usize]).expect("family")
    }

    fn value(&mut self, len: u16) -> Vec<u8> {
        self.writes += 1;
        let mut value = format!("v{}-", self.writes).into_bytes();
        value.resize(value.len() + len as usize, b'a' + (self.writes % 7) as u8);
        value
    }

    /// Writes a batch to both, unless the engine would have had to wait and was told not to.
    fn write(&mut self, changes: Vec<(u8, Vec<u8>, Change)>, sync: bool) {
        let options = options::write(&mut self.draw, sync, self.may_skip_wal);
        self.write_with(changes, &options);
    }

    fn write_with(&mut self, changes: Vec<(u8, Vec<u8>, Change)>, options: &WriteOptions) {
        let mut batch = WriteBatch::new();
        for (family, key, change) in &changes {
            let handle = self.family(*family);
            match change {
                Change::Put(value) => batch.put_cf(&handle, key, value),
                Change::Delete => batch.delete_cf(&handle, key),
                Change::SingleDelete => batch.single_delete_cf(&handle, key),
                Change::Merge(operand) => batch.merge_cf(&handle, key, operand),
                Change::DeleteRange(end) => batch.delete_range_cf(&handle, key, end),
            }
        }
        let refused = changes.iter().any(|(family, key, change)| match change {
            Change::Merge(_) => self.family_options[*family as usize].merge_operator.is_none(),
            Change::DeleteRange(end) => self.orders[*family as usize].compare(key, end).is_gt(),
            _ => false,
        });
        let refused = refused || (options.sync && options.disable_wal);
        match self.db().write(&mut batch, options) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Incomplete && options.no_slowdown => return,
            Err(error) if error.kind() == ErrorKind::InvalidArgument && refused => return,
            Err(error) => panic!("write: {error}"),
        }
        assert!(
            !refused,
            "a family took a merge without an operator, an inverted range, or promised what it cannot keep"
        );
        for (family, key, change) in changes {
            self.unlogged[family as usize] |= options.disable_wal;
            let map = &mut self.maps[family as usize];
            if let Some(model) = &mut self.models[family as usize] {
                match change {
                    Change::Put(value) => model.put(&key, &value),
                    Change::Delete | Change::SingleDelete => model.delete(&key),
                    Change::DeleteRange(end) => model.delete_range(&key, &end),
                    Change::Merge(operand) => model.merge(&key, &operand).unwrap(),
                }
                *map = model.rows().iter().cloned().collect();
                continue;
            }
            match change {
                Change::Put(value) => {
                    map.insert(key, value);
                }
                Change::Delete | Change::SingleDelete => {
                    map.remove(&key);
                }
                Change::DeleteRange(end) => {
                    let order = &self.orders[family as usize];
                    map.retain(|other, _| order.compare(other, &key).is_lt() || order.compare(other, &end).is_ge());
                }
                Change::Merge(operand) => match map.entry(key) {
                    Entry::Vacant(entry) => {
                        entry.insert(operand);
                    }
                    Entry::Occupied(mut entry) => {
                        entry.get_mut().push(b',');
                        entry.get_mut().extend(operand);
                    }
                },
            }
        }
    }

    pub fn apply(&mut self, op: &Op) {
        self.tally.ops += 1;
        self.tally.ops_amid_flush += u64::from(self.is_running("flushes"));
        self.tally.ops_amid_compaction += u64::from(self.is_running("compactions"));
        match *op {
            Op::Put { family, key, len, sync } => {
                let value = self.value(len);
                self.write_one(family, key, Change::Put(value), sync);
            }
            Op::PutRun { family, first, count } => {
                for key in first..first + count {
                    let value = self.value(20);
                    self.write_one(family, key % crate::KEYS, Change::Put(value), false);
                }
            }
            Op::Delete { family, key } => self.write_one(family, key, Change::Delete, false),
            Op::DeleteRange { family, low, high } => {
                let (mut begin, mut end) = (Some(key_bytes(low)), Some(key_bytes(high)));
                // Some stay inverted: they must be refused.
                if (low + high) % 8 != 0 {
                    (begin, end) = self.ordered(family, begin, end);
                }
                if let (Some(begin), Some(end)) = (begin, end) {
                    self.write(vec![(family, begin, Change::DeleteRange(end))], false);
                }
            }
            Op::DeleteFiles { family, low, high } => self.delete_files(family, low, high),
            Op::Merge { family, key, len } => {
                let operand = self.value(len);
                self.write_one(family, key, Change::Merge(operand), false);
            }
            Op::Batch(ref entries) => {
                let mut changes = Vec::new();
                for (family, key, len) in entries {
                    if len % 10 == 7 {
                        let ends = [key_bytes(*key), key_bytes(len % crate::KEYS)];
                        let (begin, end) = self.ordered(*family, Some(ends[0].clone()), Some(ends[1].clone()));
                        let (Some(begin), Some(end)) = (begin, end) else { continue };
                        changes.push((*family, begin, Change::DeleteRange(end)));
                        continue;
                    }
                    let change = match len % 10 {
                        0 | 5 => Change::Delete,
                        3 if self.family_options[*family as usize].merge_operator.is_some() => {
                            Change::Merge(self.value(*len))
                        }
                        _ => Change::Put(self.value(*len)),
                    };
                    self.allowed(*family, *key, change, &mut changes);
                }
                self.write(changes, false);
            }
            Op::Get { family, key } => {
                self.settle(family);
                let options = options::read(&mut self.draw, None, (None, None));
                let found = self.db().get_cf(&self.family(family), key_bytes(key), &options).unwrap();
                assert_eq!(found.map(|value| value.to_vec()), self.maps[family as usize].get(&key_bytes(key)).cloned());
            }
            Op::Walk { family, key, back } => self.walk(family, key, back),
            Op::Bounded { family, low, high } => self.walk_bounded(family, low, high),
            Op::Hold { family, refresh } => self.hold(family, refresh),
            Op::Snapshot => {
                let maps = self.maps.iter().cloned().map(Some).collect();
                let models = self.models.clone();
                self.snapshots.push(Moment { snapshot: self.db().snapshot(), maps, models });
            }
            Op::Release(index) => {
                if !self.snapshots.is_empty() {
                    let index = index as usize % self.snapshots.len();
                    self.snapshots.remove(index);
                }
            }
            Op::Flush(family) => {
                let options = options::flush(&mut self.draw);
                self.db().flush_families(&[&self.family(family)], &options).unwrap();
                self.check_tree();
            }
            Op::Compact { family, begin, end, force } => {
                let options = options::compact_range(&mut self.draw, force);
                let (begin, end) = (begin.map(key_bytes), end.map(key_bytes));
                let (begin, end) = self.ordered(family, begin, end);
                let family = self.family(family);
                self.db().compact_range(&family, begin.as_deref(), end.as_deref(), &options).unwrap();
                self.check_tree();
            }
            Op::Settle => {
                let mut options = options::wait_for_compact(&mut self.draw);
                // Tables that are due every second may be due again before a filter that takes its time is through with them.
                let is_endless =
                    self.db().families().iter().any(|family| family.options().periodic_compaction_seconds == 1);
                if is_endless {
                    options.timeout = Some(Duration::from_secs(1 << 7));
                }
                match self.db().wait_for_compact(&options) {
                    Err(error) if is_endless && error.kind() == ErrorKind::TimedOut => {}
                    Err(error) => panic!("{error}\n{}", self.what_is_due()),
                    Ok(()) => {}
                }
                self.check_tree();
            }
            Op::DropAndCreate(index) => {
                self.db().drop_family(&self.family(index)).unwrap();
                if let Some((mut iter, rows)) = self.held[index as usize].take() {
                    assert_eq!(iter.refresh().unwrap_err().kind(), ErrorKind::NotFound);
                    compare_walks(&mut iter, &rows);
                }
                self.db().create_family(NAMES[index as usize], &self.family_options[index as usize]).unwrap();
                self.maps[index as usize].clear();
                self.models[index as usize] = model(&self.family_options[index as usize]);
                for moment in &mut self.snapshots {
                    moment.maps[index as usize] = None;
                    moment.models[index as usize] = None;
                }
            }
            Op::SetOptions(family) => {
                let changes = options::changes(&mut self.draw);
                let changes: Vec<_> = changes.iter().map(|(name, value)| (*name, value.as_str())).collect();
                self.db().set_options(&self.family(family), &changes).unwrap();
                let changes = options::database_changes(&mut self.draw);
                let changes: Vec<_> = changes.iter().map(|(name, value)| (*name, value.as_str())).collect();
                self.db().set_db_options(&changes).unwrap();
            }
            Op::Reopen => self.reopen(),
            Op::Crash { flush, steps, loses_power } => self.crash(flush, steps, loses_power),
            Op::Step(count) => {
                for _ in 0..count {
                    self.executor.step();
                }
            }
        }
    }

    /// Gives the space of a range back, as who drops what is in it: tables go as a whole, and what is left is deleted. Snapshots may lose rows, iterators that were made before do not.
    fn delete_files(&mut self, family: u8, low: u16, high: u16) {
        let (begin, end) = self.ordered(family, Some(key_bytes(low)), Some(key_bytes(high)));
        let (Some(begin), Some(end)) = (begin, end) else { return };
        for moment in &mut self.snapshots {
            moment.maps[family as usize] = None;
            moment.models[family as usize] = None;
        }
        self.db().delete_files_in_range(&self.family(family), &begin, &end).unwrap();
        self.write_with(vec![(family, begin, Change::DeleteRange(end))], &WriteOptions::default().sync(true));
    }

    /// What a change is for its key. One that is put once is deleted by single deletes only, before it is put again.
    fn allowed(&self, family: u8, key: u16, change: Change, batch: &mut Vec<(u8, Vec<u8>, Change)>) {
        let bytes = key_bytes(key);
        if !is_put_once(key) {
            batch.push((family, bytes, change));
            return;
        }
        let is_of_key = |(other, key, change): &&(u8, Vec<u8>, Change)| {
            *other == family && *key == bytes && !matches!(change, Change::DeleteRange(_))
        };
        let earlier = batch.iter().rev().find(is_of_key);
        let is_put = match earlier {
            Some((_, _, change)) => matches!(change, Change::Put(_)),
            None => self.maps[family as usize].contains_key(&bytes),
        };
        if is_put {
            batch.push((family, bytes.clone(), Change::SingleDelete));
        }
        if let Change::Put(value) | Change::Merge(value) = change {
            batch.push((family, bytes, Change::Put(value)));
        }
    }

    fn write_one(&mut self, family: u8, key: u16, change: Change, sync: bool) {
        let mut changes = Vec::new();
        self.allowed(family, key, change, &mut changes);
        self.write(changes, sync);
    }

    fn ordered(&self, family: u8, begin: Option<Vec<u8>>, end: Option<Vec<u8>>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        match (&begin, &end) {
            (Some(a), Some(b)) if self.orders[family as usize].compare(a, b).is_gt() => (end, begin),
            _ => (begin, end),
        }
    }

    /// Whether `jobs` are between two steps.
    fn is_running(&self, jobs: &str) -> bool {
        self.db().property(&format!("rocksdb.num-running-{jobs}")).unwrap() != "0"
    }

    /// Writes down what a new life would not find in the WAL.
    fn flush_unlogged(&mut self) {
        let unlogged = std::mem::replace(&mut self.unlogged, vec![false; NAMES.len()]);
        let families: Vec<ColumnFamily> =
            (0..NAMES.len()).filter(|family| unlogged[*family]).map(|family| self.family(family as u8)).collect();
        if !families.is_empty() {
            self.db().flush_families(&families.iter().collect::<Vec<_>>(), &FlushOptions::default()).unwrap();
        }
    }

    fn reopen(&mut self) {
        self.flush_unlogged();
        self.snapshots.clear();
        self.let_go();
        self.db.take().expect("open").close().unwrap();
        self.open();
        self.check_tree();
        self.compare_everything();
    }

    /// A family's flush begins, if one is named; jobs get so many steps; then the process dies, or the machine loses its power.
    ///
    /// Nothing is flushed or closed first, but what never was in the WAL; before a power loss the WAL is synced. So all that was written is there afterwards, whatever jobs were at.
    fn crash(&mut self, flush: Option<u8>, steps: u8, loses_power: bool) {
        self.flush_unlogged();
        if let Some(family) = flush {
            self.db().flush_families(&[&self.family(family)], &FlushOptions::default().wait(false)).unwrap();
        }
        for _ in 0..steps {
            self.executor.step();
        }
        self.tally.crashes += 1;
        self.tally.crashes_amid_flush += u64::from(self.is_running("flushes"));
        self.tally.crashes_amid_compaction += u64::from(self.is_running("compactions"));
        self.tally.power_losses += u64::from(loses_power);
        self.snapshots.clear();
        self.let_go();
        let left = if loses_power {
            self.db().sync_wal().unwrap();
            self.disk.after_power_loss()
        } else {
            self.disk.after_process_death()
        };
        // Nothing that the dead engine still does reaches a disk.
        self.disk.power_off();
        self.executor.abandon_all();
        self.db = None;
        self.executor.abandon_all();
        self.db_options = self.db_options.clone().env(Some(left.env()));
        self.disk = left;
        self.open();
        self.check_tree();
        self.compare_everything();
    }

    /// Sees what the filter of a family has changed so far. Until something is written, or a job steps, nothing else changes.
    fn settle(&mut self, family: u8) {
        let Some(mut model) = self.models[family as usize].take() else { return };
        self.see_rows(&self.family(family), &mut model, &ReadOptions::default());
        self.maps[family as usize] = model.rows().iter().cloned().collect();
        self.models[family as usize] = Some(model);
    }

    fn see_rows(&self, family: &ColumnFamily, model: &mut Model, options: &ReadOptions) {
        for key in (0..crate::KEYS).map(key_bytes) {
            let found = self.db().get_cf(family, &key, options).unwrap();
            assert!(model.see(&key, found.as_deref()), "a filter made what it cannot make");
        }
    }

    fn check_tree(&self) {
        self.db().check().unwrap_or_else(|error| panic!("the tree is damaged: {error}"));
    }

    /// The rows of a map in the order of the family.
    fn rows(&self, family: u8, map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows: Vec<_> = map.clone().into_iter().collect();
        rows.sort_by(|a, b| self.orders[family as usize].compare(&a.0, &b.0));
        rows
    }

    fn walk(&mut self, family: u8, key: u16, back: bool) {
        self.settle(family);
        let limited = self.draw.of(&[false, true]);
        let options = options::read_limited(&mut self.draw, None, (None, None), limited);
        let mut iter = self.db().iter_cf(&self.family(family), &options).unwrap();
        let key = key_bytes(key);
        let order = Arc::clone(&self.orders[family as usize]);
        let mut rows = self.rows(family, &self.maps[family as usize]);
        if limited
            && let Some(extractor) = &self.family_options[family as usize].prefix_extractor
            && let Some(prefix) = extractor.prefix(&key)
        {
            rows.retain(|row| extractor.prefix(&row.0) == Some(prefix));
        }
        if back {
            iter.seek_for_prev(&key);
            let mut expected = rows.iter().rev().filter(|row| order.compare(&row.0, &key).is_le());
            for step in 0..6 {
                assert_row(&iter, expected.next());
                // Turn around in the middle now and then.
                if step == 3 && iter.valid() {
                    let here = iter.key().to_vec();
                    iter.next();
                    assert_row(&iter, rows.iter().find(|row| order.compare(&row.0, &here).is_gt()));
                    if !iter.valid() {
                        return;
                    }
                    iter.prev();
                }
                iter.prev();
            }
        } else {
            iter.seek(&key);
            let mut expected = rows.iter().filter(|row| order.compare(&row.0, &key).is_ge());
            for step in 0..6 {
                assert_row(&iter, expected.next());
                if step == 3 && iter.valid() {
                    let here = iter.key().to_vec();
                    iter.prev();
                    assert_row(&iter, rows.iter().rev().find(|row| order.compare(&row.0, &here).is_lt()));
                    if !iter.valid() {
                        return;
                    }
                    iter.next();
                }
                iter.next();
            }
        }
    }

    fn walk_bounded(&mut self, family: u8, low: u16, high: u16) {
        self.settle(family);
        let (low, high) = self.ordered(family, Some(key_bytes(low)), Some(key_bytes(high)));
        let options = options::read(&mut self.draw, None, (low.clone(), high.clone()));
        let order = &self.orders[family as usize];
        let within = |key: &[u8]| {
            low.as_ref().is_none_or(|low| order.compare(key, low).is_ge())
                && high.as_ref().is_none_or(|high| order.compare(key, high).is_lt())
        };
        let mut rows = self.rows(family, &self.maps[family as usize]);
        rows.retain(|row| within(&row.0));
        self.compare_rows(family, &rows, &options);
        if let Some(low) = low {
            self.walk_to_bound(family, &low, high);
        }
    }

    /// From `low` to the bound, and from `low` back beyond it.
    fn walk_to_bound(&mut self, family: u8, low: &[u8], high: Option<Vec<u8>>) {
        let options = options::read(&mut self.draw, None, (None, high.clone()));
        let order = &self.orders[family as usize];
        let mut rows = self.rows(family, &self.maps[family as usize]);
        rows.retain(|row| high.as_ref().is_none_or(|high| order.compare(&row.0, high).is_lt()));
        let start = rows.partition_point(|row| order.compare(&row.0, low).is_lt());
        let mut iter = self.db().iter_cf(&self.family(family), &options).unwrap();
        iter.seek(low);
        for row in &rows[start..] {
            assert_row(&iter, Some(row));
            iter.next();
        }
        assert_row(&iter, None);
        iter.seek(low);
        if iter.valid() {
            iter.prev();
            assert_row(&iter, start.checked_sub(1).map(|before| &rows[before]));
        }
    }

    /// Walks everything forward and backward.
    fn compare_rows(&self, family: u8, rows: &[(Vec<u8>, Vec<u8>)], options: &ReadOptions) {
        let mut iter = self.db().iter_cf(&self.family(family), options).unwrap();
        compare_walks(&mut iter, rows);
    }

    /// An iterator shows what was there when it was made, whatever was flushed and compacted since; refreshed, what is there now.
    fn hold(&mut self, family: u8, refresh: bool) {
        self.settle(family);
        let now = self.rows(family, &self.maps[family as usize]);
        let made = match self.held[family as usize].take() {
            Some((mut iter, rows)) => {
                compare_walks(&mut iter, &rows);
                refresh.then(|| {
                    iter.refresh().unwrap();
                    compare_walks(&mut iter, &now);
                    iter
                })
            }
            None => {
                let options = options::read(&mut self.draw, None, (None, None));
                Some(self.db().iter_cf(&self.family(family), &options).unwrap())
            }
        };
        self.held[family as usize] = made.map(|iter| (iter, now));
        let pinned = self.db().pinned_states(&self.family(family));
        assert!(self.held[family as usize].is_some() || pinned.is_empty(), "{pinned:?}");
    }

    /// Lets the iterators go that were made a while ago: a database that is opened again may delete what they read.
    fn let_go(&mut self) {
        for (mut iter, rows) in self.held.iter_mut().filter_map(Option::take) {
            compare_walks(&mut iter, &rows);
        }
    }

    /// Compares every key, now and at every live snapshot, with the model.
    pub fn compare_everything(&mut self) {
        for family in 0..NAMES.len() {
            self.settle(family as u8);
            let handle = self.family(family as u8);
            for index in 0..self.snapshots.len() {
                let Some(mut model) = self.snapshots[index].models[family].take() else { continue };
                let at = ReadOptions::default().snapshot(Some(self.snapshots[index].snapshot.clone()));
                self.see_rows(&handle, &mut model, &at);
                self.snapshots[index].maps[family] = Some(model.rows().iter().cloned().collect());
                self.snapshots[index].models[family] = Some(model);
            }
        }
        let now = self.maps.iter().cloned().map(Some).collect();
        let mut moments = vec![(None, now)];
        moments.extend(self.snapshots.iter().map(|moment| (Some(moment.snapshot.clone()), moment.maps.clone())));
        for (snapshot, maps) in moments {
            for (family, map) in maps.iter().enumerate() {
                let Some(map) = map else { continue };
                let options = options::read(&mut self.draw, snapshot.clone(), (None, None));
                let rows = self.rows(family as u8, map);
                self.compare_rows(family as u8, &rows, &options);
                let handle = self.family(family as u8);
                let keys: Vec<Vec<u8>> = (0..crate::KEYS).map(key_bytes).collect();
                let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                for (key, found) in keys.iter().zip(self.db().multi_get_cf(&handle, &slices, &options)) {
                    assert_eq!(found.unwrap().as_deref(), map.get(key).map(Vec::as_slice));
                }
            }
        }
        self.check_tree();
    }

    /// Returns what was tried.
    pub fn close(mut self) -> Tally {
        self.snapshots.clear();
        self.let_go();
        self.db.take().expect("open").close().unwrap();
        self.tally
    }
}

/// Walks everything forward and backward.
fn compare_walks(iter: &mut Iter, rows: &[(Vec<u8>, Vec<u8>)]) {
    iter.seek_to_first();
    for row in rows {
        assert_row(iter, Some(row));
        iter.next();
    }
    assert_row(iter, None);
    iter.seek_to_last();
    for row in rows.iter().rev() {
        assert_row(iter, Some(row));
        iter.prev();
    }
    assert_row(iter, None);
}

fn assert_row(iter: &Iter, expected: Option<&(Vec<u8>, Vec<u8>)>) {
    iter.status().unwrap();
    let row = iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()));
    assert_eq!(row.as_ref(), expected);
}
