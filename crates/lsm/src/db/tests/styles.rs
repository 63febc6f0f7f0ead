//! Compaction styles on real tables, and what runs between their steps.

use super::basics::options;
use crate::event::{CompactionInfo, EventListener, FlushInfo};
use crate::metrics::Counter;
use crate::options::{CompactionStyle, FifoCompactionOptions};
use crate::{
    ColumnFamilyOptions, CompactOnDeletions, CompactRangeOptions, CompressionType, Db, FlushOptions, WriteOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Sees what jobs do.
#[derive(Debug, Default)]
struct Watch {
    flushes_begun: AtomicU64,
    largest_input: AtomicU64,
    /// Compactions of other levels than 0 that rewrite something.
    deep_begun: AtomicU64,
    deep_ended: AtomicU64,
}

fn is_deep(info: &CompactionInfo) -> bool {
    !info.trivial_move && info.inputs.iter().all(|(level, _)| *level > 0)
}

impl EventListener for Watch {
    fn flush_begin(&self, _: &FlushInfo) {
        self.flushes_begun.fetch_add(1, Ordering::Relaxed);
    }

    fn compaction_begin(&self, info: &CompactionInfo) {
        if !info.trivial_move {
            self.largest_input.fetch_max(info.input_bytes, Ordering::Relaxed);
        }
        self.deep_begun.fetch_add(u64::from(is_deep(info)), Ordering::Relaxed);
    }

    fn compaction_end(&self, info: &CompactionInfo) {
        self.deep_ended.fetch_add(u64::from(is_deep(info)), Ordering::Relaxed);
    }
}

/// Keeps every value, and takes its time: so steps end, although no time passes by itself.
#[derive(Debug)]
struct Slow(Arc<ManualClock>);

impl EntryFilter for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
        self.0.advance(Duration::from_micros(20));
        Decision::Keep
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn plain() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().compression(CompressionType::None)
}

#[test]
fn fifo_deletes_the_oldest_tables() {
    let disk = SimDisk::new();
    let fifo = FifoCompactionOptions::default().max_table_files_size(64 << 10);
    let family = plain().compaction_style(CompactionStyle::Fifo).compaction_options_fifo(fifo);
    let db = Db::open_families("/db", &options(&disk), &[("default", family)]).unwrap();
    for number in 0..40 {
        db.put(key(number), [7; 8 << 10]).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    db.wait_for_background_work().unwrap();
    let bytes: u64 = db.property("rocksdb.live-sst-files-size").unwrap().parse().unwrap();
    assert!((32 << 10..=64 << 10).contains(&bytes), "{bytes}");
    assert!(db.get(key(0)).unwrap().is_none(), "the oldest is gone");
    assert!(db.get(key(39)).unwrap().is_some(), "the newest is there");
    assert_eq!(db.metrics().get(Counter::Compactions), 0, "nothing was rewritten");
    db.check().unwrap();
}

#[test]
fn universal_merges_what_is_large_in_pieces() {
    const KEYS: u64 = 10_000;
    let disk = SimDisk::new();
    let watch = Arc::new(Watch::default());
    let family = plain()
        .compaction_style(CompactionStyle::Universal)
        .write_buffer_size(32 << 10)
        .target_file_size_base(32 << 10)
        .level0_file_num_compaction_trigger(4)
        .memtable_bloom_bits_per_key(0);
    let options = options(&disk).listeners(vec![watch.clone()]);
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    let mut round = 0_u64;
    let mut put = |count: u64| {
        for _ in 0..count {
            round += 1;
            let value = format!("{round:0100}");
            db.put(key(round * 7919 % KEYS), value).unwrap();
            if round.is_multiple_of(250) {
                // Level 0 never has more than the trigger says.
                db.flush(&FlushOptions::default()).unwrap();
                db.wait_for_background_work().unwrap();
            }
        }
        round
    };
    put(2 * KEYS);
    watch.largest_input.store(0, Ordering::Relaxed);
    let last = put(4 * KEYS);
    let live: u64 = KEYS * 120;
    let largest = watch.largest_input.load(Ordering::Relaxed);
    // Four write buffers in level 0 are more than a tenth here.
    assert!(largest > 0 && largest <= live / 4, "{largest} of {live}");
    for number in last - KEYS + 1..=last {
        let value = db.get(key(number * 7919 % KEYS)).unwrap().unwrap();
        assert_eq!(*value, *format!("{number:0100}").as_bytes());
    }
    db.check().unwrap();
    let force = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &force).unwrap();
    let level = |level| db.property(&format!("rocksdb.num-files-at-level{level}")).unwrap();
    assert!((0..6).all(|number| level(number) == "0"), "all in the last level");
    assert_ne!(level(6), "0");
    db.check().unwrap();
}

#[test]
fn a_flush_begins_within_one_step_while_a_compaction_runs() {
    let disk = SimDisk::new();
    let watch = Arc::new(Watch::default());
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    let executor = Arc::new(StepExecutor::new(clock.clone()));
    let family = plain().compaction_filter(Some(Arc::new(Slow(clock))));
    let options = options(&disk).executor(Some(executor.clone())).listeners(vec![watch.clone()]);
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    // The first of them just moves.
    for round in 0..5 {
        for number in 0..20_000 {
            db.put(key(number), [round; 20]).unwrap();
        }
        db.flush(&FlushOptions::default()).unwrap();
    }
    assert_eq!(db.property("rocksdb.num-running-compactions").unwrap(), "1");
    for _ in 0..5 {
        assert!(executor.step());
    }
    let before = watch.flushes_begun.load(Ordering::Relaxed);
    db.put("new", "value").unwrap();
    db.flush(&FlushOptions::default().wait(false)).unwrap();
    assert!(executor.step());
    assert_eq!(watch.flushes_begun.load(Ordering::Relaxed), before + 1);
    assert_eq!(db.property("rocksdb.num-running-compactions").unwrap(), "1", "it is not over");
    db.wait_for_background_work().unwrap();
    assert!(db.get("new").unwrap().is_some());
    db.check().unwrap();
}

#[test]
fn level_0_does_not_wait_for_the_end_of_a_deep_compaction() {
    let disk = SimDisk::new();
    let watch = Arc::new(Watch::default());
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    let executor = Arc::new(StepExecutor::new(clock.clone()));
    let deep = plain()
        .compaction_filter(Some(Arc::new(Slow(clock))))
        .level_compaction_dynamic_level_bytes(false)
        .max_bytes_for_level_base(256 << 10);
    // One compaction at a time, by the options.
    let options = options(&disk).executor(Some(executor.clone())).listeners(vec![watch.clone()]).max_background_jobs(2);
    let db = Db::open_families("/db", &options, &[("default", plain())]).unwrap();
    let deep = db.create_family("deep", &deep).unwrap();
    let mut round = 0_u8;
    while watch.deep_begun.load(Ordering::Relaxed) == 0 {
        assert!(round < 100, "no deep compaction");
        round += 1;
        for number in 0..10_000 {
            db.put_cf(&deep, key(number), [round; 20], &WriteOptions::default()).unwrap();
        }
        db.flush_families(&[&deep], &FlushOptions::default()).unwrap();
        while watch.deep_begun.load(Ordering::Relaxed) == 0 && executor.step() {}
    }
    let ended = watch.deep_ended.load(Ordering::Relaxed);
    for number in 0..4_u64 {
        db.put(key(1), [number as u8; 20]).unwrap();
        db.put(key(9), [number as u8; 20]).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    assert_eq!(db.property("rocksdb.num-running-compactions").unwrap(), "2", "one more than there is room for");
    let level0 = || db.property("rocksdb.num-files-at-level0").unwrap();
    assert_eq!(level0(), "4");
    while level0() == "4" {
        assert!(executor.step());
        assert_eq!(watch.deep_ended.load(Ordering::Relaxed), ended, "the deep one waits");
    }
    db.wait_for_background_work().unwrap();
    assert!(watch.deep_ended.load(Ordering::Relaxed) > ended);
    db.check().unwrap();
}

/// Removes everything, once it is told to.
#[derive(Debug, Default)]
struct Expire(AtomicU64);

impl EntryFilter for Expire {
    fn name(&self) -> &str {
        "expire"
    }

    fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
        if self.0.load(Ordering::Relaxed) > 0 { Decision::Remove } else { Decision::Keep }
    }
}

#[test]
fn what_nobody_writes_to_any_more_is_still_seen_by_the_filter() {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let filter = Arc::new(Expire::default());
    let family = plain().compaction_filter(Some(filter.clone())).periodic_compaction_seconds(3_600);
    let options = options(&disk).executor(Some(executor.clone()));
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    for number in 0..100 {
        db.put(key(number), "value").unwrap();
    }
    let force = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &force).unwrap();
    filter.0.store(1, Ordering::Relaxed);
    db.wait_for_background_work().unwrap();
    assert!(db.get(key(0)).unwrap().is_some(), "nothing is due yet");
    // Nobody writes, flushes or asks; time goes by.
    executor.sleep(Duration::from_secs(3_700));
    db.wait_for_background_work().unwrap();
    assert!((0..100).all(|number| db.get(key(number)).unwrap().is_none()));
    assert_eq!(db.property("rocksdb.live-sst-files-size").unwrap(), "0");
    db.check().unwrap();
}

#[test]
fn many_tombstones_in_a_row_go_down_before_their_level_is_too_large() {
    let disk = SimDisk::new();
    let dense = Arc::new(CompactOnDeletions::new(100, 50).unwrap());
    let family = plain().table_properties_collectors(vec![dense]);
    let db = Db::open_families("/db", &options(&disk), &[("default", family)]).unwrap();
    let put = |from: u64, to: u64| {
        for number in from..to {
            db.put(key(number), [7; 100]).unwrap();
        }
    };
    put(0, 1_000);
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    for number in 100..900 {
        db.delete(key(number)).unwrap();
    }
    // One file in level 0 is no reason by itself.
    db.flush(&FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "0");
    let bytes: u64 = db.property("rocksdb.live-sst-files-size").unwrap().parse().unwrap();
    assert!(bytes < 40_000, "{bytes}: two hundred rows are left");
    assert!(db.get(key(500)).unwrap().is_none());
    assert!(db.get(key(950)).unwrap().is_some());
    // A mark outlives the process that made it.
    let options = options(&disk);
    db.close().unwrap();
    let idle = plain()
        .disable_auto_compactions(true)
        .table_properties_collectors(vec![Arc::new(CompactOnDeletions::new(100, 50).unwrap())]);
    let db = Db::open_families("/db", &options, &[("default", idle)]).unwrap();
    for number in 0..100 {
        db.delete(key(number)).unwrap();
    }
    db.flush(&FlushOptions::default()).unwrap();
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "1");
    db.close().unwrap();
    let db = Db::open_families("/db", &options, &[("default", plain())]).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "0");
    db.check().unwrap();
}
