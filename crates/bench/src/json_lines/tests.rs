//! Results are lost to nothing but results.

use super::JsonLines;
use siltstone_base::env::{Env as _, FileKind, PosixEnv, read_file};
use tempfile::TempDir;

#[test]
fn a_command_that_measures_nothing_leaves_the_results_of_an_earlier_one() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("deeper/results.json");
    let read = || read_file(&PosixEnv::new(), &path, FileKind::Other, 1 << 20).unwrap();
    JsonLines::create(&path).unwrap().push(&1).unwrap();
    drop(JsonLines::create(&path).unwrap());
    assert_eq!(read(), b"1\n");
    let mut lines = JsonLines::create(&path).unwrap();
    assert_eq!(read(), b"1\n", "nothing is measured yet");
    lines.push(&2).unwrap();
    lines.push(&3).unwrap();
    assert_eq!(read(), b"2\n3\n");
    drop(lines);
    let mut names = PosixEnv::new().list_dir(path.parent().unwrap()).unwrap();
    assert_eq!(names.pop().unwrap().name, "results.json");
    assert!(names.is_empty(), "{names:?}");
}
