//! Nobody waits for ever.

use siltstone::lsm::{Db, DbOptions, WriteOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Synced writes can't join the groups of unsynced ones: they need turns of their own.
#[test]
fn a_synced_write_gets_its_turn_among_a_stream_of_unsynced_ones() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true)).unwrap();
    let done = AtomicBool::new(false);
    let unsynced = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..3_u8 {
            let (db, done, unsynced) = (&db, &done, &unsynced);
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    db.put([writer], [0; 32]).unwrap();
                    unsynced.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let family = db.default_family();
        for number in 0..50_u64 {
            db.put_cf(&family, number.to_be_bytes(), "synced", &WriteOptions::default().sync(true)).unwrap();
        }
        done.store(true, Ordering::Release);
    });
    assert!(unsynced.into_inner() > 0);
    db.close().unwrap();
}
