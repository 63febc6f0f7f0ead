//! A directory is opened with the merge operators that it was written with, or not at all.

use super::basics::options;
use crate::{
    AppendOperator, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, ErrorKind, FlushOptions, MaxOperator,
    MergeOperator, ReadOptions, Result,
};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, read_file, write_file_atomically};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DEFAULT: &str = "default";

fn plain() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().disable_auto_compactions(true)
}

fn merging(operator: impl MergeOperator + 'static) -> ColumnFamilyOptions {
    plain().merge_operator(Some(Arc::new(operator)))
}

fn open(disk: &SimDisk, family: &ColumnFamilyOptions) -> Result<Db> {
    Db::open_families("/db", &options(disk), &[(DEFAULT, family.clone())])
}

fn refusal(opened: Result<Db>) -> String {
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    error.message().to_owned()
}

fn value(db: &Db, key: &str) -> String {
    String::from_utf8(db.get(key).unwrap().unwrap().to_vec()).unwrap()
}

fn options_files(disk: &SimDisk) -> Vec<PathBuf> {
    let files = disk.env().list_dir(Path::new("/db")).unwrap();
    let names = files.into_iter().filter(|file| file.name.starts_with("OPTIONS-"));
    names.map(|file| Path::new("/db").join(file.name)).collect()
}

/// What is left of the OPTIONS files after something has happened to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Everything.
    All,
    /// What RocksDB knows, as after it has opened the directory.
    OfRocksDb,
    /// They are gone.
    Nothing,
}

fn reduce(disk: &SimDisk, said: Said) {
    for path in options_files(disk) {
        match said {
            Said::All => {}
            Said::Nothing => disk.env().remove_file(&path).unwrap(),
            Said::OfRocksDb => {
                let text = read_file(&*disk.env(), &path, FileKind::Other, 1 << 20).unwrap();
                let text = String::from_utf8(text).unwrap();
                let kept: Vec<_> = text.lines().filter(|line| !line.contains("siltstone.")).collect();
                let temporary = Path::new("/db/000000.dbtmp");
                let text = kept.join("\n");
                write_file_atomically(&*disk.env(), &path, temporary, text.as_bytes(), FileKind::Other).unwrap();
            }
        }
    }
}

/// A directory with operands, either in a table or in the WAL alone.
fn written(operator: &AppendOperator, is_flushed: bool, said: Said) -> SimDisk {
    let disk = SimDisk::new();
    let db = open(&disk, &merging(operator.clone())).unwrap();
    db.put("k", "1").unwrap();
    db.merge("k", "2").unwrap();
    if is_flushed {
        // The snapshot keeps the operand apart from the value.
        db.flush(&FlushOptions::default()).unwrap();
        db.merge("k", "3").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    } else {
        db.merge("k", "3").unwrap();
    }
    db.close().unwrap();
    reduce(&disk, said);
    disk
}

/// Values that one operator made of another one's operands would stay.
#[test]
fn operands_are_merged_by_no_other_operator_wherever_they_are() {
    for operator in [AppendOperator::new(","), AppendOperator::new(",").named("my own # operator")] {
        for is_flushed in [true, false] {
            for said in [Said::All, Said::OfRocksDb, Said::Nothing] {
                let what = format!("{}, flushed: {is_flushed}, said {said:?}", operator.name());
                let disk = written(&operator, is_flushed, said);
                // The text of this name is none that RocksDB's file can hold.
                let is_named =
                    said == Said::All || (said == Said::OfRocksDb && operator.name() == "StringAppendOperator");
                let name = match (is_named, operator.name()) {
                    (true, "my own # operator") => "my%20own%20%23%20operator",
                    (_, name) => name,
                };
                let message = refusal(open(&disk, &plain()));
                assert!(message.contains("opened with none"), "{what}: {message}");
                // RocksDB's OPTIONS do not count against who has none.
                assert!(message.contains(name) || !(is_flushed || said == Said::All), "{what}: {message}");
                // A WAL names nobody.
                if is_flushed || is_named {
                    let read_only = Db::open_read_only("/db", &options(&disk), &[(DEFAULT, merging(MaxOperator))]);
                    for opened in [open(&disk, &merging(MaxOperator)), read_only] {
                        let message = refusal(opened);
                        assert!(message.contains(name) && message.contains("MaxOperator"), "{what}: {message}");
                    }
                }
                let db = open(&disk, &merging(operator.clone())).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(value(&db, "k"), "1,2,3", "{what}");
            }
        }
    }
}

#[test]
fn who_says_so_gives_a_family_another_operator() {
    for said in [Said::All, Said::OfRocksDb, Said::Nothing] {
        let disk = written(&AppendOperator::new(","), true, said);
        let max = merging(MaxOperator);
        let allowed = max.clone().allow_other_merge_operator(true);
        let db = open(&disk, &allowed).unwrap();
        assert_eq!(value(&db, "k"), "3", "{said:?}");
        db.merge("k", "4").unwrap();
        db.close().unwrap();
        // Tables still have operands of the old one, and the WAL has some of the new one.
        assert!(refusal(open(&disk, &max)).contains("StringAppendOperator"), "{said:?}");
        assert!(refusal(open(&disk, &merging(AppendOperator::new(",")))).contains("MaxOperator"), "{said:?}");
        let db = open(&disk, &allowed).unwrap();
        let all = CompactRangeOptions::default().force_bottommost(true);
        db.compact_range(&db.default_family(), None, None, &all).unwrap();
        db.close().unwrap();
        let db = open(&disk, &max).unwrap();
        assert_eq!(value(&db, "k"), "4", "{said:?}");
        db.close().unwrap();
        assert!(refusal(open(&disk, &merging(AppendOperator::new(",")))).contains("MaxOperator"), "{said:?}");
    }
}

#[test]
fn a_family_that_nobody_names_has_the_operator_of_its_options_if_it_is_known() {
    for said in [Said::All, Said::OfRocksDb] {
        let disk = written(&AppendOperator::new("|"), true, said);
        for _ in 0..2 {
            let db = Db::open("/db", &options(&disk)).unwrap();
            assert_eq!(value(&db, "k"), "1|2|3");
            db.close().unwrap();
            let db = Db::open_read_only("/db", &options(&disk), &[]).unwrap();
            assert_eq!(value(&db, "k"), "1|2|3");
        }
        let disk = written(&AppendOperator::new("|").named("own"), true, said);
        let message = refusal(Db::open("/db", &options(&disk)));
        assert!(message.contains("own") && message.contains("none"), "{said:?}: {message}");
    }
}

#[test]
fn a_family_has_nothing_of_one_of_its_name_that_was_dropped() {
    let disk = SimDisk::new();
    let opening = |family: ColumnFamilyOptions| -> Result<Db> {
        let options: DbOptions = options(&disk);
        Db::open_families("/db", &options, &[(DEFAULT, plain()), ("other", family)])
    };
    let db = open(&disk, &plain()).unwrap();
    db.create_family("other", &merging(MaxOperator)).unwrap();
    db.close().unwrap();
    let db = opening(merging(MaxOperator)).unwrap();
    db.drop_family(&db.family("other").unwrap()).unwrap();
    let other = db.create_family("other", &plain()).unwrap();
    db.put_cf(&other, "k", "1", &crate::WriteOptions::default()).unwrap();
    db.close().unwrap();
    let db = opening(plain()).unwrap();
    let found = db.get_cf(&db.family("other").unwrap(), "k", &ReadOptions::default()).unwrap();
    assert_eq!(found.as_deref(), Some(&b"1"[..]));
    db.close().unwrap();
    // It never had any operand: an operator may come.
    opening(merging(MaxOperator)).unwrap();
}
