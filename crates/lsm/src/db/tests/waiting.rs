//! Waiting for background work, pausing it, and what a caller asks for in every style.

use super::basics::options;
use crate::metrics::Counter;
use crate::options::{CompactionStyle, WaitForCompactOptions, WriteAdmission};
use crate::{
    ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, ErrorKind, FlushOptions, WriteBatch, WriteOptions,
};
use siltstone_base::env::sim::SimDisk;
use std::time::Duration;

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn count(db: &Db, level: usize) -> usize {
    db.property(&format!("rocksdb.num-files-at-level{level}")).unwrap().parse().unwrap()
}

fn open(disk: &SimDisk, style: CompactionStyle) -> Db {
    let family = ColumnFamilyOptions::default()
        .compression(CompressionType::None)
        .target_file_size_base(8 << 10)
        .compaction_style(style);
    Db::open_families("/db", &options(disk), &[("default", family)]).unwrap()
}

/// Whoever paused and then wrote waited for the ingest, which waited for the flush that he had paused.
#[test]
fn nobody_who_leads_waits_for_a_flush_that_is_paused() {
    let disk = SimDisk::new();
    let db = open(&disk, CompactionStyle::Leveled);
    db.put("a", "1").unwrap();
    db.pause_background_work().unwrap();
    db.flush_families(&[&db.default_family()], &FlushOptions::default().wait(false)).unwrap();
    let families: Vec<_> = db.handle.inner.families.load().values().cloned().collect();
    let error = db.handle.inner.wait_until_flushed_leading(&families).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    db.put("b", "2").unwrap();
    db.resume_background_work();
    db.handle.inner.wait_until_flushed_leading(&families).unwrap();
    assert_eq!(db.metrics().get(Counter::Flushes), 1);
}

#[test]
fn waiting_flushes_first_if_it_is_asked_to() {
    let disk = SimDisk::new();
    let db = open(&disk, CompactionStyle::Leveled);
    db.put("a", "1").unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!(db.metrics().get(Counter::Flushes), 0);
    db.wait_for_compact(&WaitForCompactOptions::default().flush(true)).unwrap();
    assert_eq!(db.metrics().get(Counter::Flushes), 1);
    // With nothing to flush, too.
    db.wait_for_compact(&WaitForCompactOptions::default().flush(true)).unwrap();
    assert_eq!(db.metrics().get(Counter::Flushes), 1);
}

#[test]
fn waiting_ends_with_the_time_or_a_pause_and_pauses_count() {
    let disk = SimDisk::new();
    let db = open(&disk, CompactionStyle::Leveled);
    db.pause_background_work().unwrap();
    db.pause_background_work().unwrap();
    db.put("a", "1").unwrap();
    db.flush(&FlushOptions::default().wait(false)).unwrap();
    let kind = |options: WaitForCompactOptions| db.wait_for_compact(&options).unwrap_err().kind();
    let options = WaitForCompactOptions::default;
    assert_eq!(kind(options().abort_on_pause(true)), ErrorKind::Aborted);
    assert_eq!(kind(options().timeout(Some(Duration::from_millis(5)))), ErrorKind::TimedOut);
    db.resume_background_work();
    assert_eq!(kind(options().abort_on_pause(true)), ErrorKind::Aborted, "one pause is left");
    assert_eq!(count(&db, 0), 0);
    db.resume_background_work();
    db.wait_for_compact(&options().abort_on_pause(true).timeout(Some(Duration::from_secs(60)))).unwrap();
    assert_eq!(count(&db, 0), 1);
}

#[test]
fn every_style_compacts_a_range_and_deletes_the_files_of_one() {
    for style in [CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Fifo] {
        let disk = SimDisk::new();
        let db = open(&disk, style);
        let family = db.default_family();
        for round in 0..3_u8 {
            for number in 0..1_000 {
                db.put(key(number), [round; 100]).unwrap();
            }
            db.flush(&FlushOptions::default()).unwrap();
        }
        assert_eq!(count(&db, 0), 3, "{style:?}");
        let force = CompactRangeOptions::default().force_bottommost(true);
        db.compact_range(&family, None, None, &force).unwrap();
        let deleted = db.delete_files_in_range(&family, &key(200), &key(800)).unwrap();
        if style == CompactionStyle::Fifo {
            assert_eq!((count(&db, 0), deleted), (3, 0), "all in level 0");
        } else {
            assert_eq!(count(&db, 0), 0, "{style:?}");
            assert!(deleted > 3, "{style:?}: {deleted}");
            assert!(db.get(key(500)).unwrap().is_none(), "{style:?}");
        }
        for number in (0..200).chain(800..1_000) {
            assert_eq!(*db.get(key(number)).unwrap().unwrap(), [2; 100], "{style:?}");
        }
        db.check().unwrap();
        // It goes on from there.
        for round in 0..6_u8 {
            db.put(key(1), [round; 10]).unwrap();
            db.put(key(900), [round; 10]).unwrap();
            db.flush(&FlushOptions::default()).unwrap();
        }
        db.wait_for_background_work().unwrap();
        db.check().unwrap();
    }
}

#[test]
fn a_write_of_low_priority_waits_while_others_are_delayed() {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default().max_write_buffer_number(4);
    let options = options(&disk).write_admission(WriteAdmission::Rocksdb).delayed_write_rate(1024);
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    let low = WriteOptions::default().low_pri(true);
    let put = |options: &WriteOptions| {
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"1");
        db.write(&mut batch, options).map_err(|error| error.kind())
    };
    db.pause_background_work().unwrap();
    for _ in 0..3 {
        put(&low).unwrap();
        put(&low.clone().no_slowdown(true)).unwrap();
        db.flush(&FlushOptions::default().wait(false)).unwrap();
    }
    assert_eq!(db.metrics().get(Counter::StalledWrites), 0);
    // What it has for certain is used up by this one, which goes at once but for the delay of every write.
    put(&low).unwrap();
    let delayed = db.metrics().get(Counter::StalledWrites);
    assert_eq!(put(&low.clone().no_slowdown(true)), Err(ErrorKind::Incomplete));
    put(&low).unwrap();
    assert!(db.metrics().get(Counter::StalledWrites) > delayed);
    // One that is made if nothing changed is no other.
    let mut checked = WriteBatch::new();
    checked.put(b"a", b"1");
    let refused = db.write_if_unchanged(Vec::new(), &mut checked, &low.clone().no_slowdown(true)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incomplete);
    db.resume_background_work();
    assert_eq!(*db.get("a").unwrap().unwrap(), *b"1");
}
