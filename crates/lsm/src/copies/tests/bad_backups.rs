//! Backups that contradict themselves, directories that have other things in them, and backups that were never ended.

use super::*;
use crate::{
    BackupEngine, BackupEngineOptions, CreateBackupOptions, Error, ErrorKind, FileChecksum, FlushOptions,
    IngestExternalFileOptions, RestoreOptions, SstFileWriter,
};
use siltstone_base::checksum::crc32c;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter};
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority, read_file};

fn engine(disk: &SimDisk) -> BackupEngine {
    BackupEngine::open("/backups", &BackupEngineOptions::default().env(Some(disk.env()))).unwrap()
}

fn filled(disk: &SimDisk, options: DbOptions, last: u64) -> Db {
    let db = Db::open("/db", &options.env(Some(disk.env()))).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    (1..=last).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    db.flush(&FlushOptions::default()).unwrap();
    db
}

fn write(disk: &SimDisk, path: &str, bytes: &[u8]) {
    let mut file = disk.env().create_append(Path::new(path), &FileOptions::new(FileKind::Other)).unwrap();
    file.append(bytes, IoContext::new(FileKind::Other, IoPriority::Low)).unwrap();
    file.finish().unwrap();
}

fn read(disk: &SimDisk, path: &str) -> String {
    let bytes = read_file(&*disk.env(), Path::new(path), FileKind::Other, 1 << 20).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn names(disk: &SimDisk, dir: &str) -> Vec<String> {
    disk.env().list_dir(Path::new(dir)).unwrap().into_iter().map(|entry| entry.name).collect()
}

/// The list with one more line, or with fewer.
fn edited(list: &str, edit: impl Fn(&mut Vec<String>)) -> String {
    let mut lines: Vec<String> = list.lines().map(str::to_owned).collect();
    edit(&mut lines);
    lines[2] = (lines.len() - 3).to_string();
    lines.join("\n") + "\n"
}

#[test]
fn a_list_that_contradicts_itself_costs_nobody_the_database_that_is_there() {
    let disk = SimDisk::new();
    let db = filled(&disk, simulated(&disk), 100);
    engine(&disk).create(&db, &CreateBackupOptions::default()).unwrap();
    db.close().unwrap();
    let list = read(&disk, "/backups/meta/1");
    let current = read(&disk, "/backups/private/1/CURRENT");
    let with_current = |text: &str| {
        let line = format!("private/1/CURRENT crc32 {}", crc32c(text.as_bytes()));
        edited(&list, |lines| {
            let place = lines.iter().position(|line| line.contains("CURRENT")).unwrap();
            lines[place].clone_from(&line);
        })
    };
    let table = list.lines().find(|line| line.contains(".sst")).unwrap();
    let (path, _) = table.split_once(' ').unwrap();
    let (stem, _) = path.rsplit_once("_s").unwrap();
    let twin = format!("{stem}_1_3.sst");
    write(&disk, &format!("/backups/{twin}"), b"abc");
    let twin = format!("{twin} crc32 {}", crc32c(b"abc"));
    let long = format!("{}{}\n", current.trim_end(), " ".repeat(80));
    let cases = [
        (with_current("MANIFEST-999999\n"), "MANIFEST-999999\n"),
        (with_current("no name\n"), "no name\n"),
        (with_current(&long), &*long),
        (edited(&list, |lines| lines.retain(|line| !line.contains("MANIFEST"))), &*current),
        (edited(&list, |lines| lines.retain(|line| !line.contains("CURRENT"))), &*current),
        (edited(&list, |lines| lines.push(twin.clone())), &*current),
    ];
    let replace = RestoreOptions::default().replace(true);
    for (list, current) in &cases {
        write(&disk, "/backups/meta/1", list.as_bytes());
        write(&disk, "/backups/private/1/CURRENT", current.as_bytes());
        let backups = engine(&disk);
        let error = backups.restore(1, "/db", &replace).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{list}: {error}");
        assert!(error.file().is_some(), "{list}: {error}");
        assert!(rows_in("/db", &simulated(&disk)) == rows_up_to(100), "{list}");
    }
    write(&disk, "/backups/meta/1", list.as_bytes());
    write(&disk, "/backups/private/1/CURRENT", current.as_bytes());
    engine(&disk).restore(1, "/db", &replace).unwrap();
    assert!(rows_in("/db", &simulated(&disk)) == rows_up_to(100));
}

#[test]
fn files_of_others_are_not_taken_for_garbage() {
    let disk = SimDisk::new();
    let db = filled(&disk, simulated(&disk), 100);
    engine(&disk).create(&db, &CreateBackupOptions::default()).unwrap();
    let theirs = [
        "/backups/meta/3.bak",
        "/backups/meta/007",
        "/backups/meta/notes/today",
        "/backups/private/readme",
        "/backups/private/07/000003.log",
        "/backups/private/12/letter",
        "/backups/shared_checksum/letter.sst",
        "/backups/shared_checksum/old/000003_1_2.sst",
    ];
    let left_behind = [
        "/backups/meta/.9.tmp",
        "/backups/meta/9.tmp",
        "/backups/private/12/000003.log",
        "/backups/shared_checksum/000009_sABC_10.sst",
        "/backups/shared_checksum/.000009_sABC_10.sst.tmp",
    ];
    for path in theirs.iter().chain(&left_behind) {
        disk.env().create_dir_all(Path::new(path).parent().unwrap()).unwrap();
        write(&disk, path, b"text");
    }
    let mut backups = engine(&disk);
    let is_there = |path: &&&str| disk.env().exists(Path::new(path)).unwrap();
    assert_eq!(theirs.iter().filter(|path| !is_there(path)).count(), 0);
    assert_eq!(left_behind.iter().filter(|path| is_there(path)).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert_eq!(backups.list().len(), 1);
    // Behind every directory that is a number.
    assert_eq!(backups.create(&db, &CreateBackupOptions::default()).unwrap().id, 13);
    backups.delete(1).unwrap();
    assert_eq!(theirs.iter().filter(|path| !is_there(path)).count(), 0);
    backups.verify(13).unwrap();
}

#[test]
fn a_backup_whose_list_may_come_back_keeps_its_files() {
    let disk = SimDisk::new();
    let db = filled(&disk, simulated(&disk), 100);
    let mut backups = engine(&disk);
    backups.create(&db, &CreateBackupOptions::default()).unwrap();
    (101..=200).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    db.flush(&FlushOptions::default()).unwrap();
    let syncs = OpFilter { class: Some(OpClass::SyncDir), ..OpFilter::default() };
    // That of the directory of lists, when the new one has its name, and the one that would take it back.
    disk.set_fault(FaultPlan::sticky(FaultKind::Io, 4).filter(syncs));
    backups.create(&db, &CreateBackupOptions::default()).unwrap_err();
    assert_eq!(disk.fault_hits().len(), 2);
    disk.clear_fault();
    assert_eq!(backups.damaged().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2]);
    let files = names(&disk, "/backups/private/2");
    let shared = names(&disk, "/backups/shared_checksum");
    backups.delete(1).unwrap();
    assert_eq!(names(&disk, "/backups/private/2"), files);
    assert_eq!(names(&disk, "/backups/shared_checksum"), shared, "what the list may need");
    assert_eq!(backups.create(&db, &CreateBackupOptions::default()).unwrap().id, 3);
    drop(backups);
    // It did not come back.
    let backups = engine(&disk);
    assert!(!disk.env().exists(Path::new("/backups/private/2")).unwrap());
    backups.restore(3, "/restored", &RestoreOptions::default()).unwrap();
    assert!(rows_in("/restored", &simulated(&disk)) == rows_up_to(200));
}

#[test]
fn tables_from_outside_are_told_apart_by_their_bytes() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let db = filled(&disk, simulated(&disk), 100);
    let mut writer = SstFileWriter::create("/in/a.sst", &simulated(&disk), &db.default_family().options()).unwrap();
    writer.put("z", "1").unwrap();
    writer.finish().unwrap();
    db.ingest_external_files(&db.default_family(), &["/in/a.sst"], &IngestExternalFileOptions::default()).unwrap();
    let mut backups = engine(&disk);
    backups.create(&db, &CreateBackupOptions::default()).unwrap();
    let shared = names(&disk, "/backups/shared_checksum");
    let by_bytes = shared.iter().filter(|name| !name.contains("_s")).count();
    assert_eq!((by_bytes, shared.len() > 1), (1, true), "{shared:?}");
    let before = shared.len();
    backups.create(&db, &CreateBackupOptions::default()).unwrap();
    assert_eq!(names(&disk, "/backups/shared_checksum").len(), before, "it is not copied again");
    backups.verify(2).unwrap();
}

#[test]
fn a_table_that_rotted_is_not_backed_up_as_if_it_were_sound() {
    let disk = SimDisk::new();
    let db = filled(&disk, simulated(&disk).file_checksum(FileChecksum::Crc32c), 100);
    let mut backups = engine(&disk);
    let table = names(&disk, "/db").into_iter().find(|name| name.ends_with(".sst")).unwrap();
    let table = format!("/db/{table}");
    disk.flip(Path::new(&table), 10, 1).unwrap();
    let error: Error = backups.create(&db, &CreateBackupOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(Path::new(&table))), "{error}");
    disk.flip(Path::new(&table), 10, 1).unwrap();
    let id = backups.create(&db, &CreateBackupOptions::default()).unwrap().id;
    backups.verify(id).unwrap();
}

#[test]
fn backups_may_be_in_another_environment_than_the_database() {
    let (disk, safe) = (SimDisk::new(), SimDisk::new());
    let db = filled(&disk, simulated(&disk), 100);
    let mut backups = engine(&safe);
    backups.create(&db, &CreateBackupOptions::default()).unwrap();
    assert!(!disk.env().exists(Path::new("/backups")).unwrap());
    backups.restore(1, "/restored", &RestoreOptions::default()).unwrap();
    assert!(rows_in("/restored", &simulated(&safe)) == rows_up_to(100));
}

#[test]
fn a_restored_backup_can_be_read_with_its_wals_by_whoever_may_only_read() {
    let disk = SimDisk::new();
    let db = filled(&disk, simulated(&disk), 100);
    (101..=120).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    let mut backups = engine(&disk);
    backups.create(&db, &CreateBackupOptions::default()).unwrap();
    backups.restore(1, "/restored", &RestoreOptions::default()).unwrap();
    assert!(!names(&disk, "/restored").contains(&"IDENTITY".to_owned()));
    let reader = Db::open_read_only("/restored", &simulated(&disk), &[]).unwrap();
    assert!(rows(&reader) == rows_up_to(120));
}

#[test]
fn a_table_from_outside_is_read_for_its_first_backup_alone() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let db = filled(&disk, simulated(&disk), 10);
    let mut writer = SstFileWriter::create("/in/a.sst", &simulated(&disk), &db.default_family().options()).unwrap();
    let mut random = 1_u64;
    for key in 0..2_000 {
        // What no codec makes smaller.
        let value: Vec<u8> = std::iter::repeat_with(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8
        })
        .take(500)
        .collect();
        writer.put(format!("z{key:05}"), value).unwrap();
    }
    writer.finish().unwrap();
    db.ingest_external_files(&db.default_family(), &["/in/a.sst"], &IngestExternalFileOptions::default()).unwrap();
    let read_by = |work: &mut dyn FnMut()| {
        let stats = |disk: &SimDisk| disk.env().io_stats().read_bytes(IoContext::new(FileKind::Table, IoPriority::Low));
        let before = stats(&disk);
        work();
        stats(&disk) - before
    };
    let mut backups = engine(&disk);
    let first = read_by(&mut || drop(backups.create(&db, &CreateBackupOptions::default()).unwrap()));
    assert!(first > 1_000_000, "{first}");
    drop(backups);
    let mut backups = engine(&disk);
    let second = read_by(&mut || drop(backups.create(&db, &CreateBackupOptions::default()).unwrap()));
    assert!(second < 100_000, "{second}");
    backups.verify(2).unwrap();
}

/// Whoever takes it for damaged deletes it.
#[test]
fn a_list_that_cannot_be_read_now_is_no_damage() {
    let disk = SimDisk::new();
    let db = filled(&disk, simulated(&disk), 100);
    let mut backups = engine(&disk);
    backups.create(&db, &CreateBackupOptions::default()).unwrap();
    drop(backups);
    let reads = OpFilter { class: Some(OpClass::Open), file: Some(FileKind::Other), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::Io, 0).filter(reads));
    let error = BackupEngine::open("/backups", &BackupEngineOptions::default().env(Some(disk.env()))).unwrap_err();
    assert_eq!((error.kind(), disk.fault_hits().len()), (ErrorKind::Io, 1), "{error}");
    disk.clear_fault();
    let backups = engine(&disk);
    assert!(backups.damaged().is_empty());
    backups.verify(1).unwrap();
}

/// A file under a name with other digits would be another file.
#[test]
fn names_with_other_digits_are_none_of_a_backup() {
    let disk = SimDisk::new();
    let db = filled(&disk, simulated(&disk), 100);
    let mut backups = engine(&disk);
    backups.create(&db, &CreateBackupOptions::default()).unwrap();
    drop((backups, db));
    let manifest = names(&disk, "/backups/private/1").into_iter().find(|name| name.starts_with("MANIFEST-")).unwrap();
    let short = format!("MANIFEST-{}", manifest.trim_start_matches("MANIFEST-").trim_start_matches('0'));
    let list = read(&disk, "/backups/meta/1");
    let edited = list.replace(&format!("private/1/{manifest} "), &format!("private/1/{short} "));
    assert_ne!(list, edited);
    let env = disk.env();
    let path = Path::new("/backups/private/1");
    env.rename(&path.join(&manifest), &path.join(&short)).unwrap();
    env.remove_file(Path::new("/backups/meta/1")).unwrap();
    write(&disk, "/backups/meta/1", edited.as_bytes());
    let backups = engine(&disk);
    let error = backups.restore(1, "/db", &RestoreOptions::default().replace(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(rows_in("/db", &simulated(&disk)) == rows_up_to(100), "nothing was touched");
}

/// Backups that are made every day share what is old: a disk may have lost it long ago.
#[test]
fn a_shared_table_that_rotted_is_found_before_somebody_needs_it() {
    let disk = SimDisk::new();
    let db = filled(&disk, simulated(&disk), 300);
    db.flush(&FlushOptions::default()).unwrap();
    let mut backups = engine(&disk);
    let verifying = CreateBackupOptions::default().verify_shared_files(true);
    backups.create(&db, &verifying).unwrap();
    backups.create(&db, &verifying).unwrap();
    let shared = names(&disk, "/backups/shared_checksum");
    let rotted = Path::new("/backups/shared_checksum").join(&shared[0]);
    disk.flip(&rotted, 100, 0x10).unwrap();
    let error = backups.create(&db, &verifying).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(rotted.as_path()));
    assert_eq!(backups.list().len(), 2);
    // Who does not read it shares it, and finds out by verifying.
    let third = backups.create(&db, &CreateBackupOptions::default()).unwrap().id;
    for id in [1, 2, third] {
        let error = backups.verify(id).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(rotted.as_path())));
        assert_eq!(
            backups.restore(id, "/restored", &RestoreOptions::default()).unwrap_err().kind(),
            ErrorKind::Corruption
        );
    }
    // Removed, it is copied again: all backups are whole.
    disk.env().remove_file(&rotted).unwrap();
    let fourth = backups.create(&db, &verifying).unwrap().id;
    for id in [1, 2, third, fourth] {
        backups.verify(id).unwrap();
    }
    backups.restore(1, "/restored", &RestoreOptions::default()).unwrap();
    assert_eq!(rows_in("/restored", &simulated(&disk)), rows_up_to(300));
}
