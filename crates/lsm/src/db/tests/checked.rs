//! Writes that take place only if keys did not change, in the queue with others.

use crate::db::checked::Watched;
use crate::{Counter, Db, DbOptions, ErrorKind, Result, WriteBatch, WriteOptions};
use siltstone_base::plant::{PlantedBug, with_planted};

fn open(dir: &std::path::Path) -> Db {
    Db::open(dir, &DbOptions::default().create_if_missing(true)).unwrap()
}

/// Waits until so many requests are in the queue.
fn wait_for_requests(db: &Db, count: usize) {
    while db.handle.inner.write_queue.len_for_test() < count {
        std::thread::yield_now();
    }
}

/// Sets a key if nobody changed it since `seqno`.
fn set_unchanged(db: &Db, key: &str, seqno: u64, options: &WriteOptions) -> Result<()> {
    let watched = vec![Watched { family: db.default_family(), key: key.as_bytes().to_vec(), seqno }];
    let mut batch = WriteBatch::new();
    batch.put(key, "checked");
    db.handle.inner.write_if_unchanged(watched, &mut batch, options)
}

#[test]
fn writes_and_commits_that_wait_together_share_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    db.put("first", "1").unwrap();
    let (snapshot, options) = (db.snapshot(), WriteOptions::default().sync(true));
    let syncs = || db.metrics().counters().get(Counter::WalSyncs);
    let before = syncs();
    std::thread::scope(|scope| {
        let leader = db.handle.inner.lock_write_side();
        for number in 0..16 {
            let (db, snapshot, options) = (&db, &snapshot, &options);
            let key = format!("k{number}");
            scope.spawn(move || match number % 2 {
                0 => set_unchanged(db, &key, snapshot.seqno(), options).unwrap(),
                _ => {
                    let mut batch = WriteBatch::new();
                    batch.put(&key, "plain");
                    db.write(&mut batch, options).unwrap();
                }
            });
        }
        wait_for_requests(&db, 16);
        drop(leader);
    });
    assert_eq!(syncs() - before, 1);
    assert_eq!(db.metrics().counters().get(Counter::WriteGroups), 2);
    for number in 0..16 {
        assert!(db.get(format!("k{number}")).unwrap().is_some());
    }
}

/// A plain write and a checked one of the same key, and a checked one of another, wait in the queue for one leader: what becomes of them, and of the first key.
fn wait_together(db: &Db, writer_first: bool, mistake: Option<PlantedBug>) -> (Vec<Result<()>>, Vec<u8>) {
    let (mine, free) = (format!("mine{writer_first}"), format!("free{writer_first}"));
    let snapshot = db.snapshot();
    let seqno = snapshot.seqno();
    // Whether it is checked, and the key.
    let mut jobs = [(false, &mine), (true, &mine), (true, &free)];
    if !writer_first {
        jobs.swap(0, 1);
    }
    let outcomes = std::thread::scope(|scope| {
        let leader = db.handle.inner.lock_write_side();
        let mut handles = Vec::new();
        for (is_checked, key) in jobs {
            let write = move || match is_checked {
                true => set_unchanged(db, key, seqno, &WriteOptions::default()),
                false => db.put(key, "plain"),
            };
            handles.push(scope.spawn(move || match mistake {
                Some(bug) => with_planted(bug, write),
                None => write(),
            }));
            wait_for_requests(db, handles.len());
        }
        drop(leader);
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    assert_eq!(db.get(&free).unwrap().as_deref(), Some(&b"checked"[..]));
    (outcomes, db.get(&mine).unwrap().unwrap().to_vec())
}

#[test]
fn what_is_written_while_a_commit_waits_in_the_queue_is_a_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    // The group has the writer before it.
    let (outcomes, value) = wait_together(&db, true, None);
    assert_eq!(outcomes[1].as_ref().unwrap_err().kind(), ErrorKind::Busy);
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    assert_eq!(value, b"plain");
    let (outcomes, value) = wait_together(&db, false, None);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(value, b"plain", "it came later");
}

#[test]
fn who_looks_once_loses_what_was_written_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (outcomes, value) = wait_together(&open(dir.path()), true, Some(PlantedBug::ConflictIsCheckedOnce));
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(value, b"checked", "the plain write is lost");
}

/// Every thread takes from one account and gives to another, over tables that change all the time: nothing is made or lost.
fn transfers(db: &Db, threads: u64, rounds: u64) -> u64 {
    const ACCOUNTS: u64 = 6;
    let key = |account: u64| format!("account{account}");
    let number = |value: Option<crate::PinnedValue>| -> u64 {
        value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()))
    };
    for account in 0..ACCOUNTS {
        db.put(key(account), 1000_u64.to_le_bytes()).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for round in 0..rounds {
                    let (from, to) = ((thread + round) % ACCOUNTS, (thread + round * 5 + 1) % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    loop {
                        let snapshot = db.snapshot();
                        let at = crate::ReadOptions::default().snapshot(Some(snapshot.clone()));
                        let read = |account| number(db.get_cf(&db.default_family(), key(account), &at).unwrap());
                        let mut batch = WriteBatch::new();
                        // Large enough for memtables to become full.
                        let value = |number: u64| [&number.to_le_bytes()[..], &[0; 500]].concat();
                        batch.put(key(from), value(read(from).wrapping_sub(1)));
                        batch.put(key(to), value(read(to).wrapping_add(1)));
                        let watch = |account| Watched {
                            family: db.default_family(),
                            key: key(account).into_bytes(),
                            seqno: snapshot.seqno(),
                        };
                        let watched = vec![watch(from), watch(to)];
                        match db.handle.inner.write_if_unchanged(watched, &mut batch, &WriteOptions::default()) {
                            Ok(()) => break,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
                        }
                    }
                }
            });
        }
    });
    (0..ACCOUNTS).map(|account| number(db.get(key(account)).unwrap())).fold(0, u64::wrapping_add)
}

fn with_small_memtables(dir: &std::path::Path) -> Db {
    let family =
        crate::ColumnFamilyOptions::default().write_buffer_size(64 << 10).level0_file_num_compaction_trigger(2);
    Db::open_families(dir, &DbOptions::default().create_if_missing(true), &[("default", family)]).unwrap()
}

#[test]
fn many_threads_over_tables_that_change_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = with_small_memtables(dir.path());
    assert_eq!(transfers(&db, 8, 150), 6000);
    assert!(db.metrics().counters().get(Counter::Flushes) > 5, "tables come while it runs");
}

/// Whoever looks again looks at what is new alone: that has to be all that matters, wherever flushes and compactions have put it.
#[test]
fn what_came_since_the_first_look_is_found_wherever_it_is_by_now() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let inner = &db.handle.inner;
    let watch = |key: &str, seqno: u64| vec![Watched { family: db.default_family(), key: key.into(), seqno }];
    let compact = || db.compact_range(&db.default_family(), None, None, &Default::default()).unwrap();
    let flush = || db.flush(&Default::default()).unwrap();
    for key in ["a", "b", "c", "x"] {
        db.put(key, "old").unwrap();
    }
    flush();
    let snapshot = db.snapshot();
    let looks = || ["a", "b", "c", "x"].map(|key| inner.look_ahead(watch(key, snapshot.seqno())).unwrap());
    let before = looks();
    let outcomes = |checks: &[crate::db::checked::Check; 4]| {
        checks.each_ref().map(|check| match inner.check_alone(check) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Busy);
                false
            }
        })
    };
    assert_eq!(outcomes(&before), [true; 4]);
    db.put("a", "new").unwrap();
    assert_eq!(outcomes(&before), [false, true, true, true]);
    flush();
    assert_eq!(outcomes(&before), [false, true, true, true]);
    db.delete("b").unwrap();
    compact();
    assert_eq!(outcomes(&before), [false, false, true, true]);
    // By a range, in memory, in a table and merged.
    let mut batch = WriteBatch::new();
    batch.delete_range("c", "d");
    db.write(&mut batch, &WriteOptions::default()).unwrap();
    assert_eq!(outcomes(&before), [false, false, false, true]);
    flush();
    assert_eq!(outcomes(&before), [false, false, false, true]);
    compact();
    assert_eq!(outcomes(&before), [false, false, false, true]);
    // Who watches since a later moment has another look.
    let later = db.snapshot();
    let after = ["a", "b", "c", "x"].map(|key| inner.look_ahead(watch(key, later.seqno())).unwrap());
    assert_eq!(outcomes(&after), [true; 4]);
    for key in ["a", "b", "c"] {
        assert_eq!(inner.look_ahead(watch(key, snapshot.seqno())).unwrap_err().kind(), ErrorKind::Busy);
    }
}
