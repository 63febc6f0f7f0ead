//! OPTIONS files: when one is written, which stay, and what they change.

use super::basics::options;
use crate::{ColumnFamilyOptions, Db, DbOptions, ErrorKind, TableOptions};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, write_file_atomically};
use std::path::Path;

const DIR: &str = "/db";

/// The names of the OPTIONS files, oldest first, temporary ones too.
fn files(disk: &SimDisk) -> Vec<String> {
    let entries = disk.env().list_dir(Path::new(DIR)).unwrap();
    let mut names: Vec<_> =
        entries.into_iter().map(|entry| entry.name).filter(|name| name.starts_with("OPTIONS-")).collect();
    names.sort();
    names
}

fn families(disk: &SimDisk) -> Vec<String> {
    let loaded = Db::load_latest_options(DIR, &options(disk)).unwrap();
    loaded.families.into_iter().map(|(name, _)| name).collect()
}

/// Puts a newer OPTIONS file there.
fn plant(disk: &SimDisk, text: &str) {
    let dir = Path::new(DIR);
    let number = |name: &String| name.trim_start_matches("OPTIONS-").parse::<u64>().unwrap();
    let newest = files(disk).iter().map(number).max().unwrap_or(0);
    let (path, temporary) = (dir.join(format!("OPTIONS-{:06}", newest + 1000)), dir.join("plant"));
    write_file_atomically(&*disk.env(), &path, &temporary, text.as_bytes(), FileKind::Other).unwrap();
}

#[test]
fn a_file_is_written_when_it_would_say_something_new() {
    let disk = SimDisk::new();
    let missing = Db::load_latest_options(DIR, &options(&disk)).unwrap_err();
    assert!(matches!(missing.kind(), ErrorKind::MissingFile | ErrorKind::Io), "{missing}");
    let db = Db::open(DIR, &options(&disk)).unwrap();
    let first = files(&disk);
    assert_eq!(first.len(), 1);
    db.close().unwrap();
    let db = Db::open(DIR, &options(&disk)).unwrap();
    assert_eq!(files(&disk), first, "nothing is new");
    let one = db.create_family("one", &ColumnFamilyOptions::default()).unwrap();
    let second = files(&disk);
    assert_eq!((second.len(), &second[0]), (2, &first[0]));
    db.create_family("two", &ColumnFamilyOptions::default().num_levels(3)).unwrap();
    let third = files(&disk);
    assert_eq!((third.len(), &third[0]), (2, &second[1]), "the last two stay");
    assert_eq!(families(&disk), ["default", "one", "two"]);
    db.drop_family(&one).unwrap();
    assert_eq!(families(&disk), ["default", "two"]);
    assert_eq!(Db::load_latest_options(DIR, &options(&disk)).unwrap().families[1].1.num_levels, 3);
    db.close().unwrap();
    let before = files(&disk);
    // Another value is news; the families that nobody names have their defaults.
    Db::open(DIR, &options(&disk).bytes_per_sync(7)).unwrap().close().unwrap();
    assert_ne!(files(&disk), before);
    let loaded = Db::load_latest_options(DIR, &options(&disk)).unwrap();
    assert_eq!((loaded.database.bytes_per_sync, loaded.families[1].1.num_levels), (7, 7));
}

#[test]
fn reading_only_writes_no_file() {
    let disk = SimDisk::new();
    Db::open(DIR, &options(&disk)).unwrap().close().unwrap();
    let before = files(&disk);
    Db::open_read_only(DIR, &options(&disk).bytes_per_sync(7), &[]).unwrap().close().unwrap();
    assert_eq!(files(&disk), before);
}

#[test]
fn the_format_of_tables_is_kept_where_nobody_asks_for_another() {
    const TEXT: &str = "[DBOptions]\n[CFOptions \"default\"]\n[TableOptions/BlockBasedTable \"default\"]\nchecksum=kCRC32c\nformat_version=";
    let disk = SimDisk::new();
    Db::open(DIR, &options(&disk)).unwrap().close().unwrap();
    let table = |options: &DbOptions, named: &[(&str, ColumnFamilyOptions)]| {
        let db = Db::open_families(DIR, options, named).unwrap();
        let table = db.default_family().options().table.clone();
        db.close().unwrap();
        (table.format_version, table.checksum)
    };
    use crate::ChecksumType::{Crc32c, XxHash, Xxh3};
    // The oldest that is written stands for those before it; later ones than the default are no reason to write them.
    for (said, wanted) in [("5", 5), ("2", 5), ("6", 6), ("7", 6), ("4000000000", 6)] {
        plant(&disk, &format!("{TEXT}{said}\n"));
        assert_eq!(table(&options(&disk), &[]), (wanted, Crc32c), "{said}");
    }
    plant(&disk, &format!("{TEXT}5\n"));
    assert_eq!(table(&options(&disk).keep_table_format(false), &[]), (6, Xxh3));
    plant(&disk, &format!("{TEXT}5\n"));
    let asked = ColumnFamilyOptions::default().table(TableOptions::default().checksum(XxHash));
    assert_eq!(table(&options(&disk), &[("default", asked)]), (5, XxHash));
    // What is no OPTIONS file is passed over, and the next one is whole again.
    for text in ["", "garbage", "[DBOptions]\nmax_background_jobs=x\n[CFOptions \"default\"]\n"] {
        plant(&disk, text);
        assert!(Db::load_latest_options(DIR, &options(&disk)).is_err());
        table(&options(&disk), &[]);
        Db::load_latest_options(DIR, &options(&disk)).unwrap();
    }
}
