//! Changes of options while the database is open.

use super::basics::options;
use crate::event::{CompactionInfo, CompactionReason, EventListener, OptionsInfo};
use crate::metrics::HistogramKind;
use crate::options::CompactionStyle;
use crate::{
    ColumnFamilyOptions, CompactRangeOptions, CompressionType, Counter, Db, DbOptions, ErrorKind, FlushOptions,
    WriteAdmission,
};
use siltstone_base::clock::{ManualClock, SystemClock};
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor, ThreadExecutor};
use siltstone_base::sync::{Arc, Mutex, Rank};
use std::time::Duration;

/// Notes changes, and why compactions began.
#[derive(Debug)]
struct Watch {
    changes: Mutex<Vec<String>>,
    reasons: Mutex<Vec<CompactionReason>>,
    outputs: Mutex<Vec<usize>>,
}

impl Watch {
    fn new() -> Arc<Self> {
        let (changes, reasons) = (Mutex::new(Rank(60_000), Vec::new()), Mutex::new(Rank(60_001), Vec::new()));
        Arc::new(Self { changes, reasons, outputs: Mutex::new(Rank(60_002), Vec::new()) })
    }
}

impl EventListener for Watch {
    fn options_changed(&self, info: &OptionsInfo) {
        let family = info.column_family.as_deref().unwrap_or("-");
        let changed = info.changed.iter().map(|of| format!("{family} {}: {} to {}", of.name, of.before, of.now));
        self.changes.lock().extend(changed);
    }

    fn compaction_begin(&self, info: &CompactionInfo) {
        if !info.trivial_move {
            self.reasons.lock().push(info.reason);
        }
    }

    fn compaction_end(&self, info: &CompactionInfo) {
        if !info.trivial_move {
            self.outputs.lock().push(info.outputs.len());
        }
    }
}

/// Keeps every value, and takes its time, so that steps end.
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

fn count(db: &Db, level: usize) -> usize {
    db.property(&format!("rocksdb.num-files-at-level{level}")).unwrap().parse().unwrap()
}

#[test]
fn more_background_jobs_have_threads_of_their_own() {
    let dir = tempfile::TempDir::new().unwrap();
    let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true)).unwrap();
    let threads = || db.handle.inner.executor.threads();
    assert_eq!(threads(), 2);
    db.set_db_options(&[("max_background_jobs", "5")]).unwrap();
    assert_eq!(threads(), 5);
    // Jobs become fewer by their limit; the threads sleep.
    db.set_db_options(&[("max_background_jobs", "1")]).unwrap();
    assert_eq!(threads(), 5);
    // Threads of the caller are his.
    let (executor, other) =
        (Arc::new(ThreadExecutor::new(2, Arc::new(SystemClock::new())).unwrap()), dir.path().join("other"));
    let options = DbOptions::default().create_if_missing(true).executor(Some(executor.clone() as Arc<dyn Executor>));
    let db = Db::open(other, &options).unwrap();
    db.set_db_options(&[("max_background_jobs", "5")]).unwrap();
    assert_eq!(executor.threads(), 2);
}

#[test]
fn changes_hold_are_told_and_are_in_the_file() {
    let disk = SimDisk::new();
    let watch = Watch::new();
    let options = options(&disk).listeners(vec![watch.clone()]);
    let db = Db::open("/db", &options).unwrap();
    let family = db.default_family();
    let changes = [
        ("write_buffer_size", "8M"),
        ("compaction_style", "kCompactionStyleUniversal"),
        ("compaction_options_universal", "{size_ratio=7;min_merge_width=3;}"),
        ("compaction_options_universal.max_size_amplification_percent", "50"),
        ("ttl", "0"),
    ];
    db.set_options(&family, &changes).unwrap();
    let now = family.options();
    assert_eq!(now.write_buffer_size, 8 << 20);
    assert_eq!(now.compaction_style, CompactionStyle::Universal);
    let universal = &now.compaction_options_universal;
    assert_eq!((universal.size_ratio, universal.min_merge_width), (7, 3));
    assert_eq!(universal.max_size_amplification_percent, 50);
    db.set_db_options(&[("max_background_jobs", "3"), ("delayed_write_rate", "4M")]).unwrap();
    assert_eq!(db.options().max_background_jobs, 3);
    let told = std::mem::take(&mut *watch.changes.lock());
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(told[0], "default write_buffer_size: 67108864 to 8388608");
    assert_eq!(told[3], "- max_background_jobs: 2 to 3");
    let loaded = Db::load_latest_options("/db", &options).unwrap();
    assert_eq!(loaded.database.max_background_jobs, 3);
    assert_eq!(loaded.families[0].1.compaction_style, CompactionStyle::Universal);
    assert_eq!(loaded.families[0].1.compaction_options_universal.size_ratio, 7);
    // The same once more changes nothing.
    db.set_options(&family, &changes).unwrap();
    assert!(watch.changes.lock().is_empty());
}

#[test]
fn what_cannot_change_is_refused_by_name_and_nothing_else_is_changed() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    let family = db.default_family();
    let refused = |changes: &[(&str, &str)]| {
        let error = db.set_options(&family, changes).unwrap_err();
        (error.kind(), error.message().to_owned())
    };
    let (invalid, missing) = (ErrorKind::InvalidArgument, ErrorKind::NotSupported);
    let fixed = |name: &str| (invalid, format!("{name}: cannot be changed while the database is open"));
    for name in ["num_levels", "comparator", "prefix_extractor", "merge_operator", "pin_filter_partitions"] {
        assert_eq!(refused(&[("ttl", "9"), (name, "3")]), fixed(name));
    }
    let none = |name: &str| (missing, format!("{name}: an option that this engine does not have"));
    assert_eq!(
        refused(&[("ttl", "9"), ("max_sequential_skip_in_iterations", "8")]),
        none("max_sequential_skip_in_iterations")
    );
    assert_eq!(
        refused(&[("compaction_options_fifo", "{age_for_warm=1;}")]),
        none("compaction_options_fifo.age_for_warm")
    );
    assert_eq!(
        refused(&[("block_based_table_factory", "{block_size=8192;no_block_cache=true;}")]),
        none("no_block_cache")
    );
    assert_eq!(
        refused(&[("block_based_table_factory.block_size", "1")]).1,
        "block_size: 1 is not within 256 and 16777216"
    );
    assert_eq!(refused(&[("block_based_table_factory", "block_size=8192")]).0, invalid);
    assert_eq!(refused(&[("index_type", "kHashSearch")]).1, "index_type: a hash index needs a prefix_extractor");
    assert_eq!(family.options().table.block_size, 4096);
    assert_eq!(refused(&[("ttl", "9"), ("write_buffer_size", "much")]).0, invalid);
    assert_eq!(refused(&[("ttl", "9"), ("level0_stop_writes_trigger", "-1")]).0, missing);
    assert_eq!(
        refused(&[("ttl", "9"), ("level0_slowdown_writes_trigger", "3")]).1,
        "level0_slowdown_writes_trigger: 3 is less than 4"
    );
    assert_eq!(family.options().ttl, 0);
    // A group has no value either that is taken for less than it says: of FIFO the old limit would go on deleting.
    let groups = || {
        let options = family.options();
        format!("{:?} {:?}", options.compaction_options_fifo, options.compaction_options_universal)
    };
    let before = groups();
    for (name, text) in [
        ("compaction_options_fifo.max_table_files_size", "-1"),
        ("compaction_options_fifo", "{max_table_files_size=-1;}"),
        ("compaction_options_universal", "{size_ratio=7;stop_style=kCompactionStopStyleOther;}"),
    ] {
        assert_eq!(refused(&[(name, text)]).0, missing, "{name} {text}");
    }
    assert_eq!(groups(), before);
    let error = db.set_db_options(&[("max_background_jobs", "3"), ("use_direct_reads", "true")]).unwrap_err();
    assert_eq!(error.message(), "use_direct_reads: cannot be changed while the database is open");
    assert_eq!(db.options().max_background_jobs, 2);
}

#[test]
fn a_compaction_ends_with_the_old_options_and_the_next_begins_with_the_new_ones() {
    let disk = SimDisk::new();
    let watch = Watch::new();
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    let executor = Arc::new(StepExecutor::new(clock.clone()));
    let family = ColumnFamilyOptions::default()
        .compression(CompressionType::None)
        .target_file_size_base(64 << 10)
        .compaction_filter(Some(Arc::new(Slow(clock))));
    let options = options(&disk).executor(Some(executor.clone())).listeners(vec![watch.clone()]);
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    let family = db.default_family();
    let fill = |round: u64| {
        for number in 0..5_000 {
            db.put(key(number), format!("{round:0100}")).unwrap();
        }
        db.flush(&FlushOptions::default()).unwrap();
    };
    // The first of them just moves.
    (0..5).for_each(fill);
    while db.property("rocksdb.num-running-compactions").unwrap() != "1" {
        assert!(executor.step());
    }
    (0..5).for_each(|_| assert!(executor.step()));
    let style = [("compaction_style", "kCompactionStyleUniversal"), ("target_file_size_base", "1G")];
    db.set_options(&family, &style).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(*watch.reasons.lock(), [CompactionReason::L0FileCount]);
    assert!(watch.outputs.lock()[0] > 4, "tables of the size that was asked for when it began");
    // Three of level 0 and the run below: leveled would wait for a fourth.
    (5..8).for_each(fill);
    db.wait_for_background_work().unwrap();
    let reasons = watch.reasons.lock().clone();
    assert!(reasons.len() > 1 && !reasons[1..].contains(&CompactionReason::L0FileCount), "{reasons:?}");
    db.check().unwrap();
    // And back, by way of FIFO.
    db.set_options(&family, &[("compaction_style", "kCompactionStyleFIFO")]).unwrap();
    (8..13).for_each(fill);
    db.wait_for_background_work().unwrap();
    assert!(count(&db, 0) >= 5, "FIFO merges nothing");
    db.set_options(&family, &[("compaction_style", "kCompactionStyleLevel")]).unwrap();
    db.wait_for_background_work().unwrap();
    assert!(count(&db, 0) < 4);
    db.check().unwrap();
    for number in 0..5_000 {
        assert_eq!(*db.get(key(number)).unwrap().unwrap(), *format!("{:0100}", 12).as_bytes());
    }
}

#[test]
fn a_smaller_write_buffer_is_full_at_once_and_lower_limits_hold() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &options(&disk)).unwrap();
    let family = db.default_family();
    db.set_options(&family, &[("disable_auto_compactions", "true")]).unwrap();
    for number in 0..1_000 {
        db.put(key(number), [7; 100]).unwrap();
    }
    assert_eq!(count(&db, 0), 0);
    db.set_options(&family, &[("write_buffer_size", "1024")]).unwrap();
    db.put(key(1), "value").unwrap();
    db.put(key(2), "value").unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(count(&db, 0), 1);
    let limits = [
        ("level0_file_num_compaction_trigger", "1"),
        ("level0_slowdown_writes_trigger", "1"),
        ("level0_stop_writes_trigger", "1"),
        ("disable_auto_compactions", "false"),
    ];
    db.set_options(&family, &limits).unwrap();
    // Stopped until the one table has moved down.
    db.put(key(3), "value").unwrap();
    assert_eq!(count(&db, 0), 0);
    db.check().unwrap();
}

/// Data blocks and format version of the newest table.
fn newest_table(db: &Db) -> (u64, u64) {
    let family = db.default_family();
    let version = Arc::clone(&family.0.super_version.load().version);
    let (_, file) = version.all_files().max_by_key(|(_, file)| file.number).unwrap();
    let properties = family.0.table_cache.reader(file).unwrap().properties();
    (properties.num_data_blocks, properties.format_version)
}

#[test]
fn tables_that_come_next_have_the_new_layout_and_the_old_ones_are_read() {
    let disk = SimDisk::new();
    let watch = Watch::new();
    let db = Db::open("/db", &options(&disk).listeners(vec![watch.clone()])).unwrap();
    let family = db.default_family();
    db.set_options(&family, &[("compression", "kNoCompression"), ("disable_auto_compactions", "true")]).unwrap();
    let fill = |round: u64| {
        (0..500).for_each(|number| db.put(key(number * 3 + round), [7; 100]).unwrap());
        db.flush(&FlushOptions::default()).unwrap();
        newest_table(&db).0
    };
    let blocks = fill(0);
    db.set_options(&family, &[("block_size", "1K")]).unwrap();
    assert!(fill(1) > 3 * blocks);
    db.set_options(&family, &[("block_based_table_factory", "{block_size=32768; format_version=5;}")]).unwrap();
    assert!(fill(2) * 3 < blocks);
    db.set_options(&family, &[("block_based_table_factory.filter_policy", "bloomfilter:10:false")]).unwrap();
    let told = watch.changes.lock().clone();
    assert!(told.contains(&"default block_size: 4096 to 1024".to_owned()), "{told:?}");
    assert!(told.contains(&"default format_version: 6 to 5".to_owned()), "{told:?}");
    let loaded = Db::load_latest_options("/db", &options(&disk)).unwrap();
    assert_eq!(loaded.families[0].1.table.block_size, 32_768);
    (0..1500).for_each(|number| assert!(db.get(key(number)).unwrap().is_some()));
    db.compact_range(&family, None, None, &CompactRangeOptions::default()).unwrap();
    assert_eq!((count(&db, 0), newest_table(&db).1), (0, 5));
    (0..1500).for_each(|number| assert!(db.get(key(number)).unwrap().is_some()));
}

#[test]
fn admission_changes_with_what_slows_writers_down() {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default()
        .level0_file_num_compaction_trigger(2)
        .level0_slowdown_writes_trigger(2)
        .disable_auto_compactions(true);
    let db = Db::open_families("/db", &options(&disk).delayed_write_rate(1024), &[("default", family)]).unwrap();
    let inner = &db.handle.inner;
    for round in 0..3 {
        db.put(key(round), [7; 100]).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    db.pause_background_work().unwrap();
    db.set_options(&db.default_family(), &[("disable_auto_compactions", "false")]).unwrap();
    let stalled_by_puts = || {
        let before = db.metrics().get(Counter::StalledWrites);
        (0..5).for_each(|round| db.put(key(round), [7; 2_000]).unwrap());
        db.metrics().get(Counter::StalledWrites) - before
    };
    assert_eq!((inner.pacer().is_some(), inner.controller.is_engaged()), (true, false));
    let paced = stalled_by_puts();
    db.set_db_options(&[("write_admission", "rocksdb")]).unwrap();
    assert_eq!((inner.pacer().is_some(), inner.controller.is_engaged()), (false, true));
    let delayed = stalled_by_puts();
    assert!(delayed > paced, "a KiB a second");
    // Each of them waits for seconds, in many turns.
    assert!(delayed <= 5 && db.metrics().histogram(HistogramKind::WriteStall).max() > 1_000_000, "{delayed}");
    assert_eq!(db.options().write_admission, WriteAdmission::Rocksdb);
    db.set_db_options(&[("write_admission", "paced")]).unwrap();
    assert_eq!((inner.pacer().is_some(), inner.controller.is_engaged()), (true, false));
    assert_eq!(stalled_by_puts(), paced);
    db.resume_background_work();
    db.wait_for_background_work().unwrap();
}
