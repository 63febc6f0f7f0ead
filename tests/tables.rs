//! Tables of the LSM engine against a naive model: rows in maps, and entries that are made of them anew for every comparison. An eager and a lazy table in one database, over
//! every style of compaction; snapshots, sweeps, indexes and tables that come and go, crashes.

#![expect(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use siltstone::ttl::{RowExpiry, TableTtl, TtlDuration};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::{Admin, LazyTableId, LazyTableSpec, Row, RowChange, TableId, TableSpec};
use siltstone_base::env::sim::{CrashConfig, CrashStates, SimDisk};
use siltstone_base::executor::StepExecutor;
use siltstone_base::index_spec::{FixedColumns, IndexExtractor, IndexSpec, LazyIndexSpec};
use siltstone_base::plant::{PlantedBug, with_planted};
use siltstone_lsm::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, Counter, DbOptions, ErrorKind, IndexEntry, IndexScan,
    Result, Snapshot, SweepOptions, TableDb, WriteOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DIR: &str = "/db";

/// Rows of a table by number.
type Rows = BTreeMap<u8, Vec<u8>>;

/// What a row's value is made of: its kind, its number, and how much follows. One of kind 4 is too short for entries.
type Draft = (u8, u8, u8);

fn name(key: u8) -> Vec<u8> {
    // Some are prefixes of others.
    format!("{}{}", key / 2, "x".repeat(usize::from(key % 2))).into_bytes()
}

fn value((kind, number, len): Draft) -> Vec<u8> {
    match kind {
        4 => vec![number],
        _ => [&[b'a' + kind, number, len / 3][..], &vec![b'v'; usize::from(len)]].concat(),
    }
}

/// As many bytes as the kind says, and then a smaller one.
#[derive(Debug)]
struct Word;

impl IndexExtractor for Word {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let [kind, number, ..] = value else { return false };
        index_key.extend(std::iter::repeat_n(number % 3 + 10, usize::from(kind % 4)));
        index_key.push(1);
        true
    }
}

/// Indexes that the eager table may have, the first three from the beginning.
fn eager_indexes() -> Vec<IndexSpec> {
    vec![
        IndexSpec::over_columns("kind", Some(0..1)).covered(Arc::new(FixedColumns::new(Some(2..3)))),
        IndexSpec::over_columns("number", Some(1..2)).unique(true),
        IndexSpec::new("word", Arc::new(Word)),
        IndexSpec::over_columns("both", [1..2, 0..1]),
        IndexSpec::new("other_word", Arc::new(Word)).covered(Arc::new(FixedColumns::new(Some(1..2)))),
    ]
}

fn lazy_indexes() -> Vec<LazyIndexSpec> {
    vec![
        LazyIndexSpec::over_columns("kind", Some(0..1)),
        LazyIndexSpec::new("word", Arc::new(Word)),
        LazyIndexSpec::over_columns("number", Some(1..2)),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Verb {
    Insert,
    Update,
    Delete,
}

/// A scan: which index, the beginnings of its bounds, direction, limit, which snapshot.
#[derive(Debug, Clone)]
struct Scan {
    index: usize,
    from: Vec<u8>,
    end: Option<Vec<u8>>,
    is_prefix: bool,
    is_reverse: bool,
    limit: usize,
    snapshot: usize,
}

#[derive(Debug, Clone)]
enum Step {
    Eager(Verb, Vec<(u8, Draft)>),
    /// Changes of all kinds in one call.
    Commit(Vec<(u8, Option<Draft>)>),
    Upsert(Vec<(u8, Draft)>),
    DeleteKeys(Vec<u8>),
    Scan(bool, Scan),
    Snapshot,
    Release(usize),
    Flush,
    Compact,
    Settle,
    Work(u8),
    Sweep(usize),
    SweepAbove(usize),
    AddIndex(bool),
    DropIndex(bool, usize),
    DropTable(bool),
    Check,
    Reopen,
    Crash(bool),
}

fn draft() -> impl Strategy<Value = Draft> {
    (0..5_u8, 0..30_u8, prop_oneof![4 => 0..9_u8, 1 => 100..200_u8])
}

fn rows() -> impl Strategy<Value = Vec<(u8, Draft)>> {
    prop::collection::vec((0..12_u8, draft()), 1..4)
}

fn bound() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![b'a'..=b'e', 0..30_u8, 10..13_u8];
    prop::collection::vec(prop_oneof![2 => first, 1 => b'0'..=b'6'], 0..4)
}

fn scan() -> impl Strategy<Value = Step> {
    let scan = (0..5_usize, bound(), prop::option::of(bound()), any::<bool>(), any::<bool>(), 0..9_usize, 0..6_usize);
    (any::<bool>(), scan).prop_map(|(is_lazy, (index, from, end, is_prefix, is_reverse, limit, snapshot))| {
        let limit = if limit == 8 { usize::MAX } else { limit };
        Step::Scan(is_lazy, Scan { index, from, end, is_prefix, is_reverse, limit, snapshot })
    })
}

fn step() -> impl Strategy<Value = Step> {
    let verb = prop_oneof![3 => Just(Verb::Insert), 3 => Just(Verb::Update), 2 => Just(Verb::Delete)];
    prop_oneof![
        12 => (verb, rows()).prop_map(|(verb, rows)| Step::Eager(verb, rows)),
        6 => prop::collection::vec((0..12_u8, prop::option::weighted(0.7, draft())), 1..6).prop_map(Step::Commit),
        12 => rows().prop_map(Step::Upsert),
        4 => prop::collection::vec(0..12_u8, 1..3).prop_map(Step::DeleteKeys),
        10 => scan(),
        2 => Just(Step::Snapshot),
        1 => (0..4_usize).prop_map(Step::Release),
        4 => Just(Step::Flush),
        2 => Just(Step::Compact),
        1 => Just(Step::Settle),
        3 => (1..9_u8).prop_map(Step::Work),
        3 => prop_oneof![1..9_usize, Just(usize::MAX)].prop_map(Step::Sweep),
        1 => (1..9_usize).prop_map(Step::SweepAbove),
        1 => any::<bool>().prop_map(Step::AddIndex),
        1 => (any::<bool>(), 0..4_usize).prop_map(|(is_lazy, index)| Step::DropIndex(is_lazy, index)),
        1 => any::<bool>().prop_map(Step::DropTable),
        1 => Just(Step::Check),
        1 => Just(Step::Reopen),
        1 => any::<bool>().prop_map(Step::Crash),
    ]
}

fn style() -> impl Strategy<Value = CompactionStyle> {
    prop::sample::select(&[CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Lazy])
}

/// The database and the model side by side.
struct World {
    disk: SimDisk,
    style: CompactionStyle,
    executor: Arc<StepExecutor>,
    db: Option<TableDb>,
    eager: TableId,
    lazy: LazyTableId,
    eager_spec: TableSpec,
    lazy_spec: LazyTableSpec,
    /// Of the eager table, and of the lazy one.
    rows: [Rows; 2],
    snapshots: Vec<(Snapshot, [Rows; 2])>,
}

fn open(disk: &SimDisk, style: CompactionStyle) -> Result<(TableDb, Arc<StepExecutor>)> {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = DbOptions::default()
        .create_if_missing(true)
        .env(Some(disk.env()))
        .executor(Some(Arc::clone(&executor) as Arc<dyn siltstone_base::executor::Executor>));
    let rows = ColumnFamilyOptions::default()
        .write_buffer_size(4 << 10)
        .target_file_size_base(1 << 10)
        .max_bytes_for_level_base(4 << 10)
        .level0_file_num_compaction_trigger(2)
        .compaction_style(style);
    // Few stale entries are enough, and few are looked at together.
    let sweeps = SweepOptions::default().in_background(true).least_stale(2).step_entries(4);
    let db = TableDb::open_swept(DIR, &options, &rows, &WriteOptions::default().sync(true), &sweeps)?;
    Ok((db, executor))
}

/// What an index yields for rows: the whole entry, by which it is sorted, index key, primary key, covered columns, and value.
type Entries = BTreeMap<Vec<u8>, [Vec<u8>; 4]>;

fn entries(rows: &Rows, extractor: &dyn IndexExtractor, covered: Option<&dyn IndexExtractor>) -> Entries {
    let mut entries = Entries::new();
    for (key, value) in rows {
        let (mut index_key, mut other) = (Vec::new(), Vec::new());
        if extractor.extract(&name(*key), value, &mut index_key) {
            if !covered.is_some_and(|covered| covered.extract(&name(*key), value, &mut other)) {
                other.clear();
            }
            let whole = [&index_key[..], &name(*key)].concat();
            entries.insert(whole, [index_key, name(*key), other, value.clone()]);
        }
    }
    entries
}

impl World {
    fn new(style: CompactionStyle) -> Self {
        let disk = SimDisk::new();
        disk.make_durable_dir(Path::new(DIR)).unwrap();
        let (db, executor) = open(&disk, style).unwrap();
        let eager_spec = TableSpec { name: "eager".to_owned(), indexes: eager_indexes()[..3].to_vec() };
        let lazy_spec = LazyTableSpec { name: "lazy".to_owned(), indexes: lazy_indexes()[..2].to_vec() };
        let (eager, lazy) = (db.create_table(&eager_spec).unwrap(), db.create_lazy_table(&lazy_spec).unwrap());
        let (db, rows, snapshots) = (Some(db), Default::default(), Vec::new());
        Self { disk, style, executor, db, eager, lazy, eager_spec, lazy_spec, rows, snapshots }
    }

    fn db(&self) -> &TableDb {
        self.db.as_ref().unwrap()
    }

    /// Whether no two rows have the same number, which is unique as long as it is indexed.
    fn is_unique(&self, rows: &Rows) -> bool {
        if !self.eager_spec.indexes.iter().any(|index| index.unique) {
            return true;
        }
        let mut numbers = BTreeSet::new();
        rows.values().filter_map(|value| value.get(1)).all(|number| numbers.insert(*number))
    }

    /// What the eager table has now, if a change of it succeeded: it must have, unless two rows would have one number.
    fn take_over(&mut self, after: Rows, outcome: Result<()>) -> Result<(), TestCaseError> {
        match self.is_unique(&after) {
            true => {
                prop_assert!(outcome.is_ok(), "{:?}", outcome);
                self.rows[0] = after;
            }
            false => prop_assert_eq!(outcome.unwrap_err().kind(), ErrorKind::AlreadyExists),
        }
        Ok(())
    }

    fn change(&mut self, verb: Verb, drafts: &[(u8, Draft)]) -> Result<(), TestCaseError> {
        let mut after = self.rows[0].clone();
        let (mut olds, mut news, mut touched) = (Vec::new(), Vec::new(), BTreeSet::new());
        for &(key, draft) in drafts {
            let old = self.rows[0].get(&key);
            if old.is_some() == matches!(verb, Verb::Insert) || !touched.insert(key) {
                continue;
            }
            olds.extend(old.map(|old| (name(key), old.clone())));
            after.remove(&key);
            if !matches!(verb, Verb::Delete) {
                news.push((name(key), value(draft)));
                after.insert(key, value(draft));
            }
        }
        let olds: Vec<Row<'_>> = olds.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        let news: Vec<Row<'_>> = news.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        let outcome = match verb {
            Verb::Insert => self.db().insert(self.eager, &news),
            Verb::Delete => self.db().delete(self.eager, &olds),
            Verb::Update => self.db().update(self.eager, &olds.into_iter().zip(news).collect::<Vec<_>>()),
        };
        self.take_over(after, outcome)
    }

    /// Rows that are there are deleted or replaced, others come; each row may take the number of one that goes.
    fn commit(&mut self, drafts: &[(u8, Option<Draft>)]) -> Result<(), TestCaseError> {
        let mut after = self.rows[0].clone();
        let mut changes = Vec::new();
        for (key, draft) in BTreeMap::from_iter(drafts.iter().copied()) {
            let (old, new) = (after.remove(&key), draft.map(value));
            after.extend(new.clone().map(|new| (key, new)));
            changes.push((name(key), old, new));
        }
        let changes: Vec<(TableId, RowChange<'_>)> = changes
            .iter()
            .filter_map(|(primary_key, old, new)| {
                let row = |value| Row { primary_key, value };
                let change = match (old, new) {
                    (None, None) => return None,
                    (None, Some(new)) => RowChange::Insert(row(new)),
                    (Some(old), Some(new)) => RowChange::Update(row(old), row(new)),
                    (Some(old), None) => RowChange::Delete(row(old)),
                };
                Some((self.eager, change))
            })
            .collect();
        let outcome = self.db().commit(&changes);
        self.take_over(after, outcome)
    }

    /// A table goes, and one of its name comes, without rows.
    fn drop_table(&mut self, is_lazy: bool) {
        self.snapshots.clear();
        match is_lazy {
            true => {
                self.db().drop_table(self.lazy).unwrap();
                self.lazy = self.db().create_lazy_table(&self.lazy_spec).unwrap();
            }
            false => {
                self.db().drop_table(self.eager).unwrap();
                self.eager = self.db().create_table(&self.eager_spec).unwrap();
            }
        }
        self.rows[usize::from(is_lazy)].clear();
    }

    fn upsert(&mut self, drafts: &[(u8, Draft)]) {
        let rows: Vec<(Vec<u8>, Vec<u8>)> = drafts.iter().map(|(key, draft)| (name(*key), value(*draft))).collect();
        let rows: Vec<Row<'_>> = rows.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        self.db().upsert(self.lazy, &rows).unwrap();
        self.rows[1].extend(drafts.iter().map(|(key, draft)| (*key, value(*draft))));
    }

    fn scan(&self, is_lazy: bool, scan: &Scan) -> Result<(), TestCaseError> {
        let mut wanted = IndexScan::all();
        wanted = match scan.is_prefix {
            true => wanted.prefix(&scan.from),
            false => wanted.starting_at(&scan.from),
        };
        if let (Some(end), false) = (&scan.end, scan.is_prefix) {
            wanted = wanted.ending_before(end);
        }
        wanted = if scan.is_reverse { wanted.reverse() } else { wanted }.limit(scan.limit);
        let mut rows = &self.rows;
        if let Some((snapshot, then)) = self.snapshots.get(scan.snapshot) {
            wanted = wanted.at(snapshot);
            rows = then;
        }
        let rows = &rows[usize::from(is_lazy)];
        let count = if is_lazy { self.lazy_spec.indexes.len() } else { self.eager_spec.indexes.len() };
        if count == 0 {
            return Ok(());
        }
        let index = scan.index % count;
        let all = match is_lazy {
            true => entries(rows, &*self.lazy_spec.indexes[index].extractor, None),
            false => {
                let index = &self.eager_spec.indexes[index];
                entries(rows, &*index.extractor, index.covered.as_deref())
            }
        };
        let is_wanted = |whole: &[u8]| match scan.is_prefix {
            true => whole.starts_with(&scan.from),
            false => whole >= &scan.from[..] && scan.end.as_ref().is_none_or(|end| whole < &end[..]),
        };
        let mut expected: Vec<[Vec<u8>; 4]> =
            all.into_iter().filter(|(whole, _)| is_wanted(whole)).map(|(_, parts)| parts).collect();
        if scan.is_reverse {
            expected.reverse();
        }
        expected.truncate(scan.limit);
        let mut found: Vec<[Vec<u8>; 4]> = Vec::new();
        let mut note = |entry: IndexEntry<'_>, value: &[u8]| {
            found.push([entry.index_key, entry.primary_key, entry.covered, value].map(<[u8]>::to_vec));
        };
        let count = match is_lazy {
            true => self.db().scan_rows_by(self.lazy, index, &wanted, &mut note),
            false => self.db().scan_rows_by(self.eager, index, &wanted, &mut note),
        };
        prop_assert_eq!(count.unwrap(), expected.len());
        prop_assert_eq!(&found, &expected, "lazy: {}, index {}", is_lazy, index);
        if !is_lazy {
            let mut covering: Vec<[Vec<u8>; 3]> = Vec::new();
            let mut note = |entry: IndexEntry<'_>| {
                covering.push([entry.index_key, entry.primary_key, entry.covered].map(<[u8]>::to_vec));
            };
            self.db().scan_entries(self.eager, index, &wanted, &mut note).unwrap();
            let expected: Vec<[Vec<u8>; 3]> = expected.into_iter().map(|[a, b, c, _]| [a, b, c]).collect();
            prop_assert_eq!(covering, expected);
        }
        Ok(())
    }

    /// Everything, in both directions, at every moment that is held.
    fn scan_all(&self) -> Result<(), TestCaseError> {
        for snapshot in 0..=self.snapshots.len() {
            for index in 0..5 {
                for (is_lazy, is_reverse) in [(false, false), (true, false), (true, true)] {
                    let (from, end) = (Vec::new(), None);
                    let scan = Scan { index, from, end, is_prefix: false, is_reverse, limit: usize::MAX, snapshot };
                    self.scan(is_lazy, &scan)?;
                }
            }
        }
        for (is_lazy, rows) in [(false, &self.rows[0]), (true, &self.rows[1])] {
            let mut found = Vec::new();
            let mut note = |row: Row<'_>| found.push((row.primary_key.to_vec(), row.value.to_vec()));
            match is_lazy {
                true => self.db().scan_rows(self.lazy, b"", usize::MAX, &mut note),
                false => self.db().scan_rows(self.eager, b"", usize::MAX, &mut note),
            }
            .unwrap();
            let mut expected: Vec<_> = rows.iter().map(|(key, value)| (name(*key), value.clone())).collect();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for check in self.db().check_table(self.eager).unwrap() {
            prop_assert!(check.is_sound() && check.stale == 0 && check.missing == 0, "{:?}", check);
        }
        for check in self.db().check_table(self.lazy).unwrap() {
            prop_assert!(check.is_sound() && check.missing == 0, "{:?}", check);
        }
        prop_assert_eq!(self.db().db().metrics().get(Counter::SingleDeleteMismatches), 0);
        Ok(())
    }

    fn open_again(&mut self) {
        let (db, executor) = open(&self.disk, self.style).unwrap();
        assert_eq!(db.open_table(&self.eager_spec).unwrap(), self.eager);
        assert_eq!(db.open_lazy_table(&self.lazy_spec).unwrap(), self.lazy);
        (self.db, self.executor) = (Some(db), executor);
    }

    fn crash(&mut self, is_power_loss: bool) {
        self.snapshots.clear();
        let left = if is_power_loss { self.disk.after_power_loss() } else { self.disk.after_process_death() };
        self.disk.power_off();
        self.db = None;
        self.disk = left;
        self.open_again();
    }

    fn add_index(&mut self, is_lazy: bool) -> Result<(), TestCaseError> {
        // An index cannot be read at a snapshot from before it.
        self.snapshots.clear();
        if is_lazy {
            let has = |name: &str| self.lazy_spec.indexes.iter().any(|index| index.name == name);
            let Some(index) = lazy_indexes().into_iter().find(|index| !has(&index.name)) else { return Ok(()) };
            prop_assert_eq!(self.db().add_lazy_index(self.lazy, &index).unwrap(), self.lazy_spec.indexes.len());
            self.lazy_spec.indexes.push(index);
            return Ok(());
        }
        let has = |name: &str| self.eager_spec.indexes.iter().any(|index| index.name == name);
        let Some(index) = eager_indexes().into_iter().rev().find(|index| !has(&index.name)) else { return Ok(()) };
        let position = self.eager_spec.indexes.len();
        self.eager_spec.indexes.push(index.clone());
        let added = self.db().add_index(self.eager, &index);
        match self.is_unique(&self.rows[0]) {
            true => prop_assert_eq!(added.unwrap(), position),
            false => {
                prop_assert_eq!(added.unwrap_err().kind(), ErrorKind::AlreadyExists);
                self.eager_spec.indexes.pop();
            }
        }
        Ok(())
    }

    fn drop_index(&mut self, is_lazy: bool, index: usize) {
        if is_lazy && index < self.lazy_spec.indexes.len() {
            let gone = self.lazy_spec.indexes.remove(index);
            self.db().drop_index(self.lazy, &gone.name).unwrap();
        } else if !is_lazy && index < self.eager_spec.indexes.len() {
            let gone = self.eager_spec.indexes.remove(index);
            self.db().drop_index(self.eager, &gone.name).unwrap();
        }
    }

    fn act(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Eager(verb, rows) => self.change(*verb, rows)?,
            Step::Commit(drafts) => self.commit(drafts)?,
            Step::Upsert(rows) => self.upsert(rows),
            Step::DeleteKeys(keys) => {
                let names: Vec<Vec<u8>> = keys.iter().map(|key| name(*key)).collect();
                let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
                self.db().delete_keys(self.lazy, &names).unwrap();
                keys.iter().for_each(|key| drop(self.rows[1].remove(key)));
            }
            Step::Scan(is_lazy, scan) => self.scan(*is_lazy, scan)?,
            Step::Snapshot if self.snapshots.len() < 3 => {
                let moment = (self.db().snapshot(), self.rows.clone());
                self.snapshots.push(moment);
            }
            Step::Release(at) if *at < self.snapshots.len() => drop(self.snapshots.remove(*at)),
            Step::Snapshot | Step::Release(_) => {}
            Step::Flush => Admin::flush(self.db()).unwrap(),
            Step::Compact => {
                let options = CompactRangeOptions::default().force_bottommost(true);
                self.db().db().compact_range(&self.db().db().default_family(), None, None, &options).unwrap();
            }
            Step::Settle => Admin::settle(self.db()).unwrap(),
            Step::Work(count) => {
                for _ in 0..*count {
                    self.executor.step();
                }
            }
            Step::Sweep(budget) => drop(self.db().sweep(self.lazy, *budget).unwrap()),
            Step::SweepAbove(budget) => drop(self.db().sweep_above(self.lazy, 0.1, *budget).unwrap()),
            Step::AddIndex(is_lazy) => self.add_index(*is_lazy)?,
            Step::DropIndex(is_lazy, index) => self.drop_index(*is_lazy, *index),
            Step::DropTable(is_lazy) => self.drop_table(*is_lazy),
            Step::Check => self.check()?,
            Step::Reopen => {
                self.snapshots.clear();
                self.db.take().unwrap().close().unwrap();
                self.open_again();
            }
            Step::Crash(is_power_loss) => self.crash(*is_power_loss),
        }
        Ok(())
    }

    /// Everything agrees; and when nobody looks back, sweeps leave nothing that is stale.
    fn end(mut self) -> Result<(), TestCaseError> {
        self.scan_all()?;
        self.check()?;
        self.snapshots.clear();
        // The first may have been in the midst of a pass.
        for _ in 0..2 {
            while !self.db().sweep(self.lazy, usize::MAX).unwrap().is_through {}
        }
        for check in self.db().check_table(self.lazy).unwrap() {
            prop_assert_eq!(check.stale, 0, "{:?}", check);
        }
        self.scan_all()?;
        self.check()
    }
}

fn run(style: CompactionStyle, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(style);
    for step in steps {
        world.act(step)?;
    }
    world.end()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scans_equal_a_recomputation(style in style(), steps in prop::collection::vec(step(), 1..30)) {
        run(style, &steps)?;
    }
}

/// A sweep by hand is through when every entry was looked at since the call before: what the background looked at earlier, in a pass of its own, does not count.
#[test]
fn what_the_background_looked_at_before_a_change_is_swept_by_hand() {
    let upsert = |rows: &[(u8, Draft)]| Step::Upsert(rows.to_vec());
    let steps = [
        upsert(&[(1, (0, 0, 0))]),
        upsert(&[(1, (0, 0, 0)), (1, (0, 0, 100))]),
        Step::Eager(Verb::Insert, vec![(1, (0, 0, 0)), (3, (0, 1, 100))]),
        Step::DeleteKeys(vec![0]),
        Step::Eager(Verb::Update, vec![(1, (0, 2, 0))]),
        Step::Eager(Verb::Insert, vec![(2, (0, 3, 0))]),
        upsert(&[(1, (1, 0, 0)), (0, (0, 0, 126)), (2, (3, 0, 0))]),
        upsert(&[(4, (2, 0, 0))]),
        Step::Sweep(8),
        Step::Settle,
        upsert(&[(2, (2, 0, 0)), (3, (0, 0, 0)), (2, (0, 0, 0))]),
        Step::Work(1),
        upsert(&[(0, (1, 0, 0))]),
    ];
    run(CompactionStyle::Leveled, &steps).unwrap();
}

/// A change of the rows, or of the indexes: what was there after it, and the changes of the disk before and after the call.
struct Commit {
    rows: [Rows; 2],
    eager_spec: TableSpec,
    lazy_spec: LazyTableSpec,
    begun: usize,
    ended: usize,
}

impl Commit {
    /// What the world has after changes of the disk from `begun` to now.
    fn of(world: &World, begun: usize) -> Self {
        let (rows, ended) = (world.rows.clone(), world.disk.recorded());
        let (eager_spec, lazy_spec) = (world.eager_spec.clone(), world.lazy_spec.clone());
        Self { rows, eager_spec, lazy_spec, begun, ended }
    }
}

/// Runs a history and records what it does to the disk.
fn recorded(style: CompactionStyle, steps: &[Step]) -> Result<(World, Vec<Commit>), TestCaseError> {
    let mut world = World::new(style);
    world.disk.start_recording();
    let mut commits = vec![Commit::of(&world, 0)];
    for step in steps {
        let begun = world.disk.recorded();
        world.act(step)?;
        commits.push(Commit::of(&world, begun));
    }
    Ok((world, commits))
}

/// A fixed history in which indexes come and go.
fn history() -> Vec<Step> {
    let mut state = 11_u64;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let step = |number: u64| {
        let mut rows = || -> Vec<(u8, Draft)> {
            let mut row = || (below(12) as u8, (below(5) as u8, below(30) as u8, below(130) as u8));
            (0..3).map(|_| row()).collect()
        };
        match number % 11 {
            0 | 7 => Step::Eager(Verb::Insert, rows()),
            1 | 3 | 8 => Step::Upsert(rows()),
            2 => Step::Eager(Verb::Update, rows()),
            4 => Step::DeleteKeys(vec![rows()[0].0]),
            5 => Step::Eager(Verb::Delete, rows()),
            6 => Step::Sweep(usize::MAX),
            9 if number < 30 => Step::AddIndex(number > 10),
            9 if number < 40 => Step::DropIndex(false, 3),
            9 => Step::Settle,
            _ => Step::Flush,
        }
    };
    (0..44).map(step).collect()
}

/// Opens what a crash left, with the indexes that one of `commits` had.
fn recover(disk: &SimDisk, style: CompactionStyle, commits: &[Commit]) -> Result<World> {
    let (db, executor) = open(disk, style)?;
    let eager = commits.iter().rev().find_map(|commit| {
        let spec = commit.eager_spec.clone();
        db.open_table(&spec).ok().map(|table| (table, spec))
    });
    let lazy = commits.iter().rev().find_map(|commit| {
        let spec = commit.lazy_spec.clone();
        db.open_lazy_table(&spec).ok().map(|table| (table, spec))
    });
    let missing = || siltstone_base::Error::new(ErrorKind::NotFound, "a table with the indexes of none of the commits");
    let ((eager, eager_spec), (lazy, lazy_spec)) = eager.zip(lazy).ok_or_else(missing)?;
    let mut rows: [Rows; 2] = Default::default();
    let numbers: BTreeMap<Vec<u8>, u8> = (0..12).map(|key| (name(key), key)).collect();
    let mut note = |row: Row<'_>| drop(rows[0].insert(numbers[row.primary_key], row.value.to_vec()));
    db.scan_rows(eager, b"", usize::MAX, &mut note)?;
    let mut note = |row: Row<'_>| drop(rows[1].insert(numbers[row.primary_key], row.value.to_vec()));
    db.scan_rows(lazy, b"", usize::MAX, &mut note)?;
    let (disk, db, snapshots) = (disk.clone(), Some(db), Vec::new());
    Ok(World { disk, style, executor, db, eager, lazy, eager_spec, lazy_spec, rows, snapshots })
}

/// Every state in which a crash may leave the disk, or every `stride`th from `first` on. Returns their number.
fn explore(
    style: CompactionStyle,
    steps: &[Step],
    config: CrashConfig,
    first: usize,
    stride: usize,
) -> Result<usize, TestCaseError> {
    let (world, commits) = recorded(style, steps)?;
    let recording = world.disk.take_recording();
    world.disk.power_off();
    drop(world);
    let mut states = 0;
    for state in CrashStates::new(&recording, config).skip(first).step_by(stride) {
        let Some(disk) = state.disk() else { continue };
        states += 1;
        let at = format!("{style:?}: crash after change {} ({:?}), {:?}", state.cut, state.op, state.model);
        let first = commits.iter().rposition(|commit| commit.ended <= state.cut).unwrap();
        let last = commits.iter().rposition(|commit| commit.begun <= state.cut).unwrap();
        let possible = &commits[first..=last];
        let recovered = match recover(&disk, style, possible) {
            Ok(recovered) => recovered,
            Err(error) => return Err(TestCaseError::fail(format!("{at}: {error}"))),
        };
        let is_known = possible.iter().any(|commit| commit.rows == recovered.rows);
        prop_assert!(is_known, "{}: not what was there after commits {} to {}", at, first, last);
        recovered.scan_all().map_err(|error| TestCaseError::fail(format!("{at}: {error}")))?;
        recovered.end().map_err(|error| TestCaseError::fail(format!("{at}: {error}")))?;
    }
    Ok(states)
}

/// A step that leaves the tables and the disk where they are.
fn step_in_place() -> impl Strategy<Value = Step> {
    step().prop_filter("the disk or a table goes", |step| {
        !matches!(step, Step::Reopen | Step::Crash(_) | Step::DropTable(_))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn crashes_within_drawn_histories_leave_indexes_that_agree_with_their_rows(
        style in style(),
        steps in prop::collection::vec(step_in_place(), 1..20),
        first in 0..64_usize,
    ) {
        let config = CrashConfig { states_per_cut: 2, random_subsets: 1, tail_cuts: 2, tears: 1, ..CrashConfig::default() };
        explore(style, &steps, config, first, 64)?;
    }
}

#[test]
fn every_crash_state_has_indexes_that_agree_with_its_rows() {
    let mut states = 0;
    for style in [CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Lazy] {
        let config =
            CrashConfig { states_per_cut: 4, random_subsets: 3, tail_cuts: 3, tears: 2, ..CrashConfig::default() };
        match explore(style, &history(), config, 0, 1) {
            Ok(more) => states += more,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(states >= 500, "{states}");
}

/// The comparison is not blind: mistakes that are made on purpose are seen.
#[test]
fn the_mistakes_are_seen() {
    let steps = || {
        let rows = |number| vec![(1, (0, number, 1)), (2, (1, number + 1, 1))];
        vec![
            Step::Eager(Verb::Insert, rows(1)),
            Step::Eager(Verb::Insert, vec![(3, (0, 1, 1))]),
            Step::Upsert(rows(1)),
            Step::Snapshot,
            Step::Upsert(rows(7)),
            Step::Sweep(usize::MAX),
            Step::Flush,
            Step::Compact,
        ]
    };
    run(CompactionStyle::Leveled, &steps()).unwrap();
    for bug in [PlantedBug::UniqueIsNotChecked, PlantedBug::SnapshotIgnoredByCompaction] {
        let outcome = std::panic::catch_unwind(|| with_planted(bug, || run(CompactionStyle::Leveled, &steps())));
        assert!(!matches!(outcome, Ok(Ok(()))), "{bug:?}");
    }
}

/// Index maintenance asks nothing of index files: no point lookup, no seek, no block, outside of flushes and compactions.
#[test]
fn maintenance_reads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let rows_options = ColumnFamilyOptions::default()
        .write_buffer_size(256 << 10)
        .target_file_size_base(64 << 10)
        .disable_auto_compactions(true);
    let options = DbOptions::default().create_if_missing(true);
    // Sweeps ask filters, and now and then read a few rows.
    let sweeps = SweepOptions::default().in_background(false);
    let db = TableDb::open_swept(dir.path(), &options, &rows_options, &WriteOptions::default(), &sweeps).unwrap();
    let plain: Vec<IndexSpec> = eager_indexes().into_iter().filter(|index| !index.unique).collect();
    let eager = db.create_table(&TableSpec { name: "eager".to_owned(), indexes: plain }).unwrap();
    let lazy = db.create_lazy_table(&LazyTableSpec { name: "lazy".to_owned(), indexes: lazy_indexes() }).unwrap();
    let value = |key: u32, round: u32| {
        let number = key.wrapping_mul(2_654_435_761).wrapping_add(round);
        [&[b'a' + (number % 4) as u8][..], &number.to_be_bytes(), &[7; 60]].concat()
    };
    let write = |round: u32| {
        for key in 0..3_000_u32 {
            let (name, old, new) = (key.to_be_bytes(), value(key, round.wrapping_sub(1)), value(key, round));
            let (old, new) = (Row { primary_key: &name, value: &old }, Row { primary_key: &name, value: &new });
            match round {
                0 => db.insert(eager, &[new]).unwrap(),
                _ if key % 5 == 0 => db.delete(eager, &[old]).unwrap(),
                _ => db.update(eager, &[(old, new)]).unwrap(),
            }
            match key % 5 {
                0 if round > 0 => db.delete_keys(lazy, &[&name[..]]).unwrap(),
                _ => db.upsert(lazy, &[new]).unwrap(),
            }
        }
    };
    write(0);
    Admin::flush(&db).unwrap();
    let counters = [
        Counter::KeysRead,
        Counter::IterSeeks,
        Counter::IterSteps,
        Counter::TablesProbed,
        Counter::FilterUseful,
        Counter::FilterFullPositive,
        Counter::FilterPrefixChecked,
    ];
    let counted = || counters.map(|counter| db.db().metrics().get(counter));
    let before = counted();
    write(1);
    assert_eq!(counted(), before);
    assert_eq!(counted()[0], 0, "not at all");
    db.check_table(eager).unwrap().iter().for_each(|check| assert!(check.is_sound(), "{check:?}"));
    db.check_table(lazy).unwrap().iter().for_each(|check| assert!(check.is_sound(), "{check:?}"));
}

/// A row that something else than the tables has damaged is too short for its stamp.
#[test]
fn a_scan_of_rows_says_which_row_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    let rows = ColumnFamilyOptions::default().expiry(Some(Arc::new(TableTtl::default())));
    let db = TableDb::open(dir.path(), &options, &rows, &WriteOptions::default()).unwrap();
    let spec = TableSpec { name: "t".to_owned(), indexes: vec![IndexSpec::over_columns("first", Some(0..1))] };
    let expiry = RowExpiry::after(TtlDuration::from_seconds(1000).unwrap());
    let table = db.create_expiring_table(&spec, &expiry).unwrap();
    for key in [b"1", b"2", b"3", b"4"] {
        db.insert(table, &[Row { primary_key: key, value: b"abc" }]).unwrap();
    }
    db.db().put([&table.0.to_be_bytes()[..], b"3"].concat(), b"short").unwrap();
    let mut seen = Vec::new();
    let mut walk = |from: &[u8]| {
        seen.clear();
        let error = db.scan_rows(table, from, 9, &mut |row| seen.push(row.primary_key.to_vec())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        (error.message().to_owned(), seen.len())
    };
    assert_eq!(walk(b""), ("row 2 of a scan, from 0".to_owned(), 2));
    assert_eq!(walk(b"2"), ("row 1 of a scan, from 0".to_owned(), 1));
    // So is a row of a call that has not the column which says when it expires.
    let expiry = expiry.from_column(1);
    let by_column = db.create_expiring_table(&TableSpec { name: "u".to_owned(), ..spec }, &expiry).unwrap();
    let rows = [Row { primary_key: b"1", value: &[0; 9] }, Row { primary_key: b"2", value: &[0; 8] }];
    let error = db.insert(by_column, &rows).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, "row 1 of the call, from 0"));
}

/// Yields another key each time that it is asked about a row of the value `c`.
#[derive(Debug, Default)]
struct Fickle(AtomicU64);

impl IndexExtractor for Fickle {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let number = if value == b"c" { self.0.fetch_add(1, Ordering::Relaxed) } else { 0 };
        index_key.extend_from_slice(&number.to_be_bytes());
        true
    }
}

#[test]
fn where_rows_expire_an_extractor_is_tried_with_what_a_row_was() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    let rows = ColumnFamilyOptions::default().expiry(Some(Arc::new(TableTtl::default())));
    let db = TableDb::open(dir.path(), &options, &rows, &WriteOptions::default()).unwrap();
    for unique in [false, true] {
        let index = IndexSpec::new("fickle", Arc::new(Fickle::default())).unique(unique);
        let spec = TableSpec { name: format!("unique: {unique}"), indexes: vec![index] };
        let expiry = RowExpiry::after(TtlDuration::from_seconds(1000).unwrap());
        let table = db.create_expiring_table(&spec, &expiry).unwrap();
        let row = |value| Row { primary_key: b"1", value };
        for outcome in [db.update(table, &[(row(b"c"), row(b"a"))]), db.delete(table, &[row(b"c")])] {
            let error = outcome.unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, "row 0 of the call, from 0"));
        }
        db.update(table, &[(row(b"b"), row(b"a"))]).unwrap();
    }
}
