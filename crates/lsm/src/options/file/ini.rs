//! The text of an OPTIONS file: sections of `name=value` lines, read without asking what the names mean.

use siltstone_base::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::path::Path;

/// What begins a comment that holds one of our own options.
const OWN_PREFIX: &str = "siltstone.";

/// One line `name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// The value as it stands there, escapes included.
    pub(super) value: String,
    /// The line that it is on, from 1; 0 in what was not read.
    pub(super) line: usize,
    /// Where the line starts in the file.
    pub(super) offset: u64,
    /// Whether it is one of ours, in a comment.
    pub(super) is_own: bool,
}

/// A section: `[kind "argument"]` and its lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) kind: String,
    /// The name of the family, where the section is about one.
    pub(super) family: Option<String>,
    pub(super) entries: Vec<Entry>,
    pub(super) offset: u64,
}

impl Section {
    /// The entry of this name.
    pub(super) fn get(&self, name: &str, is_own: bool) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name && entry.is_own == is_own)
    }
}

/// A whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ini {
    pub(super) sections: Vec<Section>,
    /// Where each section is, by kind and family.
    index: HashMap<(String, Option<String>), usize>,
}

impl Ini {
    /// The section of this kind, about `family` if it is about one.
    pub(super) fn section(&self, kind: &str, family: Option<&str>) -> Option<&Section> {
        let place = self.index.get(&(kind.to_owned(), family.map(str::to_owned)))?;
        self.sections.get(*place)
    }

    /// Appends a section.
    pub(super) fn push(&mut self, section: Section) {
        self.index.insert((section.kind.clone(), section.family.clone()), self.sections.len());
        self.sections.push(section);
    }

    /// Reads `bytes`.
    ///
    /// # Errors
    ///
    /// `Corruption` with the file, the line and its offset.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            let offset = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), |_| 0);
            return Err(Error::corruption(path, offset as u64, "the options are no text"));
        };
        let mut ini = Self::default();
        let mut offset = 0;
        for (index, line) in text.split('\n').enumerate() {
            let place = Place { path, line: index + 1, offset };
            offset += line.len() as u64 + 1;
            ini.line(line.trim(), place)?;
        }
        Ok(ini)
    }

    fn line(&mut self, text: &str, place: Place<'_>) -> Result<()> {
        if let Some(comment) = text.strip_prefix('#') {
            return match comment.trim_start().strip_prefix(OWN_PREFIX) {
                Some(own) => self.entry(own, true, place),
                None => Ok(()),
            };
        }
        let text = without_comment(text).trim_end();
        if text.is_empty() {
            Ok(())
        } else if text.starts_with('[') {
            self.header(text, place)
        } else {
            self.entry(text, false, place)
        }
    }

    fn header(&mut self, text: &str, place: Place<'_>) -> Result<()> {
        let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
            return Err(place.corruption("a section without its closing bracket"));
        };
        let (kind, family) = match inner.split_once('"') {
            None => (inner.trim(), None),
            Some((kind, rest)) => match rest.trim_end().strip_suffix('"') {
                Some(family) => (kind.trim(), Some(unescape(family))),
                None => return Err(place.corruption("a section whose name has no closing quote")),
            },
        };
        if self.section(kind, family.as_deref()).is_some() {
            return Err(place.corruption("a section that is there twice"));
        }
        let section = Section { kind: kind.to_owned(), family, entries: Vec::new(), offset: place.offset };
        self.push(section);
        Ok(())
    }

    fn entry(&mut self, text: &str, is_own: bool, place: Place<'_>) -> Result<()> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(place.corruption("neither a section nor an option"));
        };
        let Some(section) = self.sections.last_mut() else {
            return Err(place.corruption("an option before the first section"));
        };
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() {
            return Err(place.corruption("an option without a name"));
        }
        let (line, offset) = (place.line, place.offset);
        let entry = Entry { name: name.to_owned(), value: value.to_owned(), line, offset, is_own };
        section.entries.push(entry);
        Ok(())
    }

    /// The text of the file.
    pub(super) fn render(&self) -> String {
        let mut out = String::from(
            "# Options in RocksDB's format. Comments that begin with siltstone. are options of Siltstone.\n",
        );
        for section in &self.sections {
            out.push_str("\n[");
            out.push_str(&section.kind);
            if let Some(family) = &section.family {
                out.push_str(" \"");
                out.push_str(&escape(family));
                out.push('"');
            }
            out.push_str("]\n");
            for entry in &section.entries {
                out.push_str(if entry.is_own { "  # siltstone." } else { "  " });
                out.push_str(&entry.name);
                out.push('=');
                out.push_str(&entry.value);
                out.push('\n');
            }
        }
        out
    }
}

/// Where a line is.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
    pub(super) line: usize,
    pub(super) offset: u64,
}

impl Place<'_> {
    /// Corruption of this line.
    pub(super) fn corruption(self, what: &str) -> Error {
        Error::new(ErrorKind::Corruption, format!("line {}: {what}", self.line))
            .with_file(self.path)
            .with_offset(self.offset)
    }
}

/// `text` up to the first `#` that is not escaped.
fn without_comment(text: &str) -> &str {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'#' if !escaped => return &text[..at],
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text
}

/// The characters that a name of a family may have and a line may not, written as RocksDB does.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '#' => out.push_str("\\#"),
            ':' => out.push_str("\\:"),
            other => out.push(other),
        }
    }
    out
}

/// What [`escape`] was given.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            other => out.push(other),
        }
    }
    out
}
