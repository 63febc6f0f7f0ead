//! A trial: random steps, and everything that can be seen compared after each few.

mod crash;

use super::model::{COLUMN, Durations, Rows, Word, entries, is_unique, name, value};
use super::open;
use crate::expiry_support::{DIR, Rng, START, seconds};
use siltstone::lsm::{
    CompactRangeOptions, CompactionStyle, Counter, ErrorKind, IndexEntry, IndexScan, Snapshot, TableDb,
};
use siltstone::ttl::RowExpiry;
use siltstone_base::clock::{Clock, ManualClock};
use siltstone_base::engine::{Admin, LazyTableId, LazyTableSpec, Row, TableId, TableSpec};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use siltstone_base::index_spec::{FixedColumns, IndexSpec, LazyIndexSpec};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const STEPS: u64 = 30;

/// Verbs that neither add indexes nor open the database again.
const STEADY_VERBS: u64 = 21;

/// The eager table, and the lazy one.
const TABLES: usize = 2;

struct Moment {
    snapshot: Snapshot,
    time: u64,
    rows: [Rows; TABLES],
}

/// One database and its model.
pub struct Trial {
    seed: u64,
    rng: Rng,
    disk: SimDisk,
    style: CompactionStyle,
    clock: Arc<ManualClock>,
    executor: Arc<StepExecutor>,
    db: Option<TableDb>,
    eager: TableId,
    lazy: LazyTableId,
    eager_spec: TableSpec,
    lazy_spec: LazyTableSpec,
    /// Stamps are those of a column.
    by_column: [bool; TABLES],
    durations: [Durations; TABLES],
    /// With those that are expired.
    rows: [Rows; TABLES],
    snapshots: Vec<Moment>,
    pub rows_removed: u64,
    pub files_dropped: u64,
    pub rows_hidden: u64,
    pub blocks_skipped: u64,
}

/// Rows as a scan yields them.
fn in_order(rows: &Rows) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut expected: Vec<_> = rows.iter().map(|(key, (value, _))| (name(*key), value.clone())).collect();
    expected.sort();
    expected
}

fn expiry(duration: u64, by_column: bool) -> RowExpiry {
    let expiry = RowExpiry::after(seconds(duration));
    if by_column { expiry.from_column(COLUMN) } else { expiry }
}

impl Trial {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let styles = [CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Lazy];
        let style = styles[rng.below(3) as usize];
        Self::drawn(seed, rng, style)
    }

    fn drawn(seed: u64, mut rng: Rng, style: CompactionStyle) -> Self {
        let disk = SimDisk::new();
        disk.make_durable_dir(Path::new(DIR)).unwrap();
        let clock = Arc::new(ManualClock::new(START));
        let (db, executor) = open(&disk, style, &clock).unwrap();
        let indexes = vec![
            IndexSpec::over_columns("kind", Some(0..1)).covered(Arc::new(FixedColumns::new(Some(2..3)))),
            IndexSpec::over_columns("number", Some(1..2)).unique(true),
            IndexSpec::new("word", Arc::new(Word)),
        ];
        let eager_spec = TableSpec { name: "eager".to_owned(), indexes };
        let indexes = vec![LazyIndexSpec::over_columns("kind", Some(0..1)), LazyIndexSpec::new("word", Arc::new(Word))];
        let lazy_spec = LazyTableSpec { name: "lazy".to_owned(), indexes };
        let by_column = [rng.below(2) == 0, rng.below(2) == 0];
        let lives = [10 + rng.below(90), 10 + rng.below(90)];
        let eager = db.create_expiring_table(&eager_spec, &expiry(lives[0], by_column[0])).unwrap();
        let lazy = db.create_expiring_lazy_table(&lazy_spec, &expiry(lives[1], by_column[1])).unwrap();
        Self {
            seed,
            rng,
            disk,
            style,
            clock,
            executor,
            db: Some(db),
            eager,
            lazy,
            eager_spec,
            lazy_spec,
            by_column,
            durations: lives.map(Durations::new),
            rows: Default::default(),
            snapshots: Vec::new(),
            rows_removed: 0,
            files_dropped: 0,
            rows_hidden: 0,
            blocks_skipped: 0,
        }
    }

    fn db(&self) -> &TableDb {
        self.db.as_ref().unwrap()
    }

    /// The time by which rows expire.
    fn now(&self) -> u64 {
        let db = self.db().db();
        db.expiry_report(&db.default_family()).unwrap().unwrap().unix_seconds
    }

    fn visible(&self, table: usize) -> Rows {
        self.durations[table].visible(&self.rows[table], self.now())
    }

    /// Some keys with values, and the stamps that they get.
    fn drafts(&mut self, table: usize) -> Vec<(u8, (Vec<u8>, u64))> {
        let now = self.now();
        let mut keys = BTreeSet::new();
        keys.extend((0..1 + self.rng.below(3)).map(|_| self.rng.below(12) as u8));
        let mut draft = |key| {
            let column = now - 60 + self.rng.below(90);
            let len = if self.rng.below(4) == 0 { 100 + self.rng.below(100) } else { self.rng.below(9) };
            let [kind, number, other] = [5, 30, 9].map(|below| self.rng.below(below) as u8);
            let stamp = if self.by_column[table] { column } else { now };
            (key, (value(kind, number, other, column, len as usize), stamp))
        };
        keys.into_iter().map(&mut draft).collect()
    }

    /// An insert of rows that are not seen, or an update or a delete of rows that are there, though they may be expired: the caller has read them before.
    fn change(&mut self) {
        let verb = self.rng.below(4);
        let drafts = self.drafts(0);
        let (seen, mut after) = (self.visible(0), self.rows[0].clone());
        let (mut olds, mut news) = (Vec::new(), Vec::new());
        for (key, new) in drafts {
            if verb < 2 {
                if seen.contains_key(&key) {
                    continue;
                }
            } else {
                let Some((old, _)) = self.rows[0].get(&key) else { continue };
                olds.push((name(key), old.clone()));
            }
            after.remove(&key);
            if verb < 3 {
                news.push((name(key), new.0.clone()));
                after.insert(key, new);
            }
        }
        let olds: Vec<Row<'_>> = olds.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        let rows: Vec<Row<'_>> = news.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        let outcome = match verb {
            0 | 1 => self.db().insert(self.eager, &rows),
            2 => self.db().update(self.eager, &olds.into_iter().zip(rows).collect::<Vec<_>>()),
            _ => self.db().delete(self.eager, &olds),
        };
        // A row may be given a column that says that it is expired: it takes its key all the same, for this moment.
        let mut held = self.durations[0].visible(&after, self.now());
        let new_keys: BTreeSet<Vec<u8>> = news.into_iter().map(|(key, _)| key).collect();
        held.extend(
            after.iter().filter(|(key, _)| new_keys.contains(&name(**key))).map(|(key, row)| (*key, row.clone())),
        );
        match is_unique(&held) {
            true => {
                outcome.unwrap();
                self.rows[0] = after;
            }
            false => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::AlreadyExists),
        }
    }

    fn upsert(&mut self) {
        let drafts = self.drafts(1);
        let rows: Vec<(Vec<u8>, Vec<u8>)> = drafts.iter().map(|(key, row)| (name(*key), row.0.clone())).collect();
        let rows: Vec<Row<'_>> = rows.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        self.db().upsert(self.lazy, &rows).unwrap();
        self.rows[1].extend(drafts);
    }

    fn open_again(&mut self) {
        let (db, executor) = open(&self.disk, self.style, &self.clock).unwrap();
        (self.db, self.executor) = (Some(db), executor);
        let now = self.now();
        self.durations.iter_mut().for_each(|durations| durations.reopened(now));
        for table in 0..TABLES {
            if self.rng.below(4) == 0 {
                let duration = 10 + self.rng.below(90);
                self.durations[table].set(duration, now);
            }
        }
        let expiries = [0, 1].map(|table| expiry(self.durations[table].current(), self.by_column[table]));
        assert_eq!(self.db().open_expiring_table(&self.eager_spec, &expiries[0]).unwrap(), self.eager);
        assert_eq!(self.db().open_expiring_lazy_table(&self.lazy_spec, &expiries[1]).unwrap(), self.lazy);
    }

    fn note(&mut self) {
        let metrics = self.db().db().metrics();
        let (rows, files) = (metrics.get(Counter::ExpiredRowsRemoved), metrics.get(Counter::ExpiredFilesDropped));
        let (hidden, skipped) = (metrics.get(Counter::ExpiredRowsHidden), metrics.get(Counter::ExpiredBlocksSkipped));
        self.rows_removed += rows;
        self.files_dropped += files;
        self.rows_hidden += hidden;
        self.blocks_skipped += skipped;
    }

    /// The machine's clock is set. Time never goes back because of it, and stands still while the clock is behind.
    fn move_wall(&mut self) {
        let (before, seconds) = (self.now(), self.rng.below(200) as i64 - 100);
        self.clock.move_wall(seconds);
        assert!(self.now() >= before, "the clock was set by {seconds} s");
    }

    /// A clock that is behind is right again.
    fn end_lag(&self) {
        let behind = self.now().saturating_sub(self.clock.unix_seconds());
        self.clock.move_wall(behind as i64);
    }

    fn crash(&mut self, is_power_loss: bool) {
        self.note();
        // A crash forgets the time since it was written down last: that the clock is behind as well is another test's matter.
        self.end_lag();
        self.snapshots.clear();
        let left = if is_power_loss { self.disk.after_power_loss() } else { self.disk.after_process_death() };
        self.disk.power_off();
        self.db = None;
        self.disk = left;
        self.open_again();
    }

    fn add_index(&mut self) {
        // An index cannot be read at a snapshot from before it.
        self.snapshots.clear();
        if self.rng.below(2) == 0 && self.eager_spec.indexes.len() == 3 {
            let index = IndexSpec::over_columns("both", [1..2, 0..1]).covered(Arc::new(Word));
            self.db().add_index(self.eager, &index).unwrap();
            self.eager_spec.indexes.push(index);
        } else if self.lazy_spec.indexes.len() == 2 {
            let index = LazyIndexSpec::over_columns("number", Some(1..2));
            self.db().add_lazy_index(self.lazy, &index).unwrap();
            self.lazy_spec.indexes.push(index);
        }
    }

    fn step(&mut self) {
        let verb = self.rng.below(26);
        self.act(verb);
    }

    fn act(&mut self, verb: u64) {
        match verb {
            0..=5 => self.change(),
            6..=9 => self.upsert(),
            10 => {
                let keys: Vec<u8> = (0..2).map(|_| self.rng.below(12) as u8).collect();
                let names: Vec<Vec<u8>> = keys.iter().map(|key| name(*key)).collect();
                let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
                self.db().delete_keys(self.lazy, &names).unwrap();
                keys.iter().for_each(|key| drop(self.rows[1].remove(key)));
            }
            11..=13 => self.clock.advance(Duration::from_secs(1 + self.rng.below(40))),
            14 => {
                let (table, duration) = (self.rng.below(2) as usize, 5 + self.rng.below(95));
                match table {
                    0 => self.db().set_row_duration(self.eager, seconds(duration)).unwrap(),
                    _ => self.db().set_row_duration(self.lazy, seconds(duration)).unwrap(),
                }
                let now = self.now();
                self.durations[table].set(duration, now);
            }
            15 if self.snapshots.len() < 3 => {
                let (snapshot, time, rows) = (self.db().snapshot(), self.now(), self.rows.clone());
                self.snapshots.push(Moment { snapshot, time, rows });
            }
            15 => drop(self.snapshots.remove(0)),
            16 => Admin::flush(self.db()).unwrap(),
            17 => {
                let options = CompactRangeOptions::default().force_bottommost(true);
                self.db().db().compact_range(&self.db().db().default_family(), None, None, &options).unwrap();
            }
            18 => Admin::settle(self.db()).unwrap(),
            19 => {
                for _ in 0..self.rng.below(30) {
                    self.executor.step();
                }
            }
            20 if self.rng.below(3) == 0 => drop(self.db().sweep_above(self.lazy, 0.1, 8).unwrap()),
            20 => drop(self.db().sweep(self.lazy, usize::MAX).unwrap()),
            STEADY_VERBS => self.add_index(),
            22 => {
                self.note();
                self.snapshots.clear();
                self.db.take().unwrap().close().unwrap();
                self.open_again();
            }
            23 => self.move_wall(),
            _ => {
                let is_power_loss = self.rng.below(2) == 0;
                self.crash(is_power_loss);
            }
        }
    }

    fn compare(&self, table: usize, rows: &Rows, at: Option<&Snapshot>) {
        let count = if table == 0 { self.eager_spec.indexes.len() } else { self.lazy_spec.indexes.len() };
        for index in 0..count {
            let all = match table {
                0 => {
                    let spec = &self.eager_spec.indexes[index];
                    entries(rows, &*spec.extractor, spec.covered.as_deref())
                }
                _ => entries(rows, &*self.lazy_spec.indexes[index].extractor, None),
            };
            let mut expected: Vec<[Vec<u8>; 4]> = all.into_values().collect();
            for is_reverse in [false, true] {
                let scan = at.map_or_else(IndexScan::all, |snapshot| IndexScan::all().at(snapshot));
                let scan = if is_reverse { scan.reverse() } else { scan };
                let mut found: Vec<[Vec<u8>; 4]> = Vec::new();
                let mut note = |entry: IndexEntry<'_>, value: &[u8]| {
                    found.push([entry.index_key, entry.primary_key, entry.covered, value].map(<[u8]>::to_vec));
                };
                match table {
                    0 => self.db().scan_rows_by(self.eager, index, &scan, &mut note),
                    _ => self.db().scan_rows_by(self.lazy, index, &scan, &mut note),
                }
                .unwrap();
                assert_eq!(found, expected, "rows of table {table} by index {index}");
                if table == 0 {
                    let mut found: Vec<[Vec<u8>; 3]> = Vec::new();
                    let mut note = |entry: IndexEntry<'_>| {
                        found.push([entry.index_key, entry.primary_key, entry.covered].map(<[u8]>::to_vec));
                    };
                    self.db().scan_entries(self.eager, index, &scan, &mut note).unwrap();
                    let entries: Vec<[Vec<u8>; 3]> = expected.iter().cloned().map(|[a, b, c, _]| [a, b, c]).collect();
                    assert_eq!(found, entries, "entries of index {index}");
                }
                expected.reverse();
            }
        }
    }

    /// All rows of a table.
    fn found(&self, table: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let mut note = |row: Row<'_>| found.push((row.primary_key.to_vec(), row.value.to_vec()));
        match table {
            0 => self.db().scan_rows(self.eager, b"", usize::MAX, &mut note),
            _ => self.db().scan_rows(self.lazy, b"", usize::MAX, &mut note),
        }
        .unwrap();
        found
    }

    /// Everything that can be seen, at every moment that is held.
    fn compare_all(&self) {
        for table in 0..TABLES {
            let rows = self.visible(table);
            self.compare(table, &rows, None);
            for moment in &self.snapshots {
                let rows = self.durations[table].visible(&moment.rows[table], moment.time);
                self.compare(table, &rows, Some(&moment.snapshot));
            }
            let found = self.found(table);
            assert_eq!(found, in_order(&rows), "rows of table {table}");
            for key in 0..12 {
                let mut value = None;
                let mut note = |bytes: &[u8]| value = Some(bytes.to_vec());
                match table {
                    0 => self.db().get_row(self.eager, &name(key), &mut note),
                    _ => self.db().get_row(self.lazy, &name(key), &mut note),
                }
                .unwrap();
                assert_eq!(value, rows.get(&key).map(|(value, _)| value.clone()));
            }
        }
        for check in self.db().check_table(self.eager).unwrap() {
            assert!(check.is_sound() && check.stale == 0 && check.missing == 0, "{check:?}");
        }
        for check in self.db().check_table(self.lazy).unwrap() {
            assert!(check.is_sound() && check.missing == 0, "{check:?}");
        }
        assert_eq!(self.db().db().metrics().get(Counter::SingleDeleteMismatches), 0);
    }

    /// Everything agrees, and in the end everything is gone.
    pub fn run(&mut self) {
        let seed = self.seed;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.steps()));
        assert!(outcome.is_ok(), "seed {seed}");
    }

    fn steps(&mut self) {
        for number in 0..STEPS {
            self.step();
            if number % 5 == 4 {
                self.compare_all();
            }
        }
        self.end();
    }

    fn end(&mut self) {
        self.snapshots.clear();
        self.compare_all();
        while !self.db().sweep(self.lazy, usize::MAX).unwrap().is_through {}
        self.compare_all();
        Admin::flush(self.db()).unwrap();
        self.end_lag();
        self.clock.advance(Duration::from_secs(300));
        assert!((0..TABLES).all(|table| self.visible(table).is_empty()));
        self.compare_all();
        Admin::settle(self.db()).unwrap();
        self.compare_all();
        self.note();
    }
}
