//! Followers: each view is a prefix of what was written, up to the last catching up.

use super::*;
use crate::{CompactRangeOptions, ErrorKind, FlushOptions, Follower};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::OpClass;

#[test]
fn a_follower_sees_what_was_written_when_it_caught_up() {
    let disk = SimDisk::new();
    let options = simulated(&disk);
    let missing = Follower::open("/db", &options, &[]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::MissingFile);
    let db = Db::open("/db", &options).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    let follower = Follower::open("/db", &options, &[]).unwrap();
    let mut held = Vec::new();
    for round in 0..20u64 {
        let seen = rows(&follower.db());
        assert_eq!(seen, rows_up_to(round * 60));
        for number in round * 60 + 1..=round * 60 + 60 {
            write_row(&db, number, &WriteOptions::default());
        }
        match round % 4 {
            1 => db.flush(&FlushOptions::default()).unwrap(),
            3 => db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap(),
            _ => {}
        }
        assert_eq!(rows(&follower.db()), seen, "nothing is seen by itself");
        held.push((follower.db(), seen));
        assert_eq!(follower.catch_up().unwrap(), (round + 1) * 120);
    }
    // Old views stay readable although their tables are deleted.
    for (db, seen) in &held {
        assert!(rows(db) == *seen);
    }
    let entries = |disk: &SimDisk| disk.env().list_dir(Path::new("/db")).unwrap();
    let before = entries(&disk);
    follower.catch_up().unwrap();
    assert_eq!(entries(&disk), before);
    let error = follower.db().put("a", "b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_follower_beside_a_writer_sees_prefixes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small(DbOptions::default())).unwrap();
    beside_a_writer(&db, || {
        let follower = Follower::open(dir.path(), &small(DbOptions::default()), &[]).unwrap();
        let mut last = 0;
        for _ in 0..8 {
            let wanted = last + 200;
            wait_for(&db, wanted);
            let seqno = follower.catch_up().unwrap();
            assert!(seqno >= wanted, "what was written before is seen: {seqno} of {wanted}");
            assert_eq!(seqno % 2, 0);
            let view = follower.db();
            assert!(rows(&view) == rows_up_to(seqno / 2), "the view of {seqno}");
            last = seqno;
        }
    });
    db.close().unwrap();
}

#[test]
fn a_follower_opens_only_tables_that_it_has_not_open() {
    let disk = SimDisk::new();
    let options = simulated(&disk);
    let family = options.unnamed_families.clone().disable_auto_compactions(true);
    let db = Db::open("/db", &options.clone().unnamed_families(family)).unwrap();
    for number in 0..12 {
        db.put(format!("key{number}"), "value").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    let follower = Follower::open("/db", &options, &[]).unwrap();
    for _ in 0..3 {
        db.put("key", "again").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        disk.start_trace();
        follower.catch_up().unwrap();
        let opened = disk.take_trace();
        let opened = opened.iter().filter(|op| (op.class, op.file) == (OpClass::Open, FileKind::Table));
        assert_eq!(opened.count(), 1);
    }
    assert_eq!(follower.db().get("key").unwrap().as_deref(), Some(&b"again"[..]));
    assert_eq!(follower.db().get("key3").unwrap().as_deref(), Some(&b"value"[..]));
}
