//! WALs as RocksDB leaves them where it does not flush what it recovers, and where it keeps them elsewhere.

use super::basics::options;
use super::prepared::{keys, record};
use crate::batch::encode_header;
use crate::wal::WalWriter;
use crate::{ColumnFamilyOptions, Db, ErrorKind, FlushOptions, WriteOptions};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority, read_file};
use std::path::{Path, PathBuf};

const DIR: &str = "/db";
const CONTEXT: IoContext = IoContext::new(FileKind::Wal, IoPriority::User);

fn path_in(dir: &str, number: u64) -> PathBuf {
    Path::new(dir).join(format!("{number:06}.log"))
}

fn logs(disk: &SimDisk) -> Vec<u64> {
    let entries = disk.env().list_dir(Path::new(DIR)).unwrap();
    let number = |name: &str| name.strip_suffix(".log").and_then(|number| number.parse().ok());
    let mut logs: Vec<u64> = entries.iter().filter_map(|entry| number(&entry.name)).collect();
    logs.sort_unstable();
    logs
}

/// Replaces the bytes of a file.
fn put_file(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let mut file = disk.env().create_append(path, &FileOptions::new(FileKind::Wal)).unwrap();
    file.append(bytes, CONTEXT).unwrap();
    file.sync_data(CONTEXT).unwrap();
    file.finish().unwrap();
}

/// A WAL of these batches; of the last one half is missing, if it is torn.
fn put_log(disk: &SimDisk, number: u64, batches: &[(u64, &str)], is_torn: bool) {
    let path = path_in(DIR, number);
    let file = disk.env().create_append(&path, &FileOptions::new(FileKind::Wal)).unwrap();
    let mut writer = WalWriter::new(file, path.clone(), number, CONTEXT);
    for (seqno, script) in batches {
        let (body, count) = record(script);
        writer.add_record(&[&encode_header(*seqno, count), &body]).unwrap();
    }
    writer.sync().unwrap();
    writer.finish().unwrap();
    if is_torn {
        let bytes = read_file(&*disk.env(), &path, FileKind::Wal, 1 << 20).unwrap();
        put_file(disk, &path, &bytes[..bytes.len() - 5]);
    }
}

/// With `avoid_flush_during_recovery` RocksDB keeps the WALs that it has replayed, torn as they are, and those behind them that it did not use, and goes on in another one.
#[test]
fn a_log_that_goes_on_behind_a_torn_one_is_found_behind_others_that_do_not() {
    let disk = SimDisk::new();
    Db::open(DIR, &options(&disk)).unwrap().close().unwrap();
    let first = *logs(&disk).last().unwrap();
    put_log(&disk, first, &[(1, "+a"), (2, "+b"), (3, "+lost")], true);
    put_log(&disk, first + 1, &[(9, "+given-up"), (10, "+too")], false);
    put_log(&disk, first + 2, &[(3, "+m"), (4, "+n")], false);
    let read_only = Db::open_read_only(DIR, &options(&disk), &[]).unwrap();
    assert_eq!(keys(&read_only), "a b m n");
    drop(read_only);
    let db = Db::open(DIR, &options(&disk)).unwrap();
    assert_eq!((keys(&db), db.latest_seqno()), ("a b m n".to_owned(), 4));
    db.check().unwrap();
}

/// The tables of one family are ahead of a WAL that was torn before they were written, and that was given up.
#[test]
fn a_torn_log_that_was_given_up_is_no_damage_when_another_family_was_flushed_since() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, &options(&disk)).unwrap();
    let other = db.create_family("other", &ColumnFamilyOptions::default()).unwrap();
    db.put("a", "v").unwrap();
    db.put_cf(&other, "b", "v", &WriteOptions::default()).unwrap();
    db.flush_families(&[&other], &FlushOptions::default()).unwrap();
    let torn = |goes_on_at: u64| {
        let disk = disk.after_process_death();
        let numbers = logs(&disk);
        put_log(&disk, numbers[0], &[(1, "+a"), (2, "+lost")], true);
        put_log(&disk, numbers[1], &[(goes_on_at, "+m")], false);
        disk
    };
    let db = Db::open(DIR, &options(&torn(2))).unwrap();
    assert_eq!(keys(&db), "a m");
    // Where nothing goes on exactly there, something is missing.
    assert_eq!(Db::open(DIR, &options(&torn(3))).unwrap_err().kind(), ErrorKind::Corruption);
}

/// Without them the database opened without the rows, and gave their numbers out again.
#[test]
fn logs_in_another_directory_are_not_passed_over() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/logs")).unwrap();
    let db = Db::open(DIR, &options(&disk)).unwrap();
    db.put("a", "v").unwrap();
    drop(db);
    let number = *logs(&disk).last().unwrap();
    let entries = disk.env().list_dir(Path::new(DIR)).unwrap();
    let newest = entries.into_iter().map(|entry| entry.name).filter(|name| name.starts_with("OPTIONS-")).max().unwrap();
    let path = Path::new(DIR).join(newest);
    let text = String::from_utf8(read_file(&*disk.env(), &path, FileKind::Other, 1 << 20).unwrap()).unwrap();
    put_file(&disk, &path, text.replacen("[DBOptions]\n", "[DBOptions]\n  wal_dir=/logs\n", 1).as_bytes());
    // A directory that is named and has nothing says nothing: the database was copied.
    assert_eq!(keys(&Db::open_read_only(DIR, &options(&disk), &[]).unwrap()), "a");
    let bytes = read_file(&*disk.env(), &path_in(DIR, number), FileKind::Wal, 1 << 20).unwrap();
    put_file(&disk, &path_in("/logs", number), &bytes);
    disk.env().remove_file(&path_in(DIR, number)).unwrap();
    let refused = Db::open(DIR, &options(&disk)).unwrap_err();
    assert!(refused.kind() == ErrorKind::NotSupported && refused.to_string().contains("/logs"), "{refused}");
    assert_eq!(Db::open_read_only(DIR, &options(&disk), &[]).unwrap_err().kind(), ErrorKind::NotSupported);
    put_file(&disk, &path_in(DIR, number), &bytes);
    disk.env().remove_file(&path_in("/logs", number)).unwrap();
    assert_eq!(keys(&Db::open(DIR, &options(&disk)).unwrap()), "a");
}
