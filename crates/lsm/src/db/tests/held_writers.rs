//! What others may do while a writer that leads has to wait, and what listeners hear of it.

use super::basics::options;
use crate::db::write_queue::{Request, WriteQueue};
use crate::db::{PendingWrite, Watched};
use crate::event::{EventListener, PacingInfo, StallCause};
use crate::{
    ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, Error, ErrorKind, FlushOptions, WriteBatch, WriteOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::sync::{Arc, Mutex, Rank};
use std::time::Duration;

fn batch(bytes: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(b"k", vec![0; bytes]);
    batch
}

fn at_once() -> WriteOptions {
    WriteOptions::default().no_slowdown(true)
}

#[test]
fn writes_that_must_not_wait_are_refused_wherever_they_stand_while_the_leader_waits() {
    let queue = WriteQueue::new();
    let request = |options: WriteOptions| {
        let request = Request::new(batch(1), options, None);
        queue.push(Arc::clone(&request));
        request
    };
    let refused =
        |request: &Request| request.is_done() && request.outcome().unwrap_err().kind() == ErrorKind::Incomplete;
    let (patient, impatient) = (request(WriteOptions::default()), request(at_once()));
    assert!(!patient.is_done() && !impatient.is_done());
    let waiting = queue.leader_waits(Error::new(ErrorKind::Incomplete, "later"));
    assert!(!patient.is_done() && refused(&impatient));
    assert!(refused(&request(at_once())) && !request(WriteOptions::default()).is_done());
    assert_eq!(queue.len_for_test(), 2);
    drop(waiting);
    assert!(!request(at_once()).is_done());
    assert_eq!(queue.len_for_test(), 3);
}

/// While writers are stopped, and one of them waits with the right to write: others are told at once, and whoever may end that can.
#[test]
fn stopped_writers_keep_off_neither_writes_that_must_not_wait_nor_changes_of_options() {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default().write_buffer_size(64 << 10).max_write_buffer_number(2);
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env()));
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    db.pause_background_work().unwrap();
    db.put("a", "1").unwrap();
    db.flush(&FlushOptions::default().wait(false)).unwrap();
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| (0..40).try_for_each(|_| db.write(&mut batch(8 << 10), &WriteOptions::default())));
        while !db.handle.inner.write_queue.has_waiting_leader_for_test() {
            std::thread::yield_now();
        }
        let refused = db.write(&mut batch(1), &at_once()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Incomplete);
        db.set_db_options(&[("rate_limiter_bytes_per_sec", "123456789"), ("wal_bytes_per_sync", "65536")]).unwrap();
        assert!(!stopped.is_finished());
        db.resume_background_work();
        stopped.join().unwrap().unwrap();
    });
    db.write(&mut batch(1), &at_once()).unwrap();
    db.check().unwrap();
}

/// While a writer waits for room among the memtables of all families.
#[test]
fn a_writer_that_waits_for_memory_keeps_off_no_write_that_must_not_wait() {
    let disk = SimDisk::new();
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).db_write_buffer_size(256 << 10);
    let db = Db::open("/db", &options).unwrap();
    db.pause_background_work().unwrap();
    std::thread::scope(|scope| {
        let stopped =
            scope.spawn(|| (0..40).try_for_each(|_| db.write(&mut batch(16 << 10), &WriteOptions::default())));
        let queue = &db.handle.inner.write_queue;
        while !queue.has_waiting_leader_for_test() && !stopped.is_finished() {
            std::thread::yield_now();
        }
        let refused = db.write(&mut batch(1), &at_once()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Incomplete);
        db.resume_background_work();
        stopped.join().unwrap().unwrap();
    });
    db.write(&mut batch(1), &at_once()).unwrap();
}

#[derive(Debug)]
struct Heard(Mutex<Vec<(Option<StallCause>, Option<StallCause>)>>);

impl EventListener for Heard {
    fn pacing_changed(&self, info: &PacingInfo) {
        assert_eq!(info.bytes_per_sec.is_some(), info.current.is_some());
        self.0.lock().push((info.previous, info.current));
    }
}

#[test]
fn listeners_hear_when_pacing_begins_and_ends_and_not_of_each_write() {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let heard = Arc::new(Heard(Mutex::new(Rank(60_000), Vec::new())));
    let listener: Arc<dyn EventListener> = Arc::<Heard>::clone(&heard);
    let options = options(&disk).executor(Some(Arc::<StepExecutor>::clone(&executor))).listeners(vec![listener]);
    let db = Db::open("/db", &options).unwrap();
    let inner = &db.handle.inner;
    // As if a flush that takes long were behind.
    let slow = |cause| {
        let now_nanos = inner.clock.now_micros() * 1000;
        inner.idle_pacer.set(now_nanos, crate::db::pacing::Pace { rate: 1e6, cause });
    };
    for cause in [StallCause::L0FileCount, StallCause::MemtableLimit] {
        for _ in 0..100 {
            slow(cause);
            db.write(&mut batch(10_000), &WriteOptions::default()).unwrap();
        }
    }
    executor.sleep(Duration::from_secs(3));
    let (level0, memtables) = (Some(StallCause::L0FileCount), Some(StallCause::MemtableLimit));
    let once = [(None, level0), (level0, memtables), (memtables, None)];
    assert_eq!(*heard.0.lock(), once);
    executor.sleep(Duration::from_secs(3));
    slow(StallCause::L0FileCount);
    db.write(&mut batch(100_000), &WriteOptions::default()).unwrap();
    executor.sleep(Duration::from_secs(3));
    assert_eq!(heard.0.lock()[3..], [(None, level0), (level0, None)]);
    db.close().unwrap();
}

#[derive(Debug)]
struct PanicsOfPacing;

impl EventListener for PanicsOfPacing {
    fn pacing_changed(&self, _: &PacingInfo) {
        panic!("the listener's own mistake");
    }
}

#[test]
fn a_listener_that_panics_when_told_of_pacing_stops_writers_and_not_readers() {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let own = options(&disk).executor(Some(Arc::<StepExecutor>::clone(&executor)));
    let db = Db::open("/db", &own.clone().listeners(vec![Arc::new(PanicsOfPacing)])).unwrap();
    db.put("before", "1").unwrap();
    let inner = &db.handle.inner;
    let pace = crate::db::pacing::Pace { rate: 1e6, cause: StallCause::L0FileCount };
    inner.idle_pacer.set(inner.clock.now_micros() * 1000, pace);
    // The first one that waits may already be refused, and be there all the same.
    let _ = (0..100).try_for_each(|_| db.write(&mut batch(10_000), &WriteOptions::default()));
    executor.sleep(Duration::from_secs(3));
    let refused = db.put("later", "1").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Poisoned);
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Poisoned);
    Db::open("/db", &own).unwrap().check().unwrap();
}

/// Without it a compaction may forget that the row changed, and a good entry goes.
#[test]
fn a_deletion_that_waits_in_the_queue_keeps_its_snapshot() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &DbOptions::default().create_if_missing(true).env(Some(disk.env()))).unwrap();
    put_row_and_entry(&db);
    let snapshot = db.snapshot();
    let row = Watched { family: db.default_family(), key: b"row".to_vec(), seqno: snapshot.seqno() };
    let mut batch = WriteBatch::new();
    batch.delete("entry");
    let leader = db.handle.inner.lock_write_side();
    let mut pending = db.submit_if_unchanged(snapshot, vec![row], batch, &WriteOptions::default()).unwrap();
    drop(leader);
    assert_eq!(db.property("rocksdb.num-snapshots").unwrap(), "1");
    db.put("other", "1").unwrap();
    assert!(pending.poll().unwrap().is_ok());
    drop(pending);
    assert_eq!(db.property("rocksdb.num-snapshots").unwrap(), "0");
    assert_eq!(db.get("entry").unwrap(), None);
    db.close().unwrap();
}

fn put_row_and_entry(db: &Db) {
    db.put("row", "1").unwrap();
    db.put("entry", "1").unwrap();
}

/// What waits in the queue to delete `entry` if `row` stays as it is.
fn waiting(db: &Db) -> PendingWrite {
    let snapshot = db.snapshot();
    let row = Watched { family: db.default_family(), key: b"row".to_vec(), seqno: snapshot.seqno() };
    let mut batch = WriteBatch::new();
    batch.delete("entry");
    db.submit_if_unchanged(snapshot, vec![row], batch, &WriteOptions::default()).unwrap()
}

#[test]
fn a_deletion_that_nobody_asks_for_any_more_deletes_nothing() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &DbOptions::default().create_if_missing(true).env(Some(disk.env()))).unwrap();
    put_row_and_entry(&db);
    drop(waiting(&db));
    assert_eq!(db.property("rocksdb.num-snapshots").unwrap(), "0");
    db.put("row", "2").unwrap();
    let options = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &options).unwrap();
    db.put("other", "1").unwrap();
    assert_eq!(db.get("entry").unwrap().as_deref(), Some(&b"1"[..]));
    db.close().unwrap();
}

/// The writer leads, and by his own options: what a sweep deletes in front of him must not make him wait.
#[test]
fn a_writer_that_must_not_wait_does_not_wait_for_a_deletion_before_it() {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default().write_buffer_size(64 << 10).max_write_buffer_number(2);
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env()));
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    put_row_and_entry(&db);
    db.pause_background_work().unwrap();
    db.flush(&FlushOptions::default().wait(false)).unwrap();
    // Until there is no room: nobody makes any.
    while db.write(&mut batch(8 << 10), &at_once()).is_ok() {}
    let mut pending = waiting(&db);
    for _ in 0..200 {
        assert_eq!(db.write(&mut batch(1), &at_once()).unwrap_err().kind(), ErrorKind::Incomplete);
    }
    let outcome = pending.poll();
    assert!(outcome.is_none_or(|outcome| outcome.unwrap_err().kind() == ErrorKind::Incomplete));
    drop(pending);
    db.resume_background_work();
    db.put("b", "1").unwrap();
    assert_eq!(db.get("entry").unwrap().as_deref(), Some(&b"1"[..]));
    db.close().unwrap();
}

/// Looking at tables takes reads, for which every writer would wait.
#[test]
fn no_writer_reads_tables_for_a_deletion_that_waits() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &DbOptions::default().create_if_missing(true).env(Some(disk.env()))).unwrap();
    put_row_and_entry(&db);
    let mut pending = waiting(&db);
    db.flush(&FlushOptions::default()).unwrap();
    db.put("other", "1").unwrap();
    assert_eq!(pending.poll().unwrap().unwrap_err().kind(), ErrorKind::Incomplete);
    assert_eq!(db.get("entry").unwrap().as_deref(), Some(&b"1"[..]));
    db.close().unwrap();
}
