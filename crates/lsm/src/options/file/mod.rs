//! OPTIONS files: what a database was opened with, in RocksDB's text.
//!
//! A file that this engine writes is small: the options that both engines have, under RocksDB's names; what only this engine has is in
//! comments. Names that this engine does not know, in a file that RocksDB wrote, go into the next file as they were. An engine that opens the
//! directory never needs the file, and losing it costs no data.

mod change;
mod fields;
mod ini;
mod operator;
mod parts;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use change::{change_database, change_family};
pub(crate) use operator::{OperatorRecord, plain};

use super::{ColumnFamilyOptions, DbOptions, IndexType, TableOptions};
use crate::file_names::FileName;
use fields::Field;
use ini::{Entry, Ini, Place, Section};
use siltstone_base::env::{Env, FileKind, read_file};
use siltstone_base::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use values::Taken;

/// The longest file that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;

const VERSION: &str = "Version";
const DATABASE: &str = "DBOptions";
const FAMILY: &str = "CFOptions";
const TABLE: &str = "TableOptions/BlockBasedTable";
const TABLES: &str = "TableOptions/";

/// The family whose section comes first.
pub(crate) const DEFAULT_FAMILY: &str = "default";

/// An option of an OPTIONS file that was not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredOption {
    /// The section that it is in, as `CFOptions "default"`.
    pub section: String,
    /// Its name.
    pub name: String,
    /// Its value, as the file has it.
    pub value: String,
    /// The line that it is on, from 1.
    pub line: usize,
}

/// What an OPTIONS file says.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadedOptions {
    /// The file.
    pub path: PathBuf,
    /// The version of RocksDB whose names the file uses, if it says so.
    pub rocksdb_version: Option<String>,
    /// Options of the database; what the file does not say has its default.
    pub database: DbOptions,
    /// Options of every family by name, `default` first. A comparator that RocksDB and this engine do not both have is missing here and in
    /// [`ignored`](Self::ignored).
    pub families: Vec<(String, ColumnFamilyOptions)>,
    /// Options that this engine does not have, and values that it has no equivalent of.
    pub ignored: Vec<IgnoredOption>,
}

impl LoadedOptions {
    /// The families in the form that [`Db::open_families`](crate::Db::open_families) takes.
    pub fn named_families(&self) -> Vec<(&str, ColumnFamilyOptions)> {
        self.families.iter().map(|(name, options)| (name.as_str(), options.clone())).collect()
    }
}

/// A file that was read, with all that is in it.
#[derive(Debug, Clone)]
pub(crate) struct OptionsFile {
    path: PathBuf,
    text: String,
    ini: Ini,
}

impl OptionsFile {
    /// The newest file of the directory, if there is one.
    ///
    /// # Errors
    ///
    /// `Corruption` with file and line; errors of I/O.
    pub(crate) fn read_latest(env: &dyn Env, dir: &Path) -> Result<Option<Self>> {
        let entries = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
        let names = entries.iter().filter_map(|entry| FileName::parse(&entry.name));
        let Some(newest) = names.filter(|name| matches!(name, FileName::Options(_))).max() else { return Ok(None) };
        let path = newest.path(dir);
        match read_file(env, &path, FileKind::Other, MAX_FILE_BYTES) {
            Ok(bytes) => Self::parse(&path, &bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                Err(Error::corruption(&path, MAX_FILE_BYTES, "the OPTIONS file is too long"))
            }
            Err(error) => Err(Error::io("read", &path, error)),
        }
    }

    /// Reads the bytes of a file and checks that the sections are there which RocksDB asks for.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let ini = Ini::parse(path, bytes)?;
        let corrupt = |offset, what: &'static str| Err(Error::corruption(path, offset, what));
        let Some(database) = ini.section(DATABASE, None) else {
            return corrupt(0, "the OPTIONS file has no section DBOptions");
        };
        let families: Vec<&Section> = ini.sections.iter().filter(|section| section.kind == FAMILY).collect();
        match families.first() {
            Some(first) if first.family.as_deref() != Some(DEFAULT_FAMILY) => {
                return corrupt(first.offset, "the first family of the OPTIONS file is not default");
            }
            Some(first) if first.offset < database.offset => {
                return corrupt(first.offset, "a family comes before DBOptions in the OPTIONS file");
            }
            Some(_) => {}
            None => return corrupt(0, "the OPTIONS file has no section CFOptions \"default\""),
        }
        if let Some(nameless) = families.iter().find(|section| section.family.is_none()) {
            return corrupt(nameless.offset, "a section CFOptions without a name in the OPTIONS file");
        }
        Ok(Self { path: path.to_path_buf(), text: String::from_utf8_lossy(bytes).into_owned(), ini })
    }

    /// The bytes of the file, for whoever asks first.
    pub(crate) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// What the file says, as options.
    pub(crate) fn load(&self) -> Result<LoadedOptions> {
        let mut ignored = Vec::new();
        let mut database = DbOptions::default();
        if let Some(section) = self.ini.section(DATABASE, None) {
            self.take(section, fields::DATABASE, &mut database, &mut ignored)?;
        }
        let mut families = Vec::new();
        for section in self.ini.sections.iter().filter(|section| section.kind == FAMILY) {
            let Some(name) = &section.family else { continue };
            let mut family = ColumnFamilyOptions::default();
            self.take(section, fields::FAMILY, &mut family, &mut ignored)?;
            if let Some(section) = self.ini.section(TABLE, Some(name)) {
                self.take(section, fields::TABLE, &mut family.table, &mut ignored)?;
            }
            if family.prefix_extractor.is_none() && family.table.index_type == IndexType::HashSearch {
                // The extractor is one that only its owner has.
                family.table.index_type = IndexType::BinarySearch;
            }
            families.push((name.clone(), family));
        }
        Ok(LoadedOptions {
            path: self.path.clone(),
            rocksdb_version: self.rocksdb_version().map(str::to_owned),
            database,
            families,
            ignored,
        })
    }

    /// The table options of the family of this name, where the file says any.
    pub(crate) fn table_options(&self, family: &str) -> Result<Option<TableOptions>> {
        let Some(section) = self.ini.section(TABLE, Some(family)) else { return Ok(None) };
        let mut table = TableOptions::default();
        self.take(section, fields::TABLE, &mut table, &mut Vec::new())?;
        Ok(Some(table))
    }

    /// Where the WALs are, if the file names a place.
    pub(crate) fn wal_dir(&self) -> Option<&Path> {
        let named = self.ini.section(DATABASE, None)?.get("wal_dir", false)?.value.as_str();
        (!named.is_empty()).then(|| Path::new(named))
    }

    fn rocksdb_version(&self) -> Option<&str> {
        Some(self.ini.section(VERSION, None)?.get("rocksdb_version", false)?.value.as_str())
    }

    fn take<T>(
        &self,
        section: &Section,
        fields: &[Field<T>],
        options: &mut T,
        ignored: &mut Vec<IgnoredOption>,
    ) -> Result<()> {
        for entry in &section.entries {
            let field = fields.iter().find(|field| field.name == entry.name && field.is_own == entry.is_own);
            let taken = field.map_or(Taken::Unknown, |field| (field.take)(options, &entry.value));
            match taken {
                Taken::Yes => {}
                Taken::Unknown => ignored.push(IgnoredOption {
                    section: match &section.family {
                        Some(family) => format!("{} \"{family}\"", section.kind),
                        None => section.kind.clone(),
                    },
                    name: entry.name.clone(),
                    value: entry.value.clone(),
                    line: entry.line,
                }),
                Taken::Malformed => {
                    let place = Place { path: &self.path, line: entry.line, offset: entry.offset };
                    return Err(place.corruption(&format!("malformed value of {}", entry.name)));
                }
            }
        }
        Ok(())
    }
}

/// Options that RocksDB derives from another one and then writes down: kept only while that one stays.
const DERIVED: &[(&str, &str)] = &[("arena_block_size", "write_buffer_size")];

/// The text of a file for these options. What `before` has under names that this engine does not know stays.
pub(crate) fn render(
    database: &DbOptions,
    families: &[(&str, &ColumnFamilyOptions)],
    before: Option<&OptionsFile>,
) -> String {
    let before = before.map(|file| &file.ini);
    let mut ini = Ini::default();
    ini.push(version_section(families, before));
    ini.push(section(DATABASE, None, fields::DATABASE, database, before));
    let mut families = families.to_vec();
    families.sort_by_key(|(name, _)| *name != DEFAULT_FAMILY);
    let sections = before.into_iter().flat_map(|before| &before.sections);
    let others: Vec<_> = sections.filter(|section| section.kind.starts_with(TABLES) && section.kind != TABLE).collect();
    for (name, options) in families {
        ini.push(section(FAMILY, Some(name), fields::FAMILY, options, before));
        ini.push(section(TABLE, Some(name), fields::TABLE, &options.table, before));
        for other in others.iter().filter(|other| other.family.as_deref() == Some(name)) {
            ini.push((*other).clone());
        }
    }
    ini.render()
}

fn section<T>(kind: &str, family: Option<&str>, fields: &[Field<T>], options: &T, before: Option<&Ini>) -> Section {
    let old = before.and_then(|before| before.section(kind, family));
    let mut entries = Vec::with_capacity(fields.len());
    for field in fields {
        let before = old.and_then(|old| old.get(field.name, field.is_own));
        match (field.text)(options, before.map(|entry| entry.value.as_str())) {
            Some(value) => entries.push(entry(field.name, value, field.is_own)),
            // What the file cannot say about this engine it may say about RocksDB.
            None => entries.extend(before.cloned()),
        }
    }
    let is_known = |entry: &Entry| fields.iter().any(|field| field.name == entry.name && field.is_own == entry.is_own);
    let value = |entries: &[Entry], name: &str| {
        entries.iter().find(|entry| entry.name == name).map(|entry| entry.value.clone())
    };
    let is_outdated = |entry: &Entry, old: &Section| {
        let bases = DERIVED.iter().filter(|(derived, _)| *derived == entry.name).map(|(_, base)| *base);
        bases.into_iter().any(|base| value(&entries, base) != value(&old.entries, base))
    };
    let unknown = |old: &Section| {
        let kept = old.entries.iter().filter(|entry| !is_known(entry) && !is_outdated(entry, old));
        kept.cloned().collect::<Vec<_>>()
    };
    let kept = old.map(unknown).unwrap_or_default();
    entries.extend(kept);
    Section { kind: kind.to_owned(), family: family.map(str::to_owned), entries, offset: 0 }
}

/// The version that knows all names: that of the file before, whose names are kept, or the oldest that reads the tables.
fn version_section(families: &[(&str, &ColumnFamilyOptions)], before: Option<&Ini>) -> Section {
    let old = before.and_then(|before| before.section(VERSION, None));
    let old = old.and_then(|old| old.get("rocksdb_version", false)).map(|entry| entry.value.clone());
    let newest_format = families.iter().map(|(_, options)| options.table.format_version).max().unwrap_or(0);
    let needed = match newest_format {
        0..=5 => "7.8.3",
        6 => "8.6.0",
        _ => "10.11.0",
    };
    let version = old.filter(|old| numbers(old) > numbers(needed)).unwrap_or_else(|| needed.to_owned());
    let entries =
        vec![entry("rocksdb_version", version, false), entry("options_file_version", "1.1".to_owned(), false)];
    Section { kind: VERSION.to_owned(), family: None, entries, offset: 0 }
}

fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

fn entry(name: &str, value: String, is_own: bool) -> Entry {
    Entry { name: name.to_owned(), value, line: 0, offset: 0, is_own }
}
