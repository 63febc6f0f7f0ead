//! Files of `/proc` and of cgroups.

use siltstone_base::{Error, ErrorKind, Result};
use std::path::Path;

fn io(what: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{what} of a memory cgroup")).with_file(path).with_source(error)
}

#[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no files of a database")]
pub(super) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| io("read", path, error))
}

#[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no files of a database")]
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| io("write", path, error))
}

#[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no files of a database")]
pub(super) fn make_directory(dir: &Path) -> Result<()> {
    std::fs::create_dir(dir).map_err(|error| io("creation", dir, error))
}

#[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no files of a database")]
pub(super) fn remove_directory(dir: &Path) {
    let _ = std::fs::remove_dir(dir);
}
