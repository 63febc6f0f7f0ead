//! Whoever drops a database finds its directory free.

use crate::{Db, DbOptions, Doublewrite, Durability, ErrorKind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

fn small() -> DbOptions {
    DbOptions::default()
        .create_if_missing(true)
        .buffer_pool_bytes(4 << 20)
        .redo_capacity_bytes(1 << 20)
        .doublewrite(Doublewrite::Off)
}

/// A step of a job may be under way: the directory was locked for a moment longer, and who opened it again at once was refused.
#[test]
fn who_drops_a_database_can_open_it_again_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..50_u32 {
        let db = Db::open(dir.path(), &small().durability(Durability::EveryMillis(1))).unwrap();
        let other = db.clone();
        for number in 0..200_u32 {
            db.put((round * 1000 + number).to_be_bytes(), [7; 100]).unwrap();
        }
        drop(db);
        other.put(b"other", b"is still there").unwrap();
    }
}

/// Whether a step is under way when the last handle goes is not left to chance here.
#[test]
fn the_last_handle_waits_for_steps_and_a_step_does_not_wait_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let weak = db.0.weak();
    let (begun, go_on) = (Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let step = scope.spawn(|| {
            let state = weak.begin_step().unwrap();
            begun.wait();
            while !go_on.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert!(state.check_open().is_ok());
        });
        begun.wait();
        assert_eq!(Db::open(dir.path(), &small()).unwrap_err().kind(), ErrorKind::Locked);
        scope.spawn(|| {
            drop(db);
            drop(Db::open(dir.path(), &small()).unwrap());
        });
        go_on.store(true, Ordering::Release);
        step.join().unwrap();
    });
    assert!(weak.begin_step().is_none());
    let db = Db::open(dir.path(), &small()).unwrap();
    let weak = db.0.weak();
    let step = weak.begin_step().unwrap();
    drop(db);
    drop(step);
    drop(Db::open(dir.path(), &small()).unwrap());
}
