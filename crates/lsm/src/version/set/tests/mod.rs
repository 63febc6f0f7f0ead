//! Tests of the version set on the operating system's file system.

#![expect(clippy::disallowed_methods, reason = "tests damage files behind the back of the environment")]

mod faults;

use super::*;
use crate::file_meta::FileMetaData;
use crate::file_names::FileName;
use crate::key::{InternalKey, ValueType};
use siltstone_base::comparator::{Bytewise, Comparator, ReverseBytewise};
use siltstone_base::env::{FileKind, PosixEnv, read_file};
use std::path::Path;

fn config(dir: &Path) -> VersionSetConfig {
    VersionSetConfig {
        env: Arc::new(PosixEnv::new()),
        dir: dir.to_path_buf(),
        max_manifest_file_size: 1 << 20,
        obsolete_tables: Arc::new(ObsoleteTables::new()),
        metrics: None,
    }
}

fn family_config(comparator: impl Comparator + 'static) -> FamilyConfig {
    FamilyConfig { comparator: Arc::new(comparator), num_levels: 7 }
}

fn recover(dir: &Path) -> Result<VersionSet> {
    VersionSet::recover(config(dir), &|_| Some(family_config(Bytewise)))
}

fn create(dir: &Path) -> VersionSet {
    VersionSet::create_new(config(dir), &family_config(Bytewise), Some("an-id".to_owned())).unwrap()
}

fn file(number: u64, key: &str) -> FileMetaData {
    FileMetaData {
        number,
        file_size: 1000,
        smallest: InternalKey::new(key.as_bytes(), number, ValueType::Put),
        largest: InternalKey::new(key.as_bytes(), number, ValueType::Put),
        smallest_seqno: number,
        largest_seqno: number,
        ..FileMetaData::default()
    }
}

fn add(set: &mut VersionSet, family: u32, level: usize, key: &str) -> u64 {
    let number = set.file_numbers().allocate();
    let mut edit = VersionEdit::new(ColumnFamilyId(family));
    edit.add_file(level, file(number, key));
    set.log_and_apply(&mut [edit]).unwrap();
    number
}

/// Everything that a recovered set must agree on with the one before.
fn describe(set: &VersionSet) -> Vec<String> {
    let mut lines = vec![format!("{:?} last {}", set.counters.db_id, set.last_sequence())];
    for family in set.families() {
        lines.push(format!("{} {} log {}", family.id.0, family.name, family.log_number));
        lines.extend(family.current.all_files().map(|(level, file)| format!("{level}: {:?}", file.data())));
    }
    lines
}

fn current(dir: &Path) -> String {
    let path = FileName::Current.path(dir);
    String::from_utf8(read_file(&PosixEnv::new(), &path, FileKind::Manifest, 100).unwrap()).unwrap()
}

#[test]
fn a_new_database_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let set = create(dir.path());
    assert_eq!(current(dir.path()), "MANIFEST-000001\n");
    assert_eq!((set.manifest_number(), set.file_numbers().next()), (1, 2));
    let recovered = recover(dir.path()).unwrap();
    assert_eq!(describe(&recovered), describe(&set));
    assert_eq!(recovered.file_numbers().next(), 2);
    assert_eq!(list_families(&config(dir.path())).unwrap(), ["default"]);
}

#[test]
fn edits_survive_and_an_open_for_writing_starts_a_new_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = create(dir.path());
    let first = add(&mut set, 0, 0, "a");
    let second = add(&mut set, 0, 0, "b");
    let third = add(&mut set, 0, 3, "c");
    let version = set.families[&ColumnFamilyId(0)].current();
    assert_eq!(version.files(0).iter().map(|file| file.number).collect::<Vec<_>>(), [second, first]);
    assert_eq!(set.last_sequence(), third);
    let mut again = recover(dir.path()).unwrap();
    assert_eq!(describe(&again), describe(&set));
    assert_eq!(current(dir.path()), "MANIFEST-000001\n", "recovery writes nothing");
    let mut edit = VersionEdit { log_number: Some(17), min_log_number_to_keep: Some(17), ..VersionEdit::default() };
    edit.delete_file(0, first);
    again.log_and_apply(&mut [edit]).unwrap();
    assert_eq!(current(dir.path()), format!("MANIFEST-{:06}\n", again.manifest_number()));
    assert_ne!(again.manifest_number(), 1);
    assert_eq!(again.min_log_number_to_keep(), 17);
    let third = recover(dir.path()).unwrap();
    assert_eq!(describe(&third), describe(&again));
    assert_eq!(third.min_log_number_to_keep(), 17);
    assert!(third.file_numbers().next() >= again.file_numbers().next());
}

#[test]
fn families_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = create(dir.path());
    let meta = set.create_family("meta", &family_config(Bytewise), 5).unwrap();
    let index = set.create_family("index", &family_config(ReverseBytewise), 6).unwrap();
    assert_eq!((meta.0, index.0), (1, 2));
    assert_eq!(set.create_family("meta", &family_config(Bytewise), 5).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let in_index = add(&mut set, 2, 0, "x");
    let open = |record: FamilyRecord<'_>| {
        assert_eq!(record.levels, usize::from(record.name == "index"));
        Some(if record.name == "index" { family_config(ReverseBytewise) } else { family_config(Bytewise) })
    };
    let recovered = VersionSet::recover(config(dir.path()), &open).unwrap();
    assert_eq!(describe(&recovered), describe(&set));
    assert_eq!(list_families(&config(dir.path())).unwrap(), ["default", "meta", "index"]);

    let error = recover(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.message(),
        "comparator: column family index was created with rocksdb.ReverseBytewiseComparator, \
         not with leveldb.BytewiseComparator"
    );
    let only_default = |record: FamilyRecord<'_>| (record.name == "default").then(|| family_config(Bytewise));
    let error = VersionSet::recover(config(dir.path()), &only_default).unwrap_err();
    assert_eq!(error.message(), "column family meta exists and was not named at open");

    set.drop_family(index, 9).unwrap();
    assert_eq!(set.config.obsolete_tables.pop(), Some(FileName::Table(in_index)));
    assert_eq!(set.drop_family(index, 9).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(set.drop_family(ColumnFamilyId(0), 9).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut again = recover(dir.path()).unwrap();
    assert_eq!(list_families(&config(dir.path())).unwrap(), ["default", "meta"]);
    // The number of a dropped family never comes back, and dropping works as the first edit of a MANIFEST.
    assert_eq!(again.create_family("third", &family_config(Bytewise), 9).unwrap().0, 3);
    let mut again = recover(dir.path()).unwrap();
    again.drop_family(meta, 9).unwrap();
    assert_eq!(recover(dir.path()).unwrap().families().map(Family::name).collect::<Vec<_>>(), ["default", "third"]);
}

#[test]
fn only_an_edit_that_says_so_lets_a_log_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = create(dir.path());
    let meta = set.create_family("meta", &family_config(Bytewise), 5).unwrap();
    let edit = |id| VersionEdit { log_number: Some(30), ..VersionEdit::new(id) };
    let mut said = VersionEdit { min_log_number_to_keep: Some(7), ..edit(ColumnFamilyId(0)) };
    set.log_and_apply(&mut [said.clone(), edit(meta)]).unwrap();
    // What was prepared is in WAL 7, which no family needs: neither of these may forget that.
    set.log_and_apply(&mut [edit(ColumnFamilyId(0))]).unwrap();
    set.write_new_manifest(&mut []).unwrap();
    set.drop_family(meta, 7).unwrap();
    assert_eq!(set.min_log_number_to_keep(), 7);
    assert_eq!(recover(dir.path()).unwrap().min_log_number_to_keep(), 7);
    said.min_log_number_to_keep = Some(30);
    set.log_and_apply(&mut [said]).unwrap();
    assert_eq!(recover(dir.path()).unwrap().min_log_number_to_keep(), 30);
}

#[test]
fn a_manifest_that_reached_its_size_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let mut small = config(dir.path());
    small.max_manifest_file_size = 1000;
    let mut set = VersionSet::create_new(small, &family_config(Bytewise), None).unwrap();
    for number in 0..50 {
        add(&mut set, 0, 1, &format!("{number:03}"));
    }
    assert!(set.manifest_number() > 1);
    assert_eq!(describe(&recover(dir.path()).unwrap()), describe(&set));
}

#[test]
fn several_edits_count_as_a_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = create(dir.path());
    let meta = set.create_family("meta", &family_config(Bytewise), 5).unwrap();
    let before = describe(&set);
    let path = FileName::Manifest(set.manifest_number()).path(dir.path());
    let without_group = std::fs::metadata(&path).unwrap().len();
    let mut edits = [VersionEdit::new(ColumnFamilyId(0)), VersionEdit::new(meta), VersionEdit::new(meta)];
    for (index, edit) in edits.iter_mut().enumerate() {
        edit.add_file(0, file(90 + index as u64, "k"));
        edit.log_number = Some(70 + index as u64);
        edit.min_log_number_to_keep = (index == 0).then_some(70);
    }
    let installed = set.log_and_apply(&mut edits).unwrap();
    assert_eq!(
        installed.iter().map(|(id, version)| (id.0, version.all_files().count())).collect::<Vec<_>>(),
        [(0, 1), (1, 2)]
    );
    assert_eq!(edits.map(|edit| edit.atomic_group_remaining), [Some(2), Some(1), Some(0)]);
    assert_eq!(set.min_log_number_to_keep(), 70);
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(describe(&recover(dir.path()).unwrap()), describe(&set));
    for len in without_group as usize..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert_eq!(describe(&recover(dir.path()).unwrap()), before, "{len} of {} bytes", whole.len());
    }
}

#[test]
fn an_edit_that_does_not_fit_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = create(dir.path());
    add(&mut set, 0, 1, "a");
    let before = describe(&set);
    let mut fits = VersionEdit::default();
    fits.add_file(1, file(8, "b"));
    let mut does_not = VersionEdit::default();
    does_not.delete_file(3, 99);
    assert_eq!(set.log_and_apply(&mut [fits, does_not]).unwrap_err().kind(), ErrorKind::Corruption);
    let unknown = VersionEdit::new(ColumnFamilyId(44));
    assert_eq!(set.log_and_apply(&mut [unknown]).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!set.is_manifest_broken());
    assert_eq!((describe(&set), describe(&recover(dir.path()).unwrap())), (before.clone(), before));
}

/// What a recovery comes to: the description of the set, or nothing for corruption of `path`.
fn recovered(dir: &Path, path: &Path) -> Option<Vec<String>> {
    match recover(dir) {
        Ok(set) => Some(describe(&set)),
        Err(error) => {
            assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(path)), "{error}");
            None
        }
    }
}

#[test]
fn every_flipped_bit_of_a_manifest_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = create(dir.path());
    let path = FileName::Manifest(1).path(dir.path());
    let table = add(&mut set, 0, 1, "a");
    std::fs::write(FileName::Table(table).path(dir.path()), [0; 1000]).unwrap();
    let before_last = std::fs::metadata(&path).unwrap().len() as usize;
    let before = describe(&set);
    add(&mut set, 0, 1, "b");
    let whole = std::fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &damaged).unwrap();
        let found = recovered(dir.path(), &path);
        if bit / 8 < before_last {
            assert_eq!(found, None, "bit {bit}");
        } else {
            // The last edit may just as well have been torn by a crash, and nothing is missing without it.
            assert!(found.is_none_or(|found| found == before), "bit {bit}");
        }
    }
}

#[test]
fn a_damaged_last_edit_is_not_dropped_if_something_is_missing_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = create(dir.path());
    let path = FileName::Manifest(1).path(dir.path());
    let mut flushed = VersionEdit { log_number: Some(5), min_log_number_to_keep: Some(5), ..VersionEdit::default() };
    flushed.add_file(1, file(7, "a"));
    set.log_and_apply(&mut [flushed]).unwrap();
    let before = describe(&set);
    let before_last = std::fs::metadata(&path).unwrap().len();
    let mut last = VersionEdit { log_number: Some(8), min_log_number_to_keep: Some(8), ..VersionEdit::default() };
    last.add_file(0, file(9, "a"));
    set.log_and_apply(&mut [last]).unwrap();
    let mut damaged = std::fs::read(&path).unwrap();
    damaged[before_last as usize + 20] ^= 1;
    std::fs::write(&path, &damaged).unwrap();

    // A table of the state before is gone.
    assert_eq!(recovered(dir.path(), &path), None);
    std::fs::write(FileName::Table(7).path(dir.path()), [0; 1000]).unwrap();
    assert_eq!(recovered(dir.path(), &path).as_ref(), Some(&before));
    std::fs::write(FileName::Table(7).path(dir.path()), [0; 999]).unwrap();
    assert_eq!(recovered(dir.path(), &path), None);
    std::fs::rename(FileName::Table(7).path(dir.path()), dir.path().join("unknown")).unwrap();
    std::fs::write(FileName::LegacyTable(7).path(dir.path()), [0; 1000]).unwrap();
    assert_eq!(recovered(dir.path(), &path).as_ref(), Some(&before));

    // Its WAL is gone, and what was flushed from it is there.
    std::fs::write(FileName::Wal(8).path(dir.path()), b"").unwrap();
    assert_eq!(recovered(dir.path(), &path).as_ref(), Some(&before));
    std::fs::write(FileName::Table(9).path(dir.path()), b"").unwrap();
    assert_eq!(recovered(dir.path(), &path), None);
    std::fs::write(FileName::Wal(5).path(dir.path()), b"").unwrap();
    assert_eq!(recovered(dir.path(), &path).as_ref(), Some(&before));
}

#[test]
fn garbage_in_current_is_corruption() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let path = FileName::Current.path(dir.path());
    for content in
        ["", "MANIFEST-000001", "MANIFEST-x\n", "../MANIFEST-000001\n", "000001.log\n", "\u{0}\n", &"M".repeat(70)]
    {
        std::fs::write(&path, content).unwrap();
        let error = recover(dir.path()).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&*path)), "{content:?}");
    }
    std::fs::write(&path, "MANIFEST-000077\n").unwrap();
    let error = recover(dir.path()).unwrap_err();
    assert_eq!((error.kind(), error.file(), error.offset()), (ErrorKind::MissingFile, Some(&*path), Some(0)));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(recover(dir.path()).unwrap_err().kind(), ErrorKind::MissingFile);
}

#[test]
fn a_number_of_a_file_on_disk_is_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    std::fs::write(dir.path().join("000044.sst"), b"an output whose edit may come back").unwrap();
    std::fs::write(dir.path().join("18446744073709551615.sst"), b"not ours").unwrap();
    assert_eq!(recover(dir.path()).unwrap().file_numbers().next(), 45);
}

/// Each edit was small that named them; what begins the next MANIFEST names them all, and a compaction may name many.
#[test]
fn a_database_of_many_tables_with_long_keys_opens_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = create(dir.path());
    let key = |number: u64| format!("{number:08}{}", "k".repeat(60 << 10));
    let mut numbers = 1..=200_u64;
    for count in [1, 3, 16, 180] {
        let mut edit = VersionEdit::default();
        for number in numbers.by_ref().take(count) {
            set.file_numbers().allocate();
            edit.add_file(6, file(number + 10, &key(number)));
        }
        set.log_and_apply(&mut [edit]).unwrap();
    }
    let same = |one: &VersionSet, other: &VersionSet| {
        let of = |set: &VersionSet| {
            let family = &set.families[&ColumnFamilyId(0)];
            family.current.all_files().map(|(level, file)| (level, file.data())).collect::<Vec<_>>()
        };
        of(one) == of(other)
    };
    let mut recovered = recover(dir.path()).unwrap();
    assert!(same(&recovered, &set));
    recovered.write_new_manifest(&mut []).unwrap();
    let again = recover(dir.path()).unwrap();
    assert!(same(&again, &set) && again.manifest_number() > set.manifest_number());
}
