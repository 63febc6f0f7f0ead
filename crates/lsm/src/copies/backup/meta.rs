//! The text that lists the files of one backup, in RocksDB's form: see `docs/src/formats/backups.md`.

use crate::file_names::FileName;
use siltstone_base::{Error, Result};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The longest text that is believed: a backup of a million files.
pub(super) const MAX_META_BYTES: u64 = 128 << 20;

/// What begins the line with what the caller said of the backup.
const METADATA: &str = "metadata ";

/// What begins a text of a newer form.
const SCHEMA: &str = "schema_version ";

/// One file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BackedUpFile {
    /// Its path within the directory of backups, parts separated by `/`.
    pub(super) path: String,
    /// CRC32c of all of it.
    pub(super) crc: u32,
}

/// The number of the backup that a file of `meta` or a directory of `private` is of, if it is of one.
pub(super) fn backup_id(name: &str) -> Option<u32> {
    name.parse().ok().filter(|id: &u32| id.to_string() == name)
}

/// What is known of one backup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Meta {
    /// When it was made, in Unix seconds.
    pub(super) unix_seconds: u64,
    /// The largest sequence number in it.
    pub(super) seqno: u64,
    /// What the caller said of it.
    pub(super) metadata: Vec<u8>,
    /// Its files.
    pub(super) files: Vec<BackedUpFile>,
}

impl Meta {
    /// The text.
    pub(super) fn encode(&self) -> String {
        let mut text = format!("{}\n{}\n", self.unix_seconds, self.seqno);
        if !self.metadata.is_empty() {
            text.push_str(METADATA);
            for byte in &self.metadata {
                let _ = write!(text, "{byte:02X}");
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.files.len());
        for file in &self.files {
            let _ = writeln!(text, "{} crc32 {}", file.path, file.crc);
        }
        text
    }

    /// Reads the text of backup `id`.
    ///
    /// # Errors
    ///
    /// `Corruption` for anything that is no such text, or names files elsewhere; `NotSupported` for a newer form.
    pub(super) fn decode(text: &[u8], id: u32) -> Result<Self> {
        let text = std::str::from_utf8(text).map_err(|_| Error::corrupt("the list of a backup is no text"))?;
        if text.starts_with(SCHEMA) {
            return Err(Error::not_supported("the list of a backup in a form with schema_version"));
        }
        let Some(body) = text.strip_suffix('\n') else { return Err(Error::corrupt("the list of a backup ends early")) };
        let mut lines = body.split('\n').peekable();
        let unix_seconds = number(lines.next())?;
        let seqno = number(lines.next())?;
        let metadata = match lines.next_if(|line| line.starts_with(METADATA)) {
            Some(line) => unhex(line.get(METADATA.len()..).unwrap_or_default())?,
            None => Vec::new(),
        };
        let count = number(lines.next())?;
        let files: Vec<_> = lines.map(|line| file(line, id)).collect::<Result<_>>()?;
        if files.len() as u64 != count {
            return Err(Error::corrupt("the list of a backup does not have as many files as it says"));
        }
        Ok(Self { unix_seconds, seqno, metadata, files })
    }

    /// Fails unless the files of backup `id` make one database: no two are the same file of it, and there are a CURRENT and a MANIFEST.
    pub(super) fn check(&self, id: u32) -> Result<()> {
        let mut names = BTreeSet::new();
        for file in &self.files {
            if !names.insert(name_in_database(&file.path, id)?) {
                return Err(Error::corrupt("the list of a backup names one file of the database twice"));
            }
        }
        if !names.contains(&FileName::Current) {
            return Err(Error::corrupt("a backup without CURRENT"));
        }
        match names.iter().any(|name| matches!(name, FileName::Manifest(_))) {
            true => Ok(()),
            false => Err(Error::corrupt("a backup without MANIFEST")),
        }
    }

    /// The file of backup `id` that is called `name` in the database.
    pub(super) fn file(&self, name: FileName, id: u32) -> Option<&BackedUpFile> {
        self.files.iter().find(|file| name_in_database(&file.path, id).is_ok_and(|found| found == name))
    }
}

/// What a file of backup `id` is called in a database.
///
/// # Errors
///
/// `Corruption` for a path that no backup has.
pub(super) fn name_in_database(path: &str, id: u32) -> Result<FileName> {
    let wrong = || Error::corrupt("the list of a backup names a file that is none of a backup");
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["private", directory, name] if *directory == id.to_string() => match canonical(name) {
            Some(
                found @ (FileName::Current
                | FileName::Identity
                | FileName::Manifest(_)
                | FileName::Options(_)
                | FileName::Wal(_)
                | FileName::Table(_)
                | FileName::Blob(_)),
            ) => Ok(found),
            _ => Err(wrong()),
        },
        ["shared_checksum" | "shared", name] => {
            let (stem, extension) = name.rsplit_once('.').ok_or_else(wrong)?;
            let digits = stem.split('_').next().unwrap_or(stem);
            let is_harmless = stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            match FileName::parse(&format!("{digits}.{extension}")) {
                Some(found @ (FileName::Table(_) | FileName::Blob(_))) if is_harmless => Ok(found),
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

/// What a file is by its name, if it is written as databases write it: one with other digits would be another file.
pub(super) fn canonical(name: &str) -> Option<FileName> {
    FileName::parse(name).filter(|found| found.to_string() == name)
}

/// The length that the name of a shared file states, if it does.
pub(super) fn stated_len(path: &str) -> Option<u64> {
    let (_, name) = path.split_once('/').filter(|(directory, _)| *directory == "shared_checksum")?;
    let (stem, _) = name.rsplit_once('.')?;
    let mut parts = stem.split('_').skip(2);
    let len = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(len)
}

fn number(line: Option<&str>) -> Result<u64> {
    let digits = line.filter(|line| line.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| Error::corrupt("the list of a backup lacks a number"))
}

fn file(line: &str, id: u32) -> Result<BackedUpFile> {
    let wrong = || Error::corrupt("a line of the list of a backup is none of a file");
    let mut words = line.split(' ');
    let (Some(path), Some("crc32"), Some(crc), None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err(wrong());
    };
    name_in_database(path, id)?;
    let crc = crc.parse().map_err(|_| wrong())?;
    Ok(BackedUpFile { path: path.to_owned(), crc })
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let wrong = || Error::corrupt("metadata of a backup that are not hexadecimal");
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(wrong());
    }
    let byte = |at: usize| {
        let digits = text.get(at..at + 2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(wrong)
    };
    (0..text.len()).step_by(2).map(byte).collect()
}
