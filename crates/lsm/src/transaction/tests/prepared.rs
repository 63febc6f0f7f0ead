//! Two-phase commit: what survives the end of the database, and which WALs it needs.

use super::{all, flush, kind, on, open, options};
use crate::{Counter, Db, ErrorKind, FlushOptions, Isolation, WriteBatch};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::plant::{PlantedBug, with_planted};
use std::path::Path;

/// Numbers of the WALs in the directory.
fn wals(disk: &SimDisk) -> Vec<u64> {
    let entries = disk.env().list_dir(Path::new("/db")).unwrap();
    let mut numbers: Vec<u64> =
        entries.iter().filter_map(|entry| entry.name.strip_suffix(".log")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// What is left if the machine stops now.
fn stopped(disk: &SimDisk) -> SimDisk {
    disk.after_power_loss()
}

#[test]
fn what_is_prepared_waits_over_flushes_and_openings() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let other = db.db().family("other").unwrap();
    db.put("a", "0").unwrap();
    for name in ["x", "y"] {
        let mut one = db.begin(&on(Isolation::Snapshot));
        one.put(format!("{name}1"), name).unwrap();
        one.merge_cf(&other, name, 5_u64.to_le_bytes()).unwrap();
        one.single_delete_cf(&other, "none").unwrap_or_else(|error| assert_eq!(error.kind(), ErrorKind::TimedOut));
        one.prepare(name).unwrap();
    }
    let first = wals(&disk);
    for round in 0..3 {
        db.put("b", format!("{round}")).unwrap();
        db.db().flush_families(&[&db.db().default_family(), &other], &FlushOptions::default()).unwrap();
        assert_eq!(wals(&disk).first(), first.first(), "it has what is prepared");
    }
    assert_eq!(all(&db), "a=0 b=2");
    // Committed, and in memtables alone: the old WAL is needed still.
    db.commit_prepared("x").unwrap();
    assert_eq!(all(&db), "a=0 b=2 x1=x");
    db.put("c", "1").unwrap();
    assert_eq!(wals(&disk).first(), first.first());
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!((all(&db).as_str(), db.prepared_transactions()), ("a=0 b=2 c=1 x1=x", vec![b"y".to_vec()]));
    assert_ne!(wals(&disk).first(), first.first(), "what is prepared is in the new WAL");
    assert_eq!(kind(db.begin(&on(Isolation::ReadCommitted)).put("y1", "2")), ErrorKind::TimedOut);
    db.put("x1", "2").unwrap();
    db.commit_prepared("y").unwrap();
    flush(&db);
    let kept = wals(&disk);
    db.db().flush_families(&[&db.db().family("other").unwrap()], &FlushOptions::default()).unwrap();
    db.put("d", "1").unwrap();
    flush(&db);
    assert!(wals(&disk).first() > kept.first(), "nothing needs it any more: {kept:?}");
    assert_eq!(all(&db), "a=0 b=2 c=1 d=1 x1=2 y1=y");
    db.close().unwrap();
    // Nothing is undecided: anybody may open it.
    Db::open("/db", &options(&disk)).unwrap().check().unwrap();
}

#[test]
fn a_crash_leaves_what_was_prepared_and_what_was_decided() {
    for commit in [None, Some(true), Some(false)] {
        let disk = SimDisk::new();
        let db = open(&disk);
        let mut one = db.begin(&on(Isolation::Snapshot));
        one.put("a", "1").unwrap();
        one.prepare("x").unwrap();
        match commit {
            None => {}
            Some(true) => db.commit_prepared("x").unwrap(),
            Some(false) => db.rollback_prepared("x").unwrap(),
        }
        db.db().sync_wal().unwrap();
        let names = if commit.is_none() { vec![b"x".to_vec()] } else { Vec::new() };
        let rows = if commit == Some(true) { "a=1" } else { "" };
        let mut left = stopped(&disk);
        for _ in 0..3 {
            let db = open(&left);
            assert_eq!((all(&db).as_str(), db.prepared_transactions()), (rows, names.clone()));
            assert_eq!(db.begin(&on(Isolation::Snapshot)).put("a", "2").is_err(), commit.is_none());
            left = stopped(&left);
        }
        if commit.is_none() {
            let error = Db::open("/db", &options(&left)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        }
    }
}

#[test]
fn one_sync_makes_a_group_of_transactions_safe() {
    let disk = SimDisk::new();
    let db = open(&disk);
    db.put("first", "").unwrap();
    db.db().sync_wal().unwrap();
    let begin = |number: usize| {
        let mut one = db.begin(&on(Isolation::Snapshot));
        one.put(format!("k{number}"), "1").unwrap();
        one
    };
    let names: Vec<String> = (0..20).map(|number| format!("n{number:02}")).collect();
    let syncs = || db.db().metrics().counters().get(Counter::WalSyncs);
    let before = syncs();
    db.prepare_all(names.iter().enumerate().map(|(number, name)| (begin(number), name.as_bytes()))).unwrap();
    assert_eq!(syncs() - before, 1);
    let recovered = open(&stopped(&disk));
    assert_eq!(recovered.prepared_transactions().len(), 20);
    // One name is taken: none of the group is prepared, and its rows are free.
    let group = [(begin(100), &b"new"[..]), (begin(101), &b"n07"[..]), (begin(102), &b"newer"[..])];
    assert_eq!(kind(db.prepare_all(group)), ErrorKind::AlreadyExists);
    assert_eq!(db.prepared_transactions().len(), 20);
    (100..103).for_each(|number| db.put(format!("k{number}"), "2").unwrap());
    names.iter().for_each(|name| db.commit_prepared(name).unwrap());
    assert_eq!((db.lock_stats().locks, db.prepared_transactions().len()), (0, 0));
}

#[test]
fn names_and_steps_are_checked() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let begin = || db.begin(&on(Isolation::Snapshot));
    assert_eq!(kind(begin().prepare("")), ErrorKind::InvalidArgument);
    assert_eq!(kind(begin().prepare([b'n'; 65])), ErrorKind::InvalidArgument);
    begin().prepare("empty").unwrap();
    db.commit_prepared("empty").unwrap();
    assert_eq!(kind(db.commit_prepared("empty")), ErrorKind::NotFound);
    let no_wal = crate::TransactionDbOptions::default().write_options(crate::WriteOptions::default().disable_wal(true));
    let unlogged = super::open_with(&SimDisk::new(), &no_wal).unwrap();
    assert_eq!(kind(unlogged.begin(&on(Isolation::Snapshot)).prepare("x")), ErrorKind::InvalidArgument);
    // Bytes with markers are no batch to be written.
    let markers = [&[0; 12][..], &[0x0b, 1, b'x']].concat();
    let mut batch = WriteBatch::from_bytes(markers).unwrap();
    assert_eq!(kind(db.db().write(&mut batch, &Default::default())), ErrorKind::InvalidArgument);
}

#[test]
fn a_family_that_is_dropped_takes_its_part_of_what_is_prepared_along() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let more = db.db().create_family("more", &Default::default()).unwrap();
    let mut one = db.begin(&on(Isolation::Snapshot));
    one.put_cf(&more, "a", "1").unwrap();
    one.put("b", "1").unwrap();
    one.prepare("x").unwrap();
    db.db().drop_family(&more).unwrap();
    db.close().unwrap();
    let db = open(&disk);
    db.commit_prepared("x").unwrap();
    db.put("c", "1").unwrap();
    let seqno = db.db().latest_seqno();
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!((all(&db).as_str(), db.db().latest_seqno()), ("b=1 c=1", seqno));
}

#[test]
fn the_mistakes_are_seen() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let mut one = db.begin(&on(Isolation::Snapshot));
    one.put("a", "1").unwrap();
    one.prepare("x").unwrap();
    let (left, right) = (stopped(&disk), stopped(&disk));
    with_planted(PlantedBug::PreparedIsLost, || assert!(open(&left).prepared_transactions().is_empty()));
    with_planted(PlantedBug::RecoveredLocksAreLost, || open(&right).put("a", "2").unwrap());
}
