//! Two-phase commit in a WAL that somebody else wrote.

use super::basics::options;
use crate::batch::encode_header;
use crate::wal::WalWriter;
use crate::{Db, ErrorKind};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority};
use std::path::Path;

const DIR: &str = "/db";

/// Records of a batch: `+key` puts the key, `-key` deletes it; the others are markers.
pub(super) fn record(script: &str) -> (Vec<u8>, u32) {
    let (mut body, mut count) = (Vec::new(), 0);
    let put = |body: &mut Vec<u8>, tag: u8, parts: &[&str]| {
        body.push(tag);
        for part in parts {
            body.push(part.len() as u8);
            body.extend_from_slice(part.as_bytes());
        }
    };
    for word in script.split_whitespace() {
        let command_len = match word.starts_with(['+', '-']) {
            true => 1,
            false => word.find(':').map_or(word.len(), |at| at + 1),
        };
        let (command, name) = word.split_at(command_len);
        match command {
            "+" => put(&mut body, 1, &[name, "v"]),
            "-" => put(&mut body, 0, &[name]),
            "noop" => put(&mut body, 0x0d, &[]),
            "begin" => put(&mut body, 0x09, &[]),
            "begin-persisted" => put(&mut body, 0x12, &[]),
            "begin-unprepare" => put(&mut body, 0x13, &[]),
            "prepare:" => put(&mut body, 0x0a, &[name]),
            "commit:" => put(&mut body, 0x0b, &[name]),
            "rollback:" => put(&mut body, 0x0c, &[name]),
            "commit-at:" => put(&mut body, 0x15, &["12345678", name]),
            other => panic!("{other}"),
        }
        count += u32::from(matches!(command, "+" | "-"));
    }
    (body, count)
}

/// A database whose only WAL has these batches, each with its sequence number.
fn database(batches: &[(u64, &str)]) -> SimDisk {
    let disk = SimDisk::new();
    Db::open(DIR, &options(&disk)).unwrap().close().unwrap();
    let entries = disk.env().list_dir(Path::new(DIR)).unwrap();
    let name = entries.into_iter().map(|entry| entry.name).find(|name| name.ends_with(".log")).unwrap();
    let (path, number) = (Path::new(DIR).join(&name), name.trim_end_matches(".log").parse().unwrap());
    disk.env().remove_file(&path).unwrap();
    let file = disk.env().create_append(&path, &FileOptions::new(FileKind::Wal)).unwrap();
    let mut writer = WalWriter::new(file, path, number, IoContext::new(FileKind::Wal, IoPriority::User));
    for (seqno, script) in batches {
        let (body, count) = record(script);
        writer.add_record(&[&encode_header(*seqno, count), &body]).unwrap();
    }
    writer.sync().unwrap();
    writer.finish().unwrap();
    disk
}

pub(super) fn keys(db: &Db) -> String {
    let mut iter = db.iter(&Default::default()).unwrap();
    let mut keys = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        keys.push(String::from_utf8(iter.key().to_vec()).unwrap());
        iter.next();
    }
    keys.join(" ")
}

/// The keys of the database, and its last sequence number; or the error.
fn opened(batches: &[(u64, &str)]) -> Result<(String, u64), crate::Error> {
    let disk = database(batches);
    let db = Db::open(DIR, &options(&disk))?;
    let found = (keys(&db), db.latest_seqno());
    db.check().unwrap();
    db.close().unwrap();
    let db = Db::open(DIR, &options(&disk)).unwrap();
    assert_eq!(keys(&db), found.0, "opened again");
    Ok(found)
}

#[test]
fn what_is_committed_counts_from_its_commit_on() {
    let committed = opened(&[(1, "noop +a"), (2, "begin +b +c prepare:x"), (2, "+d"), (3, "commit:x"), (5, "+e")]);
    assert_eq!(committed.unwrap(), ("a b c d e".to_owned(), 5));
    // Entries of the committing batch come before the prepared ones; a later one wins.
    let both = opened(&[(1, "begin -a prepare:x"), (1, "+a commit:x"), (3, "+b")]).unwrap();
    assert_eq!(both, ("b".to_owned(), 3));
    let other = opened(&[(1, "begin +a prepare:x"), (1, "-a"), (2, "commit:x")]).unwrap();
    assert_eq!(other, ("a".to_owned(), 2));
}

#[test]
fn what_is_rolled_back_never_counts() {
    let rolled = opened(&[(1, "begin +a prepare:x"), (1, "begin +b prepare:y"), (1, "rollback:x"), (1, "commit:y")]);
    assert_eq!(rolled.unwrap(), ("b".to_owned(), 1));
    // A name may be used again.
    let again = opened(&[(1, "begin +a prepare:x"), (1, "rollback:x"), (1, "begin +c prepare:x"), (1, "commit:x")]);
    assert_eq!(again.unwrap(), ("c".to_owned(), 1));
    // What was prepared in a WAL that is gone is in tables already.
    assert_eq!(opened(&[(1, "+a"), (2, "commit:gone"), (2, "+b")]).unwrap(), ("a b".to_owned(), 2));
}

#[test]
fn a_transaction_without_an_end_is_refused_and_kept() {
    let batches = [(1, "+a"), (2, "begin +b prepare:x"), (2, "+c")];
    let disk = database(&batches);
    for _ in 0..2 {
        let error = Db::open(DIR, &options(&disk)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(error.message().starts_with("1 transactions that are prepared"), "{error}");
        assert!(error.file().is_some_and(|file| file.extension().is_some_and(|extension| extension == "log")));
    }
    // Reading only needs no decision, and sees what is committed.
    let db = Db::open_read_only(DIR, &options(&disk), &[]).unwrap();
    assert_eq!(keys(&db), "a c");
}

#[test]
fn other_policies_and_broken_sections_are_refused() {
    for (script, kind) in [
        ("begin-persisted +a prepare:x", ErrorKind::NotSupported),
        ("begin-unprepare +a prepare:x", ErrorKind::NotSupported),
        ("commit-at:x", ErrorKind::NotSupported),
    ] {
        assert_eq!(opened(&[(1, script)]).unwrap_err().kind(), kind, "{script}");
    }
    for script in ["begin +a", "+a prepare:x", "begin begin +a prepare:x", "begin +a commit:y prepare:x"] {
        let disk = database(&[(1, "+z"), (2, script)]);
        let strict = options(&disk).wal_recovery_mode(crate::WalRecoveryMode::AbsoluteConsistency);
        assert_eq!(Db::open(DIR, &strict).unwrap_err().kind(), ErrorKind::Corruption, "{script}");
        assert_eq!(keys(&Db::open(DIR, &options(&disk)).unwrap()), "z", "{script}");
    }
}

/// Each of its batches uses up one number, whatever it has: what comes behind the first one was left out, and its WAL deleted.
#[test]
fn a_wal_of_write_prepared_transactions_is_refused_and_stays() {
    for batches in [&[(1, "noop +a +b +c"), (2, "noop +d")][..], &[(1, "+a +b +c"), (3, "+d")]] {
        let disk = database(batches);
        let names = || -> Vec<_> {
            let entries = disk.env().list_dir(Path::new(DIR)).unwrap();
            entries.into_iter().map(|entry| entry.name).filter(|name| name.ends_with(".log")).collect()
        };
        let before = names();
        assert_eq!(Db::open(DIR, &options(&disk)).unwrap_err().kind(), ErrorKind::NotSupported);
        assert_eq!(Db::open_read_only(DIR, &options(&disk), &[]).unwrap_err().kind(), ErrorKind::NotSupported);
        assert_eq!(names(), before);
    }
}
