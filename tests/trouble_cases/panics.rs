//! A callback of the user that panics: the engine becomes read-only and says so; nobody waits for ever.

use super::support::{World, cause, small_family};
use siltstone::lsm::{
    AppendOperator, CompactRangeOptions, CompactionInfo, Db, Error, ErrorKind, EventListener, FlushInfo, FlushOptions,
    MergeFailure, MergeOperator, OptionsInfo, RateLimitInfo, SpilledCommitInfo, StallInfo, TransactionDb,
    TransactionDbOptions, WriteOptions,
};
use siltstone_base::engine::{Isolation, TransactionOptions};
use siltstone_base::entry_filter::{Decision, EntryFilter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
struct PanickingFilter;

impl EntryFilter for PanickingFilter {
    fn name(&self) -> &str {
        "panicking"
    }

    fn filter(&self, _: usize, key: &[u8], _: &[u8]) -> Decision {
        assert!(key != b"key000003", "the filter's own mistake");
        Decision::Keep
    }
}

/// Panics in one of its methods.
#[derive(Debug)]
struct PanickingListener(&'static str);

impl PanickingListener {
    fn call(&self, method: &str) {
        assert!(self.0 != method, "the listener's own mistake");
    }
}

impl EventListener for PanickingListener {
    fn flush_begin(&self, _: &FlushInfo) {
        self.call("flush_begin");
    }
    fn flush_end(&self, _: &FlushInfo) {
        self.call("flush_end");
    }
    fn compaction_begin(&self, _: &CompactionInfo) {
        self.call("compaction_begin");
    }
    fn compaction_end(&self, _: &CompactionInfo) {
        self.call("compaction_end");
    }
    fn stall_changed(&self, _: &StallInfo) {
        self.call("stall_changed");
    }
    fn options_changed(&self, _: &OptionsInfo) {
        self.call("options_changed");
    }
    fn spilled_commit(&self, _: &SpilledCommitInfo) {
        self.call("spilled_commit");
    }
    fn rate_limit_changed(&self, _: &RateLimitInfo) {
        self.call("rate_limit_changed");
    }
    fn background_error(&self, _: Option<&Error>) {
        self.call("background_error");
    }
    fn file_created(&self, _: &Path) {
        self.call("file_created");
    }
    fn file_deleted(&self, _: &Path) {
        self.call("file_deleted");
    }
}

fn assert_poisoned(world: &mut World, db: Db, rows: u32) {
    let error = world.write(&db, rows, true).unwrap_err();
    assert_eq!(cause(&error).kind(), ErrorKind::Poisoned, "{error}");
    assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Poisoned);
    world.check_rows(&db, rows);
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Poisoned);
    // The panic was the callback's: without it all is well.
    let db = world.open();
    world.check_rows(&db, rows);
    db.check().unwrap();
    world.write(&db, rows, true).unwrap();
}

#[test]
fn a_filter_that_panics_stops_writers_and_not_readers() {
    let mut world = World::new();
    let filtered = small_family().compaction_filter(Some(Arc::new(PanickingFilter)));
    let families = [("default", filtered), ("other", small_family())];
    let db = Db::open_families(super::support::DIR, &world.options(), &families).unwrap();
    for number in 0..20 {
        world.write(&db, number, false).unwrap();
    }
    db.flush(&FlushOptions::default()).unwrap();
    let forced = CompactRangeOptions::default().force_bottommost(true);
    let error = db.compact_range(&db.default_family(), None, None, &forced).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Aborted | ErrorKind::Poisoned), "{error}");
    assert_poisoned(&mut world, db, 20);
}

/// Methods that are called while rows are written and compacted; that of `pacing_changed` is beside the tests of pacing.
const ON_THE_WAY: &[&str] = &[
    "flush_begin",
    "flush_end",
    "compaction_begin",
    "compaction_end",
    "stall_changed",
    "rate_limit_changed",
    "file_created",
    "file_deleted",
];

#[test]
fn a_listener_that_panics_stops_writers_and_not_readers() {
    for &method in ON_THE_WAY {
        let mut world = World::new();
        let options = world.options().listeners(vec![Arc::new(PanickingListener(method))]);
        let options = match method {
            "rate_limit_changed" => options.rate_limiter_bytes_per_sec(100 << 20).rate_limiter_auto_tuned(true),
            _ => options,
        };
        // The limit stays where all buffers are full.
        let family = small_family().max_write_buffer_number(if method == "rate_limit_changed" { 20 } else { 2 });
        let families = [("default", family.clone()), ("other", family)];
        let db = match Db::open_families(super::support::DIR, &options, &families) {
            Ok(db) => db,
            // It was called while the database was opened.
            Err(error) => {
                assert_eq!(cause(&error).kind(), ErrorKind::Poisoned);
                world.open().check().unwrap();
                continue;
            }
        };
        let mut rows = 0;
        while rows < 400 && world.write(&db, rows, false).is_ok() {
            rows += 1;
            if rows % 100 == 0 {
                world.executor.run_until_idle();
            }
        }
        let forced = CompactRangeOptions::default().force_bottommost(true);
        let _ = db.compact_range(&db.default_family(), None, None, &forced);
        assert!(db.background_error().is_some(), "{method} was not called");
        // The row that was refused may be there or not: only the acknowledged ones are looked at.
        assert_poisoned(&mut world, db, rows);
    }
}

/// Its own call says nothing of that: what was asked for is done.
#[test]
fn a_listener_that_panics_when_told_of_changed_options_stops_writers_and_not_readers() {
    let mut world = World::new();
    let options = world.options().listeners(vec![Arc::new(PanickingListener("options_changed"))]);
    let families = [("default", small_family()), ("other", small_family())];
    let db = Db::open_families(super::support::DIR, &options, &families).unwrap();
    world.write(&db, 0, false).unwrap();
    db.set_options(&db.default_family(), &[("level0_file_num_compaction_trigger", "5")]).unwrap();
    assert_eq!(db.default_family().options().level0_file_num_compaction_trigger, 5);
    assert_poisoned(&mut world, db, 1);
}

#[test]
fn a_listener_that_panics_when_told_of_a_large_commit_leaves_the_commit_as_it_is() {
    let world = World::new();
    let options = world.options().listeners(vec![Arc::new(PanickingListener("spilled_commit"))]);
    let limit = TransactionDbOptions::default().max_transaction_bytes(16 << 10);
    let families = [("default", small_family()), ("other", small_family())];
    let db = TransactionDb::open(super::support::DIR, &options, &families, &limit).unwrap();
    let mut large = db.begin(&TransactionOptions::new(Isolation::Snapshot));
    for number in 0..400 {
        large.put(super::support::key(number), super::support::value(number)).unwrap();
    }
    // Whether the caller is told or not, all of it is there.
    let told = large.commit();
    assert!(told.is_ok() || db.db().background_error().is_some());
    assert_eq!(db.db().background_error().unwrap().kind(), ErrorKind::Poisoned);
    let is_there = |db: &Db| (0..400).all(|number| db.get(super::support::key(number)).unwrap().is_some());
    assert!(is_there(db.db()));
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Poisoned);
    let db = world.open();
    assert!(is_there(&db));
    db.check().unwrap();
}

/// The one who is told of an error has a mistake of its own.
#[test]
fn a_listener_that_panics_when_told_of_an_error_changes_nothing_about_it() {
    let mut world = World::new();
    let filtered = small_family().compaction_filter(Some(Arc::new(PanickingFilter)));
    let options = world.options().listeners(vec![Arc::new(PanickingListener("background_error"))]);
    let families = [("default", filtered), ("other", small_family())];
    let db = Db::open_families(super::support::DIR, &options, &families).unwrap();
    for number in 0..20 {
        world.write(&db, number, false).unwrap();
    }
    let forced = CompactRangeOptions::default().force_bottommost(true);
    assert!(db.compact_range(&db.default_family(), None, None, &forced).is_err());
    assert_poisoned(&mut world, db, 20);
}

/// Joins operands, and panics as long as it is told to.
#[derive(Debug)]
struct PanickingOperator {
    joins: AppendOperator,
    panics: AtomicBool,
}

impl PanickingOperator {
    fn call(&self) {
        assert!(!self.panics.load(Ordering::SeqCst), "the operator's own mistake");
    }
}

impl MergeOperator for PanickingOperator {
    fn name(&self) -> &str {
        "panicking"
    }

    fn full_merge(&self, key: &[u8], old: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure> {
        self.call();
        self.joins.full_merge(key, old, operands)
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.call();
        self.joins.partial_merge(key, operands)
    }
}

/// Once in a flush, and once in a compaction.
#[test]
fn a_merge_operator_that_panics_in_the_background_stops_writers_and_not_readers() {
    for in_compaction in [false, true] {
        let mut world = World::new();
        let operator = Arc::new(PanickingOperator { joins: AppendOperator::new(","), panics: AtomicBool::new(false) });
        let shared: Arc<dyn MergeOperator> = Arc::<PanickingOperator>::clone(&operator);
        let merging = small_family().merge_operator(Some(shared));
        let families = [("default", merging), ("other", small_family())];
        let open = |world: &World| Db::open_families(super::support::DIR, &world.options(), &families).unwrap();
        let db = open(&world);
        let flush = |db: &Db| db.flush(&FlushOptions::default());
        let merge = |db: &Db, operand: &str| {
            db.merge_cf(&db.default_family(), "merged", operand, &WriteOptions::default()).unwrap();
        };
        let check = |world: &World, db: &Db| {
            assert_eq!(db.get("merged").unwrap().as_deref(), Some(&b"a,b,c"[..]));
            world.check_rows(db, 20);
        };
        for number in 0..20 {
            world.write(&db, number, false).unwrap();
        }
        db.put("merged", "a").unwrap();
        if in_compaction {
            flush(&db).unwrap();
        }
        merge(&db, "b");
        if in_compaction {
            flush(&db).unwrap();
        }
        merge(&db, "c");
        if in_compaction {
            flush(&db).unwrap();
        }
        let forced = CompactRangeOptions::default().force_bottommost(true);
        operator.panics.store(true, Ordering::SeqCst);
        let failed = match in_compaction {
            true => db.compact_range(&db.default_family(), None, None, &forced),
            false => flush(&db),
        };
        operator.panics.store(false, Ordering::SeqCst);
        let error = failed.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Aborted | ErrorKind::Poisoned), "{error}");
        assert_eq!(cause(&world.write(&db, 20, true).unwrap_err()).kind(), ErrorKind::Poisoned);
        assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Poisoned);
        check(&world, &db);
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Poisoned);
        // The same with an operator that has come to its senses.
        let db = open(&world);
        check(&world, &db);
        flush(&db).unwrap();
        db.compact_range(&db.default_family(), None, None, &forced).unwrap();
        check(&world, &db);
        db.check().unwrap();
        db.close().unwrap();
    }
}
