//! RocksDB's own tools as judges: 7.8.3 through `ldb` and `sst_dump`, 9.8.4 through Python, and an independent reader of every byte.
//!
//! Each judge works on a copy, since most of them recover or compact what they open. A missing tool skips the test, unless
//! `SILTSTONE_REQUIRE_TOOLS` is set: then it fails.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "prepares directories for programs that know nothing of environments")]
#![expect(clippy::print_stdout, reason = "says which tests were skipped")]

mod python;
mod rocksdb_tools;
mod rows;
pub mod siltstone;

pub use python::{Python, WriteOptions};
pub use rocksdb_tools::RocksDbTools;
pub use rows::{Rows, Script, Step, hex, unhex};

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Says that a test cannot run here. REQUIRES: tools are not required by the environment.
fn skip(what: &str) {
    assert!(std::env::var_os("SILTSTONE_REQUIRE_TOOLS").is_none(), "{what}, but SILTSTONE_REQUIRE_TOOLS is set");
    println!("skipped: {what}");
}

/// Whether a program can be started.
fn starts(program: &Path, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Runs a program to its end; its failure fails the test with all that it printed.
pub fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} failed with {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// A copy of a database in a directory that goes away with it.
pub struct Copy {
    dir: tempfile::TempDir,
}

impl Copy {
    /// Copies all files of `db` but its lock.
    pub fn of(db: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(db).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && path.file_name().unwrap() != "LOCK" {
                std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        Self { dir }
    }

    /// Where the copy is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// The directory's OPTIONS files, oldest first.
pub fn options_files(db: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(db)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("OPTIONS-"))
        .collect();
    names.sort();
    names
}

/// Writes the newest OPTIONS file of `from` to `to`, with other values for some options.
pub fn copy_options(from: &Path, to: &Path, changes: &[(&str, &str)]) {
    let newest = from.join(options_files(from).last().unwrap());
    let mut text = String::new();
    for line in std::fs::read_to_string(newest).unwrap().lines() {
        let changed = changes.iter().find(|(name, _)| line.trim_start().starts_with(&format!("{name}=")));
        text.push_str(&changed.map_or_else(|| line.to_owned(), |(name, value)| format!("{name}={value}")));
        text.push('\n');
    }
    std::fs::write(to, text).unwrap();
}

/// Removes the OPTIONS files of a directory.
pub fn remove_options(db: &Path) {
    options_files(db).iter().for_each(|name| std::fs::remove_file(db.join(name)).unwrap());
}

/// The types of the first records of the WALs of a directory.
pub fn first_wal_records(db: &Path) -> Vec<u8> {
    let entries = std::fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
    let wals = entries.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    wals.filter_map(|path| std::fs::read(path).unwrap().get(6).copied()).collect()
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
