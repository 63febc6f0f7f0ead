//! Reads and scans: as a map would answer, from memory on the spot, and of one moment.

use super::*;
use crate::{
    ColumnFamilyOptions, FlushOptions, MergeFailure, MergeOperator, ReadOptions, ReadTier, UInt64AddOperator,
    WriteOptions,
};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;

/// Xorshift64.
struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

async fn rows(mut scan: super::super::AsyncScan) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    while let Some(row) = scan.next().await {
        let row = row.unwrap();
        rows.push((row.key().to_vec(), row.value().to_vec()));
    }
    assert!(scan.next().await.is_none(), "it stays at its end");
    rows
}

fn bounded(lower: &[u8], upper: &[u8]) -> ReadOptions {
    ReadOptions::default().iterate_lower_bound(Some(lower.to_vec())).iterate_upper_bound(Some(upper.to_vec()))
}

/// One task writes and reads keys of its own, and answers as a map does.
async fn work(db: AsyncDb, task: u8, seed: u64) -> Model {
    let mut random = Random(seed);
    let mut model = Model::new();
    let family = db.db().default_family();
    for _ in 0..300 {
        let mut key = || vec![b'a' + task, b'0' + random.below(40) as u8];
        let (key, other) = (key(), key());
        match random.below(12) {
            0..4 => {
                let value = vec![b'v'; random.below(2_000) as usize];
                db.put(&key, &value).await.unwrap();
                model.insert(key, value);
            }
            4 => {
                db.delete(&key).await.unwrap();
                model.remove(&key);
            }
            5 => db.flush(&FlushOptions::default().wait(random.below(2) == 0)).await.unwrap(),
            6..8 => {
                let keys = [&key, &other, &key];
                let found = db.multi_get_cf(&family, &keys, &ReadOptions::default()).await.unwrap();
                for (key, found) in keys.into_iter().zip(found) {
                    assert_eq!(found.unwrap().as_deref(), model.get(key).map(Vec::as_slice), "seed {seed}");
                }
            }
            8 => {
                let (lower, upper) = (key.clone().min(other.clone()), key.max(other));
                let expected = model.range(lower.clone()..upper.clone());
                let mut expected: Vec<_> = expected.map(|(key, value)| (key.clone(), value.clone())).collect();
                let options = bounded(&lower, &upper);
                assert_eq!(rows(db.scan(&family, &options)).await, expected, "seed {seed}");
                expected.reverse();
                assert_eq!(rows(db.scan_backward(&family, &options)).await, expected, "seed {seed}");
            }
            _ => {
                let found = db.get(&key).await.unwrap();
                assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice), "seed {seed}");
            }
        }
    }
    model
}

#[test]
fn tasks_find_what_a_map_would_have() {
    const SEED: u64 = 20_261_122;
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open_with(&disk, AsyncDbOptions::default().scan_batch_bytes(1 << 10).io_threads(2)).await;
        let tasks: Vec<_> = (0..8).map(|task| tokio::spawn(work(db.clone(), task, SEED + u64::from(task)))).collect();
        let mut model = Model::new();
        for task in tasks {
            model.extend(task.await.unwrap());
        }
        let expected: Vec<_> = model.into_iter().collect();
        assert_eq!(rows(db.scan(&db.db().default_family(), &ReadOptions::default())).await, expected);
        db.close().await.unwrap();
        let db = open(&disk).await;
        assert_eq!(rows(db.scan(&db.db().default_family(), &ReadOptions::default())).await, expected);
        db.close().await.unwrap();
    });
}

/// Remembers who merged, which is who read what was merged.
#[derive(Debug, Default)]
struct Readers(parking_lot::Mutex<Vec<ThreadId>>);

impl MergeOperator for Readers {
    fn name(&self) -> &str {
        "readers"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure> {
        self.0.lock().push(std::thread::current().id());
        Ok(operands.concat())
    }
}

impl Readers {
    /// Who read since this was last asked.
    fn take(&self) -> Vec<ThreadId> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Memory answers at the first poll; a table that is not open, or a block that is not cached, is read elsewhere.
#[test]
fn what_memory_has_is_answered_on_the_spot() {
    let disk = SimDisk::new();
    let readers = Arc::new(Readers::default());
    let operator: Arc<dyn MergeOperator> = Arc::<Readers>::clone(&readers);
    let families = [("default", ColumnFamilyOptions::default().merge_operator(Some(operator)))];
    on_runtime(async {
        let tasks = AsyncDbOptions::default();
        let open = async || AsyncDb::open_families("/db", &options(&disk), &families, &tasks).await.unwrap();
        let here = std::thread::current().id();
        let is_elsewhere = |readers: Vec<ThreadId>| !readers.is_empty() && !readers.contains(&here);
        let db = open().await;
        let family = db.db().default_family();
        db.merge_cf(&family, "key", "value", &WriteOptions::default()).await.unwrap();
        let Poll::Ready(found) = poll(pin!(db.get("key"))) else { panic!("a memtable has it") };
        assert_eq!(found.unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(readers.take(), [here]);
        db.flush(&FlushOptions::default()).await.unwrap();
        db.close().await.unwrap();

        let db = open().await;
        let family = db.db().default_family();
        let memory = ReadOptions::default().read_tier(ReadTier::BlockCache);
        let Poll::Ready(found) = poll(pin!(db.get_cf(&family, "key", &memory))) else { panic!("it reads nothing") };
        assert_eq!(kind(&found), Some(ErrorKind::Incomplete), "the table is not open yet");
        readers.take();
        assert_eq!(value(&db, "key").await.as_deref(), Some("value"));
        assert!(is_elsewhere(readers.take()), "the table was opened by the task");
        db.close().await.unwrap();

        // The second question is one to a database that was just opened, too.
        let db = open().await;
        let family = db.db().default_family();
        readers.take();
        let found = db.multi_get_cf(&family, &["key"], &ReadOptions::default()).await.unwrap();
        assert!(matches!(&found[..], [Ok(Some(value))] if &value[..] == b"value"));
        assert!(is_elsewhere(readers.take()), "the table was opened by the task");
        let Poll::Ready(found) = poll(pin!(db.get("key"))) else { panic!("the block is cached") };
        assert_eq!(found.unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(readers.take(), [here]);
        db.close().await.unwrap();
    });
}

/// The tombstone of a range in a table that is not open may hide what the operand in memory is merged into: the table is opened, by another thread.
#[test]
fn a_merge_opens_no_table_on_the_thread_of_a_task() {
    let disk = SimDisk::new();
    let families = [("default", ColumnFamilyOptions::default().merge_operator(Some(Arc::new(UInt64AddOperator))))];
    on_runtime(async {
        let tasks = AsyncDbOptions::default();
        let db = AsyncDb::open_families("/db", &options(&disk), &families, &tasks).await.unwrap();
        let family = db.db().default_family();
        db.put("key", 5_u64.to_le_bytes()).await.unwrap();
        db.db().delete_range_cf(&family, "a", "z", &WriteOptions::default()).unwrap();
        db.flush(&FlushOptions::default()).await.unwrap();
        db.close().await.unwrap();

        let db = AsyncDb::open_families("/db", &options(&disk), &families, &tasks).await.unwrap();
        let family = db.db().default_family();
        db.merge_cf(&family, "key", 2_u64.to_le_bytes(), &WriteOptions::default()).await.unwrap();
        let before = disk.env().io_stats().snapshot();
        let memory = ReadOptions::default().read_tier(ReadTier::BlockCache);
        let Poll::Ready(found) = poll(pin!(db.get_cf(&family, "key", &memory))) else { panic!("it reads nothing") };
        assert_eq!(kind(&found), Some(ErrorKind::Incomplete), "the table is not open yet");
        assert_eq!(disk.env().io_stats().snapshot(), before);
        assert_eq!(db.get("key").await.unwrap().as_deref(), Some(&2_u64.to_le_bytes()[..]));
        db.close().await.unwrap();
    });
}

/// However many closures block, one thread is left that reads.
#[test]
fn what_runs_long_keeps_no_read_waiting() {
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open(&disk).await;
        db.put("key", "value").await.unwrap();
        db.flush(&FlushOptions::default()).await.unwrap();
        db.close().await.unwrap();

        let db = open_with(&disk, AsyncDbOptions::default().io_threads(2)).await;
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let long = (0..5).map(|_| {
            let (db, begun, ended) = (db.clone(), Arc::clone(&begun), Arc::clone(&ended));
            tokio::spawn(async move {
                let work = move |_: &crate::Db| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    while !ended.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    Ok(())
                };
                db.run(work).await
            })
        });
        let long: Vec<_> = long.collect();
        until(|| begun.load(Ordering::SeqCst) == 2).await;
        assert_eq!(value(&db, "key").await.as_deref(), Some("value"));
        db.put("other", "value").await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        ended.store(true, Ordering::SeqCst);
        for long in long {
            long.await.unwrap().unwrap();
        }
        assert_eq!(begun.load(Ordering::SeqCst), 5);
        db.close().await.unwrap();
    });
}

#[test]
fn a_scan_is_of_the_moment_when_it_was_made() {
    const ROWS: usize = 2_000;
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open_with(&disk, AsyncDbOptions::default().scan_batch_bytes(1 << 10)).await;
        let family = db.db().default_family();
        for row in 0..ROWS {
            db.put(format!("{row:05}"), "before").await.unwrap();
        }
        let mut scan = db.scan(&family, &ReadOptions::default());
        let unread = db.scan(&family, &ReadOptions::default());
        for row in 0..ROWS {
            if row % 50 == 0 {
                // Before the first batch, and between the others.
                db.put(format!("{:05}", ROWS - row), "after").await.unwrap();
                db.put(format!("{row:05} new"), "after").await.unwrap();
                db.flush(&FlushOptions::default()).await.unwrap();
            }
            let found = scan.next().await.unwrap().unwrap();
            assert_eq!((found.key(), found.value()), (format!("{row:05}").as_bytes(), &b"before"[..]));
        }
        assert!(scan.next().await.is_none());
        drop(unread);
        drop(scan);
        // What they held is let go by another thread.
        until(|| db.db().property("rocksdb.num-snapshots").unwrap() == "0").await;
        db.close().await.unwrap();
    });
}

#[test]
fn a_scan_ends_with_its_error() {
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open(&disk).await;
        let family = db.db().create_family("gone", &ColumnFamilyOptions::default()).unwrap();
        db.db().drop_family(&family).unwrap();
        let mut scan = db.scan(&family, &ReadOptions::default());
        assert_eq!(kind(&scan.next().await.unwrap()), Some(ErrorKind::NotFound));
        assert!(scan.next().await.is_none());
        drop(scan);
        db.close().await.unwrap();
    });
}

#[test]
fn what_panics_for_one_task_is_told_to_that_one() {
    let disk = SimDisk::new();
    on_runtime(async {
        let db = open_with(&disk, AsyncDbOptions::default().io_threads(1)).await;
        for _ in 0..5 {
            let outcome = db.run(|_| -> Result<()> { panic!("planned") }).await;
            assert_eq!(kind(&outcome), Some(ErrorKind::Poisoned));
        }
        assert_eq!(db.run(|db| Ok(db.latest_seqno())).await.unwrap(), 0);
        db.close().await.unwrap();
    });
}

#[test]
fn operands_are_merged_and_families_are_apart() {
    let disk = SimDisk::new();
    on_runtime(async {
        let adding = ColumnFamilyOptions::default().merge_operator(Some(Arc::new(UInt64AddOperator)));
        let options = options(&disk).create_missing_column_families(true);
        let families = [("default", ColumnFamilyOptions::default()), ("sums", adding)];
        let db = AsyncDb::open_families("/db", &options, &families, &AsyncDbOptions::default()).await.unwrap();
        let sums = db.db().family("sums").unwrap();
        for operand in [1_u64, 2, 3] {
            db.merge_cf(&sums, "a", operand.to_le_bytes(), &WriteOptions::default()).await.unwrap();
            db.flush_families(&[&sums], &FlushOptions::default()).await.unwrap();
        }
        let found = db.get_cf(&sums, "a", &ReadOptions::default()).await.unwrap();
        assert_eq!(found.as_deref(), Some(&6_u64.to_le_bytes()[..]));
        assert_eq!(value(&db, "a").await, None);
        db.sync_wal().await.unwrap();
        db.close().await.unwrap();
    });
}

#[test]
fn options_beyond_their_bounds_are_refused_by_name() {
    let disk = SimDisk::new();
    on_runtime(async {
        let tasks = AsyncDbOptions::default();
        for (name, tasks) in [
            ("io_threads", tasks.clone().io_threads(0)),
            ("max_queued_bytes", tasks.clone().max_queued_bytes(100)),
            ("scan_batch_bytes", tasks.clone().scan_batch_bytes(1 << 31)),
        ] {
            let error = AsyncDb::open("/db", &options(&disk), &tasks).await.unwrap_err();
            assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(name), "{error}");
        }
    });
}
