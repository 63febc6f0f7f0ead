//! What a database tells of itself.

use super::*;
use crate::{
    ChangeBuffering, Counter, Db, DbOptions, Durability, ErrorKind, Isolation, KvCursor, Shutdown, TransactionOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::{Row, TableSpec};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::sync::{Arc, Mutex, Rank};
use std::path::Path;

#[test]
fn the_book_lists_every_event() {
    let page = include_str!("../../../../docs/src/btree_events.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    assert_eq!(rows.map(|(name, _)| name).collect::<Vec<_>>(), Event::NAMES, "docs/src/btree_events.md");
}

/// Writes events down.
#[derive(Debug)]
struct Listener {
    seen: Mutex<Vec<Event>>,
    /// Panics at the first event of this name.
    dreads: Option<&'static str>,
}

impl Listener {
    fn new() -> Arc<Self> {
        Arc::new(Self { seen: Mutex::new(Rank(1), Vec::new()), dreads: None })
    }

    /// Takes what was seen, as text.
    fn names(&self) -> Vec<&'static str> {
        self.seen.lock().iter().map(Event::name).collect()
    }

    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.seen.lock())
    }
}

impl EventListener for Listener {
    fn on_event(&self, event: &Event) {
        // A lock of the lowest rank: nothing of the engine is held.
        self.seen.lock().push(event.clone());
        assert_ne!(Some(event.name()), self.dreads, "as was asked for");
    }
}

struct Life {
    executor: Arc<StepExecutor>,
    listener: Arc<Listener>,
    disk: SimDisk,
    options: DbOptions,
}

impl Life {
    fn on(disk: &SimDisk, listener: Arc<Listener>) -> Self {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
        let told: Arc<dyn EventListener> = Arc::<Listener>::clone(&listener);
        let options = DbOptions::default()
            .create_if_missing(true)
            .page_size(512)
            .buffer_pool_bytes(64 * 512)
            .redo_capacity_bytes(48 << 10)
            .page_cleaners(2)
            .doublewrite_pages(16)
            .lock_timeout_millis(50)
            .durability(Durability::Os)
            .env(Some(disk.env()))
            .executor(Some(Arc::<StepExecutor>::clone(&executor)))
            .listeners(vec![told]);
        Self { executor, listener, disk: disk.clone(), options }
    }

    fn new() -> Self {
        let disk = SimDisk::new();
        disk.make_durable_dir(Path::new("/db")).unwrap();
        Self::on(&disk, Listener::new())
    }

    fn open(&self) -> Db {
        Db::open("/db", &self.options).unwrap()
    }
}

fn fill(db: &Db, rows: u32) {
    (0..rows).for_each(|number| db.put(number.wrapping_mul(0x9E37_79B9).to_be_bytes(), [7; 40]).unwrap());
}

#[test]
fn the_redo_log_and_the_page_cleaner_tell_what_they_do() {
    let life = Life::new();
    let db = life.open();
    assert_eq!(
        life.listener.names(),
        ["recovery.begun", "recovery.ended", "recovery.begun", "recovery.ended"],
        "told before the call returns"
    );
    life.listener.take();
    // Jobs run only when a writer waits for them.
    fill(&db, 2_000);
    life.executor.run_until_idle();
    let seen = life.listener.take();
    let nearly = seen.iter().filter(|event| matches!(event, Event::RedoNearlyFull { age, capacity } if age > capacity));
    assert_eq!(nearly.count(), 0);
    let waited = seen.iter().filter(|event| event.name() == "redo.writer_waited").count();
    let (full, relieved) = (
        seen.iter().filter(|event| event.name() == "redo.nearly_full").count(),
        seen.iter().filter(|event| event.name() == "redo.relieved").count(),
    );
    assert!(waited > 0 && full > 0 && full - relieved <= 1, "{waited} waits, {full} and {relieved}");
    let flushed = |events: &[Event], cause| {
        let is_it =
            |event: &Event| matches!(event, Event::PagesFlushed { cause: found, pages: 1.., .. } if *found == cause);
        events.iter().any(is_it)
    };
    assert!(flushed(&seen, FlushCause::LogFull), "{seen:?}");
    // Each checkpoint that begins ends, with its cause.
    let checkpoints: Vec<_> = seen.iter().filter(|event| event.name().starts_with("checkpoint")).collect();
    assert!(!checkpoints.is_empty());
    for pair in checkpoints.chunks(2) {
        let [Event::CheckpointBegun { cause }, Event::CheckpointEnded { cause: again, error: None, .. }] = pair else {
            panic!("{pair:?}")
        };
        assert_eq!(cause, again);
    }
    life.executor.sleep(Duration::from_secs(3));
    let mut idle = life.listener.take();
    assert_eq!(idle.iter().filter(|event| event.name() == "redo.relieved").count(), 1);
    fill(&db, 5);
    life.executor.sleep(Duration::from_secs(3));
    idle.extend(life.listener.take());
    assert!(flushed(&idle, FlushCause::Adaptive), "{idle:?}");
    assert!(
        idle.iter().any(|event| matches!(event, Event::CheckpointEnded { cause: CheckpointCause::Idle, .. })),
        "{idle:?}"
    );
    let flushed: u64 = seen
        .iter()
        .chain(&idle)
        .map(|event| if let Event::PagesFlushed { pages, .. } = event { *pages } else { 0 })
        .sum();
    assert!(flushed <= db.metrics().get(Counter::PagesWritten));
    fill(&db, 10);
    db.flush().unwrap();
    fill(&db, 10);
    db.close().unwrap();
    let ended: Vec<_> = life
        .listener
        .take()
        .into_iter()
        .filter_map(|event| match event {
            Event::CheckpointEnded { cause, .. } => Some(cause),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [CheckpointCause::Manual, CheckpointCause::Close], "told when the call returns");
}

#[test]
fn trees_and_tables_tell_of_their_changes() {
    let life = Life::new();
    let db = life.open();
    life.executor.run_until_idle();
    life.listener.take();
    let tree = db.create_tree("slate").unwrap();
    db.put_in(&tree, "a", "b").unwrap();
    db.truncate(&tree).unwrap();
    db.bulk_load(&tree, [("a", "b"), ("c", "d")]).unwrap();
    db.create_tree("slate").unwrap_err();
    db.drop_tree("slate").unwrap();
    let table = db.create_table(&TableSpec { name: "stones".to_owned(), indexes: Vec::new() }).unwrap();
    let row = Row { primary_key: b"a", value: b"slate" };
    db.insert(table, &[row]).unwrap();
    db.add_index(table, &IndexSpec::over_columns("by_kind", Some(0..2))).unwrap();
    db.drop_index(table, "by_kind").unwrap();
    db.drop_table(table).unwrap();
    assert!(life.listener.take().is_empty(), "nobody is told by who calls");
    life.executor.run_until_idle();
    let seen = life.listener.take();
    let told: Vec<String> = seen
        .iter()
        .filter_map(|event| match event {
            Event::TreeLoaded { name, rows } => Some(format!("{} {name} {rows}", event.name())),
            Event::TreeCreated { name } | Event::TreeDropped { name } | Event::TreeTruncated { name } => {
                Some(format!("{} {name}", event.name()))
            }
            Event::TableCreated { name } | Event::TableDropped { name } => Some(format!("{} {name}", event.name())),
            Event::IndexAdded { table, index, entries } => Some(format!("{} {table} {index} {entries}", event.name())),
            Event::IndexDropped { table, index } => Some(format!("{} {table} {index}", event.name())),
            _ => None,
        })
        .collect();
    let expected = [
        "tree.created slate",
        "tree.truncated slate",
        "tree.loaded slate 2",
        "tree.dropped slate",
        "table.created stones",
        "index.added stones by_kind 1",
        "index.dropped stones by_kind",
        "table.dropped stones",
    ];
    assert_eq!(told, expected);
    db.close().unwrap();
}

#[test]
fn locks_that_are_not_had_are_told() {
    let life = Life::new();
    let db = life.open();
    life.listener.take();
    let options = TransactionOptions::new(Isolation::ReadCommitted).lock_timeout(Duration::from_millis(30));
    let mut one = db.begin(&options).unwrap();
    one.put("a", "1").unwrap();
    assert_eq!(db.put("a", "2").unwrap_err().kind(), ErrorKind::TimedOut);
    life.executor.run_until_idle();
    let seen = life.listener.take();
    let timed_out =
        |event: &Event| matches!(event, Event::LockTimedOut { duration, .. } if *duration >= Duration::from_millis(50));
    assert!(seen.iter().any(timed_out), "{seen:?}");
    one.rollback().unwrap();
    db.close().unwrap();
}

#[test]
fn recovery_tells_its_parts_and_the_rollback_when_it_ended() {
    let life = Life::new();
    let db = life.open();
    let mut left = db.begin(&TransactionOptions::default()).unwrap();
    left.put("left", "open").unwrap();
    fill(&db, 50);
    db.sync().unwrap();
    let again = Life::on(&life.disk.after_power_loss(), Listener::new());
    let db = again.open();
    let begun = again.listener.take();
    assert!(matches!(begun.last(), Some(Event::RecoveryBegun { phase: RecoveryPhase::Rollback })), "{begun:?}");
    let redo = |event: &Event| matches!(event, Event::RecoveryEnded { phase: RecoveryPhase::Redo, count: 50.., .. });
    assert!(begun.iter().any(redo), "{begun:?}");
    again.executor.run_until_idle();
    let seen = again.listener.take();
    let ended = |event: &Event| matches!(event, Event::RecoveryEnded { phase: RecoveryPhase::Rollback, count: 1, .. });
    assert_eq!(seen.iter().filter(|event| ended(event)).count(), 1, "{seen:?}");
    // One that is rolled back later is no part of recovery.
    let mut later = db.begin(&TransactionOptions::default()).unwrap();
    later.put("later", "open").unwrap();
    drop(later);
    again.executor.run_until_idle();
    assert!(!again.listener.take().iter().any(|event| event.name() == "recovery.ended"));
    db.close().unwrap();
}

#[test]
fn the_change_buffer_tells_when_it_is_merged_and_when_it_is_full() {
    let mut life = Life::new();
    life.options = life.options.change_buffering(ChangeBuffering::All).change_buffer_max_percent(10);
    let db = life.open();
    let spec = TableSpec { name: "rows".to_owned(), indexes: vec![IndexSpec::over_columns("by", Some(0..4))] };
    let table = db.create_table(&spec).unwrap();
    for number in 0..3_000_u32 {
        let value = number.wrapping_mul(0x9E37_79B9).to_be_bytes();
        let row = Row { primary_key: &number.to_be_bytes(), value: &value };
        db.insert(table, &[row]).unwrap();
        if number % 100 == 0 {
            life.executor.sleep(Duration::from_millis(20));
        }
    }
    for _ in 0..600 {
        life.executor.sleep(Duration::from_millis(20));
    }
    (3_000..3_100_u32).for_each(|number| {
        let value = number.wrapping_mul(0x9E37_79B9).to_be_bytes();
        db.insert(table, &[Row { primary_key: &number.to_be_bytes(), value: &value }]).unwrap();
    });
    db.shut_down(Shutdown::Slow).unwrap();
    let seen = life.listener.take();
    let merged = |cause| {
        seen.iter()
            .filter(|event| matches!(event, Event::ChangesMerged { cause: found, pages: 1.. } if *found == cause))
            .count()
    };
    let causes = [MergeCause::Full, MergeCause::Crowded, MergeCause::Idle, MergeCause::Manual].map(merged);
    assert!(causes.iter().all(|count| *count > 0), "{causes:?}");
    let full = seen
        .iter()
        .filter(|event| matches!(event, Event::ChangeBufferFull { pages, max_pages } if pages >= max_pages))
        .count();
    assert!(full > 0 && full <= causes[0], "{full} times full, {causes:?}");
}

#[test]
fn errors_are_told_and_the_end_of_health() {
    let life = Life::new();
    let db = life.open();
    fill(&db, 100);
    db.sync().unwrap();
    life.listener.take();
    let pages = OpFilter { file: Some(FileKind::Page), class: Some(OpClass::Write), ..OpFilter::default() };
    life.disk.set_fault(FaultPlan::once(FaultKind::NoSpace, 0).times(3).filter(pages));
    for _ in 0..200 {
        life.executor.sleep(Duration::from_millis(20));
    }
    let seen = life.listener.take();
    let failed = |event: &Event| matches!(event, Event::BackgroundFailed { job: "page cleaner", error } if error.kind() == ErrorKind::NoSpace);
    assert!(seen.iter().any(failed), "{seen:?}");
    assert!(!seen.iter().any(|event| event.name() == "health.read_only"));
    fill(&db, 100);
    let redo = OpFilter { file: Some(FileKind::Redo), mutating_only: true, ..OpFilter::default() };
    life.disk.set_fault(FaultPlan::once(FaultKind::Io, 0).filter(redo));
    db.put("more", "rows").and_then(|()| db.sync()).unwrap_err();
    life.executor.run_until_idle();
    let seen = life.listener.take();
    let ended = |event: &Event| matches!(event, Event::BecameReadOnly { error } if error.kind() == ErrorKind::Io);
    assert_eq!(seen.iter().filter(|event| ended(event)).count(), 1, "{seen:?}");
}

#[test]
fn a_listener_that_panics_is_the_end_of_writes() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/db")).unwrap();
    let listener = Arc::new(Listener { seen: Mutex::new(Rank(1), Vec::new()), dreads: Some("tree.created") });
    let life = Life::on(&disk, listener);
    let db = life.open();
    db.create_tree("slate").unwrap();
    life.executor.run_until_idle();
    assert_eq!(db.put("a", "b").unwrap_err().kind(), ErrorKind::ReadOnly);
    let count = life.listener.take().len();
    assert!(count > 0);
    let _ = db.drop_tree("slate");
    life.executor.run_until_idle();
    assert_eq!(life.listener.take().len(), 0, "nobody is told any more");
    let mut cursor = db.cursor().unwrap();
    assert!(!cursor.seek_to_first().unwrap(), "reading goes on");
}

#[test]
fn more_than_a_listener_takes_is_lost_and_counted() {
    let mut life = Life::new();
    // Nobody has to wait for room in the redo log: then jobs would run.
    life.options = life.options.redo_capacity_bytes(4 << 20);
    let db = life.open();
    life.listener.take();
    let tree = db.create_tree("slate").unwrap();
    for _ in 0..1_100 {
        db.truncate(&tree).unwrap();
    }
    life.executor.run_until_idle();
    let seen = life.listener.take();
    let lost: u64 = seen.iter().map(|event| if let Event::EventsLost { count } = event { *count } else { 0 }).sum();
    let told = seen.iter().filter(|event| event.name() == "tree.truncated").count();
    assert!(lost > 0, "{} events", seen.len());
    assert!(told >= 900, "{told}");
    db.close().unwrap();
}

#[test]
fn writers_are_slowed_down_while_too_much_history_waits() {
    let mut life = Life::new();
    life.options = life.options.max_history_len(10).max_history_delay_millis(40);
    let db = life.open();
    let begin = || db.begin(&TransactionOptions::new(Isolation::Snapshot)).unwrap();
    let held = || db.metrics().get(Counter::HistoryMicros);
    fill(&db, 20);
    // A view that purge must leave everything to.
    let mut view = begin();
    assert_eq!(view.get("none").unwrap(), None);
    for number in 0..30_u32 {
        let mut transaction = begin();
        transaction.put(number.to_be_bytes(), "x").unwrap();
        transaction.commit().unwrap();
    }
    assert_eq!(db.history_len(), 30);
    let before = held();
    assert!(before > 0 && before <= 20 * 40_000, "{before}");
    db.put("a", "b").unwrap();
    assert_eq!(held() - before, 25_000, "three times as much as there may be");
    view.rollback().unwrap();
    life.executor.run_until_idle();
    assert_eq!(db.history_len(), 0);
    let before = held();
    db.put("a", "b").unwrap();
    assert_eq!(held(), before);
    let seen = life.listener.take();
    let lags = seen.iter().filter(|event| matches!(event, Event::PurgeLags { history_len: 11, .. })).count();
    let caught = seen.iter().filter(|event| matches!(event, Event::PurgeCaughtUp { history_len: 10 })).count();
    assert_eq!((lags, caught), (1, 1), "{seen:?}");
    db.close().unwrap();
}
