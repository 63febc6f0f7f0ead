//! Copies of a database with transactions that are prepared: there they wait for a decision, too.

use super::*;
use crate::{
    BackupEngine, BackupEngineOptions, Checkpoint, CheckpointOptions, CreateBackupOptions, ErrorKind, FlushOptions,
    Isolation, LiveCopyOptions, RestoreOptions, TransactionDb, TransactionDbOptions, TransactionOptions,
};
use std::time::Duration;

fn open(disk: &SimDisk, dir: &str) -> TransactionDb {
    TransactionDb::open(dir, &simulated(disk), &[], &TransactionDbOptions::default()).unwrap()
}

/// A database with two transactions that are undecided, one in a WAL that nothing else needs, and others that are decided.
fn undecided(disk: &SimDisk) -> TransactionDb {
    let db = open(disk, "/db");
    let prepare = |name: &str| {
        let mut transaction = db.begin(&TransactionOptions::new(Isolation::Snapshot));
        transaction.put(name, "prepared").unwrap();
        transaction.put(format!("{name} too"), "prepared").unwrap();
        transaction.prepare(name).unwrap();
    };
    db.put("row", "1").unwrap();
    ["old", "committed", "gone"].into_iter().for_each(prepare);
    db.db().flush(&FlushOptions::default()).unwrap();
    db.put("row", "2").unwrap();
    db.commit_prepared("committed").unwrap();
    db.rollback_prepared("gone").unwrap();
    prepare("new");
    db
}

/// Looks at the copy in `dir`, decides there, and looks again.
fn check(disk: &SimDisk, dir: &str, what: &str) {
    let value = |db: &TransactionDb, key: &str| db.db().get(key).unwrap().map(|value| value.to_vec());
    let prepared = Some(b"prepared".to_vec());
    // Who does not decide about them is told.
    let refused = Db::open(dir, &simulated(disk).create_if_missing(false)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{what}: {refused}");
    let db = open(disk, dir);
    assert_eq!(db.prepared_transactions(), [b"new".to_vec(), b"old".to_vec()], "{what}");
    for (key, expected) in [("row", Some(b"2".to_vec())), ("committed too", prepared.clone())] {
        assert_eq!(value(&db, key), expected, "{what}");
    }
    for key in ["old", "old too", "new", "new too"] {
        assert_eq!(value(&db, key), None, "{what}: {key}");
        let options = TransactionOptions::new(Isolation::ReadCommitted).lock_timeout(Duration::from_micros(1));
        let refused = db.begin(&options).put(key, "mine").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut, "{what}: {key} is locked");
    }
    assert_eq!(value(&db, "gone"), None, "{what}");
    db.commit_prepared("old").unwrap();
    db.rollback_prepared("new").unwrap();
    db.put("row", "3").unwrap();
    db.db().check().unwrap();
    db.close().unwrap();
    let db = open(disk, dir);
    assert!(db.prepared_transactions().is_empty(), "{what}");
    for (key, expected) in [("old", prepared.clone()), ("old too", prepared), ("new", None), ("new too", None)] {
        assert_eq!(value(&db, key), expected, "{what}: {key}");
    }
    db.close().unwrap();
}

/// The copies are looked at after the database itself has decided otherwise: they share no decision.
fn decide_otherwise(db: TransactionDb) {
    db.rollback_prepared("old").unwrap();
    db.commit_prepared("new").unwrap();
    db.db().flush(&FlushOptions::default()).unwrap();
    db.db().wait_for_background_work().unwrap();
    db.close().unwrap();
}

#[test]
fn checkpoints_keep_what_is_undecided() {
    for (number, flush_at) in [0, u64::MAX].into_iter().enumerate() {
        for links in [true, false] {
            let disk = SimDisk::new();
            let db = undecided(&disk);
            let options = CheckpointOptions::default().log_size_for_flush(flush_at).links(links);
            Checkpoint::new(db.db()).create("/copy", &options).unwrap();
            decide_otherwise(db);
            check(&disk, "/copy", &format!("flush {number}, links: {links}"));
        }
    }
}

#[test]
fn live_copies_keep_what_is_undecided() {
    for flush_at in [0, u64::MAX] {
        let disk = SimDisk::new();
        let db = undecided(&disk);
        let options = LiveCopyOptions::default().log_size_for_flush(flush_at).last_round_bytes(0);
        Checkpoint::new(db.db()).copy_live("/copy", &options).unwrap();
        decide_otherwise(db);
        check(&disk, "/copy", &format!("flush at {flush_at}"));
    }
}

#[test]
fn backups_keep_what_is_undecided() {
    for is_flushed in [true, false] {
        let disk = SimDisk::new();
        let db = undecided(&disk);
        let mut backups =
            BackupEngine::open("/backups", &BackupEngineOptions::default().env(Some(disk.env()))).unwrap();
        let options = CreateBackupOptions::default().flush_before_backup(is_flushed);
        let first = backups.create(db.db(), &options).unwrap().id;
        decide_otherwise(db);
        backups.verify(first).unwrap();
        for round in 0..2 {
            backups.restore(first, "/restored", &RestoreOptions::default().replace(true)).unwrap();
            check(&disk, "/restored", &format!("flushed: {is_flushed}, restored for the {round}. time"));
        }
    }
}
