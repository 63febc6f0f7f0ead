//! One opening at a time; a read-only one takes no lock and leaves no trace.

use siltstone::lsm::{ColumnFamilyOptions, Db, DbOptions, ErrorKind, FlushOptions};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// Tells a second process of this test what to open.
const CHILD: &str = "SILTSTONE_TEST_OPEN";

/// Every file with its bytes and its times. The bytes of LOCK are not looked at: closing a descriptor of it would end this process's lock.
fn image(dir: &Path) -> BTreeMap<String, (Vec<u8>, i64, i64, u64)> {
    let entries = std::fs::read_dir(dir).unwrap();
    let file = |entry: std::fs::DirEntry| {
        let about = entry.metadata().unwrap();
        let times = (about.mtime(), about.mtime_nsec(), about.ino());
        let name = entry.file_name().into_string().unwrap();
        let bytes = if name == "LOCK" { Vec::new() } else { std::fs::read(entry.path()).unwrap() };
        (name, (bytes, times.0, times.1, times.2))
    };
    entries.map(|entry| file(entry.unwrap())).collect()
}

fn directory_times(dir: &Path) -> (i64, i64) {
    let about = std::fs::metadata(dir).unwrap();
    (about.mtime(), about.mtime_nsec())
}

/// A database with a table and a WAL.
fn fill(dir: &Path) -> Db {
    let db = Db::open(dir, &DbOptions::default().create_if_missing(true)).unwrap();
    db.put("in a table", "1").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    db.put("in the WAL", "2").unwrap();
    db
}

/// Not a test of its own: what the second process does.
#[test]
fn second_process() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let families = [("new", ColumnFamilyOptions::default())];
    let options = DbOptions::default().create_if_missing(true).create_missing_column_families(true);
    let error = Db::open_families(&dir, &options, &families).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.file().is_some());
    // The refusal must not have let the lock of the other process go, as closing a descriptor does by fcntl's rules.
    assert_eq!(Db::open(&dir, &options).unwrap_err().kind(), ErrorKind::Locked);
    let db = Db::open_read_only(&dir, &DbOptions::default(), &[]).unwrap();
    assert_eq!(db.get("in the WAL").unwrap().as_deref(), Some(&b"2"[..]));
}

fn run_second_process(dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "trouble_cases::locking::second_process", "--nocapture"]).env(CHILD, dir);
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn a_second_opening_is_refused_before_it_changes_anything() {
    let dir = tempfile::tempdir().unwrap();
    let db = fill(dir.path());
    db.wait_for_background_work().unwrap();
    let before = (image(dir.path()), directory_times(dir.path()));
    for _ in 0..2 {
        let options = DbOptions::default().create_if_missing(true);
        assert_eq!(Db::open(dir.path(), &options).unwrap_err().kind(), ErrorKind::Locked);
        run_second_process(dir.path());
    }
    assert!((image(dir.path()), directory_times(dir.path())) == before, "a refused opening changed the directory");
    db.put("still", "works").unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path(), &DbOptions::default()).unwrap();
    assert!(db.get("still").unwrap().is_some());
}

#[test]
fn a_read_only_opening_takes_no_lock_and_changes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let db = fill(dir.path());
    db.close().unwrap();
    let before = (image(dir.path()), directory_times(dir.path()));
    {
        let first = Db::open_read_only(dir.path(), &DbOptions::default(), &[]).unwrap();
        let second = Db::open_read_only(dir.path(), &DbOptions::default(), &[]).unwrap();
        for db in [&first, &second] {
            assert!(db.get("in a table").unwrap().is_some() && db.get("in the WAL").unwrap().is_some());
            db.check().unwrap();
            assert_eq!(db.put("k", "v").unwrap_err().kind(), ErrorKind::ReadOnly);
            assert_eq!(db.flush(&FlushOptions::default()).unwrap_err().kind(), ErrorKind::ReadOnly);
            assert_eq!(db.sync_wal().unwrap_err().kind(), ErrorKind::ReadOnly);
            let created = db.create_family("new", &ColumnFamilyOptions::default());
            assert_eq!(created.unwrap_err().kind(), ErrorKind::ReadOnly);
        }
        first.close().unwrap();
    }
    assert!((image(dir.path()), directory_times(dir.path())) == before, "a read-only opening changed the directory");
    // Nor does it mind a writer.
    let db = Db::open(dir.path(), &DbOptions::default()).unwrap();
    let reader = Db::open_read_only(dir.path(), &DbOptions::default(), &[]).unwrap();
    assert!(reader.get("in the WAL").unwrap().is_some());
    db.put("k", "v").unwrap();
}

#[test]
fn an_opening_that_fails_gives_the_lock_back() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).close().unwrap();
    let unknown = [("unknown", ColumnFamilyOptions::default())];
    let error = Db::open_families(dir.path(), &DbOptions::default(), &unknown).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    Db::open(dir.path(), &DbOptions::default()).unwrap().close().unwrap();
}
