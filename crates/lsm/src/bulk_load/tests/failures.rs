//! Loads that fail: in the caller's hands, by errors of I/O, and by a crash.

use super::*;
use crate::WriteOptions;
use siltstone_base::env::sim::{CrashConfig, CrashStates, FaultKind, FaultPlan};

/// Rows that fill several runs and overlap what is there.
fn load(db: &Db) -> Result<SeqNo> {
    let options = BulkLoadOptions::default().sort_buffer_bytes(2_000);
    let mut loader = BulkLoader::new(db, &db.default_family(), "/sorting", &options)?;
    for number in (0..10).chain((0..60).rev()) {
        loader.put(format!("{number:03}"), "loaded")?;
    }
    loader.finish()
}

/// The rows before a load and after it.
fn expected(is_loaded: bool) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let row = |number: u32, value: &str| (format!("{number:03}").into_bytes(), value.as_bytes().to_vec());
    let before = (50..70).map(|number| row(number, "before"));
    let loaded = (0..60).filter(|_| is_loaded).map(|number| row(number, "loaded"));
    before.chain(loaded).collect()
}

fn fill(db: &Db) {
    for number in 50..70 {
        let options = WriteOptions::default().sync(number == 69);
        db.put_cf(&db.default_family(), format!("{number:03}"), "before", &options).unwrap();
        if number == 60 {
            db.flush(&FlushOptions::default()).unwrap();
        }
    }
}

#[test]
fn a_load_that_failed_takes_in_no_part_of_its_rows() {
    let disk = SimDisk::new();
    let db = open(&disk, small());
    let mut loader = loader(&db, &BulkLoadOptions::default().unique(true).sort_buffer_bytes(1_000));
    let mut failed = 0;
    // The caller takes the error for one that is about a single row, and goes on.
    for number in (0..300).rev() {
        let key = format!("{:03}", if number == 250 { 251 } else { number });
        match loader.put(key, "loaded") {
            Ok(()) => assert_eq!(failed, 0, "a row is taken after the load has failed"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 100);
    assert_eq!(loader.finish().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(rows(&db), BTreeMap::new());
    assert!(!disk.env().exists(Path::new("/sorting")).unwrap());
}

#[test]
fn a_row_that_is_too_long_costs_no_other_row() {
    let disk = SimDisk::new();
    let db = open(&disk, small());
    for keys in [["a", "b", "c"], ["c", "b", "a"]] {
        let mut loader = loader(&db, &BulkLoadOptions::default());
        for key in keys {
            loader.put(key, "loaded").unwrap();
            let error = loader.put(vec![b'd'; MAX_KEY_LEN + 1], "").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
        loader.finish().unwrap();
        assert_eq!(rows(&db).len(), 3);
    }
}

/// Sorting may take hours: what can never be taken in is refused before.
#[test]
fn a_load_that_cannot_end_well_does_not_begin() {
    let disk = SimDisk::new();
    let db = open(&disk, small());
    let elsewhere = open(&SimDisk::new(), small());
    let dropped = db.create_family("dropped", &small()).unwrap();
    db.drop_family(&dropped).unwrap();
    let begin = |db: &Db, family: &ColumnFamily| {
        let begun = BulkLoader::new(db, family, "/sorting", &BulkLoadOptions::default());
        assert!(!disk.env().exists(Path::new("/sorting")).unwrap());
        begun.unwrap_err().kind()
    };
    assert_eq!(begin(&db, &elsewhere.default_family()), ErrorKind::InvalidArgument);
    assert_eq!(begin(&db, &dropped), ErrorKind::NotFound);
    db.close().unwrap();
    let reader = Db::open_read_only("/db", &DbOptions::default().env(Some(disk.env())), &[]).unwrap();
    assert_eq!(begin(&reader, &reader.default_family()), ErrorKind::ReadOnly);
}

#[test]
fn any_error_of_io_leaves_all_rows_or_none() {
    for (kind, least) in [(FaultKind::Io, 30), (FaultKind::ShortWriteNoSpace, 5)] {
        let (mut loaded, mut after) = ([0, 0], 0);
        loop {
            let disk = SimDisk::new();
            let db = open(&disk, small());
            fill(&db);
            disk.set_fault(FaultPlan::once(kind, after));
            let outcome = load(&db);
            let was_hit = !disk.fault_hits().is_empty();
            disk.clear_fault();
            let what = format!("{kind:?} {after}: {outcome:?}");
            let found = rows(&db);
            assert!(found == expected(outcome.is_ok()), "{what}: {found:?}");
            drop(db);
            let db = open(&disk, small());
            let found = rows(&db);
            let is_loaded = found == expected(true);
            // An edit of the MANIFEST that failed may be there.
            assert!(is_loaded || (found == expected(false) && outcome.is_err()), "{what}: {found:?}");
            db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
            loaded[usize::from(is_loaded)] += 1;
            // What failed may be done again.
            for file in disk.env().list_dir(Path::new("/sorting")).unwrap_or_default() {
                disk.env().remove_file(&Path::new("/sorting").join(file.name)).unwrap();
            }
            load(&db).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(rows(&db) == expected(true), "{what}");
            if !was_hit {
                break;
            }
            after += 1;
        }
        assert!(after > least && loaded[0] > least / 2, "{kind:?}: {after} operations, {loaded:?}");
    }
}

#[test]
fn every_crash_state_of_a_load_has_all_rows_or_none() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/db")).unwrap();
    disk.start_recording();
    let db = open(&disk, small());
    fill(&db);
    let filled = disk.recorded();
    load(&db).unwrap();
    let acknowledged = disk.recorded();
    db.put_cf(&db.default_family(), "070", "after", &WriteOptions::default().sync(true)).unwrap();
    let recording = disk.take_recording();
    let config =
        CrashConfig { cuts: filled..usize::MAX, states_per_cut: 16, random_subsets: 8, ..CrashConfig::default() };
    let mut seen = [0, 0];
    for state in CrashStates::new(&recording, config) {
        let Some(after) = state.disk() else { continue };
        let what = format!("cut {} ({:?}), {:?}", state.cut, state.op, state.model);
        let db = open(&after, small());
        let mut found = rows(&db);
        found.remove(&b"070"[..]);
        let is_loaded = found == expected(true);
        let may_be_without = state.cut < acknowledged && found == expected(false);
        assert!(is_loaded || may_be_without, "{what}: {found:?}");
        db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
        seen[usize::from(is_loaded)] += 1;
        // What is left of the load is in nobody's way: the directory where rows were sorted is its caller's.
        db.put("080", "again").unwrap();
    }
    assert!(seen[0] > 50 && seen[1] > 5, "{seen:?}");
}
