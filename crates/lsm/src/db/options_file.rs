//! Writes OPTIONS files, for people and for RocksDB's tools: a new one whenever what it says has changed, under a temporary name that is
//! replaced once it is durable. The last two stay.
//!
//! RocksDB's tools refuse a file that lists a family which the MANIFEST does not; one that lacks a family is fine. So a family enters the
//! file after the MANIFEST, and leaves it before.

use super::column_family::Family;
use super::state::{DbInner, Surroundings};
use crate::file_names::FileName;
use crate::options::file::{DEFAULT_FAMILY, OptionsFile, render};
use crate::options::{ColumnFamilyOptions, TableOptions};
use siltstone_base::env::{FileKind, write_file_atomically};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// Rank of the lock: it is held during I/O, and nothing else is then.
const RANK: Rank = Rank(8);

/// How many files stay.
const KEPT: usize = 2;

/// What the newest OPTIONS file says.
#[derive(Debug)]
pub(crate) struct OptionsFiles {
    newest: Mutex<Newest>,
    /// Whether new families follow the format of tables that the directory has had.
    keeps_table_format: bool,
}

#[derive(Debug)]
struct Newest {
    /// The file that was there when the database was opened; what it has under names that nobody here knows is kept.
    found: Option<OptionsFile>,
    /// The text of the newest file, while that is known.
    text: Option<String>,
}

impl OptionsFiles {
    /// What is known of the files of a directory before any is written.
    pub(crate) fn new(mut found: Option<OptionsFile>, keeps_table_format: bool) -> Self {
        let text = found.as_mut().map(OptionsFile::take_text);
        Self { newest: Mutex::new(RANK, Newest { found, text }), keeps_table_format }
    }

    /// The options of a new family `name`.
    pub(crate) fn of_new_family(&self, name: &str, options: ColumnFamilyOptions) -> ColumnFamilyOptions {
        if !self.keeps_table_format {
            return options;
        }
        with_kept_format(options, name, self.newest.lock().found.as_ref())
    }
}

/// How often the newest file is looked for anew if it is gone when it is to be read.
const ATTEMPTS: usize = 8;

/// The newest OPTIONS file of the directory. One that is damaged is as good as none: the engine does not need it.
pub(crate) fn find(surroundings: &Surroundings) -> Result<Option<OptionsFile>> {
    let mut attempt = 1;
    loop {
        match OptionsFile::read_latest(&*surroundings.env, &surroundings.dir) {
            Err(error) if error.kind() == ErrorKind::Corruption => return Ok(None),
            // Whoever writes to the directory has written newer ones, and deleted this one.
            Err(error) if error.kind() == ErrorKind::MissingFile && attempt < ATTEMPTS => attempt += 1,
            found => return found,
        }
    }
}

/// The options of the family `name`, with the format of tables that it has had, or the default family if it is new, where nothing else was
/// asked for.
pub(crate) fn with_kept_format(
    mut options: ColumnFamilyOptions,
    name: &str,
    found: Option<&OptionsFile>,
) -> ColumnFamilyOptions {
    // A value that makes no sense says nothing.
    let of = |name| found.and_then(|found| found.table_options(name).ok().flatten());
    let Some(kept) = of(name).or_else(|| of(DEFAULT_FAMILY)) else { return options };
    let defaults = TableOptions::default();
    let table = &mut options.table;
    if table.format_version == defaults.format_version && kept.format_version < defaults.format_version {
        table.format_version = kept.format_version.max(TableOptions::OLDEST_WRITTEN_VERSION);
    }
    if table.checksum == defaults.checksum {
        table.checksum = kept.checksum;
    }
    options
}

impl DbInner {
    /// Writes an OPTIONS file if the newest one does not say what there is now, and removes those before the last two. The caller holds
    /// no lock.
    pub(crate) fn write_options_file(self: &Arc<Self>) -> Result<()> {
        self.write_options_file_without(None)
    }

    /// The same without a family that is about to be dropped.
    pub(crate) fn write_options_file_without(self: &Arc<Self>, leaving: Option<&Family>) -> Result<()> {
        let _making = self.make_files()?;
        let mut newest = self.options_files.newest.lock();
        let families = self.families.load();
        let staying = families.values().filter(|family| leaving.is_none_or(|leaving| leaving.id != family.id));
        let staying: Vec<_> = staying.map(|family| (family.name.as_str(), family.options())).collect();
        let named: Vec<_> = staying.iter().map(|(name, options)| (*name, &**options)).collect();
        let text = render(&self.live_options.load(), &named, newest.found.as_ref());
        if newest.text.as_ref() == Some(&text) {
            return Ok(());
        }
        // After a failure nobody knows which file is the newest.
        newest.text = None;
        let number = self.file_numbers.allocate();
        let path = FileName::Options(number).path(&self.dir);
        let temporary = FileName::TemporaryOptions(number).path(&self.dir);
        let written = write_file_atomically(&*self.env, &path, &temporary, text.as_bytes(), FileKind::Other);
        if let Err(error) = written {
            // The first error counts.
            let _ = self.env.remove_file(&temporary);
            return Err(Error::io("write", &path, error));
        }
        newest.text = Some(text);
        drop(newest);
        let old = self.old_options_files()?;
        self.delete_files(old);
        Ok(())
    }

    /// All but the newest OPTIONS files.
    fn old_options_files(&self) -> Result<Vec<PathBuf>> {
        let entries = self.env.list_dir(&self.dir).map_err(|error| Error::io("list", &self.dir, error))?;
        let names = entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| FileName::parse(&entry.name));
        let mut files: Vec<_> = names.filter(|name| matches!(name, FileName::Options(_))).collect();
        files.sort_unstable();
        files.truncate(files.len().saturating_sub(KEPT));
        Ok(files.into_iter().map(|name| name.path(&self.dir)).collect())
    }
}
