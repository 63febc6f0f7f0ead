//! Tables that one deletion of a range covers as a whole.

use super::basics::options;
use crate::event::{CompactionInfo, CompactionReason, EventListener};
use crate::metrics::Counter;
use crate::{ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, FlushOptions, ReadOptions};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// Counts the tables that went because they were covered.
#[derive(Debug, Default)]
struct Watch(AtomicU64);

impl EventListener for Watch {
    fn compaction_end(&self, info: &CompactionInfo) {
        if info.reason == CompactionReason::Covered {
            assert!(info.error.is_none() && info.outputs.is_empty());
            self.0.fetch_add(info.inputs.len() as u64, Ordering::Relaxed);
        }
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// Two thousand rows in many tables of the last level.
fn filled(watch: &Arc<Watch>) -> (Db, u64) {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default().compression(CompressionType::None).target_file_size_base(8 << 10);
    let listener: Arc<dyn EventListener> = watch.clone();
    let options = options(&disk).listeners(vec![listener]);
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    for number in 0..2_000 {
        db.put(key(number), [7; 100]).unwrap();
    }
    let force = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &force).unwrap();
    let tables = tables(&db);
    assert!(tables > 10, "{tables}");
    (db, tables)
}

fn tables(db: &Db) -> u64 {
    db.property("rocksdb.num-files-at-level6").unwrap().parse().unwrap()
}

#[test]
fn they_go_without_being_read_or_written() {
    let watch = Arc::new(Watch::default());
    let (db, before) = filled(&watch);
    let compactions = db.metrics().get(Counter::Compactions);
    db.delete_range(key(500), key(1_500)).unwrap();
    db.put(key(700), "again").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    let gone = watch.0.load(Ordering::Relaxed);
    assert!(gone * 3 > before, "{gone} of {before}");
    assert_eq!(tables(&db), before - gone);
    assert_eq!(db.metrics().get(Counter::Compactions), compactions, "nothing was rewritten");
    for number in 0..2_000 {
        let is_there = db.get(key(number)).unwrap().is_some();
        assert_eq!(is_there, !(500..1_500).contains(&number) || number == 700, "{number}");
    }
    db.check().unwrap();
}

#[test]
fn a_snapshot_from_before_keeps_them() {
    let watch = Arc::new(Watch::default());
    let (db, before) = filled(&watch);
    let snapshot = db.snapshot();
    db.delete_range(key(0), key(9_000)).unwrap();
    let after = db.snapshot();
    db.flush(&FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(tables(&db), before);
    let at = ReadOptions::default().snapshot(Some(snapshot.clone()));
    assert!(db.get_cf(&db.default_family(), key(1_000), &at).unwrap().is_some());
    drop((snapshot, at));
    // The next job of whatever kind looks again; a snapshot from behind the deletion is no reason to wait.
    db.put("other", "value").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(tables(&db), 0);
    let at = ReadOptions::default().snapshot(Some(after));
    assert!(db.get_cf(&db.default_family(), key(1_000), &at).unwrap().is_none());
    db.check().unwrap();
}
