//! A directory that a user names loses nothing but what the laboratory made.

use super::{Found, MARK, Place, claim, copy_database, remove_database, remove_place};
use crate::engines::EngineKind;
use siltstone_base::ErrorKind;
use siltstone_base::env::{Env as _, FileKind, PosixEnv, write_file_atomically};
use std::path::Path;
use tempfile::TempDir;

fn write(file: &Path) {
    let temporary = file.with_extension("temporary");
    write_file_atomically(&PosixEnv::new(), file, &temporary, b"mine", FileKind::Other).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = PosixEnv::new().list_dir(dir).unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

#[test]
fn a_directory_with_somebodys_notes_is_refused_and_keeps_them() {
    let dir = TempDir::new().unwrap();
    let notes = dir.path().join("notes.txt");
    write(&notes);
    for is_shared in [false, true] {
        let error = Place::new(Some(dir.path()), is_shared, Found::Removed).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("notes.txt"), "{error}");
    }
    assert_eq!(remove_place(dir.path()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(Place::new(Some(dir.path()), false, Found::Kept).is_ok(), "nothing is removed of a database that is read");
    assert_eq!(names(dir.path()), ["notes.txt"]);
}

#[test]
fn what_a_run_left_goes_with_the_next_one_and_the_mark_stays() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("a/b");
    for _ in 0..2 {
        let place = Place::new(Some(&root), false, Found::Removed).unwrap();
        let database = place.of(EngineKind::LsmLeveled);
        assert_eq!(database, root);
        write(&database.join("CURRENT"));
        remove_database(&database).unwrap();
        assert_eq!(names(&root), [MARK]);
    }
    write(&root.join("CURRENT"));
    claim(&root).unwrap();
    remove_place(&root).unwrap();
    assert!(!PosixEnv::new().exists(&root).unwrap());
}

#[test]
fn what_is_beside_a_database_is_the_laboratorys_own_where_the_directory_of_both_is() {
    let dir = TempDir::new().unwrap();
    let (root, foreign) = (dir.path().join("root"), dir.path().join("root.loaded"));
    Place::new(Some(&root), true, Found::Removed).unwrap();
    let (database, copy) = (root.join("btree"), root.join("btree.loaded"));
    for inside in [&database, &copy, &foreign] {
        PosixEnv::new().create_dir_all(inside).unwrap();
        write(&inside.join("pages"));
    }
    copy_database(&database, &copy).unwrap();
    assert_eq!(names(&copy), [MARK, "pages"]);
    remove_place(&copy).unwrap();
    assert_eq!(copy_database(&database, &foreign).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(remove_place(&foreign).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(names(&foreign), ["pages"]);
}
