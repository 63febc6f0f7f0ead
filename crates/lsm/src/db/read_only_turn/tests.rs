//! Workloads that turn read-only, from a script and on a simulated clock.

use super::decision::{Decision, Look, Memory};
use crate::event::{CompactionInfo, CompactionReason, EventListener, FlushInfo, FlushReason};
use crate::{ColumnFamilyOptions, CompactionStyle, CompressionType, Counter, Db, DbOptions, WriteOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::script::run_file;
use siltstone_base::sync::{Mutex, Rank};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn decisions_are_as_the_script_says() {
    let mut memory = Memory::default();
    run_file(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/read_only_turn"), |command| {
        if command.name == "new" {
            memory = Memory::default();
            return String::new();
        }
        assert_eq!(command.name, "look");
        let look = Look {
            writes: command.get_or("writes", 0),
            reads: command.get_or("reads", 0),
            has_work: !command.has("empty"),
        };
        match memory.look(&look, Duration::from_secs(10)) {
            Decision::LookAgain(delay) => format!("look again after {} s\n", delay.as_secs()),
            Decision::Drain => "drain\n".to_owned(),
            Decision::End => "end\n".to_owned(),
        }
    });
}

/// Why jobs began.
#[derive(Debug)]
struct Reasons {
    flushes: Mutex<Vec<FlushReason>>,
    compactions: Mutex<Vec<CompactionReason>>,
}

impl EventListener for Reasons {
    fn flush_begin(&self, info: &FlushInfo) {
        self.flushes.lock().push(info.reason);
    }

    fn compaction_begin(&self, info: &CompactionInfo) {
        self.compactions.lock().push(info.reason);
    }
}

struct World {
    executor: Arc<StepExecutor>,
    reasons: Arc<Reasons>,
    db: Db,
}

impl World {
    fn new(seconds: u64) -> Self {
        Self::with(seconds, ColumnFamilyOptions::default().level0_file_num_compaction_trigger(4))
    }

    fn with(seconds: u64, family: ColumnFamilyOptions) -> Self {
        Self::of(seconds, family, true)
    }

    fn of(seconds: u64, family: ColumnFamilyOptions, caches_rewritten: bool) -> Self {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
        let list = Rank(u16::MAX);
        let reasons =
            Arc::new(Reasons { flushes: Mutex::new(list, Vec::new()), compactions: Mutex::new(list, Vec::new()) });
        let options = DbOptions::default()
            .create_if_missing(true)
            .env(Some(SimDisk::new().env()))
            .executor(Some(executor.clone()))
            .listeners(vec![reasons.clone()])
            .drain_when_read_only_seconds(seconds)
            .cache_rewritten_blocks(caches_rewritten)
            .unnamed_families(family);
        Self { db: Db::open("/db", &options).unwrap(), executor, reasons }
    }

    fn write(&self, from: u64) {
        for number in from..from + 100 {
            self.db.put(number.to_be_bytes(), [1; 100]).unwrap();
        }
    }

    /// Seconds in each of which so much is read.
    fn read(&self, seconds: u64, gets: u64) {
        for _ in 0..seconds {
            (0..gets).for_each(|number| assert!(self.db.get(number.to_be_bytes()).unwrap().is_some()));
            self.executor.sleep(Duration::from_secs(1));
        }
    }

    fn files(&self, level: usize) -> u64 {
        self.db.property(&format!("rocksdb.num-files-at-level{level}")).unwrap().parse().unwrap()
    }

    fn flushes(&self) -> Vec<FlushReason> {
        self.reasons.flushes.lock().clone()
    }
}

#[test]
fn what_is_only_read_goes_down_by_itself() {
    let world = World::new(10);
    world.write(0);
    world.db.flush(&Default::default()).unwrap();
    world.write(50);
    assert_eq!((world.files(0), world.flushes().len()), (1, 1));
    world.read(5, 30);
    assert_eq!(world.files(0), 1, "not yet");
    world.read(30, 30);
    world.db.wait_for_background_work().unwrap();
    assert_eq!(world.flushes(), [FlushReason::Manual, FlushReason::ReadOnly]);
    assert!(world.reasons.compactions.lock().contains(&CompactionReason::ReadOnly));
    assert_eq!((world.files(0), world.files(6)), (0, 1), "one table has everything");
    assert_eq!(world.db.property("rocksdb.num-entries-active-mem-table").unwrap(), "0");
    (0..150_u64).for_each(|number| assert!(world.db.get(number.to_be_bytes()).unwrap().is_some()));
    // The next write begins anew, and a workload that is read-only again drains again.
    world.write(300);
    world.read(40, 30);
    world.db.wait_for_background_work().unwrap();
    assert_eq!(world.flushes().len(), 3);
    assert_eq!(world.files(0), 0);
    world.db.check().unwrap();
}

/// Rows in memory and in cached blocks stay where they are read without the device.
#[test]
fn who_only_reads_does_not_wait_for_the_device_once_everything_went_down() {
    for keeps in [true, false] {
        let world = World::of(10, ColumnFamilyOptions::default(), keeps);
        (0..20).for_each(|round| world.write(round * 100));
        world.db.flush(&Default::default()).unwrap();
        world.write(50);
        let blocks_read = || {
            let before = world.db.metrics().get(Counter::BlocksRead);
            (0..2_000_u64).for_each(|number| assert!(world.db.get(number.to_be_bytes()).unwrap().is_some()));
            world.db.metrics().get(Counter::BlocksRead) - before
        };
        assert!(blocks_read() > 0);
        assert_eq!(blocks_read(), 0);
        world.read(40, 30);
        world.db.wait_for_background_work().unwrap();
        assert_eq!((world.files(0), world.files(6)), (0, 1));
        let read = blocks_read();
        // A table's block that newer rows hid was not read, and what is made of it need not be in memory.
        assert!(if keeps { read <= 1 } else { read > 20 }, "{read} blocks");
        world.db.check().unwrap();
    }
}

/// In the styles of sorted runs what came since becomes one run, and the older ones stay as they are.
#[test]
fn runs_that_are_only_read_become_one() {
    for style in [CompactionStyle::Universal, CompactionStyle::Lazy] {
        let family = ColumnFamilyOptions::default().compaction_style(style).level0_file_num_compaction_trigger(8);
        let world = World::with(10, family.write_buffer_size(1 << 20).compression(CompressionType::None));
        (0..20).for_each(|round| world.write(round * 100));
        world.db.compact_range(&world.db.default_family(), None, None, &Default::default()).unwrap();
        let oldest = world.db.table_files(&world.db.default_family()).unwrap();
        for round in 0..4 {
            world.write(round * 50);
            world.db.flush(&Default::default()).unwrap();
        }
        world.write(10);
        assert_eq!(world.files(0), 4, "{style:?}");
        world.read(40, 30);
        world.db.wait_for_background_work().unwrap();
        let after = world.db.table_files(&world.db.default_family()).unwrap();
        assert!(oldest.iter().all(|table| after.iter().any(|other| other.number == table.number)), "{style:?}");
        assert_eq!(after.len(), oldest.len() + 1, "{style:?}");
        assert!(world.reasons.compactions.lock().contains(&CompactionReason::ReadOnly), "{style:?}");
        world.read(100, 30);
        world.db.wait_for_background_work().unwrap();
        assert_eq!(world.executor.pending(), 0, "{style:?}: nobody looks at what has nothing to do");
        (0..2_000_u64).for_each(|number| assert!(world.db.get(number.to_be_bytes()).unwrap().is_some()));
        world.db.check().unwrap();
    }
}

/// However unlike they are, and where there is nothing beneath them.
#[test]
fn unlike_runs_that_are_only_read_become_one_and_nobody_looks_for_ever() {
    for style in [CompactionStyle::Universal, CompactionStyle::Lazy] {
        let family = ColumnFamilyOptions::default().compaction_style(style).level0_file_num_compaction_trigger(8);
        let world = World::with(10, family.write_buffer_size(1 << 20).compression(CompressionType::None));
        (0..20).for_each(|round| world.write(round * 100));
        world.db.flush(&Default::default()).unwrap();
        world.write(0);
        world.db.flush(&Default::default()).unwrap();
        assert_eq!(world.files(0), 2, "{style:?}");
        world.read(40, 30);
        world.db.wait_for_background_work().unwrap();
        assert!(world.files(0) < 2, "{style:?}");
        assert_eq!(*world.reasons.compactions.lock(), [CompactionReason::ReadOnly], "{style:?}");
        world.read(100, 30);
        assert_eq!(world.executor.pending(), 0, "{style:?}");
        (0..2_000_u64).for_each(|number| assert!(world.db.get(number.to_be_bytes()).unwrap().is_some()));
        world.db.check().unwrap();
    }
}

/// Levels of a lazy tree are merged when writes make that worth it, not because somebody reads.
#[test]
fn levels_of_a_lazy_tree_that_is_only_read_stay() {
    let family =
        ColumnFamilyOptions::default().compaction_style(CompactionStyle::Lazy).level0_file_num_compaction_trigger(4);
    let world = World::with(10, family.write_buffer_size(1 << 20).compression(CompressionType::None));
    let mut round = 0;
    while (1..7).filter(|level| world.files(*level) > 0).count() < 2 {
        world.write(round * 100);
        round += 1;
        world.db.flush(&Default::default()).unwrap();
        world.db.wait_for_background_work().unwrap();
        assert!(round < 500, "there are never two levels");
    }
    let levels = |world: &World| -> Vec<u64> { (1..7).map(|level| world.files(level)).collect() };
    let before = (levels(&world), world.reasons.compactions.lock().len());
    world.read(40, 30);
    world.db.wait_for_background_work().unwrap();
    let since = world.reasons.compactions.lock().split_off(before.1);
    assert!(since.iter().all(|reason| *reason == CompactionReason::ReadOnly), "{since:?}");
    assert!(before.0.iter().zip(levels(&world)).all(|(before, after)| after >= *before), "{before:?}");
    world.db.check().unwrap();
}

#[test]
fn what_is_also_written_stays_in_memory() {
    let world = World::new(10);
    world.write(0);
    for number in 0..20 {
        world.read(3, 100);
        world.write(number);
    }
    assert!(world.flushes().is_empty());
}

#[test]
fn what_nobody_uses_is_left_alone_and_soon_nobody_looks() {
    let world = World::new(10);
    world.write(0);
    world.read(100_000, 0);
    assert!(world.flushes().is_empty());
    assert_eq!(world.executor.pending(), 0);
    // A write wakes the watch.
    world.db.put_cf(&world.db.default_family(), "key", "value", &WriteOptions::default()).unwrap();
    assert_eq!(world.executor.pending(), 1);
    world.read(60, 20);
    world.db.wait_for_background_work().unwrap();
    assert_eq!(world.flushes(), [FlushReason::ReadOnly]);
}

#[test]
fn nobody_looks_if_it_is_off() {
    let world = World::new(0);
    world.write(0);
    world.executor.run_until_idle();
    assert_eq!(world.executor.pending(), 0);
    world.read(100, 100);
    assert!(world.flushes().is_empty());
}

/// Where a run of level 0 has nowhere to go, merging all of them again for each few writes would write without end.
#[test]
fn a_large_run_that_has_to_stay_in_level_0_is_not_written_again_for_each_small_one() {
    let family = ColumnFamilyOptions::default()
        .compaction_style(CompactionStyle::Universal)
        .num_levels(2)
        .level0_file_num_compaction_trigger(8)
        .max_compaction_bytes(16 << 10)
        .write_buffer_size(64 << 10)
        .compression(CompressionType::None);
    let world = World::with(10, family);
    (0..10).for_each(|round| world.write(round * 100));
    world.db.compact_range(&world.db.default_family(), None, None, &Default::default()).unwrap();
    (0..4).for_each(|_| (0..60).for_each(|round| world.write(round * 100)));
    world.db.flush(&Default::default()).unwrap();
    world.db.wait_for_background_work().unwrap();
    let large = world.db.table_files(&world.db.default_family()).unwrap();
    for round in 0..3 {
        world.write(round);
        world.db.flush(&Default::default()).unwrap();
        world.write(round);
        world.read(40, 30);
        world.db.wait_for_background_work().unwrap();
        let after = world.db.table_files(&world.db.default_family()).unwrap();
        let kept = large.iter().filter(|table| after.iter().any(|other| other.number == table.number)).count();
        assert_eq!(kept, large.len(), "round {round}");
    }
    assert!(world.reasons.compactions.lock().contains(&CompactionReason::ReadOnly), "small ones are merged");
    world.read(100, 30);
    assert_eq!(world.executor.pending(), 0, "nobody looks for ever");
    (0..1_000_u64).for_each(|number| assert!(world.db.get(number.to_be_bytes()).unwrap().is_some()));
    world.db.check().unwrap();
}

/// Otherwise each of their flushes would be merged with the level beneath at once.
#[test]
fn writers_that_come_back_are_not_followed_by_compactions_of_each_flush() {
    let world = World::new(10);
    world.write(0);
    world.read(40, 30);
    world.db.wait_for_background_work().unwrap();
    assert_eq!(world.files(0), 0);
    let before = world.reasons.compactions.lock().len();
    for round in 0..3 {
        world.write(round * 100);
        world.db.flush(&Default::default()).unwrap();
        world.db.wait_for_background_work().unwrap();
    }
    assert_eq!((world.files(0), world.reasons.compactions.lock().len()), (3, before));
}

#[test]
fn who_asks_for_it_has_level_0_emptied_at_once() {
    for seconds in [0, 10] {
        let world = World::new(seconds);
        world.write(0);
        world.db.flush(&Default::default()).unwrap();
        world.write(50);
        world.db.drain().unwrap();
        assert!(world.reasons.compactions.lock().contains(&CompactionReason::ReadOnly));
        assert_eq!((world.files(0), world.files(6)), (0, 1), "with a watch every {seconds} s");
        (0..150_u64).for_each(|number| assert!(world.db.get(number.to_be_bytes()).unwrap().is_some()));
        let flushes = world.flushes().len();
        world.db.drain().unwrap();
        assert_eq!(world.flushes().len(), flushes, "nothing is left to do");
        world.db.check().unwrap();
    }
}

#[test]
fn draining_ends_also_where_level_0_is_not_to_be_emptied() {
    let universal = ColumnFamilyOptions::default().compaction_style(CompactionStyle::Universal);
    for family in [universal, ColumnFamilyOptions::default().disable_auto_compactions(true)] {
        let world = World::with(10, family);
        world.write(0);
        world.db.drain().unwrap();
        assert_eq!(world.flushes(), [FlushReason::Manual]);
        world.db.check().unwrap();
    }
}

/// Whoever looked may come to it only after the database was closed and opened anew: the next WAL's name is the other opening's then, and making it would unlink a log with acknowledged writes.
#[test]
fn a_drain_that_comes_late_takes_no_log_from_the_next_opening() {
    let disk = SimDisk::new();
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).drain_when_read_only_seconds(0);
    let before = Db::open("/db", &options).unwrap();
    before.put("a", "1").unwrap();
    let late = Arc::clone(&before.handle.inner);
    before.close().unwrap();
    let after = Db::open("/db", &options).unwrap();
    let put = |key, value| {
        after.put_cf(&after.default_family(), key, value, &WriteOptions::default().sync(true)).unwrap();
    };
    put("b", "2");
    let files = || disk.env().list_dir(Path::new("/db")).unwrap();
    let there = files();
    late.drain();
    assert_eq!(files(), there);
    put("c", "3");
    drop(late);
    let found = Db::open("/db", &options.env(Some(disk.after_power_loss().env()))).unwrap();
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        assert_eq!(found.get(key).unwrap().as_deref(), Some(value.as_bytes()), "{key}");
    }
    after.close().unwrap();
}
