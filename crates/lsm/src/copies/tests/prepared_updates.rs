//! Updates of a database with two-phase commit: what was prepared comes when it is committed, and never if it is rolled back.

use super::*;
use crate::{
    ErrorKind, FlushOptions, Isolation, TransactionDb, TransactionDbOptions, TransactionOptions, Updates, ValueType,
};

fn open(disk: &SimDisk) -> TransactionDb {
    let options = simulated(disk).wal_ttl_seconds(3600);
    TransactionDb::open("/db", &options, &[], &TransactionDbOptions::default()).unwrap()
}

fn prepare(db: &TransactionDb, name: &str, keys: &[&str]) {
    let mut transaction = db.begin(&TransactionOptions::new(Isolation::ReadCommitted));
    keys.iter().for_each(|key| transaction.put(key, name).unwrap());
    transaction.prepare(name).unwrap();
}

/// What comes next, as `number: key=value ...` for each batch.
fn drain(updates: &mut Updates) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(update) = updates.next_batch().unwrap() {
        assert_eq!(update.batch.count() as usize, update.batch.iter().count());
        let entries = update.batch.iter().map(|entry| match entry.kind {
            ValueType::Put => format!(" {}={}", entry.key.escape_ascii(), entry.value.escape_ascii()),
            kind => format!(" {kind:?} {}", entry.key.escape_ascii()),
        });
        found.push(format!("{}:{}", update.seqno, entries.collect::<String>()));
    }
    found
}

fn since(db: &TransactionDb, seqno: u64) -> Vec<String> {
    drain(&mut db.db().updates_since(seqno).unwrap())
}

fn next_wal(db: &TransactionDb) {
    db.db().flush(&FlushOptions::default()).unwrap();
}

#[test]
fn a_transaction_comes_where_it_was_committed_and_not_where_it_was_prepared() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let mut updates = db.db().updates_since(1).unwrap();
    db.put("a", "1").unwrap();
    prepare(&db, "x", &["p", "q"]);
    prepare(&db, "gone", &["r"]);
    db.put("b", "1").unwrap();
    assert_eq!(drain(&mut updates), ["1: a=1", "2: b=1"]);
    db.rollback_prepared("gone").unwrap();
    assert_eq!(drain(&mut updates), [""; 0]);
    db.commit_prepared("x").unwrap();
    // The name is free again.
    prepare(&db, "x", &["s"]);
    db.put("c", "1").unwrap();
    assert_eq!(drain(&mut updates), ["3: p=x q=x", "5: c=1"]);
    db.commit_prepared("x").unwrap();
    assert_eq!(drain(&mut updates), ["6: s=x"]);
    // In the middle of what it committed, and behind it.
    assert_eq!(since(&db, 4), ["3: p=x q=x", "5: c=1", "6: s=x"]);
    assert_eq!(since(&db, 5), ["5: c=1", "6: s=x"]);
}

#[test]
fn who_begins_between_prepare_and_commit_misses_nothing() {
    let disk = SimDisk::new();
    let db = open(&disk);
    prepare(&db, "decided", &["d"]);
    prepare(&db, "early", &["p"]);
    db.put("a", "1").unwrap();
    next_wal(&db);
    db.rollback_prepared("decided").unwrap();
    prepare(&db, "decided", &["e"]);
    db.put("b", "1").unwrap();
    next_wal(&db);
    db.put("c", "1").unwrap();
    let mut updates = db.db().updates_since(4).unwrap();
    assert_eq!(drain(&mut updates), [""; 0]);
    db.commit_prepared("decided").unwrap();
    db.commit_prepared("early").unwrap();
    assert_eq!(drain(&mut updates), ["4: e=decided", "5: p=early"]);
    // From archived WALs, and over an opening, which prepares again what is undecided.
    prepare(&db, "late", &["f", "g"]);
    next_wal(&db);
    drop(updates);
    db.close().unwrap();
    let db = open(&disk);
    db.put("h", "1").unwrap();
    db.commit_prepared("late").unwrap();
    let all = ["1: a=1", "2: b=1", "3: c=1", "4: e=decided", "5: p=early", "6: h=1", "7: f=late g=late"];
    for (number, seqno) in [1, 2, 3, 4, 5, 6, 7].into_iter().enumerate() {
        assert_eq!(since(&db, seqno), all[number..], "from {seqno}");
    }
    assert_eq!(since(&db, 8), all[6..], "the second entry of the last batch");
}

#[test]
fn a_transaction_whose_prepared_entries_are_in_no_log_is_missed_and_not_left_out() {
    let disk = SimDisk::new();
    let options = simulated(&disk);
    let db = TransactionDb::open("/db", &options, &[], &TransactionDbOptions::default()).unwrap();
    db.put("a", "1").unwrap();
    prepare(&db, "x", &["p", "q"]);
    let prepared_in = wals(&disk);
    next_wal(&db);
    db.put("b", "1").unwrap();
    // From here on WALs stay.
    let updates = db.db().updates_since(3).unwrap();
    db.commit_prepared("x").unwrap();
    db.put("c", "1").unwrap();
    // Somebody else's hand.
    for name in &prepared_in {
        disk.env().remove_file(&Path::new("/db").join(name)).unwrap();
    }
    let mut from_commit = updates;
    assert_eq!(from_commit.next_batch().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(since(&db, 5), ["5: c=1"], "who does not need them follows");
}

fn wals(disk: &SimDisk) -> Vec<String> {
    let files = disk.env().list_dir(Path::new("/db")).unwrap();
    files.into_iter().map(|file| file.name).filter(|name| name.ends_with(".log")).collect()
}

/// Rows by key.
type Family = BTreeMap<Vec<u8>, Vec<u8>>;

/// Random scripts: who applies the updates, from the first or from any other, has the same rows.
#[test]
fn updates_of_random_transactions_build_the_same_database() {
    for seed in 0..12_u64 {
        let disk = SimDisk::new();
        let mut db = open(&disk);
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        // The rows before each number that was next once.
        let mut before: Vec<(u64, Family)> = Vec::new();
        for step in 0..120 {
            let undecided = db.prepared_transactions();
            let chosen = undecided.get(draw(8) as usize).cloned();
            match (draw(10), chosen) {
                (0..=2, _) => {
                    // Its rows may be locked.
                    let _ = db.put(format!("k{}", draw(20)), format!("{step}"));
                }
                (3 | 4, _) => {
                    let options = TransactionOptions::new(Isolation::ReadCommitted);
                    let mut transaction = db.begin(&options.lock_timeout(std::time::Duration::from_micros(1)));
                    for _ in 0..draw(4) {
                        let _ = transaction.put(format!("k{}", draw(20)), format!("{step}"));
                    }
                    // A name that is free again may be taken again.
                    let _ = transaction.prepare(format!("t{}", draw(6)));
                }
                (5 | 6, Some(name)) => db.commit_prepared(name).unwrap(),
                (7, Some(name)) => db.rollback_prepared(name).unwrap(),
                (8, _) => next_wal(&db),
                (9, _) if draw(3) == 0 => {
                    db.close().unwrap();
                    db = open(&disk);
                }
                _ => {}
            }
            if draw(6) == 0 {
                before.push((db.db().latest_seqno() + 1, rows(db.db())["default"].clone()));
            }
        }
        let expected = rows(db.db())["default"].clone();
        before.push((1, Family::new()));
        for (seqno, mut rows) in before {
            let mut updates = db.db().updates_since(seqno).unwrap();
            let mut next = seqno;
            while let Some(update) = updates.next_batch().unwrap() {
                assert_eq!(update.seqno, next, "seed {seed}, from {seqno}");
                next += u64::from(update.batch.count());
                rows.extend(update.batch.iter().map(|entry| (entry.key.to_vec(), entry.value.to_vec())));
            }
            assert_eq!(next, db.db().latest_seqno() + 1, "seed {seed}, from {seqno}");
            assert!(rows == expected, "seed {seed}, from {seqno}");
        }
    }
}
