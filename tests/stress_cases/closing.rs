//! Closing while others write, wait and read: everybody comes back.

use siltstone::lsm::{ColumnFamilyOptions, Db, DbOptions, ErrorKind, FlushOptions, WriteOptions};
use std::sync::atomic::{AtomicU64, Ordering};

/// A call on a database that another thread closes: it works, or says that it is too late.
fn expect_closing<T>(outcome: Result<T, siltstone::lsm::Error>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Aborted), "{error}");
            None
        }
    }
}

#[test]
fn closing_lets_every_waiting_writer_go_and_keeps_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = [0_u64; 4];
    for round in 0..25_u64 {
        // Writers stop at once: nothing is ever compacted, and two files are too many. Every other round they run free.
        let stops = round % 2 == 0;
        let family = ColumnFamilyOptions::default()
            .write_buffer_size(8 << 10)
            .level0_file_num_compaction_trigger(1)
            .level0_slowdown_writes_trigger(if stops { 1 } else { 20 })
            .level0_stop_writes_trigger(if stops { 2 } else { 36 });
        let options = DbOptions::default()
            .create_if_missing(true)
            .concurrent_memtable_write_bytes(if round % 3 == 0 { 1 } else { 0 })
            .wal_sync_interval_millis(round % 3)
            .delayed_write_rate(1 << 20);
        let db = Db::open_families(dir.path(), &options, &[("default", family)]).unwrap();
        for (writer, expected) in expected.iter().enumerate() {
            let found =
                db.get([writer as u8]).unwrap().map_or(0, |value| u64::from_be_bytes(value[..8].try_into().unwrap()));
            assert!(found >= *expected, "round {round}: an acknowledged write is gone");
        }
        if stops {
            db.pause_background_work().unwrap();
        }
        let acknowledged: [AtomicU64; 4] = Default::default();
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let (db, acknowledged) = (db.clone(), &acknowledged);
                scope.spawn(move || {
                    for count in 0_u64.. {
                        let count = (round << 32) + count + 1;
                        let mut value = count.to_be_bytes().to_vec();
                        value.resize(300, b'.');
                        let options = WriteOptions::default().sync(count % 64 == 0);
                        let family = db.default_family();
                        if expect_closing(db.put_cf(&family, [writer], value, &options)).is_none() {
                            return;
                        }
                        acknowledged[usize::from(writer)].store(count, Ordering::Release);
                    }
                });
            }
            let other = db.clone();
            scope.spawn(move || while expect_closing(other.flush(&FlushOptions::default())).is_some() {});
            let other = db.clone();
            scope.spawn(move || {
                for number in 0.. {
                    let name = format!("{round}-{number}");
                    let created = expect_closing(other.create_family(&name, &ColumnFamilyOptions::default()));
                    let Some(family) = created else { return };
                    if expect_closing(other.drop_family(&family)).is_none() {
                        return;
                    }
                }
            });
            // After some writes, or when none is possible any more, whichever is first.
            let enough = 20 + round * 7;
            let mut looks = 0;
            while acknowledged.iter().map(|count| count.load(Ordering::Acquire) & 0xFFFF_FFFF).sum::<u64>() < enough
                && looks < 20_000
            {
                looks += 1;
                std::thread::yield_now();
            }
            db.clone().close().unwrap();
        });
        for (expected, acknowledged) in expected.iter_mut().zip(acknowledged) {
            *expected = (*expected).max(acknowledged.into_inner());
        }
    }
}
