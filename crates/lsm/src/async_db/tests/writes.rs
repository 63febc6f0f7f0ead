//! Batches that wait: without threads, in order, answered each by its own outcome, and gone with their tasks.

use super::*;
use crate::{ColumnFamilyOptions, Counter, WriteBatch, WriteOptions};

fn pair(name: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(format!("{name} 1"), "value");
    batch.put(format!("{name} 2"), "value");
    batch
}

/// Whether both rows of a [`pair`] are there; a half would fail.
async fn has_pair(db: &AsyncDb, name: &str) -> bool {
    let (first, second) = (value(db, &format!("{name} 1")).await, value(db, &format!("{name} 2")).await);
    assert_eq!(first, second, "half of {name} was written");
    first.is_some()
}

#[expect(clippy::disallowed_methods, reason = "looks at the threads of this process, at no data")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Nobody writes until the test lets them.
#[test]
fn ten_thousand_tasks_that_wait_have_no_threads() {
    const TASKS: usize = 10_000;
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open(&disk).await;
        let syncs = db.db().metrics().get(Counter::WalSyncs);
        let bytes = {
            let mut batch = WriteBatch::new();
            batch.put("key 00000", "value");
            batch.size_bytes() + super::super::QUEUED_OVERHEAD
        };
        let tasks: Vec<_> = {
            let _held = db.db().hold_writes_for_test();
            let spawn = |task: usize| {
                let db = db.clone();
                tokio::spawn(async move {
                    let family = db.db().default_family();
                    db.put_cf(&family, format!("key {task:05}"), "value", &WriteOptions::default().sync(true)).await
                })
            };
            let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
            // They run on other threads than this one, which holds the lock.
            while db.queued_bytes() < TASKS * bytes {
                std::thread::yield_now();
            }
            assert_eq!(db.db().memory_report().queued_writes, (TASKS * bytes) as u64);
            // Other tests run beside this one, with threads of their own.
            assert!(threads() < TASKS / 10, "{} threads", threads());
            assert!(tasks.iter().all(|task| !task.is_finished()));
            tasks
        };
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let mut rows = db.scan(&db.db().default_family(), &Default::default());
        for task in 0..TASKS {
            assert_eq!(rows.next().await.unwrap().unwrap().key(), format!("key {task:05}").as_bytes());
        }
        assert!(rows.next().await.is_none());
        drop(rows);
        // They came together, so they were synced together.
        let syncs = db.db().metrics().get(Counter::WalSyncs) - syncs;
        assert!(syncs <= TASKS as u64 / 100, "{syncs} syncs");
        assert_eq!((db.queued_bytes(), db.db().memory_report().queued_writes), (0, 0));
        db.close().await.unwrap();
    });
}

/// A future is dropped at each point at which it waits.
#[test]
fn a_task_that_goes_away_leaves_a_whole_batch_or_none() {
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open_with(&disk, AsyncDbOptions::default().max_queued_bytes(1024)).await;
        let options = WriteOptions::default();
        let mut large = pair("large");
        large.put("filler", vec![b'x'; 1024]);
        {
            let held = db.db().hold_writes_for_test();
            let mut taken = Box::pin(db.write(pair("taken"), &options));
            assert!(poll(taken.as_mut()).is_pending());
            // An attendant has it, and waits for the engine.
            while db.shared.writes.len_for_test() > 0 {
                std::thread::yield_now();
            }
            let mut in_line = Box::pin(db.write(pair("in line"), &options));
            assert!(poll(in_line.as_mut()).is_pending());
            assert_eq!(db.shared.writes.len_for_test(), 1);
            let mut outside = Box::pin(db.write(large.clone(), &options));
            assert!(poll(outside.as_mut()).is_pending());
            assert_eq!(db.shared.writes.len_for_test(), 1, "there is no room for it");
            let untouched = db.write(pair("untouched"), &options);
            drop((untouched, outside, in_line, taken));
            drop(held);
        }
        // Nobody is kept waiting by what they left: this takes all the room.
        db.write(large, &options).await.unwrap();
        assert!(has_pair(&db, "large").await);
        let found = [has_pair(&db, "taken").await, has_pair(&db, "in line").await, has_pair(&db, "untouched").await];
        assert_eq!(found, [true, false, false]);
        assert_eq!(db.queued_bytes(), 0);
        db.close().await.unwrap();
    });
}

#[test]
fn each_task_gets_the_outcome_of_its_own_batch() {
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open(&disk).await;
        let dropped = db.db().create_family("dropped", &ColumnFamilyOptions::default()).unwrap();
        db.db().drop_family(&dropped).unwrap();
        let family = db.db().default_family();
        let mut elsewhere = WriteBatch::new();
        elsewhere.put("fine", "no");
        elsewhere.put_cf(&dropped, "a", "1");
        let mut operand = WriteBatch::new();
        operand.merge("a", "1");
        let options = WriteOptions::default();
        let mut first = Box::pin(db.write(pair("first"), &options));
        let mut missing = Box::pin(db.write(elsewhere, &options));
        let mut impossible = Box::pin(db.write(operand, &options));
        let mut last = Box::pin(db.write(pair("last"), &options));
        {
            let _held = db.db().hold_writes_for_test();
            assert!(poll(first.as_mut()).is_pending());
            // The rest comes in one round, behind the first.
            while db.shared.writes.len_for_test() > 0 {
                std::thread::yield_now();
            }
            for future in [&mut missing, &mut impossible, &mut last] {
                assert!(poll(future.as_mut()).is_pending());
            }
        }
        first.await.unwrap();
        assert_eq!(kind(&missing.await), Some(ErrorKind::NotFound));
        assert_eq!(kind(&impossible.await), Some(ErrorKind::InvalidArgument));
        last.await.unwrap();
        assert!(has_pair(&db, "first").await && has_pair(&db, "last").await);
        assert_eq!(value(&db, "fine").await, None);
        let foreign = {
            let other = SimDisk::new();
            crate::Db::open("/other", &super::options(&other)).unwrap().default_family()
        };
        assert_eq!(kind(&db.put_cf(&foreign, "a", "1", &options).await), Some(ErrorKind::InvalidArgument));
        db.delete_cf(&family, "first 1", &options).await.unwrap();
        assert_eq!(value(&db, "first 1").await, None);
        db.close().await.unwrap();
    });
}

/// Those that wait for room, those in line, and those that come later.
#[test]
fn closing_answers_everybody() {
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open_with(&disk, AsyncDbOptions::default().max_queued_bytes(1024)).await;
        let options = WriteOptions::default();
        let mut large = WriteBatch::new();
        large.put("large", vec![b'x'; 1024]);
        let mut taken = Box::pin(db.write(pair("taken"), &options));
        let mut in_line = Box::pin(db.write(pair("in line"), &options));
        let mut outside = Box::pin(db.write(large, &options));
        let mut close = Box::pin(db.clone().close());
        {
            let _held = db.db().hold_writes_for_test();
            assert!(poll(taken.as_mut()).is_pending());
            while db.shared.writes.len_for_test() > 0 {
                std::thread::yield_now();
            }
            assert!(poll(in_line.as_mut()).is_pending());
            assert!(poll(outside.as_mut()).is_pending());
            assert!(poll(close.as_mut()).is_pending());
        }
        close.await.unwrap();
        // The engine closed before or after it.
        let taken = taken.await;
        assert!(taken.is_ok() || kind(&taken) == Some(ErrorKind::Aborted), "{taken:?}");
        assert_eq!(kind(&in_line.await), Some(ErrorKind::Aborted));
        assert_eq!(kind(&outside.await), Some(ErrorKind::Aborted));
        assert_eq!(kind(&db.put("late", "1").await), Some(ErrorKind::Aborted));
        // The directory is free again.
        drop(db);
        let db = open(&disk).await;
        assert_eq!(has_pair(&db, "taken").await, taken.is_ok());
        assert_eq!((has_pair(&db, "in line").await, value(&db, "large").await), (false, None));
        db.close().await.unwrap();
    });
}

/// What threads and tasks write goes through one queue.
#[test]
fn tasks_and_threads_write_beside_each_other() {
    const ROWS: usize = 500;
    let disk = SimDisk::new();
    on_runtime(async {
        // Groups are so large that their members would insert their own batches, if they could.
        let options = options(&disk).concurrent_memtable_write_bytes(1);
        let db = AsyncDb::open("/db", &options, &AsyncDbOptions::default()).await.unwrap();
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let db = db.db().clone();
                tokio::task::spawn_blocking(move || {
                    (0..ROWS).for_each(|row| db.put(format!("thread {thread} {row:04}"), "value").unwrap());
                })
            })
            .collect();
        let tasks: Vec<_> = (0..ROWS)
            .map(|row| {
                let db = db.clone();
                let options = WriteOptions::default().low_pri(row % 3 == 0).sync(row % 50 == 0);
                tokio::spawn(async move { db.write(pair(&format!("task {row:04}")), &options).await.unwrap() })
            })
            .collect();
        for task in threads.into_iter().chain(tasks) {
            task.await.unwrap();
        }
        let mut rows = db.scan_backward(&db.db().default_family(), &Default::default());
        let mut found = 0;
        while let Some(row) = rows.next().await {
            found += usize::from(row.unwrap().value() == b"value");
        }
        assert_eq!(found, 4 * ROWS);
        drop(rows);
        db.close().await.unwrap();
    });
}

/// A batch is larger than all that may wait.
#[test]
fn a_batch_that_is_larger_than_the_room_goes_alone() {
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open_with(&disk, AsyncDbOptions::default().max_queued_bytes(1024)).await;
        let mut batch = WriteBatch::new();
        batch.put("large", vec![b'x'; 100_000]);
        db.write(batch, &WriteOptions::default()).await.unwrap();
        assert_eq!(value(&db, "large").await.map(|value| value.len()), Some(100_000));
        db.close().await.unwrap();
    });
}
