//! Which row of a call an error names, and about which ones extractors are asked twice.

use super::eager::Moody;
use super::*;
use siltstone_base::engine::RowChange;
use siltstone_base::index_spec::LazyIndexSpec;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An eager and a lazy table with an index that misbehaves by the first byte of a row's value: `p` panics, `c` changes its mind, `u` cannot be read.
struct World {
    db: TableDb,
    eager: TableId,
    lazy: LazyTableId,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        let index = IndexSpec::new("moody", Arc::new(Moody::default()));
        let eager = db.create_table(&TableSpec { name: "eager".to_owned(), indexes: vec![index] }).unwrap();
        let index = LazyIndexSpec::new("moody", Arc::new(Moody::default()));
        let lazy = db.create_lazy_table(&LazyTableSpec { name: "lazy".to_owned(), indexes: vec![index] }).unwrap();
        Self { db, eager, lazy, _dir: dir }
    }

    /// Makes a call of each kind with so many rows, of which the one at `bad` has this value: before the change, after it, or both. Returns what comes of them.
    fn call(&self, rows: usize, bad: usize, value: &str) -> Vec<(&'static str, Result<()>)> {
        let names: Vec<String> = (0..rows).map(|number| format!("{number:04}")).collect();
        let good: Vec<Row<'_>> = names.iter().map(|key| row(key, "good")).collect();
        let mut rows = good.clone();
        rows[bad] = row(&names[bad], value);
        let pairs = |old: &[Row<'_>], new: &[Row<'_>]| {
            let pairs: Vec<_> = old.iter().copied().zip(new.iter().copied()).collect();
            let changes: Vec<_> = pairs.iter().map(|(old, new)| (self.eager, RowChange::Update(*old, *new))).collect();
            [self.db.update(self.eager, &pairs), self.db.commit(&changes)]
        };
        let [update_to, commit_to] = pairs(&good, &rows);
        let [update_from, commit_from] = pairs(&rows, &good);
        vec![
            ("insert", self.db.insert(self.eager, &rows)),
            ("delete", self.db.delete(self.eager, &rows)),
            ("update to", update_to),
            ("update from", update_from),
            ("commit to", commit_to),
            ("commit from", commit_from),
            ("upsert", self.db.upsert(self.lazy, &rows)),
        ]
    }

    fn refuses(&self, rows: usize, bad: usize, value: &str, kind: ErrorKind) {
        for (call, outcome) in self.call(rows, bad, value) {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), kind, "{call}: {error}");
            assert_eq!(error.message(), format!("row {bad} of the call, from 0"), "{call}");
            assert!(error.to_string().contains("index moody"), "{call}: {error}");
        }
    }
}

#[test]
fn of_a_thousand_rows_the_one_is_named_that_an_extractor_cannot_read() {
    let world = World::new();
    for (value, kind) in [("unreadable", ErrorKind::Corruption), ("panics", ErrorKind::Poisoned)] {
        for bad in [0, 1, 500, 777, 999] {
            world.refuses(1000, bad, value, kind);
        }
    }
    assert_eq!(stored(&world.db, &world.db.ground.rows), Vec::<Vec<u8>>::new());
}

#[test]
fn a_commit_names_a_row_by_its_place_among_the_changes_of_all_tables() {
    let world = World::new();
    let other = world.db.create_table(&spec("other", 1)).unwrap();
    let changes = [
        (world.eager, RowChange::Insert(row("1", "good"))),
        (other, RowChange::Insert(row("1", "good"))),
        (other, RowChange::Insert(row("2", "unreadable by others"))),
        (world.eager, RowChange::Insert(row("2", "changes"))),
    ];
    let error = world.db.commit(&changes).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, "row 3 of the call, from 0"));
    assert_eq!(stored(&world.db, &world.db.ground.rows), Vec::<Vec<u8>>::new());
}

/// A row that is written again would leave the entry of its first answer behind.
#[test]
fn an_extractor_that_changes_its_mind_fills_no_index_of_rows_that_were_there() {
    // Few entries are put one by one, and many are sorted.
    for (rows, bad) in [(10, 7), (2_000, 1_984)] {
        let world = World::new();
        let eager = world.db.create_table(&TableSpec { name: "bare".to_owned(), indexes: Vec::new() }).unwrap();
        let spec = LazyTableSpec { name: "bare lazy".to_owned(), indexes: Vec::new() };
        let lazy = world.db.create_lazy_table(&spec).unwrap();
        let names: Vec<String> = (0..rows).map(|number| format!("{number:04}")).collect();
        let mut all: Vec<Row<'_>> = names.iter().map(|key| row(key, "good")).collect();
        all[bad] = row(&names[bad], "changes");
        world.db.insert(eager, &all).unwrap();
        world.db.upsert(lazy, &all).unwrap();
        let moody = || Arc::new(Moody::default());
        for outcome in [
            world.db.add_index(eager, &IndexSpec::new("moody", moody())),
            world.db.add_lazy_index(lazy, &LazyIndexSpec::new("moody", moody())),
        ] {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert_eq!(error.message(), format!("the row of entry {bad} of a scan, from 0"));
            assert!(error.to_string().contains("index moody"), "{error}");
        }
        assert!(world.db.scan_index(eager, 0, b"", 9, &mut |_| {}).is_err());
    }
}

/// What an extractor yields once and never again stays in the index for ever.
#[test]
fn an_extractor_that_changes_its_mind_about_one_row_of_sixteen_writes_nothing() {
    let world = World::new();
    for rows in 1..=16 {
        (0..rows).for_each(|bad| world.refuses(rows, bad, "changes", ErrorKind::InvalidArgument));
    }
    assert_eq!(stored(&world.db, &world.db.ground.rows), Vec::<Vec<u8>>::new());
}

#[test]
fn of_more_rows_the_first_the_middle_and_the_last_are_tried() {
    let world = World::new();
    for (rows, tried) in [(17, [0, 8, 16]), (100, [0, 50, 99])] {
        for bad in 0..rows {
            match tried.contains(&bad) {
                true => world.refuses(rows, bad, "changes", ErrorKind::InvalidArgument),
                false => world.call(rows, bad, "changes").into_iter().for_each(|(_, outcome)| outcome.unwrap()),
            }
        }
    }
}

/// Counts how often it is asked.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl IndexExtractor for Counting {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        index_key.extend_from_slice(value);
        true
    }
}

#[test]
fn asking_twice_costs_three_questions_a_large_call() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let counting = Arc::new(Counting::default());
    let index = IndexSpec::new("counting", Arc::<Counting>::clone(&counting));
    let table = db.create_table(&TableSpec { name: "t".to_owned(), indexes: vec![index] }).unwrap();
    for (rows, asked) in [(1, 2), (16, 32), (17, 20), (100, 103), (1000, 1003)] {
        let names: Vec<String> = (0..rows).map(|number| format!("{rows:04}{number:04}")).collect();
        let rows: Vec<Row<'_>> = names.iter().map(|key| row(key, "value")).collect();
        counting.0.store(0, Ordering::Relaxed);
        db.insert(table, &rows).unwrap();
        assert_eq!(counting.0.load(Ordering::Relaxed), asked);
    }
}
