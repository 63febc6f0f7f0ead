//! Followers: each view is a prefix of what was written, up to the last catching up.

use super::*;
use crate::file_names::FileName;
use crate::{CompactRangeOptions, ErrorKind, FlushOptions, Follower, IngestExternalFileOptions, SstFileWriter};
use siltstone_base::env::sim::OpClass;
use siltstone_base::env::{Env, FileKind, read_file, write_file_atomically};

#[test]
fn a_follower_sees_what_was_written_when_it_caught_up() {
    let disk = SimDisk::new();
    let options = simulated(&disk);
    let missing = Follower::open("/db", &options, &[]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::MissingFile);
    let db = Db::open("/db", &options).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    let follower = Follower::open("/db", &options, &[]).unwrap();
    let mut held = Vec::new();
    for round in 0..20u64 {
        let seen = rows(&follower.db());
        assert_eq!(seen, rows_up_to(round * 60));
        for number in round * 60 + 1..=round * 60 + 60 {
            write_row(&db, number, &WriteOptions::default());
        }
        match round % 4 {
            1 => db.flush(&FlushOptions::default()).unwrap(),
            3 => db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap(),
            _ => {}
        }
        assert_eq!(rows(&follower.db()), seen, "nothing is seen by itself");
        held.push((follower.db(), seen));
        assert_eq!(follower.catch_up().unwrap(), (round + 1) * 120);
    }
    // Old views stay readable although their tables are deleted.
    for (db, seen) in &held {
        assert!(rows(db) == *seen);
    }
    let entries = |disk: &SimDisk| disk.env().list_dir(Path::new("/db")).unwrap();
    let before = entries(&disk);
    follower.catch_up().unwrap();
    assert_eq!(entries(&disk), before);
    let error = follower.db().put("a", "b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_follower_beside_a_writer_sees_prefixes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small(DbOptions::default())).unwrap();
    beside_a_writer(&db, || {
        let follower = Follower::open(dir.path(), &small(DbOptions::default()), &[]).unwrap();
        let mut last = 0;
        for _ in 0..8 {
            let wanted = last + 200;
            wait_for(&db, wanted);
            let seqno = follower.catch_up().unwrap();
            assert!(seqno >= wanted, "what was written before is seen: {seqno} of {wanted}");
            assert_eq!(seqno % 2, 0);
            let view = follower.db();
            assert!(rows(&view) == rows_up_to(seqno / 2), "the view of {seqno}");
            last = seqno;
        }
    });
    db.close().unwrap();
}

#[test]
fn a_follower_opens_only_tables_that_it_has_not_open() {
    let disk = SimDisk::new();
    let options = simulated(&disk);
    let family = options.unnamed_families.clone().disable_auto_compactions(true);
    let db = Db::open("/db", &options.clone().unnamed_families(family)).unwrap();
    for number in 0..12 {
        db.put(format!("key{number}"), "value").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    let follower = Follower::open("/db", &options, &[]).unwrap();
    for _ in 0..3 {
        db.put("key", "again").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        disk.start_trace();
        follower.catch_up().unwrap();
        let opened = disk.take_trace();
        let opened = opened.iter().filter(|op| (op.class, op.file) == (OpClass::Open, FileKind::Table));
        assert_eq!(opened.count(), 1);
    }
    assert_eq!(follower.db().get("key").unwrap().as_deref(), Some(&b"again"[..]));
    assert_eq!(follower.db().get("key3").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Flushes, families, tables that are taken in, a new MANIFEST: none of it is seen, and nothing that counts is missed.
/// A duration that was in force for nobody would be that of a view for good: its moment's marks are those of before.
#[test]
fn a_moment_has_the_durations_of_its_marks() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    let env: Arc<dyn Env> = disk.env();
    let path = FileName::Expiry.path(Path::new("/db"));
    let temporary = Path::new("/db/EXPIRY.new");
    let kind = FileKind::Other;
    let in_moment = |moment: &dyn Env| read_file(moment, &path, kind, 1 << 20).ok();
    for durations in [None, Some(b"long"), Some(b"slip")] {
        if let Some(durations) = durations {
            write_file_atomically(&*env, &path, temporary, durations, kind).unwrap();
        }
        let (_, moment) = super::super::moment::now(Path::new("/db"), &env).unwrap();
        write_file_atomically(&*env, &path, temporary, b"later", kind).unwrap();
        assert_eq!(in_moment(&*moment).as_deref(), durations.map(|durations| &durations[..]));
        assert_eq!(moment.exists(&path).unwrap(), durations.is_some());
        moment.release();
        assert_eq!(in_moment(&*moment).as_deref(), Some(&b"later"[..]));
    }
    db.close().unwrap();
}

#[test]
fn a_moment_stays_what_it_was_whatever_is_written_and_deleted() {
    let disk = SimDisk::new();
    let mut options = simulated(&disk);
    options.unnamed_families = options.unnamed_families.disable_auto_compactions(true);
    let db = Db::open("/db", &options).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    let write = |numbers: std::ops::RangeInclusive<u64>| {
        numbers.for_each(|number| write_row(&db, number, &WriteOptions::default()));
    };
    let flush = || db.flush_families(&db.families().iter().collect::<Vec<_>>(), &FlushOptions::default()).unwrap();
    write(1..=20);
    flush();
    write(21..=50);
    let env: Arc<dyn Env> = disk.env();
    let (marks, moment) = super::super::moment::now(Path::new("/db"), &env).unwrap();
    write(51..=60);
    assert_ne!(super::super::moment::now(Path::new("/db"), &env).unwrap().0, marks);
    flush();
    db.create_family("third", &db.default_family().options()).unwrap();
    let mut writer = SstFileWriter::create("/in.sst", &simulated(&disk), &db.default_family().options()).unwrap();
    writer.put("a", "taken in").unwrap();
    writer.finish().unwrap();
    db.ingest_external_files(&db.default_family(), &["/in.sst"], &IngestExternalFileOptions::default()).unwrap();
    write(61..=70);
    db.close().unwrap();
    // Another MANIFEST, and none of the WALs.
    Db::open("/db", &options).unwrap().close().unwrap();
    let seen = Db::open_read_only("/db", &options.clone().env(Some(Arc::clone(&moment) as Arc<dyn Env>)), &[]).unwrap();
    assert_eq!(seen.latest_seqno(), 100);
    assert!(rows(&seen) == rows_up_to(50));
    moment.release();
    assert!(rows(&seen) == rows_up_to(50));
    let now = Db::open_read_only("/db", &options, &[]).unwrap();
    assert_eq!(rows(&now).len(), 3);
    assert_eq!(rows(&now)[OTHER], rows_up_to(70)[OTHER]);
}

/// Whoever was told of a number reads what belongs to it, however many catch up at once.
#[test]
fn a_follower_never_goes_back_to_an_earlier_view() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small(DbOptions::default())).unwrap();
    beside_a_writer(&db, || {
        let follower = Follower::open(dir.path(), &small(DbOptions::default()), &[]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let told = follower.catch_up().unwrap();
                        let found = follower.db().latest_seqno();
                        assert!(found >= told, "{found} after {told}");
                    }
                });
            }
        });
    });
    db.close().unwrap();
}
