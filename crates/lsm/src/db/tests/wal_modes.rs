//! What each recovery mode makes of WALs that are torn, damaged or gone, and what a promise adds.

use super::basics::options;
use crate::db::wal_note::parse_promise;
use crate::wal::WalWriter;
use crate::{
    ColumnFamilyOptions, Db, ErrorKind, FlushOptions, TransactionDb, TransactionDbOptions, TransactionOptions,
    WalRecoveryMode, WriteBatch, WriteOptions,
};
use siltstone_base::coding::{put_length_prefixed, put_varint64};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority, read_file, write_file_atomically};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";

const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::TolerateCorruptedTailRecords,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::PointInTime,
    WalRecoveryMode::SkipAnyCorruptedRecords,
];

/// The WALs of a directory, oldest first.
fn wals(disk: &SimDisk) -> Vec<PathBuf> {
    let entries = disk.env().list_dir(Path::new(DIR)).unwrap();
    let mut paths: Vec<_> = entries
        .into_iter()
        .map(|entry| Path::new(DIR).join(entry.name))
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    paths.sort();
    paths
}

fn bytes(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let env: Arc<dyn Env> = disk.env();
    read_file(&*env, path, FileKind::Wal, 1 << 30).unwrap()
}

fn replace(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    write_file_atomically(&*disk.env(), path, Path::new("/db/replacement"), bytes, FileKind::Wal).unwrap();
}

/// Where the value `text` stands in a WAL.
fn find(bytes: &[u8], text: &str) -> u64 {
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap() as u64
}

fn keys(db: &Db) -> String {
    let mut iter = db.iter(&Default::default()).unwrap();
    let mut keys = String::new();
    iter.seek_to_first();
    while iter.valid() {
        keys.push_str(std::str::from_utf8(iter.key()).unwrap());
        iter.next();
    }
    keys
}

/// What opening a copy of the disk in each mode comes to: the keys, or the error.
fn outcomes(disk: &SimDisk) -> [String; 4] {
    MODES.map(|mode| {
        let disk = disk.after_process_death();
        match Db::open(DIR, &options(&disk).wal_recovery_mode(mode)) {
            Ok(db) => keys(&db),
            Err(error) => {
                let of_wal = error.file().is_some_and(|file| wals(&disk).iter().any(|path| path == file));
                assert!(of_wal && error.offset().is_some(), "{error}");
                format!("{:?}", error.kind())
            }
        }
    })
}

/// Writes one key a letter, synced where it is upper case, and dies. `|` switches the WAL.
fn written(script: &str) -> SimDisk {
    let disk = SimDisk::new();
    let idle = ColumnFamilyOptions::default().disable_auto_compactions(true);
    let db = Db::open_families(DIR, &options(&disk), &[("default", idle)]).unwrap();
    for letter in script.chars() {
        if letter == '|' {
            let mut leader = db.handle.inner.lock_write_side();
            db.handle.inner.rotate_wal(&mut leader.side).unwrap();
            continue;
        }
        let write = WriteOptions::default().sync(letter.is_uppercase());
        let key = letter.to_ascii_lowercase().to_string();
        db.put_cf(&db.default_family(), &key, format!("value-of-{key}"), &write).unwrap();
    }
    let left = disk.after_process_death();
    drop(db);
    left
}

/// Flips a bit of the value of `key`, wherever it is.
fn rot(disk: &SimDisk, key: char) {
    let text = format!("value-of-{key}");
    for path in wals(disk) {
        let bytes = bytes(disk, &path);
        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
            disk.flip(&path, find(&bytes, &text), 1).unwrap();
            return;
        }
    }
    panic!("{key} is in no WAL");
}

/// Cuts the newest WAL within the record of `key`.
fn tear(disk: &SimDisk, key: char) {
    let path = wals(disk).pop().unwrap();
    let whole = bytes(disk, &path);
    replace(disk, &path, &whole[..find(&whole, &format!("value-of-{key}")) as usize + 3]);
}

#[test]
fn every_mode_reads_what_is_whole() {
    for script in ["abc", "ABC", "aBc", "ab|cd", "aB|Cd"] {
        let all: String = script.to_lowercase().replace('|', "");
        assert_eq!(outcomes(&written(script)), [all.as_str(); 4], "{script}");
    }
}

#[test]
fn a_torn_end_is_what_a_crash_leaves() {
    for script in ["abcd", "ABCD", "ABcd"] {
        let disk = written(script);
        tear(&disk, 'd');
        assert_eq!(outcomes(&disk), ["abc", "Corruption", "abc", "abc"], "{script}");
    }
    // Also where it takes promises with it: nothing is left that vouches for what is gone.
    let disk = written("ABCD");
    tear(&disk, 'b');
    assert_eq!(outcomes(&disk), ["a", "Corruption", "a", "a"]);
}

#[test]
fn damage_of_what_was_never_promised_ends_the_replay() {
    let disk = written("abcd");
    rot(&disk, 'b');
    assert_eq!(outcomes(&disk), ["Corruption", "Corruption", "a", "acd"]);
    // The last group cannot be told from a torn write, synced or not.
    let disk = written("ABCD");
    rot(&disk, 'd');
    assert_eq!(outcomes(&disk), ["Corruption", "Corruption", "abc", "abc"]);
}

/// What is done in a family after its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Nothing,
    Put,
    Prepare,
}

/// The disk of a process that died behind that, and lost a bit of the last edit of the MANIFEST, which created the family `other`; and that MANIFEST.
fn with_rotten_creation(done: Done) -> (SimDisk, PathBuf) {
    let disk = SimDisk::new();
    let db = TransactionDb::open(DIR, &options(&disk), &[], &TransactionDbOptions::default()).unwrap();
    let other = db.db().create_family("other", &ColumnFamilyOptions::default()).unwrap();
    let sync = WriteOptions::default().sync(true);
    match done {
        Done::Nothing => {}
        Done::Put => {
            let mut batch = WriteBatch::new();
            batch.put_cf(&other, "k", "v");
            db.db().write(&mut batch, &sync).unwrap();
        }
        Done::Prepare => {
            let mut transaction = db.begin(&TransactionOptions::default());
            transaction.put_cf(&other, "k", "v").unwrap();
            transaction.prepare("name").unwrap();
            db.db().sync_wal().unwrap();
        }
    }
    let disk = disk.after_process_death();
    let names = disk.env().list_dir(Path::new(DIR)).unwrap();
    let manifest = names.into_iter().map(|entry| entry.name).filter(|name| name.starts_with("MANIFEST-")).max();
    let manifest = Path::new(DIR).join(manifest.unwrap());
    let mut damaged = bytes(&disk, &manifest);
    *damaged.last_mut().unwrap() ^= 1;
    replace(&disk, &manifest, &damaged);
    (disk, manifest)
}

/// The MANIFEST may have lost its last edit to a torn write, which nobody was promised. Not where a WAL has rows of the family that it created.
#[test]
fn a_family_whose_creation_rotted_is_not_forgotten_with_its_rows() {
    let (disk, _) = with_rotten_creation(Done::Nothing);
    assert_eq!(Db::list_column_families(DIR, &options(&disk)).unwrap(), ["default"]);
    Db::open(DIR, &options(&disk)).unwrap().close().unwrap();
    let named = [("other", ColumnFamilyOptions::default())];
    for done in [Done::Put, Done::Prepare] {
        let (disk, manifest) = with_rotten_creation(done);
        let create = options(&disk).create_missing_column_families(true);
        let transactions = TransactionDbOptions::default();
        let errors = [
            Db::open(DIR, &options(&disk)).err(),
            Db::open_families(DIR, &create, &named).err(),
            Db::open_read_only(DIR, &options(&disk), &[]).err(),
            TransactionDb::open(DIR, &create, &named, &transactions).err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&*manifest)), "{done:?}: {error}");
        }
        let skipping = options(&disk).wal_recovery_mode(WalRecoveryMode::SkipAnyCorruptedRecords);
        TransactionDb::open(DIR, &skipping, &[], &transactions).unwrap().close().unwrap();
    }
}

#[test]
fn damage_before_a_promise_is_corruption() {
    for script in ["ABCD", "aBcd", "abCd"] {
        for key in ['a', 'b'] {
            let disk = written(script);
            rot(&disk, key);
            let saved: String = "abcd".chars().filter(|other| *other != key).collect();
            assert_eq!(outcomes(&disk), ["Corruption", "Corruption", "Corruption", saved.as_str()], "{script} {key}");
        }
    }
    // File and offset are those of the damage.
    let disk = written("ABCD");
    let path = wals(&disk).pop().unwrap();
    let at = find(&bytes(&disk, &path), "value-of-c");
    rot(&disk, 'c');
    let error = Db::open(DIR, &options(&disk)).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(path.as_path())));
    assert!(error.offset().is_some_and(|offset| offset < at && at - offset < 100), "{error} {at}");
}

#[test]
fn a_promise_reaches_over_wals() {
    // What is synced later covers the WALs before.
    for script in ["ab|Cd", "ab|c|Dd"] {
        let disk = written(script);
        rot(&disk, 'a');
        let outcomes = outcomes(&disk);
        assert_eq!(outcomes[..3], ["Corruption"; 3], "{script}");
        assert_eq!(outcomes[3].chars().next(), Some('b'), "{script}");
    }
    // Without a sync nothing is promised: replay ends before the damage, also for the WAL behind.
    let disk = written("ab|cd");
    rot(&disk, 'b');
    assert_eq!(outcomes(&disk), ["Corruption", "Corruption", "a", "acd"]);
    // What a closed WAL lacks at its end is known from the next one.
    let disk = written("ab|cd");
    let path = wals(&disk).remove(0);
    let whole = bytes(&disk, &path);
    replace(&disk, &path, &whole[..whole.len() - 3]);
    assert_eq!(outcomes(&disk), ["Corruption", "Corruption", "a", "acd"]);
}

#[test]
fn a_background_sync_promises_too() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, &options(&disk)).unwrap();
    db.put("a", "value-of-a").unwrap();
    db.put("b", "value-of-b").unwrap();
    db.sync_wal().unwrap();
    db.put("c", "value-of-c").unwrap();
    db.put("d", "value-of-d").unwrap();
    let left = disk.after_process_death();
    drop(db);
    rot(&left, 'd');
    assert_eq!(outcomes(&left)[2], "abc", "behind the promise");
    rot(&left, 'a');
    assert_eq!(outcomes(&left)[2], "Corruption");
}

#[test]
fn promises_are_made_once_and_cost_nothing_without_syncs() {
    let count = |script: &str| {
        let disk = written(script);
        let path = wals(&disk).pop().unwrap();
        bytes(&disk, &path).windows(8).filter(|window| *window == b"SLTSYNC1").count()
    };
    assert_eq!(count("abcdef"), 0);
    assert_eq!(count("aBcdef"), 1);
    assert_eq!(count("ABCDEF"), 5);
}

#[test]
fn a_promise_of_another_database_is_none() {
    let mut record = Vec::new();
    let point = crate::db::wal_note::LogPoint { number: 7, offset: 99 };
    crate::db::wal_note::append_promise(&mut record, "one", point);
    let blob = &record[2..];
    assert_eq!(parse_promise(blob, "one"), Some(point));
    assert_eq!(parse_promise(blob, "two"), None);
    for cut in 0..blob.len() {
        assert_eq!(parse_promise(&blob[..cut], "one"), None);
    }
    assert_eq!(parse_promise(&[blob, b"x"].concat(), "one"), None);
}

/// Lets the MANIFEST say, as RocksDB's does on request, how much of a WAL was synced.
fn state_synced(disk: &SimDisk, wal: &Path, bytes: u64) {
    let current = read_file(&*disk.env(), &Path::new(DIR).join("CURRENT"), FileKind::Manifest, 100).unwrap();
    let path = Path::new(DIR).join(std::str::from_utf8(&current).unwrap().trim());
    let number = wal.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let mut addition = Vec::new();
    put_varint64(&mut addition, number);
    addition.push(2);
    put_varint64(&mut addition, bytes);
    addition.push(1);
    let mut edit = Vec::new();
    put_varint64(&mut edit, 8199);
    put_length_prefixed(&mut edit, &addition);
    let file = disk.env().open_append(&path, &FileOptions::new(FileKind::Manifest)).unwrap();
    let mut writer = WalWriter::new(file, path, 0, IoContext::new(FileKind::Manifest, IoPriority::User));
    writer.add_record(&[&edit]).unwrap();
    writer.finish().unwrap();
}

#[test]
fn what_the_manifest_says_was_synced_is_no_torn_tail() {
    let synced = |change: &dyn Fn(&SimDisk)| {
        let disk = written("abcd");
        let wal = wals(&disk).pop().unwrap();
        let end = find(&bytes(&disk, &wal), "value-of-c") + 10;
        state_synced(&disk, &wal, end);
        change(&disk);
        disk
    };
    assert_eq!(outcomes(&synced(&|_| {})), ["abcd"; 4]);
    assert_eq!(outcomes(&synced(&|disk| rot(disk, 'b'))), ["Corruption", "Corruption", "Corruption", "acd"]);
    assert_eq!(outcomes(&synced(&|disk| tear(disk, 'b'))), ["Corruption", "Corruption", "Corruption", "a"]);
    assert_eq!(outcomes(&synced(&|disk| tear(disk, 'd'))), ["abc", "Corruption", "abc", "abc"]);
    // Cut between two records, and gone.
    let disk = synced(&|disk| {
        let wal = wals(disk).pop().unwrap();
        let whole = bytes(disk, &wal);
        let end = find(&whole, "value-of-a") as usize + 10;
        replace(disk, &wal, &whole[..end]);
    });
    assert_eq!(outcomes(&disk), ["Corruption", "Corruption", "Corruption", "a"]);
    let disk = synced(&|disk| disk.env().remove_file(&wals(disk).pop().unwrap()).unwrap());
    assert_eq!(Db::open(DIR, &options(&disk)).unwrap_err().kind(), ErrorKind::MissingFile);
    let saved = options(&disk).wal_recovery_mode(WalRecoveryMode::SkipAnyCorruptedRecords);
    assert_eq!(keys(&Db::open(DIR, &saved).unwrap()), "");
}

/// Tables that are ahead of a damaged WAL are damage in every mode but one.
#[test]
fn families_never_come_from_different_moments() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, &options(&disk)).unwrap();
    let other = db.create_family("other", &ColumnFamilyOptions::default()).unwrap();
    db.put("a", "value-of-a").unwrap();
    db.put_cf(&other, "x", "y", &WriteOptions::default()).unwrap();
    db.flush_families(&[&other], &FlushOptions::default()).unwrap();
    db.put("b", "value-of-b").unwrap();
    let left = disk.after_process_death();
    drop(db);
    rot(&left, 'a');
    assert_eq!(outcomes(&left), ["Corruption", "Corruption", "Corruption", "b"]);
}
