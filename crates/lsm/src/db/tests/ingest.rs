//! Tables from outside: where they go, who sees them, what is refused, and what a crash leaves.

use super::basics::options;
use crate::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, Db, DbOptions, ErrorKind, FileChecksum, FlushOptions,
    IngestExternalFileOptions, ReadOptions, SstFileWriter, WriteOptions,
};
use siltstone_base::env::sim::{CrashConfig, CrashStates, FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::env::{Env, FileKind, PosixEnv, read_file, write_file_atomically};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

type Rows = BTreeMap<String, String>;

fn key(number: u32) -> String {
    format!("key{number:05}")
}

/// A table of the keys `numbers` with one value.
fn table(disk: &SimDisk, name: &str, numbers: Range<u32>, value: &str) -> String {
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let path = format!("/in/{name}.sst");
    let mut writer = SstFileWriter::create(&path, &options(disk), &ColumnFamilyOptions::default()).unwrap();
    numbers.for_each(|number| writer.put(key(number), value).unwrap());
    writer.finish().unwrap();
    path
}

fn put(db: &Db, numbers: Range<u32>, value: &str) {
    numbers.for_each(|number| db.put(key(number), value).unwrap());
}

fn rows_at(db: &Db, read: &ReadOptions) -> Rows {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut iter = db.iter(read).unwrap();
    let mut rows = Rows::new();
    iter.seek_to_first();
    while iter.valid() {
        rows.insert(text(iter.key()), text(iter.value()));
        iter.next();
    }
    iter.status().unwrap();
    rows
}

fn rows(db: &Db) -> Rows {
    rows_at(db, &ReadOptions::default())
}

fn expected(parts: &[(Range<u32>, &str)]) -> Rows {
    parts.iter().flat_map(|(numbers, value)| numbers.clone().map(|number| (key(number), (*value).to_owned()))).collect()
}

fn ingest(db: &Db, paths: &[&str], options: &IngestExternalFileOptions) -> crate::Result<u64> {
    db.ingest_external_files(&db.default_family(), paths, options)
}

fn levels(db: &Db) -> Vec<usize> {
    db.table_files(&db.default_family()).unwrap().iter().map(|table| table.level).collect()
}

fn quiet(disk: &SimDisk) -> DbOptions {
    options(disk).unnamed_families(ColumnFamilyOptions::default().disable_auto_compactions(true))
}

#[test]
fn tables_hide_what_is_older_and_are_hidden_by_what_is_newer() {
    for file_checksum in [FileChecksum::None, FileChecksum::Crc32c] {
        let disk = SimDisk::new();
        let db = Db::open("/db", &quiet(&disk).file_checksum(file_checksum)).unwrap();
        put(&db, 0..100, "first");
        db.flush(&FlushOptions::default()).unwrap();
        put(&db, 50..150, "second");
        let before = db.snapshot();
        let paths = [table(&disk, "a", 40..60, "taken"), table(&disk, "b", 140..200, "taken")];
        let seqno = ingest(&db, &[&paths[1], &paths[0]], &IngestExternalFileOptions::default()).unwrap();
        assert_eq!((seqno, db.latest_seqno()), (202, 202), "the next two numbers");
        put(&db, 55..57, "third");
        let all = [(0..50, "first"), (50..150, "second"), (40..60, "taken"), (140..200, "taken"), (55..57, "third")];
        assert_eq!(rows(&db), expected(&all));
        let then = rows_at(&db, &ReadOptions::default().snapshot(Some(before.clone())));
        assert_eq!(then, expected(&all[..2]));
        db.check().unwrap();
        drop(before);
        db.close().unwrap();
        let db = Db::open("/db", &quiet(&disk).file_checksum(file_checksum)).unwrap();
        assert_eq!(rows(&db), expected(&all));
        db.check().unwrap();
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        assert_eq!(rows(&db), expected(&all));
        db.check().unwrap();
    }
}

#[test]
fn a_table_goes_to_the_lowest_level_above_which_nothing_overlaps_it() {
    let disk = SimDisk::new();
    let family = ColumnFamilyOptions::default().disable_auto_compactions(true);
    let db = Db::open("/db", &options(&disk).unnamed_families(family)).unwrap();
    let quick = IngestExternalFileOptions::default().snapshot_consistency(false);
    assert_eq!(ingest(&db, &[&table(&disk, "a", 100..200, "a")], &quick).unwrap(), 0);
    assert_eq!(levels(&db), [6]);
    // Above what it overlaps, with a number of its own.
    assert_eq!(ingest(&db, &[&table(&disk, "b", 150..160, "b")], &quick).unwrap(), 2);
    assert_eq!(ingest(&db, &[&table(&disk, "c", 300..310, "c")], &quick).unwrap(), 0);
    assert_eq!(ingest(&db, &[&table(&disk, "d", 155..156, "d")], &quick).unwrap(), 4);
    let mut found = levels(&db);
    found.sort_unstable();
    assert_eq!(found, [0, 0, 6, 6], "the levels above the base level stay empty");
    let all = [(100..200, "a"), (150..160, "b"), (300..310, "c"), (155..156, "d")];
    assert_eq!(rows(&db), expected(&all));
    db.check().unwrap();
    let refused = quick.clone().allow_global_seqno(false);
    let error = ingest(&db, &[&table(&disk, "e", 100..101, "e")], &refused).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    put(&db, 0..1, "f");
    let error = ingest(&db, &["/in/e.sst"], &quick.clone().allow_blocking_flush(false)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let unhurt = expected(&[(0..1, "f")]).into_iter().chain(expected(&all)).collect::<Rows>();
    assert_eq!(rows(&db), unhurt);
}

#[test]
fn a_table_becomes_part_of_the_oldest_run_or_a_run_above_it() {
    for style in [CompactionStyle::Universal, CompactionStyle::Lazy] {
        let disk = SimDisk::new();
        let family = ColumnFamilyOptions::default().compaction_style(style).level0_file_num_compaction_trigger(8);
        let db = Db::open("/db", &options(&disk).unnamed_families(family)).unwrap();
        let quick = IngestExternalFileOptions::default().snapshot_consistency(false);
        assert_eq!(ingest(&db, &[&table(&disk, "a", 100..200, "a")], &quick).unwrap(), 0);
        ingest(&db, &[&table(&disk, "b", 150..160, "b")], &quick).unwrap();
        assert_eq!(ingest(&db, &[&table(&disk, "c", 300..310, "c")], &quick).unwrap(), 0);
        ingest(&db, &[&table(&disk, "d", 155..156, "d")], &quick).unwrap();
        let mut found = levels(&db);
        found.sort_unstable();
        assert_eq!(found, [4, 5, 6, 6], "{style:?}");
        put(&db, 155..157, "e");
        db.flush(&FlushOptions::default()).unwrap();
        ingest(&db, &[&table(&disk, "f", 156..158, "f")], &quick).unwrap();
        let all =
            [(100..200, "a"), (150..160, "b"), (300..310, "c"), (155..156, "d"), (155..157, "e"), (156..158, "f")];
        assert_eq!(levels(&db).iter().filter(|level| **level == 0).count(), 2, "{style:?}");
        assert_eq!(rows(&db), expected(&all));
        db.check().unwrap();
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        assert_eq!(rows(&db), expected(&all));
        db.check().unwrap();
    }
}

#[test]
fn every_style_takes_tables_in() {
    for style in [CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Lazy, CompactionStyle::Fifo] {
        let disk = SimDisk::new();
        let family = ColumnFamilyOptions::default().compaction_style(style).level0_file_num_compaction_trigger(2);
        let family = family.write_buffer_size(16 << 10).target_file_size_base(8 << 10);
        let db = Db::open("/db", &options(&disk).unnamed_families(family)).unwrap();
        let mut all = Rows::new();
        for round in 0..12 {
            let value = format!("{round}{}", "v".repeat(20));
            let numbers = round * 37..round * 37 + 300;
            put(&db, numbers.clone(), &value);
            all.extend(expected(&[(numbers, &value)]));
            let numbers = round * 50..round * 50 + 100;
            let taken = format!("taken {round}");
            ingest(&db, &[&table(&disk, &taken, numbers.clone(), &taken)], &IngestExternalFileOptions::default())
                .unwrap();
            all.extend(expected(&[(numbers, &taken)]));
            assert_eq!(rows(&db), all, "{style:?}, round {round}");
        }
        db.wait_for_background_work().unwrap();
        db.check().unwrap();
        assert_eq!(rows(&db), all, "{style:?}");
    }
}

#[test]
fn ranges_delete_what_was_there_before() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &quiet(&disk)).unwrap();
    put(&db, 0..100, "first");
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let mut writer = SstFileWriter::create("/in/r.sst", &options(&disk), &ColumnFamilyOptions::default()).unwrap();
    writer.delete_range(key(10), key(90)).unwrap();
    writer.put(key(50), "taken").unwrap();
    writer.finish().unwrap();
    ingest(&db, &["/in/r.sst"], &IngestExternalFileOptions::default()).unwrap();
    put(&db, 60..61, "last");
    let all = expected(&[(0..10, "first"), (90..100, "first"), (50..51, "taken"), (60..61, "last")]);
    assert_eq!(rows(&db), all);
    for number in 0..100 {
        let (key, wanted) = (key(number), all.get(&key(number)).map(String::as_bytes));
        assert_eq!(db.get(&key).unwrap().as_deref(), wanted, "{key}");
        let together = db.multi_get_cf(&db.default_family(), &[key.as_bytes()], &ReadOptions::default());
        assert_eq!(together[0].as_ref().unwrap().as_deref(), wanted, "{key}");
    }
    db.check().unwrap();
    db.close().unwrap();
    let db = Db::open("/db", &quiet(&disk)).unwrap();
    assert_eq!(rows(&db), all);
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    assert_eq!(rows(&db), all);
    db.check().unwrap();
}

#[test]
fn files_are_copied_linked_or_moved() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &quiet(&disk)).unwrap();
    let is_there = |path: &str| disk.env().exists(Path::new(path)).unwrap();
    let base = IngestExternalFileOptions::default();
    ingest(&db, &[&table(&disk, "a", 0..5, "a")], &base).unwrap();
    ingest(&db, &[&table(&disk, "b", 5..10, "b")], &base.clone().link_files(true)).unwrap();
    ingest(&db, &[&table(&disk, "c", 10..15, "c")], &base.clone().move_files(true)).unwrap();
    assert!(is_there("/in/a.sst") && is_there("/in/b.sst") && !is_there("/in/c.sst"));
    assert_eq!(rows(&db), expected(&[(0..5, "a"), (5..10, "b"), (10..15, "c")]));
    assert_eq!(ingest(&db, &[], &base).unwrap(), 0);
}

#[test]
fn what_is_refused_changes_nothing() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &quiet(&disk)).unwrap();
    put(&db, 0..50, "first");
    db.flush(&FlushOptions::default()).unwrap();
    let files = || disk.env().list_dir(Path::new("/db")).unwrap();
    let before = files();
    let own = format!("/db/{}", before.iter().find(|entry| entry.name.ends_with(".sst")).unwrap().name);
    let (a, b) = (table(&disk, "a", 0..10, "a"), table(&disk, "b", 9..20, "b"));
    let damaged = table(&disk, "damaged", 0..10, "damaged");
    disk.flip(Path::new(&damaged), 20, 1).unwrap();
    let base = IngestExternalFileOptions::default();
    let cases = [
        (vec![a.as_str(), &b], base.clone(), ErrorKind::InvalidArgument),
        (vec![own.as_str()], base.clone(), ErrorKind::InvalidArgument),
        (vec![damaged.as_str()], base.clone(), ErrorKind::Corruption),
        (vec!["/in/none.sst"], base.clone(), ErrorKind::MissingFile),
        (vec![a.as_str()], base.clone().ingest_behind(true), ErrorKind::NotSupported),
    ];
    for (paths, options, kind) in cases {
        assert_eq!(ingest(&db, &paths, &options).unwrap_err().kind(), kind, "{paths:?}");
        assert_eq!(files(), before, "{paths:?}");
    }
    assert_eq!(rows(&db), expected(&[(0..50, "first")]));
    let reader = Db::open_read_only("/db", &options(&disk), &[]).unwrap();
    assert_eq!(ingest(&reader, &[&a], &base).unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn every_crash_state_has_the_tables_or_not() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/db")).unwrap();
    let paths = [table(&disk, "a", 0..30, "a"), table(&disk, "b", 10..20, "b"), table(&disk, "c", 15..40, "c")];
    disk.start_recording();
    let db = Db::open("/db", &quiet(&disk)).unwrap();
    let sync = WriteOptions::default().sync(true);
    let mut steps = vec![(Rows::new(), 0)];
    let mut all = Rows::new();
    for (number, path) in paths.iter().enumerate() {
        // The first write is not durable until the table is.
        for (place, options) in [(0, &WriteOptions::default()), (1, &sync)] {
            let (key, value) = (key(100 + number as u32 * 2 + place), "w".to_owned());
            db.put_cf(&db.default_family(), &key, &value, options).unwrap();
            all.insert(key, value);
            let recorded = if place == 1 { disk.recorded() } else { usize::MAX };
            steps.push((all.clone(), recorded));
            if place == 0 {
                let options = IngestExternalFileOptions::default().move_files(number == 1);
                ingest(&db, &[path], &options).unwrap();
                all = rows(&db);
                steps.push((all.clone(), disk.recorded()));
            }
        }
    }
    let recording = disk.take_recording();
    let config = CrashConfig { states_per_cut: 24, random_subsets: 8, ..CrashConfig::default() };
    let mut states = 0;
    let mut seen = vec![0; steps.len()];
    for state in CrashStates::new(&recording, config) {
        let Some(after) = state.disk() else { continue };
        states += 1;
        let what = format!("cut {} ({:?}), {:?}", state.cut, state.op, state.model);
        let db = Db::open("/db", &quiet(&after)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = rows(&db);
        let acknowledged = steps.iter().rposition(|(_, recorded)| *recorded <= state.cut).unwrap();
        let step = (acknowledged..steps.len()).find(|step| steps[*step].0 == found);
        let Some(step) = step else { panic!("{what}: no prefix from step {acknowledged} on: {found:?}") };
        seen[step] += 1;
        db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
        // It goes on.
        put(&db, 0..1, "again");
        assert_eq!(db.get(key(0)).unwrap().as_deref(), Some(&b"again"[..]));
    }
    assert!(states > 200 && seen[1..].iter().filter(|seen| **seen == 0).count() <= 3, "{states}: {seen:?}");
}

#[test]
fn a_failed_ingestion_does_not_come_back_beneath_what_was_written_since() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/db")).unwrap();
    let path = table(&disk, "a", 0..5, "taken");
    disk.start_recording();
    let db = Db::open("/db", &quiet(&disk)).unwrap();
    put(&db, 0..5, "first");
    db.flush(&FlushOptions::default()).unwrap();
    let filter = OpFilter { class: Some(OpClass::Sync), file: Some(FileKind::Manifest), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::Io, 0).filter(filter));
    ingest(&db, &[&path], &IngestExternalFileOptions::default()).unwrap_err();
    disk.clear_fault();
    let sync = WriteOptions::default().sync(true);
    db.delete_cf(&db.default_family(), key(2), &sync).unwrap();
    let acknowledged = disk.recorded();
    let recording = disk.take_recording();
    let config = CrashConfig { cuts: acknowledged..usize::MAX, random_subsets: 32, ..CrashConfig::default() };
    let mut states = 0;
    for state in CrashStates::new(&recording, config) {
        let Some(after) = state.disk() else { continue };
        states += 1;
        let db = Db::open("/db", &quiet(&after)).unwrap();
        for compacted in [false, true] {
            if compacted {
                db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
            }
            let found = rows(&db);
            assert!(!found.contains_key(&key(2)), "cut {}, compacted: {compacted}", state.cut);
            assert_eq!(db.get(key(2)).unwrap(), None);
            assert_eq!(found[&key(1)], "first", "cut {}, compacted: {compacted}", state.cut);
        }
    }
    assert!(states > 0);
}

#[test]
fn a_table_behind_a_symbolic_link_is_taken_in_itself() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let options = DbOptions::default().create_if_missing(true);
    let mut writer = SstFileWriter::create(at("real.sst"), &options, &ColumnFamilyOptions::default()).unwrap();
    writer.put("a", "1").unwrap();
    writer.finish().unwrap();
    std::os::unix::fs::symlink(at("real.sst"), at("link.sst")).unwrap();
    let db = Db::open(at("db"), &options).unwrap();
    let moved = IngestExternalFileOptions::default().move_files(true);
    db.ingest_external_files(&db.default_family(), &[at("link.sst")], &moved).unwrap();
    PosixEnv::new().remove_file(&at("real.sst")).unwrap();
    db.close().unwrap();
    let db = Db::open(at("db"), &options).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    db.check().unwrap();
}

#[test]
fn a_table_of_the_database_itself_is_not_moved_away() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &quiet(&disk)).unwrap();
    let moved = IngestExternalFileOptions::default().move_files(true);
    ingest(&db, &[&table(&disk, "a", 0..5, "a")], &moved).unwrap();
    let files = disk.env().list_dir(Path::new("/db")).unwrap();
    let own = files.iter().find(|entry| entry.name.ends_with(".sst")).unwrap();
    for path in [format!("/db/{}", own.name), format!("/db/.//{}", own.name)] {
        assert_eq!(ingest(&db, &[&path], &moved).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    db.close().unwrap();
    let db = Db::open("/db", &quiet(&disk)).unwrap();
    assert_eq!(rows(&db), expected(&[(0..5, "a")]));
}

/// What was moved in is nowhere else: neither in a WAL nor where it came from.
#[test]
fn a_table_that_was_moved_in_outlives_the_rotten_edit_that_names_it() {
    for is_cut in [false, true] {
        let disk = SimDisk::new();
        let db = Db::open("/db", &quiet(&disk)).unwrap();
        let moved = IngestExternalFileOptions::default().move_files(true);
        ingest(&db, &[&table(&disk, "a", 0..5, "a")], &moved).unwrap();
        let disk = disk.after_process_death();
        let env = disk.env();
        let manifests = env.list_dir(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
        let manifest = manifests.filter(|name| name.starts_with("MANIFEST-")).max().unwrap();
        let manifest = Path::new("/db").join(manifest);
        let len = env.file_len(&manifest).unwrap();
        match is_cut {
            false => disk.flip(&manifest, len - 1, 1).unwrap(),
            // As a crash does it before anybody was told.
            true => {
                let bytes = read_file(&*env, &manifest, FileKind::Manifest, 1 << 30).unwrap();
                let (cut, aside) = (&bytes[..bytes.len() - 1], Path::new("/db/aside"));
                write_file_atomically(&*env, &manifest, aside, cut, FileKind::Manifest).unwrap();
            }
        }

        let db = Db::open("/db", &quiet(&disk)).unwrap();
        assert_eq!(rows(&db), Rows::new());
        let lost = disk.env().list_dir(Path::new("/db/lost"));
        if is_cut {
            assert!(lost.is_err());
            continue;
        }
        let lost = lost.unwrap().into_iter().map(|entry| format!("/db/lost/{}", entry.name)).collect::<Vec<_>>();
        assert_eq!(lost.len(), 1);
        ingest(&db, &[&lost[0]], &IngestExternalFileOptions::default()).unwrap();
        assert_eq!(rows(&db), expected(&[(0..5, "a")]));
        // It is not looked at again, nor deleted.
        db.close().unwrap();
        let db = Db::open("/db", &quiet(&disk)).unwrap();
        assert_eq!(rows(&db), expected(&[(0..5, "a")]));
        assert!(disk.env().exists(Path::new(&lost[0])).unwrap());
        db.check().unwrap();
    }
}

#[test]
fn a_table_that_is_damaged_inside_leaves_nothing_behind() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &quiet(&disk)).unwrap();
    let path = table(&disk, "a", 0..2000, "a value that fills blocks");
    let len = disk.env().file_len(Path::new(&path)).unwrap();
    disk.flip(Path::new(&path), len / 3, 1).unwrap();
    let before = disk.env().list_dir(Path::new("/db")).unwrap();
    let options = IngestExternalFileOptions::default();
    for options in [options.clone(), options.link_files(true)] {
        let error = ingest(&db, &[&path], &options).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(Path::new(&path))), "{error}");
        assert_eq!(disk.env().list_dir(Path::new("/db")).unwrap(), before);
    }
    disk.flip(Path::new(&path), len / 3, 1).unwrap();
    ingest(&db, &[&path], &IngestExternalFileOptions::default()).unwrap();
    assert_eq!(rows(&db).len(), 2000);
}
