//! What every [`Transactional`] keeps, as checks that run on any engine. They panic where a promise is broken.

use super::{Isolation, KvCursor, Savepoint, Transaction, TransactionOptions, Transactional};
use crate::{ErrorKind, Result};
use std::path::Path;
use std::time::Duration;

/// Opens an engine in a directory that may not exist yet.
pub type Opener<'a> = dyn Fn(&Path) -> Result<Box<dyn Transactional>> + 'a;

const LEVELS: [Isolation; 2] = [Isolation::ReadCommitted, Isolation::Snapshot];

#[track_caller]
fn done<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn fails<T>(result: Result<T>, kind: ErrorKind) {
    match result {
        Ok(_) => panic!("{kind:?} was expected"),
        Err(error) => assert_eq!(error.kind(), kind, "{error}"),
    }
}

/// A transaction that does not wait for locks.
fn begin(engine: &dyn Transactional, isolation: Isolation) -> Box<dyn Transaction> {
    done(engine.begin(&TransactionOptions::new(isolation).lock_timeout(Duration::from_millis(1))))
}

fn read(transaction: &mut dyn Transaction, key: &str) -> Option<String> {
    let mut value = Vec::new();
    let found = done(transaction.get(key.as_bytes(), &mut value));
    found.then(|| String::from_utf8_lossy(&value).into_owned())
}

fn read_now(engine: &dyn Transactional, key: &str) -> Option<String> {
    let mut value = Vec::new();
    let found = done(engine.get(key.as_bytes(), &mut value));
    found.then(|| String::from_utf8_lossy(&value).into_owned())
}

fn scan(cursor: &mut dyn KvCursor) -> String {
    let (mut text, mut back) = (String::new(), Vec::new());
    let mut found = done(cursor.seek_to_first());
    while found {
        let (key, value) = (String::from_utf8_lossy(cursor.key()), String::from_utf8_lossy(cursor.value()));
        text.push_str(&format!("{key}={value} "));
        found = done(cursor.next());
    }
    let mut found = done(cursor.seek_to_last());
    while found {
        let (key, value) = (String::from_utf8_lossy(cursor.key()), String::from_utf8_lossy(cursor.value()));
        back.push(format!("{key}={value} "));
        found = done(cursor.prev());
    }
    assert_eq!(back.into_iter().rev().collect::<String>(), text, "both directions agree");
    text.trim_end().to_owned()
}

fn seed(engine: &dyn Transactional) {
    for key in ["a", "b", "c"] {
        done(engine.put(key.as_bytes(), b"0"));
    }
}

/// Runs every check. Each uses a directory of its own under `dir`.
pub fn check_transactional(opener: &Opener<'_>, dir: &Path) {
    let open = |name: &str| opener(&dir.join(name)).unwrap_or_else(|error| panic!("open: {error}"));
    for level in LEVELS {
        let engine = open(&format!("own-{level:?}"));
        assert!(engine.capabilities().transactions);
        check_own_changes(&*engine, level);
        check_locks(&*open(&format!("locks-{level:?}")), level);
    }
    check_read_committed(&*open("committed"));
    check_snapshot(&*open("snapshot"));
    check_prepared(&|| open("prepared"));
}

/// The same for an engine whose transactions lock nothing: who changed a row that somebody else changes is told when it commits.
///
/// # Panics
///
/// Where the engine is not as it should be.
pub fn check_optimistic(opener: &Opener<'_>, dir: &Path) {
    let open = |name: &str| opener(&dir.join(name)).unwrap_or_else(|error| panic!("open: {error}"));
    for level in LEVELS {
        let engine = open(&format!("own-{level:?}"));
        assert!(engine.capabilities().transactions);
        check_own_changes(&*engine, level);
        check_conflicts(&*open(&format!("conflicts-{level:?}")), level);
    }
    check_read_committed(&*open("committed"));
    let engine = open("prepared");
    let mut one = begin(&*engine, Isolation::Snapshot);
    done(one.put(b"a", b"1"));
    fails(one.prepare(b"name"), ErrorKind::NotSupported);
    assert!(done(engine.prepared()).is_empty());
    fails(engine.commit_prepared(b"name"), ErrorKind::NotFound);
    fails(engine.rollback_prepared(b"name"), ErrorKind::NotFound);
    assert_eq!(read_now(&*engine, "a"), None);
    done(engine.close());
}

/// The first to commit wins, whatever the other one did with the row.
fn check_conflicts(engine: &dyn Transactional, level: Isolation) {
    seed(engine);
    let mut value = Vec::new();
    for key in [b"a", b"x"] {
        for step in 0..3 {
            let (mut one, mut two) = (begin(engine, level), begin(engine, level));
            match step {
                0 => done(one.put(key, b"1")),
                1 => done(one.delete(key)),
                _ => drop(done(one.get_for_update(key, &mut value))),
            }
            done(one.put(b"b", b"1"));
            done(two.put(key, b"2"));
            done(two.commit());
            fails(one.commit(), ErrorKind::Busy);
            assert_eq!(read_now(engine, "b").as_deref(), Some("0"));
        }
        assert_eq!(read_now(engine, std::str::from_utf8(key).unwrap_or_default()).as_deref(), Some("2"));
    }
    // Rows that are only read are nobody's.
    let (mut one, mut two) = (begin(engine, level), begin(engine, level));
    assert_eq!(read(&mut *one, "c").as_deref(), Some("0"));
    done(one.put(b"a", b"3"));
    done(two.put(b"c", b"3"));
    done(two.commit());
    done(one.commit());
    assert_eq!(scan(&mut *done(engine.cursor())), "a=3 b=0 c=3 x=2");
    done(engine.close());
}

/// A transaction sees its own changes and nobody else does; savepoints and rollback undo them.
fn check_own_changes(engine: &dyn Transactional, level: Isolation) {
    seed(engine);
    let mut one = begin(engine, level);
    done(one.put(b"a", b"1"));
    done(one.delete(b"b"));
    done(one.put(b"d", b"1"));
    let place = done(one.savepoint());
    let mut early = done(one.cursor());
    done(one.put(b"a", b"2"));
    done(one.put(b"b", b"2"));
    done(one.delete(b"d"));
    done(one.delete(b"c"));
    assert_eq!(scan(&mut *early), "a=1 c=0 d=1", "a cursor shows the changes before it");
    assert_eq!(scan(&mut *done(one.cursor())), "a=2 b=2");
    assert_eq!((read(&mut *one, "a").as_deref(), read(&mut *one, "d")), (Some("2"), None));
    assert_eq!(scan(&mut *done(engine.cursor())), "a=0 b=0 c=0");
    assert_eq!((read_now(engine, "b").as_deref(), read_now(engine, "d")), (Some("0"), None));
    drop(early);
    done(one.rollback_to(place));
    assert_eq!(scan(&mut *done(one.cursor())), "a=1 c=0 d=1");
    done(one.put(b"c", b"3"));
    done(one.rollback_to(place));
    fails(one.rollback_to(Savepoint(u64::MAX)), ErrorKind::InvalidArgument);
    done(one.put(b"e", b"3"));
    done(one.commit());
    assert_eq!(scan(&mut *done(engine.cursor())), "a=1 c=0 d=1 e=3");

    let mut two = begin(engine, level);
    done(two.put(b"a", b"9"));
    done(two.delete(b"c"));
    done(two.rollback());
    let mut three = begin(engine, level);
    done(three.put(b"f", b"9"));
    drop(three);
    done(engine.settle());
    assert_eq!(scan(&mut *done(engine.cursor())), "a=1 c=0 d=1 e=3");
    done(engine.close());
}

/// Who changed or locked a row keeps it until the end; also batches wait.
fn check_locks(engine: &dyn Transactional, level: Isolation) {
    seed(engine);
    let mut value = Vec::new();
    let (mut one, mut two) = (begin(engine, level), begin(engine, level));
    done(one.put(b"a", b"1"));
    assert!(done(one.get_for_update(b"b", &mut value)));
    assert!(!done(one.get_for_update(b"x", &mut value)));
    done(one.delete(b"y"));
    for key in [b"a", b"b", b"x", b"y"] {
        fails(two.put(key, b"2"), ErrorKind::TimedOut);
        fails(two.delete(key), ErrorKind::TimedOut);
        fails(two.get_for_update(key, &mut value), ErrorKind::TimedOut);
    }
    done(two.put(b"c", b"2"));
    fails(one.put(b"c", b"1"), ErrorKind::TimedOut);
    done(one.rollback());
    // What was locked and not changed is free; and a row that was changed is what it was.
    for key in [b"a", b"b", b"x", b"y"] {
        done(two.put(key, b"2"));
    }
    done(two.commit());
    assert_eq!(scan(&mut *done(engine.cursor())), "a=2 b=2 c=2 x=2 y=2");
    done(engine.close());
}

/// Each read sees what is committed when it begins; the last one to change a row wins.
fn check_read_committed(engine: &dyn Transactional) {
    seed(engine);
    let mut value = Vec::new();
    let mut one = begin(engine, Isolation::ReadCommitted);
    assert_eq!(read(&mut *one, "a").as_deref(), Some("0"));
    let mut cursor = done(one.cursor());
    done(engine.put(b"a", b"1"));
    let mut two = begin(engine, Isolation::ReadCommitted);
    done(two.put(b"b", b"2"));
    assert_eq!(read(&mut *one, "b").as_deref(), Some("0"));
    done(two.commit());
    assert_eq!((read(&mut *one, "a").as_deref(), read(&mut *one, "b").as_deref()), (Some("1"), Some("2")));
    assert_eq!(scan(&mut *cursor), "a=0 b=0 c=0");
    assert_eq!(scan(&mut *done(one.cursor())), "a=1 b=2 c=0");
    assert!(done(one.get_for_update(b"b", &mut value)));
    assert_eq!(value, b"2");
    done(one.put(b"a", b"3"));
    drop(cursor);
    done(one.commit());
    assert_eq!(scan(&mut *done(engine.cursor())), "a=3 b=2 c=0");
    done(engine.close());
}

/// All reads see one moment; the first one to change a row wins.
fn check_snapshot(engine: &dyn Transactional) {
    seed(engine);
    let mut value = Vec::new();
    let mut one = begin(engine, Isolation::Snapshot);
    done(engine.put(b"a", b"1"));
    let mut two = begin(engine, Isolation::Snapshot);
    done(two.put(b"b", b"2"));
    done(two.put(b"d", b"2"));
    done(two.commit());
    done(engine.delete(b"c"));
    assert_eq!(scan(&mut *done(one.cursor())), "a=0 b=0 c=0");
    assert_eq!((read(&mut *one, "c").as_deref(), read(&mut *one, "d")), (Some("0"), None));
    for key in [b"a", b"b", b"c", b"d"] {
        fails(one.put(key, b"9"), ErrorKind::Busy);
        fails(one.get_for_update(key, &mut value), ErrorKind::Busy);
    }
    done(one.put(b"e", b"1"));
    done(one.commit());
    assert_eq!(scan(&mut *done(engine.cursor())), "a=1 b=2 d=2 e=1");
    done(engine.close());
}

/// A prepared transaction waits for a decision, over the end of the engine too, and keeps its locks.
fn check_prepared(open: &dyn Fn() -> Box<dyn Transactional>) {
    let mut engine = open();
    seed(&*engine);
    for (name, key) in [("left", "a"), ("right", "b")] {
        let mut one = begin(&*engine, Isolation::Snapshot);
        done(one.put(key.as_bytes(), name.as_bytes()));
        done(one.prepare(name.as_bytes()));
    }
    fails(begin(&*engine, Isolation::Snapshot).prepare(b"left"), ErrorKind::AlreadyExists);
    fails(begin(&*engine, Isolation::Snapshot).prepare(b""), ErrorKind::InvalidArgument);
    for round in 0..2 {
        assert_eq!(done(engine.prepared()), [b"left".to_vec(), b"right".to_vec()]);
        assert_eq!(scan(&mut *done(engine.cursor())), "a=0 b=0 c=0");
        let mut two = begin(&*engine, Isolation::ReadCommitted);
        fails(two.put(b"a", b"2"), ErrorKind::TimedOut);
        done(two.rollback());
        if round == 0 && engine.capabilities().persistent {
            done(engine.close());
            drop(engine);
            engine = open();
        }
    }
    done(engine.commit_prepared(b"left"));
    done(engine.rollback_prepared(b"right"));
    fails(engine.commit_prepared(b"left"), ErrorKind::NotFound);
    fails(engine.rollback_prepared(b"none"), ErrorKind::NotFound);
    done(engine.settle());
    assert_eq!(done(engine.prepared()), Vec::<Vec<u8>>::new());
    assert_eq!(scan(&mut *done(engine.cursor())), "a=left b=0 c=0");
    let mut three = begin(&*engine, Isolation::Snapshot);
    done(three.put(b"a", b"3"));
    done(three.put(b"b", b"3"));
    done(three.commit());
    done(engine.close());
}
