//! Data-driven tests: a file of commands, each with the output that is expected of it.
//!
//! ```text
//! # A comment.
//! open wal_size=4096 families=(default, users)
//! put a 1
//! put b 2
//! ----
//! wal: 2 records
//! ```
//!
//! A command is one line: a name, then arguments (`key`, `key=value` or `key=(value, value)`). The lines
//! up to `----` are its input; those after it, up to an empty line, its output. Output that has empty lines itself stands between
//! `----` twice and `----` twice.
//!
//! With the environment variable `SILTSTONE_REWRITE=1` the outputs in the files are replaced by what the commands really print,
//! and the test passes: review the difference before it is committed.

mod parse;

pub use parse::{Argument, Command};

use parse::{Part, parse, render};
use std::path::{Path, PathBuf};

/// The variable that rewrites expected outputs.
const REWRITE: &str = "SILTSTONE_REWRITE";

/// Runs every command of the file at `path` and compares its output. Paths are relative to the crate under test.
///
/// # Panics
///
/// If the file cannot be read or parsed, or some outputs differ: each is shown with its line.
pub fn run_file(path: impl AsRef<Path>, mut run: impl FnMut(&Command) -> String) {
    let path = path.as_ref();
    let text = read(path);
    let rewrites = std::env::var_os(REWRITE).is_some_and(|value| value == "1");
    match run_text(&text, &mut run) {
        Outcome::Same => {}
        Outcome::Different { actual, .. } if rewrites => write(path, &actual),
        Outcome::Different { report, .. } => {
            panic!("{}: outputs differ; {REWRITE}=1 rewrites them\n{report}", path.display())
        }
        Outcome::Malformed(reason) => panic!("{}: {reason}", path.display()),
    }
}

/// Runs every file of the directory at `path`, in order of their names, each with a runner of its own from `start`.
///
/// # Panics
///
/// As [`run_file`], and if there are no files.
pub fn run_dir<R: FnMut(&Command) -> String>(path: impl AsRef<Path>, mut start: impl FnMut(&Path) -> R) {
    let files = files_of(path.as_ref());
    assert!(!files.is_empty(), "{}: no files", path.as_ref().display());
    for file in files {
        run_file(&file, start(&file));
    }
}

enum Outcome {
    Same,
    Different { actual: String, report: String },
    Malformed(String),
}

fn run_text(text: &str, run: &mut dyn FnMut(&Command) -> String) -> Outcome {
    let mut parts = match parse(text) {
        Ok(parts) => parts,
        Err(reason) => return Outcome::Malformed(reason),
    };
    let mut report = String::new();
    for part in &mut parts {
        let Part::Command { command, output } = part else { continue };
        let mut actual = run(command);
        if !actual.is_empty() && !actual.ends_with('\n') {
            actual.push('\n');
        }
        if actual != *output {
            report
                .push_str(&format!("line {}: {}\nexpected:\n{output}actual:\n{actual}\n", command.line, command.name));
            *output = actual;
        }
    }
    if report.is_empty() { Outcome::Same } else { Outcome::Different { actual: render(&parts), report } }
}

#[expect(clippy::disallowed_methods, reason = "test data does not belong to any engine's environment")]
fn read(path: &Path) -> String {
    match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

#[expect(clippy::disallowed_methods, reason = "test data does not belong to any engine's environment")]
fn write(path: &Path, text: &str) {
    if let Err(error) = std::fs::write(path, text) {
        panic!("{}: {error}", path.display());
    }
}

#[expect(clippy::disallowed_methods, reason = "test data does not belong to any engine's environment")]
fn files_of(path: &Path) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => panic!("{}: {error}", path.display()),
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests;
