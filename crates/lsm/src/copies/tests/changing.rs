//! Copies of a database whose families come and go, and that takes tables in: each is the database of one moment, with all rows.

use super::*;
use crate::{
    BackupEngine, BackupEngineOptions, Checkpoint, CheckpointOptions, CreateBackupOptions, IngestExternalFileOptions,
    LiveCopyOptions, RestoreOptions, SstFileWriter, ValueType,
};
use siltstone_base::sync::atomic::AtomicUsize;
use std::ops::RangeInclusive;

/// Families that are there at a time, about.
const FAMILIES: usize = 4;

fn name(round: usize) -> String {
    format!("family{round:04}")
}

/// Rows of a batch, or of a table.
fn some(number: usize, mark: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |part: usize| {
        let key = format!("{:05}{mark}{part}", number * 7919 % 10_007);
        (key.into_bytes(), format!("{number}-{}", "v".repeat(80)).into_bytes())
    };
    (0..4).map(row).collect()
}

/// Takes the step `number` in the database: a new family, rows of it and of the default one, a table for both, and the end of an old family.
fn step(db: &Db, dir: &Path, number: usize) {
    let round = number / 4;
    match number % 4 {
        0 => drop(db.create_family(&name(round), &db.default_family().options()).unwrap()),
        1 => {
            let family = db.family(&name(round)).unwrap();
            let mut batch = WriteBatch::new();
            for (key, value) in some(number, "w") {
                batch.put(&key, &value);
                batch.put_cf(&family, &key, &value);
            }
            db.write(&mut batch, &WriteOptions::default()).unwrap();
        }
        2 => {
            // Every other one in the default family, between those that are there.
            let family = if round.is_multiple_of(2) { db.default_family() } else { db.family(&name(round)).unwrap() };
            let path = dir.join(format!("{number}.sst"));
            let mut writer = SstFileWriter::create(&path, &db.options(), &family.options()).unwrap();
            for (key, value) in some(number, "t") {
                writer.add(&key, ValueType::Put, &value).unwrap();
            }
            writer.finish().unwrap();
            db.ingest_external_files(&family, &[&path], &IngestExternalFileOptions::default()).unwrap();
        }
        _ if round >= FAMILIES => db.drop_family(&db.family(&name(round - FAMILIES)).unwrap()).unwrap(),
        _ => {}
    }
}

/// The same in a map.
fn step_in(rows: &mut Rows, number: usize) {
    let round = number / 4;
    let mut put = |family: String, some: Vec<(Vec<u8>, Vec<u8>)>| rows.entry(family).or_default().extend(some);
    match number % 4 {
        0 => put(name(round), Vec::new()),
        1 => {
            put("default".to_owned(), some(number, "w"));
            put(name(round), some(number, "w"));
        }
        2 => put(if round.is_multiple_of(2) { "default".to_owned() } else { name(round) }, some(number, "t")),
        _ if round >= FAMILIES => drop(rows.remove(&name(round - FAMILIES))),
        _ => {}
    }
}

/// Fails unless these are the rows after so many steps.
fn check_moment(found: &Rows, steps: RangeInclusive<usize>, what: &str) {
    let mut expected: Rows = [("default".to_owned(), BTreeMap::new())].into();
    (0..*steps.start()).for_each(|number| step_in(&mut expected, number));
    for number in steps.clone() {
        if *found == expected {
            return;
        }
        step_in(&mut expected, number);
    }
    let families: Vec<_> = found.iter().map(|(name, rows)| format!("{name}: {}", rows.len())).collect();
    panic!("{what}: the rows of no moment between the steps {steps:?}: {families:?}");
}

#[test]
fn copies_beside_families_that_come_and_go_and_tables_that_are_taken_in_are_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let options = small(DbOptions::default());
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    let mut backups = BackupEngine::open(dir.path().join("backups"), &BackupEngineOptions::default()).unwrap();
    // Steps that were begun, and those that are done.
    let (begun, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let mut of_backups = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                begun.store(number + 1, Ordering::SeqCst);
                step(&db, dir.path(), number);
                done.store(number + 1, Ordering::SeqCst);
            }
        });
        let _stop = StopAtEnd(&stop);
        let mut copied = 0;
        let mut copy = |kind: &str, make: &mut dyn FnMut(&Path)| {
            let from = done.load(Ordering::SeqCst);
            while done.load(Ordering::SeqCst) < from + 30 {
                std::thread::yield_now();
            }
            let path = dir.path().join(format!("copy{copied}"));
            copied += 1;
            let first = done.load(Ordering::SeqCst);
            make(&path);
            let steps = first..=begun.load(Ordering::SeqCst);
            if path.exists() {
                check_moment(&rows_in(&path, &options), steps.clone(), kind);
            }
            steps
        };
        for flush_at in [0, u64::MAX] {
            let links = CheckpointOptions::default().log_size_for_flush(flush_at);
            let copies = links.clone().links(false);
            let checkpoint = Checkpoint::new(&db);
            copy("checkpoint", &mut |path| assert!(checkpoint.create(path, &links).unwrap() > 0));
            copy("checkpoint without links", &mut |path| assert!(checkpoint.create(path, &copies).unwrap() > 0));
            let live = LiveCopyOptions::default().log_size_for_flush(flush_at).last_round_bytes(0).max_rounds(4);
            copy("live copy", &mut |path| assert!(checkpoint.copy_live(path, &live).unwrap().seqno > 0));
            let flushed = CreateBackupOptions::default().flush_before_backup(flush_at == 0).verify_shared_files(true);
            let mut id = 0;
            let steps = copy("backup", &mut |_| id = backups.create(&db, &flushed).unwrap().id);
            of_backups.push((id, steps));
        }
    });
    db.close().unwrap();
    for (id, steps) in of_backups {
        backups.verify(id).unwrap();
        let restored = dir.path().join(format!("restored{id}"));
        backups.restore(id, &restored, &RestoreOptions::default()).unwrap();
        check_moment(&rows_in(&restored, &options), steps, "backup");
    }
}
