//! Compactions that are shared out to several jobs: what they leave is what one job leaves.

use super::basics::options;
use crate::options::CompactionStyle;
use crate::{
    AppendOperator, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Counter, Db, DbOptions, ErrorKind,
    FlushOptions, ReadOptions, Snapshot, TableOptions, WriteBatch, WriteOptions,
};
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::env::sim::SimDisk;
use std::sync::Arc;

const KEYS: u32 = 600;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn family(style: CompactionStyle) -> ColumnFamilyOptions {
    ColumnFamilyOptions::default()
        .compression(CompressionType::None)
        .compaction_style(style)
        .merge_operator(Some(Arc::new(AppendOperator::new(","))))
        .disable_auto_compactions(true)
        .level0_file_num_compaction_trigger(3)
        .target_file_size_base(8 << 10)
        .max_bytes_for_level_base(1 << 20)
        .table(TableOptions::default().block_size(512))
}

fn open(disk: &SimDisk, subcompactions: usize, family: ColumnFamilyOptions) -> Db {
    let options = options(disk).max_subcompactions(subcompactions);
    Db::open_families("/db", &options, &[("default", family)]).unwrap()
}

/// Tables over one another of everything that there is, and a snapshot in between.
fn fill(db: &Db) -> Snapshot {
    let family = db.default_family();
    let mut snapshot = None;
    for round in 0..5 {
        let mut batch = WriteBatch::new();
        for number in 0..KEYS {
            match (number + round) % 9 {
                0 | 1 => batch.merge_cf(&family, key(number), format!("operand {round}")),
                2 => batch.delete_cf(&family, key(number)),
                3 => {}
                _ => batch.put_cf(&family, key(number), format!("{:->1$}", round, 10 + number as usize % 40)),
            }
        }
        batch.delete_range_cf(&family, key(round * 90), key(round * 90 + 200));
        db.write(&mut batch, &WriteOptions::default()).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        if round == 2 {
            snapshot = Some(db.snapshot());
        }
    }
    snapshot.unwrap()
}

fn rows(db: &Db, snapshot: Option<&Snapshot>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iter = db.iter(&ReadOptions::default().snapshot(snapshot.cloned())).unwrap();
    let mut rows = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        rows.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    rows
}

#[test]
fn what_is_left_and_counted_does_not_depend_on_how_many_there_are() {
    let counted = [
        Counter::CompactionKeyDropNewerEntry,
        Counter::CompactionKeyDropObsolete,
        Counter::CompactionKeyDropRange,
        Counter::OperandsMerged,
        Counter::CompactReadBytes,
    ];
    for style in [CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Lazy] {
        let mut expected = None;
        for subcompactions in [1, 2, 5] {
            let disk = SimDisk::new();
            let db = open(&disk, subcompactions, family(style));
            let snapshot = fill(&db);
            let before = (rows(&db, None), rows(&db, Some(&snapshot)));
            db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
            assert!((rows(&db, None), rows(&db, Some(&snapshot))) == before, "{style:?}, {subcompactions}");
            db.check().unwrap();
            let ran = db.metrics().get(Counter::Subcompactions);
            assert_eq!(ran, if subcompactions == 1 { 0 } else { subcompactions as u64 }, "{style:?}");
            let figures = counted.map(|counter| db.metrics().get(counter));
            assert_eq!(*expected.get_or_insert(figures), figures, "{style:?}, {subcompactions}");
            drop(snapshot);
            db.close().unwrap();
        }
    }
}

#[test]
fn a_request_may_ask_for_another_number() {
    let all = CompactRangeOptions::default().force_bottommost(true);
    let disk = SimDisk::new();
    let db = open(&disk, 1, family(CompactionStyle::Leveled));
    drop(fill(&db));
    let ran = || db.metrics().get(Counter::Subcompactions);
    let compact = |options: &CompactRangeOptions| db.compact_range(&db.default_family(), None, None, options).unwrap();
    compact(&CompactRangeOptions::default().max_subcompactions(3));
    assert_eq!(ran(), 3);
    db.set_db_options(&[("max_subcompactions", "2")]).unwrap();
    compact(&all.clone().max_subcompactions(1));
    assert_eq!(ran(), 3);
    // Rewriting the last level is one compaction, too.
    compact(&all);
    assert_eq!(ran(), 5);
    assert!(db.set_db_options(&[("max_subcompactions", "0")]).is_err());
}

/// Panics when it meets one key.
#[derive(Debug)]
struct Panics(Vec<u8>);

impl EntryFilter for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn filter(&self, _: usize, key: &[u8], _: &[u8]) -> Decision {
        assert!(key != self.0, "a filter that panics");
        Decision::Keep
    }
}

#[test]
fn a_panic_of_one_makes_the_engine_read_only_and_loses_nothing() {
    for number in [0, 300, KEYS - 5] {
        let disk = SimDisk::new();
        let family = family(CompactionStyle::Leveled);
        let failing = family.clone().compaction_filter(Some(Arc::new(Panics(key(number)))));
        let db = open(&disk, 4, failing);
        (0..4).for_each(|_| {
            (0..KEYS).for_each(|number| db.put(key(number), [7; 60]).unwrap());
            db.flush(&FlushOptions::default()).unwrap();
        });
        let error = db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Aborted), "{error}");
        assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Poisoned);
        assert_eq!(rows(&db, None).len(), KEYS as usize);
        assert!(db.close().is_err());
        let db = open(&disk, 4, family);
        assert_eq!(rows(&db, None).len(), KEYS as usize);
        db.check().unwrap();
    }
}

#[test]
fn they_run_on_threads() {
    let disk = SimDisk::new();
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).max_background_jobs(4);
    let options = options.max_subcompactions(6);
    let db = Db::open_families("/db", &options, &[("default", family(CompactionStyle::Leveled))]).unwrap();
    let snapshot = fill(&db);
    let before = (rows(&db, None), rows(&db, Some(&snapshot)));
    for _ in 0..3 {
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default().force_bottommost(true))
            .unwrap();
        assert!((rows(&db, None), rows(&db, Some(&snapshot))) == before);
    }
    assert!(db.metrics().get(Counter::Subcompactions) >= 6);
    db.check().unwrap();
    drop(snapshot);
    db.close().unwrap();
}
