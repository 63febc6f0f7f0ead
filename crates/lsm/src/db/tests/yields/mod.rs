//! A compaction that is cancelled, fails, or dies with the machine at any of its yield points loses nothing, and leaves no file behind.
//!
//! A tree with work due is made once. Then its compactions are stepped, a few entries a step. After every step the disk is what a crash would leave; and in runs
//! of their own everything that ends a compaction early comes after each number of steps.

mod other_reasons;
mod runs;
mod scenarios;
mod upkeep;

use super::basics::options;
use crate::event::{CompactionInfo, CompactionReason, EventListener, FlushInfo};
use crate::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Counter, Db, ErrorKind, FlushOptions, ReadOptions,
};
use scenarios::{Scenario, Tree};
use siltstone_base::Result;
use siltstone_base::clock::ManualClock;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpFilter, SimDisk};
use siltstone_base::executor::StepExecutor;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::sync::{Mutex, Rank};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/db";

/// The family whose compactions are looked at. Another family stays as it is.
const FAMILY: &str = "work";

/// Rows as a family shows them.
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What ends a compaction early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The database is closed.
    Close,
    /// Background work is paused, and resumed.
    Pause,
    /// The family is dropped.
    Drop,
    /// The next operation on a file of the kind fails, once.
    Error(FileKind),
    /// Every change of a table fails from now on, so that the engine becomes read-only.
    Fatal,
    /// A caller asks for a compaction of everything meanwhile.
    Manual,
}

impl Ending {
    const ALL: [Self; 7] = [
        Self::Close,
        Self::Pause,
        Self::Drop,
        Self::Error(FileKind::Table),
        Self::Error(FileKind::Manifest),
        Self::Fatal,
        Self::Manual,
    ];
}

/// What was tried.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Yield points of the run that nothing disturbs.
    yield_points: usize,
    /// Disks that a crash at one of them leaves.
    crashes: usize,
    /// Runs that something ended at one of them, while a compaction ran.
    endings: usize,
}

/// The compactions that ended, and the flushes that began.
#[derive(Debug)]
struct Watch {
    ended: Mutex<Vec<(CompactionReason, bool)>>,
    flushes: AtomicU64,
}

impl Watch {
    fn new() -> Arc<Self> {
        Arc::new(Self { ended: Mutex::new(Rank(u16::MAX), Vec::new()), flushes: AtomicU64::new(0) })
    }

    /// Why the compactions ran that did what they were for, and rewrote something.
    fn reasons(&self) -> Vec<CompactionReason> {
        self.ended.lock().iter().filter(|(_, is_done)| *is_done).map(|(reason, _)| *reason).collect()
    }

    fn ended(&self) -> usize {
        self.ended.lock().len()
    }
}

impl EventListener for Watch {
    fn flush_begin(&self, _: &FlushInfo) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    fn compaction_end(&self, info: &CompactionInfo) {
        let is_done = info.error.is_none() && !info.trivial_move;
        self.ended.lock().push((info.reason, is_done));
    }
}

/// An engine on a copy of the tree.
struct Life {
    disk: SimDisk,
    executor: Arc<StepExecutor>,
    watch: Arc<Watch>,
    db: Db,
}

impl Life {
    fn begin(disk: SimDisk, scenario: &Scenario) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000 + scenario.later_seconds));
        let executor = Arc::new(StepExecutor::new(clock));
        let watch = Watch::new();
        let options = options(&disk)
            .executor(Some(executor.clone()))
            .listeners(vec![watch.clone()])
            .max_subcompactions(scenario.subcompactions);
        let options = match scenario.reason {
            CompactionReason::ReadOnly => options.drain_when_read_only_seconds(1),
            _ => options,
        };
        let names = Db::list_column_families(DIR, &options).unwrap();
        let families = [("default", ColumnFamilyOptions::default()), (FAMILY, scenario.family.clone())];
        let there: Vec<_> = families.into_iter().filter(|(name, _)| names.iter().any(|other| other == name)).collect();
        let db = Db::open_families(DIR, &options, &there).unwrap();
        Self { disk, executor, watch, db }
    }

    /// An engine that has the scenario's work before it.
    fn begin_work(disk: SimDisk, scenario: &Scenario) -> Self {
        let life = Self::begin(disk, scenario);
        life.executor.limit_steps(scenario.units);
        life.ask(scenario);
        life
    }

    /// Where the scenario is about what does not begin by itself, sees to it that it does.
    fn ask(&self, scenario: &Scenario) {
        let inner = &self.db.handle.inner;
        match scenario.reason {
            CompactionReason::Manual => {
                inner.ask_for_compaction(&self.family().0, None, None, &CompactRangeOptions::default());
            }
            CompactionReason::ReadOnly => {
                // One look sees what there is, and the next one that it was read since.
                self.executor.run_until_idle();
                (0..200).for_each(|_| assert!(self.db.get(scenarios::key(0)).unwrap().is_some()));
                self.executor.manual_clock().advance(Duration::from_secs(1));
            }
            CompactionReason::Covered => {
                // What a tombstone covers is seen once its table is open.
                self.db.open_tables_for_test().unwrap();
                inner.schedule();
            }
            CompactionReason::Suggested => {
                self.db.suggest_compact_range(&self.family(), &scenarios::key(0), &scenarios::key(99_999)).unwrap();
            }
            CompactionReason::ReadTriggered => {
                // Each get pays for the table of level 0 that it asks in vain; whoever looks at what was paid comes now and then.
                self.executor.run_until_idle();
                let family = self.family();
                let get = |number| self.db.get_cf(&family, scenarios::key(number), &ReadOptions::default()).unwrap();
                (0..200).for_each(|number| _ = get(number * 2 % 380 + 1));
                self.executor.manual_clock().advance(Duration::from_secs(11));
            }
            // What is expired is known once tables were opened, which takes a step for each of them.
            CompactionReason::Expired => while !self.running() && self.executor.step() {},
            _ => {}
        }
    }

    fn family(&self) -> ColumnFamily {
        self.db.family(FAMILY).unwrap()
    }

    fn running(&self) -> bool {
        self.db.property("rocksdb.num-running-compactions").unwrap() != "0"
    }

    /// Everything that was written is there, and nothing else.
    fn check_rows(&self, tree: &Tree, context: &str) {
        for (name, expected) in [("default", &tree.other), (FAMILY, &tree.rows)] {
            let Some(family) = self.db.family(name) else { continue };
            let found = rows(&self.db, &family);
            let is_there = |key: &&Vec<u8>| found.contains_key(*key) || tree.may_go.contains(*key);
            assert!(expected.keys().all(|key| is_there(&key)), "{context}: rows of {name} are lost");
            assert!(found.iter().all(|row| expected.get(row.0) == Some(row.1)), "{context}: rows of {name} differ");
        }
    }

    /// The directory has the tables and blob files that some version lists, and no other.
    fn check_files(&self, context: &str) {
        assert_eq!(files(&self.disk), self.live_files(), "{context}: files and what is listed");
    }

    fn live_files(&self) -> BTreeSet<String> {
        let families = self.db.handle.inner.families.load();
        let mut names = BTreeSet::new();
        for family in families.values() {
            let version = Arc::clone(&family.super_version.load().version);
            names.extend(version.all_files().map(|(_, file)| format!("{:06}.sst", file.number)));
            names.extend(version.blob_files().numbers().map(|number| format!("{number:06}.blob")));
        }
        names
    }

    /// Lets all work be done. Nobody waits for what was asked for: it is taken back once it can go no further.
    fn wait(&self) -> Result<()> {
        if !self.db.handle.inner.state.lock().manual.is_empty() {
            self.executor.run_until_idle();
            self.db.handle.inner.state.lock().manual.clear();
        }
        self.db.wait_for_background_work()
    }

    /// Lets all work be done, and looks at everything.
    fn settle(&self, tree: &Tree, context: &str) {
        self.wait().unwrap_or_else(|error| panic!("{context}: {error}"));
        self.check_rows(tree, context);
        self.db.check().unwrap_or_else(|error| panic!("{context}: {error}"));
        self.check_files(context);
    }
}

/// Opens what is on the disk: nothing is lost, no file is left over, and the work that was due is done.
fn recover(disk: SimDisk, scenario: &Scenario, tree: &Tree, context: &str) {
    let life = Life::begin(disk, scenario);
    life.check_files(context);
    life.check_rows(tree, context);
    life.settle(tree, context);
    life.db.close().unwrap();
}

fn rows(db: &Db, family: &ColumnFamily) -> Rows {
    let mut rows = Rows::new();
    let mut iter = db.iter_cf(family, &ReadOptions::default()).unwrap();
    iter.seek_to_first();
    while iter.valid() {
        rows.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.next();
    }
    iter.status().unwrap();
    rows
}

/// The tables and blob files in the directory.
fn files(disk: &SimDisk) -> BTreeSet<String> {
    let entries = disk.env().list_dir(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name);
    entries.filter(|name| name.ends_with(".sst") || name.ends_with(".blob")).collect()
}

/// Steps to the end, and crashes after every step.
fn crash_everywhere(scenario: &Scenario, tree: &Tree, tally: &mut Tally) {
    let life = Life::begin_work(tree.disk.after_process_death(), scenario);
    let mut images = HashSet::new();
    loop {
        let context = format!("{}: crash after step {}", scenario.name, tally.yield_points);
        for disk in [life.disk.after_power_loss(), life.disk.after_process_death()] {
            tally.crashes += 1;
            if images.insert(disk.image_hash()) {
                recover(disk, scenario, tree, &context);
            }
        }
        if !life.executor.step() {
            break;
        }
        tally.yield_points += 1;
    }
    life.settle(tree, scenario.name);
    let reasons = life.watch.reasons();
    assert!(reasons.contains(&scenario.reason), "{}: compactions for {reasons:?}", scenario.name);
    let subcompactions = life.db.metrics().get(Counter::Subcompactions);
    assert_eq!(subcompactions > 0, scenario.subcompactions > 1, "{}: {subcompactions} subcompactions", scenario.name);
    life.db.close().unwrap();
}

/// Ends what runs after `steps` steps. Returns whether a compaction ran.
fn end_after(scenario: &Scenario, tree: &Tree, ending: Ending, steps: usize) -> bool {
    let context = format!("{}: {ending:?} after step {steps}", scenario.name);
    let life = Life::begin_work(tree.disk.after_process_death(), scenario);
    (0..steps).for_each(|_| assert!(life.executor.step()));
    let ran = life.running();
    let ended = life.watch.ended();
    match ending {
        Ending::Close => {
            let Life { disk, db, .. } = life;
            db.close().unwrap();
            let left = files(&disk);
            let life = Life::begin(disk, scenario);
            assert_eq!(left, life.live_files(), "{context}: files that closing left");
            life.check_rows(tree, &context);
            life.settle(tree, &context);
            life.db.close().unwrap();
            return ran;
        }
        Ending::Pause => {
            life.db.pause_background_work().unwrap();
            assert!(!life.running(), "{context}");
            life.check_rows(tree, &context);
            life.check_files(&context);
            life.executor.run_until_idle();
            assert!(!life.running(), "{context}");
            life.db.resume_background_work();
        }
        Ending::Drop => {
            life.db.drop_family(&life.family()).unwrap();
        }
        Ending::Error(file) => {
            let filter = OpFilter { file: Some(file), mutating_only: true, ..OpFilter::default() };
            life.disk.set_fault(FaultPlan::once(FaultKind::Io, 0).filter(filter));
            life.wait().unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(life.disk.fault_hits().is_empty() || life.watch.ended() > ended, "{context}");
            life.disk.clear_fault();
            // Nobody repeats by himself what a caller asked for: he does, and what the failure left goes.
            life.ask(scenario);
        }
        Ending::Fatal => {
            let filter = OpFilter { file: Some(FileKind::Table), mutating_only: true, ..OpFilter::default() };
            life.disk.set_fault(FaultPlan::sticky(FaultKind::Io, 0).filter(filter));
            let waited = life.wait();
            life.disk.clear_fault();
            life.check_rows(tree, &context);
            assert_eq!(waited.is_err(), life.db.background_error().is_some(), "{context}");
            if let Err(error) = waited {
                assert_eq!(error.kind(), ErrorKind::ReadOnly, "{context}");
                let Life { disk, db, .. } = life;
                assert!(db.close().is_err(), "{context}");
                recover(disk, scenario, tree, &context);
                return ran;
            }
            if matches!(scenario.reason, CompactionReason::Manual | CompactionReason::ReadTriggered) {
                // What a caller asked for, or readers have paid for, is not tried again until the engine gives up. A table that could not be removed goes with the next opening.
                let Life { disk, db, .. } = life;
                db.close().unwrap();
                recover(disk, scenario, tree, &context);
                return ran;
            }
        }
        Ending::Manual => {
            let options = CompactRangeOptions::default().force_bottommost(true);
            life.db.compact_range(&life.family(), None, None, &options).unwrap();
        }
    }
    // A file that could not be removed is when files are removed again.
    life.db.disable_file_deletions();
    life.db.enable_file_deletions();
    life.settle(tree, &context);
    let Life { disk, db, .. } = life;
    db.close().unwrap();
    recover(disk, scenario, tree, &context);
    ran
}

fn explore(scenario: &Scenario) -> Tally {
    let tree = scenario.build();
    let mut tally = Tally::default();
    crash_everywhere(scenario, &tree, &mut tally);
    for ending in Ending::ALL {
        for steps in 0..=tally.yield_points {
            tally.endings += usize::from(end_after(scenario, &tree, ending, steps));
        }
    }
    tally
}

/// Fails unless so many yield points were tried, and all of them in every way.
fn assert_explored(scenario: &Scenario, least: usize) {
    let tally = explore(scenario);
    assert!(tally.yield_points >= least, "{}: {tally:?}", scenario.name);
    assert_eq!(tally.crashes, 2 * (tally.yield_points + 1), "{}: {tally:?}", scenario.name);
    // A step may be between two compactions, or of another job.
    let in_compactions = tally.yield_points.saturating_sub(3);
    assert!(tally.endings * 4 >= in_compactions * Ending::ALL.len() * 3, "{}: {tally:?}", scenario.name);
}

#[test]
fn leveled_compactions_may_end_at_every_yield_point() {
    assert_explored(&scenarios::leveled(), 40);
}

#[test]
fn compactions_that_a_caller_asks_for_may_end_at_every_yield_point() {
    assert_explored(&scenarios::manual(), 40);
}

#[test]
fn subcompactions_of_level_0_may_end_at_every_yield_point() {
    assert_explored(&scenarios::leveled_shared_out(), 20);
}

#[test]
fn subcompactions_of_sorted_runs_may_end_at_every_yield_point() {
    assert_explored(&scenarios::universal_shared_out(), 20);
}

#[test]
fn subcompactions_of_blob_references_may_end_at_every_yield_point() {
    assert_explored(&scenarios::blobs_shared_out(), 10);
}

#[test]
fn deep_leveled_compactions_may_end_at_every_yield_point() {
    assert_explored(&scenarios::deep(), 40);
}

#[test]
fn compactions_into_sublevels_may_end_at_every_yield_point() {
    assert_explored(&scenarios::sublevels(), 40);
}

#[test]
fn universal_merges_may_end_at_every_yield_point() {
    assert_explored(&scenarios::universal(), 40);
}

#[test]
fn universal_pieces_may_end_at_every_yield_point() {
    assert_explored(&scenarios::universal_pieces(), 40);
}

#[test]
fn lazy_merges_may_end_at_every_yield_point() {
    assert_explored(&scenarios::lazy(), 40);
}

#[test]
fn fifo_merges_may_end_at_every_yield_point() {
    assert_explored(&scenarios::fifo_merges(), 20);
}

#[test]
fn fifo_deletions_may_end_at_every_yield_point() {
    assert_explored(&scenarios::fifo_deletions(), 1);
}

#[test]
fn upkeep_may_end_at_every_yield_point() {
    assert_explored(&scenarios::upkeep(), 40);
}

#[test]
fn compactions_of_blob_references_may_end_at_every_yield_point() {
    assert_explored(&scenarios::blobs(), 20);
}

/// Whatever a compaction of the bottom level is at, a flush that is asked for begins with the next step, and ends before the compaction goes on.
#[test]
fn a_flush_begins_within_one_step_of_every_yield_point() {
    let scenario = scenarios::upkeep();
    let tree = scenario.build();
    let mut tried = 0;
    for steps in 1.. {
        let life = Life::begin(tree.disk.after_process_death(), &scenario);
        life.executor.limit_steps(scenario.units);
        (0..steps).for_each(|_| assert!(life.executor.step()));
        if !life.running() {
            break;
        }
        let (flushes, ended) = (life.watch.flushes.load(Ordering::Relaxed), life.watch.ended());
        life.db.put("new", "value").unwrap();
        life.db.flush(&FlushOptions::default().wait(false)).unwrap();
        assert!(life.executor.step());
        assert_eq!(life.watch.flushes.load(Ordering::Relaxed), flushes + 1, "after step {steps}");
        while life.db.property("rocksdb.num-immutable-mem-table").unwrap() != "0" {
            assert!(life.executor.step());
        }
        assert_eq!(life.watch.ended(), ended, "the compaction waits");
        life.db.wait_for_background_work().unwrap();
        life.db.close().unwrap();
        tried += 1;
    }
    assert!(tried >= 40, "{tried}");
}
