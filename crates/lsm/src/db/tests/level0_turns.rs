//! Level 0 gets its turn beside compactions that nobody's writes wait for.

use super::basics::options;
use crate::event::{CompactionInfo, EventListener};
use crate::{ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, FlushOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::sync::{Arc, Mutex, Rank};
use std::time::Duration;

/// Where writers are slowed down, and where they are stopped.
const SLOWDOWN: usize = 12;

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn count(db: &Db, level: usize) -> usize {
    db.property(&format!("rocksdb.num-files-at-level{level}")).unwrap().parse().unwrap()
}

/// Writes a table over all keys whenever a compaction begins.
#[derive(Debug)]
struct Writer(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    db: Option<Db>,
    tables: u64,
    most: usize,
    /// Compactions that began, those of level 0 among them.
    began: [usize; 2],
}

impl EventListener for Writer {
    fn compaction_begin(&self, info: &CompactionInfo) {
        let (db, tables) = {
            let mut state = self.0.lock();
            // Not from within a write of its own.
            let Some(db) = state.db.take() else { return };
            state.tables += 1;
            state.began[usize::from(info.inputs.iter().any(|(level, _)| *level == 0))] += 1;
            (db, state.tables)
        };
        db.put(key(0), tables.to_le_bytes()).unwrap();
        db.put(key(99_999), tables.to_le_bytes()).unwrap();
        db.flush(&FlushOptions::default().wait(false)).unwrap();
        let level0 = count(&db, 0);
        let mut state = self.0.lock();
        state.most = state.most.max(level0);
        state.db = Some(db);
    }
}

/// Two levels of many small tables, and a level 0 that whoever compacts lets grow.
fn loaded(jobs: usize, family: ColumnFamilyOptions) -> (Db, Arc<Writer>, Arc<StepExecutor>) {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let writer = Arc::new(Writer(Mutex::new(Rank(60_000), State::default())));
    let listener: Arc<dyn EventListener> = Arc::<Writer>::clone(&writer);
    let options = options(&disk)
        .executor(Some(Arc::<StepExecutor>::clone(&executor)))
        .max_background_jobs(jobs)
        .listeners(vec![listener]);
    let family = family
        .compression(CompressionType::None)
        .level_compaction_dynamic_level_bytes(false)
        .target_file_size_base(8 << 10)
        .max_compaction_bytes(16 << 10)
        .max_bytes_for_level_base(64 << 10)
        .level0_slowdown_writes_trigger(SLOWDOWN)
        .level0_stop_writes_trigger(2 * SLOWDOWN)
        .max_write_buffer_number(8);
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    let fill = |value: u8| {
        for number in 0..5_000 {
            db.put(key(number), [value; 80]).unwrap();
        }
        db.flush(&FlushOptions::default()).unwrap();
    };
    for value in 0..4 {
        fill(value);
    }
    db.wait_for_background_work().unwrap();
    assert!(count(&db, 2) > 20, "{} tables", count(&db, 2));
    // From now on level 1 may have as much as comes.
    db.set_options(&db.default_family(), &[("max_bytes_for_level_base", "100000000")]).unwrap();
    for value in 4..8 {
        fill(value);
    }
    db.wait_for_background_work().unwrap();
    assert_eq!(count(&db, 0), 0);
    assert!(count(&db, 1) > 40, "{} tables", count(&db, 1));
    (db, writer, executor)
}

fn check(db: &Db, writer: &Writer, others: usize) {
    let state = std::mem::take(&mut *writer.0.lock());
    drop(state.db);
    let [not_level0, level0] = state.began;
    assert!(not_level0 >= others, "{not_level0} compactions of other levels, {level0} of level 0");
    assert!(state.most < SLOWDOWN, "level 0 had {} tables; {not_level0} and {level0} compactions", state.most);
    db.wait_for_background_work().unwrap();
    assert_eq!(db.get(key(0)).unwrap().as_deref(), Some(&state.tables.to_le_bytes()[..]));
    db.check().unwrap();
}

#[test]
fn writers_beside_the_compaction_of_a_large_range_are_not_slowed_down() {
    for jobs in [1, 4] {
        let (db, writer, _executor) = loaded(jobs, ColumnFamilyOptions::default());
        writer.0.lock().db = Some(db.clone());
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        check(&db, &writer, 2 * SLOWDOWN);
    }
}

#[test]
fn writers_beside_the_upkeep_of_old_tables_are_not_slowed_down() {
    let (db, writer, executor) = loaded(8, ColumnFamilyOptions::default());
    writer.0.lock().db = Some(db.clone());
    db.set_options(&db.default_family(), &[("periodic_compaction_seconds", "1000")]).unwrap();
    for _ in 0..60 {
        executor.sleep(Duration::from_secs(100));
    }
    check(&db, &writer, 2 * SLOWDOWN);
}
