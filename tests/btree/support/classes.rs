//! Crash states by class: what ran, when it stopped, what the disk did with it, and what it did last.

use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{CrashModel, OpClass, OpInfo};
use std::collections::BTreeMap;
use std::fmt;

/// When the machine stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// While a script ran.
    Running,
    /// While the database was opened after a crash.
    Opening,
    /// Behind that, while what had not ended was undone, merged and purged.
    Settling,
}

/// What the last change of the disk was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Last {
    /// None.
    Nothing,
    /// Bytes of the redo log, its checkpoints among them.
    Redo,
    /// A sync of it.
    RedoSync,
    /// Copies in the doublewrite file.
    Doublewrite,
    /// A sync of it.
    DoublewriteSync,
    /// Pages in their places.
    Pages,
    /// A sync of a tablespace.
    PagesSync,
    /// A name of a file, or a sync of the directory.
    Names,
    /// Anything else.
    Other,
}

impl Last {
    fn of(op: Option<OpInfo>) -> Self {
        let Some(op) = op else { return Self::Nothing };
        match (op.class, op.file) {
            (OpClass::Create | OpClass::MakeDir | OpClass::SyncDir | OpClass::Rename | OpClass::Link, _) => Self::Names,
            (OpClass::Unlink, _) => Self::Names,
            (OpClass::Sync, FileKind::Redo) => Self::RedoSync,
            (OpClass::Sync, FileKind::Doublewrite) => Self::DoublewriteSync,
            (OpClass::Sync, FileKind::Page) => Self::PagesSync,
            (_, FileKind::Redo) => Self::Redo,
            (_, FileKind::Doublewrite) => Self::Doublewrite,
            (_, FileKind::Page) => Self::Pages,
            _ => Self::Other,
        }
    }
}

/// A class of crash states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// The sort of script.
    pub script: &'static str,
    pub when: When,
    pub model: CrashModel,
    pub last: Last,
}

impl Class {
    pub fn new(script: &'static str, when: When, model: CrashModel, op: Option<OpInfo>) -> Self {
        Self { script, when, model, last: Last::of(op) }
    }
}

/// What was looked at.
#[derive(Debug, Default)]
pub struct Tally {
    /// Distinct disks, each with the class in which it was first met.
    pub images: BTreeMap<u64, Class>,
    /// Disks that were held against what was promised, repeated ones among them.
    pub checked: usize,
    /// Recoveries that found what the sort of script is about: prepared transactions, changes that wait.
    pub remarkable: BTreeMap<&'static str, usize>,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        for (hash, class) in other.images {
            self.images.entry(hash).or_insert(class);
        }
        self.checked += other.checked;
        for (script, count) in other.remarkable {
            *self.remarkable.entry(script).or_default() += count;
        }
    }

    /// Distinct disks by a part of their class.
    pub fn by<K: Ord>(&self, part: impl Fn(&Class) -> K) -> BTreeMap<K, usize> {
        let mut counts = BTreeMap::new();
        for class in self.images.values() {
            *counts.entry(part(class)).or_default() += 1;
        }
        counts
    }

    /// Distinct disks of classes.
    pub fn count(&self, is_meant: impl Fn(&Class) -> bool) -> usize {
        self.images.values().filter(|class| is_meant(class)).count()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "distinct crash states {}, checked {}", self.images.len(), self.checked)?;
        writeln!(f, "by script and time {:?}", self.by(|class| (class.script, class.when)))?;
        writeln!(f, "by model {:?}", self.by(|class| class.model))?;
        writeln!(f, "by the last change {:?}", self.by(|class| class.last))?;
        writeln!(f, "by both {:?}", self.by(|class| (class.model, class.last)))?;
        write!(f, "remarkable {:?}", self.remarkable)
    }
}
