//! Files of results.

#[cfg(test)]
mod tests;

use serde::Serialize;
use siltstone_base::env::{AppendFile, Env, FileKind, FileOptions, IoContext, IoPriority, PosixEnv};
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// A file of JSON objects, one a line.
pub struct JsonLines {
    file: Box<dyn AppendFile>,
    beside: Option<Beside>,
}

/// A file beside the one that it replaces as soon as there is a line.
#[derive(Debug)]
struct Beside {
    partial: PathBuf,
    path: PathBuf,
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Nothing is in it, and nobody misses it.
        let _ = PosixEnv::new().remove_file(&self.partial);
    }
}

impl JsonLines {
    /// Creates the file. One of the same name that has something in it stays until there is a first line to replace it.
    pub fn create(path: &Path) -> Result<Self> {
        let env = PosixEnv::new();
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            env.create_dir_all(parent).map_err(|error| Error::io("create directory", parent, error))?;
        }
        let options = FileOptions::new(FileKind::Other);
        let create = |path: &Path| env.create_append(path, &options).map_err(|error| Error::io("create", path, error));
        let has_something = env.open_random(path, &options).and_then(|file| file.len()).is_ok_and(|len| len > 0);
        if !has_something {
            return Ok(Self { file: create(path)?, beside: None });
        }
        let mut partial = path.to_path_buf().into_os_string();
        partial.push(".partial");
        let beside = Beside { partial: partial.into(), path: path.to_path_buf() };
        Ok(Self { file: create(&beside.partial)?, beside: Some(beside) })
    }

    /// Appends one object.
    pub fn push(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line)
            .map_err(|error| Error::new(ErrorKind::InvalidArgument, "write a line of JSON").with_source(error))?;
        text.push(b'\n');
        if let Some(Beside { partial, path }) = &self.beside {
            PosixEnv::new().rename(partial, path).map_err(|error| Error::io("rename", partial, error))?;
            self.beside = None;
        }
        self.file
            .append(&text, IoContext::new(FileKind::Other, IoPriority::User))
            .map_err(|error| Error::new(ErrorKind::Io, "append a line of JSON").with_source(error))
    }
}

impl fmt::Debug for JsonLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonLines").field("beside", &self.beside).finish_non_exhaustive()
    }
}
