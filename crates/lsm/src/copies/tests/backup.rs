//! Backups: what they hold, what they share, and what becomes of damaged ones.

use super::*;
use crate::{
    BackupEngine, BackupEngineOptions, CompactRangeOptions, CreateBackupOptions, ErrorKind, FlushOptions,
    RestoreOptions,
};
use siltstone_base::env::sim::{CrashConfig, CrashStates};

fn engine(disk: &SimDisk) -> BackupEngine {
    BackupEngine::open("/backups", &BackupEngineOptions::default().env(Some(disk.env()))).unwrap()
}

fn new_db(disk: &SimDisk) -> Db {
    let db = Db::open("/db", &simulated(disk)).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    db
}

fn names(disk: &SimDisk, dir: &str) -> Vec<String> {
    disk.env().list_dir(Path::new(dir)).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn each_backup_is_the_database_of_its_moment() {
    let disk = SimDisk::new();
    let db = new_db(&disk);
    let mut backups = engine(&disk);
    let mut last = 0;
    for round in 1..=5 {
        for number in last + 1..=last + 200 {
            write_row(&db, number, &WriteOptions::default());
        }
        last += 200;
        if round == 3 {
            db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        }
        let options = CreateBackupOptions::default().flush_before_backup(round % 2 == 0).app_metadata(vec![round]);
        let info = backups.create(&db, &options).unwrap();
        assert_eq!((u64::from(info.id), info.seqno, info.app_metadata), (u64::from(round), 2 * last, vec![round]));
        assert!(info.size > 0);
    }
    drop(backups);
    db.close().unwrap();
    let mut backups = engine(&disk);
    let refused = BackupEngine::open("/backups", &BackupEngineOptions::default().env(Some(disk.env())));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Locked);
    let list = backups.list();
    assert_eq!(list.iter().map(|info| info.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let restore = |backups: &BackupEngine, id: u32| {
        backups.restore(id, "/restored", &RestoreOptions::default().replace(true)).unwrap();
        rows_in("/restored", &simulated(&disk))
    };
    for id in [5, 1, 3] {
        assert_eq!(restore(&backups, id), rows_up_to(u64::from(id) * 200));
    }
    backups.delete(2).unwrap();
    backups.purge_old(2).unwrap();
    assert_eq!(backups.list().iter().map(|info| info.id).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(restore(&backups, 4), rows_up_to(800));
    assert_eq!(backups.verify(1).unwrap_err().kind(), ErrorKind::NotFound);
    backups.purge_old(0).unwrap();
    assert!(names(&disk, "/backups/shared_checksum").is_empty() && names(&disk, "/backups/private").is_empty());
    // Numbers begin anew where nothing is left to be mistaken for.
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    assert_eq!(backups.create(&db, &CreateBackupOptions::default()).unwrap().id, 1);
}

#[test]
fn a_table_is_copied_once() {
    let disk = SimDisk::new();
    let db = new_db(&disk);
    (1..=100).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    let mut backups = engine(&disk);
    let flushed = CreateBackupOptions::default().flush_before_backup(true);
    backups.create(&db, &flushed).unwrap();
    let first = names(&disk, "/backups/shared_checksum");
    let written = disk.env().io_stats().snapshot();
    backups.create(&db, &flushed).unwrap();
    assert_eq!(names(&disk, "/backups/shared_checksum"), first);
    let table_bytes = disk.env().io_stats().snapshot().since(&written).of_kind(siltstone_base::env::FileKind::Table);
    assert_eq!(table_bytes.written_bytes, 0);
}

#[test]
fn a_damaged_backup_is_refused_before_anything_is_overwritten() {
    let disk = SimDisk::new();
    let db = new_db(&disk);
    (1..=300).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    db.flush(&FlushOptions::default()).unwrap();
    (301..=320).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    let mut backups = engine(&disk);
    backups.create(&db, &CreateBackupOptions::default()).unwrap();
    db.put("later", "1").unwrap();
    let now = rows(&db);
    let replace = RestoreOptions::default().replace(true);
    assert_eq!(backups.restore(1, "/db", &replace).unwrap_err().kind(), ErrorKind::Locked);
    db.close().unwrap();
    assert_eq!(backups.restore(1, "/db", &RestoreOptions::default()).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let mut files: Vec<_> =
        names(&disk, "/backups/private/1").into_iter().map(|name| format!("/backups/private/1/{name}")).collect();
    let shared = names(&disk, "/backups/shared_checksum");
    files.extend(shared.into_iter().map(|name| format!("/backups/shared_checksum/{name}")));
    assert!(files.len() > 4, "{files:?}");
    let before = names(&disk, "/db");
    for file in &files {
        let len = disk.env().file_len(Path::new(file)).unwrap();
        for offset in [0, len / 2, len - 1] {
            disk.flip(Path::new(file), offset, 0x10).unwrap();
            assert_eq!(backups.verify(1).unwrap_err().file(), Some(Path::new(file)));
            assert_eq!(backups.restore(1, "/db", &replace).unwrap_err().kind(), ErrorKind::Corruption);
            disk.flip(Path::new(file), offset, 0x10).unwrap();
        }
        let hidden = format!("{file}.hidden");
        disk.env().rename(Path::new(file), Path::new(&hidden)).unwrap();
        assert_eq!(backups.restore(1, "/db", &replace).unwrap_err().kind(), ErrorKind::MissingFile);
        disk.env().rename(Path::new(&hidden), Path::new(file)).unwrap();
        assert_eq!(names(&disk, "/db"), before);
    }
    assert_eq!(rows_in("/db", &simulated(&disk)), now);
    backups.restore(1, "/db", &replace).unwrap();
    assert_eq!(rows_in("/db", &simulated(&disk)), rows_up_to(320));
}

#[test]
fn a_list_that_cannot_be_read_takes_nothing_with_it() {
    let disk = SimDisk::new();
    let db = new_db(&disk);
    (1..=100).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    let flushed = CreateBackupOptions::default().flush_before_backup(true);
    let mut backups = engine(&disk);
    backups.create(&db, &flushed).unwrap();
    backups.create(&db, &flushed).unwrap();
    drop(backups);
    disk.flip(Path::new("/backups/meta/1"), 0, 0x40).unwrap();
    let mut backups = engine(&disk);
    assert_eq!(
        backups.damaged().iter().map(|(id, error)| (*id, error.kind())).collect::<Vec<_>>(),
        [(1, ErrorKind::Corruption)]
    );
    assert_eq!(backups.verify(1).unwrap_err().kind(), ErrorKind::Corruption);
    backups.delete(2).unwrap();
    drop(backups);
    disk.flip(Path::new("/backups/meta/1"), 0, 0x40).unwrap();
    let backups = engine(&disk);
    backups.restore(1, "/restored", &RestoreOptions::default()).unwrap();
    assert_eq!(rows_in("/restored", &simulated(&disk)), rows_up_to(100));
}

#[test]
fn backups_beside_a_writer_are_prefixes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), &small(DbOptions::default())).unwrap();
    let mut backups = BackupEngine::open(dir.path().join("backups"), &BackupEngineOptions::default()).unwrap();
    beside_a_writer(&db, || {
        let mut taken = 0;
        for round in 0..3 {
            wait_for(&db, taken + 600);
            let options = CreateBackupOptions::default().flush_before_backup(round % 2 == 1);
            taken = backups.create(&db, &options).unwrap().seqno;
        }
    });
    db.close().unwrap();
    for info in backups.list() {
        backups.restore(info.id, dir.path().join("db"), &RestoreOptions::default().replace(true)).unwrap();
        let found = rows_in(dir.path().join("db"), &small(DbOptions::default()));
        assert!(found == rows_up_to(info.seqno / 2), "backup {}", info.id);
    }
}

#[test]
fn every_crash_state_has_whole_backups_and_restores() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/backups")).unwrap();
    let db = new_db(&disk);
    (1..=20).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    db.flush(&FlushOptions::default()).unwrap();
    (21..=25).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    let mut backups = engine(&disk);
    disk.start_recording();
    let mut done = Vec::new();
    for (id, last) in [(1, 25), (2, 30)] {
        backups.create(&db, &CreateBackupOptions::default()).unwrap();
        done.push((id, disk.recorded(), last));
        (last + 1..=last + 5).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    }
    backups.restore(1, "/restored", &RestoreOptions::default()).unwrap();
    let restored = disk.recorded();
    backups.delete(1).unwrap();
    let deleting = disk.recorded();
    let recording = disk.take_recording();
    let config = CrashConfig { states_per_cut: 24, random_subsets: 8, ..CrashConfig::default() };
    let (mut states, mut whole) = (0, 0);
    for state in CrashStates::new(&recording, config) {
        let Some(after) = state.disk() else { continue };
        states += 1;
        let what = format!("cut {} ({:?}), {:?}", state.cut, state.op, state.model);
        match Db::open("/restored", &simulated(&after).create_if_missing(false)) {
            Ok(db) => assert!(rows(&db) == rows_up_to(25), "{what}: the restored database"),
            Err(error) => {
                assert!(state.cut < restored, "{what}: {error}");
                assert_eq!(error.kind(), ErrorKind::MissingFile, "{what}: {error}");
            }
        }
        let backups = engine(&after);
        assert!(backups.damaged().is_empty(), "{what}");
        for (id, recorded, last) in &done {
            if !backups.list().iter().any(|info| info.id == *id) {
                assert!(state.cut < *recorded || *id == 1 && state.cut > restored, "{what}: backup {id} is gone");
                continue;
            }
            backups
                .restore(*id, "/again", &RestoreOptions::default().replace(true))
                .unwrap_or_else(|error| panic!("{what}: backup {id}: {error}"));
            assert!(rows_in("/again", &simulated(&after)) == rows_up_to(*last), "{what}: backup {id}");
            whole += 1;
        }
    }
    assert!(deleting > restored && states > 100 && whole > 50, "{states} states, {whole} backups");
}

#[test]
fn a_newest_list_that_cannot_be_read_costs_no_older_backup() {
    let disk = SimDisk::new();
    let db = new_db(&disk);
    (1..=50).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    let mut backups = engine(&disk);
    for _ in 0..3 {
        backups.create(&db, &CreateBackupOptions::default()).unwrap();
    }
    drop(backups);
    disk.flip(Path::new("/backups/meta/3"), 0, 0x40).unwrap();
    let mut backups = engine(&disk);
    backups.purge_old(1).unwrap();
    assert_eq!(backups.list().iter().map(|backup| backup.id).collect::<Vec<_>>(), [2]);
    assert_eq!(backups.damaged().len(), 1);
    backups.restore(2, "/restored", &RestoreOptions::default()).unwrap();
    assert_eq!(rows_in("/restored", &simulated(&disk)), rows_up_to(50));
}
